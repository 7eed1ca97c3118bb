//! Compositions over the levels of the machine: flat algorithms in groups of ranks, and between
//! these groups. A group is mostly a host; it may be a part of one, or the hosts at one switch.
//!
//! With *leaders*, one rank of each group exchanges messages with other groups, for all ranks of
//! its group. With *lanes*, each rank of a group does so for a part of the data; therefore all
//! ranks of a group reduce and copy at once, and a group still sends each byte once. Most have
//! three stages: in the group, between groups, in the group. Where lanes are *pipelined*, the
//! stages of different chunks of the data run at the same time. With a *fan*, several ranks of a
//! group send short data to other groups at once, in rounds with a stage in the group after each.
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
mod levels;
mod pipelined;
mod reduce_scatter;
mod scan;

use fabric::CollectiveKind;

use self::levels::Levels;
pub(crate) use self::levels::Stages;
use crate::algorithm::Algorithm;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::thresholds::SegmentUse;
use crate::topology::Level;

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
            // There are two strands, not more.
            (
                Algorithm::PipelinedLanes,
                CollArgs::Bcast { .. } | CollArgs::Reduce { .. } | CollArgs::Allreduce { .. },
            ) => args.commutes() && groups.lanes().len() > 1 && !pos.is_in_stage(),
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

/// Writes this rank's part of a call. `segment`: what it may use that of this host for.
pub(crate) fn write(
    algorithm: Algorithm,
    b: &mut Builder,
    args: &CollArgs,
    pos: Position,
    (stages, segment): (&dyn Stages, SegmentUse),
) {
    let Some(groups) = pos.levels() else { return };
    let (group, me) = groups.place(pos.rank);
    let is_shared = groups.level() == Level::Host && groups.members(group).len() > 1;
    let segment = if is_shared { segment } else { SegmentUse::Nothing };
    let levels = &Levels { stages, groups, group, me, segment };
    match algorithm {
        Algorithm::Lanes => write_lanes(b, levels, args),
        Algorithm::PipelinedLanes => write_pipelined_lanes(b, levels, args),
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

fn write_pipelined_lanes(b: &mut Builder, levels: &Levels, args: &CollArgs) {
    match *args {
        CollArgs::Bcast { root, data } => pipelined::bcast(b, levels, root, data),
        CollArgs::Reduce { root, input, output, .. } => {
            pipelined::reduce(b, levels, root, input, output);
        }
        CollArgs::Allreduce { input, output, .. } => pipelined::allreduce(b, levels, input, output),
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
