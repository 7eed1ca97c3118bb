//! One message at a time.

use fabric::{Collective, CollectiveKind, HybridGet, Peer};
use pt2pt::{Envelope, Fault, LateReady, Mode, Pattern};

use super::job::{Job, WORLD, envelope, pattern, pattern_bytes};
use crate::bytes::{Bytes, Shape};

const SHAPES: [Shape; 2] = [Shape::Run, Shape::Strided];

/// The rank messages go to: another one if there is one.
fn other<T: HybridGet>(job: &Job<T>) -> u32 {
    job.size() - 1
}

pub(super) fn sizes_and_modes<T: HybridGet>(job: &mut Job<T>) {
    let to = other(job);
    let mut id = 0;
    let mut sizes = job.sizes();
    sizes.extend([1 << 20, (5 << 20) + 3]);
    for len in sizes {
        for mode in [Mode::Standard, Mode::Announced, Mode::Synchronous, Mode::Ready] {
            for (from, into) in
                [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| (SHAPES[a], SHAPES[b]))
            {
                id += 1;
                receive_first(job, mode, to, (from, into), id, len);
                if mode != Mode::Ready {
                    send_first(job, mode, to, (from, into), id, len);
                }
            }
        }
        send_at_once(job, to, id, len);
    }
}

fn receive_first<T: HybridGet>(
    job: &mut Job<T>,
    mode: Mode,
    to: u32,
    shapes: (Shape, Shape),
    id: u64,
    len: usize,
) {
    let receive = job.receive(to, pattern(0, 5), shapes.1, len);
    let send = job.send(mode, shapes.0, 0, to, 5, id, len);
    job.expect(&receive, 0, 5, id, len);
    job.sent(&send);
    assert_eq!(job.rank(to).pt2pt.late_ready(), None);
}

fn send_first<T: HybridGet>(
    job: &mut Job<T>,
    mode: Mode,
    to: u32,
    shapes: (Shape, Shape),
    id: u64,
    len: usize,
) {
    let send = job.send(mode, shapes.0, 0, to, 5, id, len);
    if job.rng.chance(500) {
        job.quiet();
    }
    // Space for more than is sent.
    let receive = job.receive(to, pattern(0, 5), shapes.1, len + 7);
    job.expect(&receive, 0, 5, id, len);
    job.sent(&send);
}

/// The way of a blocking send.
fn send_at_once<T: HybridGet>(job: &mut Job<T>, to: u32, id: u64, len: usize) {
    let bytes = Bytes::new(Shape::Run, &pattern_bytes(id, len));
    let left = job.rank(0).send_now(Mode::Standard, Peer(to), &envelope(0, 6), &bytes.buffer());
    let send = match left {
        Ok(Some(_)) => None,
        Ok(None) => Some(job.send(Mode::Standard, Shape::Run, 0, to, 6, id, len)),
        Err(lost) => panic!("{lost}"),
    };
    // Buffers of sent messages may be overwritten.
    drop(bytes);
    let receive = job.receive(to, pattern(None, None), Shape::Run, len);
    job.expect(&receive, 0, 6, id, len);
    if let Some(send) = send {
        job.sent(&send);
    }
}

pub(super) fn every_pair<T: HybridGet>(job: &mut Job<T>) {
    let (size, eager) = (job.size(), job.caps().eager);
    for len in [8, eager + 1, 40_000] {
        let mut pending = Vec::new();
        for (from, to) in (0..size * size).map(|pair| (pair / size, pair % size)) {
            let id = u64::from(from * size + to);
            let send = job.send(Mode::Standard, Shape::Run, from, to, 1, id, len);
            let receive = job.receive(to, pattern(from, 1), Shape::Run, len);
            pending.push((from, id, send, receive));
            job.stir();
        }
        for (from, id, send, receive) in pending {
            job.expect(&receive, from, 1, id, len);
            job.sent(&send);
        }
    }
}

pub(super) fn truncation<T: HybridGet>(job: &mut Job<T>) {
    let to = other(job);
    for (len, capacity) in
        job.sizes().into_iter().flat_map(|len| [(len + 1, len), (len + 1, 0), (len + 1, len / 2)])
    {
        for (first, shape) in [(true, Shape::Run), (false, Shape::Strided), (false, Shape::Run)] {
            let mode = if job.rng.chance(300) { Mode::Synchronous } else { Mode::Standard };
            let early = first.then(|| job.receive(to, pattern(0, 9), shape, capacity));
            let send = job.send(mode, Shape::Run, 0, to, 9, 77, len);
            let receive = early.unwrap_or_else(|| job.receive(to, pattern(0, 9), shape, capacity));
            let completion = job.wait(&receive);
            let (sent, capacity) = (len as u64, capacity as u64);
            let fault = Fault::Truncated { source: 0, tag: 9, context: WORLD, sent, capacity };
            assert_eq!((completion.bytes, completion.fault), (capacity, Some(Box::new(fault))));
            assert!(receive.bytes.read() == pattern_bytes(77, capacity as usize));
            job.sent(&send);
        }
    }
}

pub(super) fn synchronous<T: HybridGet>(job: &mut Job<T>) {
    let to = other(job);
    for len in job.sizes() {
        let send = job.send(Mode::Synchronous, Shape::Run, 0, to, 3, 1, len);
        job.quiet();
        assert!(
            !job.rank(0).pt2pt.is_complete(send.id),
            "a synchronous send of {len} bytes did not wait"
        );
        let taken = job.rank(to).pt2pt.take(&pattern(0, 3));
        let Some(taken) = taken else { panic!("the message has not arrived") };
        job.quiet();
        assert!(!job.rank(0).pt2pt.is_complete(send.id));
        let bytes = Bytes::for_receive(Shape::Run, len);
        let id = job.rank(to).receive_taken(taken, bytes.buffer());
        job.expect(&super::job::Pending { rank: to, id, bytes }, 0, 3, 1, len);
        job.sent(&send);
    }
}

pub(super) fn eager<T: HybridGet>(job: &mut Job<T>) {
    let longest = job.caps().eager.min(1 << 18);
    for len in job.sizes().into_iter().filter(|&len| len <= longest) {
        for (mode, shape) in [(Mode::Standard, Shape::Run), (Mode::Ready, Shape::Strided)] {
            for id in [1, 2] {
                // A device may take less until it knows that the peer has what was sent before,
                // which it learns from an answer.
                if len > job.caps().eager {
                    let receive = job.receive(0, pattern(1, 7), Shape::Run, 0);
                    let answer = job.send(Mode::Standard, Shape::Run, 1, 0, 7, 0, 0);
                    job.sent(&answer);
                    job.expect(&receive, 1, 7, 0, 0);
                }
                let send = job.send(mode, shape, 0, 1, 6, id, len);
                job.sent(&send);
            }
            for id in [1, 2] {
                let receive = job.receive(1, pattern(0, 6), shape, len);
                job.expect(&receive, 0, 6, id, len);
            }
        }
        job.rank(1).pt2pt.late_ready();
    }
}

pub(super) fn ready<T: HybridGet>(job: &mut Job<T>) {
    let to = other(job);
    for len in job.sizes() {
        let send = job.send(Mode::Ready, Shape::Run, 0, to, 4, 2, len);
        job.quiet();
        let receive = job.receive(to, pattern(0, 4), Shape::Run, len);
        job.expect(&receive, 0, 4, 2, len);
        job.sent(&send);
        let late = LateReady { source: 0, tag: 4, context: WORLD };
        assert_eq!(job.rank(to).pt2pt.late_ready(), Some(late));
        assert_eq!(job.rank(to).pt2pt.late_ready(), None);
    }
}

pub(super) fn mismatched<T: HybridGet>(job: &mut Job<T>) {
    let to = other(job);
    let of = |kind, root| Some(Collective::new(kind, Some(root), None));
    let theirs = of(CollectiveKind::Bcast, 0);
    let others = [of(CollectiveKind::Bcast, 1), of(CollectiveKind::Reduce, 0), None];
    for (len, ours) in job.sizes().into_iter().flat_map(|len| others.map(|ours| (len, ours))) {
        let bytes = Bytes::new(Shape::Run, &pattern_bytes(1, len));
        let envelope = Envelope { context: WORLD + 1, source: 0, tag: 12, collective: theirs };
        let id = job.rank(0).send(Mode::Standard, Peer(to), envelope, bytes.buffer());
        let send = super::job::Pending { rank: 0, id, bytes };
        job.stir();
        let pattern =
            Pattern { context: WORLD + 1, source: Some(0), tag: Some(12), collective: ours };
        let receive = job.receive(to, pattern, Shape::Run, len);
        let completion = job.wait(&receive);
        let Some(Fault::Mismatched { ours: a, theirs: b, source: 0, sequence: 12, .. }) =
            completion.fault.as_deref()
        else {
            panic!("{completion:?}")
        };
        assert_eq!(a.kind, ours.map_or(0, |ours| ours.kind as u8));
        assert_eq!((b.kind, b.root), (CollectiveKind::Bcast as u8, 0));
        assert_eq!((completion.bytes, receive.bytes.read()), (0, vec![0; len]));
        job.sent(&send);
    }
}

pub(super) fn detached<T: HybridGet>(job: &mut Job<T>) {
    let to = other(job);
    for len in job.sizes() {
        for mode in [Mode::Standard, Mode::Announced, Mode::Synchronous] {
            let send = job.send(mode, Shape::Run, 0, to, 8, 3, len);
            job.rank(0).pt2pt.detach(send.id);
            job.stir();
            let receive = job.receive(to, pattern(0, 8), Shape::Run, len);
            let last = job.receive(to, pattern(0, 9), Shape::Run, 0);
            job.rank(to).pt2pt.detach(receive.id);
            job.send(Mode::Synchronous, Shape::Run, 0, to, 9, 0, 0);
            job.expect(&last, 0, 9, 0, 0);
            job.quiet();
            assert!(receive.bytes.read() == pattern_bytes(3, len));
            assert!(
                job.rank(0).pt2pt.finish(send.id).is_none()
                    && job.rank(to).pt2pt.finish(receive.id).is_none()
            );
        }
    }
    job.rank(0).progress();
}
