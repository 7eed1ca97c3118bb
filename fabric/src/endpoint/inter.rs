//! The transport between hosts: verbs or TCP, chosen for each peer.
//!
//! A process with an RDMA device publishes the name of its fabric, one without publishes an empty
//! name. If both names are the same and not empty, the two processes agree on verbs or, where that
//! does not get through, on TCP (`contact`); otherwise they use TCP. Both sides therefore choose
//! alike. States of a peer ([`Route`]): unknown, until its name has arrived; negotiating; then
//! verbs or TCP for ever. Until then nothing but steps of the agreement is sent to it, and the
//! capabilities are those that both transports have.
//!
//! A process that has one of the two transports uses it for all peers and asks for no name.

mod both;
mod contact;

use crate::header::Header;
use crate::store::Store;
use crate::transport::{
    Caps, GetOrPush, GiveUp, HybridGet, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink,
    Slot, Transfer, Transport, WaitOn,
};
use crate::user_buf::UserBuf;

use self::both::Both;
pub use self::both::{Choice, Report};
pub use self::contact::Patience;

/// The transport to one peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The peer's fabric is not known yet.
    Unknown,
    /// Verbs, if it gets through; otherwise TCP.
    Negotiating,
    /// Verbs.
    Verbs,
    /// TCP.
    Tcp,
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

/// Follows the name of the fabric of a process that cannot use TCP: there is nothing to agree on.
const VERBS_ALONE: &str = "\nverbs alone";

/// Publishes the name of this process's fabric; empty if it has no RDMA device. The error is a text
/// for the user.
pub fn publish(store: &mut dyn Store, me: Peer, fabric: &str, has_tcp: bool) -> Result<(), String> {
    let rest = if has_tcp { "" } else { VERBS_ALONE };
    store.put(&key(me), format!("{fabric}{rest}").as_bytes())
}

impl<V: HybridGet + GiveUp, T: HybridGet + GiveUp> Inter<V, T> {
    /// Returns the transport of a process that uses verbs alone.
    pub fn verbs_only(verbs: V) -> Self {
        Inter { transports: Transports::Verbs(verbs) }
    }

    /// Returns the transport of a process that uses TCP alone.
    pub fn tcp_only(tcp: T) -> Self {
        Inter { transports: Transports::Tcp(tcp) }
    }

    /// Returns the transport of a process that has both. The descriptor of what verbs sleeps on
    /// and the timer must wake TCP too ([`WaitOn::Fd`]).
    pub fn both(verbs: V, tcp: T, choice: Choice) -> Self {
        Inter { transports: Transports::Both(Box::new(Both::new(verbs, tcp, choice))) }
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

    /// Gives a peer up that is known to have failed: nothing is sent to it by TCP any more.
    pub fn give_up(&mut self, peer: Peer, why: &str) {
        match &mut self.transports {
            Transports::Verbs(_) => {}
            Transports::Tcp(tcp) => tcp.give_up(peer, why),
            Transports::Both(both) => both.give_up(peer, why),
        }
    }

    /// Returns the route to a peer.
    pub fn route(&self, peer: Peer) -> Route {
        match &self.transports {
            Transports::Verbs(_) => Route::Verbs,
            Transports::Tcp(_) => Route::Tcp,
            Transports::Both(both) => both.routes.of(peer),
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

/// Runs a call on the transport to a peer; `$unknown` while that is not known.
macro_rules! on_route {
    ($self:ident, $peer:ident, $transport:ident => $call:expr, $unknown:expr) => {
        match &mut $self.transports {
            Transports::Verbs($transport) => $call,
            Transports::Tcp($transport) => $call,
            Transports::Both(both) => match both.routes.of($peer) {
                Route::Verbs => {
                    let $transport = &mut both.verbs;
                    $call
                }
                Route::Tcp => {
                    let $transport = &mut both.tcp;
                    $call
                }
                Route::Unknown | Route::Negotiating => $unknown,
            },
        }
    };
}

impl<V: HybridGet + GiveUp, T: HybridGet + GiveUp> Transport for Inter<V, T> {
    fn caps(&self, peer: Peer) -> &Caps {
        match &self.transports {
            Transports::Verbs(verbs) => verbs.caps(peer),
            Transports::Tcp(tcp) => tcp.caps(peer),
            Transports::Both(both) => match both.routes.of(peer) {
                Route::Unknown | Route::Negotiating => &both.caps,
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
                Route::Unknown | Route::Negotiating => Ok(Post::NoSpace),
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
            Transports::Both(both) => both.flush(),
        }
    }
}

impl<V: HybridGet + GiveUp, T: HybridGet + GiveUp> HybridGet for Inter<V, T> {
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
mod tests;
