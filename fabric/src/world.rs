//! The name by which the user knows a process. Transports and protocols know processes by numbers
//! (`Peer`), which begin at 0 for the ranks of most jobs, but not for those of a job that was
//! spawned or is in a group.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The first number of MPI_COMM_WORLD in the upper half, the end in the lower one: until it is
/// known, all numbers are ranks.
static WORLD: AtomicU64 = AtomicU64::new(u32::MAX as u64);

/// Sets the numbers of the processes in MPI_COMM_WORLD.
pub fn set_world(numbers: &Range<u32>) {
    WORLD.store(u64::from(numbers.start) << 32 | u64::from(numbers.end), Relaxed);
}

/// A process in words, by its number.
#[derive(Clone, Copy, Debug)]
pub struct ProcessName(pub u32);

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (world, ProcessName(number)) = (WORLD.load(Relaxed), *self);
        let (start, end) = ((world >> 32) as u32, world as u32);
        match (start..end).contains(&number) {
            true => write!(f, "rank {} of MPI_COMM_WORLD", number - start),
            false => write!(f, "process {number}, which is of another job,"),
        }
    }
}
