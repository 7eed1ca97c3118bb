//! Intercommunicators: how two groups that share no communicator come to one
//! (MPI-5.0 §7.6.2), and how they become one group.
//!
//! The two leaders meet by letters: each says who is in its group and proposes
//! a context; the larger proposal is taken. Only then does either tell its own
//! group what came of it, so that groups which overlap find out instead of
//! waiting for each other, and a leader's error is everyone's.

use fabric::Peer;
use objects::{Class, Comm, Error, Group, Result};

use crate::collective;
use crate::communicator::agree;
use crate::control_channel::ControlChannel;
use crate::lock::with;

/// A local group on its way to an intercommunicator.
#[derive(Clone, Debug)]
struct Party {
    group: Group,
    /// The caller's rank.
    rank: u32,
    leader: u32,
    /// How the group talks among itself.
    by: By,
}

#[derive(Clone, Copy, Debug)]
enum By {
    /// Collectives of this communicator.
    Comm(usize),
    /// Letters.
    Letters(ControlChannel),
}

/// What came of the leaders' meeting.
struct Pact {
    context: u64,
    remote: Group,
}

/// MPI_Intercomm_create. `peer` and `tag` matter at the leader alone: the
/// communicator that both leaders are in, and the other leader's rank there.
pub fn create(local: usize, leader: u32, peer: (usize, i32), tag: i32) -> Result<Comm> {
    let (party, parent) = with(|p| {
        let comm = p.comm(local)?;
        if comm.is_inter() {
            return Err(Error::new(Class::Comm, "the local communicator is an intercommunicator"));
        }
        check_leader(comm.group(), leader)?;
        let party =
            Party { group: comm.group().clone(), rank: comm.rank(), leader, by: By::Comm(local) };
        Ok((party, comm.clone()))
    })?;
    let pact = party.agree(|| with(|p| other_leader(p.comm(peer.0)?, peer.1, tag)))?;
    Ok(parent.derive_inter(pact.context, party.rank, party.group, pact.remote))
}

/// MPI_Intercomm_create_from_groups, but for hints and error handler. `remote`
/// (the group and its leader) matters at the leader alone.
pub fn create_from_groups(
    local: (&Group, u32),
    remote: (Result<Group>, i32),
    text: &str,
) -> Result<Comm> {
    let (group, leader) = (local.0.clone(), local.1);
    let me = with(|p| p.core().map(|core| Peer(core.job.rank)))?;
    let rank = group.rank_of(me);
    let rank =
        rank.ok_or_else(|| Error::new(Class::Group, "this process is not in the local group"))?;
    check_leader(&group, leader)?;
    let channel = ControlChannel::from_tag(text);
    let party = Party { group, rank, leader, by: By::Letters(channel) };
    let pact = party.agree(|| {
        let (others, leader) = (remote.0?, remote.1);
        let peer = u32::try_from(leader).ok().and_then(|rank| others.peer_of(rank));
        Ok((channel, peer.ok_or_else(|| bad_leader(leader, others.size()))?))
    })?;
    Ok(Comm::new("", 0, party.rank, party.group.clone()).derive_inter(
        pact.context,
        party.rank,
        party.group,
        pact.remote,
    ))
}

fn check_leader(group: &Group, leader: u32) -> Result<()> {
    if leader < group.size() { Ok(()) } else { Err(bad_leader(leader as i32, group.size())) }
}

#[cold]
fn bad_leader(rank: i32, size: u32) -> Error {
    Error::new(Class::Rank, format!("the leader {rank} is not a rank of its group of {size}"))
}

/// Where to find the leader of the other group.
fn other_leader(comm: &Comm, rank: i32, tag: i32) -> Result<(ControlChannel, Peer)> {
    if tag < 0 {
        return Err(Error::new(Class::Tag, format!("the tag is {tag}: it must not be negative")));
    }
    let peer = u32::try_from(rank).ok().and_then(|rank| comm.peers().peer_of(rank));
    let peer = peer.ok_or_else(|| bad_leader(rank, comm.peers().size()))?;
    Ok((ControlChannel::from_comm(comm.context(), tag), peer))
}

impl Party {
    /// What the leaders agree on, known to all of this group. `find` says where
    /// the other leader is; only the leader is asked.
    fn agree(&self, find: impl FnOnce() -> Result<(ControlChannel, Peer)>) -> Result<Pact> {
        let met = (self.rank == self.leader)
            .then(|| find().and_then(|(channel, peer)| self.meet(channel, peer)));
        match met {
            Some(Err(error)) => {
                self.tell(
                    &mut Verdict { refused: error.class() as u64, context: 0, size: 0 }.encode(),
                )?;
                Err(error)
            }
            Some(Ok(pact)) => {
                let verdict =
                    Verdict { refused: 0, context: pact.context, size: pact.remote.size().into() };
                self.tell(&mut verdict.encode())?;
                self.tell(&mut list(&pact.remote))?;
                Ok(pact)
            }
            None => self.listen(),
        }
    }

    /// The leaders' meeting.
    fn meet(&self, channel: ControlChannel, other: Peer) -> Result<Pact> {
        if self.group.contains(other) {
            return Err(overlap(other));
        }
        let proposal = with(|p| p.core().map(|core| core.propose(false)))?;
        let ours = Verdict { refused: 0, context: proposal, size: self.group.size().into() };
        let mut theirs = [0; Verdict::SIZE];
        channel.exchange(other, &ours.encode(), &mut theirs)?;
        let theirs = Verdict::decode(&theirs);
        let mut members = vec![0; theirs.size as usize * 4];
        channel.exchange(other, &list(&self.group), &mut members)?;
        let remote = read(&members);
        let both = remote.iter().find(|&peer| self.group.contains(peer));
        match both {
            Some(both) => Err(overlap(both)),
            None => Ok(Pact { context: proposal.max(theirs.context), remote }),
        }
    }

    /// What the leader tells.
    fn listen(&self) -> Result<Pact> {
        let mut verdict = [0; Verdict::SIZE];
        self.tell(&mut verdict)?;
        let Verdict { refused, context, size } = Verdict::decode(&verdict);
        if refused != 0 {
            let class = Class::from_number(refused as i32).unwrap_or(Class::Other);
            return Err(Error::new(
                class,
                format!("the leader of the local group, rank {}, met with an error", self.leader),
            ));
        }
        let mut members = vec![0; size as usize * 4];
        self.tell(&mut members)?;
        with(|p| p.core().map(|core| core.end_proposal(0, context)))?;
        Ok(Pact { context, remote: read(&members) })
    }

    /// Everyone gets the leader's bytes.
    fn tell(&self, bytes: &mut [u8]) -> Result<()> {
        match self.by {
            By::Comm(comm) => collective::broadcast(comm, self.leader, bytes),
            By::Letters(channel) => channel.broadcast(&self.group, self.rank, self.leader, bytes),
        }
    }
}

#[cold]
fn overlap(both: Peer) -> Error {
    let help = format!("the two groups overlap: rank {} of the job is in both", both.0);
    Error::new(Class::Comm, help)
}

/// Context, size of a group, and the class of an error if there was one.
struct Verdict {
    refused: u64,
    context: u64,
    size: u64,
}

impl Verdict {
    const SIZE: usize = 24;

    fn encode(&self) -> [u8; Verdict::SIZE] {
        let mut out = [0; Verdict::SIZE];
        out[..8].copy_from_slice(&self.refused.to_ne_bytes());
        out[8..16].copy_from_slice(&self.context.to_ne_bytes());
        out[16..].copy_from_slice(&self.size.to_ne_bytes());
        out
    }

    fn decode(bytes: &[u8; Verdict::SIZE]) -> Verdict {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        Verdict { refused: word(0), context: word(8), size: word(16) }
    }
}

fn list(group: &Group) -> Vec<u8> {
    group.iter().flat_map(|peer| peer.0.to_ne_bytes()).collect()
}

fn read(list: &[u8]) -> Group {
    list.chunks_exact(4)
        .map(|word| Peer(u32::from_ne_bytes(std::array::from_fn(|i| word[i]))))
        .collect()
}

/// MPI_Intercomm_merge: the group that said `high` comes last; where both say
/// the same, the group whose first process comes first in the job does here too.
/// Collective over both groups.
pub fn merge(inter: usize, high: bool) -> Result<Comm> {
    with(|p| match p.comm(inter)?.is_inter() {
        true => Ok(()),
        false => Err(Error::new(Class::Comm, "MPI_Intercomm_merge needs an intercommunicator")),
    })?;
    let theirs = collective::exchange_between(inter, &[u8::from(high)])?;
    let theirs = theirs.first().is_some_and(|&high| high != 0);
    let context = agree(inter, true)?;
    with(|p| {
        let comm = p.comm(inter)?;
        let (ours, others) = (comm.group(), comm.peers());
        let first = |group: &Group| group.peer_of(0).map(|peer| peer.0);
        let are_first = if high == theirs { first(ours) < first(others) } else { theirs };
        let group = if are_first { ours.union(others) } else { others.union(ours) };
        let rank = comm.rank() + if are_first { 0 } else { others.size() };
        let comm = comm.derive(context, rank, group);
        p.core()?.with_segment(comm)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_verdicts_survive_the_wire() {
        let group: Group = [5, 2, 900_000].map(Peer).into_iter().collect();
        assert_eq!(read(&list(&group)), group);
        let verdict = Verdict::decode(&Verdict { refused: 5, context: u64::MAX, size: 7 }.encode());
        assert_eq!((verdict.refused, verdict.context, verdict.size), (5, u64::MAX, 7));
    }
}
