//! The engine as a client of the endpoint: takes frames in, posts what is queued.

use fabric::{
    Body, Header, HybridGet, Kind, Peer, PeerFailed, Post, Protocol, RequestId, Sink, Token,
};

use crate::engine::Engine;
use crate::message::Head;
use crate::peers::Frame;
use crate::requests::State;

impl Engine {
    /// Posts what a call has queued, without polling. Nothing if the engine wants a poll first.
    #[inline]
    pub(crate) fn settle<T: HybridGet>(&mut self, endpoint: &mut T) {
        if self.has_pending {
            self.news = true;
            if !self.poll_wanted {
                self.work(endpoint);
            }
        }
    }

    /// Serves the next ready peer; true if anything was posted.
    fn flush_next<T: HybridGet>(&mut self, endpoint: &mut T) -> bool {
        let Some(slot) = self.ready_peers.pop_front() else { return false };
        let moved = self.flush(endpoint, slot);
        if let Err(lost) = &moved {
            self.mark_failed(lost);
        }
        let peer = self.peers.at(slot);
        peer.is_ready = !peer.queue.is_empty() || !peer.pushing.is_empty();
        if peer.is_ready {
            self.ready_peers.push_back(slot);
        }
        moved.unwrap_or(true)
    }

    /// Posts queued frames in their order, then pieces of data.
    fn flush<T: HybridGet>(&mut self, endpoint: &mut T, slot: usize) -> Result<bool, PeerFailed> {
        let waiting = self.peers.at(slot);
        let (peer, several) = (waiting.peer, waiting.queue.len() > 1);
        waiting.blocked = false;
        if several {
            endpoint.begin_batch(peer);
        }
        let moved = self.flush_queue(endpoint, slot);
        if several {
            endpoint.end_batch(peer);
        }
        let moved = moved?;
        if self.peers.at(slot).blocked { Ok(moved) } else { Ok(self.push(endpoint, slot)? | moved) }
    }

    /// Posts queued frames until there is no space for the next.
    fn flush_queue<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        slot: usize,
    ) -> Result<bool, PeerFailed> {
        let mut moved = false;
        while let Some(&frame) = self.peers.at(slot).queue.front() {
            if self.post_frame(endpoint, slot, frame)? == Post::NoSpace {
                self.peers.at(slot).blocked = true;
                return Ok(moved);
            }
            self.peers.at(slot).queue.pop_front();
            moved = true;
        }
        Ok(moved)
    }

    fn post_frame<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        slot: usize,
        frame: Frame,
    ) -> Result<Post, PeerFailed> {
        match frame {
            Frame::Envelope(id) => {
                let request = self.requests.find(id);
                // A send that was cancelled in the queue has gone from it here.
                match request.is_some_and(|request| matches!(request.state, State::Queued)) {
                    true => self.post_envelope(endpoint, slot, id),
                    false => Ok(Post::Sent),
                }
            }
            Frame::ClearToSend(id) => self.post_cts(endpoint, id),
            Frame::Requested(id, sequence) => self.post_requested(endpoint, id, sequence),
            Frame::Control(header) => {
                let peer = self.peers.at(slot).peer;
                endpoint.post(peer, &header, 0, |_| {})
            }
        }
    }
}

impl Engine {
    /// Returns whether a receive gets the rest of its data as soon as the sender is outside MPI. No
    /// rank is woken for that.
    fn awaits_absence(&self) -> bool {
        let is_hybrid = |id: &RequestId| {
            let request = self.requests.find(*id);
            request.is_some_and(|request| matches!(request.state, State::Hybrid { .. }))
        };
        self.transfers.iter().any(is_hybrid)
    }

    /// Handles a frame of a less frequent kind.
    #[inline(never)]
    fn other_frame(&mut self, from: Peer, header: &Header, body: &[u8]) {
        match header.kind {
            Kind::EagerSync => self.eager_sync_arrived(from, header, body),
            Kind::Rts => self.rts_arrived(from, header, body),
            Kind::Cts => self.cts_arrived(from, header, body),
            Kind::Done => self.done_arrived(from, header),
            Kind::Cancel => self.cancel_arrived(from, header),
            Kind::CancelReply => self.cancel_reply_arrived(from, header),
            Kind::Credit => self.credit_arrived(from, header),
            Kind::Notice => self.notice_arrived(from, header),
            // A kind of a later version; a well-behaved peer does not send it.
            _ => {}
        }
    }
}

impl Protocol for Engine {
    #[inline]
    fn has_work(&self) -> bool {
        // One branch in the usual case, in which there is nothing.
        self.has_pending | (self.ready_peers.len() | self.transfers.len() != 0)
    }

    fn can_work(&mut self) -> bool {
        let peers = &mut self.peers;
        self.has_pending
            || self.ready_peers.iter().any(|&slot| !peers.at(slot).blocked)
            || self.awaits_absence()
    }

    #[inline]
    fn take_poll_request(&mut self) -> bool {
        std::mem::take(&mut self.poll_wanted)
    }

    fn work<T: HybridGet>(&mut self, endpoint: &mut T) -> bool {
        self.has_pending = false;
        let mut moved = self.transfer(endpoint);
        for _ in 0..self.ready_peers.len() {
            moved |= self.flush_next(endpoint);
        }
        while let Some((peer, region)) = self.releases.pop() {
            endpoint.release(peer, region);
        }
        moved
    }

    fn is_drained(&self) -> bool {
        let owes_data = self.requests.active().any(|(_, request)| match request.state {
            State::Pulling { .. } | State::Filling { .. } | State::Hybrid { .. } => true,
            State::Pushing { .. } | State::Writing { .. } | State::Cooperating { .. } => true,
            // Its data has left, and nobody wants its outcome.
            State::Recalling => false,
            _ => request.is_send() && request.detached,
        });
        // A queued frame of these kinds does not hold the end up: the peer does not need it, and
        // may have ended.
        let is_optional = |frame: &Frame| match frame {
            Frame::Control(header) => {
                matches!(header.kind, Kind::Credit | Kind::Notice | Kind::Cancel)
            }
            _ => false,
        };
        !owes_data && self.peers.iter().all(|peer| peer.queue.iter().all(is_optional))
    }
}

impl Sink for Engine {
    #[inline(always)]
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        match header.kind {
            Kind::Eager => self.eager_arrived(from, header, body),
            Kind::Data => self.data_arrived(from, header, body),
            _ => {
                if let Ok(body) = body.wait_all() {
                    self.other_frame(from, header, body);
                }
            }
        }
    }

    fn expects(&mut self, _: Peer, header: &Header) -> bool {
        let is_envelope = matches!(header.kind, Kind::Eager | Kind::EagerSync);
        !is_envelope || self.posted.has_one_for(&Head::of(header, 0).key)
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        let Some(Token { request: id, .. }) = Token::from_bits(token) else { return };
        match outcome {
            Ok(()) => self.transfer_ended(id),
            Err(lost) => self.transfer_failed(id, lost),
        }
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        self.mark_failed(&lost);
    }
}
