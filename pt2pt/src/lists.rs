//! Storage of matching entries: a [`Slab`] numbers them, intrusive [`Links`] chain them.
//!
//! Job: constant-time insertion and removal anywhere, no allocation once all has grown, and few
//! bytes for each entry. A long queue is not in the cache: an entry has 8 bytes in each lane that
//! is in use. There its neighbours in the list are likely to be its neighbours in memory. Places
//! are the slab's or the caller's; they never come from a peer.

/// The place of no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// The list without entries.
pub(crate) const EMPTY: List = List { head: NONE };

/// A list in a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct List {
    pub(crate) head: u32,
}

/// `prev` of the first is the last; `next` of the last is [`NONE`].
#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

/// Lists in which an entry stands at most once.
#[derive(Debug)]
pub(crate) struct Links(Vec<Link>);

impl Links {
    pub(crate) const fn new() -> Links {
        Links(Vec::new())
    }

    /// Appends an entry, which is in no list of this lane.
    #[inline]
    pub(crate) fn push_back(&mut self, list: &mut List, at: u32) {
        let mut prev = at;
        match self.0.get_mut(list.head as usize) {
            Some(first) => {
                prev = std::mem::replace(&mut first.prev, at);
                self.0[prev as usize].next = at;
            }
            None => list.head = at,
        }
        match self.0.get_mut(at as usize) {
            Some(link) => *link = Link { prev, next: NONE },
            None => self.grow(at, prev),
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, at: u32, prev: u32) {
        self.0.resize(at as usize + 1, Link { prev, next: NONE });
    }

    /// Takes an entry out of its list. The entry after it, or [`NONE`].
    #[inline]
    pub(crate) fn unlink(&mut self, list: &mut List, at: u32) -> u32 {
        let Link { prev, next } = self.0[at as usize];
        if list.head == at {
            list.head = next;
        } else {
            self.0[prev as usize].next = next;
        }
        // After the last one comes the first, which knows the last.
        let after = if next == NONE { list.head } else { next };
        if let Some(after) = self.0.get_mut(after as usize) {
            after.prev = prev;
        }
        next
    }

    /// The entry after that one, or [`NONE`].
    #[inline]
    pub(crate) fn next(&self, at: u32) -> u32 {
        self.0[at as usize].next
    }

    /// The entries of a list, first to last.
    pub(crate) fn iter(&self, list: List) -> impl Iterator<Item = u32> {
        let some = |at: u32| (at != NONE).then_some(at);
        std::iter::successors(some(list.head), move |&at| some(self.next(at)))
    }

    /// The same entries, last to first.
    pub(crate) fn iter_back(&self, list: List) -> impl Iterator<Item = u32> {
        let before = move |at: u32| Some(self.0.get(at as usize)?.prev);
        std::iter::successors(
            before(list.head),
            move |&at| if at == list.head { None } else { before(at) },
        )
    }
}

/// Values in numbered places. When all have been taken out, the next ones get the first places
/// again in order, so that values inserted together lie together.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Option<T>>,
    /// Places from here on have not been used since the slab was empty.
    fresh: u32,
    /// Places before it that are free.
    free: Vec<u32>,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Slab<T> {
        Slab { places: Vec::new(), fresh: 0, free: Vec::new() }
    }

    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        match self.places.get_mut(at as usize) {
            Some(place) => *place = Some(value),
            None => self.grow(value),
        }
        at
    }

    #[cold]
    fn grow(&mut self, value: T) {
        assert!(self.fresh != NONE, "2^32 - 1 messages are pending in one process");
        self.places.push(Some(value));
    }

    #[inline]
    pub(crate) fn remove(&mut self, at: u32) -> Option<T> {
        let value = self.places.get_mut(at as usize)?.take()?;
        self.give_back(at);
        Some(value)
    }

    /// Drops a value where it is: as [`Slab::remove`], but the value is not moved.
    #[inline]
    pub(crate) fn discard(&mut self, at: u32) {
        self.places[at as usize] = None;
        self.give_back(at);
    }

    #[inline]
    fn give_back(&mut self, at: u32) {
        if self.free.len() + 1 == self.fresh as usize {
            self.fresh = 0;
            self.free.clear();
        } else {
            self.free.push(at);
        }
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<&T> {
        self.places.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut T> {
        self.places.get_mut(at as usize)?.as_mut()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All entries, found from both ends.
    fn entries(links: &Links, list: List) -> Vec<u32> {
        let forth: Vec<u32> = links.iter(list).collect();
        let mut back: Vec<u32> = links.iter_back(list).collect();
        back.reverse();
        assert_eq!(forth, back);
        forth
    }

    proptest! {
        #[test]
        fn entries_leave_their_list_in_any_order(
            appended in 1..20u32,
            others in 0..3u32,
            order in prop::collection::vec(any::<prop::sample::Index>(), 20),
        ) {
            let (mut links, mut list, mut other) = (Links::new(), EMPTY, EMPTY);
            (0..others).for_each(|at| links.push_back(&mut other, 100 - at));
            (0..appended).for_each(|at| links.push_back(&mut list, at));
            let mut left: Vec<u32> = (0..appended).collect();
            for choice in order.iter().take(appended as usize) {
                let place = choice.index(left.len());
                let at = left.remove(place);
                let next = left.get(place).copied().unwrap_or(NONE);
                prop_assert_eq!(links.unlink(&mut list, at), next);
                prop_assert_eq!(entries(&links, list), left.clone());
            }
            prop_assert_eq!(list, EMPTY);
            prop_assert_eq!(entries(&links, other).len(), others as usize);
        }
    }

    #[test]
    fn an_empty_slab_begins_with_its_first_place() {
        let mut slab = Slab::new();
        assert_eq!(["a", "b", "c"].map(|value| slab.insert(value)), [0, 1, 2]);
        assert_eq!([1, 0].map(|at| slab.remove(at)), [Some("b"), Some("a")]);
        assert_eq!(slab.insert("d"), 0);
        assert_eq!([2, 0, 0].map(|at| slab.remove(at)), [Some("c"), Some("d"), None]);
        assert_eq!(["e", "f", "g", "h"].map(|value| slab.insert(value)), [0, 1, 2, 3]);
        assert_eq!(
            [0, 1, 2, 3, 4].map(|at| slab.get(at).copied()),
            [Some("e"), Some("f"), Some("g"), Some("h"), None]
        );
    }
}
