//! Collectives for the layers above: plans a call under the process lock, then runs it, starts it,
//! or keeps the plan for a persistent request.
//!
//! The library's own collectives (agreement on context ids, the barrier of MPI_Finalize) run on the
//! same communicator and in the same sequence as the user's. Only their kind on the wire differs.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, Ordering};

use bootstrap::Job;
use collectives::operation::{Data, Operation, Vector};
use collectives::{
    CollectiveId, HostSegment, InlineRun, Plan, Planner, Suspended, Thresholds, rule_text,
};
use config::{Knobs, SingleCopy, knob};
use fabric::CollectiveKind;
use objects::buffer::Area;
use objects::comm::COLL_RULES;
use objects::{Class, Comm, Datatype, Error, Info, Op, Result};

use crate::agreement::{Agreed, Agreement};
use crate::fault;
use crate::lock::{LOCK, block_on, with};
use crate::process::{Process, not_running};
use crate::request::{Persistent, Request};
use crate::wait_target::WaitTarget;

/// MPI_UINT64_T, MPI_BYTE and MPI_MAX in the ABI.
const UINT64: usize = 0x259;
const BYTE: usize = 0x247;
const MAX: usize = 0x23;

/// How often the fast path polls one round of the segment while ranks share processors.
const YIELDING_POLLS: u32 = 4;
/// How often the fast path polls one round of the segment while each rank has a processor.
const SPINNING_POLLS: u32 = 128;
/// Of this many calls, one takes the general path; see [`is_every_nth_call`].
const CALLS_PER_PROGRESS: u32 = 8;

/// Returns the sizes at which algorithms change, from the knobs. All ranks of a job must have the
/// same.
pub(crate) fn thresholds(knobs: &Knobs, job: &Job) -> Thresholds {
    let is_on_one_host = job.local_size == job.size;
    let is_oversubscribed = job.is_oversubscribed() && is_on_one_host;
    let is_flat = !is_oversubscribed && is_on_one_host && job.size > 1;
    Thresholds {
        bcast_long: knobs.bytes(knob::COLL_BCAST_LONG),
        gather_long: knobs.bytes(knob::COLL_GATHER_LONG),
        scatter_long: knobs.bytes(knob::COLL_SCATTER_LONG),
        allgather_long: knobs.bytes(knob::COLL_ALLGATHER_LONG),
        alltoall_short: knobs.bytes(knob::COLL_ALLTOALL_SHORT),
        reduce_long: knobs.bytes(knob::COLL_REDUCE_LONG),
        allreduce_long: knobs.bytes(knob::COLL_ALLREDUCE_LONG),
        reduce_scatter_long: knobs.bytes(knob::COLL_REDUCE_SCATTER_LONG),
        oversubscribed_max: is_oversubscribed.then(|| knobs.bytes(knob::COLL_OVERSUBSCRIBED_MAX)),
        get_min: match knobs.choice(knob::SHM_SINGLE_COPY) {
            SingleCopy::Off => u64::MAX,
            SingleCopy::Auto | SingleCopy::Readv => knobs.bytes(knob::COLL_GET_MIN),
        },
        shm: knobs.is_on(knob::COLL_SHM),
        shm_max: is_flat.then(|| knobs.bytes(knob::COLL_SHM_MAX)),
        shm_pieces_max: knobs.bytes(knob::COLL_SHM_PIECES_MAX),
        hierarchical: knobs.is_on(knob::COLL_HIERARCHICAL),
        radix: knobs.count(knob::COLL_RADIX) as u32,
        lanes_min: knobs.bytes(knob::COLL_LANES_MIN),
        fan_max: knobs.bytes(knob::COLL_FAN_MAX),
        host_segment: host_segment(knobs, job).filter(|_| !is_on_one_host),
        piece: knobs.bytes(knob::COLL_PIECE),
        window: knobs.count(knob::COLL_WINDOW).min(u32::MAX.into()) as u32,
        reproducible: knobs.is_on(knob::COLL_REPRODUCIBLE),
    }
}

/// Returns a planner with the thresholds and the rules of the knobs. MPI_ERR_OTHER if a rule cannot
/// be parsed.
pub(crate) fn planner(knobs: &Knobs, thresholds: &Thresholds) -> Result<Planner> {
    let mut planner = Planner::new(thresholds);
    if let Some(text) = knobs.name(knob::COLL_RULES) {
        let rules = rule_text::parse(text, config::parse_bytes);
        let rules = rules.map_err(|why| Error::new(Class::Other, format!("coll.rules: {why}")))?;
        planner.selection_mut().prefer_all(rules);
    }
    Ok(planner)
}

/// Makes the rules in the hints of a new communicator known. MPI_ERR_INFO_VALUE if a rule cannot be
/// parsed.
pub fn add_rules(given: &Info) -> Result<()> {
    let Some(text) = given.value(COLL_RULES)? else { return Ok(()) };
    let invalid = |why: String| Error::new(Class::InfoValue, format!("{COLL_RULES}: {why}"));
    let text = std::str::from_utf8(text).map_err(|why| invalid(why.to_string()))?;
    let rules = rule_text::parse(text, config::parse_bytes).map_err(invalid)?;
    with(|p| {
        p.core()?.planner.get_mut().add_rules(text, rules);
        Ok(())
    })
}

/// Returns how the ranks of this host use the segment of a communicator over several hosts.
fn host_segment(knobs: &Knobs, job: &Job) -> Option<HostSegment> {
    let counter = HostSegment::Counter { max: knobs.bytes(knob::COLL_OVERSUBSCRIBED_MAX) };
    let flags = HostSegment::Flags { max: knobs.bytes(knob::COLL_SHM_MAX) };
    match job.local_size {
        1 => None,
        _ if job.is_oversubscribed() => Some(counter),
        _ => Some(flags),
    }
}

impl Process {
    /// Checks and plans a call on `comm` that others may follow before it is over.
    pub fn plan(&self, comm: &Comm, operation: &Operation<'_>) -> Result<Plan> {
        let core = self.core.as_deref().ok_or_else(|| not_running(self.world_model.init_state))?;
        core.planner.borrow_mut().plan(operation, comm)
    }

    /// Checks and plans a blocking call on `comm`. Runs it inline if it waits for no messages, and
    /// suspends it after a number of polls.
    #[inline]
    pub fn begin(
        &self,
        fast_path: FastPath,
        comm: &Comm,
        operation: &Operation<'_>,
    ) -> Result<Started> {
        let core = self.core.as_deref().ok_or_else(|| not_running(self.world_model.init_state))?;
        core.planner
            .borrow_mut()
            .with_plan(operation, comm, |plan| begin_plan(fast_path, plan, comm))
    }

    /// Checks and plans a persistent call on `comm`.
    pub fn plan_persistent(&self, comm: &Comm, operation: &Operation<'_>) -> Result<Started> {
        let core = self.core.as_deref().ok_or_else(|| not_running(self.world_model.init_state))?;
        core.planner.borrow_mut().plan_persistent(operation, comm).map(Started::Planned)
    }

    /// Counts a call that was refused for its arguments as a collective that has failed here: the
    /// other members, whose call may be a good one, learn of it and stay in step.
    #[cold]
    pub fn refuse_collective(&mut self, comm: usize, is_persistent: bool) {
        let Ok(object) = self.comm(comm) else { return };
        let (context, rank) = (2 * object.context() + 1, object.rank());
        let latest = object.latest_call().clone();
        let is_alone = object.peers().size() == 1 && !object.is_inter();
        let sequence = match is_persistent {
            true => object.next_persistent_collective(),
            false => object.next_collective(),
        };
        if let Some(core) = self.core.as_deref_mut().filter(|_| !is_alone) {
            core.collectives.mark_refused(context, sequence, rank, &latest);
        }
    }

    /// Starts a plan as the next collective of its communicator.
    pub(crate) fn start_plan(&mut self, comm: usize, plan: Plan) -> Result<CollectiveId> {
        let sequence = self.comm(comm)?.next_collective();
        self.start_numbered(plan, sequence)
    }

    /// Takes the result of a collective that has ended.
    fn result_of(&mut self, id: CollectiveId, comm: usize) -> Option<Result<()>> {
        let result = self.core().ok()?.collectives.finish(id)?;
        Some(result.map_err(|fault| fault::explain_collective(self, comm, &fault)))
    }

    /// Starts a plan that has its number already.
    pub(crate) fn start_numbered(&mut self, plan: Plan, sequence: i32) -> Result<CollectiveId> {
        let core = self.core()?;
        let stack = &mut core.stack;
        let started =
            core.collectives.start(&mut stack.protocols.pt2pt, &mut stack.endpoint, plan, sequence);
        stack.poll_if_requested();
        started
    }
}

/// Runs a plan to its end.
pub fn run(comm: usize, plan: Plan) -> Result<()> {
    let id = with(|p| p.start_plan(comm, plan))?;
    wait_for(id, comm)
}

/// The state of a blocking call when it releases the lock for the first time.
pub enum Started {
    /// It is complete.
    Over,
    /// An inline run that was not complete after its polls.
    Suspended(Suspended),
    /// It is planned and not started.
    Planned(Plan),
}

/// Completes a blocking call.
#[inline]
pub fn finish(comm: usize, started: Started) -> Result<()> {
    match started {
        Started::Over => Ok(()),
        Started::Planned(plan) => run(comm, plan),
        Started::Suspended(inline_run) => {
            let id = with(|p| p.core().map(|core| core.collectives.resume_as_active(inline_run)))?;
            wait_for(id, comm)
        }
    }
}

/// How a call that waits for no messages runs inline.
#[derive(Clone, Copy)]
pub enum FastPath {
    /// Polls a few times and yields the processor in between.
    Yields,
    /// Polls for some time.
    Spins,
    /// Polls once: others may wait for this rank to handle their messages.
    Once,
    /// Takes the general path instead.
    Off,
}

/// Returns the fast path of the next blocking collective. One call in [`CALLS_PER_PROGRESS`] takes
/// the general path, so that ranks that never block still make progress for others.
#[inline]
pub fn next_fast_path() -> FastPath {
    if LOCK.spins_alone() {
        if is_every_nth_call() {
            LOCK.progress_once();
        }
        return FastPath::Spins;
    }
    if LOCK.starts_with_yield() && !is_every_nth_call() { FastPath::Yields } else { FastPath::Off }
}

/// Begins a blocking call on `comm` by its plan, like [`Process::begin`].
#[inline]
pub(crate) fn begin_plan(fast_path: FastPath, plan: &Plan, comm: &Comm) -> Started {
    match plan.may_run_inline() {
        true => run_inline(fast_path, plan, comm),
        false => Started::Planned(plan.clone()),
    }
}

/// Polls the segment only; falls back to the executor, which costs more when caches are cold.
#[inline]
fn run_inline(fast_path: FastPath, plan: &Plan, comm: &Comm) -> Started {
    let (polls, rest): (u32, fn()) = match fast_path {
        FastPath::Yields => (YIELDING_POLLS, std::thread::yield_now),
        FastPath::Spins => (SPINNING_POLLS, || LOCK.cpu_relax()),
        FastPath::Once => (1, || {}),
        FastPath::Off => return Started::Planned(plan.clone()),
    };
    let mut inline_run = InlineRun::new(plan, comm.next_collective());
    let (mut round, mut vain) = (0, 0);
    while vain < polls {
        if inline_run.go() {
            return Started::Over;
        }
        // Long vectors go through many rounds, each of which may need some polls.
        vain = if inline_run.round() == round { vain + 1 } else { 1 };
        round = inline_run.round();
        rest();
    }
    Started::Suspended(inline_run.suspend())
}

/// Returns true for one call in [`CALLS_PER_PROGRESS`].
#[inline]
fn is_every_nth_call() -> bool {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Relaxed, and no read-modify-write: a lost increment does no harm.
    let calls = CALLS.load(Ordering::Relaxed);
    CALLS.store(calls.wrapping_add(1), Ordering::Relaxed);
    calls.is_multiple_of(CALLS_PER_PROGRESS)
}

/// Starts a plan; returns the handle of its request.
pub fn start(comm: usize, plan: Plan) -> Result<usize> {
    with(|p| {
        let id = p.start_plan(comm, plan)?;
        Ok(p.requests.insert(Request::collective(comm, id)) as usize)
    })
}

/// Keeps a plan to be started later, as the next persistent collective of its communicator;
/// returns the handle of its request.
///
/// All starts have the number of this initialisation, so ranks may start theirs in any order. One
/// rank may be a start ahead of another: between two ranks each start sends and receives the same
/// messages, and a rank posts those of a start after those of the start before, so the order of
/// messages keeps the starts apart.
pub fn init(comm: usize, plan: Plan) -> Result<usize> {
    with(|p| {
        let number = p.comm(comm)?.next_persistent_collective();
        let start = Persistent::Collective { plan, number };
        Ok(p.requests.insert(Request::persistent(comm, start)) as usize)
    })
}

/// Waits until a collective has ended.
pub(crate) fn wait_for(id: CollectiveId, comm: usize) -> Result<()> {
    block_on(|p| {
        p.wait_target = WaitTarget::Collective(id);
        p.result_of(id, comm)
    })
}

/// Returns the result of a collective if it has ended.
pub(crate) fn poll_for(id: CollectiveId, comm: usize) -> Option<Result<()>> {
    with(|p| p.result_of(id, comm))
}

impl Agreement {
    /// Starts an allreduce that returns the largest proposal of each host's members.
    pub(crate) fn start(p: &mut Process, comm: usize, proposal: u64) -> Result<Agreement> {
        let core = p.core.as_deref().ok_or_else(|| not_running(p.world_model.init_state))?;
        let (host, hosts) = core.place_among_hosts(p.comm(comm)?);
        let mut words = vec![0; hosts].into_boxed_slice();
        words[host] = proposal;
        let count = hosts as u64;
        let (ty, op) = (predefined_type(UINT64), predefined_op(MAX));
        // SAFETY: the box lives in the result until the collective has ended, and moving a box does
        // not move what it points to.
        let area = unsafe { Area::of(words.as_mut_ptr().cast(), count, ty) };
        let vector = Vector { send: None, recv: Some(area), ty, handle: UINT64, op: &op };
        let plan = p
            .plan(p.comm(comm)?, &Operation::AllreduceOfBoth { vector, count })?
            .of_kind(CollectiveKind::CommCreate);
        Ok(Agreement::new(p.start_plan(comm, plan)?, words, host))
    }

    /// Waits for the result.
    pub(crate) fn wait(self, comm: usize) -> Result<Agreed> {
        wait_for(self.id(), comm)?;
        Ok(self.agreed())
    }
}

/// Returns the bytes of all members of the local group, in order of rank. All members give equally
/// many. Collective.
pub(crate) fn exchange(comm: usize, mine: &[u8]) -> Result<Vec<u8>> {
    exchange_as(CollectiveKind::CommCreate, comm, mine)
}

/// Like [`exchange`], with another kind on the wire.
pub(crate) fn exchange_as(kind: CollectiveKind, comm: usize, mine: &[u8]) -> Result<Vec<u8>> {
    let local = with(|p| p.comm(comm).map(Comm::local))?;
    gather_all(kind, comm, &local, mine)
}

/// Returns the bytes of all members of the remote group, in order of rank. Collective over an
/// intercommunicator.
pub(crate) fn exchange_between(comm: usize, mine: &[u8]) -> Result<Vec<u8>> {
    let whole = with(|p| p.comm(comm).cloned())?;
    gather_all(CollectiveKind::CommCreate, comm, &whole, mine)
}

fn gather_all(kind: CollectiveKind, comm: usize, members: &Comm, mine: &[u8]) -> Result<Vec<u8>> {
    let (mut mine, ty, count) = (mine.to_vec(), predefined_type(BYTE), mine.len() as u64);
    let mut all = vec![0u8; members.peers().size() as usize * mine.len()];
    // SAFETY: both vectors live until `run_as` returns, when the collective has ended.
    // Neither is used or moved before.
    let (send, recv) = unsafe {
        (Area::of(mine.as_mut_ptr(), count, ty), Area::of(all.as_mut_ptr(), all.len() as u64, ty))
    };
    let (send, recv) = (Some(Data { area: send, count, ty }), Data { area: recv, count, ty });
    run_as(kind, comm, members, &Operation::Allgather { send, recv })?;
    Ok(all)
}

/// Returns where each of several blocks that follow each other begins.
pub(crate) fn starts(lengths: &[u64]) -> Vec<i64> {
    let sums = lengths.iter().scan(0, |next, &len| {
        let start = *next;
        *next += len as i64;
        Some(start)
    });
    sums.collect()
}

/// Broadcasts the bytes of `root` in an intracommunicator. Collective.
pub(crate) fn broadcast(comm: usize, root: u32, bytes: &mut [u8]) -> Result<()> {
    broadcast_as(CollectiveKind::CommCreate, comm, root, bytes)
}

/// Like [`broadcast`], with another kind on the wire.
pub(crate) fn broadcast_as(
    kind: CollectiveKind,
    comm: usize,
    root: u32,
    bytes: &mut [u8],
) -> Result<()> {
    let (members, ty) = (with(|p| p.comm(comm).map(Comm::local))?, predefined_type(BYTE));
    // SAFETY: the bytes are borrowed until `run_as` returns, when the collective has
    // ended.
    let area = unsafe { Area::of(bytes.as_mut_ptr(), bytes.len() as u64, ty) };
    let data = Data { area, count: bytes.len() as u64, ty };
    run_as(kind, comm, &members, &Operation::Bcast { root, data })
}

/// Runs one of the library's own operations among `members`, as the next collective of `comm`.
fn run_as(
    kind: CollectiveKind,
    comm: usize,
    members: &Comm,
    operation: &Operation<'_>,
) -> Result<()> {
    let plan = with(|p| p.plan(members, operation))?.of_kind(kind);
    run(comm, plan)
}

/// Runs the barrier of MPI_Finalize.
pub(crate) fn final_barrier(comm: usize) -> Result<()> {
    let plan =
        with(|p| p.plan(p.comm(comm)?, &Operation::Barrier))?.of_kind(CollectiveKind::Internal);
    run(comm, plan)
}

fn predefined_type(handle: usize) -> &'static Datatype {
    Datatype::predefined(handle).unwrap_or_else(Datatype::byte)
}

fn predefined_op(handle: usize) -> Op {
    Op::predefined(handle).expect("MPI_MAX is predefined")
}
