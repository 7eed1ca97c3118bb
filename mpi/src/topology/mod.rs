//! Processes, and how they are organised: groups, communicators, grids (MPI-5.0 chapters 7 and 8).
//!
//! A communicator is a group of processes with a context of its own: messages of one are never
//! received in another. A process has a [`Rank`] in each communicator that it belongs to, counted
//! from 0. The first communicator is [`Universe::world`](crate::environment::Universe::world); all
//! others are made from it.
//!
//! Info objects of communicators, sessions, and graphs that each process knows whole are made
//! through [`crate::ffi`].

mod attributes;
mod cartesian;
mod communicator;
mod graph;
mod group;
pub(crate) mod handle;
mod intercommunicator;
mod into_topology;
mod pack;
mod process;
mod rank;
mod relation;
mod simple;
mod split;

pub use self::attributes::AnyCommunicator;
pub use self::cartesian::{CartesianCommunicator, CartesianLayout};
pub use self::communicator::{AsCommunicator, Communicator};
pub use self::graph::{DistributedGraphCommunicator, GraphCommunicator};
pub use self::group::{Group, SystemGroup, UserGroup};
pub use self::intercommunicator::{InterCommunicator, MergeOrder};
pub use self::into_topology::IntoTopology;
pub use self::process::{AnyProcess, Process};
pub use self::rank::Rank;
pub(crate) use self::rank::check_rank;
pub use self::relation::{CommunicatorRelation, GroupRelation};
pub use self::simple::{SimpleCommunicator, Topology};
pub use self::split::{Color, Key, SplitType};

/// The traits of this module.
pub mod traits {
    pub use super::{AnyCommunicator, AsCommunicator, Communicator, Group};
}
