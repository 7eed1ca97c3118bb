//! A job in one process: an engine on the simulated fabric for each rank, and
//! collectives that are started and progressed in random order. The ranks share
//! memory for collective segments.

mod refusing;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;

use collectives::{
    Active, Advance, CollectiveId, HostSegment, InlineRun, Operation, Passed, Plan, Planner,
    RankLocation, Rule, Thresholds, UserCall,
};
use fabric::coll_segment::MAX_FLAGS_RANKS;
use fabric::sim::{Manner, Options, SimTransport};
use fabric::{Caps, CollSegment, CollectiveKind, Peer};
use objects::{Area, Buffer, Comm, Datatype, Group, LatestCall};
use pt2pt::{Engine, Fault, Settings};
use shm_transport::{Segment, SingleCopy, SyncKind};

use self::refusing::Refusing;
use crate::random::Random;

/// One rank.
pub(crate) struct Process {
    pub(crate) pt2pt: Engine,
    pub(crate) transport: SimTransport,
    pub(crate) active: Active,
    pub(crate) planner: Planner,
    segment: Segment,
    /// Segments have flags.
    has_flags: bool,
    /// The host of each process; empty: one host.
    hosts: Vec<u32>,
    /// Of communicators that have been used, by context.
    segments: HashMap<u64, Arc<dyn CollSegment>>,
    host_segment: Option<Arc<dyn CollSegment>>,
    /// This rank may not read the memory of others.
    refuses_gets: bool,
    /// Segments have no memory for long slots.
    refuses_long_slots: bool,
    /// The rank in each communicator, and the number of its next collective, by context on the
    /// wire.
    started: HashMap<u64, (u32, i32, Arc<LatestCall>)>,
    /// A user's function that takes its time, and how long.
    pub(crate) away: Option<(UserCall, u64)>,
    random: Random,
}

impl Process {
    fn handle_notices(&mut self) {
        let Process { active, pt2pt, transport, segments, started, .. } = self;
        active.handle_notices(pt2pt, transport, |context| {
            let &(rank, next, ref latest) = started.get(&context)?;
            let segment = segments.get(&(context / 2)).cloned();
            Some(Passed { rank, next, segment, latest: latest.clone() })
        });
    }
}

/// The most times that ranks which wait ask others.
const MAX_INQUIRIES: u32 = 20;

/// All ranks.
pub(crate) struct World {
    pub(crate) ranks: Vec<Process>,
    /// Calls that [`World::plan`] plans block.
    pub(crate) is_blocking: bool,
    /// How many elements calls may have.
    pub(crate) counts: [u64; 6],
}

/// A fabric with whims, from a seed.
pub(crate) fn any_options(random: &mut Random) -> Options {
    let manners =
        [Manner::Immediate, Manner::Later, Manner::Refused, Manner::Cooperative, Manner::Whim];
    Options {
        caps: Caps {
            frame: 256,
            eager: [64, 200][random.below(2) as usize],
            get_min: [100, 300, 1000, u64::MAX][random.below(4) as usize],
            put_min: [400, u64::MAX][random.below(2) as usize],
            offload: fabric::Offload::Processor,
            late_puts: false,
        },
        max_delay: random.below(20),
        max_in_flight: 1 + random.below(6) as usize,
        no_space_permille: random.below(200) as u32,
        one_sided: manners[random.below(5) as usize],
        death: None,
        cut: None,
    }
}

impl World {
    pub(crate) fn new(size: u32, seed: u64, options: Options, thresholds: &Thresholds) -> World {
        let settings = Settings { unexpected_bytes_per_peer: 4096 };
        let file = Segment::file().unwrap();
        let start = |(rank, transport)| Process {
            segment: Segment::attach(file.as_fd(), 0, rank, size, 1 << 16, 1 << 16).unwrap(),
            pt2pt: Engine::new(Peer(rank), settings),
            transport,
            active: Active::new(),
            planner: Planner::new(thresholds),
            has_flags: match thresholds.host_segment {
                Some(segment) => matches!(segment, HostSegment::Flags { .. }),
                None => thresholds.oversubscribed_max.is_none() && thresholds.shm_max.is_some(),
            },
            hosts: Vec::new(),
            segments: HashMap::new(),
            host_segment: None,
            refuses_gets: false,
            refuses_long_slots: false,
            started: HashMap::new(),
            away: None,
            random: Random(seed),
        };
        let ranks = (0..).zip(fabric::sim::fabric(size, seed, options)).map(start).collect();
        World { ranks, is_blocking: false, counts: [0, 1, 2, 5, 40, 300] }
    }

    /// How many elements a call has.
    #[allow(dead_code, reason = "not all tests have random calls")]
    pub(crate) fn any_count(&self, random: &mut Random) -> u64 {
        self.counts[random.below(6) as usize]
    }

    /// Lets ranks read each other's memory; the system refuses that to rank `refused` later.
    #[allow(dead_code, reason = "not all tests have gets")]
    pub(crate) fn permit_gets(&mut self, refused: Option<usize>) {
        for (rank, process) in self.ranks.iter_mut().enumerate() {
            process.segment.permit_single_copy(SingleCopy::Readv);
            process.refuses_gets = refused == Some(rank);
        }
    }

    /// Refuses memory for long slots.
    #[allow(dead_code, reason = "not all tests have long slots")]
    pub(crate) fn refuse_long_slots(&mut self) {
        self.ranks.iter_mut().for_each(|process| process.refuses_long_slots = true);
    }

    /// Puts rules before all others.
    #[allow(dead_code, reason = "not all tests have rules")]
    pub(crate) fn prefer(&mut self, rules: &[Rule]) {
        for rank in &mut self.ranks {
            rank.planner.selection_mut().prefer_all(rules.to_vec());
        }
    }

    /// Plans an operation at one rank; panics if it is refused. The communicator with context n has
    /// segment n of rank 0.
    pub(crate) fn plan(&mut self, rank: usize, operation: &Operation, comm: &Comm) -> Plan {
        if self.is_blocking {
            return self.plan_blocking(rank, operation, comm);
        }
        let comm = self.with_segment(rank, comm);
        self.ranks[rank].planner.plan(operation, &comm).unwrap()
    }

    /// Plans a blocking call like [`World::plan`].
    #[allow(dead_code, reason = "not all tests have blocking calls")]
    pub(crate) fn plan_blocking(
        &mut self,
        rank: usize,
        operation: &Operation,
        comm: &Comm,
    ) -> Plan {
        let comm = self.with_segment(rank, comm);
        self.ranks[rank].planner.with_plan(operation, &comm, Plan::clone).unwrap()
    }

    /// Places processes on hosts, the ranks of which share segments.
    #[allow(dead_code, reason = "not all tests have several hosts")]
    pub(crate) fn place(&mut self, hosts: &[u64]) {
        let locations: Vec<RankLocation> =
            hosts.iter().map(|&host| RankLocation::on_host(host)).collect();
        let hosts: Vec<u32> = hosts.iter().map(|&host| host as u32).collect();
        for process in &mut self.ranks {
            let numbers = 0..locations.len() as u32;
            process.planner.set_world(numbers, locations.clone());
            process.hosts.clone_from(&hosts);
        }
    }

    fn with_segment(&mut self, rank: usize, comm: &Comm) -> Comm {
        let Process {
            segment, segments, has_flags, hosts, refuses_gets, refuses_long_slots, ..
        } = &mut self.ranks[rank];
        let (gets, long_slots) = (*refuses_gets, *refuses_long_slots);
        let own = comm.group().peer_of(comm.rank()).unwrap();
        let is_here = |peer: &Peer| hosts.get(peer.0 as usize) == hosts.get(own.0 as usize);
        let members: Vec<u32> = comm.group().iter().filter(is_here).map(|peer| peer.0).collect();
        let size = members.len() as u32;
        let lease = || -> Arc<dyn CollSegment> {
            let me = members.iter().position(|&member| member == own.0).unwrap() as u32;
            let (index, owner) = (comm.context() as u32, members.iter().min().unwrap());
            let sync = if *has_flags { SyncKind::Flags } else { SyncKind::Counter };
            let lease = segment.coll_segment(sync, *owner, index, &members, me).unwrap().unwrap();
            Arc::new(Refusing { lease, gets, long_slots })
        };
        let mut comm = comm.clone();
        if !comm.is_inter() && size > 1 && (!*has_flags || size <= MAX_FLAGS_RANKS) {
            comm.set_coll_segment(segments.entry(comm.context()).or_insert_with(lease).clone());
        }
        comm
    }

    /// Plans an operation that is started in any order with others.
    #[allow(dead_code, reason = "not all tests have persistent collectives")]
    pub(crate) fn plan_persistent(
        &mut self,
        rank: usize,
        operation: &Operation,
        comm: &Comm,
    ) -> Plan {
        let comm = self.with_segment(rank, comm);
        self.ranks[rank].planner.plan_persistent(operation, &comm).unwrap()
    }

    /// A lease of a segment whose members, `me` among them, count in one word.
    #[allow(dead_code, reason = "not all tests have segments of some ranks")]
    pub(crate) fn host_segment(
        &mut self,
        rank: usize,
        members: &[u32],
        me: u32,
    ) -> Arc<dyn CollSegment> {
        let Process { segment, host_segment, .. } = &mut self.ranks[rank];
        let lease = || segment.coll_segment(SyncKind::Counter, members[0], 3, members, me).unwrap();
        host_segment.get_or_insert_with(|| lease().unwrap()).clone()
    }

    /// Starts a collective; if it needs a segment, only at random as an inline run.
    pub(crate) fn start(&mut self, rank: usize, plan: Plan, sequence: i32) -> CollectiveId {
        let process = &mut self.ranks[rank];
        let latest = plan.latest().clone();
        process.started.insert(plan.context(), (plan.rank(), sequence + 1, latest));
        if plan.may_run_inline() && process.random.below(2) == 0 {
            let mut run = InlineRun::new(&plan, sequence);
            if !run.go() {
                return process.active.resume_as_active(run.suspend());
            }
            // A finished collective has no name: another one, which is over at once, stands for it.
            let nothing = Operation::Absent { kind: CollectiveKind::Barrier };
            let plan =
                process.planner.plan(&nothing, &Comm::new("", 9, 0, Group::world(1))).unwrap();
            return process
                .active
                .start(&mut process.pt2pt, &mut process.transport, plan, sequence)
                .unwrap();
        }
        process.active.start(&mut process.pt2pt, &mut process.transport, plan, sequence).unwrap()
    }

    /// Starts a collective for whose scratch memory there is no space.
    #[allow(dead_code, reason = "not all tests are out of memory")]
    pub(crate) fn start_without_memory(&mut self, rank: usize, plan: Plan, sequence: i32) {
        let process = &mut self.ranks[rank];
        let latest = plan.latest().clone();
        process.started.insert(plan.context(), (plan.rank(), sequence + 1, latest));
        let (pt2pt, transport) = (&mut process.pt2pt, &mut process.transport);
        let error = process.active.start(pt2pt, transport, plan, sequence).unwrap_err();
        assert_eq!(error.class(), objects::Class::NoMem);
    }

    /// Refuses a rank's collective for its arguments.
    #[allow(dead_code, reason = "not all tests have wrong arguments")]
    pub(crate) fn refuse(&mut self, rank: usize, comm: &Comm, sequence: i32) {
        let (process, context) = (&mut self.ranks[rank], 2 * comm.context() + 1);
        let latest = comm.latest_call();
        process.started.insert(context, (comm.rank(), sequence + 1, latest.clone()));
        process.active.mark_refused(context, sequence, comm.rank(), latest);
    }

    /// One round of progress at one rank; true if anything happened.
    pub(crate) fn progress(&mut self, rank: usize) -> bool {
        let process = &mut self.ranks[rank];
        if process.transport.is_dead() {
            return false;
        }
        let moved = fabric::protocol::progress(&mut process.transport, &mut process.pt2pt);
        if process.pt2pt.has_notices() {
            process.handle_notices();
        }
        match process.away.take() {
            Some((call, 0)) => {
                process.active.resume(call.run());
                return true;
            }
            Some((call, rounds)) => process.away = Some((call, rounds - 1)),
            None => {}
        }
        match process.active.advance(&mut process.pt2pt, &mut process.transport) {
            // It would sleep now.
            Advance::Idle => {
                moved
                    || process.away.is_some()
                    || process.active.has_segment_work(&mut process.pt2pt, &mut process.transport)
            }
            Advance::Moved => true,
            Advance::User(call) => {
                match process.away {
                    // Another thread's: it is called at once.
                    Some(_) => process.active.resume(call.run()),
                    None => process.away = Some((call, process.random.below(4))),
                }
                true
            }
        }
    }

    /// All ranks have waited for some time.
    pub(crate) fn inquire(&mut self) {
        for Process { active, pt2pt, transport, .. } in &mut self.ranks {
            active.inquire(pt2pt, transport);
        }
    }

    /// Progresses all ranks until these collectives are over; their results in
    /// the same order. Panics when nothing has moved for long.
    pub(crate) fn finish(
        &mut self,
        ids: &[(usize, CollectiveId)],
        random: &mut Random,
    ) -> Vec<Result<(), Box<Fault>>> {
        let (mut idle, mut inquiries) = (0, 0);
        while !ids.iter().all(|&(rank, id)| self.ranks[rank].active.is_complete(id)) {
            let size = self.ranks.len() as u64;
            let start = random.below(size);
            let moved = (0..size).any(|by| self.progress(((start + by) % size) as usize));
            idle = if moved { 0 } else { idle + 1 };
            if idle % 500 == 499 && inquiries < MAX_INQUIRIES {
                inquiries += 1;
                self.inquire();
            }
            if idle >= 10_000 {
                let waits = ids.iter().map(|&(rank, id)| {
                    (rank, self.ranks[rank].active.blocked_on(id, &self.ranks[rank].pt2pt))
                });
                panic!("nothing moves: {:?}", waits.collect::<Vec<_>>());
            }
        }
        ids.iter().map(|&(rank, id)| self.ranks[rank].active.finish(id).unwrap()).collect()
    }
}

/// Memory of a rank's buffer. Kept until all that uses it is over.
#[derive(Clone)]
pub(crate) struct Bytes {
    bytes: Rc<Vec<u8>>,
    origin: i64,
}

impl Bytes {
    /// Space for `count` elements, filled with `fill`.
    pub(crate) fn new(count: u64, datatype: &Datatype, fill: u8) -> Bytes {
        let (low, high) = datatype.reach(count).unwrap();
        Bytes { bytes: Rc::new(vec![fill; (high - low) as usize + 16]), origin: 8 - low }
    }

    pub(crate) fn area(&self) -> Area {
        let base = self.bytes.as_ptr().cast_mut().wrapping_offset(self.origin as isize);
        // SAFETY: the bytes of a vector that is kept as long as the test runs, and
        // that nothing reads but through areas.
        unsafe { Area::new(base, -self.origin, self.bytes.len() as i64 - self.origin) }
    }

    pub(crate) fn fill(&self, disp: i64, count: u64, datatype: &Datatype, data: &[u8]) {
        self.area().buffer(disp, count, datatype).unpack(0, data);
    }
}

pub(crate) fn packed(buffer: &Buffer) -> Vec<u8> {
    let mut out = vec![0; buffer.len() as usize];
    buffer.pack(0, &mut out);
    out
}
