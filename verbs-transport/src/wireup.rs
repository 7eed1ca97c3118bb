//! The means of wire-up: the UD endpoint, the job's store of addresses, and the endpoints that wait
//! for an address or a handshake.
//!
//! `connect` decides what happens; this file does not know the states. An endpoint that waits has a
//! time at which it is looked after; entries that it no longer names are skipped. Therefore the
//! cost of a poll does not grow with the number of peers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

use fabric::Peer;
use rustc_hash::FxHashSet;

use crate::device::PortAddress;
use crate::endpoint::connection::{Connection, RETRY_MAX, RETRY_MIN};
use crate::store::Store;
use crate::ud::UdEndpoint;
use crate::wireup_msg::{Address, Published};

/// The means by which connections are made.
pub(crate) struct Wireup {
    pub(crate) ud: UdEndpoint,
    store: Box<dyn Store>,
    /// The job's secret, which proves messages.
    pub(crate) secret: [u8; 32],
    /// Endpoints that wait for an address or a handshake, by the time of their next step.
    pending: BinaryHeap<Reverse<(Instant, u32)>>,
    /// Peers whose addresses were requested.
    requested: FxHashSet<u32>,
    /// Values of the store whose arrival was noticed.
    seen: usize,
    /// This process has sent everything, and may never poll again.
    pub(crate) has_ended: bool,
}

impl Wireup {
    /// Returns the means of a process whose UD queue pair is open.
    pub(crate) fn new(ud: UdEndpoint, store: Box<dyn Store>, secret: [u8; 32]) -> Wireup {
        let (pending, requested) = (BinaryHeap::new(), FxHashSet::default());
        Wireup { ud, store, secret, pending, requested, seen: 0, has_ended: false }
    }

    /// Publishes how process `me` is reached: on its port, and at the number of its target if it
    /// has one.
    pub(crate) fn publish(
        &mut self,
        me: Peer,
        port: PortAddress,
        target: Option<u32>,
    ) -> Result<(), String> {
        let address = Address { port, ud_qpn: self.ud.number(), takes_datagrams: true };
        let published = Published { address, has_ended: self.has_ended, target };
        self.store.put(&key(me), &published.encode())
    }

    /// Returns whether processes learn from the store that others have ended.
    pub(crate) fn shows_ends(&self) -> bool {
        self.store.shows_changes()
    }

    /// Looks up the address of a peer; `None` while there is no answer. The error is the reason why
    /// the peer cannot be connected.
    pub(crate) fn look_up(&mut self, peer: Peer) -> Result<Option<Published>, String> {
        let answer = self.store.try_value(&key(peer));
        match answer {
            Ok(None) => self.requested.insert(peer.0),
            Ok(Some(_)) | Err(_) => self.requested.remove(&peer.0),
        };
        match answer {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => match Published::decode(&bytes) {
                Some(published) => Ok(Some(published)),
                None => Err("its published address has an unknown format (another Verbena \
                             version?)"
                    .into()),
            },
            Err(why) => Err(format!("cannot look up its address: {why}")),
        }
    }

    /// Looks up again what a peer may have changed, as [`Wireup::look_up`] does.
    pub(crate) fn look_up_again(&mut self, peer: Peer) -> Result<Option<Published>, String> {
        let found = self.look_up(peer);
        if let Ok(Some(_)) = found {
            self.store.forget(&key(peer));
        }
        found
    }

    /// Returns how long to wait for the store. A store with a descriptor wakes the process.
    pub(crate) fn look_up_interval(&self) -> Duration {
        if self.store.fd().is_some() { RETRY_MAX } else { RETRY_MIN }
    }

    /// Returns the peers whose addresses have arrived since the last call.
    pub(crate) fn arrived(&mut self) -> Vec<Peer> {
        if self.requested.is_empty() {
            return Vec::new();
        }
        let keys = self.store.arrivals(&mut self.seen);
        let ranks = keys.iter().filter_map(|key| key.strip_prefix("verbs/")?.parse().ok());
        ranks.filter(|rank| self.requested.contains(rank)).map(Peer).collect()
    }

    /// Adds endpoint `at`, whose connection this is, to those that are looked after when the next
    /// step is due.
    pub(crate) fn add_pending(&mut self, at: usize, conn: &mut Connection) {
        if conn.scheduled.is_none_or(|time| conn.retry_at < time) {
            conn.scheduled = Some(conn.retry_at);
            self.pending.push(Reverse((conn.retry_at, at as u32)));
        }
    }

    /// Returns the next endpoint whose time has come, and that time.
    pub(crate) fn next_due(&mut self, now: Instant) -> Option<(usize, Instant)> {
        let &Reverse((time, at)) = self.pending.peek().filter(|Reverse((time, _))| *time <= now)?;
        self.pending.pop();
        Some((at as usize, time))
    }

    /// Returns whether any endpoint waits.
    #[inline]
    pub(crate) fn is_any_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns when the next step of any endpoint is due.
    pub(crate) fn next_retry(&self) -> Option<Instant> {
        self.pending.peek().map(|Reverse((time, _))| *time)
    }
}

/// Returns the key of a process's address in the store.
fn key(peer: Peer) -> String {
    format!("verbs/{}", peer.0)
}
