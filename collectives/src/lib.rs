//! Collective operations as schedules.
//!
//! Job: turn a collective call into a *schedule* (plain data: what one rank
//! sends, receives, copies and reduces, in rounds) and run it over the
//! point-to-point engine, blocking, nonblocking and persistent alike.
//!
//! The way of a call: [`operation`] says what is asked, [`select`] names the
//! algorithm, [`algorithms`] are pure functions that write the schedule,
//! [`plan`] binds the schedule to buffers, types and a communicator, and
//! [`executor`] runs it.
//!
//! What it does not do: open devices, read clocks, call user functions under a
//! lock (a user's reduction is handed out as [`executor::UserCall`]).

#![forbid(unsafe_code)]

pub mod algorithms;
mod call;
pub mod coll_args;
pub mod executor;
pub mod operation;
pub mod plan;
pub mod schedule;
pub mod select;
pub mod shape;

pub use coll_args::CollArgs;
pub use executor::{
    Active, Advance, Awaited, CollectiveId, InlineRun, Suspended, UserCall, UserReturn,
};
pub use operation::{Blocks, Data, Edges, Operation, ROOT_HERE, Types, Vector};
pub use plan::{Plan, Planner};
pub use schedule::{Builder, Local, Member, Message, Schedule, SegSync, Space, Span};
pub use select::{Algorithm, Rule, Selection, Thresholds};
pub use shape::{Extent, Shape, Ty};
