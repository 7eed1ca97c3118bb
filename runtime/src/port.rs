//! Ports: groups that share no communicator meet at one (MPI-5.0 §11.9, §11.10.4).
//!
//! A port's name has the job, the process that has opened it, and a number of this process. The
//! leaders find each other so:
//!
//! ```text
//! connect                                    accept
//!   asks mpiexec whether the port is open
//!   Hello (process, connection)  ->  port      takes the first Hello, of any process
//!   both exchange groups and a context id on a channel that port and Hello name
//! ```
//!
//! Both are processes of one `mpiexec`, or of several that were started with the same `--group`.
//!
//! A Hello may arrive after the port was closed. Such a client is refused, at the latest when this
//! process waits or polls: it gets an error in place of the context id.
//!
//! From there on the new communicator is made like any intercommunicator (`intercomm`). Two
//! processes that share a socket (MPI_Comm_join) meet by what they write to it in place of a port.

use std::fmt;
use std::io::{Read, Write};

use bootstrap::service_names::{NameAnswer, NameRequest};
use fabric::Peer;
use objects::{Class, Comm, Error, Group, Result};

use crate::blocked_on;
use crate::control_channel::ControlChannel;
use crate::intercomm::{Announcement, check_disjoint, create_with, create_with_next};
use crate::lock::{block_on, progress_once, with};
use crate::own_launcher;
use crate::process::{Core, Process, predefined};
use crate::service;

/// The most closed ports at which clients are refused, the latest ones: each is looked at before a
/// sleep while messages are there that no receive has taken.
const MAX_CLOSED: usize = 64;
/// What the name of a port begins with.
const PREFIX: &str = "verbena-port";
/// The first bytes on a socket of MPI_Comm_join.
const JOIN_MAGIC: [u8; 8] = *b"Verbena\x02";

/// A port, as its name tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Port {
    job: u64,
    owner: u32,
    number: u64,
}

impl Port {
    fn parse(name: &[u8]) -> Result<Port> {
        let parsed = || {
            // Programs pass names on in files, with the end of a line.
            let name = std::str::from_utf8(name).ok()?.trim_ascii_end();
            let rest = name.strip_prefix(PREFIX)?.strip_prefix(':')?;
            let mut parts = rest.split(':');
            let job = u64::from_str_radix(parts.next()?, 16).ok()?;
            let (owner, number) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            parts.next().is_none().then_some(Port { job, owner, number })
        };
        parsed().ok_or_else(|| {
            let name = String::from_utf8_lossy(name);
            bad_port(format!("invalid port name {name:?}: must come from MPI_Open_port"))
        })
    }

    /// Returns the channel on which the owner takes the first message of a connection.
    fn channel(self) -> ControlChannel {
        ControlChannel::from_tag(self.to_string())
    }

    /// Returns the channel of one connection.
    fn connection(self, hello: Hello) -> ControlChannel {
        ControlChannel::from_tag(format!("{self}:{}:{}", hello.process, hello.connection))
    }

    /// The name under which `mpiexec` knows an open port. No name of a user begins with zero, which
    /// ends strings.
    fn registration(self) -> Vec<u8> {
        format!("\0{self}").into_bytes()
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}:{:x}:{}:{}", self.job, self.owner, self.number)
    }
}

/// The first message of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hello {
    /// The leader of the group that connects.
    process: u32,
    /// The number of this connection there.
    connection: u64,
}

impl Hello {
    const SIZE: usize = 12;

    /// Returns the message of a connection that this process begins.
    fn of_new_connection() -> Result<Hello> {
        with(|p| {
            let core = p.core()?;
            core.port_numbers += 1;
            Ok(Hello { process: core.job.number, connection: core.port_numbers })
        })
    }

    fn encode(self) -> [u8; Hello::SIZE] {
        let mut out = [0; Hello::SIZE];
        out[..4].copy_from_slice(&self.process.to_ne_bytes());
        out[4..].copy_from_slice(&self.connection.to_ne_bytes());
        out
    }

    fn decode(bytes: [u8; Hello::SIZE]) -> Hello {
        let process = u32::from_ne_bytes(std::array::from_fn(|i| bytes[i]));
        let connection = u64::from_ne_bytes(std::array::from_fn(|i| bytes[4 + i]));
        Hello { process, connection }
    }
}

/// Performs MPI_Open_port; returns the port's name.
pub fn open() -> Result<String> {
    // Before the port has a name, which tells the job. A process that cannot have a launcher meets
    // nobody but itself.
    let has_launcher = own_launcher::launcher().is_ok();
    let port = with(|p| {
        let core = p.core()?;
        // Before others look for the address of this process. Without a group all may be ranks of
        // one job.
        match core.meet_other_jobs() {
            Err(error) if core.job.is_in_group() => return Err(error),
            _ => {}
        }
        core.port_numbers += 1;
        let (job, owner, number) = (core.job.id(), core.job.number, core.port_numbers);
        core.ports.insert(number);
        Ok(Port { job, owner, number })
    })?;
    if has_launcher {
        service::ask(NameRequest::Publish { name: port.registration(), value: Vec::new() })?;
    }
    Ok(port.to_string())
}

/// Performs MPI_Close_port: MPI_ERR_PORT unless this process has the port open. Clients that wait
/// for MPI_Comm_accept get an error.
pub fn close(name: &[u8]) -> Result<()> {
    let port = own_port(name)?;
    with(|p| {
        p.core().map(|core| {
            core.ports.remove(&port.number);
            core.closed_ports.push_back(port.number);
            if core.closed_ports.len() > MAX_CLOSED {
                core.closed_ports.pop_front();
            }
        })
    })?;
    if has_launcher()? {
        service::ask(NameRequest::Unpublish { name: port.registration() })?;
    }
    refuse_arrived();
    Ok(())
}

/// Refuses the clients that have come to closed ports so far.
fn refuse_arrived() {
    progress_once();
    block_on(|p| {
        p.refuse_clients();
        let are_refused = p.core.as_deref().is_none_or(|core| core.late_clients.is_empty());
        are_refused.then_some(())
    });
}

/// Closes all ports, in MPI_Finalize.
pub(crate) fn close_all() -> Result<()> {
    let had_ports = with(|p| {
        let core = p.core()?;
        core.closed_ports.extend(std::mem::take(&mut core.ports));
        Ok(!core.closed_ports.is_empty())
    })?;
    if had_ports {
        refuse_arrived();
    }
    Ok(())
}

impl Process {
    /// Refuses the clients that have come to closed ports; true if there were any.
    #[cold]
    pub(crate) fn refuse_clients(&mut self) -> bool {
        let Some(core) = self.core.as_deref_mut() else { return false };
        let Core { refusals, stack, .. } = core;
        refusals.retain(|message| !message.is_over(stack));
        if core.closed_ports.is_empty() {
            return false;
        }
        if core.stack.pt2pt().unexpected() > 0 {
            let (job, owner) = (core.job.id(), core.job.number);
            for &number in &core.closed_ports {
                let channel = Port { job, owner, number }.channel();
                while let Some(hello) = channel.take(&mut core.stack) {
                    let Hello { process, connection } = Hello::decode(hello);
                    core.late_clients.push((number, process, connection));
                }
            }
        }
        let late = std::mem::take(&mut core.late_clients);
        late.into_iter().fold(false, |is_any, client| core.refuse(client) | is_any)
    }
}

impl Core {
    /// Sends an error to a client, and takes what it sends meanwhile. Returns false, and keeps the
    /// client for later, while it is not known how to reach it.
    fn refuse(&mut self, (number, process, connection): (u64, u32, u64)) -> bool {
        let client = Peer(process);
        match self.poll_reach(&[client]) {
            None => {
                self.late_clients.push((number, process, connection));
                return false;
            }
            Some(Ok(())) => {
                let port = Port { job: self.job.id(), owner: self.job.number, number };
                let channel = port.connection(Hello { process, connection });
                let refusal = Announcement::of_error(Class::Port).encode();
                let sent = channel.start_send(self, client, refusal);
                let ignored = channel.start_discard(self, client, Announcement::SIZE);
                self.refusals.extend([sent, ignored]);
            }
            Some(Err(_)) => {}
        }
        true
    }
}

/// Reads the name of a port; the root alone calls it.
pub type ReadName<'a> = &'a dyn Fn() -> Result<Vec<u8>>;

/// Performs MPI_Comm_accept. A process that fails while it connects makes room for the next one.
pub fn accept(local: usize, root: u32, name: ReadName<'_>) -> Result<Comm> {
    create_with_next(local, root, |_| {
        let port = own_port(&name()?)?;
        let mut bytes = [0; Hello::SIZE];
        port.channel().receive_from_any(&mut bytes)?;
        let hello = Hello::decode(bytes);
        Ok((port.connection(hello), Peer(hello.process)))
    })
}

/// Performs MPI_Comm_connect.
pub fn connect(local: usize, root: u32, name: ReadName<'_>) -> Result<Comm> {
    create_with(local, root, |group| {
        let port = Port::parse(&name()?)?;
        let owner = find_owner(port, group)?;
        let hello = Hello::of_new_connection()?;
        // The owner does not know this process before it has read that.
        with(|p| p.core()?.reach_by_tcp(owner))?;
        port.channel().send(owner, &hello.encode())?;
        Ok((port.connection(hello), owner))
    })
}

/// Returns the process that has opened a port; MPI_ERR_PORT unless the port is open and can be
/// reached from `group`.
fn find_owner(port: Port, group: &Group) -> Result<Peer> {
    if port.job != job_id()? {
        return Err(bad_port(format!(
            "the port {port} is of another job: start both jobs with the same group (mpiexec \
             --group NAME), or both programs with one mpiexec (mpiexec -n 1 server : -n 1 client)"
        )));
    }
    check_disjoint(group, Peer(port.owner))?;
    if !has_launcher()? {
        // Nobody else knows whether it is open.
        return Ok(Peer(port.owner));
    }
    match service::ask(NameRequest::Lookup { name: port.registration() })? {
        NameAnswer::Value(_) => Ok(Peer(port.owner)),
        _ => Err(bad_port(format!(
            "process {} does not have the port {port} open: it was closed",
            port.owner
        ))),
    }
}

/// Returns a port of this process; MPI_ERR_PORT unless it is open.
fn own_port(name: &[u8]) -> Result<Port> {
    let port = Port::parse(name)?;
    with(|p| {
        let core = p.core()?;
        let is_own = port.job == core.job.id() && port.owner == core.job.number;
        if is_own && core.ports.contains(&port.number) {
            return Ok(port);
        }
        Err(bad_port(format!(
            "the port {port} is not open in this process: only the process that has opened it may \
             accept connections, until it closes it"
        )))
    })
}

/// Performs MPI_Comm_join over a connected socket; `None` if the other process is of another job
/// that cannot be reached, with a line on standard error. The socket is left as it was.
pub fn join(mut socket: impl Read + Write) -> Result<Option<Comm>> {
    let (job, hello) = (job_id()?, Hello::of_new_connection()?);
    let refused = |error: std::io::Error| {
        Error::new(Class::Other, format!("cannot exchange data over the socket: {error}"))
    };
    let encode =
        |job: u64, hello: Hello| [&JOIN_MAGIC[..], &job.to_ne_bytes(), &hello.encode()].concat();
    let ours = encode(job, hello);
    socket.write_all(&ours).map_err(refused)?;
    let mut theirs = vec![0; ours.len()];
    blocked_on::on_connection(|| socket.read_exact(&mut theirs)).map_err(refused)?;
    let other = Hello::decode(std::array::from_fn(|i| theirs[16 + i]));
    if theirs[..8] != JOIN_MAGIC {
        let text = "the process at the other end of the socket has not called MPI_Comm_join";
        return Err(Error::new(Class::Other, text));
    }
    if theirs[..16] != ours[..16] {
        eprintln!(
            "verbena: MPI_Comm_join gives MPI_COMM_NULL: the other process is of another job; \
             start both jobs with the same group (mpiexec --group NAME)"
        );
        return Ok(None);
    }
    let mut ends = [hello, other].map(|hello| (hello.process, hello.connection));
    ends.sort_unstable();
    let [(low, low_number), (high, high_number)] = ends;
    let channel = ControlChannel::from_tag(format!("join:{low}:{low_number}:{high}:{high_number}"));
    create_with(predefined::COMM_SELF, 0, |_| Ok((channel, Peer(other.process)))).map(Some)
}

/// Returns the number that all jobs of one `mpiexec`, or of one group, share.
fn job_id() -> Result<u64> {
    with(|p| p.core().map(|core| core.job.id()))
}

fn has_launcher() -> Result<bool> {
    with(|p| p.core().map(|core| core.job.control().is_some()))
}

fn bad_port(text: String) -> Error {
    Error::new(Class::Port, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports_are_read_back_and_others_refused() {
        let port = Port { job: u64::MAX, owner: 70_000, number: 3 };
        let name = port.to_string();
        assert_eq!(Port::parse(name.as_bytes()).ok(), Some(port));
        for other in ["", "verbena-port", "verbena-port:1:2", "verbena-port:1:2:3:4", "port:1:2:3"]
        {
            let error = Port::parse(other.as_bytes()).expect_err(other);
            assert_eq!(error.class(), Class::Port, "{other}");
        }
        assert!(Port::parse(b"verbena-port:1:\xff:3").is_err());
    }

    #[test]
    fn each_connection_has_a_channel_of_its_own() {
        let port = Port { job: 1, owner: 2, number: 3 };
        let hello = Hello { process: 4, connection: 5 };
        assert_eq!(Hello::decode(hello.encode()), hello);
        assert_ne!(port.connection(hello), port.connection(Hello { connection: 6, ..hello }));
        assert_ne!(port.connection(hello), port.channel());
    }
}
