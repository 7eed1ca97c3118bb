//! The planner: makes plans of calls, and keeps them.
//!
//! Three things are kept. Schedules of calls that consist of a few numbers are kept by these
//! numbers alone; therefore communicators share them. The latest calls are kept whole except for
//! their addresses ([`CacheKey`]); therefore repeating a small collective costs a comparison.
//! Locations of ranks are kept for each communicator that has set them
//! ([`Planner::set_locations`]). Calls with long lists are planned anew each time.

use std::ops::Range;
use std::sync::Arc;

use fabric::{Peer, PeerFailed};
use hashbrown::HashMap;
use objects::{Class, Comm, Error, Result};
use rustc_hash::FxBuildHasher;

use crate::builder::Builder;
use crate::cache_key::CacheKey;
use crate::call::Call;
use crate::coll_args::CollArgs;
use crate::kept_lists::KeptLists;
use crate::level::{Level, RankLocation};
use crate::operation::Operation;
use crate::plan::{Plan, SharedSegment};
use crate::position::Position;
use crate::rule_text;
use crate::schedule::Schedule;
use crate::schedule_key::{ALLREDUCE_OF_BOTH, ScheduleKey};
use crate::select::{Rule, Selection};
use crate::thresholds::{SegmentUse, Thresholds};
use crate::topology::Topology;

/// Schedules kept at once; all are forgotten when there are more.
const MAX_SCHEDULES: usize = 512;
/// Schedules with more messages and rounds than this are not kept.
const MAX_KEPT_STEPS: usize = 2048;
/// From so many tables of locations on, new ones replace those that no communicator has.
const KEPT_TABLES: usize = 32;
/// Log2 of the number of rows of recent calls.
const ROW_BITS: u32 = 6;

/// Makes plans of calls.
pub struct Planner {
    selection: Selection,
    schedules: HashMap<ScheduleKey, Arc<Schedule>, FxBuildHasher>,
    /// The last two calls of each row, the later one first.
    recent: [[Option<CacheEntry>; 2]; 1 << ROW_BITS],
    topologies: Topologies,
    /// Rules of communicators as text, and the table of rules with them before all others. Named
    /// like tables of locations: 0 stands for the table without them.
    of_rules: Vec<(Box<str>, Selection)>,
    /// Processes that have failed: no collective succeeds on their communicators.
    failed: Vec<PeerFailed>,
}

/// Stands for a table where members are of several jobs: none of them knows where all are, and what
/// they share.
const SEVERAL_JOBS: u32 = u32::MAX;

/// A call that was planned.
struct CacheEntry {
    key: CacheKey,
    /// Those of the call, if it has some.
    lists: KeptLists,
    /// With the addresses of the last call.
    plan: Plan,
}

/// Tables of the locations of ranks. A table is named by its number plus 1; 0 stands for one host,
/// unknown inside.
#[derive(Default)]
struct Topologies {
    tables: Vec<Topology>,
    /// How many communicators have each table.
    users: Vec<u32>,
    /// The processes of MPI_COMM_WORLD.
    numbers: Range<u32>,
    /// There may be communicators with members of other jobs.
    meets_other_jobs: bool,
    /// The location of each of them; empty where nothing is known.
    world: Vec<RankLocation>,
    /// The table of each communicator that has one, by context id.
    of_comm: HashMap<u64, u32, FxBuildHasher>,
}

impl Topologies {
    /// Sets the table of a communicator that has none. Returns the name of a table that it takes
    /// the place of, if there is one.
    fn set(&mut self, context: u64, table: Topology) -> Option<u32> {
        let known = self.tables.iter().position(|known| *known == table);
        let is_full = self.tables.len() >= KEPT_TABLES;
        let unused = || self.users.iter().position(|&users| users == 0).filter(|_| is_full);
        let replaced = if known.is_some() { None } else { unused() };
        let index = known.or(replaced).unwrap_or(self.tables.len());
        if index == self.tables.len() {
            self.tables.push(table);
            self.users.push(0);
        } else if replaced.is_some() {
            self.tables[index] = table;
        }
        self.users[index] += 1;
        self.of_comm.insert(context, index as u32 + 1);
        replaced.map(|index| index as u32 + 1)
    }

    /// Forgets the table of a communicator.
    fn forget(&mut self, context: u64) {
        let table = self.of_comm.remove(&context);
        if let Some(table) = table.filter(|table| *table != SEVERAL_JOBS) {
            self.users[table as usize - 1] -= 1;
        }
    }

    /// Returns the location of a process; `None` if none is known, or it is of another job.
    fn location(&self, peer: Peer) -> Option<RankLocation> {
        let rank = peer.0.checked_sub(self.numbers.start)?;
        self.world.get(rank as usize).copied()
    }

    fn of(&self, comm: &Comm) -> u32 {
        let table = self.of_comm.get(&comm.context()).copied();
        table.filter(|table| *table == SEVERAL_JOBS || !comm.is_inter()).unwrap_or(0)
    }

    fn position(&self, rank: u32, size: u32, table: u32) -> Position<'_> {
        match table {
            0 | SEVERAL_JOBS => Position::new(rank, size),
            table => Position::in_topology(rank, &self.tables[table as usize - 1]),
        }
    }
}

impl Planner {
    /// A planner that selects by these thresholds.
    pub fn new(thresholds: &Thresholds) -> Planner {
        Planner {
            selection: Selection::new(thresholds),
            schedules: HashMap::default(),
            recent: [const { [None, None] }; 1 << ROW_BITS],
            topologies: Topologies::default(),
            of_rules: Vec::new(),
            failed: Vec::new(),
        }
    }

    /// Sets the processes that have failed. From now on a call on a communicator that has one of
    /// them is refused with MPI_ERR_PROC_ABORTED. Cached plans are dropped, so that each
    /// communicator is looked at.
    pub fn set_failed_peers(&mut self, failed: &[PeerFailed]) {
        self.recent = [const { [None, None] }; 1 << ROW_BITS];
        self.failed = failed.to_vec();
    }

    /// Returns MPI_ERR_PROC_ABORTED if a process of the communicator has failed.
    pub fn check_members(&self, comm: &Comm) -> Result<()> {
        let has = |failed: &&PeerFailed| {
            comm.group().contains(failed.peer)
                || comm.remote().is_some_and(|remote| remote.contains(failed.peer))
        };
        match self.failed.iter().find(has) {
            Some(failed) => Err(Error::new(Class::ProcAborted, failed.to_string())),
            None => Ok(()),
        }
    }

    /// Returns the table of rules, to change it; cached plans are dropped.
    pub fn selection_mut(&mut self) -> &mut Selection {
        self.schedules.clear();
        self.recent = [const { [None, None] }; 1 << ROW_BITS];
        &mut self.selection
    }

    /// Makes known what rules of communicators ([`Comm::coll_rules`]) with this text are.
    pub fn add_rules(&mut self, text: &str, rules: Vec<Rule>) {
        if self.rules_of(Some(text)) == 0 {
            let mut selection = self.selection.clone();
            selection.prefer_all(rules);
            self.of_rules.push((text.into(), selection));
        }
    }

    /// The number of the table of rules for a text.
    fn rules_of(&self, text: Option<&str>) -> u32 {
        let Some(text) = text else { return 0 };
        self.of_rules.iter().position(|(of, _)| **of == *text).map_or(0, |at| at as u32 + 1)
    }

    fn selection(&self, rules: u32, topology: u32) -> &Selection {
        let own = rules.checked_sub(1).map(|at| &self.of_rules[at as usize].1);
        let selection = own.unwrap_or(&self.selection);
        if topology == SEVERAL_JOBS { selection.of_several_jobs() } else { selection }
    }

    /// Sets the locations of the ranks of an intracommunicator. All ranks must pass the same table,
    /// between the same two collectives.
    pub fn set_locations(&mut self, comm: &Comm, locations: &[RankLocation]) {
        debug_assert_eq!(locations.len(), comm.size() as usize);
        self.forget(comm);
        self.set_topology(comm, Topology::new(locations));
    }

    /// Sets the table of a communicator that has none.
    fn set_topology(&mut self, comm: &Comm, table: Topology) {
        if let Some(replaced) = self.topologies.set(comm.context(), table) {
            self.schedules.retain(|key, _| key.topology != replaced);
        }
    }

    /// Sets the processes of MPI_COMM_WORLD and the location of each of them. Switches and hosts
    /// must be the same on all ranks of the job, parts of a host on the ranks of that host. The
    /// tables of communicators without locations are made from it, when they are first needed.
    pub fn set_world(&mut self, numbers: Range<u32>, locations: Vec<RankLocation>) {
        self.topologies.numbers = numbers;
        self.topologies.world = locations;
    }

    /// Takes note that communicators may have members of other jobs.
    pub fn meet_other_jobs(&mut self) {
        self.topologies.meets_other_jobs = true;
    }

    /// Describes which algorithms collectives on MPI_COMM_WORLD take, for each operation that has
    /// several. `show` prints sizes.
    pub fn describe(&self, size: u32, segment: SegmentUse, show: impl Fn(u64) -> String) -> String {
        let table =
            (!self.topologies.world.is_empty()).then(|| Topology::new(&self.topologies.world));
        let pos = match &table {
            Some(table) => Position::in_topology(0, table),
            None => Position::new(0, size),
        };
        let chosen = rule_text::KINDS.into_iter().filter_map(|(name, kind)| {
            let by = self.selection.describe(kind, pos, segment, &show)?;
            Some(format!("{name} {by}"))
        });
        chosen.collect::<Vec<_>>().join("; ")
    }

    /// Returns the location of a process of MPI_COMM_WORLD; `None` if none is known.
    pub fn world_location_of(&self, peer: Peer) -> Option<RankLocation> {
        self.topologies.location(peer)
    }

    /// Returns the switch and the host of a process of MPI_COMM_WORLD; `None` in a job on one host.
    pub fn world_host_of(&self, peer: Peer) -> Option<[Option<u64>; 2]> {
        let location = self.world_location_of(peer)?;
        Some([Level::Switch, Level::Host].map(|level| location.0[level as usize]))
    }

    /// Makes the table of a communicator from the locations of its processes, unless it has one.
    fn locate(&mut self, comm: &Comm) {
        let Topologies { world, numbers, meets_other_jobs, of_comm, .. } = &self.topologies;
        if of_comm.contains_key(&comm.context()) {
            return;
        }
        let mut members = comm.group().iter().chain(comm.peers().iter());
        if *meets_other_jobs && members.any(|peer| !numbers.contains(&peer.0)) {
            self.topologies.of_comm.insert(comm.context(), SEVERAL_JOBS);
        } else if !world.is_empty() && !comm.is_inter() {
            let location = |peer| self.topologies.location(peer).unwrap_or_default();
            let locations: Vec<RankLocation> = comm.group().iter().map(location).collect();
            self.set_topology(comm, Topology::new(&locations));
        }
    }

    /// This rank's position in a communicator, with what is known of the machine.
    pub fn position(&self, comm: &Comm) -> Position<'_> {
        self.topologies.position(comm.rank(), comm.size(), self.topologies.of(comm))
    }

    /// Checks a call and plans it. Others may begin before it is over; therefore it takes one round
    /// of a segment of all ranks at most. Errors: MPI_ERR_ROOT, MPI_ERR_COUNT, MPI_ERR_TRUNCATE,
    /// MPI_ERR_BUFFER, MPI_ERR_OP, MPI_ERR_ARG, and MPI_ERR_COMM for what is not defined on
    /// intercommunicators.
    #[inline]
    pub fn plan(&mut self, operation: &Operation, comm: &Comm) -> Result<Plan> {
        self.with_plan_of(operation, comm, SegmentUse::FewRounds, Plan::clone)
    }

    /// Plans a blocking call like [`Planner::plan`] and lends the plan to `then`. All ranks must
    /// call the same of the two.
    #[inline]
    pub fn with_plan<R>(
        &mut self,
        operation: &Operation,
        comm: &Comm,
        then: impl FnOnce(&Plan) -> R,
    ) -> Result<R> {
        self.with_plan_of(operation, comm, SegmentUse::Anything, then)
    }

    #[inline]
    fn with_plan_of<R>(
        &mut self,
        operation: &Operation,
        comm: &Comm,
        segment: SegmentUse,
        then: impl FnOnce(&Plan) -> R,
    ) -> Result<R> {
        let Some((key, send, recv)) = CacheKey::of(operation, comm, segment) else {
            return self.plan_anew(operation, comm, segment).map(|plan| then(&plan));
        };
        let row = key.hash(ROW_BITS);
        let is_it = |entry: &CacheEntry| {
            key.is(&entry.key)
                && entry.lists.are_of(operation)
                && !Call::is_aliased(send, recv)
                && entry.plan.is_possible()
        };
        if let Some(entry) = self.recent[row].iter_mut().flatten().find(|entry| is_it(entry)) {
            entry.plan.set_buffers(send, recv);
            return Ok(then(&entry.plan));
        }
        let plan = self.plan_anew(operation, comm, segment)?;
        let [latest, before] = &mut self.recent[row];
        *before = latest.take();
        let lists = KeptLists::of(operation);
        Ok(then(&latest.insert(CacheEntry { key, lists, plan }).plan))
    }

    /// Plans a call that may be started in any order with others. It uses no collective segment,
    /// whose rounds belong together by their order.
    pub fn plan_persistent(&mut self, operation: &Operation, comm: &Comm) -> Result<Plan> {
        self.plan_anew(operation, comm, SegmentUse::Nothing)
    }

    /// Plans a call with a schedule that `write` makes, in place of a selected one: for algorithms
    /// that no selection knows yet. The plan is not cached, since no key names the closure.
    /// `segment`: the collective segment that the schedule may use. All ranks must do so for the
    /// same call.
    pub fn plan_custom(
        &mut self,
        operation: &Operation,
        comm: &Comm,
        segment: Option<SharedSegment>,
        write: impl FnOnce(&mut Builder, &CollArgs, Position),
    ) -> Result<Plan> {
        let call = Call::new(operation, comm)?;
        let mut b = Builder::new();
        self.locate(comm);
        let position = self.position(comm);
        match &call.lists {
            None => call.key.with_args(|args| write(&mut b, args, position)),
            Some(lists) => write(&mut b, &lists.args(&call.key)?, position),
        }
        let (schedule, bytes) = (Arc::new(b.finish()), call.block_bytes()?);
        let areas = [call.send, call.recv];
        Ok(Plan::new(schedule, segment, operation, comm, call.types, areas, bytes))
    }

    /// Forgets the calls on a communicator that is freed, and with them its collective segment; and
    /// where its ranks are.
    pub fn forget(&mut self, comm: &Comm) {
        let is_on_it = |entry: &&mut Option<CacheEntry>| {
            entry.as_ref().is_some_and(|entry| entry.key.is_on(comm.context()))
        };
        self.recent.as_flattened_mut().iter_mut().filter(is_on_it).for_each(|entry| *entry = None);
        self.topologies.forget(comm.context());
    }

    #[cold]
    fn plan_anew(
        &mut self,
        operation: &Operation,
        comm: &Comm,
        segment_use: SegmentUse,
    ) -> Result<Plan> {
        let may_get = segment_use == SegmentUse::Anything
            && comm.coll_segment().is_some_and(|segment| segment.has_get());
        let plan = |planner: &mut Planner, by| planner.plan_by(operation, comm, by);
        if !may_get {
            return plan(self, segment_use);
        }
        let by_gets = plan(self, SegmentUse::Gets)?;
        Ok(match by_gets.schedule().has_gets() {
            true => by_gets.or_without_gets(plan(self, segment_use)?),
            false => by_gets,
        })
    }

    fn plan_by(
        &mut self,
        operation: &Operation,
        comm: &Comm,
        segment_use: SegmentUse,
    ) -> Result<Plan> {
        self.check_members(comm)?;
        let mut call = Call::new(operation, comm)?;
        self.locate(comm);
        call.key.rules = self.rules_of(comm.coll_rules());
        call.key.topology = self.topologies.of(comm);
        let selection = self.selection(call.key.rules, call.key.topology);
        let position = self.position(comm);
        let may_use = selection.may_use_segment(operation.kind(), position);
        let members = position.host_members().cloned();
        let segment_use = match segment_use {
            SegmentUse::Gets if members.is_some() => SegmentUse::Anything,
            _ => segment_use,
        };
        let segment = comm
            .coll_segment()
            .filter(|_| may_use && segment_use != SegmentUse::Nothing)
            .map(|segment| SharedSegment { segment: segment.clone(), members });
        call.key.segment = if segment.is_some() { segment_use } else { SegmentUse::Nothing };
        let bytes = call.block_bytes()?;
        let schedule = match call.lists {
            _ if matches!(operation, Operation::Absent { .. }) => Arc::default(),
            None => self.schedule(call.key),
            Some(lists) => Arc::new(self.write(&lists.args(&call.key)?, &call.key)),
        };
        let has_long_slots = || segment.as_ref().is_some_and(|at| at.segment.take_long_slots());
        if schedule.needs_long_slots() && !has_long_slots() {
            return self.plan_by(operation, comm, SegmentUse::Nothing);
        }
        let areas = [call.send, call.recv];
        Ok(Plan::new(schedule, segment, operation, comm, call.types, areas, bytes))
    }

    fn schedule(&mut self, key: ScheduleKey) -> Arc<Schedule> {
        if let Some(schedule) = self.schedules.get(&key) {
            return schedule.clone();
        }
        let schedule = Arc::new(key.with_args(|args| self.write(args, &key)));
        if schedule.messages().len() + schedule.rounds().len() <= MAX_KEPT_STEPS {
            if self.schedules.len() >= MAX_SCHEDULES {
                self.schedules.clear();
            }
            self.schedules.insert(key, schedule.clone());
        }
        schedule
    }

    fn write(&self, args: &CollArgs, key: &ScheduleKey) -> Schedule {
        let position = self.topologies.position(key.rank, key.size, key.topology);
        let selection = self.selection(key.rules, key.topology);
        match (key.kind, key.remote) {
            (_, 0) => selection.schedule(args, position, key.segment),
            (ALLREDUCE_OF_BOTH, _) => selection.schedule_of_both(args, position),
            (_, remote) => selection.schedule_between(args, position, remote),
        }
    }
}

#[cfg(test)]
mod tests {
    use objects::{Area, Datatype, Group};

    use super::*;
    use crate::operation::{Blocks, Data, Edges, Types};

    #[test]
    fn a_communicator_may_have_rules_of_its_own() {
        let mut comm = Comm::new("", 1, 0, Group::world(9));
        let bcast = Operation::Bcast {
            data: Data { area: Area::EMPTY, count: 8, ty: Datatype::byte() },
            root: 0,
        };
        let mut planner = Planner::new(&Thresholds::default());
        let messages = |planner: &mut Planner, comm: &Comm| {
            planner.plan(&bcast, comm).unwrap().schedule().messages().len()
        };
        assert_eq!(messages(&mut planner, &comm), 4);
        let rules = vec![Rule::new(fabric::CollectiveKind::Bcast, crate::Algorithm::Linear)];
        planner.add_rules("bcast=linear", rules);
        assert_eq!(messages(&mut planner, &comm), 4);
        comm = comm.duplicate(2);
        let mut hints = objects::Info::new();
        hints.set(objects::comm::COLL_RULES, "bcast=linear").unwrap();
        comm.set_first_hints(&hints).unwrap();
        assert_eq!(messages(&mut planner, &comm), 8);
        assert_eq!(messages(&mut planner, &comm.local()), 8, "plans of both are cached together");
        assert_eq!(messages(&mut planner, &comm.duplicate(3)), 4, "hints are not inherited");
    }

    #[test]
    fn tables_of_freed_communicators_are_replaced_with_their_schedules() {
        let mut planner = Planner::new(&Thresholds::default());
        let kept = Comm::new("", 1, 0, Group::world(200));
        planner.set_locations(&kept, &[RankLocation::on_host(7); 200]);
        for ranks in 2..150 {
            let comm = Comm::new("", u64::from(ranks), 0, Group::world(ranks));
            // Another number of hosts each time.
            let hosts: Vec<_> = (0..u64::from(ranks)).map(RankLocation::on_host).collect();
            planner.set_locations(&comm, &hosts);
            assert_eq!(planner.position(&comm).hosts(), ranks);
            planner.plan(&Operation::Barrier, &comm).unwrap();
            planner.forget(&comm);
            assert_eq!(planner.position(&kept).hosts(), 1);
        }
        assert_eq!(planner.topologies.tables.len(), KEPT_TABLES);
        assert!(planner.schedules.len() < KEPT_TABLES);
    }

    #[test]
    fn jobs_with_different_machines_take_the_same_algorithms_together() {
        let mut planner = Planner::new(&Thresholds::default());
        planner.set_world(5..8, (0..3).map(RankLocation::on_host).collect());
        planner.meet_other_jobs();
        let hosts = |planner: &mut Planner, context, numbers: &[u32]| {
            let group: Group = numbers.iter().copied().map(Peer).collect();
            let comm = Comm::new("", context, 0, group);
            planner.plan(&Operation::Barrier, &comm).unwrap();
            planner.position(&comm).hosts()
        };
        assert_eq!(planner.world_location_of(Peer(6)), Some(RankLocation::on_host(1)));
        assert_eq!([4, 8].map(|number| planner.world_location_of(Peer(number))), [None; 2]);
        assert_eq!(hosts(&mut planner, 1, &[5, 6, 7]), 3);
        for (context, numbers) in [(2, [0, 5, 6]), (3, [5, 6, 9])] {
            assert_eq!(hosts(&mut planner, context, &numbers), 1, "{numbers:?}");
        }
        // Some share processors on one host, others have several hosts, one is alone.
        let crowded = Thresholds { oversubscribed_max: Some(4096), ..Thresholds::default() };
        let flags = Thresholds { shm_max: Some(4096), ..Thresholds::default() };
        let of_host = Some(crate::HostSegment::Counter { max: 4096 });
        let hosts = Thresholds { host_segment: of_host, ..Thresholds::default() };
        let group: Group = [0, 1, 2, 5, 6, 7, 9].into_iter().map(Peer).collect();
        let comm = Comm::new("", 4, 2, group);
        let steps = [Thresholds::default(), crowded, flags, hosts].map(|thresholds| {
            let mut planner = Planner::new(&thresholds);
            planner.set_world(1..3, Vec::new());
            planner.meet_other_jobs();
            planner.plan(&Operation::Barrier, &comm).unwrap().schedule().messages().to_vec()
        });
        assert!(steps.iter().all(|messages| *messages == steps[0]));
    }

    #[test]
    fn any_two_calls_that_alternate_are_both_kept() {
        let comm = Comm::new("", 1, 0, Group::world(4));
        let bcast = |count| Operation::Bcast {
            data: Data { area: Area::EMPTY, count, ty: Datatype::byte() },
            root: 0,
        };
        let kept = |planner: &Planner| {
            let entry = planner.recent.as_flattened().iter().flatten();
            entry.map(|entry| std::ptr::from_ref(entry.plan.schedule())).collect::<Vec<_>>()
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

    #[test]
    fn a_call_with_the_same_lists_is_kept() {
        let [byte, word] = [0x247, 0x259].map(|handle| Datatype::predefined(handle).unwrap());
        let comm = Comm::new("", 1, 0, Group::world(3));
        let mut planner = Planner::new(&Thresholds::default());
        let schedule = |planner: &mut Planner, operation: &Operation| {
            let plan = planner.plan(operation, &comm).unwrap();
            std::ptr::from_ref(plan.schedule())
        };
        let blocks = |counts, displs, types| Blocks { area: Area::EMPTY, counts, displs, types };
        let (counts, displs) = (&[1, 2, 3], &[0, 8, 16]);
        let both = [[byte.clone(), word.clone(), word.clone()], [(); 3].map(|()| byte.clone())];
        let [each, other] = [&both[0], &both[1]].map(|types| Types::Each(types));
        let edges = [&[Some(1), None], &[Some(2), None]].map(|sources: &[Option<u32>; 2]| Edges {
            sources,
            destinations: &[Some(1)],
            cartesian: false,
        });
        let one = Data { area: Area::EMPTY, count: 1, ty: byte };
        let exchange = |recv| Operation::Alltoallv { send: None, recv };
        let neighbors = |edges| Operation::NeighborAllgather { edges, send: one, recv: one };
        for [operation, different] in [
            [
                exchange(blocks(counts, displs, Types::One(byte))),
                exchange(blocks(&[1, 2, 4], displs, Types::One(byte))),
            ],
            [
                exchange(blocks(counts, displs, Types::One(byte))),
                exchange(blocks(counts, &[0, 8, 24], Types::One(byte))),
            ],
            [
                exchange(blocks(counts, displs, Types::One(byte))),
                exchange(blocks(counts, displs, Types::One(word))),
            ],
            [exchange(blocks(counts, displs, each)), exchange(blocks(counts, displs, other))],
            edges.map(neighbors),
        ] {
            let first = schedule(&mut planner, &operation);
            assert_eq!(schedule(&mut planner, &operation), first, "nothing is planned anew");
            assert_ne!(schedule(&mut planner, &different), first, "{different:?}");
        }
        let short = exchange(blocks(&counts[..2], displs, Types::One(byte)));
        assert!(planner.plan(&short, &comm).is_err());
    }
}
