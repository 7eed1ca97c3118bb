//! The RDMA device and port of a transport, and whether they still work.
//!
//! A query is a command of the adapter's firmware. Therefore one process of each host makes them,
//! only after silence, and at most once a second; all processes get the device's events. The kernel
//! may lose the event of an emulated device: all processes query these.
//!
//! A transport has one adapter; `rails` puts several transports together. State that a second
//! adapter would need a copy of belongs here.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::device::Port;
use crate::ibv::layout::{ATOMIC_NONE, access, port_state};
use crate::ibv::{Event, Pd};

/// How long the device counts as present without a query.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// An RDMA device, one of its ports, and their condition.
#[derive(Debug)]
pub(crate) struct Adapter {
    pub(crate) pd: Arc<Pd>,
    pub(crate) port: Port,
    /// The port went down and has not come up since.
    pub(crate) is_down: bool,
    /// The device has failed or was removed.
    pub(crate) is_gone: bool,
    /// This process queries the device.
    queries: bool,
    /// When it was last checked whether the device must be queried.
    checked_at: Instant,
    /// When the device was queried last.
    queried_at: Instant,
    /// The traffic counted then.
    traffic: u64,
}

impl Adapter {
    /// Returns the adapter of an open port, in the process of number `local_rank` on its host.
    pub(crate) fn new(port: Port, local_rank: u32) -> io::Result<Adapter> {
        let (pd, now) = (Pd::new(&port.context)?, Instant::now());
        let queries = local_rank == 0 || port.is_emulated;
        let (is_down, is_gone, traffic) = (false, false, 0);
        let (checked_at, queried_at) = (now, now);
        Ok(Adapter { pd, port, is_down, is_gone, queries, checked_at, queried_at, traffic })
    }

    /// Returns whether the device has atomic operations.
    pub(crate) fn has_atomics(&self) -> bool {
        self.port.device_attr.atomic_cap != ATOMIC_NONE
    }

    /// Returns the right to atomic operations, where the device has them.
    pub(crate) fn atomic_access(&self) -> i32 {
        if self.has_atomics() { access::REMOTE_ATOMIC } else { 0 }
    }

    /// Returns the next asynchronous event of the device.
    pub(crate) fn next_event(&self) -> Option<Event> {
        self.port.context.next_event()
    }

    /// Returns whether the device must be checked: now and then, and always while the port is
    /// down.
    pub(crate) fn is_check_due(&self) -> bool {
        self.queries && (self.is_down || self.checked_at.elapsed() > CHECK_INTERVAL)
    }

    /// Queries whether the device is still there. Some drivers do not report its removal: with
    /// `rdma_rxe` the port goes down with its network device and soon cannot be queried. Counts as
    /// there if it was queried a moment ago, or is another process's to query.
    pub(crate) fn is_removed(&mut self) -> bool {
        let interval = if self.is_down { CHECK_INTERVAL / 2 } else { CHECK_INTERVAL };
        if !self.queries || self.queried_at.elapsed() < interval {
            return false;
        }
        self.queried_at = Instant::now();
        is_lost(&self.port)
    }

    /// Begins another interval; `traffic` changes when anything arrives. Returns whether nothing
    /// has arrived in the last one: only then the device is queried, which is a command of its
    /// firmware.
    pub(crate) fn was_silent(&mut self, traffic: u64) -> bool {
        self.checked_at = Instant::now();
        std::mem::replace(&mut self.traffic, traffic) == traffic
    }

    /// Describes the port for a message, also that it is down.
    pub(crate) fn describe(&self) -> String {
        let port = self.port.context.port(self.port.number);
        let is_up = port.is_ok_and(|attr| attr.state == port_state::ACTIVE);
        format!("{}{}", self.port, if is_up { "" } else { ", which is DOWN now" })
    }

    /// Reports to the user that the device is gone, and what to do.
    pub(crate) fn why_gone(&self) -> String {
        format!(
            "the RDMA device {} of this host has failed or was removed (see `dmesg` and `verbena \
             doctor --rdma`; verbs.devices selects others)",
            self.port.device
        )
    }
}

/// Returns whether a port cannot be queried any more, because its device was removed or has failed.
pub(crate) fn is_lost(port: &Port) -> bool {
    let is_lost = |error: io::Error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EIO));
    port.context.port(port.number).is_err_and(is_lost)
}
