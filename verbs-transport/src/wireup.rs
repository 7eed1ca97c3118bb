//! The means of wire-up: the UD endpoint, the job's store of addresses, and the endpoints that wait
//! for an address or a handshake.
//!
//! `connect` decides what happens; this file does not know the states.

use std::time::{Duration, Instant};

use fabric::Peer;

use crate::endpoint::connection::{Connection, RETRY_MAX, RETRY_MIN};
use crate::endpoints::Endpoints;
use crate::store::Store;
use crate::ud::UdEndpoint;
use crate::wireup_msg::Address;

/// The means by which connections are made.
pub(crate) struct Wireup {
    pub(crate) ud: UdEndpoint,
    store: Box<dyn Store>,
    /// The job's secret, which proves messages.
    pub(crate) secret: [u8; 32],
    /// Endpoints that wait for an address or a handshake.
    pub(crate) pending: Vec<u32>,
}

impl Wireup {
    /// Returns the means of a process whose UD queue pair is open.
    pub(crate) fn new(ud: UdEndpoint, store: Box<dyn Store>, secret: [u8; 32]) -> Wireup {
        Wireup { ud, store, secret, pending: Vec::new() }
    }

    /// Publishes the address of process `me`.
    pub(crate) fn publish(&mut self, me: Peer, address: &Address) -> Result<(), String> {
        self.store.put(&key(me), &address.encode())
    }

    /// Looks up the address of a peer; `None` while there is no answer. The error is the reason why
    /// the peer cannot be connected.
    pub(crate) fn look_up(&mut self, peer: Peer) -> Result<Option<Address>, String> {
        match self.store.try_value(&key(peer)) {
            Ok(None) => Ok(None),
            Ok(Some(bytes)) => match Address::decode(&bytes) {
                Some(address) => Ok(Some(address)),
                None => Err("its published address has an unknown format (another Verbena \
                             version?)"
                    .into()),
            },
            Err(why) => Err(format!("cannot look up its address: {why}")),
        }
    }

    /// Looks an address up again that a peer may have changed; `None` while there is no answer.
    pub(crate) fn look_up_again(&mut self, peer: Peer) -> Option<Address> {
        let found = self.look_up(peer).ok().flatten();
        if found.is_some() {
            self.store.forget(&key(peer));
        }
        found
    }

    /// Returns how long to wait for the store. A store with a descriptor wakes the process.
    pub(crate) fn look_up_interval(&self) -> Duration {
        if self.store.fd().is_some() { RETRY_MAX } else { RETRY_MIN }
    }

    /// Adds endpoint `at`, whose connection this is, to those that are looked after.
    pub(crate) fn add_pending(&mut self, at: usize, conn: &mut Connection) {
        if !std::mem::replace(&mut conn.is_pending, true) {
            self.pending.push(at as u32);
        }
    }

    /// Returns when the next request to any pending endpoint is due.
    pub(crate) fn next_retry(&self, endpoints: &Endpoints) -> Option<Instant> {
        self.pending.iter().map(|&at| endpoints[at as usize].conn.retry_at).min()
    }
}

/// Returns the key of a process's address in the store.
fn key(peer: Peer) -> String {
    format!("verbs/{}", peer.0)
}
