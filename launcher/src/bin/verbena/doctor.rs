//! What this host offers to MPI, and how to get what is missing.
//!
//! Each check gives one line: what it found, or what is wrong with the remedy. On other
//! hosts: `mpiexec --hosts a,b verbena doctor`.

use std::fs::{File, read_to_string};
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use config::{Knobs, Registration, Sources};
use fabric::{Body, Header, Kind, Peer, PeerFailed, Post, Sink, Transport};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::process::{Resource, getrlimit};
use verbs_transport::{InProcessStore, Port, Settings, VerbsTransport};

/// Shared memory that a job of some ranks takes, bytes.
const SHARED: u64 = 64 << 20;
/// Locked memory below which an adapter can't register much, bytes.
const LOCKED: u64 = 256 << 20;
/// How long the message may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a check came to.
enum Finding {
    /// As it should be.
    Good(String),
    /// Jobs run, but without this.
    Without(String),
    /// Jobs do not run, or not with what was asked for.
    Bad(String),
}
use Finding::{Bad, Good, Without};

/// Checks everything and prints a line for each. With `rdma`, jobs are to use RDMA: that there
/// is none is bad then. An error when anything is.
pub(crate) fn run(rdma: bool) -> Result<(), String> {
    let knobs = Knobs::with_options(Sources::default()).map_err(|error| error.to_string())?;
    let settings = Settings::from_knobs(&knobs);
    let port = Port::choose(&settings).map(|port| port.to_string());
    let has_port = port.is_ok();
    let mut findings = vec![
        ("processors", processors()),
        ("shared memory", shared_memory()),
        ("single copy", single_copy()),
        ("open files", open_files()),
        ("RDMA port", port.map_or_else(|error| missing(error.to_string(), rdma), Good)),
    ];
    if has_port {
        findings.push(("locked memory", locked_memory()));
        findings.push(("registration", registration(&settings, rdma)));
        findings
            .push(("RDMA message", message(&settings).map_or_else(|why| missing(why, rdma), Good)));
    }
    println!("{}", rustix::system::uname().nodename().to_string_lossy());
    for (what, finding) in &findings {
        let (mark, text) = match finding {
            Good(text) => ("yes", text),
            Without(text) => ("no", text),
            Bad(text) => ("BAD", text),
        };
        println!("  {mark:3} {what:14} {text}");
    }
    match findings.iter().filter(|(_, finding)| matches!(finding, Bad(_))).count() {
        0 => Ok(()),
        bad => Err(format!("{bad} of {} checks found something to mend", findings.len())),
    }
}

fn missing(why: String, is_wanted: bool) -> Finding {
    if is_wanted { Bad(why) } else { Without(why) }
}

fn processors() -> Finding {
    match std::thread::available_parallelism() {
        Ok(count) => Good(format!("{count} for this process; `verbena topology` shows them")),
        Err(error) => Bad(format!("the system does not say how many there are ({error})")),
    }
}

fn shared_memory() -> Finding {
    let file = memfd_create("verbena doctor", MemfdFlags::CLOEXEC);
    match file.and_then(|file| fallocate(&file, FallocateFlags::empty(), 0, SHARED)) {
        Ok(()) => Good(format!("{} MiB allocated and given back", SHARED >> 20)),
        Err(errno) => Bad(format!(
            "{} MiB can't be had ({errno}). Give the host or the container more memory, or allow memfd_create and \
             fallocate where a filter refuses them",
            SHARED >> 20
        )),
    }
}

fn single_copy() -> Finding {
    match File::options().read(true).write(true).open("/dev/xpmem") {
        Ok(_) => {
            return Good(
                "XPMEM is there: the memory of other ranks is mapped and read as one's own".into(),
            );
        }
        Err(why) if why.kind() == ErrorKind::PermissionDenied => {
            return Without(
                "XPMEM is there and may not be used: `chmod 666 /dev/xpmem` lets ranks map each other's memory \
                 (segments are for processes of the same user all the same); without it the kernel copies"
                    .into(),
            );
        }
        Err(_) => {}
    }
    match read_to_string("/proc/sys/kernel/yama/ptrace_scope").as_deref().map(str::trim) {
        Ok(scope @ ("2" | "3")) => Without(format!(
            "kernel.yama.ptrace_scope is {scope}: a message to a rank that computes is copied twice. `sysctl \
             kernel.yama.ptrace_scope=1` allows ranks to read each other"
        )),
        Ok(scope) => {
            Good(format!("kernel.yama.ptrace_scope is {scope}: ranks may allow each other to read"))
        }
        Err(_) => Good(
            "nothing restricts it but the user's own rights; each pair of ranks tries it".into(),
        ),
    }
}

fn open_files() -> Finding {
    match getrlimit(Resource::Nofile).maximum {
        Some(most) if most < 64 => Bad(format!("at most {most}; `ulimit -Hn 1024` or more")),
        Some(most) => {
            Good(format!("at most {most}: mpiexec needs three for each rank of this host"))
        }
        None => Good("unlimited".into()),
    }
}

fn locked_memory() -> Finding {
    match getrlimit(Resource::Memlock).current {
        Some(most) if most < LOCKED => Without(format!(
            "at most {} KiB for each process: large messages will be sent in pieces. `ulimit -l unlimited` (in \
             /etc/security/limits.conf: `* - memlock unlimited`; for a Slurm daemon: LimitMEMLOCK=infinity)",
            most >> 10
        )),
        Some(most) => Good(format!("at most {} MiB for each process", most >> 20)),
        None => Good("unlimited".into()),
    }
}

/// How buffers of large messages stay registered.
fn registration(settings: &Settings, rdma: bool) -> Finding {
    let transport = VerbsTransport::open(
        settings.clone(),
        Peer(0),
        2,
        [1; 32],
        Box::new(InProcessStore::default()),
    );
    let asked = settings.registration;
    match transport.map(|transport| transport.registration()) {
        Err(why) => missing(why.to_string(), rdma),
        Ok(Registration::Odp) => Good("odp: the device asks for pages when it needs them".into()),
        Ok(Registration::None) if asked == Registration::None => Good("none, as verbs.registration says".into()),
        Ok(Registration::None) => Without(
            "none: every large message is registered anew. userfaultfd would keep them: it needs Linux 5.18, and in a \
             container a seccomp profile that allows the call"
                .into(),
        ),
        Ok(_) => Good("userfaultfd: buffers stay registered while their pages stay".into()),
    }
}

/// A message from one queue pair of this process to another.
fn message(settings: &Settings) -> Result<String, String> {
    const TEXT: &[u8] = b"are you there";
    let store = InProcessStore::default();
    let open = |me| {
        let open =
            VerbsTransport::open(settings.clone(), Peer(me), 2, [1; 32], Box::new(store.clone()));
        open.map_err(|error| error.to_string())
    };
    let (mut here, mut there) = (open(0)?, open(1)?);
    let (mut arrived, mut nothing) = (Arrived::default(), Arrived::default());
    let (began, mut is_sent) = (Instant::now(), false);
    let header = Header { length: TEXT.len() as u64, ..Header::new(Kind::Eager) };
    while arrived.body != TEXT {
        if !is_sent {
            let posted = here.post(Peer(1), &header, TEXT.len(), |slot| slot.copy_from_slice(TEXT));
            is_sent = posted.map_err(|lost| lost.to_string())? == Post::Sent;
        }
        here.poll(&mut nothing);
        there.poll(&mut arrived);
        if let Some(lost) = arrived.lost.take().or(nothing.lost.take()) {
            return Err(lost.why);
        }
        if began.elapsed() > PATIENCE {
            return Err(format!(
                "a message from this host to itself did not arrive within {} s. See `ibv_devinfo`, the switch's and the \
                 firewall's rules (RoCE v2 is UDP port 4791), and try another verbs.gid_index",
                PATIENCE.as_secs()
            ));
        }
    }
    Ok(format!(
        "from this host to itself, connection and all, in {:.1} ms",
        began.elapsed().as_secs_f64() * 1e3
    ))
}

#[derive(Default)]
struct Arrived {
    body: Vec<u8>,
    lost: Option<PeerFailed>,
}

impl Sink for Arrived {
    fn frame(&mut self, _: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        let body = body.wait_all();
        self.body = body.to_vec();
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, lost: PeerFailed) {
        self.lost = Some(lost);
    }
}
