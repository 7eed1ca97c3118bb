//! How a process of the library learns who it is in its job, and what it and
//! the launcher say to each other afterwards.
//!
//! The launcher makes, before it starts a rank: a [`Board`] in a memory file
//! that all ranks of the host share, a socket pair for control messages, and
//! the words of [`environment`] that name the two descriptors. The library
//! picks them up in [`Job::from_environment`].
//!
//! Both halves of the protocol live here, so that they cannot drift apart:
//! [`environment`] (the first words), [`control`] (messages), [`board`] (what
//! every rank is doing right now). This crate starts no process and links
//! nothing but the C library.

#![deny(unsafe_code)] // allowed in `board` and `inherited` alone

pub mod board;
#[rustfmt::skip] // generated
pub mod calls;
pub mod control;
pub mod environment;
mod inherited;
mod job;
mod managers;

pub use board::{Awaited, Board, Entry, State, WORLD_CONTEXT, Waiting};
pub use job::{BootstrapError, Job, Secret, random};
