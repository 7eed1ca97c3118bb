//! What comes from `foreign-abi/abi` and the tables of the standard ABI: the entry points of
//! `libmpi.so.12` and `libmpi.so.40`, the table of the functions below them, and for each of the
//! two the conversions of its constants and a program that checks these against its `mpi.h`; also
//! the integers that Open MPI gives handles in Fortran.

mod constants;
mod entries;
mod integers;
mod kinds;
mod library;
mod objects;
mod types;

use std::path::Path;

use anyhow::Result;

use super::Output;
use super::bodies::Bodies;
use super::table::Abi;
use constants::Constants;
use integers::Integers;

/// The ABI of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Mpich,
    OpenMpi,
}

impl Target {
    /// The name of its folders.
    fn folder(self) -> &'static str {
        match self {
            Target::Mpich => "mpich",
            Target::OpenMpi => "openmpi",
        }
    }

    /// How texts call it.
    fn name(self) -> &'static str {
        match self {
            Target::Mpich => "MPICH",
            Target::OpenMpi => "Open MPI",
        }
    }
}

/// Where the library's files are.
const FOLDER: &str = "foreign-abi/src/generated";

/// Makes all files.
pub(super) fn outputs(root: &Path, abi: &Abi) -> Result<Vec<Output>> {
    let bodies = Bodies::find(&root.join("foreign-abi/src"))?;
    let mut outputs = vec![library::library(abi)];
    for target in [Target::Mpich, Target::OpenMpi] {
        let constants = Constants::read(root, target, abi)?;
        outputs.extend([constants.handles(), constants.values()?, constants.program()]);
    }
    let integers = Integers::read(root, abi)?;
    outputs.extend([integers.conversions(), integers.variables(), integers.program()]);
    outputs.extend(entries::entries(abi, &bodies)?);
    Ok(outputs)
}
