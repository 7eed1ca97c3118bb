//! How near devices are to this process, whose port they use, and which network an Ethernet port is
//! in: read from sysfs and procfs.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use rustix::thread::{CpuSet, sched_getaffinity};

/// Distance of devices whose NUMA node is not known, and of those of the own node, as Linux counts.
pub(crate) const NEAREST: u32 = 10;
/// Flags of a route: it is up, and leads through a gateway.
const ROUTE_UP: u32 = 1;
const ROUTE_GATEWAY: u32 = 2;

/// The NUMA nodes that this process may run on, and the distances of all nodes from these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Locality {
    /// Distance of each node from the nearest of the process's.
    distances: Vec<(u32, u32)>,
}

impl Locality {
    /// Returns the locality of this process.
    pub(crate) fn of_process() -> Locality {
        let Ok(allowed) = sched_getaffinity(None) else { return Locality::default() };
        Locality::read(Path::new("/sys/devices/system/node"), &allowed)
    }

    fn read(nodes: &Path, allowed: &CpuSet) -> Locality {
        let entries = std::fs::read_dir(nodes).into_iter().flatten().flatten();
        let mut all: Vec<(u32, bool, Vec<u32>)> = Vec::new();
        for entry in entries {
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("node"));
            let Some(number) = number.and_then(|number| number.parse().ok()) else { continue };
            let read = |file| std::fs::read_to_string(entry.path().join(file)).unwrap_or_default();
            let is_own = cpus(&read("cpulist")).any(|cpu| allowed.is_set(cpu));
            let distances = read("distance");
            all.push((number, is_own, distances.split_whitespace().flat_map(str::parse).collect()));
        }
        all.sort_by_key(|&(number, ..)| number);
        // A row of distances has an entry for each node, in their order.
        let distance = |index: usize| {
            let own = all.iter().filter(|(_, is_own, _)| *is_own);
            own.filter_map(|(.., row)| row.get(index).copied()).min().unwrap_or(NEAREST)
        };
        let distances = all.iter().enumerate().map(|(index, &(node, ..))| (node, distance(index)));
        Locality { distances: distances.collect() }
    }

    /// Returns the distance of a device, whose folder in sysfs is given.
    pub(crate) fn distance(&self, device: &Path) -> u32 {
        let node = std::fs::read_to_string(device.join("device/numa_node"));
        // -1: the system does not know.
        let node = node.ok().and_then(|node| node.trim().parse::<u32>().ok());
        let found = node.and_then(|node| self.distances.iter().find(|(other, _)| *other == node));
        found.map_or(NEAREST, |&(_, distance)| distance)
    }
}

/// The port of an adapter that a port of a device is, or whose bandwidth it shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhysicalPort {
    /// The physical function of the adapter, and the number of its port.
    pub(crate) port: (PathBuf, u8),
    /// The device is a virtual function of it (SR-IOV).
    pub(crate) is_virtual: bool,
}

impl PhysicalPort {
    /// Returns that of a port of a device, whose folder in sysfs is given.
    pub(crate) fn of(device: &Path, number: u8) -> PhysicalPort {
        let function = device.join("device/physfn");
        let is_virtual = function.exists();
        let function = if is_virtual { function } else { device.join("device") };
        // A device without such a folder is one of its own.
        let function = std::fs::canonicalize(function).unwrap_or_else(|_| device.to_owned());
        PhysicalPort { port: (function, number), is_virtual }
    }
}

/// Returns the numbers of a list such as `0-3,8`.
fn cpus(list: &str) -> impl Iterator<Item = usize> {
    list.trim()
        .split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        })
        .flatten()
}

/// Returns the network that an address is in, by the kernel's table of routes.
pub(crate) fn network_of(address: Ipv4Addr) -> Option<String> {
    network_in(&std::fs::read_to_string("/proc/net/route").ok()?, address)
}

/// Returns the narrowest network of `routes` that is reached without a gateway and has the address.
fn network_in(routes: &str, address: Ipv4Addr) -> Option<String> {
    let address = u32::from(address);
    let networks = routes.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let flags = u32::from_str_radix(fields.get(3)?, 16).ok()?;
        // Both are in network byte order.
        let word = |at: usize| Some(u32::from_str_radix(fields.get(at)?, 16).ok()?.swap_bytes());
        let (network, mask) = (word(1)?, word(7)?);
        let is_direct = flags & (ROUTE_UP | ROUTE_GATEWAY) == ROUTE_UP && mask != 0;
        (is_direct && address & mask == network).then_some((mask, network))
    });
    let (mask, network) = networks.max()?;
    Some(format!("{}/{}", Ipv4Addr::from(network), mask.leading_ones()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_those_from_the_nearest_own_node() {
        let root = std::env::temp_dir().join(format!("verbena-locality-{}", std::process::id()));
        let nodes = root.join("node");
        for (node, cpulist, distance) in
            [(0, "0-1,8", "10 21 31"), (1, "2-3", "21 10 21"), (2, "", "31 21 10")]
        {
            let folder = nodes.join(format!("node{node}"));
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("cpulist"), format!("{cpulist}\n")).unwrap();
            std::fs::write(folder.join("distance"), format!("{distance}\n")).unwrap();
        }
        for (device, node) in [("near", "1"), ("far", "2"), ("unknown", "-1"), ("other", "7")] {
            std::fs::create_dir_all(root.join(device).join("device")).unwrap();
            std::fs::write(root.join(device).join("device/numa_node"), node).unwrap();
        }
        let of = |cpus: &[usize]| {
            let mut set = CpuSet::new();
            cpus.iter().for_each(|&cpu| set.set(cpu));
            let locality = Locality::read(&nodes, &set);
            ["near", "far", "unknown", "other", "absent"]
                .map(|device| locality.distance(&root.join(device)))
        };
        assert_eq!(of(&[2]), [10, 21, 10, 10, 10]);
        assert_eq!(of(&[0, 8]), [21, 31, 10, 10, 10]);
        assert_eq!(of(&[1, 3]), [10, 21, 10, 10, 10]);
        assert_eq!(of(&[]), [10; 5]);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn virtual_functions_name_their_physical_one() {
        let root = std::env::temp_dir().join(format!("verbena-functions-{}", std::process::id()));
        for function in ["pci/0", "pci/1", "pci/2"] {
            std::fs::create_dir_all(root.join(function)).unwrap();
        }
        std::os::unix::fs::symlink("../0", root.join("pci/1/physfn")).unwrap();
        for (device, function) in [("mlx5_0", "0"), ("mlx5_1", "1"), ("mlx5_2", "2")] {
            std::fs::create_dir_all(root.join(device)).unwrap();
            let target = format!("../pci/{function}");
            std::os::unix::fs::symlink(target, root.join(device).join("device")).unwrap();
        }
        let of = |device, number| PhysicalPort::of(&root.join(device), number);
        let [first, function, other] = ["mlx5_0", "mlx5_1", "mlx5_2"].map(|device| of(device, 1));
        assert_eq!((&first.port, first.is_virtual), (&function.port, false));
        assert!(function.is_virtual && !other.is_virtual && other.port != first.port);
        assert!(of("mlx5_0", 2).port != first.port && of("absent", 1).port != of("none", 1).port);
        std::fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn networks_are_those_that_need_no_gateway() {
        let routes = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n\
                      eth0 00000000 0100000A 0003 0 0 0 00000000 0 0 0\n\
                      eth0 0000000A 00000000 0001 0 0 0 000000FF 0 0 0\n\
                      eth1 0000020A 00000000 0001 0 0 0 0000FFFF 0 0 0\n\
                      eth1 0005020A 0100020A 0003 0 0 0 00FFFFFF 0 0 0\n";
        let network = |address: [u8; 4]| network_in(routes, address.into());
        assert_eq!(network([10, 1, 2, 3]).as_deref(), Some("10.0.0.0/8"));
        assert_eq!(network([10, 2, 5, 3]).as_deref(), Some("10.2.0.0/16"));
        assert_eq!(network([192, 168, 0, 1]), None);
        assert_eq!(network_in("", [10, 1, 2, 3].into()), None);
    }
}
