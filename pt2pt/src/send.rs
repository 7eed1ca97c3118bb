//! Starting a send (MPI-5.0 §3.4, §3.7.2), and posting its envelope.

use fabric::transport::Rts;
use fabric::{Header, HybridGet, Kind, Peer, PeerFailed, Post, Region, RequestId, Rights};
use objects::{Buffer, SignatureWord};

use crate::credit::cost;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::message::{Envelope, Mode};
use crate::peers::Frame;
use crate::requests::State;

impl Engine {
    /// Sends at once if no state must be kept: the message has left `buffer`, and the result is
    /// its number among all messages to this peer, for [`Engine::recall_sent`]. `None`: nothing was
    /// done, use [`Engine::send`].
    #[inline(always)]
    pub fn send_now(
        &mut self,
        endpoint: &mut impl HybridGet,
        mode: Mode,
        to: Peer,
        envelope: &Envelope,
        buffer: &Buffer,
    ) -> Result<Option<u64>, PeerFailed> {
        let Some(bytes) = buffer.unchecked_len() else { return Ok(None) };
        if to == self.me {
            let sequence = self.peers.of(to).sent;
            let is_sent = self.self_send_now(mode, &envelope.head(bytes), buffer);
            return Ok(is_sent.then_some(sequence));
        }
        let caps = endpoint.caps(to);
        if matches!(mode, Mode::Synchronous | Mode::Announced) || bytes > caps.eager as u64 {
            return Ok(None);
        }
        if bytes >= caps.get_min && endpoint.prefers_get(to, bytes) {
            return Ok(None);
        }
        let peer = self.peers.of(to);
        if peer.credit < cost(bytes) || !peer.queue.is_empty() {
            return Ok(None);
        }
        let header = envelope.head(bytes).header(Kind::Eager, mode);
        match endpoint.post(to, &header, bytes as usize, |slot| buffer.fill(0, slot)) {
            Ok(Post::Sent) => {
                peer.credit -= cost(bytes);
                peer.sent += 1;
                Ok(Some(peer.sent - 1))
            }
            Ok(Post::NoSpace) => Ok(None),
            Err(lost) => {
                self.mark_failed(&lost);
                Err(lost)
            }
        }
    }

    /// Starts a send. Errors are in the completion. An envelope that finds no space or no credit is
    /// queued, and the engine requests a poll ([`fabric::Protocol::take_poll_request`]).
    pub fn send(
        &mut self,
        endpoint: &mut impl HybridGet,
        mode: Mode,
        to: Peer,
        envelope: Envelope,
        buffer: Buffer,
    ) -> RequestId {
        let signature = buffer.signature(buffer.len());
        self.send_signed(endpoint, mode, to, envelope, buffer, signature)
    }

    /// Starts a send like [`Engine::send`], of a copy of the data of another buffer, which has the
    /// signature.
    #[inline(always)]
    pub fn send_signed(
        &mut self,
        endpoint: &mut impl HybridGet,
        mode: Mode,
        to: Peer,
        envelope: Envelope,
        buffer: Buffer,
        signature: SignatureWord,
    ) -> RequestId {
        let head = envelope.signed_head(buffer.len(), signature);
        let id = self.requests.open(mode, to, &head, buffer, State::Queued);
        if to == self.me {
            self.start_self_send(id);
        } else {
            self.start_send(endpoint, id, to, head.bytes);
        }
        self.settle(endpoint);
        id
    }

    /// Posts the envelope of a new send, or queues it after those that wait already.
    fn start_send<T: HybridGet>(&mut self, endpoint: &mut T, id: RequestId, to: Peer, bytes: u64) {
        let slot = self.peers.slot(to);
        let peer = self.peers.at(slot);
        if let Some(lost) = &peer.failure {
            let fault = Fault::PeerFailed(lost.clone());
            return self.requests.fail(id, fault);
        }
        // Frames that are here already may return credit, or space.
        let lacks_credit = peer.credit < cost(bytes) && bytes <= endpoint.caps(to).eager as u64;
        let lacks_space = if lacks_credit || !peer.queue.is_empty() {
            false
        } else {
            match self.post_envelope(endpoint, slot, id) {
                Ok(Post::NoSpace) => true,
                Ok(Post::Sent) => return,
                Err(lost) => return self.mark_failed(&lost),
            }
        };
        self.poll_wanted |= lacks_credit || lacks_space;
        self.enqueue(slot, Frame::Envelope(id));
    }

    /// Posts the envelope of a send that is `Queued`; chooses eager or rendezvous now.
    pub(crate) fn post_envelope<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        slot: usize,
        id: RequestId,
    ) -> Result<Post, PeerFailed> {
        let request = self.requests.held(id);
        let to = request.peer;
        let caps = endpoint.caps(to);
        let peer = self.peers.at(slot);
        let (bytes, sequence) = (request.bytes, peer.sent);
        let fits = bytes <= caps.eager as u64
            && peer.credit >= cost(bytes)
            && request.mode != Mode::Announced;
        let is_got = fits
            && bytes >= caps.get_min
            && request.buffer.memory().is_some()
            && endpoint.prefers_get(to, bytes);
        let is_synchronous = request.mode == Mode::Synchronous;
        let is_credited = fits && !(is_got && is_synchronous);
        let posted = match (fits && !is_got, is_synchronous) {
            (true, true) => self.post_eager_sync(endpoint, id)?,
            (true, false) => self.post_eager(endpoint, id)?,
            (false, _) => self.post_rts(endpoint, id, is_credited)?,
        };
        if posted == Post::Sent {
            let peer = self.peers.at(slot);
            peer.sent += 1;
            peer.credit -= if is_credited { cost(bytes) } else { 0 };
            if let Some(request) = self.requests.find_mut(id) {
                request.sequence = sequence;
            }
        }
        Ok(posted)
    }

    fn post_eager<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
    ) -> Result<Post, PeerFailed> {
        let request = self.requests.held(id);
        let header = request.head().header(Kind::Eager, request.mode);
        let posted = endpoint.post(request.peer, &header, request.bytes as usize, |slot| {
            request.buffer.fill(0, slot)
        })?;
        if posted == Post::Sent {
            self.sent_early(id);
        }
        Ok(posted)
    }

    fn post_eager_sync<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
    ) -> Result<Post, PeerFailed> {
        let request = self.requests.held(id);
        let header = request.head().header(Kind::EagerSync, request.mode);
        let posted = endpoint.post(request.peer, &header, 8 + request.bytes as usize, |slot| {
            let (name, data) = slot.split_at_mut(8);
            name.copy_from_slice(&id.to_bits().to_le_bytes());
            request.buffer.pack(0, data);
        })?;
        if posted == Post::Sent {
            request.state = State::Announced { recalled: false };
        }
        Ok(posted)
    }

    fn post_rts<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
        is_credited: bool,
    ) -> Result<Post, PeerFailed> {
        self.expose(endpoint, id);
        let request = self.requests.held(id);
        let mut header = request.head().header(Kind::Rts, request.mode);
        header.flags |= if is_credited { Header::CREDITED } else { 0 };
        let rts = Rts { send: id.to_bits(), region: request.region.as_deref().copied() };
        let posted = endpoint
            .post(request.peer, &header, Rts::SIZE, |slot| slot.copy_from_slice(&rts.encode()))?;
        if posted == Post::Sent {
            request.state = State::Announced { recalled: false };
        }
        Ok(posted)
    }

    /// Registers the data of a send for gets, if the device has them.
    fn expose<T: HybridGet>(&mut self, endpoint: &mut T, id: RequestId) {
        let request = self.requests.held(id);
        let from = endpoint.caps(request.peer).get_min;
        if request.region.is_none()
            && request.bytes != 0
            && request.bytes >= from
            && let Some(memory) = request.buffer.memory()
        {
            let region = endpoint.register(request.peer, memory, Rights::Get);
            request.region = region.map(|region| self.spare_regions.boxed(region));
        }
    }
}

impl Engine {
    /// Completes a send whose eager message has left; it may be recalled while its request exists.
    #[inline]
    pub(crate) fn sent_early(&mut self, id: RequestId) {
        let request = self.requests.held(id);
        let region = request.region.take();
        let (peer, detached) = (request.peer, request.detached);
        request.state = State::Done { cancelled: false, recallable: true };
        self.release(peer, region);
        if detached {
            self.requests.free(id);
        }
    }

    /// Queues the end of a registration.
    #[inline]
    pub(crate) fn release(&mut self, peer: Peer, region: Option<Box<Region>>) {
        if let Some(region) = region {
            self.releases.push((peer, *region));
            self.spare_regions.give(Some(region));
            self.has_pending = true;
        }
    }

    /// Queues a frame to a peer.
    pub(crate) fn enqueue(&mut self, slot: usize, frame: Frame) {
        let peer = self.peers.at(slot);
        if peer.failure.is_none() {
            peer.queue.push_back(frame);
            self.mark_ready(slot);
        }
    }

    /// Queues a control frame to a peer.
    pub(crate) fn reply(&mut self, to: Peer, header: Header) {
        let slot = self.peers.slot(to);
        self.enqueue(slot, Frame::Control(header));
    }

    pub(crate) fn mark_ready(&mut self, slot: usize) {
        let peer = self.peers.at(slot);
        if !std::mem::replace(&mut peer.is_ready, true) {
            self.ready_peers.push_back(slot);
        }
        self.has_pending = true;
    }
}
