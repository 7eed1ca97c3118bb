//! The sending half of the data path.

use fabric::{Header, Peer, PeerFailed, Post, Slot};

use crate::buffers::{LONG, without_slot_header};
use crate::eager_rdma::wire::{self, SLOT_HEADER};
use crate::endpoint::flow::Unacked;
use crate::endpoint::send_queue::Signal;
use crate::frame::{FRAME_HEADER, PREFIX, control};
use crate::ibv::Destination;
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Sends one frame, if the peer is connected and has space for it.
    #[inline]
    pub(crate) fn post_frame(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        debug_assert!(len <= self.config.caps.frame, "a body larger than a frame");
        let depth = self.config.send_depth;
        let ready = self.endpoints.find(peer).filter(|&at| self.endpoints[at].has_space(depth));
        let at = match ready {
            Some(at) => at,
            None => match self.make_space(peer)? {
                Some(at) => at,
                None => return Ok(Post::NoSpace),
            },
        };
        if !self.coalescer.is_off() {
            if self.coalesces(at, len) {
                self.append_coalesced(at, header, len, fill);
                return Ok(Post::Sent);
            }
            // Sending the open message may have found the connection broken.
            if !self.endpoints[at].has_space(depth) && self.make_space(peer)?.is_none() {
                return Ok(Post::NoSpace);
            }
        }
        let slot = self.send.take(FRAME_HEADER + len, &mut self.registrations);
        let Some(slot) = slot else { return self.no_slot(at) };
        self.send_frame(at, slot, header, len, fill);
        Ok(Post::Sent)
    }

    /// Fills a slot with the next frame to a peer, and sends it or writes it into the peer's
    /// ring.
    #[inline(always)]
    fn send_frame(
        &mut self,
        at: usize,
        slot: u32,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) {
        let bytes = FRAME_HEADER + len;
        let is_written = slot & LONG == 0 && self.may_write(at) && !self.endpoints[at].tx.must_send;
        let (all, memory) = match slot & LONG {
            0 => self.send.short.bytes_and_sge(slot, wire::slot_len(bytes)),
            _ => self.send.long.bytes_and_sge(slot & !LONG, SLOT_HEADER + bytes),
        };
        let endpoint = &mut self.endpoints[at];
        let flow = &mut endpoint.flow;
        let seq = flow.tx_seq;
        let Some((front, body)) =
            all[SLOT_HEADER..SLOT_HEADER + bytes].split_first_chunk_mut::<FRAME_HEADER>()
        else {
            unreachable!("the slot has room for a header")
        };
        front[..4].copy_from_slice(&seq.to_le_bytes());
        front[4..PREFIX].copy_from_slice(&flow.rx_seq.to_le_bytes());
        front[PREFIX..].copy_from_slice(&header.encode());
        fill(&mut Slot::new(body, false));
        flow.advertised = flow.rx_seq;
        flow.tx_seq = seq.wrapping_add(1);
        flow.no_credit = false;
        endpoint.used_at = self.polls;
        flow.unacked.push_back(Unacked { slot, bytes: bytes as u32, seq, frames: 1 });
        let (memory, to) = match is_written {
            true => {
                wire::seal(all, bytes);
                let (addr, rkey) = endpoint.eager_rdma.tx.slot(seq);
                (memory, Destination::write(addr, rkey))
            }
            false => {
                endpoint.tx.must_send = false;
                (without_slot_header(memory, bytes as u32), Destination::RECEIVE)
            }
        };
        if endpoint.tx.submit(memory, to, Signal::NONE).is_err() {
            self.on_refused(at);
        } else if is_written {
            self.on_written(at);
        }
    }

    /// Makes a peer reachable that is not yet. Returns its endpoint if it has space now; otherwise
    /// records that a frame waits for space.
    #[cold]
    fn make_space(&mut self, peer: Peer) -> Result<Option<usize>, PeerFailed> {
        let at = self.endpoints.get_or_create(peer)?;
        if self.endpoints[at].flow.window == 0 {
            self.reach(at);
        }
        self.endpoints[at].check()?;
        if self.endpoints[at].has_space(self.config.send_depth) {
            return Ok(Some(at));
        }
        self.credit.block(&mut self.endpoints, at);
        if self.endpoints[at].flow.window == 0 {
            self.wireup.add_pending(at, &mut self.endpoints[at].conn);
        }
        Ok(None)
    }

    /// Handles a message that no connection has taken, which is unacknowledged: it goes by
    /// datagrams, or, if there is a connection, that is broken.
    #[cold]
    fn on_refused(&mut self, at: usize) {
        match self.endpoints[at].is_ready() {
            true => self.break_connection(at, "the device refused a send"),
            false => self.send_by_datagrams(at),
        }
    }

    /// Refuses a frame because all send slots hold unacknowledged frames, and requests
    /// acknowledgements from all peers.
    #[cold]
    fn no_slot(&mut self, at: usize) -> Result<Post, PeerFailed> {
        if let Some(error) = self.send.refusal.take() {
            self.warn_refused(&error);
        }
        self.credit.block(&mut self.endpoints, at);
        let connected: Vec<u32> = self.endpoints.with_queue_pairs().collect();
        for other in connected {
            let other = other as usize;
            let endpoint = &mut self.endpoints[other];
            let flow = &mut endpoint.flow;
            let may_free = !flow.credit_requested && !flow.unacked.is_empty();
            if may_free && endpoint.conn.is_ready() {
                flow.credit_requested = true;
                if !self.send_control(other, control::REQUEST_CREDIT) {
                    // Its send queue is full: the next frame without a slot asks again.
                    self.endpoints[other].flow.credit_requested = false;
                }
            }
        }
        Ok(Post::NoSpace)
    }

    /// Returns whether a peer that had no space has some now; forgets those that have.
    pub(crate) fn has_space_again(&mut self) -> bool {
        let Self { endpoints, credit, send, config, .. } = self;
        credit.has_space_again(endpoints, config.send_depth, send.long.has_free())
    }

    /// Begins a batch of frames to a peer.
    pub(crate) fn open_batch(&mut self, peer: Peer) {
        self.flush_coalesced();
        self.coalescer.set_batch(self.endpoints.find(peer));
    }

    /// Ends the batch, and sends the rest of it.
    pub(crate) fn close_batch(&mut self) {
        self.flush_coalesced();
        self.coalescer.set_batch(None);
    }

    /// Returns whether a frame, for which there is space, goes together with others. Opens a
    /// message for it.
    fn coalesces(&mut self, at: usize, len: usize) -> bool {
        if self.coalescer.is_open(at) {
            if self.coalescer.fits(&self.endpoints[at].flow, len) {
                return true;
            }
            self.flush_coalesced();
        }
        let Self { endpoints, send, coalescer, registrations, .. } = self;
        coalescer.open(at, &mut endpoints[at].flow, send, registrations, len)
    }

    fn append_coalesced(
        &mut self,
        at: usize,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) {
        let Self { endpoints, send, coalescer, polls, .. } = self;
        let endpoint = &mut endpoints[at];
        coalescer.append(&mut endpoint.flow, send, header, len, fill);
        endpoint.used_at = *polls;
    }

    /// Sends the open message; further frames of the batch make another one.
    fn flush_coalesced(&mut self) {
        let Some(at) = self.coalescer.close_message() else { return };
        let Self { endpoints, send, .. } = self;
        let endpoint = &mut endpoints[at];
        let Some(&message) = endpoint.flow.unacked.back() else { return };
        endpoint.flow.advertised = endpoint.flow.rx_seq;
        send.set_ack(message.slot, endpoint.flow.rx_seq);
        let memory = send.sge(&message);
        if endpoint.tx.submit(memory, Destination::RECEIVE, Signal::NONE).is_err() {
            self.on_refused(at);
        }
    }
}
