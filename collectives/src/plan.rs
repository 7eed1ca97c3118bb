//! Plans: a schedule bound to a call's buffers, types, operation and
//! communicator. Making one checks the arguments; a persistent collective makes
//! it once and starts it many times.
//!
//! What was made is kept twice over. Schedules of calls that consist of a few
//! numbers are kept by these numbers alone, so communicators share them. And the
//! last such calls are kept as they were but for the addresses ([`Glance`]):
//! repeating a small collective costs a comparison. Calls with lists of counts
//! are planned anew each time: reading the lists costs as much.

use std::sync::Arc;

use fabric::{Arena, Collective, CollectiveKind, Peer};
use hashbrown::HashMap;
use objects::{Area, Buffer, Class, Comm, Datatype, Error, Group, Op, Result};
use rustc_hash::FxBuildHasher;

use crate::algorithms::Seat;
use crate::call::{ALLREDUCE_OF_BOTH, ALLTOALL, Call, Key, REDUCE_SCATTER_BLOCK, TypeTable};
use crate::operation::{Data, Operation, ROOT_HERE, Vector};
use crate::problem::Problem;
use crate::schedule::{Member, Schedule, Space, Span};
use crate::select::{Selection, Thresholds};
use crate::shape::{Run, Ty};

/// Schedules kept at once; all are forgotten when there are more.
const KEPT: usize = 512;
/// Schedules with more messages than this are not kept.
const KEPT_MESSAGES: usize = 1024;
/// Bits of the number of calls that are kept.
const GLANCES: u32 = 5;

/// Turns calls into plans.
pub struct Planner {
    selection: Selection,
    schedules: HashMap<Key, Arc<Schedule>, FxBuildHasher>,
    /// Each call has one place where it may be.
    calls: [Option<(Glance, Arc<Bound>)>; 1 << GLANCES],
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
    arena: Option<Arc<dyn Arena>>,
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

/// All that tells two calls without lists apart, but for the addresses. Types
/// and operations are told apart by their objects, which live as long as the
/// [`Bound`] that is kept beside the glance; context ids are never reused.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Glance {
    kind: CollectiveKind,
    has_send: bool,
    has_recv: bool,
    /// Not an operation within the local group of an intercommunicator, which has
    /// the same context.
    is_inter: bool,
    root: u32,
    context: u64,
    counts: [u64; 2],
    types: [usize; 2],
    op: usize,
    handle: usize,
}

impl Planner {
    /// A planner that selects by these thresholds.
    pub fn new(thresholds: &Thresholds) -> Planner {
        let calls = [const { None }; 1 << GLANCES];
        Planner { selection: Selection::new(thresholds), schedules: HashMap::default(), calls }
    }

    /// The table of rules, to change it; what was kept is forgotten.
    pub fn selection_mut(&mut self) -> &mut Selection {
        self.schedules.clear();
        self.calls = [const { None }; 1 << GLANCES];
        &mut self.selection
    }

    /// Checks a call and plans it. Errors: MPI_ERR_ROOT, MPI_ERR_COUNT,
    /// MPI_ERR_TRUNCATE, MPI_ERR_BUFFER, MPI_ERR_OP, MPI_ERR_ARG, and
    /// MPI_ERR_COMM for what is not defined on intercommunicators.
    #[inline]
    pub fn plan(&mut self, operation: &Operation, comm: &Comm) -> Result<Plan> {
        let Some((glance, send, recv)) = Glance::of(operation, comm) else {
            return self.plan_anew(operation, comm);
        };
        match &self.calls[glance.place()] {
            Some((known, bound)) if *known == glance && !Call::is_aliased(operation, send, recv) => {
                Ok(Plan { bound: bound.clone(), send, recv, renamed: None })
            }
            _ => {
                let plan = self.plan_anew(operation, comm)?;
                self.calls[glance.place()] = Some((glance, plan.bound.clone()));
                Ok(plan)
            }
        }
    }

    /// Forgets the calls on a communicator that is freed, and with them its arena.
    pub fn forget(&mut self, comm: &Comm) {
        let is_on_it =
            |call: &&mut Option<(Glance, _)>| call.as_ref().is_some_and(|(g, _)| g.context == comm.context());
        self.calls.iter_mut().filter(is_on_it).for_each(|call| *call = None);
    }

    #[cold]
    fn plan_anew(&mut self, operation: &Operation, comm: &Comm) -> Result<Plan> {
        let remote = comm.remote().map_or(0, Group::size);
        if comm.is_inter() {
            check_between(operation)?;
        }
        let seat = Seat { rank: comm.rank(), size: comm.size() };
        let mut call = Call::new(operation, seat, remote)?;
        let arena = comm.arena().filter(|_| self.selection.may_meet(operation.kind()));
        call.key.shares = arena.is_some();
        let schedule = match call.lists {
            _ if matches!(operation, Operation::Absent { .. }) => Arc::default(),
            None => self.schedule(call.key),
            Some(lists) => Arc::new(self.write_for(&lists.problem(&call.key)?, &call.key)),
        };
        // Everyone names the root by its rank in its own group.
        let root = operation.root().map_or(u32::MAX, |root| if root == ROOT_HERE { comm.rank() } else { root });
        let bound = Arc::new(Bound {
            arena: arena.filter(|_| schedule.meets()).cloned(),
            schedule,
            types: call.types,
            reduction: operation.vector().map(|vector| Reduction { op: vector.op.clone(), handle: vector.handle }),
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
        let split = |run: Option<Run>| run.map(|run| run.split(key.blocks())).unwrap_or_default();
        let (from, to, counts);
        let problem = match (key.kind, key.send, key.recv) {
            (ALLTOALL, send, recv) => {
                (from, to) = (send.map(|_| split(send)), split(recv));
                Problem::Alltoall { kind: CollectiveKind::Alltoall, from: from.as_deref(), to: &to }
            }
            (REDUCE_SCATTER_BLOCK, Some(input), Some(output)) => {
                counts = vec![output.count; key.seat.size as usize];
                let (kind, commutative) = (CollectiveKind::ReduceScatterBlock, key.commutative);
                Problem::ReduceScatter { kind, input, counts: &counts, output, commutative }
            }
            _ => key.problem(),
        };
        self.write_for(&problem, key)
    }

    fn write_for(&self, problem: &Problem, key: &Key) -> Schedule {
        match (key.kind, key.remote) {
            (_, 0) => self.selection.schedule(problem, key.seat, key.shares),
            (ALLREDUCE_OF_BOTH, _) => self.selection.schedule_of_both(problem, key.seat),
            (_, remote) => self.selection.schedule_between(problem, key.seat, remote),
        }
    }
}

/// What intercommunicators do not have: MPI_IN_PLACE, scans, neighbours.
fn check_between(operation: &Operation) -> Result<()> {
    let own_is_missing = match operation {
        Operation::Gather { root, send: None, .. } | Operation::Gatherv { root, send: None, .. } => *root != ROOT_HERE,
        Operation::Scatter { root, recv: None, .. } | Operation::Scatterv { root, recv: None, .. } => {
            *root != ROOT_HERE
        }
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
            return Err(Error::new(Class::Comm, "this operation is not defined on intercommunicators"));
        }
        _ => false,
    };
    match own_is_missing {
        true => Err(Error::new(Class::Buffer, "MPI_IN_PLACE has no meaning on intercommunicators")),
        false => Ok(()),
    }
}

impl Glance {
    /// `None` for calls with lists; else also the addresses.
    #[inline]
    fn of(operation: &Operation, comm: &Comm) -> Option<(Glance, Area, Area)> {
        let root = if comm.is_inter() { ROOT_HERE } else { comm.rank() };
        let is_root = operation.root().is_none_or(|is| is == root);
        let data = |send: Option<&Data>, recv: Option<&Data>| {
            let number = |data: Option<&Data>| data.map_or((0, 0), |data| (data.count, data.ty.identity()));
            let (send_numbers, recv_numbers) = (number(send), number(recv));
            let area = |data: Option<&Data>| data.map_or(Area::EMPTY, |data| data.area);
            let glance = Glance {
                has_send: send.is_some(),
                has_recv: recv.is_some(),
                counts: [send_numbers.0, recv_numbers.0],
                types: [send_numbers.1, recv_numbers.1],
                ..Glance::empty(operation, comm)
            };
            (glance, area(send), area(recv))
        };
        let vector = |vector: &Vector, count: u64| {
            let recv = vector.recv.filter(|_| is_root);
            let glance = Glance {
                has_send: vector.send.is_some(),
                has_recv: recv.is_some(),
                counts: [count, 0],
                types: [vector.ty.identity(), 0],
                op: match vector.op {
                    Op::Builtin(op) => *op as usize,
                    Op::User(op) => Arc::as_ptr(op) as usize,
                },
                handle: vector.handle,
                ..Glance::empty(operation, comm)
            };
            (glance, vector.send.unwrap_or(Area::EMPTY), recv.unwrap_or(Area::EMPTY))
        };
        Some(match operation {
            Operation::Barrier => data(None, None),
            Operation::Bcast { data: recv, .. } => data(None, Some(recv)),
            Operation::Gather { send, recv, .. } => data(send.as_ref(), recv.as_ref().filter(|_| is_root)),
            Operation::Scatter { send, recv, .. } => data(send.as_ref().filter(|_| is_root), recv.as_ref()),
            Operation::Allgather { send, recv } | Operation::Alltoall { send, recv } => data(send.as_ref(), Some(recv)),
            Operation::Reduce { vector: of, count, .. }
            | Operation::Allreduce { vector: of, count }
            | Operation::ReduceScatterBlock { vector: of, count }
            | Operation::Scan { vector: of, count }
            | Operation::Exscan { vector: of, count } => vector(of, *count),
            _ => return None,
        })
    }

    #[inline]
    fn empty(operation: &Operation, comm: &Comm) -> Glance {
        Glance {
            kind: operation.kind(),
            has_send: false,
            has_recv: false,
            is_inter: comm.is_inter(),
            root: operation.root().unwrap_or(u32::MAX),
            context: comm.context(),
            counts: [0; 2],
            types: [0; 2],
            op: 0,
            handle: 0,
        }
    }

    /// Where it is kept.
    #[inline]
    fn place(&self) -> usize {
        let mixed = (self.context << 8 ^ self.kind as u64 ^ u64::from(self.root) << 32)
            .wrapping_add(self.counts[0].rotate_left(16))
            .wrapping_add(self.counts[1].rotate_left(40));
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GLANCES)) as usize
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
    pub(crate) fn arena(&self) -> Option<&dyn Arena> {
        self.bound.arena.as_deref()
    }

    /// True when it waits for nothing but its meeting: no messages, no function of the user's.
    #[inline]
    pub fn only_meets(&self) -> bool {
        self.arena().is_some() && !matches!(&self.bound.reduction, Some(Reduction { op: Op::User(_), .. }))
    }

    /// The type of a span; `None` for packed bytes.
    #[inline]
    pub(crate) fn datatype(&self, ty: Ty) -> Option<&Datatype> {
        self.bound.types.of(ty)
    }

    /// The memory of a span; the scratch memory and the seats are the running collective's.
    #[inline]
    pub(crate) fn buffer(&self, span: &Span, temp: impl FnOnce() -> Area, seats: impl FnOnce() -> Area) -> Buffer {
        let area = match span.space {
            Space::Send => self.send,
            Space::Recv => self.recv,
            Space::Temp => temp(),
            Space::Arena => seats(),
        };
        match self.datatype(span.ty) {
            Some(datatype) => area.buffer(span.disp, span.count, datatype),
            None => area.bytes(span.disp, span.count),
        }
    }
}
