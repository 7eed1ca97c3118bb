//! The tables of `mpi-abi/abi`, read.
//!
//! Plain comma-separated values without quotes; lists inside a field are
//! separated by semicolons.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

/// All tables.
pub(super) struct Abi {
    /// In the order of the table, which is that of the call numbers.
    pub(super) functions: Vec<Function>,
    pub(super) constants: Vec<Constant>,
    pub(super) callbacks: Vec<Callback>,
    pub(super) layout: Vec<Layout>,
    by_name: HashMap<String, usize>,
}

/// Where a declaration belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    /// The standard ABI.
    Abi,
    /// Removed in MPI-3.0; ours in addition.
    Removed,
    /// Handles and statuses of Fortran; ours in addition.
    Fortran,
}

/// A parameter: its C type and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Param {
    pub(super) ctype: String,
    pub(super) name: String,
}

/// A function of the C interface.
pub(super) struct Function {
    pub(super) name: String,
    pub(super) returns: String,
    pub(super) params: Vec<Param>,
    pub(super) chapter: String,
    /// The MPI version that deprecated it, or empty.
    pub(super) deprecated: String,
    pub(super) section: Section,
    pub(super) note: String,
}

/// A named value.
pub(super) struct Constant {
    pub(super) name: String,
    /// As C writes it.
    pub(super) text: String,
    pub(super) value: i64,
    pub(super) ctype: String,
    pub(super) kind: String,
    pub(super) note: String,
}

/// The type of a function of the user's.
pub(super) struct Callback {
    pub(super) name: String,
    pub(super) returns: String,
    pub(super) params: Vec<Param>,
    /// The constants of this type are 0 and 1: a value, not a function.
    pub(super) is_value: bool,
    /// `abi`, `tool` or `removed`.
    pub(super) section: String,
    pub(super) note: String,
}

/// A size, an offset or a sign.
pub(super) struct Layout {
    /// `sizeof`, `offsetof` or `signed`.
    pub(super) what: String,
    /// A type, or `type.field`.
    pub(super) name: String,
    pub(super) value: i64,
    /// `align N` of a type, `size N` of a field, or empty.
    pub(super) detail: String,
}

impl Abi {
    /// Reads the four tables of `folder`.
    pub(super) fn read(folder: &Path) -> Result<Abi> {
        let functions: Vec<Function> = rows(&folder.join("functions.csv"), Function::from_row)?;
        let by_name = functions
            .iter()
            .enumerate()
            .map(|(at, function)| (function.name.clone(), at))
            .collect();
        Ok(Abi {
            functions,
            constants: rows(&folder.join("constants.csv"), Constant::from_row)?,
            callbacks: rows(&folder.join("callbacks.csv"), Callback::from_row)?,
            layout: rows(&folder.join("layout.csv"), Layout::from_row)?,
            by_name,
        })
    }

    /// The functions of the standard ABI by chapter, in the order of the table.
    pub(super) fn chapters(&self) -> Vec<(&str, Vec<&Function>)> {
        let mut chapters: Vec<(&str, Vec<&Function>)> = Vec::new();
        for function in self.functions.iter().filter(|it| it.section == Section::Abi) {
            match chapters.iter_mut().find(|(name, _)| *name == function.chapter) {
                Some((_, functions)) => functions.push(function),
                None => chapters.push((&function.chapter, vec![function])),
            }
        }
        chapters
    }

    /// The function of that name.
    pub(super) fn function(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name).map(|&at| &self.functions[at])
    }

    /// The callback of that name.
    pub(super) fn callback(&self, name: &str) -> Option<&Callback> {
        self.callbacks.iter().find(|callback| callback.name == name)
    }
}

impl Function {
    fn from_row(row: &Row<'_>) -> Result<Function> {
        Ok(Function {
            name: row.field("name")?.to_owned(),
            returns: row.field("return_type")?.to_owned(),
            params: params(row)?,
            chapter: row.field("chapter")?.to_owned(),
            deprecated: row.field("deprecated_in")?.to_owned(),
            section: match row.field("section")? {
                "removed" => Section::Removed,
                "fortran" => Section::Fortran,
                _ => Section::Abi,
            },
            note: row.field("note")?.to_owned(),
        })
    }

    /// Without `MPI_`: what the call is named inside.
    pub(super) fn short(&self) -> &str {
        self.name.strip_prefix("MPI_").unwrap_or(&self.name)
    }

    /// The name of its body, if that is its own.
    pub(super) fn snake(&self) -> String {
        self.short().to_lowercase()
    }

    /// Of the tool information interface, whose errors go to no handler
    /// (MPI-5.0 §15.3).
    pub(super) fn is_tool(&self) -> bool {
        self.name.starts_with("MPI_T_")
    }

    /// Returns a value and cannot fail: its body is written by hand in full.
    pub(super) fn is_whole(&self) -> bool {
        self.returns != "int" || self.is_tool() || self.name.ends_with("_toint")
    }
}

impl Constant {
    fn from_row(row: &Row<'_>) -> Result<Constant> {
        let text = row.field("value")?.to_owned();
        let value = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16),
            None => text.parse(),
        };
        Ok(Constant {
            name: row.field("name")?.to_owned(),
            value: value.with_context(|| format!("{text} is not a number"))?,
            text,
            ctype: row.field("c_type")?.to_owned(),
            kind: row.field("kind")?.to_owned(),
            note: row.field("note")?.to_owned(),
        })
    }
}

impl Callback {
    fn from_row(row: &Row<'_>) -> Result<Callback> {
        Ok(Callback {
            name: row.field("name")?.to_owned(),
            returns: row.field("return_type")?.to_owned(),
            params: params(row)?,
            is_value: row.field("rust")? == "value",
            section: row.field("section")?.to_owned(),
            note: row.field("note")?.to_owned(),
        })
    }
}

impl Layout {
    fn from_row(row: &Row<'_>) -> Result<Layout> {
        Ok(Layout {
            what: row.field("what")?.to_owned(),
            name: row.field("name")?.to_owned(),
            value: row.field("value")?.parse()?,
            detail: row.field("detail")?.to_owned(),
        })
    }
}

/// One line, by the names of its columns.
pub(super) struct Row<'a> {
    columns: &'a [&'a str],
    fields: Vec<&'a str>,
}

impl<'a> Row<'a> {
    pub(super) fn field(&self, column: &str) -> Result<&'a str> {
        let at = self
            .columns
            .iter()
            .position(|name| *name == column)
            .with_context(|| format!("no column {column}"))?;
        Ok(self.fields[at])
    }
}

pub(super) fn rows<T>(path: &Path, make: impl Fn(&Row<'_>) -> Result<T>) -> Result<Vec<T>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let mut lines = text.lines().enumerate();
    let columns: Vec<&str> = lines.next().context("an empty table")?.1.split(',').collect();
    lines
        .map(|(number, line)| {
            let fields: Vec<&str> = line.split(',').collect();
            let place = || format!("{}:{}", path.display(), number + 1);
            ensure!(
                fields.len() == columns.len(),
                "{}: {} fields instead of {}",
                place(),
                fields.len(),
                columns.len()
            );
            make(&Row { columns: &columns, fields }).with_context(place)
        })
        .collect()
}

fn params(row: &Row<'_>) -> Result<Vec<Param>> {
    let list = |column| -> Result<Vec<&str>> {
        Ok(row.field(column)?.split(';').map(str::trim).collect())
    };
    let (types, mut names) = (list("param_types")?, list("param_names")?);
    if types == [""] {
        return Ok(Vec::new());
    }
    if types.last() == Some(&"...") {
        names.push("");
    }
    ensure!(types.len() == names.len(), "{} types, but {} names", types.len(), names.len());
    Ok(types
        .iter()
        .zip(names)
        .map(|(ctype, name)| Param { ctype: (*ctype).to_owned(), name: name.to_owned() })
        .collect())
}
