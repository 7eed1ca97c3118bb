//! One QEMU: its command line, its monitor, its end.
//!
//! It dies with us: `setpriv` requests that from the kernel before it becomes QEMU. Therefore an
//! interrupted run leaves nothing.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result};
use rustix::io::{FdFlags, fcntl_setfd};

use super::switch::CARDS;
use super::{Kernel, Plan};

const QEMU: &str = "qemu-system-x86_64";

/// A guest that runs, until it is dropped.
pub(super) struct Guest {
    qemu: Child,
}

/// The common parts of all guests of a run.
pub(super) struct Boot<'a> {
    /// The command that they run.
    pub(super) kernel: &'a Kernel,
    /// The files that they begin with.
    pub(super) initrd: &'a Path,
    /// The machines and the folder of results.
    pub(super) plan: &'a Plan,
    /// Ticks of the processor's clock in a millisecond.
    pub(super) tsc_khz: u32,
}

impl Boot<'_> {
    /// Starts guest `id`. Its console is a file, or with `terminal` where we are.
    pub(super) fn guest(&self, id: u32, wire: Option<&OwnedFd>, terminal: bool) -> Result<Guest> {
        let results = &self.plan.results;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", QEMU, "-name"])
            .arg(format!("vm{id}"))
            .args(self.machine());
        command.arg("-kernel").arg(self.kernel.image()).arg("-initrd").arg(self.initrd);
        command.arg("-append").arg(self.kernel_line(id));
        let share =
            format!("local,id=share,path={},security_model=none,multidevs=remap", escaped(results));
        command.args([
            "-fsdev",
            "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
        ]);
        command.args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=root"]);
        command.args(["-fsdev", &share, "-device", "virtio-9p-pci,fsdev=share,mount_tag=share"]);
        if let Some(wire) = wire {
            let card: Vec<String> =
                CARDS.iter().chain(&[id as u8]).map(|byte| format!("{byte:02x}")).collect();
            command.args([
                "-netdev",
                &format!("dgram,id=n0,local.type=fd,local.str={}", wire.as_raw_fd()),
            ]);
            command.args([
                "-device",
                &format!("virtio-net-pci,netdev=n0,mac={},romfile=", card.join(":")),
            ]);
        }
        if terminal {
            command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        } else {
            command
                .arg("-serial")
                .arg(format!("file:{}", escaped(&results.join(format!("console.{id}")))));
            command.args([
                "-chardev",
                "stdio,id=monitor,signal=off",
                "-mon",
                "chardev=monitor,mode=readline",
            ]);
            command
                .stdin(Stdio::piped())
                .stdout(File::create(results.join(format!("monitor.{id}")))?);
        }
        command.stderr(File::create(results.join(format!("qemu.{id}")))?);
        let inherit = |flags| wire.map_or(Ok(()), |wire| fcntl_setfd(wire, flags));
        inherit(FdFlags::empty())?;
        let qemu = command.spawn().with_context(|| format!("cannot start {QEMU}"));
        inherit(FdFlags::CLOEXEC)?;
        Ok(Guest { qemu: qemu? })
    }

    fn machine(&self) -> Vec<String> {
        let machines = &self.plan.machines;
        let mut words = vec!["-machine", "q35,smm=off,sata=off,smbus=off", "-cpu", "max"];
        words.extend(["-accel", if machines.kvm { "kvm" } else { "tcg,thread=multi,tb-size=256" }]);
        words.extend(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]);
        let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let memory = format!("{}M", machines.memory);
        words.extend(["-smp".into(), machines.cpus().to_string(), "-m".into(), memory]);
        words
    }

    /// The clock's frequency is passed: a guest that measures it on a busy host may run several
    /// times too fast.
    fn kernel_line(&self, id: u32) -> String {
        let khz = self.tsc_khz;
        format!(
            "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nopti preempt=none random.trust_cpu=on \
             tsc=reliable tsc_early_khz={khz} vm.id={id}"
        )
    }
}

impl Guest {
    /// True once QEMU has ended by itself, which it does only when a guest fails.
    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.qemu.try_wait(), Ok(None))
    }

    /// Ends it without a word, as a machine that loses its power.
    pub(super) fn kill(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }

    /// Pulls the cable of its card, or puts it back.
    pub(super) fn link(&mut self, up: bool) -> Result<()> {
        let monitor = self.qemu.stdin.as_mut().context("no monitor")?;
        let state = if up { "on" } else { "off" };
        writeln!(monitor, "set_link n0 {state}").context("QEMU does not listen")
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A path as a value in QEMU's options.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}
