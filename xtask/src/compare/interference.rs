//! Interference: other programs on the machine during a measurement.
//!
//! A second comparison waits for the first. The CPU use of other programs is recorded.

use std::fs::File;
use std::time::Instant;

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, flock};

/// The lock of the only comparison on the machine.
pub(super) struct ComparisonLock(#[allow(dead_code)] File);

/// Waits until no other comparison runs.
pub(super) fn lock() -> Result<ComparisonLock> {
    let path = std::env::temp_dir().join("verbena-compare.lock");
    let options = File::options().read(true).write(true).create(true).truncate(false).open(&path);
    // A file of another user can be locked, too.
    let file = options
        .or_else(|_| File::open(&path))
        .with_context(|| format!("cannot open {}", path.display()))?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        println!("waiting for another comparison on this machine to end");
        flock(&file, FlockOperation::LockExclusive)
            .context("cannot wait for the other comparison")?;
    }
    Ok(ComparisonLock(file))
}

/// A span of time in which the CPU use of other programs is measured.
pub(super) struct OthersCpuUse {
    start: Instant,
    all: f64,
    ours: f64,
}

impl OthersCpuUse {
    pub(super) fn start() -> OthersCpuUse {
        OthersCpuUse { start: Instant::now(), all: all_ticks(), ours: our_ticks() }
    }

    /// Returns the cores that other programs have used since the start. Children of this program
    /// count for it once they have ended.
    pub(super) fn other_cores(&self) -> f64 {
        let ticks = (all_ticks() - self.all) - (our_ticks() - self.ours);
        // The kernel reports 100 ticks a second, for any frequency of its own.
        (ticks / 100.0 / self.start.elapsed().as_secs_f64()).max(0.0)
    }
}

/// Returns the CPU time of all programs and the kernel, in ticks: the first line of `/proc/stat`
/// without idle and waiting time.
fn all_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = numbers(stat.lines().next().unwrap_or_default(), 1);
    [0, 1, 2, 5, 6].iter().filter_map(|&at| fields.get(at)).sum()
}

/// Returns the CPU time of this program and its ended children, in ticks.
fn our_ticks() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    numbers(behind_name, 12).iter().take(4).sum()
}

fn numbers(line: &str, skip: usize) -> Vec<f64> {
    line.split_whitespace().skip(skip).map_while(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn what_a_child_uses_is_not_the_others() {
        let before = our_ticks();
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        Command::new("sh").args(["-c", busy]).status().unwrap();
        assert!(our_ticks() - before >= 2.0, "{before} and {} ticks", our_ticks());
        assert!(all_ticks() > our_ticks());
    }
}
