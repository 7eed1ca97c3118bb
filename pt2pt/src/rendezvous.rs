//! Rendezvous: the data is kept by the sender until the message is matched.
//!
//! The receiver pulls by a get, or lets the sender write by a put or push `Data` frames. In the
//! hybrid form the sender pushes, and the receiver gets the remainder when the sender stops; in the
//! cooperative one (`cooperation`) each copies a half. All are drawn in `docs/protocol.md`. A Cts
//! carries the number of bytes wanted in `source` (high half) and `root` (low half).

use fabric::transport::Rts;
use fabric::{
    Body, GetOrPush, Header, HybridGet, Kind, OneSided, Peer, PeerFailed, Post, ProtocolId, Region,
    RequestId, Rights, Token, Transfer,
};

use crate::credit::is_credited;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::message::Head;
use crate::peers::Frame;
use crate::requests::State;
use crate::unexpected::Content;

/// Most Data frames for one peer before the next peer is served.
const MAX_PUSHED_PIECES: usize = 8;
/// Cache line, bytes: pieces end at a multiple of it.
const LINE: u64 = 64;
/// The high and low half of a number of bytes, as `source` and `root` of a header have them.
pub(crate) fn to_halves(bytes: u64) -> (u32, u32) {
    ((bytes >> 32) as u32, bytes as u32)
}

/// The reverse of [`to_halves`].
pub(crate) fn bytes_in(header: &Header) -> u64 {
    u64::from(header.source) << 32 | u64::from(header.root)
}

/// The header of a Cts of the receive `id`.
pub(crate) fn clear_to_send(wanted: u64, send: u64, id: RequestId) -> Header {
    let (source, root) = to_halves(wanted);
    Header { source, root, context: send, length: id.to_bits(), ..Header::new(Kind::Cts) }
}

impl Engine {
    /// Handles an `Rts` frame: matches it, or keeps it.
    pub(crate) fn rts_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let sequence = self.count_arrival(from);
        let Some(rts) = Rts::decode(body) else { return };
        let head = Head::of(header, header.length);
        let is_credited = is_credited(header);
        match self.posted.take(&head.key) {
            Some(slot) => {
                self.fetch(self.requests.id(slot), from, &head, rts);
                self.owe_if(is_credited, from, head.bytes);
            }
            None => {
                self.park(from, sequence, header, head.bytes, Content::Rts(rts));
                if is_credited {
                    self.unexpected_gets.push((from, sequence));
                    self.has_pending = true;
                }
            }
        }
    }

    /// Fetches the data of an announced message that is matched.
    pub(crate) fn fetch(&mut self, id: RequestId, from: Peer, head: &Head, rts: Rts) {
        let request = self.requests.held(id);
        request.accept(from, head);
        if request.bytes == 0 {
            self.requests.complete(id, false);
            return self.send_done(from, rts.send);
        }
        if let Some(lost) = &self.peers.of(from).failure {
            let fault = Fault::PeerFailed(lost.clone());
            return self.requests.fail(id, fault);
        }
        let request = self.requests.held(id);
        if rts.region.is_some() && request.buffer.memory().is_some() {
            request.state = State::Pulling { send: rts.send, started: false };
            request.region = rts.region.map(|region| self.spare_regions.boxed(region));
            self.transfers.push_back(id);
            self.has_pending = true;
        } else {
            self.clear_to_send(id, rts.send);
        }
    }

    /// Requests the sender to push, or to put.
    fn clear_to_send(&mut self, id: RequestId, send: u64) {
        let request = self.requests.held(id);
        (request.state, request.region) = (State::Filling { send, got: 0 }, None);
        let slot = self.peers.slot(request.peer);
        self.enqueue(slot, Frame::ClearToSend(id));
    }

    /// Notifies the peer that its request is complete.
    pub(crate) fn send_done(&mut self, to: Peer, request: u64) {
        self.reply(to, Header { context: request, ..Header::new(Kind::Done) });
    }

    /// Handles a `Cts` frame: the receiver wants the data of a send.
    pub(crate) fn cts_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from)
        else {
            return;
        };
        let State::Announced { .. } = request.state else { return };
        let (target, wanted) = (header.length, bytes_in(header));
        let end = wanted.min(request.bytes);
        if header.flags & Header::CREDITED != 0 {
            return self.data_requested(id, header.length);
        }
        self.poll_wanted = true;
        if header.flags & Header::COOPERATIVE != 0 {
            return self.half_requested(id, (target, end), body);
        }
        match Region::decode(body).filter(|_| end > 0 && request.buffer.memory().is_some()) {
            Some(theirs) => {
                request.state = State::Writing { target, end, started: false };
                let ours = request.region.replace(self.spare_regions.boxed(theirs));
                self.transfers.push_back(id);
                self.has_pending = true;
                self.release(from, ours);
            }
            None => self.push_later(id, target, end),
        }
    }

    /// Queues a send's data up to byte `end` for pushing.
    fn push_later(&mut self, id: RequestId, target: u64, end: u64) {
        if end == 0 {
            return self.conclude(id);
        }
        let request = self.requests.held(id);
        request.state = State::Pushing { target, offset: 0, end };
        let slot = self.peers.slot(request.peer);
        self.peers.at(slot).pushing.push_back(id);
        self.mark_ready(slot);
    }

    /// Handles a `Data` frame: a piece of a requested message.
    pub(crate) fn data_arrived(
        &mut self,
        from: Peer,
        header: &Header,
        data: &(impl Body + ?Sized),
    ) {
        if header.flags & Header::COOPERATIVE != 0 {
            return self.placed_arrived(from, header);
        }
        if header.flags & Header::CREDITED != 0 {
            return self.requested_arrived(from, header, data);
        }
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from)
        else {
            return;
        };
        let (State::Filling { got, .. } | State::Hybrid { got, .. }) = &mut request.state else {
            return;
        };
        let end = header.length.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > request.bytes) {
            return;
        }
        let by_lines = data.by_lines();
        let stored = data.for_each_chunk(data.len(), |at, part| {
            request.buffer.unpack_part(header.length + at as u64, part, by_lines)
        });
        if stored.is_err() {
            // The request fails with its peer.
            return;
        }
        *got += data.len() as u64;
        if *got >= request.bytes {
            if let State::Hybrid { .. } = request.state {
                self.ended_hybrids.extend(request.region.as_deref().map(|region| (from, *region)));
                self.has_pending = true;
                self.spare_regions.give(request.region.take());
            }
            self.conclude(id);
        }
    }

    /// Completes an operation and ends its registration.
    fn conclude(&mut self, id: RequestId) {
        let request = self.requests.held(id);
        let (peer, region) = (request.peer, request.region.take());
        self.requests.complete(id, false);
        self.release(peer, region);
    }

    /// Handles a `Done` frame: a send was matched and its data is free again, or the data of a
    /// receive was put.
    pub(crate) fn done_arrived(&mut self, from: Peer, header: &Header) {
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from)
        else {
            return;
        };
        if let State::Announced { recalled } = request.state
            && header.flags & Header::CREDITED != 0
        {
            return self.data_kept(id, recalled);
        }
        let expects_done = match request.state {
            State::Announced { .. } | State::Pushing { .. } => true,
            State::Filling { .. } => request.region.is_some(),
            _ => false,
        };
        if expects_done {
            self.conclude(id);
        }
    }

    /// Completes the request of a one-sided transfer that has ended.
    pub(crate) fn transfer_ended(&mut self, id: RequestId) {
        let Some(request) = self.requests.find_mut(id) else { return };
        use State::{Cooperating, Hybrid, Pulling, Writing};
        let (Pulling { send: theirs, .. }
        | Hybrid { send: theirs, .. }
        | Cooperating { send: theirs, .. }
        | Writing { target: theirs, .. }) = request.state
        else {
            return;
        };
        self.spare_regions.give(request.region.take());
        let peer = request.peer;
        self.requests.complete(id, false);
        self.send_done(peer, theirs);
    }

    /// Falls back to frames: the transport refused the transfer.
    fn transfer_refused(&mut self, id: RequestId) {
        match self.requests.held(id).state {
            State::Pulling { send, .. } | State::Cooperating { send, .. } => {
                self.clear_to_send(id, send)
            }
            State::Hybrid { send, got } => {
                let request = self.requests.held(id);
                (request.state, request.region) = (State::Filling { send, got }, None);
            }
            State::Writing { target, end, .. } => {
                self.requests.held(id).region = None;
                self.push_later(id, target, end);
            }
            _ => {}
        }
    }

    /// Requests the sender to push what was to be pulled; the receiver gets the remainder if the
    /// sender stops.
    fn start_hybrid(&mut self, id: RequestId) {
        let request = self.requests.held(id);
        let State::Pulling { send, .. } = request.state else { return };
        request.state = State::Hybrid { send, got: 0 };
        let slot = self.peers.slot(request.peer);
        self.enqueue(slot, Frame::ClearToSend(id));
        self.transfers.push_back(id);
    }

    /// Fails the request of a one-sided transfer whose peer has failed.
    #[cold]
    pub(crate) fn transfer_failed(&mut self, id: RequestId, lost: PeerFailed) {
        self.mark_failed(&lost);
        let is_under_way =
            |state: &State| matches!(state, State::Pulling { .. } | State::Writing { .. });
        if self.requests.find(id).is_some_and(|request| is_under_way(&request.state)) {
            self.requests.fail(id, Fault::PeerFailed(lost));
        }
    }
}

impl Engine {
    /// Starts queued one-sided transfers until there is no space for one. True if any was started.
    pub(crate) fn transfer<T: HybridGet>(&mut self, endpoint: &mut T) -> bool {
        let mut moved = !(self.unexpected_gets.is_empty() && self.placements.is_empty());
        self.get_unexpected(endpoint);
        self.place_all(endpoint);
        while let Some((peer, region)) = self.ended_hybrids.pop() {
            endpoint.end_message(peer, &region);
        }
        for _ in 0..self.transfers.len() {
            let Some(id) = self.transfers.pop_front() else { break };
            match self.transfer_one(endpoint, id) {
                Ok(true) => moved = true,
                Ok(false) => {
                    self.transfers.push_back(id);
                    break;
                }
                Err(lost) => self.mark_failed(&lost),
            }
        }
        moved
    }

    /// Starts one transfer; false if there is no space for it now.
    fn transfer_one<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
    ) -> Result<bool, PeerFailed> {
        // It may have failed with its peer in the meantime.
        let Some(request) = self.requests.find_mut(id) else { return Ok(true) };
        let caps = endpoint.caps(request.peer);
        let Some(memory) = request.buffer.memory() else { return Ok(true) };
        let (peer, bytes) = (request.peer, request.bytes);
        let Some(&region) = request.region.as_deref() else {
            self.transfer_refused(id);
            return Ok(true);
        };
        let token = Token { protocol: ProtocolId::Pt2pt, request: id }.to_bits();
        let transfer = match request.state {
            State::Pulling { .. } if caps.get_min != u64::MAX => {
                let into = memory.slice(0, bytes as usize);
                match endpoint.get_or_push(peer, &region, into, token)? {
                    GetOrPush::Get(transfer) => transfer,
                    GetOrPush::Push => {
                        self.start_hybrid(id);
                        return Ok(true);
                    }
                    GetOrPush::Cooperate => self.cooperate(endpoint, id)?,
                }
            }
            State::Hybrid { got, .. } if caps.get_min != u64::MAX => {
                let left = memory.slice(got as usize, (bytes - got) as usize);
                endpoint.get_remainder(peer, &region, got, left)?
            }
            State::Cooperating { .. } => self.end_cooperation(endpoint, id),
            State::Writing { end, .. } if caps.put_min != u64::MAX => {
                let from = OneSided::Put(memory.slice(0, end as usize));
                endpoint.one_sided(peer, &region, 0, from, token)?
            }
            State::Pulling { .. } | State::Hybrid { .. } | State::Writing { .. } => {
                Transfer::Refused
            }
            _ => return Ok(true),
        };
        if matches!(transfer, Transfer::Done | Transfer::Refused) {
            endpoint.end_message(peer, &region);
        }
        match transfer {
            Transfer::Done => self.transfer_ended(id),
            Transfer::Started => {
                if let State::Pulling { started, .. } | State::Writing { started, .. } =
                    &mut self.requests.held(id).state
                {
                    *started = true;
                }
            }
            Transfer::NoSpace => return Ok(false),
            Transfer::Refused => self.transfer_refused(id),
        }
        Ok(true)
    }

    /// Posts the Cts of a receive, with a region if the sender may put.
    pub(crate) fn post_cts<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
    ) -> Result<Post, PeerFailed> {
        // A misbehaving peer may have ended the request before the Cts.
        let Some(request) = self.requests.find_mut(id) else { return Ok(Post::Sent) };
        let (from, wanted) = (request.peer, request.bytes);
        let (send, offered) = match request.state {
            State::Filling { send, .. } => (send, &mut request.region),
            // The region is the sender's.
            State::Hybrid { send, .. } => (send, &mut None),
            _ => return Ok(Post::Sent),
        };
        let put_min = endpoint.caps(from).put_min;
        if let (State::Filling { .. }, None) = (request.state, &offered)
            && wanted >= put_min
            && let Some(memory) = request.buffer.memory()
        {
            let memory = memory.slice(0, wanted as usize);
            *offered = endpoint.register(from, memory, Rights::Put).map(Box::new);
        }
        let header = clear_to_send(wanted, send, id);
        let len = if offered.is_some() { Region::SIZE } else { 0 };
        endpoint.post(from, &header, len, |slot| {
            if let Some(region) = offered {
                slot.copy_from_slice(&region.encode());
            }
        })
    }

    /// Pushes up to [`MAX_PUSHED_PIECES`] pieces to one peer, of each of its messages in turn.
    /// Returns true if any was posted.
    pub(crate) fn push<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        slot: usize,
    ) -> Result<bool, PeerFailed> {
        let mut moved = false;
        for _ in 0..MAX_PUSHED_PIECES {
            let Some(id) = self.peers.at(slot).pushing.pop_front() else { break };
            let Some(unfinished) = self.push_piece(endpoint, id)? else {
                let peer = self.peers.at(slot);
                peer.pushing.push_front(id);
                peer.blocked = true;
                break;
            };
            moved = true;
            if unfinished {
                self.peers.at(slot).pushing.push_back(id);
            }
        }
        Ok(moved)
    }

    /// Pushes a piece. `None` without space; otherwise whether there is more to push.
    fn push_piece<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        id: RequestId,
    ) -> Result<Option<bool>, PeerFailed> {
        let Some(request) = self.requests.find_mut(id) else { return Ok(Some(false)) };
        let State::Pushing { target, offset, end } = &mut request.state else {
            return Ok(Some(false));
        };
        let frame = endpoint.caps(request.peer).frame as u64;
        // As few pieces as possible, of nearly equal length.
        let (from, left) = (*offset, *end - *offset);
        let len = left.div_ceil(left.div_ceil(frame)).next_multiple_of(LINE).min(frame).min(left);
        let header = Header { context: *target, length: from, ..Header::new(Kind::Data) };
        let posted = endpoint
            .post(request.peer, &header, len as usize, |slot| request.buffer.fill(from, slot))?;
        if posted == Post::NoSpace {
            return Ok(None);
        }
        *offset += len;
        let unfinished = *offset < *end;
        if !unfinished {
            self.conclude(id);
        }
        Ok(Some(unfinished))
    }
}
