//! `mpiexec`: starts the ranks of a job on this host, passes on what goes in
//! and out, and ends all of them when one fails.
//!
//! One run, from the top: [`options`] reads the command line, [`program`] finds
//! what to run, [`start`] opens the board, sockets and pipes and starts the
//! ranks ([`spawn`]), [`job`] watches them until the end. While it watches,
//! [`output`] and [`input`] carry bytes, [`failure_policy`] decides what a death or an
//! abort means for the job, [`report`] finds the words, `stall` notices that no rank
//! gets any further and `wait_graph` who waits for whom, `explain` puts together which ways messages take, [`reaper`] finds the processes that ranks
//! left behind.
//!
//! Over several hosts ([`hosts`]) `mpiexec` starts nothing itself: a [`daemon`] on each
//! host runs the same [`job`] for its share of the ranks, and [`multi_host`] brings
//! together what they say in [`frames`].
//!
//! There is one thread, and nothing that blocks: everything is a descriptor in
//! one `poll`. Nothing needs a network, a name, or a writable folder.

#![deny(unsafe_code)] // allowed in `signals` and `spawn` alone

pub mod binding;
pub mod daemon;
mod explain;
pub mod failure_policy;
pub mod frames;
mod heartbeat;
pub mod hosts;
pub mod input;
pub mod job;
pub mod memory_limit;
pub mod multi_host;
pub mod options;
pub mod output;
pub mod placement;
mod proc_stat;
pub mod program;
pub mod reaper;
pub mod report;
mod secondary_failures;
pub mod signals;
pub mod spawn;
mod stall;
pub mod start;
pub mod store;
mod wait_graph;
pub mod wrap_table;
