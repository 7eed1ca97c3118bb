//! Simulation of collectives on machines that are larger than the one at hand.
//!
//! Job: run the schedules that the library runs, for each rank of a described [`machine`], in
//! simulated time. Each message costs what LogGP says for the link that it takes (Alexandrov et
//! al., "LogGP: incorporating long messages into the LogP model", 1995). The network adapter of a
//! host is shared by its ranks. Data may be carried; then the results of all ranks are checked.
//!
//! The path of a run: [`call`] describes the operation, `collectives` writes a schedule for each
//! rank, [`engine`] runs all of them, [`bound`] computes what no algorithm can beat, and
//! [`report`] and [`plot`] show both.
//!
//! What it does not do: congestion inside the network, noise, and threads.

#![forbid(unsafe_code)]

pub mod bound;
pub mod call;
pub mod engine;
mod event_queue;
pub mod guideline;
pub mod machine;
mod memory;
mod network;
pub mod plot;
mod rank;
pub mod report;
mod segment;
mod steps;
pub mod time;

pub use call::{Call, Operation};
pub use engine::{Simulation, SimulationError};
pub use machine::{Machine, MachineError};
pub use report::Outcome;
pub use time::Time;
