//! Sockets between contexts: one of packets for each direction, with the sender's connection made
//! on first use. A context listens at an abstract address that its number gives.
//!
//! The sockets lose nothing and keep order; losses are the sender's. What a socket does not take
//! now is kept (`waiting`) up to a limit, and goes later.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, connect, listen, recv, send, socket_with,
};

use crate::packet::{HEADER, PAYLOAD, Packet};

/// Contexts of a device, and so the numbers to try.
pub(crate) const CONTEXTS: u32 = 1 << 10;
/// Packets that wait for a socket before the sender must wait.
const MAX_WAITING: usize = 64;
/// Marks the descriptors among the events that are no links.
const LISTENER: u64 = u64::MAX;
const KICK: u64 = u64::MAX - 1;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// A context: device of a host, and number on it.
pub(crate) type Target = (u16, u32);

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// It is under way.
    Yes,
    /// Too many wait for that context.
    Later,
    /// There is no such context.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Links {
    fabric: String,
    epoll: OwnedFd,
    listener: OwnedFd,
    inbound: HashMap<u64, OwnedFd>,
    next: u64,
    outbound: HashMap<Target, Outbound>,
}

#[derive(Debug)]
struct Outbound {
    socket: OwnedFd,
    waiting: VecDeque<Vec<u8>>,
}

impl Links {
    /// Listens at the first free number of a device. `kick` wakes a wait.
    pub(crate) fn new(fabric: &str, node: u16, kick: &OwnedFd) -> io::Result<(Links, u32)> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let listener = socket()?;
        let mut number = 0;
        while let Err(error) = bind(&listener, &address(fabric, (node, number))?) {
            number += 1;
            if error != Errno::ADDRINUSE || number == CONTEXTS {
                return Err(error.into());
            }
        }
        listen(&listener, 4096)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        epoll::add(&epoll, kick, epoll::EventData::new_u64(KICK), epoll::EventFlags::IN)?;
        let (inbound, outbound) = (HashMap::new(), HashMap::new());
        let fabric = fabric.to_owned();
        Ok((Links { fabric, epoll, listener, inbound, next: 0, outbound }, number))
    }

    /// Returns a copy of the descriptor that is readable when there is something to receive, or
    /// when the thread was kicked.
    pub(crate) fn descriptor(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Sends a packet.
    pub(crate) fn send(&mut self, to: Target, packet: &Packet) -> Sent {
        let Some(link) = self.outbound(to) else { return Sent::Gone };
        if link.waiting.len() >= MAX_WAITING {
            return Sent::Later;
        }
        link.waiting.push_back(packet.encode());
        match link.flush() {
            Ok(()) => Sent::Yes,
            Err(_) => {
                self.outbound.remove(&to);
                Sent::Gone
            }
        }
    }

    /// Sends what waits for sockets. Returns whether anything still does.
    pub(crate) fn flush(&mut self) -> bool {
        self.outbound.retain(|_, link| link.flush().is_ok());
        self.outbound.values().any(|link| !link.waiting.is_empty())
    }

    fn outbound(&mut self, to: Target) -> Option<&mut Outbound> {
        if !self.outbound.contains_key(&to) {
            let socket = socket().ok()?;
            connect(&socket, &address(&self.fabric, to).ok()?).ok()?;
            self.outbound.insert(to, Outbound { socket, waiting: VecDeque::new() });
        }
        self.outbound.get_mut(&to)
    }

    /// Receives up to some packets.
    pub(crate) fn receive(&mut self, packets: &mut Vec<Packet>) {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 16];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = epoll::wait(&self.epoll, &mut events[..], Some(&now)).unwrap_or(0);
        for event in &events[..ready] {
            match event.data.u64() {
                LISTENER => self.accept(),
                // The context takes it.
                KICK => {}
                link => self.drain(link, packets),
            }
        }
    }

    fn accept(&mut self) {
        while let Ok(socket) = accept_with(&self.listener, FLAGS) {
            let data = epoll::EventData::new_u64(self.next);
            if epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN).is_ok() {
                self.inbound.insert(self.next, socket);
                self.next += 1;
            }
        }
    }

    fn drain(&mut self, link: u64, packets: &mut Vec<Packet>) {
        let Some(socket) = self.inbound.get(&link) else { return };
        let mut buffer = vec![0; HEADER + 4 + PAYLOAD];
        for _ in 0..16 {
            match recv(socket, &mut buffer[..], RecvFlags::empty()) {
                Ok((1.., bytes)) => packets.extend(Packet::decode(&buffer[..bytes])),
                Err(Errno::AGAIN | Errno::INTR) => return,
                // The other context is closed.
                Ok(_) | Err(_) => {
                    self.inbound.remove(&link);
                    return;
                }
            }
        }
    }
}

impl Outbound {
    fn flush(&mut self) -> Result<(), Errno> {
        while let Some(packet) = self.waiting.front() {
            match send(self.socket.as_fd(), packet, SendFlags::NOSIGNAL) {
                Ok(_) => _ = self.waiting.pop_front(),
                Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, FLAGS, None)?)
}

fn address(fabric: &str, (node, number): Target) -> io::Result<SocketAddrUnix> {
    let name = format!("verbs-device/{fabric}/{node}/{number}");
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}
