//! Cancelling (MPI-5.0 §3.8.4): an operation that is not matched disappears.
//!
//! Receives and queued sends are ours to cancel. For a send whose envelope is out, the receiver
//! decides; see `docs/protocol.md`.

use fabric::{Header, HybridGet, Kind, Peer, RequestId};

use objects::Buffer;

use crate::engine::Engine;
use crate::key::Key;
use crate::message::{Head, Mode, PartOf};
use crate::requests::State;
use crate::unexpected::Content;

impl Engine {
    /// Requests that an operation be cancelled. It completes either way, soon;
    /// [`crate::Completion::cancelled`] shows whether it was.
    pub fn cancel(&mut self, endpoint: &mut impl HybridGet, id: RequestId) {
        self.start_cancel(id);
        self.settle(endpoint);
    }

    /// Returns whether a peer has yet to answer the cancellation of a detached send. Cost: all
    /// requests.
    pub fn is_recalling(&self) -> bool {
        self.requests.active().any(|(_, request)| {
            let is_recalled =
                matches!(request.state, State::Recalling | State::Announced { recalled: true });
            is_recalled && request.detached
        })
    }

    /// Recalls a message that [`Engine::send_now`] sent. `sequence` is what that gave, or its lower
    /// `bits` bits.
    pub fn recall_sent(
        &mut self,
        endpoint: &mut impl HybridGet,
        to: Peer,
        sequence: u64,
        bits: u32,
    ) -> RequestId {
        let sent = self.peers.of(to).sent;
        // The latest number below `sent` that ends in these bits.
        let sequence = sent - 1 - ((sent - 1).wrapping_sub(sequence) & ((1 << bits) - 1));
        let key = Key { context: 0, source: 0, tag: 0 };
        let head = Head { key, bytes: 0, part_of: PartOf::new(None) };
        let state = State::Done { cancelled: false, recallable: true };
        let id = self.requests.open(Mode::Standard, to, &head, Buffer::EMPTY, state);
        self.requests.held(id).sequence = sequence;
        self.cancel(endpoint, id);
        id
    }
}

impl Engine {
    fn start_cancel(&mut self, id: RequestId) {
        let Some(request) = self.requests.find_mut(id) else { return };
        match request.state {
            State::Posted => {
                self.posted.remove(id.slot());
                request.bytes = 0;
                self.requests.complete(id, true);
            }
            State::Queued => {
                let (peer, region) = (request.peer, request.region.take());
                self.requests.complete(id, true);
                self.release(peer, region);
            }
            State::Announced { recalled: false, .. } | State::Done { recallable: true, .. } => {
                self.recall(id)
            }
            _ => {}
        }
    }

    /// The envelope is out: recalls it.
    fn recall(&mut self, id: RequestId) {
        let request = self.requests.held(id);
        let (peer, sequence) = (request.peer, request.sequence);
        if peer == self.me {
            if self.forget(peer, sequence) {
                self.requests.complete(id, true);
            }
            return;
        }
        if self.peers.of(peer).failure.is_some() {
            return;
        }
        match &mut request.state {
            State::Announced { recalled, .. } => *recalled = true,
            state => *state = State::Recalling,
        }
        self.reply(
            peer,
            Header { context: sequence, length: id.to_bits(), ..Header::new(Kind::Cancel) },
        );
    }

    /// Drops an unexpected message; returns false if it is not there.
    fn forget(&mut self, from: Peer, sequence: u64) -> bool {
        let found = self.unexpected_from(from, sequence);
        let Some((_, arrived)) = found.and_then(|entry| self.unexpected.remove(entry)) else {
            return false;
        };
        if let Content::Requested = arrived.content {
            self.forget_requested(from, sequence);
        }
        self.owe_if(arrived.is_credited, from, arrived.bytes);
        true
    }

    /// The unexpected message with that number from a peer.
    pub(crate) fn unexpected_from(&self, from: Peer, sequence: u64) -> Option<u32> {
        self.unexpected.newest(|message| message.from == from && message.sequence == sequence)
    }

    /// A `Cancel` frame.
    pub(crate) fn cancel_arrived(&mut self, from: Peer, header: &Header) {
        let length = u64::from(self.forget(from, header.context));
        self.reply(
            from,
            Header { context: header.length, length, ..Header::new(Kind::CancelReply) },
        );
    }

    /// A `CancelReply` frame.
    pub(crate) fn cancel_reply_arrived(&mut self, from: Peer, header: &Header) {
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from)
        else {
            return;
        };
        let cancelled = header.length == 1;
        match request.state {
            State::Recalling => self.requests.complete(id, cancelled),
            State::Announced { recalled: true } if cancelled => {
                let region = request.region.take();
                self.requests.complete(id, true);
                self.release(from, region);
            }
            // It was matched: Done or Cts is here already, or on its way. Or the receiver has
            // requested the data, which is about to leave.
            State::Announced { recalled: true } => {
                request.state = State::Announced { recalled: false };
            }
            _ => {}
        }
    }
}
