//! Homes: where processes of other jobs find a process's shared memory ([`shm_transport::Home`]).
//!
//! A process publishes its home when it first meets another job; an empty value if it has none.
//! Two processes that are about to share a communicator wait for each other's home: both then
//! choose shared memory, if they are on the same host, or both choose TCP.

use config::{Knobs, knob};
use fabric::{Peer, Store as _};
use objects::{Class, Error, Result};
use shm_transport::{Home, SegmentError};

use crate::addresses::Addresses;
use crate::init;
use crate::process::Core;

/// Returns the key of a process's home in the store.
fn key(peer: Peer) -> String {
    format!("home/{}", peer.0)
}

impl Core {
    /// Returns the addresses of other processes; `None` without a launcher.
    pub(crate) fn addresses(&mut self) -> Option<Addresses> {
        // A process may get a launcher after its start.
        if self.addresses.is_none() {
            self.addresses = self.job.store().map(|store| Addresses::new(store, self.job.world()));
        }
        self.addresses.clone()
    }

    /// Publishes where processes of other jobs find this one's shared memory.
    pub(crate) fn publish_home(&mut self, knobs: &Knobs) -> Result<()> {
        if knobs.is_on(knob::SHM_OTHER_JOBS) {
            if self.stack.endpoint.intra().is_none() {
                // Without it, TCP serves.
                let intra = init::intra_to_other_jobs(&self.job, knobs).ok();
                intra.into_iter().for_each(|intra| self.stack.endpoint.add_intra(intra));
            }
            self.home = self.stack.endpoint.intra().and_then(|intra| intra.home());
        }
        let encoded = self.home.as_ref().map(Home::encode);
        let value = encoded.as_ref().map_or(&[][..], |home| home);
        let (me, Some(mut addresses)) = (Peer(self.job.number), self.addresses()) else {
            return Ok(());
        };
        addresses.put(&key(me), value).map_err(|why| cannot_look_up(me, &why))
    }

    /// Chooses the transport to a process of another job; false while its home is not known.
    pub(crate) fn choose_transport(&mut self, peer: Peer) -> Result<bool> {
        let (Some(own), Some(mut addresses)) = (self.home, self.addresses()) else {
            return Ok(true);
        };
        if self.routed.contains(&peer) {
            return Ok(true);
        }
        let value = addresses.try_value(&key(peer)).map_err(|why| cannot_look_up(peer, &why))?;
        let Some(value) = value else { return Ok(false) };
        let home = Home::decode(&value).filter(|home| home.is_near(&own));
        let endpoint = &mut self.stack.endpoint;
        if let (Some(home), Some(intra)) = (home, endpoint.intra_mut()) {
            match intra.meet(peer, &home) {
                Ok(()) => endpoint.add_local(peer),
                // The news of its end is under way. What it has to do with others fails as theirs.
                Err(error @ SegmentError::Gone { .. }) => {
                    self.mark_failed(peer, &error.to_string());
                }
                Err(error) => return Err(Error::new(Class::Other, error.to_string())),
            }
        }
        self.routed.insert(peer);
        Ok(true)
    }
}

#[cold]
fn cannot_look_up(peer: Peer, why: &str) -> Error {
    let text = format!("cannot look up where process {} is: {why}", peer.0);
    Error::new(Class::Other, text)
}
