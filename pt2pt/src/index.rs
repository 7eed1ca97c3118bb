//! A hash index: the queue of entries with the same key, by key.
//!
//! Job: to find the oldest entry with a key. The cost does not grow with the number of entries,
//! also where they are far more than the caches hold. Therefore the table has nothing but the place
//! of each queue's first entry, 5 bytes: keys and links are with the entries, and each function
//! reads them by `key_of`.
//!
//! States: a table that is full becomes `before`, and a larger one takes its place, to
//! which each entry that comes moves some queues. Thus no queue waits until all have been moved.
//!
//! Invariants: a key has at most one queue, in one of the tables; no queue is empty; `before`
//! is empty when the other is full.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;

use crate::key::Key;
use crate::lists::{EMPTY, Links, List, NONE};

/// Buckets of `before` that each new entry moves. All are moved before the larger table is full.
const MOVES_PER_INSERT: usize = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct Index {
    queues: HashTable<List>,
    before: HashTable<List>,
    /// Buckets of `before` that have been moved.
    moved: usize,
    links: Links,
}

impl Index {
    pub(crate) const fn new() -> Index {
        Index { queues: HashTable::new(), before: HashTable::new(), moved: 0, links: Links::new() }
    }

    /// Makes space for so many queues in an index that has none.
    pub(crate) fn reserve(&mut self, queues: usize) {
        if self.queues.capacity() < queues {
            self.queues = HashTable::with_capacity(queues);
        }
    }

    /// The oldest entry with that key, or [`NONE`].
    #[inline]
    pub(crate) fn oldest(&self, key: &Key, key_of: impl Fn(u32) -> Key) -> u32 {
        let (hash, is_it) = (hash(key), |queue: &List| key_of(queue.head) == *key);
        let table = if is_in(&self.before, hash, is_it) { &self.before } else { &self.queues };
        table.find(hash, is_it).map_or(NONE, |queue| queue.head)
    }

    /// Puts an entry after all others with its key.
    #[inline]
    pub(crate) fn push_back(&mut self, at: u32, key_of: impl Fn(u32) -> Key) {
        let key = key_of(at);
        let (hash, is_it) = (hash(&key), |queue: &List| key_of(queue.head) == key);
        let hash_of = |queue: &List| self::hash(&key_of(queue.head));
        if self.queues.len() == self.queues.capacity() {
            self.grow();
        }
        if !self.before.is_empty() {
            self.move_some(hash_of);
            if let Some(queue) = self.before.find_mut(hash, is_it) {
                return self.links.push_back(queue, at);
            }
        }
        match self.queues.entry(hash, is_it, hash_of) {
            Entry::Occupied(mut queue) => self.links.push_back(queue.get_mut(), at),
            Entry::Vacant(place) => {
                let mut queue = EMPTY;
                self.links.push_back(&mut queue, at);
                place.insert(queue);
            }
        }
    }

    /// Takes an entry out that is here.
    #[inline]
    pub(crate) fn remove(&mut self, at: u32, key_of: impl Fn(u32) -> Key) {
        let key = key_of(at);
        let (hash, is_it) = (hash(&key), |queue: &List| key_of(queue.head) == key);
        let table =
            if is_in(&self.before, hash, is_it) { &mut self.before } else { &mut self.queues };
        if let Ok(mut queue) = table.find_entry(hash, is_it) {
            self.links.unlink(queue.get_mut(), at);
            if queue.get().head == NONE {
                queue.remove();
            }
        }
    }

    pub(crate) fn clear(&mut self) {
        self.queues.clear();
        self.before.clear();
    }

    #[cold]
    fn grow(&mut self) {
        // Removed queues may have left no space, though few queues are there.
        debug_assert!(self.before.is_empty(), "a table was full before the last one was moved");
        let capacity = (2 * self.queues.len()).max(self.queues.num_buckets() / 2);
        self.before =
            std::mem::replace(&mut self.queues, HashTable::with_capacity(capacity.max(1)));
        self.moved = 0;
    }

    #[cold]
    fn move_some(&mut self, hash_of: impl Fn(&List) -> u64) {
        for bucket in self.moved..self.moved + MOVES_PER_INSERT {
            if let Ok(queue) = self.before.get_bucket_entry(bucket) {
                let queue = queue.remove().0;
                self.queues.insert_unique(hash_of(&queue), queue, &hash_of);
            }
        }
        self.moved += MOVES_PER_INSERT;
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.before.is_empty()
    }
}

#[inline]
fn hash(key: &Key) -> u64 {
    FxBuildHasher.hash_one(key)
}

/// Whether a queue is in a table that mostly has none.
#[inline]
fn is_in(table: &HashTable<List>, hash: u64, is_it: impl Fn(&List) -> bool) -> bool {
    !table.is_empty() && table.find(hash, is_it).is_some()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Entry and tag; many entries have the same.
    fn key(at: u32) -> Key {
        Key { context: 0, source: 0, tag: (at % 701) as i32 }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
        /// Over several sizes of the table, with removals while it grows.
        #[test]
        fn queues_are_in_order_while_the_table_grows(
            steps in prop::collection::vec(0..2000u32, 0..3000)
        ) {
            let mut index = Index::new();
            let mut naive = std::collections::BTreeMap::<i32, Vec<u32>>::new();
            let mut grew = false;
            for at in steps {
                let queue = naive.entry(key(at).tag).or_default();
                match queue.iter().position(|&other| other == at) {
                    Some(place) => {
                        queue.remove(place);
                        index.remove(at, key);
                    }
                    None => {
                        queue.push(at);
                        index.push_back(at, key);
                    }
                }
                let first = queue.first().copied().unwrap_or(NONE);
                prop_assert_eq!(index.oldest(&key(at), key), first);
                grew |= !index.before.is_empty();
            }
            for (tag, queue) in naive {
                let first = queue.first().copied().unwrap_or(NONE);
                prop_assert_eq!(index.oldest(&key(tag as u32), key), first);
                queue.into_iter().for_each(|at| index.remove(at, key));
            }
            prop_assert!(index.is_empty() && (grew || index.queues.capacity() < 100));
        }
    }

    #[test]
    fn no_entry_moves_more_than_a_few_queues() {
        let key = |at: u32| Key { context: 0, source: 0, tag: at as i32 };
        let mut index = Index::new();
        for at in 0..10_000 {
            let there = index.queues.len();
            index.push_back(at, key);
            let moved_at_most = MOVES_PER_INSERT + 1;
            assert!(
                index.queues.len() <= there + moved_at_most
                    && index.queues.len() + index.before.len() == at as usize + 1
            );
        }
        (0..10_000).for_each(|at| assert_eq!(index.oldest(&key(at), key), at));
    }

    #[test]
    fn reserved_space_is_enough() {
        let key = |at: u32| Key { context: 0, source: 0, tag: at as i32 };
        let mut index = Index::new();
        index.reserve(1000);
        (0..1000).for_each(|at| index.push_back(at, key));
        assert!(index.before.is_empty() && index.queues.len() == 1000);
    }
}
