//! MPI objects that send nothing: handles, errors, groups, communicators, datatypes, buffers,
//! operations, info, attributes, error handlers, statuses.
//!
//! Everything here is plain data with its rules. The crate sends nothing, calls no user function by
//! itself, and holds no lock while another component works. The runtime owns the objects and drives
//! them.

#![deny(unsafe_code)] // allowed where user memory is copied or reduced, and in the typed calls of user functions

pub mod attribute;
pub mod buffer;
pub mod callback;
pub mod comm;
pub mod datatype;
pub mod errhandler;
pub mod error;
pub mod error_class;
pub mod error_codes;
pub mod group;
pub mod handle;
pub mod info;
pub mod op;
pub mod scratch;
pub mod status;
pub mod text;
pub mod topology;

pub use attribute::{Attributes, Keyval, Keyvals};
pub use buffer::{Area, Buffer, Operands};
pub use comm::{Comm, LatestCall};
pub use datatype::{Datatype, SignatureWord};
pub use errhandler::Errhandler;
pub use error::{Error, Result};
pub use error_class::Class;
pub use error_codes::{ErrorCodes, error_codes};
pub use group::{Comparison, Group};
pub use handle::{HandleKind, Stale, Table};
pub use info::Info;
pub use op::{Op, RunOp};
pub use status::Status;
pub use text::truncated;
pub use topology::Topology;
