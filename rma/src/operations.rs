//! Operations that could not finish within their call, by request id.
//!
//! States: *sending* while the cursor of the target's layout is before its end, then *waiting* for
//! replies if the operation returns data, or for transfers of a device, then *done*. A done
//! operation without a request is freed at once, another when its outcome is taken.

use fabric::{Region, RequestId};
use objects::op::BuiltinOp;
use objects::{Buffer, Error};

use crate::attached::Lookup;
use crate::confirmation::Confirmation;
use crate::device_atomic::DeviceAtomic;
use crate::element::{Element, MAX_SIZE};
use crate::segment::{Cursor, Layout};

/// What an operation does at the target.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Put,
    Get,
    Accumulate(BuiltinOp, Element),
    Fetch(BuiltinOp, Element),
    Swap(Element, Box<[[u8; MAX_SIZE]; 2]>),
}

/// How an operation reaches the target's memory.
#[derive(Debug)]
pub(crate) enum Path {
    /// In frames, which the target's processor serves.
    Frames,
    /// A device accesses it: the region, and its begin as a displacement.
    Device(Region, i64),
    /// A device first reads where it is.
    Lookup(Box<Lookup>),
    /// A device changes one element.
    Atomic(Box<DeviceAtomic>),
    /// A device confirms the puts before it.
    Confirm(Box<Confirmation>),
}

/// An operation under way.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) window: u64,
    pub(crate) target: u32,
    pub(crate) action: Action,
    pub(crate) layout: Layout,
    pub(crate) cursor: Cursor,
    /// Data for the target; empty for a get and for MPI_NO_OP.
    pub(crate) origin: Buffer,
    /// Takes what comes back.
    pub(crate) result: Buffer,
    /// Packed bytes before the cursor.
    pub(crate) sent: u64,
    /// Packed bytes that have come back.
    pub(crate) received: u64,
    /// Packed bytes that come back in all; 0 if none do.
    pub(crate) expected: u64,
    pub(crate) path: Path,
    /// It began in frames, and the target answers when it has done it.
    pub(crate) is_answered: bool,
    /// Transfers of the device that have not ended.
    pub(crate) transfers: u32,
    /// The user has a request for it.
    pub(crate) is_wanted: bool,
}

impl Operation {
    /// Returns true for an operation that changes elements.
    pub(crate) fn is_accumulate(&self) -> bool {
        !matches!(self.action, Action::Put | Action::Get)
    }

    /// Returns true when nothing is to be posted and nothing is awaited.
    pub(crate) fn is_over(&self) -> bool {
        let has_all = !matches!(self.path, Path::Frames) || self.received >= self.expected;
        has_all && self.transfers == 0 && self.layout.is_end(self.cursor)
    }
}

/// An operation, or its outcome.
#[derive(Debug)]
enum Entry {
    Free(u32),
    Active(Box<Operation>),
    Done(Option<Error>),
}

/// All operations of a process.
#[derive(Debug)]
pub(crate) struct Operations {
    slots: Vec<(u32, Entry)>,
    free: u32,
}

const FREE_LIST_END: u32 = u32::MAX;

impl Operations {
    pub(crate) const fn new() -> Operations {
        Operations { slots: Vec::new(), free: FREE_LIST_END }
    }

    /// Adds an operation.
    pub(crate) fn open(&mut self, operation: Operation) -> RequestId {
        let entry = Entry::Active(Box::new(operation));
        let index = self.free;
        if let Some((generation, slot)) = self.slots.get_mut(index as usize) {
            if let Entry::Free(next) = *slot {
                self.free = next;
            }
            *slot = entry;
            return RequestId::new(index, *generation);
        }
        let index = self.slots.len() as u32;
        assert!(index != FREE_LIST_END, "2^32 - 1 operations are pending in one process");
        self.slots.push((0, entry));
        RequestId::new(index, 0)
    }

    fn entry(&mut self, id: RequestId) -> Option<&mut Entry> {
        let (generation, entry) = self.slots.get_mut(id.slot() as usize)?;
        (*generation == id.generation()).then_some(entry)
    }

    /// Returns the operation of an id from anywhere; `None` if it is done or the id is over.
    pub(crate) fn find(&mut self, id: RequestId) -> Option<&mut Operation> {
        match self.entry(id)? {
            Entry::Active(operation) => Some(operation),
            _ => None,
        }
    }

    /// Ends an operation; returns its window and target.
    pub(crate) fn end(&mut self, id: RequestId, error: Option<Error>) -> Option<(u64, u32)> {
        let operation = self.find(id)?;
        let (at, is_wanted) = ((operation.window, operation.target), operation.is_wanted);
        if is_wanted {
            *self.entry(id)? = Entry::Done(error);
        } else {
            self.vacate(id);
        }
        Some(at)
    }

    /// Returns true for an operation that has ended.
    pub(crate) fn is_done(&mut self, id: RequestId) -> bool {
        matches!(self.entry(id), Some(Entry::Done(_)))
    }

    /// Takes the outcome of an operation that has ended, and frees the id.
    pub(crate) fn finish(&mut self, id: RequestId) -> Option<Result<(), Error>> {
        let Entry::Done(error) = self.entry(id)? else { return None };
        let error = error.take();
        self.vacate(id);
        Some(error.map_or(Ok(()), Err))
    }

    /// Gives up the request of an operation, which goes on.
    pub(crate) fn detach(&mut self, id: RequestId) {
        match self.entry(id) {
            Some(Entry::Active(operation)) => operation.is_wanted = false,
            Some(Entry::Done(_)) => self.vacate(id),
            _ => {}
        }
    }

    /// Returns the ids of operations that `choose` accepts.
    pub(crate) fn select(&self, choose: impl Fn(&Operation) -> bool) -> Vec<RequestId> {
        let is_chosen = |entry: &Entry| matches!(entry, Entry::Active(op) if choose(op));
        let all = (0..).zip(&self.slots).filter(|(_, (_, entry))| is_chosen(entry));
        all.map(|(index, (generation, _))| RequestId::new(index, *generation)).collect()
    }

    fn vacate(&mut self, id: RequestId) {
        let (generation, entry) = &mut self.slots[id.slot() as usize];
        *generation = generation.wrapping_add(1) & RequestId::GENERATION_MASK;
        *entry = Entry::Free(self.free);
        self.free = id.slot();
    }
}
