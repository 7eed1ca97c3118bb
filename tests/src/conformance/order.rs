//! Messages are matched in the order sent (MPI-5.0 §3.5).

use fabric::{HybridGet, Peer};
use pt2pt::{Envelope, Mode, Pattern};

use super::job::{Job, WORLD, pattern, pattern_bytes};
use crate::bytes::{Bytes, Shape};

const MODES: [Mode; 3] = [Mode::Standard, Mode::Announced, Mode::Synchronous];

pub(super) fn across_protocols<T: HybridGet>(job: &mut Job<T>) {
    let to = job.size() - 1;
    let (sizes, top) = (job.sizes(), 200_000);
    let lens: Vec<usize> = (0..200).filter_map(|_| job.rng.pick(&sizes)).collect();
    let mut sends = Vec::new();
    let mut receives = Vec::new();
    for (at, &len) in lens.iter().enumerate() {
        // Sometimes the receives are ahead, sometimes the sends.
        let mode = job.rng.pick(&MODES).unwrap_or(Mode::Standard);
        let source = job.rng.chance(500).then_some(0);
        let receive = |job: &mut Job<T>| job.receive(to, pattern(source, 1), Shape::Run, top);
        let ahead = job.rng.chance(500).then(|| receive(job));
        sends.push(job.send(mode, Shape::Run, 0, to, 1, at as u64, len));
        receives.push(ahead.unwrap_or_else(|| receive(job)));
        job.stir();
    }
    for (at, (receive, len)) in receives.iter().zip(lens).enumerate() {
        job.expect(receive, 0, 1, at as u64, len);
    }
    sends.iter().for_each(|send| job.sent(send));
}

/// Every rank sends to rank 0, which receives with all kinds of wildcards: from each rank the
/// messages come in order, and each comes once.
pub(super) fn wildcards<T: HybridGet>(job: &mut Job<T>) {
    const MESSAGES_PER_RANK: u64 = 40;
    let size = job.size();
    let mut sends = Vec::new();
    for at in 0..MESSAGES_PER_RANK {
        for from in 0..size {
            let len = 8 + job.rng.below(3000) as usize;
            sends.push(job.send(Mode::Standard, Shape::Run, from, 0, from as i32, at, len));
            job.stir();
        }
    }
    let mut next = vec![0; size as usize];
    for _ in 0..MESSAGES_PER_RANK * u64::from(size) {
        let left: Vec<u32> =
            (0..size).filter(|&rank| next[rank as usize] < MESSAGES_PER_RANK).collect();
        let rank = job.rng.pick(&left).unwrap_or(0);
        let pattern = match job.rng.below(4) {
            0 => pattern(None, None),
            1 => pattern(rank, None),
            2 => pattern(None, rank as i32),
            _ => pattern(rank, rank as i32),
        };
        let receive = job.receive(0, pattern, Shape::Run, 3008);
        let done = job.wait(&receive);
        let (at, len) = (next[done.source as usize], done.bytes as usize);
        next[done.source as usize] += 1;
        assert!(done.tag == done.source as i32 && done.fault.is_none());
        assert!(pattern.source.is_none_or(|source| source == done.source));
        assert!(
            receive.bytes.read()[..len] == pattern_bytes(at, len)[..],
            "out of order or damaged"
        );
    }
    sends.iter().for_each(|send| job.sent(send));
}

pub(super) fn contexts<T: HybridGet>(job: &mut Job<T>) {
    let to = job.size() - 1;
    for len in job.sizes() {
        let contexts = [WORLD, WORLD + 2, u64::MAX - 1, 0];
        let mut sends = Vec::new();
        for (id, context) in (0..).zip(contexts) {
            let bytes = Bytes::new(Shape::Run, &pattern_bytes(id, len));
            let envelope = Envelope { context, source: 0, tag: 1, collective: None };
            let id = job.rank(0).send(Mode::Standard, Peer(to), envelope, bytes.buffer());
            sends.push(super::job::Pending { rank: 0, id, bytes });
        }
        for (id, context) in contexts.into_iter().enumerate().rev() {
            let pattern = Pattern { context, source: None, tag: None, collective: None };
            let receive = job.receive(to, pattern, Shape::Run, len);
            job.expect(&receive, 0, 1, id as u64, len);
        }
        sends.iter().for_each(|send| job.sent(send));
    }
}
