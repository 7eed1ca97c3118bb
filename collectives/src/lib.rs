//! Collective operations as schedules.
//!
//! Job: make of a collective call a *schedule* (plain data: what one rank sends, receives, copies
//! and reduces, in rounds) and run it over the point-to-point engine. Blocking, nonblocking and
//! persistent calls share everything.
//!
//! The path of a call: [`operation`] holds the arguments, and [`select`] names the algorithm.
//! [`algorithms`] are pure functions that write the schedule with a [`builder`]. The [`planner`]
//! binds it to buffers, types and a communicator as a [`plan`], and the [`executor`] runs it.
//!
//! What it does not do: open devices, read clocks, or call user functions under a lock. A user's
//! reduction is handed out as [`executor::UserCall`].

#![forbid(unsafe_code)]

pub mod algorithm;
pub mod algorithms;
pub mod builder;
mod cache_key;
mod call;
mod call_error;
mod call_lists;
pub mod coll_args;
mod compositions;
pub mod executor;
pub mod grouping;
mod kept_lists;
mod latest_call;
pub mod level;
pub mod operation;
pub mod plan;
pub mod planner;
pub mod position;
pub mod rule_text;
pub mod schedule;
mod schedule_key;
pub mod select;
pub mod shape;
mod signature;
pub mod thresholds;
pub mod topology;
mod type_table;

pub use algorithm::Algorithm;
pub use builder::Builder;
pub use coll_args::CollArgs;
pub use executor::{
    Active, Advance, CollectiveId, CollectiveWait, InlineRun, Passed, Suspended, UserCall,
    UserReturn,
};
pub use grouping::Grouping;
pub use operation::{Blocks, Data, Edges, Operation, ROOT_HERE, Types, Vector};
pub use plan::{Plan, SharedSegment};
pub use planner::Planner;
pub use position::Position;
pub use schedule::{Awaited, Local, Member, Message, Schedule, SegSync};
pub use select::{Rule, Selection};
pub use shape::{Extent, Shape, Space, Span, Strided, Ty};
pub use thresholds::{HostSegment, SegmentUse, Thresholds};
pub use topology::{Level, RankLocation, Topology};
