//! Starting a receive (MPI-5.0 §3.2.4), and storing a message in its buffer.

use fabric::{Body, Collective, CollectiveKind, HybridGet, Peer, RequestId};
use objects::Buffer;

use crate::engine::Engine;
use crate::fault::{CollectiveCall, Fault, Types};
use crate::key::Key;
use crate::message::{Completion, Head, MessageId, Mode, PartOf, Pattern};
use crate::requests::{NO_PEER, Request, State};
use crate::unexpected::{Arrived, Content};

impl Engine {
    /// Starts a receive. Errors are in the completion.
    #[inline(always)]
    pub fn receive(
        &mut self,
        endpoint: &mut impl HybridGet,
        pattern: Pattern,
        buffer: Buffer,
    ) -> RequestId {
        let id = self.start_receive(&pattern, buffer);
        self.settle(endpoint);
        id
    }

    /// Receives at once if the message has arrived with its data, and returns its completion.
    /// `None`: nothing was done, use [`Engine::receive`].
    #[inline]
    pub fn receive_now(
        &mut self,
        endpoint: &mut impl HybridGet,
        pattern: &Pattern,
        buffer: &Buffer,
    ) -> Option<Completion> {
        if self.unexpected.len() == 0 {
            return None;
        }
        let completion = self.receive_here(pattern, buffer);
        self.settle(endpoint);
        completion
    }

    /// Receives a message that [`Engine::take`] took (MPI-5.0 §3.8.3).
    pub fn receive_taken(
        &mut self,
        endpoint: &mut impl HybridGet,
        message: MessageId,
        buffer: Buffer,
    ) -> RequestId {
        let id = self.start_receive_taken(message, buffer);
        self.settle(endpoint);
        id
    }
}

impl Engine {
    #[inline(always)]
    fn start_receive(&mut self, pattern: &Pattern, buffer: Buffer) -> RequestId {
        let key = pattern.key();
        let head = Head { key, bytes: buffer.len(), part_of: PartOf::new(pattern.collective) };
        let found = self.unexpected.find(&key);
        let state =
            if found.is_none() { State::Posted } else { State::Filling { send: 0, got: 0 } };
        let id = self.requests.open(Mode::Standard, NO_PEER, &head, buffer, state);
        match found {
            None => self.posted.post(key, id.slot()),
            Some(found) => self.receive_parked(id, found),
        }
        id
    }

    /// As [`Engine::receive_now`].
    #[inline(never)]
    fn receive_here(&mut self, pattern: &Pattern, buffer: &Buffer) -> Option<Completion> {
        let found = self.unexpected.find(&pattern.key())?;
        let (key, arrived) = self.unexpected.get(found)?;
        let (data, waits) = match &arrived.content {
            Content::Eager(data) => (data, None),
            Content::EagerSync(send, data) => (data, Some(*send)),
            Content::Rts(_) | Content::Requested | Content::SelfSend(_) => return None,
        };
        let (from, head) =
            (arrived.from, Head { key: *key, bytes: arrived.bytes, part_of: arrived.part_of });
        let (expected, capacity) = (PartOf::new(pattern.collective), buffer.len());
        let (bytes, fault) = match check_envelope(expected, capacity, head.bytes, head.part_of) {
            true => (head.bytes, None),
            false => envelope_fault(expected, buffer, capacity, &head),
        };
        buffer.unpack(0, &data.bytes()[..bytes as usize]);
        self.unexpected.discard(found);
        self.owe(from, head.bytes);
        if let Some(send) = waits {
            self.send_done(from, send);
        }
        let Key { context, source, tag } = head.key;
        Some(Completion { context, source, tag, bytes, cancelled: false, fault })
    }

    fn receive_parked(&mut self, id: RequestId, found: u32) {
        if let Some((key, arrived)) = self.unexpected.remove(found) {
            let head = Head { key, bytes: arrived.bytes, part_of: arrived.part_of };
            self.hand_over(id, &head, arrived);
        }
    }

    fn start_receive_taken(&mut self, message: MessageId, buffer: Buffer) -> RequestId {
        let taken = self.unexpected.reclaim(message.0);
        let (key, arrived) =
            taken.expect("a message id is used once, and its message waits for it");
        let head = Head { key, bytes: arrived.bytes, part_of: arrived.part_of };
        let whole_buffer =
            Head { bytes: buffer.len(), part_of: PartOf { root: 0, ..head.part_of }, ..head };
        let id = self.requests.open(
            Mode::Standard,
            NO_PEER,
            &whole_buffer,
            buffer,
            State::Filling { send: 0, got: 0 },
        );
        self.hand_over(id, &head, arrived);
        id
    }

    /// Gives an unexpected message to its receive.
    fn hand_over(&mut self, id: RequestId, head: &Head, arrived: Arrived) {
        match arrived.content {
            Content::Eager(data) => self.store(id, arrived.from, head, data.bytes()),
            Content::EagerSync(send, data) => {
                self.store(id, arrived.from, head, data.bytes());
                self.send_done(arrived.from, send);
            }
            Content::Rts(rts) => self.fetch(id, arrived.from, head, rts),
            Content::Requested => {
                self.receive_requested(id, (arrived.from, arrived.sequence), head)
            }
            Content::SelfSend(send) => self.copy_from_self(id, head, send),
        }
        self.owe_if(arrived.is_credited, arrived.from, head.bytes);
    }

    /// Stores all of a message's data, which is here or arriving, and completes the receive.
    #[inline(always)]
    pub(crate) fn store(
        &mut self,
        id: RequestId,
        from: Peer,
        head: &Head,
        data: &(impl Body + ?Sized),
    ) {
        let request = self.requests.held(id);
        request.accept(from, head);
        let by_lines = data.by_lines();
        let stored = data.for_each_chunk(request.bytes as usize, |at, part| {
            request.buffer.unpack_part(at as u64, part, by_lines)
        });
        if stored.is_err() {
            return self.fail_cut(id, from);
        }
        request.state = State::Done { cancelled: false, recallable: false };
        if request.detached {
            self.requests.free(id);
        }
    }
}

impl Request {
    /// Writes the matched envelope into a receive. `bytes` is then the number of bytes to store:
    /// at most the message's, and at most the buffer's.
    #[inline]
    pub(crate) fn accept(&mut self, from: Peer, head: &Head) {
        let capacity = self.bytes;
        (self.peer, self.key, self.bytes) = (from, head.key, head.bytes);
        if !check_envelope(self.part_of, capacity, head.bytes, head.part_of) {
            self.refuse(capacity, head.part_of);
        }
    }

    /// Records the fault of a matched envelope that fails its check.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, capacity: u64, part_of: PartOf) {
        let head = Head { part_of, ..self.head() };
        (self.bytes, self.fault) = envelope_fault(self.part_of, &self.buffer, capacity, &head);
    }
}

/// Returns true if a message may be stored in a buffer of `capacity` bytes without a fault.
/// `expected` is the collective that the receive belongs to.
#[inline]
fn check_envelope(expected: PartOf, capacity: u64, bytes: u64, part_of: PartOf) -> bool {
    expected == part_of && (bytes == capacity || bytes < capacity && may_be_short(expected, bytes))
}

/// Returns true if a message may have fewer bytes than its receive has room for: between two
/// processes, and where each pair of ranks has an amount of its own. An empty message in a
/// collective is one of a rank that was called without data.
#[inline]
fn may_be_short(expected: PartOf, bytes: u64) -> bool {
    expected.collective == 0 || bytes != 0 && has_own_sizes(expected.kind())
}

/// Returns true for operations in which a receive may be larger than its message, as other
/// libraries allow it: the data is complete all the same.
#[cold]
fn has_own_sizes(collective: u8) -> bool {
    use CollectiveKind::*;
    [
        Gatherv,
        Scatterv,
        Alltoallv,
        Alltoallw,
        NeighborAllgather,
        NeighborAllgatherv,
        NeighborAlltoall,
        NeighborAlltoallv,
        NeighborAlltoallw,
    ]
    .into_iter()
    .any(|kind| kind as u8 == collective)
}

/// Returns the fault of a message that is too long, or whose type signature differs. The signature
/// is compared with that of as many bytes of the receive's buffer (MPI-5.0 §3.3.1).
fn point_to_point_fault(buffer: &Buffer, capacity: u64, head: &Head) -> Option<Fault> {
    let Key { source, tag, context } = head.key;
    let sent = head.bytes;
    if sent > capacity {
        return Some(Fault::Truncated { source, tag, context, sent, capacity });
    }
    let theirs = head.part_of.signature();
    let is_same = theirs.matches(buffer.signature(sent));
    let ours = buffer.signature(capacity);
    let types = Box::new(Types { theirs, sent, ours, capacity });
    (!is_same).then_some(Fault::Signature { source, tag, context, types })
}

/// Returns how many bytes of a message that failed its check are stored, and the fault.
#[cold]
fn envelope_fault(
    expected: PartOf,
    buffer: &Buffer,
    capacity: u64,
    head: &Head,
) -> (u64, Option<Box<Fault>>) {
    let (source, tag, context) = (head.key.source, head.key.tag, head.key.context);
    if expected.collective == 0 && head.part_of.collective == 0 {
        let fault = point_to_point_fault(buffer, capacity, head);
        return (head.bytes.min(capacity), fault.map(Box::new));
    }
    let theirs = head.part_of.call();
    let is_other = (theirs.kind, theirs.root) != (expected.kind(), expected.root);
    if is_other && theirs.kind != CollectiveKind::GaveUp as u8 {
        let fault =
            Fault::Mismatched { ours: expected.into(), theirs, source, sequence: tag, context };
        return (0, Some(Box::new(fault)));
    }
    if head.part_of.kind() == CollectiveKind::GaveUp as u8 {
        let fault = Fault::GaveUp { call: expected.into(), source, sequence: tag, context };
        return (0, Some(Box::new(fault)));
    }
    let sent = head.bytes;
    if sent != capacity && (sent > capacity || !may_be_short(expected, sent)) {
        let call = expected.into();
        let fault = Fault::Sizes {
            call,
            source,
            sequence: tag,
            context,
            sent: Some(sent),
            expected: capacity,
        };
        return (sent.min(capacity), Some(Box::new(fault)));
    }
    let (ours, theirs) = (expected.before(), head.part_of.before());
    let is_known = ours != 0 && theirs != 0 && ours != Collective::FAILED;
    let has_failed = theirs == Collective::FAILED;
    let fault = Fault::Earlier {
        ours: None,
        theirs: has_failed.then_some(CollectiveCall::GAVE_UP),
        source,
        sequence: tag,
        context,
    };
    (sent, (is_known && ours != theirs).then(|| Box::new(fault)))
}
