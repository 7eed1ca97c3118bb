//! Messages to self: matched in place, without the endpoint.

use fabric::RequestId;
use objects::Buffer;

use crate::credit::cost;
use crate::engine::Engine;
use crate::message::{Head, Mode};
use crate::requests::State;
use crate::unexpected::{Arrived, Content, Data};

/// Longest message to self that is copied when no receive is posted, bytes.
const EAGER_MAX: u64 = 64 * 1024;

impl Engine {
    /// Sends to self at once if possible; true when the message has left `buffer`.
    pub(crate) fn self_send_now(&mut self, mode: Mode, head: &Head, buffer: &Buffer) -> bool {
        if let Some(slot) = self.posted.take(&head.key) {
            self.peers.of(self.me).sent += 1;
            self.copy(self.requests.id(slot), head, buffer);
            return true;
        }
        if mode == Mode::Ready {
            self.note_late_ready(head);
        }
        let me = self.peers.of(self.me);
        if mode == Mode::Synchronous || head.bytes > EAGER_MAX || me.credit < cost(head.bytes) {
            return false;
        }
        me.credit -= cost(head.bytes);
        let data = Data::fill(head.bytes as usize, |out| buffer.pack(0, out));
        self.park_self_send(head, Content::Eager(data));
        true
    }

    /// Starts a send to self.
    pub(crate) fn start_self_send(&mut self, id: RequestId) {
        let sequence = self.peers.of(self.me).sent;
        let request = self.requests.held(id);
        request.sequence = sequence;
        let (mode, head, buffer) = (request.mode, request.head(), request.buffer.clone());
        if self.self_send_now(mode, &head, &buffer) {
            self.sent_early(id);
        } else {
            self.requests.held(id).state = State::Announced { recalled: false };
            self.park_self_send(&head, Content::SelfSend(id));
        }
    }

    fn park_self_send(&mut self, head: &Head, content: Content) {
        self.news = true;
        let me = self.peers.of(self.me);
        let sequence = me.sent;
        me.sent += 1;
        let (from, part_of, bytes) = (self.me, head.part_of, head.bytes);
        let is_credited = matches!(content, Content::Eager(_));
        self.unexpected
            .push(head.key, Arrived { from, part_of, bytes, sequence, is_credited, content });
    }

    /// A receive takes what our own send `send` offers.
    pub(crate) fn copy_from_self(&mut self, id: RequestId, head: &Head, send: RequestId) {
        let Some(sender) = self.requests.find(send) else { return };
        let buffer = sender.buffer.clone();
        self.requests.complete(send, false);
        self.copy(id, head, &buffer);
    }

    fn copy(&mut self, receive: RequestId, head: &Head, from: &Buffer) {
        self.news = true;
        let request = self.requests.held(receive);
        request.accept(self.me, head);
        if request.bytes > 0 {
            request.buffer.copy_from(from);
        }
        self.requests.complete(receive, false);
    }
}
