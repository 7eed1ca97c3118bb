//! The shared words of one rank in a window whose ranks are all on one host.
//!
//! A record of [`Control::BYTES`] bytes for each rank lies in memory that all of them map, zero at
//! first. It holds a queue lock for passive synchronisation (`locks`), a spin lock for accumulates
//! that are no processor atomics, and the announcements of this rank (`guard`, `locks`). The word
//! of the spin lock names its holder, so that a holder that dies does not keep it. The record of
//! the first rank also has what the window was [`Use`]d for.
//!
//! The queue lock deals tickets, numbers that count up and wrap around. Two words make it:
//!
//! | word | is | changes |
//! |---|---|---|
//! | `drawn` | the next ticket, and the number that has to end before a reader begins | draw |
//! | `ended` | how many tickets have ended | end |
//!
//! A writer begins when all tickets before its own have ended, a reader when all up to that of the
//! last writer before it have. Waiters are therefore served in order, and adjacent readers
//! together. A ticket is represented by the number that `ended` has to reach. As no ticket after a
//! waiting writer's begins, let alone ends, `ended` reaches that number just when all tickets
//! before it have ended. To draw takes one atomic instruction. A writer ends by a store, since
//! nobody else ends meanwhile; a reader by an addition.
//!
//! The lock wakes no waiter: an end says whether tickets are outstanding, and its caller wakes
//! those that sleep. A rank stores `ended`, then looks at `drawn`; another draws, then looks at
//! `ended`, and has the heavy side of [`Fences`] run before it sleeps. One of them sees the other.
//!
//! Invariants: a rank draws one ticket, begins when it is its turn, and ends what it began. Fewer
//! than 2^31 ranks have tickets.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence, fence};
use std::time::Duration;

use fabric::{UserBuf, membarrier};

/// The record of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    memory: UserBuf,
    /// The rank in the window.
    rank: u32,
    /// Not 0 once the rank's process has ended.
    ended: &'static AtomicU32,
}

// A line for the lock, ...
const DRAWN: usize = 0;
const ENDED: usize = 8;
const HOLDER: usize = 12;
// ... one that all ranks read, ...
const SPIN: usize = 64;
const USED: usize = 68;
// ... and one that this rank writes.
const ANNOUNCED: usize = 128;
const READS: usize = 132;

/// What [`Control::announce_reader`] takes for all targets; no rank has this number.
pub(crate) const ALL: u32 = u32::MAX - 1;

/// What a window is used for that makes other accesses dearer. Until then they go without an atomic
/// instruction: they are only announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Accumulates of many bytes.
    LongAccumulates,
    /// Exclusive locks.
    Writers,
}

impl Use {
    /// Returns the bit of a use that has begun: from now on accesses expect it.
    const fn begun(self) -> u32 {
        1 << (2 * self as u32)
    }

    /// Returns the bit of a use whose heavy fence has run: announcements are visible.
    const fn seen(self) -> u32 {
        2 << (2 * self as u32)
    }
}

/// The bit of `USED` that says that no reader is announced any more.
const READERS_LEFT: u32 = 1 << 4;

/// The two sides of a fence between a store and a load; `fabric::membarrier` has the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fences {
    /// Each side runs a fence of its own.
    Equal,
    /// All processes are registered: one side is for nothing, the other one is a system call.
    Unequal,
}

impl Fences {
    /// Runs the side that is taken often.
    #[inline(always)]
    pub(crate) fn light(self) {
        match self {
            Fences::Equal => fence(Ordering::SeqCst),
            Fences::Unequal => compiler_fence(Ordering::SeqCst),
        }
    }

    /// Runs the side that is taken seldom.
    #[cold]
    pub(crate) fn heavy(self) {
        fence(Ordering::SeqCst);
        if self == Fences::Unequal && !membarrier::run() {
            // The kernel refuses since a filter was set. No processor keeps a store that long.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// The halves of `drawn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Drawn {
    next: u32,
    /// What has to end before a reader begins.
    readers_after: u32,
}

impl Drawn {
    #[inline(always)]
    fn of(word: u64) -> Drawn {
        Drawn { next: (word >> 32) as u32, readers_after: word as u32 }
    }

    #[inline(always)]
    fn word(self) -> u64 {
        u64::from(self.next) << 32 | u64::from(self.readers_after)
    }

    /// Returns the number that the next ticket waits for.
    #[inline(always)]
    fn waits_for(self, exclusive: bool) -> u32 {
        if exclusive { self.next } else { self.readers_after }
    }

    /// Returns what it is after that ticket. A number that was reached long ago would be in the
    /// future again once tickets have wrapped around; therefore it is replaced.
    #[inline(always)]
    fn after(self, exclusive: bool, ended: u32) -> Drawn {
        let next = self.next.wrapping_add(1);
        let readers_after = match exclusive {
            true => next,
            false if is_reached(self.readers_after, ended) => ended,
            false => self.readers_after,
        };
        Drawn { next, readers_after }
    }
}

/// Returns true if so many have ended.
#[inline(always)]
fn is_reached(number: u32, ended: u32) -> bool {
    ended.wrapping_sub(number) <= i32::MAX as u32
}

impl Control {
    /// Bytes of a record: three cache lines.
    pub const BYTES: usize = 192;

    /// Returns the record of a rank in `memory`, which is zero at first and shared by all ranks of
    /// the window. `ended` is not 0 once the rank's process has ended. Panics if the memory is not
    /// [`Control::BYTES`] long and aligned to 8 bytes.
    pub fn new(memory: UserBuf, rank: u32, ended: &'static AtomicU32) -> Control {
        assert!(memory.len() == Control::BYTES && memory.addr().is_multiple_of(8));
        Control { memory, rank, ended }
    }

    /// Returns the rank in the window.
    pub(crate) fn rank(&self) -> u32 {
        self.rank
    }

    /// Returns whether the rank's process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        // Acquire: all that it has written is visible.
        self.ended.load(Ordering::Acquire) != 0
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: inside the record, aligned, and valid while the window lives by the promise of
        // the memory's maker. All ranks access it atomically.
        unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(at).cast()) }
    }

    #[inline(always)]
    fn drawn(&self) -> &AtomicU64 {
        // SAFETY: as for `word`.
        unsafe { AtomicU64::from_ptr(self.memory.as_ptr().add(DRAWN).cast()) }
    }

    /// Draws a ticket if `may` says so of the number that it waits for and of what has ended.
    #[inline(always)]
    fn draw_if(&self, exclusive: bool, may: impl Fn(u32, u32) -> bool) -> Option<u32> {
        let mut found = self.drawn().load(Ordering::Relaxed);
        loop {
            // Acquire: what the holders before have written is visible.
            let ended = self.word(ENDED).load(Ordering::Acquire);
            let drawn = Drawn::of(found);
            let ticket = drawn.waits_for(exclusive);
            if !may(ticket, ended) {
                return None;
            }
            let next = drawn.after(exclusive, ended).word();
            // Acquire: nothing that the lock protects comes before.
            let (to, or) = (Ordering::Acquire, Ordering::Relaxed);
            match self.drawn().compare_exchange_weak(found, next, to, or) {
                Ok(_) => return Some(ticket),
                Err(other) => found = other,
            }
        }
    }

    /// Draws a ticket.
    pub(crate) fn draw(&self, exclusive: bool) -> u32 {
        self.draw_if(exclusive, |_, _| true).unwrap_or_default()
    }

    /// Takes the lock if that needs no waiting; false if it changed nothing.
    #[inline(always)]
    pub(crate) fn begin_free(&self, exclusive: bool, rank: u32) -> bool {
        let is_taken = self.draw_if(exclusive, is_reached).is_some();
        if is_taken {
            self.begin(rank);
        }
        is_taken
    }

    /// Returns true when it is the ticket's turn.
    pub(crate) fn is_turn(&self, ticket: u32) -> bool {
        // Acquire: what the holders before have written is visible.
        is_reached(ticket, self.word(ENDED).load(Ordering::Acquire))
    }

    /// Begins what a ticket was drawn for; it must be its turn.
    #[inline(always)]
    pub(crate) fn begin(&self, rank: u32) {
        self.word(HOLDER).store(rank + 1, Ordering::Relaxed);
    }

    /// Ends what has begun. Returns true if ranks wait, one of which may begin now.
    #[inline(always)]
    pub(crate) fn end(&self, exclusive: bool, fences: Fences) -> bool {
        self.word(HOLDER).store(0, Ordering::Relaxed);
        let ended = self.word(ENDED);
        // Release: the next holder sees what this one has written.
        let now = if exclusive {
            let now = ended.load(Ordering::Relaxed).wrapping_add(1);
            ended.store(now, Ordering::Release);
            now
        } else {
            ended.fetch_add(1, Ordering::Release).wrapping_add(1)
        };
        fences.light();
        let drawn = Drawn::of(self.drawn().load(Ordering::Relaxed));
        // Other readers that hold the lock do not wait; of tickets after a reader's a writer does.
        if exclusive { drawn.next != now } else { !is_reached(drawn.readers_after, now) }
    }

    /// Returns the rank that began last and has not ended, for reports.
    pub(crate) fn holder(&self) -> Option<u32> {
        self.word(HOLDER).load(Ordering::Relaxed).checked_sub(1)
    }

    /// Returns whether a use of the window has begun. This is the record of the first rank.
    #[inline(always)]
    pub(crate) fn is_used_for(&self, what: Use) -> bool {
        // Acquire: what follows is not done before.
        self.word(USED).load(Ordering::Acquire) & what.begun() != 0
    }

    /// Begins a use: announcements of other ranks are visible from now on, and there will be no new
    /// ones. This is the record of the first rank.
    pub(crate) fn begin_use(&self, what: Use, fences: Fences) {
        if self.word(USED).load(Ordering::Acquire) & what.seen() == 0 {
            self.word(USED).fetch_or(what.begun(), Ordering::SeqCst);
            fences.heavy();
            self.word(USED).fetch_or(what.seen(), Ordering::SeqCst);
        }
    }

    /// Announces in this record, the own one, a reader at a target, or at [`ALL`]. False, and
    /// withdrawn, if the window has writers since; then those that have seen it have to be woken.
    #[inline(always)]
    pub(crate) fn announce_reader(&self, target: u32, first: &Control, fences: Fences) -> bool {
        self.word(READS).store(target + 1, Ordering::Relaxed);
        fences.light();
        let may_read = !first.is_used_for(Use::Writers);
        if !may_read {
            self.word(READS).store(0, Ordering::Release);
        }
        may_read
    }

    /// Ends an announced reader; true if writers may wait for it.
    #[inline(always)]
    pub(crate) fn end_reader(&self, first: &Control, fences: Fences) -> bool {
        self.word(READS).store(0, Ordering::Release);
        fences.light();
        first.is_used_for(Use::Writers)
    }

    /// Returns whether the rank of this record reads at a target as announced.
    pub(crate) fn reads(&self, target: u32) -> bool {
        // Acquire: what the reader has done is done.
        let reads = self.word(READS).load(Ordering::Acquire);
        reads == target + 1 || reads == ALL + 1
    }

    /// Returns whether no reader is announced any more. This is the record of the first rank.
    #[inline(always)]
    pub(crate) fn readers_have_left(&self) -> bool {
        // Acquire: what they have done is done.
        self.word(USED).load(Ordering::Acquire) & READERS_LEFT != 0
    }

    /// Records that no reader is announced in `all` records, if that is so. The window is used by
    /// writers; this is the record of the first rank.
    pub(crate) fn record_left_readers(&self, all: &[Control]) {
        let has_left = |record: &Control| record.word(READS).load(Ordering::Acquire) == 0;
        if all.iter().all(has_left) {
            self.word(USED).fetch_or(READERS_LEFT, Ordering::AcqRel);
        }
    }

    /// Takes the spin lock for `rank`; false if it is taken.
    pub(crate) fn hold(&self, rank: u32) -> bool {
        // Sequentially consistent, as are all accesses of announcements: see `guard`.
        let (to, or) = (Ordering::SeqCst, Ordering::Relaxed);
        self.word(SPIN).compare_exchange_weak(0, rank + 1, to, or).is_ok()
    }

    /// Releases the spin lock.
    pub(crate) fn release(&self) {
        self.word(SPIN).store(0, Ordering::Release);
    }

    /// Returns the rank that has the spin lock.
    pub(crate) fn held_by(&self) -> Option<u32> {
        self.word(SPIN).load(Ordering::Relaxed).checked_sub(1)
    }

    /// Releases the spin lock for a rank whose process has ended, if that rank has it.
    pub(crate) fn release_for(&self, rank: u32) {
        let (to, or) = (Ordering::AcqRel, Ordering::Relaxed);
        // An error: another rank has done it.
        let _ = self.word(SPIN).compare_exchange(rank + 1, 0, to, or);
    }

    /// Announces in this record, the own one, an access to the memory of the target's rank. False,
    /// and nothing announced, while the spin lock there is taken. `first` is the first rank's
    /// record.
    #[inline(always)]
    pub(crate) fn announce(&self, target: &Control, first: &Control, fences: Fences) -> bool {
        self.word(ANNOUNCED).store(target.rank + 1, Ordering::Relaxed);
        fences.light();
        !first.is_used_for(Use::LongAccumulates) || self.announce_to_long(target)
    }

    /// Announces an access in a window with long accumulates. In line: a call would cost the usual
    /// case registers.
    #[inline(always)]
    fn announce_to_long(&self, target: &Control) -> bool {
        self.word(ANNOUNCED).swap(target.rank + 1, Ordering::SeqCst);
        let is_free = target.word(SPIN).load(Ordering::SeqCst) == 0;
        if !is_free {
            self.withdraw();
        }
        is_free
    }

    /// Ends what was announced.
    #[inline(always)]
    pub(crate) fn withdraw(&self) {
        self.word(ANNOUNCED).store(0, Ordering::Release);
    }

    /// Returns whether the rank of this record accesses the memory of `rank` as announced.
    pub(crate) fn accesses(&self, rank: u32) -> bool {
        self.word(ANNOUNCED).load(Ordering::SeqCst) == rank + 1 && !self.has_ended()
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
