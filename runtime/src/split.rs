//! Splitting communicators (MPI-5.0 §7.4.2): everyone says a colour and a key,
//! and each finds by itself whom it is with.
//!
//! MPI_Comm_split_type is a split whose colours are made here: the host, a part
//! of the machine, a process set. Where no kind of part is asked for
//! (unguided), everyone says what it is bound to, and all find the largest kind
//! that divides them.

use objects::{Comm, Group, Result};

use crate::collective;
use crate::hardware::{self, Resource};
use crate::lock::with;
use crate::process::{Core, Process};

/// What each process tells the others in a split.
#[derive(Clone, Copy, Debug)]
struct Vote {
    color: i64,
    key: i64,
    proposal: u64,
}

/// The colour of those who stay outside.
const OUTSIDE: i64 = -1;
/// The colour of those who leave it to the machine, until it is chosen.
const UNGUIDED: i64 = -2;

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
        Vote { color: word(bytes, 0), key: word(bytes, 1), proposal: word(bytes, 2) as u64 }
    }
}

/// The word number `index`.
fn word(bytes: &[u8], index: usize) -> i64 {
    i64::from_ne_bytes(std::array::from_fn(|i| bytes[index * 8 + i]))
}

/// MPI_Comm_split: one communicator for each colour, ranks by key and then by
/// rank in the parent; `None` for colour `None` (MPI_UNDEFINED), and on an
/// intercommunicator where no member of the remote group has the colour. Each takes the
/// largest proposal of its members for its context id. Collective.
pub fn split(parent: usize, color: Option<u32>, key: i32) -> Result<Option<Comm>> {
    let proposal = with(|p| {
        let is_inter = p.comm(parent)?.is_inter();
        Ok(p.core()?.propose(color.is_some() && !is_inter))
    })?;
    let vote = Vote { color: color.map_or(OUTSIDE, i64::from), key: key.into(), proposal };
    let read =
        |all: Vec<u8>| -> Vec<Vote> { all.chunks_exact(Vote::SIZE).map(Vote::decode).collect() };
    let (ours, theirs) = hear(parent, &vote.encode())?;
    with(|p| assemble(p, parent, vote, &read(ours), theirs.map(read)))
}

/// The wishes of the local group's members, and of the remote group's.
fn hear(parent: usize, mine: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let is_inter = with(|p| p.comm(parent).map(Comm::is_inter))?;
    let ours = collective::exchange(parent, mine)?;
    let theirs = if is_inter { Some(collective::exchange_between(parent, mine)?) } else { None };
    Ok((ours, theirs))
}

/// The communicator of those who voted for the same colour as this process.
fn assemble(
    p: &mut Process,
    parent: usize,
    mine: Vote,
    ours: &[Vote],
    theirs: Option<Vec<Vote>>,
) -> Result<Option<Comm>> {
    let color = mine.color;
    let with_us = ours.iter().chain(theirs.iter().flatten()).filter(|vote| vote.color == color);
    let context = with_us.map(|vote| vote.proposal).max().unwrap_or_default();
    p.core()?.end_proposal(mine.proposal, context);
    if color < 0 {
        p.core()?.coll_segments.unreserve(mine.proposal);
        return Ok(None);
    }
    let comm = p.comm(parent)?;
    let group = with_color(comm.group(), color, ours)?;
    let me = comm.group().peer_of(comm.rank());
    let rank = me.and_then(|me| group.rank_of(me)).unwrap_or_default();
    let Some(theirs) = theirs else {
        let comm = comm.derive(context, rank, group);
        return p.core()?.with_segment(comm).map(Some);
    };
    let remote = with_color(comm.peers(), color, &theirs)?;
    Ok((!remote.is_empty()).then(|| comm.derive_inter(context, rank, group, remote)))
}

/// Those of `group` who voted `color`, by key and then by rank.
fn with_color(group: &Group, color: i64, votes: &[Vote]) -> Result<Group> {
    let mut ranks: Vec<u32> =
        (0..votes.len() as u32).filter(|&rank| votes[rank as usize].color == color).collect();
    ranks.sort_by_key(|&rank| (votes[rank as usize].key, rank));
    group.incl(&ranks)
}

/// What MPI_Comm_split_type is to split by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Nothing: this process stays outside.
    Outside,
    /// An instance of this kind; those not restricted to one stay outside.
    Resource(Resource),
    /// The largest kind of part that divides the communicator.
    Unguided,
    /// All of the job's processes together.
    World,
    /// Each process by itself.
    Alone,
}

/// Bits of a colour that hold a processor's number, and the host below which.
const CPU_BITS: u32 = 16;
const HOST_BITS: u32 = 32;

impl Core {
    /// The colour of this process's instance of a resource.
    pub(crate) fn color_of(&self, resource: Resource, instance: u32) -> i64 {
        let kind = resource as i64 + 1;
        kind << (HOST_BITS + CPU_BITS)
            | i64::from(self.first_of_host()) << CPU_BITS
            | i64::from(instance)
    }
}

/// What a process says in MPI_Comm_split_type: its vote, and the colour that it
/// would have for each kind of resource.
struct Ballot {
    vote: Vote,
    colors: [i64; 6],
}

impl Ballot {
    const SIZE: usize = Vote::SIZE + 48;

    fn new(core: &mut Core, wish: Wish, key: i32, is_inter: bool) -> Ballot {
        let instances = hardware::instances();
        let colors = Resource::ALL.map(|resource| {
            instances[resource as usize]
                .map_or(OUTSIDE, |instance| core.color_of(resource, instance))
        });
        let color = match wish {
            Wish::Outside => OUTSIDE,
            Wish::Unguided => UNGUIDED,
            Wish::Resource(resource) => colors[resource as usize],
            Wish::World => 0,
            Wish::Alone => i64::from(core.job.rank) + 1,
        };
        let may_use_segment = !is_inter && !matches!(wish, Wish::Outside | Wish::Alone);
        Ballot {
            vote: Vote { color, key: key.into(), proposal: core.propose(may_use_segment) },
            colors,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let colors = self.colors.iter().flat_map(|color| color.to_ne_bytes());
        self.vote.encode().into_iter().chain(colors).collect()
    }

    fn decode(bytes: &[u8]) -> Ballot {
        Ballot {
            vote: Vote::decode(bytes),
            colors: std::array::from_fn(|kind| word(bytes, 3 + kind)),
        }
    }
}

/// MPI_Comm_split_type, and the kind of resource that an unguided split chose.
/// Collective.
pub fn split_type(parent: usize, wish: Wish, key: i32) -> Result<Option<(Comm, Option<Resource>)>> {
    let mine = with(|p| {
        let is_inter = p.comm(parent)?.is_inter();
        Ok(Ballot::new(p.core()?, wish, key, is_inter))
    })?;
    let (ours, theirs) = hear(parent, &mine.encode())?;
    let read = |all: Vec<u8>| -> Vec<Ballot> {
        all.chunks_exact(Ballot::SIZE).map(Ballot::decode).collect()
    };
    let (ours, theirs) = (read(ours), theirs.map(read));
    let chosen = dividing(|| ours.iter().chain(theirs.iter().flatten()));
    let votes = |ballots: &[Ballot]| {
        ballots.iter().map(|ballot| ballot.settled(chosen)).collect::<Vec<Vote>>()
    };
    let made = with(|p| {
        assemble(p, parent, mine.settled(chosen), &votes(&ours), theirs.as_deref().map(votes))
    })?;
    Ok(made.map(|comm| (comm, chosen.filter(|_| wish == Wish::Unguided))))
}

impl Ballot {
    /// The vote once the kind of resource is known.
    fn settled(&self, chosen: Option<Resource>) -> Vote {
        match self.vote.color {
            UNGUIDED => Vote {
                color: chosen.map_or(OUTSIDE, |kind| self.colors[kind as usize]),
                ..self.vote
            },
            _ => self.vote,
        }
    }
}

/// The largest kind of resource by which the unguided are not all together.
fn dividing<'a, I: Iterator<Item = &'a Ballot>>(ballots: impl Fn() -> I) -> Option<Resource> {
    let unguided = || ballots().filter(|ballot| ballot.vote.color == UNGUIDED);
    Resource::ALL.into_iter().find(|&kind| {
        let color = |ballot: &Ballot| ballot.colors[kind as usize];
        let Some(first) = unguided().map(color).find(|&color| color != OUTSIDE) else {
            return false;
        };
        unguided().any(|ballot| color(ballot) != first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unguided(package: i64, core: i64) -> Ballot {
        let vote = Vote { color: UNGUIDED, key: 0, proposal: 0 };
        Ballot { vote, colors: [1, package, OUTSIDE, OUTSIDE, core, OUTSIDE] }
    }

    #[test]
    fn the_largest_kind_that_divides_is_chosen() {
        let chosen = |ballots: &[Ballot]| dividing(|| ballots.iter());
        assert_eq!(chosen(&[unguided(10, 20), unguided(10, 21)]), Some(Resource::Core));
        assert_eq!(chosen(&[unguided(10, 20), unguided(11, 21)]), Some(Resource::Package));
        assert_eq!(chosen(&[unguided(10, 20), unguided(10, OUTSIDE)]), Some(Resource::Core));
        assert_eq!(chosen(&[unguided(10, 20), unguided(10, 20)]), None);
        assert_eq!(chosen(&[unguided(10, 20)]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_ballot_survives_the_wire() {
        let ballot = Ballot {
            vote: Vote { color: 3, key: -7, proposal: u64::MAX },
            colors: [1, 2, 3, 4, 5, OUTSIDE],
        };
        let back = Ballot::decode(&ballot.encode());
        assert_eq!((back.vote.color, back.vote.key, back.vote.proposal), (3, -7, u64::MAX));
        assert_eq!((back.colors, ballot.encode().len()), (ballot.colors, Ballot::SIZE));
    }
}
