//! The engine's state, and the engine as a client of the endpoint.
//!
//! The engine does not own the endpoint, so that the endpoint can hand frames to it while it is
//! polled. A frame handler changes memory at once and queues what is to be posted; `work` posts it
//! after the poll.

use std::sync::atomic::AtomicBool;

use crate::operations::Operations;
use crate::outgoing::{Item, Outgoing};
use crate::recent::RecentOp;
use crate::window::Window;
use crate::windows::Windows;
use fabric::{Body, Header, HybridGet, Kind, Peer, PeerFailed, Protocol, RequestId, Sink, Token};
use objects::{Class, Error, Result};

/// The result of a post: an error if the peer has failed.
pub(crate) type Posted<T> = std::result::Result<T, PeerFailed>;

/// Most operations and frames that wait for space at a peer before further calls wait with them.
const MAX_QUEUED: usize = 1024;

/// One-sided communication of one process: all of its state but for the transports.
pub struct Engine {
    pub(crate) windows: Windows,
    pub(crate) operations: Operations,
    pub(crate) outgoing: Outgoing,
    pub(crate) failed_peers: Vec<PeerFailed>,
    /// Locks and steps in shared memory that this process waits for.
    pub(crate) shared_waits: u32,
    /// Peers that wait for a change of shared memory, and may sleep.
    pub(crate) wakes: Vec<Peer>,
    /// A window whose waiters a call that ends at once has left to be woken.
    pub(crate) left: Option<u64>,
    /// Calls that ended at once since there was progress; see `direct`.
    pub(crate) quick_calls: u32,
    /// This process has stored into memory of others since it ran a full fence; see `direct`.
    pub(crate) has_stores: AtomicBool,
    /// The peer for whose frames a call has found no space.
    pub(crate) congested: Option<Peer>,
    pub(crate) recent_op: RecentOp,
}

impl Engine {
    /// Makes an engine without windows.
    pub const fn new() -> Engine {
        Engine {
            windows: Windows::new(),
            operations: Operations::new(),
            outgoing: Outgoing::new(),
            failed_peers: Vec::new(),
            shared_waits: 0,
            wakes: Vec::new(),
            left: None,
            quick_calls: 0,
            has_stores: AtomicBool::new(false),
            congested: None,
            recent_op: RecentOp::NONE,
        }
    }

    /// Adds a window; returns its slot. From now on other ranks may access it.
    pub fn open(&mut self, window: Window) -> u32 {
        self.windows.insert(window)
    }

    /// Checks that no epoch of the window is open, before MPI_Win_free synchronises.
    pub fn check_free(&self, window: u64) -> Result<()> {
        self.window(window)?.epochs.check_free()
    }

    /// Removes a window that no rank accesses any more.
    pub fn close<T: HybridGet>(&mut self, endpoint: &mut T, window: u64) {
        if let Some(state) = self.windows.get_mut(&window) {
            for (peer, export) in state.exports.drain() {
                export.release(endpoint, peer);
            }
        }
        self.windows.remove(window);
    }

    /// Returns a window.
    pub fn window(&self, id: u64) -> Result<&Window> {
        self.windows.get(&id).ok_or_else(no_window)
    }

    /// Returns a window, to change it.
    pub fn window_mut(&mut self, id: u64) -> Result<&mut Window> {
        self.windows.get_mut(&id).ok_or_else(no_window)
    }

    /// Returns whether a call that ends at once has left peers to be woken.
    pub fn has_left_waiters(&self) -> bool {
        self.left.is_some()
    }

    /// Takes the peers whose sleep must end: a lock in shared memory may be theirs, or a step for
    /// them is there.
    #[inline]
    pub fn take_wakes(&mut self) -> impl Iterator<Item = Peer> + '_ {
        if let Some(window) = self.left.take() {
            self.wake_all(window);
        }
        self.wakes.drain(..)
    }

    /// Returns true when the operation has ended and [`Engine::finish`] has its outcome.
    pub fn is_complete(&mut self, id: RequestId) -> bool {
        self.operations.is_done(id)
    }

    /// Takes the outcome of an operation that has ended; `None` while it has not.
    pub fn finish(&mut self, id: RequestId) -> Option<Result<()>> {
        self.operations.finish(id)
    }

    /// Gives up the request of an operation, which goes on (MPI_Request_free).
    pub fn detach(&mut self, id: RequestId) {
        self.operations.detach(id);
    }

    /// Returns MPI_ERR_PROC_ABORTED if the process of a rank has failed.
    pub(crate) fn check_alive(&self, peer: Peer) -> Result<()> {
        match self.failed_peers.iter().find(|failed| failed.peer == peer) {
            Some(failed) => Err(Error::new(Class::ProcAborted, failed.to_string())),
            None => Ok(()),
        }
    }

    /// Takes the peer for whose frames the last call has found no space; a poll may return some.
    #[inline]
    pub fn take_congested(&mut self) -> Option<Peer> {
        self.congested.take()
    }

    /// Returns true while so much waits for space at a peer that no more should be started.
    pub fn is_full(&self, peer: Peer) -> bool {
        self.outgoing.len(peer) > MAX_QUEUED
    }

    /// Posts what is queued, as far as there is space. Returns true if anything was posted.
    pub fn settle<T: HybridGet>(&mut self, endpoint: &mut T) -> bool {
        let mut moved = false;
        for _ in 0..self.outgoing.ready() {
            let Some(peer) = self.outgoing.take_ready() else { break };
            match self.serve(endpoint, peer) {
                Ok(posted) => {
                    moved |= posted;
                    self.outgoing.put_back(peer);
                }
                Err(failed) => {
                    self.mark_failed(failed);
                    moved = true;
                }
            }
        }
        moved
    }

    /// Posts the items of a peer until there is no space for the next.
    fn serve<T: HybridGet>(&mut self, endpoint: &mut T, peer: Peer) -> Posted<bool> {
        let mut moved = false;
        self.outgoing.queue(peer).blocked = false;
        while let Some(item) = self.outgoing.queue(peer).items.front() {
            let is_posted = match item {
                // A peer has requested more than its frames hold.
                Item::Frame(_, body) if body.len() > endpoint.caps(peer).frame => true,
                Item::Frame(header, body) => {
                    let posted = endpoint.post(peer, header, body.len(), |slot| {
                        slot.copy_from_slice(body);
                    })?;
                    posted == fabric::Post::Sent
                }
                &Item::Operation(id) => self.post_operation(endpoint, peer, id, &mut moved)?,
                &Item::Description(window) => self.post_description(endpoint, peer, window)?,
            };
            if !is_posted {
                self.outgoing.queue(peer).blocked = true;
                return Ok(moved);
            }
            moved = true;
            self.outgoing.queue(peer).items.pop_front();
        }
        Ok(moved)
    }

    /// Ends all that waits for a peer.
    #[cold]
    pub(crate) fn mark_failed(&mut self, failed: PeerFailed) {
        let peer = failed.peer;
        if self.failed_peers.iter().any(|other| other.peer == peer) {
            return;
        }
        self.outgoing.forget(peer);
        let error = Error::new(Class::ProcAborted, failed.to_string());
        self.failed_peers.push(failed);
        let windows = &self.windows;
        let is_its = |window: u64, target: u32| {
            windows.get(&window).is_some_and(|window| window.peers.peer_of(target) == Some(peer))
        };
        let its = self.operations.select(|operation| is_its(operation.window, operation.target));
        for window in self.windows.values_mut() {
            if let Some(rank) = window.peers.rank_of(peer) {
                window.locks.remove(rank);
                if let Some(target) = window.targets.get_mut(&rank) {
                    target.lost = target.is_used().then(|| error.clone());
                    (target.unacked, target.is_dirty, target.atomics) = (0, false, 0);
                    target.unconfirmed = None;
                }
            }
        }
        its.into_iter().for_each(|id| self.end(id, Some(error.clone())));
        let ids: Vec<u64> = self.windows.values().map(|window| window.id).collect();
        ids.into_iter().for_each(|id| self.grant_locks(id));
    }

    /// Ends an operation.
    pub(crate) fn end(&mut self, id: RequestId, error: Option<Error>) {
        let Some(operation) = self.operations.find(id) else { return };
        // An operation without a request is reported by the next synchronisation.
        let lost = error.clone().filter(|_| !operation.is_wanted);
        let is_answered = operation.is_answered;
        let Some((window, target)) = self.operations.end(id, error) else { return };
        if let Some(window) = self.windows.get_mut(&window) {
            let target = window.target(target);
            target.active = target.active.saturating_sub(1);
            target.answered = target.answered.saturating_sub(is_answered.into());
            target.lost = target.lost.take().or(lost);
        }
    }
}

impl Default for Engine {
    fn default() -> Engine {
        Engine::new()
    }
}

impl Sink for Engine {
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        let Ok(body) = body.wait_all() else { return };
        match header.kind {
            Kind::RmaPut => self.put_arrived(from, header, body),
            Kind::RmaGet => self.get_arrived(from, header, body),
            Kind::RmaAccumulate => self.accumulate_arrived(from, header, body),
            Kind::RmaFetch => self.fetch_arrived(from, header, body),
            Kind::RmaSwap => self.swap_arrived(from, header, body),
            Kind::RmaReply => self.reply_arrived(from, header, body),
            Kind::RmaSync => self.step_arrived(from, header, body),
            // A kind of another protocol.
            _ => {}
        }
    }

    fn transferred(&mut self, token: u64, outcome: Posted<()>) {
        if let Some(token) = Token::from_bits(token) {
            self.transfer_ended(token.request, outcome);
        }
    }

    fn peer_failed(&mut self, failed: PeerFailed) {
        self.mark_failed(failed);
    }
}

impl Protocol for Engine {
    #[inline]
    fn has_work(&self) -> bool {
        !self.outgoing.is_empty()
    }

    fn can_work(&mut self) -> bool {
        self.outgoing.can_post()
    }

    #[inline]
    fn take_poll_request(&mut self) -> bool {
        self.congested.take().is_some()
    }

    fn work<T: HybridGet>(&mut self, endpoint: &mut T) -> bool {
        self.settle(endpoint)
    }

    fn is_drained(&self) -> bool {
        self.outgoing.is_empty()
    }
}

fn no_window() -> Error {
    Error::internal("a window without its state")
}
