//! The steps of a command: one line each, with a progress bar while they run.
//!
//! Output of a step's programs goes to a log under `target/xtask/`. A step that fails quotes the
//! last lines of it and names the file. With `--verbose` programs print directly instead. Without a
//! terminal there are no bars: a line begins with the step and ends with its time.
//!
//! At most one step runs at a time.

use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use regex::Regex;

use crate::command::{self, Ran};
use crate::project::Project;

/// Lines of the log that a failure quotes.
const QUOTED_LINES: usize = 25;
/// Lines that are kept for a quotation.
const KEPT_LINES: usize = 200;
/// Longest time of a program of a step.
const MAX_PROGRAM_TIME: Duration = Duration::from_secs(3600);
/// Columns of the titles.
const TITLE_COLUMNS: usize = 46;

/// The step that runs, for lines that are printed meanwhile.
static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

struct Running {
    bar: ProgressBar,
    /// The step's title was printed without an end of line.
    is_line_open: bool,
}

fn running() -> MutexGuard<'static, Option<Running>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Prints a text, above the bar if there is one.
pub(crate) fn print(text: &str) {
    // A reader that has seen enough is no error.
    let write = || drop(writeln!(std::io::stdout(), "{}", text.trim_end_matches('\n')));
    match running().as_mut() {
        Some(running) => {
            if std::mem::take(&mut running.is_line_open) {
                println!();
            }
            running.bar.suspend(write);
        }
        None => write(),
    }
}

/// Prints a formatted text, above the bar if there is one.
macro_rules! say {
    ($($text:tt)*) => {
        $crate::steps::print(&format!($($text)*))
    };
}
pub(crate) use say;

/// The steps of one command.
pub(crate) struct Steps {
    log: Arc<Mutex<Log>>,
    shown_log: String,
    verbose: bool,
}

/// Where the programs of the steps print to.
struct Log {
    file: File,
    /// The last lines of the step that runs.
    tail: Vec<String>,
}

/// A step that runs.
pub(crate) struct Step<'a> {
    steps: &'a Steps,
    bar: ProgressBar,
    note: Mutex<String>,
    has_failed: AtomicBool,
}

impl Steps {
    /// Starts a log; `name` is the command's.
    pub(crate) fn start(project: &Project, name: &str, verbose: bool) -> Result<Steps> {
        let path: PathBuf = project.target.join("xtask").join(format!("{name}.log"));
        std::fs::create_dir_all(path.parent().expect("in a folder"))?;
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        let log = Arc::new(Mutex::new(Log { file, tail: Vec::new() }));
        Ok(Steps { log, shown_log: project.shown(&path).to_string(), verbose })
    }

    /// Runs a step and prints its line.
    pub(crate) fn step<T>(
        &self,
        title: &str,
        work: impl FnOnce(&Step<'_>) -> Result<T>,
    ) -> Result<T> {
        let step = self.begin(title);
        let start = Instant::now();
        let result = work(&step);
        let took = start.elapsed().as_secs_f64();
        let is_line_open = running().take().is_some_and(|running| running.is_line_open);
        step.bar.finish_and_clear();
        let note = step.note.into_inner().unwrap_or_else(PoisonError::into_inner);
        let is_ok = result.is_ok() && !step.has_failed.into_inner();
        let sign = match (is_ok, std::io::stdout().is_terminal()) {
            (true, true) => "✓ ",
            (false, true) => "✗ ",
            (true, false) => "",
            (false, false) => "FAILED ",
        };
        let title_again = if is_line_open { String::new() } else { padded(title) + " " };
        print(format!("{sign}{title_again}{took:>6.1} s  {note}").trim_end());
        result.map_err(|error| self.quote(title, &error))
    }

    fn begin(&self, title: &str) -> Step<'_> {
        let is_terminal = std::io::stdout().is_terminal();
        let target = if is_terminal && !self.verbose {
            ProgressDrawTarget::stdout()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("{spinner} {prefix} {elapsed:>5}  {wide_msg:.dim}"));
        bar.set_prefix(padded(title));
        bar.enable_steady_tick(Duration::from_millis(100));
        let is_line_open = !self.verbose && !is_terminal;
        *running() = Some(Running { bar: bar.clone(), is_line_open });
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.tail.clear();
        let _ = writeln!(log.file, "== {title}");
        if self.verbose {
            println!("\n== {title}");
        } else if is_line_open {
            print!("{} ", padded(title));
            let _ = std::io::stdout().flush();
        }
        Step { steps: self, bar, note: Mutex::default(), has_failed: AtomicBool::new(false) }
    }

    /// Adds the end of the log to an error.
    fn quote(&self, title: &str, error: &anyhow::Error) -> anyhow::Error {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(log.file, "FAILED: {error:#}");
        let tail = &log.tail[log.tail.len().saturating_sub(QUOTED_LINES)..];
        if tail.is_empty() {
            return anyhow!("{title}: {error:#}");
        }
        let tail: String = tail.iter().map(|line| format!("    {line}\n")).collect();
        let log = &self.shown_log;
        anyhow!("{title}: {error:#}\n\nthe last lines of {log}:\n\n{tail}")
    }
}

impl Step<'_> {
    /// Runs a program, which prints to the log. An end other than success is an error.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        self.capture(command).map(drop)
    }

    /// Runs a program as [`Step::run`] does, and returns what it printed.
    pub(crate) fn capture(&self, command: &mut Command) -> Result<Ran> {
        let ran = self.attempt(command)?;
        if ran.success() {
            return Ok(ran);
        }
        Err(anyhow!("`{}` ended with {}", command::line(command), ran.ending()))
    }

    /// Runs a program, which prints to the log; it may end as it likes.
    pub(crate) fn attempt(&self, command: &mut Command) -> Result<Ran> {
        if self.steps.verbose {
            println!("$ {}", command::line(command));
            command::capture_and_show(command, MAX_PROGRAM_TIME)
        } else {
            self.steps.write(&format!("$ {}", command::line(command)));
            let (log, bar) = (self.steps.log.clone(), self.bar.clone());
            let counted = Regex::new(r"Building \[.*\] (\d+)/(\d+)").expect("a constant");
            command::follow(command, MAX_PROGRAM_TIME, move |line, _| {
                for part in line.split('\r').filter(|part| !part.trim().is_empty()) {
                    match counted.captures(part) {
                        Some(found) => advance(&bar, &found[1], &found[2]),
                        None => {
                            let plain = part.trim_end().trim_start_matches("\u{1b}[K");
                            bar.set_message(plain.trim().to_owned());
                            log.lock().unwrap_or_else(PoisonError::into_inner).write(plain);
                        }
                    }
                }
            })
        }
    }

    /// Runs a cargo command, whose count of crates moves the bar.
    pub(crate) fn cargo(&self, cargo: &mut Command) -> Result<()> {
        if !self.steps.verbose {
            cargo.env("CARGO_TERM_PROGRESS_WHEN", "always").env("CARGO_TERM_PROGRESS_WIDTH", "80");
        }
        self.run(cargo)
    }

    /// Marks the step as failed, although its work goes on and returns a value.
    pub(crate) fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Sets the text after the step's time.
    pub(crate) fn note(&self, text: impl Into<String>) {
        *self.note.lock().unwrap_or_else(PoisonError::into_inner) = text.into();
    }
}

impl Steps {
    fn write(&self, line: &str) {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).write(line);
    }
}

impl Log {
    fn write(&mut self, line: &str) {
        let _ = writeln!(self.file, "{line}");
        self.tail.push(line.to_owned());
        if self.tail.len() > KEPT_LINES {
            self.tail.drain(..KEPT_LINES / 2);
        }
    }
}

fn advance(bar: &ProgressBar, at: &str, of: &str) {
    let (Ok(at), Ok(of)) = (at.parse(), of.parse()) else { return };
    if bar.length() != Some(of) {
        bar.set_style(style(
            "{spinner} {prefix} {elapsed:>5}  [{bar:24}] {pos}/{len}  {wide_msg:.dim}",
        ));
        bar.set_length(of);
    }
    bar.set_position(at);
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("a constant")
        .progress_chars("=> ")
        .tick_chars("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ")
}

fn padded(title: &str) -> String {
    format!("{title:TITLE_COLUMNS$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_failure_quotes_the_log_and_names_it() {
        let root = std::env::temp_dir().join(format!("verbena-steps-{}", std::process::id()));
        let project = Project { target: root.join("target"), root: root.clone() };
        let steps = Steps::start(&project, "name", false).unwrap();
        steps.step("good", |step| step.run(&mut shell("echo before"))).unwrap();
        let failed = steps.step("bad", |step| step.run(&mut shell("echo why >&2; exit 3")));
        let error = failed.unwrap_err().to_string();
        for text in ["bad: ", "exit code 3", "    why\n", "target/xtask/name.log"] {
            assert!(error.contains(text), "{error}");
        }
        assert!(!error.contains("before"), "{error}");
        let log = std::fs::read_to_string(root.join("target/xtask/name.log")).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        assert!(log.starts_with("== good\n$ sh -c 'echo before'\nbefore\n== bad\n"), "{log}");
    }
}
