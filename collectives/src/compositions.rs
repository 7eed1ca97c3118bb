//! Compositions over the levels of the machine: flat algorithms within hosts, and between them.
//!
//! With *leaders*, one rank of each host exchanges messages with other hosts, for all ranks of its
//! host. With *lanes*, each rank of a host does so for a part of the vector; therefore all ranks of
//! a host reduce and copy at once, and a host still sends each byte once. Both have three stages:
//! within the host, between hosts, within the host.
//!
//! A stage is a flat algorithm among some ranks ([`Builder::among`]), which selection chooses as
//! for a communicator of these ranks. Within a host it uses the collective segment that the ranks
//! of the host share. Hosts need not agree on that.
//!
//! What it does not do: order operands where the ranks of a host do not follow each other;
//! selection takes a flat algorithm for operations that do not commute then.

mod lanes;
mod leaders;

use fabric::CollectiveKind;

use crate::algorithm::Algorithm;
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::hosts::Hosts;
use crate::position::Position;

/// Writes the stages of compositions by the algorithms that selection chooses for them.
pub(crate) trait Stages {
    /// Writes a stage among some ranks by messages.
    fn write_flat(&self, b: &mut Builder, args: &CollArgs, pos: Position);

    /// Writes a stage in the segment of the own host. Returns false if the call does not fit.
    fn write_in_segment(&self, b: &mut Builder, args: &CollArgs, pos: Position) -> bool;
}

/// Writes this rank's part of a call. `has_segment`: the ranks of this host share one.
pub(crate) fn write(
    algorithm: Algorithm,
    b: &mut Builder,
    args: &CollArgs,
    pos: Position,
    (stages, has_segment): (&dyn Stages, bool),
) {
    let Some(hosts) = pos.levels() else { return };
    let (host, me) = hosts.place(pos.rank);
    let levels = Levels { stages, hosts, host, me, has_segment };
    match (algorithm, *args) {
        (Algorithm::Lanes, CollArgs::Bcast { root, data }) => {
            lanes::bcast(b, &levels, root, data);
        }
        (Algorithm::Lanes, CollArgs::Reduce { root, input, output, .. }) => {
            lanes::reduce(b, &levels, root, input, output);
        }
        (Algorithm::Lanes, CollArgs::Allreduce { input, output, .. }) => {
            lanes::allreduce(b, &levels, input, output);
        }
        (_, CollArgs::Barrier) => leaders::barrier(b, &levels),
        (_, CollArgs::Bcast { root, data }) => leaders::bcast(b, &levels, root, data),
        (_, CollArgs::Reduce { root, input, output, commutative }) => {
            leaders::reduce(b, &levels, root, (input, output, commutative));
        }
        (_, CollArgs::Allreduce { input, output, commutative }) => {
            leaders::allreduce(b, &levels, input, output, commutative);
        }
        (_, CollArgs::Allgather { own, all }) => leaders::allgather(b, &levels, own, all),
        _ => debug_assert!(false, "refused by `can`"),
    }
}

/// The levels as one rank sees them.
struct Levels<'a> {
    stages: &'a dyn Stages,
    hosts: &'a Hosts,
    /// The own host.
    host: u32,
    /// The own number there.
    me: u32,
    has_segment: bool,
}

impl Levels<'_> {
    /// How many ranks the own host has.
    fn local_size(&self) -> u32 {
        self.hosts.members(self.host).len() as u32
    }

    /// Writes a stage among the ranks of the own host, which are numbered from 0.
    fn on_host(&self, b: &mut Builder, args: &CollArgs) {
        let pos = Position::new(self.me, self.local_size());
        if !self.has_segment || !self.stages.write_in_segment(b, args, pos) {
            let members = self.hosts.members(self.host);
            b.among(members, |b| self.stages.write_flat(b, args, pos));
        }
    }

    /// Writes a stage among one rank of each host, this one among them. They are numbered as the
    /// hosts.
    fn between_hosts(&self, b: &mut Builder, ranks: &std::sync::Arc<[u32]>, args: &CollArgs) {
        let pos = Position::between_hosts(self.host, self.hosts.count());
        b.among(ranks, |b| self.stages.write_flat(b, args, pos));
    }
}

/// The kind of reduce_scatters within compositions.
const REDUCE_SCATTER: CollectiveKind = CollectiveKind::ReduceScatter;
