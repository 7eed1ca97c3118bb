//! Progress: frames come in, and what could not leave before leaves.

use fabric::{Body, Header, Kind, Peer, PeerFailed, PipelinedBody, Post, Sink, Transport};

use crate::engine::{Engine, Protocol};
use crate::message::Head;
use crate::peers::Frame;
use crate::requests::{RequestId, State};

impl<T: Transport> Engine<T> {
    /// One round: everything that has arrived is handled, then everything that
    /// waits for room or follows from what arrived is tried. True if anything
    /// happened.
    #[inline]
    pub fn progress(&mut self) -> bool {
        let arrived = self.transport.poll(&mut self.protocol);
        arrived | (self.protocol.has_work() && self.work())
    }

    /// The same in a send or a receive that is about something else; see [`Engine::take_news`].
    #[cold]
    pub fn progress_aside(&mut self) {
        self.protocol.news = true;
        self.progress();
    }

    /// Does what a call has noted, without polling.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.protocol.noted {
            self.protocol.news = true;
            self.work();
        }
    }

    /// One round of what is to leave.
    fn work(&mut self) -> bool {
        let mut moved = false;
        // Behind a Cts may be the Done of a receiver that has helped itself: then nothing is to be pushed.
        while std::mem::take(&mut self.protocol.cleared) {
            moved |= self.transport.poll(&mut self.protocol);
        }
        self.protocol.noted = false;
        moved |= self.transfer();
        for _ in 0..self.protocol.busy.len() {
            moved |= self.flush_next();
        }
        while let Some((peer, region)) = self.protocol.releases.pop() {
            self.transport.release(peer, region);
        }
        moved
    }

    /// Serves the busy peer whose turn it is; true if anything left.
    fn flush_next(&mut self) -> bool {
        let Some(slot) = self.protocol.busy.pop_front() else { return false };
        let moved = self.flush(slot);
        if let Err(lost) = &moved {
            self.protocol.lose(lost);
        }
        let peer = self.protocol.peers.at(slot);
        peer.busy = !peer.queue.is_empty() || !peer.pushing.is_empty();
        if peer.busy {
            self.protocol.busy.push_back(slot);
        }
        moved.unwrap_or(true)
    }

    /// Queued frames in their order, then pieces of data.
    fn flush(&mut self, slot: usize) -> Result<bool, PeerFailed> {
        let waiting = self.protocol.peers.at(slot);
        let (peer, several) = (waiting.peer, waiting.queue.len() > 1);
        waiting.blocked = false;
        if several {
            self.transport.gather(peer, true);
        }
        let moved = self.flush_queue(slot);
        if several {
            self.transport.gather(peer, false);
        }
        let moved = moved?;
        if self.protocol.peers.at(slot).blocked { Ok(moved) } else { Ok(self.push(slot)? | moved) }
    }

    /// Queued frames, until there is no room for the next.
    fn flush_queue(&mut self, slot: usize) -> Result<bool, PeerFailed> {
        let mut moved = false;
        while let Some(&frame) = self.protocol.peers.at(slot).queue.front() {
            if self.post_frame(slot, frame)? == Post::NoRoom {
                self.protocol.peers.at(slot).blocked = true;
                return Ok(moved);
            }
            self.protocol.peers.at(slot).queue.pop_front();
            moved = true;
        }
        Ok(moved)
    }

    fn post_frame(&mut self, slot: usize, frame: Frame) -> Result<Post, PeerFailed> {
        match frame {
            Frame::Envelope(id) => {
                let request = self.protocol.requests.find(id);
                // A send that was cancelled in the queue has gone from it here.
                match request.is_some_and(|request| matches!(request.state, State::Queued)) {
                    true => self.post_envelope(slot, id),
                    false => Ok(Post::Sent),
                }
            }
            Frame::ClearToSend(id) => self.post_cts(id),
            Frame::Control(header) => {
                let peer = self.protocol.peers.at(slot).peer;
                self.transport.post(peer, &header, 0, |_| {})
            }
        }
    }
}

impl Protocol {
    /// Whether anything is to leave.
    #[inline]
    pub(crate) fn has_work(&self) -> bool {
        self.noted || !self.busy.is_empty() || !self.transfers.is_empty()
    }

    /// A frame of another kind than most.
    #[inline(never)]
    fn other_frame(&mut self, from: Peer, header: &Header, body: &[u8]) {
        match header.kind {
            Kind::EagerSync => self.eager_sync_arrived(from, header, body),
            Kind::Rts => self.rts_arrived(from, header, body),
            Kind::Cts => self.cts_arrived(from, header, body),
            Kind::Data => self.data_arrived(from, header, body),
            Kind::Done => self.done_arrived(from, header),
            Kind::Cancel => self.cancel_arrived(from, header),
            Kind::CancelReply => self.cancel_reply_arrived(from, header),
            Kind::Credit => self.credit_arrived(from, header),
            // A kind of a later version; a well-behaved peer does not send it.
            _ => {}
        }
    }

    /// Whether any of it could leave now: transfers and blocked peers found no room.
    pub(crate) fn can_go_on(&mut self) -> bool {
        let peers = &mut self.peers;
        self.noted || self.busy.iter().any(|&slot| !peers.at(slot).blocked)
    }
}

impl Sink for Protocol {
    #[inline(always)]
    fn frame(&mut self, from: Peer, header: &Header, body: &[u8]) {
        if header.kind == Kind::Eager {
            self.eager_arrived(from, header, body);
        } else {
            self.other_frame(from, header, body);
        }
    }

    fn pipelined(&mut self, from: Peer, header: &Header, body: &PipelinedBody<'_>) {
        match header.kind {
            Kind::Eager => self.eager_arrived(from, header, body),
            Kind::Data => self.data_arrived(from, header, body),
            _ => self.other_frame(from, header, body.wait_all()),
        }
    }

    fn expects(&mut self, _: Peer, header: &Header) -> bool {
        let is_envelope = matches!(header.kind, Kind::Eager | Kind::EagerSync);
        !is_envelope || self.posted.has_one_for(&Head::of(header, 0).key)
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        let id = RequestId::from_bits(token);
        match outcome {
            Ok(()) => self.transfer_ended(id),
            Err(lost) => self.transfer_failed(id, lost),
        }
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        self.lose(&lost);
    }
}
