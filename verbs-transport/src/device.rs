//! Opens devices and finds the address of each usable port, or the reason against a port.
//!
//! Which of the ports are used is decided in `selection`.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use config::RoceVersion;

use crate::ibv::layout::{GRH_REQUIRED, gid_type, link_layer, port_state, transport_type};
use crate::ibv::{AhAttr, Context, DeviceAttr, Gid, GidEntry, Library, PortAttr};
use crate::settings::Settings;
use crate::unavailable::Unavailable;

/// An active port with the address in use.
#[derive(Clone, Debug)]
pub struct Port {
    /// The open device.
    pub context: Arc<Context>,
    /// Name of the device.
    pub device: String,
    /// Number of the port, from 1.
    pub number: u8,
    /// The kernel does the work of an adapter (`rdma_rxe`, `siw`). It needs a processor for that,
    /// which a process that polls takes away.
    pub is_emulated: bool,
    /// Capabilities of the device.
    pub device_attr: DeviceAttr,
    /// State of the port when it was chosen.
    pub attr: PortAttr,
    /// Address for peers.
    pub address: PortAddress,
    /// Index of the address in the port's GID table.
    pub gid_index: u8,
    /// Kind of the address, see [`gid_type`].
    pub gid_type: u32,
    /// Index of the partition key in the port's table.
    pub pkey_index: u16,
    /// What the knobs want of this port.
    pub(crate) wanted: Wanted,
}

/// The entries of a port's tables that the knobs name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// `verbs.gid_index`.
    gid_index: Option<u64>,
    /// `verbs.pkey`.
    pkey: Option<u16>,
}

/// Address of a port on the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortAddress {
    /// Address within an InfiniBand subnet; 0 on RoCE.
    pub lid: u16,
    /// Global address.
    pub gid: Gid,
}

impl Port {
    /// Returns whether the port is RoCE.
    pub fn is_ethernet(&self) -> bool {
        self.attr.link_layer == link_layer::ETHERNET
    }

    /// Returns the largest packet now, as libibverbs numbers it: from 1, 256 bytes, to 5, 4096.
    pub(crate) fn mtu(&self) -> u8 {
        self.attr.active_mtu.clamp(1, 5) as u8
    }

    /// Returns the name of the network: ports with equal names are taken to reach each other.
    pub fn fabric(&self) -> String {
        if self.is_ethernet() {
            return "ethernet".into();
        }
        let prefix: [u8; 8] = std::array::from_fn(|at| self.address.gid.raw[at]);
        format!("infiniband {:016x}", u64::from_be_bytes(prefix))
    }

    /// Takes over the port's addresses as they are now. The GID stays the same while the table has
    /// it, whatever else is added, and is replaced only by one that peers
    /// [reach as well](Self::may_become). Returns whether the addresses have changed; an error if
    /// there is none now.
    pub(crate) fn readdress(&mut self, settings: &Settings) -> Result<bool, Unavailable> {
        let (context, device) = (Arc::clone(&self.context), self.device.clone());
        let wanted = self.wanted.gid_index;
        let attr = context
            .port(self.number)
            .map_err(|error| Unavailable::step(&device, "querying its port", error))?;
        let current = context.gid(self.number, self.gid_index.into()).ok().flatten();
        let is_same =
            |entry: &GidEntry| (entry.gid, entry.gid_type) == (self.address.gid, self.gid_type);
        let (entry, index) = match current.filter(is_same) {
            Some(entry) => (entry, self.gid_index),
            None => {
                let may_become = |entry: &GidEntry| self.may_become(entry);
                find_gid(&context, (&device, self.number), &attr, wanted, settings, may_become)?
            }
        };
        let address = PortAddress { lid: attr.lid, gid: entry.gid };
        let has_changed =
            (address, index, entry.gid_type) != (self.address, self.gid_index, self.gid_type);
        (self.address, self.gid_index, self.gid_type) = (address, index, entry.gid_type);
        self.attr = attr;
        Ok(has_changed)
    }

    /// Returns whether the address may replace the one that the port had. When a RoCE address is
    /// withdrawn, to be given back or replaced, the port keeps one of its link for the moment.
    /// Peers do not reach that: the system connects only addresses of one version and family.
    fn may_become(&self, entry: &GidEntry) -> bool {
        let before = &self.address.gid;
        !self.is_ethernet()
            || (entry.gid_type == self.gid_type
                && is_ipv4(&entry.gid) == is_ipv4(before)
                && (!is_local(&entry.gid) || is_local(before)))
    }

    /// Returns the address vector to another port.
    pub fn address_vector(&self, other: &PortAddress, settings: &Settings) -> AhAttr {
        let mut attr = AhAttr {
            dlid: other.lid,
            sl: settings.service_level,
            port_num: self.number,
            ..AhAttr::default()
        };
        // Another subnet is reached by the global route header alone.
        let same_subnet = other.gid.raw[..8] == self.address.gid.raw[..8];
        let is_required = self.attr.flags & GRH_REQUIRED != 0;
        if self.is_ethernet()
            || is_required
            || !same_subnet
            || other.lid == 0
            || self.wanted.gid_index.is_some()
        {
            attr.is_global = 1;
            attr.grh.dgid = other.gid;
            attr.grh.sgid_index = self.gid_index;
            attr.grh.hop_limit = 64;
            attr.grh.traffic_class = settings.traffic_class;
        }
        attr
    }
}

/// Returns whether a device, whose folder in sysfs is given, is software alone. Before Linux 5.11
/// the folder of rdma_rxe is below that of the adapter that its network interface has; but only
/// rdma_rxe names that interface, in the file `parent`.
fn is_emulated(folder: &Path) -> bool {
    let path = std::fs::canonicalize(folder);
    path.is_ok_and(|path| path.starts_with("/sys/devices/virtual"))
        || folder.join("parent").exists()
}

/// Writes device, port, kind, packet size and address, and the partition that was named.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_ethernet() { "RoCE" } else { "InfiniBand" };
        let packet = mtu_bytes(self.mtu());
        let (number, device, index, address) =
            (self.number, &self.device, self.gid_index, self.address);
        write!(
            f,
            "port {number} of {device}, {kind}, packets of {packet} bytes, GID {index} {address}"
        )?;
        if self.wanted.gid_index.is_some() {
            f.write_str(" (verbs.gid_index)")?;
        }
        match self.wanted.pkey {
            Some(pkey) => write!(f, ", partition {pkey:#06x} (verbs.pkey)"),
            None => Ok(()),
        }
    }
}

/// Returns the bytes of the largest packet that libibverbs gives this number.
pub(crate) const fn mtu_bytes(number: u8) -> u16 {
    128 << number
}

/// Writes the GID, as IPv4 where it is one.
impl fmt::Display for PortAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gid.raw {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d] => {
                write!(f, "{}", std::net::Ipv4Addr::new(a, b, c, d))
            }
            raw => write!(f, "{}", std::net::Ipv6Addr::from(raw)),
        }
    }
}

/// Returns why libibverbs shows no device.
pub(crate) fn absent() -> Unavailable {
    let entries = std::fs::read_dir("/sys/class/infiniband").into_iter().flatten().flatten();
    let kernel: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    match kernel.is_empty() {
        true => Unavailable::NoDevice,
        false => Unavailable::Hidden {
            kernel: kernel.join(", "),
            has_files: std::path::Path::new("/dev/infiniband").exists(),
        },
    }
}

/// Returns the number of ports of a device.
pub(crate) fn count_ports(library: &'static Library, name: &str) -> io::Result<u8> {
    Ok(Context::open(library, name)?.device_attr()?.phys_port_cnt)
}

/// Opens a device. Returns its usable ports, or `port` alone, and why others are not usable. With
/// `port` comes the knob that wants it.
pub(crate) fn ports_of(
    library: &'static Library,
    name: &str,
    port: Option<(u8, &'static str)>,
    settings: &Settings,
) -> Result<(Vec<Port>, Vec<String>), Unavailable> {
    let context = Context::open(library, name).map_err(|error| match may_open() {
        true => Unavailable::step(name, "opening it", error),
        false => Unavailable::Permission(name.to_owned()),
    })?;
    match context.transport_type() {
        transport_type::IB => {}
        transport_type::IWARP => {
            return Ok((Vec::new(), vec![format!("{name} is iWARP, which has no datagrams")]));
        }
        _ => {
            return Ok((Vec::new(), vec![format!("{name} is neither InfiniBand nor RoCE")]));
        }
    }
    let device_attr = context
        .device_attr()
        .map_err(|error| Unavailable::step(name, "querying the device", error))?;
    if device_attr.max_srq < 1 {
        return Ok((Vec::new(), vec![format!("{name} has no shared receive queues")]));
    }
    let count = device_attr.phys_port_cnt;
    let numbers = match port {
        Some((port, knob)) if port == 0 || port > count => {
            return Err(Unavailable::NoSuchPort { device: name.to_owned(), knob, port, count });
        }
        Some((port, _)) => port..=port,
        None => 1..=count,
    };
    let (mut ports, mut down, mut refused) = (Vec::new(), Vec::new(), None);
    for number in numbers {
        match open_port(&context, name, number, device_attr, settings) {
            Ok(Ok(port)) => ports.push(port),
            Ok(Err(why)) => down.push(why),
            // Another port may have what this one lacks.
            Err(error) => refused = refused.or(Some(error)),
        }
    }
    match refused {
        Some(error) if ports.is_empty() => Err(error),
        refused => {
            down.extend(refused.map(|error| error.to_string()));
            Ok((ports, down))
        }
    }
}

/// Returns a port of an open device, or why it is not usable.
fn open_port(
    context: &Arc<Context>,
    device: &str,
    number: u8,
    device_attr: DeviceAttr,
    settings: &Settings,
) -> Result<Result<Port, String>, Unavailable> {
    let attr = context
        .port(number)
        .map_err(|error| Unavailable::step(device, "querying its port", error))?;
    if attr.state != port_state::ACTIVE {
        return Ok(Err(why_down(device, number, &attr)));
    }
    let wanted = Wanted {
        gid_index: settings.gid_index.of(device, number),
        pkey: settings.pkey.of(device, number).map(|pkey| pkey as u16),
    };
    let (entry, gid_index) =
        find_gid(context, (device, number), &attr, wanted.gid_index, settings, |_| true)?;
    let pkey_index = find_pkey(context, (device, number), &attr, wanted.pkey)?;
    Ok(Ok(Port {
        context: Arc::clone(context),
        device: device.to_owned(),
        number,
        is_emulated: is_emulated(&context.folder()),
        device_attr,
        attr,
        address: PortAddress { lid: attr.lid, gid: entry.gid },
        gid_index,
        gid_type: entry.gid_type,
        pkey_index,
        wanted,
    }))
}

/// Returns whether this user may open all device files. libibverbs does not report that: it goes
/// on to look for the file elsewhere.
fn may_open() -> bool {
    use rustix::fs::{Access, access};
    let files = std::fs::read_dir("/dev/infiniband").into_iter().flatten().flatten();
    let mut devices =
        files.filter(|file| file.file_name().as_encoded_bytes().starts_with(b"uverbs"));
    devices.all(|file| access(file.path(), Access::READ_OK | Access::WRITE_OK).is_ok())
}

/// Returns why a port is not active, and what to do.
fn why_down(device: &str, port: u8, attr: &PortAttr) -> String {
    let ethernet = attr.link_layer == link_layer::ETHERNET;
    let why = match attr.state {
        port_state::DOWN if ethernet => {
            "down: bring its Ethernet interface up (`rdma link` names it), check the cable"
        }
        port_state::DOWN => "down: check the cable and the switch",
        port_state::INIT => {
            "initialising: no subnet manager has configured it (start opensm, or ask the fabric's administrator)"
        }
        port_state::ARMED => "armed: the subnet manager has not finished; try again in a moment",
        _ => "not active",
    };
    format!("port {port} of {device} is {why}")
}

/// Returns the entry of the GID table to use, of those that are `usable`, and its index.
fn find_gid(
    context: &Context,
    (device, port): (&str, u8),
    attr: &PortAttr,
    wanted: Option<u64>,
    settings: &Settings,
    usable: impl Fn(&GidEntry) -> bool,
) -> Result<(GidEntry, u8), Unavailable> {
    let missing =
        |what: String, remedy| Unavailable::NoGid { device: device.to_owned(), port, what, remedy };
    let entry = |index| context.gid(port, index).ok().flatten().filter(&usable);
    if let Some(index) = wanted {
        let found = u8::try_from(index).ok().and_then(|at| Some((entry(at.into())?, at)));
        return found.ok_or_else(|| {
            missing(
                format!("GID {index} (verbs.gid_index)"),
                "set verbs.gid_index to one of them, or auto",
            )
        });
    }
    if attr.link_layer != link_layer::ETHERNET {
        let found = entry(0)
            .ok_or_else(|| missing("GID 0".into(), "the port's firmware should have created it"))?;
        return Ok((found, 0));
    }
    let count = u32::try_from(attr.gid_tbl_len).unwrap_or(0).min(256);
    let all = (0..count).filter_map(|index| Some((entry(index)?, index as u8)));
    all.filter_map(|(entry, index)| {
        Some((rank(&entry.gid, entry.gid_type, settings.roce_version)?, entry, index))
    })
    .max_by_key(|&(rank, _, index)| (rank, std::cmp::Reverse(index)))
    .map(|(_, entry, index)| (entry, index))
    .ok_or_else(|| {
        let what = match settings.roce_version {
            RoceVersion::Auto => "GID".into(),
            RoceVersion::V1 => "GID of RoCE version 1 (verbs.roce_version)".into(),
            RoceVersion::V2 => "GID of RoCE version 2 (verbs.roce_version)".into(),
        };
        missing(what, "give its Ethernet interface an IP address and bring it up")
    })
}

/// Ranks an address on RoCE, higher is better; `None` if its version is not the chosen one.
fn rank(gid: &Gid, kind: u32, requested: RoceVersion) -> Option<u32> {
    let (version_1, version_2) = (kind == gid_type::ROCE_V1, kind == gid_type::ROCE_V2);
    match requested {
        RoceVersion::V1 if !version_1 => return None,
        RoceVersion::V2 if !version_2 => return None,
        _ => {}
    }
    Some(u32::from(!version_1) * 4 + u32::from(!is_local(gid)) * 2 + u32::from(is_ipv4(gid)))
}

/// Returns whether an address is an IPv4 address.
fn is_ipv4(gid: &Gid) -> bool {
    gid.raw[..10] == [0; 10] && gid.raw[10..12] == [0xff; 2]
}

/// Returns whether an address is valid on its link alone.
fn is_local(gid: &Gid) -> bool {
    gid.raw[..2] == [0xfe, 0x80] || (is_ipv4(gid) && gid.raw[12..14] == [169, 254])
}

/// Returns the index of the partition key to use.
fn find_pkey(
    context: &Context,
    (device, port): (&str, u8),
    attr: &PortAttr,
    wanted: Option<u16>,
) -> Result<u16, Unavailable> {
    let keys = (0..attr.pkey_tbl_len).map(|index| context.pkey(port, index).unwrap_or(0));
    match (choose_pkey(keys, wanted), wanted) {
        (Some(index), _) => Ok(index),
        (None, Some(pkey)) => Err(Unavailable::NoPkey { device: device.to_owned(), port, pkey }),
        // RoCE has one key, whatever the table says.
        (None, None) => Ok(0),
    }
}

/// Returns the index of the key of the partition `requested`, or of any. A full member talks to
/// all, a limited one to full members alone; therefore the first full membership is taken, and a
/// limited one only if there is none.
fn choose_pkey(keys: impl Iterator<Item = u16>, requested: Option<u16>) -> Option<u16> {
    // The highest bit is the membership, not the partition; 0 is an empty entry.
    const FULL: u16 = 0x8000;
    let fits = |key: u16| {
        key & !FULL != 0 && requested.is_none_or(|requested| (key ^ requested) & !FULL == 0)
    };
    let fitting = (0..).zip(keys).filter(|&(_, key)| fits(key));
    fitting.min_by_key(|&(index, key)| (key & FULL == 0, index)).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: [u8; 16]) -> Gid {
        Gid { raw: text }
    }

    #[test]
    fn routable_addresses_of_version_2_come_first() {
        let link = gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1]);
        let ipv4 = gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1]);
        let ipv6 = gid([0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let auto = |gid: &Gid, kind| rank(gid, kind, RoceVersion::Auto);
        let descending = [
            auto(&ipv4, gid_type::ROCE_V2),
            auto(&ipv6, gid_type::ROCE_V2),
            auto(&link, gid_type::ROCE_V2),
            auto(&ipv4, gid_type::ROCE_V1),
            auto(&link, gid_type::ROCE_V1),
        ];
        assert!(descending.is_sorted_by(|a, b| a > b), "{descending:?}");
        assert_eq!(rank(&ipv4, gid_type::ROCE_V1, RoceVersion::V2), None);
        assert_eq!(rank(&ipv4, gid_type::ROCE_V2, RoceVersion::V1), None);
    }

    #[test]
    fn soft_roce_is_known_by_its_parent() {
        let root = std::env::temp_dir().join(format!("verbena-device-{}", std::process::id()));
        for (name, file) in [("mlx5_0", "board_id"), ("rxe0", "parent")] {
            std::fs::create_dir_all(root.join(name)).unwrap();
            std::fs::write(root.join(name).join(file), "eth0\n").unwrap();
        }
        let emulated = ["mlx5_0", "rxe0", "absent"].map(|name| is_emulated(&root.join(name)));
        std::fs::remove_dir_all(root).unwrap();
        assert_eq!(emulated, [false, true, false]);
    }

    #[test]
    fn a_full_membership_is_taken_before_a_limited_one() {
        let choose = |keys: &[u16], requested| choose_pkey(keys.iter().copied(), requested);
        assert_eq!(choose(&[0x7fff, 0, 0xffff, 0x8001], None), Some(2));
        assert_eq!(choose(&[0x7fff, 0x0001, 0x8001], Some(0x7fff)), Some(0));
        assert_eq!(choose(&[0x7fff, 0x0001, 0x8001], Some(1)), Some(2));
        assert_eq!(choose(&[0x7fff, 0], None), Some(0));
        assert_eq!(choose(&[0xffff], Some(0x8002)), None);
        assert_eq!(choose(&[0, 0], None), None);
    }
}
