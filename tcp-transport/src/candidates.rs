//! Addresses at which a process can be reached: which are published, and in which order a peer
//! tries them.
//!
//! A process publishes its port with the addresses of all interfaces that the filter allows. A
//! peer tries them in turn and keeps the first that answers with the job's secret. Addresses that
//! many hosts have (of bridges for containers) therefore do no harm.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::ifaddrs::Interface;

/// Most addresses that a process publishes.
const MAX_ADDRESSES: usize = 32;

/// Which interfaces to use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Rule {
    Name(String),
    Network(IpAddr, u8),
}

/// A rule that is neither a name nor a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid network {0} in tcp.interfaces: must be the name of an interface, an address, or \
     address/prefix such as 10.1.0.0/16"
)]
pub struct InvalidFilter(String);

impl Filter {
    /// Parses names of interfaces, addresses and networks, separated by commas. No rule allows all.
    pub fn parse(text: &str) -> Result<Filter, InvalidFilter> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(Rule::parse).collect::<Result<_, _>>().map(Filter)
    }

    fn allows(&self, interface: &Interface) -> bool {
        self.0.iter().any(|rule| match rule {
            Rule::Name(name) => *name == interface.name,
            Rule::Network(network, prefix) => is_inside(interface.address, *network, *prefix),
        })
    }

    /// Returns the addresses to publish. Loopback needs a rule: other hosts would look for this
    /// process on their own. Link-local addresses of IPv4 need a rule too, or that there is no
    /// other address.
    pub(crate) fn choose(&self, all: &[Interface]) -> Vec<IpAddr> {
        let usable = all.iter().filter(|interface| !needs_interface(interface.address));
        let mut chosen: Vec<&Interface> = match self.0.is_empty() {
            true => usable.filter(|interface| !interface.is_loopback).collect(),
            false => usable.filter(|interface| self.allows(interface)).collect(),
        };
        if self.0.is_empty() && chosen.iter().any(|interface| !is_link_local(interface.address)) {
            chosen.retain(|interface| !is_link_local(interface.address));
        }
        // Bridges of containers, and link-local addresses, last.
        chosen.sort_by_key(|interface| {
            (is_link_local(interface.address), is_bridge(&interface.name))
        });
        let mut addresses: Vec<IpAddr> = Vec::new();
        for interface in chosen {
            if !addresses.contains(&interface.address) {
                addresses.push(interface.address);
            }
        }
        addresses.truncate(MAX_ADDRESSES);
        addresses
    }
}

impl Rule {
    fn parse(word: &str) -> Result<Rule, InvalidFilter> {
        if let Ok(address) = word.parse::<IpAddr>() {
            return Ok(Rule::Network(address, bits(address)));
        }
        let Some((address, prefix)) = word.split_once('/') else {
            return Ok(Rule::Name(word.to_owned()));
        };
        match (address.parse::<IpAddr>(), prefix.parse::<u8>()) {
            (Ok(address), Ok(prefix)) if prefix <= bits(address) => {
                Ok(Rule::Network(address, prefix))
            }
            _ => Err(InvalidFilter(word.to_owned())),
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn is_inside(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    common_bits(address, network).is_some_and(|common| common >= u32::from(prefix))
}

/// Returns the number of leading bits that two addresses share; `None` for different families.
fn common_bits(one: IpAddr, other: IpAddr) -> Option<u32> {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            Some((one.to_bits() ^ other.to_bits()).leading_zeros())
        }
        _ => None,
    }
}

/// Returns true for addresses that need the name of an interface with them: they are not usable.
fn needs_interface(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Returns true for the addresses that a host gives itself if no other is configured.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if address.is_link_local())
}

fn is_bridge(name: &str) -> bool {
    ["docker", "virbr", "br-", "lxcbr", "podman", "cni"].iter().any(|start| name.starts_with(start))
}

/// Sorts a peer's addresses: those in a network of ours first, of these IPv4 (its headers cost
/// less) and then those that share the most leading bits. Link-local addresses follow, since all
/// such networks have the same bits. An address that is ours too belongs to a bridge, or to a peer
/// on this host, all of whose addresses are ours.
pub(crate) fn sort(addresses: &mut [SocketAddr], own: &[IpAddr]) {
    addresses.sort_by_key(|address| {
        let ip = address.ip();
        let common = |own: &IpAddr| common_bits(*own, ip).unwrap_or(0);
        let common = own.iter().map(common).max().unwrap_or(0);
        let is_near = common >= if ip.is_ipv4() { 16 } else { 48 };
        (own.contains(&ip), is_link_local(ip), !is_near, ip.is_ipv6(), std::cmp::Reverse(common))
    });
}

/// Returns the bytes to publish: the port (2), then for each address its length (1) and bytes.
pub(crate) fn encode(port: u16, addresses: &[IpAddr]) -> Vec<u8> {
    let mut out = port.to_le_bytes().to_vec();
    for address in addresses {
        match address {
            IpAddr::V4(address) => {
                out.push(4);
                out.extend(address.octets());
            }
            IpAddr::V6(address) => {
                out.push(16);
                out.extend(address.octets());
            }
        }
    }
    out
}

/// Decodes published addresses; `None` if the bytes are not some.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<SocketAddr>> {
    let (port, mut rest) = bytes.split_first_chunk::<2>()?;
    let port = u16::from_le_bytes(*port);
    let mut addresses = Vec::new();
    while let Some((&length, after)) = rest.split_first() {
        let address: IpAddr = match length {
            4 => Ipv4Addr::from(*after.first_chunk::<4>()?).into(),
            16 => Ipv6Addr::from(*after.first_chunk::<16>()?).into(),
            _ => return None,
        };
        addresses.push(SocketAddr::new(address, port));
        rest = &after[usize::from(length)..];
    }
    (addresses.len() <= MAX_ADDRESSES).then_some(addresses)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interface(name: &str, address: &str) -> Interface {
        let address: IpAddr = address.parse().unwrap();
        Interface { name: name.into(), address, is_loopback: address.is_loopback() }
    }

    fn chosen(filter: &str, all: &[Interface]) -> Vec<String> {
        let addresses = Filter::parse(filter).unwrap().choose(all);
        addresses.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_and_networks_choose_interfaces() {
        let all = [
            interface("lo", "127.0.0.1"),
            interface("docker0", "172.17.0.1"),
            interface("eth0", "10.1.2.3"),
            interface("eth0", "fe80::1"),
            interface("ib0", "2001:db8::7"),
        ];
        assert_eq!(chosen("", &all), ["10.1.2.3", "2001:db8::7", "172.17.0.1"]);
        assert_eq!(chosen("", &all[..1]), Vec::<String>::new());
        assert_eq!(chosen("lo", &all[..1]), ["127.0.0.1"]);
        assert_eq!(chosen("ib0, lo", &all), ["127.0.0.1", "2001:db8::7"]);
        assert_eq!(chosen("10.0.0.0/8", &all), ["10.1.2.3"]);
        assert_eq!(chosen("2001:db8::/32", &all), ["2001:db8::7"]);
        assert_eq!(chosen("10.1.2.4", &all), Vec::<String>::new());
        for wrong in ["10.0.0.0/33", "eth0/8", "::/129", "10.0.0.0/"] {
            assert!(Filter::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn link_local_addresses_are_used_if_named_or_alone() {
        let all = [
            interface("lo", "127.0.0.1"),
            interface("eth1", "169.254.7.1"),
            interface("eth1", "fe80::1"),
            interface("eth0", "10.1.2.3"),
        ];
        assert_eq!(chosen("", &all), ["10.1.2.3"]);
        assert_eq!(chosen("", &all[..3]), ["169.254.7.1"]);
        assert_eq!(chosen("eth1", &all), ["169.254.7.1"]);
        assert_eq!(chosen("eth1, eth0", &all), ["10.1.2.3", "169.254.7.1"]);
        assert_eq!(chosen("169.254.0.0/16", &all), ["169.254.7.1"]);
    }

    #[test]
    fn addresses_in_a_shared_network_come_first() {
        let mut addresses: Vec<SocketAddr> =
            ["[2001:db8::1]:9", "172.17.0.1:9", "10.1.9.9:9"].map(|it| it.parse().unwrap()).into();
        sort(&mut addresses, &["10.1.2.3".parse().unwrap()]);
        assert_eq!(addresses[0].to_string(), "10.1.9.9:9");
        assert_eq!(addresses[2].to_string(), "[2001:db8::1]:9");
        let own = ["172.17.0.1", "10.1.2.3", "2001:db8::7"].map(|it| it.parse().unwrap());
        sort(&mut addresses, &own);
        let sorted: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        assert_eq!(sorted, ["10.1.9.9:9", "[2001:db8::1]:9", "172.17.0.1:9"]);
        let mut addresses: Vec<SocketAddr> =
            ["169.254.7.2:9", "10.1.9.9:9"].map(|it| it.parse().unwrap()).into();
        sort(&mut addresses, &["169.254.7.1", "10.2.0.1"].map(|it| it.parse().unwrap()));
        assert_eq!(addresses[0].to_string(), "10.1.9.9:9");
    }

    proptest! {
        #[test]
        fn any_bytes_are_addresses_or_nothing(bytes in prop::collection::vec(0u8..20, 0..80)) {
            if let Some(addresses) = decode(&bytes) {
                let ips: Vec<IpAddr> = addresses.iter().map(SocketAddr::ip).collect();
                let port = u16::from_le_bytes([bytes[0], bytes[1]]);
                prop_assert_eq!(encode(port, &ips), bytes);
            }
        }
    }
}
