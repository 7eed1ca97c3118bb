//! Command lines and what they mean.

use proptest::prelude::*;

use super::table::{HELP_WIDTH, OPTIONS, dashed};
use super::*;
use crate::settings::MAX_RANKS;

fn run(line: &str) -> Result<Settings, Usage> {
    match parse(line.split_whitespace().map(OsString::from))? {
        Command::Run(settings) => Ok(*settings),
        other => panic!("{other:?}"),
    }
}

fn refused(line: &str) -> String {
    run(line).unwrap_err().0
}

/// Returns hosts with the number of their ranks.
fn shown(hosts: &[hosts::Host]) -> String {
    let words: Vec<String> =
        hosts.iter().map(|host| format!("{}:{}", host.name, host.slots)).collect();
    words.join(" ")
}

/// Shows the ranks of each host, and the host of each rank unless hosts have blocks.
fn dealt(line: &str) -> String {
    let settings = run(line).unwrap();
    let order = settings.host_of.iter().map(|host| format!(" {host}")).collect::<String>();
    let order = if settings.host_of.is_sorted() { String::new() } else { format!(" as{order}") };
    shown(&settings.hosts) + &order
}

#[test]
fn both_families_of_spelling_mean_the_same() {
    for line in [
        "-n 4 a.out x -n",
        "-np 4 a.out x -n",
        "--np 4 a.out x -n",
        "--n=4 a.out x -n",
        "-c 4 -- a.out x -n",
    ] {
        let settings = run(line).unwrap();
        assert_eq!(settings.sections.len(), 1);
        let section = &settings.sections[0];
        assert_eq!((section.ranks, section.program.to_str()), (4, Some("a.out")));
        assert_eq!(section.arguments, ["x", "-n"]);
    }
    assert_eq!(run("-bind-to core a").unwrap(), run("--bind-to core a").unwrap());
    assert!(run("-prepend-rank a").unwrap().output.tag && run("-l a").unwrap().output.tag);
    let hosts = run("-ppn 3 -hosts a,b:7 x").unwrap();
    assert_eq!((hosts.hosts[1].slots, hosts.total_ranks()), (3, 6));
    assert_eq!(hosts, run("-N 3 --host a,b x").unwrap());
}

#[test]
fn a_job_is_ended_only_for_stalls_that_are_looked_for() {
    for line in ["--stall-timeout 0 --stall-abort -n 2 a", "--stall-abort --stall-timeout=0 a"] {
        let why = refused(line);
        assert!(why.contains("--stall-timeout 0") && why.contains("leave one"), "{why}");
    }
    assert!(run("--stall-abort a").unwrap().stall_abort);
    assert!(run("--stall-timeout 5 --stall-abort a").is_ok() && run("--stall-timeout 0 a").is_ok());
}

#[test]
fn sections_have_their_own_ranks_and_variables() {
    let line = "-genv A 1 -n 2 -env B 2 m x : -n 3 -wdir /tmp w --timeout 3 : -x C=4 -x HOME last";
    let settings = run(line).unwrap();
    assert_eq!(settings.total_ranks(), 6);
    assert_eq!(settings.environment, [("A".into(), "1".into()), ("C".into(), "4".into())]);
    assert_eq!(settings.sections[0].environment, [("B".into(), "2".into())]);
    assert_eq!(settings.sections[1].directory.as_deref(), Some("/tmp"));
    assert_eq!(settings.sections[1].arguments, ["--timeout", "3"]);
    assert_eq!(settings.timeout, None);
}

#[test]
fn hosts_set_the_number_of_ranks_unless_it_is_given() {
    assert_eq!(run("--hosts a:2,b:3 x").unwrap().total_ranks(), 5);
    assert_eq!(run("-H a:2 -host b -n 9 x").unwrap().total_ranks(), 9);
    assert_eq!(run("--hosts a:2,b:3 x : y").unwrap().total_ranks(), 2);
    let twice = run("--hosts a:2,b -H a x").unwrap();
    assert_eq!((twice.hosts.len(), twice.hosts[0].slots, twice.total_ranks()), (2, 3, 4));
    assert_eq!(run("--hosts a --agent rsh x").unwrap().agent.as_deref(), Some("rsh"));
    assert!(refused("--hosts -x a").contains("invalid host"));
}

#[test]
fn ranks_per_host_set_the_number_of_ranks_on_this_host() {
    for option in ["-N 4", "--npernode 4", "--ppn 4", "--map-by ppr:4:node"] {
        let settings = run(&format!("{option} x")).unwrap();
        assert_eq!((settings.total_ranks(), settings.hosts.len()), (4, 0), "{option}");
        assert_eq!(run(&format!("-n 2 {option} x")).unwrap().total_ranks(), 2, "{option}");
    }
    assert_eq!(run("--ppn 4 x : y").unwrap().total_ranks(), 2);
    let why = "--map-by ppr:N:WHAT needs the number of ranks, -n, as the objects of the hosts are \
               not known yet; ppr:N:node does not";
    for line in ["--map-by ppr:2:socket x", "-H a:16,b:16 --map-by ppr:2:socket x"] {
        assert_eq!(refused(line), why);
    }
    assert_eq!(run("-n 4 --map-by ppr:2:socket x").unwrap().total_ranks(), 4);
}

#[test]
fn a_section_is_dealt_over_its_own_hosts() {
    assert_eq!(dealt("-n 1 -host a m : -n 3 -host b w"), "a:1 b:3");
    assert_eq!(dealt("-n 2 -hosts a:2,b -n 3 m : -n 3 -hosts c,d w"), "a:2 b:1 c:2 d:1");
    // The hosts of the first section are those of the others, which share the slots.
    assert_eq!(dealt("-hosts a:2,b:2 -n 3 m : -n 3 w"), "a:4 b:2");
    assert_eq!(dealt("-hosts a:2,b:2 -n 3 m : -n 3 -hosts a:2,b:2 w"), "a:4 b:2");
    assert_eq!(dealt("-hosts a -n 1 m : -n 2 -host b w : -n 1 -host b:4 x"), "a:1 b:3");
    assert_eq!(dealt("-n 1 -host a m : -n 3 -host a,b w"), "a:3 b:1");
    // A first section without hosts runs on this host.
    let here = hosts::host_name();
    assert_eq!(dealt("-n 2 m : -n 3 -host b w"), format!("{here}:2 b:3"));
    assert_eq!(dealt("-n 2 m : -n 3 -host localhost w"), "localhost:5");
    // Slots, and how ranks are spread over them.
    assert_eq!(dealt("-host a -n 1 m : -hosts b,c -ppn 2 -n 4 w"), "a:1 b:2 c:2");
    assert_eq!(dealt("-host a -n 1 m : -hosts b,c --map-by ppr:2:node -n 4 w"), "a:1 b:2 c:2");
    assert_eq!(dealt("-hosts a,b -ppn 2 -n 4 m : -hosts c:9,d:9 -n 4 w"), "a:2 b:2 c:2 d:2");
    let two_programs = dealt("--map-by node -H a -n 1 m : -H b:4,c:4 -n 4 w");
    assert_eq!(two_programs, "a:1 b:2 c:2 as 0 1 2 1 2");
    assert_eq!(dealt("-n 1 -host a,b -ppn 1 -n 2 m : -n 1 -host a w"), "a:2 b:1 as 0 1 0");
    let full = "3 ranks on hosts with 2 slots (--nooversubscribe)";
    assert_eq!(refused("--nooversubscribe -H a:9 -n 1 m : -H b,c -n 3 w"), full);
    let settings = run("--accept 2 --listen a:1 --token-file t -n 1 m : -n 1 --hosts b w");
    assert!(settings.unwrap_err().0.contains("--accept takes its hosts from those that dial in"));
}

#[test]
fn placement_within_hosts_is_the_same_for_all_programs() {
    let why = "--map-by, --bind-to and --cpus-per-rank hold for all programs, and those given \
               for w are others: give them before the first program";
    for option in ["--bind-to core", "--map-by numa", "--cpus-per-rank 2", "--bynode"] {
        assert_eq!(refused(&format!("-n 1 m : -n 3 {option} w")), why);
        assert!(run(&format!("{option} -n 1 m : -n 3 {option} w")).is_ok(), "{option}");
        assert!(run(&format!("{option} -n 1 m : -n 3 w")).is_ok(), "{option}");
    }
}

#[test]
fn other_launchers_spellings_mean_the_same() {
    assert_eq!(run("-pernode -hosts a,b:7 x").unwrap(), run("--ppn 1 --hosts a,b x").unwrap());
    assert_eq!(
        run("--bind-to-core --bynode x").unwrap(),
        run("-bind-to core -map-by node x").unwrap()
    );
    assert_eq!(run("--map-by ppr:2:node -H a,b x").unwrap().total_ranks(), 4);
    assert_eq!(run("-n 4 --map-by ppr:2:numa:PE=3 x").unwrap().mapping.ranks_per_object, Some(2));
    assert_eq!(dealt("-map-by node -H a:4,b:4 -n 4 x"), "a:2 b:2 as 0 1 0 1");
    assert_eq!(dealt("-rr -H a,b -n 4 x"), "a:2 b:2 as 0 1 0 1");
    assert_eq!(dealt("-map-by node --rank-by slot -H a:4,b:4 -n 4 x"), "a:2 b:2");
    assert_eq!(dealt("-H a:4,b:4 -n 4 x"), "a:4");
    assert_eq!(dealt("--rank-by node -H a:3,b:4 -n 4 x"), "a:3 b:1 as 0 1 0 0");
    assert_eq!(
        run("-launcher rsh -iface ib0 -rmk user -s all x").unwrap().agent.as_deref(),
        Some("rsh")
    );
    assert_eq!(run("-iface ib0 x").unwrap().set, ["tcp.interfaces=ib0"]);
    assert_eq!(run("--rank-by slot --cpus-per-rank 2 x").unwrap().mapping.cores_per_rank, Some(2));
    assert_eq!(run("--hosts n[1-3]:2 x").unwrap().total_ranks(), 6);
    let full = "3 ranks on hosts with 2 slots (--nooversubscribe)";
    assert_eq!(refused("--nooversubscribe -H a,b -n 3 x"), full);
    assert!(refused("--rank-by core x").contains("must be slot (host after host) or node"));
    assert!(refused("--map-by ppr:0:node x").contains("must be ppr:N:WHAT"));
    assert!(refused("-launcher carrier-pigeon x").contains("must be ssh"));
    assert!(refused("-cpu-set 0 x").contains("--map-by"));
    assert!(refused("--bynode=3 x").contains("takes no value"));
}

/// The options that users of other launchers type most, by launcher. Each is honoured, or the error
/// says what to type.
#[test]
fn what_users_of_other_launchers_type_is_honoured_or_refused_with_a_remedy() {
    let honoured = [
        "--np 4 --map-by ppr:2:socket:PE=2 --bind-to core --report-bindings a",
        "--hostfile f -H a:2 -N 2 -x A=1 --wdir /tmp --oversubscribe --tag-output a",
        "--output tag,timestamp,dir=/tmp/x --timeout 9 --get-stack-traces --stdin all a",
        "--enable-recovery --allow-run-as-root --continuous --quiet --output-filename d a",
        "-f f -ppn 2 -genv A 1 -env B 2 -launcher ssh -iface eth0 -prepend-rank -rmk slurm a",
        "-bind-to socket -map-by core -genvall -disable-auto-cleanup -topolib hwloc a",
        "-perhost 2 -rr -ordered-output -machinefile f -bootstrap ssh -l -s 0 a",
        "--ntasks 4 --ntasks-per-node 2 --cpus-per-task 2 -l -D /tmp --unbuffered -w n[1-2] a",
    ];
    for line in honoured {
        let words = line.split_whitespace().map(OsString::from);
        assert!(parse_with(words, |_| Ok("a:2".into())).is_ok(), "{line}");
    }
    let settings = run("--output tag,dir=/tmp/x a").unwrap();
    assert!(settings.output.tag && settings.output.folder.as_deref() == Some("/tmp/x"));
    assert_eq!(run("--output tags a").unwrap().output.folder.as_deref(), Some("tags"));
    for line in [
        "--mca btl self",
        "--display-map",
        "--prefix /opt",
        "--merge-stderr-to-stdout",
        "-app f",
        "--preload-binary",
        "--xterm 0",
        "--tune f",
        "--cpu-set 0",
        "-v",
        "--use-hwthread-cpus",
        "-genvlist A,B",
        "-genvnone",
        "-outfile-pattern f",
        "-prepend-pattern x",
        "-usize 4",
        "-print-all-exitcodes",
        "-configfile f",
        "-skip-launch-node",
        "-membind x",
        "-info",
        "-check_mpi",
        "-trace",
        "-gdb",
        "-gtool x",
        "-print-rank-map",
        "-nolocal",
        "-tune",
        "--export=ALL",
        "--multi-prog f",
        "-m cyclic",
        "-o f",
        "--cpu-bind=cores",
        "--time=5",
        "-soft 2:4",
        "-arch x",
        "-initial-errhandler mpi_errors_return",
        "--mpi=pmix",
        "--mem 5G",
        "--exclusive",
    ] {
        let why = refused(&format!("{line} a"));
        let option = line.split([' ', '=']).next().unwrap();
        assert!(why.starts_with(option) && why.contains(": not supported: "), "{line}: {why}");
    }
}

#[test]
fn wrong_use_is_reported_in_one_line() {
    assert!(refused("").starts_with("no program given;"));
    assert!(refused("-n 2").starts_with("no program given;"));
    assert!(refused("-n 2 a :").starts_with("no program given after the colon"));
    for count in ["0", "-1", "x", "99999999999", "65537", "1.5"] {
        assert!(refused(&format!("-n {count} a")).contains("must be from 1 to 65536"), "{count}");
    }
    assert!(refused("-n 40000 a : -n 40000 a").contains("80000 ranks are too many"));
    assert_eq!(refused("--timout 3 a"), "unknown option --timout; did you mean --timeout?");
    assert_eq!(refused("-bindto core a"), "unknown option -bindto; did you mean --bind-to?");
    assert_eq!(refused("--zzz a"), "unknown option --zzz; see mpiexec --help");
    assert!(refused("-ppn 0 a").contains("must be from 1 to 65536"));
    assert!(refused("--mca btl self a").contains("--set"));
    assert!(refused("--bind-to cake a").contains("must be one of"));
    assert!(refused("--map-by numa:XX a").contains("PE=K"));
    let why = "--timeout 0: the time must be a positive number of seconds";
    assert_eq!([refused("--timeout 0 a"), refused("--timeout=0 a")], [why, why]);
    assert!(refused("--stdin 2 -n 2 a").contains("no rank 2"));
    assert_eq!(refused("-env A"), "-env needs NAME VALUE");
    for line in
        [&["-n", "2", ""][..], &["-wdir", "", "a"], &["--config=", "a"], &["--hostfile", "", "a"]]
    {
        let why = parse(line.iter().map(OsString::from)).unwrap_err().0;
        assert!(why.ends_with(" is empty; is a variable of the shell not set?"), "{line:?}: {why}");
    }
    assert_eq!(
        parse(["-x", "", "a"].map(OsString::from)).unwrap_err().0,
        "-x \"\" is not the name of a variable"
    );
    let joined = "-env \"A=2\" is not the name of a variable; write NAME VALUE, or -x NAME=VALUE";
    assert_eq!(refused("-env A=2 ./a.out x"), joined);
    assert_eq!(refused("-l=3 a"), "-l=3: this option takes no value");
}

#[test]
fn the_help_fits_a_terminal() {
    for line in help().lines() {
        assert!(line.len() <= HELP_WIDTH, "{line}");
    }
    for (_, specs) in OPTIONS {
        for name in specs.iter().flat_map(|spec| spec.names) {
            assert!(help().contains(&dashed(name)));
        }
    }
}

proptest! {
    #[test]
    fn any_words_are_a_command_or_an_error(words in prop::collection::vec(word(), 0..12)) {
        let words = words.into_iter().map(OsString::from);
        if let Ok(Command::Run(settings)) = parse_with(words, |path| Ok(path.to_owned())) {
            let is_open = settings.dial_in.is_some();
            prop_assert!(is_open || (1..=MAX_RANKS).contains(&settings.total_ranks()));
            prop_assert!(settings.sections.iter().all(|section| !section.program.is_empty()));
        }
    }

    #[test]
    fn any_value_of_an_option_is_read_or_refused(value in "\\PC{0,20}|[a-z0-9:=PE.]{0,12}") {
        if let Ok(parsed) = parse_map_by("--map-by", &value) {
            prop_assert!(parsed.cores_per_rank != Some(0) && parsed.ranks_per_object != Some(0));
        }
        if let Ok(time) = parse_seconds("--timeout", &value) {
            prop_assert!(!time.is_zero() || value.parse::<f64>().is_ok_and(|time| time > 0.0));
        }
        if let Ok(ranks) = parse_ranks("-n", &value) {
            prop_assert!((1..=MAX_RANKS).contains(&ranks));
        }
        let _ = parse_stdin("--stdin", &value);
    }
}

/// Options, values and other words.
fn word() -> impl Strategy<Value = String> {
    let names: Vec<String> = OPTIONS
        .iter()
        .flat_map(|(_, specs)| *specs)
        .flat_map(|spec| spec.names)
        .map(|name| dashed(name))
        .collect();
    prop_oneof![
        prop::sample::select(names),
        prop::sample::select(vec![":", "a", "3", "--", "x=1", "a:2,b", "numa:PE=2", "all"])
            .prop_map(str::to_owned),
        "\\PC{0,8}",
    ]
}

#[test]
fn an_allocation_gives_hosts_ranks_and_agent_unless_the_user_does() {
    let within = |line: &str, variables: &'static [(&'static str, &'static str)]| {
        let words = line.split(' ').map(OsString::from);
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let parsed = parse_within(words, |_| Err(io::ErrorKind::NotFound.into()), variable);
        match parsed.unwrap() {
            Command::Run(settings) => *settings,
            other => panic!("{other:?}"),
        }
    };
    let slurm = &[("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_JOB_CPUS_PER_NODE", "4(x2)")];
    let job = within("a.out", slurm);
    assert_eq!((job.hosts.len(), job.total_ranks()), (2, 8));
    assert!(job.agent.is_some_and(|agent| agent.starts_with("srun ")));
    assert_eq!(within("-n 3 a.out", slurm).total_ranks(), 3);
    assert_eq!(within("-ppn 1 a.out", slurm).total_ranks(), 2);
    // The user's hosts and agent.
    let job = within("--hosts a:2 x", slurm);
    assert_eq!((job.hosts.len(), job.agent), (1, None));
    assert!(within("--hosts n2 x", slurm).agent.is_some_and(|agent| agent.contains("srun")));
    assert_eq!(within("--agent ssh x", slurm).agent.as_deref(), Some("ssh"));
    // This host alone needs no daemon.
    let alone = &[("SLURM_JOB_NODELIST", "localhost"), ("SLURM_JOB_CPUS_PER_NODE", "3")];
    let job = within("x", alone);
    assert_eq!((job.hosts.len(), job.total_ranks()), (0, 3));
}

#[test]
fn the_work_for_many_hosts_grows_with_their_number_alone() {
    let hosts: String = (0..65_000).map(|host| format!("compute-{host:05}\n")).collect();
    let ranks: String =
        (0..65_000).map(|host| format!("rank {host}=compute-{host:05}\n")).collect();
    let read_file = |path: &str| Ok(if path == "ranks" { ranks.clone() } else { hosts.clone() });
    let variable = |name: &str| (name == "PBS_NODEFILE").then(|| "nodes".to_owned());
    // The time of the processor, in which other processes have no part.
    let begin = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    for line in ["--hostfile nodes a.out", "--hostfile nodes --rankfile ranks -n 65000 a.out"] {
        let parsed = parse_within(line.split(' ').map(OsString::from), read_file, variable);
        let Command::Run(settings) = parsed.unwrap() else { panic!("{line}") };
        assert_eq!((settings.hosts.len(), settings.total_ranks()), (65_000, 65_000), "{line}");
    }
    let end = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    assert!(end.tv_sec - begin.tv_sec <= 3, "{begin:?} to {end:?}");
}

#[test]
fn a_byte_order_mark_is_no_part_of_a_file() {
    for (line, text) in [("--hostfile f a.out", "node1\nnode2"), ("--rankfile f -n 2 a.out", RANKS)]
    {
        let read_file = |_: &str| Ok(format!("\u{feff}{text}"));
        let parsed = parse_with(line.split(' ').map(OsString::from), read_file);
        let Ok(Command::Run(settings)) = &parsed else { panic!("{line}: {parsed:?}") };
        assert_eq!(shown(&settings.hosts), "node1:1 node2:1", "{line}");
    }
}

const RANKS: &str = "rank 0=node1\nrank 1=node2";

#[test]
fn an_allocation_without_a_list_of_hosts_is_no_job_on_this_host_alone() {
    let within = |line: &str, task: bool| {
        let words = line.split(' ').map(OsString::from);
        let variable = |name: &str| match name {
            "FLUX_URI" => Some("local:///run/flux/local".to_owned()),
            "FLUX_TASK_RANK" if task => Some("0".to_owned()),
            _ => None,
        };
        parse_within(words, |_| Err(io::ErrorKind::NotFound.into()), variable)
    };
    assert!(within("-n 4 a", false).unwrap_err().0.contains("`flux run -n N PROGRAM`"));
    assert!(within("-n 4 --hosts localhost a", false).is_ok() && within("-n 4 a", true).is_ok());
}

#[test]
fn a_rank_file_gives_hosts_ranks_and_processors() {
    let text = "rank 0=a slot=0:0\nrank 1=a slot=1\nrank 2=b slot=0-1\n";
    let run = |line: &str| -> Result<Settings, Usage> {
        let words = line.split_whitespace().map(OsString::from);
        match parse_with(words, |_| Ok(text.into()))? {
            Command::Run(settings) => Ok(*settings),
            other => panic!("{other:?}"),
        }
    };
    let settings = run("--rankfile f x").unwrap();
    assert_eq!((settings.total_ranks(), shown(&settings.hosts)), (3, "a:2 b:1".into()));
    assert_eq!(settings.slots.len(), 3);
    let spread = run("-rf f --hosts b,a:9,c --map-by node x").unwrap();
    assert_eq!(shown(&spread.hosts), "a:2 b:1");
    let refused = |line: &str| run(line).map(|_: Settings| ()).unwrap_err().0;
    assert_eq!(refused("--rankfile f -n 2 x"), "--rankfile places 3 ranks, and the job has 2");
    assert_eq!(
        refused("--rankfile f --hosts a x"),
        "--rankfile names b, and the hosts given do not"
    );
    let both = "--rankfile gives each rank its host: --ppn, and hosts of a later program, cannot be \
                used with it";
    assert_eq!(refused("--rankfile f -ppn 1 x"), both);
    assert_eq!(refused("--rankfile f -n 1 x : -n 2 --hosts b y"), both);
}
