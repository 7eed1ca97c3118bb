//! MPI-5.0 §7.3: groups.

use std::os::raw::c_int;

use objects::{Class, Error, Group, Result};
use runtime::{GroupObject, predefined, with};

use crate::abi::{MPI_Comm, MPI_Count, MPI_Group};
use crate::args::{UNDEFINED, checked_count, not_null, put, slice, slice_mut};
use crate::constants::{MPI_IDENT, MPI_PROC_NULL, MPI_SIMILAR, MPI_UNEQUAL};

/// Stores the handle of a new group, which comes from `session` (0: the world model); an empty
/// group is always MPI_GROUP_EMPTY.
///
/// # Safety
/// `newgroup` is null or valid for a write.
pub(super) unsafe fn store(newgroup: *mut MPI_Group, members: Group, session: usize) -> Result<()> {
    not_null(newgroup, "newgroup")?;
    let handle = if members.is_empty() {
        predefined::GROUP_EMPTY
    } else {
        with(|p| p.tables.groups.insert(GroupObject { members, session })) as usize
    };
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(newgroup, MPI_Group(handle), "newgroup") }
}

fn group(handle: MPI_Group) -> Result<Group> {
    with(|p| p.group(handle.0))
}

/// The session that the first of these groups with one comes from; 0: the world model.
fn session_of(groups: &[MPI_Group]) -> usize {
    let mut sessions = groups.iter().map(|group| with(|p| p.session_of_group(group.0)));
    sessions.find(|&session| session != 0).unwrap_or(0)
}

fn both(one: MPI_Group, other: MPI_Group) -> Result<(Group, Group)> {
    Ok((group(one)?, group(other)?))
}

pub(crate) unsafe fn group_size(group: MPI_Group, size: *mut c_int) -> Result<()> {
    let members = self::group(group)?.size();
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(size, members as c_int, "size") }
}

pub(crate) unsafe fn group_rank(group: MPI_Group, rank: *mut c_int) -> Result<()> {
    let members = self::group(group)?;
    let me = with(|p| p.core().map(|core| fabric::Peer(core.job.number)))?;
    let mine = members.rank_of(me).map_or(UNDEFINED, |rank| rank as c_int);
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(rank, mine, "rank") }
}

pub(crate) unsafe fn group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> Result<()> {
    let (from, to) = both(group1, group2)?;
    // SAFETY: the user's arrays of `n` ranks each.
    let (input, output) = unsafe {
        (
            slice(ranks1, MPI_Count::from(n), "ranks1")?,
            slice_mut(ranks2, MPI_Count::from(n), "ranks2")?,
        )
    };
    for (&rank, translated) in input.iter().zip(output) {
        *translated = match rank {
            MPI_PROC_NULL => MPI_PROC_NULL,
            rank => {
                let peer = u32::try_from(rank).ok().and_then(|rank| from.peer_of(rank));
                let peer = peer.ok_or_else(|| bad_rank(&from, rank))?;
                to.rank_of(peer).map_or(UNDEFINED, |rank| rank as c_int)
            }
        };
    }
    Ok(())
}

#[cold]
fn bad_rank(group: &Group, rank: c_int) -> Error {
    Error::new(
        Class::Rank,
        format!(
            "invalid rank {rank} in a group of {0} processes: must be at least 0 and below {0}",
            group.size()
        ),
    )
}

pub(crate) unsafe fn group_compare(
    group1: MPI_Group,
    group2: MPI_Group,
    result: *mut c_int,
) -> Result<()> {
    let (one, other) = both(group1, group2)?;
    let same = match one.compare(&other) {
        objects::Comparison::Ident => MPI_IDENT,
        objects::Comparison::Similar => MPI_SIMILAR,
        _ => MPI_UNEQUAL,
    };
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(result, same, "result") }
}

pub(crate) unsafe fn comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> Result<()> {
    let (members, session) =
        with(|p| p.comm(comm.0).map(|comm| (comm.group().clone(), comm.session())))?;
    // SAFETY: the user's pointer, passed on.
    unsafe { store(group, members, session) }
}

pub(crate) unsafe fn group_union(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    let (one, other) = both(group1, group2)?;
    // SAFETY: the user's pointer, passed on.
    unsafe { store(newgroup, one.union(&other), session_of(&[group1, group2])) }
}

pub(crate) unsafe fn group_intersection(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    let (one, other) = both(group1, group2)?;
    // SAFETY: the user's pointer, passed on.
    unsafe { store(newgroup, one.intersection(&other), session_of(&[group1, group2])) }
}

pub(crate) unsafe fn group_difference(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    let (one, other) = both(group1, group2)?;
    // SAFETY: the user's pointer, passed on.
    unsafe { store(newgroup, one.difference(&other), session_of(&[group1, group2])) }
}

/// Reads the user's list of ranks, each a rank of the group.
unsafe fn ranks_of(group: &Group, n: c_int, ranks: *const c_int) -> Result<Vec<u32>> {
    // SAFETY: the user's array of `n` ranks.
    let ranks = unsafe { slice(ranks, MPI_Count::from(n), "ranks")? };
    ranks
        .iter()
        .map(|&rank| {
            u32::try_from(rank)
                .ok()
                .filter(|&rank| rank < group.size())
                .ok_or_else(|| bad_rank(group, rank))
        })
        .collect()
}

pub(crate) unsafe fn group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    let members = self::group(group)?;
    // SAFETY: the user's array and pointer.
    unsafe {
        let ranks = ranks_of(&members, n, ranks)?;
        store(newgroup, members.incl(&ranks)?, session_of(&[group]))
    }
}

pub(crate) unsafe fn group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    let members = self::group(group)?;
    // SAFETY: the user's array and pointer.
    unsafe {
        let ranks = ranks_of(&members, n, ranks)?;
        store(newgroup, members.excl(&ranks)?, session_of(&[group]))
    }
}

/// Reads the user's (first, last, stride) triplets.
unsafe fn ranges_of<'a>(n: c_int, ranges: *mut [c_int; 3]) -> Result<&'a [[c_int; 3]]> {
    checked_count(n.into(), "n")?;
    // SAFETY: the user's array of `n` triplets.
    unsafe { slice(ranges.cast_const(), n.into(), "ranges") }
}

pub(crate) unsafe fn group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<()> {
    let members = self::group(group)?;
    // SAFETY: the user's array and pointer.
    unsafe { store(newgroup, members.range_incl(ranges_of(n, ranges)?)?, session_of(&[group])) }
}

pub(crate) unsafe fn group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> Result<()> {
    let members = self::group(group)?;
    // SAFETY: the user's array and pointer.
    unsafe { store(newgroup, members.range_excl(ranges_of(n, ranges)?)?, session_of(&[group])) }
}

pub(crate) unsafe fn group_free(group: *mut MPI_Group) -> Result<()> {
    not_null(group, "group")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *group };
    self::group(handle)?;
    // MPI_GROUP_EMPTY may be freed (MPI_Group_incl of no ranks returns it).
    if handle.0 >= predefined::END {
        with(|p| p.tables.groups.remove(handle.0 as u64))
            .map_err(|stale| runtime::bad_handle(Class::Group, "group", stale))?;
    }
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(group, MPI_Group(predefined::GROUP_NULL), "group") }
}
