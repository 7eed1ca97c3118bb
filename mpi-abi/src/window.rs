//! MPI-5.0 §12.2: windows: creation, memory, names, groups, hints.
//!
//! Errors of a creation are raised on the communicator, all others on the window.

use std::os::raw::{c_char, c_int, c_void};

use fabric::UserBuf;
use objects::errhandler::Raiser;
use objects::{Class, Error, Result};
use runtime::window::{Flavor, create, sync};
use runtime::{RaiseOn, predefined, with};

use crate::abi::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Errhandler, MPI_Group, MPI_Info, MPI_Win};
use crate::args::{not_null, null_argument, put};
use crate::constants::{MPI_MAX_OBJECT_NAME, MPI_PROC_NULL};
use crate::convert::CountOut;
use crate::text::{exact, put_text};

/// Creates a window and stores its handle and, if `baseptr` is given, its address.
unsafe fn make(
    flavor: Flavor,
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: MPI_Count,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Option<*mut c_void>,
    win: *mut MPI_Win,
) -> Result<()> {
    not_null(win, "win")?;
    if baseptr.is_some_and(<*mut c_void>::is_null) {
        return Err(null_argument("baseptr"));
    }
    let size = u64::try_from(size).map_err(|_| {
        Error::new(Class::Size, format!("invalid size {size}: must not be negative"))
    })?;
    if disp_unit <= 0 {
        return Err(Error::new(
            Class::Disp,
            format!("invalid disp_unit {disp_unit}: must be positive"),
        ));
    }
    if flavor == Flavor::Create && base.is_null() && size > 0 {
        return Err(Error::new(
            Class::Base,
            format!("null base with size {size}: must not be null"),
        ));
    }
    let info = crate::info::optional(info)?;
    // SAFETY: the user's memory, valid until the window is freed (MPI-5.0 §12.2.1).
    let memory = unsafe { UserBuf::new(base.cast(), size as usize) };
    let memory = if flavor == Flavor::Create { memory } else { UserBuf::EMPTY };
    let request = create::Request { flavor, memory, size, unit: disp_unit as u64, info };
    let (handle, address) = create::create(comm.0, &request)?;
    // SAFETY: neither is null; the user passes the address of a pointer as `baseptr`.
    unsafe {
        if let Some(baseptr) = baseptr {
            put(baseptr.cast::<usize>(), address, "baseptr")?;
        }
        put(win, MPI_Win(handle), "win")
    }
}

pub(crate) unsafe fn win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: MPI_Count,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> Result<()> {
    // SAFETY: the user's memory and pointers, passed on.
    unsafe { make(Flavor::Create, base, size, disp_unit, info, comm, None, win) }
}

pub(crate) unsafe fn win_allocate(
    size: MPI_Aint,
    disp_unit: MPI_Count,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> Result<()> {
    let none = std::ptr::null_mut();
    // SAFETY: the user's pointers, passed on.
    unsafe { make(Flavor::Allocate, none, size, disp_unit, info, comm, Some(baseptr), win) }
}

pub(crate) unsafe fn win_allocate_shared(
    size: MPI_Aint,
    disp_unit: MPI_Count,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> Result<()> {
    let none = std::ptr::null_mut();
    // SAFETY: the user's pointers, passed on.
    unsafe { make(Flavor::Shared, none, size, disp_unit, info, comm, Some(baseptr), win) }
}

pub(crate) unsafe fn win_create_dynamic(
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> Result<()> {
    let none = std::ptr::null_mut();
    // SAFETY: the user's pointer, passed on.
    unsafe { make(Flavor::Dynamic, none, 0, 1, info, comm, None, win) }
}

pub(crate) unsafe fn win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> Result<()> {
    let size = usize::try_from(size).map_err(|_| {
        Error::new(Class::Size, format!("invalid size {size}: must not be negative"))
    })?;
    if base.is_null() && size > 0 {
        return Err(Error::new(
            Class::Base,
            format!("null base with size {size}: must not be null"),
        ));
    }
    // SAFETY: the user's memory, valid until it is detached (MPI-5.0 §12.2.4).
    sync::attach(win.0, unsafe { UserBuf::new(base.cast(), size) })
}

pub(crate) unsafe fn win_detach(win: MPI_Win, base: *const c_void) -> Result<()> {
    sync::detach(win.0, base as u64)
}

pub(crate) unsafe fn win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: *mut MPI_Aint,
    disp_unit: CountOut,
    baseptr: *mut c_void,
) -> Result<()> {
    let rank = match rank {
        MPI_PROC_NULL => None,
        rank => Some(u32::try_from(rank).map_err(|_| {
            Error::new(Class::Rank, format!("invalid rank {rank}: must not be negative"))
        })?),
    };
    let (address, bytes, unit) = with(|p| p.shared_memory(win.0, rank))?;
    // SAFETY: null is refused; the user passes the address of a pointer as `baseptr`.
    unsafe {
        put(size, bytes as MPI_Aint, "size")?;
        disp_unit.put(unit as MPI_Count, "disp_unit")?;
        put(baseptr.cast::<usize>(), address, "baseptr")
    }
}

pub(crate) unsafe fn win_free(win: *mut MPI_Win) -> Result<()> {
    not_null(win, "win")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *win };
    create::check_free(handle.0)?;
    crate::attribute::delete_all_of_win(handle)?;
    create::free(handle.0)?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(win, MPI_Win(predefined::WIN_NULL), "win") }
}

pub(crate) unsafe fn win_get_group(win: MPI_Win, group: *mut MPI_Group) -> Result<()> {
    let members = with(|p| p.win(win.0).map(|win| win.group.clone()))?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::group::store(group, members, 0) }
}

pub(crate) unsafe fn win_set_info(win: MPI_Win, info: MPI_Info) -> Result<()> {
    let hints = crate::info::optional(info)?;
    with(|p| p.win_mut(win.0)?.set_hints(&hints))
}

pub(crate) unsafe fn win_get_info(win: MPI_Win, info_used: *mut MPI_Info) -> Result<()> {
    let hints = with(|p| p.win(win.0)?.hints())?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::info::store(info_used, hints) }
}

pub(crate) unsafe fn win_set_name(win: MPI_Win, win_name: *const c_char) -> Result<()> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let name = unsafe { exact(win_name, "win_name")? };
    with(|p| p.name_window(win.0, name))
}

pub(crate) unsafe fn win_get_name(
    win: MPI_Win,
    win_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // MPI-5.0 §7.8: MPI_WIN_NULL has a name as well.
    let name = match win.0 {
        predefined::WIN_NULL => "MPI_WIN_NULL".into(),
        handle => with(|p| p.win(handle).map(|win| win.name().to_owned()))?,
    };
    // SAFETY: the user's buffer of MPI_MAX_OBJECT_NAME characters.
    unsafe { put_text(win_name, MPI_MAX_OBJECT_NAME, resultlen, &name) }
}

pub(crate) unsafe fn win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) -> Result<()> {
    with(|p| p.win(win.0).map(|_| ()))?;
    let handler = crate::errhandler::attachable(errhandler, Raiser::Win)?;
    with(|p| p.win_mut(win.0).map(|win| win.errhandler = handler))
}

pub(crate) unsafe fn win_get_errhandler(
    win: MPI_Win,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let handler = with(|p| p.win(win.0).map(|win| win.errhandler))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(errhandler, crate::errhandler::handle_of(handler), "errhandler") }
}

pub(crate) unsafe fn win_call_errhandler(win: MPI_Win, errorcode: c_int) -> Result<()> {
    let handler = with(|p| p.win(win.0).map(|win| win.errhandler))?;
    let on = RaiseOn::Win(win.0);
    crate::errhandler::call(handler, on, errorcode, "MPI_Win_call_errhandler")
}
