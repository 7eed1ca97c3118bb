//! The hand-written bodies: every `pub(crate) unsafe fn` of the chapters.
//!
//! Chapters are the modules that `mpi-abi/src/lib.rs` declares under the line
//! [`MARK`], up to the next empty line. Definitions of other modules are no bodies, under any name.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

const MARK: &str = "// Chapters: the generator looks for bodies in these.";

/// Bodies by name.
pub(super) struct Bodies(BTreeMap<String, Found>);

struct Found {
    chapter: String,
    /// It serves several forms of an operation (`form: CallForm` is its last parameter).
    takes_form: bool,
}

impl Bodies {
    /// Reads the chapters of `src`.
    pub(super) fn find(src: &Path) -> Result<Bodies> {
        let lib = std::fs::read_to_string(src.join("lib.rs"))?;
        let (_, after) =
            lib.split_once(MARK).with_context(|| format!("lib.rs has no line `{MARK}`"))?;
        let chapters: Vec<&str> = after
            .lines()
            .skip(1)
            .take_while(|line| !line.is_empty())
            .filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'))
            .collect();
        ensure!(!chapters.is_empty(), "lib.rs names no chapters");
        let mut bodies = BTreeMap::new();
        for chapter in chapters {
            let text = std::fs::read_to_string(src.join(format!("{chapter}.rs")))
                .with_context(|| chapter.to_owned())?;
            for (name, takes_form) in names(&text) {
                let found = Found { chapter: chapter.to_owned(), takes_form };
                if let Some(other) = bodies.insert(name.to_owned(), found) {
                    bail!("{name} has a body in {}.rs and in {chapter}.rs", other.chapter);
                }
            }
        }
        Ok(Bodies(bodies))
    }

    /// The chapter that has the body of that name.
    pub(super) fn chapter(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|found| found.chapter.as_str())
    }

    /// True for a body that serves the blocking, nonblocking and persistent form.
    pub(super) fn takes_form(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|found| found.takes_form)
    }
}

/// Name, and whether it takes a [`Found::takes_form`].
fn names(text: &str) -> impl Iterator<Item = (&str, bool)> {
    let written = text.match_indices("\npub(crate) unsafe fn ").filter_map(|(at, start)| {
        let rest = &text[at + start.len()..];
        let signature = &rest[..rest.find(" {\n")?];
        Some((&rest[..rest.find(['(', '<'])?], signature.contains("form: CallForm")))
    });
    let by_macro = text.lines().filter_map(|line| line.strip_prefix("// Bodies: "));
    written.chain(by_macro.flat_map(str::split_whitespace).map(|name| (name, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crate_visible_unsafe_functions_are_bodies() {
        let text = "\npub(crate) unsafe fn send(\n) {\nunsafe fn send_as(\n    pub(crate) unsafe fn put(self) {\nfn x() {}\n\
                    pub(crate) unsafe fn barrier(comm: MPI_Comm, form: CallForm) -> Result<()> {\n";
        assert_eq!(names(text).collect::<Vec<_>>(), [("send", false), ("barrier", true)]);
    }
}
