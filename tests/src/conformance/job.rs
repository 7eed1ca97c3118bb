//! All ranks of a job in one thread.

use std::time::Duration;

use fabric::sim::{Options, Rng};
use fabric::{Caps, HybridGet, Peer, WaitOn};
use pt2pt::{Completion, Envelope, Mode, Pattern, RequestId, Settings};

use crate::bytes::{Bytes, Shape};
use crate::idle::readable;

use super::rank::Rank;
use super::unrest::Unrest;

/// Rounds of progress, and time, after which a wait is given up.
const MAX_ROUNDS: usize = 2_000_000;
const MAX_WAIT: Duration = Duration::from_secs(120);
/// Rounds without movement, in which all ranks would sleep, after which nothing will move. A rank
/// that would not sleep has something to do, however often it does it in vain.
const MAX_IDLE_ROUNDS: usize = 300;
/// How long all ranks sleep on a device when each may; it counts as so many rounds.
const NAP: (Duration, usize) = (Duration::from_millis(2), MAX_IDLE_ROUNDS / 4);

/// Point-to-point on the world communicator of the tests, where ranks and peers
/// have the same numbers.
pub(super) const WORLD: u64 = 2;

/// Engines of all ranks and what a case needs to drive them.
pub struct Job<T: HybridGet> {
    pub(super) ranks: Vec<Rank<T>>,
    pub(super) rng: Rng,
    /// Ranks that are no longer driven.
    pub(super) dead: Vec<u32>,
    nap: Duration,
    /// Rounds in which nothing has moved.
    still: usize,
    /// What the ranks did since the wait began.
    unrest: Unrest,
    /// Describes a transport when a wait is given up.
    explain: fn(&T) -> String,
    case: String,
    seed: u64,
}

/// Bytes that distinguish messages at every place.
pub fn pattern_bytes(id: u64, len: usize) -> Vec<u8> {
    let mut stream = Rng::new(id);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&stream.bits().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// An envelope on the tests' communicator.
pub fn envelope(source: u32, tag: i32) -> Envelope {
    Envelope { context: WORLD, source, tag, collective: None }
}

/// A pattern on the tests' communicator.
pub fn pattern(source: impl Into<Option<u32>>, tag: impl Into<Option<i32>>) -> Pattern {
    Pattern { context: WORLD, source: source.into(), tag: tag.into(), collective: None }
}

/// A send or receive with its memory.
#[derive(Debug)]
pub struct Pending {
    pub(super) rank: u32,
    pub(super) id: RequestId,
    pub(super) bytes: Bytes,
}

impl<T: HybridGet> Job<T> {
    /// A job with the default settings.
    pub fn new(case: &str, seed: u64, transports: Vec<T>) -> Job<T> {
        Job::with_settings(case, seed, transports, Settings::default())
    }

    /// A job.
    pub fn with_settings(case: &str, seed: u64, transports: Vec<T>, settings: Settings) -> Job<T> {
        let ranks = (0..).map(Peer);
        let ranks = ranks.zip(transports).map(|(me, transport)| Rank::new(me, transport, settings));
        Job {
            ranks: ranks.collect(),
            rng: Rng::new(seed),
            dead: Vec::new(),
            nap: NAP.0,
            still: 0,
            unrest: Unrest::default(),
            explain: |_| String::new(),
            case: case.to_owned(),
            seed,
        }
    }

    /// On a slow device: nothing that still moves takes four times as long to show.
    pub fn nap(&mut self, nap: Duration) {
        self.nap = nap;
    }

    /// Lets a wait that is given up report what `explain` says of each transport.
    pub fn explain_by(&mut self, explain: fn(&T) -> String) {
        self.explain = explain;
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// The engine of a rank.
    pub fn rank(&mut self, rank: u32) -> &mut Rank<T> {
        &mut self.ranks[rank as usize]
    }

    /// The same job, with new settings for every engine.
    pub(super) fn caps(&self) -> Caps {
        match self.ranks.first() {
            Some(engine) if self.ranks.len() > 1 => *engine.transport.caps(Peer(1)),
            _ => Caps { get_min: 16384, ..Options::default().caps },
        }
    }

    /// Sizes around everything that changes with the size.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let Caps { frame, eager, get_min, put_min, .. } = self.caps();
        let mut sizes = vec![0, 1, 8, 24, 25, 38, 39, 4096, 65536, 65537];
        sizes.extend([
            eager - 1,
            eager,
            eager + 1,
            frame - 1,
            frame,
            frame + 1,
            2 * frame,
            3 * frame + 1,
        ]);
        let from = get_min.min(put_min) as usize;
        if from < 1 << 22 {
            sizes.extend([from - 1, from, from + 1]);
        }
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Starts a send of `len` bytes that follow from `id`.
    #[allow(clippy::too_many_arguments)] // all different, and all matter in some case
    pub fn send(
        &mut self,
        mode: Mode,
        shape: Shape,
        from: u32,
        to: u32,
        tag: i32,
        id: u64,
        len: usize,
    ) -> Pending {
        let bytes = Bytes::new(shape, &pattern_bytes(id, len));
        let id = self.rank(from).send(mode, Peer(to), envelope(from, tag), bytes.buffer());
        Pending { rank: from, id, bytes }
    }

    /// Starts a receive with space for `len` bytes.
    pub fn receive(&mut self, at: u32, pattern: Pattern, shape: Shape, len: usize) -> Pending {
        let bytes = Bytes::for_receive(shape, len);
        let id = self.rank(at).receive(pattern, bytes.buffer());
        Pending { rank: at, id, bytes }
    }

    /// One round of progress of each rank that would not sleep; returns true if anything moved. A
    /// wake-up that is missing shows as a wait for ever.
    pub fn progress(&mut self) -> bool {
        let (mut moved, mut is_any_awake, mut asleep) = (false, false, Vec::new());
        for (rank, engine) in self.ranks.iter_mut().enumerate() {
            if self.dead.contains(&(rank as u32)) {
                continue;
            }
            match engine.arm() {
                None => {
                    let has_moved = engine.progress();
                    self.unrest.progressed(rank, has_moved);
                    moved |= has_moved;
                    is_any_awake = true;
                }
                Some(WaitOn::Fd(fd)) => asleep.push((rank, fd)),
                Some(_) => {}
            }
        }
        // On a device nothing moves while all ranks only check whether something has.
        if asleep.len() == self.ranks.len() - self.dead.len() {
            let fds: Vec<_> = asleep.iter().map(|&(_, fd)| fd).collect();
            let woken = readable(&fds, self.nap);
            self.still = if woken.is_empty() { self.still + NAP.1 } else { 0 };
            woken.into_iter().for_each(|index| self.unrest.woke(asleep[index].0));
        }
        self.still = if is_any_awake { 0 } else { self.still + 1 };
        self.ranks.iter_mut().for_each(Rank::disarm);
        moved
    }

    /// Some progress of some rank, or none.
    pub fn stir(&mut self) {
        for _ in 0..self.rng.below(4) {
            let rank = self.rng.below(u64::from(self.size())) as u32;
            if !self.dead.contains(&rank) {
                self.rank(rank).progress();
            }
        }
    }

    /// Progress until nothing has moved for a long while.
    pub fn quiet(&mut self) {
        self.still = 0;
        self.unrest.begin();
        while !self.is_too_long() {
            self.progress();
            if self.still > MAX_IDLE_ROUNDS {
                return;
            }
        }
        panic!("the job never comes to rest");
    }

    /// Counts a round of a wait. Returns whether there were too many.
    fn is_too_long(&mut self) -> bool {
        self.unrest.next_round();
        self.unrest.rounds > MAX_ROUNDS || self.unrest.lasts() > MAX_WAIT
    }

    /// Waits for one operation.
    pub fn wait(&mut self, pending: &Pending) -> Completion {
        self.unrest.begin();
        while !self.is_too_long() {
            if let Some(completion) = self.rank(pending.rank).pt2pt.finish(pending.id) {
                return completion;
            }
            self.progress();
        }
        panic!("rank {} waits for ever: {pending:?}", pending.rank);
    }

    /// Waits for a receive and checks that it is the message `id` of `len` bytes.
    pub fn expect(&mut self, receive: &Pending, source: u32, tag: i32, id: u64, len: usize) {
        let completion = self.wait(receive);
        let Completion { source: from, tag: with, bytes, cancelled, fault, .. } = completion;
        assert_eq!((from, with, bytes, cancelled, fault), (source, tag, len as u64, false, None));
        let got = receive.bytes.read();
        assert!(
            got[..len] == pattern_bytes(id, len)[..],
            "message {id} of {len} bytes arrived damaged"
        );
    }

    /// Waits for a send that must succeed.
    pub fn sent(&mut self, send: &Pending) {
        let completion = self.wait(send);
        assert_eq!((completion.cancelled, completion.fault), (false, None));
    }

    /// Nothing must be left over.
    pub fn end(mut self) {
        self.quiet();
        for rank in 0..self.ranks.len() {
            self.unrest.begin();
            while !self.dead.contains(&(rank as u32)) && !self.ranks[rank].is_drained() {
                assert!(!self.is_too_long(), "rank {rank} is not drained");
                self.progress();
            }
        }
        for (rank, engine) in self.ranks.iter().enumerate() {
            if !self.dead.contains(&(rank as u32)) {
                assert_eq!(
                    engine.pt2pt.unexpected(),
                    0,
                    "rank {rank} has messages that nobody received"
                );
                assert_eq!(engine.pt2pt.active(), 0, "rank {rank} has requests that are not over");
            }
        }
    }
}

impl<T: HybridGet> Drop for Job<T> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("case {:?} with {} ranks, seed {}", self.case, self.size(), self.seed);
            eprintln!("  the last wait: {}", self.unrest);
            for (rank, engine) in self.ranks.iter().enumerate() {
                eprintln!(
                    "  rank {rank}: {} active requests, {} unexpected; in the last wait {}; {}",
                    engine.pt2pt.active(),
                    engine.pt2pt.unexpected(),
                    self.unrest.of(rank),
                    (self.explain)(&engine.transport)
                );
            }
        }
    }
}
