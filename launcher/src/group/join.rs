//! Joins the group of a job: finds the keeper by the group's file, and starts one if there is none.
//!
//! A file whose keeper has ended is replaced. That it has ended is known if its lock is free and it
//! does not answer; on another host also all of its addresses must refuse connections, since a file
//! system may have locks within each host alone. A keeper that ends just now closes the connection
//! and removes its file: then everything begins anew.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use config::Knobs;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use tcp_transport::key_pair::KeyPair;

use super::keeper::OPTION;
use super::link::GroupLink;
use super::messages::{Found, Founded, FromKeeper, ToKeeper};
use super::place::{self, Entry, Lock, Look};
use crate::detached;
use crate::dial_in::secure_stream::SecureStream;
use crate::hosts::host_name;
use crate::nested::stream::Stream;
use crate::program::CannotRun;
use crate::settings::{EXIT_USAGE, Settings};
use crate::share::Share;

/// Time in which a keeper that lives must be reached.
const PATIENCE: Duration = Duration::from_secs(15);
/// Longest time of one attempt to connect.
const ATTEMPT: Duration = Duration::from_secs(3);
/// Time that a keeper has to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// Time from one look to the next.
const PAUSE: Duration = Duration::from_millis(50);

/// What one look at the group has led to.
enum Attempt {
    Joined(Share, Box<GroupLink>),
    /// A keeper was started.
    Founded,
    /// Things may be different soon; if they are not, this is why.
    Again(String),
}

/// The reasons why no address of a keeper was reached.
struct Unreached {
    why: String,
    /// Each address has refused the connection.
    is_refused: bool,
}

/// A group, as the user has named it.
struct Group<'a> {
    name: &'a str,
    path: &'a Path,
    tcp: tcp_transport::Settings,
    settings: &'a Settings,
}

/// Joins a group. Returns the share of the job, and the connection to the keeper.
pub(crate) fn join(
    name: &str,
    settings: &Settings,
    knobs: &Knobs,
) -> Result<(Share, GroupLink), CannotRun> {
    let usage = |message| CannotRun { message, code: EXIT_USAGE };
    let path = place::path(name, |variable| std::env::var_os(variable)).map_err(usage)?;
    let tcp = tcp_transport::Settings::from_knobs(knobs).map_err(usage)?;
    let group = Group { name, path: &path, tcp, settings };
    let end = Instant::now() + PATIENCE;
    let failed = |why| CannotRun { message: format!("--group {name}: {why}"), code: 1 };
    loop {
        match group.attempt().map_err(failed)? {
            Attempt::Joined(share, link) => return Ok((share, *link)),
            Attempt::Founded if Instant::now() < end => {}
            Attempt::Founded => return Err(failed("its keepers begin and end at once".into())),
            Attempt::Again(why) if Instant::now() >= end => return Err(failed(why)),
            Attempt::Again(_) => std::thread::sleep(PAUSE),
        }
    }
}

impl Group<'_> {
    fn attempt(&self) -> Result<Attempt, String> {
        let file = self.path.display();
        let Some(Look { bytes, entry, lock }) = place::look(self.path)? else {
            return self.found(None);
        };
        let entry = match entry {
            Ok(entry) => entry,
            Err(_) if lock == Lock::Free => return self.found(Some(bytes)),
            Err(version) => {
                return Err(format!(
                    "its jobs run with Verbena {version}, and this is {}: use one installation for \
                     all, or another name; if no job of it runs, remove {file}",
                    super::version()
                ));
            }
        };
        let unreached = match self.dial(&entry)? {
            Ok(stream) => match self.greet(stream)? {
                Some(joined) => return Ok(joined),
                None => Unreached { why: "it does not answer".into(), is_refused: false },
            },
            Err(unreached) => unreached,
        };
        let is_here = entry.boot == place::boot() || entry.host == host_name();
        if lock != Lock::Held && (is_here || unreached.is_refused) {
            return self.found(Some(bytes));
        }
        let Entry { host, process, .. } = &entry;
        let why = format!(
            "cannot reach its keeper (process {process} on {host}): {}; this host must reach that \
             one by TCP (--set tcp.interfaces names a network for both), and if no job of the \
             group runs, remove {file}",
            unreached.why
        );
        if lock == Lock::Held { Ok(Attempt::Again(why)) } else { Err(why) }
    }

    /// Starts a keeper, in place of one that has left this file.
    fn found(&self, replaces: Option<Vec<u8>>) -> Result<Attempt, String> {
        let refused = |why: String| format!("cannot start its keeper: {why}");
        let kind = (AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC);
        let (ours, theirs) =
            socketpair(kind.0, kind.1, kind.2, None).map_err(|errno| refused(errno.to_string()))?;
        detached::start(&[OPTION], &theirs).map_err(|error| refused(error.to_string()))?;
        drop::<OwnedFd>(theirs);
        let mut stream = Stream::new(ours);
        stream.send(&Found {
            path: self.path.to_owned(),
            replaces,
            interfaces: self.tcp.interfaces.clone(),
            ports: self.tcp.ports.as_ref().map(|range| (*range.start(), *range.end())),
        });
        match stream.receive() {
            Some(Founded::Published | Founded::Exists) => Ok(Attempt::Founded),
            Some(Founded::Failed(why)) => Err(why),
            None => Err(refused("it has ended".into())),
        }
    }

    /// Connects to a keeper.
    fn dial(&self, entry: &Entry) -> Result<Result<Stream, Unreached>, String> {
        let is_here = entry.boot == place::boot();
        let is_usable = |address: &&SocketAddr| is_here || !address.ip().is_loopback();
        let mut addresses: Vec<SocketAddr> =
            entry.addresses.iter().filter(is_usable).copied().collect();
        addresses.sort_by_key(|address| !address.ip().is_loopback());
        let mut reasons = Vec::new();
        let mut is_refused = !addresses.is_empty();
        for address in addresses {
            match TcpStream::connect_timeout(&address, ATTEMPT) {
                Ok(socket) => return secure(socket, &entry.secret).map(Ok),
                Err(error) => {
                    is_refused &= error.kind() == ErrorKind::ConnectionRefused;
                    reasons.push(format!("{address}: {error}"));
                }
            }
        }
        let why = match reasons.is_empty() {
            true => "it has no address that other hosts can use".into(),
            false => reasons.join(", "),
        };
        Ok(Err(Unreached { why, is_refused }))
    }

    /// Takes the numbers of the job's processes; `None` if the keeper does not answer.
    fn greet(&self, mut stream: Stream) -> Result<Option<Attempt>, String> {
        let size = self.settings.total_ranks();
        let program = self.settings.sections.first().map(|section| section.program.display());
        let program = program.map(|program| program.to_string()).unwrap_or_default();
        let name = format!("`{program}` (mpiexec {} on {})", std::process::id(), host_name());
        stream.send(&ToKeeper::Join { size, name });
        match stream.receive_by(Instant::now() + ANSWER) {
            Some(FromKeeper::Welcome { job, secret, first }) => {
                let share = Share::known(size, (job, secret), first);
                let link = Box::new(GroupLink::new(self.name, stream));
                Ok(Some(Attempt::Joined(share, link)))
            }
            Some(FromKeeper::Refused(why)) => Err(why),
            _ => Ok(None),
        }
    }
}

/// Encrypts a connection that this process has dialed.
fn secure(socket: TcpStream, secret: &[u8; 32]) -> Result<Stream, String> {
    super::notice_lost_host(&socket);
    let keys = KeyPair::derive(super::KEY_CONTEXT, secret)
        .map_err(|error| format!("cannot make a key of its secret: {error}"))?;
    let stream = SecureStream::new(socket, &keys, true).map_err(|error| error.to_string())?;
    Ok(Stream::secure(stream))
}
