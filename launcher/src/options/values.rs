//! The values of options, parsed one at a time, with the errors of wrong usage.

use std::ffi::OsString;
use std::time::Duration;

use crate::binding::MapBy;
use crate::hosts::HostsError;
use crate::settings::{MAX_RANKS, Stdin};

/// An error of the command line, in one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

impl From<HostsError> for Usage {
    fn from(error: HostsError) -> Usage {
        Usage(error.to_string())
    }
}

/// Parses a number of ranks. `word` is the option, for messages.
pub fn parse_ranks(word: &str, value: &str) -> Result<u32, Usage> {
    let number: Option<u32> = value.parse().ok().filter(|ranks| (1..=MAX_RANKS).contains(ranks));
    number.ok_or_else(|| {
        Usage(format!("{word} {value}: the number of ranks must be from 1 to {MAX_RANKS}"))
    })
}

/// Parses a time in seconds, more than 0. `word` is the option, for messages.
pub fn parse_seconds(word: &str, value: &str) -> Result<Duration, Usage> {
    let number: Option<f64> = value.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
        Usage(format!("{word} {value}: the time must be a positive number of seconds"))
    })
}

/// Parses a time in seconds; 0 means never.
pub(super) fn seconds_or_never(word: &str, value: &str) -> Result<Duration, Usage> {
    if value.parse() == Ok(0.0) { Ok(Duration::ZERO) } else { parse_seconds(word, value) }
}

/// Parses a time limit of the environment: as [`parse_seconds`], and 0 or -1 for none.
pub(super) fn timeout(name: &str, value: &str) -> Result<Option<Duration>, Usage> {
    match value.parse() {
        Ok(0 | -1) => Ok(None),
        _ => parse_seconds(name, value).map(Some),
    }
}

/// Parses the value of `--stdin`. `word` is the option, for messages.
pub fn parse_stdin(word: &str, value: &str) -> Result<Stdin, Usage> {
    match value {
        "all" => Ok(Stdin::All),
        "none" => Ok(Stdin::None),
        rank => match rank.parse() {
            Ok(rank) => Ok(Stdin::Rank(rank)),
            Err(_) => Err(Usage(format!("{word} {value}: must be a rank, all or none"))),
        },
    }
}

/// Parses the value of `--map-by`: the objects, and K of `:PE=K`. `word` is the option, for
/// messages.
pub fn parse_map_by(word: &str, value: &str) -> Result<(MapBy, Option<u32>), Usage> {
    let (what, modifier) =
        value.split_once(':').map_or((value, None), |(what, modifier)| (what, Some(modifier)));
    let cores = modifier.map(|modifier| {
        let lower = modifier.to_ascii_lowercase();
        let count = lower.strip_prefix("pe=").and_then(|count| count.parse().ok());
        count.filter(|count| *count > 0).ok_or_else(|| {
            Usage(format!("{word} {value}: only PE=K may follow the colon, with K from 1"))
        })
    });
    let cores = cores.transpose()?;
    Ok((named(word, what, MapBy::parse, MapBy::NAMES)?, cores))
}

pub(super) fn text(word: OsString) -> Result<String, Usage> {
    word.into_string().map_err(|word| Usage(format!("{} is not UTF-8", word.display())))
}

pub(super) fn path(word: &str, value: String) -> Result<String, Usage> {
    if value.is_empty() { Err(empty(&format!("{word}: the path"))) } else { Ok(value) }
}

pub(super) fn empty(what: &str) -> Usage {
    Usage(format!("{what} is empty; is a variable of the shell not set?"))
}

pub(super) fn variable(word: &str, name: String, value: String) -> Result<(String, String), Usage> {
    if name.is_empty() || name.contains('=') {
        let hint = if name.contains('=') { "; write NAME VALUE, or -x NAME=VALUE" } else { "" };
        return Err(Usage(format!("{word} {name:?} is not the name of a variable{hint}")));
    }
    Ok((name, value))
}

/// Parses `NAME=VALUE`. A name alone sets nothing: every variable is passed on.
pub(super) fn export(word: &str, given: String) -> Result<Option<(String, String)>, Usage> {
    match given.split_once('=') {
        Some((name, value)) => variable(word, name.into(), value.into()).map(Some),
        None => variable(word, given, String::new()).map(|_| None),
    }
}

pub(super) fn named<T>(
    word: &str,
    value: &str,
    parse: impl Fn(&str) -> Option<T>,
    names: &[&str],
) -> Result<T, Usage> {
    parse(&value.to_ascii_lowercase())
        .ok_or_else(|| Usage(format!("{word} {value}: must be one of {}", names.join(", "))))
}
