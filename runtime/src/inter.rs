//! Opens the transport between hosts: verbs, TCP, or both.
//!
//! With `inter.transport = auto` a process opens both, and the peers of its fabric are reached by
//! verbs. A process without RDMA opens TCP alone. If its host has a device that cannot be used, or
//! the user named one, the first rank of the host says so.

use bootstrap::{HostNotice, Job};
use config::{InterTransport, Knobs, knob};
use fabric::endpoint::inter::{Choice, Patience, Report, publish};
use fabric::{Peer, Store, Timer};
use tcp_transport::TcpTransport;
use verbs_transport::{Rails, Unavailable};

use crate::addresses::Addresses;
use crate::stack::Inter;

const NO_ADDRESSES: &str = "no launcher provides the addresses of other processes";

/// The transport between hosts, and what is not part of it.
pub(crate) struct Opened {
    pub(crate) inter: Inter,
    pub(crate) rejected: Rejected,
}

/// Why a transport was not opened, with the remedy, for `--explain`.
#[derive(Debug, Default)]
pub(crate) struct Rejected {
    pub(crate) verbs: Option<String>,
    pub(crate) tcp: Option<String>,
}

/// Opens the transport to other hosts; the error is a text for the user.
pub(crate) fn open(
    job: &Job,
    knobs: &Knobs,
    addresses: Option<Addresses>,
) -> Result<Opened, String> {
    let store = addresses.ok_or(NO_ADDRESSES)?;
    let by_knob = |value: &str| {
        Some(format!("inter.transport = {value}; `--set inter.transport=auto` allows both"))
    };
    match knobs.choice(knob::INTER_TRANSPORT) {
        InterTransport::Verbs => {
            let rails = rails(job, knobs, &store).map_err(|why| why.to_string())?;
            let rejected = Rejected { tcp: by_knob("verbs"), ..Rejected::default() };
            Ok(Opened { inter: Inter::verbs_only(rails), rejected })
        }
        InterTransport::Tcp => {
            let rejected = Rejected { verbs: by_knob("tcp"), ..Rejected::default() };
            Ok(Opened { inter: Inter::tcp_only(tcp(job, knobs, &store)?), rejected })
        }
        InterTransport::Auto => either(job, knobs, store),
    }
}

/// Opens what there is.
fn either(job: &Job, knobs: &Knobs, mut store: Addresses) -> Result<Opened, String> {
    let me = Peer(job.number);
    match (rails(job, knobs, &store), tcp(job, knobs, &store)) {
        (Ok(rails), Ok(tcp)) => {
            let fabric = rails.ports().next().map_or_else(String::new, |port| port.fabric());
            publish(&mut store, me, &fabric, true)?;
            let failed = |error| format!("watching verbs: {error}");
            let timer = Timer::new().map_err(failed)?;
            tcp.wake_with(rails.wait_fd()).map_err(failed)?;
            tcp.wake_with(timer.raw_fd()).map_err(failed)?;
            let report = report_fallback(job);
            let (store, patience) = (Box::new(store), Patience::default());
            let world = job.world();
            let choice = Choice { me, world, fabric, store, timer, patience, report };
            Ok(Opened { inter: Inter::both(rails, tcp, choice), rejected: Rejected::default() })
        }
        (Ok(rails), Err(why)) => {
            let fabric = rails.ports().next().map_or_else(String::new, |port| port.fabric());
            publish(&mut store, me, &fabric, false)?;
            let rejected = Rejected { tcp: Some(why), ..Rejected::default() };
            Ok(Opened { inter: Inter::verbs_only(rails), rejected })
        }
        (Err(why), Ok(tcp)) => {
            publish(&mut store, me, "", true)?;
            if job.local_rank == 0 && is_expected(&why, knobs) {
                eprintln!(
                    "verbena: the host of rank {} uses TCP instead of RDMA: {why} (without this \
                     line: inter.transport = tcp)",
                    job.rank()
                );
            }
            let rejected = Rejected { verbs: Some(why.to_string()), ..Rejected::default() };
            Ok(Opened { inter: Inter::tcp_only(tcp), rejected })
        }
        (Err(verbs), Err(tcp)) => Err(format!("{verbs}; {tcp}")),
    }
}

/// Returns what tells the user, once on each host, that verbs does not reach a peer.
fn report_fallback(job: &Job) -> Report {
    let (rank, is_first) = (job.rank(), job.status_page().first_notice(HostNotice::Fallback));
    Box::new(move |peer, why| {
        if is_first() {
            eprintln!(
                "verbena: rank {rank} reaches rank {} over TCP although both have RDMA devices of \
                 one network: {why}; check cable, port and partition (ibv_devinfo on both hosts), \
                 or name another port by verbs.device and verbs.port (without this line and the \
                 wait: inter.transport = tcp). Other peers may follow without a line",
                peer.0
            );
        }
    })
}

/// Returns true if the user would be surprised that verbs is not used.
fn is_expected(why: &Unavailable, knobs: &Knobs) -> bool {
    !why.is_absent() || knobs.name(knob::VERBS_DEVICES).is_some()
}

fn rails(job: &Job, knobs: &Knobs, store: &Addresses) -> Result<Rails, Unavailable> {
    let settings = verbs_transport::Settings {
        local_rank: job.local_rank,
        ..verbs_transport::Settings::from_knobs(knobs)
    };
    let store: Box<dyn Store> = Box::new(store.clone());
    Rails::open(settings, Peer(job.number), job.world().end, *job.secret().bytes(), store)
}

fn tcp(job: &Job, knobs: &Knobs, store: &Addresses) -> Result<TcpTransport, String> {
    let settings = tcp_transport::Settings::from_knobs(knobs)?;
    let store: Box<dyn Store> = Box::new(store.clone());
    let (me, end) = (Peer(job.number), job.world().end);
    TcpTransport::open(settings, me, end, *job.secret().bytes(), store)
        .map_err(|why| why.to_string())
}

/// Opens TCP to processes of other jobs, for a process that needs no transport between hosts.
pub(crate) fn open_to_other_jobs(
    job: &Job,
    knobs: &Knobs,
    addresses: Option<Addresses>,
) -> Result<Inter, String> {
    tcp(job, knobs, &addresses.ok_or(NO_ADDRESSES)?).map(Inter::tcp_only)
}
