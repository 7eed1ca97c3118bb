//! Multirail: several ports of one process, over which large reads and writes are striped.
//!
//! The primary port carries every frame; therefore the order of frames needs nothing new. Each
//! secondary port is a transport of its own, with an address of its own in the store, and carries
//! parts of reads and writes alone (`stripes`). Atomics go through the primary port: an atomic is
//! one step only among those of one device.
//!
//! Invariants: each port has a context of its own, since a context reports an event of the device
//! once, whichever port it is about. A secondary port whose device is gone carries nothing more,
//! and a line on standard error reports that once. One that does not reach a peer is tried again
//! with later transfers (`VerbsTransport::lose`).

use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::Registration;
use fabric::{
    Caps, GiveUp, Header, HybridGet, OneSided, OwnAtomics, Peer, PeerFailed, Post, Region, Rights,
    Sink, Slot, Transfer, Transport, UserBuf, WaitOn,
};

use crate::device::Port;
use crate::memory::Scratch;
use crate::selection::Selection;
use crate::settings::Settings;
use crate::store::Store;
use crate::stripes::{PartSink, Striped, Stripes};
use crate::transport::VerbsTransport;
use crate::unavailable::Unavailable;

/// Time that a connection of a secondary port may take to come back before its parts go through
/// the primary port.
const SECONDARY_RECONNECT: Duration = Duration::from_secs(5);

/// The transport over one port or several.
pub struct Rails {
    primary: VerbsTransport,
    secondary: Vec<VerbsTransport>,
    stripes: Stripes,
    /// Where reads that confirm writes go; after the transports, which read into it.
    scratch: Scratch,
    /// Why these ports and not others.
    reason: Option<String>,
    /// For each secondary port, whether a line has reported that its device is gone.
    warned: Vec<bool>,
}

/// The store with other keys for each port.
struct PortStore {
    store: Arc<Mutex<Box<dyn Store>>>,
    suffix: String,
}

impl Rails {
    /// Opens the transport of rank `me` of `size` on the ports that the settings choose, each as
    /// [`VerbsTransport::open`] does.
    pub fn open(
        settings: Settings,
        me: Peer,
        size: u32,
        secret: [u8; 32],
        store: Box<dyn Store>,
    ) -> Result<Rails, Unavailable> {
        let store = Arc::new(Mutex::new(store));
        let open = |port: Port, opened: &[VerbsTransport]| {
            let number = opened.len();
            let suffix = if number == 0 { String::new() } else { format!("/{number}") };
            let store = Box::new(PortStore { store: Arc::clone(&store), suffix });
            let settings =
                if number == 0 { settings.clone() } else { secondary_settings(&settings, &port) };
            let port = own_context(port, opened)?;
            VerbsTransport::open_on(port, settings, me, size, secret, store)
        };
        let (mut opened, reason) = open_ports(Selection::new(&settings)?, open)?;
        let primary = opened.remove(0);
        for other in &opened {
            primary.wake_with(other).map_err(|error| {
                Unavailable::step(&other.port().device, "watching its events", error)
            })?;
        }
        let scratch = Scratch::new()
            .map_err(|error| Unavailable::step(&primary.port().device, "mapping a page", error))?;
        let warned = vec![false; opened.len()];
        let stripes = Stripes::default();
        Ok(Rails { primary, secondary: opened, stripes, scratch, reason, warned })
    }

    /// Returns why these ports are used and not others; `None` if there are no others.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns the transport of all frames.
    pub fn primary(&mut self) -> &mut VerbsTransport {
        &mut self.primary
    }

    /// Returns the transports of all ports, the primary one first.
    pub(crate) fn transports(&self) -> impl Iterator<Item = &VerbsTransport> {
        std::iter::once(&self.primary).chain(&self.secondary)
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

    /// Returns whether operations go by dynamically connected transport where there is no
    /// connection.
    pub fn is_dynamic(&self) -> bool {
        self.primary.dynamic.is_some()
    }

    /// Returns the atomics of the device on this process's own memory, which outlives them: of the
    /// port that carries those of peers.
    pub fn own_atomics(&self, memory: UserBuf) -> std::io::Result<Box<dyn OwnAtomics>> {
        self.primary.own_atomics(memory)
    }

    /// Returns the bytes that this process has read and written through secondary ports.
    pub fn bytes_on_secondary_ports(&self) -> u64 {
        self.stripes.secondary_bytes
    }

    /// Returns the number of frames that were written into the memory of peers.
    pub fn frames_written(&self) -> u64 {
        self.primary.frames_written()
    }

    /// Returns the number of frames that were sent together with others.
    pub fn frames_coalesced(&self) -> u64 {
        self.primary.frames_coalesced()
    }

    #[inline(never)]
    fn poll_all(&mut self, sink: &mut impl Sink) -> bool {
        let Rails { primary, secondary, stripes, .. } = self;
        let mut moved = primary.poll(&mut PartSink { sink, stripes, is_secondary: false });
        for other in secondary {
            moved |= other.poll(&mut PartSink { sink, stripes, is_secondary: true });
        }
        if !self.stripes.retry.is_empty() {
            self.stripes.retry_parts(&mut self.primary, sink);
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
                "verbena: rank {me} goes on without one of its RDMA ports, and with {primary}: {why}"
            );
        }
    }
}

impl HybridGet for Rails {}

impl GiveUp for Rails {
    fn give_up(&mut self, peer: Peer, why: &str) {
        self.primary.give_up(peer, why);
    }
}

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
        // A write through a secondary port is confirmed by a read.
        let rights = if rights == Rights::Get { Rights::Get } else { Rights::All };
        for (key, other) in region.keys[1..].iter_mut().zip(&mut self.secondary) {
            *key = other.register(peer, memory, rights).map_or(0, |region| region.keys[0]);
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
        let known = region.keys[1..].iter().take_while(|&&key| key != 0).count();
        let ports = 1 + known.min(self.secondary.len());
        match Striped::new(token, peer, region, at, what, ports) {
            Some(striped) => {
                let Rails { primary, secondary, stripes, scratch, .. } = self;
                stripes.begin(striped, primary, secondary, scratch.byte())
            }
            None => self.primary.one_sided(peer, region, at, what, token),
        }
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        let is_quiet = self.stripes.retry.is_empty()
            && self.secondary.iter_mut().all(|other| other.arm().is_some());
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

    fn shows_changes(&self) -> bool {
        self.shared().shows_changes()
    }

    fn arrivals(&mut self, seen: &mut usize) -> Vec<String> {
        let mut keys = self.shared().arrivals(seen);
        keys.retain_mut(|key| {
            let own = key.strip_suffix(self.suffix.as_str()).map(str::len);
            own.inspect(|len| key.truncate(*len)).is_some()
        });
        keys
    }

    fn fd(&self) -> Option<RawFd> {
        self.shared().fd()
    }
}

/// Opens the selected ports, at least one. A primary port that cannot be opened is left out, and
/// the ports are selected again; a secondary one is left out, since the others are enough. Returns
/// also why these ports and not others. Fails with the reason against the first port if none can be
/// opened, and with the reason against any port if the user has named them.
fn open_ports(
    mut selection: Selection,
    open: impl Fn(Port, &[VerbsTransport]) -> Result<VerbsTransport, Unavailable>,
) -> Result<(Vec<VerbsTransport>, Option<String>), Unavailable> {
    let mut first_refusal = None;
    loop {
        let mut opened = Vec::new();
        let mut reasons: Vec<String> = selection.reason.iter().cloned().collect();
        let mut refusal = None;
        for port in &selection.ports {
            match open(port.clone(), &opened) {
                Ok(transport) => opened.push(transport),
                Err(why) if opened.is_empty() || selection.are_named() => {
                    refusal = Some(why);
                    break;
                }
                Err(why) => reasons.push(format!("not {}:{} ({why})", port.device, port.number)),
            }
        }
        let Some(why) = refusal else {
            return Ok((opened, (!reasons.is_empty()).then(|| reasons.join("; "))));
        };
        match selection.without_first(&why) {
            Some(next) => selection = next,
            None => return Err(first_refusal.unwrap_or(why)),
        }
        first_refusal.get_or_insert(why);
    }
}

/// Returns the port with a context that none of the transports before it has.
fn own_context(port: Port, opened: &[VerbsTransport]) -> Result<Port, Unavailable> {
    if !opened.iter().any(|other| Arc::ptr_eq(&other.port().context, &port.context)) {
        return Ok(port);
    }
    let context = port.context.reopen();
    let context =
        context.map_err(|error| Unavailable::step(&port.device, "opening it again", error))?;
    Ok(Port { context, ..port })
}

/// Returns the settings of a secondary port, which carries no frames that need space.
fn secondary_settings(settings: &Settings, port: &Port) -> Settings {
    Settings {
        device: Some(port.device.clone()),
        port: Some(port.number),
        reconnect_timeout: settings.reconnect_timeout.min(SECONDARY_RECONNECT),
        is_secondary: true,
        credits: 4,
        eager_max: 64,
        eager_rdma_peers: 0,
        ..settings.clone()
    }
}
