//! The blocked-on record: what this process waits for, for the launcher's reports.
//!
//! A call that finds its result missing stores a [`WaitTarget`], a number or two. After a sleep of
//! [`REPORT_AFTER`] a look begins: the target is forgotten, the calls that wait look for their
//! results again, and what they miss is translated for the status page. So a record says what is
//! missing since the look began, whatever calls that only test have stored before. The next look
//! begins after the next sleep. The record stays on the page until progress moves something. If
//! several threads wait, it describes one of the waits.
//!
//! `mpiexec` takes cycles of these records for deadlocks. Therefore a record has all that it needs
//! for a proof (`launcher/src/wait_graph.rs`): the time of the look, and what may happen meanwhile.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bootstrap::{BlockedKind, BlockedOn, CommName, Meanwhile, status_page::monotonic_nanos};
use collectives::CollectiveId;
use fabric::Peer;
use progress::REPORT_AFTER;
use pt2pt::RequestId;

use crate::context_id;
use crate::lock::LOCK;
use crate::partition_requests;
use crate::process::{Core, Process};
use crate::request::State;
use crate::request_handle::Decoded;
use crate::stack::Stack;
use crate::status_page;
use crate::wait_target::WaitTarget;

/// Since when progress has moved nothing, by [`monotonic_nanos`]; 0 while no wait lasts.
static IDLE_SINCE: AtomicU64 = AtomicU64::new(0);
/// When the look began that was not reported yet; 0: all were.
static LOOK_BEGAN: AtomicU64 = AtomicU64::new(0);

/// When this process asked last in this wait, by [`monotonic_nanos`]; 0: not yet.
static LAST_INQUIRY: AtomicU64 = AtomicU64::new(0);
/// Time from one inquiry to the next.
const INQUIRY_INTERVAL: Duration = Duration::from_millis(500);

/// Clears the report after progress was made.
#[inline]
pub(crate) fn has_moved() {
    if IDLE_SINCE.load(Relaxed) != 0 {
        clear_report();
    }
}

#[cold]
fn clear_report() {
    IDLE_SINCE.store(0, Relaxed);
    // The next wait is another one, and asks at once.
    LAST_INQUIRY.store(0, Relaxed);
    status_page::entry().clear_blocked();
}

/// Returns true while a wait lasts.
pub(crate) fn is_long() -> bool {
    IDLE_SINCE.load(Relaxed) != 0
}

/// Begins a look: what the process waits for is what its calls miss from now on.
#[cold]
pub(crate) fn begin_look(p: &mut Process) {
    if p.core.is_none() {
        return;
    }
    let now = monotonic_nanos();
    if !is_long() {
        IDLE_SINCE.store(now - REPORT_AFTER.as_nanos() as u64, Relaxed);
    }
    LOOK_BEGAN.store(now, Relaxed);
    p.wait_target = WaitTarget::Nothing;
}

/// Writes what the process waits for to its status page, if it has looked again, and asks the
/// members that collectives wait for. Returns the time until it may ask again, or a long one.
#[cold]
pub(crate) fn report(p: &mut Process) -> Duration {
    let looked = LOOK_BEGAN.swap(0, Relaxed);
    if looked != 0 {
        let since = IDLE_SINCE.load(Relaxed);
        status_page::entry().set_blocked(&BlockedOn { since, looked, ..p.blocked_on() });
        if let Some(core) = &mut p.core {
            core.watch_for_stalls(Duration::from_nanos(looked.saturating_sub(since)));
        }
    }
    p.core().map_or(Duration::MAX, inquire)
}

/// Runs a call of the system that waits for a process of which only its socket is known.
pub(crate) fn on_connection<R>(wait: impl FnOnce() -> R) -> R {
    let (kind, since) = (BlockedKind::Connection, monotonic_nanos());
    status_page::entry().set_blocked(&BlockedOn { kind, since, ..BlockedOn::default() });
    let done = wait();
    status_page::entry().clear_blocked();
    done
}

/// Asks the members that collectives wait for, at most once in [`INQUIRY_INTERVAL`]: an inquiry
/// wakes a member that sleeps, which asks others in turn. Returns the time that this one must still
/// wait if it was too early, otherwise a long one.
#[cold]
pub(crate) fn inquire(core: &mut Core) -> Duration {
    if core.collectives.is_empty() {
        return Duration::MAX;
    }
    let now = monotonic_nanos();
    let since = Duration::from_nanos(now.saturating_sub(LAST_INQUIRY.load(Relaxed)));
    if let Some(rest) = INQUIRY_INTERVAL.checked_sub(since).filter(|rest| !rest.is_zero()) {
        return rest;
    }
    LAST_INQUIRY.store(now, Relaxed);
    let Stack { protocols, endpoint } = &mut core.stack;
    core.collectives.inquire(&mut protocols.pt2pt, endpoint);
    Duration::MAX
}

impl Process {
    /// Returns what the calls have missed in the last look.
    #[cold]
    fn blocked_on(&mut self) -> BlockedOn {
        let target = std::mem::take(&mut self.wait_target);
        let waiting = match target {
            WaitTarget::Nothing => None,
            WaitTarget::Message(id) => self.blocked_on_message(id),
            WaitTarget::Collective(id) => self.blocked_on_collective(id),
            WaitTarget::Request(handle) | WaitTarget::OneOf(handle) => {
                self.blocked_on_request(handle)
            }
            WaitTarget::Window(id, what) => self.blocked_on_window(id, what),
            WaitTarget::Probe { source, tag, comm } => self.blocked_on_probe(source, tag, comm),
        };
        let meanwhile = Meanwhile {
            other_events: matches!(target, WaitTarget::OneOf(_)),
            other_work: self.has_other_work(target),
            other_threads: LOCK.is_multithreaded(),
        };
        BlockedOn { meanwhile, ..waiting.unwrap_or_default() }
    }

    /// Returns true if progress carries on what other ranks may wait for, beside the target.
    fn has_other_work(&mut self, target: WaitTarget) -> bool {
        let awaited = match target {
            WaitTarget::Collective(id) => Some(id),
            WaitTarget::Request(handle) | WaitTarget::OneOf(handle) => {
                match self.request(handle).map(|request| &request.state) {
                    Ok(&State::Collective(id)) => Some(id),
                    _ => None,
                }
            }
            _ => None,
        };
        self.core.as_deref().is_some_and(|core| {
            core.collectives.has_others(awaited) || core.stack.protocols.pt2pt.is_receiving()
        }) || !self.tables.files.tasks.is_empty()
    }

    fn blocked_on_request(&mut self, handle: usize) -> Option<BlockedOn> {
        if let Decoded::Message(id) = self.decode(handle) {
            return self.blocked_on_message(id);
        }
        let request = self.request(handle).ok()?;
        match &request.state {
            State::Partitioned => {
                let comm = request.comm;
                let (remote, is_send) =
                    partition_requests::blocked_on(request.persistent.as_deref()?)?;
                let kind =
                    if is_send { BlockedKind::MatchingReceive } else { BlockedKind::Message };
                let context = self.comm(comm).ok()?.context();
                let peer = self.with_peer(context, Some(remote.peer), Some(remote.rank as u32));
                Some(BlockedOn { kind, tag: Some(remote.tag), ..peer })
            }
            &State::Message(id) => self.blocked_on_message(id),
            &State::Collective(id) => self.blocked_on_collective(id),
            State::Exchange(exchange) => {
                let halves = [exchange.receive, exchange.send];
                halves.into_iter().flatten().find_map(|id| self.blocked_on_message(id))
            }
            _ => None,
        }
    }

    fn blocked_on_message(&self, id: RequestId) -> Option<BlockedOn> {
        let message = self.core.as_deref()?.stack.protocols.pt2pt.blocked_on(id)?;
        if context_id::is_control(message.context) {
            // The sources of control messages are process numbers.
            let other = message.peer.or_else(|| message.source.map(Peer));
            let world_rank = other.and_then(|peer| self.world_rank(peer));
            let (kind, peer) = (BlockedKind::Connection, other.map(|peer| peer.0 as i32));
            return Some(BlockedOn { kind, peer, world_rank, ..BlockedOn::default() });
        }
        let source = message.source.filter(|_| !message.is_send);
        let kind = match message.peer {
            _ if message.is_send => BlockedKind::MatchingReceive,
            Some(_) => BlockedKind::RestOfMessage,
            None => BlockedKind::Message,
        };
        Some(BlockedOn {
            kind,
            tag: message.tag,
            ..self.with_peer(message.context / 2, message.peer, source)
        })
    }

    fn blocked_on_collective(&self, id: CollectiveId) -> Option<BlockedOn> {
        let core = self.core.as_deref()?;
        let waits = core.collectives.blocked_on(id, &core.stack.protocols.pt2pt)?;
        let kind = BlockedKind::Collective(waits.kind as u8);
        Some(BlockedOn {
            kind,
            tag: Some(waits.sequence),
            ..self.with_peer(waits.context / 2, waits.member, None)
        })
    }

    fn blocked_on_window(&self, id: u64, what: rma::WaitsFor) -> Option<BlockedOn> {
        let rma = &self.core.as_deref()?.stack.protocols.rma;
        let (rank, holder) = rma.blocked_on(id, what)?;
        let (kind, peer) = match what {
            rma::WaitsFor::Lock => (BlockedKind::Lock, holder),
            rma::WaitsFor::Operations => (BlockedKind::OneSided, Some(rank)),
            rma::WaitsFor::Exposure => (BlockedKind::Exposure, Some(rank)),
            rma::WaitsFor::AccessEnd => (BlockedKind::AccessEnd, Some(rank)),
        };
        let peers = rma.window(id).ok()?.peers();
        let tag = peers.peer_of(rank).filter(|_| kind == BlockedKind::Lock);
        let tag = tag.and_then(|peer| self.world_rank(peer));
        let world = peer.and_then(|rank| peers.peer_of(rank));
        Some(BlockedOn { kind, tag, ..self.with_peer(id, world, peer) })
    }

    fn blocked_on_probe(&self, source: i32, tag: i32, comm: usize) -> Option<BlockedOn> {
        let context = self.comm(comm).ok()?.context();
        let source = u32::try_from(source).ok();
        let tag = Some(tag).filter(|tag| *tag >= 0);
        Some(BlockedOn { kind: BlockedKind::Message, tag, ..self.with_peer(context, None, source) })
    }

    /// Returns the rank of a process in MPI_COMM_WORLD; `None` if it is of another job, of which
    /// the launcher's reports say nothing.
    fn world_rank(&self, peer: Peer) -> Option<i32> {
        let world = self.core.as_deref()?.job.world();
        world.contains(&peer.0).then(|| (peer.0 - world.start) as i32)
    }

    /// Returns a record with the peer, completed from what is known of it, and the communicator.
    fn with_peer(&self, context: u64, peer: Option<Peer>, rank: Option<u32>) -> BlockedOn {
        let comm = self.comm(self.comm_with(context)).ok().filter(|comm| comm.context() == context);
        let others = comm.map(|comm| comm.peers());
        let peer = peer.or_else(|| others?.peer_of(rank?));
        let rank = rank.or_else(|| others?.rank_of(peer?));
        BlockedOn {
            peer: rank.map(|rank| rank as i32),
            world_rank: peer.and_then(|peer| self.world_rank(peer)),
            context,
            comm_size: others.map_or(0, |others| others.size()),
            comm_name: comm.map_or_else(CommName::default, |comm| {
                CommName::new(&comm.name().to_string_lossy())
            }),
            ..BlockedOn::default()
        }
    }
}
