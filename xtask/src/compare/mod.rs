//! `cargo xtask compare`: this MPI against others, on the same programs.
//!
//! The peers are installed from the Python index (or taken from `--peers`), and this library is the
//! profile-guided build. The programs of `benches/osu` are compiled once for the standard ABI and
//! once for Open MPI. Every figure is measured on every library in turn, for several rounds: the
//! machine's own speed changes; therefore only runs side by side can be compared. If the machine
//! has several states (`machine_state.rs`), all libraries of a round are measured in the same one.
//! A library that cannot run a program is shown with the reason and does not end the comparison.
//!
//! Each run is a line of JSON in a file. The report is made from that file alone, so
//! `--report FILE` prints it again.

mod figures;
mod guests;
mod interference;
mod library;
mod machine_state;
mod parse;
mod record;
mod report;
mod unpacked;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use crate::command::{self, Mark, capture};
use crate::install;
use crate::project::Project;
use crate::steps::Steps;
pub(crate) use guests::{Options as GuestOptions, compare as compare_guests};
pub(crate) use library::{MPICH_THROTTLE, compile};

use figures::{Figure, ON_A_HOST, OVER_TCP, Placement, Reading, Table};
use interference::OthersCpuUse;
use library::{Kind, Library};
use machine_state::SteadyRuns;
use record::{LibraryLine, Line, Machine, Record, Run};

/// Runs of a whole job whose time is taken from outside.
const JOB_REPEATS: u32 = 5;
/// Iterations of a collective among ranks that outnumber the cores, which takes libraries up to
/// milliseconds.
const CROWDED_ITERATIONS: &str = "1000";
/// The library name under which the machine's own limits stand.
const MACHINE: &str = "machine";

/// Options of `compare`.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Only these figures (can be repeated, or separated by commas).
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Over TCP on the loopback interface, each rank on a pretended host, and beside a bare socket.
    #[arg(long)]
    over_tcp: bool,
    /// Message sizes in bytes, MIN:MAX, instead of each figure's own.
    #[arg(long, value_parser = sizes)]
    sizes: Option<(u64, u64)>,
    /// Measure the collectives among so many ranks instead of two, unbound where they outnumber the
    /// cores.
    #[arg(long, value_parser = clap::value_parser!(u32).range(2..=64), conflicts_with = "over_tcp")]
    ranks: Option<u32>,
    /// How often everything is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Two rounds of the most important figures.
    #[arg(long)]
    quick: bool,
    /// A folder with installed peers, mpich/, impi/ and ompi/, instead of installing them.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Where the results go; target/compare/DATE.jsonl unless given.
    #[arg(long)]
    output: Option<PathBuf>,
    /// A run that takes more seconds than this has failed.
    #[arg(long, default_value_t = 60)]
    limit: u64,
    /// Measure nothing; print the report of this file.
    #[arg(long, conflicts_with_all = ["only", "sizes", "ranks", "rounds", "quick", "peers", "output", "limit"])]
    report: Option<PathBuf>,
    /// Name the figures.
    #[arg(long)]
    list: bool,
}

impl Options {
    fn table(&self) -> &'static Table {
        if self.over_tcp { &OVER_TCP } else { &ON_A_HOST }
    }
}

fn sizes(text: &str) -> Result<(u64, u64)> {
    let (min, max) = text.split_once(':').unwrap_or((text, text));
    let (min, max) = (min.parse()?, max.parse()?);
    ensure!(min <= max, "{min} is more than {max}");
    Ok((min, max))
}

/// Measures and reports.
pub(crate) fn compare(project: &Project, options: &Options) -> Result<()> {
    if options.list {
        options
            .table()
            .figures
            .iter()
            .for_each(|figure| println!("{:18} {}", figure.name, figure.unit));
        return Ok(());
    }
    if let Some(file) = &options.report {
        say(&report::report(options.table(), &record::read(file)?));
        return Ok(());
    }
    let figures = chosen(options)?;
    let _lock = interference::lock()?;
    let (mut lines, libraries) = prepare(project, options)?;
    let output = options.output.clone().unwrap_or_else(|| record::file(project));
    let mut record = Record::create(&output)?;
    lines.iter().try_for_each(|line| record.add(line))?;
    let comparison =
        Comparison { options, libraries, limits: project.target.join("osu/standard/limits") };
    comparison.run(&figures, |run| {
        let line = Line::Run(run);
        record.add(&line)?;
        lines.push(line);
        Ok(())
    })?;
    say(&report::report(options.table(), &lines));
    println!("\nEvery run is in {}", project.shown(&output));
    Ok(())
}

/// Prints; a reader that has seen enough is no error.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The selected figures. A promise relative to another figure brings that one along.
fn chosen(options: &Options) -> Result<Vec<Figure>> {
    let table = options.table();
    for name in &options.only {
        let Some(_) = table.named(name) else {
            let names: Vec<&str> = table.figures.iter().map(|figure| figure.name).collect();
            bail!("no figure is called {name}; there are {}", names.join(", "));
        };
    }
    let wanted = |figure: &&Figure| match options.only.is_empty() {
        true => figure.quick || !options.quick,
        false => {
            let needs_it = |name: &String| {
                let other = table.named(name).and_then(|other| (other.target)(8).own());
                other == Some(figure.name)
            };
            options.only.iter().any(|name| name == figure.name || needs_it(name))
        }
    };
    let placed = |figure: &Figure| match options.ranks {
        Some(ranks) => figure.among(ranks),
        None => *figure,
    };
    let figures: Vec<Figure> = table.figures.iter().filter(wanted).map(placed).collect();
    if let Some(ranks) = options.ranks {
        let other = figures.iter().find(|figure| figure.ranks != ranks);
        ensure!(other.is_none(), "--ranks is for collectives: name them with --only");
    }
    Ok(figures)
}

/// Builds, installs and compiles all; the lines that open the record.
fn prepare(project: &Project, options: &Options) -> Result<(Vec<Line>, Vec<Library>)> {
    let mut peers = library::peers(project, options.peers.as_deref());
    let prefix = project.prefix();
    if options.over_tcp {
        library::write_agent(project)?;
        peers.push((Kind::Socket, Ok(prefix.clone())));
    }
    install::install_fastest(project, &Steps::start(project, "compare", false)?)?;
    let sources = project.root.join("benches/osu");
    let standard = project.target.join("osu/standard");
    library::compile(&sources, &standard, &prefix.join("bin/mpicc"))?;
    let mut lines = vec![Line::Machine(Machine { ranks: options.ranks, ..Machine::here(project) })];
    let mut libraries = Vec::new();
    for (kind, place) in [(Kind::Verbena, Ok(prefix))].into_iter().chain(peers) {
        let ready = place.and_then(|prefix| Library::ready(kind, prefix, &sources, &standard));
        let checked = ready.and_then(|library| Ok((version(&library, options)?, library)));
        let (version, settings) = match &checked {
            Ok((version, library)) => (Ok(version.clone()), all_settings(library, options)),
            Err(error) => (Err(format!("{error:#}")), Default::default()),
        };
        println!(
            "{:8} {}",
            kind.name(),
            version.clone().unwrap_or_else(|error| format!("MISSING: {error}"))
        );
        lines.push(Line::Library(LibraryLine { name: kind.name().to_owned(), version, settings }));
        libraries.extend(checked.ok().map(|(_, library)| library));
    }
    ensure!(
        libraries.iter().any(|library| library.kind == Kind::Verbena),
        "our own library does not run"
    );
    Ok((lines, libraries))
}

fn all_settings(
    library: &Library,
    options: &Options,
) -> std::collections::BTreeMap<String, String> {
    use Placement::{Assisted, Bound, OneCore, OverTcp, Oversubscribed};
    let placements: &[Placement] =
        if options.over_tcp { &[OverTcp] } else { &[Bound, Oversubscribed, OneCore, Assisted] };
    let settings = |&placement| (format!("{placement:?}"), library.settings(placement));
    placements.iter().map(settings).collect()
}

/// The library's name for itself when a job runs on it; an error if that is another library.
fn version(library: &Library, options: &Options) -> Result<String> {
    if library.kind == Kind::Socket {
        return Ok("a bare TCP connection".to_owned());
    }
    let mut job = library.job(Placement::Bound, 2, "hello", &[]);
    let ran = ended(&mut job, options)?;
    let version = ran
        .lines()
        .filter_map(|line| line.strip_prefix("# "))
        .find(|line| line.contains(library.kind.says()) && !line.contains("benchmarks"));
    version
        .map(str::to_owned)
        .with_context(|| format!("the program runs on another library:\n{ran}"))
}

/// Runs a job to its end; its standard output, or what went wrong in one paragraph.
fn ended(job: &mut Command, options: &Options) -> Result<String> {
    let mark = Mark::new();
    mark.put_on(job);
    let ran = capture(job, None, Duration::from_secs(options.limit))?;
    let left = mark.end_survivors();
    if !ran.success() {
        let printed = format!("{}\n{}", ran.stderr, ran.stdout);
        let printed: Vec<&str> =
            printed.lines().filter(|line| !line.trim().is_empty()).take(8).collect();
        bail!(
            "{}{}: {}",
            if ran.timed_out { TIMED_OUT } else { "" },
            ran.ending(),
            printed.join(" | ")
        );
    }
    ensure!(left.is_empty(), "it left processes running: {}", left.join(", "));
    Ok(ran.stdout)
}

/// Returns whether this peer takes part in a figure.
fn is_peer(kind: Kind, figure: &Figure) -> bool {
    !figure.alone && (kind == Kind::Socket) == figure.is_beside_socket()
}

/// How a failure begins that would cost as much again in the next round.
const TIMED_OUT: &str = "time-out: ";

/// The libraries, and how to measure them.
struct Comparison<'a> {
    options: &'a Options,
    libraries: Vec<Library>,
    limits: PathBuf,
}

impl Comparison<'_> {
    /// All rounds. Each starts with the next library, so that none is always the first.
    fn run(&self, figures: &[Figure], mut ended: impl FnMut(Run) -> Result<()>) -> Result<()> {
        let rounds = if self.options.quick { 2 } else { self.options.rounds };
        let bar =
            ProgressBar::new(u64::from(rounds) * (figures.len() * self.libraries.len() + 1) as u64);
        bar.set_style(ProgressStyle::with_template(
            "{elapsed_precise} [{wide_bar}] {pos}/{len}, {eta} left: {msg}",
        )?);
        let mut given_up = BTreeSet::<(&str, &str)>::new(); // not tried again
        for round in 1..=rounds {
            bar.set_message("limits of the machine");
            self.limits(round).into_iter().try_for_each(&mut ended)?;
            bar.inc(1);
            for figure in figures {
                let mut steady = SteadyRuns::new(figure.crosses().then_some(&self.limits));
                for turn in 0..self.libraries.len() {
                    let at = (turn + round as usize) % self.libraries.len();
                    let kind = self.libraries[at].kind;
                    bar.set_message(format!("{} on {}", figure.name, kind.name()));
                    if !(kind != Kind::Verbena && !is_peer(kind, figure)
                        || given_up.contains(&(kind.name(), figure.name)))
                    {
                        let run = self.measure(figure, at, round, &mut steady);
                        if run.rows.as_ref().is_err_and(|reason| reason.starts_with(TIMED_OUT)) {
                            given_up.insert((kind.name(), figure.name));
                        }
                        ended(run)?;
                    }
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        Ok(())
    }

    /// One run, as long as the others of its round.
    fn measure(&self, figure: &Figure, library: usize, round: u32, steady: &mut SteadyRuns) -> Run {
        let library = &self.libraries[library];
        let mut args: Vec<String> = figure.args.iter().map(|&arg| arg.to_owned()).collect();
        if let Some(own) = figure.sizes {
            let (min, max) = self.options.sizes.filter(|_| own.0 != own.1).unwrap_or(own);
            args.extend(["-m".to_owned(), format!("{min}:{max}")]);
        }
        if figure.placement == Placement::Oversubscribed && self.options.ranks.is_some() {
            args.extend(["-i", CROWDED_ITERATIONS].map(str::to_owned));
        }
        let job = || library.job(figure.placement, figure.ranks, figure.program, &args);
        let jobs = if figure.reading == Reading::Job { JOB_REPEATS } else { 1 };
        let (mut seconds, mut others) = (0.0, 0.0);
        let (output, crossing) = steady.run(|| {
            let (start, watch) = (Instant::now(), OthersCpuUse::start());
            let output =
                (0..jobs).map(|_| ended(&mut job(), self.options)).collect::<Result<String>>();
            (seconds, others) =
                (start.elapsed().as_secs_f64() / f64::from(jobs), watch.other_cores());
            output
        });
        let rows = output.and_then(|output| parse::read(&output, figure.reading, seconds * 1e3));
        let rows = rows.map_err(|error| format!("{error:#}"));
        let library = library.kind.name().to_owned();
        Run {
            round,
            library,
            figure: figure.name.to_owned(),
            command: command::line(&job()),
            seconds,
            others,
            crossing,
            rows,
        }
    }

    /// The machine's own limits, measured in the same round.
    fn limits(&self, round: u32) -> Vec<Run> {
        let (start, watch) = (Instant::now(), OthersCpuUse::start());
        let output = ended(&mut Command::new(&self.limits), self.options);
        let (seconds, others) = (start.elapsed().as_secs_f64(), watch.other_cores());
        let read = |reading| match &output {
            Ok(output) => parse::read(output, reading, 0.0).map_err(|error| format!("{error:#}")),
            Err(error) => Err(format!("{error:#}")),
        };
        let command = command::line(&Command::new(&self.limits));
        [("cache line", Reading::After("cache line(us): ")), ("memcpy", Reading::Column(1))]
            .map(|(figure, reading)| Run {
                round,
                library: MACHINE.to_owned(),
                figure: figure.to_owned(),
                command: command.clone(),
                seconds,
                others,
                crossing: None,
                rows: read(reading),
            })
            .into()
    }
}
