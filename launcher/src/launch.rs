//! The start of a job: checks its knobs, waits for hosts that dial in, then runs the job on this
//! host or over several.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use config::{KnobError, Knobs, Sources, knob};

use crate::allocation::SRUN;
use crate::dial_in::gather::{Arrival, gather};
use crate::dial_in::token;
use crate::explain::Explanations;
use crate::group;
use crate::nested::jobs::NestedJobs;
use crate::nested::links::JobLinks;
use crate::nested::outermost::Outermost;
use crate::outcome_report::OutcomeReport;
use crate::program::CannotRun;
use crate::settings::{EXIT_USAGE, OnFailure, Settings};
use crate::share::Share;
use crate::tree::DEFAULT_WIDTH;
use crate::{job, multi_host, options};

/// Runs a job to its end. Returns its exit code.
pub fn run(settings: &Settings) -> u8 {
    run_on(settings, Place::AllHosts)
}

/// Runs a job on this host, whatever hosts there are for the jobs that it spawns. `known`: its
/// number and secret, if its processes have some already. Returns its exit code.
pub(crate) fn run_here(settings: &Settings, known: Option<(u64, [u8; 32])>) -> u8 {
    run_on(settings, Place::ThisHost { known })
}

/// Runs a job on hosts that have been reached. Returns its exit code.
pub(crate) fn run_arrived(
    settings: &Settings,
    known: (u64, [u8; 32]),
    arrived: Vec<Arrival>,
) -> u8 {
    run_on(settings, Place::Arrived { known, arrived })
}

/// Where a job runs. `known`: its number and secret, if its processes have some already.
enum Place {
    /// On the hosts of its settings.
    AllHosts,
    /// On this host.
    ThisHost { known: Option<(u64, [u8; 32])> },
    /// On hosts that have been reached.
    Arrived { known: (u64, [u8; 32]), arrived: Vec<Arrival> },
}

fn run_on(settings: &Settings, place: Place) -> u8 {
    try_run(settings, place).unwrap_or_else(|CannotRun { message, code }| {
        let line = format!("mpiexec: {message}");
        eprintln!("{line}");
        let messages = [line];
        OutcomeReport::new(settings, code, Duration::ZERO, None, &messages).write(settings);
        code
    })
}

fn try_run(settings: &Settings, place: Place) -> Result<u8, CannotRun> {
    let knobs = check_knobs(settings)
        .map_err(|error| CannotRun { message: error.to_string(), code: EXIT_USAGE })?;
    let is_here = matches!(place, Place::ThisHost { .. });
    let (known, (settings, arrived)) = match place {
        Place::AllHosts => (None, hosts_known(settings)?),
        Place::ThisHost { known } => (known, hosts_known(settings)?),
        Place::Arrived { known, arrived } => (Some(known), (settings.clone(), arrived)),
    };
    let whole = || Share::whole(&settings);
    let (share, group) = match (&settings.group, known) {
        (Some(name), _) => {
            group::join::join(name, &settings, &knobs).map(|(share, group)| (share, Some(group)))?
        }
        (None, Some(known)) => (Share::known(settings.total_ranks(), known, 0), None),
        (None, None) => {
            (whole().map_err(|error| CannotRun { message: error.to_string(), code: 1 })?, None)
        }
    };
    let explain = knobs.is_on(knob::REPORT_TRANSPORTS);
    let explanations = Explanations::new(share.size, explain);
    let tree_width = match arrived.is_empty() {
        true => tree_width(&knobs, &settings),
        // Each of them has a connection to this process alone.
        false => u32::MAX,
    };
    let stall_timeout =
        settings.stall_timeout.or_else(|| knobs.duration(knob::LAUNCH_STALL_TIMEOUT));
    let settings = &Settings { explain, tree_width, stall_timeout, ..settings };
    let jobs = Outermost::new(NestedJobs::new(settings, &share), group);
    let jobs = JobLinks::Outermost(Box::new(jobs));
    // Those that have arrived take no spawned ranks.
    let hosts = match known {
        Some(_) => arrived.iter().map(|arrival| arrival.host.clone()).collect(),
        None => settings.hosts.clone(),
    };
    let settings = &Settings { hosts, ..settings.clone() };
    if is_here {
        return job::run(settings, &share, explanations, jobs);
    }
    run_ranks(settings, &share, explanations, arrived, jobs)
}

/// Runs the ranks of a job, which are dealt to its hosts, to their end. `arrived`: the hosts that
/// have dialed in. Returns the exit code.
pub(crate) fn run_ranks(
    settings: &Settings,
    share: &Share,
    explanations: Explanations,
    arrived: Vec<Arrival>,
    jobs: JobLinks,
) -> Result<u8, CannotRun> {
    if settings.hosts.is_empty() {
        job::run(settings, share, explanations, jobs)
    } else {
        multi_host::run(settings, share, explanations, arrived, jobs)
    }
}

/// Returns the settings with all hosts, and those that have dialed in.
fn hosts_known(settings: &Settings) -> Result<(Settings, Vec<Arrival>), CannotRun> {
    let mut settings = settings.clone();
    let Some(dial_in) = &settings.dial_in else { return Ok((settings, Vec::new())) };
    let usage = |message| CannotRun { message, code: EXIT_USAGE };
    let secret = token::read(
        dial_in.token_file.as_deref(),
        |path| std::fs::read_to_string(path),
        |name| std::env::var(name).ok(),
    );
    let secret = secret.map_err(usage)?;
    let arrived = gather(dial_in, &secret, settings.start_timeout())
        .map_err(|message| CannotRun { message, code: 1 })?;
    settings.hosts = arrived.iter().map(|arrival| arrival.host.clone()).collect();
    options::deal(&mut settings).map_err(|error| usage(error.to_string()))?;
    Ok((settings, arrived))
}

/// Returns the largest number of children in the tree of daemons. A job that goes on without a
/// host has no hosts below another one, which would be lost with it.
fn tree_width(knobs: &Knobs, settings: &Settings) -> u32 {
    let reaches_all = settings.agent.as_deref().is_none_or(|agent| agent == SRUN);
    match knobs.count(knob::LAUNCH_TREE_WIDTH) as u32 {
        0 if reaches_all && settings.on_failure == OnFailure::End => DEFAULT_WIDTH,
        0 => u32::MAX,
        width => width,
    }
}

/// Returns the knobs of the job. Errors and notices, also those of the sections' variables, are
/// reported here once and not by every rank.
fn check_knobs(settings: &Settings) -> Result<Knobs, KnobError> {
    let config = settings.config.as_deref().map(Path::new);
    let load = |environment: &[(String, String)]| {
        Knobs::with_options(Sources { config, set: &settings.set, environment })
    };
    let mut notices = BTreeSet::new();
    for section in settings.sections.iter().filter(|section| !section.environment.is_empty()) {
        let knobs = load(&[&settings.environment[..], &section.environment].concat())?;
        notices.extend(knobs.notices().iter().map(ToString::to_string));
    }
    let knobs = load(&settings.environment)?;
    notices.extend(knobs.notices().iter().map(ToString::to_string));
    notices.iter().for_each(|notice| eprintln!("mpiexec: {notice}"));
    Ok(knobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn width(settings: &Settings) -> u32 {
        let knobs =
            Knobs::with_options(Sources { config: None, set: &settings.set, environment: &[] });
        tree_width(&knobs.unwrap(), settings)
    }

    #[test]
    fn hosts_depend_on_others_only_where_that_costs_the_user_nothing() {
        let plain = Settings::default();
        assert_eq!(width(&plain), DEFAULT_WIDTH);
        assert_eq!(width(&Settings { agent: Some(SRUN.into()), ..plain.clone() }), DEFAULT_WIDTH);
        assert_eq!(width(&Settings { agent: Some("reach".into()), ..plain.clone() }), u32::MAX);
        let survives = Settings { on_failure: OnFailure::Continue, ..plain };
        assert_eq!(width(&survives), u32::MAX);
        let set = vec!["launch.tree_width=4".to_owned()];
        assert_eq!(width(&Settings { set, ..survives }), 4);
    }
}
