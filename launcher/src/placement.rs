//! The processors of each rank of this host, from the machine's topology.
//!
//! hwloc takes longer to load than the ranks take to start. Therefore a process of its own,
//! `verbena topology`, reads it, and only when ranks are bound. [`crate::binding`] computes the
//! sets.

use std::collections::BTreeSet;
use std::process::Command;

use bootstrap::Ranks;
use bootstrap::host_table::{Place, encode_places};

use crate::binding::{Machine, Thread, ranges};
use crate::program;
use crate::settings::Settings;
use crate::spawn::CpuSet;

/// The processors of all ranks.
#[derive(Debug, Default)]
pub struct Placement {
    /// One set for each rank; empty if ranks are not bound.
    sets: Vec<BTreeSet<usize>>,
    /// Where each rank is kept within this host; empty if ranks are not bound.
    places: Vec<Place>,
    /// The lines of `--report-bindings`.
    report: Vec<String>,
}

impl Placement {
    /// Computes the placement of this host's ranks. The error is one line for the user.
    pub fn new(settings: &Settings, ranks: &Ranks) -> Result<Placement, String> {
        if settings.slots.iter().any(|slots| !slots.is_empty()) {
            let machine = read_machine()?;
            return Placement::of_slots(&machine, settings, ranks);
        }
        if !settings.mapping.binds() {
            let report = if settings.report_bindings { unbound(ranks) } else { Vec::new() };
            return Ok(Placement { report, ..Placement::default() });
        }
        let machine = read_machine()?;
        let sets = machine
            .assign(&settings.mapping, ranks.count())
            .map_err(|why| format!("cannot bind ranks: {why}"))?;
        Ok(Placement::with(&machine, sets, ranks, settings.report_bindings))
    }

    /// Returns the placement of a rank file.
    fn of_slots(
        machine: &Machine,
        settings: &Settings,
        ranks: &Ranks,
    ) -> Result<Placement, String> {
        let sets = ranks.iter().map(|rank| {
            let slots = settings.slots.get(rank as usize).map_or(&[][..], Vec::as_slice);
            machine.slots(slots).map_err(|why| format!("cannot bind rank {rank}: {why}"))
        });
        let sets: Vec<BTreeSet<usize>> = sets.collect::<Result<_, _>>()?;
        Ok(Placement::with(machine, sets, ranks, settings.report_bindings))
    }

    fn with(
        machine: &Machine,
        sets: Vec<BTreeSet<usize>>,
        ranks: &Ranks,
        report: bool,
    ) -> Placement {
        let line = |(rank, set)| {
            let (words, drawing) = (machine.describe(set), machine.draw(set));
            format!("rank {rank} is bound to {words} (cpus {}): {drawing}", ranges(set))
        };
        let report = if report { ranks.iter().zip(&sets).map(line).collect() } else { Vec::new() };
        let places = sets.iter().map(|set| place(machine, set)).collect();
        Placement { sets, places, report }
    }

    /// Returns the processors of a local rank, if it is bound.
    pub fn cpus(&self, local_rank: u32) -> Option<CpuSet> {
        self.sets.get(local_rank as usize).map(|set| CpuSet::of(set.iter().copied()))
    }

    /// Returns the places of this host's ranks as they are passed to them.
    pub fn places(&self) -> String {
        encode_places(&self.places)
    }

    /// Returns the lines of `--report-bindings`.
    pub fn report(&self) -> &[String] {
        &self.report
    }
}

/// Returns the parts of the machine that have all processors of a set.
fn place(machine: &Machine, set: &BTreeSet<usize>) -> Place {
    let only = |part: fn(&Thread) -> Option<usize>| {
        let mut parts = machine.threads.iter().filter(|thread| set.contains(&thread.cpu)).map(part);
        let first = parts.next()??;
        parts.all(|part| part == Some(first)).then_some(first as u32)
    };
    [
        only(|thread| Some(thread.package)),
        only(|thread| Some(thread.numa)),
        only(|thread| thread.l3),
    ]
}

fn unbound(ranks: &Ranks) -> Vec<String> {
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap_or("all")
        .trim();
    ranks.iter().map(|rank| format!("rank {rank} is not bound (cpus {allowed})")).collect()
}

fn read_machine() -> Result<Machine, String> {
    let program = program::own_path()
        .map_err(|why| format!("cannot bind ranks: {why}"))?
        .with_file_name("verbena");
    let output = Command::new(&program)
        .args(["topology", "--threads"])
        .output()
        .map_err(|error| format!("cannot bind ranks: cannot run {}: {error}", program.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    match Machine::parse(&String::from_utf8_lossy(&output.stdout))
        .filter(|_| output.status.success())
    {
        Some(machine) => Ok(machine),
        None => Err(format!(
            "cannot bind ranks: {} topology failed: {}",
            program.display(),
            errors.trim()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_is_in_the_parts_that_have_all_of_its_processors() {
        let thread = |cpu, l3, numa| Thread { cpu, core: cpu, l2: cpu, l3, numa, package: 0 };
        let threads = [
            thread(0, Some(0), 0),
            thread(1, Some(0), 0),
            thread(2, Some(1), 0),
            thread(3, None, 1),
        ];
        let machine = Machine { threads: threads.to_vec() };
        let at = |cpus: &[usize]| place(&machine, &cpus.iter().copied().collect());
        assert_eq!(at(&[0, 1]), [Some(0), Some(0), Some(0)]);
        assert_eq!(at(&[1, 2]), [Some(0), Some(0), None]);
        assert_eq!(at(&[3]), [Some(0), Some(1), None]);
    }
}
