//! The machine as hwloc sees it, for users and for `mpiexec`.

use std::collections::{BTreeMap, BTreeSet};

use hwlocality::Topology;
use hwlocality::object::TopologyObject;
use hwlocality::object::types::ObjectType;
use launcher::binding::{Machine, Thread, ranges};
use launcher::stdout;

/// The largest number of hardware threads of a described machine: more than any machine has. The
/// time that hwloc takes grows with the third power of it.
const MAX_THREADS: u64 = 4096;

/// Prints a summary of the machine, or a line for each hardware thread.
pub(crate) fn print(threads: bool, synthetic: Option<&str>) -> Result<(), String> {
    let machine = match synthetic {
        Some(text) => imagine(text)
            .map_err(|error| format!("cannot describe the machine `{text}`: {error}"))?,
        None => {
            look().map_err(|error| format!("hwloc cannot read the machine's topology: {error}"))?
        }
    };
    if machine.threads.is_empty() {
        return Err("hwloc lists no processor that this process may use".into());
    }
    if threads {
        stdout::print(format_args!("{machine}"))
    } else {
        stdout::print(format_args!("{}", summary(&machine)))
    }
}

/// Returns the hardware threads that this process may use.
fn look() -> Result<Machine, Box<dyn std::error::Error>> {
    let allowed = rustix::thread::sched_getaffinity(None).ok();
    let may_use = |cpu| {
        allowed
            .as_ref()
            .is_none_or(|allowed| cpu < rustix::thread::CpuSet::MAX_CPU && allowed.is_set(cpu))
    };
    Ok(threads_of(&Topology::new()?, may_use))
}

/// Returns all hardware threads of a machine in hwloc's words.
fn imagine(text: &str) -> Result<Machine, Box<dyn std::error::Error>> {
    let threads = count_threads(text);
    if threads > MAX_THREADS {
        let text = format!("it has {threads} hardware threads: must be at most {MAX_THREADS}");
        return Err(text.into());
    }
    let topology = Topology::builder().from_synthetic(text)?.build()?;
    Ok(threads_of(&topology, |_| true))
}

/// Returns the number of hardware threads of a machine in hwloc's words: the product of the numbers
/// of all levels.
fn count_threads(text: &str) -> u64 {
    // Attributes and memory in brackets have numbers that multiply nothing.
    let outside = text
        .split(['(', '['])
        .map(|part| part.rsplit_once([')', ']']).map_or(part, |(_, after)| after));
    let counts = outside.flat_map(str::split_whitespace).filter_map(|word| {
        let count = word.rsplit(':').next()?;
        match count.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => count.parse().ok(),
        }
    });
    counts.filter(|count| *count > 0).fold(1, u64::saturating_mul)
}

fn threads_of(topology: &Topology, may_use: impl Fn(usize) -> bool) -> Machine {
    let nodes: Vec<&TopologyObject> = topology.objects_with_type(ObjectType::NUMANode).collect();
    let threads = topology.objects_with_type(ObjectType::PU).filter_map(|pu| {
        let cpu = pu.os_index()?;
        may_use(cpu).then(|| describe(pu, cpu, &nodes))
    });
    Machine { threads: threads.collect() }
}

fn describe(pu: &TopologyObject, cpu: usize, nodes: &[&TopologyObject]) -> Thread {
    let number = |kind| pu.first_ancestor_with_type(kind).map(TopologyObject::logical_index);
    let package = number(ObjectType::Package).unwrap_or(0);
    let core = number(ObjectType::Core).unwrap_or(pu.logical_index());
    // NUMA nodes are not in the tree of processors: the node of a thread is the one whose
    // processors include it.
    let node = nodes
        .iter()
        .find(|node| pu.cpuset().zip(node.cpuset()).is_some_and(|(pu, node)| node.includes(pu)));
    Thread {
        cpu,
        core,
        l2: number(ObjectType::L2Cache).unwrap_or(core),
        l3: number(ObjectType::L3Cache),
        numa: node.map_or(0, |node| node.logical_index()),
        package,
    }
}

fn summary(machine: &Machine) -> String {
    let mut groups: BTreeMap<(usize, usize, Option<usize>), Vec<&Thread>> = BTreeMap::new();
    for thread in &machine.threads {
        groups.entry((thread.package, thread.numa, thread.l3)).or_default().push(thread);
    }
    let numbers = |pick: fn(&Thread) -> Option<usize>, threads: &[&Thread]| -> BTreeSet<usize> {
        threads.iter().filter_map(|thread| pick(thread)).collect()
    };
    let all: Vec<&Thread> = machine.threads.iter().collect();
    let count = |pick, one: &str, many: &str| match numbers(pick, &all).len() {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    };
    let mut text = format!(
        "{}, {}, {}, {}, {}\n",
        count(|t| Some(t.package), "package", "packages"),
        count(|t| Some(t.numa), "NUMA node", "NUMA nodes"),
        count(|t| t.l3, "L3 cache", "L3 caches"),
        count(|t| Some(t.core), "core", "cores"),
        count(|t| Some(t.cpu), "hardware thread", "hardware threads"),
    );
    for ((package, numa, l3), threads) in groups {
        let (cores, cpus) =
            (numbers(|t| Some(t.core), &threads), numbers(|t| Some(t.cpu), &threads));
        let l3 = l3.map_or(String::new(), |l3| format!(", L3 {l3}"));
        text += &format!(
            "package {package}, NUMA node {numa}{l3}: cores {}, cpus {}\n",
            ranges(&cores),
            ranges(&cpus)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_that_are_not_there_have_all_parts() {
        let machine = imagine("pack:2 numa:1 l3:2 core:4 pu:1").unwrap();
        let text = summary(&machine);
        assert!(text.starts_with("2 packages, 2 NUMA nodes, 4 L3 caches, 16 cores, 16 "), "{text}");
        assert!(text.contains("package 1, NUMA node 1, L3 3: cores 12-15, cpus 12-15"), "{text}");
        assert!(imagine("sockets").is_err());
        // That of docs/collectives.md.
        assert_eq!(imagine("pack:2 l3:4 core:8 pu:1").unwrap().threads.len(), 64);
    }

    #[test]
    fn machines_larger_than_any_are_refused_before_hwloc_builds_them() {
        for text in
            ["pack:99999 core:99999 pu:99999", "0xffffffff", "2 l2:9000(size=1) [numa(memory=1)] 1"]
        {
            let why = imagine(text).unwrap_err().to_string();
            assert!(why.contains("hardware threads: must be at most 4096"), "{why}");
        }
        let text = "pack:2 [numa(memory=1000000)] l2:2(size=100000) core:2 pu:1";
        assert_eq!(imagine(text).unwrap().threads.len(), 8);
    }

    #[test]
    fn a_machine_without_level_3_caches_has_none() {
        let text = summary(&imagine("pack:2 core:4 pu:1").unwrap());
        assert!(text.contains(", no L3 cache, 8 cores, "), "{text}");
        assert!(text.contains("package 1, NUMA node 0: cores 4-7, cpus 4-7\n"), "{text}");
    }
}
