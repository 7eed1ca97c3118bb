//! The state of the TCP transport of one process, as parts.
//!
//! The operations on the whole are `impl TcpTransport` blocks in other files, each of which calls
//! only those below it: `link`; then the set-up `dial`, `accept`, `handshake`; then the data path
//! `records`, `read`, `post`, `one_sided`, `hot`, `poll`; then `sleep`, and `seam`, which
//! implements the trait.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{OwnedFd, RawFd};
use std::time::Instant;

use fabric::{Caps, Header, Offload, Peer, Reports, Store};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::candidates::{self, Filter};
use crate::handshakes::Handshakes;
use crate::ifaddrs;
use crate::listener;
use crate::peer::PeerState;
use crate::regions::Regions;
use crate::scratch::Scratch;
use crate::settings::Settings;
use crate::socket::Socket;
use crate::stripes::Stripes;
use crate::tls::Keys;
use crate::wait_set::{Source, WaitSet};
use crate::wire::Record;

/// Fewest connections that a process needs.
const MIN_LINKS: usize = 4;
/// Bytes that a peer has not acknowledged, from which on it is busy ([`Limits::busy`]).
const BUSY_MIN: usize = 64 << 10;
/// Largest message that is sent eagerly to a busy peer, bytes.
const BUSY_EAGER_MAX: usize = 4 << 10;

/// The reason why there is no TCP transport.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// A setting cannot be used.
    #[error("{0}")]
    Setting(String),
    /// No interface is allowed.
    #[error(
        "no network interface of this host matches tcp.interfaces = {0}: it has {1} (loopback is \
         used only if named, as tcp.interfaces = lo, for a job on one machine)"
    )]
    NoInterface(String, String),
    /// A system call failed.
    #[error("TCP cannot be used: {0}: {1}")]
    System(&'static str, io::Error),
    /// The address cannot be published.
    #[error("TCP cannot be used: the address of this process cannot be published: {0}")]
    Store(String),
}

/// The hot link, if there is one; see `hot`.
#[derive(Debug, Default)]
pub(crate) struct Hot {
    /// The index of the peer.
    pub(crate) at: Option<usize>,
    /// Reads in a row that found nothing.
    pub(crate) misses: u32,
    /// Reads that found something since it was watched.
    pub(crate) hits: u32,
    pub(crate) is_unwatched: bool,
}

/// How events are looked for; see `poll`.
#[derive(Debug, Default)]
pub(crate) struct Attention {
    /// Number of polls.
    pub(crate) polls: u64,
    /// Polls in a row that found nothing.
    pub(crate) idle: u64,
    /// The link that each poll reads.
    pub(crate) hot: Hot,
    /// Peers whose links have something to read.
    pub(crate) readable: Vec<usize>,
    /// A post that found no space may find some.
    pub(crate) has_space_again: bool,
    /// A thread sleeps, or is about to: work that is left for a poll must wake it (`sleep`).
    pub(crate) is_armed: bool,
}

/// What this process is, and what it has published.
pub(crate) struct Own {
    pub(crate) me: Peer,
    pub(crate) secret: [u8; 32],
    /// Makes TLS sessions, if connections are encrypted.
    pub(crate) tls: Option<Keys>,
    pub(crate) store: Box<dyn Store>,
    pub(crate) listener: TcpListener,
    pub(crate) port: u16,
    pub(crate) addresses: Vec<IpAddr>,
    /// Closed for a moment when no descriptor is left.
    pub(crate) spare: Option<OwnedFd>,
}

/// What peers may be sent at once, and how many connections there may be.
pub(crate) struct Limits {
    /// Capabilities towards a peer that has acknowledged nearly all.
    pub(crate) idle: Caps,
    /// Capabilities towards a peer that has not: a rendezvous costs no copy, and the time of its
    /// round trip is hidden by what is under way.
    pub(crate) busy: Caps,
    pub(crate) max_links: usize,
}

/// Numbers that are given out, and counts of events.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The last number of a get or atomic.
    pub(crate) transfer: u64,
    generation: u32,
    /// Connections that were closed since there were too many.
    pub(crate) evicted: u64,
    /// Connections that a test has broken.
    pub(crate) interruptions: u64,
}

/// When what was posted is written.
#[derive(Debug, Default)]
pub(crate) struct Writing {
    /// The peer of a batch that has begun.
    pub(crate) batch: Option<Peer>,
    /// Peers with records that the next poll writes; see `post`.
    pub(crate) delayed: Vec<usize>,
    /// Since when the process wants to end.
    pub(crate) flushing_since: Option<Instant>,
}

/// The transport over TCP of one process.
pub struct TcpTransport {
    pub(crate) own: Own,
    pub(crate) settings: Settings,
    pub(crate) limits: Limits,
    /// Index into `peers` of lane 0 by rank; `u32::MAX`: none yet.
    pub(crate) index: Vec<u32>,
    /// The streams with all peers.
    pub(crate) peers: Vec<PeerState>,
    /// Peers with a link.
    pub(crate) linked: Vec<usize>,
    /// Peers that are dialed.
    pub(crate) dialing: Vec<usize>,
    pub(crate) handshakes: Handshakes,
    pub(crate) regions: Regions,
    pub(crate) stripes: Stripes,
    pub(crate) wait_set: WaitSet,
    pub(crate) attention: Attention,
    pub(crate) reports: Reports,
    pub(crate) scratch: Scratch,
    pub(crate) writing: Writing,
    pub(crate) counts: Counts,
}

impl TcpTransport {
    /// Opens the transport of rank `me` of `size`. Publishes this process's addresses in the
    /// store, and connects to no peer.
    pub fn open(
        settings: Settings,
        me: Peer,
        size: u32,
        secret: [u8; 32],
        mut store: Box<dyn Store>,
    ) -> Result<TcpTransport, Unavailable> {
        let step = |what| move |error: io::Error| Unavailable::System(what, error);
        let addresses = own_addresses(&settings)?;
        let (listener, port) =
            listener::open(&addresses, settings.ports.as_ref()).map_err(step("listening"))?;
        let wait_set = WaitSet::new(store.fd()).map_err(step("making an event queue"))?;
        wait_set.add(&listener, Source::Listener).map_err(step("watching its listener"))?;
        let max_links = settings.connections.unwrap_or_else(max_links);
        let own_text = candidates::encode(port, &addresses);
        store.put(&key(me), &own_text).map_err(Unavailable::Store)?;
        let tls = settings.tls.then(|| Keys::derive(&secret)).transpose();
        let tls = tls.map_err(|error| Unavailable::Setting(format!("tcp.tls: {error}")))?;
        let limits = limits(&settings, max_links);
        debug_assert!(Scratch::MAX_RECORD >= limits.idle.frame + Header::SIZE + Record::SIZE);
        Ok(TcpTransport {
            own: Own { me, secret, tls, store, listener, port, addresses, spare: None },
            settings,
            limits,
            index: vec![u32::MAX; size as usize],
            peers: Vec::new(),
            linked: Vec::new(),
            dialing: Vec::new(),
            handshakes: Handshakes::new((max_links / 2).clamp(MIN_LINKS, 256)),
            regions: Regions::default(),
            stripes: Stripes::default(),
            wait_set,
            attention: Attention::default(),
            reports: Reports::default(),
            scratch: Scratch::new(),
            writing: Writing::default(),
            counts: Counts::default(),
        })
    }

    /// Returns where this process listens, the preferred address first.
    pub fn listens_on(&self) -> Vec<SocketAddr> {
        self.own.addresses.iter().map(|&ip| SocketAddr::new(ip, self.own.port)).collect()
    }

    /// Returns the number of connections that are open.
    pub fn connections(&self) -> usize {
        self.linked.len()
    }

    /// Returns the number of connections that were closed to make room for others.
    pub fn connections_evicted(&self) -> u64 {
        self.counts.evicted
    }

    /// Returns the capabilities towards a peer.
    #[inline]
    pub(crate) fn caps_of(&self, peer: Peer) -> &Caps {
        let at = self.index.get(peer.0 as usize).copied().unwrap_or(u32::MAX);
        match self.peers.get(at as usize) {
            Some(state) if state.tx.owned() >= BUSY_MIN => &self.limits.busy,
            _ => &self.limits.idle,
        }
    }

    /// Has the store's answers wake this transport: the store has got a descriptor since.
    pub fn watch_store(&self) -> io::Result<()> {
        self.own.store.fd().map_or(Ok(()), |fd| self.wait_set.add_store(fd))
    }

    /// Makes what wakes another transport wake this one too. The descriptor outlives this
    /// transport.
    pub fn wake_with(&self, fd: RawFd) -> io::Result<()> {
        self.wait_set.add_foreign(fd)
    }

    /// Returns the index of a peer, which is made on first use.
    #[inline]
    pub(crate) fn peer_index(&mut self, peer: Peer) -> Option<usize> {
        match self.index.get(peer.0 as usize) {
            None | Some(&u32::MAX) => self.add_peer(peer),
            Some(&at) => Some(at as usize),
        }
    }

    /// Adds a peer, perhaps one of a job that was started later; `None` if no process can have its
    /// number.
    #[cold]
    fn add_peer(&mut self, peer: Peer) -> Option<usize> {
        let (number, at) = (peer.0 as usize, self.peers.len());
        if peer.0 >= Peer::LIMIT {
            return None;
        }
        if number >= self.index.len() {
            self.index.resize(number + 1, u32::MAX);
        }
        self.peers.push(PeerState::new(peer, at, 0));
        self.index[number] = at as u32;
        Some(at)
    }

    /// Returns the index of a stream with a peer, which is made on first use.
    pub(crate) fn stream_index(&mut self, peer: Peer, lane: u32) -> Option<usize> {
        let main = self.peer_index(peer)?;
        let Some(further) = (lane as usize).checked_sub(1) else { return Some(main) };
        for lane in self.peers[main].lanes.len()..=further {
            let at = self.peers.len();
            self.peers.push(PeerState::new(peer, main, lane as u32 + 1));
            self.peers[main].lanes.push(at);
        }
        Some(self.peers[main].lanes[further])
    }

    /// Makes a socket of a connection, with a TLS session if they are encrypted.
    pub(crate) fn socket(&self, fd: OwnedFd, is_dialer: bool) -> Result<Socket, Errno> {
        let session = self.own.tls.as_ref().map(|keys| keys.session(is_dialer)).transpose();
        Ok(Socket::new(fd, session.map_err(|_| Errno::PROTO)?.map(Box::new)))
    }

    /// Returns a number that no other link or handshake has.
    pub(crate) fn new_generation(&mut self) -> u32 {
        let next = self.counts.generation.wrapping_add(1) & crate::wait_set::GENERATION_MASK;
        self.counts.generation = next;
        next
    }
}

fn limits(settings: &Settings, max_links: usize) -> Limits {
    let eager = settings.eager_max;
    let busy_eager = eager.min(BUSY_EAGER_MAX);
    // A body of `eager` bytes has 8 bytes in front if its sender waits for the match.
    let frame = settings.frame.max(eager + 8);
    let idle = Caps {
        frame,
        eager,
        get_min: busy_eager as u64 + 1,
        put_min: u64::MAX,
        offload: Offload::Processor,
        late_puts: false,
    };
    Limits { idle, busy: Caps { eager: busy_eager, ..idle }, max_links }
}

/// Returns the key of a process's addresses in the store.
pub(crate) fn key(peer: Peer) -> String {
    format!("tcp/{}", peer.0)
}

fn own_addresses(settings: &Settings) -> Result<Vec<IpAddr>, Unavailable> {
    let text = settings.interfaces.as_deref().unwrap_or_default();
    let filter = Filter::parse(text).map_err(|error| Unavailable::Setting(error.to_string()))?;
    let all = ifaddrs::interfaces()
        .map_err(|error| Unavailable::System("listing the network interfaces", error))?;
    let chosen = filter.choose(&all);
    if chosen.is_empty() {
        let names: Vec<String> =
            all.iter().map(|it| format!("{} ({})", it.name, it.address)).collect();
        let names = if names.is_empty() { "none that is up".into() } else { names.join(", ") };
        let wanted = if text.is_empty() { "auto" } else { text };
        return Err(Unavailable::NoInterface(wanted.into(), names));
    }
    Ok(chosen)
}

/// Returns how many connections the limit on descriptors leaves space for.
fn max_links() -> usize {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let used = std::fs::read_dir("/proc/self/fd").map_or(64, Iterator::count);
    // The program needs descriptors too, and handshakes have some.
    (limit.saturating_sub(used) / 2).max(MIN_LINKS)
}
