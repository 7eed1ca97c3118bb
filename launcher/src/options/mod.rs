//! The command line of `mpiexec`.
//!
//! ```text
//! mpiexec [options] program [arguments] [: [options] program [arguments]]...
//! ```
//!
//! The table in `table` lists every option with its spellings, values and help. A long option
//! takes one dash or two, and its value may follow `=`, so that command lines of MPICH and
//! Open MPI work. All words after the program belong to the program. An option of a section
//! holds for its ranks; any other option holds for the job, wherever it stands. Hosts and their
//! slots belong to a section; those of the first one are the job's, for all sections without their
//! own.

mod dealing;
mod table;
#[cfg(test)]
mod tests;
mod values;

use std::ffi::OsString;
use std::io;

use crate::allocation;
use crate::binding::{BindTo, MapBy, Mapping};
use crate::dial_in::join::Join;
use crate::hosts;
use crate::rank_file;
use crate::settings::{DialIn, OnFailure, Section, Settings};
use table::{Id, Spec};

pub use dealing::deal;
pub use table::help;
pub use values::{Usage, parse_map_by, parse_ranks, parse_seconds, parse_stdin};

/// The action that a command line names.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Run a job.
    Run(Box<Settings>),
    /// Take part in the job of an `mpiexec` that listens.
    Join(Join),
}

/// The variable that sets the time limit unless `--timeout` does, as with other launchers.
const TIMEOUT_VARIABLE: &str = "MPIEXEC_TIMEOUT";

/// Parses a command line, without the name of `mpiexec` itself. Reads host files, and the time
/// limit in the environment.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Usage> {
    let variable = |name: &str| std::env::var(name).ok();
    let mut command = parse_within(arguments, |path| std::fs::read_to_string(path), variable)?;
    if let Command::Run(settings) = &mut command
        && settings.timeout.is_none()
        && let Some(limit) = std::env::var_os(TIMEOUT_VARIABLE).filter(|limit| !limit.is_empty())
    {
        settings.timeout = values::timeout(TIMEOUT_VARIABLE, &values::text(limit)?)?;
    }
    Ok(command)
}

/// Parses a command line outside of any allocation; `read_file` returns the text of a host file.
pub fn parse_with(
    arguments: impl IntoIterator<Item = OsString>,
    read_file: impl Fn(&str) -> io::Result<String>,
) -> Result<Command, Usage> {
    parse_within(arguments, read_file, |_| None)
}

/// Parses a command line; `variable` returns a variable of the environment, which may name the
/// hosts of an allocation.
pub fn parse_within(
    arguments: impl IntoIterator<Item = OsString>,
    read_file: impl Fn(&str) -> io::Result<String>,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<Command, Usage> {
    let mut parser = Parser {
        settings: Settings::default(),
        ranked: Vec::new(),
        accepted: DialIn::default(),
        join: None,
        slots: None,
        read_file: &read_file,
    };
    let mut words = arguments.into_iter().peekable();
    loop {
        let mapping = parser.settings.mapping;
        let appnum = parser.settings.sections.len() as u32;
        let mut section = Section { appnum, ..Section::default() };
        while let Some(word) =
            words.next_if(|word| word.as_encoded_bytes().starts_with(b"-") && word.len() > 1)
        {
            let word = values::text(word)?;
            if word == "--" {
                break;
            }
            let (spec, attached) = table::find(&word)?;
            let values = values_of(spec, &word, attached, &mut words)?;
            // Messages name the option, and then its value.
            let option = word.split_once('=').map_or(&*word, |(option, _)| option);
            match spec.id {
                Id::Help => return Ok(Command::Help),
                Id::Version => return Ok(Command::Version),
                id => parser.apply(id, option, values, &mut section)?,
            }
        }
        if let Some(address) = parser.join.take() {
            return parser.join(address, words.next()).map(Command::Join);
        }
        section.program = program(words.next(), parser.settings.sections.is_empty())?;
        section.arguments = std::iter::from_fn(|| words.next_if(|word| word != ":")).collect();
        parser.add(section, mapping)?;
        if words.next().is_none() {
            break;
        }
    }
    parser.finish(variable).map(|settings| Command::Run(Box::new(settings)))
}

/// Takes the hosts of an allocation if the user named none, and its agent if the user named none
/// and hosts of it alone. Returns true if this host is all of it.
fn adopt_allocation(
    settings: &mut Settings,
    read_file: &impl Fn(&str) -> io::Result<String>,
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<bool, Usage> {
    let is_given = !settings.hosts.is_empty();
    let Some(allocation) = allocation::find(variable, read_file).map_err(Usage::from)? else {
        return match allocation::without_hosts(variable).filter(|_| !is_given) {
            None => Ok(false),
            Some(remedy) => Err(Usage(remedy.into())),
        };
    };
    let names = hosts::names(&allocation.hosts);
    let is_of_it = |host: &hosts::Host| names.contains(&*host.name);
    let of_sections = settings.sections.iter().flat_map(|section| &section.hosts);
    if settings.agent.is_none() && settings.hosts.iter().chain(of_sections).all(is_of_it) {
        settings.agent = allocation.agent.map(str::to_owned);
    }
    if !is_given {
        settings.hosts.clone_from(&allocation.hosts);
    }
    Ok(!is_given && allocation.is_this_host_alone(variable))
}

/// Checks the options of hosts that dial in.
fn checked_dial_in(settings: &Settings, dial_in: DialIn, is_ranked: bool) -> Result<DialIn, Usage> {
    let text = if dial_in.agents == 0 || dial_in.listen.is_empty() {
        "--accept N, --listen ADDRESS:PORT and a token belong together: the number of hosts that dial \
         in by `mpiexec --join ADDRESS:PORT`, the address to listen on, and what they prove"
    } else if !settings.hosts.is_empty()
        || settings.has_own_hosts()
        || is_ranked
        || settings.agent.is_some()
    {
        "--accept takes its hosts from those that dial in: --hosts, --hostfile, --rankfile and \
         --agent cannot be used with it"
    } else {
        return Ok(dial_in);
    };
    Err(Usage(text.into()))
}

/// Takes the hosts of a rank file, which must be among those that the user has named, if any.
fn adopt_rank_file(settings: &mut Settings, ranked: Vec<hosts::Host>) -> Result<(), Usage> {
    let is_own = |section: &Section| !section.hosts.is_empty() || section.ranks_per_host.is_some();
    if settings.dealing.ranks_per_host.is_some() || settings.sections.iter().any(is_own) {
        let text = "--rankfile gives each rank its host: --ppn, and hosts of a later program, \
                    cannot be used with it";
        return Err(Usage(text.into()));
    }
    let names = hosts::names(&settings.hosts);
    let is_named = |host: &hosts::Host| names.is_empty() || names.contains(&*host.name);
    if let Some(host) = ranked.iter().find(|host| !is_named(host)) {
        return Err(Usage(format!("--rankfile names {}, and the hosts given do not", host.name)));
    }
    settings.hosts = ranked;
    Ok(())
}

/// The state of a parse.
struct Parser<'a> {
    settings: Settings,
    /// The hosts of a rank file.
    ranked: Vec<hosts::Host>,
    /// Agents that dial in; the token's file is also that of an agent.
    accepted: DialIn,
    /// The address of the `mpiexec` whose job this process joins as an agent.
    join: Option<String>,
    /// The slots of an agent.
    slots: Option<u32>,
    read_file: &'a dyn Fn(&str) -> io::Result<String>,
}

impl Parser<'_> {
    /// Adds a section. `mapping`: that of the job before it.
    fn add(&mut self, mut section: Section, mapping: Mapping) -> Result<(), Usage> {
        let settings = &mut self.settings;
        section.hosts = hosts::merge(section.hosts);
        if settings.sections.is_empty() {
            settings.hosts = std::mem::take(&mut section.hosts);
            settings.dealing.ranks_per_host = section.ranks_per_host.take();
        } else if settings.mapping != mapping {
            return Err(Usage(format!(
                "--map-by, --bind-to and --cpus-per-rank hold for all programs, and those given \
                 for {} are others: give them before the first program",
                section.program.display()
            )));
        }
        settings.sections.push(section);
        Ok(())
    }

    fn apply(
        &mut self,
        id: Id,
        word: &str,
        values: Vec<String>,
        section: &mut Section,
    ) -> Result<(), Usage> {
        let settings = &mut self.settings;
        let mut values = values.into_iter();
        let mut next = || values.next().unwrap_or_default();
        match id {
            Id::Ranks => section.ranks = parse_ranks(word, &next())?,
            Id::Directory => section.directory = Some(values::path(word, next())?),
            Id::SectionEnvironment => {
                section.environment.push(values::variable(word, next(), next())?)
            }
            Id::Environment => settings.environment.push(values::variable(word, next(), next())?),
            Id::Export => settings.environment.extend(values::export(word, next())?),
            Id::Tag => settings.output.tag = true,
            Id::Timestamps => settings.output.timestamps = true,
            Id::OutputFolder => values::output(word, next(), &mut settings.output)?,
            Id::Stdin => settings.stdin = parse_stdin(word, &next())?,
            Id::BindTo => {
                let what = values::named(word, &next(), BindTo::parse, BindTo::NAMES)?;
                settings.mapping.bind_to = Some(what);
            }
            Id::MapBy => self.map_by(word, &next(), section)?,
            Id::RankBy => {
                settings.dealing.is_in_turn = Some(values::rank_by(word, &next())?);
            }
            Id::RankFile => {
                let path = values::path(word, next())?;
                let text = read_text(self.read_file, word, &path)?;
                let file = rank_file::parse(&path, &text).map_err(Usage::from)?;
                (settings.slots, settings.host_of) = (file.slots, file.host_of);
                self.ranked = file.hosts;
            }
            Id::CoresPerRank => {
                settings.mapping.cores_per_rank = Some(values::cores(word, &next())?);
            }
            Id::NoOversubscribe => settings.dealing.is_full_at_slots = true,
            Id::Starter => settings.agent = Some(values::starter(word, &next())?.to_owned()),
            Id::Interface => settings.set.push(format!("tcp.interfaces={}", next())),
            Id::ReportBindings => settings.report_bindings = true,
            Id::DeadAfter => settings.dead_after = Some(parse_seconds(word, &next())?),
            Id::Timeout => settings.timeout = Some(parse_seconds(word, &next())?),
            Id::StallTimeout => {
                settings.stall_timeout = Some(values::seconds_or_never(word, &next())?);
            }
            Id::StartTimeout => {
                settings.start_timeout = Some(values::seconds_or_never(word, &next())?);
            }
            Id::TreeWidth => settings.set.push(format!("launch.tree_width={}", next())),
            Id::StackTraces => settings.stack_traces = true,
            Id::StallAbort => settings.stall_abort = true,
            Id::OnFailure => {
                settings.on_failure =
                    values::named(word, &next(), OnFailure::parse, OnFailure::NAMES)?;
            }
            Id::KeepGoing => settings.on_failure = OnFailure::Continue,
            Id::Config => settings.config = Some(values::path(word, next())?),
            Id::Set => settings.set.push(next()),
            Id::Explain => settings.set.push("report.transports=on".into()),
            Id::Check => settings.set.extend(checks()),
            Id::ReportOutcome => {
                settings.report_outcome = Some(values::path(word, next())?);
            }
            Id::Hosts => section.hosts.extend(hosts::parse_list(&next()).map_err(Usage::from)?),
            Id::Hostfile => {
                let path = values::path(word, next())?;
                let text = read_text(self.read_file, word, &path)?;
                section.hosts.extend(hosts::parse_file(&path, &text).map_err(Usage::from)?);
            }
            Id::RanksPerHost => section.ranks_per_host = Some(parse_ranks(word, &next())?),
            Id::Agent => settings.agent = Some(next()),
            Id::Accept => self.accepted.agents = values::agents(word, &next())?,
            Id::Listen => self.accepted.listen = values::address(word, next())?,
            Id::TokenFile => self.accepted.token_file = Some(values::path(word, next())?),
            Id::Join => self.join = Some(values::address(word, next())?),
            Id::Slots => self.slots = Some(parse_ranks(word, &next())?),
            Id::Group => settings.group = Some(values::path(word, next())?),
            Id::Accepted | Id::Ignored | Id::Help | Id::Version => {}
        }
        Ok(())
    }

    /// Returns the settings of a job, after the last word.
    fn finish(self, variable: impl Fn(&str) -> Option<String>) -> Result<Settings, Usage> {
        let Parser { mut settings, ranked, accepted, slots, read_file, .. } = self;
        if slots.is_some() {
            return Err(Usage("--slots is for --join; --hosts and --ppn set slots".into()));
        }
        if settings.stall_abort && !settings.reports_stalls() {
            let why = "--stall-abort ends a job that is found to wait for ever, and --stall-timeout 0 \
                       does not look for that: leave one of the two out, or give the time in seconds";
            return Err(Usage(why.into()));
        }
        if accepted != DialIn::default() {
            settings.dial_in = Some(checked_dial_in(&settings, accepted, !ranked.is_empty())?);
            return Ok(settings);
        }
        let is_ranked = !ranked.is_empty();
        if is_ranked {
            adopt_rank_file(&mut settings, ranked)?;
        }
        let is_here = adopt_allocation(&mut settings, &read_file, &variable)?;
        deal(&mut settings)?;
        let is_local = |host: &hosts::Host| hosts::is_this_host(&host.name);
        let is_here = is_here || (is_ranked && settings.hosts.iter().all(is_local));
        if is_here && !settings.has_own_hosts() {
            // No daemon is needed.
            settings.hosts.clear();
        }
        Ok(settings)
    }

    /// Returns the command line of an agent; `word` follows its options.
    fn join(self, address: String, word: Option<OsString>) -> Result<Join, Usage> {
        if let Some(word) = word {
            let text = format!("--join takes no program, and {} follows", word.display());
            return Err(Usage(format!("{text}: the mpiexec at {address} says what runs")));
        }
        let limit = self.settings.start_timeout();
        Ok(Join { address, token_file: self.accepted.token_file, slots: self.slots, limit })
    }

    fn map_by(&mut self, word: &str, value: &str, section: &mut Section) -> Result<(), Usage> {
        let parsed = parse_map_by(word, value)?;
        let mapping = &mut self.settings.mapping;
        match (parsed.what, parsed.ranks_per_object) {
            (MapBy::Node, Some(ranks)) => section.ranks_per_host = Some(ranks),
            (MapBy::Anywhere, Some(_)) => {
                return Err(Usage(format!("{word} {value}: ppr needs an object, not slot")));
            }
            (what, each) => (mapping.map_by, mapping.ranks_per_object) = (Some(what), each),
        }
        mapping.cores_per_rank = parsed.cores_per_rank.or(mapping.cores_per_rank);
        Ok(())
    }
}

/// Returns the settings of `--check`: every knob that checks the program, switched on.
fn checks() -> impl Iterator<Item = String> {
    let names = config::knob::TABLE.iter().map(|knob| knob.name);
    names
        .filter(|name| name.starts_with("check.") || *name == "rma.check")
        .map(|name| format!("{name}=on"))
}

/// Takes the values of an option: the one attached by `=`, then the words that follow.
fn values_of(
    spec: &Spec,
    word: &str,
    attached: Option<String>,
    words: &mut impl Iterator<Item = OsString>,
) -> Result<Vec<String>, Usage> {
    if attached.is_some() && spec.values.is_empty() {
        return Err(Usage(format!("{word}: this option takes no value")));
    }
    let mut values: Vec<String> = attached.into_iter().collect();
    while values.len() < spec.values.len() {
        let missing = || Usage(format!("{word} needs {}", spec.values.join(" ")));
        values.push(values::text(words.next().ok_or_else(missing)?)?);
    }
    Ok(values)
}

/// Reads a file that the user has written, without the byte order mark of some editors.
fn read_text(
    read_file: &dyn Fn(&str) -> io::Result<String>,
    word: &str,
    path: &str,
) -> Result<String, Usage> {
    let text = read_file(path)
        .map_err(|error| Usage(format!("{word} {path}: cannot read it: {error}")))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Checks the word that stands where a section has its program.
fn program(word: Option<OsString>, is_first: bool) -> Result<OsString, Usage> {
    match word.filter(|word| word != ":") {
        Some(word) if word.is_empty() => Err(values::empty("the program's name")),
        Some(program) => Ok(program),
        None => {
            let position = if is_first { "" } else { " after the colon" };
            Err(Usage(format!("no program given{position}; for example: mpiexec -n 4 ./a.out")))
        }
    }
}
