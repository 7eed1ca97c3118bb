//! The C interface of MPI 5.0, under the standard ABI: `libmpi_abi.so.1`.
//!
//! `generated` holds what C calls: for each function of the table in `abi/` a
//! `PMPI_` entry point, and an `MPI_` one that jumps to it. An entry point does
//! no work. It writes the call into the status page, widens `int` arguments
//! so that a function and its `_c` twin share one body, runs the body, and raises
//! its error (`call`). The bodies are in the chapters, written by hand; a
//! function without one raises MPI_ERR_UNSUPPORTED_OPERATION with its name.
//!
//! To give a function its body: write `pub(crate) unsafe fn name(...) ->
//! Result<()>` in a chapter, named as in MPI without `MPI_` and in lower case,
//! with the parameters of the `_c` form if there is one, and run `cargo xtask
//! generate`. Where `int` and 64 bits differ in more than width the parameter is
//! a type of `convert`. A function that returns something else than an error
//! code has a body that returns that.
//!
//! A body checks its arguments, turns handles into objects and calls `runtime`.
//! Nothing else happens here: no state is kept in this crate but the values of
//! predefined attributes.

#![allow(clippy::too_many_arguments, reason = "as many as MPI gives them")]
// Unsafe throughout: everything comes from C. Each block says on which promise
// of the caller it relies.

mod abi;
mod args;
mod call;
mod call_form;
mod convert;
mod prelude;
mod text;

#[rustfmt::skip]
mod generated;
pub(crate) use generated::constants;

// Chapters: the generator looks for bodies in these.
mod abi_info;
mod attribute;
mod collective;
mod communicator;
mod datatype;
mod datatype_inquiry;
mod environment;
mod errhandler;
mod grequest;
mod group;
mod info;
mod init;
mod inquiry;
mod intercomm;
mod language;
mod message;
mod neighbor;
mod op;
mod pack;
mod request;
mod session;
mod topology;
