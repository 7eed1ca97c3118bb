//! What each parameter is: how an entry point converts it.
//!
//! A kind follows from the C type, or for numbers from the parameter's name. The exceptions stand
//! in one table, by function and parameter.

use anyhow::{Result, bail};

use super::super::table::{Function, Param};

/// The conversion of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The same in both.
    Same,
    /// A handle.
    Handle,
    /// A handle that the call makes, of this class.
    HandleOut(String),
    /// A handle that the call may change.
    HandleInOut(String),
    /// An array of handles that is read; how many it has.
    Handles(&'static str),
    /// As [`Kind::Handles`], and read until the operation is complete.
    LastingHandles(&'static str),
    /// A value that `{0}_in` converts.
    Value(&'static str),
    /// A value that the call returns and `{0}_out` converts.
    ValueOut(&'static str),
    /// An array of values that is read; how many it has.
    Values(&'static str, &'static str),
    /// An array of values that the call returns; how many it has.
    ValuesOut(&'static str, &'static str),
    /// The buffer of a collective operation, which may be MPI_IN_PLACE.
    Buffer,
    /// Weights of a graph, which may be MPI_UNWEIGHTED or MPI_WEIGHTS_EMPTY.
    Weights,
    /// The handle of a performance variable, which may be MPI_T_PVAR_ALL_HANDLES.
    PvarHandle,
    /// An error class or code.
    Code,
    /// An error class or code that the call returns.
    CodeOut,
    /// A status that the call sets.
    StatusOut,
    /// A status that is read.
    Status,
    /// A status that is read and changed.
    StatusInOut,
}

/// Functions and their parameters that are not what type and name say.
const EXCEPTIONS: [(&str, &str, Kind); 35] = [
    // Numbers that are passed on, or that mean something else.
    ("MPI_Abort", "errorcode", Kind::Same),
    ("MPI_Type_create_darray", "rank", Kind::Same),
    ("MPI_Type_create_darray_c", "rank", Kind::Same),
    ("MPI_Comm_create_group", "tag", Kind::Same),
    ("MPI_Intercomm_create", "tag", Kind::Same),
    ("MPI_Cart_rank", "rank", Kind::Same),
    ("MPI_Comm_rank", "rank", Kind::Same),
    ("MPI_Group_rank", "rank", Kind::Same),
    ("MPI_Status_get_tag", "tag", Kind::Same),
    // Values whose names say nothing.
    ("MPI_Comm_compare", "result", Kind::ValueOut("comparison")),
    ("MPI_Group_compare", "result", Kind::ValueOut("comparison")),
    ("MPI_Topo_test", "status", Kind::ValueOut("topology")),
    ("MPI_File_set_view", "disp", Kind::Value("displacement")),
    ("MPI_T_source_get_info", "ordering", Kind::ValueOut("source_order")),
    // Arrays.
    ("MPI_Group_translate_ranks", "ranks1", Kind::Values("rank", "n")),
    ("MPI_Group_translate_ranks", "ranks2", Kind::ValuesOut("rank", "n")),
    ("MPI_Type_create_darray", "array_of_distribs", Kind::Values("distribution", "ndims")),
    ("MPI_Type_create_darray", "array_of_dargs", Kind::Values("distribution_argument", "ndims")),
    ("MPI_Type_create_darray_c", "array_of_distribs", Kind::Values("distribution", "ndims")),
    ("MPI_Type_create_darray_c", "array_of_dargs", Kind::Values("distribution_argument", "ndims")),
    ("MPI_Type_create_struct", "array_of_types", Kind::Handles("count")),
    ("MPI_Type_create_struct_c", "array_of_types", Kind::Handles("count as c_int")),
    ("MPI_Type_struct", "array_of_types", Kind::Handles("count")),
    ("MPI_Request_get_status_any", "array_of_requests", Kind::Handles("count")),
    // Handles that the call changes.
    ("MPI_Comm_disconnect", "comm", Kind::HandleInOut(String::new())),
    ("MPI_Comm_free", "comm", Kind::HandleInOut(String::new())),
    ("MPI_Win_free", "win", Kind::HandleInOut(String::new())),
    ("MPI_Info_free", "info", Kind::HandleInOut(String::new())),
    ("MPI_File_close", "fh", Kind::HandleInOut(String::new())),
    ("MPI_Type_commit", "datatype", Kind::HandleInOut(String::new())),
    ("MPI_Type_free", "datatype", Kind::HandleInOut(String::new())),
    ("MPI_Session_finalize", "session", Kind::HandleInOut(String::new())),
    ("MPI_Group_free", "group", Kind::HandleInOut(String::new())),
    ("MPI_Op_free", "op", Kind::HandleInOut(String::new())),
    ("MPI_Errhandler_free", "errhandler", Kind::HandleInOut(String::new())),
];

/// Functions whose request or message exists before the call.
const CHANGE_REQUEST: [&str; 9] = [
    "MPI_Cancel",
    "MPI_Imrecv",
    "MPI_Imrecv_c",
    "MPI_Mrecv",
    "MPI_Mrecv_c",
    "MPI_Request_free",
    "MPI_Start",
    "MPI_Test",
    "MPI_Wait",
];

/// The function of today that a removed one is, of the same parameters.
const REPLACED: [(&str, &str); 5] = [
    ("MPI_Address", "MPI_Get_address"),
    ("MPI_Errhandler_get", "MPI_Comm_get_errhandler"),
    ("MPI_Errhandler_set", "MPI_Comm_set_errhandler"),
    ("MPI_Type_hindexed", "MPI_Type_create_hindexed"),
    ("MPI_Type_hvector", "MPI_Type_create_hvector"),
];

/// The function of today that a removed function is.
pub(super) fn replacement(name: &str) -> Option<&'static str> {
    REPLACED.iter().find(|(old, _)| *old == name).map(|(_, new)| *new)
}

/// The kind of a parameter.
pub(super) fn kind(function: &Function, param: &Param) -> Result<Kind> {
    let (name, ctype) = (param.name.as_str(), param.ctype.trim());
    let exception = EXCEPTIONS
        .iter()
        .find(|(of, named, _)| *of == function.name && *named == name)
        .map(|(_, _, kind)| kind.clone());
    if let Some(kind) = exception {
        return Ok(match kind {
            Kind::HandleInOut(_) => Kind::HandleInOut(class(ctype)),
            kind => kind,
        });
    }
    Ok(match ctype {
        "int" | "MPI_T_cb_safety" => number(name),
        "int *" => number_out(function, name),
        "void *" | "const void *" if matches!(name, "sendbuf" | "recvbuf") => Kind::Buffer,
        "int[]" | "const int[]" if name.ends_with("weights") => Kind::Weights,
        "MPI_T_pvar_handle" => Kind::PvarHandle,
        "MPI_Status *" if function.name.starts_with("MPI_Status_set") => Kind::StatusInOut,
        "MPI_Status *" => Kind::StatusOut,
        "const MPI_Status *" => Kind::Status,
        "const MPI_Datatype[]" => types(function, name)?,
        _ if is_handle(ctype) => Kind::Handle,
        _ if ctype.ends_with('*') && is_handle(&class(ctype)) => {
            let is_changed = ["request", "message"].contains(&name)
                && CHANGE_REQUEST.contains(&function.name.as_str())
                && !(name == "request" && function.name.contains("mrecv"));
            match is_changed {
                true => Kind::HandleInOut(class(ctype)),
                false => Kind::HandleOut(class(ctype)),
            }
        }
        _ if ctype.contains('[') && ctype.contains("MPI_") && !is_number(ctype) => {
            bail!("no kind for the array {name}")
        }
        _ => Kind::Same,
    })
}

fn number(name: &str) -> Kind {
    match name {
        "source" | "dest" | "rank" | "target_rank" | "root" => Kind::Value("rank"),
        "tag" | "recvtag" => Kind::Value("tag"),
        "errorcode" | "errorclass" => Kind::Code,
        "split_type" => Kind::Value("split_type"),
        "amode" => Kind::Value("file_mode"),
        "assert" => Kind::Value("assertion"),
        "whence" => Kind::Value("seek"),
        "required" => Kind::Value("thread_level"),
        "order" => Kind::Value("order"),
        "typeclass" => Kind::Value("typeclass"),
        "lock_type" => Kind::Value("lock_type"),
        "keyval" | "comm_keyval" | "type_keyval" | "win_keyval" => Kind::Value("keyval"),
        "var_class" => Kind::Value("pvar_class"),
        "cb_safety" => Kind::Value("safety"),
        _ => Kind::Same,
    }
}

fn number_out(function: &Function, name: &str) -> Kind {
    match name {
        "rank_source" | "rank_dest" => Kind::ValueOut("rank"),
        "errorcode" | "errorclass" => Kind::CodeOut,
        "provided" => Kind::ValueOut("thread_level"),
        "amode" => Kind::ValueOut("file_mode"),
        "combiner" => Kind::ValueOut("combiner"),
        _ if name.ends_with("keyval") => Kind::ValueOut("keyval"),
        "verbosity" => Kind::ValueOut("verbosity"),
        "bind" if function.is_tool() => Kind::ValueOut("bind"),
        "scope" => Kind::ValueOut("scope"),
        "var_class" => Kind::ValueOut("pvar_class"),
        _ => Kind::Same,
    }
}

/// The types of an all-to-all operation, one for each process or neighbor.
fn types(function: &Function, name: &str) -> Result<Kind> {
    let is_neighbor = function.name.to_lowercase().contains("neighbor");
    let lasts = function.name.starts_with("MPI_I") || function.name.contains("_init");
    let count = match (is_neighbor, name) {
        (true, "sendtypes") => "Neighbors::of(comm.to_standard()).destinations",
        (true, "recvtypes") => "Neighbors::of(comm.to_standard()).sources",
        (false, "sendtypes") => "peers(sendbuf, comm.to_standard())",
        (false, "recvtypes") => "peers(recvbuf, comm.to_standard())",
        _ => bail!("no kind for the array {name}"),
    };
    Ok(if lasts { Kind::LastingHandles(count) } else { Kind::Handles(count) })
}

/// `MPI_Comm *` becomes `MPI_Comm`.
fn class(ctype: &str) -> String {
    ctype.trim_end_matches([' ', '*']).to_owned()
}

/// Whether an array's elements are numbers that are passed on.
fn is_number(ctype: &str) -> bool {
    ["MPI_Aint", "MPI_Count", "MPI_Offset"].iter().any(|number| ctype.contains(number))
}

fn is_handle(ctype: &str) -> bool {
    const CLASSES: [&str; 11] = [
        "MPI_Comm",
        "MPI_Group",
        "MPI_Datatype",
        "MPI_Op",
        "MPI_Request",
        "MPI_Message",
        "MPI_Win",
        "MPI_File",
        "MPI_Info",
        "MPI_Errhandler",
        "MPI_Session",
    ];
    CLASSES.contains(&ctype)
}
