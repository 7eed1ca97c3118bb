//! The memory of eager RDMA of one process: rings that peers write, and ring controls.
//!
//! States: an endpoint is in `readable` while it has a ring, and in `writable` while the ring of
//! its peer is open. This file posts no requests.

use std::io;
use std::sync::Arc;

use super::channel::{Channel, RxState, TxRing};
use super::wire::{self, CONTROL_BYTES, SLOT_BYTES, SLOT_HEADER};
use crate::ibv::Pd;
use crate::memory::{Exposed, Pool};

/// Rings and ring controls, and which endpoints have one in use.
#[derive(Debug)]
pub(crate) struct Rings {
    rings: Pool,
    controls: Pool,
    /// Most rings that peers write; 0: none in either direction.
    pub(crate) max: u32,
    /// Endpoints with a ring that the peer writes.
    pub(crate) readable: Vec<u32>,
    /// Endpoints whose peer has an open ring for this process.
    pub(crate) writable: Vec<u32>,
    /// Number of sleeps and arbitrations: the period in which short frames are counted.
    pub(crate) period: u64,
    /// Frames that this process wrote.
    pub(crate) frames_written: u64,
    /// A frame out of a ring while it is delivered.
    pub(crate) frame: [u8; SLOT_BYTES],
}

impl Rings {
    /// Returns the pools for at most `max` rings of `window` frames, and for as many ring
    /// controls as there can be connections, with as many that drain.
    pub(crate) fn new(pd: &Arc<Pd>, window: u32, max: u32, max_connections: u32) -> Rings {
        Rings {
            rings: Pool::remote_writable(pd, wire::ring_bytes(window), max.min(max_connections)),
            controls: Pool::remote_writable(pd, CONTROL_BYTES, 2 * max_connections),
            max,
            readable: Vec::new(),
            writable: Vec::new(),
            period: 0,
            frames_written: 0,
            frame: [0; SLOT_BYTES],
        }
    }

    /// Makes the first ring controls, if any ring is wanted: without one there is no connection.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        if self.max == 0 { Ok(()) } else { self.controls.prepare() }
    }

    /// Returns the registered bytes: now, and at most.
    pub(crate) fn registered(&self) -> [usize; 2] {
        let pools = [&self.rings, &self.controls].map(Pool::registered);
        [0, 1].map(|which| pools.iter().map(|pool| pool[which]).sum())
    }

    /// Takes a ring; `None` if all are in use.
    pub(crate) fn take_ring(&mut self) -> io::Result<Option<Exposed>> {
        let ring = self.rings.expose()?;
        for slot in ring.iter().flat_map(|ring| ring.groups::<{ SLOT_BYTES / 8 }>()) {
            wire::clear(SLOT_BYTES - SLOT_HEADER, |at, word| slot.write(at, word));
        }
        Ok(ring)
    }

    /// Returns a ring that was never granted.
    pub(crate) fn put_ring(&mut self, ring: Exposed) {
        self.rings.conceal(ring);
    }

    /// Takes a ring control for a connection, closed; `None` if no ring is wanted.
    pub(crate) fn take_control(&mut self) -> io::Result<Option<Exposed>> {
        if self.max == 0 { Ok(None) } else { self.controls.expose() }
    }

    /// Records whether the ring of endpoint `at`'s peer is open.
    pub(crate) fn set_writable(&mut self, at: usize, is_open: bool) {
        self.writable.retain(|&other| other != at as u32);
        if is_open {
            self.writable.push(at as u32);
        }
    }

    /// Ends the channel of endpoint `at` with its connection: nothing is written in either
    /// direction afterwards. Frames that have arrived are kept until its queue pair is destroyed.
    /// Returns the ring control, which is to be kept as long.
    pub(crate) fn disconnect(&mut self, at: usize, channel: &mut Channel) -> Option<Exposed> {
        (channel.tx, channel.peer_control) = (TxRing::default(), (0, 0));
        channel.stopped_at = None;
        if channel.ring.is_some() {
            channel.rx = RxState::Draining;
        }
        self.set_writable(at, false);
        channel.control.take()
    }

    /// Takes a ring control back that no peer writes any more.
    pub(crate) fn put_control(&mut self, control: Exposed) {
        self.controls.conceal(control);
    }

    /// Takes the ring of endpoint `at` back, if it has one.
    pub(crate) fn release(&mut self, at: usize, channel: &mut Channel) {
        channel.rx = RxState::Absent;
        channel.stopped_at = None;
        // What was not delivered is not acknowledged, and comes again.
        channel.overtaking.clear();
        if let Some(ring) = channel.ring.take() {
            self.rings.conceal(ring);
            self.readable.retain(|&other| other != at as u32);
        }
    }
}
