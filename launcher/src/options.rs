//! The command line of `mpiexec`.
//!
//! ```text
//! mpiexec [options] program [arguments] [: [options] program [arguments]]...
//! ```
//!
//! One table ([`OPTIONS`]) says every spelling, whom it belongs to and its
//! sentence in the help. Long options may have one dash or two, as users of
//! MPICH and of Open MPI write them, and their value may follow behind `=`.
//! Everything behind the program is the program's. Options of a section hold
//! for its ranks; the others hold for the job, wherever they stand.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::binding::{BindTo, MapBy, Mapping};
use crate::hosts::{self, Host};

/// Ranks that one host may be asked for. Far beyond what any can hold.
pub const MAX_RANKS: u32 = 65_536;

/// Reaches other hosts unless `--agent` says otherwise.
pub const AGENT: &str = "ssh";

/// How long a host may say nothing unless `--dead-after` says otherwise.
pub const DEAD_AFTER: Duration = Duration::from_secs(10);

/// How long no rank gets any further before that is said, unless `--stall-timeout` says otherwise.
pub const STALL_AFTER: Duration = Duration::from_secs(60);

/// The exit code of wrong use, as usual.
pub const WRONG_USE: u8 = 2;

/// What the user asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Print the help.
    Help,
    /// Print the version.
    Version,
    /// Run a job.
    Run(Box<Settings>),
}

/// A job as the command line describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The programs, in the order of their ranks.
    pub sections: Vec<Section>,
    /// Variables for all ranks, in the order given.
    pub environment: Vec<(String, String)>,
    /// Put the rank in front of each line.
    pub tag: bool,
    /// Whose standard input is ours.
    pub stdin: Stdin,
    /// Which processors a rank may use.
    pub mapping: Mapping,
    /// Say which processors each rank got.
    pub report_bindings: bool,
    /// Time after which the job is ended.
    pub timeout: Option<Duration>,
    /// Time without any progress after which that is said, if not [`STALL_AFTER`]; zero for never.
    pub stall_timeout: Option<Duration>,
    /// Silence after which a host is lost, if not [`DEAD_AFTER`].
    pub dead_after: Option<Duration>,
    /// A file of knobs.
    pub config: Option<String>,
    /// Knobs, as `name=value`.
    pub set: Vec<String>,
    /// Where ranks run; none means here.
    #[serde(skip)]
    pub hosts: Vec<Host>,
    /// What starts our daemon on a host, if not [`AGENT`].
    #[serde(skip)]
    pub agent: Option<String>,
}

impl Settings {
    /// How long no rank gets any further before that is said; `None`: it is never.
    pub fn stall_after(&self) -> Option<Duration> {
        Some(self.stall_timeout.unwrap_or(STALL_AFTER)).filter(|time| !time.is_zero())
    }
}

/// One program and its ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// How many ranks run it.
    pub ranks: u32,
    /// As the user wrote it.
    pub program: OsString,
    /// Without the program's name.
    pub arguments: Vec<OsString>,
    /// Variables for these ranks.
    pub environment: Vec<(String, String)>,
    /// Where they run, if not where we do.
    pub directory: Option<String>,
}

/// Whose standard input is ours; the others read the end of file at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// This rank's.
    Rank(u32),
    /// Every rank's: each gets a copy.
    All,
    /// Nobody's.
    None,
    /// Rank 0's, as is usual.
    #[default]
    First,
}

/// What is wrong with the command line, in one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// What an option does; see [`OPTIONS`] for the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Ranks,
    Directory,
    SectionEnvironment,
    Environment,
    Export,
    Tag,
    Stdin,
    BindTo,
    MapBy,
    ReportBindings,
    Timeout,
    StallTimeout,
    Explain,
    Config,
    Set,
    Hosts,
    Hostfile,
    Agent,
    DeadAfter,
    Help,
    Version,
    /// Accepted, since it asks for what happens anyway.
    Always,
}

struct Spec {
    id: Id,
    /// Without dashes, the preferred spelling first.
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
}

/// Every option, grouped as the help prints it.
const OPTIONS: &[(&str, &[Spec])] = &[
    (
        "Ranks",
        &[
            spec(
                Id::Ranks,
                &["n", "np", "c"],
                &["N"],
                "start N ranks of the program that follows (default 1, or as in --hosts)",
            ),
            spec(
                Id::Directory,
                &["wdir", "wd"],
                &["DIR"],
                "run them in DIR; the program's path is relative to it",
            ),
            spec(Id::SectionEnvironment, &["env"], &["NAME", "VALUE"], "set a variable for them"),
        ],
    ),
    (
        "Job",
        &[
            spec(Id::Environment, &["genv"], &["NAME", "VALUE"], "set a variable for all ranks"),
            spec(
                Id::Export,
                &["x"],
                &["NAME[=VALUE]"],
                "the same, or pass NAME on (all are passed on anyway)",
            ),
            spec(
                Id::Timeout,
                &["timeout"],
                &["SECONDS"],
                "then end the job, saying what each rank did; exit code 124",
            ),
            spec(
                Id::StallTimeout,
                &["stall-timeout"],
                &["SECONDS"],
                "say what ranks wait for if none moves for so long; default: 60",
            ),
            spec(
                Id::Explain,
                &["explain"],
                &[],
                "say which ways messages take and why, once all are in MPI or at the end",
            ),
            spec(Id::Config, &["config"], &["FILE"], "read knobs from a TOML file"),
            spec(Id::Set, &["set"], &["NAME=VALUE"], "set one knob; `verbena config` lists them"),
        ],
    ),
    (
        "Hosts (default: this one)",
        &[
            spec(
                Id::Hosts,
                &["hosts", "host", "H"],
                &["NAME[:N],..."],
                "run ranks there, N on each (default 1; named again, N more)",
            ),
            spec(
                Id::Hostfile,
                &["hostfile", "machinefile", "f"],
                &["FILE"],
                "the same from a file: NAME, NAME:N or NAME slots=N on each line",
            ),
            spec(
                Id::Agent,
                &["agent"],
                &["COMMAND"],
                "reach hosts by `COMMAND host line-for-a-shell`; default: ssh",
            ),
            spec(
                Id::DeadAfter,
                &["dead-after"],
                &["SECONDS"],
                "end the job when a host says nothing for so long; default: 10",
            ),
        ],
    ),
    (
        "Input and output",
        &[
            spec(
                Id::Tag,
                &["tag-output", "l", "prepend-rank"],
                &[],
                "put the rank in front of each line of output",
            ),
            spec(
                Id::Stdin,
                &["stdin"],
                &["RANK|all|none"],
                "who reads our standard input (default: rank 0)",
            ),
        ],
    ),
    (
        "Placement (ranks are not bound unless asked)",
        &[
            spec(
                Id::BindTo,
                &["bind-to"],
                &["WHAT"],
                "bind each rank to a hwthread, core, l2, l3, numa, socket, or none",
            ),
            spec(
                Id::MapBy,
                &["map-by"],
                &["WHAT[:PE=K]"],
                "deal ranks over the same, or slot, node; PE=K: K cores for each",
            ),
            spec(Id::ReportBindings, &["report-bindings"], &[], "say where each rank may run"),
        ],
    ),
    (
        "Other",
        &[
            spec(Id::Help, &["help", "h", "?"], &[], "print this"),
            spec(Id::Version, &["version", "V"], &[], "print the version"),
            spec(
                Id::Always,
                &["oversubscribe", "allow-run-as-root", "envall", "genvall"],
                &[],
                "accepted: what they ask for is always so",
            ),
        ],
    ),
];

const fn spec(
    id: Id,
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
) -> Spec {
    Spec { id, names, values, help }
}

/// Options of other launchers that we can't follow, and why.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["ppn", "N", "npernode", "perhost"],
        "say how many ranks run on each host behind its name, as --hosts a:2,b:2",
    ),
    (
        &["mca", "gmca", "pmixmca", "prtemca"],
        "sets Open MPI's parameters; Verbena's knobs are set with --set NAME=VALUE",
    ),
    (
        &["genvnone", "envnone", "genvlist", "envlist"],
        "ranks get all of mpiexec's environment; use `env -i` to start with less",
    ),
    (&["launcher", "rmk", "bootstrap"], "ranks are started by mpiexec itself"),
];

/// Reads a command line, without the name of `mpiexec` itself.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Usage> {
    let mut settings = Settings::default();
    let mut words = arguments.into_iter().peekable();
    loop {
        let mut section = Section::default();
        while let Some(word) =
            words.next_if(|word| word.as_encoded_bytes().starts_with(b"-") && word.len() > 1)
        {
            let word = text(word)?;
            if word == "--" {
                break;
            }
            let (spec, attached) = find(&word)?;
            let values = values_of(spec, &word, attached, &mut words)?;
            match spec.id {
                Id::Help => return Ok(Command::Help),
                Id::Version => return Ok(Command::Version),
                id => apply(id, &word, values, &mut section, &mut settings)?,
            }
        }
        match words.next() {
            None => return Err(no_program(settings.sections.is_empty())),
            Some(word) if word == ":" => return Err(no_program(settings.sections.is_empty())),
            Some(word) if word.is_empty() => return Err(empty("the program's name")),
            Some(program) => section.program = program,
        }
        section.arguments = std::iter::from_fn(|| words.next_if(|word| word != ":")).collect();
        settings.sections.push(section);
        if words.next().is_none() {
            break;
        }
    }
    settings.hosts = hosts::together(settings.hosts);
    number_of_ranks(&mut settings);
    check(&settings)?;
    Ok(Command::Run(Box::new(settings)))
}

/// Where nobody said it: one, or what a single program's hosts are meant for.
fn number_of_ranks(settings: &mut Settings) {
    let slots = settings.hosts.iter().map(|host| host.slots).fold(0, u32::saturating_add);
    let unsaid = if settings.sections.len() == 1 { slots.max(1) } else { 1 };
    for section in settings.sections.iter_mut().filter(|section| section.ranks == 0) {
        section.ranks = unsaid;
    }
}

/// The number of ranks in the whole job.
pub fn total_ranks(settings: &Settings) -> u32 {
    settings.sections.iter().map(|section| section.ranks).sum()
}

fn apply(
    id: Id,
    word: &str,
    values: Vec<String>,
    section: &mut Section,
    settings: &mut Settings,
) -> Result<(), Usage> {
    let mut values = values.into_iter();
    let mut next = || values.next().unwrap_or_default();
    match id {
        Id::Ranks => section.ranks = ranks(word, &next())?,
        Id::Directory => section.directory = Some(path(word, next())?),
        Id::SectionEnvironment => section.environment.push(variable(word, next(), next())?),
        Id::Environment => settings.environment.push(variable(word, next(), next())?),
        Id::Export => {
            let given = next();
            match given.split_once('=') {
                Some((name, value)) => {
                    settings.environment.push(variable(word, name.into(), value.into())?)
                }
                // Without a value the variable is passed on, as all are.
                None => _ = variable(word, given, String::new())?,
            }
        }
        Id::Tag => settings.tag = true,
        Id::Stdin => settings.stdin = stdin(word, &next())?,
        Id::BindTo => {
            settings.mapping.bind_to = Some(named(word, &next(), BindTo::parse, BindTo::NAMES)?)
        }
        Id::MapBy => {
            settings.mapping.map_by = Some(map_by(word, &next(), &mut settings.mapping.cores_each)?)
        }
        Id::ReportBindings => settings.report_bindings = true,
        Id::DeadAfter => settings.dead_after = Some(seconds(word, &next())?),
        Id::Timeout => settings.timeout = Some(seconds(word, &next())?),
        Id::StallTimeout => {
            let value = next();
            let never = value.parse() == Ok(0.0);
            settings.stall_timeout =
                Some(if never { Duration::ZERO } else { seconds(word, &value)? });
        }
        Id::Config => settings.config = Some(path(word, next())?),
        Id::Set => settings.set.push(next()),
        Id::Explain => settings.set.push("report.transports=on".into()),
        Id::Hosts => settings.hosts.extend(hosts::list(&next())?),
        Id::Hostfile => settings.hosts.extend(hosts::file(&path(word, next())?)?),
        Id::Agent => settings.agent = Some(next()),
        Id::Always | Id::Help | Id::Version => {}
    }
    Ok(())
}

fn check(settings: &Settings) -> Result<(), Usage> {
    let total: u64 = settings.sections.iter().map(|section| u64::from(section.ranks)).sum();
    if total > u64::from(MAX_RANKS) {
        return Err(Usage(format!(
            "{total} ranks are too many: one host takes at most {MAX_RANKS}"
        )));
    }
    match settings.stdin {
        Stdin::Rank(rank) if u64::from(rank) >= total => {
            Err(Usage(format!("--stdin {rank}: there is no rank {rank} among {total}")))
        }
        _ => Ok(()),
    }
}

/// The option a word means, and the value behind its `=`.
fn find(word: &str) -> Result<(&'static Spec, Option<String>), Usage> {
    let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word);
    let (name, attached) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (bare, None),
    };
    let all = || OPTIONS.iter().flat_map(|(_, specs)| specs.iter());
    if let Some(spec) = all().find(|spec| spec.names.contains(&name)) {
        return Ok((spec, attached));
    }
    if let Some((_, why)) = REFUSED.iter().find(|(names, _)| names.contains(&name)) {
        return Err(Usage(format!("{word}: {why}")));
    }
    let names: Vec<&str> = all().flat_map(|spec| spec.names).copied().collect();
    let hint = match closest(name, &names) {
        Some(name) => format!("did you mean {}?", dashed(name)),
        None => "see mpiexec --help".into(),
    };
    Err(Usage(format!("unknown option {word}; {hint}")))
}

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
        values.push(text(words.next().ok_or_else(missing)?)?);
    }
    Ok(values)
}

fn text(word: OsString) -> Result<String, Usage> {
    word.into_string().map_err(|word| Usage(format!("{} is not UTF-8", word.display())))
}

fn ranks(word: &str, value: &str) -> Result<u32, Usage> {
    let number: Option<u32> = value.parse().ok().filter(|ranks| (1..=MAX_RANKS).contains(ranks));
    number.ok_or_else(|| {
        Usage(format!("{word} {value}: the number of ranks must be from 1 to {MAX_RANKS}"))
    })
}

fn seconds(word: &str, value: &str) -> Result<Duration, Usage> {
    let number: Option<f64> = value.parse().ok().filter(|seconds: &f64| *seconds > 0.0);
    number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| {
        Usage(format!("{word} {value}: the time must be a positive number of seconds"))
    })
}

fn variable(word: &str, name: String, value: String) -> Result<(String, String), Usage> {
    if name.is_empty() || name.contains('=') {
        let hint = if name.contains('=') { "; write NAME VALUE, or -x NAME=VALUE" } else { "" };
        return Err(Usage(format!("{word} {name:?} is no name of a variable{hint}")));
    }
    Ok((name, value))
}

fn path(word: &str, value: String) -> Result<String, Usage> {
    if value.is_empty() { Err(empty(&format!("{word}: the path"))) } else { Ok(value) }
}

fn empty(what: &str) -> Usage {
    Usage(format!("{what} is empty; is a variable of the shell not set?"))
}

fn stdin(word: &str, value: &str) -> Result<Stdin, Usage> {
    match value {
        "all" => Ok(Stdin::All),
        "none" => Ok(Stdin::None),
        rank => match rank.parse() {
            Ok(rank) => Ok(Stdin::Rank(rank)),
            Err(_) => Err(Usage(format!("{word} {value}: must be a rank, all or none"))),
        },
    }
}

fn map_by(word: &str, value: &str, cores_each: &mut Option<u32>) -> Result<MapBy, Usage> {
    let (what, modifier) =
        value.split_once(':').map_or((value, None), |(what, modifier)| (what, Some(modifier)));
    if let Some(modifier) = modifier {
        let count =
            modifier.to_ascii_lowercase().strip_prefix("pe=").and_then(|count| count.parse().ok());
        let count = count.filter(|count| *count > 0);
        *cores_each = Some(count.ok_or_else(|| {
            Usage(format!("{word} {value}: after the colon only PE=K is understood"))
        })?);
    }
    named(word, what, MapBy::parse, MapBy::NAMES)
}

fn named<T>(
    word: &str,
    value: &str,
    parse: impl Fn(&str) -> Option<T>,
    names: &[&str],
) -> Result<T, Usage> {
    parse(&value.to_ascii_lowercase())
        .ok_or_else(|| Usage(format!("{word} {value}: must be one of {}", names.join(", "))))
}

fn no_program(first: bool) -> Usage {
    let place = if first { "" } else { " after the colon" };
    Usage(format!("no program given{place}; for example: mpiexec -n 4 ./a.out"))
}

/// The candidate that differs in the fewest letters, if those are few.
fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let (changes, name) =
        candidates.iter().map(|name| (strsim::damerau_levenshtein(word, name), *name)).min()?;
    (changes <= word.len().div_ceil(3).min(3) && name.len() > 1).then_some(name)
}

fn dashed(name: &str) -> String {
    if name.len() > 1 && name != "np" { format!("--{name}") } else { format!("-{name}") }
}

/// What `mpiexec --help` prints.
pub fn help() -> String {
    let mut text = String::from(
        "Runs an MPI program on several ranks.\n\n\
         Usage: mpiexec [options] program [arguments] [: [options] program [arguments]]...\n",
    );
    for (group, specs) in OPTIONS {
        text += &format!("\n{group}:\n");
        for spec in *specs {
            let names: Vec<String> = spec.names.iter().map(|name| dashed(name)).collect();
            let left = format!("{} {}", names.join(", "), spec.values.join(" "));
            let left = left.trim_end();
            if left.len() > 26 {
                text += &format!("  {left}\n  {:<26} {}\n", "", spec.help);
            } else {
                text += &format!("  {left:<26} {}\n", spec.help);
            }
        }
    }
    text + "\nLong options may be written with one dash.\n\
            Ctrl-C ends the job, twice at once; Ctrl-\\ (SIGQUIT) prints what each rank is doing.\n\
            Exit code: that of the first rank that failed, 128 + the signal if one killed it.\n\n\
            Examples:\n  \
            mpiexec -n 4 ./a.out\n  \
            mpiexec -n 4 -l python3 job.py                 each line with its rank\n  \
            mpiexec -n 1 ./master : -n 3 ./worker          two programs, one job\n  \
            mpiexec --hosts node1:16,node2:16 ./a.out      32 ranks on two hosts\n  \
            mpiexec -n 2 --map-by numa -x OMP_NUM_THREADS=8 ./hybrid\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &str) -> Result<Settings, Usage> {
        match parse(line.split_whitespace().map(OsString::from))? {
            Command::Run(settings) => Ok(*settings),
            other => panic!("{other:?}"),
        }
    }

    fn refused(line: &str) -> String {
        run(line).unwrap_err().0
    }

    #[test]
    fn both_families_of_spelling_mean_the_same() {
        for line in [
            "-n 4 a.out x -n",
            "-np 4 a.out x -n",
            "--np 4 a.out x -n",
            "--n=4 a.out x -n",
            "-c 4 -- a.out x -n",
        ] {
            let settings = run(line).unwrap();
            assert_eq!(settings.sections.len(), 1);
            let section = &settings.sections[0];
            assert_eq!((section.ranks, section.program.to_str()), (4, Some("a.out")));
            assert_eq!(section.arguments, ["x", "-n"]);
        }
        assert_eq!(run("-bind-to core a").unwrap(), run("--bind-to core a").unwrap());
        assert!(run("-prepend-rank a").unwrap().tag && run("-l a").unwrap().tag);
    }

    #[test]
    fn sections_have_their_own_ranks_and_variables() {
        let line =
            "-genv A 1 -n 2 -env B 2 m x : -n 3 -wdir /tmp w --timeout 3 : -x C=4 -x HOME last";
        let settings = run(line).unwrap();
        assert_eq!(total_ranks(&settings), 6);
        assert_eq!(settings.environment, [("A".into(), "1".into()), ("C".into(), "4".into())]);
        assert_eq!(settings.sections[0].environment, [("B".into(), "2".into())]);
        assert_eq!(settings.sections[1].directory.as_deref(), Some("/tmp"));
        assert_eq!(settings.sections[1].arguments, ["--timeout", "3"]);
        assert_eq!(settings.timeout, None);
    }

    #[test]
    fn hosts_say_how_many_ranks_unless_told() {
        assert_eq!(total_ranks(&run("--hosts a:2,b:3 x").unwrap()), 5);
        assert_eq!(total_ranks(&run("-H a:2 -host b -n 9 x").unwrap()), 9);
        assert_eq!(total_ranks(&run("--hosts a:2,b:3 x : y").unwrap()), 2);
        let twice = run("--hosts a:2,b -H a x").unwrap();
        assert_eq!((twice.hosts.len(), twice.hosts[0].slots, total_ranks(&twice)), (2, 3, 4));
        assert_eq!(run("--hosts a --agent rsh x").unwrap().agent.as_deref(), Some("rsh"));
        assert!(refused("--hosts -x a").contains("no host"));
    }

    #[test]
    fn wrong_use_is_told_in_one_line() {
        assert!(refused("").starts_with("no program given;"));
        assert!(refused("-n 2").starts_with("no program given;"));
        assert!(refused("-n 2 a :").starts_with("no program given after the colon"));
        for count in ["0", "-1", "x", "99999999999", "65537", "1.5"] {
            assert!(
                refused(&format!("-n {count} a")).contains("must be from 1 to 65536"),
                "{count}"
            );
        }
        assert!(refused("-n 40000 a : -n 40000 a").contains("80000 ranks are too many"));
        assert_eq!(refused("--timout 3 a"), "unknown option --timout; did you mean --timeout?");
        assert_eq!(refused("-bindto core a"), "unknown option -bindto; did you mean --bind-to?");
        assert_eq!(refused("--zzz a"), "unknown option --zzz; see mpiexec --help");
        assert!(refused("-ppn 2 a").contains("--hosts a:2"));
        assert!(refused("--mca btl self a").contains("--set"));
        assert!(refused("--bind-to cake a").contains("must be one of"));
        assert!(refused("--map-by numa:XX a").contains("PE=K"));
        assert!(refused("--timeout 0 a").contains("positive"));
        assert!(refused("--stdin 2 -n 2 a").contains("no rank 2"));
        assert_eq!(refused("-env A"), "-env needs NAME VALUE");
        for line in [
            &["-n", "2", ""][..],
            &["-wdir", "", "a"],
            &["--config=", "a"],
            &["--hostfile", "", "a"],
        ] {
            let why = parse(line.iter().map(OsString::from)).unwrap_err().0;
            assert!(
                why.ends_with(" is empty; is a variable of the shell not set?"),
                "{line:?}: {why}"
            );
        }
        assert_eq!(
            parse(["-x", "", "a"].map(OsString::from)).unwrap_err().0,
            "-x \"\" is no name of a variable"
        );
        let joined = "-env \"A=2\" is no name of a variable; write NAME VALUE, or -x NAME=VALUE";
        assert_eq!(refused("-env A=2 ./a.out x"), joined);
        assert_eq!(refused("-l=3 a"), "-l=3: this option takes no value");
    }

    #[test]
    fn the_help_fits_a_terminal() {
        for line in help().lines() {
            assert!(line.len() <= 100, "{line}");
        }
        for (_, specs) in OPTIONS {
            for name in specs.iter().flat_map(|spec| spec.names) {
                assert!(help().contains(&dashed(name)));
            }
        }
    }
}
