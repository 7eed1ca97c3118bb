//! `verbena top`: the running jobs of this host, again and again.

use std::io::IsTerminal;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use launcher::job_monitor::{MonitoredJob, find_jobs};
use launcher::stdout::print;

/// Time between two looks at the ranks.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The longest time between two tables, a day.
const INTERVAL_MAX: Duration = Duration::from_secs(86_400);
/// Lines of a terminal whose size is unknown.
const DEFAULT_LINES: usize = 24;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The process id of an `mpiexec` (default: all jobs of this user)
    pid: Option<u32>,
    /// Print one table and end
    #[arg(long)]
    once: bool,
    /// Seconds from one table to the next
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    interval: f64,
}

/// Prints a table after each interval, until the job given by its process id has ended.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let interval = Duration::try_from_secs_f64(arguments.interval)
        .ok()
        .filter(|interval| (LOOK_EVERY..=INTERVAL_MAX).contains(interval))
        .ok_or_else(|| {
            format!("invalid --interval {}: must be 0.02 to 86400", arguments.interval)
        })?;
    let is_terminal = std::io::stdout().is_terminal();
    let mut jobs = find_jobs(arguments.pid, &[]);
    if let (Some(pid), true) = (arguments.pid, jobs.is_empty()) {
        return Err(format!("process {pid} is no mpiexec of yours that runs ranks on this host"));
    }
    loop {
        let until = Instant::now() + interval;
        while Instant::now() < until {
            jobs.iter_mut().for_each(MonitoredJob::look);
            sleep(LOOK_EVERY);
        }
        jobs.retain(MonitoredJob::is_running);
        jobs.iter_mut().for_each(MonitoredJob::end_interval);
        show(&jobs, is_terminal && !arguments.once)?;
        if arguments.once || (arguments.pid.is_some() && jobs.is_empty()) {
            return Ok(());
        }
        if arguments.pid.is_none() {
            jobs.append(&mut find_jobs(None, &jobs));
        }
    }
}

/// Prints all tables, on a terminal in place of the last ones.
fn show(jobs: &[MonitoredJob], replaces: bool) -> Result<(), String> {
    let lines = match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if replaces && size.ws_row > 0 => usize::from(size.ws_row),
        _ if replaces => DEFAULT_LINES,
        _ => usize::MAX,
    };
    // Three lines of each job are no ranks.
    let each = (lines / jobs.len().max(1)).saturating_sub(4).max(1);
    let mut text = if replaces { "\x1b[H\x1b[J".to_owned() } else { String::new() };
    if jobs.is_empty() {
        text += "no job of this user runs on this host\n";
    }
    for job in jobs {
        text += &job.table(each);
        text.push('\n');
    }
    print(format_args!("{text}"))
}
