//! One MPI process: its objects, its protocol stack, and its state of initialisation.
//!
//! Handles are the ABI's numbers. Predefined handles (below 0x1000) are looked up here, dynamic
//! handles in the tables of `objects`.
//!
//! States of the world model ([`InitState`]): before, running, finalised. The protocol stack starts
//! with the first MPI_Init or MPI_Session_init and stays until the process ends. Sessions may
//! therefore begin and end at any time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bootstrap::Job;
use bootstrap::spawning::EndedProcesses;
use collectives::{Active, Planner};
use fabric::Peer;
use objects::{
    Class, Comm, Datatype, Errhandler, Error, Group, HandleKind, Info, Keyvals, Op, Result, Stale,
    Table,
};
use pt2pt::{MessageId, RequestId};
use shm_transport::Home;

use crate::addresses::Addresses;
use crate::bsend::BsendBuffers;
use crate::coll_segments::CollSegments;
use crate::detached::Detached;
use crate::errhandlers::Errhandlers;
use crate::file_table::Files;
use crate::host_listener::HostListener;
use crate::outside_call::OutsideCall;
use crate::request::Request;
use crate::stack::Stack;
use crate::wait_target::WaitTarget;
use crate::win::Win;

/// Predefined handles of the ABI.
pub mod predefined {
    /// MPI_COMM_NULL.
    pub const COMM_NULL: usize = 0x100;
    /// MPI_COMM_WORLD.
    pub const COMM_WORLD: usize = 0x101;
    /// MPI_COMM_SELF.
    pub const COMM_SELF: usize = 0x102;
    /// MPI_GROUP_NULL.
    pub const GROUP_NULL: usize = 0x108;
    /// MPI_GROUP_EMPTY.
    pub const GROUP_EMPTY: usize = 0x109;
    /// MPI_FILE_NULL.
    pub const FILE_NULL: usize = 0x118;
    /// MPI_MESSAGE_NULL.
    pub const MESSAGE_NULL: usize = 0x128;
    /// MPI_MESSAGE_NO_PROC.
    pub const MESSAGE_NO_PROC: usize = 0x129;
    /// MPI_INFO_NULL.
    pub const INFO_NULL: usize = 0x130;
    /// MPI_INFO_ENV.
    pub const INFO_ENV: usize = 0x131;
    /// MPI_ERRHANDLER_NULL.
    pub const ERRHANDLER_NULL: usize = 0x140;
    /// MPI_ERRORS_ARE_FATAL.
    pub const ERRORS_ARE_FATAL: usize = 0x141;
    /// MPI_ERRORS_ABORT.
    pub const ERRORS_ABORT: usize = 0x142;
    /// MPI_ERRORS_RETURN.
    pub const ERRORS_RETURN: usize = 0x143;
    /// MPI_REQUEST_NULL.
    pub const REQUEST_NULL: usize = 0x180;
    /// MPI_DATATYPE_NULL.
    pub const DATATYPE_NULL: usize = 0x200;
    /// MPI_OP_NULL.
    pub const OP_NULL: usize = 0x20;
    /// MPI_WIN_NULL.
    pub const WIN_NULL: usize = 0x110;
    /// MPI_SESSION_NULL.
    pub const SESSION_NULL: usize = 0x120;
    /// The first value that can be a dynamic handle.
    pub const END: usize = 0x1000;
}
use predefined as pre;

/// The state of the world model (MPI-5.0 §11.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitState {
    /// MPI_Init was not called.
    Before,
    /// Between MPI_Init and MPI_Finalize.
    Running,
    /// MPI_Finalize has returned.
    Finalized,
}

/// The part of the process that exists from the first initialisation on.
pub struct Core {
    /// The endpoint and its protocols.
    pub stack: Stack,
    /// Running collectives.
    pub collectives: Active,
    /// The job, and this process's rank in it.
    pub job: Job,
    /// Turns collective calls into schedules.
    pub planner: RefCell<Planner>,
    /// MPI_COMM_WORLD.
    pub world: Comm,
    /// MPI_COMM_SELF.
    pub comm_self: Comm,
    /// The number of packages that ranks of a host are assumed to be in; 0: the real ones.
    pub pretend_packages: u64,
    /// Windows of one host use shared memory.
    pub(crate) rma_shm: bool,
    /// Accesses to windows are checked.
    pub(crate) rma_check: bool,
    /// MPI_Finalize reports what is left, and entries are checked; see `usage`.
    pub(crate) checks_usage: bool,
    /// Each initialisation provides MPI_THREAD_MULTIPLE.
    pub(crate) is_always_multiple: bool,
    /// MPI_Finalize reports what was sent.
    pub(crate) report_traffic: bool,
    /// Knob `report.io`.
    pub(crate) report_io: bool,
    /// Knob `report.transports` (`--explain`).
    pub(crate) explains: bool,
    /// A call of a user's reduction function that the progress thread must not make.
    pub(crate) postponed: Option<Box<OutsideCall>>,
    /// The collective segments that this process owns.
    pub(crate) coll_segments: CollSegments,
    /// The number of the last proposal of a context id; see `contexts`.
    pub proposals: u64,
    /// What remains of communicators that were freed while receives were pending, in a job that
    /// survives failures.
    pub(crate) freed: Vec<Comm>,
    /// How many channels this process has named; see `partitions`.
    pub(crate) channels: u64,
    /// Active partitioned receives whose senders have not announced themselves.
    pub(crate) unannounced: Vec<usize>,
    /// Processes of other jobs can be reached; see `other_jobs`.
    pub(crate) meets_other_jobs: bool,
    /// The time that a call waits before a launcher is started that looks for stalls; `None` if
    /// there is one, or stalls are not reported. See `own_launcher`.
    pub(crate) watch_after: Option<Duration>,
    /// The socket to that launcher, in the rank that has started it and not joined it.
    pub(crate) launcher_socket: Option<OwnedFd>,
    /// Where launchers of other hosts come, until the end of MPI.
    pub(crate) host_listener: Option<HostListener>,
    /// The addresses of other processes, unless there is no launcher.
    pub(crate) addresses: Option<Addresses>,
    /// Where processes of other jobs find this one's shared memory, once it meets them.
    pub(crate) home: Option<Home>,
    /// The processes of other jobs that this one has met.
    pub(crate) met: BTreeSet<Peer>,
    /// Those of them whose transport is chosen; see `homes`.
    pub(crate) routed: BTreeSet<Peer>,
    /// Processes of other jobs that have ended.
    pub(crate) ended_others: Vec<EndedProcesses>,
    /// Communicators with members of other jobs that were freed and not disconnected.
    pub(crate) freed_links: Vec<Comm>,
    /// The handle of the intercommunicator to the processes that have spawned this job; 0: none.
    pub(crate) parent_comm: usize,
    /// The numbers of open ports; see `port`.
    pub(crate) ports: BTreeSet<u64>,
    /// The numbers of the latest ports that were closed.
    pub(crate) closed_ports: VecDeque<u64>,
    /// Clients of these that are not refused yet: port, process and connection.
    pub(crate) late_clients: Vec<(u64, u32, u64)>,
    /// Messages with which clients of these are refused.
    pub(crate) refusals: Vec<Detached>,
    /// How many ports this process has opened, and connections it has asked for.
    pub(crate) port_numbers: u64,
}

/// The state of an MPI process, behind the process lock ([`crate::with`]).
pub struct Process {
    /// The world model.
    pub world_model: WorldModel,
    /// `None` before the first initialisation.
    pub(crate) core: Option<Box<Core>>,
    /// Communicators, without the predefined ones.
    pub comms: Table<Comm>,
    /// Requests of all kinds.
    pub requests: Table<Request>,
    /// The engine's requests that recall messages of completed sends, by the handles of these.
    pub(crate) recalls: BTreeMap<usize, RequestId>,
    /// All other objects with handles.
    pub tables: Tables,
    /// Buffers attached for buffered sends.
    pub bsend: BsendBuffers,
    /// What the last call waits for.
    pub(crate) wait_target: WaitTarget,
}

/// The state of the world model, and the thread levels of the process.
#[derive(Debug)]
pub struct WorldModel {
    /// Before, running, or finalised.
    pub init_state: InitState,
    /// The thread level provided, as the ABI numbers it.
    pub thread_level: i32,
    /// The highest thread level that was requested, by MPI_Init or by a session.
    pub(crate) requested_level: i32,
    /// The thread that initialised, for MPI_Is_thread_main.
    pub main_thread: Option<std::thread::ThreadId>,
}

/// Objects with handles, by kind.
pub struct Tables {
    /// Groups.
    pub groups: Table<GroupObject>,
    /// Derived datatypes and duplicates.
    pub datatypes: Table<Datatype>,
    /// User-defined operations.
    pub ops: Table<Op>,
    /// Messages taken by matched probes.
    pub messages: Table<TakenMessage>,
    /// Info objects.
    pub infos: Table<Info>,
    /// User-made error handlers.
    pub errhandlers: Errhandlers,
    /// Sessions.
    pub sessions: Table<Session>,
    /// Open files.
    pub files: Files,
    /// Windows.
    pub wins: Table<Win>,
    /// Attribute keys.
    pub keyvals: Keyvals,
}

/// A session.
#[derive(Clone, Debug)]
pub struct Session {
    /// The error handler of its calls.
    pub errhandler: Errhandler,
    /// The thread level that it provides, as the ABI numbers it.
    pub thread_level: i32,
}

/// A group with a handle.
pub struct GroupObject {
    /// The group.
    pub members: Group,
    /// The handle of the session that it comes from; 0: the world model.
    pub session: usize,
}

/// A message that a matched probe took.
pub struct TakenMessage {
    /// The engine's id of the message.
    pub id: MessageId,
    /// The handle of its communicator.
    pub comm: usize,
}

impl Process {
    pub(crate) const fn new() -> Process {
        Process {
            world_model: WorldModel {
                init_state: InitState::Before,
                thread_level: 0,
                requested_level: 0,
                main_thread: None,
            },
            core: None,
            comms: Table::new(HandleKind::Comm),
            requests: Table::new(HandleKind::Request),
            recalls: BTreeMap::new(),
            tables: Tables::new(),
            bsend: BsendBuffers::new(),
            wait_target: WaitTarget::Nothing,
        }
    }

    /// Returns the protocol stack, if it runs.
    #[inline]
    pub fn stack(&mut self) -> Option<&mut Stack> {
        self.core.as_deref_mut().map(|core| &mut core.stack)
    }

    /// Returns the core; an error before the first initialisation.
    #[inline]
    pub fn core(&mut self) -> Result<&mut Core> {
        match &mut self.core {
            Some(core) => Ok(core),
            None => Err(not_running(self.world_model.init_state)),
        }
    }

    /// Returns the communicator of a handle; MPI_ERR_COMM if the handle names none.
    #[inline(always)]
    pub fn comm(&self, handle: usize) -> Result<&Comm> {
        if handle >= pre::END {
            return self
                .comms
                .get(handle as u64)
                .map_err(|stale| bad_handle(Class::Comm, "communicator", stale));
        }
        let core = self.core.as_deref().ok_or_else(|| not_running(self.world_model.init_state))?;
        match handle {
            pre::COMM_WORLD if self.world_model.init_state == InitState::Running => Ok(&core.world),
            pre::COMM_SELF if self.world_model.init_state == InitState::Running => {
                Ok(&core.comm_self)
            }
            pre::COMM_WORLD | pre::COMM_SELF => Err(not_running(self.world_model.init_state)),
            other => Err(bad_predefined(Class::Comm, "communicator", other, pre::COMM_NULL)),
        }
    }

    /// Returns the handle of the communicator with this context id; MPI_COMM_NULL for a freed one.
    #[cold]
    pub(crate) fn comm_with(&self, context: u64) -> usize {
        let is_it = |comm: &Comm| comm.context() == context;
        match &self.core {
            Some(core) if is_it(&core.world) => pre::COMM_WORLD,
            Some(core) if is_it(&core.comm_self) => pre::COMM_SELF,
            _ => self
                .comms
                .iter()
                .find(|(_, comm)| is_it(comm))
                .map_or(pre::COMM_NULL, |(handle, _)| handle as usize),
        }
    }

    /// Returns the communicator of a handle, to change it.
    #[inline]
    pub fn comm_mut(&mut self, handle: usize) -> Result<&mut Comm> {
        if handle >= pre::END {
            return self
                .comms
                .get_mut(handle as u64)
                .map_err(|stale| bad_handle(Class::Comm, "communicator", stale));
        }
        let init_state = self.world_model.init_state;
        let core = self.core.as_deref_mut().ok_or_else(|| not_running(init_state))?;
        match handle {
            pre::COMM_WORLD if init_state == InitState::Running => Ok(&mut core.world),
            pre::COMM_SELF if init_state == InitState::Running => Ok(&mut core.comm_self),
            pre::COMM_WORLD | pre::COMM_SELF => Err(not_running(init_state)),
            other => Err(bad_predefined(Class::Comm, "communicator", other, pre::COMM_NULL)),
        }
    }

    /// Returns the datatype of a handle, committed or not; MPI_ERR_TYPE if the handle names none.
    #[inline]
    pub fn datatype(&self, handle: usize) -> Result<&Datatype> {
        if handle >= pre::END {
            return self
                .tables
                .datatypes
                .get(handle as u64)
                .map_err(|stale| bad_handle(Class::Type, "datatype", stale));
        }
        Datatype::predefined(handle)
            .ok_or_else(|| bad_predefined(Class::Type, "datatype", handle, pre::DATATYPE_NULL))
    }

    /// Returns the operation of a handle; MPI_ERR_OP if the handle names none.
    pub fn op(&self, handle: usize) -> Result<Op> {
        if handle >= pre::END {
            return self
                .tables
                .ops
                .get(handle as u64)
                .cloned()
                .map_err(|stale| bad_handle(Class::Op, "operation", stale));
        }
        Op::predefined(handle)
            .ok_or_else(|| bad_predefined(Class::Op, "operation", handle, pre::OP_NULL))
    }

    /// Returns the group of a handle; MPI_ERR_GROUP if the handle names none.
    pub fn group(&self, handle: usize) -> Result<Group> {
        match handle {
            pre::GROUP_EMPTY => Ok(Group::empty()),
            handle if handle < pre::END => {
                Err(bad_predefined(Class::Group, "group", handle, pre::GROUP_NULL))
            }
            handle => self
                .tables
                .groups
                .get(handle as u64)
                .map(|group| group.members.clone())
                .map_err(|stale| bad_handle(Class::Group, "group", stale)),
        }
    }

    /// Returns the session that the group of a handle comes from; 0: the world model.
    pub fn session_of_group(&self, handle: usize) -> usize {
        self.tables.groups.get(handle as u64).map_or(0, |group| group.session)
    }

    /// Returns the window of a handle; MPI_ERR_WIN if the handle names none.
    #[inline]
    pub fn win(&self, handle: usize) -> Result<&Win> {
        if handle < pre::END {
            return Err(bad_predefined(Class::Win, "window", handle, pre::WIN_NULL));
        }
        self.tables.wins.get(handle as u64).map_err(|stale| bad_handle(Class::Win, "window", stale))
    }

    /// Returns the window of a handle, to change it.
    pub fn win_mut(&mut self, handle: usize) -> Result<&mut Win> {
        if handle < pre::END {
            return Err(bad_predefined(Class::Win, "window", handle, pre::WIN_NULL));
        }
        self.tables
            .wins
            .get_mut(handle as u64)
            .map_err(|stale| bad_handle(Class::Win, "window", stale))
    }

    /// Returns the request object of a handle; MPI_ERR_REQUEST if it has none (see
    /// `request_handle`).
    #[inline]
    pub fn request(&mut self, handle: usize) -> Result<&mut Request> {
        if handle < pre::END {
            return Err(bad_predefined(Class::Request, "request", handle, pre::REQUEST_NULL));
        }
        self.requests
            .get_mut(handle as u64)
            .map_err(|stale| bad_handle(Class::Request, "request", stale))
    }

    /// Returns the error handler of a handle; MPI_ERR_ERRHANDLER if the handle names none.
    pub fn errhandler(&self, handle: usize) -> Result<Errhandler> {
        match handle {
            pre::ERRORS_ARE_FATAL => Ok(Errhandler::Fatal),
            pre::ERRORS_ABORT => Ok(Errhandler::Abort),
            pre::ERRORS_RETURN => Ok(Errhandler::Return),
            handle if handle < pre::END => Err(bad_predefined(
                Class::Errhandler,
                "error handler",
                handle,
                pre::ERRHANDLER_NULL,
            )),
            handle => self
                .tables
                .errhandlers
                .get(handle)
                .map(Errhandler::User)
                .map_err(|stale| bad_handle(Class::Errhandler, "error handler", stale)),
        }
    }
}

impl Tables {
    const fn new() -> Tables {
        Tables {
            groups: Table::new(HandleKind::Group),
            datatypes: Table::new(HandleKind::Datatype),
            ops: Table::new(HandleKind::Op),
            messages: Table::new(HandleKind::Message),
            infos: Table::new(HandleKind::Info),
            errhandlers: Errhandlers::new(),
            sessions: Table::new(HandleKind::Session),
            files: Files::new(),
            wins: Table::new(HandleKind::Win),
            keyvals: Keyvals::new(),
        }
    }
}

/// Returns the error of a dynamic handle that names nothing: it was freed, or never existed.
#[cold]
pub fn bad_handle(class: Class, noun: &str, stale: Stale) -> Error {
    Error::new(class, format!("invalid {noun} handle: {stale}"))
}

/// Returns the error of a small number that names no object of this kind. `null` is the kind's null
/// handle.
#[cold]
pub fn bad_predefined(class: Class, noun: &str, handle: usize, null: usize) -> Error {
    let why = match handle {
        0 => "it is 0, which is never a handle (an uninitialised variable?)".to_owned(),
        other if other == null => "it is the null handle".to_owned(),
        other => format!("{other:#x} names an object of another kind, or none"),
    };
    Error::new(class, format!("invalid {noun} handle: {why}"))
}

/// Returns the error of a call before initialisation or after finalisation.
#[cold]
pub(crate) fn not_running(init_state: InitState) -> Error {
    Error::new(
        Class::Other,
        match init_state {
            InitState::Finalized => "called after MPI_Finalize",
            _ => "called before MPI_Init (or MPI_Init_thread, MPI_Session_init)",
        },
    )
}
