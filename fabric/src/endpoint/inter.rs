//! The transport between hosts: verbs or TCP, chosen for each peer.
//!
//! A process with an RDMA device publishes the name of its fabric, one without publishes an empty
//! name. Two processes use verbs if both names are the same and not empty, otherwise TCP. Both
//! sides therefore choose alike. States of a peer ([`Route`]): unknown, until its name has
//! arrived; then verbs or TCP for ever. Until then nothing is sent to it, and the capabilities are
//! those that both transports have.
//!
//! A process that has one of the two transports uses it for all peers and asks for no name.

use crate::body::Body;
use crate::header::Header;
use crate::store::Store;
use crate::transport::{
    Caps, GetOrPush, HybridGet, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Slot,
    Transfer, Transport, WaitOn,
};
use crate::user_buf::UserBuf;

/// The transport to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The peer's fabric is not known yet.
    Unknown,
    /// Verbs.
    Verbs,
    /// TCP.
    Tcp,
}

/// Both transports with what is needed to choose.
struct Both<V, T> {
    verbs: V,
    tcp: T,
    /// Name of this process's fabric.
    fabric: String,
    store: Box<dyn Store>,
    routes: Vec<Route>,
    /// Peers whose name is awaited.
    awaited: Vec<Peer>,
    /// What both transports can do.
    caps: Caps,
    tcp_frames: u64,
    tcp_bytes: u64,
}

/// Which transports there are.
enum Transports<V, T> {
    Verbs(V),
    Tcp(T),
    Both(Box<Both<V, T>>),
}

/// The transport between hosts of one process.
pub struct Inter<V, T> {
    transports: Transports<V, T>,
}

/// Returns the key of a process's fabric in the store.
fn key(peer: Peer) -> String {
    format!("fabric/{}", peer.0)
}

/// Publishes the name of this process's fabric; empty if it has no RDMA device. The error is a text
/// for the user.
pub fn publish(store: &mut dyn Store, me: Peer, fabric: &str) -> Result<(), String> {
    store.put(&key(me), fabric.as_bytes())
}

impl<V: HybridGet, T: HybridGet> Inter<V, T> {
    /// Returns the transport of a process that uses verbs alone.
    pub fn verbs_only(verbs: V) -> Self {
        Inter { transports: Transports::Verbs(verbs) }
    }

    /// Returns the transport of a process that uses TCP alone.
    pub fn tcp_only(tcp: T) -> Self {
        Inter { transports: Transports::Tcp(tcp) }
    }

    /// Returns the transport of a process that has published `fabric`, in a job of `size`. The
    /// descriptor of what verbs sleeps on must wake TCP too ([`WaitOn::Fd`]).
    pub fn both(verbs: V, tcp: T, fabric: String, size: u32, store: Box<dyn Store>) -> Self {
        let (one, other) = (verbs.caps(Peer(0)), tcp.caps(Peer(0)));
        let caps = Caps {
            frame: one.frame.min(other.frame),
            eager: one.eager.min(other.eager),
            get_min: u64::MAX,
            put_min: u64::MAX,
        };
        let routes = vec![Route::Unknown; size as usize];
        Inter {
            transports: Transports::Both(Box::new(Both {
                verbs,
                tcp,
                fabric,
                store,
                routes,
                awaited: Vec::new(),
                caps,
                tcp_frames: 0,
                tcp_bytes: 0,
            })),
        }
    }

    /// Returns the verbs transport, if there is one.
    pub fn verbs(&self) -> Option<&V> {
        match &self.transports {
            Transports::Verbs(verbs) => Some(verbs),
            Transports::Tcp(_) => None,
            Transports::Both(both) => Some(&both.verbs),
        }
    }

    /// Returns the TCP transport, if there is one.
    pub fn tcp(&self) -> Option<&T> {
        match &self.transports {
            Transports::Verbs(_) => None,
            Transports::Tcp(tcp) => Some(tcp),
            Transports::Both(both) => Some(&both.tcp),
        }
    }

    /// Returns the TCP transport, to give up a peer.
    pub fn tcp_mut(&mut self) -> Option<&mut T> {
        match &mut self.transports {
            Transports::Verbs(_) => None,
            Transports::Tcp(tcp) => Some(tcp),
            Transports::Both(both) => Some(&mut both.tcp),
        }
    }

    /// Returns the route to a peer.
    pub fn route(&self, peer: Peer) -> Route {
        match &self.transports {
            Transports::Verbs(_) => Route::Verbs,
            Transports::Tcp(_) => Route::Tcp,
            Transports::Both(both) => both.routes[peer.0 as usize],
        }
    }

    /// Looks up the route to a peer, if it is unknown.
    fn look_up(&mut self, peer: Peer) -> Result<(), PeerFailed> {
        match &mut self.transports {
            Transports::Both(both) => both.route(peer).map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the frames and bytes that went by TCP, of `all` frames and bytes.
    pub fn by_tcp(&self, all: (u64, u64)) -> (u64, u64) {
        match &self.transports {
            Transports::Verbs(_) => (0, 0),
            Transports::Tcp(_) => all,
            Transports::Both(both) => (both.tcp_frames, both.tcp_bytes),
        }
    }
}

impl<V: HybridGet, T: HybridGet> Both<V, T> {
    /// Returns the route to a peer, which is looked up if it is unknown.
    #[inline]
    fn route(&mut self, peer: Peer) -> Result<Route, PeerFailed> {
        match self.routes[peer.0 as usize] {
            Route::Unknown => self.look_up(peer),
            route => Ok(route),
        }
    }

    #[cold]
    fn look_up(&mut self, peer: Peer) -> Result<Route, PeerFailed> {
        let failed = |why| PeerFailed { peer, why: format!("cannot look up its fabric: {why}") };
        let Some(name) = self.store.try_value(&key(peer)).map_err(failed)? else {
            if !self.awaited.contains(&peer) {
                self.awaited.push(peer);
            }
            return Ok(Route::Unknown);
        };
        let is_shared = !name.is_empty() && name == self.fabric.as_bytes();
        let route = if is_shared { Route::Verbs } else { Route::Tcp };
        self.routes[peer.0 as usize] = route;
        self.awaited.retain(|&other| other != peer);
        Ok(route)
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

    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let has_come = !self.awaited.is_empty() && self.look_up_awaited();
        let routes = &self.routes;
        let moved = self.verbs.poll(&mut RouteSink { sink, routes, served: Route::Verbs });
        self.tcp.poll(&mut RouteSink { sink, routes, served: Route::Tcp }) | moved | has_come
    }

    fn count(&mut self, posted: Post, len: usize) -> Post {
        if posted == Post::Sent {
            self.tcp_frames += 1;
            self.tcp_bytes += len as u64;
        }
        posted
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        if !self.awaited.is_empty() && self.look_up_awaited() {
            return None;
        }
        // The descriptor of verbs is among those that wake TCP.
        self.verbs.arm()?;
        self.tcp.arm()
    }
}

/// The sink of one of both transports. A device that fails reports all peers as failed, also those
/// of the other transport: these reports are dropped.
struct RouteSink<'a, S> {
    sink: &'a mut S,
    routes: &'a [Route],
    served: Route,
}

impl<S: Sink> Sink for RouteSink<'_, S> {
    #[inline]
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
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
        if self.routes[failed.peer.0 as usize] == self.served {
            self.sink.peer_failed(failed);
        }
    }
}

/// Runs a call on the transport to a peer; `$unknown` while that is not known.
macro_rules! on_route {
    ($self:ident, $peer:ident, $transport:ident => $call:expr, $unknown:expr) => {
        match &mut $self.transports {
            Transports::Verbs($transport) => $call,
            Transports::Tcp($transport) => $call,
            Transports::Both(both) => match both.routes[$peer.0 as usize] {
                Route::Verbs => {
                    let $transport = &mut both.verbs;
                    $call
                }
                Route::Tcp => {
                    let $transport = &mut both.tcp;
                    $call
                }
                Route::Unknown => $unknown,
            },
        }
    };
}

impl<V: HybridGet, T: HybridGet> Transport for Inter<V, T> {
    fn caps(&self, peer: Peer) -> &Caps {
        match &self.transports {
            Transports::Verbs(verbs) => verbs.caps(peer),
            Transports::Tcp(tcp) => tcp.caps(peer),
            Transports::Both(both) => match both.routes[peer.0 as usize] {
                Route::Unknown => &both.caps,
                Route::Verbs => both.verbs.caps(peer),
                Route::Tcp => both.tcp.caps(peer),
            },
        }
    }

    #[inline]
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        match &mut self.transports {
            Transports::Verbs(verbs) => verbs.post(peer, header, len, fill),
            Transports::Tcp(tcp) => tcp.post(peer, header, len, fill),
            Transports::Both(both) => match both.route(peer)? {
                Route::Verbs => both.verbs.post(peer, header, len, fill),
                Route::Tcp => {
                    let posted = both.tcp.post(peer, header, len, fill)?;
                    Ok(both.count(posted, len))
                }
                Route::Unknown => Ok(Post::NoSpace),
            },
        }
    }

    fn begin_batch(&mut self, peer: Peer) {
        on_route!(self, peer, transport => transport.begin_batch(peer), {});
    }

    fn end_batch(&mut self, peer: Peer) {
        on_route!(self, peer, transport => transport.end_batch(peer), {});
    }

    #[inline]
    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        match &mut self.transports {
            Transports::Verbs(verbs) => verbs.poll(sink),
            Transports::Tcp(tcp) => tcp.poll(sink),
            Transports::Both(both) => both.poll(sink),
        }
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        on_route!(self, peer, transport => transport.register(peer, memory, rights), None)
    }

    fn release(&mut self, peer: Peer, region: Region) {
        on_route!(self, peer, transport => transport.release(peer, region), {});
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        self.look_up(peer)?;
        on_route!(self, peer, transport => transport.one_sided(peer, region, at, what, token),
            Ok(Transfer::NoSpace))
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        match &mut self.transports {
            Transports::Verbs(verbs) => verbs.arm(),
            Transports::Tcp(tcp) => tcp.arm(),
            Transports::Both(both) => both.arm(),
        }
    }

    fn disarm(&mut self) {
        match &mut self.transports {
            Transports::Verbs(verbs) => verbs.disarm(),
            Transports::Tcp(tcp) => tcp.disarm(),
            Transports::Both(both) => {
                both.verbs.disarm();
                both.tcp.disarm();
            }
        }
    }

    fn flush(&mut self) -> bool {
        match &mut self.transports {
            Transports::Verbs(verbs) => verbs.flush(),
            Transports::Tcp(tcp) => tcp.flush(),
            Transports::Both(both) => {
                let verbs = both.verbs.flush();
                both.tcp.flush() && verbs
            }
        }
    }
}

impl<V: HybridGet, T: HybridGet> HybridGet for Inter<V, T> {
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        self.look_up(peer)?;
        on_route!(self, peer, transport => transport.get_or_push(peer, region, into, token),
            Ok(GetOrPush::Get(Transfer::NoSpace)))
    }

    fn get_remainder(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        into: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        on_route!(self, peer, transport => transport.get_remainder(peer, region, at, into),
            Ok(Transfer::Refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Kind;
    use crate::sim::{self, Options, SimTransport};
    use crate::store::InProcessStore;

    type SimInter = Inter<SimTransport, SimTransport>;

    #[derive(Default)]
    struct Inbox(Vec<(u32, u8)>, Vec<u32>);

    impl Sink for Inbox {
        fn frame(&mut self, from: Peer, _: &Header, body: &(impl Body + ?Sized)) {
            self.0.push((from.0, body.wait_all()[0]));
        }
        fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
        fn peer_failed(&mut self, failed: PeerFailed) {
            self.1.push(failed.peer.0);
        }
    }

    /// Ranks 0 and 1 share a fabric, rank 2 has another, rank 3 has none and TCP alone.
    const FABRICS: [&str; 4] = ["ib one", "ib one", "ib two", ""];

    fn ranks(options: [Options; 2], store: &InProcessStore) -> Vec<SimInter> {
        let [verbs, tcp] = options.map(|options| sim::fabric(4, 1, options));
        let make = |(rank, (verbs, tcp))| match FABRICS[rank] {
            "" => Inter::tcp_only(tcp),
            fabric => Inter::both(verbs, tcp, fabric.into(), 4, Box::new(store.clone())),
        };
        (0..).zip(verbs.into_iter().zip(tcp)).map(make).collect()
    }

    fn post(rank: &mut SimInter, to: u32, body: u8) -> Result<Post, PeerFailed> {
        rank.post(Peer(to), &Header::new(Kind::Eager), 1, |slot| slot[0] = body)
    }

    #[test]
    fn a_shared_fabric_is_used_and_everything_else_goes_by_tcp() {
        let mut store = InProcessStore::default();
        let small = Caps { frame: 128, eager: 120, ..Options::default().caps };
        let options = [Options::default(), Options { caps: small, ..Options::default() }];
        let mut ranks = ranks(options, &store);
        assert_eq!(ranks[0].caps(Peer(1)).frame, 128, "both transports can do it");
        assert_eq!(post(&mut ranks[0], 1, 9), Ok(Post::NoSpace), "its fabric is not known");
        for (rank, fabric) in (0..).zip(FABRICS) {
            publish(&mut store, Peer(rank), fabric).unwrap();
        }
        assert!(ranks[0].poll(&mut Inbox::default()), "the name has come");
        let routes = [(1, Route::Verbs), (2, Route::Tcp), (3, Route::Tcp)];
        for (to, route) in routes {
            assert_eq!(post(&mut ranks[0], to, to as u8), Ok(Post::Sent));
            assert_eq!(ranks[0].route(Peer(to)), route, "rank {to}");
        }
        assert_eq!(ranks[0].caps(Peer(1)).frame, 4096);
        assert_eq!(ranks[0].by_tcp((3, 3)), (2, 2));
        for (to, rank) in (1..).zip(&mut ranks[1..]) {
            let mut inbox = Inbox::default();
            while inbox.0.is_empty() {
                rank.poll(&mut inbox);
            }
            assert_eq!(inbox.0, [(0, to)]);
            assert_eq!(post(rank, 0, 7), Ok(Post::Sent));
        }
        let mut inbox = Inbox::default();
        while inbox.0.len() < 3 {
            ranks[0].poll(&mut inbox);
        }
    }

    #[test]
    fn a_device_fails_its_own_peers_alone() {
        for (device, victim, is_reported) in [(0, 1, true), (1, 1, false), (0, 2, false)] {
            let mut store = InProcessStore::default();
            for (rank, fabric) in (0..).zip(FABRICS) {
                publish(&mut store, Peer(rank), fabric).unwrap();
            }
            let mut options = [Options::default(); 2];
            options[device].death = Some((Peer(victim), 8));
            let (mut ranks, mut inbox) = (ranks(options, &store), Inbox::default());
            assert_eq!(post(&mut ranks[0], 1, 1), Ok(Post::Sent));
            assert_eq!(post(&mut ranks[0], 2, 1), Ok(Post::Sent));
            (0..30).for_each(|_| _ = ranks[0].poll(&mut inbox));
            let expected: &[u32] = if is_reported { &[victim] } else { &[] };
            assert_eq!(inbox.1, expected, "rank {victim} failed on device {device}");
        }
    }
}
