//! The types of `mpi.h` in Rust.
//!
//! A handle is a number of pointer size: below 0x1000 a predefined handle (see `constants`),
//! otherwise one of `objects::handle`. Counts, addresses and offsets are the same 64 bits under
//! different names.

#![allow(non_camel_case_types, reason = "the names of MPI")]

use std::os::raw::{c_int, c_void};

pub(crate) use objects::Status as MPI_Status;
pub(crate) use objects::errhandler::{
    ErrhandlerFunction as MPI_Comm_errhandler_function,
    ErrhandlerFunction as MPI_File_errhandler_function, ErrhandlerFunction as MPI_Handler_function,
    ErrhandlerFunction as MPI_Session_errhandler_function,
    ErrhandlerFunction as MPI_Win_errhandler_function,
};

const _: () = assert!(size_of::<usize>() == 8, "the ABI is known for 64-bit machines alone");

/// An address, or the difference of two.
pub(crate) type MPI_Aint = i64;
/// Any count, address or offset.
pub(crate) type MPI_Count = i64;
/// A place in a file.
pub(crate) type MPI_Offset = i64;
/// An INTEGER of Fortran.
pub(crate) type MPI_Fint = c_int;
/// TYPE(MPI_Status) of Fortran.
pub(crate) type MPI_F08_status = MPI_Status;
/// An enumeration of the tool interface.
pub(crate) type MPI_T_cb_safety = c_int;
/// An enumeration of the tool interface.
pub(crate) type MPI_T_source_order = c_int;

/// Declares types that hold one number and mean something by it.
macro_rules! values {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            #[repr(transparent)]
            pub(crate) struct $name(pub(crate) usize);
        )*
    };
}

values! {
    /// A communicator.
    MPI_Comm;
    /// A group.
    MPI_Group;
    /// A datatype.
    MPI_Datatype;
    /// A reduction operation.
    MPI_Op;
    /// A request.
    MPI_Request;
    /// A message taken by a matched probe.
    MPI_Message;
    /// A window.
    MPI_Win;
    /// A file.
    MPI_File;
    /// An info object.
    MPI_Info;
    /// An error handler.
    MPI_Errhandler;
    /// A session.
    MPI_Session;
    /// An enumeration of values.
    MPI_T_enum;
    /// A control variable.
    MPI_T_cvar_handle;
    /// A performance variable.
    MPI_T_pvar_handle;
    /// A session of performance variables.
    MPI_T_pvar_session;
    /// A callback for events.
    MPI_T_event_registration;
    /// An event that happened.
    MPI_T_event_instance;
}

// Functions that may also be the constants 0 (nothing to do) and 1 (copy as it is). Therefore the
// address is checked before it is called.
values! {
    /// Copies an attribute of a communicator.
    MPI_Comm_copy_attr_function;
    /// Deletes one.
    MPI_Comm_delete_attr_function;
    /// Copies an attribute of a datatype.
    MPI_Type_copy_attr_function;
    /// Deletes one.
    MPI_Type_delete_attr_function;
    /// Copies an attribute of a window.
    MPI_Win_copy_attr_function;
    /// Deletes one.
    MPI_Win_delete_attr_function;
    /// The name of MPI-1 for [`MPI_Comm_copy_attr_function`].
    MPI_Copy_function;
    /// The name of MPI-1 for [`MPI_Comm_delete_attr_function`].
    MPI_Delete_function;
}

/// A reduction of the user's: in, in and out, how many, of what.
pub(crate) type MPI_User_function =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype);
/// The same function type for any count.
pub(crate) type MPI_User_function_c =
    unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype);
/// Fills in the status of a generalized request.
pub(crate) type MPI_Grequest_query_function =
    unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int;
/// Frees what the user keeps for it.
pub(crate) type MPI_Grequest_free_function = unsafe extern "C" fn(*mut c_void) -> c_int;
/// Called when it is cancelled.
pub(crate) type MPI_Grequest_cancel_function = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// The extent of a type in a data representation.
pub(crate) type MPI_Datarep_extent_function =
    unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int;
/// Converts to or from a data representation.
pub(crate) type MPI_Datarep_conversion_function = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    c_int,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;
/// The same function type for any count.
pub(crate) type MPI_Datarep_conversion_function_c = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    MPI_Count,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;
/// Called at an event.
pub(crate) type MPI_T_event_cb_function = unsafe extern "C" fn(
    MPI_T_event_instance,
    MPI_T_event_registration,
    MPI_T_cb_safety,
    *mut c_void,
);
/// Called when a registration is gone.
pub(crate) type MPI_T_event_free_cb_function =
    unsafe extern "C" fn(MPI_T_event_registration, MPI_T_cb_safety, *mut c_void);
/// Called with the number of lost events.
pub(crate) type MPI_T_event_dropped_cb_function =
    unsafe extern "C" fn(MPI_Count, MPI_T_event_registration, c_int, MPI_T_cb_safety, *mut c_void);
