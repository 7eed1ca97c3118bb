//! Texts whose limits are lower than the standard's, clocks, addresses, and fields of statuses.

use crate::generated::values::limits::*;
use crate::generated::values::standard_limits as standard;
use crate::prelude::*;
use crate::text;

/// Texts with their length, which are cut.
macro_rules! texts {
    ($($body:ident($($argument:ident: $ctype:ty = $standard:expr)?), $below:ident, $limit:ident;)*)
    => {$(
        pub(crate) unsafe fn $body(
            $($argument: $ctype,)?
            text: *mut c_char,
            resultlen: *mut c_int,
        ) -> c_int {
            let (mut long, mut length) = ([0; standard::$limit], 0);
            // SAFETY: memory of the standard's limit, and the caller's of its ABI's.
            unsafe {
                let code = (library().$below)(
                    $($standard,)?
                    given_room(text, long.as_mut_ptr()),
                    given_room(resultlen, &raw mut length),
                );
                if code == SUCCESS {
                    *resultlen = text::copy(long.as_ptr(), text, $limit).0 as c_int;
                }
                code::from_standard(code)
            }
        }
    )*};
}

/// The address of `ours`, which stands for the user's; null if that is.
fn given_room<T>(users: *mut T, ours: *mut T) -> *mut T {
    if users.is_null() { users } else { ours }
}

// Bodies: get_processor_name get_library_version error_string
// Bodies: comm_get_name type_get_name win_get_name
texts! {
    get_processor_name(), PMPI_Get_processor_name, MPI_MAX_PROCESSOR_NAME;
    get_library_version(), PMPI_Get_library_version, MPI_MAX_LIBRARY_VERSION_STRING;
    error_string(errorcode: c_int = code::to_standard(errorcode)), PMPI_Error_string,
        MPI_MAX_ERROR_STRING;
    comm_get_name(comm: MPI_Comm = comm.to_standard()), PMPI_Comm_get_name, MPI_MAX_OBJECT_NAME;
    type_get_name(datatype: MPI_Datatype = datatype.to_standard()), PMPI_Type_get_name,
        MPI_MAX_OBJECT_NAME;
    win_get_name(win: MPI_Win = win.to_standard()), PMPI_Win_get_name, MPI_MAX_OBJECT_NAME;
}

/// A port's name that is cut leads nowhere; one that is too long is an error.
pub(crate) unsafe fn open_port(info: MPI_Info, port_name: *mut c_char) -> c_int {
    let mut long = [0; standard::MPI_MAX_PORT_NAME];
    // SAFETY: memory of the standard's limit, and the caller's of its ABI's.
    unsafe {
        let code = (library().PMPI_Open_port)(info.to_standard(), long.as_mut_ptr());
        if code == SUCCESS && !text::copy(long.as_ptr(), port_name, MPI_MAX_PORT_NAME).1 {
            (library().PMPI_Close_port)(long.as_ptr());
            return code::PORT;
        }
        code::from_standard(code)
    }
}

pub(crate) unsafe fn lookup_name(
    service_name: *const c_char,
    info: MPI_Info,
    port_name: *mut c_char,
) -> c_int {
    let mut long = [0; standard::MPI_MAX_PORT_NAME];
    // SAFETY: memory of the standard's limit, and the caller's arguments.
    unsafe {
        let code =
            (library().PMPI_Lookup_name)(service_name, info.to_standard(), long.as_mut_ptr());
        if code == SUCCESS && !text::copy(long.as_ptr(), port_name, MPI_MAX_PORT_NAME).1 {
            return code::PORT;
        }
        code::from_standard(code)
    }
}

pub(crate) unsafe fn info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> c_int {
    let mut long = [0; standard::MPI_MAX_INFO_KEY];
    // SAFETY: memory of the standard's limit, and the caller's of its ABI's.
    unsafe {
        let code = (library().PMPI_Info_get_nthkey)(info.to_standard(), n, long.as_mut_ptr());
        if code == SUCCESS {
            text::copy(long.as_ptr(), key, MPI_MAX_INFO_KEY);
        }
        code::from_standard(code)
    }
}

pub(crate) unsafe fn wtime() -> f64 {
    // SAFETY: takes nothing.
    unsafe { (library().PMPI_Wtime)() }
}

pub(crate) unsafe fn wtick() -> f64 {
    // SAFETY: takes nothing.
    unsafe { (library().PMPI_Wtick)() }
}

pub(crate) unsafe fn aint_add(base: i64, disp: i64) -> i64 {
    base.wrapping_add(disp)
}

pub(crate) unsafe fn aint_diff(addr1: i64, addr2: i64) -> i64 {
    addr1.wrapping_sub(addr2)
}

/// The fields of a status, which are the same for the user and here.
macro_rules! fields {
    ($($get:ident, $set:ident, $field:ident;)*) => {
        $(
            pub(crate) unsafe fn $get(status: *const MPI_Status, value: *mut c_int) -> c_int {
                if is_ignored(status) || value.is_null() {
                    return code::ARG;
                }
                // SAFETY: the caller's arguments.
                unsafe { *value = (*status).$field };
                SUCCESS
            }

            pub(crate) unsafe fn $set(status: *mut MPI_Status, value: c_int) -> c_int {
                if is_ignored(status) {
                    return code::ARG;
                }
                // SAFETY: the caller's argument.
                unsafe { (*status).$field = value };
                SUCCESS
            }
        )*
    };
}

// Bodies: status_get_source status_get_tag status_get_error
// Bodies: status_set_source status_set_tag status_set_error
fields! {
    status_get_source, status_set_source, MPI_SOURCE;
    status_get_tag, status_set_tag, MPI_TAG;
    status_get_error, status_set_error, MPI_ERROR;
}

/// This library does not have the standard ABI.
pub(crate) unsafe fn abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
    // SAFETY: the caller's arguments.
    unsafe {
        *abi_major = -1;
        *abi_minor = -1;
    }
    SUCCESS
}
