//! C types as the libraries with other ABIs write them in Rust.

use super::super::table::Abi;

/// The side of the library.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Programs, with types of their ABI.
    Program,
    /// The library below, with those of the standard ABI.
    Standard,
}

/// A C type. Callbacks are addresses.
pub(super) fn rust(abi: &Abi, side: Side, ctype: &str) -> String {
    let ctype = ctype.trim();
    if abi.callback(ctype.trim_end_matches([' ', '*'])).is_some() {
        return "*const c_void".to_owned();
    }
    if let Some(element) = ctype.strip_suffix("[][3]") {
        return format!("*mut {}", rust(abi, side, element));
    }
    if let Some(to) = ctype.strip_suffix("[]").or_else(|| ctype.strip_suffix('*')) {
        let to = to.trim_end();
        return match to.strip_prefix("const ") {
            Some(to) => format!("*const {}", rust(abi, side, to)),
            None => format!("*mut {}", rust(abi, side, to)),
        };
    }
    let name = ctype.strip_prefix("const ").unwrap_or(ctype);
    match name {
        "void" => "c_void",
        "char" => "c_char",
        "int" | "MPI_Fint" | "MPI_T_cb_safety" | "MPI_T_source_order" => "c_int",
        "double" => "f64",
        "MPI_Aint" | "MPI_Count" | "MPI_Offset" => "i64",
        "MPI_Status" | "MPI_F08_status" if side == Side::Program => "MPI_Status",
        "MPI_Status" => "StandardStatus",
        // Pointers to objects of the library below, for both.
        _ if name.starts_with("MPI_T_") => "*mut c_void",
        _ if side == Side::Program => name,
        _ => "Standard",
    }
    .to_owned()
}

/// A name that may be a keyword of Rust's.
pub(super) fn raw(name: &str) -> &str {
    if name == "fn" { "r#fn" } else { name }
}
