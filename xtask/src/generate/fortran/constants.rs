//! The constants that Fortran has, and the variables whose addresses stand for C's constants.

use super::super::table::{Abi, Constant};

/// A constant with an integer value.
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) value: i64,
    /// The class of a handle: `MPI_Comm`.
    pub(super) class: Option<&'a str>,
    /// A position in a file rather than a default INTEGER.
    pub(super) is_offset: bool,
}

/// All of them, in the order of the table.
pub(super) fn named(abi: &Abi) -> impl Iterator<Item = Named<'_>> {
    abi.constants.iter().filter(|constant| is_fortran(constant)).map(|constant| Named {
        name: &constant.name,
        // Strings in Fortran have no end mark (MPI-5.0 §2.6.2).
        value: constant.value - i64::from(constant.kind == "string length limit"),
        class: constant.kind.contains("handle").then_some(&constant.ctype),
        is_offset: constant.ctype == "MPI_Offset",
    })
}

fn is_fortran(constant: &Constant) -> bool {
    let other = ["buffer address", "empty/ignore pointer", "fortran status layout", "removed"];
    !constant.kind.starts_with("mpi_t")
        && constant.kind != "predefined callback"
        && !other.contains(&constant.kind.as_str())
        && !constant.name.starts_with("MPIX_")
        && !constant.ctype.starts_with("MPI_T")
}

/// Constants about Fortran itself, that the C interface does not have.
pub(super) const OWN: [(&str, i64); 8] = [
    ("MPI_ADDRESS_KIND", 8),
    ("MPI_COUNT_KIND", 8),
    ("MPI_OFFSET_KIND", 8),
    ("MPI_INTEGER_KIND", 4),
    ("MPI_STATUS_SIZE", 8),
    ("MPI_SOURCE", 1),
    ("MPI_TAG", 2),
    ("MPI_ERROR", 3),
];

/// A variable that is known by its address: name, type in `mpif.h` and `mpi`, type in `mpi_f08`,
/// dimensions in each.
pub(super) const SENTINELS: [(&str, &str, &str, &str, &str); 10] = [
    ("MPI_BOTTOM", "INTEGER", "INTEGER", "", ""),
    ("MPI_IN_PLACE", "INTEGER", "INTEGER", "", ""),
    ("MPI_BUFFER_AUTOMATIC", "INTEGER", "INTEGER", "", ""),
    ("MPI_STATUS_IGNORE", "INTEGER", "TYPE(MPI_Status)", "(8)", ""),
    ("MPI_STATUSES_IGNORE", "INTEGER", "TYPE(MPI_Status)", "(8,1)", "(1)"),
    ("MPI_ERRCODES_IGNORE", "INTEGER", "INTEGER", "(1)", "(1)"),
    ("MPI_ARGV_NULL", "CHARACTER", "CHARACTER", "(1)", "(1)"),
    ("MPI_ARGVS_NULL", "CHARACTER", "CHARACTER", "(1,1)", "(1,1)"),
    ("MPI_UNWEIGHTED", "INTEGER", "INTEGER", "(1)", "(1)"),
    ("MPI_WEIGHTS_EMPTY", "INTEGER", "INTEGER", "(1)", "(1)"),
];

/// The C name of such a variable.
pub(super) fn symbol(name: &str) -> String {
    format!("verbena_{}", name["MPI_".len()..].to_lowercase())
}

/// The common block that holds it.
pub(super) fn block(name: &str) -> String {
    format!("VB_{}", &name["MPI_".len()..])
}
