//! A stand-in for libibverbs: RDMA devices in user space between processes of one host, for tests.
//!
//! A program that opens the library at run time opens this file instead (`verbs.library`). It has
//! the functions of `calls` and the tables of functions that libibverbs' inline functions call.
//! Devices are worse than real ones: faults come at random from a seed, see [`options`].
//!
//! State: each open device (context) is an `engine` behind a lock. A thread of the context
//! receives packets and keeps time; calls of the program do the same work on the way. Packets go
//! over `links`, sockets between contexts. `drive` does what is due; `qp` has queue pairs,
//! `requester` and `responder` the two ends of a connection, `dynamic` the connections that
//! initiators make by themselves, `datagram` the unreliable service, `completion` the queues.
//!
//! Invariants: user memory is accessed through the kernel (`memory`), so that an address that is
//! gone is an error and no crash. What real devices may do within the InfiniBand Architecture
//! Specification, volume 1, a seed makes happen here; what they never do does not happen.

#![deny(unsafe_code)] // allowed in `calls`, `forks`, `memory` and `objects`

mod calls;
mod completion;
mod context;
mod datagram;
mod drive;
mod dynamic;
mod engine;
mod forks;
mod links;
mod memory;
mod objects;
pub mod options;
mod packet;
mod port;
mod qp;
mod requester;
mod responder;
