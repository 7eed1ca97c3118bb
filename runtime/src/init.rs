//! Initialisation and finalisation of a process (MPI-5.0 §11.2, §11.4).
//!
//! Initialisation sends no messages: the launcher has provided everything, and connections are made
//! on first use. Finalisation is collective and ends with a barrier. Until the barrier completes,
//! each process answers its peers, so that a late cancel or rendezvous is still completed.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bootstrap::{Job, WORLD_CONTEXT};
use collectives::{Level, RankLocation};
use config::{Knobs, knob};
use fabric::Peer;
use objects::{Class, Comm, Error, Group, Result, SignatureWord};
use pt2pt::{Engine, Settings};
use shm_transport::{Segment, SegmentError, ShmTransport, SingleCopy};
use verbs_transport::Rails;

use crate::addresses::Addresses;
use crate::coll_segments::CollSegments;
use crate::collective;
use crate::explain;
use crate::host_listener::HostListener;
use crate::inter;
use crate::late_ranks::LateRanks;
use crate::lock::{LOCK, block_on, with};
use crate::process::{Core, InitState, Process, predefined};
use crate::stack::{Endpoint, Inter, Stack};
use crate::usage;
use crate::{other_jobs, own_launcher, port, spawn};

/// The context id of MPI_COMM_SELF.
const SELF_CONTEXT: u64 = 2;

/// How often a sleeper checks whether the launcher still lives.
const ORPHAN_CHECK: Duration = Duration::from_secs(2);
/// How often a sleeper checks whether ranks have failed, if the job goes on without them.
const FAILURE_CHECK: Duration = Duration::from_millis(100);

/// MPI_THREAD_SINGLE, FUNNELED, SERIALIZED, MULTIPLE in the ABI.
pub const THREAD_LEVELS: [i32; 4] = [0, 1024, 2048, 4096];

/// Performs MPI_Init_thread; returns the level provided.
pub fn init(required: i32) -> Result<i32> {
    with(|p| match p.world_model.init_state {
        InitState::Before => Ok(()),
        InitState::Running => Err(Error::new(
            Class::Other,
            "MPI is initialised already: MPI_Init must be called once",
        )),
        InitState::Finalized => {
            Err(Error::new(Class::Other, "MPI is finalised: it must not be initialised again"))
        }
    })?;
    let provided = start_engine(required)?;
    with(|p| {
        p.world_model.init_state = InitState::Running;
        p.world_model.thread_level = provided;
        p.world_model.main_thread = Some(std::thread::current().id());
        // The last session may have ended before: then the launcher believes that this rank has
        // finished.
        p.core().map(|core| core.job.mark_running())
    })?;
    spawn::meet_parents()?;
    Ok(provided)
}

/// Starts the protocol stack unless it runs, one thread at a time; returns the thread level
/// provided.
pub fn start_engine(required: i32) -> Result<i32> {
    static STARTING: Mutex<()> = Mutex::new(());
    let _alone = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    let provided = THREAD_LEVELS.into_iter().rev().find(|&level| level <= required).unwrap_or(0);
    if with(|p| p.core.is_none()) {
        let knobs = crate::tools::load_knobs()
            .map_err(|error| Error::new(Class::Other, error.to_string()))?;
        if knobs.is_on(knob::CHECK_SIGNATURES) {
            SignatureWord::switch_on();
        }
        let core = Core::start(&knobs)?;
        crate::status_page::attach(core.job.status_entry());
        usage::explain_panics(core.job.rank());
        with(|p| p.core = Some(Box::new(core)));
        if knobs.choice(knob::PT2PT_PROGRESS) == config::ProgressMode::Thread {
            start_progress_thread()?;
        }
    }
    let (provided, level, checked) = with(|p| {
        let core = p.core.as_deref();
        let is_multiple = core.is_some_and(|core| core.is_always_multiple);
        let provided = if is_multiple { THREAD_LEVELS[3] } else { provided };
        let level = p.world_model.requested_level.max(provided);
        p.world_model.requested_level = level;
        let checked = core.filter(|core| core.checks_usage);
        (provided, level, checked.map(|core| core.job.rank()))
    });
    if let Some(rank) = checked {
        usage::begin(rank, level);
        LOCK.check_entries();
    }
    LOCK.set_multithreaded(level == THREAD_LEVELS[3] || checked.is_some());
    Ok(provided)
}

fn start_progress_thread() -> Result<()> {
    LOCK.start_progress_thread().map_err(|error| {
        let text = format!("cannot start the progress thread (pt2pt.progress): {error}");
        Error::new(Class::Other, text)
    })
}

impl Core {
    fn start(knobs: &Knobs) -> Result<Core> {
        let late_ranks = LateRanks::watch(knobs);
        let job =
            Job::from_environment().map_err(|error| Error::new(Class::Other, error.to_string()))?;
        let job = match job {
            Some(job) => job,
            None => {
                Job::singleton().map_err(|error| Error::new(Class::Other, error.to_string()))?
            }
        };
        let me = Peer(job.number);
        fabric::world::set_world(&job.world());
        let spin = spin(&job, knobs);
        let addresses = job.store().map(|store| Addresses::new(store, job.world()));
        let Opened { endpoint, rejected } = endpoint(&job, knobs, spin, addresses.clone())?;
        let host_listener = HostListener::open(&job, knobs);
        if job.local_size < job.size {
            // The transports have put their addresses.
            job.fence().map_err(|error| Error::new(Class::Other, error.to_string()))?;
        }
        drop(late_ranks);
        host_listener.iter().for_each(|listener| listener.serve(&job));
        let rails = endpoint.inter().and_then(Inter::verbs);
        let is_emulated = rails.is_some_and(Rails::is_emulated);
        let kernel_works = is_emulated && job.is_oversubscribed_with(1);
        LOCK.configure(progress::Settings {
            local_rank: job.local_rank,
            local_ranks: job.local_size,
            processors: job.processors,
            spin,
            device_polled: endpoint.inter().is_some(),
            kernel_works,
            max_sleep: if job.survives_failures() { FAILURE_CHECK } else { ORPHAN_CHECK },
        });
        let thresholds = collective::thresholds(knobs, &job);
        let mut planner = collective::planner(knobs, &thresholds)?;
        let hosts = job.host_table();
        let hosts = hosts.map_err(|error| Error::new(Class::Other, error.to_string()))?;
        planner.set_world(job.world(), locations(&job, knobs, &hosts));
        if knobs.is_on(knob::REPORT_TRANSPORTS)
            && let Some(control) = job.control()
        {
            // A launcher that has exited needs no report.
            let waits = explain::Waits { spin, kernel_works };
            let mut lines = explain::explain(&job, knobs, &endpoint, waits, &rejected);
            lines.push(explain::algorithms(&job, &thresholds, &planner));
            let _ = control.explain(lines);
        }
        io::uring::allow(knobs.is_on(knob::IO_URING));
        let settings = Settings { unexpected_bytes_per_peer: unexpected_share(knobs, job.size) };
        let world_group: Group = job.world().map(Peer).collect();
        let mut core = Core {
            stack: Stack::new(endpoint, Engine::new(me, settings)),
            collectives: collectives::Active::new(),
            rma_shm: knobs.is_on(knob::RMA_SHM),
            rma_check: knobs.is_on(knob::RMA_CHECK),
            checks_usage: knobs.is_on(knob::CHECK_USAGE),
            is_always_multiple: knobs.is_on(knob::THREADS_MULTIPLE),
            report_traffic: knobs.is_on(knob::REPORT_TRAFFIC),
            report_io: knobs.is_on(knob::REPORT_IO),
            explains: knobs.is_on(knob::REPORT_TRANSPORTS),
            pretend_packages: knobs.count(knob::TOPOLOGY_PRETEND_PACKAGES),
            planner: RefCell::new(planner),
            world: Comm::new("MPI_COMM_WORLD", WORLD_CONTEXT, job.rank(), world_group),
            comm_self: Comm::new("MPI_COMM_SELF", SELF_CONTEXT, 0, Group::single(me)),
            postponed: None,
            coll_segments: CollSegments::new(job.number, &thresholds),
            proposals: 0,
            channels: 0,
            freed: Vec::new(),
            unannounced: Vec::new(),
            meets_other_jobs: false,
            freed_links: Vec::new(),
            parent_comm: 0,
            watch_after: own_launcher::watch_after(&job, knobs),
            launcher_socket: None,
            host_listener,
            addresses,
            home: None,
            met: BTreeSet::new(),
            routed: BTreeSet::new(),
            ended_others: Vec::new(),
            ports: BTreeSet::new(),
            closed_ports: VecDeque::new(),
            late_clients: Vec::new(),
            refusals: Vec::new(),
            port_numbers: 0,
            job,
        };
        if core.job.survives_failures() {
            core.stack.pt2pt().set_all_learn_of_failures();
        }
        core.attach_world_segment()?;
        if core.job.parent.is_some() {
            core.meet_other_jobs()?;
        }
        Ok(core)
    }
}

/// Returns how many bytes of unexpected messages this process keeps for each sender.
fn unexpected_share(knobs: &Knobs, size: u32) -> u64 {
    const MIN_SHARE: u64 = 4 << 10;
    (knobs.bytes(knob::PT2PT_UNEXPECTED_MAX) / u64::from(size.saturating_sub(1).max(1)))
        .max(MIN_SHARE)
}

/// Returns how long a wait spins: not at all if there are fewer processors than ranks.
fn spin(job: &Job, knobs: &Knobs) -> Duration {
    let default = if job.is_oversubscribed() { Duration::ZERO } else { Duration::from_millis(5) };
    knobs.duration(knob::WAIT_SPIN).unwrap_or(default)
}

/// The transports of a process.
struct Opened {
    endpoint: Endpoint,
    /// Why verbs or TCP was not opened.
    rejected: inter::Rejected,
}

/// Opens the transports to all peers.
fn endpoint(
    job: &Job,
    knobs: &Knobs,
    spin: Duration,
    addresses: Option<Addresses>,
) -> Result<Opened> {
    let (is_alone, is_on_one_host) = (job.size == 1, job.local_size == job.size);
    if is_alone || is_on_one_host {
        let intra = if is_alone { None } else { intra(job, knobs, spin)? };
        let endpoint = intra.map_or_else(Endpoint::alone, Endpoint::single_host);
        let why = if is_alone { "the job has one rank" } else { "all ranks are on one host" };
        let [verbs, tcp] = [why, why].map(|why| Some(why.to_owned()));
        return Ok(Opened { endpoint, rejected: inter::Rejected { verbs, tcp } });
    }
    let inter::Opened { inter, rejected } =
        inter::open(job, knobs, addresses).map_err(|why| other_hosts_unreachable(job, &why))?;
    let intra = if job.local_size > 1 { intra(job, knobs, spin)? } else { None };
    Ok(Opened { endpoint: Endpoint::multi_host(job.local_numbers(), intra, inter), rejected })
}

/// Opens the transport to the ranks of this host; `None` without a launcher.
fn intra(job: &Job, knobs: &Knobs, spin: Duration) -> Result<Option<ShmTransport>> {
    let segment = job.segment();
    segment.map(|(file, offset)| open_intra(job, knobs, spin, file, offset)).transpose()
}

/// Opens the transport within this host for a rank that is alone there, to reach processes of other
/// jobs.
pub(crate) fn intra_to_other_jobs(job: &Job, knobs: &Knobs) -> Result<ShmTransport> {
    let spin = spin(job, knobs);
    match intra(job, knobs, spin)? {
        Some(intra) => Ok(intra),
        None => {
            let file = Segment::file().map_err(no_memory)?;
            open_intra(job, knobs, spin, file.as_fd(), 0)
        }
    }
}

fn open_intra(
    job: &Job,
    knobs: &Knobs,
    spin: Duration,
    file: BorrowedFd<'_>,
    offset: u64,
) -> Result<ShmTransport> {
    let ring_bytes = knobs.bytes(knob::SHM_RING_BYTES);
    let bounce_bytes = knobs.size_or_auto(knob::SHM_BOUNCE_BYTES).unwrap_or_else(bounce_bytes);
    let segment =
        Segment::attach(file, offset, job.local_rank, job.local_size, ring_bytes, bounce_bytes)
            .map_err(no_memory)?;
    let settings = shm_transport::Settings {
        eager_max: knobs.bytes(knob::SHM_EAGER_MAX),
        get_min: knobs.bytes(knob::SHM_GET_MIN),
        single_copy: match knobs.choice(knob::SHM_SINGLE_COPY) {
            config::SingleCopy::Auto => SingleCopy::Auto,
            config::SingleCopy::Readv => SingleCopy::Readv,
            config::SingleCopy::Off => SingleCopy::Off,
        },
        rare_sleeps: !spin.is_zero(),
    };
    if let Some(ancestor) = job.ancestor().filter(|_| settings.single_copy != SingleCopy::Off) {
        shm_transport::permit_descendants_of(ancestor);
    }
    let peers = job.local_numbers().iter().copied().map(Peer).collect();
    let entries = || (0..job.local_size).map(|local| job.status_page().entry(local));
    let in_mpi = entries().map(|entry| entry.current_call()).collect();
    let mut transport = ShmTransport::new(segment, settings, peers, in_mpi);
    if job.survives_failures() {
        transport.watch_ends(entries().map(|entry| entry.ended()).collect());
    }
    Ok(transport)
}

fn no_memory(error: SegmentError) -> Error {
    Error::new(Class::NoMem, error.to_string())
}

/// Returns the size of a bounce pool whose lines have left the caches of both sides before they are
/// used again. It follows from the first processor's cache, since the ranks of a host must agree.
fn bounce_bytes() -> u64 {
    const MIN_BYTES: u64 = 1 << 20;
    let cache = crate::hardware::second_level_cache().unwrap_or(MIN_BYTES);
    (2 * cache).next_power_of_two().clamp(MIN_BYTES, 8 << 20)
}

/// Returns the error of a job over several hosts that cannot open a transport between them.
fn other_hosts_unreachable(job: &Job, why: &str) -> Error {
    let ranks: Vec<u32> = job.local_numbers().iter().map(|number| number - job.first).collect();
    let reachable = match ranks[..] {
        [alone] => format!("rank {alone}"),
        [first, .., last] if job.local_size == last - first + 1 => {
            format!("ranks {first} to {last}")
        }
        ref several => format!("ranks {several:?}"),
    };
    let text = format!(
        "this host reaches only {reachable} of {}: {why}; other hosts must be reached by RDMA or \
         TCP, or all ranks run on one host (mpiexec without --hosts)",
        job.size
    );
    Error::new(Class::Other, text)
}

/// Performs MPI_Finalize, after the callbacks of MPI_COMM_SELF's attributes have run. Collective
/// over MPI_COMM_WORLD.
pub fn finalize() -> Result<()> {
    with(|p| p.core().map(|core| core.job.mark_finalizing()))?;
    port::close_all()?;
    block_on(|p| p.bsend.is_idle().then_some(()));
    with(|p| {
        if p.core.as_deref().is_some_and(|core| core.checks_usage) {
            p.report_leftovers();
        }
    });
    // Afterwards peers may leave without an answer.
    block_on(|p| p.stack().is_none_or(|stack| !stack.pt2pt().is_recalling()).then_some(()));
    final_barrier()?;
    io::pending::settle();
    block_on(Process::drain_stack);
    with(|p| {
        if p.core.as_deref().is_some_and(|core| core.checks_usage) {
            p.report_unreceived();
        }
        p.report_late_ready();
        p.report_traffic();
        p.tables.files.reports.drain(..).for_each(|text| eprintln!("verbena: {text}"));
        p.world_model.init_state = InitState::Finalized;
        let has_sessions = !p.tables.sessions.is_empty();
        p.core().map(|core| match has_sessions {
            true => core.job.mark_in_session(),
            false => core.finish_job(),
        })
    })
}

/// The barrier of MPI_Finalize. If ranks have failed and the job goes on, the others finish without
/// it.
fn final_barrier() -> Result<()> {
    let done = other_jobs::final_barriers()
        .and_then(|()| collective::final_barrier(predefined::COMM_WORLD));
    let survives = with(|p| p.core().is_ok_and(|core| core.job.survives_failures()));
    done.or_else(|error| match error.class() {
        Class::ProcAborted if survives => Ok(()),
        _ => Err(error),
    })
}

impl Process {
    /// Writes to standard error what was sent, if report.traffic is on and there are other hosts.
    fn report_traffic(&mut self) {
        let Some(core) = self.core.as_deref().filter(|core| core.report_traffic) else { return };
        let endpoint = &core.stack.endpoint;
        if let (Some(traffic), Some(inter)) = (endpoint.traffic(), endpoint.inter()) {
            let text = traffic.text(inter.by_tcp(traffic.to_other_hosts()));
            let (written, coalesced) = inter
                .verbs()
                .map_or((0, 0), |rails| (rails.frames_written(), rails.frames_coalesced()));
            eprintln!(
                "verbena: rank {} sent {text}, {written} of the frames by eager RDMA, {coalesced} \
                 coalesced",
                core.job.rank()
            );
        }
    }

    /// Returns the attribute MPI_UNIVERSE_SIZE: the processes of this job and those that were there
    /// before, but for jobs that were started apart, and one more for each processor of this host.
    /// A program that spawns others starts as many as it lacks. With another launcher and several
    /// hosts: the size of MPI_COMM_WORLD.
    pub fn universe_size(&self) -> u32 {
        self.core.as_deref().map_or(1, |Core { job, .. }| match job.process_manager() {
            None if job.is_in_group() => job.size + job.processors,
            Some(_) if job.local_size < job.size => job.size,
            None | Some(_) => job.world().end + job.processors,
        })
    }

    /// Returns true if all processes of the job are on one host.
    pub fn is_on_one_host(&self) -> bool {
        self.core.as_deref().is_none_or(|core| core.job.local_size == core.job.size)
    }

    /// Returns the attribute MPI_APPNUM: the number of this process's program on the command line,
    /// if it is known.
    pub fn appnum(&self) -> Option<u32> {
        self.core.as_deref().and_then(|core| core.job.appnum)
    }
}

/// Returns the locations of all ranks, of which those of this host have places within it; empty if
/// there is one host without places.
fn locations(job: &Job, knobs: &Knobs, host_of: &[u32]) -> Vec<RankLocation> {
    let places = job.places();
    if host_of.is_empty() && places.is_empty() {
        return Vec::new();
    }
    let per_switch = knobs.count(knob::TOPOLOGY_HOSTS_PER_SWITCH);
    let mut locations: Vec<RankLocation> = (0..job.size as usize)
        .map(|rank| {
            let host = u64::from(host_of.get(rank).copied().unwrap_or(0));
            let mut location = RankLocation::on_host(host);
            location.0[Level::Switch as usize] = host.checked_div(per_switch);
            location
        })
        .collect();
    for (&number, place) in job.local_numbers().iter().zip(places) {
        let parts = [Level::Package, Level::NumaNode, Level::L3Cache];
        for (level, part) in parts.into_iter().zip(place) {
            locations[(number - job.first) as usize].0[level as usize] = part.map(u64::from);
        }
    }
    locations
}
