//! The network interfaces of this host, as the system lists them.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of an interface that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Name of the interface.
    pub(crate) name: String,
    /// Its address.
    pub(crate) address: IpAddr,
    /// It reaches only this host.
    pub(crate) is_loopback: bool,
}

/// Returns each address of each interface that is up.
pub(crate) fn interfaces() -> io::Result<Vec<Interface>> {
    let mut list = std::ptr::null_mut();
    // SAFETY: the call stores the head of a list, which is freed below.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let (mut found, mut at) = (Vec::new(), list);
    while !at.is_null() {
        // SAFETY: an entry of the list, which is not freed yet.
        let entry = unsafe { &*at };
        if entry.ifa_flags & libc::IFF_UP as u32 != 0
            && let Some(address) = ip(entry.ifa_addr)
        {
            // SAFETY: the system's name of the interface, a C string.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            found.push(Interface {
                name: name.to_string_lossy().into_owned(),
                address,
                is_loopback: entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0,
            });
        }
        at = entry.ifa_next;
    }
    // SAFETY: the list of `getifaddrs`, of which nothing is kept.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// Returns the IP address; `None` for addresses of other families.
fn ip(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: not null, and each address begins with its family, which tells the type.
    match i32::from(unsafe { (*address).sa_family }) {
        libc::AF_INET => {
            // SAFETY: the family says `sockaddr_in`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in>() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says `sockaddr_in6`.
            let address = unsafe { &*address.cast::<libc::sockaddr_in6>() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_listed() {
        let all = interfaces().unwrap();
        assert!(
            all.iter().any(|entry| entry.is_loopback && entry.address.is_loopback()),
            "{all:?}"
        );
    }
}
