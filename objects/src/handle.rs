//! Dynamic handles: the 64 bits of an `MPI_Comm`, `MPI_Request` ...
//!
//! ```text
//! 63  60 59            32 31               0
//! [kind ][ generation    ][ index of slot   ]
//! ```
//!
//! A slot is *vacant* or *occupied*. Its generation grows by one whenever it is vacated, so that a
//! freed handle is recognised until its slot has been reused 2^28 times. A kind is never 0;
//! therefore every dynamic handle is above the predefined ones of the ABI (below 0x1000), which are
//! not in a [`Table`].
//!
//! Invariants: the free list names each vacant slot once. For an occupied slot, `slot.tag` is the
//! upper half of the one handle that is valid for it.
//!
//! As an `int` (Fortran, MPI_Comm_toint ...) a handle is its index + 0x1000, without a generation.

/// First value that is not a predefined handle.
const FIRST_DYNAMIC: u32 = 0x1000;
const GENERATION_BITS: u32 = 28;
const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;
/// The end of the free list, and the first index that is never used.
const NO_SLOT: u32 = i32::MAX as u32 - FIRST_DYNAMIC;

/// The class of objects that a handle names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum HandleKind {
    Comm = 1,
    Group,
    Datatype,
    Op,
    Request,
    Message,
    Win,
    File,
    Info,
    Errhandler,
    Session,
    /// A request for a message in progress; not in a [`Table`].
    Transfer,
    /// A request for a send that was complete at once; not in a [`Table`].
    Sent,
}

/// The reason why a handle names no object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stale {
    /// The value 0.
    #[error("it is 0, which is never a handle (an uninitialised variable?)")]
    Null,
    /// Looks like a handle of another class of objects.
    #[error("it looks like the handle of {}", .0.noun())]
    WrongKind(HandleKind),
    /// A value that was never a handle.
    #[error("it was never a handle (an uninitialised variable, or from another MPI library?)")]
    NotOurs,
    /// The object was freed.
    #[error("it was freed before")]
    Freed,
}

/// Returns a dynamic handle as an `int`: index + 0x1000. Does not check whether it is valid.
#[inline]
pub fn to_int(handle: u64) -> i32 {
    (handle as u32).wrapping_add(FIRST_DYNAMIC) as i32
}

/// The objects of one kind, found by handle. All operations take constant time.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    /// First vacant slot, or `NO_SLOT`.
    free: u32,
    len: u32,
    kind: HandleKind,
}

#[derive(Debug)]
struct Slot<T> {
    /// Kind and generation, as in the upper half of the handle.
    tag: u32,
    state: State<T>,
}

#[derive(Debug)]
enum State<T> {
    /// Holds the next vacant slot, or `NO_SLOT`.
    Vacant(u32),
    Occupied(T),
}

impl<T> Table<T> {
    /// Returns an empty table.
    pub const fn new(kind: HandleKind) -> Table<T> {
        Table { slots: Vec::new(), free: NO_SLOT, len: 0, kind }
    }

    /// Stores a value and returns its handle.
    ///
    /// # Panics
    /// Panics if 2^31 - 8,192 objects of one kind are alive.
    #[inline]
    pub fn insert(&mut self, value: T) -> u64 {
        let index = self.free;
        let tag = match self.slots.get_mut(index as usize) {
            Some(slot) => {
                if let State::Vacant(next) = slot.state {
                    self.free = next;
                }
                slot.state = State::Occupied(value);
                slot.tag
            }
            None => return self.grow(value),
        };
        self.len += 1;
        u64::from(tag) << 32 | u64::from(index)
    }

    #[cold]
    fn grow(&mut self, value: T) -> u64 {
        let index = self.slots.len() as u32;
        assert!(index < NO_SLOT, "2^31 objects of one kind are alive");
        let tag = (self.kind as u32) << GENERATION_BITS;
        self.slots.push(Slot { tag, state: State::Occupied(value) });
        self.len += 1;
        u64::from(tag) << 32 | u64::from(index)
    }

    /// Removes the object and returns it.
    #[inline]
    pub fn remove(&mut self, handle: u64) -> Result<T, Stale> {
        match self.slots.get_mut(handle as u32 as usize) {
            Some(slot)
                if slot.tag == (handle >> 32) as u32
                    && matches!(slot.state, State::Occupied(_)) =>
            {
                let generation = slot.tag.wrapping_add(1) & GENERATION_MASK;
                slot.tag = (self.kind as u32) << GENERATION_BITS | generation;
                let state = std::mem::replace(&mut slot.state, State::Vacant(self.free));
                self.free = handle as u32;
                self.len -= 1;
                match state {
                    State::Occupied(value) => Ok(value),
                    State::Vacant(_) => Err(Stale::Freed), // excluded by the guard
                }
            }
            _ => Err(self.why_not(handle)),
        }
    }

    /// Returns the object for changes.
    #[inline]
    pub fn get_mut(&mut self, handle: u64) -> Result<&mut T, Stale> {
        // Two look-ups, because the borrow of a hit would last into the miss.
        if !self.contains(handle) {
            return Err(self.why_not(handle));
        }
        match self.slots.get_mut(handle as u32 as usize).map(|slot| &mut slot.state) {
            Some(State::Occupied(value)) => Ok(value),
            _ => Err(Stale::NotOurs), // excluded above
        }
    }

    /// Returns the object.
    #[inline]
    pub fn get(&self, handle: u64) -> Result<&T, Stale> {
        match self.slots.get(handle as u32 as usize) {
            Some(Slot { tag, state: State::Occupied(value) }) if *tag == (handle >> 32) as u32 => {
                Ok(value)
            }
            _ => Err(self.why_not(handle)),
        }
    }

    /// Returns true if the handle names an object.
    #[inline]
    pub fn contains(&self, handle: u64) -> bool {
        matches!(
            self.slots.get(handle as u32 as usize),
            Some(Slot { tag, state: State::Occupied(_) }) if *tag == (handle >> 32) as u32
        )
    }

    /// Returns the number of objects.
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Returns true if there are no objects.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the handle of the object that is in that slot now, if there is one.
    pub fn from_int(&self, int: i32) -> Option<u64> {
        let index = u32::try_from(int).ok()?.checked_sub(FIRST_DYNAMIC)?;
        match self.slots.get(index as usize) {
            Some(Slot { tag, state: State::Occupied(_) }) => {
                Some(u64::from(*tag) << 32 | u64::from(index))
            }
            _ => None,
        }
    }

    /// Iterates over all objects with their handles, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.state {
            State::Occupied(value) => Some((u64::from(slot.tag) << 32 | index as u64, value)),
            State::Vacant(_) => None,
        })
    }

    /// Returns the class of objects in the table.
    #[inline]
    pub const fn kind(&self) -> HandleKind {
        self.kind
    }

    #[cold]
    fn why_not(&self, handle: u64) -> Stale {
        if handle == 0 {
            return Stale::Null;
        }
        match HandleKind::of(handle) {
            Some(kind) if kind == self.kind => {}
            Some(kind) => return Stale::WrongKind(kind),
            None => return Stale::NotOurs,
        }
        let Some(slot) = self.slots.get(handle as u32 as usize) else { return Stale::NotOurs };
        let (theirs, now) = ((handle >> 32) as u32 & GENERATION_MASK, slot.tag & GENERATION_MASK);
        if theirs < now { Stale::Freed } else { Stale::NotOurs }
    }
}

impl HandleKind {
    /// Returns the kind that a dynamic handle claims; `None` for predefined handles and garbage.
    pub const fn of(handle: u64) -> Option<HandleKind> {
        Some(match handle >> 60 {
            1 => HandleKind::Comm,
            2 => HandleKind::Group,
            3 => HandleKind::Datatype,
            4 => HandleKind::Op,
            5 => HandleKind::Request,
            6 => HandleKind::Message,
            7 => HandleKind::Win,
            8 => HandleKind::File,
            9 => HandleKind::Info,
            10 => HandleKind::Errhandler,
            11 => HandleKind::Session,
            12 => HandleKind::Transfer,
            13 => HandleKind::Sent,
            _ => return None,
        })
    }

    /// Returns the noun with its article, for error texts.
    pub const fn noun(self) -> &'static str {
        match self {
            HandleKind::Comm => "a communicator",
            HandleKind::Group => "a group",
            HandleKind::Datatype => "a datatype",
            HandleKind::Op => "an operation",
            HandleKind::Request | HandleKind::Transfer | HandleKind::Sent => "a request",
            HandleKind::Message => "a message",
            HandleKind::Win => "a window",
            HandleKind::File => "a file",
            HandleKind::Info => "an info object",
            HandleKind::Errhandler => "an error handler",
            HandleKind::Session => "a session",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_freed_handle_is_known_and_its_slot_reused() {
        let mut table = Table::new(HandleKind::Group);
        let first = table.insert("a");
        assert_eq!(table.remove(first), Ok("a"));
        assert_eq!(table.get(first), Err(Stale::Freed));
        assert_eq!(table.remove(first), Err(Stale::Freed));
        let second = table.insert("b");
        assert_eq!(second as u32, first as u32);
        assert_eq!(table.get(first), Err(Stale::Freed));
        assert_eq!(table.get_mut(second), Ok(&mut "b"));
    }

    #[test]
    fn foreign_values_are_named() {
        let mut comms = Table::new(HandleKind::Comm);
        let mut groups = Table::new(HandleKind::Group);
        let (comm, group) = (comms.insert(1), groups.insert(2));
        assert!(comm > 0xfff && group > 0xfff);
        assert_eq!(comms.get(0), Err(Stale::Null));
        assert_eq!(comms.get(group), Err(Stale::WrongKind(HandleKind::Group)));
        assert_eq!(comms.get(comm + 1), Err(Stale::NotOurs));
        assert_eq!(comms.get(0x7fff_dead_beef), Err(Stale::NotOurs));
        assert_eq!(comms.get(u64::MAX), Err(Stale::NotOurs));
        assert_eq!(
            Stale::WrongKind(HandleKind::Op).to_string(),
            "it looks like the handle of an operation"
        );
    }

    #[test]
    fn an_int_names_what_lives_in_the_slot() {
        let mut table = Table::new(HandleKind::Request);
        let old = table.insert(1);
        assert_eq!(to_int(old), 0x1000);
        assert_eq!(table.from_int(0x1000), Some(old));
        table.remove(old).unwrap();
        assert_eq!(table.from_int(0x1000), None);
        let new = table.insert(2);
        assert_eq!(table.from_int(0x1000), Some(new));
        for int in [-1, 0, 0xfff, 0x1001, i32::MIN, i32::MAX] {
            assert_eq!(table.from_int(int), None);
        }
    }

    #[test]
    fn a_generation_wraps_without_leaving_its_kind() {
        let mut table = Table::new(HandleKind::Session);
        let handle = table.insert(());
        table.slots[0].tag |= GENERATION_MASK;
        let last = handle | u64::from(GENERATION_MASK) << 32;
        table.remove(last).unwrap();
        assert_eq!(table.insert(()), handle);
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_map(steps in prop::collection::vec((0..3u8, any::<prop::sample::Index>()), 1..400)) {
            let mut table = Table::new(HandleKind::Datatype);
            let mut model = HashMap::new();
            let mut ever = Vec::new();
            for (number, (what, which)) in steps.into_iter().enumerate() {
                if what == 0 || ever.is_empty() {
                    let handle = table.insert(number);
                    prop_assert!(model.insert(handle, number).is_none());
                    ever.push(handle);
                    continue;
                }
                let handle = *which.get(&ever);
                if what == 1 {
                    prop_assert_eq!(table.remove(handle).ok(), model.remove(&handle));
                } else {
                    prop_assert_eq!(table.get(handle).ok(), model.get(&handle));
                    prop_assert_eq!(table.contains(handle), model.contains_key(&handle));
                }
                prop_assert_eq!(table.get_mut(handle).ok(), model.get_mut(&handle));
                prop_assert_eq!(table.len(), model.len());
            }
            let all: HashMap<u64, usize> = table.iter().map(|(handle, &value)| (handle, value)).collect();
            prop_assert_eq!(all, model);
        }
    }
}
