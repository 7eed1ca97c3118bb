//! C types as C and as Rust write them.

use std::fmt::Write as _;

use super::table::{Abi, Function, Param};

const WIDTH: usize = 110;

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

/// A function's declaration from its beginning and its parameters to `end`, broken into lines.
/// Arguments of any type (`...`) are left out.
pub(super) fn rust_declaration(abi: &Abi, function: &Function, start: &str, end: &str) -> String {
    let params = function.params.iter().filter(|param| param.ctype != "...");
    let params: Vec<String> =
        params.map(|param| format!("{}: {}", param.name, rust(abi, &param.ctype))).collect();
    let returns = rust(abi, &function.returns);
    let line = format!("{start}{}) -> {returns}{end}\n", params.join(", "));
    if line.len() <= WIDTH {
        return line;
    }
    format!("{start}\n{}) -> {returns}{end}\n", filled(&params))
}

/// The items with commas, in lines of at most [`WIDTH`].
fn filled(items: &[String]) -> String {
    let mut text = String::new();
    let mut line = String::from("   ");
    for item in items {
        if line.len() + item.len() + 2 > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = String::from("   ");
        }
        let _ = write!(line, " {item},");
    }
    text.push_str(&line);
    text.push('\n');
    text
}
