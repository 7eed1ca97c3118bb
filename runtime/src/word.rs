//! The words that waiting threads sleep on.
//!
//! Who wakes a thread does so after it has left the gate. By then the sleeper may
//! have seen its answer, have returned, and have ended. So a word outlives its
//! thread: it goes to one that waits later, for which a stray wake means nothing.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::thread::Stay;

/// On a cache line of its own: one thread spins on it while others write to theirs.
#[repr(align(64))]
struct Line(AtomicU32, Stay);

/// A word, named by its place.
#[derive(Clone, Copy)]
pub(crate) struct Word(&'static Line);

impl PartialEq for Word {
    fn eq(&self, other: &Word) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Deref for Word {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0.0
    }
}

/// Those of threads that have ended.
static IDLE: Mutex<Vec<Word>> = Mutex::new(Vec::new());

/// A thread's own while it does not wait.
struct Spare(Cell<Option<Word>>);

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(word) = self.0.take() {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(word);
        }
    }
}

thread_local! {
    static SPARE: Spare = const { Spare(Cell::new(None)) };
}

impl Word {
    /// Where its thread was woken, if somebody chose that.
    pub(crate) fn stay(self) -> &'static Stay {
        &self.0.1
    }

    /// One that nobody else has, and that holds `value`.
    pub(crate) fn take(value: u32) -> Word {
        // A thread that is ending has no spare any more, and may still wait.
        let spare = SPARE.try_with(|spare| spare.0.take()).ok().flatten();
        let idle = || IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let new = || Word(Box::leak(Box::new(Line(AtomicU32::new(0), Stay::new()))));
        let word = spare.or_else(idle).unwrap_or_else(new);
        word.store(value, Ordering::Relaxed);
        word
    }

    /// Its thread does not wait any more.
    pub(crate) fn give_back(self) {
        let other = SPARE.try_with(|spare| spare.0.replace(Some(self))).unwrap_or(Some(self));
        if let Some(word) = other {
            IDLE.lock().unwrap_or_else(PoisonError::into_inner).push(word);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_within_waits_have_words_of_their_own_and_an_ended_threads_word_is_used_again() {
        let (outer, inner) = std::thread::spawn(|| {
            let outer = Word::take(1);
            let inner = Word::take(2);
            assert!(outer != inner && outer.load(Ordering::Relaxed) == 1);
            inner.give_back();
            outer.give_back();
            (outer, inner)
        })
        .join()
        .unwrap();
        let again = [Word::take(0), Word::take(0)];
        assert!(again.contains(&outer) && again.contains(&inner));
    }
}
