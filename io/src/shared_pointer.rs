//! The shared file pointer, in etypes of the view (MPI-5.0 §14.4.4).
//!
//! It lies in memory that the members map if all are on one host, otherwise in words at rank 0 that
//! are changed by one-sided operations. No file is made for it.
//!
//! There are two words, used in turn, so that a new view sets the pointer to 0 in the one exchange
//! that its members make anyway. Before that exchange rank 0 clears the word that is not in use:
//! the last accesses to it came before the previous exchange, which rank 0 has left. After the
//! exchange all members use that word. A member that changes the old one does so before it enters
//! the exchange.

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use objects::Result;

use crate::members::RemoteWords;
use crate::shared_word::{SharedWords, WORDS};

/// The shared pointer as one member sees it.
pub(crate) struct SharedPointer {
    words: Words,
    /// Index of the word in use.
    current: AtomicUsize,
}

/// Where the words are.
pub(crate) enum Words {
    /// The only member's.
    Own([AtomicI64; WORDS]),
    /// In memory of this host.
    Mapped(SharedWords),
    /// At rank 0, which may be on another host.
    Remote(Box<dyn RemoteWords>),
}

impl SharedPointer {
    /// Returns a pointer at 0.
    pub(crate) fn new(words: Words) -> SharedPointer {
        SharedPointer { words, current: AtomicUsize::new(0) }
    }

    fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    fn next(&self) -> usize {
        (self.current() + 1) % WORDS
    }

    /// Moves the pointer on and returns what it was.
    pub(crate) fn fetch_add(&self, etypes: i64) -> Result<i64> {
        let at = self.current();
        match &self.words {
            Words::Own(words) => Ok(words[at].fetch_add(etypes, Ordering::SeqCst)),
            Words::Mapped(words) => Ok(words.word(at)?.fetch_add(etypes, Ordering::SeqCst)),
            Words::Remote(words) => words.fetch_add(at, etypes),
        }
    }

    /// Returns the pointer.
    pub(crate) fn load(&self) -> Result<i64> {
        let at = self.current();
        match &self.words {
            Words::Own(words) => Ok(words[at].load(Ordering::SeqCst)),
            Words::Mapped(words) => Ok(words.word(at)?.load(Ordering::SeqCst)),
            Words::Remote(words) => words.load(at),
        }
    }

    /// Sets the pointer.
    pub(crate) fn store(&self, etypes: i64) -> Result<()> {
        self.store_at(self.current(), etypes)
    }

    /// Clears the word that is used next. Only rank 0 calls it, before an exchange.
    pub(crate) fn clear_next(&self) -> Result<()> {
        self.store_at(self.next(), 0)
    }

    /// Uses the next word from now on. All members call it, after an exchange.
    pub(crate) fn switch(&self) {
        self.current.store(self.next(), Ordering::Relaxed);
    }

    fn store_at(&self, at: usize, etypes: i64) -> Result<()> {
        match &self.words {
            Words::Own(words) => words[at].store(etypes, Ordering::SeqCst),
            Words::Mapped(words) => words.word(at)?.store(etypes, Ordering::SeqCst),
            Words::Remote(words) => words.store(at, etypes)?,
        }
        Ok(())
    }

    /// Gives the words back. Collective.
    pub(crate) fn free(&self) -> Result<()> {
        match &self.words {
            Words::Remote(words) => words.free(),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_shows_a_cleared_word() {
        let pointer = SharedPointer::new(Words::Own(Default::default()));
        for turn in 1..5 {
            pointer.clear_next().unwrap();
            assert_eq!(pointer.fetch_add(turn).unwrap(), 0);
            assert_eq!(pointer.load().unwrap(), turn);
            pointer.switch();
            assert_eq!(pointer.load().unwrap(), 0);
        }
        pointer.store(9).unwrap();
        assert_eq!(pointer.load().unwrap(), 9);
    }
}
