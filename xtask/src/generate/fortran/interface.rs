//! Interface bodies of procedures, as the modules declare them.

use std::fmt::Write as _;

use super::table::{Direction, Form, Param, Procedure};

/// Comments by which compilers accept any type and rank for a choice buffer of module `mpi`.
const CHOICE: [&str; 5] = [
    "!GCC$ ATTRIBUTES NO_ARG_CHECK ::",
    "!DIR$ IGNORE_TKR",
    "!DEC$ ATTRIBUTES NO_ARG_CHECK ::",
    "!PGI$ IGNORE_TKR",
    "!IBM* IGNORE_TKR",
];

/// One specific procedure: `name` in Fortran, `bind` for the linker if it differs from that.
pub(super) fn body(
    procedure: &Procedure,
    form: Form,
    name: &str,
    bind: Option<&str>,
    cptr: bool,
) -> String {
    let names: Vec<&str> = procedure.params(form).map(|param| param.name.as_str()).collect();
    let what = if procedure.returns().is_some() { "FUNCTION" } else { "SUBROUTINE" };
    let mut text = String::new();
    let bind = bind.map_or_else(String::new, |bind| format!(" BIND(C, NAME=\"{bind}\")"));
    let _ = writeln!(text, "{}", folded(&format!("    {what} {name}({}){bind}", names.join(", "))));
    text.push_str("      IMPORT\n");
    if let Some(returns) = procedure.returns() {
        let _ = writeln!(text, "      {returns} :: {name}");
    }
    for param in procedure.params(form) {
        declare(procedure, param, form, cptr, &mut text);
    }
    let _ = writeln!(text, "    END {what} {name}");
    text
}

fn declare(procedure: &Procedure, param: &Param, form: Form, cptr: bool, text: &mut String) {
    let name = &param.name;
    let ftype = param.ftype(form);
    if param.is_function() {
        let _ = match form {
            Form::Mpi => writeln!(text, "      EXTERNAL :: {name}"),
            _ => writeln!(text, "      PROCEDURE({}) :: {name}", callback(procedure, name, form)),
        };
        return;
    }
    if ftype == "<type>" {
        let _ = writeln!(text, "      TYPE(*), DIMENSION(*) :: {name}");
        for comment in CHOICE {
            let _ = writeln!(text, "{comment} {name}");
        }
        return;
    }
    let mut words = match ftype {
        "CHARACTER*(*)" => "CHARACTER(LEN=*)".to_owned(),
        _ if cptr && param.is("C_BUFFER") => "TYPE(C_PTR)".to_owned(),
        _ => ftype.replace(") ", "), "),
    };
    words.push_str(intent(procedure, param));
    if param.is_asynchronous {
        words.push_str(", ASYNCHRONOUS");
    }
    let is_call = !procedure.is_callback && !procedure.is_predefined_callback();
    if param.is_error() && form != Form::Mpi && is_call {
        words.push_str(", OPTIONAL");
    }
    let _ = writeln!(text, "      {words} :: {name}{}", dimensions(param, form));
}

fn intent(procedure: &Procedure, param: &Param) -> &'static str {
    let is_call = !procedure.is_callback && !procedure.is_predefined_callback();
    if !is_call || param.has_no_intent {
        return "";
    }
    match param.direction {
        Direction::In => ", INTENT(IN)",
        // A variable that stands for a constant may be passed.
        _ if param.is_buffer() || param.is_status() => "",
        Direction::Out if param.is_array() => "",
        Direction::Out => ", INTENT(OUT)",
        Direction::InOut => ", INTENT(INOUT)",
    }
}

/// The dimensions of an array. Sizes other than the first are left open, since programs pass longer
/// arrays.
pub(super) fn dimensions(param: &Param, form: Form) -> String {
    let is_old_status = form == Form::Mpi && param.is_status();
    match param.length.as_str() {
        "" if is_old_status => "(MPI_STATUS_SIZE)".to_owned(),
        _ if is_old_status => "(MPI_STATUS_SIZE,*)".to_owned(),
        "" => String::new(),
        _ if param.kind.name == "STRING" => String::new(),
        "n 3" => "(3,*)".to_owned(),
        "count *" => "(count,*)".to_owned(),
        "MPI_STATUS_SIZE" => "(MPI_STATUS_SIZE)".to_owned(),
        _ => "(*)".to_owned(),
    }
}

/// The type of a procedure that is passed.
pub(super) fn callback(procedure: &Procedure, param: &str, form: Form) -> String {
    let kind = procedure.name.strip_prefix("MPI_").unwrap_or_default();
    let object = kind.split('_').next().unwrap_or_default();
    let large = if form == Form::Large { "_c" } else { "" };
    match param {
        "user_fn" => format!("MPI_User_function{large}"),
        "read_conversion_fn" | "write_conversion_fn" => {
            format!("MPI_Datarep_conversion_function{large}")
        }
        "dtype_file_extent_fn" => "MPI_Datarep_extent_function".to_owned(),
        "query_fn" => "MPI_Grequest_query_function".to_owned(),
        "free_fn" => "MPI_Grequest_free_function".to_owned(),
        "cancel_fn" => "MPI_Grequest_cancel_function".to_owned(),
        _ if param.contains("copy") => format!("MPI_{object}_copy_attr_function"),
        _ if param.contains("delete") => format!("MPI_{object}_delete_attr_function"),
        _ => format!("MPI_{object}_errhandler_function"),
    }
}

/// Breaks a line at commas, as free form wants it.
pub(super) fn folded(line: &str) -> String {
    let mut out = String::new();
    let mut width = 0;
    for (at, part) in line.split_inclusive(", ").enumerate() {
        if at > 0 && width + part.len() > 96 {
            out.push_str("&\n        ");
            width = 8;
        }
        out.push_str(part);
        width += part.len();
    }
    out
}
