//! Hosts that dial in: where no agent of `mpiexec` can start a daemon on another host (pods of
//! Kubernetes, containers without sshd), an agent that runs there connects to `mpiexec`.
//!
//! ```text
//! mpiexec --join ADDRESS (an agent)            mpiexec --accept N --listen ADDRESS
//!   dials until it is answered           ->      gathers N agents
//!   TLS 1.3, both sides prove the token  <->
//!   Greeting (version, name, slots)      ->      deals ranks to the hosts
//!   starts `mpiexec --daemon`, copies    <->     messages of `frames`, as through ssh
//! ```
//!
//! [`token`] reads what both sides know, `secure_stream` encrypts, [`greeting`] is the first
//! message, [`gather`] is the side of `mpiexec`, [`join`] that of an agent. The listener is closed
//! once all agents are there. This folder starts no rank and judges nothing.

pub mod gather;
pub mod greeting;
pub mod join;
pub(crate) mod secure_stream;
pub mod token;
