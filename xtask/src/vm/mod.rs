//! `cargo xtask vm`: virtual machines with Soft-RoCE, to test RDMA without an
//! RDMA adapter and without rights on the host.
//!
//! Two forms. *Guests* (the default, two): each is a QEMU with one `rxe` device,
//! and their network cards are joined by sockets. *Pair*: one guest with two
//! devices over a pair of virtual cards, which is about ten times faster. All see the host's files
//! read-only; therefore programs that are built here run there.
//!
//! The parts: `kernel` fetches a kernel once and keeps it, and `initrd` packs what a guest needs to
//! begin. `guest` is one QEMU, and `switch` joins more than two. `run` is a command in all of them
//! from boot to summary.

mod guest;
mod initrd;
mod kernel;
mod run;
mod switch;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

pub(crate) use kernel::{Kernel, set_up};
pub(crate) use run::{Outcome, run};

use crate::compare;
use crate::project::Project;

/// Most guests: their addresses and cards are numbered by one byte.
const MAX_GUESTS: u32 = 16;

/// Commands of `vm`.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Install QEMU and what else is needed, fetch and keep a kernel.
    SetUp,
    /// Run a command in every guest, show what it prints, sum up.
    ///
    /// The command is a line for bash; with several commands, one for each guest. In
    /// its environment: VM_ID (from 0), VM_GUESTS, VM_DEVICES (rxe0, in a pair rxe0 and rxe1),
    /// VM_ADDRESSES (of the devices), VM_HOSTS (vm0 vm1 ..., resolvable), VM_GID (index of the IPv4
    /// GID). VM_SSH (ssh between guests) and VM_RESULTS, a folder that host and guests share.
    /// `vm_barrier NAME` waits for all guests, and `vm_cable SECONDS` pulls this guest's cable.
    /// `vm_die GUEST` ends a machine as if it lost its power. `vm_listening PORT` waits for a
    /// program of this guest. `vm_between PROGRAM ...` runs server and client of a program like
    /// ib_send_lat.
    #[command(after_help = "Examples:\n  \
        cargo xtask vm run 'vm_between ibv_rc_pingpong -g $VM_GID'\n  \
        cargo xtask vm run --pair --loss 1% 'vm_between ib_write_bw -F -x $VM_GID -s 65536 -n 100'\n  \
        cargo xtask vm run --guests 3 --link-down 2s@1s 'my-program $VM_ID $VM_HOSTS'")]
    Run(RunOptions),
    /// Measure this MPI against Debian's MPICH and Open MPI (over UCX) and against perftest.
    ///
    /// A round is one boot, in which the MPIs and perftest's programs take turns at each figure.
    /// The report is that of `cargo xtask compare`: medians, and ratios to the best of the others
    /// within each round, the worst first.
    #[command(after_help = "Examples:\n  \
        cargo xtask vm compare                                  # three rounds, some seven minutes each\n  \
        cargo xtask vm compare --one-machine --only verbena     # beside perftest alone, two minutes a round\n  \
        cargo xtask vm compare --rounds 1 --append FILE         # one more round in FILE\n  \
        cargo xtask vm compare --only verbena --set verbs.rendezvous=write")]
    Compare(compare::GuestOptions),
    /// Boot the guests with a shell of the first on this terminal; exit ends them.
    Shell(Machines),
}

/// Which machines, and the network between them.
#[derive(clap::Args, Clone)]
pub(crate) struct Machines {
    /// How many guests.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_GUESTS)))]
    guests: u32,
    /// One guest with two devices instead.
    #[arg(long, conflicts_with = "guests")]
    pair: bool,
    /// Processors of each guest [default: 1, in a pair 2].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,
    /// Memory of each guest in MiB.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(256..))]
    memory: u32,
    /// Let the host's processors run the guests. Not tried by itself: where
    /// /dev/kvm is there it may still not work.
    #[arg(long)]
    kvm: bool,
    /// Largest packet of the network, in bytes.
    #[arg(long, default_value_t = 9000, value_parser = clap::value_parser!(u32).range(1280..=65535))]
    mtu: u32,
    /// Lose so many packets of each sender, as 1%.
    #[arg(long, value_parser = percent)]
    loss: Option<String>,
    /// Hold each packet for so long, as 2ms.
    #[arg(long, value_parser = time_word)]
    delay: Option<String>,
    /// Send so many packets at once instead of after the delay (1ms if not given).
    #[arg(long, value_parser = percent)]
    reorder: Option<String>,
    /// Send so many packets twice.
    #[arg(long, value_parser = percent)]
    duplicate: Option<String>,
    /// Let so many packets of each device wait, and refuse to take more.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    queue: Option<u32>,
}

/// The options of `vm run`.
#[derive(clap::Args)]
pub(crate) struct RunOptions {
    #[command(flatten)]
    machines: Machines,
    /// Pull the first guest's cable for a time at a time after the start, as 3s@5s
    /// (can be repeated).
    #[arg(long, value_name = "FOR@AT", value_parser = link_down, conflicts_with = "pair")]
    link_down: Vec<LinkDown>,
    /// End everything after so many seconds.
    #[arg(long, default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Where outputs, consoles and counters go; emptied first [default: target/vm/results].
    #[arg(long)]
    results: Option<PathBuf>,
    /// A line for bash, for every guest or one for each.
    #[arg(required = true)]
    commands: Vec<String>,
}

/// A cable that is out for a while.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkDown {
    at: Duration,
    lasts: Duration,
}

/// Everything about one run.
#[derive(Clone)]
pub(crate) struct Plan {
    /// Which machines.
    pub(crate) machines: Machines,
    /// For bash: one for all guests, or one for each.
    pub(crate) commands: Vec<String>,
    /// When the first guest's cable is out.
    pub(crate) link_down: Vec<LinkDown>,
    /// From the start of the commands.
    pub(crate) timeout: Duration,
    /// The folder that the guests share.
    pub(crate) results: PathBuf,
    /// Show what the commands print while they run.
    pub(crate) show: bool,
}

impl Machines {
    /// Two guests with one device each.
    pub(crate) fn guests(guests: u32) -> Machines {
        let (loss, delay, reorder, duplicate, queue) = (None, None, None, None, None);
        Machines {
            guests,
            pair: false,
            cpus: None,
            memory: 1024,
            kvm: false,
            mtu: 9000,
            loss,
            delay,
            reorder,
            duplicate,
            queue,
        }
    }

    /// One guest with two devices, which lose some of their packets.
    pub(crate) fn pair(loss: Option<&str>) -> Machines {
        Machines { pair: true, loss: loss.map(str::to_owned), ..Machines::guests(1) }
    }

    /// They lose so many of their packets.
    pub(crate) fn losing(self, loss: &str) -> Machines {
        Machines { loss: Some(loss.to_owned()), ..self }
    }

    /// Therefore many of their packets overtake others.
    pub(crate) fn reordering(self, reorder: &str) -> Machines {
        Machines { reorder: Some(reorder.to_owned()), ..self }
    }

    /// Their devices take so many packets before the first has left.
    pub(crate) fn queueing(self, packets: u32) -> Machines {
        Machines { queue: Some(packets), ..self }
    }

    /// How many machines to boot.
    fn count(&self) -> u32 {
        if self.pair { 1 } else { self.guests }
    }

    fn cpus(&self) -> u32 {
        self.cpus.unwrap_or(if self.pair { 2 } else { 1 })
    }

    /// One for each device.
    fn addresses(&self) -> Vec<String> {
        (1..=self.count().max(1 + u32::from(self.pair))).map(|n| format!("10.77.0.{n}")).collect()
    }

    /// The words of `tc qdisc add ... netem`, empty for a network without faults.
    fn netem(&self) -> String {
        let delay = self.delay.clone().or(self.reorder.as_ref().map(|_| "1ms".into()));
        let queue = self.queue.map(|packets| packets.to_string());
        let words = [
            ("delay", &delay),
            ("loss", &self.loss),
            ("reorder", &self.reorder),
            ("duplicate", &self.duplicate),
            ("limit", &queue),
        ];
        let words =
            words.iter().filter_map(|(word, value)| Some(format!("{word} {}", value.as_ref()?)));
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Carries out the request; returns true if all commands succeeded.
pub(crate) fn vm(project: &Project, task: &Task) -> Result<bool> {
    match task {
        Task::SetUp => {
            let kernel = set_up(project)?;
            println!("ready: Linux {} in {}", kernel.version, project.shown(&kernel.folder));
            Ok(true)
        }
        Task::Compare(options) => compare::compare_guests(project, options).map(|()| true),
        Task::Shell(machines) => run::shell(project, &set_up(project)?, machines),
        Task::Run(options) => {
            let count = options.machines.count();
            let commands = options.commands.len();
            ensure!(
                commands == 1 || commands == count as usize,
                "{commands} commands for {count} guests: give one, or one for each"
            );
            let plan = Plan {
                machines: options.machines.clone(),
                commands: options.commands.clone(),
                link_down: options.link_down.clone(),
                timeout: Duration::from_secs(options.timeout),
                results: options
                    .results
                    .clone()
                    .unwrap_or_else(|| project.target.join("vm/results")),
                show: true,
            };
            let outcome = run(project, &set_up(project)?, &plan)?;
            print!("\n{}", outcome.summary());
            println!("outputs, consoles and counters: {}", project.shown(&plan.results));
            Ok(outcome.success())
        }
    }
}

fn percent(text: &str) -> Result<String> {
    let number = text
        .strip_suffix('%')
        .unwrap_or(text)
        .parse::<f64>()
        .context("must be a percentage, as 1%")?;
    ensure!((0.0..=100.0).contains(&number), "must be from 0% to 100%");
    Ok(format!("{number}%"))
}

fn time_word(text: &str) -> Result<String> {
    Ok(format!("{}us", time(text)?.as_micros()))
}

fn link_down(text: &str) -> Result<LinkDown> {
    let (lasts, at) = text.split_once('@').context("must be FOR@AT, as 3s@5s")?;
    Ok(LinkDown { at: time(at)?, lasts: time(lasts)? })
}

/// A time with its unit: 200us, 2ms, 1.5s.
fn time(text: &str) -> Result<Duration> {
    for (unit, seconds) in [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)] {
        if let Some(number) = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok())
        {
            return Duration::try_from_secs_f64(number * seconds)
                .with_context(|| format!("{text} is no time"));
        }
    }
    bail!("must be a time with its unit, as 2ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_become_words_of_netem() {
        let mut machines = Machines::pair(Some("1%"));
        assert_eq!(machines.netem(), "loss 1%");
        machines.reorder = Some(percent("5").unwrap());
        assert_eq!(machines.netem(), "delay 1ms loss 1% reorder 5%");
        assert_eq!(Machines::guests(2).queueing(30).netem(), "limit 30");
        assert_eq!(Machines::guests(2).netem(), "");
    }

    #[test]
    fn what_is_no_percentage_or_time_is_refused() {
        assert_eq!(
            link_down("3s@500ms").unwrap(),
            LinkDown { at: time("0.5s").unwrap(), lasts: time("3s").unwrap() }
        );
        for wrong in ["", "101%", "-1%", "x"] {
            assert!(percent(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "3", "s", "-1s", "1s@"] {
            assert!(time(wrong).is_err() && link_down(wrong).is_err(), "{wrong}");
        }
        assert_eq!(time_word("2ms").unwrap(), "2000us");
    }

    #[test]
    fn a_queue_that_takes_nothing_and_no_time_are_refused_with_the_range() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: RunOptions,
        }
        let read = |option: &str, value: &str| {
            <Line as clap::Parser>::try_parse_from(["vm", option, value, "true"])
        };
        for option in ["--queue", "--timeout"] {
            assert!(
                read(option, "1").is_ok_and(|line| !line.options.commands.is_empty()),
                "{option}"
            );
            let error = read(option, "0").err().expect("refused").to_string();
            assert!(error.contains(option) && error.contains("0 is not in 1.."), "{error}");
        }
    }

    #[test]
    fn each_device_has_an_address() {
        assert_eq!(Machines::guests(3).addresses(), ["10.77.0.1", "10.77.0.2", "10.77.0.3"]);
        assert_eq!(Machines::pair(None).addresses(), ["10.77.0.1", "10.77.0.2"]);
        assert_eq!((Machines::pair(None).count(), Machines::pair(None).cpus()), (1, 2));
    }
}
