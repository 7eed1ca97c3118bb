//! `verbena doctor`: what this host offers to MPI, and how to get what is missing.
//!
//! Each check prints one line: what it found, or what is wrong, with the remedy. On other hosts it
//! runs as `mpiexec --hosts a,b verbena doctor`.

use std::collections::BTreeSet;
use std::fs::{File, read_to_string};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use config::{Knobs, Registration, Sources};
use fabric::{Body, Header, Kind, Peer, PeerFailed, Post, Sink, Transport};
use launcher::stdout::print;
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::process::{Resource, getrlimit};
use verbs_transport::{InProcessStore, Rails, Selection, Settings, Unavailable};

/// Shared memory that a small job takes, bytes.
const SHARED_MEMORY_MIN: u64 = 64 << 20;
/// Locked memory below which an adapter cannot register much, bytes.
const LOCKED_MEMORY_MIN: u64 = 256 << 20;
/// Longest time that the test message may take.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// Result of a check.
enum Finding {
    /// In order.
    Good(String),
    /// Missing; jobs run without it.
    Without(String),
    /// Jobs do not run, or not as configured.
    Bad(String),
}
use Finding::{Bad, Good, Without};

/// Runs all checks and prints a line for each. With `rdma`, missing RDMA is an error. Fails if any
/// check does.
pub(crate) fn run(rdma: bool) -> Result<(), String> {
    let knobs = Knobs::with_options(Sources::default()).map_err(|error| error.to_string())?;
    let settings = Settings::from_knobs(&knobs);
    let has_port = Selection::new(&settings).is_ok();
    // A port that looks usable may fail when it is opened; then a job takes another one.
    let rails = open(&settings, 0, &InProcessStore::default());
    let mut findings = vec![
        ("processors", processors()),
        ("shared memory", shared_memory()),
        ("single copy", single_copy()),
        ("open files", open_files()),
        ("Fortran", fortran_modules()),
        ("RDMA port", port(rails.as_ref(), rdma)),
    ];
    if has_port {
        findings.push(("locked memory", locked_memory()));
    }
    if let Ok(rails) = rails {
        findings.push(("registration", registration(settings.registration, rails.registration())));
        drop(rails);
        findings
            .push(("RDMA message", message(&settings).map_or_else(|why| missing(why, rdma), Good)));
    }
    print(format_args!("{}\n", rustix::system::uname().nodename().to_string_lossy()))?;
    for (what, finding) in &findings {
        let (mark, text) = match finding {
            Good(text) => ("yes", text),
            Without(text) => ("no", text),
            Bad(text) => ("BAD", text),
        };
        print(format_args!("  {mark:3} {what:14} {text}\n"))?;
    }
    match findings.iter().filter(|(_, finding)| matches!(finding, Bad(_))).count() {
        0 => Ok(()),
        bad => Err(format!("{bad} of {} checks failed", findings.len())),
    }
}

fn missing(why: String, is_wanted: bool) -> Finding {
    if is_wanted { Bad(why) } else { Without(why) }
}

fn processors() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => Good(format!("{count} for this process; `verbena topology` shows them")),
        Err(error) => Bad(format!("cannot find out how many there are ({error})")),
    }
}

fn shared_memory() -> Finding {
    let file = memfd_create("verbena doctor", MemfdFlags::CLOEXEC);
    match file.and_then(|file| fallocate(&file, FallocateFlags::empty(), 0, SHARED_MEMORY_MIN)) {
        Ok(()) => Good(format!("{} MiB allocated and freed", SHARED_MEMORY_MIN >> 20)),
        Err(errno) => Bad(format!(
            "cannot allocate {} MiB ({errno}). Give the host or the container more memory, or allow \
             memfd_create and fallocate if a seccomp filter refuses them",
            SHARED_MEMORY_MIN >> 20
        )),
    }
}

fn single_copy() -> Finding {
    match File::options().read(true).write(true).open("/dev/xpmem") {
        Ok(_) => {
            return Good(
                "XPMEM is there: a rank maps the memory of other ranks and reads it directly"
                    .into(),
            );
        }
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            return Without(
                "XPMEM is there, but permission is denied: `chmod 666 /dev/xpmem` lets ranks map each other's memory \
                 (only of the same user); without it the kernel copies"
                    .into(),
            );
        }
        Err(_) => {}
    }
    match read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Ok(scope @ ("2" | "3")) => Without(format!(
            "kernel.yama.ptrace_scope is {scope}: a large message to a rank outside MPI is copied twice. `sysctl \
             kernel.yama.ptrace_scope=1` lets ranks read each other's memory"
        )),
        Ok(scope) => {
            Good(format!("kernel.yama.ptrace_scope is {scope}: ranks may read each other's memory"))
        }
        Err(_) => Good("restricted by the user's rights alone; each pair of ranks tries it".into()),
    }
}

fn open_files() -> Finding {
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < 64 => {
            Bad(format!("at most {most}: must be 64 or more, better 1024 (`ulimit -Hn 1024`)"))
        }
        Some(most) => {
            Good(format!("at most {most}: mpiexec needs three for each rank of this host"))
        }
        None => Good("unlimited".into()),
    }
}

/// Compilers whose modules are there: in the installation, or in the user's cache.
fn fortran_modules() -> Finding {
    let installed = std::env::current_exe().ok();
    let installed = installed.as_deref().and_then(Path::parent).and_then(Path::parent);
    let installed = installed.map(|prefix| prefix.join("lib/verbena/modules"));
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let caches = variable("XDG_CACHE_HOME").or(variable("HOME").map(|home| home.join(".cache")));
    let cache = variable("VERBENA_MODULES").or(caches.map(|cache| cache.join("verbena/modules")));
    let spare = variable("TMPDIR").unwrap_or_else(|| "/tmp".into());
    let spare = spare.join(format!("verbena-modules-{}", rustix::process::getuid().as_raw()));
    let mut compilers = BTreeSet::new();
    for folder in [installed, cache, Some(spare)].into_iter().flatten() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            // The name is the compiler's, and a checksum of its version and of the sources.
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some((compiler, _)) = name.rsplit_once('-')
                && entry.path().join("libverbena_modules.a").exists()
            {
                compilers.insert(compiler.to_owned());
            }
        }
    }
    if compilers.is_empty() {
        return Without("no modules so far; mpifort builds them at its first use".into());
    }
    let compilers: Vec<String> = compilers.into_iter().collect();
    Good(format!("modules for {}; mpifort builds those of others", compilers.join(", ")))
}

fn locked_memory() -> Finding {
    match getrlimit(Resource::Memlock).current {
        Some(most) if most < LOCKED_MEMORY_MIN => Without(format!(
            "at most {} KiB for each process: large messages are sent in pieces. `ulimit -l unlimited` (in \
             /etc/security/limits.conf: `* - memlock unlimited`; for a Slurm daemon: LimitMEMLOCK=infinity)",
            most >> 10
        )),
        Some(most) => Good(format!("at most {} MiB for each process", most >> 20)),
        None => Good("unlimited".into()),
    }
}

/// Opens the transport of rank `me` of two as a job does.
fn open(settings: &Settings, me: u32, store: &InProcessStore) -> Result<Rails, Unavailable> {
    Rails::open(settings.clone(), Peer(me), 2, [1; 32], Box::new(store.clone()))
}

/// Describes the ports that a job uses, or returns why there are none.
fn port(rails: Result<&Rails, &Unavailable>, rdma: bool) -> Finding {
    let rails = match rails {
        Ok(rails) => rails,
        Err(why) => return missing(why.to_string(), rdma),
    };
    let ports: Vec<String> = rails.ports().map(ToString::to_string).collect();
    let reason = rails.reason().map_or_else(String::new, |why| format!(" ({why})"));
    Good(format!("{}{reason}", ports.join(" and ")))
}

/// Describes how the registration of large messages is kept valid.
fn registration(wanted: Registration, used: Registration) -> Finding {
    match used {
        Registration::Odp => Good("odp: the device asks for pages when it needs them".into()),
        Registration::None if wanted == Registration::None => Good("none, as verbs.registration says".into()),
        Registration::None => Without(
            "none: every large message is registered again. userfaultfd would avoid that: it needs Linux 5.18, and in a \
             container a seccomp profile that permits the call"
                .into(),
        ),
        _ => Good("userfaultfd: buffers stay registered while their pages stay".into()),
    }
}

/// Sends a message from one queue pair of this process to another.
fn message(settings: &Settings) -> Result<String, String> {
    const TEXT: &[u8] = b"are you there";
    let store = InProcessStore::default();
    let open = |me| open(settings, me, &store).map_err(|error| error.to_string());
    let (mut sender, mut receiver) = (open(0)?, open(1)?);
    let (mut received, mut replies) = (Received::default(), Received::default());
    let (began, mut is_sent) = (Instant::now(), false);
    let header = Header { length: TEXT.len() as u64, ..Header::new(Kind::Eager) };
    while received.body != TEXT {
        if !is_sent {
            let posted =
                sender.post(Peer(1), &header, TEXT.len(), |slot| slot.copy_from_slice(TEXT));
            is_sent = posted.map_err(|failure| failure.to_string())? == Post::Sent;
        }
        sender.poll(&mut replies);
        receiver.poll(&mut received);
        if let Some(failure) = received.failure.take().or(replies.failure.take()) {
            return Err(failure.why);
        }
        if began.elapsed() > MESSAGE_TIMEOUT {
            return Err(format!(
                "a message from this host to itself did not arrive within {} s. Check `ibv_devinfo` and the rules of \
                 switch and firewall (RoCE v2 is UDP port 4791), and try another verbs.gid_index",
                MESSAGE_TIMEOUT.as_secs()
            ));
        }
    }
    Ok(format!(
        "from this host to itself, with the connection, in {:.1} ms",
        began.elapsed().as_secs_f64() * 1e3
    ))
}

/// The data that one of the two transports has received.
#[derive(Default)]
struct Received {
    body: Vec<u8>,
    failure: Option<PeerFailed>,
}

impl Sink for Received {
    fn frame(&mut self, _: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        if let Ok(body) = body.wait_all() {
            self.body = body.to_vec();
        }
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, failure: PeerFailed) {
        self.failure = Some(failure);
    }
}
