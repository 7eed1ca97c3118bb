//! MPI-5.0 §15.3.7: performance variables of the tool information interface.

use std::os::raw::{c_char, c_int, c_ulonglong, c_void};

use runtime::tools::{self, ToolError, with_tools};

use crate::abi::{MPI_Datatype, MPI_T_enum, MPI_T_pvar_handle, MPI_T_pvar_session};
use crate::constants::*;
use crate::tool::{code, initialized};
use crate::tool_text::{c_text, put_text, put_value, store};

pub(crate) unsafe fn t_pvar_get_num(num_pvar: *mut c_int) -> c_int {
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    initialized(|| unsafe { store(num_pvar, tools::pvars().len() as c_int) })
}

pub(crate) unsafe fn t_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> c_int {
    initialized(|| {
        let pvar = tools::pvar(pvar_index)?;
        // SAFETY: the user's pointers and lengths, by the standard's promise.
        unsafe {
            put_text(name, name_len, pvar.name);
            put_text(desc, desc_len, pvar.help);
            put_value(verbosity, MPI_T_VERBOSITY_USER_BASIC);
            put_value(var_class, MPI_T_PVAR_CLASS_LEVEL);
            put_value(datatype, MPI_UNSIGNED_LONG_LONG);
            put_value(enumtype, MPI_T_ENUM_NULL);
            put_value(bind, MPI_T_BIND_NO_OBJECT);
            put_value(readonly, 1);
            put_value(continuous, 1);
            put_value(atomic, 0);
        }
        Ok(())
    })
}

pub(crate) unsafe fn t_pvar_get_index(
    name: *const c_char,
    var_class: c_int,
    pvar_index: *mut c_int,
) -> c_int {
    initialized(|| {
        // SAFETY: the user's string.
        let index = tools::pvar_named(unsafe { c_text(name) }?)?;
        if var_class != MPI_T_PVAR_CLASS_LEVEL {
            return Err(ToolError::InvalidName);
        }
        // SAFETY: null is skipped; any other pointer is valid by the user's promise.
        unsafe { store(pvar_index, index) }
    })
}

pub(crate) unsafe fn t_pvar_session_create(session: *mut MPI_T_pvar_session) -> c_int {
    code(with_tools(|tools| {
        if session.is_null() {
            return Err(ToolError::Invalid);
        }
        // SAFETY: not null, and valid by the user's promise.
        unsafe { put_value(session, MPI_T_pvar_session(tools.sessions.create())) };
        Ok(())
    }))
}

pub(crate) unsafe fn t_pvar_session_free(session: *mut MPI_T_pvar_session) -> c_int {
    code(with_tools(|tools| {
        // SAFETY: null is refused; any other pointer is valid by the user's promise.
        let session = unsafe { session.as_mut() }.ok_or(ToolError::Invalid)?;
        tools.sessions.free(session.0)?;
        *session = MPI_T_PVAR_SESSION_NULL;
        Ok(())
    }))
}

pub(crate) unsafe fn t_pvar_handle_alloc(
    session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_pvar_handle,
    count: *mut c_int,
) -> c_int {
    code(with_tools(|tools| {
        let id = tools.sessions.alloc(session.0, pvar_index)?;
        // SAFETY: null is skipped; any other pointer is valid by the user's promise.
        unsafe {
            put_value(handle, MPI_T_pvar_handle(id));
            put_value(count, 1);
        }
        Ok(())
    }))
}

pub(crate) unsafe fn t_pvar_handle_free(
    session: MPI_T_pvar_session,
    handle: *mut MPI_T_pvar_handle,
) -> c_int {
    code(with_tools(|tools| {
        // SAFETY: null is refused; any other pointer is valid by the user's promise.
        let handle = unsafe { handle.as_mut() }.ok_or(ToolError::Invalid)?;
        tools.sessions.free_handle(session.0, handle.0)?;
        *handle = MPI_T_PVAR_HANDLE_NULL;
        Ok(())
    }))
}

/// Refuses what these variables do not permit; calls for all handles skip them.
fn refuse(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, why: ToolError) -> c_int {
    let id = (handle != MPI_T_PVAR_ALL_HANDLES).then_some(handle.0);
    code(with_tools(|tools| tools.sessions.refuse(session.0, id, why)))
}

pub(crate) unsafe fn t_pvar_start(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    refuse(session, handle, ToolError::PvarNoStartstop)
}

pub(crate) unsafe fn t_pvar_stop(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    refuse(session, handle, ToolError::PvarNoStartstop)
}

pub(crate) unsafe fn t_pvar_read(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    code(with_tools(|tools| tools.sessions.index(session.0, handle.0)).and_then(|index| {
        if buf.is_null() {
            return Err(ToolError::Invalid);
        }
        let value = tools::pvar(index)?.read();
        // SAFETY: not null, and valid for one element by the user's promise.
        unsafe { buf.cast::<c_ulonglong>().write_unaligned(value) };
        Ok(())
    }))
}

pub(crate) unsafe fn t_pvar_write(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    _buf: *const c_void,
) -> c_int {
    refuse(session, handle, ToolError::PvarNoWrite)
}

pub(crate) unsafe fn t_pvar_reset(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    refuse(session, handle, ToolError::PvarNoWrite)
}

pub(crate) unsafe fn t_pvar_readreset(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    _buf: *mut c_void,
) -> c_int {
    refuse(session, handle, ToolError::PvarNoWrite)
}
