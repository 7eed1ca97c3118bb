//! The engine's state, and the calls that need no endpoint.
//!
//! The engine does not own the endpoint, so that the endpoint can hand frames to it while it is
//! polled. A frame handler queues what is to be posted; `work` posts it after the poll.

use std::collections::VecDeque;

use fabric::{Peer, PeerFailed, Protocol, Region, RequestId};

use crate::fault::LateReady;
use crate::key::Key;
use crate::matching::{Posted, Unexpected};
use crate::message::{Completion, MessageWait, Notice, Unfinished, Unreceived};
use crate::peers::{Peers, Placement};
use crate::requests::{Request, Requests, State};
use crate::spare_regions::SpareRegions;
use crate::unexpected::{Arrived, Requested};

/// Settings of an engine.
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

/// The point-to-point engine of one process: all of its state but for the transports. Calls that
/// post take the endpoint.
pub struct Engine {
    pub(crate) me: Peer,
    pub(crate) requests: Requests,
    pub(crate) posted: Posted,
    pub(crate) unexpected: Unexpected<Arrived>,
    pub(crate) peers: Peers,
    /// Slots of peers with frames to post or data to push, served in turn.
    pub(crate) ready_peers: VecDeque<usize>,
    /// Requests with a one-sided transfer to start.
    pub(crate) transfers: VecDeque<RequestId>,
    /// Announced messages without a receive whose data may be fetched: sender and number.
    pub(crate) unexpected_gets: Vec<(Peer, u64)>,
    /// Announced messages whose data was requested before they were matched.
    pub(crate) requested: Vec<Requested>,
    /// Halves of messages to write.
    pub(crate) placements: Vec<Placement>,
    /// Messages that were pushed to the end: sender and its memory.
    pub(crate) ended_hybrids: Vec<(Peer, Region)>,
    /// Registrations to end.
    pub(crate) releases: Vec<(Peer, Region)>,
    /// Boxes that requests no longer use, for the next ones.
    pub(crate) spare_regions: SpareRegions,
    /// Frames that may have arrived matter for what is queued: a peer has requested data, or an
    /// envelope found no space or credit.
    pub(crate) poll_wanted: bool,
    /// Something was added to the three lists above since the last `work`.
    pub(crate) has_pending: bool,
    /// More has happened than the call was for; see [`Engine::take_news`].
    pub(crate) news: bool,
    pub(crate) late_ready: Option<LateReady>,
    pub(crate) failed_peers: Vec<PeerFailed>,
    /// Notices that were not taken yet, with their senders.
    pub(crate) notices: Vec<(Peer, Notice)>,
    /// One of the two lists above is not empty.
    pub(crate) has_incidents: bool,
    /// Every process learns of failed peers by itself.
    pub(crate) all_learn_of_failures: bool,
}

impl Engine {
    /// Makes the engine of process `me`. Posts nothing.
    pub fn new(me: Peer, settings: Settings) -> Engine {
        Engine {
            me,
            requests: Requests::new(),
            posted: Posted::new(),
            unexpected: Unexpected::new(),
            peers: Peers::new(settings.unexpected_bytes_per_peer),
            ready_peers: VecDeque::new(),
            transfers: VecDeque::new(),
            unexpected_gets: Vec::new(),
            requested: Vec::new(),
            placements: Vec::new(),
            ended_hybrids: Vec::new(),
            releases: Vec::new(),
            spare_regions: SpareRegions::default(),
            poll_wanted: false,
            has_pending: false,
            news: false,
            late_ready: None,
            failed_peers: Vec::new(),
            notices: Vec::new(),
            has_incidents: false,
            all_learn_of_failures: false,
        }
    }

    /// Returns true while the id names a request, until [`Engine::finish`] has returned its
    /// outcome.
    #[inline]
    pub fn contains(&self, id: RequestId) -> bool {
        self.requests.find(id).is_some()
    }

    /// Returns the id of the request in that slot (the lower 32 bits of an id) now.
    pub fn request_at(&self, slot: u32) -> Option<RequestId> {
        self.requests.at(slot)
    }

    /// Returns true when the request is over and [`Engine::finish`] has its outcome.
    #[inline]
    pub fn is_complete(&self, id: RequestId) -> bool {
        let request = self.requests.find(id);
        request.is_some_and(|request| matches!(request.state, State::Done { .. }))
    }

    /// Takes the outcome of a request that is over, and frees the id. `None` while the request is
    /// active, and for ids that are over.
    #[inline]
    pub fn finish(&mut self, id: RequestId) -> Option<Completion> {
        self.requests.finish(id)
    }

    /// Returns what a request waits for; `None` when it is over.
    pub fn blocked_on(&self, id: RequestId) -> Option<MessageWait> {
        self.requests.find(id).and_then(Request::blocked_on)
    }

    /// Returns a send that its user has let go of and whose receive is missing. Cost: all requests.
    pub fn unmatched_send(&self) -> Option<RequestId> {
        let mut active = self.requests.active();
        active.find(|(_, request)| request.is_send() && request.detached).map(|(id, _)| id)
    }

    /// Returns true while the rest of a message is on its way into a posted receive. Cost: all
    /// requests.
    pub fn is_receiving(&self) -> bool {
        let active = self.requests.active();
        active
            .filter_map(|(_, request)| request.blocked_on())
            .any(|it| !it.is_send && it.peer.is_some())
    }

    /// Returns the outcome of a request that is over, and keeps the request.
    pub fn outcome(&self, id: RequestId) -> Option<Completion> {
        self.requests.outcome(id)
    }

    /// Lets the operation go on without its user; the request is freed when it is over
    /// (MPI_Request_free, MPI-5.0 §3.7.3). Its buffer must be valid until then.
    pub fn detach(&mut self, id: RequestId) {
        let Some(request) = self.requests.find_mut(id) else { return };
        if request.is_active() {
            request.detached = true;
        } else {
            self.requests.free(id);
        }
    }

    /// Returns true while a request with that context id is not over. Cost: all requests.
    pub fn is_in_use(&self, context: u64) -> bool {
        self.any_in_use(context).is_some()
    }

    /// Returns a request with that context id that is not over. Cost: all requests.
    pub fn any_in_use(&self, context: u64) -> Option<RequestId> {
        let mut active = self.requests.active();
        active.find(|(_, request)| request.key.context == context).map(|(id, _)| id)
    }

    /// Returns the requests that no user has completed or let go of. Cost: all requests.
    pub fn unfinished(&self) -> impl Iterator<Item = Unfinished> {
        self.requests.unfinished()
    }

    /// Returns the messages for which no receive was posted, the newest first.
    pub fn unreceived(&self) -> impl Iterator<Item = Unreceived> {
        self.unexpected.iter().map(|(&Key { context, source, tag }, message)| Unreceived {
            source,
            tag,
            bytes: message.bytes,
            context,
        })
    }

    /// Returns how many requests are not over. Cost: all requests.
    pub fn active(&self) -> usize {
        self.requests.active().count()
    }

    /// Records that a call has side effects; see [`Engine::take_news`].
    pub fn mark_news(&mut self) {
        self.news = true;
    }

    /// Returns true when calls since the last `take_news` may have done more than they were for:
    /// completed other requests, or left a message to be probed.
    #[inline]
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.news) || self.has_work()
    }

    /// Takes the first ready send since the last call that found no receive posted.
    pub fn late_ready(&mut self) -> Option<LateReady> {
        self.late_ready.take()
    }
}
