//! MPI-5.0 §11.3: sessions, their process sets, and groups made from them.

use std::os::raw::{c_char, c_int};

use objects::errhandler::Raiser;
use objects::{Class, Error, Info, Result};
use runtime::session::{self, PSETS};
use runtime::{predefined, with};

use crate::abi::{MPI_Errhandler, MPI_Group, MPI_Info, MPI_Session};
use crate::args::{not_null, null_argument, put, slice_mut};
use crate::info_env::{level_named, thread_level};
use crate::text::text;

/// The info key of the requested and of the provided thread level.
const THREAD_LEVEL: &str = "thread_level";

pub(crate) unsafe fn session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> Result<()> {
    let handler = crate::errhandler::attachable(errhandler, Raiser::Session)?;
    let open = || {
        not_null(session, "session")?;
        let level = crate::info::optional(info)?.value(THREAD_LEVEL)?.and_then(level_named);
        let handle = session::init(handler, level)?;
        // SAFETY: not null, and valid by the user's promise.
        unsafe { put(session, MPI_Session(handle), "session") }
    };
    // No session with a handler exists yet.
    open().map_err(|error| error.through(handler))
}

pub(crate) unsafe fn session_finalize(session: *mut MPI_Session) -> Result<()> {
    not_null(session, "session")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *session };
    session::finalize(handle.0)?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(session, MPI_Session(predefined::SESSION_NULL), "session") }
}

pub(crate) unsafe fn session_get_info(
    session: MPI_Session,
    info_used: *mut MPI_Info,
) -> Result<()> {
    let level = with(|p| p.session(session.0).map(|session| session.thread_level))?;
    let mut info = Info::new();
    info.set(THREAD_LEVEL, thread_level(level).unwrap_or_default())?;
    info.set("mpi_memory_alloc_kinds", "mpi,system")?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::info::store(info_used, info) }
}

/// Checks a session handle.
fn check(session: MPI_Session) -> Result<()> {
    with(|p| p.session(session.0).map(|_| ()))
}

pub(crate) unsafe fn session_get_num_psets(
    session: MPI_Session,
    info: MPI_Info,
    npset_names: *mut c_int,
) -> Result<()> {
    check(session)?;
    crate::info::optional(info)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(npset_names, PSETS.len() as c_int, "npset_names") }
}

pub(crate) unsafe fn session_get_nth_pset(
    session: MPI_Session,
    info: MPI_Info,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> Result<()> {
    check(session)?;
    crate::info::optional(info)?;
    let name = usize::try_from(n).ok().and_then(|n| PSETS.get(n));
    let name = name.ok_or_else(|| {
        Error::new(
            Class::Arg,
            format!("invalid process set number {n}: must be 0 to {}", PSETS.len() - 1),
        )
    })?;
    // SAFETY: null is refused; other pointers are valid by the user's promise, and the buffer has
    // `*pset_len` characters.
    unsafe {
        let capacity = *pset_len.as_ref().ok_or_else(|| null_argument("pset_len"))?;
        let out = slice_mut(pset_name.cast::<u8>(), capacity.into(), "pset_name")?;
        if let Some((end, out)) = out.split_last_mut() {
            let fits = name.len().min(out.len());
            out[..fits].copy_from_slice(&name.as_bytes()[..fits]);
            *out.get_mut(fits).unwrap_or(end) = 0;
        }
        put(pset_len, name.len() as c_int + 1, "pset_len")
    }
}

pub(crate) unsafe fn session_get_pset_info(
    session: MPI_Session,
    pset_name: *const c_char,
    info: *mut MPI_Info,
) -> Result<()> {
    check(session)?;
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let name = unsafe { text(pset_name, "pset_name")? };
    let members = with(|p| p.pset(&name))?.size();
    let mut found = Info::new();
    found.set("mpi_size", members.to_string())?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::info::store(info, found) }
}

pub(crate) unsafe fn group_from_session_pset(
    session: MPI_Session,
    pset_name: *const c_char,
    newgroup: *mut MPI_Group,
) -> Result<()> {
    check(session)?;
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let name = unsafe { text(pset_name, "pset_name")? };
    let members = with(|p| p.pset(&name))?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::group::store(newgroup, members, session.0) }
}
