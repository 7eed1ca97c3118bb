//! The C interface of MPI 5.0, under the standard ABI: `libmpi_abi.so.1`.
//!
//! `generated` holds the functions that C calls: for each function of the table in `abi/` a `PMPI_`
//! entry point, and an `MPI_` one that jumps to it. An entry point records the call on the status
//! page, and widens `int` arguments so that a function and its `_c` twin share one body. It runs
//! the body, and raises its error (`call`). Bodies are written by hand, in one file for each
//! chapter. A function without a body raises MPI_ERR_UNSUPPORTED_OPERATION with its name.
//!
//! `docs/contributing/function.md` describes how to add a body.
//!
//! A body checks its arguments, resolves handles to objects and calls `runtime`. The crate keeps no
//! state except the values of predefined attributes.

#![allow(clippy::too_many_arguments, reason = "as many as MPI gives them")]
// The whole crate is unsafe, since every argument comes from C. Each block names the caller's
// promise that it relies on.

mod abi;
mod args;
mod call;
mod call_form;
mod convert;
mod prelude;
mod text;
mod tool_text;

#[rustfmt::skip]
mod generated;
pub(crate) use generated::constants;

// Chapters: the generator looks for bodies in these.
mod abi_info;
mod attribute;
mod collective;
mod communicator;
mod datarep;
mod datatype;
mod datatype_inquiry;
mod environment;
mod errhandler;
mod file;
mod file_access;
mod file_nonblocking;
mod file_split;
mod grequest;
mod group;
mod info;
mod info_env;
mod init;
mod inquiry;
mod intercomm;
mod language;
mod message;
mod neighbor;
mod one_sided;
mod op;
mod pack;
mod partitioned;
mod process_creation;
mod request;
mod session;
mod tool;
mod tool_event;
mod tool_pvar;
mod topology;
mod window;
