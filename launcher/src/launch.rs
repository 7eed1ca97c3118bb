//! The start of a job: checks its knobs, then runs it on this host or over several.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use config::{KnobError, Knobs, Sources, knob};

use crate::allocation::SRUN;
use crate::explain::Explanations;
use crate::outcome_report::OutcomeReport;
use crate::program::CannotRun;
use crate::settings::{EXIT_USAGE, Settings};
use crate::share::Share;
use crate::tree::DEFAULT_WIDTH;
use crate::{job, multi_host};

/// Runs a job to its end. Returns its exit code.
pub fn run(settings: &Settings) -> u8 {
    try_run(settings).unwrap_or_else(|CannotRun { message, code }| {
        let line = format!("mpiexec: {message}");
        eprintln!("{line}");
        let messages = [line];
        OutcomeReport::new(settings, code, Duration::ZERO, None, &messages).write(settings);
        code
    })
}

fn try_run(settings: &Settings) -> Result<u8, CannotRun> {
    let knobs = check_knobs(settings)
        .map_err(|error| CannotRun { message: error.to_string(), code: EXIT_USAGE })?;
    let share = Share::whole(settings)
        .map_err(|error| CannotRun { message: error.to_string(), code: 1 })?;
    let explain = knobs.is_on(knob::REPORT_TRANSPORTS);
    let explanations = Explanations::new(share.size, explain);
    let tree_width = tree_width(&knobs, settings.agent.as_deref());
    let settings = &Settings { explain, tree_width, ..settings.clone() };
    if settings.hosts.is_empty() {
        job::run(settings, &share, explanations)
    } else {
        multi_host::run(settings, &share, explanations)
    }
}

/// Returns the largest number of children in the tree of daemons.
fn tree_width(knobs: &Knobs, agent: Option<&str>) -> u32 {
    let reaches_all = agent.is_none_or(|agent| agent == SRUN);
    match knobs.count(knob::LAUNCH_TREE_WIDTH) as u32 {
        0 if reaches_all => DEFAULT_WIDTH,
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
