//! Posts frames: header and body are written into the peer's stream, and sent at once if the
//! connection takes them. Without a connection there is no space for a frame: the post only starts
//! a dial, and the caller polls.
//!
//! Records that begin a rendezvous (a frame Rts, a get) may be gathered: the transfer needs further
//! polls anyway. The first one since the last poll is sent at once; those that follow leave with
//! the next poll, in one system call ([`TcpTransport::write_soon`]). While a thread sleeps no poll
//! is to come, and each leaves at once.

use fabric::{Header, Kind as FrameKind, Peer, PeerFailed, Post, Slot};

use crate::transport::TcpTransport;
use crate::wire::{Kind, Record};

/// Bytes of records that are gathered at most.
const MAX_GATHERED: u64 = 4 << 10;

impl TcpTransport {
    /// Posts one frame; see `Transport::post`.
    #[inline]
    pub(crate) fn post_frame(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        let at = self.usable(peer)?;
        let state = &mut self.peers[at];
        let total = Record::SIZE + Header::SIZE + len;
        let is_full = state.tx.owned() + total > self.settings.window && state.tx.owned() > 0;
        // Without a link the frame would wait for polls, and a caller that is told `Sent` need not
        // poll: it may compute for long.
        if is_full || !state.is_connected() {
            state.is_starved = true;
            return Ok(Post::NoSpace);
        }
        let bytes = state.append(Kind::Frame, Header::SIZE + len);
        let (head, body) = bytes.split_at_mut(Header::SIZE);
        head.copy_from_slice(&header.encode());
        fill(&mut Slot::new(body, false));
        if header.kind == FrameKind::Rts {
            self.write_soon(at);
        } else if self.writing.batch != Some(peer) {
            state.write(self.attention.polls);
        }
        Ok(Post::Sent)
    }

    /// Returns the index of a peer that has not failed. It is dialed if there is no link.
    #[inline]
    pub(crate) fn usable(&mut self, peer: Peer) -> Result<usize, PeerFailed> {
        let Some(at) = self.peer_index(peer) else {
            return Err(PeerFailed { peer, why: "the job has no such rank".into() });
        };
        if self.peers[at].link.is_none() {
            self.connect(at)?;
        }
        Ok(at)
    }

    #[cold]
    fn connect(&mut self, at: usize) -> Result<(), PeerFailed> {
        if let Some(failed) = &self.peers[at].failed {
            return Err(failed.clone());
        }
        if self.peers[at].dial.is_none() {
            self.start_dialing(at, "no attempt has ended");
            self.progress_dials();
            self.wake_sleeper();
        }
        Ok(())
    }

    /// Sends a record that begins a rendezvous, or gathers it with others.
    pub(crate) fn write_soon(&mut self, at: usize) {
        let polls = self.attention.polls;
        let state = &mut self.peers[at];
        if self.writing.batch == Some(state.peer) {
            return;
        }
        let is_gathered = state.began_in == polls && state.tx.unsent() < MAX_GATHERED;
        // A sleeper does not poll.
        if is_gathered && !self.attention.is_armed {
            if !self.writing.delayed.contains(&at) {
                self.writing.delayed.push(at);
            }
            return;
        }
        state.began_in = polls;
        state.write(polls);
    }

    /// Sends what was gathered.
    #[inline(never)]
    pub(crate) fn write_delayed(&mut self) {
        let polls = self.attention.polls;
        for at in self.writing.delayed.drain(..) {
            self.peers[at].write(polls);
        }
    }

    /// Ends a batch: what was posted is sent.
    pub(crate) fn close_batch(&mut self, peer: Peer) {
        self.writing.batch = None;
        if let Some(at) = self.peer_index(peer) {
            self.peers[at].write(self.attention.polls);
        }
    }
}
