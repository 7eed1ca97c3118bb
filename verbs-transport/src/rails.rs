//! Several ports of one process: large reads are cut over all of them.
//!
//! The first port is the transport; every frame goes through it, so order needs nothing
//! new. Each further one is a transport of its own, with an address of its own in the
//! store, that carries parts of reads alone: the reader's device says when a part is
//! there. Of a write nobody promises that it is seen before a frame that goes through
//! another device, so writes and atomics stay on the first.
//!
//! Invariants: a read that was cut is over once, when all its parts are. A part that
//! fails on a further port goes again on the first, which alone says who is lost. A further
//! port whose device is gone carries nothing any more, and standard error says so once.

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::Registration;
use fabric::{
    Caps, Header, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot, Transfer,
    Transport, UserBuf, WaitOn,
};
use rustc_hash::FxHashMap;

use crate::device::Port;
use crate::settings::Settings;
use crate::store::Store;
use crate::transport::VerbsTransport;
use crate::unavailable::Unavailable;

/// Most ports of a process: a region has as many keys.
const MOST: usize = 4;
/// Bytes of a part, at least.
const PART: usize = 128 << 10;
/// Marks the token of a part; its lowest two bits are the part's number. Callers' tokens
/// are below.
const CUT: u64 = 1 << 63;
/// How long a further port may take to come back before its parts go elsewhere.
const PATIENCE: Duration = Duration::from_secs(5);

/// The transport over one port or several.
pub struct Rails {
    first: VerbsTransport,
    others: Vec<VerbsTransport>,
    /// Reads that were cut, by their number.
    cuts: FxHashMap<u64, Cut>,
    next: u64,
    /// Tokens of parts that are to go on the first port.
    again: Vec<u64>,
    /// Bytes read through further ports.
    elsewhere: u64,
    /// Of the further ports, those that were said to be gone.
    told: Vec<bool>,
}

/// A read in parts.
struct Cut {
    token: u64,
    peer: Peer,
    region: Region,
    at: u64,
    into: UserBuf,
    parts: usize,
    /// Parts that are not over.
    left: usize,
    lost: Option<PeerFailed>,
}

/// The store with names for one of the ports.
struct Named {
    store: Arc<Mutex<Box<dyn Store>>>,
    suffix: String,
}

impl Rails {
    /// The transport of rank `me` of `size` on the port that the settings choose, and on
    /// those of `settings.rails`. As [`VerbsTransport::open`].
    pub fn open(
        settings: Settings,
        me: Peer,
        size: u32,
        secret: [u8; 32],
        store: Box<dyn Store>,
    ) -> Result<Rails, Unavailable> {
        let store = Arc::new(Mutex::new(store));
        let named = |suffix| Box::new(Named { store: Arc::clone(&store), suffix });
        let mut others = Vec::new();
        for (number, (device, port)) in further(&settings.rails)?.into_iter().enumerate() {
            let reconnect_timeout = settings.reconnect_timeout.min(PATIENCE);
            // There are no frames on it to have room for.
            let (credits, eager_max, eager_rdma_peers) = (4, 64, 0);
            let own = Settings {
                device: Some(device),
                port,
                gid_index: None,
                reconnect_timeout,
                credits,
                eager_max,
                eager_rdma_peers,
                ..settings.clone()
            };
            others.push(VerbsTransport::open(
                own,
                me,
                size,
                secret,
                named(format!("/{}", number + 1)),
            )?);
        }
        let first = VerbsTransport::open(settings, me, size, secret, named(String::new()))?;
        for other in &others {
            first.wake_with(other).map_err(|error| {
                Unavailable::step(&other.port().device, "watching its events", error)
            })?;
        }
        let told = vec![false; others.len()];
        Ok(Rails {
            first,
            others,
            cuts: FxHashMap::default(),
            next: 0,
            again: Vec::new(),
            elsewhere: 0,
            told,
        })
    }

    /// The port of all frames.
    pub fn primary(&mut self) -> &mut VerbsTransport {
        &mut self.first
    }

    /// The further ports.
    pub fn secondary(&mut self) -> &mut [VerbsTransport] {
        &mut self.others
    }

    /// The ports, that of all frames first.
    pub fn ports(&self) -> impl Iterator<Item = &Port> {
        [&self.first].into_iter().chain(&self.others).map(VerbsTransport::port)
    }

    /// How registrations of buffers are kept: never `Auto`.
    pub fn registration(&self) -> Registration {
        self.first.registration()
    }

    /// Returns whether the kernel does the work of any port, see
    /// [`Port::is_emulated`](crate::Port::is_emulated).
    pub fn is_emulated(&self) -> bool {
        self.ports().any(|port| port.is_emulated)
    }

    /// Bytes read through further ports.
    pub fn bytes_on_secondary_ports(&self) -> u64 {
        self.elsewhere
    }

    /// Frames that were written into the memory of peers.
    pub fn frames_written(&self) -> u64 {
        self.first.frames_written()
    }

    /// Frames of which each went together with others.
    pub fn frames_coalesced(&self) -> u64 {
        self.first.frames_coalesced()
    }

    /// Begins a read in parts, each on the next port.
    fn cut(&mut self, cut: Cut) -> Result<Transfer, PeerFailed> {
        let number = self.next;
        self.next = (self.next + 1) & ((CUT >> 2) - 1);
        let token = |part| CUT | number << 2 | part as u64;
        // What the first port refuses is refused altogether; nothing is under way yet.
        let began = cut.begin(0, &mut self.first, 0, token(0))?;
        if !matches!(began, Transfer::Started | Transfer::Done) {
            return Ok(began);
        }
        for part in 1..cut.parts {
            match cut.begin(part, &mut self.others[part - 1], part, token(part)) {
                Ok(Transfer::Started) => self.elsewhere += cut.part(part).1 as u64,
                _ => self.again.push(token(part)),
            }
        }
        self.cuts.insert(number, cut);
        Ok(Transfer::Started)
    }

    /// Parts that failed elsewhere go on the first port.
    #[cold]
    fn begin_again(&mut self, sink: &mut impl Sink) {
        for token in std::mem::take(&mut self.again) {
            let Some(cut) = self.cuts.get(&number(token)) else { continue };
            match cut.begin((token & 3) as usize, &mut self.first, 0, token) {
                Ok(Transfer::Started) => {}
                Ok(Transfer::Done) => over(&mut self.cuts, token, Ok(()), sink),
                Ok(Transfer::NoRoom | Transfer::Refused | Transfer::PreferPush) => {
                    self.again.push(token)
                }
                Err(lost) => over(&mut self.cuts, token, Err(lost), sink),
            }
        }
    }

    #[inline(never)]
    fn poll_all(&mut self, sink: &mut impl Sink) -> bool {
        let Rails { first, others, cuts, again, .. } = self;
        let mut moved = first.poll(&mut Parts { sink, cuts, again: None });
        for other in others {
            moved |= other.poll(&mut Parts { sink, cuts, again: Some(again) });
        }
        if !self.again.is_empty() {
            self.begin_again(sink);
        }
        if self.others.iter().zip(&self.told).any(|(other, told)| other.adapter.is_gone && !told) {
            self.notice();
        }
        moved
    }

    /// Says what has become of the further ports that are gone.
    #[cold]
    fn notice(&mut self) {
        let (me, first) = (self.first.endpoints.me().0, &self.first.port().device);
        for (other, told) in self.others.iter().zip(&mut self.told) {
            if !other.adapter.is_gone || std::mem::replace(told, true) {
                continue;
            }
            let why = other.adapter.why_gone();
            eprintln!(
                "verbena: rank {me} goes on without one of verbs.rails, and with {first}: {why}"
            );
        }
    }
}

impl Cut {
    /// Where a part begins, and its length.
    fn part(&self, part: usize) -> (usize, usize) {
        let share = self.into.len().div_ceil(self.parts).next_multiple_of(4096);
        let begin = (part * share).min(self.into.len());
        (begin, share.min(self.into.len() - begin))
    }

    /// Begins a part on a port whose key is in that place.
    fn begin(
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
    (token & !CUT) >> 2
}

/// A part is over; says so of the read when it was the last.
fn over(
    cuts: &mut FxHashMap<u64, Cut>,
    token: u64,
    outcome: Result<(), PeerFailed>,
    sink: &mut impl Sink,
) {
    let Some(cut) = cuts.get_mut(&number(token)) else { return };
    cut.left -= 1;
    cut.lost = cut.lost.take().or(outcome.err());
    if cut.left == 0
        && let Some(cut) = cuts.remove(&number(token))
    {
        sink.transferred(cut.token, cut.lost.map_or(Ok(()), Err));
    }
}

/// Hears of parts in place of the protocol. `again`: of a further port.
struct Parts<'a, S> {
    sink: &'a mut S,
    cuts: &'a mut FxHashMap<u64, Cut>,
    again: Option<&'a mut Vec<u64>>,
}

impl<S: Sink> Sink for Parts<'_, S> {
    fn frame(&mut self, from: Peer, header: &Header, body: &[u8]) {
        // Nobody of ours sends one through a further port.
        if self.again.is_none() {
            self.sink.frame(from, header, body);
        }
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        match &mut self.again {
            _ if token & CUT == 0 => self.sink.transferred(token, outcome),
            Some(again) if outcome.is_err() => again.push(token),
            _ => over(self.cuts, token, outcome, self.sink),
        }
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        if self.again.is_none() {
            self.sink.peer_failed(lost);
        }
    }
}

impl Transport for Rails {
    #[inline]
    fn caps(&self, peer: Peer) -> &Caps {
        self.first.caps(peer)
    }

    #[inline]
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        self.first.post(peer, header, len, fill)
    }

    fn begin_batch(&mut self, peer: Peer) {
        self.first.begin_batch(peer);
    }

    fn end_batch(&mut self, peer: Peer) {
        self.first.end_batch(peer);
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        if self.others.is_empty() { self.first.poll(sink) } else { self.poll_all(sink) }
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        let mut region = self.first.register(peer, memory, rights)?;
        if rights != Rights::Put {
            for (key, other) in region.keys[1..].iter_mut().zip(&mut self.others) {
                *key = other.register(peer, memory, Rights::Get).map_or(0, |region| region.keys[0]);
            }
        }
        Some(region)
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.first.release(peer, region);
        for (&key, other) in region.keys[1..].iter().zip(&mut self.others) {
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
            region.keys[1..].iter().take_while(|&&key| key != 0).count().min(self.others.len());
        let parts = (what.memory().len() / PART).min(1 + known);
        match what {
            OneSided::Get(into) if parts > 1 => self.cut(Cut {
                token,
                peer,
                region: *region,
                at,
                into,
                parts,
                left: parts,
                lost: None,
            }),
            _ => self.first.one_sided(peer, region, at, what, token),
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        let is_quiet =
            self.again.is_empty() && self.others.iter_mut().all(|other| other.arm().is_some());
        if is_quiet { self.first.arm() } else { None }
    }

    #[inline]
    fn disarm(&mut self) {
        self.first.disarm();
        self.others.iter_mut().for_each(VerbsTransport::disarm);
    }

    fn flush(&mut self) -> bool {
        self.others
            .iter_mut()
            .fold(self.first.flush(), |is_flushed, other| other.flush() & is_flushed)
    }
}

impl Named {
    fn shared(&self) -> MutexGuard<'_, Box<dyn Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for Named {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.shared().put(&format!("{key}{}", self.suffix), value)
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        self.shared().try_value(&format!("{key}{}", self.suffix))
    }

    fn fd(&self) -> Option<RawFd> {
        self.shared().fd()
    }
}

/// Device, and port if one is named, of each rail.
fn further(rails: &[String]) -> Result<Vec<(String, Option<u8>)>, Unavailable> {
    let wrong = || Unavailable::Rails(rails.join(","));
    let parse = |rail: &String| match rail.split_once(':') {
        None => Ok((rail.clone(), None)),
        Some(("", _)) => Err(wrong()),
        Some((device, port)) => Ok((device.to_owned(), Some(port.parse().map_err(|_| wrong())?))),
    };
    if rails.len() < MOST { rails.iter().map(parse).collect() } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rails_are_devices_or_their_ports_and_at_most_three() {
        let further =
            |list: &[&str]| further(&list.iter().map(|&rail| rail.to_owned()).collect::<Vec<_>>());
        let found = further(&["mlx5_1", "mlx5_2:2"]).unwrap();
        assert_eq!(found, [("mlx5_1".to_owned(), None), ("mlx5_2".to_owned(), Some(2))]);
        for wrong in [&["a", "b", "c", "d"][..], &["a:"], &["a:x"], &[":1"], &["a:256"]] {
            let why = further(wrong).unwrap_err().to_string();
            assert!(why.contains(&wrong.join(",")), "{why}");
        }
    }
}
