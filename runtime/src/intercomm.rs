//! Intercommunicators (MPI-5.0 §7.6.2): creates one from two groups, and merges its groups into
//! one.
//!
//! The two leaders exchange control messages: the members of each group and a proposed context id.
//! The larger proposal is taken. Then each leader broadcasts the outcome to its group. The order
//! matters: groups that overlap get an error instead of waiting for each other. If a leader gets an
//! error, all members of its group get one.

use std::ffi::OsStr;

use fabric::Peer;
use fabric::world::ProcessName;
use objects::{Class, Comm, Error, Group, Result};

use crate::communicator::agree;
use crate::control_channel::ControlChannel;
use crate::lock::with;
use crate::other_jobs::reach;
use crate::{agreement, collective};

/// The local group of an intercommunicator that is being created.
#[derive(Clone, Debug)]
struct LocalGroup {
    group: Group,
    /// The caller's rank.
    rank: u32,
    leader: u32,
    /// How the leader broadcasts to the group.
    medium: Medium,
}

/// The means by which a leader broadcasts to its group.
#[derive(Clone, Copy, Debug)]
enum Medium {
    /// Collectives on this communicator.
    Comm(usize),
    /// Control messages.
    Control(ControlChannel),
}

/// What the leaders have agreed on.
struct Agreed {
    context: u64,
    remote: Group,
}

/// Performs MPI_Intercomm_create. `peer` is the communicator that both leaders are in, and the
/// other leader's rank there. Only the leader reads `peer` and `tag`.
pub fn create(local: usize, leader: u32, peer: (usize, i32), tag: i32) -> Result<Comm> {
    create_with(local, leader, |_| with(|p| other_leader(p.comm(peer.0)?, peer.1, tag)))
}

/// Creates an intercommunicator whose other leader is found by `find`, which gets the local group;
/// only the leader calls it.
pub(crate) fn create_with(
    local: usize,
    leader: u32,
    find: impl FnOnce(&Group) -> Result<(ControlChannel, Peer)>,
) -> Result<Comm> {
    create_by(local, leader, |local_group| local_group.exchange(find))
}

/// As [`create_with`], but if the other leader fails meanwhile, `find` is to find another one.
pub(crate) fn create_with_next(
    local: usize,
    leader: u32,
    find: impl Fn(&Group) -> Result<(ControlChannel, Peer)>,
) -> Result<Comm> {
    create_by(local, leader, |local_group| {
        loop {
            match local_group.exchange(&find) {
                Err(error) if error.class() == Class::ProcAborted => {}
                done => return done,
            }
        }
    })
}

fn create_by(
    local: usize,
    leader: u32,
    exchange: impl FnOnce(&LocalGroup) -> Result<Agreed>,
) -> Result<Comm> {
    let (local_group, parent) = with(|p| {
        let comm = p.comm(local)?;
        if comm.is_inter() {
            return Err(Error::new(
                Class::Comm,
                "the local communicator is an intercommunicator: must be an intracommunicator",
            ));
        }
        check_leader(comm.group(), leader)?;
        let local_group = LocalGroup {
            group: comm.group().clone(),
            rank: comm.rank(),
            leader,
            medium: Medium::Comm(local),
        };
        Ok((local_group, comm.clone()))
    })?;
    let agreed = local_group.agree(|| exchange(&local_group))?;
    Ok(parent.derive_inter(agreed.context, local_group.rank, local_group.group, agreed.remote))
}

/// Performs MPI_Intercomm_create_from_groups, without hints and error handler. Only the leader
/// reads `remote`, the other group and its leader.
pub fn create_from_groups(
    local: (&Group, u32),
    remote: (Result<Group>, i32),
    tag: &OsStr,
) -> Result<Comm> {
    let (group, leader) = (local.0.clone(), local.1);
    let me = with(|p| p.core().map(|core| Peer(core.job.number)))?;
    let rank = group.rank_of(me);
    let rank = rank.ok_or_else(|| {
        Error::new(Class::Group, "invalid local group: this process is not a member")
    })?;
    check_leader(&group, leader)?;
    let channel = ControlChannel::from_tag(tag);
    let local_group = LocalGroup { group, rank, leader, medium: Medium::Control(channel) };
    let agreed = local_group.agree(|| {
        let (others, leader) = (remote.0?, remote.1);
        let peer = u32::try_from(leader).ok().and_then(|rank| others.peer_of(rank));
        let peer = peer.ok_or_else(|| bad_leader(leader, others.size()))?;
        local_group.exchange_with_leader(channel, peer)
    })?;
    Ok(Comm::new("", 0, local_group.rank, local_group.group.clone()).derive_inter(
        agreed.context,
        local_group.rank,
        local_group.group,
        agreed.remote,
    ))
}

fn check_leader(group: &Group, leader: u32) -> Result<()> {
    if leader < group.size() { Ok(()) } else { Err(bad_leader(leader as i32, group.size())) }
}

#[cold]
fn bad_leader(rank: i32, size: u32) -> Error {
    Error::new(
        Class::Rank,
        format!("invalid leader {rank} of a group of {size}: must be a rank of the group"),
    )
}

/// Returns the channel to the leader of the other group, and that leader.
fn other_leader(comm: &Comm, rank: i32, tag: i32) -> Result<(ControlChannel, Peer)> {
    if tag < 0 {
        return Err(Error::new(Class::Tag, format!("invalid tag {tag}: must not be negative")));
    }
    let peer = u32::try_from(rank).ok().and_then(|rank| comm.peers().peer_of(rank));
    let peer = peer.ok_or_else(|| bad_leader(rank, comm.peers().size()))?;
    Ok((ControlChannel::from_comm(comm.context(), tag), peer))
}

impl LocalGroup {
    /// Returns what the leaders have agreed on, at each member of this group. `exchange` agrees
    /// with the other leader; only the leader calls it.
    fn agree(&self, exchange: impl FnOnce() -> Result<Agreed>) -> Result<Agreed> {
        let exchanged = (self.rank == self.leader).then(exchange);
        let agreed = match exchanged {
            Some(Err(error)) => {
                self.broadcast_from_leader(&mut Announcement::of_error(error.class()).encode())?;
                return Err(error);
            }
            Some(Ok(agreed)) => {
                let announcement = Announcement {
                    error_class: 0,
                    context: agreed.context,
                    size: agreed.remote.size().into(),
                };
                self.broadcast_from_leader(&mut announcement.encode())?;
                self.broadcast_from_leader(&mut encode_members(&agreed.remote))?;
                agreed
            }
            None => self.receive_agreed()?,
        };
        // All members wait here for all of the other group, whose leader has told them.
        reach(agreed.remote.iter())?;
        Ok(agreed)
    }

    /// Agrees with the other leader, whom `find` finds; called by the leader.
    fn exchange(
        &self,
        find: impl FnOnce(&Group) -> Result<(ControlChannel, Peer)>,
    ) -> Result<Agreed> {
        let (channel, peer) = find(&self.group)?;
        self.exchange_with_leader(channel, peer)
    }

    /// Agrees with this leader; called by the leader.
    fn exchange_with_leader(&self, channel: ControlChannel, other: Peer) -> Result<Agreed> {
        check_disjoint(&self.group, other)?;
        reach(std::iter::once(other))?;
        let proposal = with(|p| p.core().map(|core| core.propose(false)))?;
        let ours =
            Announcement { error_class: 0, context: proposal, size: self.group.size().into() };
        let mut theirs = [0; Announcement::SIZE];
        channel.exchange(other, &ours.encode(), &mut theirs)?;
        let theirs = Announcement::decode(&theirs);
        if theirs.error_class != 0 {
            return Err(refused(other, theirs.error_class));
        }
        let mut members = vec![0; theirs.size as usize * 4];
        channel.exchange(other, &encode_members(&self.group), &mut members)?;
        let remote = decode_members(&members);
        let shared = remote.iter().find(|&peer| self.group.contains(peer));
        if let Some(shared) = shared {
            return Err(overlap(shared));
        }
        Ok(Agreed { context: proposal.max(theirs.context), remote })
    }

    /// Receives what the leaders have agreed on; called by the other members.
    fn receive_agreed(&self) -> Result<Agreed> {
        let mut announcement = [0; Announcement::SIZE];
        self.broadcast_from_leader(&mut announcement)?;
        let Announcement { error_class, context, size } = Announcement::decode(&announcement);
        if error_class != 0 {
            return Err(Error::new(
                class_of(error_class),
                format!("the leader of the local group, rank {}, reported this error", self.leader),
            ));
        }
        let mut members = vec![0; size as usize * 4];
        self.broadcast_from_leader(&mut members)?;
        let remote = decode_members(&members);
        with(|p| {
            let core = p.core()?;
            core.end_proposal(0, agreement::Agreed::without_segment(context));
            Ok(())
        })?;
        Ok(Agreed { context, remote })
    }

    /// Broadcasts the leader's bytes to the group.
    fn broadcast_from_leader(&self, bytes: &mut [u8]) -> Result<()> {
        match self.medium {
            Medium::Comm(comm) => collective::broadcast(comm, self.leader, bytes),
            Medium::Control(channel) => {
                channel.broadcast(&self.group, self.rank, self.leader, bytes)
            }
        }
    }
}

/// Refuses a leader of the other group that is in this one.
pub(crate) fn check_disjoint(group: &Group, other: Peer) -> Result<()> {
    if group.contains(other) { Err(overlap(other)) } else { Ok(()) }
}

#[cold]
fn overlap(shared: Peer) -> Error {
    let text = format!(
        "the groups overlap: {} is in both; groups must be disjoint",
        ProcessName(shared.0)
    );
    Error::new(Class::Comm, text)
}

/// The other leader, which MPI_Comm_connect has found at a port, has closed it.
#[cold]
fn refused(other: Peer, error_class: u64) -> Error {
    let text =
        format!("{} has closed the port without accepting this client", ProcessName(other.0));
    Error::new(class_of(error_class), text)
}

fn class_of(number: u64) -> Class {
    Class::from_number(number as i32).unwrap_or(Class::Other)
}

/// A context id and the size of a group, or the class of an error.
pub(crate) struct Announcement {
    /// 0: no error.
    error_class: u64,
    context: u64,
    size: u64,
}

impl Announcement {
    pub(crate) const SIZE: usize = 24;

    pub(crate) fn of_error(class: Class) -> Announcement {
        Announcement { error_class: class as u64, context: 0, size: 0 }
    }

    pub(crate) fn encode(&self) -> [u8; Announcement::SIZE] {
        let mut out = [0; Announcement::SIZE];
        out[..8].copy_from_slice(&self.error_class.to_ne_bytes());
        out[8..16].copy_from_slice(&self.context.to_ne_bytes());
        out[16..].copy_from_slice(&self.size.to_ne_bytes());
        out
    }

    fn decode(bytes: &[u8; Announcement::SIZE]) -> Announcement {
        let word = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[at + i]));
        Announcement { error_class: word(0), context: word(8), size: word(16) }
    }
}

fn encode_members(group: &Group) -> Vec<u8> {
    group.iter().flat_map(|peer| peer.0.to_ne_bytes()).collect()
}

fn decode_members(bytes: &[u8]) -> Group {
    bytes
        .chunks_exact(4)
        .map(|word| Peer(u32::from_ne_bytes(std::array::from_fn(|i| word[i]))))
        .collect()
}

/// Performs MPI_Intercomm_merge: the group that gave `high` comes last. If both gave the same
/// value, the group whose first process has the lower rank in MPI_COMM_WORLD comes first.
/// Collective over both groups.
pub fn merge(inter: usize, high: bool) -> Result<Comm> {
    with(|p| match p.comm(inter)?.is_inter() {
        true => Ok(()),
        false => Err(Error::new(
            Class::Comm,
            "the communicator is an intracommunicator: must be an intercommunicator",
        )),
    })?;
    let theirs = collective::exchange_between(inter, &[u8::from(high)])?;
    let theirs = theirs.first().is_some_and(|&high| high != 0);
    let agreed = agree(inter, true)?;
    with(|p| {
        let comm = p.comm(inter)?;
        let (ours, others) = (comm.group(), comm.peers());
        let first = |group: &Group| group.peer_of(0).map(|peer| peer.0);
        let are_first = if high == theirs { first(ours) < first(others) } else { theirs };
        let group = if are_first { ours.union(others) } else { others.union(ours) };
        let rank = comm.rank() + if are_first { 0 } else { others.size() };
        let comm = comm.derive(agreed.context, rank, group);
        p.core()?.with_segment(comm, agreed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_announcements_survive_the_wire() {
        let group: Group = [5, 2, 900_000].map(Peer).into_iter().collect();
        assert_eq!(decode_members(&encode_members(&group)), group);
        let announcement = Announcement::decode(
            &Announcement { error_class: 5, context: u64::MAX, size: 7 }.encode(),
        );
        assert_eq!(
            (announcement.error_class, announcement.context, announcement.size),
            (5, u64::MAX, 7)
        );
    }
}
