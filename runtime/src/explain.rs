//! The text of `mpiexec --explain`: which transports and methods this process uses, and why.
//!
//! Each line has a topic and a text. The launcher merges equal lines of several ranks.

use std::time::Duration;

use bootstrap::Job;
use collectives::{HostSegment, Thresholds};
use config::{Knobs, Origin, ProgressMode, Registration, knob, show_bytes};
use fabric::coll_segment::MAX_FLAGS_RANKS;
use fabric::{Caps, Peer, Transport};
use shm_transport::ShmTransport;
use tcp_transport::TcpTransport;
use verbs_transport::Rails;

use crate::collective;
use crate::stack::{Endpoint, Inter};

/// Returns topics and texts. Knobs and devices decide them, so no message has to be sent before.
pub(crate) fn explain(
    job: &Job,
    knobs: &Knobs,
    endpoint: &Endpoint,
    (spin, rejected): (Duration, Option<&str>),
) -> Vec<(String, String)> {
    let here = job.local_ranks();
    let intra = here.iter().copied().find(|rank| *rank != job.rank);
    let mut lines = Vec::new();
    let mut add = |topic: &str, text: String| lines.push((topic.to_owned(), text));
    if let Some(intra) = intra {
        let has_xpmem = endpoint.intra().is_some_and(ShmTransport::has_xpmem);
        add("on the host", intra_host(endpoint.caps(Peer(intra)), has_xpmem));
    }
    if let Some(inter) = endpoint.inter() {
        add("between hosts", between_hosts(inter, rejected));
    }
    if shm_transport::fallocate_is_refused() {
        add("sandbox", "fallocate is refused: memory is taken page by page".into());
    }
    add("waiting", waiting(job, spin));
    add("collectives", collectives(job, knobs));
    if job.size > 1 {
        let by_memory = intra.is_some() && knobs.is_on(knob::RMA_SHM);
        let has_device = endpoint.inter().is_some_and(|inter| inter.verbs().is_some());
        let is_helped = knobs.choice(knob::PT2PT_PROGRESS) == ProgressMode::Thread;
        add("windows", windows(by_memory, has_device, is_helped));
    }
    let set: Vec<String> = knobs
        .iter()
        .filter(|(knob, _, origin)| {
            **origin != Origin::Default && knob.name != knob::REPORT_TRANSPORTS.knob().name
        })
        .map(|(knob, value, origin)| format!("{} = {value} ({origin})", knob.name))
        .collect();
    if !set.is_empty() {
        add("settings", set.join(", "));
    }
    lines
}

fn intra_host(caps: &Caps, has_xpmem: bool) -> String {
    let (eager, from) = (caps.eager as u64, caps.get_min);
    let mut text = format!(
        "shared memory; eager up to {}; above that rendezvous, by pipelined copy",
        show_bytes(eager)
    );
    if from == u64::MAX {
        text += ", never by single copy";
    } else {
        let from =
            if from > eager { format!(" from {} on", show_bytes(from)) } else { String::new() };
        let method = if has_xpmem { "XPMEM" } else { "process_vm_readv" };
        text += &format!(
            ", or{from}, if the kernel permits it, by single copy ({method}) while the sender is \
             outside MPI"
        );
    }
    text
}

/// Describes the transports between hosts, and why one is missing.
fn between_hosts(inter: &Inter, rejected: Option<&str>) -> String {
    let any = Peer(0);
    let verbs = inter.verbs().map(|rails| by_verbs(rails, rails.caps(any)));
    let tcp = inter.tcp().map(|tcp| by_tcp(tcp, tcp.caps(any)));
    let mut text = match (verbs, tcp) {
        (Some(verbs), Some(tcp)) => format!("{verbs}. To processes without that network: {tcp}"),
        (verbs, tcp) => verbs.or(tcp).unwrap_or_default(),
    };
    if let Some(why) = rejected {
        text += &format!(" ({why})");
    }
    text
}

fn by_tcp(tcp: &TcpTransport, caps: &Caps) -> String {
    let addresses: Vec<String> = tcp.listens_on().iter().map(|at| at.ip().to_string()).collect();
    format!(
        "TCP, reached at {}; eager up to {}; above that rendezvous, read into the receive buffer",
        addresses.join(" or "),
        show_bytes(caps.eager as u64)
    )
}

fn by_verbs(rails: &Rails, caps: &Caps) -> String {
    let ports: Vec<String> = rails.ports().map(ToString::to_string).collect();
    let reason = rails.reason().map_or_else(String::new, |why| format!(" ({why})"));
    let large = match (caps.get_min, caps.put_min) {
        (u64::MAX, u64::MAX) => "by pipelined copy".into(),
        (u64::MAX, from) => format!("from {} on by RDMA write", show_bytes(from)),
        (from, _) => format!("from {} on by RDMA read", show_bytes(from)),
    };
    let registration = match rails.registration() {
        Registration::Userfaultfd => "registrations are kept until userfaultfd reports a change",
        Registration::Odp => "the device pages buffers in (ODP)",
        Registration::Auto | Registration::None => "buffers are registered for each message",
    };
    let kernel = if rails.is_emulated() { "; the kernel emulates the adapter" } else { "" };
    format!(
        "RDMA by {}{reason}{kernel}; eager up to {}; above that rendezvous, {large}; {registration}",
        ports.join(" and "),
        show_bytes(caps.eager as u64)
    )
}

fn waiting(job: &Job, spin: Duration) -> String {
    let (ranks, processors) = (job.local_size, job.processors);
    let counts = format!("ranks here: {ranks}, processors: {processors}");
    if spin.is_zero() {
        return format!("yields the processor, then sleeps ({counts})");
    }
    format!("spins for {} ms, then sleeps ({counts})", spin.as_secs_f64() * 1e3)
}

/// Describes what completes operations on a target that does not synchronise.
fn windows(by_memory: bool, has_device: bool, is_helped: bool) -> String {
    let mut text = String::from("passive targets: ");
    if by_memory {
        text += "on a host, memory that MPI has allocated by shared memory, other memory by single \
                 copy; ";
    }
    if has_device {
        text += "between hosts, put and get by the RDMA device after the first; ";
    }
    text += "all else by messages, which the target answers ";
    text += match is_helped {
        true => "in MPI calls or by its progress thread",
        false => "in MPI calls (with pt2pt.progress=thread at any time)",
    };
    text
}

fn collectives(job: &Job, knobs: &Knobs) -> String {
    let thresholds = collective::thresholds(knobs, job);
    let messages = "messages, in trees, rings or rounds by size";
    if job.local_size < job.size && thresholds.hierarchical {
        return composed(&thresholds);
    }
    if let Some(max) = thresholds.shm_max.filter(|_| thresholds.shm) {
        let except = if thresholds.reproducible { " except reductions" } else { "" };
        return format!(
            "up to {}{except} in shared memory, on communicators of at most {MAX_FLAGS_RANKS} \
             ranks; otherwise by {messages}",
            show_bytes(max)
        );
    }
    let Some(max) = thresholds.oversubscribed_max.filter(|_| !thresholds.reproducible) else {
        return format!("by {messages}");
    };
    let how = match thresholds.shm {
        true => "in shared memory if it has space, or directly to and from one rank",
        false => "directly to and from one rank",
    };
    let blocks = match thresholds.shm {
        true => "; gathers, scatters, allgathers and alltoalls in shared memory if it has space",
        false => "",
    };
    format!(
        "barriers, and broadcasts and reductions up to {}, {how}{blocks}, since ranks outnumber \
         processors; otherwise by {messages}",
        show_bytes(max)
    )
}

/// Describes compositions over hosts.
fn composed(thresholds: &Thresholds) -> String {
    let within = match thresholds.host_segment.filter(|_| thresholds.shm) {
        Some(HostSegment::Counter { max } | HostSegment::Flags { max }) => {
            let max = show_bytes(max);
            format!("up to {max} in shared memory on MPI_COMM_WORLD, otherwise by messages")
        }
        None => "by messages".to_owned(),
    };
    let except = if thresholds.reproducible { "; reductions as on one host" } else { "" };
    format!(
        "within hosts {within}; between hosts by one rank of each, and from {} on by all ranks, a \
         part each{except}",
        show_bytes(thresholds.lanes_min)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_completes_passive_targets_is_named() {
        let messages = "by messages, which the target answers in MPI calls";
        assert!(windows(false, false, false).contains(&format!("all else {messages} (with")));
        assert!(windows(true, false, true).ends_with("or by its progress thread"));
        assert!(windows(true, false, false).contains("by shared memory, other memory by single"));
        assert!(windows(false, true, false).contains("put and get by the RDMA device"));
    }

    #[test]
    fn the_method_of_large_messages_on_a_host_is_named() {
        let caps = |get_min| Caps { frame: 1 << 18, eager: 1 << 16, get_min, put_min: u64::MAX };
        let text = |get_min, has_xpmem| intra_host(&caps(get_min), has_xpmem);
        assert!(text(1 << 17, true).contains(", or from 128K on, if the kernel permits it, "));
        assert!(
            text(1 << 15, true).contains("by single copy (XPMEM) while the sender is outside MPI")
        );
        assert!(text(1 << 15, false).contains("by single copy (process_vm_readv) while "));
        assert!(text(u64::MAX, false).ends_with(", never by single copy"));
    }
}
