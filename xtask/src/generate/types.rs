//! C types as C and as Rust write them.

use super::table::{Abi, Param};

/// A parameter as C declares it: `const int counts[]`, `void *buf`, `...`.
pub(super) fn c_declaration(param: &Param) -> String {
    let Param { ctype, name } = param;
    if ctype == "..." {
        return ctype.clone();
    }
    if let Some(at) = ctype.find('[') {
        let (element, dimensions) = ctype.split_at(at);
        // Equal types in C, but gcc takes [] for a promise that the memory is there, and warns of
        // MPI_UNWEIGHTED, which is no array.
        if name.contains("weights") && dimensions == "[]" {
            return format!("{element} *{name}");
        }
        let space = if element.ends_with('*') { "" } else { " " };
        return format!("{element}{space}{name}{dimensions}");
    }
    let space = if ctype.ends_with('*') { "" } else { " " };
    format!("{ctype}{space}{name}")
}

/// A type as the entry points spell it in Rust.
pub(super) fn rust(abi: &Abi, ctype: &str) -> String {
    if let Some(element) = ctype.strip_suffix("[][3]") {
        return format!("*mut [{}; 3]", rust(abi, element));
    }
    if let Some(callback) = abi.callback(ctype.trim_end_matches([' ', '*'])) {
        // The tool interface passes functions without writing the star.
        let name = &callback.name;
        return if callback.is_value { name.clone() } else { format!("Option<{name}>") };
    }
    if let Some(to) = ctype.strip_suffix("[]").or_else(|| ctype.strip_suffix('*')) {
        let to = to.trim_end();
        let (kind, to) = match to.strip_prefix("const ") {
            Some(to) => ("const", to),
            None => ("mut", to),
        };
        return format!("*{kind} {}", rust(abi, to));
    }
    match ctype.strip_prefix("const ").unwrap_or(ctype) {
        "void" => "c_void".to_owned(),
        "char" => "c_char".to_owned(),
        "int" => "c_int".to_owned(),
        "double" => "c_double".to_owned(),
        name => name.to_owned(),
    }
}
