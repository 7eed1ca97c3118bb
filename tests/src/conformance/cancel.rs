//! Cancelling: unmatched requests disappear, matched ones go on.

use fabric::HybridGet;
use pt2pt::Mode;

use super::job::{Job, Pending, pattern};
use crate::bytes::{Bytes, Shape};

const MODES: [Mode; 4] = [Mode::Standard, Mode::Announced, Mode::Synchronous, Mode::Ready];

pub(super) fn receive<T: HybridGet>(job: &mut Job<T>) {
    let to = job.size() - 1;
    for len in job.sizes() {
        let cancelled = job.receive(to, pattern(0, 1), Shape::Run, len);
        let kept = job.receive(to, pattern(0, 1), Shape::Run, len);
        job.rank(to).cancel(cancelled.id);
        let completion = job.wait(&cancelled);
        assert!(completion.cancelled && completion.fault.is_none());
        let send = job.send(Mode::Standard, Shape::Run, 0, to, 1, 1, len);
        job.expect(&kept, 0, 1, 1, len);
        job.sent(&send);
    }
}

pub(super) fn send<T: HybridGet>(job: &mut Job<T>) {
    let to = job.size() - 1;
    for (len, mode) in job.sizes().into_iter().flat_map(|len| MODES.map(|mode| (len, mode))) {
        let before = job.send(Mode::Standard, Shape::Run, 0, to, 1, 1, len);
        let gone = job.send(mode, Shape::Run, 0, to, 1, 2, len);
        let after = job.send(Mode::Standard, Shape::Run, 0, to, 1, 3, len);
        if job.rng.chance(700) {
            job.quiet();
        }
        job.rank(0).cancel(gone.id);
        // Twice does no harm.
        job.rank(0).cancel(gone.id);
        assert!(
            job.wait(&gone).cancelled,
            "an unmatched send of {len} bytes ({mode:?}) was not cancelled"
        );
        drop(gone);
        for (id, send) in [(1, before), (3, after)] {
            let receive = job.receive(to, pattern(None, None), Shape::Run, len);
            job.expect(&receive, 0, 1, id, len);
            job.sent(&send);
        }
        job.rank(to).pt2pt.late_ready();
    }
}

pub(super) fn too_late<T: HybridGet>(job: &mut Job<T>) {
    let to = job.size() - 1;
    for (len, mode) in job.sizes().into_iter().flat_map(|len| MODES.map(|mode| (len, mode))) {
        // Matched.
        let receive = job.receive(to, pattern(0, 1), Shape::Run, len);
        let send = job.send(mode, Shape::Run, 0, to, 1, 1, len);
        job.expect(&receive, 0, 1, 1, len);
        job.rank(0).cancel(send.id);
        job.sent(&send);
        // Taken by a matched probe.
        let send = job.send(mode, Shape::Run, 0, to, 1, 2, len);
        job.quiet();
        let Some(taken) = job.rank(to).pt2pt.take(&pattern(0, 1)) else {
            panic!("the message has not arrived")
        };
        job.rank(0).cancel(send.id);
        job.quiet();
        let bytes = Bytes::for_receive(Shape::Run, len);
        let id = job.rank(to).receive_taken(taken, bytes.buffer());
        job.expect(&Pending { rank: to, id, bytes }, 0, 1, 2, len);
        job.sent(&send);
        job.rank(to).pt2pt.late_ready();
    }
}

/// Nobody wants to know what became of a send that has left, was cancelled and then freed: its rank
/// may end without the peer's answer.
pub(super) fn freed<T: HybridGet>(job: &mut Job<T>) {
    for len in job.sizes() {
        let send = job.send(Mode::Standard, Shape::Run, 0, 1, 1, 1, len);
        if job.rng.chance(500) {
            job.quiet();
        }
        let has_left = job.rank(0).pt2pt.is_complete(send.id);
        job.rank(0).cancel(send.id);
        job.rank(0).pt2pt.detach(send.id);
        let rank = job.rank(0);
        assert!(rank.pt2pt.is_recalling() == rank.pt2pt.contains(send.id));
        assert!(!has_left || fabric::Protocol::is_drained(&rank.pt2pt), "{len} bytes");
        job.quiet();
        assert!(!job.rank(0).pt2pt.is_recalling(), "the peer has answered");
        drop(send);
    }
}

/// Cancel and receive at once: either the send is cancelled and the receive gets
/// the next message, or it gets this one.
pub(super) fn race<T: HybridGet>(job: &mut Job<T>) {
    let sizes = job.sizes();
    let (mut won, mut lost) = (0, 0);
    for round in 0..400 {
        let len = job.rng.pick(&sizes).unwrap_or(0);
        let mode = job.rng.pick(&MODES[..2]).unwrap_or(Mode::Standard);
        let contested = job.send(mode, Shape::Run, 0, 1, 1, 1, len);
        (0..job.rng.below(8)).for_each(|_| job.stir());
        let cancel_first = job.rng.chance(500);
        if cancel_first {
            job.rank(0).cancel(contested.id);
        }
        (0..job.rng.below(8)).for_each(|_| job.stir());
        let receive = job.receive(1, pattern(0, 1), Shape::Run, len);
        (0..job.rng.below(8)).for_each(|_| job.stir());
        job.rank(0).cancel(contested.id);
        let next = job.send(Mode::Standard, Shape::Run, 0, 1, 1, 2, len);
        if job.wait(&contested).cancelled {
            job.expect(&receive, 0, 1, 2, len);
            won += 1;
        } else {
            job.expect(&receive, 0, 1, 1, len);
            let receive = job.receive(1, pattern(0, 1), Shape::Run, len);
            job.expect(&receive, 0, 1, 2, len);
            lost += 1;
        }
        job.sent(&next);
        assert!(
            round < 399 || (won > 0 && lost > 0),
            "the race had one outcome: {won} cancelled, {lost} not"
        );
    }
}
