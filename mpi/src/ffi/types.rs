//! The types of the standard ABI. A handle is a number of pointer size.

use std::os::raw::c_int;

const _: () = assert!(size_of::<usize>() == 8, "the ABI is known for 64-bit machines alone");

/// An address, or the difference of two.
pub type MPI_Aint = isize;
/// Any count, address or offset.
pub type MPI_Count = i64;
/// A place in a file.
pub type MPI_Offset = i64;
/// An enumeration of the tool interface.
pub type MPI_T_cb_safety = c_int;
/// An enumeration of the tool interface.
pub type MPI_T_source_order = c_int;

/// What a completed operation says about itself (MPI-5.0 §3.2.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct MPI_Status {
    /// The sender's rank.
    pub MPI_SOURCE: c_int,
    /// The message's tag.
    pub MPI_TAG: c_int,
    /// The operation's error class.
    pub MPI_ERROR: c_int,
    /// Belongs to the library.
    pub MPI_internal: [c_int; 5],
}

/// Declares handles: types that hold one number and mean something by it.
macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            #[repr(transparent)]
            pub struct $name(pub usize);
        )*
    };
}

handles! {
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
