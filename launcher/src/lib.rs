//! `mpiexec`: starts the ranks of a job on this host, passes on what goes in
//! and out, and ends all of them when one fails.
//!
//! One run, from the top: [`options`] reads the command line, [`program`] finds
//! what to run, [`start`] opens the board, sockets and pipes and starts the
//! ranks ([`spawn`]), [`job`] watches them until the end. While it watches,
//! [`output`] and [`input`] carry bytes, [`fate`] decides what a death or an
//! abort means for the job, [`report`] finds the words, `stall` notices that no rank
//! gets any further and `waits` who waits for whom, `ways` puts together which ways messages take, [`orphans`] finds the processes that ranks
//! left behind.
//!
//! Over several hosts ([`hosts`]) `mpiexec` starts nothing itself: a [`daemon`] on each
//! host runs the same [`job`] for its share of the ranks, and [`across`] brings
//! together what they say in [`frames`].
//!
//! There is one thread, and nothing that blocks: everything is a descriptor in
//! one `poll`. Nothing needs a network, a name, or a writable folder.

#![deny(unsafe_code)] // allowed in `signals` and `spawn` alone

pub mod across;
pub mod binding;
pub mod daemon;
pub mod fate;
pub mod fitted;
pub mod frames;
pub mod hosts;
pub mod input;
pub mod job;
pub mod memory_limit;
pub mod options;
pub mod orphans;
mod others;
pub mod output;
pub mod placement;
pub mod program;
mod pulse;
pub mod report;
pub mod signals;
pub mod spawn;
mod stall;
pub mod start;
pub mod store;
mod system;
mod waits;
mod ways;
