//! Verbs and TCP of one process, and the route to each peer.
//!
//! Routes come from the names of fabrics in the store, and from agreements ([`Contact`]). A step
//! that found no space is in the outbox; until a decision has left it, nothing else goes to that
//! peer.

use std::ops::Range;
use std::time::Instant;

use rustc_hash::FxHashMap;

use crate::body::Body;
use crate::header::{Header, Kind};
use crate::store::Store;
use crate::timer::Timer;
use crate::transport::{Caps, GiveUp, HybridGet, Offload, Peer, PeerFailed, Post, Sink, WaitOn};

use super::contact::{Contact, Patience, Step, Via};
use super::{Route, VERBS_ALONE, key};

/// Most bytes of a reason that a step carries: every frame has them.
const MAX_REASON: usize = 56;

/// Tells the user something about a peer.
pub type Report = Box<dyn FnMut(Peer, &str) + Send>;

/// What a process needs to choose between verbs and TCP.
pub struct Choice {
    /// Rank of this process.
    pub me: Peer,
    /// The processes of the own job: those of others are reached by TCP.
    pub world: Range<u32>,
    /// Name of this process's fabric, which it has published.
    pub fabric: String,
    /// The job's store.
    pub store: Box<dyn Store>,
    /// A timer that wakes what verbs and TCP sleep on.
    pub timer: Timer,
    /// How long silence is borne.
    pub patience: Patience,
    /// Tells the user that a peer is reached by TCP instead of verbs, and why.
    pub report: Report,
}

/// The routes to all peers.
pub(super) struct Routes {
    /// The first process of the own job.
    first: u32,
    own: Vec<Route>,
}

impl Routes {
    fn new(world: Range<u32>) -> Routes {
        Routes { first: world.start, own: vec![Route::Unknown; world.len()] }
    }

    /// Returns what is known of the route to a peer; processes of other jobs are reached by TCP.
    #[inline]
    pub(super) fn of(&self, peer: Peer) -> Route {
        let at = peer.0.wrapping_sub(self.first);
        self.own.get(at as usize).copied().unwrap_or(Route::Tcp)
    }

    fn set(&mut self, peer: Peer, route: Route) {
        let at = peer.0.wrapping_sub(self.first);
        if let Some(known) = self.own.get_mut(at as usize) {
            *known = route;
        }
    }
}

/// What a poll found about peers without a route.
enum Event {
    Step(Peer, (Via, Step), Option<String>),
    Failed(Via, PeerFailed),
}

/// Both transports with what is needed to choose.
pub(super) struct Both<V, T> {
    pub(super) verbs: V,
    pub(super) tcp: T,
    pub(super) choice: Choice,
    pub(super) routes: Routes,
    /// Shorter once verbs has not reached a peer.
    patience: Patience,
    /// Peers whose name is awaited.
    awaited: Vec<Peer>,
    /// Agreements under way.
    contacts: FxHashMap<Peer, Contact>,
    events: Vec<Event>,
    outbox: Vec<(Peer, Via, Step, Option<String>)>,
    /// What both transports can do.
    pub(super) caps: Caps,
    pub(super) tcp_frames: u64,
    pub(super) tcp_bytes: u64,
}

impl<V: HybridGet + GiveUp, T: HybridGet + GiveUp> Both<V, T> {
    pub(super) fn new(verbs: V, tcp: T, choice: Choice) -> Both<V, T> {
        let (one, other) = (verbs.caps(Peer(0)), tcp.caps(Peer(0)));
        let caps = Caps {
            frame: one.frame.min(other.frame),
            eager: one.eager.min(other.eager),
            get_min: u64::MAX,
            put_min: u64::MAX,
            offload: Offload::Processor,
            late_puts: one.late_puts || other.late_puts,
        };
        let routes = Routes::new(choice.world.clone());
        Both {
            verbs,
            tcp,
            patience: choice.patience,
            choice,
            routes,
            awaited: Vec::new(),
            contacts: FxHashMap::default(),
            events: Vec::new(),
            outbox: Vec::new(),
            caps,
            tcp_frames: 0,
            tcp_bytes: 0,
        }
    }

    /// Returns the route by which something may be sent to a peer now. Looks for one if it is not
    /// known.
    #[inline]
    pub(super) fn route(&mut self, peer: Peer) -> Result<Route, PeerFailed> {
        match self.routes.of(peer) {
            Route::Verbs if self.outbox.is_empty() => Ok(Route::Verbs),
            Route::Tcp if self.outbox.is_empty() => Ok(Route::Tcp),
            _ => self.find_route(peer),
        }
    }

    #[cold]
    fn find_route(&mut self, peer: Peer) -> Result<Route, PeerFailed> {
        match self.routes.of(peer) {
            Route::Unknown => self.look_up(peer)?,
            Route::Negotiating => self.reach(peer),
            Route::Verbs | Route::Tcp => {}
        }
        let has_steps = self.outbox.iter().any(|entry| entry.0 == peer);
        Ok(if has_steps { Route::Negotiating } else { self.routes.of(peer) })
    }

    fn look_up(&mut self, peer: Peer) -> Result<(), PeerFailed> {
        let failed = |why| PeerFailed { peer, why: format!("cannot look up its fabric: {why}") };
        let Some(name) = self.choice.store.try_value(&key(peer)).map_err(failed)? else {
            if !self.awaited.contains(&peer) {
                self.awaited.push(peer);
            }
            return Ok(());
        };
        self.awaited.retain(|&other| other != peer);
        let ours = self.choice.fabric.as_bytes();
        match name.strip_prefix(ours).filter(|_| !ours.is_empty()) {
            Some([]) => self.reach(peer),
            Some(rest) if rest == VERBS_ALONE.as_bytes() => {
                self.routes.set(peer, Route::Verbs);
            }
            _ => self.routes.set(peer, Route::Tcp),
        }
        Ok(())
    }

    /// Begins the agreement with a peer.
    fn reach(&mut self, peer: Peer) {
        self.contact(peer).want(Instant::now());
        self.conclude(peer);
        self.send_steps();
    }

    fn contact(&mut self, peer: Peer) -> &mut Contact {
        self.routes.set(peer, Route::Negotiating);
        let (decides, patience) = (self.choice.me < peer, self.patience);
        self.contacts.entry(peer).or_insert_with(|| Contact::new(decides, patience))
    }

    /// Takes over what a contact has to send, and its decision.
    fn conclude(&mut self, peer: Peer) {
        let Some(contact) = self.contacts.get_mut(&peer) else { return };
        for (via, step) in contact.outbox.drain(..) {
            self.outbox.push((peer, via, step, contact.broken.clone()));
        }
        let decides = self.choice.me < peer;
        match contact.decision() {
            None => return,
            Some(Via::Verbs) => self.routes.set(peer, Route::Verbs),
            Some(Via::Tcp) => {
                self.routes.set(peer, Route::Tcp);
                let why = contact.broken.take().unwrap_or_default();
                // No frame of ours is lost: verbs has carried questions alone.
                self.verbs.give_up(peer, &why);
                self.outbox.retain(|(to, via, ..)| *to != peer || *via == Via::Tcp);
                self.patience = self.choice.patience.after_fallback();
                if decides {
                    (self.choice.report)(peer, &why);
                }
            }
        }
        self.contacts.remove(&peer);
    }

    /// Sends steps as far as there is space. Returns true if anything was sent.
    fn send_steps(&mut self) -> bool {
        let before = self.outbox.len();
        let mut kept = Vec::new();
        for (peer, via, step, reason) in std::mem::take(&mut self.outbox) {
            let header = Header { flags: step as u8, ..Header::new(Kind::Route) };
            let body = reason.as_deref().unwrap_or_default().as_bytes();
            let body = &body[..body.len().min(MAX_REASON)];
            let posted = match via {
                Via::Verbs => {
                    self.verbs.post(peer, &header, body.len(), |s| s.copy_from_slice(body))
                }
                Via::Tcp => self.tcp.post(peer, &header, body.len(), |s| s.copy_from_slice(body)),
            };
            match posted {
                Ok(Post::Sent) => {}
                Ok(Post::NoSpace) => kept.push((peer, via, step, reason)),
                Err(failed) => self.events.push(Event::Failed(via, failed)),
            }
        }
        self.outbox = kept;
        self.outbox.len() < before
    }

    /// Looks for the names that are awaited; true if any has come, or cannot.
    #[cold]
    fn look_up_awaited(&mut self) -> bool {
        let before = self.awaited.len();
        let mut failed = false;
        for peer in self.awaited.clone() {
            failed |= self.look_up(peer).is_err();
        }
        failed || self.awaited.len() < before
    }

    pub(super) fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let has_come = !self.awaited.is_empty() && self.look_up_awaited();
        let Both { routes, events, verbs, tcp, .. } = self;
        let by_verbs = verbs.poll(&mut RouteSink { sink, routes, events, via: Via::Verbs });
        let by_tcp = tcp.poll(&mut RouteSink { sink, routes, events, via: Via::Tcp });
        let moved = by_verbs | by_tcp | has_come;
        if self.events.is_empty() && self.contacts.is_empty() && self.outbox.is_empty() {
            return moved;
        }
        self.negotiate(sink, !by_verbs) | moved
    }

    /// Advances agreements; nothing was received over verbs if it `is_quiet`. Returns true if a
    /// post that found no route may find one.
    #[cold]
    fn negotiate(&mut self, sink: &mut impl Sink, is_quiet: bool) -> bool {
        let (now, before) = (Instant::now(), self.contacts.len());
        for event in std::mem::take(&mut self.events) {
            match event {
                Event::Step(peer, step, reason) => {
                    self.on_step(peer, step, reason.as_deref(), now);
                }
                Event::Failed(via, failed) => self.on_failure(via, failed, now, sink),
            }
        }
        let peers: Vec<Peer> = self.contacts.keys().copied().collect();
        for peer in peers {
            self.contact(peer).advance(now, is_quiet);
            self.conclude(peer);
        }
        self.send_steps() | (self.contacts.len() < before)
    }

    fn on_step(&mut self, peer: Peer, (via, step): (Via, Step), why: Option<&str>, now: Instant) {
        match (self.routes.of(peer), via, step) {
            (Route::Unknown | Route::Negotiating, ..) => {
                self.awaited.retain(|&other| other != peer);
                self.contact(peer).received(via, step, why, now);
                self.conclude(peer);
            }
            // Verbs has failed there since the decision, or before it arrived: it must know.
            (Route::Verbs, Via::Tcp, Step::Ask) if self.choice.me < peer => {
                self.outbox.push((peer, Via::Tcp, Step::UseVerbs, None));
            }
            _ => {}
        }
    }

    fn on_failure(&mut self, via: Via, failed: PeerFailed, now: Instant, sink: &mut impl Sink) {
        let peer = failed.peer;
        let route = self.routes.of(peer);
        match (route, via) {
            (Route::Verbs, Via::Verbs) | (Route::Tcp, Via::Tcp) => sink.peer_failed(failed),
            (Route::Negotiating, Via::Verbs) => {
                self.contact(peer).verbs_failed(failed.why, now);
                self.conclude(peer);
            }
            (Route::Negotiating, Via::Tcp) => {
                // Verbs may still answer, unless it has failed as well.
                if let Some(why) = self.contact(peer).broken.take() {
                    self.contacts.remove(&peer);
                    self.routes.set(peer, Route::Tcp);
                    let why = format!("over RDMA: {why}; over TCP: {}", failed.why);
                    sink.peer_failed(PeerFailed { peer, why });
                }
            }
            _ => {}
        }
    }

    /// Ends the agreement with a peer that is known to have failed.
    pub(super) fn give_up(&mut self, peer: Peer, why: &str) {
        if self.contacts.remove(&peer).is_some() {
            self.routes.set(peer, Route::Tcp);
            self.verbs.give_up(peer, why);
        }
        self.outbox.retain(|entry| entry.0 != peer);
        self.tcp.give_up(peer, why);
    }

    pub(super) fn count(&mut self, posted: Post, len: usize) -> Post {
        if posted == Post::Sent {
            self.tcp_frames += 1;
            self.tcp_bytes += len as u64;
        }
        posted
    }

    pub(super) fn arm(&mut self) -> Option<WaitOn<'_>> {
        if !self.awaited.is_empty() && self.look_up_awaited() {
            return None;
        }
        if !self.events.is_empty() {
            return None;
        }
        let next = self.contacts.values().filter_map(Contact::deadline).min();
        if self.send_steps() || next.is_some_and(|at| at <= Instant::now()) {
            return None;
        }
        // Once its time has come it wakes until it is set again.
        self.choice.timer.set(next);
        // The descriptor of verbs is among those that wake TCP, and so is the timer.
        self.verbs.arm()?;
        self.tcp.arm()
    }

    pub(super) fn flush(&mut self) -> bool {
        let verbs = self.verbs.flush();
        self.tcp.flush() && verbs && self.outbox.is_empty()
    }
}

/// The sink of one of both transports. It keeps what agreements are about. A device that fails
/// reports all peers as failed, also those of the other transport: these reports are dropped.
struct RouteSink<'a, S> {
    sink: &'a mut S,
    routes: &'a Routes,
    events: &'a mut Vec<Event>,
    via: Via,
}

impl<S: Sink> RouteSink<'_, S> {
    #[cold]
    fn keep_step(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some(step) = Step::from_wire(header.flags) else { return };
        let reason = (!body.is_empty()).then(|| String::from_utf8_lossy(body).into_owned());
        self.events.push(Event::Step(from, (self.via, step), reason));
    }
}

impl<S: Sink> Sink for RouteSink<'_, S> {
    #[inline]
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        if header.kind == Kind::Route {
            return body.wait_all().map_or((), |body| self.keep_step(from, header, body));
        }
        self.sink.frame(from, header, body);
    }

    #[inline]
    fn expects(&mut self, from: Peer, header: &Header) -> bool {
        self.sink.expects(from, header)
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        self.sink.transferred(token, outcome);
    }

    fn peer_failed(&mut self, failed: PeerFailed) {
        match (self.routes.of(failed.peer), self.via) {
            (Route::Verbs, Via::Verbs) | (Route::Tcp, Via::Tcp) => self.sink.peer_failed(failed),
            (Route::Negotiating, via) => self.events.push(Event::Failed(via, failed)),
            _ => {}
        }
    }
}
