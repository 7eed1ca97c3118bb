//! Constants of two ABIs, the program's and the standard's: conversions of handles and values, and
//! a program that checks those of the first.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::super::Output;
use super::super::table::{Abi, Row, rows};
use super::objects::{self, Object};
use super::{FOLDER, Target};

/// A constant that both ABIs have.
struct Constant {
    name: String,
    /// The program's value; 0 for an object's address.
    users: i64,
    object: Option<Object>,
    standard: i64,
    ctype: String,
    kind: String,
}

/// The constants of `foreign-abi/abi/*/constants.csv`.
pub(super) struct Constants {
    target: Target,
    of_both: Vec<Constant>,
    /// Error classes of the standard that the program does not know, and what it gets for them.
    unknown_errors: Vec<(String, i64, i64)>,
    /// The standard's limits of texts.
    limits: Vec<(String, i64)>,
}

/// The class of a handle and the name of its functions.
const CLASSES: [(&str, &str); 10] = [
    ("MPI_Comm", "comm"),
    ("MPI_Group", "group"),
    ("MPI_Datatype", "datatype"),
    ("MPI_Op", "op"),
    ("MPI_Request", "request"),
    ("MPI_Message", "message"),
    ("MPI_Win", "win"),
    ("MPI_Info", "info"),
    ("MPI_Errhandler", "errhandler"),
    ("MPI_Session", "session"),
];

/// Constants that the standard has under another name.
const SYNONYMS: [(&str, &str); 2] =
    [("MPIX_C_FLOAT16", "MPI_REAL2"), ("OMPI_COMM_TYPE_HOST", "MPI_COMM_TYPE_SHARED")];

/// Values that are converted as they are: the name of the functions, and the kinds in
/// `mpi-abi/abi/constants.csv` or the constants.
const VALUES: [(&str, &[&str]); 23] = [
    ("error", &["error class", "mpi_t error code"]),
    ("rank", &["MPI_ANY_SOURCE", "MPI_PROC_NULL", "MPI_ROOT"]),
    ("tag", &["MPI_ANY_TAG"]),
    ("thread_level", &["thread level"]),
    ("order", &["array order"]),
    ("distribution", &["MPI_DISTRIBUTE_BLOCK", "MPI_DISTRIBUTE_CYCLIC", "MPI_DISTRIBUTE_NONE"]),
    ("distribution_argument", &["MPI_DISTRIBUTE_DFLT_DARG"]),
    ("combiner", &["combiner"]),
    ("typeclass", &["typeclass"]),
    ("comparison", &["comparison result"]),
    ("topology", &["topology type"]),
    ("split_type", &["split type"]),
    ("lock_type", &["lock type"]),
    ("win_flavor", &["win flavor"]),
    ("win_model", &["win model"]),
    ("seek", &["file seek"]),
    ("keyval", &["keyval", "predefined comm attribute", "predefined win attribute"]),
    ("safety", &["mpi_t callback safety"]),
    ("source_order", &["mpi_t source order"]),
    ("verbosity", &["mpi_t verbosity"]),
    ("bind", &["mpi_t binding"]),
    ("scope", &["mpi_t scope"]),
    ("pvar_class", &["mpi_t pvar class"]),
];

/// Sets of bits.
const MASKS: [(&str, &str); 2] =
    [("file_mode", "file open mode"), ("assertion", "window assertion mode")];

/// Errors of the standard that a program may not know, and what it gets for them.
const SUBSTITUTES: [(&str, &str); 4] = [
    ("MPI_ERR_ERRHANDLER", "MPI_ERR_ARG"),
    ("MPI_ERR_ABI", "MPI_ERR_OTHER"),
    ("MPI_T_ERR_NOT_ACCESSIBLE", "MPI_T_ERR_INVALID"),
    ("MPI_T_ERR_NOT_SUPPORTED", "MPI_T_ERR_INVALID"),
];

/// Values that Open MPI does not have.
const ABSENT: [&str; 2] = ["safety", "source_order"];

/// Constants that only name a limit; or whose code treats them alone.
const APART: [&str; 1] = ["MPI_ERR_LASTCODE"];

impl Constants {
    pub(super) fn read(root: &Path, target: Target, abi: &Abi) -> Result<Constants> {
        let path = root.join(format!("foreign-abi/abi/{}/constants.csv", target.folder()));
        let of_both = rows(&path, |row: &Row<'_>| {
            let name = row.field("name")?;
            let text = row.field("value")?;
            let synonym = SYNONYMS.iter().find(|(known, _)| *known == name);
            let wanted = synonym.map_or(name, |(_, wanted)| wanted);
            let standard = abi
                .constants
                .iter()
                .find(|constant| constant.name == wanted)
                .with_context(|| format!("the standard ABI has no {wanted}"))?;
            let object = match text.starts_with("ompi_") {
                true => Some(Object::new(text, name, standard)?),
                false => None,
            };
            let users = match text.strip_prefix("0x") {
                _ if object.is_some() => Ok(0),
                Some(digits) => i64::from_str_radix(digits, 16),
                None => text.parse(),
            };
            Ok(Constant {
                name: name.to_owned(),
                users: users.with_context(|| format!("{text} is not a number"))?,
                object,
                standard: standard.value,
                ctype: standard.ctype.clone(),
                kind: standard.kind.clone(),
            })
        })?;
        let of_kind = |kind: &'static str| {
            let all = abi.constants.iter().filter(move |it| it.kind == kind);
            all.map(|it| (it.name.clone(), it.value))
        };
        let users = |name: &str| {
            of_both.iter().find(|it: &&Constant| it.name == name).map(|constant| constant.users)
        };
        let errors = of_kind("error class").chain(of_kind("mpi_t error code"));
        let unknown_errors = errors
            .filter(|(name, _)| users(name).is_none())
            .map(|(name, standard)| {
                let substitute = SUBSTITUTES.iter().find(|(unknown, _)| *unknown == name);
                let substitute = substitute.and_then(|(_, substitute)| users(substitute));
                let substitute = substitute.with_context(|| format!("nothing stands for {name}"));
                Ok((name, standard, substitute?))
            })
            .collect::<Result<_>>()?;
        let limits = of_kind("string length limit").collect();
        Ok(Constants { target, of_both, unknown_errors, limits })
    }

    /// `handles.rs`: predefined handles; 0 for others.
    pub(super) fn handles(&self) -> Output {
        if self.target == Target::OpenMpi {
            let path = format!("{FOLDER}/openmpi/handles.rs");
            return Output::new(path, objects::definitions(self.objects()));
        }
        let mut text = "// Generated by `cargo xtask generate`; do not edit.\n\
             //! Predefined handles of MPICH for those of the standard ABI, and back. 0 is none.\n"
            .to_owned();
        for (class, function) in CLASSES {
            let handles: Vec<&Constant> =
                self.of_both.iter().filter(|it| it.ctype == class).collect();
            match class {
                "MPI_Datatype" => datatypes(&mut text, &handles),
                _ => {
                    let _ = write!(
                        text,
                        "\n#[inline]\npub(crate) fn {function}_to(handle: u32) -> usize {{\n    \
                         match handle {{\n"
                    );
                    for Constant { name, users, standard, .. } in distinct(&handles, |it| it.users)
                    {
                        let _ = writeln!(text, "        {users:#010x} => {standard:#x}, // {name}");
                    }
                    text.push_str("        _ => 0,\n    }\n}\n");
                }
            }
            let _ = write!(
                text,
                "\n#[inline]\npub(crate) fn {function}_from(handle: usize) -> u32 {{\n    \
                 match handle {{\n"
            );
            for Constant { name, users, standard, .. } in distinct(&handles, |it| it.standard) {
                let _ = writeln!(text, "        {standard:#x} => {users:#010x}, // {name}");
            }
            text.push_str("        _ => 0,\n    }\n}\n");
        }
        Output::new(format!("{FOLDER}/mpich/handles.rs"), text)
    }

    /// `values.rs`: other constants.
    pub(super) fn values(&self) -> Result<Output> {
        let mut text = "// Generated by `cargo xtask generate`; do not edit.\n\
             //! Constants: `_in` converts the program's for the library below, `_out` those\n\
             //! of the standard for the program. Other values are the same in both.\n\n\
             #![allow(dead_code, reason = \"both directions of all\")]\n\n\
             use std::os::raw::c_int;\n"
            .to_owned();
        for (function, of) in VALUES {
            let constants = self.of(of);
            let may_be_absent = self.target == Target::OpenMpi && ABSENT.contains(&function);
            ensure!(may_be_absent || !constants.is_empty(), "no constants for {function}");
            let numbers = |it: &Constant| (it.users, it.standard);
            arms(&mut text, function, "in", &distinct(&constants, |it| it.users), numbers, &[]);
            let numbers = |it: &Constant| (it.standard, it.users);
            let unknown = if function == "error" { &self.unknown_errors[..] } else { &[] };
            let distinct = distinct(&constants, |it| it.standard);
            arms(&mut text, function, "out", &distinct, numbers, unknown);
        }
        for (function, kind) in MASKS {
            let constants = self.of(&[kind]);
            mask(&mut text, function, "in", &constants, |it| (it.users, it.standard));
            mask(&mut text, function, "out", &constants, |it| (it.standard, it.users));
        }
        let current = self.of(&["MPI_DISPLACEMENT_CURRENT"]);
        let current = current.first().context("no MPI_DISPLACEMENT_CURRENT")?;
        let _ = write!(
            text,
            "\n#[inline]\npub(crate) fn displacement_in(value: i64) -> i64 {{\n    \
             if value == {} {{ {} }} else {{ value }}\n}}\n",
            current.users, current.standard
        );
        text.push_str("\n/// Lengths of texts with their end.\npub(crate) mod limits {\n");
        for limit in self.of(&["string length limit"]) {
            let Constant { name, users, .. } = limit;
            let _ = writeln!(text, "    pub(crate) const {name}: usize = {users};");
        }
        text.push_str("}\n\n/// Those of the standard ABI.\npub(crate) mod standard_limits {\n");
        for (name, value) in &self.limits {
            let _ = writeln!(text, "    pub(crate) const {name}: usize = {value};");
        }
        text.push_str("}\n");
        Ok(Output::new(format!("{FOLDER}/{}/values.rs", self.target.folder()), text))
    }

    /// A C program that compiles where `mpi.h` has the values of the table.
    pub(super) fn program(&self) -> Output {
        let folder = self.target.folder();
        let mut text = format!(
            "/* Generated by `cargo xtask generate`; do not edit.\n   \
             Compiles if mpi.h of {} has the constants of foreign-abi/abi/{folder}. */\n\
             #include <mpi.h>\n#include <stddef.h>\n\n",
            self.target.name()
        );
        if self.target == Target::OpenMpi {
            text.push_str(&objects::checks(self.objects()));
        }
        for Constant { name, users, ctype, .. } in self.numbers() {
            let number = match ctype.as_str() {
                _ if users.unsigned_abs() > 0x7fff_ffff || *users > 0x0100_0000 => {
                    format!("(int)0x{users:x}u")
                }
                _ => users.to_string(),
            };
            let actual = match ctype.as_str() {
                pointer if pointer.ends_with('*') || pointer.starts_with("MPI_T_") => {
                    format!("(long)({name})")
                }
                "MPI_File" => format!("(long)({name})"),
                _ => format!("({name})"),
            };
            let _ = writeln!(text, "_Static_assert({actual} == {number}, \"{name}\");");
        }
        let (size, source, tag, error) = match self.target {
            Target::Mpich => (20, 8, 12, 16),
            Target::OpenMpi => (24, 0, 4, 8),
        };
        let _ = write!(
            text,
            "_Static_assert(sizeof(MPI_Status) == {size} && \
             offsetof(MPI_Status, MPI_SOURCE) == {source} &&\n\
             \x20              offsetof(MPI_Status, MPI_TAG) == {tag} && \
             offsetof(MPI_Status, MPI_ERROR) == {error},\n               \
             \"MPI_Status\");\n\nint main(void)\n{{\n    return 0;\n}}\n"
        );
        Output::new(format!("foreign-abi/abi/{folder}/constants.c"), text)
    }

    /// Constants that are no addresses of objects.
    fn numbers(&self) -> impl Iterator<Item = &Constant> {
        self.of_both.iter().filter(|it| it.object.is_none())
    }

    /// Those that are.
    fn objects(&self) -> impl Iterator<Item = &Object> {
        self.of_both.iter().filter_map(|it| it.object.as_ref())
    }

    /// The constants of these kinds or names.
    fn of(&self, kinds: &[&str]) -> Vec<&Constant> {
        let wanted = |it: &&Constant| {
            kinds.contains(&it.kind.as_str()) && !APART.contains(&it.name.as_str())
                || kinds.contains(&it.name.as_str())
        };
        self.of_both.iter().filter(wanted).collect()
    }
}

/// The first constant of each number.
fn distinct<'a>(constants: &[&'a Constant], of: impl Fn(&Constant) -> i64) -> Vec<&'a Constant> {
    let mut known: Vec<i64> = Vec::new();
    let is_new = |it: &&&Constant| {
        let number = of(it);
        let is_new = !known.contains(&number);
        known.push(number);
        is_new
    };
    constants.iter().filter(is_new).copied().collect()
}

/// Datatypes are found by the lower byte of MPICH's number; the five pairs have another form.
fn datatypes(text: &mut String, handles: &[&Constant]) {
    const DIRECT: i64 = 0x8c00_0000;
    let mut bytes = vec![(0, 0); 256];
    let mut others = Vec::new();
    for Constant { name, users, standard, .. } in distinct(handles, |it| it.users) {
        if users >> 24 == 0x4c {
            let slot = &mut bytes[(users & 0xff) as usize];
            assert_eq!(*slot, (0, 0), "{name} has the place of another type");
            *slot = (*users, *standard);
        } else {
            assert!(*users >= DIRECT || *standard == 0x200, "{name} has an unknown form");
            others.push((*users, *standard, name));
        }
    }
    let last = bytes.iter().rposition(|slot| *slot != (0, 0)).map_or(0, |at| at + 1);
    let _ = write!(
        text,
        "\n/// MPICH's datatypes and the standard's, by the lower byte of the first.\n\
         static DATATYPES: [(u32, u32); {last}] = [\n"
    );
    for (users, standard) in &bytes[..last] {
        let _ = writeln!(text, "    ({users:#x}, {standard:#x}),");
    }
    text.push_str(
        "];\n\n#[inline]\npub(crate) fn datatype_to(handle: u32) -> usize {\n    \
         match DATATYPES.get((handle & 0xff) as usize) {\n        \
         Some((users, standard)) if *users == handle => *standard as usize,\n        \
         _ => other_datatype_to(handle),\n    }\n}\n\n\
         #[inline(never)]\nfn other_datatype_to(handle: u32) -> usize {\n    match handle {\n",
    );
    for (users, standard, name) in others {
        let _ = writeln!(text, "        {users:#010x} => {standard:#x}, // {name}");
    }
    text.push_str("        _ => 0,\n    }\n}\n");
}

fn arms(
    text: &mut String,
    function: &str,
    direction: &str,
    constants: &[&Constant],
    numbers: impl Fn(&Constant) -> (i64, i64),
    unknown: &[(String, i64, i64)],
) {
    let _ = write!(
        text,
        "\n#[inline]\npub(crate) fn {function}_{direction}(value: c_int) -> c_int {{\n"
    );
    let mut arms = String::new();
    for (name, standard, substitute) in unknown {
        let _ = writeln!(arms, "        {standard} => {substitute}, // {name}");
    }
    for constant in constants {
        let (from, to) = numbers(constant);
        if from != to {
            let _ = writeln!(arms, "        {from} => {to}, // {}", constant.name);
        }
    }
    text.push_str(&match arms.as_str() {
        "" => "    value\n}\n".to_owned(),
        arms => format!("    match value {{\n{arms}        _ => value,\n    }}\n}}\n"),
    });
}

/// Unknown bits become a value that the library below refuses.
fn mask(
    text: &mut String,
    function: &str,
    direction: &str,
    constants: &[&Constant],
    numbers: impl Fn(&Constant) -> (i64, i64),
) {
    let known: i64 = constants.iter().map(|it| numbers(it).0).sum();
    let _ = write!(
        text,
        "\n#[inline]\npub(crate) fn {function}_{direction}(value: c_int) -> c_int {{\n    \
         let mut found = if value & !{known} == 0 {{ 0 }} else {{ -1 }};\n"
    );
    for constant in constants {
        let (from, to) = numbers(constant);
        let name = &constant.name;
        let _ = writeln!(text, "    if value & {from} != 0 {{ found |= {to}; }} // {name}");
    }
    text.push_str("    found\n}\n");
}
