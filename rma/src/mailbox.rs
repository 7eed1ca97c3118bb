//! Mailboxes: small puts and gets to memory that the target's process alone maps.
//!
//! An origin writes what it wants done into its own mailbox, which all ranks of the window on this
//! host map, and offers it by a frame. A target that makes progress takes it, does it and says so.
//! A target that computes does not come: the origin then withdraws the offer and does the accesses
//! by single copy. Offer, take and withdrawal change one word; therefore one side alone does them.
//!
//! States of the word, each with the offer's number: *offered* → *taken* → *done*, or *offered* →
//! *withdrawn*.
//!
//! Invariant: the origin changes entries and data only while it has offered nothing. The target
//! trusts nothing in them.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

use fabric::UserBuf;

/// The mailbox of one rank.
#[derive(Clone, Copy, Debug)]
pub struct Mailbox(UserBuf);

/// What the accesses of an offer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Get,
}

/// One access: bytes at a displacement of the target's memory. Their data follow those of the
/// entry before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) disp: u64,
    pub(crate) len: u64,
}

const WORD: usize = 0;
const COUNTS: usize = 64;
const ENTRIES: usize = 128;
const DATA: usize = ENTRIES + MAX_ENTRIES * 16;

/// Most accesses of an offer.
pub(crate) const MAX_ENTRIES: usize = 64;
/// Most bytes of an offer's data.
pub(crate) const MAX_DATA: usize = Mailbox::BYTES - DATA;

const OFFERED: u64 = 1;
const TAKEN: u64 = 2;
const DONE: u64 = 3;
const WITHDRAWN: u64 = 0;

fn word_of(number: u64, state: u64) -> u64 {
    number << 2 | state
}

impl Mailbox {
    /// Bytes of a mailbox.
    pub const BYTES: usize = 32 << 10;

    /// Returns the mailbox in `memory`, which is zero at first and shared by all ranks of the
    /// window on this host. Panics if it is not [`Mailbox::BYTES`] long and aligned to 8 bytes.
    pub fn new(memory: UserBuf) -> Mailbox {
        assert!(memory.len() == Mailbox::BYTES && memory.addr().is_multiple_of(8));
        Mailbox(memory)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: inside the mailbox, aligned, and valid while the window lives by the promise of
        // the memory's maker. All ranks access it atomically.
        unsafe { AtomicU64::from_ptr(self.0.as_ptr().add(at).cast()) }
    }

    /// Returns a part of the data.
    pub(crate) fn data(&self, at: usize, len: usize) -> UserBuf {
        self.0.slice(DATA, MAX_DATA).slice(at, len)
    }

    /// Writes an entry. Panics if there are not so many.
    pub(crate) fn set_entry(&self, index: usize, entry: Entry) {
        assert!(index < MAX_ENTRIES);
        let at = ENTRIES + 16 * index;
        // Relaxed: the offer releases it.
        self.word(at).store(entry.disp, Ordering::Relaxed);
        self.word(at + 8).store(entry.len, Ordering::Relaxed);
    }

    /// Returns an entry. Panics if there are not so many.
    pub(crate) fn entry(&self, index: usize) -> Entry {
        assert!(index < MAX_ENTRIES);
        let at = ENTRIES + 16 * index;
        let read = |at| self.word(at).load(Ordering::Relaxed);
        Entry { disp: read(at), len: read(at + 8) }
    }

    /// Offers the first entries.
    pub(crate) fn offer(&self, number: u64, kind: Kind, entries: usize) {
        let counts = (entries as u64) << 1 | u64::from(kind == Kind::Get);
        self.word(COUNTS).store(counts, Ordering::Relaxed);
        // Release: what takes the offer sees entries and data.
        self.word(WORD).store(word_of(number, OFFERED), Ordering::Release);
    }

    /// Takes an offer back; false if the target has it.
    pub(crate) fn withdraw(&self, number: u64) -> bool {
        self.change(word_of(number, OFFERED), word_of(number, WITHDRAWN))
    }

    /// Returns true when the target has done what was offered.
    #[inline]
    pub(crate) fn is_done(&self, number: u64) -> bool {
        // Acquire: the data of a get are in place.
        self.word(WORD).load(Ordering::Acquire) == word_of(number, DONE)
    }

    /// Takes an offer, at the target: kind and entries. `None` if it was withdrawn, or is none.
    pub(crate) fn take(&self, number: u64) -> Option<(Kind, usize)> {
        if !self.change(word_of(number, OFFERED), word_of(number, TAKEN)) {
            return None;
        }
        let counts = self.word(COUNTS).load(Ordering::Relaxed);
        let kind = if counts & 1 == 1 { Kind::Get } else { Kind::Put };
        Some((kind, ((counts >> 1) as usize).min(MAX_ENTRIES)))
    }

    /// Says that the offer is done.
    pub(crate) fn finish(&self, number: u64) {
        // Release: the data of a get are visible before.
        self.word(WORD).store(word_of(number, DONE), Ordering::Release);
    }

    fn change(&self, from: u64, to: u64) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.word(WORD).compare_exchange(from, to, success, failure).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_does_an_offer() {
        let mut memory = vec![0_u64; Mailbox::BYTES / 8];
        // SAFETY: the vector outlives the mailbox, which the threads do not keep.
        let all = unsafe { UserBuf::new(memory.as_mut_ptr().cast(), Mailbox::BYTES) };
        let mailbox = Mailbox::new(all);
        for number in 1..=2000_u64 {
            let entry = Entry { disp: number, len: 8 };
            mailbox.set_entry(0, entry);
            mailbox.data(0, 8).write(0, &number.to_ne_bytes());
            mailbox.offer(number, Kind::Get, 1);
            let (taken, withdrawn) = std::thread::scope(|scope| {
                let target = scope.spawn(|| {
                    let Some(offer) = mailbox.take(number) else { return false };
                    assert_eq!((offer, mailbox.entry(0)), ((Kind::Get, 1), entry));
                    let mut data = [0; 8];
                    mailbox.data(0, 8).read(0, &mut data);
                    assert_eq!(u64::from_ne_bytes(data), number);
                    mailbox.finish(number);
                    true
                });
                let withdrawn = mailbox.withdraw(number);
                (target.join().expect("the target"), withdrawn)
            });
            assert!(taken != withdrawn && mailbox.is_done(number) == taken);
            assert!(mailbox.take(number).is_none() && !mailbox.withdraw(number));
        }
    }
}
