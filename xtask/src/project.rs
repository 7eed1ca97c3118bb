//! Where things are in the working tree and under `target/`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The working tree and its build folder.
pub(crate) struct Project {
    /// The folder of the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
    /// Cargo's target folder, which everything made goes into.
    pub(crate) target: PathBuf,
}

impl Project {
    /// The tree that this program was compiled in.
    pub(crate) fn find() -> Project {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .expect("xtask/ lies in the root")
            .to_owned();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(folder) => root.join(folder),
            None => root.join("target"),
        };
        Project { root, target }
    }

    /// Where `run` and `test` install to.
    pub(crate) fn prefix(&self) -> PathBuf {
        self.target.join("verbena")
    }

    /// `cargo` with the arguments given, in the root of the tree.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(arguments).current_dir(&self.root);
        cargo
    }

    /// A path as the user would write it from the root of the tree.
    pub(crate) fn shown<'a>(&self, path: &'a Path) -> std::path::Display<'a> {
        path.strip_prefix(&self.root).unwrap_or(path).display()
    }
}
