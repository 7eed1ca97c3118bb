//! Parallel files (MPI-5.0 chapter 14): opened by a group of processes, seen through views.
//!
//! A [`File`] is a path that the members of a group opened together, with a view, an
//! individual pointer and a shared pointer for each. All communication goes through one trait,
//! [`Members`]: the runtime implements it over a communicator, and tests over threads.
//! A data access is resolved in this order: the pointer gives a position in the view
//! ([`mod@pointer`]), the view gives runs of bytes of the file ([`view`]), the data representation
//! converts the buffer ([`datarep`]), and the system moves the bytes ([`disk`]).
//! Nonblocking accesses end in a [`Pending`]: independent ones are moved by the kernel ([`uring`])
//! or run on threads of this crate ([`workers`]), collective ones are tasks that progress resumes
//! ([`steps`]).
//!
//! Calls may sleep in the kernel. Therefore no lock of another crate is held while one of them
//! works.

#![deny(unsafe_code)] // allowed where the system is called or memory is lent

pub mod access;
mod aggregators;
mod agreement;
pub mod amode;
mod background;
mod collective;
mod collective_access;
pub mod datarep;
mod direct;
mod disk;
mod errno;
pub mod file;
mod file_system;
pub mod hints;
mod lustre;
pub mod members;
mod open;
pub mod pending;
mod pieces;
pub mod pointer;
mod range_locks;
pub mod report;
mod shared_pointer;
mod shared_word;
mod sieve;
pub mod spare;
mod staging;
mod statistics;
mod steps;
mod transfer;
mod two_phase;
pub mod uring;
mod vectored;
pub mod view;
mod wake;
mod window;
mod workers;

pub use access::{Coordination, Direction, Position};
pub use aggregators::Place;
pub use datarep::{Datarep, Datareps, UserData, UserDatarep};
pub use file::{File, SplitKind};
pub use members::{Exchange, Members, Messages, RemoteWords, Resumable, Transit, WaitsFor};
pub use open::{OpenArgs, delete, open};
pub use pending::{Outcome, Pending};
pub use pointer::Whence;
pub use statistics::Counts;
pub use view::View;
