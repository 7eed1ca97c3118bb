//! Chooses the ports of a process among those of its host, with the reasons.
//!
//! The first port carries the frames; large reads and writes are striped over all. Ports that the
//! user names are taken. Otherwise the ports are those of the fastest network, without much slower
//! ones, at most `verbs.max_rails`: the nearest first, in turns for the ranks of a host. Virtual
//! functions of one physical port count as one port. Named ports of one network are ordered in the
//! same way; those of several networks keep their order, so that the nth port of each rank is in
//! the same network.
//!
//! A port that is usable may fail all the same when a transport is opened on it. The selection is
//! then made again without it ([`Selection::without_first`]), unless the user has named it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;

use config::{ByDevice, DevicePattern};

use crate::device::{Port, absent, count_ports, ports_of};
use crate::device_list::DeviceList;
use crate::ibv::layout::PortAttr;
use crate::ibv::{Library, device_names, library};
use crate::locality::{Locality, PhysicalPort, network_of};
use crate::settings::Settings;
use crate::unavailable::Unavailable;

/// Most ports of a process: a region has as many keys.
pub(crate) const MAX_PORTS: usize = 4;

/// The ports that a process uses.
#[derive(Debug)]
pub struct Selection {
    /// The first one carries all frames.
    pub ports: Vec<Port>,
    /// Why these and not others, if there are others.
    pub reason: Option<String>,
    usable: Usable,
}

/// The usable ports of a host, from which a selection is made.
#[derive(Debug)]
struct Usable {
    ports: Vec<Port>,
    /// The properties of each port.
    candidates: Vec<Candidate>,
    /// Why other ports and devices are not usable.
    why_not: Vec<String>,
    wishes: Wishes,
}

/// The properties of a port that matter.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Candidate {
    network: String,
    /// Mbit/s.
    rate: u32,
    distance: u32,
    is_emulated: bool,
    /// Whose bandwidth it has.
    physical: PhysicalPort,
}

/// What the user and the launcher want.
#[derive(Clone, Copy, Debug)]
struct Wishes {
    /// The candidates are named one by one ...
    are_named: bool,
    /// ... and their order matters.
    are_ordered: bool,
    max_rails: usize,
    local_rank: u32,
}

impl Port {
    /// Opens the port that carries the frames, see [`Selection::new`].
    pub fn choose(settings: &Settings) -> Result<Port, Unavailable> {
        Selection::new(settings).map(|selection| selection.ports.into_iter().next()).and_then(
            |port| port.ok_or_else(|| Unavailable::PortsDown("no port was selected".into())),
        )
    }
}

impl Selection {
    /// Opens the ports that the settings choose: at least one.
    pub fn new(settings: &Settings) -> Result<Selection, Unavailable> {
        let library = library(settings.library.as_deref())?;
        // libibverbs fails here if the kernel has no RDMA subsystem.
        let mut devices = device_names(library).unwrap_or_default();
        devices.sort_by(|one, other| natural(one).cmp(natural(other)));
        if devices.is_empty() {
            return Err(absent());
        }
        for (knob, numbers) in
            [("verbs.gid_index", &settings.gid_index), ("verbs.pkey", &settings.pkey)]
        {
            check_named(library, &devices, knob, numbers)?;
        }
        let named: Vec<String> = match &settings.device {
            Some(device) => vec![device.clone()],
            None => settings.devices.clone(),
        };
        let list = DeviceList::parse(&[named.as_slice(), &settings.rails].concat())?;
        let (ports, why_not) = match list.names() {
            Some(_) => (named_ports(library, &devices, &list, settings)?, Vec::new()),
            None => usable_ports(library, &devices, &list, settings)?,
        };
        let wishes = Wishes {
            are_named: list.names().is_some(),
            are_ordered: !settings.rails.is_empty(),
            max_rails: settings.max_rails,
            local_rank: settings.local_rank,
        };
        let locality = Locality::of_process();
        let candidates = ports.iter().map(|port| Candidate::new(port, &locality)).collect();
        Ok(Usable { ports, candidates, why_not, wishes }.select())
    }

    /// Selects again without the first port, which cannot be opened; `why` becomes a part of the
    /// reason. `None` if there is no other port, or the user has named the ports: then each must
    /// work.
    pub(crate) fn without_first(self, why: &Unavailable) -> Option<Selection> {
        let mut usable = self.usable;
        let first = *order(&usable.candidates, usable.wishes).first()?;
        let port = usable.ports.remove(first);
        usable.candidates.remove(first);
        usable.why_not.push(format!("not {}:{} ({why})", port.device, port.number));
        let has_others = !usable.ports.is_empty() && !usable.wishes.are_named;
        has_others.then(|| usable.select())
    }

    /// Returns whether the user has named the ports; therefore each must work.
    pub(crate) fn are_named(&self) -> bool {
        self.usable.wishes.are_named
    }
}

impl Usable {
    fn select(self) -> Selection {
        let order = order(&self.candidates, self.wishes);
        let mut reasons = reasons(&self.ports, &self.candidates, &order, self.wishes);
        reasons.extend(self.why_not.iter().cloned());
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        let ports = order.iter().map(|&at| self.ports[at].clone()).collect();
        Selection { ports, reason, usable: self }
    }
}

/// Checks the devices and ports that a knob has numbers for.
fn check_named(
    library: &'static Library,
    devices: &[String],
    knob: &'static str,
    numbers: &ByDevice,
) -> Result<(), Unavailable> {
    for DevicePattern { device, port } in numbers.named() {
        let device = device.clone();
        if !devices.contains(&device) {
            let present = devices.join(", ");
            return Err(Unavailable::NoSuchDevice { requested: device, knob, present });
        }
        // A device that cannot be opened is an error where it is used.
        if let Some(port) = *port
            && let Ok(count) = count_ports(library, &device)
            && port > count
        {
            return Err(Unavailable::NoSuchPort { device, knob, port, count });
        }
    }
    Ok(())
}

/// Opens the ports that the list names. Each must be usable.
fn named_ports(
    library: &'static Library,
    devices: &[String],
    list: &DeviceList,
    settings: &Settings,
) -> Result<Vec<Port>, Unavailable> {
    let items = list.names().unwrap_or_default();
    if items.len() > MAX_PORTS {
        return Err(Unavailable::TooManyPorts { count: items.len(), max: MAX_PORTS });
    }
    let mut ports: Vec<Port> = Vec::new();
    for item in items {
        if !devices.contains(&item.device) {
            return Err(Unavailable::NoSuchDevice {
                requested: item.device.clone(),
                knob: "verbs.devices",
                present: devices.join(", "),
            });
        }
        let port = item.port.map(|port| (port, "verbs.devices")).or(port_of_knob(settings));
        let (found, why_not) = ports_of(library, &item.device, port, settings)?;
        let first = found.into_iter().next();
        ports.push(first.ok_or_else(|| Unavailable::PortsDown(why_not.join("; ")))?);
    }
    Ok(ports)
}

/// Opens all usable ports that the list includes: at least one. Returns also why others are not
/// usable.
fn usable_ports(
    library: &'static Library,
    devices: &[String],
    list: &DeviceList,
    settings: &Settings,
) -> Result<(Vec<Port>, Vec<String>), Unavailable> {
    let (mut ports, mut refused, mut why_not) = (Vec::new(), Vec::new(), Vec::new());
    for device in devices {
        // A device without an included port need not work.
        if !(1..=u8::MAX).any(|port| list.includes(device, port)) {
            continue;
        }
        match ports_of(library, device, port_of_knob(settings), settings) {
            Ok((found, why)) => {
                ports.extend(found.into_iter().filter(|port| list.includes(device, port.number)));
                why_not.extend(why);
            }
            // A device that is not meant may be broken: an error only if no other is found.
            Err(error) => refused.push(error),
        }
    }
    if !ports.is_empty() {
        why_not.extend(refused.iter().map(Unavailable::to_string));
        return Ok((ports, why_not));
    }
    if refused.is_empty() && why_not.is_empty() {
        why_not.push(format!("verbs.devices excludes all of {}", devices.join(", ")));
    }
    let first = refused.into_iter().next();
    Err(first.unwrap_or_else(|| Unavailable::PortsDown(why_not.join("; "))))
}

/// Returns the port that the user wants of each device, with the knob that says so.
fn port_of_knob(settings: &Settings) -> Option<(u8, &'static str)> {
    settings.port.map(|port| (port, "verbs.port"))
}

impl Candidate {
    fn new(port: &Port, locality: &Locality) -> Candidate {
        let folder = port.context.folder();
        Candidate {
            network: network(port),
            rate: rate_in(&folder, port.number).unwrap_or_else(|| rate(&port.attr)),
            distance: locality.distance(&folder),
            is_emulated: port.is_emulated,
            physical: PhysicalPort::of(&folder, port.number),
        }
    }
}

/// Returns the network of a port: on InfiniBand its subnet, on RoCE that of its address.
fn network(port: &Port) -> String {
    match port.address.gid.raw {
        _ if !port.is_ethernet() => port.fabric(),
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => {
            network_of(Ipv4Addr::new(a, b, c, d)).unwrap_or_else(|| port.fabric())
        }
        [0xfe, 0x80, ..] => port.fabric(),
        raw => format!("ethernet {:02x?}", &raw[..8]),
    }
}

/// Returns the parts of a name by which names are ordered, so that `mlx5_2` comes before `mlx5_10`:
/// each run of digits is a number, and anything else a character.
fn natural(name: &str) -> impl Iterator<Item = (u64, u64)> {
    let mut rest = name.chars().peekable();
    std::iter::from_fn(move || {
        let first = rest.next()?;
        let Some(digit) = first.to_digit(10) else { return Some((1, first.into())) };
        let mut number = u64::from(digit);
        while let Some(digit) = rest.peek().and_then(|next| next.to_digit(10)) {
            number = number.saturating_mul(10).saturating_add(digit.into());
            rest.next();
        }
        Some((0, number))
    })
}

/// Returns the rate of a port in Mbit/s by the system, whose structure for libraries has no space
/// for newer speeds.
fn rate_in(folder: &Path, port: u8) -> Option<u32> {
    let text = std::fs::read_to_string(folder.join(format!("ports/{port}/rate"))).ok()?;
    let gigabits: f64 = text.split_once(" Gb/sec")?.0.trim().parse().ok()?;
    Some((gigabits * 1000.0) as u32)
}

/// Returns the rate of a port in Mbit/s, as the InfiniBand specification numbers width and speed.
fn rate(attr: &PortAttr) -> u32 {
    let lanes = match attr.active_width {
        1 => 1,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 4,
    };
    let lane = match attr.active_speed {
        1 => 2_500,
        2 => 5_000,
        4 | 8 => 10_000,
        16 => 14_000,
        32 => 25_000,
        64 => 50_000,
        _ => 100_000,
    };
    lanes * lane
}

/// Returns the indices of the candidates to use, in their order.
fn order(all: &[Candidate], wishes: Wishes) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..all.len()).collect();
    if wishes.are_named {
        if wishes.are_ordered || all.iter().any(|port| port.network != all[0].network) {
            return chosen;
        }
    } else if let Some(best) = best(all) {
        chosen.retain(|&at| is_like(&all[at], &all[best]));
    }
    chosen.sort_by_key(|&at| (all[at].distance, all[at].physical.is_virtual));
    if !wishes.are_named {
        let mut ports = BTreeSet::new();
        chosen.retain(|&at| ports.insert(&all[at].physical.port));
    }
    let nearest = chosen.first().map_or(0, |&at| all[at].distance);
    let near = chosen.partition_point(|&at| all[at].distance <= nearest);
    if near > 0 {
        chosen[..near].rotate_left(wishes.local_rank as usize % near);
    }
    let max = match chosen.first() {
        _ if wishes.are_named => MAX_PORTS,
        // Emulated ports share the processors.
        Some(&at) if all[at].is_emulated => 1,
        _ => wishes.max_rails.min(MAX_PORTS),
    };
    chosen.truncate(max);
    chosen
}

/// Returns a candidate of the network to use: that with the fastest port, then the one with the
/// most bandwidth, then the first.
fn best(all: &[Candidate]) -> Option<usize> {
    let bandwidth = |network: &str| -> u64 {
        let ports = all.iter().filter(|port| port.network == network);
        let rates: BTreeMap<_, _> = ports.map(|port| (&port.physical.port, port.rate)).collect();
        rates.into_values().map(u64::from).sum()
    };
    (0..all.len()).max_by_key(|&at| {
        let port = &all[at];
        (!port.is_emulated, port.rate, bandwidth(&port.network), Reverse(at))
    })
}

/// Returns whether a port is of the network of the best one, and not much slower.
fn is_like(port: &Candidate, best: &Candidate) -> bool {
    port.network == best.network
        && port.is_emulated == best.is_emulated
        && u64::from(port.rate) * 2 > u64::from(best.rate)
}

/// Returns why these ports and not other usable ones, if there are several.
fn reasons(ports: &[Port], all: &[Candidate], order: &[usize], wishes: Wishes) -> Vec<String> {
    let Some(&first) = order.first() else { return Vec::new() };
    let name = |at: usize| format!("{}:{}", ports[at].device, ports[at].number);
    let list = |which: Vec<usize>| which.into_iter().map(name).collect::<Vec<_>>().join(", ");
    let mut parts = Vec::new();
    let others = (0..all.len()).filter(|&at| all[at].distance > all[first].distance);
    let others: Vec<usize> = others.filter(|&at| all[at].network == all[first].network).collect();
    if !others.is_empty() {
        parts.push(format!("{} is nearer than {}", name(first), list(others)));
    }
    let unused: Vec<usize> = (0..all.len()).filter(|at| !order.contains(at)).collect();
    let of_kind = |why: fn(&Candidate, &Candidate) -> bool| -> Vec<usize> {
        unused.iter().copied().filter(|&at| why(&all[at], &all[first])).collect()
    };
    let other_network = of_kind(|port, first| port.network != first.network);
    let slower = of_kind(|port, first| port.network == first.network && !is_like(port, first));
    let is_taken =
        |at: usize| order.iter().any(|&taken| all[taken].physical.port == all[at].physical.port);
    let (shared, spare) = of_kind(is_like).into_iter().partition(|&at| is_taken(at));
    let limit = match all[first].is_emulated {
        true => "emulated ports share the processors".to_owned(),
        false => format!("verbs.max_rails = {}", wishes.max_rails),
    };
    let groups = [
        (other_network, "in another network".to_owned()),
        (slower, "slower, or emulated".to_owned()),
        (shared, "the same physical port".to_owned()),
        (spare, limit),
    ];
    for (which, why) in groups {
        if !which.is_empty() {
            parts.push(format!("not {} ({why})", list(which)));
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const AUTO: Wishes =
        Wishes { are_named: false, are_ordered: false, max_rails: 2, local_rank: 0 };

    /// Returns a port of an adapter of its own.
    fn port(network: &str, rate: u32, distance: u32) -> Candidate {
        static ADAPTERS: AtomicU32 = AtomicU32::new(0);
        let adapter = format!("adapter {}", ADAPTERS.fetch_add(1, Ordering::Relaxed));
        let physical = PhysicalPort { port: (adapter.into(), 1), is_virtual: false };
        Candidate { network: network.into(), rate, distance, is_emulated: false, physical }
    }

    /// Returns a virtual function of a port.
    fn function_of(physical: &Candidate) -> Candidate {
        let port = physical.physical.port.clone();
        Candidate { physical: PhysicalPort { port, is_virtual: true }, ..physical.clone() }
    }

    #[test]
    fn virtual_functions_are_no_ports_of_their_own() {
        let (first, other) = (port("a", 200, 10), port("a", 200, 10));
        let all = [function_of(&first), first.clone(), function_of(&first), other];
        assert_eq!(order(&all, AUTO), [1, 3]);
        assert_eq!(order(&all, Wishes { local_rank: 1, ..AUTO }), [3, 1]);
        // In a container there may be functions alone.
        assert_eq!(order(&[function_of(&first), function_of(&first)], AUTO), [0]);
        let named = Wishes { are_named: true, ..AUTO };
        assert_eq!(order(&[first.clone(), function_of(&first)], named), [0, 1]);
        // They add no bandwidth to their network.
        let two = [port("b", 200, 10), port("b", 200, 10)];
        let all = [&all[..3], &two].concat();
        assert_eq!(order(&all, AUTO), [3, 4]);
    }

    #[test]
    fn names_are_ordered_by_their_numbers() {
        let mut names = ["mlx5_10", "mlx5_bond_0", "irdma1", "mlx5_2", "mlx5_2a", "mlx5"];
        names.sort_by(|one, other| natural(one).cmp(natural(other)));
        assert_eq!(names, ["irdma1", "mlx5", "mlx5_2", "mlx5_2a", "mlx5_10", "mlx5_bond_0"]);
    }

    #[test]
    fn the_system_knows_every_rate() {
        let root = std::env::temp_dir().join(format!("verbena-rate-{}", std::process::id()));
        for (number, text) in [(1, "800 Gb/sec (4X XDR)\n"), (2, "2.5 Gb/sec (1X SDR)\n"), (3, "?")]
        {
            std::fs::create_dir_all(root.join(format!("ports/{number}"))).unwrap();
            std::fs::write(root.join(format!("ports/{number}/rate")), text).unwrap();
        }
        let rates = [1, 2, 3, 4].map(|port| rate_in(&root, port));
        std::fs::remove_dir_all(root).unwrap();
        assert_eq!(rates, [Some(800_000), Some(2_500), None, None]);
    }

    #[test]
    fn the_nearest_ports_come_first_and_the_ranks_take_turns() {
        let all = [port("a", 200, 21), port("a", 200, 10), port("a", 200, 10), port("a", 200, 21)];
        let of = |local_rank| order(&all, Wishes { local_rank, ..AUTO });
        assert_eq!([of(0), of(1), of(2)], [[1, 2], [2, 1], [1, 2]]);
        let all_of = |local_rank| order(&all, Wishes { local_rank, max_rails: 4, ..AUTO });
        assert_eq!([all_of(0), all_of(1)], [[1, 2, 0, 3], [2, 1, 0, 3]]);
        assert_eq!(order(&all, Wishes { max_rails: 1, local_rank: 1, ..AUTO }), [2]);
    }

    #[test]
    fn the_fastest_network_is_taken_without_slower_ports() {
        let all = [port("slow", 25, 10), port("fast", 200, 21), port("fast", 100, 10)];
        assert_eq!(order(&all, AUTO), [1]);
        let all = [port("a", 100, 10), port("b", 100, 10), port("b", 100, 10)];
        assert_eq!(order(&all, AUTO), [1, 2]);
        assert_eq!(order(&[port("a", 100, 10), port("b", 100, 10)], AUTO), [0]);
        assert_eq!(order(&[], AUTO), []);
    }

    #[test]
    fn one_emulated_port_is_enough_and_none_if_there_are_adapters() {
        let soft = |network| Candidate { is_emulated: true, ..port(network, 400, 10) };
        assert_eq!(order(&[soft("a"), soft("a")], AUTO), [0]);
        assert_eq!(order(&[soft("a"), soft("a")], Wishes { local_rank: 1, ..AUTO }), [1]);
        assert_eq!(order(&[soft("a"), port("a", 100, 10)], AUTO), [1]);
        let named = Wishes { are_named: true, ..AUTO };
        assert_eq!(order(&[soft("a"), soft("a")], named), [0, 1]);
    }

    #[test]
    fn named_ports_of_several_networks_keep_their_order() {
        let named = Wishes { are_named: true, local_rank: 1, ..AUTO };
        let all = [port("a", 100, 21), port("b", 100, 10)];
        assert_eq!(order(&all, named), [0, 1]);
        let all = [port("a", 100, 21), port("a", 25, 10), port("a", 100, 10)];
        assert_eq!(order(&all, named), [2, 1, 0]);
        assert_eq!(order(&all, Wishes { are_ordered: true, ..named }), [0, 1, 2]);
    }

    #[test]
    fn without_rdma_the_reason_is_a_sentence() {
        // There is a port or a reason on every host.
        match Port::choose(&Settings::default()) {
            Ok(port) => assert!(port.to_string().contains(&port.device)),
            Err(error) => assert!(error.to_string().len() > 40, "{error}"),
        }
        let settings = Settings { device: Some("no_such_device".into()), ..Settings::default() };
        assert!(Port::choose(&settings).is_err());
    }
}
