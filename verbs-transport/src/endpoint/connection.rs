//! The connection of an endpoint as far as wire-up is concerned: the peer's address, the
//! handshake, and when the next request is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::Peer;

use super::address_handle::AddressHandle;
use crate::adapter::Adapter;
use crate::handshake::{Handshake, Phase};
use crate::ibv::Ah;
use crate::settings::Settings;
use crate::wireup_msg::{Address, Published};

/// First and longest interval between requests to a peer.
pub(crate) const RETRY_MIN: Duration = Duration::from_millis(2);
pub(crate) const RETRY_MAX: Duration = Duration::from_millis(500);
/// Breaks in a row, without a new frame acknowledged or delivered, after which the peer counts as
/// failed.
pub(crate) const MAX_BREAKS: u32 = 10;

/// Largest packet of any port, as libibverbs numbers it.
const MAX_MTU: u8 = 5;
/// First and longest time after which a peer that had no space for a connection is asked again.
const REFUSED_MIN: Duration = Duration::from_millis(50);
const REFUSED_MAX: Duration = Duration::from_secs(5);

/// What is known of the peer's target, which takes operations without a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerTarget {
    /// It must be looked up.
    Unknown,
    /// Its number, if there is one.
    Known(Option<u32>),
    /// It has failed, and is looked up again after this time.
    Suspended(Instant),
}

/// What was done when a connection broke last; see `path_mtu`.
#[derive(Debug, Default)]
pub(crate) struct LastBreak {
    /// Frames acknowledged and pieces of operations completed until then.
    done: (u32, u32),
    /// Breaks in a row at that point.
    count: u8,
}

/// Wire-up state of an endpoint.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) handshake: Handshake,
    /// The peer's address, once it is known.
    pub(crate) addr: Option<Address>,
    /// The peer may never poll again, by what the store said last.
    pub(crate) has_ended: bool,
    pub(crate) target: PeerTarget,
    /// When the endpoint is looked after, if it waits for an address or a handshake.
    pub(crate) scheduled: Option<Instant>,
    /// Address handle for datagrams to the peer.
    pub(crate) ah: AddressHandle,
    /// First packet sequence number of this end.
    pub(crate) psn: u32,
    /// Largest packet that the path to the peer carries, as far as is known, as libibverbs numbers
    /// it; see `path_mtu`.
    pub(crate) path_mtu: u8,
    /// Largest packet that this end of the connection offers.
    pub(crate) mtu: u8,
    /// The last break of a connection.
    pub(crate) last_break: LastBreak,
    /// When the queue pair was created.
    pub(crate) created_at: Instant,
    /// When to send the next request.
    pub(crate) retry_at: Instant,
    /// Requests sent since the last message of the peer, on this attempt and those before.
    pub(crate) retries: u32,
    /// No warning about unanswered requests is needed: the peer has answered, or it was given.
    pub(crate) warned: bool,
    /// When a connection that had worked broke; `None` once another one is ready.
    pub(crate) broke_at: Option<Instant>,
    /// Breaks in a row without a new frame acknowledged or delivered.
    pub(crate) breaks: u32,
    /// A connection is to be made again if it ends: the peer's traffic is worth one.
    pub(crate) is_wanted: bool,
    /// Refusals of the peer to connect in a row, and until when it is not asked again.
    pub(crate) refusals: u32,
    pub(crate) not_before: Instant,
    /// Until when Disconnects are repeated: the peer may not know that the last connection is over,
    /// and wait for what nobody sends through it.
    pub(crate) disconnect_until: Option<Instant>,
    /// Until when the peer, which was given up, is told so; `None`: it is not told.
    pub(crate) notice_until: Option<Instant>,
}

impl LastBreak {
    /// Records another break. Returns how many there were at this point.
    pub(crate) fn again(&mut self, done: (u32, u32)) -> u8 {
        if self.done != done {
            (self.done, self.count) = (done, 0);
        }
        self.count = self.count.saturating_add(1);
        self.count
    }
}

impl Connection {
    pub(crate) fn new(now: Instant) -> Connection {
        Connection {
            handshake: Handshake::new(),
            addr: None,
            has_ended: false,
            target: PeerTarget::Unknown,
            scheduled: None,
            ah: AddressHandle::None,
            psn: 0,
            path_mtu: MAX_MTU,
            mtu: MAX_MTU,
            last_break: LastBreak::default(),
            created_at: now,
            retry_at: now,
            retries: 0,
            warned: false,
            broke_at: None,
            breaks: 0,
            is_wanted: false,
            refusals: 0,
            not_before: now,
            disconnect_until: None,
            notice_until: None,
        }
    }

    /// Returns whether requests may be posted.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.handshake.phase == Phase::Ready
    }

    /// Returns whether the handshake is under way.
    pub(crate) fn is_connecting(&self) -> bool {
        self.handshake.is_connecting()
    }

    /// Returns whether there is no queue pair.
    pub(crate) fn is_idle(&self) -> bool {
        self.handshake.is_idle()
    }

    /// Returns whether there is a queue pair for attempt `epoch`, or one that the peer has left for
    /// it.
    pub(crate) fn is_on(&self, epoch: u32) -> bool {
        let is_same = !self.is_idle() && self.handshake.epoch == epoch;
        is_same || self.handshake.is_left_for(epoch)
    }

    /// Returns the handle of the peer's address for datagrams of process `me`; `None` while the
    /// system refuses one.
    pub(crate) fn address_handle(
        &mut self,
        adapter: &Adapter,
        settings: &Settings,
        [me, peer]: [Peer; 2],
    ) -> Option<&Arc<Ah>> {
        let address = &self.addr?.port;
        let make = || Ah::new(&adapter.pd, adapter.port.address_vector(address, settings));
        self.ah.get(make, |error| {
            eprintln!(
                "verbena: rank {} cannot send to rank {} ({address}) over RDMA, on {}: the system \
                 refuses a handle of that address ({error}). Check that there is a route between \
                 the two addresses (`ip route get`, another verbs.gid_index?) and that the \
                 neighbour answers (`ip neigh`)",
                me.0,
                peer.0,
                adapter.describe(),
            );
        })
    }

    /// Takes over the address that a datagram of the peer came from: the peer receives there.
    pub(crate) fn heard(&mut self, addr: Address) {
        self.set_addr(addr);
        self.retries = 0;
    }

    /// Takes over what the store says of the peer.
    pub(crate) fn found(&mut self, published: &Published) {
        self.set_addr(published.address);
        self.has_ended = published.has_ended;
    }

    /// Takes over an address of the peer.
    pub(crate) fn set_addr(&mut self, addr: Address) {
        if self.addr != Some(addr) {
            (self.addr, self.ah) = (Some(addr), AddressHandle::None);
        }
    }

    /// Records that the connection is ready.
    pub(crate) fn connected(&mut self) {
        (self.warned, self.is_wanted, self.refusals) = (true, true, 0);
        (self.broke_at, self.disconnect_until) = (None, None);
    }

    /// Records a new queue pair, on a port with packets of `port_mtu`. What this end offers stays
    /// the same for the attempt: both ends must take the same.
    pub(crate) fn created(&mut self, qpn: u32, psn: u32, port_mtu: u8) {
        self.handshake.created(qpn);
        (self.psn, self.created_at) = (psn, Instant::now());
        self.mtu = port_mtu.min(self.path_mtu);
    }

    /// Records that the peer has no connection of attempt `epoch` either.
    pub(crate) fn peer_is_idle(&mut self, epoch: u32) {
        if !self.handshake.is_after(epoch) {
            self.disconnect_until = None;
        }
    }

    /// Records that a request was sent: the next one is due after twice the interval.
    pub(crate) fn requested(&mut self) {
        let interval = (RETRY_MIN * (1 << self.retries.min(8))).min(RETRY_MAX);
        self.retry_at = Instant::now() + interval;
        self.retries += 1;
    }

    /// Records that the connection works.
    #[inline]
    pub(crate) fn works(&mut self) {
        (self.breaks, self.broke_at) = (0, None);
    }

    /// Records that frames get through on the datagram path: the peer is alive, whatever becomes of
    /// connections.
    pub(crate) fn is_alive(&mut self) {
        (self.breaks, self.broke_at) = (self.breaks.min(MAX_BREAKS - 1), None);
    }

    /// Records that the peer has no space for a connection, or this process has none.
    pub(crate) fn refused(&mut self) {
        let now = Instant::now();
        self.not_before = now + (REFUSED_MIN * (1 << self.refusals.min(8))).min(REFUSED_MAX);
        self.refusals += 1;
        (self.is_wanted, self.retry_at) = (false, now + 8 * RETRY_MIN);
    }

    /// Records a break. Returns false if there were too many in a row.
    pub(crate) fn broke(&mut self, had_worked: bool) -> bool {
        let now = Instant::now();
        self.breaks += 1;
        if had_worked {
            self.broke_at.get_or_insert(now);
        }
        let may_retry = self.breaks <= MAX_BREAKS;
        if may_retry {
            self.retry_at = now + RETRY_MIN * (1 << self.breaks.min(8));
        }
        may_retry
    }
}
