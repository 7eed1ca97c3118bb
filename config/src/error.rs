//! Errors of a configuration, each in one line for its author.

use crate::knob::TABLE;
use crate::origin::Origin;

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// A configuration file cannot be read.
    #[error("cannot read the configuration file {path}: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// The system's reason.
        why: String,
    },
    /// A file is not TOML.
    #[error("{path}:{line}: {why}")]
    Syntax {
        /// The file.
        path: String,
        /// The line, counted from 1.
        line: usize,
        /// The parser's reason.
        why: String,
    },
    /// A name is not a knob.
    #[error("{origin}: unknown knob \"{name}\"{}; `verbena config` lists all", did_you_mean(.nearest))]
    Unknown {
        /// The source that sets it.
        origin: Origin,
        /// The text as it was written.
        name: String,
        /// The knob that is spelt most like it.
        nearest: Option<&'static str>,
    },
    /// A value is not allowed for its knob.
    #[error("{origin}: {knob} = {value:?}: {why}")]
    BadValue {
        /// The source that sets it.
        origin: Origin,
        /// The knob.
        knob: &'static str,
        /// The text as it was written.
        value: String,
        /// The allowed values.
        why: String,
    },
    /// The argument of `--set` is not `name=value`.
    #[error("--set {0:?}: must be NAME=VALUE")]
    NotAssignment(String),
}

impl KnobError {
    pub(crate) fn unknown(origin: Origin, name: &str) -> KnobError {
        let names = TABLE.iter().map(|knob| knob.name);
        // A name without its section means the knob of that name in any section.
        let tail = |known: &&str| known.split_once('.').is_some_and(|(_, tail)| tail == name);
        let nearest = names.clone().find(tail).or_else(|| nearest(name, names));
        KnobError::Unknown { origin, name: name.to_owned(), nearest }
    }
}

/// Returns the candidate with the fewest changes, if they are few.
pub(crate) fn nearest<S: AsRef<str>>(name: &str, candidates: impl Iterator<Item = S>) -> Option<S> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate.as_ref()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
        .map(|(_, candidate)| candidate)
}

pub(crate) fn did_you_mean<S: AsRef<str>>(nearest: &Option<S>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |name| format!(" (did you mean \"{}\"?)", name.as_ref()))
}
