//! Contents of datatypes, comparison of handles, and buffers that are detached.

use crate::prelude::*;

pub(crate) unsafe fn type_get_contents<const P: bool>(
    datatype: *mut c_int,
    max_integers: *mut c_int,
    max_addresses: *mut c_int,
    max_datatypes: *mut c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_datatypes: *mut c_int,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let datatype = MPI_Datatype::from_fortran(*datatype);
        let most = usize::try_from(*max_datatypes).unwrap_or(0);
        let mut types = vec![MPI_Datatype::NULL; most];
        let code = pick!(P, MPI_Type_get_contents, PMPI_Type_get_contents)(
            datatype,
            *max_integers,
            *max_addresses,
            *max_datatypes,
            array_of_integers,
            array_of_addresses,
            types.as_mut_ptr(),
        );
        if code == SUCCESS {
            let (mut integers, mut addresses, mut count, mut combiner) = (0, 0, 0, 0);
            c::PMPI_Type_get_envelope(
                datatype,
                &raw mut integers,
                &raw mut addresses,
                &raw mut count,
                &raw mut combiner,
            );
            store(&types, i64::from(count), array_of_datatypes);
        }
        code
    }
}

pub(crate) unsafe fn type_get_contents_c<const P: bool>(
    datatype: *mut c_int,
    max_integers: *mut i64,
    max_addresses: *mut i64,
    max_large_counts: *mut i64,
    max_datatypes: *mut i64,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_large_counts: *mut i64,
    array_of_datatypes: *mut c_int,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let datatype = MPI_Datatype::from_fortran(*datatype);
        let most = usize::try_from(*max_datatypes).unwrap_or(0);
        let mut types = vec![MPI_Datatype::NULL; most];
        let code = pick!(P, MPI_Type_get_contents_c, PMPI_Type_get_contents_c)(
            datatype,
            *max_integers,
            *max_addresses,
            *max_large_counts,
            *max_datatypes,
            array_of_integers,
            array_of_addresses,
            array_of_large_counts,
            types.as_mut_ptr(),
        );
        if code == SUCCESS {
            let (mut integers, mut addresses, mut counts) = (0, 0, 0);
            let (mut count, mut combiner) = (0, 0);
            c::PMPI_Type_get_envelope_c(
                datatype,
                &raw mut integers,
                &raw mut addresses,
                &raw mut counts,
                &raw mut count,
                &raw mut combiner,
            );
            store(&types, count, array_of_datatypes);
        }
        code
    }
}

/// Stores the first `count` datatypes.
unsafe fn store(types: &[MPI_Datatype], count: i64, to: *mut c_int) {
    let count = usize::try_from(count).unwrap_or(0);
    for (at, datatype) in types.iter().take(count).enumerate() {
        // SAFETY: the caller's array has the length of `types`.
        unsafe { to.add(at).write(datatype.to_fortran()) };
    }
}

macro_rules! detach {
    ($($body:ident, ($($object:ident: $class:ident)?), $call:ident, $profiled:ident;)*) => {
        $(
            /// `buffer_addr` has no meaning outside of `mpi_f08` (MPI-5.0 §3.6).
            pub(crate) unsafe fn $body<const P: bool>(
                $($object: *mut c_int,)?
                _buffer_addr: *mut c_void,
                size: *mut c_int,
            ) -> c_int {
                let mut address = std::ptr::null_mut::<c_void>();
                // SAFETY: the caller's arguments.
                unsafe {
                    pick!(P, $call, $profiled)(
                        $($class::from_fortran(*$object),)?
                        (&raw mut address).cast(),
                        size,
                    )
                }
            }
        )*
    };
}

// Bodies: buffer_detach comm_detach_buffer session_detach_buffer
detach! {
    buffer_detach, (), MPI_Buffer_detach, PMPI_Buffer_detach;
    comm_detach_buffer, (comm: MPI_Comm), MPI_Comm_detach_buffer, PMPI_Comm_detach_buffer;
    session_detach_buffer, (session: MPI_Session), MPI_Session_detach_buffer,
        PMPI_Session_detach_buffer;
}

macro_rules! comparisons {
    ($($first:ident, $operator:tt, ($($name:ident)*);)*) => {
        $(
            /// Compares two handles; the same for all classes.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $first(one: *const c_int, other: *const c_int) -> c_int {
                // SAFETY: the addresses of two handles.
                to_logical(c_int::from(unsafe { *one $operator *other }))
            }
            names!($first: $($name)*);
        )*
    };
}

comparisons! {
    verbena_handle_eq, ==, (
        verbena_comm_eq_ verbena_comm_eq verbena_comm_eq__ VERBENA_COMM_EQ
        verbena_datatype_eq_ verbena_datatype_eq verbena_datatype_eq__ VERBENA_DATATYPE_EQ
        verbena_errhandler_eq_ verbena_errhandler_eq verbena_errhandler_eq__ VERBENA_ERRHANDLER_EQ
        verbena_file_eq_ verbena_file_eq verbena_file_eq__ VERBENA_FILE_EQ
        verbena_group_eq_ verbena_group_eq verbena_group_eq__ VERBENA_GROUP_EQ
        verbena_info_eq_ verbena_info_eq verbena_info_eq__ VERBENA_INFO_EQ
        verbena_message_eq_ verbena_message_eq verbena_message_eq__ VERBENA_MESSAGE_EQ
        verbena_op_eq_ verbena_op_eq verbena_op_eq__ VERBENA_OP_EQ
        verbena_request_eq_ verbena_request_eq verbena_request_eq__ VERBENA_REQUEST_EQ
        verbena_session_eq_ verbena_session_eq verbena_session_eq__ VERBENA_SESSION_EQ
        verbena_win_eq_ verbena_win_eq verbena_win_eq__ VERBENA_WIN_EQ
    );
    verbena_handle_ne, !=, (
        verbena_comm_ne_ verbena_comm_ne verbena_comm_ne__ VERBENA_COMM_NE
        verbena_datatype_ne_ verbena_datatype_ne verbena_datatype_ne__ VERBENA_DATATYPE_NE
        verbena_errhandler_ne_ verbena_errhandler_ne verbena_errhandler_ne__ VERBENA_ERRHANDLER_NE
        verbena_file_ne_ verbena_file_ne verbena_file_ne__ VERBENA_FILE_NE
        verbena_group_ne_ verbena_group_ne verbena_group_ne__ VERBENA_GROUP_NE
        verbena_info_ne_ verbena_info_ne verbena_info_ne__ VERBENA_INFO_NE
        verbena_message_ne_ verbena_message_ne verbena_message_ne__ VERBENA_MESSAGE_NE
        verbena_op_ne_ verbena_op_ne verbena_op_ne__ VERBENA_OP_NE
        verbena_request_ne_ verbena_request_ne verbena_request_ne__ VERBENA_REQUEST_NE
        verbena_session_ne_ verbena_session_ne verbena_session_ne__ VERBENA_SESSION_NE
        verbena_win_ne_ verbena_win_ne verbena_win_ne__ VERBENA_WIN_NE
    );
}
