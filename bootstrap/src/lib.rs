//! How a process of the library learns who it is in its job, and what it and
//! the launcher say to each other afterwards.
//!
//! The launcher makes, before it starts a rank: a [`StatusPage`] in a memory file
//! that all ranks of the host share, a socket pair for control messages, and
//! the words of [`environment`] that name the two descriptors. The library
//! picks them up in [`Job::from_environment`].
//!
//! Both halves of the protocol live here, so that they cannot drift apart:
//! [`environment`] (the first words), [`control`] (messages), [`status_page`] (what
//! every rank is doing right now). This crate starts no process and links
//! nothing but the C library.

#![deny(unsafe_code)] // allowed in `status_page` and `inherited_fd` alone

pub mod status_page;
#[rustfmt::skip] // generated
pub mod calls;
pub mod control;
pub mod environment;
mod inherited_fd;
mod job;
mod other_launchers;

pub use job::{BootstrapError, Job, Secret, random};
pub use status_page::{BlockedKind, BlockedOn, RankState, StatusEntry, StatusPage, WORLD_CONTEXT};
