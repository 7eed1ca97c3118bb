//! How procedures of `mpi_f08` pass a choice buffer whose elements lie apart.

use super::table::{Param, Procedure};

/// What C gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// The address alone: the call looks at no element, or at the first one.
    Address,
    /// The address; a section is refused, since data moves between the calls on it.
    Contiguous,
    /// A derived type whose elements partitions consist of, otherwise a copy by partitions.
    Partitions,
    /// A derived type, otherwise a copy.
    Whole,
    /// A derived type; without one the section is refused, as no call ends the use of a copy.
    Typed,
    /// A copy: the call cuts the buffer into blocks, or computes on it.
    Blocks,
}

/// Procedures that take an address.
const ADDRESSES: [&str; 9] = [
    "Attach_buffer",
    "Buffer_attach",
    "Compare_and_swap",
    "Fetch_and_op",
    "Free_mem",
    "Get_address",
    "Win_attach",
    "Win_create",
    "Win_detach",
];

pub(super) fn passing(procedure: &Procedure, params: &[&Param], at: usize) -> Passing {
    let name = procedure.snake();
    let buffer = &params[at].name;
    let has = |kind: &str| params.iter().any(|param| param.is(kind));
    let is_address = ADDRESSES.iter().any(|known| name == known.to_lowercase());
    if is_address || name.ends_with("_end") || name.ends_with("attach_buffer") {
        return Passing::Address;
    }
    if has("PARTITION") {
        return Passing::Partitions;
    }
    let is_piece = params
        .get(at + 1)
        .is_some_and(|count| count.length.is_empty() && count.kind.name.contains("NUM_ELEM"))
        && params
            .get(at + 2)
            .is_some_and(|datatype| datatype.is("DATATYPE") && datatype.length.is_empty());
    let is_cut = name.contains("alltoall")
        || (name.contains("gather") && buffer == "recvbuf")
        || (name.contains("scatter") && buffer == "sendbuf");
    if has("WINDOW") || name.ends_with("_begin") {
        return if is_piece { Passing::Typed } else { Passing::Contiguous };
    }
    if !is_piece || is_cut || has("OPERATION") { Passing::Blocks } else { Passing::Whole }
}
