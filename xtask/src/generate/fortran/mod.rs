//! What comes from the tables of `fortran/abi`: the entry points of `libverbena_fortran.so`, the
//! header `mpif.h`, the modules, and programs that call every procedure in each interface.

mod constants;
mod entries;
mod externs;
mod header;
mod interface;
mod modules;
mod proof;
mod sections;
mod table;

use std::path::Path;

use anyhow::Result;

use super::Output;
use super::bodies::Bodies;
use super::table::Abi;

/// Makes all files.
pub(super) fn outputs(root: &Path, abi: &Abi) -> Result<Vec<Output>> {
    let fortran = table::Fortran::read(&root.join("fortran/abi"))?;
    let bodies = Bodies::find(&root.join("fortran/src"))?;
    let mut outputs = vec![
        externs::externs(abi),
        header::header(abi, &fortran),
        header::sizeof_entries(),
        modules::types(abi),
        modules::mpi(abi, &fortran),
        modules::mpi_f08(abi, &fortran),
    ];
    outputs.extend(entries::entries(abi, &fortran, &bodies)?);
    outputs.extend(proof::programs(abi, &fortran));
    Ok(outputs)
}
