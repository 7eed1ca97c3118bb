//! Starting the ranks: board, sockets, pipes, environment.

use std::ffi::{CString, OsStr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use bootstrap::StatusPage;
use bootstrap::control::{self, Decoder, ToRank};
use bootstrap::environment::{RankParams, VARIABLE};
use rustix::fs::{Mode, OFlags, fcntl_setfl};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Resource, Rlimit, getpid, getrlimit, setrlimit};

use crate::failure_policy::Exit;
use crate::hosts::Share;
use crate::input::Input;
use crate::options::{Section, Settings, Stdin, total_ranks};
use crate::output::{Output, Which};
use crate::placement::Placement;
use crate::program::{self, CannotRun};
use crate::signals::Mask;
use crate::spawn::{Stack, Start, spawn};

/// Descriptors that each rank costs us: its control socket and two pipes.
const FILES_EACH: u64 = 3;
/// Descriptors we need beside those.
const FILES_BESIDE: u64 = 24;
/// Where the ranks' two descriptors are looked for: above what scripts use.
const HIGHEST_NUMBER: RawFd = 199;

/// One rank, seen from here.
#[derive(Debug)]
pub struct Rank {
    /// The process that we started, the leader of its group.
    pub pid: Pid,
    /// How it ended; `None` while it runs.
    pub exit: Option<Exit>,
    /// Our end of the control socket; `None` once it is closed.
    pub control: Option<OwnedFd>,
    /// For what comes from it.
    pub decoder: Decoder,
}

/// The ranks and all that belongs to them.
#[derive(Debug)]
pub struct Started {
    /// In the order of their numbers; not all, if `failed`.
    pub ranks: Vec<Rank>,
    /// What they are doing.
    pub status_page: StatusPage,
    /// What they write.
    pub output: Output,
    /// What some of them read from us.
    pub input: Input,
    /// Why the next one did not start.
    pub failed: Option<CannotRun>,
    /// We keep the board at the ranks' number: a process that has lost its
    /// own descriptor looks there, see [`bootstrap::Job::from_environment`].
    pub reserved: (OwnedFd, OwnedFd),
}

/// What is the same for all ranks.
struct Common<'a> {
    settings: &'a Settings,
    share: &'a Share,
    /// Standard input is the way to `mpiexec`.
    framed: bool,
    placement: &'a Placement,
    mask: &'a Mask,
    words: RankParams,
    open_files: Option<libc::rlimit>,
    nothing: OwnedFd,
    welcome: Vec<u8>,
}

/// Starts all ranks of this host, which write to `output`. `Err` if none could be: a
/// line for the user, and the exit code.
#[allow(clippy::result_large_err)] // once in a process's life
pub fn start(
    settings: &Settings,
    share: &Share,
    placement: &Placement,
    mask: &Mask,
    output: Output,
) -> Result<Started, (Output, CannotRun)> {
    let ready = match prepare(settings, share, placement, mask, output.is_framed()) {
        Ok(ready) => ready,
        Err(why) => return Err((output, why)),
    };
    let Ready { common, programs, status_page, reserved } = ready;
    let mut started = Started {
        ranks: Vec::with_capacity(common.words.local_size as usize),
        status_page,
        output,
        input: Input::new(Vec::new()),
        failed: None,
        reserved,
    };
    started.failed = start_sections(&common, &programs, &mut started).err();
    Ok(started)
}

/// Everything is there but the ranks.
struct Ready<'a> {
    common: Common<'a>,
    programs: Vec<CString>,
    status_page: StatusPage,
    reserved: (OwnedFd, OwnedFd),
}

fn prepare<'a>(
    settings: &'a Settings,
    share: &'a Share,
    placement: &'a Placement,
    mask: &'a Mask,
    framed: bool,
) -> Result<Ready<'a>, CannotRun> {
    let programs = settings
        .sections
        .iter()
        .map(|section| program::find(&section.program, section.directory.as_deref()));
    let programs: Vec<CString> = programs.collect::<Result<_, _>>()?;
    let local_size = total_ranks(settings);
    let open_files = room_for_files(local_size)?;
    let refused = |what: &str, errno: Errno| system_refused(local_size, what, errno);
    let status_page = StatusPage::create(local_size, share.job)
        .map_err(|errno| refused("shared memory (memfd_create)", errno))?;
    let (low, high) = reserve(&status_page).map_err(|errno| refused("descriptors", errno))?;
    let nothing = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let common = Common {
        settings,
        share,
        framed,
        placement,
        mask,
        words: RankParams {
            rank: share.first,
            size: share.size,
            local_rank: 0,
            local_size,
            processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            control: low.as_raw_fd(),
            status_page: high.as_raw_fd(),
            launcher: getpid().as_raw_nonzero().get() as u32,
            job: share.job,
        },
        open_files,
        nothing: nothing.map_err(|errno| refused("/dev/null", errno))?,
        welcome: control::encode(&ToRank::Welcome {
            version: control::VERSION,
            secret: share.secret,
        }),
    };
    Ok(Ready { common, programs, status_page, reserved: (low, high) })
}

fn start_sections(
    common: &Common<'_>,
    programs: &[CString],
    started: &mut Started,
) -> Result<(), CannotRun> {
    let shared = shared_environment(common.settings);
    let mut stack = Stack::default();
    let mut inputs = Vec::new();
    for (section, program) in common.settings.sections.iter().zip(programs) {
        let own = section.environment.iter().map(|(name, value)| variable(name, value));
        let mut environment: Vec<CString> =
            without(&shared, &section.environment).chain(own).collect();
        let words = [&section.program].into_iter().chain(&section.arguments);
        let arguments: Vec<CString> = words.map(c_string).collect();
        for _ in 0..section.ranks {
            let local_rank = started.ranks.len() as u32;
            let rank = common.share.first + local_rank;
            let length = environment.len();
            environment.extend(rank_environment(&RankParams { rank, local_rank, ..common.words }));
            start_rank(
                common,
                section,
                program,
                &arguments,
                &environment,
                &mut stack,
                &mut inputs,
                started,
            )?;
            environment.truncate(length);
        }
    }
    started.input = if common.framed { Input::fed(inputs) } else { Input::new(inputs) };
    Ok(())
}

#[allow(clippy::too_many_arguments)] // one call, and each is another thing
fn start_rank(
    common: &Common<'_>,
    section: &Section,
    program: &CString,
    arguments: &[CString],
    environment: &[CString],
    stack: &mut Stack,
    inputs: &mut Vec<OwnedFd>,
    started: &mut Started,
) -> Result<(), CannotRun> {
    let local_rank = started.ranks.len() as u32;
    let rank = common.share.first + local_rank;
    let refused = |errno| system_refused(common.words.local_size, "pipes and sockets", errno);
    let (ours, theirs) =
        socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(refused)?;
    send(&ours, &common.welcome, SendFlags::NOSIGNAL).map_err(refused)?;
    let (out, their_out) = read_end().map_err(refused)?;
    let (err, their_err) = read_end().map_err(refused)?;
    let directory = section.directory.as_deref().map(c_string);
    let cpus = common.placement.cpus(local_rank);
    let stdin = stdin_of(common, rank, inputs).map_err(refused)?;
    let pid = spawn(
        &Start {
            program,
            arguments,
            environment,
            directory: directory.as_deref(),
            streams: [stdin.number(common), their_out.as_raw_fd(), their_err.as_raw_fd()],
            control: (theirs.as_raw_fd(), common.words.control),
            status_page: common.words.status_page,
            cpus: cpus.as_ref(),
            mask: common.mask,
            open_files: common.open_files,
        },
        stack,
    )
    .map_err(|failure| program::explain(&section.program, section.directory.as_deref(), failure))?;
    started.status_page.entry(local_rank).set_rank(rank);
    started.output.add(rank, Which::Out, out);
    started.output.add(rank, Which::Err, err);
    started.ranks.push(Rank { pid, exit: None, control: Some(ours), decoder: Decoder::default() });
    Ok(())
}

/// What a rank reads.
enum Reads {
    Nothing,
    /// Our own standard input, untouched.
    Ours,
    /// A pipe that [`Input`] fills.
    Pipe(OwnedFd),
}

impl Reads {
    fn number(&self, common: &Common<'_>) -> RawFd {
        match self {
            Reads::Nothing => common.nothing.as_raw_fd(),
            Reads::Ours => 0,
            Reads::Pipe(pipe) => pipe.as_raw_fd(),
        }
    }
}

fn stdin_of(common: &Common<'_>, rank: u32, inputs: &mut Vec<OwnedFd>) -> Result<Reads, Errno> {
    let (mine, only_mine) = match common.settings.stdin {
        Stdin::First => (rank == 0, true),
        Stdin::Rank(chosen) => (rank == chosen, true),
        Stdin::All => (true, common.words.size == 1),
        Stdin::None => (false, false),
    };
    if !mine {
        return Ok(Reads::Nothing);
    }
    if only_mine && !common.framed && !rustix::termios::isatty(rustix::stdio::stdin()) {
        return Ok(Reads::Ours);
    }
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    inputs.push(ours);
    Ok(Reads::Pipe(theirs))
}

/// A pipe of which our end, for reading, does not block.
fn read_end() -> Result<(OwnedFd, OwnedFd), Errno> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&ours, OFlags::NONBLOCK)?;
    Ok((ours, theirs))
}

/// Occupies two free numbers that are high enough to be in nobody's way; both
/// hold the board for now. In the ranks, the first is the control socket.
fn reserve(status_page: &StatusPage) -> Result<(OwnedFd, OwnedFd), Errno> {
    let file = status_page.file().ok_or(Errno::BADF)?;
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let mut number = HIGHEST_NUMBER.min(limit.min(i32::MAX as u64) as RawFd - 1);
    let mut occupy = || {
        while number > 2 {
            let taken = fcntl_dupfd_cloexec(file, number)?;
            number -= 1;
            // Else the number is somebody's: our caller's, meant for the ranks.
            if taken.as_raw_fd() == number + 1 {
                return Ok(taken);
            }
        }
        Err(Errno::MFILE)
    };
    let high = occupy()?;
    Ok((occupy()?, high))
}

/// Raises our limit of open files as far as the ranks need it. Returns the
/// limit from before, for the ranks, if it was changed.
fn room_for_files(ranks: u32) -> Result<Option<libc::rlimit>, CannotRun> {
    let needed = u64::from(ranks) * FILES_EACH + FILES_BESIDE;
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(u64::MAX);
    if current >= needed {
        return Ok(None);
    }
    let maximum = limit.maximum.unwrap_or(u64::MAX);
    let raised =
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: limit.maximum });
    if maximum < needed || raised.is_err() {
        let message = format!(
            "{ranks} ranks need {needed} open files and the limit is {maximum}: raise it (`ulimit -Hn`, or `--ulimit nofile=` \
             of the container) or start fewer ranks"
        );
        return Err(CannotRun { message, code: 1 });
    }
    Ok(Some(libc::rlimit { rlim_cur: current, rlim_max: maximum }))
}

fn system_refused(ranks: u32, what: &str, errno: Errno) -> CannotRun {
    let error = std::io::Error::from(errno);
    CannotRun {
        message: format!("cannot start {ranks} ranks: the system refused {what}: {error}"),
        code: 1,
    }
}

/// Our environment with the job's variables, but not those of a job that we
/// are a rank of ourselves.
fn shared_environment(settings: &Settings) -> Vec<CString> {
    let inherited = std::env::vars_os().filter(|(name, _)| !OURS.iter().any(|ours| name == *ours));
    let inherited = inherited.filter_map(|(name, value)| {
        let mut line = name.into_vec();
        line.push(b'=');
        line.extend(value.into_vec());
        CString::new(line).ok()
    });
    let mut own = settings.environment.clone();
    if let Some(config) = &settings.config {
        let path = std::path::absolute(config)
            .map_or(config.clone(), |path| path.to_string_lossy().into_owned());
        own.push(("VERBENA_CONFIG".into(), path));
    }
    if !settings.set.is_empty() {
        // After those of a launcher or a script around us, so that ours count.
        let before = std::env::var("VERBENA_SET").ok().filter(|before| !before.is_empty());
        let lines: Vec<&str> = before.iter().chain(&settings.set).map(String::as_str).collect();
        own.push(("VERBENA_SET".into(), lines.join("\n")));
    }
    let inherited: Vec<CString> = inherited.collect();
    let mut lines: Vec<CString> = without(&inherited, &own).collect();
    for (index, (name, value)) in own.iter().enumerate() {
        // Of several with one name the last counts.
        if !own[index + 1..].iter().any(|(later, _)| later == name) {
            lines.push(variable(name, value));
        }
    }
    lines
}

const OURS: [&str; 5] =
    [VARIABLE, "VERBENA_RANK", "VERBENA_SIZE", "VERBENA_LOCAL_RANK", "VERBENA_LOCAL_SIZE"];

fn rank_environment(words: &RankParams) -> [CString; 5] {
    let values = [
        words.to_string(),
        words.rank.to_string(),
        words.size.to_string(),
        words.local_rank.to_string(),
        words.local_size.to_string(),
    ];
    std::array::from_fn(|i| variable(OURS[i], &values[i]))
}

/// The lines that set none of these variables.
fn without<'a>(
    lines: &'a [CString],
    names: &'a [(String, String)],
) -> impl Iterator<Item = CString> + 'a {
    let sets = |line: &CString, name: &str| {
        line.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    lines.iter().filter(move |line| !names.iter().any(|(name, _)| sets(line, name))).cloned()
}

fn variable(name: &str, value: &str) -> CString {
    c_string(format!("{name}={value}"))
}

/// What comes from a command line or an environment has no zero byte.
fn c_string(text: impl AsRef<OsStr>) -> CString {
    CString::new(text.as_ref().as_bytes()).unwrap_or_default()
}
