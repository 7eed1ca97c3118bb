//! The groups as one rank sees them, and the stages that it writes in and between them.

use std::sync::Arc;

use fabric::CollectiveKind;

use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::grouping::Grouping;
use crate::position::Position;
use crate::thresholds::SegmentUse;

/// Writes the stages of compositions by the algorithms that selection chooses for them.
pub(crate) trait Stages {
    /// One more than the messages that a rank sends at once between groups; at least 2.
    fn radix(&self) -> u32;

    /// Bytes of the pieces in which pipelined algorithms send a vector.
    fn piece(&self) -> u64;

    /// Writes a stage among some ranks by messages.
    fn write_by_messages(&self, b: &mut Builder, args: &CollArgs, pos: Position);

    /// Writes a stage in the segment of the own host in which all ranks await the last `many`.
    /// Returns false if there is no such stage.
    fn await_last_in_segment(&self, b: &mut Builder, pos: Position, many: u32) -> bool;

    /// Writes a stage in the segment of the own host. Returns false if the call does not fit.
    fn write_in_segment(&self, b: &mut Builder, args: &CollArgs, pos: Position) -> bool;

    /// Writes a stage of parts of one vector in the segment of the own host, slot by slot. Returns
    /// false if it fits the slots at once, or there is no such stage.
    fn write_long_in_segment(&self, b: &mut Builder, args: &CollArgs, pos: Position) -> bool;
}

/// The groups as one rank sees them.
pub(super) struct Levels<'a> {
    pub(super) stages: &'a dyn Stages,
    pub(super) groups: &'a Grouping,
    /// The own group.
    pub(super) group: u32,
    /// The own number there.
    pub(super) me: u32,
    pub(super) segment: SegmentUse,
}

impl Levels<'_> {
    /// How many ranks the own group has.
    pub(super) fn local_size(&self) -> u32 {
        self.groups.members(self.group).len() as u32
    }

    /// The own rank among the ranks of all groups.
    pub(super) fn rank(&self) -> u32 {
        self.groups.members(self.group)[self.me as usize]
    }

    pub(super) fn has_segment(&self) -> bool {
        self.segment != SegmentUse::Nothing
    }

    /// The number that speaks for the own group if `root` speaks for its own.
    pub(super) fn leader(&self, root: u32) -> u32 {
        let (group, index) = self.groups.place(root);
        if self.group == group { index } else { 0 }
    }

    /// Writes a stage among the ranks of the own group, which are numbered from 0.
    pub(super) fn in_group(&self, b: &mut Builder, args: &CollArgs) {
        let pos = Position::within(self.me, self.group, self.groups);
        if !self.has_segment() || !self.stages.write_in_segment(b, args, pos) {
            let members = self.groups.members(self.group);
            b.among(members, |b| self.stages.write_by_messages(b, args, pos));
        }
    }

    /// Writes a stage among the ranks of the own group in which all deal with parts of one vector,
    /// which may be long.
    pub(super) fn in_group_by_parts(&self, b: &mut Builder, args: &CollArgs) {
        let pos = Position::within(self.me, self.group, self.groups);
        let may_take_long = self.segment == SegmentUse::Anything;
        if !may_take_long || !self.stages.write_long_in_segment(b, args, pos) {
            self.in_group(b, args);
        }
    }

    /// Writes a stage in which the ranks of the own group await the last `many` of them.
    pub(super) fn await_last(&self, b: &mut Builder, many: u32) {
        let pos = Position::within(self.me, self.group, self.groups);
        if !self.has_segment() || !self.stages.await_last_in_segment(b, pos, many) {
            self.in_group(b, &CollArgs::Barrier);
        }
    }

    /// Writes a stage among one rank of each group, this one among them. They are numbered as the
    /// groups.
    pub(super) fn between(&self, b: &mut Builder, ranks: &Arc<[u32]>, args: &CollArgs) {
        let pos = Position::between(self.group, self.groups, 1);
        b.among(ranks, |b| self.stages.write_by_messages(b, args, pos));
    }

    /// Writes the stage of the own lane between groups, if there is one.
    pub(super) fn in_lane(&self, b: &mut Builder, args: &CollArgs) {
        let lanes = self.groups.lanes();
        let Some(ranks) = lanes.get(self.me as usize) else { return };
        let pos = Position::between(self.group, self.groups, lanes.len() as u32);
        b.among(ranks, |b| self.stages.write_by_messages(b, args, pos));
    }
}

/// The kind of reduce_scatters within compositions.
pub(super) const REDUCE_SCATTER: CollectiveKind = CollectiveKind::ReduceScatter;
