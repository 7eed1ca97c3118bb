//! Opens the transport between hosts: verbs, TCP, or both.
//!
//! With `inter.transport = auto` a process opens both, and the peers of its fabric are reached by
//! verbs. A process without RDMA opens TCP alone. If its host has a device that cannot be used, or
//! the user named one, the first rank of the host says so.

use bootstrap::Job;
use config::{InterTransport, Knobs, knob};
use fabric::endpoint::inter::publish;
use fabric::{Peer, Store};
use tcp_transport::TcpTransport;
use verbs_transport::{Rails, Unavailable};

use crate::addresses::Addresses;
use crate::stack::Inter;

/// The transport between hosts, and the reason why it is not verbs alone.
pub(crate) struct Opened {
    pub(crate) inter: Inter,
    /// Why verbs or TCP was not opened, for `--explain`.
    pub(crate) rejected: Option<String>,
}

/// Opens the transport to other hosts; the error is a text for the user.
pub(crate) fn open(job: &Job, knobs: &Knobs) -> Result<Opened, String> {
    let store = job.store().ok_or("no launcher provides the addresses of other processes")?;
    let store = Addresses::new(store);
    let only = |inter, knob: &str| {
        Ok(Opened { inter, rejected: Some(format!("inter.transport = {knob}")) })
    };
    match knobs.choice(knob::INTER_TRANSPORT) {
        InterTransport::Verbs => {
            let rails = rails(job, knobs, &store).map_err(|why| why.to_string())?;
            only(Inter::verbs_only(rails), "verbs")
        }
        InterTransport::Tcp => only(Inter::tcp_only(tcp(job, knobs, &store)?), "tcp"),
        InterTransport::Auto => either(job, knobs, store),
    }
}

/// Opens what there is.
fn either(job: &Job, knobs: &Knobs, mut store: Addresses) -> Result<Opened, String> {
    let me = Peer(job.rank);
    match (rails(job, knobs, &store), tcp(job, knobs, &store)) {
        (Ok(rails), Ok(tcp)) => {
            let fabric = rails.ports().next().map_or_else(String::new, |port| port.fabric());
            publish(&mut store, me, &fabric)?;
            tcp.wake_with(rails.wait_fd()).map_err(|error| format!("watching verbs: {error}"))?;
            let inter = Inter::both(rails, tcp, fabric, job.size, Box::new(store));
            Ok(Opened { inter, rejected: None })
        }
        (Ok(rails), Err(why)) => {
            let fabric = rails.ports().next().map_or_else(String::new, |port| port.fabric());
            publish(&mut store, me, &fabric)?;
            Ok(Opened { inter: Inter::verbs_only(rails), rejected: Some(why) })
        }
        (Err(why), Ok(tcp)) => {
            publish(&mut store, me, "")?;
            if job.local_rank == 0 && is_expected(&why, knobs) {
                eprintln!(
                    "verbena: the host of rank {} uses TCP instead of RDMA: {why} (without this \
                     line: inter.transport = tcp)",
                    job.rank
                );
            }
            let rejected = Some(format!("no RDMA: {why}"));
            Ok(Opened { inter: Inter::tcp_only(tcp), rejected })
        }
        (Err(verbs), Err(tcp)) => Err(format!("{verbs}; {tcp}")),
    }
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
    Rails::open(settings, Peer(job.rank), job.size, *job.secret().bytes(), store)
}

fn tcp(job: &Job, knobs: &Knobs, store: &Addresses) -> Result<TcpTransport, String> {
    let settings = tcp_transport::Settings::from_knobs(knobs)?;
    let store: Box<dyn Store> = Box::new(store.clone());
    TcpTransport::open(settings, Peer(job.rank), job.size, *job.secret().bytes(), store)
        .map_err(|why| why.to_string())
}
