//! A receive starts (MPI-5.0 §3.2.4), and a message is handed to it.

use fabric::{Peer, Transport};
use objects::Buffer;

use crate::eager::{Arrived, Content};
use crate::engine::{Engine, Protocol};
use crate::fault::Fault;
use crate::message::{Head, MessageId, Mode, PartOf, Pattern};
use crate::requests::{NOBODY, RequestId, State};

impl<T: Transport> Engine<T> {
    /// Starts a receive. What goes wrong is in the completion.
    #[inline]
    pub fn receive(&mut self, pattern: Pattern, buffer: Buffer) -> RequestId {
        let id = self.protocol.receive(&pattern, buffer);
        self.settle();
        id
    }

    /// Receives a message that [`Engine::take`] took (MPI-5.0 §3.8.3).
    pub fn receive_taken(&mut self, message: MessageId, buffer: Buffer) -> RequestId {
        let id = self.protocol.receive_taken(message, buffer);
        self.settle();
        id
    }
}

impl Protocol {
    #[inline]
    fn receive(&mut self, pattern: &Pattern, buffer: Buffer) -> RequestId {
        let key = pattern.key();
        let head = Head { key, bytes: buffer.len(), part_of: PartOf::new(pattern.collective) };
        let id = self.requests.open(Mode::Standard, NOBODY, &head, buffer, State::Filling { got: 0 });
        match self.unexpected.find(&key) {
            Some(found) => self.receive_parked(id, found),
            None => {
                let entry = self.posted.post(key, id);
                self.requests.held(id).state = State::Posted { entry };
            }
        }
        id
    }

    fn receive_parked(&mut self, id: RequestId, found: u32) {
        if let Some((key, arrived)) = self.unexpected.remove(found) {
            let head = Head { key, bytes: arrived.bytes, part_of: arrived.part_of };
            self.hand_over(id, &head, arrived);
        }
    }

    fn receive_taken(&mut self, message: MessageId, buffer: Buffer) -> RequestId {
        let taken = self.unexpected.reclaim(message.0);
        let (key, arrived) = taken.expect("a message id is used once, and its message waits for it");
        let head = Head { key, bytes: arrived.bytes, part_of: arrived.part_of };
        let room = Head { bytes: buffer.len(), ..head };
        let id = self.requests.open(Mode::Standard, NOBODY, &room, buffer, State::Filling { got: 0 });
        self.hand_over(id, &head, arrived);
        id
    }

    /// An unexpected message meets its receive.
    fn hand_over(&mut self, id: RequestId, head: &Head, arrived: Arrived) {
        match arrived.content {
            Content::Eager(data) => {
                self.store(id, arrived.from, head, data.bytes());
                self.owe(arrived.from, head.bytes);
            }
            Content::EagerSync(send, data) => {
                self.store(id, arrived.from, head, data.bytes());
                self.owe(arrived.from, head.bytes);
                self.say_done(arrived.from, send);
            }
            Content::Rts(rts) => self.fetch(id, arrived.from, head, *rts),
            Content::Own(send) => self.copy_own(id, head, send),
        }
    }

    /// All of a message's data is here: into the buffer with it.
    #[inline]
    pub(crate) fn store(&mut self, id: RequestId, from: Peer, head: &Head, data: &[u8]) {
        let wanted = self.accept(id, from, head) as usize;
        self.requests.held(id).buffer.unpack(0, &data[..wanted]);
        self.requests.complete(id, false);
    }

    /// Writes the matched envelope into the receive; gives the bytes to store,
    /// which are at most those of the message and of the buffer.
    #[inline]
    pub(crate) fn accept(&mut self, id: RequestId, from: Peer, head: &Head) -> u64 {
        let request = self.requests.held(id);
        let room = request.bytes;
        request.peer = from;
        request.key = head.key;
        request.bytes = head.bytes.min(room);
        if request.part_of != head.part_of || head.bytes > room {
            self.object(id, head, room);
        }
        self.requests.held(id).bytes
    }

    /// The message is not what the receive can take.
    #[cold]
    fn object(&mut self, id: RequestId, head: &Head, room: u64) {
        let request = self.requests.held(id);
        let (source, tag, context) = (head.key.source, head.key.tag, head.key.context);
        let fault = if request.part_of != head.part_of {
            request.bytes = 0;
            let (ours, theirs) = (request.part_of.into(), head.part_of.into());
            Fault::Mismatched { ours, theirs, source, sequence: tag, context }
        } else {
            Fault::Truncated { source, tag, context, sent: head.bytes, room }
        };
        request.fault = Some(Box::new(fault));
    }
}
