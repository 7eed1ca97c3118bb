//! Ports: their addresses, and which context an address leads to.
//!
//! A port has a number in its network (`id`) from which LID and GIDs follow. Addresses change by a
//! generation, so that old ones lead to the port but are refused there.

use verbs_transport::ibv::layout::{
    AhAttr, Gid, GidEntry, PortAttr, gid_type, link_layer, port_state,
};

use crate::options::Link;
use crate::packet::{GLOBAL, Packet};

/// Ports in one network, and so the step of LIDs.
const IDS: u16 = 8192;
/// Ports that a device may have.
const PORTS: u16 = 2;

#[derive(Clone, Debug)]
pub(crate) struct Port {
    id: u16,
    link: Link,
    pub(crate) generation: u8,
    /// The port has a second IPv4 address, in the entries of the table that come first.
    pub(crate) has_second: bool,
    /// The IPv4 address is withdrawn; the address of the link stays.
    pub(crate) is_withdrawn: bool,
    pub(crate) is_up: bool,
    pub(crate) pkeys: Vec<u16>,
}

impl Port {
    pub(crate) fn new(node: u16, number: u8, link: Link, pkeys: Vec<u16>) -> Port {
        let id = (node * PORTS + u16::from(number) - 1) % IDS;
        let (has_second, is_withdrawn) = (false, false);
        Port { id, link, generation: 0, has_second, is_withdrawn, is_up: true, pkeys }
    }

    fn is_ethernet(&self) -> bool {
        !matches!(self.link, Link::Ib | Link::Grh)
    }

    /// Returns whether packets need a global route header.
    pub(crate) fn needs_route(&self) -> bool {
        self.link != Link::Ib
    }

    pub(crate) fn lid(&self) -> u16 {
        if self.is_ethernet() { 0 } else { 1 + self.id + u16::from(self.generation % 5) * IDS }
    }

    /// Returns an entry of the GID table.
    pub(crate) fn gid(&self, index: u32) -> Option<GidEntry> {
        let ([high, low], generation) = (self.id.to_be_bytes(), self.generation);
        let local = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, generation, high, low];
        let ipv4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, generation, high, low];
        let second = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 11, generation, high, low];
        let (raw, gid_type) = match (self.is_ethernet(), index) {
            (true, 0) if self.has_second => (second, gid_type::ROCE_V1),
            (true, 1) if self.has_second => (second, gid_type::ROCE_V2),
            (false, 0) => (local, gid_type::IB),
            (true, 0) => (local, gid_type::ROCE_V1),
            (true, 1) => (local, gid_type::ROCE_V2),
            (true, 2) if !self.is_withdrawn => (ipv4, gid_type::ROCE_V1),
            (true, 3) if !self.is_withdrawn => (ipv4, gid_type::ROCE_V2),
            _ => return None,
        };
        Some(GidEntry { gid: Gid { raw }, gid_index: index, gid_type, ..GidEntry::default() })
    }

    /// Returns whether the port can send to an address. The kernel asks its routes for the way to a
    /// RoCE address, and has none between two families.
    pub(crate) fn can_reach(&self, address: &AhAttr) -> bool {
        if address.is_global == 0 {
            return !self.needs_route();
        }
        let is_ipv4 = |gid: &Gid| gid.raw[..12] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        let source = self.gid(address.grh.sgid_index.into());
        source.is_some_and(|source| is_ipv4(&source.gid) == is_ipv4(&address.grh.dgid))
    }

    /// Fills the attributes that a program reads; the largest packet has `mtu` bytes.
    pub(crate) fn describe(&self, attr: &mut PortAttr, mtu: u32) {
        attr.state = if self.is_up { port_state::ACTIVE } else { port_state::DOWN };
        (attr.max_mtu, attr.active_mtu) = (5, mtu.ilog2() - 7);
        attr.gid_tbl_len = 8;
        attr.pkey_tbl_len = self.pkeys.len() as u16;
        attr.max_msg_sz = 1 << 30;
        attr.lid = self.lid();
        attr.sm_lid = if self.is_ethernet() { 0 } else { 1 };
        attr.phys_state = if self.is_up { 5 } else { 3 };
        // Four lanes of HDR.
        (attr.active_width, attr.active_speed) = (2, 64);
        attr.link_layer =
            if self.is_ethernet() { link_layer::ETHERNET } else { link_layer::INFINIBAND };
        attr.flags = u8::from(self.link == Link::Grh);
    }

    /// Returns whether a packet is addressed to this port as it is addressed now.
    pub(crate) fn is_target_of(&self, packet: &Packet) -> bool {
        if packet.flags & GLOBAL != 0 {
            (0..4)
                .filter_map(|index| self.gid(index))
                .any(|entry| entry.gid.raw == packet.target_gid)
        } else {
            !self.needs_route() && packet.target_lid == self.lid()
        }
    }
}

/// Returns the device that an address leads to, by its number in the network.
pub(crate) fn node_of(address: &AhAttr) -> Option<u16> {
    let id = match (address.is_global, address.dlid) {
        (0, 0) => return None,
        (0, lid) => (lid - 1) % IDS,
        _ => u16::from_be_bytes([address.grh.dgid.raw[14], address.grh.dgid.raw[15]]) % IDS,
    };
    Some(id / PORTS)
}

/// Returns whether two partition keys may talk: one partition, and not both limited members.
pub(crate) fn keys_fit(one: u16, other: u16) -> bool {
    (one ^ other) & 0x7fff == 0 && (one | other) & 0x8000 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lead_back_to_the_device() {
        for link in [Link::Ib, Link::Roce] {
            let mut port = Port::new(700, 2, link, vec![0xffff]);
            for _ in 0..3 {
                let dgid = port.gid(0).unwrap().gid;
                let mut address = AhAttr { is_global: 1, ..AhAttr::default() };
                address.grh.dgid = dgid;
                assert_eq!(node_of(&address), Some(700));
                let by_lid = AhAttr { dlid: port.lid(), ..AhAttr::default() };
                assert_eq!(node_of(&by_lid), (link == Link::Ib).then_some(700));
                port.generation += 1;
            }
        }
    }

    #[test]
    fn limited_members_do_not_talk_to_each_other() {
        assert!(keys_fit(0xffff, 0x7fff) && keys_fit(0x8001, 0x8001));
        assert!(!keys_fit(0x7fff, 0x7fff) && !keys_fit(0x8001, 0x8002));
    }
}
