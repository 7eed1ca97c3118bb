//! Multirail: several ports of one process, over which large reads are striped.
//!
//! The primary port carries every frame; therefore the order of frames needs nothing new. Each
//! secondary port is a transport of its own, with an address of its own in the store, and carries
//! parts of reads alone: the reader's own device reports when a part is there. No device promises
//! that a write through it is seen before a frame through another one. Therefore writes and atomics
//! go through the primary port.
//!
//! Invariants: a striped read completes once, when all its parts have. A part that fails on a
//! secondary port is read again through the primary one, which alone reports failed peers. A
//! secondary port whose device is gone carries nothing more, and a line on standard error reports
//! that once.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::Registration;
use fabric::{
    Body, Caps, Header, HybridGet, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot,
    Transfer, Transport, UserBuf, WaitOn,
};
use rustc_hash::FxHashMap;

use crate::device::Port;
use crate::settings::Settings;
use crate::store::Store;
use crate::transport::VerbsTransport;
use crate::unavailable::Unavailable;

/// Most ports of a process: a region has as many keys.
const MAX_PORTS: usize = 4;
/// Fewest bytes of a part.
const PART_MIN: usize = 128 << 10;
/// Marks the token of a part; its lowest two bits are the part's index. Tokens of callers are
/// smaller.
const PART_TOKEN: u64 = 1 << 63;
/// Time that a connection of a secondary port may take to come back before its parts go through
/// the primary port.
const SECONDARY_RECONNECT: Duration = Duration::from_secs(5);

/// The transport over one port or several.
pub struct Rails {
    primary: VerbsTransport,
    secondary: Vec<VerbsTransport>,
    /// Striped reads under way, by number.
    striped: FxHashMap<u64, StripedRead>,
    next_number: u64,
    /// Tokens of parts that must be read through the primary port.
    retry: Vec<u64>,
    /// Bytes read through secondary ports.
    secondary_bytes: u64,
    /// For each secondary port, whether a line has reported that its device is gone.
    warned: Vec<bool>,
}

/// A read in parts.
struct StripedRead {
    token: u64,
    peer: Peer,
    region: Region,
    at: u64,
    into: UserBuf,
    parts: usize,
    /// Parts under way.
    left: usize,
    failure: Option<PeerFailed>,
}

/// The store with other keys for each port.
struct PortStore {
    store: Arc<Mutex<Box<dyn Store>>>,
    suffix: String,
}

impl Rails {
    /// Opens the transport of rank `me` of `size` on the port that the settings choose and on
    /// those of `settings.rails`, each as [`VerbsTransport::open`] does.
    pub fn open(
        settings: Settings,
        me: Peer,
        size: u32,
        secret: [u8; 32],
        store: Box<dyn Store>,
    ) -> Result<Rails, Unavailable> {
        let store = Arc::new(Mutex::new(store));
        let store_for = |suffix| Box::new(PortStore { store: Arc::clone(&store), suffix });
        let mut secondary = Vec::new();
        for (number, (device, port)) in parse_rails(&settings.rails)?.into_iter().enumerate() {
            let settings = secondary_settings(&settings, device, port);
            let store = store_for(format!("/{}", number + 1));
            secondary.push(VerbsTransport::open(settings, me, size, secret, store)?);
        }
        let primary = VerbsTransport::open(settings, me, size, secret, store_for(String::new()))?;
        for other in &secondary {
            primary.wake_with(other).map_err(|error| {
                Unavailable::step(&other.port().device, "watching its events", error)
            })?;
        }
        let warned = vec![false; secondary.len()];
        Ok(Rails {
            primary,
            secondary,
            striped: FxHashMap::default(),
            next_number: 0,
            retry: Vec::new(),
            secondary_bytes: 0,
            warned,
        })
    }

    /// Returns the transport of all frames.
    pub fn primary(&mut self) -> &mut VerbsTransport {
        &mut self.primary
    }

    /// Returns the transports of the secondary ports.
    pub fn secondary(&mut self) -> &mut [VerbsTransport] {
        &mut self.secondary
    }

    /// Returns the ports, the primary one first.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        [&self.primary].into_iter().chain(&self.secondary).map(VerbsTransport::port)
    }

    /// Returns the descriptor that a sleeper waits for.
    pub fn wait_fd(&self) -> RawFd {
        self.primary.wait_set.fd()
    }

    /// Returns how registrations of buffers are kept; never `Auto`.
    pub fn registration(&self) -> Registration {
        self.primary.registration()
    }

    /// Returns whether the kernel does the work of any port, see
    /// [`Port::is_emulated`](crate::Port::is_emulated).
    pub fn is_emulated(&self) -> bool {
        self.ports().any(|port| port.is_emulated)
    }

    /// Returns the bytes read through secondary ports.
    pub fn bytes_on_secondary_ports(&self) -> u64 {
        self.secondary_bytes
    }

    /// Returns the number of frames that were written into the memory of peers.
    pub fn frames_written(&self) -> u64 {
        self.primary.frames_written()
    }

    /// Returns the number of frames that were sent together with others.
    pub fn frames_coalesced(&self) -> u64 {
        self.primary.frames_coalesced()
    }

    /// Begins a striped read, each part on the next port.
    fn stripe(&mut self, read: StripedRead) -> Result<Transfer, PeerFailed> {
        let number = self.next_number;
        self.next_number = (number + 1) & ((PART_TOKEN >> 2) - 1);
        let token = |part| PART_TOKEN | number << 2 | part as u64;
        // Frames that the primary port refuses are refused altogether: nothing is under way yet.
        let began = read.begin_part(0, &mut self.primary, 0, token(0))?;
        if !matches!(began, Transfer::Started | Transfer::Done) {
            return Ok(began);
        }
        for part in 1..read.parts {
            match read.begin_part(part, &mut self.secondary[part - 1], part, token(part)) {
                Ok(Transfer::Started) => self.secondary_bytes += read.part(part).1 as u64,
                _ => self.retry.push(token(part)),
            }
        }
        self.striped.insert(number, read);
        Ok(Transfer::Started)
    }

    /// Reads the parts that failed on secondary ports through the primary one.
    #[cold]
    fn retry_parts(&mut self, sink: &mut impl Sink) {
        for token in std::mem::take(&mut self.retry) {
            let Some(read) = self.striped.get(&number(token)) else { continue };
            match read.begin_part((token & 3) as usize, &mut self.primary, 0, token) {
                Ok(Transfer::Started) => {}
                Ok(Transfer::Done) => part_done(&mut self.striped, token, Ok(()), sink),
                Ok(Transfer::NoSpace | Transfer::Refused) => self.retry.push(token),
                Err(failure) => part_done(&mut self.striped, token, Err(failure), sink),
            }
        }
    }

    #[inline(never)]
    fn poll_all(&mut self, sink: &mut impl Sink) -> bool {
        let Rails { primary, secondary, striped, retry, .. } = self;
        let mut moved = primary.poll(&mut PartSink { sink, striped, retry: None });
        for other in secondary {
            moved |= other.poll(&mut PartSink { sink, striped, retry: Some(retry) });
        }
        if !self.retry.is_empty() {
            self.retry_parts(sink);
        }
        if self
            .secondary
            .iter()
            .zip(&self.warned)
            .any(|(other, warned)| other.adapter.is_gone && !warned)
        {
            self.warn_gone();
        }
        moved
    }

    /// Warns once about each secondary port whose device is gone.
    #[cold]
    fn warn_gone(&mut self) {
        let (me, primary) = (self.primary.endpoints.me().0, &self.primary.port().device);
        for (other, warned) in self.secondary.iter().zip(&mut self.warned) {
            if !other.adapter.is_gone || std::mem::replace(warned, true) {
                continue;
            }
            let why = other.adapter.why_gone();
            eprintln!(
                "verbena: rank {me} goes on without one of verbs.rails, and with {primary}: {why}"
            );
        }
    }
}

impl StripedRead {
    /// Returns where a part begins, and its length.
    fn part(&self, part: usize) -> (usize, usize) {
        let share = self.into.len().div_ceil(self.parts).next_multiple_of(4096);
        let begin = (part * share).min(self.into.len());
        (begin, share.min(self.into.len() - begin))
    }

    /// Begins the get of one part through a port whose key has index `key`. The result and the
    /// token are those of [`Transport::one_sided`]; a port is a transport that reads `keys[0]`
    /// alone.
    fn begin_part(
        &self,
        part: usize,
        on: &mut VerbsTransport,
        key: usize,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let (begin, len) = self.part(part);
        let region = Region { addr: self.region.addr, keys: [self.region.keys[key], 0, 0, 0] };
        on.one_sided(
            self.peer,
            &region,
            self.at + begin as u64,
            OneSided::Get(self.into.slice(begin, len)),
            token,
        )
    }
}

fn number(token: u64) -> u64 {
    (token & !PART_TOKEN) >> 2
}

/// Handles the end of a part, and reports the read when it was the last one.
fn part_done(
    striped: &mut FxHashMap<u64, StripedRead>,
    token: u64,
    outcome: Result<(), PeerFailed>,
    sink: &mut impl Sink,
) {
    let Some(read) = striped.get_mut(&number(token)) else { return };
    read.left -= 1;
    read.failure = read.failure.take().or(outcome.err());
    if read.left == 0
        && let Some(read) = striped.remove(&number(token))
    {
        sink.transferred(read.token, read.failure.map_or(Ok(()), Err));
    }
}

/// The sink of one port: takes parts out of what goes to the protocol. `retry` is there for a
/// secondary port.
struct PartSink<'a, S> {
    sink: &'a mut S,
    striped: &'a mut FxHashMap<u64, StripedRead>,
    retry: Option<&'a mut Vec<u64>>,
}

impl<S: Sink> Sink for PartSink<'_, S> {
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        // No process of this library sends one through a secondary port.
        if self.retry.is_none() {
            self.sink.frame(from, header, body);
        }
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        match &mut self.retry {
            _ if token & PART_TOKEN == 0 => self.sink.transferred(token, outcome),
            Some(retry) if outcome.is_err() => retry.push(token),
            _ => part_done(self.striped, token, outcome, self.sink),
        }
    }

    fn peer_failed(&mut self, failure: PeerFailed) {
        if self.retry.is_none() {
            self.sink.peer_failed(failure);
        }
    }
}

impl HybridGet for Rails {}

impl Transport for Rails {
    #[inline]
    fn caps(&self, peer: Peer) -> &Caps {
        self.primary.caps(peer)
    }

    #[inline]
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        self.primary.post(peer, header, len, fill)
    }

    fn begin_batch(&mut self, peer: Peer) {
        self.primary.begin_batch(peer);
    }

    fn end_batch(&mut self, peer: Peer) {
        self.primary.end_batch(peer);
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        if self.secondary.is_empty() { self.primary.poll(sink) } else { self.poll_all(sink) }
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        let mut region = self.primary.register(peer, memory, rights)?;
        if rights != Rights::Put {
            for (key, other) in region.keys[1..].iter_mut().zip(&mut self.secondary) {
                *key = other.register(peer, memory, Rights::Get).map_or(0, |region| region.keys[0]);
            }
        }
        Some(region)
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.primary.release(peer, region);
        for (&key, other) in region.keys[1..].iter().zip(&mut self.secondary) {
            other.release(peer, Region { addr: region.addr, keys: [key, 0, 0, 0] });
        }
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let known =
            region.keys[1..].iter().take_while(|&&key| key != 0).count().min(self.secondary.len());
        let parts = (what.memory().len() / PART_MIN).min(1 + known);
        match what {
            OneSided::Get(into) if parts > 1 => self.stripe(StripedRead {
                token,
                peer,
                region: *region,
                at,
                into,
                parts,
                left: parts,
                failure: None,
            }),
            _ => self.primary.one_sided(peer, region, at, what, token),
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        let is_quiet =
            self.retry.is_empty() && self.secondary.iter_mut().all(|other| other.arm().is_some());
        if is_quiet { self.primary.arm() } else { None }
    }

    #[inline]
    fn disarm(&mut self) {
        self.primary.disarm();
        self.secondary.iter_mut().for_each(VerbsTransport::disarm);
    }

    fn flush(&mut self) -> bool {
        self.secondary
            .iter_mut()
            .fold(self.primary.flush(), |is_flushed, other| other.flush() & is_flushed)
    }
}

impl PortStore {
    fn shared(&self) -> MutexGuard<'_, Box<dyn Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for PortStore {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.shared().put(&format!("{key}{}", self.suffix), value)
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        self.shared().try_value(&format!("{key}{}", self.suffix))
    }

    fn forget(&mut self, key: &str) {
        self.shared().forget(&format!("{key}{}", self.suffix));
    }

    fn fd(&self) -> Option<RawFd> {
        self.shared().fd()
    }
}

/// Returns the settings of a secondary port, which carries no frames that need space.
fn secondary_settings(settings: &Settings, device: String, port: Option<u8>) -> Settings {
    Settings {
        device: Some(device),
        port,
        gid_index: None,
        reconnect_timeout: settings.reconnect_timeout.min(SECONDARY_RECONNECT),
        credits: 4,
        eager_max: 64,
        eager_rdma_peers: 0,
        ..settings.clone()
    }
}

/// Returns device, and port if one is named, of each rail.
fn parse_rails(rails: &[String]) -> Result<Vec<(String, Option<u8>)>, Unavailable> {
    let invalid = || Unavailable::Rails(rails.join(","));
    let parse = |rail: &String| match rail.split_once(':') {
        None => Ok((rail.clone(), None)),
        Some(("", _)) => Err(invalid()),
        Some((device, port)) => Ok((device.to_owned(), Some(port.parse().map_err(|_| invalid())?))),
    };
    if rails.len() < MAX_PORTS { rails.iter().map(parse).collect() } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_are_devices_or_their_ports_and_at_most_three() {
        let parse = |list: &[&str]| {
            parse_rails(&list.iter().map(|&rail| rail.to_owned()).collect::<Vec<_>>())
        };
        let found = parse(&["mlx5_1", "mlx5_2:2"]).unwrap();
        assert_eq!(found, [("mlx5_1".to_owned(), None), ("mlx5_2".to_owned(), Some(2))]);
        for wrong in [&["a", "b", "c", "d"][..], &["a:"], &["a:x"], &[":1"], &["a:256"]] {
            let why = parse(wrong).unwrap_err().to_string();
            assert!(why.contains(&wrong.join(",")), "{why}");
        }
    }
}
