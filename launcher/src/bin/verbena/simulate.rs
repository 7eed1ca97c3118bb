//! `verbena simulate`: a collective on a described machine, in simulated time.

use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};
use collectives::{Selection, Thresholds, rule_text};
use config::{parse_bytes, show_bytes};
use launcher::stdout::print;
use simulator::machine::LinkKind;
use simulator::plot::{self, Point};
use simulator::{Call, Machine, Operation, Outcome, Simulation, bound, guideline};

/// Ranks up to which messages carry data unless told otherwise.
const MAX_RANKS_WITH_DATA: u32 = 4096;
/// Bytes of all buffers up to which messages carry data unless told otherwise.
const MAX_BYTES_WITH_DATA: u64 = 1 << 30;

/// The sizes for which guidelines are tested unless told otherwise.
const SIZES_OF_GUIDELINES: [u64; 9] =
    [8, 64, 512, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20];
/// The largest buffer of a rank in calls that are compared.
const MAX_BYTES_OF_GUIDELINES: u64 = 64 << 20;

/// When messages carry data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Data {
    /// Up to 4096 ranks and 1 GiB of buffers.
    #[default]
    Auto,
    /// Always.
    On,
    /// Never: only times and messages are computed.
    Off,
}

/// What is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    One(Operation),
    Guidelines,
}

#[derive(Args)]
pub(crate) struct Arguments {
    /// barrier, bcast, reduce, allreduce, gather, scatter, allgather, alltoall or reduce_scatter;
    /// or guidelines: which of them take longer than others that do the same
    #[arg(value_parser = task, value_name = "OPERATION")]
    task: Task,
    /// Description of the machine in TOML; without it, a cluster with 200 Gbit/s adapters
    #[arg(long, value_name = "FILE")]
    machine: Option<PathBuf>,
    /// Hosts, in place of the description's number
    #[arg(long, value_name = "N")]
    hosts: Option<u32>,
    /// Ranks on each host, in place of the description's number
    #[arg(long, value_name = "N")]
    ranks_per_host: Option<u32>,
    /// Sizes, such as 8,64K,1M: of the vector for bcast, reduce and allreduce; otherwise of one
    /// rank's block
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size)]
    bytes: Vec<u64>,
    /// The root, where there is one
    #[arg(long, value_name = "RANK", default_value_t = 0)]
    root: u32,
    /// Take this algorithm wherever it can do the operation, also in stages of compositions
    #[arg(long, value_name = "NAME")]
    algorithm: Option<String>,
    /// Rules of selection, as in the knob coll.rules; tried before the built-in ones
    #[arg(long, value_name = "RULES", default_value = "", hide_default_value = true)]
    rules: String,
    /// Messages that a rank sends at once between hosts in short collectives, and one more, as the
    /// knob coll.radix
    #[arg(long, value_name = "N", default_value_t = Thresholds::default().radix,
          value_parser = value_parser!(u32).range(2..=64))]
    radix: u32,
    /// Reduce with an operation that does not commute
    #[arg(long)]
    non_commutative: bool,
    /// Let messages carry data, and check the result of each rank
    #[arg(long, value_enum, value_name = "WHEN", default_value_t)]
    data: Data,
    /// Draw time and bound over the sizes into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
}

fn task(name: &str) -> Result<Task, String> {
    if name == "guidelines" {
        return Ok(Task::Guidelines);
    }
    let names = || Operation::ALL.map(Operation::name).join(", ");
    let operation = Operation::named(name).map(Task::One);
    operation.ok_or_else(|| format!("must be guidelines, or one of {}", names()))
}

fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).ok_or_else(|| "must be a size like 8, 64K or 1M".to_owned())
}

/// Simulates what was asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    match arguments.task {
        Task::One(operation) => run_one(arguments, operation),
        Task::Guidelines => run_guidelines(arguments),
    }
}

/// Prints a line for each call that takes longer than others that do the same.
fn run_guidelines(arguments: &Arguments) -> Result<(), String> {
    check_guidelines(arguments)?;
    let machine = machine(arguments)?;
    let selection = selection(arguments, &machine, None)?;
    let sizes = match &arguments.bytes[..] {
        [] => &SIZES_OF_GUIDELINES[..],
        sizes => sizes,
    };
    let (ranks, hosts) = (machine.ranks, machine.used_hosts());
    print(format_args!(
        "guidelines on {ranks} ranks on {hosts} hosts\n{:<28} {:>11}  {:<52} {:>11} {:>6}\n",
        "call", "time", "does the same", "time", "ratio"
    ))?;
    let mut found = guideline::violations(&machine, &selection, sizes, MAX_BYTES_OF_GUIDELINES)
        .map_err(|error| error.to_string())?;
    found.sort_by(|a, b| b.factor().total_cmp(&a.factor()));
    let show = |call: &Call| match call.operation {
        Operation::Barrier => call.operation.name().to_owned(),
        operation => format!("{} {}", operation.name(), show_bytes(call.bytes)),
    };
    for line in &found {
        let emulation: Vec<String> = line.emulation.iter().map(show).collect();
        print(format_args!(
            "{:<28} {:>11}  {:<52} {:>11} {:>6.2}\n",
            show(&line.call),
            line.time.to_string(),
            emulation.join(", "),
            line.emulation_time.to_string(),
            line.factor()
        ))?;
    }
    print(format_args!("{} of them take longer\n", found.len()))
}

/// Refuses the options that guidelines have no use for.
fn check_guidelines(arguments: &Arguments) -> Result<(), String> {
    let given = [
        ("--root", arguments.root != 0),
        ("--non-commutative", arguments.non_commutative),
        ("--data", arguments.data != Data::Auto),
        ("--plot", arguments.plot.is_some()),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(format!("{option} needs one operation, and guidelines have many")),
        None => Ok(()),
    }
}

/// Simulates each size and prints a line for it.
fn run_one(arguments: &Arguments, operation: Operation) -> Result<(), String> {
    let machine = machine(arguments)?;
    let selection = selection(arguments, &machine, Some(operation))?;
    let sizes = match (&arguments.bytes[..], operation) {
        (_, Operation::Barrier) => &[0][..],
        ([], _) => &[8, 1 << 10, 64 << 10, 1 << 20],
        (sizes, _) => sizes,
    };
    let (name, ranks, hosts) = (operation.name(), machine.ranks, machine.used_hosts());
    print(format_args!(
        "{name} of {ranks} ranks on {hosts} hosts\n\
         {:>7} {:>11} {:>11} {:>6} {:>12} {:>12} {:>10} {:>10}  result\n",
        "bytes", "time", "bound", "ratio", "within hosts", "between", "bytes", "schedule"
    ))?;
    let mut points = Vec::new();
    for &bytes in sizes {
        let commutative = !arguments.non_commutative;
        let root = arguments.root;
        let call = Call { root, commutative, ..Call::new(operation, bytes) };
        let outcome =
            Simulation::new(&machine, call, &selection, carries_data(arguments, &machine, &call))
                .and_then(Simulation::run)
                .map_err(|error| error.to_string())?;
        points.push(print_line(&machine, &call, &outcome)?);
    }
    if let Some(path) = &arguments.plot {
        let title = format!("{}, {} ranks", operation.name(), machine.ranks);
        plot::draw(path, &title, "bytes", &points)?;
    }
    Ok(())
}

fn selection(
    arguments: &Arguments,
    machine: &Machine,
    operation: Option<Operation>,
) -> Result<Selection, String> {
    let thresholds = Thresholds { radix: arguments.radix, ..machine.thresholds() };
    let mut selection = Selection::new(&thresholds);
    selection.prefer_all(rule_text::parse(&arguments.rules, parse_bytes)?);
    if let Some(name) = &arguments.algorithm {
        let operation = match operation {
            Some(Operation::ReduceScatter) => "reduce_scatter_block",
            Some(operation) => operation.name(),
            None => return Err("--algorithm needs one operation; use --rules".to_owned()),
        };
        let rule = format!("{operation}={name}");
        selection.prefer_all(rule_text::parse(&rule, parse_bytes)?);
    }
    Ok(selection)
}

fn machine(arguments: &Arguments) -> Result<Machine, String> {
    let machine = match &arguments.machine {
        Some(path) => Machine::read(path),
        None => Machine::cluster(16, 64),
    };
    machine
        .and_then(|machine| match (arguments.hosts, arguments.ranks_per_host) {
            (None, None) => Ok(machine),
            (hosts, ranks) => {
                let (hosts, ranks) =
                    (hosts.unwrap_or(machine.hosts), ranks.unwrap_or(machine.ranks_per_host));
                machine.resized(hosts, ranks)
            }
        })
        .map_err(|error| error.to_string())
}

fn carries_data(arguments: &Arguments, machine: &Machine, call: &Call) -> bool {
    let buffers = || {
        let (send, recv) = call.buffers(call.root, machine.ranks);
        (send + recv).saturating_mul(machine.ranks.into())
    };
    match arguments.data {
        Data::On => true,
        Data::Off => false,
        Data::Auto => machine.ranks <= MAX_RANKS_WITH_DATA && buffers() <= MAX_BYTES_WITH_DATA,
    }
}

fn print_line(machine: &Machine, call: &Call, outcome: &Outcome) -> Result<Point, String> {
    let bound = bound::lower_bound(machine, call);
    let (within, between) = outcome.traffic.within_and_between();
    let crossing = [LinkKind::Switch, LinkKind::Fabric].map(|kind| outcome.traffic.bytes(kind));
    let ratio = outcome.time.as_us() / bound.as_us();
    let ratio = if ratio.is_finite() { format!("{ratio:.2}") } else { "-".to_owned() };
    print(format_args!(
        "{:>7} {:>11} {:>11} {ratio:>6} {within:>12} {between:>12} {:>10} {:>10}  {}\n",
        show_bytes(call.bytes),
        outcome.time.to_string(),
        bound.to_string(),
        show_rounded(crossing.iter().sum()),
        show_rounded(outcome.schedule_bytes as u64),
        if outcome.is_checked { "checked" } else { "not carried" },
    ))?;
    Ok(Point { at: call.bytes as f64, time: outcome.time.as_us(), bound: bound.as_us() })
}

/// Shows a size with at most one digit after the point: 1.5G.
fn show_rounded(bytes: u64) -> String {
    let unit = |shift: u32, unit| format!("{:.1}{unit}", bytes as f64 / (1u64 << shift) as f64);
    match bytes {
        0..10_000 => bytes.to_string(),
        10_000..1_000_000 => unit(10, "K"),
        1_000_000..1_000_000_000 => unit(20, "M"),
        _ => unit(30, "G"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rounded() {
        assert_eq!(show_rounded(9999), "9999");
        assert_eq!(show_rounded(1 << 20), "1.0M");
        assert_eq!(show_rounded(3 << 29), "1.5G");
    }

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn guidelines_refuse_options_of_one_operation() {
        let check = |line: &str| {
            let words = ["simulate", "guidelines"].into_iter().chain(line.split_whitespace());
            check_guidelines(&<Line as clap::Parser>::parse_from(words).arguments)
        };
        assert_eq!(check("--hosts 4 --bytes 8 --radix 3"), Ok(()));
        for line in ["--root 5", "--non-commutative", "--data on", "--plot a.svg"] {
            let option = line.split(' ').next().unwrap();
            assert!(check(line).unwrap_err().starts_with(option), "{line}");
        }
    }

    #[test]
    fn the_radix_is_that_of_the_knob() {
        let parsed = |radix: &str| {
            <Line as clap::Parser>::try_parse_from(["simulate", "bcast", "--radix", radix])
                .map(|line| line.arguments.radix)
        };
        for radix in ["0", "1", "65"] {
            let why = parsed(radix).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(why.contains("2..=64"), "{radix}: {why}");
        }
        assert_eq!((parsed("2").ok(), parsed("64").ok()), (Some(2), Some(64)));
    }

    #[test]
    fn unknown_operations_and_sizes_are_refused() {
        assert_eq!(task("reduce_scatter"), Ok(Task::One(Operation::ReduceScatter)));
        assert_eq!(task("guidelines"), Ok(Task::Guidelines));
        assert!(task("allreduced").unwrap_err().contains("one of barrier, bcast"));
        assert_eq!(size("64K"), Ok(65536));
        assert!(size("many").is_err());
    }
}
