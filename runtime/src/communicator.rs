//! New communicators: agreement on a context id, then a `Comm`.
//!
//! Context ids are never reused. Each process proposes a number that it never
//! proposes again, with its own rank below it, so that no two proposals of the
//! job are equal; the members take the largest (an allreduce over the parent).
//! Two agreements that run at once in different threads therefore never meet
//! the same id, and there is no limit on how many communicators a job makes.

use objects::{Comm, Group, Result};

use crate::collective::{self, Internal};
use crate::gate::with;
use crate::process::{Core, Process};
use crate::request::{Request, State};

/// Bits of a context id that hold the proposer's rank.
const RANK_BITS: u32 = 24;

impl Core {
    /// A number that no process of the job proposes again.
    fn propose(&mut self) -> u64 {
        self.proposals += 1;
        self.proposals << RANK_BITS | u64::from(self.job.rank)
    }

    /// Takes note of what others have proposed.
    fn agreed(&mut self, context: u64) {
        self.proposals = self.proposals.max(context >> RANK_BITS);
    }
}

/// What is left to do when a nonblocking creation has agreed on its context.
pub struct NewComm {
    /// The parent's copy, complete but for its context.
    comm: Comm,
    /// The handle that the user already has.
    handle: u64,
    agreement: Internal,
}

impl NewComm {
    /// Gives the communicator its context; from now on it can be used.
    pub(crate) fn install(self, p: &mut Process) {
        let context = self.agreement.word();
        let NewComm { mut comm, handle, .. } = self;
        comm.set_context(context);
        if let Some(core) = &mut p.core {
            core.agreed(context);
        }
        if let Ok(slot) = p.comms.get_mut(handle) {
            *slot = comm;
        }
    }
}

/// The largest proposal of the parent's members. Collective over `parent`.
fn agree(parent: usize) -> Result<u64> {
    let agreement = with(|p| {
        let mine = p.core()?.propose();
        Internal::max(p, parent, mine)
    })?;
    let context = agreement.wait(parent)?;
    with(|p| p.core().map(|core| core.agreed(context)))?;
    Ok(context)
}

/// MPI_Comm_dup without its attributes: same members, new context. Collective.
pub fn duplicate(parent: usize) -> Result<Comm> {
    let context = agree(parent)?;
    with(|p| Ok(p.comm(parent)?.duplicate(context)))
}

/// MPI_Comm_idup: the handles of the communicator and of the request.
pub fn iduplicate(parent: usize) -> Result<(usize, usize)> {
    with(|p| {
        let mine = p.core()?.propose();
        let comm = p.comm(parent)?.duplicate(u64::MAX >> 1);
        let agreement = Internal::max(p, parent, mine)?;
        let handle = p.comms.insert(comm.clone());
        let request = Request {
            comm: parent,
            state: State::Collective(agreement.id()),
            persistent: None,
            then: Some(Box::new(NewComm { comm, handle, agreement })),
        };
        Ok((handle as usize, p.requests.insert(request) as usize))
    })
}

/// MPI_Comm_create: `None` for processes that are not in `group`. Collective
/// over `parent`.
pub fn create(parent: usize, group: &Group) -> Result<Option<Comm>> {
    let context = agree(parent)?;
    with(|p| {
        let me = fabric::Peer(p.core()?.job.rank);
        let parent = p.comm(parent)?;
        Ok(group.rank_of(me).map(|rank| parent.derive(context, rank, group.clone())))
    })
}

/// What each process tells the others in a split.
#[derive(Clone, Copy)]
struct Vote {
    color: i64,
    key: i64,
    proposal: u64,
}

impl Vote {
    const SIZE: usize = 24;

    fn encode(self) -> [u8; Vote::SIZE] {
        let mut out = [0; Vote::SIZE];
        out[..8].copy_from_slice(&self.color.to_ne_bytes());
        out[8..16].copy_from_slice(&self.key.to_ne_bytes());
        out[16..].copy_from_slice(&self.proposal.to_ne_bytes());
        out
    }

    fn decode(bytes: &[u8]) -> Vote {
        let word = |at: usize| std::array::from_fn(|i| bytes[at + i]);
        Vote {
            color: i64::from_ne_bytes(word(0)),
            key: i64::from_ne_bytes(word(8)),
            proposal: u64::from_ne_bytes(word(16)),
        }
    }
}

/// MPI_Comm_split (MPI-5.0 §7.4.2): one communicator for each colour, ranks by
/// key and then by rank in the parent; `None` for colour `None` (MPI_UNDEFINED).
/// All share one context id, since their groups are disjoint. Collective.
pub fn split(parent: usize, color: Option<u32>, key: i32) -> Result<Option<Comm>> {
    let mine = with(|p| p.core().map(Core::propose))?;
    let vote = Vote { color: color.map_or(-1, i64::from), key: key.into(), proposal: mine };
    let votes: Vec<Vote> =
        collective::exchange(parent, &vote.encode())?.chunks_exact(Vote::SIZE).map(Vote::decode).collect();
    let context = votes.iter().map(|vote| vote.proposal).max().unwrap_or(mine);
    with(|p| {
        p.core()?.agreed(context);
        let Some(color) = color else { return Ok(None) };
        let comm = p.comm(parent)?;
        let mut ranks: Vec<u32> =
            (0..votes.len() as u32).filter(|&rank| votes[rank as usize].color == i64::from(color)).collect();
        ranks.sort_by_key(|&rank| (votes[rank as usize].key, rank));
        let rank = ranks.iter().position(|&rank| rank == comm.rank()).unwrap_or_default() as u32;
        let group = comm.group().incl(&ranks)?;
        Ok(Some(comm.derive(context, rank, group)))
    })
}
