//! `derive(Equivalence)`: the MPI datatype of a structure (MPI-5.0 §5.1.2).
//!
//! The implementation that is written describes each field at its offset, gives the datatype the
//! structure's size as extent, and keeps it until MPI is finalized. It calls
//! `mpi::datatype::internal` for that.

#![forbid(unsafe_code)]

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

mod attribute;
mod implementation;

/// Implements `mpi::traits::Equivalence` for a structure, so that its values can be sent and
/// received.
///
/// ```ignore
/// #[derive(Equivalence)]
/// struct Particle {
///     position: [f64; 3],
///     state: (u8, bool),
///     kind: Kind, // any other type with Equivalence
/// }
/// ```
///
/// Fields are numbers, `bool`, other types with `Equivalence`, and tuples and arrays of all these.
/// Structures with generic parameters, enumerations and unions are refused.
///
/// The datatype is made at its first use, which panics if MPI is not initialized or was finalized,
/// or if the thread is not the main one and MPI was initialized with less than
/// `Threading::Multiple`.
///
/// `#[mpi(crate = "::path::to::mpi")]` names the crate where it is not `::mpi`.
#[proc_macro_derive(Equivalence, attributes(mpi))]
pub fn equivalence(input: TokenStream) -> TokenStream {
    let input = parse_macro_input!(input as DeriveInput);
    implementation::equivalence(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
