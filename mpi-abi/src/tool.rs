//! MPI-5.0 §15.3: the tool information interface: initialisation, enumerations, control variables,
//! categories.

use std::os::raw::{c_char, c_int, c_ulonglong, c_void};

use runtime::tools::{self, CvarKind, CvarValue, ToolError, cvar_kind, with_tools};

use crate::abi::{MPI_Datatype, MPI_T_cvar_handle, MPI_T_enum};
use crate::constants::*;
use crate::tool_text::{c_text, put_list, put_text, put_value, store};

/// Returns the code of a call's result.
pub(crate) fn code(result: Result<(), ToolError>) -> c_int {
    match result {
        Ok(()) => MPI_SUCCESS,
        Err(ToolError::NotInitialized) => MPI_T_ERR_NOT_INITIALIZED,
        Err(ToolError::Invalid) => MPI_T_ERR_INVALID,
        Err(ToolError::InvalidIndex) => MPI_T_ERR_INVALID_INDEX,
        Err(ToolError::InvalidItem) => MPI_T_ERR_INVALID_ITEM,
        Err(ToolError::InvalidSession) => MPI_T_ERR_INVALID_SESSION,
        Err(ToolError::InvalidHandle) => MPI_T_ERR_INVALID_HANDLE,
        Err(ToolError::InvalidName) => MPI_T_ERR_INVALID_NAME,
        Err(ToolError::CvarSetNotNow) => MPI_T_ERR_CVAR_SET_NOT_NOW,
        Err(ToolError::PvarNoWrite) => MPI_T_ERR_PVAR_NO_WRITE,
        Err(ToolError::PvarNoStartstop) => MPI_T_ERR_PVAR_NO_STARTSTOP,
    }
}

/// Runs a call while the interface is initialised, and returns its code.
pub(crate) fn initialized(call: impl FnOnce() -> Result<(), ToolError>) -> c_int {
    code(with_tools(|_| Ok(())).and_then(|()| call()))
}

pub(crate) unsafe fn t_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    if !runtime::THREAD_LEVELS.contains(&required) {
        return MPI_T_ERR_INVALID;
    }
    tools::initialize();
    // Calls are safe from any thread, whatever is required.
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    unsafe { put_value(provided, runtime::THREAD_LEVELS[3]) };
    MPI_SUCCESS
}

pub(crate) unsafe fn t_finalize() -> c_int {
    code(tools::finalize())
}

/// Returns the words of an enumeration. Its handle is one more than the index of its variable.
fn words(enumtype: MPI_T_enum) -> Result<(&'static str, &'static [&'static str]), ToolError> {
    let index = enumtype.0.checked_sub(1).and_then(|index| i32::try_from(index).ok());
    let knob = tools::cvar(index.ok_or(ToolError::InvalidHandle)?)
        .map_err(|_| ToolError::InvalidHandle)?;
    match tools::cvar_words(knob) {
        [] => Err(ToolError::InvalidHandle),
        words => Ok((knob.name, words)),
    }
}

pub(crate) unsafe fn t_enum_get_info(
    enumtype: MPI_T_enum,
    num: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    initialized(|| {
        let (text, words) = words(enumtype)?;
        // SAFETY: the user's pointers and lengths, by the standard's promise.
        unsafe {
            put_value(num, words.len() as c_int);
            put_text(name, name_len, text);
        }
        Ok(())
    })
}

pub(crate) unsafe fn t_enum_get_item(
    enumtype: MPI_T_enum,
    index: c_int,
    value: *mut c_int,
    name: *mut c_char,
    name_len: *mut c_int,
) -> c_int {
    initialized(|| {
        let (_, words) = words(enumtype)?;
        let word = usize::try_from(index).ok().and_then(|at| words.get(at));
        let word = word.ok_or(ToolError::InvalidItem)?;
        // SAFETY: the user's pointers and lengths, by the standard's promise.
        unsafe {
            put_value(value, index);
            put_text(name, name_len, word);
        }
        Ok(())
    })
}

pub(crate) unsafe fn t_cvar_get_num(num_cvar: *mut c_int) -> c_int {
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    initialized(|| unsafe { store(num_cvar, tools::cvar_count()) })
}

pub(crate) unsafe fn t_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    initialized(|| {
        let knob = tools::cvar(cvar_index)?;
        let (ty, words) = match cvar_kind(knob) {
            CvarKind::Number => (MPI_UNSIGNED_LONG_LONG, MPI_T_ENUM_NULL),
            CvarKind::Word => (MPI_INT, MPI_T_enum(cvar_index as usize + 1)),
            CvarKind::Text => (MPI_CHAR, MPI_T_ENUM_NULL),
        };
        // SAFETY: the user's pointers and lengths, by the standard's promise.
        unsafe {
            put_text(name, name_len, knob.name);
            put_text(desc, desc_len, knob.help);
            put_value(verbosity, MPI_T_VERBOSITY_TUNER_BASIC);
            put_value(datatype, ty);
            put_value(enumtype, words);
            put_value(bind, MPI_T_BIND_NO_OBJECT);
            put_value(scope, MPI_T_SCOPE_ALL_EQ);
        }
        Ok(())
    })
}

pub(crate) unsafe fn t_cvar_get_index(name: *const c_char, cvar_index: *mut c_int) -> c_int {
    initialized(|| {
        // SAFETY: the user's string.
        let index = tools::cvar_named(unsafe { c_text(name) }?)?;
        // SAFETY: null is skipped; any other pointer is valid by the user's promise.
        unsafe { store(cvar_index, index) }
    })
}

pub(crate) unsafe fn t_cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_cvar_handle,
    count: *mut c_int,
) -> c_int {
    initialized(|| {
        let elements = match cvar_kind(tools::cvar(cvar_index)?) {
            CvarKind::Text => CvarKind::TEXT_LEN as c_int,
            CvarKind::Number | CvarKind::Word => 1,
        };
        // SAFETY: null is skipped; any other pointer is valid by the user's promise.
        unsafe {
            put_value(handle, MPI_T_cvar_handle(cvar_index as usize + 1));
            put_value(count, elements);
        }
        Ok(())
    })
}

/// Returns the index of a variable. Its handle is one more.
fn index_of(handle: MPI_T_cvar_handle) -> Result<c_int, ToolError> {
    let index = handle.0.checked_sub(1).and_then(|index| c_int::try_from(index).ok());
    let index = index.ok_or(ToolError::InvalidHandle)?;
    tools::cvar(index).map(|_| index).map_err(|_| ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_cvar_handle_free(handle: *mut MPI_T_cvar_handle) -> c_int {
    initialized(|| {
        // SAFETY: null is refused; any other pointer is valid by the user's promise.
        let handle = unsafe { handle.as_mut() }.ok_or(ToolError::Invalid)?;
        index_of(std::mem::replace(handle, MPI_T_CVAR_HANDLE_NULL)).map(|_| ())
    })
}

pub(crate) unsafe fn t_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> c_int {
    initialized(|| {
        let index = index_of(handle)?;
        if buf.is_null() {
            return Err(ToolError::Invalid);
        }
        let value = tools::read_cvar(index)?;
        // SAFETY: not null, and as large as MPI_T_cvar_handle_alloc has said.
        unsafe {
            match value {
                CvarValue::Number(number) => buf.cast::<c_ulonglong>().write_unaligned(number),
                CvarValue::Word(word) => buf.cast::<c_int>().write_unaligned(word),
                CvarValue::Text(text) => {
                    let mut len = CvarKind::TEXT_LEN as c_int;
                    put_text(buf.cast(), &mut len, &text);
                }
            }
        }
        Ok(())
    })
}

pub(crate) unsafe fn t_cvar_write(handle: MPI_T_cvar_handle, buf: *const c_void) -> c_int {
    initialized(|| {
        let index = index_of(handle)?;
        if buf.is_null() {
            return Err(ToolError::Invalid);
        }
        let kind = cvar_kind(tools::cvar(index)?);
        // SAFETY: not null, and of the type that MPI_T_cvar_get_info has named; texts are
        // terminated.
        let value = unsafe {
            match kind {
                CvarKind::Number => CvarValue::Number(buf.cast::<c_ulonglong>().read_unaligned()),
                CvarKind::Word => CvarValue::Word(buf.cast::<c_int>().read_unaligned()),
                CvarKind::Text => CvarValue::Text(c_text(buf.cast())?.to_owned()),
            }
        };
        tools::write_cvar(index, &value)
    })
}

fn category(index: c_int) -> Result<tools::Category, ToolError> {
    let at = usize::try_from(index).map_err(|_| ToolError::InvalidIndex)?;
    tools::categories().into_iter().nth(at).ok_or(ToolError::InvalidIndex)
}

pub(crate) unsafe fn t_category_get_num(num_cat: *mut c_int) -> c_int {
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    initialized(|| unsafe { store(num_cat, tools::categories().len() as c_int) })
}

pub(crate) unsafe fn t_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> c_int {
    initialized(|| {
        let category = category(cat_index)?;
        // SAFETY: the user's pointers and lengths, by the standard's promise.
        unsafe {
            put_text(name, name_len, category.name);
            put_text(desc, desc_len, category.help);
            put_value(num_cvars, category.cvars.len() as c_int);
            put_value(num_pvars, category.pvars.len() as c_int);
            put_value(num_categories, 0);
        }
        Ok(())
    })
}

pub(crate) unsafe fn t_category_get_index(name: *const c_char, cat_index: *mut c_int) -> c_int {
    initialized(|| {
        // SAFETY: the user's string.
        let name = unsafe { c_text(name) }?;
        let found = tools::categories().iter().position(|category| category.name == name);
        let index = found.ok_or(ToolError::InvalidName)? as c_int;
        // SAFETY: null is skipped; any other pointer is valid by the user's promise.
        unsafe { store(cat_index, index) }
    })
}

pub(crate) unsafe fn t_category_get_num_events(cat_index: c_int, num_events: *mut c_int) -> c_int {
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    initialized(|| category(cat_index).map(|_| unsafe { put_value(num_events, 0) }))
}

pub(crate) unsafe fn t_category_get_cvars(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> c_int {
    // SAFETY: `indices` has `len` elements, by the user's promise.
    initialized(|| unsafe { put_list(indices, len, &category(cat_index)?.cvars) })
}

pub(crate) unsafe fn t_category_get_pvars(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> c_int {
    // SAFETY: `indices` has `len` elements, by the user's promise.
    initialized(|| unsafe { put_list(indices, len, &category(cat_index)?.pvars) })
}

pub(crate) unsafe fn t_category_get_events(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> c_int {
    // SAFETY: `indices` has `len` elements, by the user's promise.
    initialized(|| category(cat_index).and_then(|_| unsafe { put_list(indices, len, &[]) }))
}

pub(crate) unsafe fn t_category_get_categories(
    cat_index: c_int,
    len: c_int,
    indices: *mut c_int,
) -> c_int {
    // SAFETY: `indices` has `len` elements, by the user's promise.
    initialized(|| category(cat_index).and_then(|_| unsafe { put_list(indices, len, &[]) }))
}

pub(crate) unsafe fn t_category_changed(update_number: *mut c_int) -> c_int {
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    initialized(|| unsafe { store(update_number, 0) })
}
