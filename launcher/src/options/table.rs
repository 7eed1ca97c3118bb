//! Every option of `mpiexec`: spellings, values, help.

use super::values::Usage;

/// The meaning of an option; [`OPTIONS`] has the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Ranks,
    Directory,
    SectionEnvironment,
    Environment,
    Export,
    RanksPerHost,
    Tag,
    Timestamps,
    OutputFolder,
    Stdin,
    BindTo,
    MapBy,
    ReportBindings,
    Timeout,
    StallTimeout,
    StallAbort,
    OnFailure,
    KeepGoing,
    StackTraces,
    NoOversubscribe,
    RankBy,
    RankFile,
    CoresPerRank,
    Starter,
    Interface,
    Ignored,
    Explain,
    Check,
    ReportOutcome,
    Config,
    Set,
    Hosts,
    Hostfile,
    Agent,
    DeadAfter,
    StartTimeout,
    TreeWidth,
    Accept,
    Listen,
    TokenFile,
    Join,
    Slots,
    Group,
    Help,
    Version,
    /// Accepted without effect: its action is the default.
    Accepted,
}

/// One option.
pub(super) struct Spec {
    pub(super) id: Id,
    /// The spellings without dashes, the preferred one first.
    pub(super) names: &'static [&'static str],
    /// The names of its values.
    pub(super) values: &'static [&'static str],
    help: &'static str,
}

/// Every option, grouped as the help prints it.
pub(super) const OPTIONS: &[(&str, &[Spec])] = &[
    ("Ranks of the program that follows", RANKS),
    ("Job", JOB),
    ("Hosts (default: those of the allocation, or this host)", HOSTS),
    ("Hosts that dial in, where no ssh reaches them", DIAL_IN),
    ("Input and output", INPUT_OUTPUT),
    ("Placement (default: ranks are not bound)", PLACEMENT),
    ("Other", OTHER),
];

const RANKS: &[Spec] = &[
    spec(
        Id::Ranks,
        &["n", "np", "c", "ntasks"],
        &["N"],
        "number of ranks (default: 1, or all slots of --hosts for a single program)",
    ),
    spec(
        Id::Directory,
        &["wdir", "wd", "chdir", "D"],
        &["DIR"],
        "working directory; a relative program path starts there",
    ),
    spec(Id::SectionEnvironment, &["env"], &["NAME", "VALUE"], "set a variable"),
];

const JOB: &[Spec] = &[
    spec(Id::Environment, &["genv"], &["NAME", "VALUE"], "set a variable for all ranks"),
    spec(
        Id::Export,
        &["x"],
        &["NAME[=VALUE]"],
        "set a variable for all ranks; without a value it is passed on, as all variables are",
    ),
    spec(
        Id::Timeout,
        &["timeout"],
        &["SECONDS"],
        "time limit: end the job, print what each rank was doing, exit with code 124 (default: the \
         variable MPIEXEC_TIMEOUT, or none)",
    ),
    spec(
        Id::StallTimeout,
        &["stall-timeout"],
        &["SECONDS"],
        "report what ranks wait for after this time without progress (default: 60; 0: never, and do \
         not look for deadlocks)",
    ),
    spec(
        Id::StallAbort,
        &["stall-abort"],
        &[],
        "end the job with exit code 125 when its ranks are found to wait for ever",
    ),
    spec(
        Id::OnFailure,
        &["on-failure"],
        &["end|continue"],
        "continue: the death of a rank or a host is told to the other ranks, whose operations with it \
         fail with MPI_ERR_PROC_ABORTED, and does not end the job (default: end)",
    ),
    spec(
        Id::KeepGoing,
        &["enable-recovery", "disable-auto-cleanup"],
        &[],
        "as --on-failure continue",
    ),
    spec(
        Id::StackTraces,
        &["stack-traces", "get-stack-traces"],
        &[],
        "add the stacks of up to 8 ranks on each host to reports of stalls and to Ctrl-\\, by \
         eu-stack or gdb; this interrupts the system call that a rank is in",
    ),
    spec(
        Id::Explain,
        &["explain"],
        &[],
        "print the transports that messages use, and why, once all ranks are in MPI",
    ),
    spec(
        Id::Check,
        &["check"],
        &[],
        "check how the program uses MPI: name what it does not complete or free, messages whose \
         types differ from their receives', accesses to windows that conflict, and calls that \
         its thread level forbids (all knobs check.*, and rma.check)",
    ),
    spec(
        Id::ReportOutcome,
        &["report-outcome"],
        &["FILE"],
        "write exit code, time, first failure and messages to a file as JSON when the job is over",
    ),
    spec(
        Id::Group,
        &["group"],
        &["NAME"],
        "connect with jobs that are started apart: those with the same name, of the same user, can \
         meet at ports and share published names; with a slash, the path of the group's file",
    ),
    spec(Id::Config, &["config"], &["FILE"], "read knobs from a TOML file"),
    spec(Id::Set, &["set"], &["NAME=VALUE"], "set a knob; `verbena config` lists all knobs"),
];

const HOSTS: &[Spec] = &[
    spec(
        Id::Hosts,
        &["hosts", "host", "H", "nodelist", "w"],
        &["NAME[:N],..."],
        "run on these hosts, N ranks on each (default: 1); a repeated name adds ranks; a later \
         program may have its own, otherwise it has those of the first one",
    ),
    spec(
        Id::Hostfile,
        &["hostfile", "machinefile", "f"],
        &["FILE"],
        "read hosts from a file: NAME, NAME:N or NAME slots=N on each line",
    ),
    spec(
        Id::RanksPerHost,
        &["ppn", "perhost", "npernode", "N", "grr", "ntasks-per-node"],
        &["N"],
        "N ranks on each host, in place of the slots given with the hosts",
    ),
    spec(
        Id::Agent,
        &["agent", "launcher-exec"],
        &["COMMAND"],
        "start daemons by `COMMAND host shell-command`; {host} and {command} in COMMAND stand for both \
         (default: ssh, or what the resource manager offers)",
    ),
    spec(
        Id::Starter,
        &["launcher", "bootstrap"],
        &["NAME"],
        "start daemons by ssh, rsh, slurm (srun), lsf (blaunch) or sge (qrsh)",
    ),
    spec(
        Id::Interface,
        &["iface"],
        &["NAME"],
        "the network interface between hosts, as --set tcp.interfaces=NAME",
    ),
    spec(
        Id::NoOversubscribe,
        &["nooversubscribe", "no-oversubscribe"],
        &[],
        "refuse more ranks than the hosts have slots",
    ),
    spec(
        Id::DeadAfter,
        &["dead-after"],
        &["SECONDS"],
        "end the job after this time without a message from a host (default: 10)",
    ),
    spec(
        Id::StartTimeout,
        &["start-timeout"],
        &["SECONDS"],
        "end the job if the daemon of a host does not start within this time (default: 60; 0: no \
         limit)",
    ),
    spec(
        Id::TreeWidth,
        &["tree-width"],
        &["N"],
        "start at most N daemons from one host: these start the others, in a tree, as --set \
         launch.tree_width=N (default: 32; all from this host with --agent, and with --on-failure \
         continue)",
    ),
];

const DIAL_IN: &[Spec] = &[
    spec(
        Id::Accept,
        &["accept"],
        &["N"],
        "run on N hosts whose agents dial in, in the order of their names",
    ),
    spec(Id::Listen, &["listen"], &["ADDRESS:PORT"], "where to wait for them"),
    spec(
        Id::Join,
        &["join"],
        &["ADDRESS:PORT"],
        "be the agent of this host: dial the mpiexec at this address, take part in one job, and \
         exit with code 0 if it ended in order; takes no program",
    ),
    spec(
        Id::TokenFile,
        &["token-file"],
        &["FILE"],
        "the token that both sides prove to each other (default: the variable VERBENA_TOKEN)",
    ),
    spec(
        Id::Slots,
        &["slots"],
        &["N"],
        "with --join: the ranks that this host is meant for (default: one for each processor)",
    ),
];

const INPUT_OUTPUT: &[Spec] = &[
    spec(
        Id::Tag,
        &["tag-output", "l", "prepend-rank", "label"],
        &[],
        "prefix each line of output with its rank",
    ),
    spec(
        Id::Timestamps,
        &["timestamp-output"],
        &[],
        "prefix each line of output with the time (UTC)",
    ),
    spec(
        Id::OutputFolder,
        &["output", "output-filename"],
        &["DIR"],
        "write the output of rank N to DIR/rank.N.out and DIR/rank.N.err, which are replaced; also \
         dir=DIR; the words tag and timestamp mean --tag-output and --timestamp-output",
    ),
    spec(
        Id::Stdin,
        &["stdin", "s"],
        &["RANK|all|none"],
        "the ranks that read standard input (default: rank 0)",
    ),
];

const PLACEMENT: &[Spec] = &[
    spec(
        Id::BindTo,
        &["bind-to"],
        &["WHAT"],
        "bind each rank to one hwthread, core, l2, l3, numa or socket; none: do not bind",
    ),
    spec(
        Id::MapBy,
        &["map-by"],
        &["WHAT[:PE=K]"],
        "place ranks in turn on objects of these kinds; slot: fill hosts; node: deal ranks to \
         hosts in turn; ppr:N:WHAT: N ranks on each object; PE=K: K cores for each rank",
    ),
    spec(
        Id::RankBy,
        &["rank-by"],
        &["slot|node"],
        "number ranks host after host (slot), or over the hosts in turn (node, the default with \
         --map-by node)",
    ),
    spec(
        Id::RankFile,
        &["rankfile", "rf"],
        &["FILE"],
        "read the host and the cores of each rank from a file: lines like rank 0=HOST slot=0:0-3 \
         (package 0, cores 0 to 3) or slot=2,4 (cores of the host)",
    ),
    spec(
        Id::CoresPerRank,
        &["cpus-per-rank", "cpus-per-proc", "cpus-per-task"],
        &["K"],
        "K cores for each rank, as PE=K of --map-by",
    ),
    spec(Id::ReportBindings, &["report-bindings"], &[], "print the processors of each rank"),
];

const OTHER: &[Spec] = &[
    spec(Id::Help, &["help", "h", "?"], &[], "print this help"),
    spec(Id::Version, &["version", "V"], &[], "print the version"),
    spec(
        Id::Accepted,
        &[
            "oversubscribe",
            "overcommit",
            "allow-run-as-root",
            "envall",
            "genvall",
            "ordered-output",
            "abort-on-non-zero-status",
            "kill-on-bad-exit",
            "leave-session-attached",
            "unbuffered",
            "quiet",
            "q",
        ],
        &[],
        "accepted without effect: this is the default",
    ),
    spec(
        Id::Ignored,
        &["rmk", "topolib", "demux"],
        &["NAME"],
        "accepted without effect: allocations are found in the environment, hwloc reads the machine",
    ),
];

const fn spec(
    id: Id,
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
) -> Spec {
    Spec { id, names, values, help }
}

/// Options of other launchers that are not supported, and what to do instead.
const REFUSED: &[(&[&str], &str)] = &[
    (
        &["mca", "gmca", "pmixmca", "prtemca"],
        "not supported: it sets Open MPI's parameters; set Verbena's knobs by --set NAME=VALUE",
    ),
    (
        &["genvnone", "envnone", "genvlist", "envlist"],
        "not supported: ranks get mpiexec's whole environment; `env -i` starts with less",
    ),
    (
        &["cpu-set", "cpu-list", "cpu-bind", "binding", "rankmap", "membind", "mem-bind"],
        "not supported: --map-by, --bind-to and --rankfile place ranks, --report-bindings shows where; \
         `numactl` before the program binds memory",
    ),
    (
        &["configfile", "app", "multi-prog"],
        "not supported: write the programs on the command line, with a colon between them",
    ),
    (
        &["display-map", "display", "display-allocation", "print-rank-map", "do-not-launch"],
        "not supported: --report-bindings prints where each rank runs",
    ),
    (
        &["distribution", "m", "seq", "npersocket", "use-hwthread-cpus"],
        "not supported: --map-by slot fills hosts, --map-by node deals ranks to hosts in turn, --map-by \
         ppr:N:socket places N on each package, --bind-to hwthread uses hardware threads",
    ),
    (
        &["outfile-pattern", "errfile-pattern", "o", "e", "error", "merge-stderr-to-stdout"],
        "not supported: --output DIR writes a file for each rank, 2>&1 of the shell joins both streams",
    ),
    (
        &["prepend-pattern"],
        "not supported: -l prefixes lines with the rank, --timestamp-output with the time",
    ),
    (
        &["verbose", "v", "info", "debug-daemons", "report-pid", "report-uri", "show-progress"],
        "not supported: --explain prints transports and reasons, `verbena doctor` checks this host, \
         `verbena top` shows ranks that run",
    ),
    (
        &["print-all-exitcodes", "report-state-on-timeout", "silent-abort"],
        "not supported: failed ranks are named in any case; --report-outcome FILE writes them as JSON",
    ),
    (
        &[
            "prefix",
            "path",
            "launch-agent",
            "preload-binary",
            "preload-files",
            "noprefix",
            "nolocal",
        ],
        "not supported: daemons and programs have the same path on all hosts; start mpiexec by its \
         path to use another installation, and name the hosts by --hosts",
    ),
    (
        &["gdb", "gtool", "xterm", "idb", "tv", "debug"],
        "not supported: write the tool before the program, for one rank as a section of its own: \
         mpiexec -n 1 gdb ./a.out : -n 3 ./a.out",
    ),
    (
        &["check_mpi", "trace", "t", "trace-imbalance", "aps", "tune", "am"],
        "not supported: --check checks the program's use of MPI, tools are loaded by LD_PRELOAD, \
         --config FILE reads settings",
    ),
    (
        &["enable-x", "disable-x", "order-nodes", "skip-launch-node", "hosts-group", "localhost"],
        "not supported: --agent names the command that reaches hosts, --hosts the hosts in their order",
    ),
    (
        &["usize", "nameserver", "ompi-server", "server"],
        "not supported: jobs with the same --group NAME connect and share published names",
    ),
    (
        &["export", "export-file"],
        "not supported: ranks get mpiexec's whole environment; -x NAME=VALUE sets a variable",
    ),
    (&["time"], "not supported: --timeout SECONDS ends a job that takes longer"),
    (&["nodes", "arch"], "not supported: --hosts names the hosts, --ppn the ranks on each"),
    (&["soft"], "not supported: -n takes one number of ranks"),
    (
        &["initial-errhandler"],
        "not supported: errors end the job unless the program calls MPI_Comm_set_errhandler",
    ),
    (
        &["mpi", "mem", "mem-per-cpu", "exclusive", "partition", "account", "qos", "gres", "pty"],
        "not supported: ask the resource manager (salloc, sbatch); mpiexec uses the allocation that \
         it runs in",
    ),
];

/// Further spellings of other launchers: the option that they mean, and its value.
const SHORTHANDS: &[(&str, &str, &str)] = &[
    ("pernode", "ppn", "1"),
    ("continuous", "on-failure", "continue"),
    ("no-kill", "on-failure", "continue"),
    ("rr", "map-by", "node"),
    ("bynode", "map-by", "node"),
    ("byslot", "map-by", "slot"),
    ("bycore", "map-by", "core"),
    ("bysocket", "map-by", "socket"),
    ("bind-to-core", "bind-to", "core"),
    ("bind-to-socket", "bind-to", "socket"),
    ("bind-to-none", "bind-to", "none"),
];

/// Finds the option that a word means. Returns it with the value after its `=`.
pub(super) fn find(word: &str) -> Result<(&'static Spec, Option<String>), Usage> {
    let bare = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word);
    let (name, attached) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (bare, None),
    };
    let all = || OPTIONS.iter().flat_map(|(_, specs)| specs.iter());
    if let Some(spec) = all().find(|spec| spec.names.contains(&name)) {
        return Ok((spec, attached));
    }
    if let Some((_, option, value)) = SHORTHANDS.iter().find(|(word, ..)| *word == name) {
        let (spec, _) = find(option)?;
        let value = if attached.is_none() { *value } else { return Err(without_value(word)) };
        return Ok((spec, Some(value.to_owned())));
    }
    if let Some((_, why)) = REFUSED.iter().find(|(names, _)| names.contains(&name)) {
        return Err(Usage(format!("{word}: {why}")));
    }
    let names: Vec<&str> = all().flat_map(|spec| spec.names).copied().collect();
    let hint = match closest(name, &names) {
        Some(name) => format!("did you mean {}?", dashed(name)),
        None => "see mpiexec --help".into(),
    };
    Err(Usage(format!("unknown option {word}; {hint}")))
}

fn without_value(word: &str) -> Usage {
    Usage(format!("{word}: this option takes no value"))
}

/// Returns the candidate with the fewest edits, if these are few.
fn closest<'a>(word: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let (changes, name) =
        candidates.iter().map(|name| (strsim::damerau_levenshtein(word, name), *name)).min()?;
    (changes <= word.len().div_ceil(3).min(3) && name.len() > 1).then_some(name)
}

/// Returns an option's name with its dashes.
pub(super) fn dashed(name: &str) -> String {
    if name.len() > 1 && name != "np" { format!("--{name}") } else { format!("-{name}") }
}

/// The width of the help, in columns.
pub(super) const HELP_WIDTH: usize = 80;
/// The column at which the text of an option starts.
const HELP_INDENT: usize = 28;

/// Returns the text of `mpiexec --help`.
pub fn help() -> String {
    let mut text = String::from(
        "Runs an MPI program on several ranks.\n\n\
         Usage: mpiexec [options] program [arguments]\n               \
         [: [options] program [arguments]]...\n",
    );
    for (group, specs) in OPTIONS {
        text += &format!("\n{group}:\n");
        specs.iter().for_each(|spec| text += &help_of(spec));
    }
    text + "\nLong options take one dash or two, and their value may follow `=`.\n\
            Ctrl-C ends the job; a second Ctrl-C kills it. Ctrl-\\ (SIGQUIT) prints what\n\
            each rank is doing. The exit code is that of the first rank that failed, or\n\
            128 + the number of the signal that killed it.\n\n\
            Examples:\n  \
            mpiexec -n 4 ./a.out\n  \
            mpiexec -n 4 -l python3 job.py               prefix each line with its rank\n  \
            mpiexec -n 1 ./first : -n 3 ./rest           two programs in one job\n  \
            mpiexec --hosts node1:16,node2:16 ./a.out    32 ranks on two hosts\n  \
            mpiexec -n 1 -H a ./x : -n 3 -H b ./y        hosts for each program\n  \
            mpiexec -n 2 --map-by numa -x OMP_NUM_THREADS=8 ./hybrid\n"
}

fn help_of(spec: &Spec) -> String {
    let names: Vec<String> = spec.names.iter().map(|name| dashed(name)).collect();
    let left = format!("{} {}", names.join(", "), spec.values.join(" "));
    let left = textwrap::fill(
        left.trim_end(),
        textwrap::Options::new(HELP_WIDTH)
            .initial_indent("  ")
            .subsequent_indent("      ")
            .word_splitter(textwrap::WordSplitter::NoHyphenation)
            .word_separator(textwrap::WordSeparator::AsciiSpace),
    );
    let indent = " ".repeat(HELP_INDENT);
    let lines = textwrap::fill(
        spec.help,
        textwrap::Options::new(HELP_WIDTH).initial_indent(&indent).subsequent_indent(&indent),
    );
    if left.len() + 2 > HELP_INDENT {
        format!("{left}\n{lines}\n")
    } else {
        format!("{left:HELP_INDENT$}{}\n", lines.trim_start())
    }
}
