//! Jobs that running jobs spawn (MPI-5.0 §11.8), and how all jobs of one user's job are connected.
//!
//! A spawned job is run by an `mpiexec` of its own, a child of the *outermost* one, which the user
//! has started:
//!
//! ```text
//! mpiexec (outermost, ranks 0 to 3)
//!   mpiexec --spawned (processes 4 to 5)
//!   mpiexec --spawned (processes 6 to 9)
//! ```
//!
//! It is an ordinary job: it starts, watches and ends its ranks, on this host or over several, and
//! prints their lines itself. What it does not have comes over a socket pair, its standard input
//! ([`messages`], [`stream`]): its settings, values of other jobs' processes, the names of
//! services, further spawned jobs, and its end. So no job has a connection to any but the
//! outermost.
//!
//! [`jobs`] are the spawned jobs, seen from the outermost `mpiexec`; [`outer`] is the other end.
//! [`links`] is the one or the other, and [`root`] what a job does about their messages
//! ([`event`]). [`request`] makes the settings of a job from a request. Processes are numbered
//! through all jobs ([`bootstrap::spawning`]); the outermost `mpiexec` gives out the numbers,
//! unless its job is in a group: there the keeper does ([`crate::group`]). [`outermost`] is what
//! the outermost `mpiexec` has of both.

pub(crate) mod event;
pub(crate) mod jobs;
pub(crate) mod links;
pub(crate) mod messages;
pub(crate) mod outer;
pub(crate) mod outermost;
pub(crate) mod request;
pub(crate) mod root;
pub(crate) mod stream;
