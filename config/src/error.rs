//! What can be wrong with a configuration, in one line for its author.

use crate::{Origin, TABLE};

/// Why a configuration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KnobError {
    /// A file that was named, or one of the standard ones, can't be read.
    #[error("the configuration file {path} can't be read: {why}")]
    Unreadable {
        /// Which.
        path: String,
        /// In the system's words.
        why: String,
    },
    /// A file that is not TOML.
    #[error("{path}:{line}: {why}")]
    Syntax {
        /// The file.
        path: String,
        /// From 1 on.
        line: usize,
        /// In the parser's words.
        why: String,
    },
    /// A name that is no knob.
    #[error("{origin}: there is no knob \"{name}\"{}; `verbena config` lists them", did_you_mean(.nearest))]
    Unknown {
        /// Where it stands.
        origin: Origin,
        /// As it was written.
        name: String,
        /// One that is spelt nearly so.
        nearest: Option<&'static str>,
    },
    /// A variable that looks like one of ours and is none.
    #[error("the environment variable {name} sets no knob{}; `verbena config` lists them", did_you_mean(.nearest))]
    UnknownVariable {
        /// As it was written.
        name: String,
        /// One that is spelt nearly so.
        nearest: Option<String>,
    },
    /// A value that the knob can't have.
    #[error("{origin}: {knob} = {value:?}: {why}")]
    BadValue {
        /// Where it stands.
        origin: Origin,
        /// The knob.
        knob: &'static str,
        /// As it was written.
        value: String,
        /// What it must be.
        why: String,
    },
    /// Something else than `name=value` after `--set`.
    #[error("--set {0:?}: it must be NAME=VALUE")]
    NotAssignment(String),
}

impl KnobError {
    pub(super) fn unknown(origin: Origin, name: &str) -> KnobError {
        let names = TABLE.iter().map(|knob| knob.name);
        // Someone who leaves out the room means the one that has such a knob.
        let tail = |known: &&str| known.split_once('.').is_some_and(|(_, tail)| tail == name);
        let nearest = names.clone().find(tail).or_else(|| nearest(name, names));
        KnobError::Unknown { origin, name: name.to_owned(), nearest }
    }
}

/// The candidate that takes the fewest changes, if those are few.
pub(super) fn nearest<S: AsRef<str>>(name: &str, candidates: impl Iterator<Item = S>) -> Option<S> {
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(name, candidate.as_ref()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 1 + name.len() / 4)
        .map(|(_, candidate)| candidate)
}

fn did_you_mean<S: AsRef<str>>(nearest: &Option<S>) -> String {
    nearest
        .as_ref()
        .map_or_else(String::new, |name| format!(" (did you mean \"{}\"?)", name.as_ref()))
}
