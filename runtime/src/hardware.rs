//! The parts of the machine that this process is bound to, for MPI_Comm_split_type and
//! MPI_Get_hw_resource_info (MPI-5.0 §7.4.2, §9.1.2).
//!
//! Each call reads sysfs anew. A process is *restricted* to an instance of a resource if all
//! processors that it may run on belong to that instance. A process that is not bound is restricted
//! to few instances or none.

use std::collections::BTreeSet;
use std::fs;

use crate::process::Core;

/// A kind of hardware resource, in order of size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Processes that can share memory.
    Host,
    /// A processor package (socket).
    Package,
    /// A NUMA node.
    NumaNode,
    /// A last-level cache.
    L3Cache,
    /// A core.
    Core,
    /// A hardware thread.
    Thread,
}

impl Resource {
    /// All kinds, the largest first.
    pub const ALL: [Resource; 6] = [
        Resource::Host,
        Resource::Package,
        Resource::NumaNode,
        Resource::L3Cache,
        Resource::Core,
        Resource::Thread,
    ];

    /// Returns the kind's name, a value of the info key "mpi_hw_resource_type".
    pub fn name(self) -> &'static str {
        match self {
            Resource::Host => "mpi_shared_memory",
            Resource::Package => "hwloc://Package",
            Resource::NumaNode => "hwloc://NUMANode",
            Resource::L3Cache => "hwloc://L3Cache",
            Resource::Core => "hwloc://Core",
            Resource::Thread => "hwloc://PU",
        }
    }

    /// Returns the kind with this name; upper and lower case are equal.
    pub fn from_name(name: &[u8]) -> Option<Resource> {
        Resource::ALL
            .into_iter()
            .find(|resource| resource.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// Returns the lowest processor of the instance that this process is restricted to; 0 for the
    /// host, which is known without the processors.
    fn instance(self, mine: &BTreeSet<u32>) -> Option<u32> {
        if self == Resource::Host {
            return Some(0);
        }
        let whole = self.processors_with(*mine.first()?)?;
        mine.is_subset(&whole).then(|| whole.first().copied()).flatten()
    }

    /// Returns the processors of the instance that has this one; `None` for the host, which is no
    /// set of processors here.
    fn processors_with(self, first: u32) -> Option<BTreeSet<u32>> {
        match self {
            Resource::Host => None,
            Resource::Package => list(&format!("{CPUS}/cpu{first}/topology/package_cpus_list"))
                .or_else(|| list(&format!("{CPUS}/cpu{first}/topology/core_siblings_list"))),
            // Their numbers may have gaps.
            Resource::NumaNode => list(&format!("{NODES}/online"))?
                .into_iter()
                .filter_map(|node| list(&format!("{NODES}/node{node}/cpulist")))
                .find(|cpus| cpus.contains(&first)),
            Resource::L3Cache => list(&format!("{}/shared_cpu_list", cache(first, "3")?)),
            Resource::Core => list(&format!("{CPUS}/cpu{first}/topology/core_cpus_list"))
                .or_else(|| list(&format!("{CPUS}/cpu{first}/topology/thread_siblings_list"))),
            Resource::Thread => Some(BTreeSet::from([first])),
        }
    }
}

const CPUS: &str = "/sys/devices/system/cpu";
const NODES: &str = "/sys/devices/system/node";

/// Returns the instances that this process is restricted to, in the order of [`Resource::ALL`].
pub fn instances() -> [Option<u32>; 6] {
    let mine = allowed();
    Resource::ALL.map(|resource| resource.instance(&mine))
}

/// Returns the processors that the calling thread may run on.
fn allowed() -> BTreeSet<u32> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(numbers)
        .unwrap_or_default()
}

/// Returns the sysfs folder of a processor's cache of this level.
fn cache(cpu: u32, level: &str) -> Option<String> {
    let mut folders = (0..8).map(|index| format!("{CPUS}/cpu{cpu}/cache/index{index}"));
    folders.find(|folder| {
        fs::read_to_string(format!("{folder}/level")).is_ok_and(|found| found.trim() == level)
    })
}

/// Returns the bytes of the first processor's second-level cache.
pub(crate) fn second_level_cache() -> Option<u64> {
    let size = fs::read_to_string(format!("{}/size", cache(0, "2")?)).ok()?;
    let kibibytes: u64 = size.trim().strip_suffix('K')?.parse().ok()?;
    Some(kibibytes << 10)
}

fn list(path: &str) -> Option<BTreeSet<u32>> {
    numbers(&fs::read_to_string(path).ok()?)
}

/// Parses a list of processors such as "0-3,8".
fn numbers(text: &str) -> Option<BTreeSet<u32>> {
    let mut found = BTreeSet::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        found.extend(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?);
    }
    Some(found)
}

impl Core {
    /// Returns the lowest rank of this host.
    pub(crate) fn first_of_host(&self) -> u32 {
        self.job.local_numbers()[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(numbers("0-2,5\n"), Some(BTreeSet::from([0, 1, 2, 5])));
        assert_eq!(numbers("7"), Some(BTreeSet::from([7])));
        assert_eq!(numbers("\n"), Some(BTreeSet::new()));
        assert_eq!(numbers("a-b"), None);
    }

    #[test]
    fn resources_are_found_by_name() {
        for resource in Resource::ALL {
            assert_eq!(
                Resource::from_name(resource.name().to_ascii_uppercase().as_bytes()),
                Some(resource)
            );
        }
        assert_eq!(Resource::from_name(b"bar"), None);
    }

    #[test]
    fn each_process_is_on_a_host_and_one_processor_is_one_thread() {
        let one = BTreeSet::from([0]);
        assert_eq!(Resource::Host.instance(&one), Some(0));
        assert_eq!(Resource::Thread.instance(&one), Some(0));
        assert_eq!(Resource::Thread.instance(&BTreeSet::from([0, 1])), None);
        // Without /proc the processors are not known.
        assert_eq!(
            Resource::ALL.map(|each| each.instance(&BTreeSet::new())),
            [Some(0), None, None, None, None, None]
        );
    }
}
