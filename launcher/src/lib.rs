//! `mpiexec`: starts the ranks of a job, carries their input and output, and ends all ranks
//! when one fails.
//!
//! One run from the top: [`options`] parses the command line into [`settings`]; [`launch`]
//! checks the knobs and runs the job on this host (`job`) or over several (`multi_host`).
//! [`start`] creates status page, sockets and pipes and starts the ranks by [`spawn`]. While ranks
//! run, [`output`] and [`input`] carry bytes, and [`failure_policy`] decides what a death means.
//! [`report`] and `rank_table` find the words. `stall`, `absent_ranks` and `wait_graph` explain
//! ranks that wait. [`reaper`] ends the processes that ranks leave running, and
//! [`guard`] all of them if `mpiexec` is killed.
//!
//! Over several hosts a [`daemon`] on each host runs the same `job` for its share of the ranks
//! and sends events to `mpiexec` as [`frames`], along a [`tree`] of daemons. Hosts come from the
//! command line ([`hosts`]) or from a resource manager ([`allocation`]), or dial in ([`dial_in`]).
//!
//! A job that a rank spawns is run by an `mpiexec` of its own ([`spawned`]), a child of the user's;
//! the two exchange the messages of `nested`. Jobs that the user starts apart meet in a [`group`].
//!
//! There is one thread, and one `poll` over all descriptors; nothing else blocks. Nothing
//! needs a network but [`dial_in`] and [`group`], and a name or a writable folder but the latter.

#![deny(unsafe_code)] // allowed in `detached`, `signals` and `spawn` alone

mod absent_ranks;
pub mod allocation;
pub mod binding;
pub mod callers;
pub mod daemon;
mod descriptors;
mod detached;
pub mod dial_in;
mod environment;
mod explain;
pub mod failure_policy;
mod foreign_mpi;
pub mod frames;
pub mod group;
pub mod guard;
mod heartbeat;
mod host_list;
pub mod hosts;
pub mod input;
mod job;
pub mod job_monitor;
pub mod launch;
pub mod lost_host;
pub mod memory_limit;
mod multi_host;
mod nested;
pub mod options;
mod outcome;
mod outcome_report;
pub mod output;
pub mod placement;
mod poll_set;
mod proc_stat;
mod proc_tree;
mod process_state;
pub mod program;
pub mod rank_file;
pub mod rank_table;
pub mod reaper;
pub mod report;
mod secondary_failures;
pub mod settings;
pub mod share;
pub mod signals;
pub mod spawn;
pub mod spawned;
mod stall;
mod stand_in;
pub mod start;
pub mod stdout;
mod stopped_ranks;
pub mod tree;
mod unfinalized;
mod user_stack;
mod wait_graph;
pub mod wrap_table;
