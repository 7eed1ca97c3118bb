//! Matching: which receive gets which message (MPI-5.0 §3.5).
//!
//! Two stores, one for each side that may come first: [`Posted`] receives and
//! [`Unexpected`] messages. Each keeps all of its entries in one list, oldest
//! first. A search of that list finds an entry at once if receives come in the order of arrival.
//! Searches that take more steps than [`SEARCH_STEPS`] for each match make an index ([`Index`]), so
//! that a match costs the same however many there are:
//!
//! - a search among posted receives begins where the last one for such a message ended. Thus a
//!   stream passes receives of other threads at no cost;
//! - a *key* is (context, source, tag), where source and tag may be wildcards; a key's *class*
//!   shows which of the two are;
//! - a posted receive stands in the queue of its own key. An arrival looks at
//!   the heads of up to four queues, one for each class, and takes the oldest;
//! - many messages of one kind in a row need no index: it is given up for the search again;
//! - an unexpected message stands in the queues of the up to four keys that match it. A class is
//!   indexed at the first such request.
//!
//! Invariants: every queue is in order of age; no empty queue is kept in the index; the index is
//! empty when it is not in use. It goes out of use when the store is empty, or after more matches
//! than there are receives. Going in and out of use therefore costs a constant for each match.
//!
//! It knows nothing of peers, buffers and protocols.

use crate::index::Index;
use crate::key::{CLASSES, Key};
use crate::lists::{EMPTY, Links, List, NONE, Slab};

/// Entries that a search looks at before it is worth while to index all.
const SEARCH_STEPS: u32 = 16;
/// The budget that short searches among posted receives leave for a long one is kept up to here.
const MAX_BUDGET: u32 = 1024;

/// The search was given up.
struct TooLong;

/// Receives that wait for a message, by the slots of their requests.
#[derive(Debug)]
pub(crate) struct Posted {
    waiting: Vec<Waiting>,
    all: List,
    order: Links,
    /// The age of the next one.
    next: u64,
    index: Index,
    /// How many there are of each class in the index.
    classes: [usize; CLASSES],
    indexed: bool,
    cursor: SearchCursor,
}

/// The entry that searches for one kind of message have reached.
#[derive(Debug)]
struct SearchCursor {
    message: Key,
    /// No receive before this one, which is in the list, accepts the message; `NONE`: none does.
    at: u32,
    /// Steps that searches may take.
    budget: u32,
    /// The age of the first receive that has not added to it.
    counted: u64,
    /// How many of these messages in a row were looked up in the index.
    in_a_row: u32,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    key: Key,
    age: u64,
}

impl Posted {
    pub(crate) const fn new() -> Posted {
        Posted {
            waiting: Vec::new(),
            all: EMPTY,
            order: Links::new(),
            next: 0,
            index: Index::new(),
            classes: [0; CLASSES],
            indexed: false,
            cursor: SearchCursor {
                message: Key { context: 0, source: 0, tag: 0 },
                at: NONE,
                budget: SEARCH_STEPS,
                counted: 0,
                in_a_row: 0,
            },
        }
    }

    /// Adds a receive after all others. It must not be here.
    #[inline(always)]
    pub(crate) fn post(&mut self, key: Key, slot: u32) {
        if slot as usize >= self.waiting.len() {
            self.reach(slot);
        }
        self.waiting[slot as usize] = Waiting { key, age: self.next };
        self.next += 1;
        self.order.push_back(&mut self.all, slot);
        if self.cursor.at == NONE {
            self.cursor.at = slot;
        }
        if self.indexed {
            self.enlist(slot);
        }
    }

    /// Takes the oldest receive that accepts the message.
    #[inline(always)]
    pub(crate) fn take(&mut self, message: &Key) -> Option<u32> {
        let slot = self.oldest(message);
        if slot == NONE {
            return None;
        }
        self.remove(slot);
        Some(slot)
    }

    /// Whether a receive accepts the message.
    #[inline]
    pub(crate) fn has_one_for(&mut self, message: &Key) -> bool {
        self.oldest(message) != NONE
    }

    /// Takes back a receive that is here.
    #[inline]
    pub(crate) fn remove(&mut self, slot: u32) {
        let next = self.order.unlink(&mut self.all, slot);
        if self.cursor.at == slot {
            self.cursor.at = next;
        }
        if self.indexed {
            self.leave_index(slot);
        }
    }

    /// Calls `each` with every receive, oldest first.
    pub(crate) fn for_each(&self, mut each: impl FnMut(&Key, u32)) {
        self.order.iter(self.all).for_each(|slot| each(&self.waiting[slot as usize].key, slot));
    }

    #[cold]
    fn reach(&mut self, slot: u32) {
        let nothing = Waiting { key: Key { context: 0, source: 0, tag: 0 }, age: 0 };
        self.waiting.resize(slot as usize + 1, nothing);
    }

    /// Returns the oldest receive for a message, or [`NONE`]. The out-of-line path takes the fields
    /// of the key, which are then kept in registers.
    #[inline]
    fn oldest(&mut self, message: &Key) -> u32 {
        if self.indexed {
            return self.oldest_by_index(message.context, message.source, message.tag);
        }
        let at = self.cursor.at;
        match self.waiting.get(at as usize) {
            Some(waiting)
                if waiting.key.accepts(message) && self.has_passed_all_before(message) =>
            {
                at
            }
            None if self.all.head == NONE => NONE,
            _ => self.oldest_by_search(message.context, message.source, message.tag),
        }
    }

    /// No receive that is older than the stream's accepts the message.
    #[inline]
    fn has_passed_all_before(&self, message: &Key) -> bool {
        self.cursor.at == self.all.head || self.cursor.message == *message
    }

    #[inline(never)]
    fn oldest_by_search(&mut self, context: u64, source: u32, tag: i32) -> u32 {
        let message = &Key { context, source, tag };
        if self
            .waiting
            .get(self.all.head as usize)
            .is_some_and(|waiting| waiting.key.accepts(message))
        {
            return self.all.head;
        }
        if self.cursor.message != *message {
            (self.cursor.message, self.cursor.at) = (*message, self.all.head);
        }
        let mut left = self.budget();
        loop {
            let at = self.cursor.at;
            match self.waiting.get(at as usize) {
                Some(waiting) if !waiting.key.accepts(message) => {
                    self.cursor.at = self.order.next(at)
                }
                _ => {
                    self.cursor.budget = left;
                    return at;
                }
            }
            left -= 1;
            if left == 0 {
                self.cursor.budget = 0;
                self.index_all();
                return self.oldest_by_index(context, source, tag);
            }
        }
    }

    /// Returns the steps that a search may take: the saved ones, and [`SEARCH_STEPS`] for each
    /// receive since the last search.
    fn budget(&mut self) -> u32 {
        let receives = self.next - std::mem::replace(&mut self.cursor.counted, self.next);
        let brought = receives.clamp(1, MAX_BUDGET.into()) as u32 * SEARCH_STEPS;
        (self.cursor.budget + brought).min(MAX_BUDGET)
    }

    #[inline(never)]
    fn oldest_by_index(&mut self, context: u64, source: u32, tag: i32) -> u32 {
        let message = &Key { context, source, tag };
        if self.cursor.message != *message {
            (self.cursor.message, self.cursor.at, self.cursor.in_a_row) =
                (*message, self.all.head, 0);
        }
        self.cursor.in_a_row += 1;
        if self.cursor.in_a_row > MAX_BUDGET
            && self.classes.iter().sum::<usize>() < MAX_BUDGET as usize
        {
            self.give_index_up();
            return self.oldest_by_search(context, source, tag);
        }
        let (mut oldest, mut found) = (u64::MAX, NONE);
        for class in (0..CLASSES).filter(|&class| self.classes[class] > 0) {
            let slot =
                self.index.oldest(&message.widened(class), |slot| self.waiting[slot as usize].key);
            if let Some(waiting) =
                self.waiting.get(slot as usize).filter(|waiting| waiting.age < oldest)
            {
                (oldest, found) = (waiting.age, slot);
            }
        }
        found
    }

    #[cold]
    fn give_index_up(&mut self) {
        self.index.clear();
        (self.indexed, self.classes) = (false, [0; CLASSES]);
        (self.cursor.budget, self.cursor.in_a_row) = (MAX_BUDGET, 0);
    }

    #[inline(never)]
    fn enlist(&mut self, slot: u32) {
        let key = |slot: u32| self.waiting[slot as usize].key;
        self.classes[key(slot).class()] += 1;
        self.index.push_back(slot, key);
    }

    #[inline(never)]
    fn leave_index(&mut self, slot: u32) {
        let key = |slot: u32| self.waiting[slot as usize].key;
        self.classes[key(slot).class()] -= 1;
        self.index.remove(slot, key);
        self.indexed = self.all.head != NONE;
    }

    #[cold]
    fn index_all(&mut self) {
        (self.indexed, self.cursor.in_a_row) = (true, 0);
        let posted_since = |oldest: &Waiting| (self.next - oldest.age) as usize;
        let most = self
            .waiting
            .get(self.all.head as usize)
            .map_or(0, posted_since)
            .min(self.waiting.len());
        self.index.reserve(most);
        for slot in self.order.iter(self.all) {
            let key = |slot: u32| self.waiting[slot as usize].key;
            self.classes[key(slot).class()] += 1;
            self.index.push_back(slot, key);
        }
    }
}

/// Messages that no receive was posted for. `M` is the message.
#[derive(Debug)]
pub(crate) struct Unexpected<M> {
    parked: Slab<Parked<M>>,
    all: List,
    order: Links,
    count: usize,
    /// By class.
    indices: [Index; CLASSES],
    /// Bit `class` is set while messages are indexed for it.
    indexed: u8,
}

#[derive(Debug)]
struct Parked<M> {
    key: Key,
    message: M,
}

impl<M> Unexpected<M> {
    pub(crate) const fn new() -> Unexpected<M> {
        Unexpected {
            parked: Slab::new(),
            all: EMPTY,
            order: Links::new(),
            count: 0,
            indices: [const { Index::new() }; CLASSES],
            indexed: 0,
        }
    }

    /// Adds a message after all others.
    #[inline]
    pub(crate) fn push(&mut self, key: Key, message: M) {
        let entry = self.parked.insert(Parked { key, message });
        self.order.push_back(&mut self.all, entry);
        self.count += 1;
        if self.indexed != 0 {
            self.enlist(entry);
        }
    }

    /// The oldest message that the pattern accepts.
    #[inline]
    pub(crate) fn find(&mut self, pattern: &Key) -> Option<u32> {
        if self.count == 0 {
            None
        } else {
            self.find_parked(pattern.context, pattern.source, pattern.tag)
        }
    }

    /// The words of the pattern, so that the caller keeps them in registers.
    #[inline(never)]
    fn find_parked(&mut self, context: u64, source: u32, tag: i32) -> Option<u32> {
        let pattern = &Key { context, source, tag };
        let class = pattern.class();
        let found = match self.indexed & 1 << class {
            0 => self
                .oldest_by_search(pattern)
                .unwrap_or_else(|TooLong| self.oldest_by_index(pattern, class)),
            _ => self.oldest_by_index(pattern, class),
        };
        (found != NONE).then_some(found)
    }

    /// A message found or set aside.
    #[inline]
    pub(crate) fn get(&self, entry: u32) -> Option<(&Key, &M)> {
        self.parked.get(entry).map(|parked| (&parked.key, &parked.message))
    }

    /// As [`Unexpected::get`], to change it.
    pub(crate) fn get_mut(&mut self, entry: u32) -> Option<&mut M> {
        self.parked.get_mut(entry).map(|parked| &mut parked.message)
    }

    /// Takes a found message out.
    #[inline(always)] // otherwise it is copied
    pub(crate) fn remove(&mut self, entry: u32) -> Option<(Key, M)> {
        self.set_aside(entry);
        self.reclaim(entry)
    }

    /// Drops a found message.
    #[inline]
    pub(crate) fn discard(&mut self, entry: u32) {
        self.set_aside(entry);
        self.parked.discard(entry);
    }

    /// Hides a found message from matching; it keeps its place in memory.
    #[inline]
    pub(crate) fn set_aside(&mut self, entry: u32) {
        self.order.unlink(&mut self.all, entry);
        self.count -= 1;
        if self.indexed != 0 {
            self.leave_indices(entry);
        }
    }

    /// Takes out a message that was set aside.
    #[inline]
    pub(crate) fn reclaim(&mut self, entry: u32) -> Option<(Key, M)> {
        self.parked.remove(entry).map(|parked| (parked.key, parked.message))
    }

    /// The newest message for which `is_it` returns true. Looks at all of them.
    #[cold]
    pub(crate) fn newest(&self, mut is_it: impl FnMut(&M) -> bool) -> Option<u32> {
        let mut entries = self.order.iter_back(self.all);
        entries.find(|&entry| self.parked.get(entry).is_some_and(|parked| is_it(&parked.message)))
    }

    /// All messages that wait to be matched, the newest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Key, &M)> {
        self.order.iter_back(self.all).filter_map(|entry| self.get(entry))
    }

    /// How many messages wait to be matched.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// `NONE`: there is none.
    #[inline]
    fn oldest_by_search(&self, pattern: &Key) -> Result<u32, TooLong> {
        let mut at = self.all.head;
        for _ in 0..SEARCH_STEPS {
            match self.parked.get(at) {
                Some(parked) if !pattern.accepts(&parked.key) => at = self.order.next(at),
                _ => return Ok(at),
            }
        }
        Err(TooLong)
    }

    #[inline(never)]
    fn oldest_by_index(&mut self, pattern: &Key, class: usize) -> u32 {
        if self.indexed & 1 << class == 0 {
            self.index_all(class);
        }
        self.indices[class].oldest(pattern, key_in(&self.parked, class))
    }

    #[inline(never)]
    fn enlist(&mut self, entry: u32) {
        for class in classes(self.indexed) {
            self.indices[class].push_back(entry, key_in(&self.parked, class));
        }
    }

    #[inline(never)]
    fn leave_indices(&mut self, entry: u32) {
        for class in classes(self.indexed) {
            self.indices[class].remove(entry, key_in(&self.parked, class));
        }
        if self.count == 0 {
            self.indexed = 0;
        }
    }

    #[cold]
    fn index_all(&mut self, class: usize) {
        self.indexed |= 1 << class;
        self.indices[class].reserve(self.count);
        for entry in self.order.iter(self.all) {
            self.indices[class].push_back(entry, key_in(&self.parked, class));
        }
    }
}

/// The classes whose bits are set.
fn classes(indexed: u8) -> impl Iterator<Item = usize> {
    (0..CLASSES).filter(move |class| indexed & 1 << class != 0)
}

/// The keys of messages as the index of that class has them.
fn key_in<M>(parked: &Slab<Parked<M>>, class: usize) -> impl Fn(u32) -> Key {
    move |entry| match parked.get(entry) {
        Some(parked) => parked.key.widened(class),
        None => unreachable!("only messages that wait are in an index"),
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
