//! The tables of `fortran/abi`: procedures with their parameters, and what each kind of parameter
//! is in the three interfaces.

use std::collections::HashMap;
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};

use super::super::table::rows;

/// Both tables.
pub(super) struct Fortran {
    /// Procedures and callbacks.
    pub(super) procedures: Vec<Procedure>,
}

/// A kind of parameter, in Fortran's words.
pub(super) struct Kind {
    pub(super) name: String,
    /// In `mpif.h` and `mpi`.
    pub(super) mpi: String,
    pub(super) f08: String,
    /// In the second specific procedure of `mpi_f08`; empty if that has the same.
    pub(super) f08_large: String,
}

/// The form of an entry point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `mpif.h` and `mpi`; also `mpi_f08` if there is no buffer.
    Mpi,
    /// `mpi_f08` with default INTEGER counts.
    F08,
    /// `mpi_f08` with large counts: calls the `_c` function.
    Large,
}

/// Whether the call reads or writes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    In,
    Out,
    InOut,
}

/// A parameter.
pub(super) struct Param {
    pub(super) name: String,
    pub(super) kind: Rc<Kind>,
    pub(super) direction: Direction,
    /// Empty for a scalar; `*`, a parameter, a constant, or two dimensions.
    pub(super) length: String,
    pub(super) is_asynchronous: bool,
    /// Only the form with large counts has it.
    pub(super) is_large_only: bool,
    /// MPI gives it no INTENT.
    pub(super) has_no_intent: bool,
}

/// A procedure, or the type of a user's procedure.
pub(super) struct Procedure {
    pub(super) name: String,
    pub(super) in_mpi: bool,
    pub(super) in_f08: bool,
    pub(super) is_callback: bool,
    pub(super) params: Vec<Param>,
}

impl Fortran {
    pub(super) fn read(folder: &Path) -> Result<Fortran> {
        let kinds = rows(&folder.join("kinds.csv"), |row| {
            let field = |column| row.field(column).map(str::to_owned);
            let kind = Kind {
                name: field("kind")?,
                mpi: field("mpi")?,
                f08: field("f08")?,
                f08_large: field("f08_large")?,
            };
            Ok((kind.name.clone(), Rc::new(kind)))
        })?;
        let kinds: HashMap<String, Rc<Kind>> = kinds.into_iter().collect();
        let procedures = rows(&folder.join("procedures.csv"), |row| {
            let params = row.field("params")?.split("; ").filter(|param| !param.is_empty());
            Ok(Procedure {
                name: row.field("name")?.to_owned(),
                in_mpi: row.field("in_mpi")? == "1",
                in_f08: row.field("in_f08")? == "1",
                is_callback: row.field("is_callback")? == "1",
                params: params.map(|param| Param::parse(param, &kinds)).collect::<Result<_>>()?,
            })
        })?;
        Ok(Fortran { procedures })
    }

    /// Procedures that a program calls.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Procedure> {
        self.procedures.iter().filter(|procedure| !procedure.is_callback)
    }

    /// The types of procedures that a program passes.
    pub(super) fn callbacks(&self) -> impl Iterator<Item = &Procedure> {
        self.procedures.iter().filter(|procedure| procedure.is_callback)
    }
}

impl Param {
    fn parse(text: &str, kinds: &HashMap<String, Rc<Kind>>) -> Result<Param> {
        let fields: Vec<&str> = text.split(':').collect();
        ensure!(fields.len() == 5, "{text}: not name:kind:direction:length:flags");
        Ok(Param {
            name: fields[0].to_owned(),
            kind: kinds.get(fields[1]).with_context(|| format!("no kind {}", fields[1]))?.clone(),
            direction: match fields[2] {
                "in" => Direction::In,
                "out" => Direction::Out,
                _ => Direction::InOut,
            },
            length: fields[3].to_owned(),
            is_asynchronous: fields[4].contains('a'),
            is_large_only: fields[4].contains('l'),
            has_no_intent: fields[4].contains('i'),
        })
    }

    /// Its type in an interface.
    pub(super) fn ftype(&self, form: Form) -> &str {
        match form {
            Form::Mpi => &self.kind.mpi,
            Form::Large if !self.kind.f08_large.is_empty() => &self.kind.f08_large,
            Form::F08 | Form::Large => &self.kind.f08,
        }
    }

    /// The C class of a handle: `MPI_Comm`.
    pub(super) fn handle(&self) -> Option<&str> {
        let name = self.kind.f08.strip_prefix("TYPE(MPI_")?.strip_suffix(')')?;
        (name != "Status").then(|| &self.kind.f08["TYPE(".len()..self.kind.f08.len() - 1])
    }

    pub(super) fn is(&self, kind: &str) -> bool {
        self.kind.name == kind
    }

    pub(super) fn is_buffer(&self) -> bool {
        self.is("BUFFER")
    }

    pub(super) fn is_status(&self) -> bool {
        self.is("STATUS")
    }

    pub(super) fn is_text(&self) -> bool {
        self.kind.name.starts_with("STRING") && self.kind.mpi.starts_with("CHARACTER")
    }

    pub(super) fn is_function(&self) -> bool {
        self.kind.mpi == "EXTERNAL"
    }

    /// `ierror`, by whichever name.
    pub(super) fn is_error(&self) -> bool {
        self.name == "ierror" || self.name == "ierr"
    }

    pub(super) fn is_array(&self) -> bool {
        !self.length.is_empty() && !self.is_text()
    }
}

impl Procedure {
    /// The name without `MPI_`, in lower case.
    pub(super) fn snake(&self) -> String {
        self.name["MPI_".len()..].to_lowercase()
    }

    /// The parameters of a form.
    pub(super) fn params(&self, form: Form) -> impl Iterator<Item = &Param> {
        self.params.iter().filter(move |param| form == Form::Large || !param.is_large_only)
    }

    pub(super) fn has_buffer(&self) -> bool {
        self.params.iter().any(Param::is_buffer)
    }

    /// True if a second specific procedure takes large counts. Addresses and counts have one kind;
    /// procedures where only these would differ have one specific procedure (MPI-5.0 §19.2).
    pub(super) fn has_large(&self) -> bool {
        let differs = |param: &Param| {
            param.is_large_only
                || (param.kind.f08 == "INTEGER" && param.kind.f08_large.starts_with("INTEGER("))
        };
        self.in_f08 && (self.has_large_name() || self.params.iter().any(differs))
    }

    /// True if the form with large counts has a name of its own, as its arguments look alike.
    pub(super) fn has_large_name(&self) -> bool {
        self.in_f08 && self.params.iter().any(|param| param.is("POLYFUNCTION"))
    }

    /// A function rather than a subroutine: its type.
    pub(super) fn returns(&self) -> Option<&'static str> {
        matches!(self.name.as_str(), "MPI_Aint_add" | "MPI_Aint_diff")
            .then_some("INTEGER(KIND=MPI_ADDRESS_KIND)")
    }

    /// A predefined callback: a procedure that programs pass and seldom call.
    pub(super) fn is_predefined_callback(&self) -> bool {
        self.name.contains("_FN")
    }

    /// MPI_Barrier_init, MPI_Allreduce_init and their like.
    pub(super) fn is_persistent_collective(&self) -> bool {
        let has = |kind| self.params.iter().any(|param: &Param| param.is(kind));
        self.name.ends_with("_init") && has("COMMUNICATOR") && has("INFO") && !has("PARTITION")
    }

    /// The name that the linker knows in `mpi_f08`, without mangling.
    pub(super) fn f08_symbol(&self, form: Form) -> String {
        let large = if form == Form::Large { "_c" } else { "" };
        let end = if self.has_buffer() { "f08ts" } else { "f08" };
        format!("{}{large}_{end}", self.name)
    }
}
