//! `tests/programs/table.toml`: which C program is run how, and what it must do.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use regex::Regex;
use serde::Deserialize;

/// The table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// The cases that every release must pass, and the rows that are theirs.
    #[serde(default)]
    seed: Vec<Seed>,
    case: Vec<Case>,
}

/// A case that every release must pass.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Seed {
    number: usize,
    what: String,
    /// The rows that prove it.
    #[serde(default)]
    rows: Vec<String>,
    /// Why there are none yet.
    waiting: Option<String>,
}

/// One row: a program, the variants of its run, and what is expected.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Case {
    /// The source, `tests/programs/<program>.c`. Empty: `line` is the whole command.
    #[serde(default)]
    pub(super) program: String,
    /// The row's name; the program's name unless given.
    #[serde(default)]
    pub(super) name: String,
    /// Run once on each of these numbers of ranks.
    #[serde(default)]
    pub(super) ranks: Vec<u32>,
    /// Arguments of the program.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Options of mpiexec in front of the program.
    #[serde(default)]
    pub(super) options: Vec<String>,
    /// Instead of `ranks`, `options` and `args`: all words after `mpiexec`.
    #[serde(default)]
    pub(super) line: Vec<String>,
    /// Run the program (or `line`) by itself, without mpiexec.
    #[serde(default)]
    pub(super) alone: bool,
    /// Its standard input.
    #[serde(default)]
    pub(super) stdin: Option<String>,
    /// Variables for mpiexec.
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    /// A source that becomes a shared library for LD_PRELOAD.
    #[serde(default)]
    pub(super) preload: Option<String>,
    /// A second source linked in front of the library.
    #[serde(default)]
    pub(super) with: Option<String>,
    /// More words for the compiler, after the source.
    #[serde(default)]
    pub(super) flags: Vec<String>,
    /// The exit code.
    #[serde(default)]
    pub(super) exit: Exit,
    /// Each must match somewhere in standard output.
    #[serde(default = "an_ok_line")]
    pub(super) stdout: Vec<Pattern>,
    /// Each must match somewhere in standard error.
    #[serde(default)]
    pub(super) stderr: Vec<Pattern>,
    /// None may match in either.
    #[serde(default)]
    pub(super) absent: Vec<Pattern>,
    /// Ends within so many seconds from its start.
    #[serde(default)]
    pub(super) within: Option<f64>,
    /// Is ended after so many seconds.
    #[serde(default = "a_minute")]
    pub(super) timeout: u64,
    /// Needs much memory or time.
    #[serde(default)]
    pub(super) slow: bool,
    /// A command that must succeed; otherwise the row is skipped: the machine does not allow what
    /// it needs.
    #[serde(default)]
    pub(super) needs: Vec<String>,
    /// Speaks of our own mpiexec or texts; skipped on another MPI.
    #[serde(default)]
    pub(super) ours: bool,
    /// Why it is not run over two hosts as well.
    #[serde(default)]
    pub(super) one_host: Option<String>,
    /// Needs a file system that all hosts share.
    #[serde(default)]
    pub(super) shared_files: bool,
    /// Run on so many ranks under valgrind and with AddressSanitizer too.
    #[serde(default)]
    pub(super) memory: Option<u32>,
    /// Why it is not run yet.
    #[serde(default)]
    pub(super) waiting: Option<String>,
}

impl Case {
    /// The run of this row under a tool that watches memory, if there is one:
    /// marked in the table, or any that ends well when `thorough`. It takes
    /// longer than the row allows.
    pub(super) fn watched(mut self, thorough: bool) -> Option<Case> {
        let ends_well = self.exit == Exit::Code(0)
            && self.within.is_none()
            && !self.slow
            && self.preload.is_none();
        let any =
            (thorough && ends_well).then(|| self.ranks.iter().copied().find(|&ranks| ranks > 1));
        self.ranks = vec![self.memory.or(any.flatten())?];
        self.timeout = self.timeout.max(120) * 10;
        Some(self)
    }
}

impl Case {
    /// A row that is run on four ranks over two hosts, too: a program that ends well.
    /// `shares_files`: the hosts share their file systems.
    pub(super) fn is_for_hosts(&self, shares_files: bool) -> bool {
        let plain =
            self.line.is_empty() && !self.alone && self.preload.is_none() && self.env.is_empty();
        let quiet = self.stdin.is_none() && self.one_host.is_none();
        let ends_well = self.exit == Exit::Code(0)
            && self.within.is_none()
            && !self.slow
            && self.waiting.is_none();
        let finds_files = shares_files || !self.shared_files;
        plain && quiet && ends_well && finds_files && self.ranks.contains(&4)
    }
}

/// The expected exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(super) enum Exit {
    /// This one.
    Code(i32),
    /// Any but 0.
    Failure(Failure),
}

/// The word for any exit code but 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Failure {
    Failure,
}

impl Default for Exit {
    fn default() -> Exit {
        Exit::Code(0)
    }
}

/// A regular expression in which `^` and `$` are the ends of lines.
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Pattern(pub(super) Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;
    fn try_from(text: String) -> Result<Pattern, regex::Error> {
        Regex::new(&format!("(?m){text}")).map(Pattern)
    }
}

impl Pattern {
    fn from_constant(text: &str) -> Pattern {
        Pattern::try_from(text.to_owned()).expect("a constant")
    }
}

fn an_ok_line() -> Vec<Pattern> {
    vec![Pattern::from_constant("^ok$")]
}

fn a_minute() -> u64 {
    60
}

/// Reads the table and checks that each row can be run.
pub(super) fn read(path: &Path) -> Result<Vec<Case>> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<Vec<Case>> {
    let mut table: Table = toml::from_str(text)?;
    for case in &mut table.case {
        if case.name.is_empty() {
            case.name.clone_from(&case.program);
        }
        let name = &case.name;
        ensure!(!name.is_empty(), "a row has neither `program` nor `name`");
        let ways =
            [!case.ranks.is_empty(), !case.line.is_empty(), case.alone && case.line.is_empty()];
        ensure!(
            ways.iter().filter(|way| **way).count() == 1,
            "{name}: give one of `ranks`, `line`, `alone`"
        );
        ensure!(
            !case.program.is_empty() || !case.line.is_empty(),
            "{name}: no `program` and no `line`"
        );
    }
    check_seeds(&table)?;
    Ok(table.case)
}

/// The numbers run from 1, and each has rows that exist and are run, or a reason.
fn check_seeds(table: &Table) -> Result<()> {
    for (at, seed) in table.seed.iter().enumerate() {
        let Seed { number, what, rows, waiting } = seed;
        ensure!(*number == at + 1, "seed case {number} ({what}) is in the place of {}", at + 1);
        ensure!(
            rows.is_empty() == waiting.is_some(),
            "seed case {number} ({what}): give rows, or why there are none"
        );
        for row in rows {
            let is_it = |case: &&Case| case.name == *row && case.waiting.is_none();
            ensure!(
                table.case.iter().any(|case| is_it(&case)),
                "seed case {number} ({what}): there is no row {row}"
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_rows_are_watched_and_others_when_thorough() {
        let row = |more: &str| {
            parse(&format!("[[case]]\nprogram = 'ring'\nranks = [1, 3]\n{more}\n"))
                .unwrap()
                .remove(0)
        };
        assert!(row("").watched(false).is_none());
        assert_eq!(row("").watched(true).unwrap().ranks, [3]);
        assert_eq!(row("memory = 2").watched(false).unwrap().ranks, [2]);
        assert!(
            row("exit = 7").watched(true).is_none() && row("slow = true").watched(true).is_none()
        );
    }

    #[test]
    fn a_row_has_defaults_and_one_way_to_run() {
        let cases = parse("[[case]]\nprogram = 'ring'\nranks = [1, 2]\n").unwrap();
        assert_eq!(
            (cases[0].name.as_str(), cases[0].exit, cases[0].timeout),
            ("ring", Exit::Code(0), 60)
        );
        assert!(cases[0].stdout[0].0.is_match("x\nok\n") && !cases[0].stdout[0].0.is_match("ok?"));
        let any = parse("[[case]]\nprogram = 'ring'\nalone = true\nexit = 'failure'\n").unwrap();
        assert_eq!(any[0].exit, Exit::Failure(Failure::Failure));
        assert!(parse("[[case]]\nprogram = 'ring'\n").is_err());
        assert!(parse("[[case]]\nprogram = 'ring'\nranks = [1]\nline = ['x']\n").is_err());
        assert!(parse("[[case]]\nprogram = 'ring'\nranks = [1]\nunknown = 1\n").is_err());
    }

    #[test]
    fn seed_cases_have_rows_or_a_reason() {
        let table = |seed: &str| {
            parse(&format!("[[seed]]\n{seed}\n[[case]]\nprogram = 'ring'\nranks = [1]\n"))
        };
        assert!(table("number = 1\nwhat = 'x'\nrows = ['ring']").is_ok());
        assert!(table("number = 1\nwhat = 'x'\nwaiting = 'why'").is_ok());
        for wrong in [
            "number = 2\nwhat = 'x'\nrows = ['ring']",
            "number = 1\nwhat = 'x'",
            "number = 1\nwhat = 'x'\nrows = ['no']",
        ] {
            assert!(table(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn our_table_can_be_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/programs/table.toml");
        assert!(read(&path).unwrap().len() > 1);
        let table: Table = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(table.seed.len(), 27);
    }
}
