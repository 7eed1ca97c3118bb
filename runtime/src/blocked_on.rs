//! The blocked-on record: what this process waits for, for the launcher's reports.
//!
//! A call that finds its result missing stores a [`WaitTarget`], a number or two. Only after a
//! sleep of [`SHORT`] is that translated for the status page, where it stays until something moves.
//! With several threads it describes one of the waits.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bootstrap::{BlockedKind, BlockedOn, status_page::monotonic_nanos};
use collectives::CollectiveId;
use fabric::Peer;
use pt2pt::RequestId;

use crate::process::Process;
use crate::request::State;
use crate::request_handle::Decoded;
use crate::status_page;
use crate::wait_target::WaitTarget;

/// A wait up to this long is not reported; the process lock's sleepers wait as long before a
/// report.
const SHORT: Duration = Duration::from_millis(100);
/// Since when progress has moved nothing, by [`monotonic_nanos`]; 0 while no wait since then was
/// long.
static IDLE_SINCE: AtomicU64 = AtomicU64::new(0);

/// Clears the report after progress was made.
#[inline]
pub(crate) fn has_moved() {
    if IDLE_SINCE.load(Relaxed) != 0 {
        wait_is_over();
    }
}

#[cold]
fn wait_is_over() {
    IDLE_SINCE.store(0, Relaxed);
    status_page::entry().clear_blocked();
}

/// Returns true while the report of [`report`] stands.
pub(crate) fn is_reported() -> bool {
    IDLE_SINCE.load(Relaxed) != 0
}

/// Writes what the process waits for to its status page.
#[cold]
pub(crate) fn report(p: &mut Process) {
    if let Some(blocked) = p.awaited() {
        status_page::entry().set_blocked(&blocked);
    }
}

impl Process {
    /// Returns what the thread that is about to sleep waits for. `None`: MPI does not run.
    #[cold]
    fn awaited(&mut self) -> Option<BlockedOn> {
        let waiting = match std::mem::take(&mut self.wait_target) {
            WaitTarget::Nothing => Some(BlockedOn::default()),
            WaitTarget::Message(id) => self.message(id),
            WaitTarget::Collective(id) => self.collective(id),
            WaitTarget::Request(handle) => self.request_awaited(handle),
            WaitTarget::Probe { source, tag, comm } => self.probe(source, tag, comm),
        };
        self.core.as_ref()?;
        let since = match IDLE_SINCE.load(Relaxed) {
            0 => monotonic_nanos() - SHORT.as_nanos() as u64,
            since => since,
        };
        IDLE_SINCE.store(since, Relaxed);
        Some(BlockedOn { since, ..waiting.unwrap_or_default() })
    }

    fn request_awaited(&mut self, handle: usize) -> Option<BlockedOn> {
        if let Decoded::Message(id) = Decoded::decode(handle) {
            return self.message(id);
        }
        match &self.request(handle).ok()?.state {
            &State::Message(id) => self.message(id),
            &State::Collective(id) => self.collective(id),
            State::Exchange(exchange) => {
                let halves = [exchange.receive, exchange.send];
                halves.into_iter().flatten().find_map(|id| self.message(id))
            }
            _ => None,
        }
    }

    fn message(&self, id: RequestId) -> Option<BlockedOn> {
        let message = self.core.as_deref()?.stack.protocols.pt2pt.blocked_on(id)?;
        let source = message.source.filter(|_| !message.is_send);
        let kind = match message.peer {
            _ if message.is_send => BlockedKind::MatchingReceive,
            Some(_) => BlockedKind::RestOfMessage,
            None => BlockedKind::Message,
        };
        Some(BlockedOn {
            kind,
            tag: message.tag,
            ..self.on(message.context / 2, message.peer, source)
        })
    }

    fn collective(&self, id: CollectiveId) -> Option<BlockedOn> {
        let core = self.core.as_deref()?;
        let waits = core.collectives.blocked_on(id, &core.stack.protocols.pt2pt)?;
        let kind = BlockedKind::Collective(waits.kind as u8);
        Some(BlockedOn {
            kind,
            tag: Some(waits.sequence),
            ..self.on(waits.context / 2, waits.member, None)
        })
    }

    fn probe(&self, source: i32, tag: i32, comm: usize) -> Option<BlockedOn> {
        let context = self.comm(comm).ok()?.context();
        let source = u32::try_from(source).ok();
        let tag = Some(tag).filter(|tag| *tag >= 0);
        Some(BlockedOn { kind: BlockedKind::Message, tag, ..self.on(context, None, source) })
    }

    /// The other side, by what is known of it, and the communicator.
    fn on(&self, context: u64, peer: Option<Peer>, rank: Option<u32>) -> BlockedOn {
        let comm = self.comm(self.comm_with(context)).ok().filter(|comm| comm.context() == context);
        let others = comm.map(|comm| comm.peers());
        let peer = peer.or_else(|| others?.peer_of(rank?));
        let rank = rank.or_else(|| others?.rank_of(peer?));
        BlockedOn {
            peer: rank.map(|rank| rank as i32),
            world_rank: peer.map(|peer| peer.0 as i32),
            context,
            comm_size: others.map_or(0, |others| others.size()),
            ..BlockedOn::default()
        }
    }
}
