//! New communicators: agrees on a context id (see `contexts`), then makes a `Comm`.
//!
//! The agreement is an allreduce over the parent, or broadcasts within the group if the rest of the
//! parent takes no part. The number of communicators in a job is not limited.

use std::ffi::OsStr;

use fabric::Peer;
use objects::{Class, Comm, Error, Group, Result};

use crate::agreement::{Agreed, Agreement, NewComm};
use crate::control_channel::ControlChannel;
use crate::lock::with;
use crate::process::{Core, Process, bad_handle};
use crate::request::{Request, State};

pub use crate::split::split;

impl Process {
    /// Removes a communicator, as the last part of MPI_Comm_free. Members of other jobs stay
    /// connected (MPI-5.0 §11.10.4).
    pub fn free_comm(&mut self, handle: usize) -> Result<()> {
        let comm = self.comm(handle)?.clone();
        let core = self.core()?;
        if core.has_other_jobs(&comm) {
            core.freed_links.push(comm);
        }
        self.forget_comm(handle)
    }

    /// Removes a communicator, also that of a window or file. Neither running operations nor
    /// persistent collectives, which may start again (MPI-5.0 §7.4.3), need it any more. Only if a
    /// peer fails, its members are asked for once more: can the pending receives still end?
    pub fn forget_comm(&mut self, handle: usize) -> Result<()> {
        let comm = self.comms.remove(handle as u64);
        let comm = comm.map_err(|stale| bad_handle(Class::Comm, "communicator", stale))?;
        let core = self.core()?;
        core.planner.get_mut().forget(&comm);
        if core.job.survives_failures() {
            let Core { stack, freed, .. } = core;
            freed.push(comm.remains());
            freed.retain(|comm| stack.pt2pt().is_in_use(2 * comm.context()));
        }
        Ok(())
    }
}

/// Returns what the parent's members agree on, those of both groups if there are two.
/// `may_use_segment`: see `Core::propose` in `contexts`. Collective over `parent`.
pub(crate) fn agree(parent: usize, may_use_segment: bool) -> Result<Agreed> {
    let (mine, agreement) = with(|p| {
        let mine = p.core()?.propose(may_use_segment);
        Ok((mine, Agreement::start(p, parent, mine)?))
    })?;
    let agreed = agreement.wait(parent)?;
    with(|p| p.core().map(|core| core.end_proposal(mine, agreed)))?;
    Ok(agreed)
}

/// Performs MPI_Comm_dup without attributes: same members, new context. Collective.
pub fn duplicate(parent: usize) -> Result<Comm> {
    let is_inter = with(|p| p.comm(parent).map(Comm::is_inter))?;
    let agreed = agree(parent, !is_inter)?;
    with(|p| {
        let comm = p.comm(parent)?.duplicate(agreed.context);
        p.core()?.with_segment(comm, agreed)
    })
}

/// Performs MPI_Comm_idup; returns the handles of the communicator and of the request.
pub fn iduplicate(parent: usize) -> Result<(usize, usize)> {
    with(|p| {
        let comm = p.comm(parent)?.duplicate(u64::MAX >> 1);
        let mine = p.core()?.propose(!comm.is_inter());
        let agreement = Agreement::start(p, parent, mine)?;
        let handle = p.comms.insert(comm);
        let request = Request {
            comm: parent,
            state: State::Collective(agreement.id()),
            persistent: None,
            then: Some(Box::new(NewComm { handle, proposal: mine, agreement })),
        };
        Ok((handle as usize, p.requests.insert(request) as usize))
    })
}

/// Performs MPI_Comm_create; returns `None` for processes that are not in `group`. On an
/// intercommunicator `group` is a part of the local group, and the remote group gives its own.
/// Collective over `parent`.
///
/// Disjoint groups of one call agree on one context for all of them. Their messages do not mix:
/// frames go from member to member, no process is in two of the groups, and a collective segment is
/// for the group of its owner.
pub fn create(parent: usize, group: &Group) -> Result<Option<Comm>> {
    let (is_inter, me) = with(|p| {
        let me = Peer(p.core()?.job.number);
        check_members(p.comm(parent)?, group)?;
        Ok((p.comm(parent)?.is_inter(), me))
    })?;
    if is_inter {
        let rank = group.rank_of(me);
        return split(parent, rank.map(|_| 0), rank.unwrap_or_default() as i32);
    }
    let agreed = agree(parent, group.contains(me))?;
    let Some(rank) = group.rank_of(me) else { return Ok(None) };
    with(|p| {
        let comm = p.comm(parent)?.derive(agreed.context, rank, group.clone());
        p.core()?.with_segment(comm, agreed).map(Some)
    })
}

fn check_members(comm: &Comm, group: &Group) -> Result<()> {
    if group.iter().all(|peer| comm.group().contains(peer)) {
        return Ok(());
    }
    Err(Error::new(
        Class::Group,
        format!("invalid group: it has members that are not in {}", comm.describe()),
    ))
}

/// Performs MPI_Comm_create_group (MPI-5.0 §7.4.2): like [`create`], but collective over `group`
/// only. The first member proposes the context; no other process proposes the same number.
pub fn create_group(parent: usize, group: &Group, tag: i32) -> Result<Option<Comm>> {
    let (me, channel) = with(|p| {
        let me = Peer(p.core()?.job.number);
        let comm = p.comm(parent)?;
        if comm.is_inter() {
            return Err(Error::new(
                Class::Comm,
                "the communicator is an intercommunicator: must be an intracommunicator",
            ));
        }
        check_members(comm, group)?;
        Ok((me, ControlChannel::from_comm(comm.context(), tag)))
    })?;
    let Some(rank) = group.rank_of(me) else { return Ok(None) };
    let agreed = agree_in_group(channel, group, rank)?;
    with(|p| {
        let comm = p.comm(parent)?.derive(agreed.context, rank, group.clone());
        p.core()?.with_segment(comm, agreed).map(Some)
    })
}

/// Returns what the members of `group` agree on: the context that the first member proposes, and
/// the segment that the first member on each host proposes. Collective over `group`.
fn agree_in_group(channel: ControlChannel, group: &Group, rank: u32) -> Result<Agreed> {
    let is_here = |core: &Core, peer: Peer| core.job.local_numbers().binary_search(&peer.0).is_ok();
    let (here, mine) = with(|p| {
        let core = p.core()?;
        let ranks = (0..).zip(group.iter()).filter(|(_, peer)| is_here(core, *peer));
        let here: Vec<u32> = ranks.map(|(rank, _)| rank).collect();
        let proposal = if here.first() == Some(&rank) { core.propose(true) } else { 0 };
        Ok((here, proposal))
    })?;
    let broadcast = |group: &Group, rank: u32| {
        let mut word = mine.to_ne_bytes();
        channel.broadcast(group, rank, 0, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    };
    let context = broadcast(group, rank)?;
    let on_host = match here.iter().position(|member| *member == rank) {
        _ if here.len() == group.size() as usize => context,
        Some(rank) => broadcast(&group.incl(&here)?, rank as u32)?,
        None => return Err(Error::internal("a process is on another host than itself")),
    };
    let agreed = Agreed { context, on_host };
    with(|p| p.core().map(|core| core.end_proposal(mine, agreed)))?;
    Ok(agreed)
}

/// Performs MPI_Comm_create_from_group, without hints and error handler; `None` for the empty
/// group. Collective over `group`.
pub fn create_from_group(group: &Group, tag: &OsStr) -> Result<Option<Comm>> {
    let me = with(|p| p.core().map(|core| Peer(core.job.number)))?;
    if group.is_empty() {
        return Ok(None);
    }
    let rank = group
        .rank_of(me)
        .ok_or_else(|| Error::new(Class::Group, "invalid group: this process is not a member"))?;
    let agreed = agree_in_group(ControlChannel::from_tag(tag), group, rank)?;
    let comm = Comm::new("", agreed.context, rank, group.clone());
    with(|p| p.core()?.with_segment(comm, agreed).map(Some))
}
