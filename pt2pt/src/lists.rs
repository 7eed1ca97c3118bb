//! A slab whose entries stand in up to `N` doubly linked lists ("lanes") at once.
//!
//! Job: constant-time insertion and removal anywhere, no allocation once the
//! slab has grown. Indices are given out by [`Lists::insert`] and stay valid until
//! [`Lists::remove`], or they are the caller's, who uses [`Lists::put`] alone. They
//! never come from a peer.

/// The index of no entry.
pub(crate) const NONE: u32 = u32::MAX;

/// The ends of one list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { head: NONE, tail: NONE }
    }
}

#[derive(Clone, Copy, Debug)]
struct Link {
    prev: u32,
    next: u32,
}

const UNLINKED: Link = Link { prev: NONE, next: NONE };

#[derive(Debug)]
struct Entry<T, const N: usize> {
    /// Lane 0 of a free entry chains the free ones.
    links: [Link; N],
    value: Option<T>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Lists<T, const N: usize> {
    entries: Vec<Entry<T, N>>,
    free: u32,
}

impl<T, const N: usize> Lists<T, N> {
    pub(crate) const fn new() -> Lists<T, N> {
        Lists { entries: Vec::new(), free: NONE }
    }

    /// Stores a value that stands in no list yet.
    #[inline]
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        let Some(entry) = self.entries.get_mut(self.free as usize) else { return self.grow(value) };
        let index = self.free;
        self.free = entry.links[0].next;
        entry.links = [UNLINKED; N];
        entry.value = Some(value);
        index
    }

    #[cold]
    fn grow(&mut self, value: T) -> u32 {
        let index = self.entries.len() as u32;
        assert!(index != NONE, "2^32 - 1 messages are pending in one process");
        self.entries.push(Entry { links: [UNLINKED; N], value: Some(value) });
        index
    }

    /// Stores a value that stands in no list yet at an index of the caller's, over
    /// what was there.
    #[inline]
    pub(crate) fn put(&mut self, index: u32, value: T) {
        if index as usize >= self.entries.len() {
            self.reach(index);
        }
        self.entries[index as usize].value = Some(value);
    }

    #[cold]
    fn reach(&mut self, index: u32) {
        self.entries.resize_with(index as usize + 1, || Entry { links: [UNLINKED; N], value: None });
    }

    /// Takes a value out; it must stand in no list any more.
    #[inline]
    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let value = entry.value.take()?;
        entry.links[0].next = self.free;
        self.free = index;
        Some(value)
    }

    /// Appends an entry to a list in `lane`.
    #[inline]
    pub(crate) fn push_back(&mut self, ends: &mut Ends, lane: usize, index: u32) {
        self.entries[index as usize].links[lane] = Link { prev: ends.tail, next: NONE };
        match self.entries.get_mut(ends.tail as usize) {
            Some(last) => last.links[lane].next = index,
            None => ends.head = index,
        }
        ends.tail = index;
    }

    /// Takes an entry out of the list in `lane` whose ends these are. The one that was behind it, or [`NONE`].
    #[inline]
    pub(crate) fn unlink(&mut self, ends: &mut Ends, lane: usize, index: u32) -> u32 {
        let Link { prev, next } = std::mem::replace(&mut self.entries[index as usize].links[lane], UNLINKED);
        match self.entries.get_mut(prev as usize) {
            Some(before) => before.links[lane].next = next,
            None => ends.head = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(after) => after.links[lane].prev = prev,
            None => ends.tail = prev,
        }
        next
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        self.entries.get(index as usize)?.value.as_ref()
    }

    /// The entry behind `index` in `lane`, or [`NONE`].
    #[inline]
    pub(crate) fn next(&self, lane: usize, index: u32) -> u32 {
        self.entries[index as usize].links[lane].next
    }

    /// The entry before `index` in `lane`, or [`NONE`].
    #[inline]
    pub(crate) fn prev(&self, lane: usize, index: u32) -> u32 {
        self.entries[index as usize].links[lane].prev
    }
}
