//! More than the receiver requested: memory is bounded and matching flat.

use fabric::HybridGet;
use pt2pt::Mode;

use super::job::{Job, Pending, pattern};
use crate::bytes::Shape;

/// All ranks send to the last one, which makes progress but receives nothing until all is sent.
pub(super) fn bounded<T: HybridGet>(job: &mut Job<T>) {
    const MESSAGES_PER_RANK: u64 = 4000;
    // The default budget of each sender, and the largest message beyond it.
    const BUDGET: u64 = 1 << 20;
    let to = job.size() - 1;
    let len = job.caps().eager.min(1024);
    let mut sends: Vec<Pending> = Vec::new();
    for at in 0..MESSAGES_PER_RANK {
        for from in 0..job.size() {
            sends.push(job.send(Mode::Standard, Shape::Run, from, to, at as i32, at, len));
        }
        job.stir();
        let held = job.rank(to).pt2pt.unexpected_bytes();
        let bound = u64::from(job.size()) * BUDGET;
        assert!(held <= bound, "{held} bytes held, {bound} allowed");
    }
    job.quiet();
    let early = sends
        .iter()
        .filter(|send| job.ranks[send.rank as usize].pt2pt.is_complete(send.id))
        .count() as u64;
    let (count, capacity) =
        (sends.len() as u64, u64::from(job.size()) * (BUDGET / (len as u64 + 128)));
    assert_eq!(early, count.min(capacity), "the budget was not used, or passed");
    for at in (0..MESSAGES_PER_RANK).rev() {
        for from in 0..job.size() {
            let receive = job.receive(to, pattern(from, at as i32), Shape::Run, len);
            job.expect(&receive, from, at as i32, at, len);
        }
    }
    sends.iter().for_each(|send| job.sent(send));
    // The budget is there again, except an amount that is too small to be returned.
    job.quiet();
    let again: Vec<Pending> = (0..BUDGET / 2 / (len as u64 + 128))
        .map(|at| job.send(Mode::Standard, Shape::Run, 0, to, 1, at, len))
        .collect();
    job.quiet();
    for (at, send) in (0..).zip(again) {
        assert!(job.rank(0).pt2pt.is_complete(send.id));
        let receive = job.receive(to, pattern(0, 1), Shape::Run, len);
        job.expect(&receive, 0, 1, at, len);
        job.sent(&send);
    }
}

pub(super) fn backwards<T: HybridGet>(job: &mut Job<T>) {
    const COUNT: i32 = 20_000;
    let to = job.size() - 1;
    let sends: Vec<Pending> = (0..COUNT)
        .map(|tag| job.send(Mode::Standard, Shape::Run, 0, to, tag, tag as u64, 8))
        .collect();
    job.quiet();
    for tag in (0..COUNT).rev() {
        let source = if tag % 3 == 0 { None } else { Some(0) };
        let receive = job.receive(to, pattern(source, tag), Shape::Run, 8);
        job.expect(&receive, 0, tag, tag as u64, 8);
    }
    sends.iter().for_each(|send| job.sent(send));
    let receives: Vec<Pending> =
        (0..COUNT).map(|tag| job.receive(to, pattern(0, tag), Shape::Run, 8)).collect();
    for tag in (0..COUNT).rev() {
        let send = job.send(Mode::Standard, Shape::Run, 0, to, tag, tag as u64, 8);
        job.expect(&receives[tag as usize], 0, tag, tag as u64, 8);
        job.sent(&send);
    }
}
