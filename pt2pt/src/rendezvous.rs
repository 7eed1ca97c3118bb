//! Messages whose data stays with the sender until they are matched.
//!
//! The receiver pulls (one-sided) or lets the sender push (`Cts`, `Data`); both
//! are drawn in `docs/protocol.md`. A Cts carries the number of bytes wanted in
//! `source` (high half) and `root` (low half).

use fabric::transport::Rts;
use fabric::{Header, Kind, Lost, Peer, Post, Transfer, Transport};

use crate::eager::Content;
use crate::engine::{Engine, Protocol};
use crate::fault::Fault;
use crate::message::Head;
use crate::requests::{RequestId, State};

/// Data frames that one peer gets before it is the next one's turn.
const BURST: usize = 8;

impl Protocol {
    /// An `Rts` frame: to be matched.
    pub(crate) fn rts_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let sequence = self.count_arrival(from);
        let Some(rts) = Rts::decode(body) else { return };
        let head = Head::of(header, header.length);
        match self.posted.take(&head.key) {
            Some(slot) => self.fetch(self.requests.id(slot), from, &head, rts),
            None => self.park(from, sequence, header, &head, Content::Rts(Box::new(rts))),
        }
    }

    /// An announced message is matched: has its data sent, one way or another.
    pub(crate) fn fetch(&mut self, id: RequestId, from: Peer, head: &Head, rts: Rts) {
        let request = self.requests.held(id);
        request.accept(from, head);
        if request.bytes == 0 {
            self.requests.complete(id, false);
            return self.say_done(from, rts.send);
        }
        if let Some(lost) = &self.peers.of(from).lost {
            let fault = Fault::Lost(lost.clone());
            return self.requests.fail(id, fault);
        }
        let request = self.requests.held(id);
        if rts.region.is_some() && request.buffer.memory().is_some() {
            request.state = State::Pulling { rts: Box::new(rts), started: false };
            self.pulls.push_back(id);
            self.noted = true;
        } else {
            self.clear_to_send(id, rts.send);
        }
    }

    /// Asks the sender to push.
    fn clear_to_send(&mut self, id: RequestId, send: u64) {
        let request = self.requests.held(id);
        request.state = State::Filling { got: 0 };
        let (from, wanted) = (request.peer, request.bytes);
        let (source, root) = ((wanted >> 32) as u32, wanted as u32);
        let header = Header { source, root, context: send, length: id.to_bits(), ..Header::new(Kind::Cts) };
        self.reply(from, header);
    }

    /// Tells the sender that its buffer is needed no more.
    pub(crate) fn say_done(&mut self, to: Peer, send: u64) {
        self.reply(to, Header { context: send, ..Header::new(Kind::Done) });
    }

    /// A `Cts` frame: the receiver wants our data in frames.
    pub(crate) fn cts_arrived(&mut self, from: Peer, header: &Header) {
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from) else { return };
        let State::Announced { region, .. } = &mut request.state else { return };
        let region = region.take();
        let wanted = u64::from(header.source) << 32 | u64::from(header.root);
        let end = wanted.min(request.bytes);
        request.state = State::Pushing { target: header.length, offset: 0, end };
        self.release(from, region);
        if end == 0 {
            return self.requests.complete(id, false);
        }
        let slot = self.peers.slot(from);
        self.peers.at(slot).pushing.push_back(id);
        self.set_busy(slot);
    }

    /// A `Data` frame: a piece of what we asked for.
    pub(crate) fn data_arrived(&mut self, from: Peer, header: &Header, data: &[u8]) {
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from) else { return };
        let State::Filling { got } = &mut request.state else { return };
        let end = header.length.checked_add(data.len() as u64);
        if end.is_none_or(|end| end > request.bytes) {
            return;
        }
        request.buffer.unpack(header.length, data);
        *got += data.len() as u64;
        if *got >= request.bytes {
            self.requests.complete(id, false);
        }
    }

    /// A `Done` frame: our message was matched, and its data is not needed any
    /// more.
    pub(crate) fn done_arrived(&mut self, from: Peer, header: &Header) {
        let id = RequestId::from_bits(header.context);
        let Some(request) = self.requests.find_mut(id).filter(|request| request.peer == from) else { return };
        let State::Announced { region, .. } = &mut request.state else { return };
        let region = region.take();
        self.requests.complete(id, false);
        self.release(from, region);
    }

    /// A one-sided transfer that was under way has ended.
    pub(crate) fn pulled(&mut self, id: RequestId) {
        let Some(request) = self.requests.find(id) else { return };
        let State::Pulling { rts, .. } = &request.state else { return };
        let (from, send) = (request.peer, rts.send);
        self.requests.complete(id, false);
        self.say_done(from, send);
    }

    /// A one-sided transfer that was under way has failed with its peer.
    #[cold]
    pub(crate) fn pull_failed(&mut self, id: RequestId, lost: Lost) {
        self.lose(&lost);
        let pulling = |state: &State| matches!(state, State::Pulling { .. });
        if self.requests.find(id).is_some_and(|request| pulling(&request.state)) {
            self.requests.fail(id, Fault::Lost(lost));
        }
    }
}

impl<T: Transport> Engine<T> {
    /// Starts the transfers that are to be pulled; true if any got further.
    pub(crate) fn pull(&mut self) -> bool {
        let mut moved = false;
        for _ in 0..self.protocol.pulls.len() {
            let Some(id) = self.protocol.pulls.pop_front() else { break };
            match self.pull_one(id) {
                Ok(true) => moved = true,
                Ok(false) => self.protocol.pulls.push_back(id),
                Err(lost) => self.protocol.lose(&lost),
            }
        }
        moved
    }

    /// False when there is no room for it now.
    fn pull_one(&mut self, id: RequestId) -> Result<bool, Lost> {
        // It may have failed with its peer in the meantime.
        let Some(request) = self.protocol.requests.find_mut(id) else { return Ok(true) };
        let State::Pulling { rts, started } = &mut request.state else { return Ok(true) };
        let (Some(region), Some(memory)) = (rts.region, request.buffer.memory()) else { return Ok(true) };
        let (peer, send) = (request.peer, rts.send);
        let into = memory.slice(0, request.bytes as usize);
        let transfer = match self.transport.limits(peer).get_from {
            u64::MAX => Transfer::Refused,
            _ => self.transport.get(peer, &region, 0, into, id.to_bits())?,
        };
        match transfer {
            Transfer::Done => self.protocol.pulled(id),
            Transfer::Started => *started = true,
            Transfer::NoRoom => return Ok(false),
            Transfer::Refused => self.protocol.clear_to_send(id, send),
        }
        Ok(true)
    }

    /// Pushes pieces to one peer, of each of its messages in turn, while there is
    /// room and until it is another peer's turn. True if any went.
    pub(crate) fn push(&mut self, slot: usize) -> Result<bool, Lost> {
        let mut moved = false;
        for _ in 0..BURST {
            let Some(id) = self.protocol.peers.at(slot).pushing.pop_front() else { break };
            let Some(unfinished) = self.push_piece(id)? else {
                let peer = self.protocol.peers.at(slot);
                peer.pushing.push_front(id);
                peer.blocked = true;
                break;
            };
            moved = true;
            if unfinished {
                self.protocol.peers.at(slot).pushing.push_back(id);
            }
        }
        Ok(moved)
    }

    /// `None`: no room. Else whether there is more to push.
    fn push_piece(&mut self, id: RequestId) -> Result<Option<bool>, Lost> {
        let Some(request) = self.protocol.requests.find_mut(id) else { return Ok(Some(false)) };
        let State::Pushing { target, offset, end } = &mut request.state else { return Ok(Some(false)) };
        let frame = self.transport.limits(request.peer).frame as u64;
        let (from, len) = (*offset, frame.min(*end - *offset));
        let header = Header { context: *target, length: from, ..Header::new(Kind::Data) };
        let posted =
            self.transport.post(request.peer, &header, len as usize, |slot| request.buffer.fill(from, slot))?;
        if posted == Post::NoRoom {
            return Ok(None);
        }
        *offset += len;
        let unfinished = *offset < *end;
        if !unfinished {
            self.protocol.requests.complete(id, false);
        }
        Ok(Some(unfinished))
    }
}
