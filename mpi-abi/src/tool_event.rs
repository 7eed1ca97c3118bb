//! MPI-5.0 §15.3.8: events of the tool information interface. There are none, and no sources;
//! therefore no index, name or handle is valid.

use std::os::raw::{c_char, c_int, c_void};

use runtime::tools::ToolError;

use crate::abi::*;
use crate::tool::initialized;
use crate::tool_text::store;

fn refuse(why: ToolError) -> c_int {
    initialized(|| Err(why))
}

pub(crate) unsafe fn t_source_get_num(num_sources: *mut c_int) -> c_int {
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    initialized(|| unsafe { store(num_sources, 0) })
}

pub(crate) unsafe fn t_source_get_info(
    _source_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _ordering: *mut MPI_T_source_order,
    _ticks_per_second: *mut MPI_Count,
    _max_ticks: *mut MPI_Count,
    _info: *mut MPI_Info,
) -> c_int {
    refuse(ToolError::InvalidIndex)
}

pub(crate) unsafe fn t_source_get_timestamp(
    _source_index: c_int,
    _timestamp: *mut MPI_Count,
) -> c_int {
    refuse(ToolError::InvalidIndex)
}

pub(crate) unsafe fn t_event_get_num(num_events: *mut c_int) -> c_int {
    // SAFETY: null is skipped; any other pointer is valid by the user's promise.
    initialized(|| unsafe { store(num_events, 0) })
}

pub(crate) unsafe fn t_event_get_info(
    _event_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _verbosity: *mut c_int,
    _datatypes: *mut MPI_Datatype,
    _displacements: *mut MPI_Aint,
    _num_elements: *mut c_int,
    _enumtype: *mut MPI_T_enum,
    _info: *mut MPI_Info,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _bind: *mut c_int,
) -> c_int {
    refuse(ToolError::InvalidIndex)
}

pub(crate) unsafe fn t_event_get_index(_name: *const c_char, _event_index: *mut c_int) -> c_int {
    refuse(ToolError::InvalidName)
}

pub(crate) unsafe fn t_event_handle_alloc(
    _event_index: c_int,
    _obj_handle: *mut c_void,
    _info: MPI_Info,
    _registration: *mut MPI_T_event_registration,
) -> c_int {
    refuse(ToolError::InvalidIndex)
}

pub(crate) unsafe fn t_event_handle_free(
    _registration: MPI_T_event_registration,
    _user_data: *mut c_void,
    _free: Option<MPI_T_event_free_cb_function>,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_handle_get_info(
    _registration: MPI_T_event_registration,
    _info_used: *mut MPI_Info,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_handle_set_info(
    _registration: MPI_T_event_registration,
    _info: MPI_Info,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_register_callback(
    _registration: MPI_T_event_registration,
    _cb_safety: MPI_T_cb_safety,
    _info: MPI_Info,
    _user_data: *mut c_void,
    _callback: Option<MPI_T_event_cb_function>,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_callback_get_info(
    _registration: MPI_T_event_registration,
    _cb_safety: MPI_T_cb_safety,
    _info_used: *mut MPI_Info,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_callback_set_info(
    _registration: MPI_T_event_registration,
    _cb_safety: MPI_T_cb_safety,
    _info: MPI_Info,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_set_dropped_handler(
    _registration: MPI_T_event_registration,
    _dropped: Option<MPI_T_event_dropped_cb_function>,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_read(
    _event: MPI_T_event_instance,
    _element: c_int,
    _buffer: *mut c_void,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_copy(_event: MPI_T_event_instance, _buffer: *mut c_void) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_get_timestamp(
    _event: MPI_T_event_instance,
    _timestamp: *mut MPI_Count,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}

pub(crate) unsafe fn t_event_get_source(
    _event: MPI_T_event_instance,
    _source_index: *mut c_int,
) -> c_int {
    refuse(ToolError::InvalidHandle)
}
