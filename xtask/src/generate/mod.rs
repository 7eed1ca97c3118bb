//! `cargo xtask generate`: the files that come from the tables of the ABI.
//!
//! In: `mpi-abi/abi/*.csv` and the bodies found in `mpi-abi/src`. Out: the C header, the exported
//! entry points and the constants for Rust; also the table of calls, and a C program that checks
//! the header against the tables. The outputs are checked in; nothing is generated while building.

mod bodies;
mod calls;
mod constants;
mod conversion;
mod exports;
mod foreign;
mod fortran;
mod header;
mod proof;
mod rust_api;
mod table;
mod types;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use bodies::Bodies;
use table::Abi;

/// A file as it should be.
struct Output {
    path: PathBuf,
    content: String,
}

impl Output {
    fn new(path: impl Into<PathBuf>, content: String) -> Output {
        Output { path: path.into(), content }
    }
}

/// Writes the files, or with `check` fails where one differs from the tables.
pub(crate) fn generate(check: bool) -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask/ lies in the root")?;
    let abi = Abi::read(&root.join("mpi-abi/abi"))?;
    let bodies = Bodies::find(&root.join("mpi-abi/src"))?;
    let mut outputs = vec![header::header(&abi), constants::constants(&abi), proof::program(&abi)];
    outputs.extend(exports::exports(&abi, &bodies)?);
    outputs.push(calls::calls(&abi, &bodies)?);
    outputs.extend(rust_api::outputs(&abi));
    outputs.extend(fortran::outputs(root, &abi)?);
    outputs.extend(foreign::outputs(root, &abi)?);
    let stale: Vec<String> = outputs
        .iter()
        .filter(|output| {
            std::fs::read_to_string(root.join(&output.path)).ok().as_ref() != Some(&output.content)
        })
        .map(|output| output.path.display().to_string())
        .collect();
    if check && !stale.is_empty() {
        bail!("not as the tables and bodies say: {}; run `cargo xtask generate`", stale.join(", "));
    }
    for output in outputs.iter().filter(|output| stale.contains(&output.path.display().to_string()))
    {
        let path = root.join(&output.path);
        std::fs::create_dir_all(path.parent().context("a file lies in a folder")?)?;
        std::fs::write(&path, &output.content)
            .with_context(|| format!("writing {}", path.display()))?;
        println!("wrote {}", output.path.display());
    }
    let implemented = abi
        .functions
        .iter()
        .filter(|function| conversion::body_of(&abi, function, &bodies).is_some());
    println!("{} functions, {} of them implemented", abi.functions.len(), implemented.count());
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn generated_files_match_the_tables() {
        super::generate(true).unwrap();
    }
}
