//! Requests: every operation that could not finish within its call.
//!
//! A slab of reused slots. An id is a slot's index (32 bits) with its generation (28 bits). An id
//! that is over therefore names nothing, whether the user kept it or a peer sent it. The four bits
//! above are free for the owner of the ids. `docs/protocol.md` draws the states.

use fabric::{Peer, Region, RequestId, UserBuf};
use objects::Buffer;

use crate::fault::Fault;
use crate::key::Key;
use crate::message::{Completion, Head, MessageWait, Mode, PartOf, Unfinished};

/// Where a request is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// The slot is not in use; `next` is the next such slot.
    Free { next: u32 },
    /// A send whose envelope is not posted: it is new, or waits for space.
    Queued,
    /// A send whose envelope is out, and which ends when it is matched.
    Announced { recalled: bool },
    /// A send whose data is being pushed to the peer's request `target`, up to
    /// byte `end`.
    Pushing { target: u64, offset: u64, end: u64 },
    /// A send whose data up to byte `end` is to be written for the peer's request
    /// `target`, or (`started`) is on its way.
    Writing { target: u64, end: u64, started: bool },
    /// A send that had completed; its cancellation awaits the answer.
    Recalling,
    /// A receive that waits for a message.
    Posted,
    /// A receive whose data is to be pulled from the peer's request `send`, or
    /// (`started`) is on its way.
    Pulling { send: u64, started: bool },
    /// A receive whose data the peer pushes or writes from its request `send`; `got`
    /// bytes were pushed.
    Filling { send: u64, got: u64 },
    /// The same state of a receive whose peer pushes, and which gets the missing bytes from the
    /// peer's memory when the push stops.
    Hybrid { send: u64, got: u64 },
    /// The same state of a receive that has got the first `got` bytes, and has offered the peer to
    /// write the others. `awaits`: the peer has taken the offer, and reports when they are here.
    Cooperating { send: u64, got: u64, awaits: bool },
    /// It is over. `recallable`: a send that completed before it was matched.
    Done { cancelled: bool, recallable: bool },
}

pub(crate) struct Request {
    generation: u32,
    /// The user has let go of it: when it is done it vanishes.
    pub(crate) detached: bool,
    /// Of a send.
    pub(crate) mode: Mode,
    /// A send: the destination. A receive: the source, once it is matched.
    pub(crate) peer: Peer,
    pub(crate) state: State,
    /// A send: its envelope. A receive: the pattern, then the envelope.
    pub(crate) key: Key,
    pub(crate) part_of: PartOf,
    /// A send: bytes of data. A receive: space, then bytes to be stored.
    pub(crate) bytes: u64,
    /// A send: the number of its envelope among all to this peer.
    pub(crate) sequence: u64,
    pub(crate) buffer: Buffer,
    /// Ours, registered for the peer, of a send that is Queued, Announced or Pushing and of a
    /// receive that is Filling. The peer's while Writing, Pulling, Hybrid or Cooperating;
    /// otherwise none.
    pub(crate) region: Option<Box<Region>>,
    pub(crate) fault: Option<Box<Fault>>,
}

/// No peer: of a receive that is not matched.
pub(crate) const NO_PEER: Peer = Peer(u32::MAX);
const FREE_LIST_END: u32 = u32::MAX;

impl Request {
    #[inline]
    pub(crate) fn head(&self) -> Head {
        Head { key: self.key, bytes: self.bytes, part_of: self.part_of }
    }

    /// For reports.
    pub(crate) fn blocked_on(&self) -> Option<MessageWait> {
        let Key { context, source, tag } = self.key;
        self.is_active().then(|| MessageWait {
            is_send: self.is_send(),
            peer: Some(self.peer).filter(|peer| *peer != NO_PEER),
            source: Some(source).filter(|source| *source != Key::ANY_SOURCE),
            tag: Some(tag).filter(|tag| *tag != Key::ANY_TAG),
            context,
        })
    }

    pub(crate) fn is_active(&self) -> bool {
        !matches!(self.state, State::Free { .. } | State::Done { .. })
    }

    pub(crate) fn is_send(&self) -> bool {
        use State::{Announced, Pushing, Queued, Recalling, Writing};
        matches!(
            self.state,
            Queued | Announced { .. } | Pushing { .. } | Writing { .. } | Recalling
        )
    }
}

/// All requests of an engine.
pub(crate) struct Requests {
    slots: Vec<Request>,
    free: u32,
}

impl Requests {
    pub(crate) const fn new() -> Requests {
        Requests { slots: Vec::new(), free: FREE_LIST_END }
    }

    /// A request in `state`.
    #[inline(always)]
    pub(crate) fn open(
        &mut self,
        mode: Mode,
        peer: Peer,
        head: &Head,
        buffer: Buffer,
        state: State,
    ) -> RequestId {
        let index = if self.free == FREE_LIST_END { self.grow() } else { self.free };
        let slot = &mut self.slots[index as usize];
        if let State::Free { next } = slot.state {
            self.free = next;
        }
        slot.detached = false;
        slot.mode = mode;
        slot.peer = peer;
        slot.state = state;
        slot.key = head.key;
        slot.part_of = head.part_of;
        slot.bytes = head.bytes;
        slot.buffer = buffer;
        RequestId::new(index, slot.generation)
    }

    #[cold]
    fn grow(&mut self) -> u32 {
        let index = self.slots.len() as u32;
        assert!(index != FREE_LIST_END, "2^32 - 1 requests are pending in one process");
        self.slots.push(Request {
            generation: 0,
            detached: false,
            mode: Mode::Standard,
            peer: NO_PEER,
            state: State::Free { next: FREE_LIST_END },
            key: Key { context: 0, source: 0, tag: 0 },
            part_of: PartOf::new(None),
            bytes: 0,
            sequence: 0,
            buffer: Buffer::contiguous(UserBuf::EMPTY),
            region: None,
            fault: None,
        });
        index
    }

    /// The request of an id from anywhere; `None` when the id is over or was
    /// never given out.
    #[inline]
    pub(crate) fn find(&self, id: RequestId) -> Option<&Request> {
        self.slots.get(id.slot() as usize).filter(|slot| slot.generation == id.generation())
    }

    /// As [`Requests::find`], to change it.
    #[inline]
    pub(crate) fn find_mut(&mut self, id: RequestId) -> Option<&mut Request> {
        self.slots.get_mut(id.slot() as usize).filter(|slot| slot.generation == id.generation())
    }

    /// The id of the request in a slot that is in use.
    #[inline]
    pub(crate) fn id(&self, slot: u32) -> RequestId {
        RequestId::new(slot, self.slots[slot as usize].generation)
    }

    /// The id of the request in that slot now, if there is one.
    pub(crate) fn at(&self, index: u32) -> Option<RequestId> {
        let slot = self.slots.get(index as usize)?;
        (!matches!(slot.state, State::Free { .. })).then(|| RequestId::new(index, slot.generation))
    }

    /// The request of an id that this engine holds itself and that is not over.
    #[inline]
    pub(crate) fn held(&mut self, id: RequestId) -> &mut Request {
        &mut self.slots[id.slot() as usize]
    }

    /// The end of an operation. A detached one vanishes.
    #[inline]
    pub(crate) fn complete(&mut self, id: RequestId, cancelled: bool) {
        let slot = &mut self.slots[id.slot() as usize];
        slot.state = State::Done { cancelled, recallable: false };
        if slot.detached {
            self.free(id);
        }
    }

    /// The end of an operation with a fault.
    #[cold]
    pub(crate) fn fail(&mut self, id: RequestId, fault: Fault) {
        let request = self.held(id);
        (request.fault, request.region) = (Some(Box::new(fault)), None);
        self.complete(id, false);
    }

    /// The result of a request that is done; its slot is free afterwards.
    #[inline]
    pub(crate) fn finish(&mut self, id: RequestId) -> Option<Completion> {
        let slot = self.find_mut(id)?;
        let State::Done { cancelled, .. } = slot.state else { return None };
        let Key { context, source, tag } = slot.key;
        let completion = Completion {
            context,
            source,
            tag,
            bytes: slot.bytes,
            cancelled,
            fault: slot.fault.take(),
        };
        self.vacate(id);
        Some(completion)
    }

    /// The result of a request that is done.
    pub(crate) fn outcome(&self, id: RequestId) -> Option<Completion> {
        let slot = self.find(id)?;
        let State::Done { cancelled, .. } = slot.state else { return None };
        let Key { context, source, tag } = slot.key;
        Some(Completion {
            context,
            source,
            tag,
            bytes: slot.bytes,
            cancelled,
            fault: slot.fault.clone(),
        })
    }

    pub(crate) fn free(&mut self, id: RequestId) {
        self.held(id).fault = None;
        self.vacate(id);
    }

    /// Frees a slot whose fault was taken.
    #[inline]
    fn vacate(&mut self, id: RequestId) {
        let slot = &mut self.slots[id.slot() as usize];
        slot.generation = (slot.generation + 1) & RequestId::GENERATION_MASK;
        slot.state = State::Free { next: self.free };
        slot.buffer.release();
        self.free = id.slot();
    }

    /// Every request that is not over.
    pub(crate) fn active(&self) -> impl Iterator<Item = (RequestId, &Request)> {
        let slots = self.slots.iter().enumerate();
        slots
            .filter(|(_, slot)| slot.is_active())
            .map(|(index, slot)| (RequestId::new(index as u32, slot.generation), slot))
    }

    pub(crate) fn unfinished(&self) -> impl Iterator<Item = Unfinished> {
        let kept = self
            .slots
            .iter()
            .filter(|slot| !slot.detached && !matches!(slot.state, State::Free { .. }));
        kept.map(|slot| {
            let Key { context, source, tag } = slot.key;
            let is_send = slot.is_send();
            let rank = if is_send { slot.peer.0 } else { source };
            Unfinished {
                is_send,
                is_done: !slot.is_active(),
                rank: Some(rank).filter(|rank| is_send || *rank != Key::ANY_SOURCE),
                tag: Some(tag).filter(|tag| *tag != Key::ANY_TAG),
                context,
            }
        })
    }
}
