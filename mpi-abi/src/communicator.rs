//! MPI-5.0 §7.4 and §7.8: communicators, their names and hints.
//!
//! Creation is collective and may run the user's attribute functions. It therefore has steps: agree
//! (outside the process lock), copy attributes (user code), insert.

use std::os::raw::{c_char, c_int};

use objects::errhandler::Raiser;
use objects::{Class, Comm, Errhandler, Error, Info, Result};
use runtime::hardware::Resource;
use runtime::other_jobs::{complete_before_disconnect, meet_before_disconnect};
use runtime::split::{self, SplitBy};
use runtime::{block_on, collective, communicator, predefined, with};

use crate::abi::{MPI_Comm, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Request};
use crate::args::{UNDEFINED, not_null, put};
use crate::constants::{
    MPI_COMM_TYPE_HW_GUIDED, MPI_COMM_TYPE_HW_UNGUIDED, MPI_COMM_TYPE_RESOURCE_GUIDED,
    MPI_COMM_TYPE_SHARED, MPI_CONGRUENT, MPI_IDENT, MPI_MAX_OBJECT_NAME, MPI_SIMILAR, MPI_UNEQUAL,
};
use crate::text::{exact, put_text};

/// Stores the handle of a new communicator; `None` stores MPI_COMM_NULL.
///
/// # Safety
/// `newcomm` is null or valid for a write.
pub(super) unsafe fn store(newcomm: *mut MPI_Comm, comm: Option<Comm>) -> Result<()> {
    let handle = comm.map_or(predefined::COMM_NULL, |comm| with(|p| p.comms.insert(comm)) as usize);
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(newcomm, MPI_Comm(handle), "newcomm") }
}

pub(crate) unsafe fn comm_size(comm: MPI_Comm, size: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    with(|p| unsafe { put(size, p.comm(comm.0)?.size() as c_int, "size") })
}

pub(crate) unsafe fn comm_rank(comm: MPI_Comm, rank: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    with(|p| unsafe { put(rank, p.comm(comm.0)?.rank() as c_int, "rank") })
}

pub(crate) unsafe fn comm_compare(
    comm1: MPI_Comm,
    comm2: MPI_Comm,
    result: *mut c_int,
) -> Result<()> {
    let same = with(|p| Ok(p.comm(comm1.0)?.compare(p.comm(comm2.0)?)))?;
    let same = match same {
        objects::Comparison::Ident => MPI_IDENT,
        objects::Comparison::Congruent => MPI_CONGRUENT,
        objects::Comparison::Similar => MPI_SIMILAR,
        objects::Comparison::Unequal => MPI_UNEQUAL,
    };
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(result, same, "result") }
}

pub(crate) unsafe fn comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> Result<()> {
    not_null(newcomm, "newcomm")?;
    let mut copy = communicator::duplicate(comm.0)?;
    crate::attribute::copy_comm(comm, &mut copy)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, Some(copy)) }
}

pub(crate) unsafe fn comm_dup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newcomm, "newcomm")?;
    let hints = crate::info::optional(info)?;
    collective::add_rules(&hints)?;
    let mut copy = communicator::duplicate(comm.0)?;
    crate::attribute::copy_comm(comm, &mut copy)?;
    copy.set_first_hints(&hints)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, Some(copy)) }
}

pub(crate) unsafe fn comm_idup(
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    // SAFETY: the user's pointers, passed on.
    unsafe { comm_idup_with_info(comm, MPI_Info(predefined::INFO_NULL), newcomm, request) }
}

pub(crate) unsafe fn comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(newcomm, "newcomm")?;
    not_null(request, "request")?;
    let hints = crate::info::optional(info)?;
    collective::add_rules(&hints)?;
    let (copy, pending) = communicator::iduplicate(comm.0)?;
    let finished = crate::attribute::copy_comm_into(comm, MPI_Comm(copy))
        .and_then(|()| with(|p| p.comm_mut(copy)?.set_first_hints(&hints)));
    if let Err(error) = finished {
        // The other members agree with this one on the context id, as in MPI_Comm_dup.
        with(|p| p.free_request(pending).and_then(|_| p.forget_comm(copy)))?;
        return Err(error);
    }
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe {
        put(newcomm, MPI_Comm(copy), "newcomm")?;
        put(request, MPI_Request(pending), "request")
    }
}

pub(crate) unsafe fn comm_create(
    comm: MPI_Comm,
    group: MPI_Group,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newcomm, "newcomm")?;
    let group = with(|p| p.group(group.0))?;
    let made = communicator::create(comm.0, &group)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, made) }
}

pub(crate) unsafe fn comm_create_group(
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newcomm, "newcomm")?;
    if tag < 0 {
        return Err(Error::new(Class::Tag, format!("invalid tag {tag}: must not be negative")));
    }
    let group = with(|p| p.group(group.0))?;
    let made = communicator::create_group(comm.0, &group, tag)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, made) }
}

pub(crate) unsafe fn comm_split(
    comm: MPI_Comm,
    color: c_int,
    key: c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newcomm, "newcomm")?;
    let color = match color {
        UNDEFINED => None,
        color => Some(u32::try_from(color).map_err(|_| {
            Error::new(
                Class::Arg,
                format!("invalid color {color}: must be MPI_UNDEFINED or at least 0"),
            )
        })?),
    };
    let made = split::split(comm.0, color, key)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, made) }
}

/// Sets session, hints and error handler of a communicator that was made of `group`, and stores its
/// handle.
///
/// # Safety
/// That of [`store`].
pub(super) unsafe fn finish_from_group(
    mut made: Comm,
    group: MPI_Group,
    hints: &Info,
    handler: Errhandler,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    made.set_session(with(|p| p.session_of_group(group.0)));
    collective::add_rules(hints)?;
    made.set_first_hints(hints)?;
    made.set_errhandler(handler);
    // SAFETY: the caller's promise, passed on.
    unsafe { store(newcomm, Some(made)) }
}

pub(crate) unsafe fn comm_create_from_group(
    group: MPI_Group,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    let handler = crate::errhandler::attachable(errhandler, Raiser::Comm)?;
    let make = || {
        not_null(newcomm, "newcomm")?;
        let hints = crate::info::optional(info)?;
        // SAFETY: null is refused; any other string is terminated, by the user's promise.
        let tag = unsafe { exact(stringtag, "stringtag")? };
        let members = with(|p| p.group(group.0))?;
        // SAFETY: checked not to be null; valid by the user's promise.
        match communicator::create_from_group(&members, tag)? {
            // SAFETY: the user's pointer, passed on.
            Some(made) => unsafe { finish_from_group(made, group, &hints, handler, newcomm) },
            // SAFETY: the user's pointer, passed on.
            None => unsafe { store(newcomm, None) },
        }
    };
    // The handler is for errors here too (MPI-5.0 §7.4.2).
    make().map_err(|error| error.through(handler))
}

/// The info key of the resource, and of the process set, to split by.
const RESOURCE_KEY: &str = "mpi_hw_resource_type";
const PSET_KEY: &str = "mpi_pset_name";

/// Returns what a split type and its hints request. An unknown resource gives no process a
/// communicator (MPI-5.0 §7.4.2).
fn split_by(split_type: c_int, hints: &Info) -> Result<SplitBy> {
    Ok(match split_type {
        UNDEFINED => SplitBy::Nothing,
        MPI_COMM_TYPE_SHARED => SplitBy::Resource(Resource::Host),
        MPI_COMM_TYPE_HW_UNGUIDED => SplitBy::Unguided,
        MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED => {
            match hints.value(RESOURCE_KEY)? {
                Some(name) => Resource::from_name(name).map_or(SplitBy::Nothing, SplitBy::Resource),
                None if split_type == MPI_COMM_TYPE_HW_GUIDED => SplitBy::Nothing,
                None => match hints.value(PSET_KEY)?.map(<[u8]>::to_ascii_lowercase).as_deref() {
                    Some(b"mpi://world") => SplitBy::World,
                    Some(b"mpi://self") => SplitBy::Alone,
                    _ => SplitBy::Nothing,
                },
            }
        }
        other => {
            return Err(Error::new(
                Class::Arg,
                format!("invalid split type {other}: must be an MPI_COMM_TYPE_ constant"),
            ));
        }
    })
}

pub(crate) unsafe fn comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newcomm, "newcomm")?;
    let hints = crate::info::optional(info)?;
    let split_by = split_by(split_type, &hints)?;
    collective::add_rules(&hints)?;
    let mut made = split::split_type(comm.0, split_by, key)?;
    if let Some((comm, _)) = &mut made {
        comm.set_first_hints(&hints)?;
    }
    if let Some((_, Some(chosen))) = &made
        && info.0 != predefined::INFO_NULL
    {
        crate::info::change(info, |info| info.set(RESOURCE_KEY, chosen.name()))?;
    }
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, made.map(|(comm, _)| comm)) }
}

pub(crate) unsafe fn comm_set_info(comm: MPI_Comm, info: MPI_Info) -> Result<()> {
    let hints = crate::info::optional(info)?;
    with(|p| p.comm_mut(comm.0)?.set_hints(&hints))
}

pub(crate) unsafe fn comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) -> Result<()> {
    let hints = with(|p| p.comm(comm.0)?.hints())?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::info::store(info_used, hints) }
}

pub(crate) unsafe fn comm_free(comm: *mut MPI_Comm) -> Result<()> {
    not_null(comm, "comm")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *comm };
    with(|p| p.comm(handle.0).map(|_| ()))?;
    if handle.0 < predefined::END {
        return Err(Error::new(Class::Comm, "cannot free a predefined communicator"));
    }
    crate::attribute::delete_all_of_comm(handle)?;
    // An attached buffer is detached with it (MPI-5.0 §3.6).
    block_on(|p| p.bsend.is_drained(handle.0).then(|| p.bsend.detach(handle.0)));
    with(|p| p.free_comm(handle.0))?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(comm, MPI_Comm(predefined::COMM_NULL), "comm") }
}

/// Frees the communicator like MPI_Comm_free, when all operations on it are complete (MPI-5.0
/// §11.10.4).
pub(crate) unsafe fn comm_disconnect(comm: *mut MPI_Comm) -> Result<()> {
    not_null(comm, "comm")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *comm };
    let context = with(|p| p.comm(handle.0).map(objects::Comm::context))?;
    complete_before_disconnect(context);
    meet_before_disconnect(handle.0)?;
    // SAFETY: the user's pointer.
    unsafe { comm_free(comm) }?;
    with(|p| p.disconnect(context))
}

pub(crate) unsafe fn comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> Result<()> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let name = unsafe { exact(comm_name, "comm_name")? };
    with(|p| p.comm_mut(comm.0).map(|comm| comm.set_name(name)))
}

pub(crate) unsafe fn comm_get_name(
    comm: MPI_Comm,
    comm_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // MPI-5.0 §7.8: MPI_COMM_NULL has a name as well.
    let name = match comm.0 {
        predefined::COMM_NULL => "MPI_COMM_NULL".into(),
        handle => with(|p| p.comm(handle).map(|comm| comm.name().to_owned()))?,
    };
    // SAFETY: the user's buffer of MPI_MAX_OBJECT_NAME characters.
    unsafe { put_text(comm_name, MPI_MAX_OBJECT_NAME, resultlen, &name) }
}
