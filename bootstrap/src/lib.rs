//! How a process of the library learns its place in its job, and the protocol between launcher
//! and library afterwards.
//!
//! Before it starts a rank, the launcher creates three things: a [`StatusPage`] in a memory file
//! that all ranks of the host share, a socket pair for control messages, and the environment
//! variable that names both descriptors. The library picks them up in [`Job::from_environment`].
//! A process that another launcher has started finds the same by that launcher's store
//! ([`process_manager`]).
//!
//! Both halves of the protocol are here, so that they cannot drift apart: [`environment`] (the
//! variable), [`control`] (messages), [`status_page`] and [`status_entry`] (what every rank is
//! doing right now). This crate starts no process and links only the C library.

#![deny(unsafe_code)] // allowed in `status_page`, `inherited_fd`, `leave` and `process_manager::pmix`

#[rustfmt::skip] // generated
pub mod calls;
pub mod callers;
pub mod control;
mod direct;
pub mod environment;
mod error;
pub mod hand_over;
pub mod host_table;
mod inherited_fd;
mod job;
mod leave;
mod other_launchers;
pub mod process_manager;
pub mod ranks;
mod secret;
pub mod service_names;
pub mod spawning;
pub mod status_entry;
pub mod status_page;
pub mod store_key;
pub mod versions;

pub use error::BootstrapError;
pub use inherited_fd::take as take_inherited;
pub use job::{Job, Store};
pub use ranks::Ranks;
pub use secret::{Secret, random};
pub use status_entry::{
    BlockedKind, BlockedOn, CommName, Meanwhile, RankState, Snapshot, StatusEntry, WORLD_CONTEXT,
};
pub use status_page::{HostNotice, OwnLauncher, StatusPage, StatusReader};
