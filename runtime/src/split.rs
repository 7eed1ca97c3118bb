//! Splitting communicators (MPI-5.0 §7.4.2): all members exchange their colours and keys, and each
//! computes its new group by itself.
//!
//! In MPI_Comm_split_type the library chooses the colours: from the host, a hardware resource or a
//! process set. In an unguided split each process sends its colour for each kind of resource. All
//! then choose the largest kind that divides the communicator.

use objects::{Comm, Group, Result};

use crate::collective;
use crate::hardware::{self, Resource};
use crate::lock::with;
use crate::process::{Core, Process};

/// What each process sends to the others in a split.
#[derive(Clone, Copy, Debug)]
struct Vote {
    color: i64,
    key: i64,
    proposal: u64,
}

/// The colour of processes that get no communicator.
const NO_COLOR: i64 = -1;
/// The colour in an unguided split, until the kind of resource is chosen.
const UNGUIDED_COLOR: i64 = -2;

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

/// Reads the word with this index.
fn word(bytes: &[u8], index: usize) -> i64 {
    i64::from_ne_bytes(std::array::from_fn(|i| bytes[index * 8 + i]))
}

/// Performs MPI_Comm_split: one communicator for each colour, with ranks by key and then by rank in
/// the parent. Its context id is the largest proposal of its members. Collective.
///
/// Returns `None` for colour `None` (MPI_UNDEFINED), and on an intercommunicator if no member of
/// the remote group has the colour.
pub fn split(parent: usize, color: Option<u32>, key: i32) -> Result<Option<Comm>> {
    let proposal = with(|p| {
        let is_inter = p.comm(parent)?.is_inter();
        Ok(p.core()?.propose(color.is_some() && !is_inter))
    })?;
    let vote = Vote { color: color.map_or(NO_COLOR, i64::from), key: key.into(), proposal };
    let read =
        |all: Vec<u8>| -> Vec<Vote> { all.chunks_exact(Vote::SIZE).map(Vote::decode).collect() };
    let (ours, theirs) = exchange_votes(parent, &vote.encode())?;
    with(|p| assemble(p, parent, vote, &read(ours), theirs.map(read)))
}

/// Exchanges the bytes of all members; returns those of the local group and of the remote group.
fn exchange_votes(parent: usize, mine: &[u8]) -> Result<(Vec<u8>, Option<Vec<u8>>)> {
    let is_inter = with(|p| p.comm(parent).map(Comm::is_inter))?;
    let ours = collective::exchange(parent, mine)?;
    let theirs = if is_inter { Some(collective::exchange_between(parent, mine)?) } else { None };
    Ok((ours, theirs))
}

/// Makes the communicator of the processes with this process's colour.
fn assemble(
    p: &mut Process,
    parent: usize,
    mine: Vote,
    ours: &[Vote],
    theirs: Option<Vec<Vote>>,
) -> Result<Option<Comm>> {
    let color = mine.color;
    let same_color = ours.iter().chain(theirs.iter().flatten()).filter(|vote| vote.color == color);
    let agreed = p.core()?.agreed(same_color.map(|vote| vote.proposal));
    let context = agreed.context;
    p.core()?.end_proposal(mine.proposal, agreed);
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
        return p.core()?.with_segment(comm, agreed).map(Some);
    };
    let remote = with_color(comm.peers(), color, &theirs)?;
    Ok((!remote.is_empty()).then(|| comm.derive_inter(context, rank, group, remote)))
}

/// Returns the members of `group` with this colour, by key and then by rank.
fn with_color(group: &Group, color: i64, votes: &[Vote]) -> Result<Group> {
    let mut ranks: Vec<u32> =
        (0..votes.len() as u32).filter(|&rank| votes[rank as usize].color == color).collect();
    ranks.sort_by_key(|&rank| (votes[rank as usize].key, rank));
    group.incl(&ranks)
}

/// What MPI_Comm_split_type splits by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SplitBy {
    /// Nothing: this process gets no communicator.
    Nothing,
    /// An instance of this kind. A process that is restricted to none gets no communicator.
    Resource(Resource),
    /// The largest kind of resource that divides the communicator.
    Unguided,
    /// The process set mpi://WORLD.
    World,
    /// The process set mpi://SELF.
    Alone,
}

/// Bits of a colour for the lowest processor, and for the host.
const CPU_BITS: u32 = 16;
const HOST_BITS: u32 = 32;

impl Core {
    /// Returns the colour of this process's instance of a resource.
    pub(crate) fn color_of(&self, resource: Resource, instance: u32) -> i64 {
        let kind = resource as i64 + 1;
        kind << (HOST_BITS + CPU_BITS)
            | i64::from(self.first_of_host()) << CPU_BITS
            | i64::from(instance)
    }
}

/// What each process sends in MPI_Comm_split_type: its vote, and its colour for each kind of
/// resource.
struct TypeVote {
    vote: Vote,
    colors: [i64; 6],
}

impl TypeVote {
    const SIZE: usize = Vote::SIZE + 48;

    fn new(core: &mut Core, split_by: SplitBy, key: i32, is_inter: bool) -> TypeVote {
        let instances = hardware::instances();
        let colors = Resource::ALL.map(|resource| {
            instances[resource as usize]
                .map_or(NO_COLOR, |instance| core.color_of(resource, instance))
        });
        let color = match split_by {
            SplitBy::Nothing => NO_COLOR,
            SplitBy::Unguided => UNGUIDED_COLOR,
            SplitBy::Resource(resource) => colors[resource as usize],
            SplitBy::World => 0,
            SplitBy::Alone => i64::from(core.job.number) + 1,
        };
        let may_use_segment = !is_inter && !matches!(split_by, SplitBy::Nothing | SplitBy::Alone);
        TypeVote {
            vote: Vote { color, key: key.into(), proposal: core.propose(may_use_segment) },
            colors,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let colors = self.colors.iter().flat_map(|color| color.to_ne_bytes());
        self.vote.encode().into_iter().chain(colors).collect()
    }

    fn decode(bytes: &[u8]) -> TypeVote {
        TypeVote {
            vote: Vote::decode(bytes),
            colors: std::array::from_fn(|kind| word(bytes, 3 + kind)),
        }
    }
}

/// Performs MPI_Comm_split_type; returns also the kind of resource that an unguided split chose.
/// Collective.
pub fn split_type(
    parent: usize,
    split_by: SplitBy,
    key: i32,
) -> Result<Option<(Comm, Option<Resource>)>> {
    let mine = with(|p| {
        let is_inter = p.comm(parent)?.is_inter();
        Ok(TypeVote::new(p.core()?, split_by, key, is_inter))
    })?;
    let (ours, theirs) = exchange_votes(parent, &mine.encode())?;
    let read = |all: Vec<u8>| -> Vec<TypeVote> {
        all.chunks_exact(TypeVote::SIZE).map(TypeVote::decode).collect()
    };
    let (ours, theirs) = (read(ours), theirs.map(read));
    let chosen = first_dividing(|| ours.iter().chain(theirs.iter().flatten()));
    let votes = |type_votes: &[TypeVote]| {
        type_votes.iter().map(|type_vote| type_vote.resolved(chosen)).collect::<Vec<Vote>>()
    };
    let made = with(|p| {
        assemble(p, parent, mine.resolved(chosen), &votes(&ours), theirs.as_deref().map(votes))
    })?;
    Ok(made.map(|comm| (comm, chosen.filter(|_| split_by == SplitBy::Unguided))))
}

impl TypeVote {
    /// Returns the vote with its final colour, once the kind of resource is chosen.
    fn resolved(&self, chosen: Option<Resource>) -> Vote {
        match self.vote.color {
            UNGUIDED_COLOR => Vote {
                color: chosen.map_or(NO_COLOR, |kind| self.colors[kind as usize]),
                ..self.vote
            },
            _ => self.vote,
        }
    }
}

/// Returns the largest kind of resource that puts unguided processes into different groups.
fn first_dividing<'a, I: Iterator<Item = &'a TypeVote>>(
    type_votes: impl Fn() -> I,
) -> Option<Resource> {
    let unguided = || type_votes().filter(|type_vote| type_vote.vote.color == UNGUIDED_COLOR);
    Resource::ALL.into_iter().find(|&kind| {
        let color = |type_vote: &TypeVote| type_vote.colors[kind as usize];
        let Some(first) = unguided().map(color).find(|&color| color != NO_COLOR) else {
            return false;
        };
        unguided().any(|type_vote| color(type_vote) != first)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unguided(package: i64, core: i64) -> TypeVote {
        let vote = Vote { color: UNGUIDED_COLOR, key: 0, proposal: 0 };
        TypeVote { vote, colors: [1, package, NO_COLOR, NO_COLOR, core, NO_COLOR] }
    }

    #[test]
    fn the_largest_kind_that_divides_is_chosen() {
        let chosen = |type_votes: &[TypeVote]| first_dividing(|| type_votes.iter());
        assert_eq!(chosen(&[unguided(10, 20), unguided(10, 21)]), Some(Resource::Core));
        assert_eq!(chosen(&[unguided(10, 20), unguided(11, 21)]), Some(Resource::Package));
        assert_eq!(chosen(&[unguided(10, 20), unguided(10, NO_COLOR)]), Some(Resource::Core));
        assert_eq!(chosen(&[unguided(10, 20), unguided(10, 20)]), None);
        assert_eq!(chosen(&[unguided(10, 20)]), None);
        assert_eq!(chosen(&[]), None);
    }

    #[test]
    fn a_type_vote_survives_the_wire() {
        let type_vote = TypeVote {
            vote: Vote { color: 3, key: -7, proposal: u64::MAX },
            colors: [1, 2, 3, 4, 5, NO_COLOR],
        };
        let back = TypeVote::decode(&type_vote.encode());
        assert_eq!((back.vote.color, back.vote.key, back.vote.proposal), (3, -7, u64::MAX));
        assert_eq!((back.colors, type_vote.encode().len()), (type_vote.colors, TypeVote::SIZE));
    }
}
