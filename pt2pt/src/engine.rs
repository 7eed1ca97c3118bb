//! The engine: a transport and everything but the transport.
//!
//! The split is what lets a transport hand frames to the protocol while it is
//! being polled: [`Protocol`] is the sink. It can't post; it notes what is to be
//! posted, and the engine does so when the poll has returned.

use std::collections::VecDeque;

use fabric::{Peer, PeerFailed, Region, Transport, WaitOn};

use crate::eager::Arrived;
use crate::fault::LateReady;
use crate::matching::{Posted, Unexpected};
use crate::message::{Awaited, Completion};
use crate::peers::{Frame, Peers};
use crate::requests::{Request, RequestId, Requests, State};

/// What can be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of eager messages (each counted with 128 bytes more than its data)
    /// that one peer may have at another without a receive for them. All
    /// processes of a job must agree.
    pub unexpected_bytes_per_peer: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { unexpected_bytes_per_peer: 1 << 20 }
    }
}

/// The point-to-point engine of one process. See the crate.
pub struct Engine<T: Transport> {
    pub(crate) transport: T,
    pub(crate) protocol: Protocol,
}

/// Everything but the transport.
pub(crate) struct Protocol {
    pub(crate) me: Peer,
    pub(crate) requests: Requests,
    pub(crate) posted: Posted,
    pub(crate) unexpected: Unexpected<Arrived>,
    pub(crate) peers: Peers,
    /// Slots of peers with frames to post or data to push, in turn.
    pub(crate) busy: VecDeque<usize>,
    /// Requests whose one-sided transfer is to be started.
    pub(crate) transfers: VecDeque<RequestId>,
    /// Registrations that are over.
    pub(crate) releases: Vec<(Peer, Region)>,
    /// A peer has asked for data since we last polled.
    pub(crate) cleared: bool,
    /// Something was added to the three lists above since they were last looked at.
    pub(crate) noted: bool,
    /// More has happened than what the call was about; see [`Engine::take_news`].
    pub(crate) news: bool,
    pub(crate) late_ready: Option<LateReady>,
    pub(crate) lost: Vec<PeerFailed>,
}

impl<T: Transport> Engine<T> {
    /// The engine of process `me`. Talks to nobody yet.
    pub fn new(me: Peer, transport: T, settings: Settings) -> Engine<T> {
        let protocol = Protocol {
            me,
            requests: Requests::new(),
            posted: Posted::new(),
            unexpected: Unexpected::new(),
            peers: Peers::new(settings.unexpected_bytes_per_peer),
            busy: VecDeque::new(),
            transfers: VecDeque::new(),
            releases: Vec::new(),
            cleared: false,
            noted: false,
            news: false,
            late_ready: None,
            lost: Vec::new(),
        };
        Engine { transport, protocol }
    }

    /// True while the id names a request: until [`Engine::finish`] has given its
    /// outcome, or for ever if it never was an id.
    #[inline]
    pub fn knows(&self, id: RequestId) -> bool {
        self.protocol.requests.find(id).is_some()
    }

    /// The id of the request in that slot (the lower 32 bits of an id) now.
    pub fn request_at(&self, slot: u32) -> Option<RequestId> {
        self.protocol.requests.at(slot)
    }

    /// True when the request is over and [`Engine::finish`] has its outcome.
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        let request = self.protocol.requests.find(id);
        request.is_some_and(|request| matches!(request.state, State::Done { .. }))
    }

    /// Takes the outcome of a request that is over; the id is over too then.
    /// `None` while the request is active (and for ids that are over).
    #[inline]
    pub fn finish(&mut self, id: RequestId) -> Option<Completion> {
        self.protocol.requests.finish(id)
    }

    /// What a request that is not over waits for; `None` when it is.
    pub fn awaited(&self, id: RequestId) -> Option<Awaited> {
        self.protocol.requests.find(id).and_then(Request::awaited)
    }

    /// A look at the outcome of a request that is over; it stays so.
    pub fn outcome(&self, id: RequestId) -> Option<Completion> {
        self.protocol.requests.outcome(id)
    }

    /// The operation goes on and vanishes when it is over (MPI_Request_free,
    /// MPI-5.0 §3.7.3). Its buffer must stay valid until then.
    pub fn detach(&mut self, id: RequestId) {
        let Some(request) = self.protocol.requests.find_mut(id) else { return };
        if request.is_active() {
            request.detached = true;
        } else {
            self.protocol.requests.free(id);
        }
    }

    /// True while a request with that context id is not over. Looks at all of them.
    pub fn is_in_use(&self, context: u64) -> bool {
        self.protocol.requests.active().any(|(_, request)| request.key.context == context)
    }

    /// How many requests are not over. Looks at all of them.
    pub fn active(&self) -> usize {
        self.protocol.requests.active().count()
    }

    /// True when nothing that others wait for is still to leave this process:
    /// no queued frame, no transfer under way, no detached send, nothing that the device
    /// has yet to send.
    pub fn is_drained(&mut self) -> bool {
        let owes_data = self.protocol.requests.active().any(|(_, request)| match request.state {
            State::Pulling { .. } | State::Filling { .. } | State::Sharing { .. } => true,
            State::Pushing { .. } | State::Writing { .. } => true,
            _ => request.is_send() && request.detached,
        });
        // A peer that misses a credit is not held up, and may be gone by now.
        let is_credit = |frame: &Frame| matches!(frame, Frame::Control(header) if header.kind == fabric::Kind::Credit);
        !owes_data
            && self.protocol.peers.iter().all(|peer| peer.queue.iter().all(is_credit))
            && self.transport.flush()
    }

    /// True when something is to leave this process, whether or not it could now.
    pub fn has_work(&self) -> bool {
        self.protocol.has_work()
    }

    /// True when sends and receives started since the last call may have done more
    /// than what they were about: completed others, or left a message to be probed.
    #[inline]
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.protocol.news) || self.protocol.has_work()
    }

    /// Says that the caller is about to sleep; see [`Transport::arm`]. `None`
    /// when there is something to do now.
    pub fn arm(&mut self) -> Option<WaitOn<'_>> {
        if self.protocol.can_go_on() { None } else { self.transport.arm() }
    }

    /// Says that the caller is awake again.
    pub fn disarm(&mut self) {
        self.transport.disarm();
    }

    /// The first ready send since the last call that found no receive posted.
    pub fn late_ready(&mut self) -> Option<LateReady> {
        self.protocol.late_ready.take()
    }

    /// The transport, to ask it for its counters.
    pub fn transport(&self) -> &T {
        &self.transport
    }
}
