//! MPI-5.0 §7.6: intercommunicators, also the one to the parent.

use std::os::raw::{c_char, c_int};

use objects::errhandler::Raiser;
use objects::{Class, Error, Result};
use runtime::{intercomm, with};

use crate::abi::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info};
use crate::args::{not_null, put};
use crate::communicator::{finish_from_group, store};
use crate::text::exact;

pub(crate) unsafe fn comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> Result<()> {
    let inter = with(|p| p.comm(comm.0).map(objects::Comm::is_inter))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(flag, c_int::from(inter), "flag") }
}

/// Returns the remote group, otherwise MPI_ERR_COMM.
fn remote(comm: MPI_Comm) -> Result<objects::Group> {
    with(|p| {
        let comm = p.comm(comm.0)?;
        let remote = comm.remote().cloned();
        remote.ok_or_else(|| {
            Error::new(
                Class::Comm,
                format!("no remote group: {} is not an intercommunicator", comm.describe()),
            )
        })
    })
}

pub(crate) unsafe fn comm_remote_size(comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    let members = remote(comm)?.size();
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(size, members as c_int, "size") }
}

pub(crate) unsafe fn comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> Result<()> {
    let members = remote(comm)?;
    let session = with(|p| p.comm(comm.0).map(objects::Comm::session))?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::group::store(group, members, session) }
}

pub(crate) unsafe fn comm_get_parent(parent: *mut MPI_Comm) -> Result<()> {
    let handle = with(runtime::Process::parent_comm)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(parent, MPI_Comm(handle), "parent") }
}

/// Checks a rank that was given as an `int`.
fn leader(rank: c_int) -> Result<u32> {
    u32::try_from(rank).map_err(|_| {
        Error::new(Class::Rank, format!("invalid local leader {rank}: must not be negative"))
    })
}

pub(crate) unsafe fn intercomm_create(
    local_comm: MPI_Comm,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newintercomm, "newintercomm")?;
    let made =
        intercomm::create(local_comm.0, leader(local_leader)?, (peer_comm.0, remote_leader), tag)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newintercomm, Some(made)) }
}

pub(crate) unsafe fn intercomm_merge(
    intercomm: MPI_Comm,
    high: c_int,
    newintracomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newintracomm, "newintracomm")?;
    let made = intercomm::merge(intercomm.0, high != 0)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newintracomm, Some(made)) }
}

pub(crate) unsafe fn intercomm_create_from_groups(
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: *mut MPI_Comm,
) -> Result<()> {
    let handler = crate::errhandler::attachable(errhandler, Raiser::Comm)?;
    let make = || {
        not_null(newintercomm, "newintercomm")?;
        let hints = crate::info::optional(info)?;
        // SAFETY: null is refused; any other string is terminated, by the user's promise.
        let tag = unsafe { exact(stringtag, "stringtag")? };
        let local = with(|p| p.group(local_group.0))?;
        // Significant at the leader only.
        let remote = with(|p| p.group(remote_group.0));
        let made = intercomm::create_from_groups(
            (&local, leader(local_leader)?),
            (remote, remote_leader),
            tag,
        )?;
        // SAFETY: checked not to be null; valid by the user's promise.
        unsafe { finish_from_group(made, local_group, &hints, handler, newintercomm) }
    };
    // The handler is for errors here too (MPI-5.0 §7.6.2).
    make().map_err(|error| error.through(handler))
}
