//! The ranks of another launcher's job as callers of an `mpiexec` of their own, which they share.
//!
//! A rank of each host that takes part gives the [`Callers`] to the `mpiexec` that it starts: who
//! they are, and their status page. In a job over several hosts the first rank of each host listens
//! for the launchers of the others, and has put its addresses in the manager's store; [`Callers`]
//! has them all.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::control::{decode, encode_limited};
use crate::direct;
use crate::hand_over::{receive_with, send_with};
use crate::process_manager::{ManagerError, ProcessManager};
use crate::ranks::Ranks;
use crate::secret::Secret;
use crate::status_entry::StatusEntry;
use crate::status_page::memory_file;

/// Bytes that the list of hosts has at most.
const MAX_HOSTS_BYTES: usize = 64 << 20;

/// What an `mpiexec` needs of the ranks of this host, and of their job.
#[derive(Debug)]
pub struct Callers {
    /// The job's number.
    pub job: u64,
    /// The job's secret.
    pub secret: [u8; 32],
    /// The hosts of the job, in the order of their ranks.
    pub hosts: Vec<CallersHost>,
    /// The number of this host among them.
    pub host: u32,
    /// The memory file of this host's status page, which names the processes of its ranks.
    pub status_page: OwnedFd,
    /// A connection that has come to an address of this host.
    pub connection: Option<OwnedFd>,
}

/// A host of such a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallersHost {
    /// Its ranks.
    pub ranks: Ranks,
    /// Where its first rank listens, in the order in which to try; none in a job of one host.
    pub addresses: Vec<SocketAddr>,
}

impl Callers {
    /// Bytes of number, secret and host.
    const BYTES: usize = 44;

    /// Sends this to an `mpiexec`.
    pub fn send(&self, socket: BorrowedFd<'_>) -> Result<(), Errno> {
        let bytes = [&self.job.to_le_bytes()[..], &self.secret, &self.host.to_le_bytes()].concat();
        // In a file: many hosts are more than a message holds.
        let hosts =
            file_with(&encode_limited(&self.hosts, MAX_HOSTS_BYTES).or(Err(Errno::NOMEM))?)?;
        let mut descriptors = vec![self.status_page.as_fd(), hosts.as_fd()];
        descriptors.extend(self.connection.iter().map(|connection| connection.as_fd()));
        send_with(socket, &bytes, &descriptors)
    }

    /// Receives what was sent before `mpiexec` was started; `None` if that is something else.
    pub fn receive(socket: BorrowedFd<'_>) -> Option<Callers> {
        let mut bytes = [0; Callers::BYTES];
        let (length, descriptors) = receive_with(socket, &mut bytes)?;
        let (job, rest) = bytes[..length].split_first_chunk()?;
        let (secret, host) = rest.split_first_chunk()?;
        let (job, host) = (u64::from_le_bytes(*job), u32::from_le_bytes(host.try_into().ok()?));
        let mut descriptors = descriptors.into_iter();
        let (status_page, hosts) = (descriptors.next()?, descriptors.next()?);
        let connection = descriptors.next();
        let mut text = Vec::new();
        File::from(hosts).read_to_end(&mut text).ok()?;
        let (hosts, _): (Vec<CallersHost>, usize) = decode(&text, MAX_HOSTS_BYTES).ok()??;
        let callers = Callers { job, secret: *secret, hosts, host, status_page, connection };
        callers.hosts.get(host as usize).is_some().then_some(callers)
    }
}

/// Returns a memory file with this content, at its begin.
fn file_with(content: &[u8]) -> Result<OwnedFd, Errno> {
    let mut file = File::from(memory_file()?.0);
    let written = file.write_all(content).and_then(|()| file.rewind());
    written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(file.into())
}

/// A rank of a process manager's job, as far as its [`Callers`] need it; for any thread.
#[derive(Debug)]
pub struct ManagedRank {
    pub(crate) manager: Arc<ProcessManager>,
    pub(crate) job: u64,
    pub(crate) secret: Secret,
    pub(crate) is_on_one_host: bool,
    /// The ranks of this host.
    pub(crate) entries: Vec<&'static StatusEntry>,
    pub(crate) status_page: OwnedFd,
}

impl ManagedRank {
    /// Returns the callers, with a connection that has come; `None` until all ranks of this host
    /// have a place on the status page. The error is a text for the user.
    pub fn callers(&self, connection: Option<OwnedFd>) -> Result<Option<Callers>, String> {
        if self.entries.iter().any(|entry| entry.pid().is_none()) {
            return Ok(None);
        }
        let (hosts, host) = match self.is_on_one_host {
            true => {
                let ranks = (0..self.entries.len() as u32).into();
                (vec![CallersHost { ranks, addresses: Vec::new() }], 0)
            }
            false => self.hosts()?,
        };
        let status_page = self.status_page.try_clone().map_err(|error| error.to_string())?;
        let (job, secret) = (self.job, *self.secret.bytes());
        Ok(Some(Callers { job, secret, hosts, host, status_page, connection }))
    }

    /// Returns all hosts, and the number of this one.
    fn hosts(&self) -> Result<(Vec<CallersHost>, u32), String> {
        let host_of = direct::host_table(&self.manager).map_err(|error| error.to_string())?;
        let host = |ranks: Ranks| {
            let first = ranks.first();
            let addresses = addresses(&self.manager, first);
            let unknown = || format!("the first rank of its host, rank {first}, does not listen");
            Ok(CallersHost { addresses: addresses.ok_or_else(unknown)?, ranks })
        };
        let hosts = Ranks::of_hosts(&host_of).into_iter().map(host);
        let hosts = hosts.collect::<Result<_, String>>()?;
        Ok((hosts, host_of[self.manager.rank() as usize]))
    }
}

/// Puts where the first rank of this host listens.
pub(crate) fn put_addresses(
    manager: &ProcessManager,
    addresses: &[SocketAddr],
) -> Result<(), ManagerError> {
    let text: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    manager.put(&key(manager.rank()), text.join(" ").as_bytes())
}

fn addresses(manager: &ProcessManager, first_rank: u32) -> Option<Vec<SocketAddr>> {
    let text = String::from_utf8(manager.get(&key(first_rank)).ok()??).ok()?;
    text.split(' ').map(|address| address.parse().ok()).collect()
}

fn key(first_rank: u32) -> String {
    format!("listener/{first_rank}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StatusPage;
    use crate::hand_over::socket;

    #[test]
    fn callers_are_received_as_they_were_sent() {
        let (ours, theirs) = socket().unwrap();
        assert!(Callers::receive(theirs.as_fd()).is_none(), "nothing was sent");
        let page = StatusPage::create(3, 0xcd).unwrap();
        let file = || page.file().unwrap().try_clone_to_owned().unwrap();
        let addresses = vec!["10.0.0.1:9".parse().unwrap(), "[::1]:70".parse().unwrap()];
        let host = CallersHost { ranks: (0..3).into(), addresses };
        for hosts in [vec![host.clone()], vec![host; 10_000]] {
            let connection = (hosts.len() > 1).then(|| socket().unwrap().0);
            let host = hosts.len() as u32 - 1;
            let (job, secret, status_page) = (u64::MAX - 1, [7; 32], file());
            let sent = Callers { job, secret, hosts, host, status_page, connection };
            sent.send(ours.as_fd()).unwrap();
            let got = Callers::receive(theirs.as_fd()).unwrap();
            assert_eq!((got.job, got.secret, got.host), (sent.job, sent.secret, sent.host));
            assert_eq!(got.hosts, sent.hosts);
            assert_eq!(got.connection.is_some(), sent.connection.is_some());
            assert_eq!(StatusPage::attach(got.status_page).unwrap().local_size(), 3);
        }
        for (length, descriptors) in [(0, 2), (43, 2), (44, 1), (44, 2)] {
            let files = vec![page.file().unwrap(); descriptors];
            send_with(ours.as_fd(), &vec![0; length], &files).unwrap();
            let got = Callers::receive(theirs.as_fd());
            assert!(got.is_none(), "{length} bytes, {descriptors} descriptors");
        }
    }
}
