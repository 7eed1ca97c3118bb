//! Plans: a schedule bound to the buffers, types, operation and communicator of a call. A plan is
//! made once and may be started many times, one start after the other.

use std::sync::Arc;

use fabric::{CollSegment, Collective, CollectiveKind, Peer};
use objects::{Area, Comm, Datatype, Group, LatestCall, Op, RunOp};
use pt2pt::{CollectiveCall, Envelope, Pattern};

use crate::operation::{Operation, ROOT_HERE};
use crate::schedule::{Member, Schedule};
use crate::shape::Ty;
use crate::signature;
use crate::type_table::TypeTable;

/// A collective that is ready to start, as often as wanted.
#[derive(Clone, Debug)]
pub struct Plan {
    bound: Arc<Bound>,
    send: Area,
    recv: Area,
    /// The kind on the wire, where it is not the operation's.
    renamed: Option<CollectiveKind>,
    /// The call as members of a segment compare it.
    signature: u64,
}

/// A plan but for its addresses.
#[derive(Debug)]
struct Bound {
    schedule: Arc<Schedule>,
    types: TypeTable,
    reduction: Option<Reduction>,
    segment: Option<SharedSegment>,
    /// That of all members, whether the schedule uses it or not.
    comm_segment: Option<Arc<dyn CollSegment>>,
    latest: Arc<LatestCall>,
    /// See [`Plan::may_run_inline`].
    may_run_inline: bool,
    /// The same call, where ranks must not read each other's memory.
    without_gets: Option<Plan>,
    group: Group,
    remote: Option<Group>,
    rank: u32,
    context: u64,
    collective: Collective,
    /// See [`crate::CollArgs::block_bytes`].
    bytes: Option<u64>,
}

/// The collective segment of a plan.
#[derive(Clone, Debug)]
pub struct SharedSegment {
    /// The memory, whose members count from 0.
    pub segment: Arc<dyn CollSegment>,
    /// The rank of each member, where these are not all ranks of the communicator in order.
    pub members: Option<Arc<[u32]>>,
}

/// The operation of a plan.
#[derive(Clone, Debug)]
pub(crate) struct Reduction {
    pub(crate) op: Op,
    /// The same on runs, if the elements have no gaps.
    pub(crate) on_runs: Option<RunOp>,
    /// The datatype's handle, for user functions.
    pub(crate) handle: usize,
}

impl Plan {
    /// Binds a schedule to a call of `operation` on `comm`, its types and its buffers.
    pub(crate) fn new(
        schedule: Arc<Schedule>,
        segment: Option<SharedSegment>,
        operation: &Operation,
        comm: &Comm,
        types: TypeTable,
        [send, recv]: [Area; 2],
        bytes: Option<u64>,
    ) -> Plan {
        // All ranks name the root by its rank in its own group.
        let root = operation.root().map(|root| if root == ROOT_HERE { comm.rank() } else { root });
        let op = operation.vector().map(|vector| signature::op_code(vector.op));
        let collective = Collective::new(operation.kind(), root, op);
        let signature = signature::of(collective, schedule.slot_bytes());
        let reduction = operation.vector().map(|vector| Reduction {
            op: vector.op.clone(),
            on_runs: vector.op.on_runs(vector.ty),
            handle: vector.handle,
        });
        let segment = segment.filter(|_| schedule.uses_segment());
        let calls_user = matches!(&reduction, Some(Reduction { op: Op::User(_), .. }));
        let is_alone = comm.group().size() == 1 && comm.remote().is_none();
        let waits_for_messages = match &segment {
            Some(shared) => shared.members.is_some(),
            None => !is_alone,
        };
        let may_run_inline = !waits_for_messages
            && !schedule.has_two_strands()
            && schedule.messages().is_empty()
            && schedule.temp() == 0
            && !calls_user;
        let bound = Arc::new(Bound {
            may_run_inline,
            without_gets: None,
            segment,
            comm_segment: comm.coll_segment().filter(|_| !comm.is_inter()).cloned(),
            latest: comm.latest_call().clone(),
            schedule,
            types,
            reduction,
            group: comm.group().clone(),
            remote: comm.remote().cloned(),
            rank: comm.rank(),
            context: comm.context() * 2 + 1,
            collective,
            bytes,
        });
        Plan { bound, send, recv, renamed: None, signature }
    }

    /// The plan, with what all ranks do in its place if a get is refused.
    pub(crate) fn or_without_gets(mut self, other: Plan) -> Plan {
        if let Some(bound) = Arc::get_mut(&mut self.bound) {
            bound.may_run_inline &= other.scratch_bytes() == 0;
            bound.without_gets = Some(other);
        }
        self
    }

    /// Bytes of scratch memory that it needs, also without gets.
    pub(crate) fn scratch_bytes(&self) -> u64 {
        let other = self.bound.without_gets.as_ref().map_or(0, Plan::scratch_bytes);
        self.schedule().temp().max(other)
    }

    /// What all ranks do in place of the plan if a get is refused.
    pub(crate) fn without_gets(&self) -> Option<Plan> {
        let mut other = self.bound.without_gets.clone()?;
        other.set_buffers(self.send, self.recv);
        Some(match self.renamed {
            Some(kind) => other.of_kind(kind),
            None => other,
        })
    }

    /// Returns false if its gets have been refused.
    #[inline]
    pub(crate) fn is_possible(&self) -> bool {
        self.bound.without_gets.is_none() || self.segment().is_some_and(CollSegment::has_get)
    }

    /// Moves the plan to other buffers of the same call.
    #[inline]
    pub(crate) fn set_buffers(&mut self, send: Area, recv: Area) {
        (self.send, self.recv) = (send, recv);
    }

    /// The plan under another name on the wire, for the library's own agreements.
    #[must_use]
    pub fn of_kind(mut self, kind: CollectiveKind) -> Plan {
        self.renamed = Some(kind);
        self.signature = signature::of(self.collective(), self.schedule().slot_bytes());
        self
    }

    /// The messages, copies and reductions.
    #[inline]
    pub fn schedule(&self) -> &Schedule {
        &self.bound.schedule
    }

    /// The operation and its root, as sent to peers.
    #[inline]
    pub fn collective(&self) -> Collective {
        let own = self.bound.collective;
        Collective { kind: self.renamed.unwrap_or(own.kind), ..own }
    }

    /// The call as members of a segment compare it.
    #[inline]
    pub(crate) fn signature(&self) -> u64 {
        self.signature
    }

    /// The call as it is reported to users and to other members.
    pub(crate) fn call(&self) -> CollectiveCall {
        let Collective { kind, root, .. } = self.collective();
        CollectiveCall { kind: kind as u8, root, bytes: self.bound.bytes }
    }

    /// Returns true if no other process takes part.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.bound.group.size() == 1 && self.bound.remote.is_none()
    }

    /// This process's rank in the communicator.
    pub fn rank(&self) -> u32 {
        self.bound.rank
    }

    /// This rank's number as the source of the messages that a member gets.
    pub(crate) fn source_for(&self, to: Member) -> u32 {
        let rank = self.bound.rank;
        if to.is_remote() { Member::remote(rank).wire() } else { rank }
    }

    /// The member that a process is.
    pub(crate) fn member_of(&self, peer: Peer) -> Option<Member> {
        let local = || self.bound.group.rank_of(peer).map(Member::local);
        let remote = self.bound.remote.as_ref();
        remote.and_then(|remote| remote.rank_of(peer)).map(Member::remote).or_else(local)
    }

    /// The context id on the wire.
    #[inline]
    pub fn context(&self) -> u64 {
        self.bound.context
    }

    /// The envelope of a message of this collective, the `sequence`th of its communicator.
    #[inline]
    pub(crate) fn envelope(&self, to: Member, sequence: i32, collective: Collective) -> Envelope {
        let rank = self.bound.rank;
        let source = if to.is_remote() { Member::remote(rank).wire() } else { rank };
        let context = self.bound.context;
        Envelope { context, source, tag: sequence, collective: Some(collective) }
    }

    /// The pattern of messages of this collective; from any member without `source`.
    #[inline]
    pub(crate) fn pattern(
        &self,
        source: Option<Member>,
        sequence: i32,
        collective: Collective,
    ) -> Pattern {
        Pattern {
            context: self.bound.context,
            source: source.map(Member::wire),
            tag: Some(sequence),
            collective: Some(collective),
        }
    }

    /// The process of a member. Schedules name members only.
    #[inline]
    pub(crate) fn peer(&self, with: Member) -> Option<Peer> {
        let group = if with.is_remote() { self.bound.remote.as_ref()? } else { &self.bound.group };
        group.peer_of(with.rank())
    }

    /// Returns true if a process takes part.
    pub(crate) fn has_member(&self, peer: Peer) -> bool {
        let Bound { group, remote, .. } = &*self.bound;
        group.contains(peer) || remote.as_ref().is_some_and(|remote| remote.contains(peer))
    }

    /// The operation, where something is reduced.
    #[inline]
    pub(crate) fn reduction(&self) -> Option<&Reduction> {
        self.bound.reduction.as_ref()
    }

    /// The collective segment that the schedule uses.
    #[inline]
    pub(crate) fn segment(&self) -> Option<&dyn CollSegment> {
        self.bound.segment.as_ref().map(|shared| &*shared.segment)
    }

    /// The collective segment of the communicator, whether the schedule uses it or not.
    pub(crate) fn comm_segment(&self) -> Option<&dyn CollSegment> {
        self.bound.comm_segment.as_deref()
    }

    /// What the next call of the communicator knows of the one before.
    #[inline]
    pub fn latest(&self) -> &Arc<LatestCall> {
        &self.bound.latest
    }

    /// The rank of a member of the segment.
    pub(crate) fn segment_rank(&self, member: u32) -> u32 {
        let members = self.bound.segment.as_ref().and_then(|shared| shared.members.as_deref());
        members.map_or(member, |members| members[member as usize])
    }

    /// This rank's number among the members of the segment.
    pub(crate) fn segment_member(&self) -> Option<u32> {
        let shared = self.bound.segment.as_ref()?;
        let rank = self.bound.rank;
        match shared.members.as_deref() {
            None => Some(rank),
            Some(members) => members.iter().position(|&of| of == rank).map(|at| at as u32),
        }
    }

    /// Returns true if the members of its segment are the ranks of one of several hosts.
    pub(crate) fn has_host_segment(&self) -> bool {
        self.bound.segment.as_ref().is_some_and(|shared| shared.members.is_some())
    }

    /// Returns true if the members of its segment are all ranks.
    #[inline]
    pub(crate) fn is_in_comm_segment(&self) -> bool {
        self.bound.segment.as_ref().is_some_and(|shared| shared.members.is_none())
    }

    /// Returns true if its messages carry the call before, and those of the next one its own: the
    /// same on all ranks. The members of a segment of all ranks compare calls there. Those of the
    /// library between two groups differ from group to group, and have the kind of all that make
    /// communicators.
    pub(crate) fn is_compared_by_messages(&self) -> bool {
        !self.is_alone()
            && !self.is_in_comm_segment()
            && self.bound.remote.is_none()
            && self.renamed != Some(CollectiveKind::CommCreate)
    }

    /// The members of the segment but this one: their numbers in it, and their ranks.
    pub(crate) fn segment_others(&self) -> impl Iterator<Item = (u32, u32)> {
        let shared = self.bound.segment.as_ref();
        let members = shared.and_then(|shared| shared.members.as_deref());
        let all = members.map_or(self.bound.group.size(), |members| members.len() as u32);
        (0..if shared.is_some() { all } else { 0 })
            .map(move |member| (member, self.segment_rank(member)))
            .filter(|&(_, rank)| rank != self.bound.rank)
    }

    /// True when it needs nothing but its segment, or nothing at all where this process is alone:
    /// it sends no messages, has no scratch memory and calls no function of the user.
    #[inline]
    pub fn may_run_inline(&self) -> bool {
        self.bound.may_run_inline
    }

    /// The type of a span; `None` for packed bytes.
    #[inline]
    pub(crate) fn datatype(&self, ty: Ty) -> Option<&Datatype> {
        self.bound.types.of(ty)
    }

    /// The send buffer.
    #[inline]
    pub(crate) fn send(&self) -> Area {
        self.send
    }

    /// The receive buffer.
    #[inline]
    pub(crate) fn recv(&self) -> Area {
        self.recv
    }
}
