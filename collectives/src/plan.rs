//! Plans: a schedule bound to a call's buffers, types, operation and
//! communicator. Making one checks the arguments; a persistent collective makes
//! it once and starts it many times.
//!
//! What was made is kept twice over. Schedules of calls that consist of a few
//! numbers are kept by these numbers alone, so communicators share them. And the
//! last such calls are kept as they were but for the addresses ([`CacheKey`]):
//! repeating a small collective costs a comparison, of the counts too where they are all that is in lists (reduce_scatter).
//! Other calls with lists are planned anew each time: reading the lists costs as much.

use std::sync::Arc;

use fabric::{CollSegment, Collective, CollectiveKind, Peer};
use hashbrown::HashMap;
use objects::{Area, Class, Comm, Datatype, Error, Group, Op, Result};
use rustc_hash::FxBuildHasher;

use crate::algorithms::Position;
use crate::call::{ALLREDUCE_OF_BOTH, ALLTOALL, Call, Key, REDUCE_SCATTER_BLOCK, TypeTable};
use crate::coll_args::CollArgs;
use crate::operation::{Data, Operation, ROOT_HERE, Vector};
use crate::schedule::{Member, Schedule};
use crate::select::{Selection, Thresholds};
use crate::shape::{Extent, Ty};

/// Schedules kept at once; all are forgotten when there are more.
const KEPT: usize = 512;
/// Schedules with more messages than this are not kept.
const KEPT_MESSAGES: usize = 1024;
/// Bits of the number of rows of calls that are kept.
const ROWS: u32 = 6;

/// Turns calls into plans.
pub struct Planner {
    selection: Selection,
    schedules: HashMap<Key, Arc<Schedule>, FxBuildHasher>,
    /// The last two calls of each row, the later one first.
    recent: [[Option<CacheEntry>; 2]; 1 << ROWS],
}

/// A call that was planned.
struct CacheEntry {
    key: CacheKey,
    /// Of each rank, where each has its own.
    counts: Box<[u64]>,
    /// With the addresses of the last call.
    plan: Plan,
}

/// A collective that is ready to start, as often as wanted.
#[derive(Clone, Debug)]
pub struct Plan {
    bound: Arc<Bound>,
    send: Area,
    recv: Area,
    /// The kind on the wire, where it is not the operation's.
    renamed: Option<CollectiveKind>,
}

/// A plan but for its addresses.
#[derive(Debug)]
struct Bound {
    schedule: Arc<Schedule>,
    types: TypeTable,
    reduction: Option<Reduction>,
    /// Where the schedule meets.
    segment: Option<Arc<dyn CollSegment>>,
    group: Group,
    remote: Option<Group>,
    rank: u32,
    context: u64,
    collective: Collective,
}

/// The operation of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    pub(crate) op: Op,
    /// The datatype's handle, for user functions.
    pub(crate) handle: usize,
}

/// All that tells two calls apart whose only list is of counts, but for these and the addresses. Types
/// and operations are told apart by their objects, which live as long as the
/// [`Bound`] that is kept beside the glance; context ids are never reused.
///
/// Made anew in each call, and only compared: as words, which stay in registers. In memory they would be written one by one and
/// read several at once, which waits until all stores before have left the processor.
#[derive(Clone, Copy)]
struct CacheKey {
    /// Kind, what is there, and root.
    what: u64,
    context: u64,
    counts: [u64; 2],
    types: [usize; 2],
    op: usize,
    handle: usize,
}

impl Planner {
    /// A planner that selects by these thresholds.
    pub fn new(thresholds: &Thresholds) -> Planner {
        let recent = [const { [None, None] }; 1 << ROWS];
        Planner { selection: Selection::new(thresholds), schedules: HashMap::default(), recent }
    }

    /// The table of rules, to change it; what was kept is forgotten.
    pub fn selection_mut(&mut self) -> &mut Selection {
        self.schedules.clear();
        self.recent = [const { [None, None] }; 1 << ROWS];
        &mut self.selection
    }

    /// Checks a call and plans it. Errors: MPI_ERR_ROOT, MPI_ERR_COUNT,
    /// MPI_ERR_TRUNCATE, MPI_ERR_BUFFER, MPI_ERR_OP, MPI_ERR_ARG, and
    /// MPI_ERR_COMM for what is not defined on intercommunicators.
    #[inline]
    pub fn plan(&mut self, operation: &Operation, comm: &Comm) -> Result<Plan> {
        self.with_plan(operation, comm, Plan::clone)
    }

    /// As [`Planner::plan`], for who needs the plan only now.
    #[inline]
    pub fn with_plan<R>(
        &mut self,
        operation: &Operation,
        comm: &Comm,
        then: impl FnOnce(&Plan) -> R,
    ) -> Result<R> {
        let Some((key, send, recv)) = CacheKey::of(operation, comm) else {
            return self.plan_anew(operation, comm).map(|plan| then(&plan));
        };
        let (counts, row) = (operation.counts(), key.row());
        let is_it = |entry: &CacheEntry| {
            // One by one: comparing no bytes at no address takes some C libraries 150 ns.
            key.is(&entry.key)
                && entry.counts.iter().eq(counts)
                && !Call::is_aliased(operation, send, recv)
        };
        if let Some(entry) = self.recent[row].iter_mut().flatten().find(|entry| is_it(entry)) {
            (entry.plan.send, entry.plan.recv) = (send, recv);
            return Ok(then(&entry.plan));
        }
        let plan = self.plan_anew(operation, comm)?;
        let [latest, before] = &mut self.recent[row];
        *before = latest.take();
        Ok(then(&latest.insert(CacheEntry { key, counts: counts.into(), plan }).plan))
    }

    /// Forgets the calls on a communicator that is freed, and with them its arena.
    pub fn forget(&mut self, comm: &Comm) {
        let is_on_it = |call: &&mut Option<CacheEntry>| {
            call.as_ref().is_some_and(|entry| entry.key.context == comm.context())
        };
        self.recent.as_flattened_mut().iter_mut().filter(is_on_it).for_each(|call| *call = None);
    }

    #[cold]
    fn plan_anew(&mut self, operation: &Operation, comm: &Comm) -> Result<Plan> {
        let remote = comm.remote().map_or(0, Group::size);
        if comm.is_inter() {
            check_between(operation)?;
        }
        let pos = Position { rank: comm.rank(), size: comm.size() };
        let mut call = Call::new(operation, pos, remote)?;
        let segment =
            comm.coll_segment().filter(|_| self.selection.may_use_segment(operation.kind()));
        call.key.has_segment = segment.is_some();
        let schedule = match call.lists {
            _ if matches!(operation, Operation::Absent { .. }) => Arc::default(),
            None => self.schedule(call.key),
            Some(lists) => Arc::new(self.write_for(&lists.args(&call.key)?, &call.key)),
        };
        // Everyone names the root by its rank in its own group.
        let root = operation
            .root()
            .map_or(u32::MAX, |root| if root == ROOT_HERE { comm.rank() } else { root });
        let bound = Arc::new(Bound {
            segment: segment.filter(|_| schedule.uses_segment()).cloned(),
            schedule,
            types: call.types,
            reduction: operation
                .vector()
                .map(|vector| Reduction { op: vector.op.clone(), handle: vector.handle }),
            group: comm.group().clone(),
            remote: comm.remote().cloned(),
            rank: comm.rank(),
            context: comm.context() * 2 + 1,
            collective: Collective { kind: operation.kind(), root },
        });
        Ok(Plan { bound, send: call.send, recv: call.recv, renamed: None })
    }

    fn schedule(&mut self, key: Key) -> Arc<Schedule> {
        if let Some(schedule) = self.schedules.get(&key) {
            return schedule.clone();
        }
        let schedule = Arc::new(self.write(&key));
        if schedule.messages().len() <= KEPT_MESSAGES {
            if self.schedules.len() >= KEPT {
                self.schedules.clear();
            }
            self.schedules.insert(key, schedule.clone());
        }
        schedule
    }

    fn write(&self, key: &Key) -> Schedule {
        let split =
            |run: Option<Extent>| run.map(|run| run.split(key.blocks())).unwrap_or_default();
        let (from, to, counts);
        let args = match (key.kind, key.send, key.recv) {
            (ALLTOALL, send, recv) => {
                (from, to) = (send.map(|_| split(send)), split(recv));
                CollArgs::Alltoall {
                    kind: CollectiveKind::Alltoall,
                    from: from.as_deref(),
                    to: &to,
                }
            }
            (REDUCE_SCATTER_BLOCK, Some(input), Some(output)) => {
                counts = vec![output.count; key.pos.size as usize];
                let (kind, commutative) = (CollectiveKind::ReduceScatterBlock, key.commutative);
                CollArgs::ReduceScatter { kind, input, counts: &counts, output, commutative }
            }
            _ => key.args(),
        };
        self.write_for(&args, key)
    }

    fn write_for(&self, args: &CollArgs, key: &Key) -> Schedule {
        match (key.kind, key.remote) {
            (_, 0) => self.selection.schedule(args, key.pos, key.has_segment),
            (ALLREDUCE_OF_BOTH, _) => self.selection.schedule_of_both(args, key.pos),
            (_, remote) => self.selection.schedule_between(args, key.pos, remote),
        }
    }
}

/// What intercommunicators do not have: MPI_IN_PLACE, scans, neighbours.
fn check_between(operation: &Operation) -> Result<()> {
    let own_is_missing = match operation {
        Operation::Gather { root, send: None, .. }
        | Operation::Gatherv { root, send: None, .. } => *root != ROOT_HERE,
        Operation::Scatter { root, recv: None, .. }
        | Operation::Scatterv { root, recv: None, .. } => *root != ROOT_HERE,
        Operation::Allgather { send: None, .. } | Operation::Allgatherv { send: None, .. } => true,
        Operation::Alltoall { send: None, .. } | Operation::Alltoallv { send: None, .. } => true,
        Operation::Reduce { root, vector, .. } => *root != ROOT_HERE && vector.send.is_none(),
        Operation::Allreduce { vector, .. }
        | Operation::ReduceScatter { vector, .. }
        | Operation::ReduceScatterBlock { vector, .. } => vector.send.is_none(),
        Operation::Scan { .. }
        | Operation::Exscan { .. }
        | Operation::NeighborAllgather { .. }
        | Operation::NeighborAllgatherv { .. }
        | Operation::NeighborAlltoall { .. }
        | Operation::NeighborAlltoallv { .. } => {
            return Err(Error::new(
                Class::Comm,
                "this operation is not defined on intercommunicators",
            ));
        }
        _ => false,
    };
    match own_is_missing {
        true => Err(Error::new(Class::Buffer, "MPI_IN_PLACE has no meaning on intercommunicators")),
        false => Ok(()),
    }
}

impl CacheKey {
    /// `None` for calls with other lists; else also the addresses.
    #[inline(always)]
    fn of(operation: &Operation, comm: &Comm) -> Option<(CacheKey, Area, Area)> {
        let root = if comm.is_inter() { ROOT_HERE } else { comm.rank() };
        let is_root = operation.root().is_none_or(|is| is == root);
        let data = |send: Option<&Data>, recv: Option<&Data>| {
            let numbers =
                |data: Option<&Data>| data.map_or((0, 0), |data| (data.count, data.ty.identity()));
            let (sent, received) = (numbers(send), numbers(recv));
            let area = |data: Option<&Data>| data.map_or(Area::EMPTY, |data| data.area);
            let key = CacheKey {
                what: CacheKey::what(operation, comm, send.is_some(), recv.is_some()),
                context: comm.context(),
                counts: [sent.0, received.0],
                types: [sent.1, received.1],
                op: 0,
                handle: 0,
            };
            (key, area(send), area(recv))
        };
        let vector = |vector: &Vector, count: u64| {
            let recv = vector.recv.filter(|_| is_root);
            let key = CacheKey {
                what: CacheKey::what(operation, comm, vector.send.is_some(), recv.is_some()),
                context: comm.context(),
                counts: [count, 0],
                types: [vector.ty.identity(), 0],
                op: match vector.op {
                    Op::Builtin(op) => *op as usize,
                    Op::User(op) => Arc::as_ptr(op) as usize,
                },
                handle: vector.handle,
            };
            (key, vector.send.unwrap_or(Area::EMPTY), recv.unwrap_or(Area::EMPTY))
        };
        Some(match operation {
            Operation::Barrier => data(None, None),
            Operation::Bcast { data: recv, .. } => data(None, Some(recv)),
            Operation::Gather { send, recv, .. } => {
                data(send.as_ref(), recv.as_ref().filter(|_| is_root))
            }
            Operation::Scatter { send, recv, .. } => {
                data(send.as_ref().filter(|_| is_root), recv.as_ref())
            }
            Operation::Allgather { send, recv } | Operation::Alltoall { send, recv } => {
                data(send.as_ref(), Some(recv))
            }
            Operation::Reduce { vector: of, count, .. }
            | Operation::Allreduce { vector: of, count }
            | Operation::ReduceScatterBlock { vector: of, count }
            | Operation::Scan { vector: of, count }
            | Operation::Exscan { vector: of, count } => vector(of, *count),
            Operation::ReduceScatter { vector: of, counts } => vector(of, counts.len() as u64),
            _ => return None,
        })
    }

    /// An operation within the local group of an intercommunicator has the same context.
    #[inline(always)]
    fn what(operation: &Operation, comm: &Comm, has_send: bool, has_recv: bool) -> u64 {
        let bits = u64::from(has_send) | u64::from(has_recv) << 1 | u64::from(comm.is_inter()) << 2;
        u64::from(operation.root().unwrap_or(u32::MAX)) << 32
            | (operation.kind() as u64) << 8
            | bits
    }

    #[inline(always)]
    fn is(&self, other: &CacheKey) -> bool {
        let differ = (self.what ^ other.what)
            | (self.context ^ other.context)
            | (self.counts[0] ^ other.counts[0])
            | (self.counts[1] ^ other.counts[1]);
        let differs = (self.types[0] ^ other.types[0])
            | (self.types[1] ^ other.types[1])
            | (self.op ^ other.op)
            | (self.handle ^ other.handle);
        differ == 0 && differs == 0
    }

    /// Where it is kept.
    #[inline(always)]
    fn row(&self) -> usize {
        let mixed = (self.context << 8 ^ self.what)
            .wrapping_add(self.counts[0].rotate_left(16))
            .wrapping_add(self.counts[1].rotate_left(40));
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ROWS)) as usize
    }
}

impl Plan {
    /// The same, under another name on the wire: the library's own agreements.
    #[must_use]
    pub fn of_kind(mut self, kind: CollectiveKind) -> Plan {
        self.renamed = Some(kind);
        self
    }

    /// What is sent, received, copied and reduced.
    #[inline]
    pub fn schedule(&self) -> &Schedule {
        &self.bound.schedule
    }

    /// The operation and its root, as peers are told.
    #[inline]
    pub fn collective(&self) -> Collective {
        let own = self.bound.collective;
        Collective { kind: self.renamed.unwrap_or(own.kind), ..own }
    }

    /// The context id on the wire.
    #[inline]
    pub(crate) fn context(&self) -> u64 {
        self.bound.context
    }

    /// This rank, as a peer in the same group or in the other one sees it.
    #[inline]
    pub(crate) fn source_for(&self, with: Member) -> u32 {
        let rank = self.bound.rank;
        if with.is_remote() { Member::remote(rank).wire() } else { rank }
    }

    /// All members of the own group but this one.
    pub(crate) fn others(&self) -> impl Iterator<Item = Member> {
        let me = self.bound.rank;
        (0..self.bound.group.size()).filter(move |&rank| rank != me).map(Member::local)
    }

    /// The process of a member. Schedules name members only.
    #[inline]
    pub(crate) fn peer(&self, with: Member) -> Option<Peer> {
        let group = if with.is_remote() { self.bound.remote.as_ref()? } else { &self.bound.group };
        group.peer_of(with.rank())
    }

    #[inline]
    pub(crate) fn reduction(&self) -> Option<&Reduction> {
        self.bound.reduction.as_ref()
    }

    /// Where it meets, if it does.
    #[inline]
    pub(crate) fn segment(&self) -> Option<&dyn CollSegment> {
        self.bound.segment.as_deref()
    }

    /// True when it waits for nothing but its meeting: no messages, no function of the user's.
    #[inline]
    pub fn is_segment_only(&self) -> bool {
        self.segment().is_some()
            && !matches!(&self.bound.reduction, Some(Reduction { op: Op::User(_), .. }))
    }

    /// The type of a span; `None` for packed bytes.
    #[inline]
    pub(crate) fn datatype(&self, ty: Ty) -> Option<&Datatype> {
        self.bound.types.of(ty)
    }

    #[inline]
    pub(crate) fn send(&self) -> Area {
        self.send
    }

    #[inline]
    pub(crate) fn recv(&self) -> Area {
        self.recv
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_calls_that_alternate_are_both_kept() {
        let comm = Comm::new("", 1, 0, Group::world(4));
        let bcast = |count| Operation::Bcast {
            data: Data { area: Area::EMPTY, count, ty: Datatype::byte() },
            root: 0,
        };
        let kept = |planner: &Planner| {
            let entry = planner.recent.as_flattened().iter().flatten();
            entry.map(|entry| Arc::as_ptr(&entry.plan.bound)).collect::<Vec<_>>()
        };
        for count in 0..256 {
            let mut planner = Planner::new(&Thresholds::default());
            let mut both = || {
                planner.plan(&Operation::Barrier, &comm).unwrap();
                planner.plan(&bcast(count), &comm).unwrap();
                kept(&planner)
            };
            let first = both();
            assert_eq!(first.len(), 2);
            assert_eq!(both(), first, "nothing is planned anew");
        }
    }
}
