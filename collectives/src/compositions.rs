//! Compositions over the levels of the machine: flat algorithms in groups of ranks, and between
//! these groups. A group is mostly a host; it may be a part of one, or the hosts at one switch.
//!
//! With *leaders*, one rank of each group exchanges messages with other groups, for all ranks of
//! its group. With *lanes*, each rank of a group does so for a part of the data; therefore all
//! ranks of a group reduce and copy at once, and a group still sends each byte once. Most have
//! three stages: in the group, between groups, in the group. With a *fan*, several ranks of a group
//! send short data to other groups at once, in rounds with a stage in the group after each.
//!
//! A stage is an algorithm among some ranks ([`Builder::among`]), which selection chooses as for a
//! communicator of these ranks; where they are split at a further level, it may be a composition
//! again. Within a host it uses the collective segment that the ranks of the host share. Hosts need
//! not agree on that.
//!
//! What it does not do: order operands where the ranks of a group do not follow each other;
//! selection takes a flat algorithm for operations that do not commute then.

mod alltoall;
mod blocks;
mod fan;
mod lanes;
mod leaders;
mod reduce_scatter;
mod scan;

use std::sync::Arc;

use fabric::CollectiveKind;

use crate::algorithm::Algorithm;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::grouping::Grouping;
use crate::position::Position;
use crate::topology::Level;

/// Writes the stages of compositions by the algorithms that selection chooses for them.
pub(crate) trait Stages {
    /// One more than the messages that a rank sends at once between groups; at least 2.
    fn radix(&self) -> u32;

    /// Writes a stage among some ranks by messages.
    fn write_by_messages(&self, b: &mut Builder, args: &CollArgs, pos: Position);

    /// Writes a stage in the segment of the own host in which all ranks await the last `many`.
    /// Returns false if there is no such stage.
    fn await_last_in_segment(&self, b: &mut Builder, pos: Position, many: u32) -> bool;

    /// Writes a stage in the segment of the own host. Returns false if the call does not fit.
    fn write_in_segment(&self, b: &mut Builder, args: &CollArgs, pos: Position) -> bool;
}

impl Algorithm {
    /// Returns whether a composition can do this call: the restrictions of compositions.
    pub(crate) fn can_compose(self, args: &CollArgs, pos: Position) -> bool {
        let Some(groups) = pos.levels() else { return false };
        let is_ordered = || args.commutes() || groups.are_consecutive();
        match (self, args) {
            (
                Algorithm::Leaders,
                CollArgs::Barrier
                | CollArgs::Bcast { .. }
                | CollArgs::Gather { .. }
                | CollArgs::Scatter { .. }
                | CollArgs::Allgather { .. }
                | CollArgs::Allgatherv { .. }
                | CollArgs::Alltoall { kind: CollectiveKind::Alltoall, .. },
            ) => true,
            (Algorithm::Fan, CollArgs::Barrier | CollArgs::Bcast { .. }) => true,
            (Algorithm::Fan, CollArgs::Allreduce { .. }) => is_ordered(),
            (
                Algorithm::Leaders,
                CollArgs::Reduce { .. }
                | CollArgs::Allreduce { .. }
                | CollArgs::ReduceScatter { .. },
            ) => is_ordered(),
            // The operands before a rank are those of groups before its own.
            (Algorithm::Leaders, CollArgs::Scan { .. } | CollArgs::Exscan { .. }) => {
                groups.are_consecutive()
            }
            (
                Algorithm::Lanes,
                CollArgs::Bcast { .. } | CollArgs::Reduce { .. } | CollArgs::Allreduce { .. },
            ) => args.commutes() && groups.lanes().len() > 1,
            // Each rank is in a lane.
            (
                Algorithm::Lanes,
                CollArgs::Alltoall { kind: CollectiveKind::Alltoall, .. }
                | CollArgs::Allgather { .. }
                | CollArgs::Allgatherv { .. },
            ) => groups.are_even(),
            (Algorithm::Lanes, CollArgs::ReduceScatter { .. }) => {
                args.commutes() && groups.are_even()
            }
            _ => false,
        }
    }
}

/// Writes this rank's part of a call. `has_segment`: the ranks of this host share one.
pub(crate) fn write(
    algorithm: Algorithm,
    b: &mut Builder,
    args: &CollArgs,
    pos: Position,
    (stages, has_segment): (&dyn Stages, bool),
) {
    let Some(groups) = pos.levels() else { return };
    let (group, me) = groups.place(pos.rank);
    let is_shared = groups.level() == Level::Host && groups.members(group).len() > 1;
    let levels = &Levels { stages, groups, group, me, has_segment: has_segment && is_shared };
    match algorithm {
        Algorithm::Lanes => write_lanes(b, levels, args),
        Algorithm::Fan => write_fan(b, levels, args),
        _ => write_leaders(b, levels, args),
    }
}

fn write_lanes(b: &mut Builder, levels: &Levels, args: &CollArgs) {
    match *args {
        CollArgs::Bcast { root, data } => lanes::bcast(b, levels, root, data),
        CollArgs::Reduce { root, input, output, .. } => {
            lanes::reduce(b, levels, root, input, output);
        }
        CollArgs::Allreduce { input, output, .. } => lanes::allreduce(b, levels, input, output),
        CollArgs::Alltoall { from, to, .. } => alltoall::lanes(b, levels, from.unwrap_or(to), to),
        CollArgs::Allgather { own, all } => {
            lanes::allgather(b, levels, own, &all.split(levels.groups.size()));
        }
        CollArgs::Allgatherv { own, all } => lanes::allgather(b, levels, own, all),
        CollArgs::ReduceScatter { input, counts, output, .. } => {
            reduce_scatter::lanes(b, levels, input, counts, output);
        }
        _ => debug_assert!(false, "refused by `can_compose`"),
    }
}

fn write_fan(b: &mut Builder, levels: &Levels, args: &CollArgs) {
    match *args {
        CollArgs::Barrier => fan::barrier(b, levels),
        CollArgs::Bcast { root, data } => fan::bcast(b, levels, root, data),
        CollArgs::Allreduce { input, output, commutative } => {
            fan::allreduce(b, levels, input, output, commutative);
        }
        _ => debug_assert!(false, "refused by `can_compose`"),
    }
}

fn write_leaders(b: &mut Builder, levels: &Levels, args: &CollArgs) {
    match *args {
        CollArgs::Barrier => leaders::barrier(b, levels),
        CollArgs::Bcast { root, data } => leaders::bcast(b, levels, root, data),
        CollArgs::Gather { root, own, all } => blocks::gather(b, levels, root, own, all),
        CollArgs::Scatter { root, all, own } => blocks::scatter(b, levels, root, all, own),
        CollArgs::Allgather { own, all } => {
            blocks::allgather(b, levels, own, &all.split(levels.groups.size()), Some(all));
        }
        CollArgs::Allgatherv { own, all } => blocks::allgather(b, levels, own, all, None),
        CollArgs::Alltoall { from, to, .. } => {
            alltoall::leaders(b, levels, from.unwrap_or(to), to);
        }
        CollArgs::Reduce { root, input, output, commutative } => {
            leaders::reduce(b, levels, root, (input, output, commutative));
        }
        CollArgs::Allreduce { input, output, commutative } => {
            leaders::allreduce(b, levels, input, output, commutative);
        }
        CollArgs::ReduceScatter { input, counts, output, commutative, .. } => {
            reduce_scatter::leaders(b, levels, (input, output, commutative), counts);
        }
        CollArgs::Scan { input, output } => scan::inclusive(b, levels, input, output),
        CollArgs::Exscan { input, output } => scan::exclusive(b, levels, input, output),
        _ => debug_assert!(false, "refused by `can_compose`"),
    }
}

/// The groups as one rank sees them.
struct Levels<'a> {
    stages: &'a dyn Stages,
    groups: &'a Grouping,
    /// The own group.
    group: u32,
    /// The own number there.
    me: u32,
    has_segment: bool,
}

impl Levels<'_> {
    /// How many ranks the own group has.
    fn local_size(&self) -> u32 {
        self.groups.members(self.group).len() as u32
    }

    /// The own rank among the ranks of all groups.
    fn rank(&self) -> u32 {
        self.groups.members(self.group)[self.me as usize]
    }

    /// The number that speaks for the own group if `root` speaks for its own.
    fn leader(&self, root: u32) -> u32 {
        let (group, index) = self.groups.place(root);
        if self.group == group { index } else { 0 }
    }

    /// Writes a stage among the ranks of the own group, which are numbered from 0.
    fn in_group(&self, b: &mut Builder, args: &CollArgs) {
        let pos = Position::within(self.me, self.group, self.groups);
        if !self.has_segment || !self.stages.write_in_segment(b, args, pos) {
            let members = self.groups.members(self.group);
            b.among(members, |b| self.stages.write_by_messages(b, args, pos));
        }
    }

    /// Writes a stage in which the ranks of the own group await the last `many` of them.
    fn await_last(&self, b: &mut Builder, many: u32) {
        let pos = Position::within(self.me, self.group, self.groups);
        if !self.has_segment || !self.stages.await_last_in_segment(b, pos, many) {
            self.in_group(b, &CollArgs::Barrier);
        }
    }

    /// Writes a stage among one rank of each group, this one among them. They are numbered as the
    /// groups.
    fn between(&self, b: &mut Builder, ranks: &Arc<[u32]>, args: &CollArgs) {
        let pos = Position::between(self.group, self.groups, 1);
        b.among(ranks, |b| self.stages.write_by_messages(b, args, pos));
    }

    /// Writes the stage of the own lane between groups, if there is one.
    fn in_lane(&self, b: &mut Builder, args: &CollArgs) {
        let lanes = self.groups.lanes();
        let Some(ranks) = lanes.get(self.me as usize) else { return };
        let pos = Position::between(self.group, self.groups, lanes.len() as u32);
        b.among(ranks, |b| self.stages.write_by_messages(b, args, pos));
    }
}

/// The kind of reduce_scatters within compositions.
const REDUCE_SCATTER: CollectiveKind = CollectiveKind::ReduceScatter;
