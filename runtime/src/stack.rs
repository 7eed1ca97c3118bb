//! The protocol stack of a process: its endpoint and the protocols that share it.
//!
//! [`Endpoint`] names the transports of this build. [`Protocols`] composes the protocols: each
//! frame and each completion of a one-sided transfer goes to the protocol that it belongs to. A new
//! protocol is a field of [`Protocols`] and an arm in each of its functions. Calls that start a
//! message poll if the protocol requests it. A full ring or missing credit then does not wait for
//! the next round of progress.

use fabric::{
    Body, Header, HybridGet, Peer, PeerFailed, Protocol, ProtocolId, RequestId, Sink, Token,
    Transport, WaitOn,
};
use objects::Buffer;
use pt2pt::{Completion, Engine, Envelope, MessageId, Mode, Pattern};
use shm_transport::ShmTransport;
use tcp_transport::TcpTransport;
use verbs_transport::Rails;

/// The transport between hosts.
pub(crate) type Inter = fabric::endpoint::inter::Inter<Rails, TcpTransport>;
/// The endpoint with the transports of this build.
pub type Endpoint = fabric::Endpoint<ShmTransport, Inter>;

/// The protocols that use the endpoint.
pub struct Protocols {
    /// Point-to-point messages, and what collectives send.
    pub pt2pt: Engine,
    /// One-sided communication.
    pub rma: rma::Engine,
}

/// An endpoint and its protocols.
pub struct Stack {
    /// Moves frames.
    pub endpoint: Endpoint,
    /// Interpret frames.
    pub protocols: Protocols,
}

impl Sink for Protocols {
    #[inline(always)]
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        match header.kind.protocol() {
            ProtocolId::Pt2pt => self.pt2pt.frame(from, header, body),
            ProtocolId::Rma => {
                if let Ok(body) = body.wait_all() {
                    self.rma_frame(from, header, body);
                }
            }
        }
    }

    #[inline(always)]
    fn expects(&mut self, from: Peer, header: &Header) -> bool {
        match header.kind.protocol() {
            ProtocolId::Pt2pt => self.pt2pt.expects(from, header),
            ProtocolId::Rma => true,
        }
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        match Token::from_bits(token).map(|token| token.protocol) {
            Some(ProtocolId::Pt2pt) => self.pt2pt.transferred(token, outcome),
            Some(ProtocolId::Rma) => self.rma.transferred(token, outcome),
            None => debug_assert!(false, "no protocol has the token {token:#x}"),
        }
    }

    fn peer_failed(&mut self, failed: PeerFailed) {
        self.rma.peer_failed(failed.clone());
        self.pt2pt.peer_failed(failed);
    }
}

impl Protocol for Protocols {
    #[inline]
    fn has_work(&self) -> bool {
        self.pt2pt.has_work() || self.rma.has_work()
    }

    fn can_work(&mut self) -> bool {
        self.pt2pt.can_work() || self.rma.can_work()
    }

    #[inline]
    fn take_poll_request(&mut self) -> bool {
        self.pt2pt.take_poll_request()
    }

    fn work<T: HybridGet>(&mut self, endpoint: &mut T) -> bool {
        let moved = self.pt2pt.work(endpoint);
        (self.rma.has_work() && self.rma.work(endpoint)) | moved
    }

    fn is_drained(&self) -> bool {
        self.pt2pt.is_drained() && self.rma.is_drained()
    }
}

impl Protocols {
    /// Out of line, so that frames of messages pay nothing for it.
    #[inline(never)]
    fn rma_frame(&mut self, from: Peer, header: &Header, body: &[u8]) {
        self.pt2pt.mark_news();
        self.rma.frame(from, header, body);
    }
}

impl Stack {
    /// Returns the stack of an endpoint and a point-to-point engine.
    pub(crate) fn new(endpoint: Endpoint, pt2pt: Engine) -> Stack {
        Stack { endpoint, protocols: Protocols { pt2pt, rma: rma::Engine::new() } }
    }

    /// Returns the point-to-point engine, for operations that need no endpoint.
    #[inline]
    pub fn pt2pt(&mut self) -> &mut Engine {
        &mut self.protocols.pt2pt
    }

    /// Returns the engine of one-sided communication, and the endpoint that its calls take.
    pub fn rma(&mut self) -> (&mut rma::Engine, &mut Endpoint) {
        (&mut self.protocols.rma, &mut self.endpoint)
    }

    /// Takes the window locks in shared memory that are this process's turn, and wakes those that
    /// may go on with it; true if there were any, or if steps are there that a call waits for.
    #[cold]
    pub(crate) fn take_turns(&mut self) -> bool {
        let took = self.protocols.rma.take_turns();
        self.wake_waiters();
        took
    }

    /// Wakes the peers that a change of shared memory concerns.
    #[inline]
    pub(crate) fn wake_waiters(&mut self) {
        let wakes = self.protocols.rma.take_wakes();
        if let Some(shm) = self.endpoint.intra() {
            wakes.for_each(|peer| shm.wake(peer));
        }
    }

    /// Makes one round of progress; true if anything happened.
    #[inline(always)]
    pub fn progress(&mut self) -> bool {
        fabric::protocol::progress(&mut self.endpoint, &mut self.protocols)
    }

    /// Makes a round of progress inside another operation; see [`Engine::take_news`].
    #[cold]
    pub fn progress_aside(&mut self) {
        self.protocols.pt2pt.mark_news();
        self.progress();
    }

    /// Polls if the protocol requested it while a message was started.
    #[inline]
    pub(crate) fn poll_if_requested(&mut self) {
        if self.protocols.take_poll_request() {
            self.progress_aside();
        }
    }

    /// Sends at once if no request has to be kept; see [`Engine::send_now`].
    #[inline(always)]
    pub fn send_now(
        &mut self,
        mode: Mode,
        to: Peer,
        envelope: &Envelope,
        buffer: &Buffer,
    ) -> Result<Option<u64>, PeerFailed> {
        self.protocols.pt2pt.send_now(&mut self.endpoint, mode, to, envelope, buffer)
    }

    /// Starts a send; see [`Engine::send`].
    pub fn send(&mut self, mode: Mode, to: Peer, envelope: Envelope, buffer: Buffer) -> RequestId {
        let id = self.protocols.pt2pt.send(&mut self.endpoint, mode, to, envelope, buffer);
        self.poll_if_requested();
        id
    }

    /// Starts a standard send of a copy of `original`, with its signature.
    pub fn send_signed(
        &mut self,
        to: Peer,
        envelope: Envelope,
        copy: Buffer,
        original: &Buffer,
    ) -> RequestId {
        let signature = original.signature(original.len());
        let (pt2pt, endpoint) = (&mut self.protocols.pt2pt, &mut self.endpoint);
        let id = pt2pt.send_signed(endpoint, Mode::Standard, to, envelope, copy, signature);
        self.poll_if_requested();
        id
    }

    /// Starts a receive; see [`Engine::receive`].
    #[inline(always)]
    pub fn receive(&mut self, pattern: Pattern, buffer: Buffer) -> RequestId {
        self.protocols.pt2pt.receive(&mut self.endpoint, pattern, buffer)
    }

    /// Receives a message that has arrived; see [`Engine::receive_now`].
    #[inline]
    pub fn receive_now(&mut self, pattern: &Pattern, buffer: &Buffer) -> Option<Completion> {
        self.protocols.pt2pt.receive_now(&mut self.endpoint, pattern, buffer)
    }

    /// Receives a message that a matched probe took; see [`Engine::receive_taken`].
    pub fn receive_taken(&mut self, message: MessageId, buffer: Buffer) -> RequestId {
        self.protocols.pt2pt.receive_taken(&mut self.endpoint, message, buffer)
    }

    /// Requests that an operation is cancelled; see [`Engine::cancel`].
    pub fn cancel(&mut self, id: RequestId) {
        self.protocols.pt2pt.cancel(&mut self.endpoint, id);
    }

    /// Recalls a sent message; see [`Engine::recall_sent`].
    pub fn recall_sent(&mut self, to: Peer, sequence: u64, bits: u32) -> RequestId {
        self.protocols.pt2pt.recall_sent(&mut self.endpoint, to, sequence, bits)
    }

    /// Returns true when nothing that a peer waits for is still to leave this process.
    pub fn is_drained(&mut self) -> bool {
        fabric::protocol::is_drained(&mut self.endpoint, &self.protocols)
    }

    /// Returns true when something is to be posted, whether or not the transport has space.
    pub fn has_work(&self) -> bool {
        self.protocols.has_work()
    }

    /// Announces that the caller is about to sleep; see [`Transport::arm`]. `None` if there is work
    /// to do now.
    pub fn arm(&mut self) -> Option<WaitOn<'_>> {
        fabric::protocol::arm(&mut self.endpoint, &mut self.protocols)
    }

    /// Announces that the caller is awake again.
    pub fn disarm(&mut self) {
        self.endpoint.disarm();
    }
}
