//! Credited announcements: messages of eager size that the receiver would rather pull.
//!
//! Their senders have spent credit, and wait for this rank alone, not for a receive. Without a
//! receive the data is fetched into memory of the engine: by a get, or if that is refused by a
//! request. Its answer is one `Data` frame with the envelope's number. The sender then forgets the
//! message, as an eager one. A receive that matches meanwhile waits for that frame.

use fabric::transport::Rts;
use fabric::{Body, Header, HybridGet, Kind, Peer, PeerFailed, Post, RequestId};

use crate::engine::Engine;
use crate::fault::Fault;
use crate::message::Head;
use crate::peers::Frame;
use crate::requests::State;
use crate::unexpected::{Content, Data, Progress, Requested};

impl Engine {
    /// Fetches the data of announced messages that no receive waits for, as far as their senders
    /// have spent credit for that.
    pub(crate) fn get_unexpected<T: HybridGet>(&mut self, endpoint: &mut T) {
        while let Some((from, sequence)) = self.unexpected_gets.pop() {
            let found = self.unexpected_from(from, sequence);
            let Some(arrived) = found.and_then(|entry| self.unexpected.get_mut(entry)) else {
                continue;
            };
            let bytes = arrived.bytes;
            let Content::Rts(Rts { send, region }) = arrived.content else { continue };
            if bytes > endpoint.caps(from).eager as u64 {
                continue;
            }
            let data =
                region.and_then(|region| endpoint.get_unexpected(from, &region, bytes as usize));
            let header = match data {
                Some(data) => {
                    arrived.content = Content::Eager(Data::Long(data));
                    Header::new(Kind::Done)
                }
                None => {
                    arrived.content = Content::Requested;
                    let progress = Progress::None;
                    self.requested.push(Requested { from, sequence, bytes, progress });
                    Header { length: sequence, ..Header::new(Kind::Cts) }
                }
            };
            self.reply(from, Header { flags: Header::CREDITED, context: send, ..header });
        }
    }

    /// Handles a receive that matches a message whose data was requested.
    #[cold]
    pub(crate) fn receive_requested(
        &mut self,
        id: RequestId,
        (from, sequence): (Peer, u64),
        head: &Head,
    ) {
        let Some(at) = self.requested_at(from, sequence) else { return };
        let message = &mut self.requested[at];
        match std::mem::replace(&mut message.progress, Progress::Receive(id)) {
            Progress::Data(data) => {
                self.requested.swap_remove(at);
                self.store(id, from, head, &*data);
            }
            Progress::None | Progress::Receive(_) => {
                let request = self.requests.held(id);
                request.accept(from, head);
                request.state = State::Filling { send: 0, got: 0 };
                if let Some(lost) = &self.peers.of(from).failure {
                    let fault = Fault::PeerFailed(lost.clone());
                    self.requests.fail(id, fault);
                }
            }
        }
    }

    /// Handles a credited `Data` frame: the data of a message that was requested.
    #[cold]
    pub(crate) fn requested_arrived(
        &mut self,
        from: Peer,
        header: &Header,
        data: &(impl Body + ?Sized),
    ) {
        // A message that was cut fails with its peer.
        let Ok(data) = data.wait_all() else { return };
        let Some(at) = self.requested_at(from, header.context) else { return };
        let message = &mut self.requested[at];
        if data.len() as u64 != message.bytes {
            return;
        }
        match message.progress {
            Progress::None => message.progress = Progress::Data(data.into()),
            Progress::Data(_) => {}
            Progress::Receive(id) => {
                self.requested.swap_remove(at);
                let Some(request) = self.requests.find_mut(id) else { return };
                if let State::Filling { .. } = request.state {
                    request.buffer.unpack(0, &data[..request.bytes as usize]);
                    self.requests.complete(id, false);
                }
            }
        }
    }

    /// Drops what is known of a message whose data was requested.
    pub(crate) fn forget_requested(&mut self, from: Peer, sequence: u64) {
        if let Some(at) = self.requested_at(from, sequence) {
            self.requested.swap_remove(at);
        }
    }

    fn requested_at(&self, from: Peer, sequence: u64) -> Option<usize> {
        self.requested.iter().position(|of| (of.from, of.sequence) == (from, sequence))
    }
}

impl Engine {
    /// Handles a credited `Cts` frame for a send: the receiver wants the data, which has no receive
    /// yet.
    #[cold]
    pub(crate) fn data_requested(&mut self, send: RequestId, sequence: u64) {
        let slot = self.peers.slot(self.requests.held(send).peer);
        self.enqueue(slot, Frame::Requested(send, sequence));
    }

    /// Posts the data of a send whose receiver has requested it without a receive.
    pub(crate) fn post_requested<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        send: RequestId,
        sequence: u64,
    ) -> Result<Post, PeerFailed> {
        // It may have been cancelled meanwhile, and was then dropped by the receiver.
        let Some(request) = self.requests.find_mut(send) else { return Ok(Post::Sent) };
        let State::Announced { recalled } = request.state else { return Ok(Post::Sent) };
        let (to, bytes) = (request.peer, request.bytes);
        if bytes > endpoint.caps(to).eager as u64 {
            return Ok(Post::Sent);
        }
        let flags = Header::CREDITED;
        let header = Header { flags, context: sequence, ..Header::new(Kind::Data) };
        let fill = |slot: &mut fabric::Slot| request.buffer.fill(0, slot);
        let posted = endpoint.post(to, &header, bytes as usize, fill)?;
        if posted == Post::Sent {
            self.data_kept(send, recalled);
        }
        Ok(posted)
    }

    /// The receiver has the data of an announced message, or is sure to: it is like an eager one
    /// that has left. `recalled`: the answer to its cancellation decides.
    pub(crate) fn data_kept(&mut self, id: RequestId, recalled: bool) {
        if !recalled {
            return self.sent_early(id);
        }
        let request = self.requests.held(id);
        request.state = State::Recalling;
        let (peer, region) = (request.peer, request.region.take());
        self.release(peer, region);
    }
}
