//! The text of `mpiexec --explain`: which transports and methods this process uses, and why.
//!
//! Each line has a topic and a text. The launcher merges equal lines of several ranks.

use std::time::Duration;

use bootstrap::Job;
use collectives::{HostSegment, Planner, SegmentUse, Thresholds};
use config::{Kind, Knobs, Origin, ProgressMode, Registration, knob, show_bytes};
use fabric::coll_segment::MAX_FLAGS_RANKS;
use fabric::{Caps, Peer, Transport};
use tcp_transport::TcpTransport;
use verbs_transport::Rails;

use crate::collective;
use crate::inter::Rejected;
use crate::stack::{Endpoint, Inter};

/// How a rank waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    /// Time before it sleeps.
    pub spin: Duration,
    /// See [`progress::Settings::kernel_works`].
    pub kernel_works: bool,
}

/// Returns topics and texts. No message has to be sent before; only the memory of another rank of
/// this host is read, as soon as that rank has started.
pub(crate) fn explain(
    job: &Job,
    knobs: &Knobs,
    endpoint: &Endpoint,
    waits: Waits,
    rejected: &Rejected,
) -> Vec<(String, String)> {
    let here = job.local_numbers();
    let intra = here.iter().copied().find(|rank| *rank != job.number);
    let mut lines = Vec::new();
    let mut add = |topic: &str, text: String| lines.push((topic.to_owned(), text));
    match intra {
        Some(intra) => {
            let caps = endpoint.caps(Peer(intra));
            add("shared memory", shared_memory(job.local_size == job.size, caps));
            let method = || match endpoint.intra() {
                Some(transport) => transport.single_copy_from(Peer(intra)),
                None => Err("there is no shared memory".into()),
            };
            add("single copy", single_copy(caps, method));
        }
        None => {
            let why = if job.size == 1 { "the job has one rank" } else { ALONE };
            add("shared memory", format!("rejected: {why}"));
        }
    }
    let any = Peer(0);
    let inter = endpoint.inter();
    let verbs = inter.and_then(Inter::verbs).map(|rails| by_verbs(rails, rails.caps(any)));
    let has_verbs = verbs.is_some();
    add("RDMA", chosen_or(verbs, rejected.verbs.as_deref()));
    let tcp = inter.and_then(Inter::tcp).map(|tcp| by_tcp(tcp, tcp.caps(any), has_verbs));
    add("TCP", chosen_or(tcp, rejected.tcp.as_deref()));
    if shm_transport::fallocate_is_refused() {
        add("sandbox", "fallocate is refused: memory is taken page by page".into());
    }
    add("waiting", waiting(job, waits));
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
        .map(|(knob, value, origin)| {
            let is_time = matches!(knob.kind, Kind::Time { .. }) && value != "auto";
            let unit = if is_time { " µs" } else { "" };
            format!("{} = {value}{unit} ({origin})", knob.name)
        })
        .collect();
    if !set.is_empty() {
        add("settings", set.join(", "));
    }
    lines
}

/// Returns which algorithms collectives on MPI_COMM_WORLD take, by the sizes from which on they do.
pub(crate) fn algorithms(
    job: &Job,
    thresholds: &Thresholds,
    planner: &Planner,
) -> (String, String) {
    let is_counted = thresholds.oversubscribed_max.is_some();
    let has_segment = thresholds.shm && (is_counted || job.size <= MAX_FLAGS_RANKS);
    let segment = if has_segment { SegmentUse::Gets } else { SegmentUse::Nothing };
    ("algorithms".to_owned(), planner.describe(job.size, segment, show_bytes))
}

/// Why a rank of a larger job uses no shared memory.
const ALONE: &str =
    "no other rank is on this host; `-ppn` and the slots of a host file place several";

/// Returns the text of a transport that is used, or that was rejected.
fn chosen_or(chosen: Option<String>, rejected: Option<&str>) -> String {
    match chosen {
        Some(text) => format!("chosen: {text}"),
        None => format!("rejected: {}", rejected.unwrap_or("it was not opened")),
    }
}

fn shared_memory(is_whole_job: bool, caps: &Caps) -> String {
    let whom = if is_whole_job { "all ranks are on this host" } else { "ranks of this host" };
    let eager = show_bytes(caps.eager as u64);
    format!("chosen: {whom}; eager up to {eager}; above that rendezvous, by pipelined copy")
}

/// Describes the method of large messages on a host.
fn single_copy(caps: &Caps, method: impl FnOnce() -> Result<&'static str, String>) -> String {
    let (eager, from) = (caps.eager as u64, caps.get_min);
    if from == u64::MAX {
        return "rejected: shm.single_copy = off; auto allows it".into();
    }
    let method = match method() {
        Ok("process_vm_readv") => {
            "process_vm_readv (the kernel module XPMEM would be faster, and is not loaded)"
        }
        Ok(method) => method,
        Err(why) => return format!("rejected: {why}"),
    };
    let from = if from > eager { format!(" from {} on", show_bytes(from)) } else { String::new() };
    format!(
        "chosen: {method}, for messages{from} while the sender is outside MPI, and where one copy, \
         or a half by each rank, is measured to be faster than two"
    )
}

fn by_tcp(tcp: &TcpTransport, caps: &Caps, has_verbs: bool) -> String {
    let addresses: Vec<String> = tcp.listens_on().iter().map(|at| at.ip().to_string()).collect();
    let whom = match has_verbs {
        true => "processes without that network, or that RDMA does not reach",
        false => "other hosts",
    };
    format!(
        "{whom}; reached at {}; eager up to {}; above that rendezvous, read into the receive buffer",
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
    let dynamic = match rails.is_dynamic() {
        true => ", to peers without a connection by dynamically connected transport",
        false => "",
    };
    let kernel = if rails.is_emulated() { "; the kernel emulates the adapter" } else { "" };
    format!(
        "{}{reason}{kernel}; eager up to {}; above that rendezvous, {large}{dynamic}; {registration}",
        ports.join(" and "),
        show_bytes(caps.eager as u64)
    )
}

fn waiting(job: &Job, Waits { spin, kernel_works }: Waits) -> String {
    let (ranks, processors) = (job.local_size, job.processors);
    let counts = format!("ranks here: {ranks}, processors: {processors}");
    if spin.is_zero() {
        return format!("yields the processor, then sleeps ({counts})");
    }
    let yields = match kernel_works {
        true => ", with yields to the kernel, which emulates the RDMA device",
        false => "",
    };
    format!("spins for {} ms{yields}, then sleeps ({counts})", spin.as_secs_f64() * 1e3)
}

/// Describes what completes operations on a target that does not synchronise.
fn windows(by_memory: bool, has_device: bool, is_helped: bool) -> String {
    let mut text = String::from("passive targets: ");
    if by_memory {
        text += "on a host, memory that MPI has allocated by shared memory, other memory by single \
                 copy; ";
    }
    if has_device {
        text += "between hosts, put and get by the RDMA device after the first, and atomics of 8 \
                 bytes in windows that leave them to it (hint verbena_device_atomics); ";
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
             ranks, up to {} between two that exchange data; otherwise by {messages}",
            show_bytes(max),
            show_bytes(max / 2)
        );
    }
    let Some(max) = thresholds.oversubscribed_max.filter(|_| !thresholds.reproducible) else {
        return format!("by {messages}");
    };
    let how = match thresholds.shm {
        true => {
            "in shared memory if it has space (longer ones that block in pieces), or directly to \
                 and from one rank"
        }
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
            format!("up to {max} in shared memory, otherwise by messages")
        }
        None => "by messages".to_owned(),
    };
    let except = if thresholds.reproducible { "; reductions as on one host" } else { "" };
    format!(
        "within hosts {within}; between hosts by one rank of each, up to {} over four hosts or \
         more by several ranks at once, and from {} on by all ranks, a part each{except}",
        show_bytes(thresholds.fan_max),
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
        let caps = |get_min| Caps {
            frame: 1 << 18,
            eager: 1 << 16,
            get_min,
            put_min: u64::MAX,
            offload: fabric::Offload::Processor,
            late_puts: false,
        };
        let text = |get_min, method| single_copy(&caps(get_min), || Ok(method));
        let xpmem = text(1 << 17, "XPMEM");
        assert!(xpmem.starts_with("chosen: XPMEM, for messages from 128K on while "));
        assert!(text(1 << 15, "XPMEM").starts_with("chosen: XPMEM, for messages while the sender"));
        assert!(text(1 << 15, "process_vm_readv").starts_with("chosen: process_vm_readv ("));
        assert!(text(u64::MAX, "XPMEM").starts_with("rejected: shm.single_copy = off; "));
        let refused = single_copy(&caps(1 << 15), || Err("a sandbox; use none".into()));
        assert_eq!(refused, "rejected: a sandbox; use none");
    }

    #[test]
    fn a_transport_is_chosen_or_rejected() {
        assert_eq!(chosen_or(Some("by x".into()), None), "chosen: by x");
        assert_eq!(chosen_or(None, Some("no device")), "rejected: no device");
    }
}
