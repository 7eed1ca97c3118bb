//! Starts the ranks of this host: status page, sockets, pipes, processes.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use bootstrap::StatusPage;
use bootstrap::control::{self, Decoder, ToRank};
use bootstrap::environment::RankParams;
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, getpid};

use crate::descriptors::{LimitError, raise_limit, reserve};
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
}

/// The ranks of this host, with their descriptors.
#[derive(Debug)]
pub struct LocalRanks {
    /// The ranks in the order of their numbers; fewer than planned if `failed`.
    pub ranks: Vec<Rank>,
    /// The status page of all ranks.
    pub status_page: StatusPage,
    /// Their output.
    pub output: Output,
    /// Their input, as far as it is copied.
    pub input: Input,
    /// The reason why the next rank did not start.
    pub failed: Option<CannotRun>,
    /// The reserved numbers. The status page keeps the ranks' number: a process that has lost its
    /// own descriptor looks there, see [`bootstrap::Job::from_environment`].
    pub reserved: (OwnedFd, OwnedFd),
}

/// The part of a start that is the same for all ranks.
struct Common<'a> {
    settings: &'a Settings,
    share: &'a Share,
    placement: &'a Placement,
    mask: &'a Mask,
    /// Standard input is the connection to `mpiexec`.
    is_framed: bool,
    /// Of the first rank of this host.
    params: RankParams,
    open_files: Option<libc::rlimit>,
    dev_null: OwnedFd,
    welcome: Vec<u8>,
}

/// The part of a start that is the same for all ranks of a section.
struct Program<'a> {
    section: &'a Section,
    file: &'a CString,
    arguments: Vec<CString>,
    directory: Option<CString>,
}

/// Everything that is prepared before the first rank starts.
struct Prepared<'a> {
    common: Common<'a>,
    files: Vec<CString>,
    status_page: StatusPage,
    reserved: (OwnedFd, OwnedFd),
}

/// Starts all ranks of this host, which write to `output`. `children`: the daemons that this
/// process has started. If none could be started, returns
/// the output with the reason.
#[allow(clippy::result_large_err)] // once in a process's life
pub fn start(
    settings: &Settings,
    share: &Share,
    placement: &Placement,
    mask: &Mask,
    children: usize,
    output: Output,
) -> Result<LocalRanks, (Output, CannotRun)> {
    let is_framed = output.is_framed();
    let prepared = match prepare(settings, share, placement, mask, children, is_framed) {
        Ok(prepared) => prepared,
        Err(why) => return Err((output, why)),
    };
    let Prepared { common, files, status_page, reserved } = prepared;
    let mut local = LocalRanks {
        ranks: Vec::with_capacity(common.params.local_size as usize),
        status_page,
        output,
        input: Input::new(Vec::new()),
        failed: None,
        reserved,
    };
    local.failed = start_sections(&common, &files, &mut local).err();
    Ok(local)
}

fn prepare<'a>(
    settings: &'a Settings,
    share: &'a Share,
    placement: &'a Placement,
    mask: &'a Mask,
    children: usize,
    is_framed: bool,
) -> Result<Prepared<'a>, CannotRun> {
    let files = settings
        .sections
        .iter()
        .map(|section| program::find(&section.program, section.directory.as_deref()));
    let files: Vec<CString> = files.collect::<Result<_, _>>()?;
    let local_size = settings.total_ranks();
    let open_files =
        raise_limit(local_size, children).map_err(|error| limit_too_low(local_size, &error))?;
    let refused = |what: &str, errno: Errno| system_refused(local_size, what, errno);
    let status_page = StatusPage::create(local_size, share.job)
        .map_err(|errno| refused("shared memory (memfd_create)", errno))?;
    if settings.on_failure == OnFailure::Continue {
        status_page.set_survives_failures();
    }
    let reserved = status_page.file().ok_or(Errno::BADF).and_then(reserve);
    let (low, high) = reserved.map_err(|errno| refused("descriptors", errno))?;
    let dev_null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let numbers = (low.as_raw_fd(), high.as_raw_fd());
    let welcome = ToRank::Welcome { version: control::VERSION, secret: share.secret };
    let common = Common {
        settings,
        share,
        placement,
        mask,
        is_framed,
        params: first_params(share, local_size, numbers),
        open_files,
        dev_null: dev_null.map_err(|errno| refused("/dev/null", errno))?,
        welcome: control::encode(&welcome),
    };
    Ok(Prepared { common, files, status_page, reserved: (low, high) })
}

/// Returns the parameters of the first rank of this host.
fn first_params(
    share: &Share,
    local_size: u32,
    (control, status_page): (RawFd, RawFd),
) -> RankParams {
    RankParams {
        rank: share.first,
        size: share.size,
        local_rank: 0,
        local_size,
        processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        control,
        status_page,
        launcher: getpid().as_raw_nonzero().get() as u32,
        job: share.job,
    }
}

fn start_sections(
    common: &Common<'_>,
    files: &[CString],
    local: &mut LocalRanks,
) -> Result<(), CannotRun> {
    let shared = environment::shared(common.settings, common.share, common.placement);
    let mut stack = Stack::default();
    let mut inputs = Vec::new();
    for (section, file) in common.settings.sections.iter().zip(files) {
        let mut environment = environment::of_section(&shared, section);
        let words = [&section.program].into_iter().chain(&section.arguments);
        let program = Program {
            section,
            file,
            arguments: words.map(c_string).collect(),
            directory: section.directory.as_deref().map(c_string),
        };
        for _ in 0..section.ranks {
            let local_rank = local.ranks.len() as u32;
            let rank = common.params.rank + local_rank;
            let length = environment.len();
            let params = RankParams { rank, local_rank, ..common.params };
            environment.extend(environment::of_rank(&params));
            start_rank(common, &program, &params, &environment, &mut stack, &mut inputs, local)?;
            environment.truncate(length);
        }
    }
    local.input = if common.is_framed { Input::fed(inputs) } else { Input::new(inputs) };
    Ok(())
}

fn start_rank(
    common: &Common<'_>,
    program: &Program<'_>,
    params: &RankParams,
    environment: &[CString],
    stack: &mut Stack,
    inputs: &mut Vec<OwnedFd>,
    local: &mut LocalRanks,
) -> Result<(), CannotRun> {
    let RankParams { rank, local_rank, local_size, .. } = *params;
    let refused = |errno| system_refused(local_size, "pipes and sockets", errno);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(refused)?;
    send(&ours, &common.welcome, SendFlags::NOSIGNAL).map_err(refused)?;
    let (out, their_out) = output_pipe().map_err(refused)?;
    let (err, their_err) = output_pipe().map_err(refused)?;
    let cpus = common.placement.cpus(local_rank);
    let stdin = stdin_of(common, rank, inputs).map_err(refused)?;
    let args = SpawnArgs {
        program: program.file,
        arguments: &program.arguments,
        environment,
        directory: program.directory.as_deref(),
        streams: [stdin.number(common), their_out.as_raw_fd(), their_err.as_raw_fd()],
        control: (theirs.as_raw_fd(), params.control),
        status_page: params.status_page,
        cpus: cpus.as_ref(),
        mask: common.mask,
        open_files: common.open_files,
    };
    let Section { program: name, directory, .. } = program.section;
    let pid =
        spawn(&args, stack).map_err(|error| program::explain(name, directory.as_deref(), error))?;
    local.status_page.entry(local_rank).set_rank(rank);
    local.output.add(rank, Which::Out, out);
    local.output.add(rank, Which::Err, err);
    local.ranks.push(Rank { pid, exit: None, control: Some(ours), decoder: Decoder::default() });
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
    fn number(&self, common: &Common<'_>) -> RawFd {
        match self {
            RankStdin::Empty => common.dev_null.as_raw_fd(),
            RankStdin::Inherited => 0,
            RankStdin::Pipe(pipe) => pipe.as_raw_fd(),
        }
    }
}

fn stdin_of(common: &Common<'_>, rank: u32, inputs: &mut Vec<OwnedFd>) -> Result<RankStdin, Errno> {
    let stdin = common.settings.stdin;
    if !stdin.reaches(rank) {
        return Ok(RankStdin::Empty);
    }
    let is_only_reader = stdin != Stdin::All || common.params.size == 1;
    if is_only_reader && !common.is_framed && !rustix::termios::isatty(rustix::stdio::stdin()) {
        return Ok(RankStdin::Inherited);
    }
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    inputs.push(ours);
    Ok(RankStdin::Pipe(theirs))
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
