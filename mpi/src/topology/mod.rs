//! Processes, and how they are organised: groups, communicators, grids (MPI-5.0 chapters 7 and 8).
//!
//! A communicator is a group of processes with a context of its own: messages of one are never
//! received in another. A process has a [`Rank`] in each communicator that it belongs to, counted
//! from 0. The first communicator is [`Universe::world`](crate::environment::Universe::world); all
//! others are made from it.
//!
//! Info objects of communicators, sessions, and graphs that each process knows whole are made
//! through [`crate::ffi`].

use std::os::raw::c_int;

mod cartesian;
mod communicator;
mod graph;
mod group;
pub(crate) mod handle;
mod intercommunicator;
mod pack;
mod process;
mod simple;
mod split;

pub use self::cartesian::{CartesianCommunicator, CartesianLayout};
pub use self::communicator::{AnyCommunicator, AsCommunicator, Communicator, CommunicatorRelation};
pub use self::graph::{DistributedGraphCommunicator, GraphCommunicator};
pub use self::group::{Group, GroupRelation, SystemGroup, UserGroup};
pub use self::intercommunicator::{InterCommunicator, MergeOrder};
pub use self::process::{AnyProcess, Process};
pub use self::simple::{IntoTopology, SimpleCommunicator, Topology};
pub use self::split::{Color, Key, SplitType};

/// The traits of this module.
pub mod traits {
    pub use super::{AnyCommunicator, AsCommunicator, Communicator, Group};
}

/// The number of a process within a communicator or a group, counted from 0.
pub type Rank = c_int;
