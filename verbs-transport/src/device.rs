//! Which device, port and address are used, and why others are not.

use std::fmt;
use std::sync::Arc;

use config::RoceVersion;

use crate::ibv::layout::{GRH_REQUIRED, gid_type, link_layer, port_state};
use crate::ibv::{AhAttr, Context, DeviceAttr, Gid, PortAttr, device_names, library};
use crate::settings::Settings;
use crate::unavailable::Unavailable;

/// An active port with the address that we use.
#[derive(Clone, Debug)]
pub struct Port {
    /// The open device.
    pub context: Arc<Context>,
    /// Its name.
    pub device: String,
    /// Number, from 1.
    pub number: u8,
    /// The kernel does by itself what an adapter would do (`rdma_rxe`, `siw`): it
    /// needs a processor for that, and one that polls is not there for it.
    pub is_emulated: bool,
    /// What the device can do.
    pub device_attr: DeviceAttr,
    /// How the port was when it was chosen.
    pub attr: PortAttr,
    /// Where others find it.
    pub address: PortAddress,
    /// Place of our address in the port's table.
    pub gid_index: u8,
    /// Place of the partition key in the port's table.
    pub pkey_index: u16,
}

/// A port on the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PortAddress {
    /// Within an InfiniBand subnet; 0 on RoCE.
    pub lid: u16,
    /// Everywhere.
    pub gid: Gid,
}

impl Port {
    /// Opens what the settings name, or the first device with an active port.
    pub fn choose(settings: &Settings) -> Result<Port, Unavailable> {
        let library = library()?;
        // Without the kernel's part libibverbs fails; with it, it has found what there is.
        let names = device_names(library).unwrap_or_default();
        if names.is_empty() {
            return Err(none_there());
        }
        if let Some(asked) = &settings.device
            && !names.contains(asked)
        {
            return Err(Unavailable::NoSuchDevice {
                asked: asked.clone(),
                present: names.join(", "),
            });
        }
        let mut refused = None;
        let mut down = Vec::new();
        for name in
            names.iter().filter(|name| settings.device.as_ref().is_none_or(|asked| asked == *name))
        {
            match open(library, name, settings) {
                Ok(Ok(port)) => return Ok(port),
                Ok(Err(why)) => down.extend(why),
                // A device that is not meant may be broken; say so if nothing else is found.
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Unavailable::PortsDown(down.join("; "))))
    }

    /// True for RoCE.
    pub fn is_ethernet(&self) -> bool {
        self.attr.link_layer == link_layer::ETHERNET
    }

    /// The way to another port.
    pub fn address_vector(&self, other: &PortAddress, settings: &Settings) -> AhAttr {
        let mut way = AhAttr {
            dlid: other.lid,
            sl: settings.service_level,
            port_num: self.number,
            ..AhAttr::default()
        };
        // Without a subnet manager's route there is only the global header.
        let same_subnet = other.gid.raw[..8] == self.address.gid.raw[..8];
        let is_required = self.attr.flags & GRH_REQUIRED != 0;
        if self.is_ethernet()
            || is_required
            || !same_subnet
            || other.lid == 0
            || settings.gid_index.is_some()
        {
            way.is_global = 1;
            way.grh.dgid = other.gid;
            way.grh.sgid_index = self.gid_index;
            way.grh.hop_limit = 64;
            way.grh.traffic_class = settings.traffic_class;
        }
        way
    }
}

/// Whether a device is made of nothing but software.
fn is_emulated(device: &str) -> bool {
    let place = std::fs::canonicalize(format!("/sys/class/infiniband/{device}"));
    place.is_ok_and(|place| place.starts_with("/sys/devices/virtual"))
}

/// As a report names it: device, port, kind, packet size, address.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_ethernet() { "RoCE" } else { "InfiniBand" };
        let packet = 128u32 << self.attr.active_mtu.min(5);
        let (number, device, index, address) =
            (self.number, &self.device, self.gid_index, self.address);
        write!(
            f,
            "port {number} of {device}, {kind}, packets of {packet} bytes, GID {index} {address}"
        )
    }
}

/// The GID, as IPv4 where it is one.
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

fn none_there() -> Unavailable {
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

/// The device's usable port; or why each of its ports is none.
fn open(
    library: &'static crate::ibv::Library,
    name: &str,
    settings: &Settings,
) -> Result<Result<Port, Vec<String>>, Unavailable> {
    let context = Context::open(library, name).map_err(|error| match may_open() {
        true => Unavailable::step(name, "opening it", error),
        false => Unavailable::Permission(name.to_owned()),
    })?;
    let device_attr = context
        .device_attr()
        .map_err(|error| Unavailable::step(name, "asking what it can do", error))?;
    let count = device_attr.phys_port_cnt;
    let ports = match settings.port {
        Some(port) if port == 0 || port > count => {
            return Err(Unavailable::NoSuchPort { device: name.to_owned(), port, count });
        }
        Some(port) => port..=port,
        None => 1..=count,
    };
    let mut down = Vec::new();
    for number in ports {
        let attr = context
            .port(number)
            .map_err(|error| Unavailable::step(name, "asking for its port", error))?;
        if attr.state != port_state::ACTIVE {
            down.push(why_down(name, number, &attr));
            continue;
        }
        let (gid, gid_index) = find_gid(&context, name, number, &attr, settings)?;
        let pkey_index = find_pkey(&context, name, number, &attr, settings)?;
        let address = PortAddress { lid: attr.lid, gid };
        let device = name.to_owned();
        return Ok(Ok(Port {
            context,
            is_emulated: is_emulated(&device),
            device,
            number,
            device_attr,
            attr,
            address,
            gid_index,
            pkey_index,
        }));
    }
    Ok(Err(down))
}

/// False when a file of the devices is closed to this user. libibverbs does not say so: it
/// goes on to look for the file elsewhere.
fn may_open() -> bool {
    use rustix::fs::{Access, access};
    let files = std::fs::read_dir("/dev/infiniband").into_iter().flatten().flatten();
    let mut devices =
        files.filter(|file| file.file_name().as_encoded_bytes().starts_with(b"uverbs"));
    devices.all(|file| access(file.path(), Access::READ_OK | Access::WRITE_OK).is_ok())
}

fn why_down(device: &str, port: u8, attr: &PortAttr) -> String {
    let ethernet = attr.link_layer == link_layer::ETHERNET;
    let why = match attr.state {
        port_state::DOWN if ethernet => {
            "down: bring its Ethernet interface up (`rdma link` names it), check the cable"
        }
        port_state::DOWN => "down: check the cable and the switch",
        port_state::INIT => {
            "initialising: no subnet manager has configured it (start opensm, or ask who runs the fabric)"
        }
        port_state::ARMED => "armed: the subnet manager has not finished, try again in a moment",
        _ => "not active",
    };
    format!("port {port} of {device} is {why}")
}

fn find_gid(
    context: &Context,
    device: &str,
    port: u8,
    attr: &PortAttr,
    settings: &Settings,
) -> Result<(Gid, u8), Unavailable> {
    let missing =
        |what: String, remedy| Unavailable::NoGid { device: device.to_owned(), port, what, remedy };
    let entry = |index| context.gid(port, index).ok().flatten();
    if let Some(index) = settings.gid_index {
        let found = u8::try_from(index).ok().zip(entry(index));
        return found.map(|(at, entry)| (entry.gid, at)).ok_or_else(|| {
            missing(
                format!("GID {index} (verbs.gid_index)"),
                "set verbs.gid_index to one of them, or auto",
            )
        });
    }
    if attr.link_layer != link_layer::ETHERNET {
        let found = entry(0)
            .ok_or_else(|| missing("GID 0".into(), "the port's firmware should have made it"))?;
        return Ok((found.gid, 0));
    }
    let count = u32::try_from(attr.gid_tbl_len).unwrap_or(0).min(256);
    let all = (0..count)
        .filter_map(|index| entry(index).map(|entry| (entry.gid, index as u8, entry.gid_type)));
    all.filter_map(|(gid, index, kind)| {
        Some((worth(&gid, kind, settings.roce_version)?, gid, index))
    })
    .max_by_key(|&(worth, _, index)| (worth, std::cmp::Reverse(index)))
    .map(|(_, gid, index)| (gid, index))
    .ok_or_else(|| {
        let what = match settings.roce_version {
            RoceVersion::Auto => "GID".into(),
            RoceVersion::V1 => "GID of RoCE version 1 (verbs.roce_version)".into(),
            RoceVersion::V2 => "GID of RoCE version 2 (verbs.roce_version)".into(),
        };
        missing(what, "give its Ethernet interface an IP address and bring it up")
    })
}

/// How good an address is on RoCE; `None`: not one that was asked for.
fn worth(gid: &Gid, kind: u32, wanted: RoceVersion) -> Option<u32> {
    let (version_1, version_2) = (kind == gid_type::ROCE_V1, kind == gid_type::ROCE_V2);
    match wanted {
        RoceVersion::V1 if !version_1 => return None,
        RoceVersion::V2 if !version_2 => return None,
        _ => {}
    }
    let mapped = gid.raw[..10] == [0; 10] && gid.raw[10..12] == [0xff; 2];
    let local = gid.raw[..2] == [0xfe, 0x80] || (mapped && gid.raw[12..14] == [169, 254]);
    Some(u32::from(!version_1) * 4 + u32::from(!local) * 2 + u32::from(mapped))
}

fn find_pkey(
    context: &Context,
    device: &str,
    port: u8,
    attr: &PortAttr,
    settings: &Settings,
) -> Result<u16, Unavailable> {
    let Some(wanted) = settings.pkey else { return Ok(0) };
    // The highest bit is the membership, not the partition.
    let same =
        |index: &u16| context.pkey(port, *index).is_ok_and(|pkey| pkey & 0x7fff == wanted & 0x7fff);
    let found = (0..attr.pkey_tbl_len).find(same);
    found.ok_or_else(|| Unavailable::NoPkey { device: device.to_owned(), port, pkey: wanted })
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
        let auto = |gid: &Gid, kind| worth(gid, kind, RoceVersion::Auto);
        let descending = [
            auto(&ipv4, gid_type::ROCE_V2),
            auto(&ipv6, gid_type::ROCE_V2),
            auto(&link, gid_type::ROCE_V2),
            auto(&ipv4, gid_type::ROCE_V1),
            auto(&link, gid_type::ROCE_V1),
        ];
        assert!(descending.is_sorted_by(|a, b| a > b), "{descending:?}");
        assert_eq!(worth(&ipv4, gid_type::ROCE_V1, RoceVersion::V2), None);
        assert_eq!(worth(&ipv4, gid_type::ROCE_V2, RoceVersion::V1), None);
    }

    #[test]
    fn without_rdma_the_reason_is_a_sentence() {
        // Wherever this runs, there is a port or a reason.
        match Port::choose(&Settings::default()) {
            Ok(port) => assert!(
                port.attr.state == port_state::ACTIVE && port.to_string().contains(&port.device)
            ),
            Err(error) => assert!(error.to_string().len() > 40, "{error}"),
        }
        let settings = Settings { device: Some("no_such_device".into()), ..Settings::default() };
        assert!(Port::choose(&settings).is_err());
    }
}
