//! Threads that leave MPI with the turn and stay away, for they compute or sleep (see `waiters`).
//!
//! A thread is restless once the deputy has found it outside in some of its turns; once is nothing, for any
//! thread may meet others at a barrier of theirs. From then on
//! - who has been away for long is let go as soon as it is answered, beside who has the turn ([`Stay::Away`],
//!   then [`Stay::Passing`]);
//! - who was back soon, as one that talks a while before it computes, has turns as others have; but others end
//!   theirs for it, and in its own it is watched closely ([`Stay::Back`]).
//!
//! One that has talked to the end of a turn is restless no more.
//!
//! Nobody reads a clock for that: rounds of progress, which somebody else makes meanwhile, tell soon from late.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::process;
use crate::thread::Thread;

/// Who is back within so many rounds was not away: some 100 us of a thread that talks.
const SOON: u32 = 512;
/// Who makes fewer in a turn is outside for most of it, as those who talk make one in 1 us.
const FEW: u32 = 2000;
/// How often a thread is found outside that is not restless yet.
const SELDOM: u32 = 3;
/// How many rounds are between two looks for the answers of threads that are restless.
const BETWEEN: u32 = 1024;

/// Where a restless thread is, or one that may become one.
#[derive(Clone, Copy, PartialEq)]
enum Stay {
    /// Anywhere; so often it was found outside.
    Seen(u32),
    /// Outside; it left when there were so many rounds.
    Away(u32),
    /// It waits, and was away for long.
    Passing,
    /// It was back soon.
    Back,
}

/// Those of this process.
pub(crate) struct Restless {
    threads: Vec<(Thread, Stay)>,
    /// Rounds when the turn was given; `None`: it was taken later.
    begun: Option<u32>,
    /// Rounds when somebody looked for their answers.
    looked: u32,
}

/// One of them is away: a hint, without the gate.
static SOMEBODY: AtomicBool = AtomicBool::new(false);

/// True if a thread of this process computes, as far as is known.
pub(crate) fn somebody_computes() -> bool {
    SOMEBODY.load(Ordering::Relaxed)
}

impl Stay {
    fn is_restless(self) -> bool {
        !matches!(self, Stay::Seen(_))
    }
}

impl Restless {
    pub(crate) const fn new() -> Restless {
        Restless { threads: Vec::new(), begun: None, looked: 0 }
    }

    pub(crate) fn has(&self, thread: Thread) -> bool {
        self.stay(thread).is_some_and(Stay::is_restless)
    }

    pub(crate) fn is_passing(&self, thread: Thread) -> bool {
        self.stay(thread) == Some(Stay::Passing)
    }

    pub(crate) fn is_back(&self, thread: Thread) -> bool {
        self.stay(thread) == Some(Stay::Back)
    }

    /// It was found outside, with the turn.
    pub(crate) fn found(&mut self, thread: Thread) {
        match self.stay(thread) {
            None => self.note(thread, Some(Stay::Seen(1))),
            Some(Stay::Seen(times)) if times < SELDOM => self.note(thread, Some(Stay::Seen(times + 1))),
            Some(_) => self.leaves(thread),
        }
    }

    /// It is outside, or about to be, most likely for long.
    pub(crate) fn leaves(&mut self, thread: Thread) {
        self.note(thread, Some(Stay::Away(process::rounds())));
    }

    /// It waits again.
    pub(crate) fn comes(&mut self, thread: Thread) {
        if let Some(Stay::Away(left)) = self.stay(thread) {
            let is_soon = process::rounds().wrapping_sub(left) < SOON;
            self.note(thread, Some(if is_soon { Stay::Back } else { Stay::Passing }));
        }
    }

    /// It is no more.
    pub(crate) fn ends(&mut self, thread: Thread) {
        self.note(thread, None);
    }

    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.looked = process::rounds();
        self.begun = Some(self.looked);
    }

    /// Another thread takes it.
    pub(crate) fn take(&mut self) {
        self.begun = None;
    }

    /// It has used its turn to the end.
    pub(crate) fn used(&mut self, thread: Thread) {
        // Who waits for its one message makes rounds, too.
        if let Some(begun) = self.begun.filter(|_| !self.is_passing(thread)) {
            let is_little = process::rounds().wrapping_sub(begun) < FEW;
            self.note(thread, is_little.then_some(Stay::Back));
        }
    }

    /// It gives its turn to one that is restless, and is not so itself.
    pub(crate) fn makes_way(&mut self, thread: Thread) {
        if self.is_back(thread) {
            self.note(thread, None);
        }
    }

    /// Whether it is time to look for their answers; not more than once in [`BETWEEN`] rounds.
    pub(crate) fn is_due(&mut self) -> bool {
        let rounds = process::rounds();
        let is_due = rounds.wrapping_sub(self.looked) >= BETWEEN && self.threads.iter().any(|it| it.1.is_restless());
        if is_due {
            self.looked = rounds;
        }
        is_due
    }

    fn stay(&self, thread: Thread) -> Option<Stay> {
        self.threads.iter().find(|it| it.0 == thread).map(|it| it.1)
    }

    /// Keeps `stay` of this thread, or forgets it.
    fn note(&mut self, thread: Thread, stay: Option<Stay>) {
        self.threads.retain(|it| it.0 != thread);
        self.threads.extend(stay.map(|stay| (thread, stay)));
        let is_away = self.threads.iter().any(|it| matches!(it.1, Stay::Away(_)));
        SOMEBODY.store(is_away, Ordering::Relaxed);
    }
}
