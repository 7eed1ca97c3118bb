//! One rank: a point-to-point engine on a transport of its own.

use fabric::protocol;
use fabric::{HybridGet, Peer, PeerFailed, RequestId, WaitOn};
use objects::Buffer;
use pt2pt::{Completion, Engine, Envelope, MessageId, Mode, Pattern, Settings};

/// An engine and its transport, with the calls that need both.
pub struct Rank<T: HybridGet> {
    /// For calls that need no transport.
    pub pt2pt: Engine,
    /// The engine, for its counters.
    pub transport: T,
}

impl<T: HybridGet> Rank<T> {
    /// Makes the rank of process `me`.
    pub fn new(me: Peer, transport: T, settings: Settings) -> Rank<T> {
        Rank { pt2pt: Engine::new(me, settings), transport }
    }

    /// Starts a send; polls if the engine requests it, as the runtime does.
    pub fn send(&mut self, mode: Mode, to: Peer, envelope: Envelope, buffer: Buffer) -> RequestId {
        let id = self.pt2pt.send(&mut self.transport, mode, to, envelope, buffer);
        if fabric::Protocol::take_poll_request(&mut self.pt2pt) {
            self.progress();
        }
        id
    }

    /// Sends at once, if that is possible.
    pub fn send_now(
        &mut self,
        mode: Mode,
        to: Peer,
        envelope: &Envelope,
        buffer: &Buffer,
    ) -> Result<Option<u64>, PeerFailed> {
        self.pt2pt.send_now(&mut self.transport, mode, to, envelope, buffer)
    }

    /// Starts a receive.
    pub fn receive(&mut self, pattern: Pattern, buffer: Buffer) -> RequestId {
        self.pt2pt.receive(&mut self.transport, pattern, buffer)
    }

    /// Receives at once, if the message is here.
    pub fn receive_now(&mut self, pattern: &Pattern, buffer: &Buffer) -> Option<Completion> {
        self.pt2pt.receive_now(&mut self.transport, pattern, buffer)
    }

    /// Receives a message that was taken.
    pub fn receive_taken(&mut self, message: MessageId, buffer: Buffer) -> RequestId {
        self.pt2pt.receive_taken(&mut self.transport, message, buffer)
    }

    /// Requests that an operation be cancelled.
    pub fn cancel(&mut self, id: RequestId) {
        self.pt2pt.cancel(&mut self.transport, id);
    }

    /// Recalls a message that `send_now` sent.
    pub fn recall_sent(&mut self, to: Peer, sequence: u64, bits: u32) -> RequestId {
        self.pt2pt.recall_sent(&mut self.transport, to, sequence, bits)
    }

    /// Does one round of progress.
    pub fn progress(&mut self) -> bool {
        protocol::progress(&mut self.transport, &mut self.pt2pt)
    }

    /// Returns true when nothing that a peer waits for is still to leave.
    pub fn is_drained(&mut self) -> bool {
        protocol::is_drained(&mut self.transport, &self.pt2pt)
    }

    /// Announces that the rank is about to sleep.
    pub fn arm(&mut self) -> Option<WaitOn<'_>> {
        protocol::arm(&mut self.transport, &mut self.pt2pt)
    }

    /// Announces that the rank is awake again.
    pub fn disarm(&mut self) {
        self.transport.disarm();
    }
}
