//! Starts the ranks of this host: status page, sockets, pipes, processes.
//!
//! What can fail is prepared first ([`prepare`]). Then a [`Starter`] starts the ranks, some at a
//! time: a start takes long where many processes run, and meanwhile others wait for an answer.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Instant;

use bootstrap::control::{self, Decoder, ToRank};
use bootstrap::environment::RankParams;
use bootstrap::{Ranks, StatusPage};
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpid};

use crate::descriptors::{LimitError, Users, raise_limit, reserve};
use crate::environment::{self, c_string};
use crate::failure_policy::Exit;
use crate::input::Input;
use crate::output::{Output, Which};
use crate::placement::Placement;
use crate::program::{self, CannotRun};
use crate::settings::{OnFailure, Section, Settings, Stdin};
use crate::share::Share;
use crate::signals::Mask;
use crate::spawn::{SpawnArgs, Stack, spawn};

/// One rank, seen from the launcher.
#[derive(Debug)]
pub struct Rank {
    /// The process that was started, the leader of its process group.
    pub pid: Pid,
    /// The way it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// Our end of the control socket; `None` once it is closed.
    pub control: Option<OwnedFd>,
    /// Decodes what arrives on the control socket.
    pub decoder: Decoder,
    /// The version of the messages that its library knows; 0 until it is in MPI.
    pub version: u32,
}

/// The ranks of this host, with their descriptors.
#[derive(Debug)]
pub struct LocalRanks {
    /// The ranks that were started, in the order of their numbers.
    pub ranks: Vec<Rank>,
    /// The number of ranks that will be started after these.
    pub unstarted: usize,
    /// The status page of all ranks.
    pub status_page: StatusPage,
    /// Their output.
    pub output: Output,
    /// Their input, as far as it is copied.
    pub input: Input,
    /// The reserved numbers. The status page keeps the ranks' number: a process that has lost its
    /// own descriptor looks there, see [`bootstrap::Job::from_environment`].
    pub reserved: (OwnedFd, OwnedFd),
}

impl LocalRanks {
    /// Returns the number of ranks of this host, with those that will be started.
    pub fn total(&self) -> usize {
        self.ranks.len() + self.unstarted
    }
}

/// Starts the ranks of this host, one after the other.
pub struct Starter<'a> {
    common: Common,
    /// The environment that all ranks have.
    environment: Vec<CString>,
    sections: std::iter::Zip<std::slice::Iter<'a, Section>, std::vec::IntoIter<CString>>,
    /// The section whose ranks are being started, and how many of them are left.
    current: Option<(Program<'a>, u32)>,
    stdins: std::vec::IntoIter<RankStdin>,
    stack: Stack,
}

/// The part of a start that is the same for all ranks.
struct Common {
    placement: Placement,
    mask: Mask,
    /// Of the first rank of this host.
    params: RankParams,
    ranks: Ranks,
    open_files: Option<libc::rlimit>,
    dev_null: OwnedFd,
    welcome: Vec<u8>,
}

/// The part of a start that is the same for all ranks of a section.
struct Program<'a> {
    section: &'a Section,
    file: CString,
    arguments: Vec<CString>,
    directory: Option<CString>,
    environment: Vec<CString>,
}

/// Prepares the start of all ranks of this host, which write to `output`. `children`: the daemons
/// that this process has started. If no rank can be started, returns the output with the reason.
#[allow(clippy::result_large_err)] // once in a process's life
pub fn prepare<'a>(
    settings: &'a Settings,
    share: &'a Share,
    placement: Placement,
    mask: Mask,
    children: usize,
    output: Output,
) -> Result<(LocalRanks, Starter<'a>), (Output, CannotRun)> {
    match try_prepare(settings, share, placement, mask, children, output.is_framed()) {
        Ok((status_page, reserved, input, starter)) => {
            let unstarted = starter.common.params.local_size as usize;
            let ranks = Vec::with_capacity(unstarted);
            Ok((LocalRanks { ranks, unstarted, status_page, output, input, reserved }, starter))
        }
        Err(why) => Err((output, why)),
    }
}

type Prepared<'a> = (StatusPage, (OwnedFd, OwnedFd), Input, Starter<'a>);

fn try_prepare<'a>(
    settings: &'a Settings,
    share: &'a Share,
    placement: Placement,
    mask: Mask,
    children: usize,
    is_framed: bool,
) -> Result<Prepared<'a>, CannotRun> {
    let files = settings.sections.iter().map(program::find);
    let files: Vec<CString> = files.collect::<Result<_, _>>()?;
    let local_size = settings.total_ranks();
    let output_files = settings.output.files(local_size);
    let open_files = raise_limit(Users { ranks: local_size, children, output_files })
        .map_err(|error| limit_too_low(local_size, &error))?;
    let refused = |what: &str, errno: Errno| system_refused(local_size, what, errno);
    let status_page = match settings.status_page {
        Some(descriptor) => status_page_of_callers(descriptor, local_size)?,
        None => StatusPage::create(local_size, share.job)
            .map_err(|errno| refused("shared memory (memfd_create)", errno))?,
    };
    if settings.on_failure == OnFailure::Continue {
        status_page.set_survives_failures();
    }
    let reserved = status_page.file().ok_or(Errno::BADF).and_then(reserve);
    let (low, high) = reserved.map_err(|errno| refused("descriptors", errno))?;
    let dev_null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let numbers = (low.as_raw_fd(), high.as_raw_fd());
    let welcome = ToRank::Welcome { version: control::VERSION, secret: share.secret };
    let (stdins, input) =
        stdins(settings, share, is_framed).map_err(|errno| refused("pipes and sockets", errno))?;
    let environment = environment::shared(settings, share, &placement);
    let common = Common {
        placement,
        mask,
        params: first_params(share, local_size, numbers),
        ranks: share.ranks.clone(),
        open_files,
        dev_null: dev_null.map_err(|errno| refused("/dev/null", errno))?,
        welcome: control::encode(&welcome),
    };
    let starter = Starter {
        common,
        environment,
        sections: settings.sections.iter().zip(files),
        current: None,
        stdins: stdins.into_iter(),
        stack: Stack::default(),
    };
    Ok((status_page, (low, high), input, starter))
}

/// Returns the page that the ranks have already.
fn status_page_of_callers(descriptor: RawFd, local_size: u32) -> Result<StatusPage, CannotRun> {
    let unusable = |why: String| CannotRun {
        message: format!("cannot use the status page of {local_size} ranks: {why}"),
        code: 1,
    };
    let page = StatusPage::attach_number(descriptor).map_err(|why| unusable(why.to_string()))?;
    match page.local_size() {
        ranks if ranks == local_size => Ok(page),
        ranks => Err(unusable(format!("it has {ranks}"))),
    }
}

/// Returns the parameters of the first rank of this host.
fn first_params(
    share: &Share,
    local_size: u32,
    (control, status_page): (RawFd, RawFd),
) -> RankParams {
    RankParams {
        rank: share.ranks.first(),
        size: share.size,
        local_rank: 0,
        local_size,
        processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        control,
        status_page,
        launcher: getpid().as_raw_nonzero().get() as u32,
        job: share.job,
        appnum: None,
        first: share.base,
        parent: share.parent,
    }
}

impl Starter<'_> {
    /// Starts ranks until this time, at least one. The error is that of the next rank; then no more
    /// are started.
    pub fn start_some(&mut self, local: &mut LocalRanks, until: Instant) -> Result<(), CannotRun> {
        while local.unstarted > 0 {
            let started = self.start_next(local);
            local.unstarted = if started.is_ok() { local.unstarted - 1 } else { 0 };
            started?;
            if Instant::now() >= until {
                break;
            }
        }
        Ok(())
    }

    fn start_next(&mut self, local: &mut LocalRanks) -> Result<(), CannotRun> {
        while self.current.as_ref().is_none_or(|(_, left)| *left == 0) {
            let Some((section, file)) = self.sections.next() else { return Ok(()) };
            let words = [&section.program].into_iter().chain(&section.arguments);
            let program = Program {
                section,
                file,
                arguments: words.map(c_string).collect(),
                directory: section.directory.as_deref().map(c_string),
                environment: environment::of_section(&self.environment, section),
            };
            self.current = Some((program, section.ranks));
        }
        let Starter { common, current: Some((program, left)), stdins, stack, .. } = self else {
            return Ok(());
        };
        *left -= 1;
        start_rank(common, program, stdins.next().unwrap_or(RankStdin::Empty), stack, local)
    }
}

fn start_rank(
    common: &Common,
    program: &mut Program<'_>,
    stdin: RankStdin,
    stack: &mut Stack,
    local: &mut LocalRanks,
) -> Result<(), CannotRun> {
    let local_rank = local.ranks.len() as u32;
    let rank = common.ranks.at(local_rank);
    let appnum = Some(program.section.appnum);
    let params = RankParams { rank, local_rank, appnum, ..common.params };
    let local_size = params.local_size;
    let refused = |errno| system_refused(local_size, "pipes and sockets", errno);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(refused)?;
    send(&ours, &common.welcome, SendFlags::NOSIGNAL).map_err(refused)?;
    let (out, their_out) = output_pipe().map_err(refused)?;
    let (err, their_err) = output_pipe().map_err(refused)?;
    let cpus = common.placement.cpus(local_rank);
    let length = program.environment.len();
    program.environment.extend(environment::of_rank(&params));
    let args = SpawnArgs {
        program: &program.file,
        arguments: &program.arguments,
        environment: &program.environment,
        directory: program.directory.as_deref(),
        streams: [stdin.number(common), their_out.as_raw_fd(), their_err.as_raw_fd()],
        control: (theirs.as_raw_fd(), params.control),
        status_page: params.status_page,
        cpus: cpus.as_ref(),
        mask: &common.mask,
        open_files: common.open_files,
    };
    let spawned = spawn(&args, stack);
    program.environment.truncate(length);
    let Section { program: name, directory, .. } = program.section;
    let pid = spawned.map_err(|error| program::explain(name, directory.as_deref(), error))?;
    local.status_page.entry(local_rank).set_rank(rank);
    local.output.add(rank, Which::Out, out);
    local.output.add(rank, Which::Err, err);
    let (control, decoder) = (Some(ours), Decoder::default());
    local.ranks.push(Rank { pid, exit: None, control, decoder, version: 0 });
    Ok(())
}

/// The standard input of a rank.
enum RankStdin {
    /// /dev/null.
    Empty,
    /// Our own standard input, as it is.
    Inherited,
    /// A pipe that [`Input`] fills.
    Pipe(OwnedFd),
}

impl RankStdin {
    fn number(&self, common: &Common) -> RawFd {
        match self {
            RankStdin::Empty => common.dev_null.as_raw_fd(),
            RankStdin::Inherited => 0,
            RankStdin::Pipe(pipe) => pipe.as_raw_fd(),
        }
    }
}

/// Returns the standard input of each rank, and the source of those that are pipes. `is_framed`:
/// standard input is the connection to `mpiexec`.
fn stdins(
    settings: &Settings,
    share: &Share,
    is_framed: bool,
) -> Result<(Vec<RankStdin>, Input), Errno> {
    let is_only_reader = settings.stdin != Stdin::All || share.size == 1;
    let is_inherited =
        is_only_reader && !is_framed && !rustix::termios::isatty(rustix::stdio::stdin());
    let mut pipes = Vec::new();
    let mut stdin_of = |rank| {
        if !settings.stdin.reaches(rank) {
            return Ok(RankStdin::Empty);
        }
        if is_inherited {
            return Ok(RankStdin::Inherited);
        }
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        pipes.push(ours);
        Ok(RankStdin::Pipe(theirs))
    };
    let stdins = share.ranks.iter().map(&mut stdin_of).collect::<Result<_, Errno>>()?;
    Ok((stdins, if is_framed { Input::fed(pipes) } else { Input::new(pipes) }))
}

/// Creates a pipe; our end, for reading, does not block.
fn output_pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}

fn limit_too_low(ranks: u32, error: &LimitError) -> CannotRun {
    let message = format!("{ranks} ranks need {error} or start fewer ranks");
    CannotRun { message, code: 1 }
}

fn system_refused(ranks: u32, what: &str, errno: Errno) -> CannotRun {
    let error = std::io::Error::from(errno);
    let message = format!("cannot start {ranks} ranks: the system refused {what}: {error}");
    CannotRun { message, code: 1 }
}
