//! Random operations on all ranks, checked against what MPI promises.
//!
//! The engine may match in any way the arrival order allows. Therefore the check is not one
//! expected outcome but the rules: every message is received once and whole or cancelled. Of two
//! messages from one process the earlier one goes to the earlier of two receives that take both.
//! Nothing that fits is left over.

use std::collections::HashMap;

use fabric::sim::Rng;
use fabric::{HybridGet, Peer};
use pt2pt::{Completion, Envelope, Fault, Mode, Pattern};

use super::job::{Job, Pending, pattern_bytes};
use crate::bytes::{Bytes, Shape};

/// The parameters of a storm.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Random operations.
    pub steps: usize,
    /// How many of 1,000 operations are cancellations.
    pub cancels: u32,
    /// Longest message, bytes.
    pub longest: usize,
}

impl Default for Weather {
    fn default() -> Weather {
        Weather { steps: 600, cancels: 60, longest: 100_000 }
    }
}

struct Message {
    from: u32,
    to: u32,
    context: u64,
    tag: i32,
    len: usize,
    /// `None` once it has ended.
    pending: Option<Pending>,
    cancelled: bool,
    received: bool,
}

struct Receive {
    at: u32,
    pattern: Pattern,
    capacity: usize,
    pending: Option<Pending>,
    /// The message it got.
    message: Option<usize>,
}

#[derive(Default)]
struct Storm {
    /// In the order sent; the index is the message's id.
    messages: Vec<Message>,
    /// In the order posted.
    receives: Vec<Receive>,
    /// From the first eight bytes to the id.
    ids: HashMap<[u8; 8], usize>,
}

const CONTEXTS: [u64; 2] = [4, 6];
const TAGS: u64 = 3;

/// A storm over all ranks of the job, and the calm after it.
pub fn storm<T: HybridGet>(job: &mut Job<T>, weather: &Weather) {
    let mut storm = Storm::default();
    for _ in 0..weather.steps {
        storm.step(job, weather);
        job.stir();
    }
    job.quiet();
    storm.collect(job);
    storm.check_nothing_fits();
    storm.check_order();
    storm.clear_up(job);
}

fn accepts(pattern: &Pattern, message: &Message) -> bool {
    pattern.context == message.context
        && pattern.source.is_none_or(|source| source == message.from)
        && pattern.tag.is_none_or(|tag| tag == message.tag)
}

fn random_pattern(rng: &mut Rng, size: u32) -> Pattern {
    let source = rng.chance(600).then(|| rng.below(u64::from(size)) as u32);
    let tag = rng.chance(600).then(|| rng.below(TAGS) as i32);
    Pattern { context: rng.pick(&CONTEXTS).unwrap_or(4), source, tag, collective: None }
}

impl Storm {
    fn step<T: HybridGet>(&mut self, job: &mut Job<T>, weather: &Weather) {
        if job.rng.chance(weather.cancels) {
            return self.cancel(job);
        }
        match job.rng.below(100) {
            0..46 => self.send(job, weather),
            46..52 => self.take(job, weather),
            _ => self.receive(job, weather),
        }
    }

    fn len<T: HybridGet>(job: &mut Job<T>, weather: &Weather) -> usize {
        let sizes = job.sizes();
        let picked = job.rng.pick(&sizes).unwrap_or(8);
        let len = if job.rng.chance(300) {
            job.rng.below(weather.longest as u64) as usize
        } else {
            picked
        };
        len.clamp(8, weather.longest)
    }

    fn send<T: HybridGet>(&mut self, job: &mut Job<T>, weather: &Weather) {
        let len = Storm::len(job, weather);
        let (size, rng) = (u64::from(job.size()), &mut job.rng);
        let (from, to, tag) =
            (rng.below(size) as u32, rng.below(size) as u32, rng.below(TAGS) as i32);
        let context = rng.pick(&CONTEXTS).unwrap_or(4);
        let mode = match rng.below(10) {
            0..3 => Mode::Synchronous,
            3..5 => Mode::Announced,
            _ => Mode::Standard,
        };
        let shape = if rng.chance(200) { Shape::Strided } else { Shape::Run };
        let at_once = rng.chance(400);

        let id = self.messages.len();
        let data = pattern_bytes(id as u64, len);
        self.ids.insert(std::array::from_fn(|at| data[at]), id);
        let bytes = Bytes::new(shape, &data);
        let envelope = Envelope { context, source: from, tag, collective: None };
        let engine = job.rank(from);
        let left = at_once
            && engine
                .send_now(mode, Peer(to), &envelope, &bytes.buffer())
                .is_ok_and(|sent| sent.is_some());
        let pending = (!left).then(|| Pending {
            rank: from,
            id: engine.send(mode, Peer(to), envelope, bytes.buffer()),
            bytes,
        });
        self.messages.push(Message {
            from,
            to,
            context,
            tag,
            len,
            pending,
            cancelled: false,
            received: false,
        });
    }

    fn receive<T: HybridGet>(&mut self, job: &mut Job<T>, weather: &Weather) {
        let (capacity, size) = (Storm::capacity(job, weather), job.size());
        let at = job.rng.below(u64::from(size)) as u32;
        let pattern = random_pattern(&mut job.rng, size);
        let shape = if job.rng.chance(200) { Shape::Strided } else { Shape::Run };
        let pending = Some(job.receive(at, pattern, shape, capacity));
        self.receives.push(Receive { at, pattern, capacity, pending, message: None });
    }

    /// Mostly space for everything.
    fn capacity<T: HybridGet>(job: &mut Job<T>, weather: &Weather) -> usize {
        if job.rng.chance(850) { weather.longest } else { Storm::len(job, weather) }
    }

    /// A matched probe and its receive.
    fn take<T: HybridGet>(&mut self, job: &mut Job<T>, weather: &Weather) {
        let size = job.size();
        let at = job.rng.below(u64::from(size)) as u32;
        let pattern = random_pattern(&mut job.rng, size);
        let seen = job.rank(at).pt2pt.probe(&pattern);
        let Some(taken) = job.rank(at).pt2pt.take(&pattern) else { return assert_eq!(seen, None) };
        let capacity = Storm::capacity(job, weather);
        let bytes = Bytes::for_receive(Shape::Run, capacity);
        let place = self.receives.len();
        self.receives.push(Receive { at, pattern, capacity, pending: None, message: None });
        job.stir();
        let id = job.rank(at).receive_taken(taken, bytes.buffer());
        self.receives[place].pending = Some(Pending { rank: at, id, bytes });
    }

    fn cancel<T: HybridGet>(&mut self, job: &mut Job<T>) {
        let of_sends = self.messages.iter().filter_map(|message| message.pending.as_ref());
        let of_receives = self.receives.iter().filter_map(|receive| receive.pending.as_ref());
        let all: Vec<_> =
            of_sends.chain(of_receives).map(|pending| (pending.rank, pending.id)).collect();
        if let Some((rank, id)) = job.rng.pick(&all) {
            job.rank(rank).cancel(id);
        }
    }

    /// Takes the outcome of everything that has ended.
    fn collect<T: HybridGet>(&mut self, job: &mut Job<T>) {
        for message in &mut self.messages {
            let Some(pending) = &message.pending else { continue };
            // Complete, but unmatched: it may still be cancelled.
            let Some(done) =
                job.rank(pending.rank).pt2pt.is_complete(pending.id).then_some(pending)
            else {
                continue;
            };
            if !message.cancelled && job.rng.chance(500) {
                continue;
            }
            let completion = job.wait(done);
            assert_eq!(completion.fault, None);
            message.cancelled = completion.cancelled;
            message.pending = None;
        }
        for place in 0..self.receives.len() {
            let receive = &mut self.receives[place];
            let done = receive
                .pending
                .take_if(|pending| job.rank(pending.rank).pt2pt.is_complete(pending.id));
            if let Some(done) = done {
                let completion = job.wait(&done);
                self.received(place, &completion, &done.bytes.read());
            }
        }
        // Those that were kept above and were cancelled before.
        for message in &mut self.messages {
            let Some(pending) = message.pending.take() else { continue };
            if message.received && job.rank(pending.rank).pt2pt.is_complete(pending.id) {
                assert!(!job.wait(&pending).cancelled, "a cancelled message was received");
            } else {
                message.pending = Some(pending);
            }
        }
    }

    fn received(&mut self, place: usize, completion: &Completion, data: &[u8]) {
        if completion.cancelled {
            return;
        }
        let receive = &mut self.receives[place];
        let first = std::array::from_fn(|at| data[at]);
        let Some(&id) = self.ids.get(&first) else {
            panic!("a message that was never sent: {completion:?}")
        };
        let message = &mut self.messages[id];
        assert!(
            !message.received && !message.cancelled,
            "message {id} came twice, or after its cancellation"
        );
        assert!(
            message.to == receive.at && accepts(&receive.pattern, message),
            "message {id} was matched wrongly"
        );
        assert_eq!((completion.source, completion.tag), (message.from, message.tag));
        let stored = message.len.min(receive.capacity);
        assert_eq!(completion.bytes, stored as u64);
        let truncated = matches!(completion.fault.as_deref(), Some(Fault::Truncated { .. }));
        assert_eq!(truncated, message.len > receive.capacity);
        assert!(
            data[..stored] == pattern_bytes(id as u64, message.len)[..stored],
            "message {id} is damaged"
        );
        assert!(data[stored..].iter().all(|&byte| byte == 0));
        message.received = true;
        receive.message = Some(id);
    }

    fn check_nothing_fits(&mut self) {
        // A send that was kept to be cancelled may have been cancelled already.
        for receive in self.receives.iter().filter(|receive| receive.pending.is_some()) {
            let fits = |message: &&Message| {
                let open = !message.received && !message.cancelled && message.pending.is_none();
                open && message.to == receive.at && accepts(&receive.pattern, message)
            };
            assert!(
                self.messages.iter().find(fits).is_none(),
                "a receive and a message that match were left over"
            );
        }
    }

    fn check_order(&self) {
        let matched =
            self.receives.iter().filter_map(|receive| receive.message.map(|id| (receive, id)));
        let matched: Vec<(&Receive, usize)> = matched.collect();
        for (place, &(earlier, its)) in matched.iter().enumerate() {
            for &(later, other) in &matched[place + 1..] {
                let (a, b) = (&self.messages[its], &self.messages[other]);
                let same_way = earlier.at == later.at && a.from == b.from && a.context == b.context;
                let overtaken = same_way && other < its && accepts(&earlier.pattern, b);
                assert!(
                    !overtaken,
                    "message {other} was sent before {its} and went to a later receive"
                );
            }
        }
    }

    /// Cancels the receives that are left, and cancels or receives the messages.
    fn clear_up<T: HybridGet>(&mut self, job: &mut Job<T>) {
        for receive in &mut self.receives {
            let Some(pending) = receive.pending.take() else { continue };
            job.rank(pending.rank).cancel(pending.id);
            assert!(job.wait(&pending).cancelled);
        }
        for message in &mut self.messages {
            if let Some(pending) = message.pending.as_ref().filter(|_| job.rng.chance(500)) {
                job.rank(pending.rank).cancel(pending.id);
                assert!(job.wait(pending).cancelled, "an unmatched message could not be cancelled");
                message.pending = None;
                message.cancelled = true;
            }
        }
        for (id, message) in self.messages.iter_mut().enumerate() {
            if message.received || message.cancelled {
                continue;
            }
            if let Some(pending) = &message.pending
                && let Some(completion) = job.rank(pending.rank).pt2pt.finish(pending.id)
            {
                message.pending = None;
                if completion.cancelled {
                    continue;
                }
            }
            let Message { from, to, context, tag, len, .. } = *message;
            let pattern = Pattern { context, source: Some(from), tag: Some(tag), collective: None };
            let receive = job.receive(to, pattern, Shape::Run, len);
            job.expect(&receive, from, tag, id as u64, len);
            if let Some(pending) = message.pending.take() {
                job.sent(&pending);
            }
        }
    }
}
