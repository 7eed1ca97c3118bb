//! A job as the command line describes it: programs, ranks, placement, limits.
//!
//! Plain data without behaviour beyond its defaults. [`crate::options`] fills it, and
//! `mpiexec` sends it to the daemon of each host (see [`crate::frames`]).

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::binding::Mapping;
use crate::hosts::{Host, MAX_SLOTS};
use crate::rank_file::Slots;
use config::DEFAULT_STALL_TIMEOUT;

/// The largest number of ranks in a job.
pub const MAX_RANKS: u32 = MAX_SLOTS;

/// The command that reaches other hosts unless `--agent` names another.
pub const DEFAULT_AGENT: &str = "ssh";

/// Time without a message from a host after which it counts as lost (`--dead-after`).
pub const DEFAULT_DEAD_AFTER: Duration = Duration::from_secs(10);

/// Time that the daemon of a host has to send its first message (`--start-timeout`).
pub const DEFAULT_START_TIMEOUT: Duration = Duration::from_secs(60);

/// The same for a job that reports none: the other jobs of its group choose the time.
const SILENT_STALL_AFTER: Duration = Duration::from_secs(10);

/// The descriptor of [`Settings::status_page`], for the daemon of a host.
pub(crate) const STATUS_PAGE_VARIABLE: &str = "VERBENA_STATUS_PAGE";

/// The exit code of wrong usage.
pub const EXIT_USAGE: u8 = 2;

/// A job as the command line describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The programs, in the order of their ranks.
    pub sections: Vec<Section>,
    /// Variables for all ranks, in the order given.
    pub environment: Vec<(String, String)>,
    /// Where output goes, and what is put in front of its lines.
    #[serde(skip)]
    pub output: OutputOptions,
    /// The ranks that read mpiexec's standard input.
    pub stdin: Stdin,
    /// The processors that a rank may use.
    pub mapping: Mapping,
    /// The processors of each rank of the job, of a rank file; empty without one.
    pub slots: Vec<Vec<Slots>>,
    /// Reports the processors of each rank.
    pub report_bindings: bool,
    /// Time after which the job is ended, from `--timeout` or the variable MPIEXEC_TIMEOUT.
    pub timeout: Option<Duration>,
    /// Time without progress after which a stall is reported (`--stall-timeout`, otherwise
    /// `launch.stall_timeout`), if not [`DEFAULT_STALL_TIMEOUT`]; zero for never.
    pub stall_timeout: Option<Duration>,
    /// Ends a job whose ranks wait for ever (`--stall-abort`).
    pub stall_abort: bool,
    /// What the failure of a rank or a host means for the others.
    pub on_failure: OnFailure,
    /// Reports take the stacks of the ranks (`--stack-traces`).
    pub stack_traces: bool,
    /// Silence after which a host is lost, if not [`DEFAULT_DEAD_AFTER`].
    pub dead_after: Option<Duration>,
    /// Time for the first message of a host, if not [`DEFAULT_START_TIMEOUT`]; zero for no limit.
    pub start_timeout: Option<Duration>,
    /// The largest number of daemons that `mpiexec` and each daemon start
    /// (`launch.tree_width`).
    #[serde(skip)]
    pub tree_width: u32,
    /// A file of knobs.
    pub config: Option<String>,
    /// Knobs, as `name=value`.
    pub set: Vec<String>,
    /// Reports what the system refuses, with `--explain`.
    pub explain: bool,
    /// A file for the outcome in JSON.
    #[serde(skip)]
    pub report_outcome: Option<String>,
    /// The hosts of sections without their own; empty for this host. Once the ranks are dealt
    /// ([`crate::options::deal`]): those that get ranks, in order, the number of ranks as slots.
    #[serde(skip)]
    pub hosts: Vec<Host>,
    /// The host of each rank, by its index in `hosts`, once the ranks are dealt.
    #[serde(skip)]
    pub host_of: Vec<u32>,
    /// The command that starts the daemon on a host, if not [`DEFAULT_AGENT`].
    #[serde(skip)]
    pub agent: Option<String>,
    /// The hosts dial in; `hosts` is empty until they have.
    #[serde(skip)]
    pub dial_in: Option<DialIn>,
    /// How ranks are dealt to hosts.
    #[serde(skip)]
    pub dealing: Dealing,
    /// The group of jobs that this one belongs to.
    #[serde(skip)]
    pub group: Option<String>,
    /// The status page that the ranks of this host have already: another launcher has started them
    /// ([`crate::callers`]).
    #[serde(skip)]
    pub status_page: Option<RawFd>,
}

/// Hosts that dial in, in place of hosts that are named.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DialIn {
    /// The number of agents to wait for.
    pub agents: u32,
    /// The address to listen on.
    pub listen: String,
    /// The file of the token, if not in the environment.
    pub token_file: Option<String>,
}

/// How ranks are dealt to hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dealing {
    /// The slots of each host, in place of its own, for sections without a number.
    pub ranks_per_host: Option<u32>,
    /// More ranks than slots are refused.
    pub is_full_at_slots: bool,
    /// Ranks are numbered over the hosts in turn, or host after host (`--rank-by`); `None`: in turn
    /// if they are spread over the hosts.
    pub is_in_turn: Option<bool>,
}

/// The form of the ranks' output. Only `mpiexec` needs it, which assembles the lines of all hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputOptions {
    /// Each line begins with the number of its process: the rank, unless the job was spawned.
    pub tag: bool,
    /// Each line begins with the time at which `mpiexec` got it.
    pub timestamps: bool,
    /// A folder for the output, in files of each process; otherwise it goes to standard output and
    /// error.
    pub folder: Option<String>,
    /// The process number of rank 0 ([`bootstrap::spawning`]).
    pub base: u32,
}

/// One program and its ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// The number of the section on the command line: the attribute MPI_APPNUM of its ranks.
    pub appnum: u32,
    /// The number of ranks that run it.
    pub ranks: u32,
    /// The program as the user wrote it.
    pub program: OsString,
    /// The arguments, without the program's name.
    pub arguments: Vec<OsString>,
    /// Variables for these ranks.
    pub environment: Vec<(String, String)>,
    /// Their working directory, if not mpiexec's.
    pub directory: Option<String>,
    /// Folders in which the program is looked for before PATH, with colons between.
    pub path: Option<String>,
    /// Their hosts, if not those of the job.
    #[serde(skip)]
    pub hosts: Vec<Host>,
    /// The slots of each host, if not those of the job.
    #[serde(skip)]
    pub ranks_per_host: Option<u32>,
}

/// What the failure of a rank or a host means for the others (`--on-failure`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// The job ends.
    #[default]
    End,
    /// The others are told, and go on.
    Continue,
    /// Nothing, as long as another launcher alone has them; the job ends once one of them has
    /// joined it ([`crate::callers`]).
    EndOnceJoined,
}

impl OnFailure {
    /// The accepted names, for messages.
    pub const NAMES: &[&str] = &["end", "continue"];

    /// Parses a name in lower case.
    pub fn parse(name: &str) -> Option<OnFailure> {
        match name {
            "end" => Some(OnFailure::End),
            "continue" => Some(OnFailure::Continue),
            _ => None,
        }
    }
}

/// The ranks that read mpiexec's standard input; the others read the end of file at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stdin {
    /// One rank.
    Rank(u32),
    /// Every rank: each gets a copy.
    All,
    /// No rank.
    None,
    /// Rank 0, the default.
    #[default]
    First,
}

impl Settings {
    /// Returns the number of ranks in all sections.
    pub fn total_ranks(&self) -> u32 {
        self.sections.iter().map(|section| section.ranks).fold(0, u32::saturating_add)
    }

    /// Returns true if a section has hosts that are not those of the job.
    pub(crate) fn has_own_hosts(&self) -> bool {
        self.sections.iter().any(|section| !section.hosts.is_empty())
    }

    /// Returns the time without progress that makes a stall.
    pub fn stall_after(&self) -> Duration {
        match self.stall_timeout {
            None => DEFAULT_STALL_TIMEOUT,
            Some(Duration::ZERO) => SILENT_STALL_AFTER,
            Some(time) => time,
        }
    }

    /// Returns true if stalls and deadlocks are reported. Stalls are detected in any case: other
    /// jobs of the group report them if all of its jobs wait.
    pub fn reports_stalls(&self) -> bool {
        self.stall_timeout != Some(Duration::ZERO)
    }

    /// Returns the time for the first message of a host; zero for no limit.
    pub fn start_timeout(&self) -> Duration {
        self.start_timeout.unwrap_or(DEFAULT_START_TIMEOUT)
    }

    /// Returns the silence after which a host is lost.
    pub fn dead_after(&self) -> Duration {
        self.dead_after.unwrap_or(DEFAULT_DEAD_AFTER)
    }
}

impl Stdin {
    /// Returns true if this rank reads mpiexec's standard input.
    pub fn reaches(self, rank: u32) -> bool {
        match self {
            Stdin::First => rank == 0,
            Stdin::Rank(chosen) => rank == chosen,
            Stdin::All => true,
            Stdin::None => false,
        }
    }
}
