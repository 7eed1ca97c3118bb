//! The transports and methods that this process uses, and why, as text for `mpiexec --explain`,
//! which combines the texts of all ranks.

use std::time::Duration;

use bootstrap::Job;
use config::{Knobs, Origin, Registration, knob, show_bytes};
use fabric::coll_segment::MAX_FLAGS_RANKS;
use fabric::{Caps, Peer, Transport};
use shm_transport::ShmTransport;
use verbs_transport::Rails;

use crate::collective;
use crate::stack::Endpoint;

/// Topics and sentences, before any message was sent.
pub(crate) fn explain(
    job: &Job,
    knobs: &Knobs,
    endpoint: &Endpoint,
    spin: Duration,
) -> Vec<(String, String)> {
    let here = job.local_ranks();
    let near = here.clone().find(|rank| *rank != job.rank);
    let far = (0..job.size).find(|rank| !here.contains(rank));
    let mut ways = Vec::new();
    let mut say = |topic: &str, text: String| ways.push((topic.to_owned(), text));
    if let Some(near) = near {
        let has_xpmem = endpoint.intra().is_some_and(ShmTransport::has_xpmem);
        say("on the host", on_the_host(endpoint.caps(Peer(near)), has_xpmem));
    }
    if let (Some(far), Some(rails)) = (far, endpoint.inter()) {
        say("between hosts", between_hosts(rails, endpoint.caps(Peer(far))));
    }
    say("waiting", waiting(job, spin));
    say("collectives", collectives(job, knobs));
    let set: Vec<String> = knobs
        .iter()
        .filter(|(knob, _, origin)| {
            **origin != Origin::Default && knob.name != knob::REPORT_TRANSPORTS.knob().name
        })
        .map(|(knob, value, origin)| format!("{} = {value} ({origin})", knob.name))
        .collect();
    if !set.is_empty() {
        say("settings", set.join(", "));
    }
    ways
}

fn on_the_host(caps: &Caps, has_xpmem: bool) -> String {
    let (eager, from) = (caps.eager as u64, caps.get_min);
    let mut text = format!(
        "shared memory; messages up to {} leave at once, larger ones when their receive is there, copied by both sides",
        show_bytes(eager)
    );
    if from == u64::MAX {
        text += ", never by single copy";
    } else {
        let from =
            if from > eager { format!(" from {} on", show_bytes(from)) } else { String::new() };
        let by = if has_xpmem { "by XPMEM" } else { "by process_vm_readv, without XPMEM" };
        text += &format!(
            ", or{from}, where a trial succeeds, read by the receiver out of the memory of a sender that computes (single \
             copy {by})"
        );
    }
    text
}

fn between_hosts(rails: &Rails, caps: &Caps) -> String {
    let ports: Vec<String> = rails.ports().map(ToString::to_string).collect();
    let large = match (caps.get_min, caps.put_min) {
        (u64::MAX, u64::MAX) => "larger ones go in pieces when their receive is there".into(),
        (u64::MAX, from) => {
            format!("from {} on they are written by their sender", show_bytes(from))
        }
        (from, _) => format!("from {} on they are read by their receiver", show_bytes(from)),
    };
    let kept = match rails.registration() {
        Registration::Userfaultfd => {
            "buffers stay registered as long as userfaultfd reports no change"
        }
        Registration::Odp => "the device pages buffers in by itself",
        Registration::Auto | Registration::None => "buffers are registered for each message",
    };
    let kernel = if rails.is_emulated() { "; the kernel does the adapter's work" } else { "" };
    format!(
        "RDMA by {}{kernel}; messages up to {} leave at once, {large}; {kept}",
        ports.join(" and "),
        show_bytes(caps.eager as u64)
    )
}

fn waiting(job: &Job, spin: Duration) -> String {
    let (ranks, processors) = (job.local_size, job.processors);
    let who = format!("ranks here: {ranks}, processors: {processors}");
    if spin.is_zero() {
        return format!("lets others have the processor, then sleeps ({who})");
    }
    format!("looks for messages for {} ms, then sleeps ({who})", spin.as_secs_f64() * 1e3)
}

fn collectives(job: &Job, knobs: &Knobs) -> String {
    let thresholds = collective::thresholds(knobs, job);
    if let Some(short) = thresholds.shm_max.filter(|_| thresholds.shm) {
        let which = if thresholds.reproducible { " but reductions" } else { "" };
        return format!(
            "all{which} up to {} meet in shared memory, where at most {MAX_FLAGS_RANKS} ranks take part; others in messages, in trees, \
             rings or rounds by size",
            show_bytes(short)
        );
    }
    let Some(short) = thresholds.oversubscribed_max.filter(|_| !thresholds.reproducible) else {
        return "messages, in trees, rings or rounds by size".into();
    };
    let how = match thresholds.shm {
        true => "meet in shared memory where that has room, or go straight to and from one rank",
        false => "go straight to and from one rank",
    };
    format!(
        "barriers, and broadcasts and reductions up to {}, {how}, as ranks outnumber processors; others in messages",
        show_bytes(short)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_large_messages_are_read_on_a_host_is_named() {
        let caps = |get_min| Caps { frame: 1 << 18, eager: 1 << 16, get_min, put_min: u64::MAX };
        let ways = |get_min, has_xpmem| on_the_host(&caps(get_min), has_xpmem);
        assert!(ways(1 << 17, true).contains(" from 128K on, where a trial succeeds, "));
        assert!(ways(1 << 15, true).ends_with("(single copy by XPMEM)"));
        assert!(ways(1 << 15, false).ends_with("(single copy by process_vm_readv, without XPMEM)"));
        assert!(ways(u64::MAX, false).ends_with(", never by single copy"));
    }
}
