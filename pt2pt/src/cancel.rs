//! Cancelling (MPI-5.0 §3.8.4): an operation that is not matched disappears.
//!
//! Receives and queued sends are ours to cancel. For a send whose envelope is
//! out, the receiver is asked; see `docs/protocol.md`.

use fabric::{Header, Kind, Peer, Transport};

use crate::eager::Content;
use crate::engine::{Engine, Protocol};
use crate::requests::{RequestId, State};

impl<T: Transport> Engine<T> {
    /// Asks for an operation to be cancelled. It completes either way, soon;
    /// [`crate::Completion::cancelled`] says whether it was.
    pub fn cancel(&mut self, id: RequestId) {
        self.protocol.cancel(id);
        self.settle();
    }
}

impl Protocol {
    fn cancel(&mut self, id: RequestId) {
        let Some(request) = self.requests.find_mut(id) else { return };
        match &mut request.state {
            State::Posted { entry } => {
                self.posted.remove(*entry);
                request.bytes = 0;
                self.requests.complete(id, true);
            }
            State::Queued { region } => {
                let (peer, region) = (request.peer, region.take());
                self.requests.complete(id, true);
                self.release(peer, region);
            }
            State::Announced { recalled: false, .. } | State::Done { recallable: true, .. } => self.recall(id),
            _ => {}
        }
    }

    /// The envelope is out: asks for it back.
    fn recall(&mut self, id: RequestId) {
        let request = self.requests.held(id);
        let (peer, sequence) = (request.peer, request.sequence);
        if peer == self.me {
            if self.forget(peer, sequence) {
                self.requests.complete(id, true);
            }
            return;
        }
        if self.peers.of(peer).lost.is_some() {
            return;
        }
        match &mut request.state {
            State::Announced { recalled, .. } => *recalled = true,
            state => *state = State::Recalling,
        }
        self.reply(peer, Header { context: sequence, length: id.to_wire(), ..Header::new(Kind::Cancel) });
    }

    /// Drops an unexpected message; false when it is not there (any more).
    fn forget(&mut self, from: Peer, sequence: u64) -> bool {
        let found = self.unexpected.newest(|message| message.from == from && message.sequence == sequence);
        let Some((_, arrived)) = found.and_then(|entry| self.unexpected.remove(entry)) else { return false };
        if let Content::Eager(_) | Content::EagerSync(..) = arrived.content {
            self.owe(from, arrived.bytes);
        }
        true
    }

    /// A `Cancel` frame.
    pub(crate) fn cancel_arrived(&mut self, from: Peer, header: &Header) {
        let length = u64::from(self.forget(from, header.context));
        self.reply(from, Header { context: header.length, length, ..Header::new(Kind::CancelReply) });
    }

    /// A `CancelReply` frame.
    pub(crate) fn cancel_reply_arrived(&mut self, from: Peer, header: &Header) {
        let id = RequestId::from_wire(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from) else { return };
        let cancelled = header.length == 1;
        match &mut request.state {
            State::Recalling => self.requests.complete(id, cancelled),
            State::Announced { region, recalled: true } if cancelled => {
                let region = region.take();
                self.requests.complete(id, true);
                self.release(from, region);
            }
            // It was matched: Done or Cts is here already, or on its way.
            _ => {}
        }
    }
}
