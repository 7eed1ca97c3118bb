//! The listening socket of a process.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::ops::RangeInclusive;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrAny, SocketFlags, SocketType, bind, getsockname, listen, socket_with,
    sockopt,
};

use crate::candidates::Filter;
use crate::ifaddrs::interfaces;
use crate::settings::Settings;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens where processes of this host and of others reach this one, as the settings say. Returns
/// the listener, which does not block, with its addresses: those of loopback come last. The error
/// is a text for the user.
pub fn open_listener(settings: &Settings) -> Result<(TcpListener, Vec<SocketAddr>), String> {
    let filter = Filter::parse(settings.interfaces.as_deref().unwrap_or(""));
    let filter = filter.map_err(|error| error.to_string())?;
    let all = interfaces().map_err(|error| format!("cannot list the interfaces: {error}"))?;
    let mut addresses = filter.choose(&all);
    if addresses.is_empty() && settings.interfaces.is_some() {
        return Err("tcp.interfaces allows no interface of this host".into());
    }
    if settings.interfaces.is_none() {
        addresses.extend(all.iter().filter(|one| one.is_loopback).map(|one| one.address));
    }
    let opened = open(&addresses, settings.ports.as_ref());
    let (listener, port) = opened.map_err(|error| format!("cannot listen by TCP: {error}"))?;
    let addresses = addresses.into_iter().map(|address| SocketAddr::new(address, port));
    Ok((listener, addresses.collect()))
}

/// Listens where peers can reach all of `addresses`: on the address itself if there is one,
/// otherwise on all, and on a port of the range.
pub(crate) fn open(
    addresses: &[IpAddr],
    ports: Option<&RangeInclusive<u16>>,
) -> io::Result<(TcpListener, u16)> {
    let address = match addresses {
        [one] => *one,
        _ if addresses.iter().all(IpAddr::is_ipv4) => Ipv4Addr::UNSPECIFIED.into(),
        _ => Ipv6Addr::UNSPECIFIED.into(),
    };
    let Some(range) = ports else { return listen_on(SocketAddr::new(address, 0)) };
    // Ranks of a host begin at different ports, so that they do not all try the same ones.
    let count = u32::from(range.end() - range.start()) + 1;
    let offset = std::process::id() % count;
    let mut last = None;
    for step in 0..count {
        let port = range.start() + ((offset + step) % count) as u16;
        match listen_on(SocketAddr::new(address, port)) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => last = Some(error),
            result => return result,
        }
    }
    Err(last.unwrap_or_else(|| io::ErrorKind::AddrInUse.into()))
}

fn listen_on(address: SocketAddr) -> io::Result<(TcpListener, u16)> {
    let fd = new_socket(&address)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        sockopt::set_ipv6_v6only(&fd, false)?;
    }
    bind(&fd, &address)?;
    listen(&fd, BACKLOG)?;
    let port = port_of(&getsockname(&fd)?).ok_or(Errno::AFNOSUPPORT)?;
    Ok((fd.into(), port))
}

fn port_of(address: &SocketAddrAny) -> Option<u16> {
    SocketAddr::try_from(address.clone()).ok().map(|address| address.port())
}

/// Makes a nonblocking TCP socket for an address of this family.
pub(crate) fn new_socket(address: &SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_a_range_are_taken_until_none_is_left() {
        let here = [IpAddr::from(Ipv4Addr::LOCALHOST)];
        let (first, port) = open(&here, None).unwrap();
        let range = port..=port;
        let error = open(&here, Some(&range)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        drop(first);
        assert_eq!(open(&here, Some(&range)).unwrap().1, port);
    }
}
