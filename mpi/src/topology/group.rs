//! Groups: ordered sets of processes (MPI-5.0 §7.3).

#![allow(unsafe_code)]

use std::os::raw::c_int;

use super::rank::defined;
use super::{GroupRelation, Rank};
use crate::environment::is_finalized;
use crate::error::call;
use crate::ffi::{self, MPI_Group};
use crate::raw::{AsRaw, FromRaw};

/// A predefined group (MPI-5.0 §7.2.1).
#[derive(Copy, Clone, Debug)]
pub struct SystemGroup(MPI_Group);

impl SystemGroup {
    /// Returns the group without processes.
    pub fn empty() -> SystemGroup {
        SystemGroup(ffi::MPI_GROUP_EMPTY)
    }
}

// SAFETY: a predefined handle is always valid.
unsafe impl AsRaw for SystemGroup {
    type Raw = MPI_Group;

    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl Group for SystemGroup {}

/// A group that the program has made. It is freed when it is dropped (MPI-5.0 §7.3.3).
#[derive(Debug)]
pub struct UserGroup(MPI_Group);

impl FromRaw for UserGroup {
    /// Takes over a group.
    ///
    /// # Safety
    /// The handle is that of a valid group, and belongs to the result.
    unsafe fn from_raw(handle: MPI_Group) -> Self {
        UserGroup(handle)
    }
}

impl Drop for UserGroup {
    fn drop(&mut self) {
        // MPI_GROUP_EMPTY stands for any group without processes, and needs no owner.
        if self.0 != ffi::MPI_GROUP_EMPTY && !is_finalized() {
            // SAFETY: the group is valid and belongs to this value.
            unsafe { call!(MPI_Group_free(&mut self.0)) };
        }
    }
}

// SAFETY: the group is valid until the value is dropped.
unsafe impl AsRaw for UserGroup {
    type Raw = MPI_Group;

    fn as_raw(&self) -> Self::Raw {
        self.0
    }
}

impl Group for UserGroup {}

/// An ordered set of processes, each with a rank (MPI-5.0 §7.3). All calls are local.
pub trait Group: AsRaw<Raw = MPI_Group> {
    /// Returns all processes of this group, then those of the other that this one does not have
    /// (MPI-5.0 §7.3.2).
    fn union<G>(&self, other: &G) -> UserGroup
    where
        G: Group,
        Self: Sized,
    {
        made(|group| {
            // SAFETY: both groups are valid.
            unsafe { call!(MPI_Group_union(self.as_raw(), other.as_raw(), group)) }
        })
    }

    /// Returns the processes that both groups have, in the order of this one (MPI-5.0 §7.3.2).
    fn intersection<G>(&self, other: &G) -> UserGroup
    where
        G: Group,
        Self: Sized,
    {
        made(|group| {
            // SAFETY: both groups are valid.
            unsafe { call!(MPI_Group_intersection(self.as_raw(), other.as_raw(), group)) }
        })
    }

    /// Returns the processes of this group that the other does not have (MPI-5.0 §7.3.2).
    fn difference<G>(&self, other: &G) -> UserGroup
    where
        G: Group,
        Self: Sized,
    {
        made(|group| {
            // SAFETY: both groups are valid.
            unsafe { call!(MPI_Group_difference(self.as_raw(), other.as_raw(), group)) }
        })
    }

    /// Returns the processes of the given ranks, in their order (MPI-5.0 §7.3.2).
    fn include(&self, ranks: &[Rank]) -> UserGroup {
        let (count, ranks) = (count(ranks), ranks.as_ptr());
        made(|group| {
            // SAFETY: the group is valid, and the array has as many ranks as the call is given.
            unsafe { call!(MPI_Group_incl(self.as_raw(), count, ranks, group)) }
        })
    }

    /// Returns the group without the processes of the given ranks (MPI-5.0 §7.3.2).
    fn exclude(&self, ranks: &[Rank]) -> UserGroup {
        let (count, ranks) = (count(ranks), ranks.as_ptr());
        made(|group| {
            // SAFETY: the group is valid, and the array has as many ranks as the call is given.
            unsafe { call!(MPI_Group_excl(self.as_raw(), count, ranks, group)) }
        })
    }

    /// Returns the number of processes (MPI-5.0 §7.3.1).
    fn size(&self) -> Rank {
        let mut size = 0;
        // SAFETY: the group is valid.
        unsafe { call!(MPI_Group_size(self.as_raw(), &mut size)) };
        size
    }

    /// Returns the rank of the calling process, if the group has it (MPI-5.0 §7.3.1).
    fn rank(&self) -> Option<Rank> {
        let mut rank = 0;
        // SAFETY: the group is valid.
        unsafe { call!(MPI_Group_rank(self.as_raw(), &mut rank)) };
        defined(rank)
    }

    /// Returns which rank in the other group the process has that has `rank` in this one, if any
    /// (MPI-5.0 §7.3.1).
    fn translate_rank<G>(&self, rank: Rank, other: &G) -> Option<Rank>
    where
        G: Group,
        Self: Sized,
    {
        self.translate_ranks(&[rank], other)[0]
    }

    /// Translates each of `ranks` as [`translate_rank`](Self::translate_rank) does.
    fn translate_ranks<G>(&self, ranks: &[Rank], other: &G) -> Vec<Option<Rank>>
    where
        G: Group,
        Self: Sized,
    {
        let mut translated = vec![0; ranks.len()];
        // SAFETY: both groups are valid, and both arrays have as many ranks as the call is given.
        unsafe {
            call!(MPI_Group_translate_ranks(
                self.as_raw(),
                count(ranks),
                ranks.as_ptr(),
                other.as_raw(),
                translated.as_mut_ptr(),
            ));
        }
        translated.into_iter().map(defined).collect()
    }

    /// Compares two groups (MPI-5.0 §7.3.1).
    fn compare<G>(&self, other: &G) -> GroupRelation
    where
        G: Group,
        Self: Sized,
    {
        let mut relation = 0;
        // SAFETY: both groups are valid.
        unsafe { call!(MPI_Group_compare(self.as_raw(), other.as_raw(), &mut relation)) };
        relation.into()
    }
}

/// Returns the group that a call makes.
fn made(call: impl FnOnce(*mut MPI_Group)) -> UserGroup {
    let mut group = ffi::MPI_GROUP_NULL;
    call(&mut group);
    UserGroup(group)
}

fn count(ranks: &[Rank]) -> c_int {
    ranks.len().try_into().expect("no group has so many processes")
}
