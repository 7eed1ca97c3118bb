//! What comes from `mpich-abi/abi` and the tables of the standard ABI: the entry points of
//! `libmpi.so.12`, the conversions of its constants, the table of the functions below it, and a
//! program that checks the constants against MPICH's `mpi.h`.

mod constants;
mod entries;
mod kinds;
mod library;
mod types;

use std::path::Path;

use anyhow::Result;

use super::Output;
use super::bodies::Bodies;
use super::table::Abi;

/// Where the library's files are.
const FOLDER: &str = "mpich-abi/src/generated";

/// Makes all files.
pub(super) fn outputs(root: &Path, abi: &Abi) -> Result<Vec<Output>> {
    let constants = constants::Constants::read(&root.join("mpich-abi/abi/constants.csv"), abi)?;
    let bodies = Bodies::find(&root.join("mpich-abi/src"))?;
    let mut outputs =
        vec![constants.handles(), constants.values()?, constants.program(), library::library(abi)];
    outputs.extend(entries::entries(abi, &bodies)?);
    Ok(outputs)
}
