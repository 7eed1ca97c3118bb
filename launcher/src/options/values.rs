//! The values of options, parsed one at a time, with the errors of wrong usage.

use std::ffi::OsString;
use std::time::Duration;

use crate::allocation;
use crate::binding::MapBy;
use crate::hosts::HostsError;
use crate::settings::{MAX_RANKS, OutputOptions, Stdin};

/// The most hosts that may dial in.
const MAX_AGENTS: u32 = 16_384;

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

/// Parses a number of agents. `word` is the option, for messages.
pub(super) fn agents(word: &str, value: &str) -> Result<u32, Usage> {
    let number = value.parse().ok().filter(|agents| (1..=MAX_AGENTS).contains(agents));
    number.ok_or_else(|| {
        Usage(format!("{word} {value}: the number of agents must be from 1 to {MAX_AGENTS}"))
    })
}

/// Parses a host or an address with a port. `word` is the option, for messages.
pub(super) fn address(word: &str, value: String) -> Result<String, Usage> {
    let parts = value.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    match parts.and_then(|(_, port)| port.parse::<u16>().ok()).filter(|port| *port > 0) {
        Some(_) => Ok(value),
        None => Err(Usage(format!("{word} {value}: must be ADDRESS:PORT, such as 10.0.0.1:7000"))),
    }
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

/// The value of `--map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapByValue {
    /// The objects.
    pub what: MapBy,
    /// N of `ppr:N:WHAT`.
    pub ranks_per_object: Option<u32>,
    /// K of `:PE=K`.
    pub cores_per_rank: Option<u32>,
}

/// Parses the value of `--map-by`: `[ppr:N:]WHAT[:MODIFIER]...`. `word` is the option, for
/// messages.
pub fn parse_map_by(word: &str, value: &str) -> Result<MapByValue, Usage> {
    let lower = value.to_ascii_lowercase();
    let mut parts = lower.split(':');
    let mut what = parts.next().unwrap_or("");
    let mut ranks_per_object = None;
    if what == "ppr" {
        let each = parts.next().and_then(|each| each.parse().ok()).filter(|each| *each > 0);
        ranks_per_object =
            Some(each.ok_or_else(|| {
                Usage(format!("{word} {value}: must be ppr:N:WHAT, with N from 1"))
            })?);
        what = parts.next().unwrap_or("");
    }
    let mut cores_per_rank = None;
    for modifier in parts.flat_map(|part| part.split(',')) {
        let count = modifier.strip_prefix("pe=").and_then(|count| count.parse().ok());
        cores_per_rank = match (modifier, count.filter(|count| *count > 0)) {
            ("oversubscribe", _) => cores_per_rank,
            (_, Some(count)) => Some(count),
            _ => {
                let text = "only PE=K may follow the colon, with K from 1, and OVERSUBSCRIBE";
                return Err(Usage(format!("{word} {value}: {text}")));
            }
        };
    }
    let what = named(word, what, MapBy::parse, MapBy::NAMES)?;
    Ok(MapByValue { what, ranks_per_object, cores_per_rank })
}

/// Parses a number of cores. `word` is the option, for messages.
pub(super) fn cores(word: &str, value: &str) -> Result<u32, Usage> {
    let count = value.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| Usage(format!("{word} {value}: the number of cores must be from 1")))
}

/// Parses the value of `--rank-by`. Returns true if ranks are numbered over the hosts in turn.
pub(super) fn rank_by(word: &str, value: &str) -> Result<bool, Usage> {
    match value.to_ascii_lowercase().as_str() {
        "slot" | "fill" => Ok(false),
        "node" => Ok(true),
        _ => Err(Usage(format!(
            "{word} {value}: must be slot (host after host) or node (over the hosts in turn)"
        ))),
    }
}

/// Applies the value of `--output`: a folder, or words of Open MPI, with commas between.
pub(super) fn output(word: &str, value: String, options: &mut OutputOptions) -> Result<(), Usage> {
    let is_known = |part: &str| {
        ["tag", "tag-detailed", "tag-fullname", "timestamp"].contains(&part)
            || part.starts_with("dir=")
    };
    if !value.split(',').all(is_known) {
        options.folder = Some(path(word, value)?);
        return Ok(());
    }
    for part in value.split(',') {
        match part.strip_prefix("dir=") {
            Some(folder) => options.folder = Some(path(word, folder.to_owned())?),
            None if part == "timestamp" => options.timestamps = true,
            None => options.tag = true,
        }
    }
    Ok(())
}

/// Parses the name of a way to start daemons; returns the agent.
pub(super) fn starter(word: &str, value: &str) -> Result<&'static str, Usage> {
    Ok(match value {
        "ssh" => "ssh",
        "rsh" => "rsh",
        "slurm" => allocation::SRUN,
        "lsf" => allocation::BLAUNCH,
        "sge" => allocation::QRSH,
        _ => {
            let text = "must be ssh, rsh, slurm, lsf or sge; --agent names any other command";
            return Err(Usage(format!("{word} {value}: {text}")));
        }
    })
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
