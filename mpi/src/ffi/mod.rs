//! The C interface of MPI 5.0, by the names of the standard: every function of the standard ABI,
//! its constants, and its types.
//!
//! The library is opened at run time ([`open`]), so that a program is built without an MPI, and
//! runs on any library with the standard ABI. A function that the library does not have ends the
//! program with an explanation when it is first called.

#![allow(non_camel_case_types, non_snake_case, missing_docs, reason = "the names of MPI")]
#![allow(unsafe_code)]

pub use self::generated::callbacks::*;
pub use self::generated::constants::*;
pub use self::generated::functions::*;
pub use self::library::{NoLibrary, open};
pub(crate) use self::text::written;
pub use self::types::*;

mod generated;
mod library;
mod text;
mod types;
