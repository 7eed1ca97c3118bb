//! Consequences of the settings and the device: sizes of frames, queues and tables.

use config::{DynamicTransport, Rendezvous};
use fabric::{Caps, Offload};

use crate::device::Port;
use crate::endpoint::flow::{CONTROL_RECVS, LOW_WINDOW};
use crate::endpoint::send_queue::{CONTROL_SENDS, MAX_RMA_OPS};
use crate::frame::PREFIX;
use crate::ibv::layout::{ATOMIC_GLOBAL, ATOMIC_NONE};
use crate::recv_queue::REPOST_BATCH;
use crate::settings::Settings;
use crate::ud::UdEndpoint;

/// Most reads under way on a queue pair, on any device.
const MAX_READS: i32 = 16;
/// Interval after which a sender repeats a message that found no receive, as libibverbs numbers
/// it: 0.64 ms. It does not happen in normal operation.
pub(crate) const RNR_TIMER: u8 = 12;
/// Repeats of a message that finds no receive: for ever.
pub(crate) const RNR_RETRIES: u8 = 7;
/// Fewest and most queue pairs that drain while all connections are in use.
const DRAINING_MIN: u32 = 8;
const DRAINING_MAX: u32 = 32;
/// Most initiators of a process, see `dynamic`. Each is made when all others are taken.
pub(crate) const INITIATORS: usize = 8;

/// Bytes of the longest RMA operation that goes through a slot, and the most slots of a process.
pub(crate) const BOUNCE_BYTES: usize = 1 << 10;
pub(crate) const BOUNCE_SLOTS: u32 = 256;

/// The settings, and their consequences for the device.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) settings: Settings,
    pub(crate) caps: Caps,
    /// Most queue pairs at once.
    pub(crate) max_connections: u32,
    /// Receives for all of them together.
    pub(crate) receives: u32,
    /// Requests that a send queue has space for.
    pub(crate) send_depth: u32,
}

impl Config {
    /// Returns the settings with the limits that follow from them.
    pub(crate) fn new(settings: Settings, port: &Port, size: u32) -> Config {
        let (get_min, put_min) = rendezvous_min(&settings, port);
        let frame = settings.eager_max + PREFIX;
        let receives = receives(&settings, port, size);
        let max_connections = max_connections(&settings, port, size, receives);
        let fits_all = fits_all(settings.credits, max_connections, receives, size);
        let offload = offload(port.device_attr.atomic_cap, fits_all);
        let eager = settings.eager_max;
        // Software places a write before it acknowledges it; hardware need not.
        let late_puts = !port.is_emulated;
        let caps = Caps { frame, eager, get_min, put_min, offload, late_puts };
        let send_depth = sends_each(settings.credits);
        Config { settings, caps, max_connections, receives, send_depth }
    }

    /// Returns whether operations are to go by dynamically connected transport where there is no
    /// connection, in a job of `size`.
    pub(crate) fn wants_dynamic(&self, port: &Port, size: u32) -> bool {
        let is_wanted = match self.settings.dynamic {
            DynamicTransport::Auto => self.max_connections < size.saturating_sub(1),
            DynamicTransport::On => true,
            DynamicTransport::Off => false,
        };
        is_wanted && port.context.is_mlx5()
    }

    /// Returns the receives of a connection whose peer has a whole window.
    pub(crate) fn receives_each(&self) -> u32 {
        receives_each(self.settings.credits)
    }
}

/// Returns whether connections to all others in a job of `size` fit, each with a whole window. Then
/// none ends for the sake of another one.
fn fits_all(credits: u32, max_connections: u32, receives: u32, size: u32) -> bool {
    let peers = size.saturating_sub(1);
    peers <= max_connections && receives >= peers.saturating_mul(receives_each(credits))
}

/// Returns what a device with these atomics is used for. A connection that ends for another one
/// would leave open what an atomic has done; therefore connections to all must fit.
fn offload(atomic_cap: u32, fits_all: bool) -> Offload {
    match atomic_cap {
        ATOMIC_GLOBAL if fits_all => Offload::GlobalAtomics,
        ATOMIC_NONE | ATOMIC_GLOBAL => Offload::Device,
        _ if fits_all => Offload::DeviceAtomics,
        _ => Offload::Device,
    }
}

/// Returns a device's number of reads, as far as it is used.
pub(crate) fn reads(device: i32) -> u8 {
    device.clamp(1, MAX_READS) as u8
}

/// Returns the smallest rendezvous that is read, and the smallest that is written.
fn rendezvous_min(settings: &Settings, port: &Port) -> (u64, u64) {
    let device = &port.device_attr;
    let reads_well = device.max_qp_rd_atom.min(device.max_qp_init_rd_atom) > 1;
    match settings.rendezvous {
        Rendezvous::Auto if reads_well => (settings.get_min, u64::MAX),
        Rendezvous::Read => (settings.get_min, u64::MAX),
        Rendezvous::Auto | Rendezvous::Write => (u64::MAX, settings.get_min),
        Rendezvous::Copy => (u64::MAX, u64::MAX),
    }
}

/// Returns the completions besides those of the sends of connections, in a job of `size` with so
/// many receives. A receive is posted again when its completion is handled.
fn other_completions(receives: u32, size: u32) -> u32 {
    let initiators = INITIATORS as u32 * MAX_RMA_OPS as u32;
    receives + REPOST_BATCH + UdEndpoint::completions(size) + initiators + 64
}

/// Returns the most queue pairs with so many connections: that many, and some that drain.
pub(crate) fn queue_pairs(connections: u32) -> u32 {
    connections + connections.clamp(DRAINING_MIN, DRAINING_MAX)
}

/// Returns the requests of a queue pair with a window of `credits` frames.
fn sends_each(credits: u32) -> u32 {
    credits + CONTROL_SENDS
}

/// Returns the receives of one connection with a window of `credits` frames.
fn receives_each(credits: u32) -> u32 {
    credits + CONTROL_RECVS
}

/// Returns the receives for all connections together: those of the settings, but at least those of
/// one connection, at most as many as whole windows of all peers take, and what the device has.
fn receives(settings: &Settings, port: &Port, size: u32) -> u32 {
    let each = receives_each(settings.credits);
    let all = each.saturating_mul(settings.connections.min(size.saturating_sub(1)).max(1));
    let device = u32::try_from(port.device_attr.max_srq_wr).unwrap_or(0);
    settings.receives.max(each).min(all).min(device.saturating_sub(REPOST_BATCH).max(each))
}

/// Returns the completions that so many connections, and all else, can have in the queue.
pub(crate) fn completions_for(connections: u32, receives: u32, credits: u32, size: u32) -> u32 {
    other_completions(receives, size) + queue_pairs(connections) * sends_each(credits)
}

/// Returns the most connections that settings and device allow.
fn max_connections(settings: &Settings, port: &Port, size: u32, receives: u32) -> u32 {
    let device = &port.device_attr;
    let limit = |max: i32, taken: u32, each: u32| {
        u32::try_from(max).unwrap_or(0).saturating_sub(taken) / each
    };
    let credits = settings.credits;
    let others_complete = other_completions(receives, size) + DRAINING_MAX * sends_each(credits);
    // While one has a whole window, all others can have low ones.
    let low = receives_each(LOW_WINDOW.min(credits));
    let others = receives.saturating_sub(receives_each(credits)) / low;
    settings
        .connections
        .min(size.saturating_sub(1))
        .min(limit(device.max_cqe, others_complete, sends_each(credits)))
        .min(1 + others)
        .min(limit(device.max_qp, 1, 1))
        .max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atomics_need_receives_for_all_connections() {
        // The default knobs, on a device with enough of everything.
        let (credits, receives, connections) = (32, 2048, 128);
        let fits = |size: u32| fits_all(credits, connections.min(size - 1), receives, size);
        assert!(fits(2) && fits(49));
        // All connections are allowed, but not all with whole windows.
        assert!(!fits(50) && !fits(129));
        assert!(!fits_all(credits, connections, 42 * 200, 130));
        assert_eq!(offload(ATOMIC_GLOBAL, true), Offload::GlobalAtomics);
        assert_eq!(offload(ATOMIC_GLOBAL, false), Offload::Device);
        assert_eq!(offload(ATOMIC_NONE, true), Offload::Device);
    }
}
