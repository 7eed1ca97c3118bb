//! The guests' kernel: Debian's own, fetched once and kept under `target/vm/`.
//!
//! Kept are the image and the modules that guests load, in their order. The host's kernel is not
//! used: it may be a container's, without modules or without rxe.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use crate::command::{capture, quietly, show};
use crate::project::Project;
use crate::set_up;

/// Requirements of guests to the host; they run its programs.
const PACKAGES: &[(&str, &str)] = &[
    ("qemu-system-x86", "the virtual machines"),
    ("busybox-static", "a guest's first steps"),
    ("kmod", "the order of the kernel's modules"),
    ("xz-utils", "unpacks the kernel"),
    ("gcc", "compiles a program that reads the processor's clock"),
    ("libc6-dev", "the same"),
    ("iproute2", "makes Soft-RoCE devices"),
    ("rdma-core", "RDMA in user space"),
    ("ibverbs-providers", "its driver for Soft-RoCE"),
    ("ibverbs-utils", "ibv_rc_pingpong, ibv_devinfo"),
    ("perftest", "ib_send_lat and the like"),
    ("dropbear-bin", "ssh between guests"),
];

/// Modules of guests; their dependencies are found out.
const MODULES: [&str; 13] = [
    "crc32_generic",
    "virtio_pci",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "overlay",
    "veth",
    "macvlan",
    "sch_netem",
    "rdma_rxe",
    "ib_uverbs",
    "rdma_ucm",
    "ib_umad",
];

/// A kernel that is there.
pub(crate) struct Kernel {
    /// In the form of `uname -r`.
    pub(crate) version: String,
    /// `image`, `order` and the modules.
    pub(crate) folder: PathBuf,
}

impl Kernel {
    /// The file that QEMU boots.
    pub(super) fn image(&self) -> PathBuf {
        self.folder.join("image")
    }

    /// The modules, in the order of loading.
    pub(super) fn modules(&self) -> Result<Vec<PathBuf>> {
        let order = fs::read_to_string(self.folder.join("order"))?;
        Ok(order.lines().map(|name| self.folder.join(name)).collect())
    }

    /// Compiles a module of ours for it, in a folder below `target/vm/`; the file that guests load.
    pub(crate) fn compile(&self, project: &Project, source: &Path) -> Result<PathBuf> {
        let headers = format!("linux-headers-{}", self.version);
        let purpose = "compiles a module for the guests' kernel";
        set_up::provide(&[(&headers, purpose), ("make", purpose)], &show)?;
        let name = source.file_name().context("a folder has a name")?;
        let folder = project.target.join("vm/modules").join(name);
        fs::create_dir_all(&folder)?;
        for file in fs::read_dir(source)?.flatten() {
            fs::copy(file.path(), folder.join(file.file_name()))?;
        }
        let mut make = Command::new("make");
        make.arg("-C")
            .arg(Path::new("/usr/src").join(&headers))
            .arg("modules")
            .arg(format!("M={}", folder.display()));
        quietly(&mut make, Duration::from_secs(300))?;
        let order = fs::read_to_string(folder.join("modules.order"))?; // its object files, by their whole paths
        let object = order.lines().next().context("nothing was compiled")?;
        Ok(Path::new(object).with_extension("ko"))
    }

    /// The newest that was fetched and unpacked whole, with all modules that guests need today.
    fn kept(home: &Path) -> Option<Kernel> {
        let folders = fs::read_dir(home).ok()?.flatten().map(|entry| entry.path());
        let is_whole = |folder: &PathBuf| {
            fs::read_to_string(folder.join("order")).is_ok_and(|order| has_modules(&order))
        };
        let folder = folders.filter(is_whole).max()?;
        Some(Kernel { version: folder.file_name()?.to_str()?.to_owned(), folder })
    }
}

/// Installs what is missing, and fetches the kernel unless it is there. The error is the reason why
/// there can be no virtual machines here.
pub(crate) fn set_up(project: &Project) -> Result<Kernel> {
    ensure!(
        cfg!(target_arch = "x86_64"),
        "the virtual machines are for hosts with x86-64 processors"
    );
    set_up::provide(PACKAGES, &show)?;
    let home = project.target.join("vm/linux");
    match Kernel::kept(&home) {
        Some(kernel) => Ok(kernel),
        None => fetch(&home).context("no kernel for the virtual machines"),
    }
}

/// Returns whether a list of files has all modules of guests.
fn has_modules(order: &str) -> bool {
    let is_there = |module: &str| {
        order
            .lines()
            .any(|file| file.split('.').next().is_some_and(|name| name.replace('-', "_") == module))
    };
    MODULES.iter().all(|module| is_there(module))
}

fn fetch(home: &Path) -> Result<Kernel> {
    let package = newest()?;
    let version = package.trim_start_matches("linux-image-").to_owned();
    let unpacked = home.join("unpacking");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked)?;
    }
    fs::create_dir_all(&unpacked)?;
    println!("fetching {package} (about 70 MB, once)");
    show(Command::new("apt-get").args(["download", "--quiet", &package]).current_dir(&unpacked))
        .context("it can't be fetched; is there a network?")?;
    println!("unpacking it");
    let archive = the_one_in(&unpacked, "linux-image-")?;
    quietly(
        Command::new("dpkg-deb").arg("-x").arg(archive).arg(&unpacked),
        Duration::from_secs(300),
    )?;
    let kept = home.join("keeping");
    if kept.exists() {
        fs::remove_dir_all(&kept)?;
    }
    fs::create_dir_all(&kept)?;
    keep_image(&the_one_in(&unpacked.join("boot"), "vmlinuz-")?, &kept)?;
    keep_modules(&unpacked, &version, &kept)?;
    let folder = home.join(&version);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::rename(&kept, &folder)?;
    fs::remove_dir_all(&unpacked)?;
    Ok(Kernel { version, folder })
}

/// The package that Debian's `linux-image-amd64` stands for today.
fn newest() -> Result<String> {
    let mut query = Command::new("apt-cache");
    let answer =
        quietly(query.args(["depends", "linux-image-amd64"]), Duration::from_secs(60))?.stdout;
    let found = answer.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    found
        .map(str::to_owned)
        .context("apt knows no linux-image-amd64 (not Debian, or `apt-get update` was never run?)")
}

fn the_one_in(folder: &Path, prefix: &str) -> Result<PathBuf> {
    let mut names = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let named = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    names.find(named).with_context(|| format!("no {prefix}... in {}", folder.display()))
}

/// The ELF file inside a compressed image saves the guest the time to unpack it. An
/// image in which none is found is booted as it is.
fn keep_image(vmlinuz: &Path, kept: &Path) -> Result<()> {
    const XZ: &[u8] = b"\xfd7zXZ\0";
    let bytes = fs::read(vmlinuz)?;
    let packed = kept.join("packed");
    if let Some(start) = bytes.windows(XZ.len()).position(|window| window == XZ) {
        fs::write(&packed, &bytes[start..])?;
        let unpack = Command::new("xz").args(["-dc", "--single-stream"]).arg(&packed).output()?;
        fs::remove_file(&packed)?;
        if unpack.stdout.starts_with(b"\x7fELF") {
            fs::write(kept.join("image"), unpack.stdout)?;
            return Ok(());
        }
    }
    fs::write(kept.join("image"), bytes)?;
    Ok(())
}

/// Copies the modules and all that they need, and writes down the order.
fn keep_modules(unpacked: &Path, version: &str, kept: &Path) -> Result<()> {
    let minute = Duration::from_secs(60);
    quietly(Command::new("depmod").arg("-b").arg(unpacked).arg(version), minute)?;
    let mut order: Vec<String> = Vec::new();
    for module in MODULES {
        let mut query = Command::new("modprobe");
        query.arg("-d").arg(unpacked).args(["-S", version, "--show-depends", module]);
        let answer = capture(&mut query, None, minute)?;
        if !answer.success() {
            bail!("{version} has no module {module}: {}", answer.stderr.trim());
        }
        for file in answer
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix("insmod ")?.split_whitespace().next())
        {
            let name = keep_module(Path::new(file), kept)?;
            if !order.contains(&name) {
                order.push(name);
            }
        }
    }
    fs::write(kept.join("order"), order.join("\n") + "\n")?;
    Ok(())
}

fn keep_module(file: &Path, kept: &Path) -> Result<String> {
    let name = file.file_name().context("a module has a name")?.to_string_lossy().into_owned();
    match name.strip_suffix(".xz") {
        None => {
            fs::copy(file, kept.join(&name))?;
            Ok(name)
        }
        Some(plain) => {
            let unpack = Command::new("xz").arg("-dc").arg(file).output()?;
            ensure!(unpack.status.success(), "cannot unpack {}", file.display());
            fs::write(kept.join(plain), unpack.stdout)?;
            Ok(plain.to_owned())
        }
    }
}
