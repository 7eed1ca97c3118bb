//! Guidelines of performance: what users may expect of collectives without knowing how they are
//! written (Träff, Gropp and Thakur, "Self-Consistent MPI Performance Guidelines", 2010).
//!
//! A collective must not take longer than others that do the same together, and not longer than
//! itself with more data. Whoever finds that it does would call the others, or send more than he
//! has; such a selection of algorithms is wrong, whatever the machine is.

use collectives::Selection;

use crate::call::{Call, Operation};
use crate::engine::{Simulation, SimulationError};
use crate::machine::Machine;
use crate::time::Time;

/// Bytes of a call in a guideline, of n bytes and p ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bytes {
    /// n.
    Same,
    /// n / p, rounded up to whole elements of 8 bytes.
    Part,
    /// n p.
    All,
    /// One byte.
    One,
}

use Bytes::{All, One, Part, Same};

impl Bytes {
    fn of(self, bytes: u64, ranks: u32) -> u64 {
        match self {
            Same => bytes,
            Part => bytes.div_ceil(u64::from(ranks)).next_multiple_of(8),
            All => bytes * u64::from(ranks),
            One => 1,
        }
    }
}

/// An operation, and the calls that do the same one after the other.
#[derive(Clone, Copy, Debug)]
struct Guideline {
    operation: Operation,
    emulation: &'static [(Operation, Bytes)],
}

/// No operation may take longer than one of its emulations.
const GUIDELINES: [Guideline; 16] = {
    use Operation::*;
    const fn emulated(operation: Operation, emulation: &'static [(Operation, Bytes)]) -> Guideline {
        Guideline { operation, emulation }
    }
    [
        emulated(Barrier, &[(Allreduce, One)]),
        emulated(Bcast, &[(Scatter, Part), (Allgather, Part)]),
        emulated(Bcast, &[(Allreduce, Same)]),
        emulated(Reduce, &[(Allreduce, Same)]),
        emulated(Reduce, &[(ReduceScatter, Part), (Gather, Part)]),
        emulated(Allreduce, &[(Reduce, Same), (Bcast, Same)]),
        emulated(Allreduce, &[(ReduceScatter, Part), (Allgather, Part)]),
        emulated(Gather, &[(Allgather, Same)]),
        emulated(Gather, &[(Reduce, All)]),
        emulated(Scatter, &[(Bcast, All)]),
        emulated(Allgather, &[(Gather, Same), (Bcast, All)]),
        emulated(Allgather, &[(Alltoall, Same)]),
        emulated(Allgather, &[(Allreduce, All)]),
        emulated(Alltoall, &[(Allgather, All)]),
        emulated(ReduceScatter, &[(Reduce, All), (Scatter, Same)]),
        emulated(ReduceScatter, &[(Allreduce, All)]),
    ]
};

/// A guideline that does not hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// What takes too long.
    pub call: Call,
    /// Its time.
    pub time: Time,
    /// What does the same, or more, one after the other.
    pub emulation: Vec<Call>,
    /// The sum of their times.
    pub emulation_time: Time,
}

impl Violation {
    /// How many times as long as its emulation the call takes; infinite if that takes no time.
    pub fn factor(&self) -> f64 {
        self.time.as_us() / self.emulation_time.as_us()
    }
}

/// Returns all guidelines that do not hold on a machine for calls of these sizes, in ascending
/// order. The receive buffers of all ranks may be of at most `max_bytes`: larger calls are left
/// out, as are those with more messages than can be simulated.
pub fn violations(
    machine: &Machine,
    selection: &Selection,
    sizes: &[u64],
    max_bytes: u64,
) -> Result<Vec<Violation>, SimulationError> {
    let mut times = Times { machine, selection, max_bytes, known: Vec::new() };
    let mut found = Vec::new();
    for operation in Operation::ALL {
        let mut larger: Option<(Call, Time)> = None;
        for &bytes in sizes_of(operation, sizes).iter().rev() {
            let call = Call::new(operation, bytes);
            let Some(time) = times.of(call)? else { continue };
            found.extend(larger.filter(|(_, least)| time > *least).map(|(more, least)| {
                Violation { call, time, emulation: vec![more], emulation_time: least }
            }));
            if larger.is_none_or(|(_, least)| time < least) {
                larger = Some((call, time));
            }
            for guideline in GUIDELINES.iter().filter(|line| line.operation == operation) {
                let call_of =
                    |&(by, part): &(Operation, Bytes)| Call::new(by, part.of(bytes, machine.ranks));
                let emulation: Vec<Call> = guideline.emulation.iter().map(call_of).collect();
                let sum = times.of_all(&emulation)?;
                found.extend(sum.filter(|sum| time > *sum).map(|emulation_time| Violation {
                    call,
                    time,
                    emulation,
                    emulation_time,
                }));
            }
        }
    }
    Ok(found)
}

fn sizes_of(operation: Operation, sizes: &[u64]) -> &[u64] {
    if operation == Operation::Barrier { &[0] } else { sizes }
}

/// The times of calls, each simulated once.
struct Times<'a> {
    machine: &'a Machine,
    selection: &'a Selection,
    max_bytes: u64,
    known: Vec<(Call, Option<Time>)>,
}

impl Times<'_> {
    /// The time of a call; `None` if it is too large.
    fn of(&mut self, call: Call) -> Result<Option<Time>, SimulationError> {
        if let Some((_, time)) = self.known.iter().find(|(known, _)| *known == call) {
            return Ok(*time);
        }
        let time = self.simulate(call)?;
        self.known.push((call, time));
        Ok(time)
    }

    /// The sum of the times of calls; `None` if one of them is too large.
    fn of_all(&mut self, calls: &[Call]) -> Result<Option<Time>, SimulationError> {
        let mut sum = Time::ZERO;
        for &call in calls {
            let Some(time) = self.of(call)? else { return Ok(None) };
            sum += time;
        }
        Ok(Some(sum))
    }

    fn simulate(&self, call: Call) -> Result<Option<Time>, SimulationError> {
        let (send, recv) = call.buffers(call.root, self.machine.ranks);
        if send.max(recv) > self.max_bytes {
            return Ok(None);
        }
        let simulation = Simulation::new(self.machine, call, self.selection, false);
        match simulation.and_then(Simulation::run) {
            Ok(outcome) => Ok(Some(outcome.time)),
            Err(SimulationError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
