//! How the plain function and its `_c` twin share one body.
//!
//! The body is written for the wide types: every count an `MPI_Count`, arrays
//! whose elements differ a `Counts` or `Displs`, outputs that differ a `CountOut`.
//! Two functions share a body exactly if their parameters have the same names and each pair of
//! types has a rule here. All others have bodies of their own (MPI_Type_get_contents and its like,
//! and the functions that take callbacks).

use super::bodies::Bodies;
use super::table::{Abi, Function};
use super::types::rust;

/// Whether an argument is passed as it came or through a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Equal types in both, or types that are the same 64 bits.
    Same,
    /// A number that becomes 64 bits wide.
    Wide,
    /// An array of counts.
    Counts,
    /// An array of displacements.
    Displs,
    /// A number that the call writes, and may read.
    Out,
}

/// The body that serves a function: chapter, name, and the arguments for it.
pub(super) struct Body<'a> {
    pub(super) chapter: &'a str,
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
}

/// Finds the body: its own, or the one it shares. `_x` functions are the older
/// names of some `_c` ones.
pub(super) fn body_of<'a>(abi: &Abi, function: &Function, bodies: &'a Bodies) -> Option<Body<'a>> {
    let (plain, large) = twins(abi, function);
    let rules = match (plain, large) {
        (Some(plain), Some(large)) => rules(plain, large),
        _ => None,
    };
    let own = function.snake();
    if let (Some(plain), Some(rules)) = (plain, &rules) {
        let is_large = plain.name != function.name;
        let found = Form::find(&plain.snake(), bodies);
        if let Some((form, name)) = found.filter(|_| bodies.chapter(&own).is_none() || !is_large) {
            let arguments = function
                .params
                .iter()
                .zip(rules)
                .map(|(param, rule)| argument(abi, *rule, is_large, &param.name, &param.ctype));
            let arguments = form.arguments(arguments.collect());
            return Some(Body { chapter: bodies.chapter(&name)?, name, arguments });
        }
    }
    if let Some((form, name)) = Form::find(&own, bodies) {
        let arguments = form.arguments(passed(function).collect());
        return Some(Body { chapter: bodies.chapter(&name)?, name, arguments });
    }
    let name = older_name(&own).filter(|_| bodies.chapter(&own).is_none()).unwrap_or(own);
    let chapter = bodies.chapter(&name)?;
    Some(Body { chapter, name, arguments: passed(function).collect() })
}

/// The names of the parameters, but for variable ones, which no body looks at.
fn passed(function: &Function) -> impl Iterator<Item = String> {
    function.params.iter().filter(|param| param.ctype != "...").map(|param| param.name.clone())
}

/// Which form of an operation a function is, where one body serves several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// The body is this function's alone.
    Own,
    /// `MPI_Bcast`.
    Blocking,
    /// `MPI_Ibcast`: one more parameter, the request.
    Nonblocking,
    /// `MPI_Bcast_init`: two more, info and request.
    Persistent,
}

impl Form {
    /// The body for the function of that name.
    fn find(own: &str, bodies: &Bodies) -> Option<(Form, String)> {
        if bodies.chapter(own).is_some() {
            let form = if bodies.takes_form(own) { Form::Blocking } else { Form::Own };
            return Some((form, own.to_owned()));
        }
        let nonblocking = own.strip_prefix('i').map(|stem| (Form::Nonblocking, stem));
        let persistent = own.strip_suffix("_init").map(|stem| (Form::Persistent, stem));
        let forms = [nonblocking, persistent].into_iter().flatten();
        forms
            .filter(|(_, stem)| bodies.takes_form(stem))
            .map(|(form, stem)| (form, stem.to_owned()))
            .next()
    }

    /// The function's arguments as the body takes them.
    fn arguments(self, mut arguments: Vec<String>) -> Vec<String> {
        let (dropped, form) = match self {
            Form::Own => return arguments,
            Form::Blocking => (0, "CallForm::Blocking"),
            Form::Nonblocking => (1, "CallForm::Nonblocking(request)"),
            Form::Persistent => (2, "CallForm::Persistent(info, request)"),
        };
        arguments.truncate(arguments.len() - dropped);
        arguments.push(form.to_owned());
        arguments
    }
}

/// Fortran's conversions of handles are those of the ABI.
fn older_name(own: &str) -> Option<String> {
    let to = own.strip_suffix("_c2f").map(|class| format!("{class}_toint"));
    to.or_else(|| own.strip_suffix("_f2c").map(|class| format!("{class}_fromint")))
}

/// The plain and the `_c` function that this one is one of.
fn twins<'a>(abi: &'a Abi, function: &'a Function) -> (Option<&'a Function>, Option<&'a Function>) {
    let name = &function.name;
    if let Some(plain) = name.strip_suffix("_c") {
        return (abi.function(plain), Some(function));
    }
    if let Some(plain) = name.strip_suffix("_x") {
        let large =
            abi.function(&format!("{plain}_c")).filter(|large| large.params == function.params);
        return (abi.function(plain), large);
    }
    (Some(function), abi.function(&format!("{name}_c")))
}

fn rules(plain: &Function, large: &Function) -> Option<Vec<Rule>> {
    if plain.params.len() != large.params.len() {
        return None;
    }
    plain
        .params
        .iter()
        .zip(&large.params)
        .map(
            |(one, other)| {
                if one.name == other.name {
                    rule(&one.ctype, &other.ctype, &one.name)
                } else {
                    None
                }
            },
        )
        .collect()
}

fn rule(plain: &str, large: &str, name: &str) -> Option<Rule> {
    let is_place = name.contains("displ");
    Some(match (plain, large) {
        _ if plain == large => Rule::Same,
        ("MPI_Aint", "MPI_Count")
        | ("MPI_Aint *", "MPI_Count *")
        | ("const MPI_Aint[]", "const MPI_Count[]") => Rule::Same,
        ("int", "MPI_Count" | "MPI_Aint") => Rule::Wide,
        ("const int[]", "const MPI_Count[]" | "const MPI_Aint[]") if is_place => Rule::Displs,
        ("const int[]", "const MPI_Count[]") => Rule::Counts,
        ("int *", "MPI_Count *" | "MPI_Aint *") => Rule::Out,
        _ => return None,
    })
}

fn argument(abi: &Abi, rule: Rule, is_large: bool, name: &str, ctype: &str) -> String {
    let size = if is_large { "Large" } else { "Int" };
    match rule {
        Rule::Same => name.to_owned(),
        Rule::Wide if is_large => name.to_owned(),
        Rule::Wide => {
            debug_assert_eq!(rust(abi, ctype), "c_int");
            format!("MPI_Count::from({name})")
        }
        Rule::Counts => format!("Counts::{size}({name})"),
        Rule::Displs => format!("Displs::{size}({name})"),
        Rule::Out => format!("CountOut::{size}({name})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_large_count_function_shares_a_body_but_for_four() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../mpi-abi/abi");
        let abi = Abi::read(&folder).unwrap();
        let large = abi.functions.iter().filter(|function| function.name.ends_with("_c"));
        let alone: Vec<&str> = large
            .filter(|large| rules(twins(&abi, large).0.unwrap(), large).is_none())
            .map(|function| function.name.as_str())
            .collect();
        assert_eq!(
            alone,
            [
                "MPI_Op_create_c",
                "MPI_Register_datarep_c",
                "MPI_Type_get_contents_c",
                "MPI_Type_get_envelope_c"
            ]
        );
    }
}
