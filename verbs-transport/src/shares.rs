//! The shares of peers in the receives of this process.
//!
//! A connection begins with a whole window, for which it reserves receives. When there are no more,
//! and a peer wants some that sends much, the windows of peers that send little are lowered. A peer
//! with a low window that sends much gets the whole one again as soon as there are receives for it.
//!
//! Invariants: the receives of a window are reserved before the peer may use it, and are free only
//! when the peer has confirmed the lower one and all that it sent in the former one is here. A peer
//! that leaves gives back all of its receives. One change is under way to a peer at a time, or one
//! down after one up; control messages have receives for both, and for the confirmation.

use std::io;

use crate::endpoint::Endpoint;
use crate::frame::control;
use crate::transport::VerbsTransport;

/// How many times as much traffic a peer needs to take what another one has.
pub(crate) const MUCH_MORE: u32 = 4;

impl VerbsTransport {
    /// Reserves so many receives. Returns false if there are fewer; fails if the system refuses
    /// memory for them.
    pub(crate) fn reserve_receives(&mut self, count: u32) -> io::Result<bool> {
        let Self { recv, registrations, .. } = self;
        let reserved = recv.reserve(count, || registrations.evict_idle());
        reserved.inspect_err(|error| self.warn_refused(error))
    }

    /// Gives the peer of endpoint `at` a whole window if it has a low one and there are receives.
    pub(crate) fn raise(&mut self, at: usize) -> bool {
        let flow = &self.endpoints[at].flow;
        let more = flow.granted - flow.share;
        // A lack of memory counts as none: what the peer has is enough.
        if more == 0 || !matches!(self.reserve_receives(more), Ok(true)) {
            return false;
        }
        let Self { endpoints, credit, .. } = self;
        let flow = &mut endpoints[at].flow;
        flow.receives += more;
        flow.share = flow.granted;
        credit.owe(endpoints, at, control::WINDOW);
        true
    }

    /// Lowers the windows of the peers that send least, and much less than `wants` frames since
    /// connections were compared last, until so many receives will be free.
    pub(crate) fn reclaim(&mut self, wants: u32, receives: u32) {
        let connected = self.endpoints.with_queue_pairs().map(|at| at as usize);
        let whole = connected.filter(|&at| has_whole_window(&self.endpoints[at]));
        let mut least: Vec<_> = whole.map(|at| (self.traffic_since(at), at)).collect();
        least.sort_unstable();
        let mut free = self.recv.unreserved();
        for (traffic, at) in least {
            if free >= receives || traffic.saturating_mul(MUCH_MORE) >= wants.max(1) {
                break;
            }
            let flow = &mut self.endpoints[at].flow;
            flow.is_lowering = true;
            free += flow.granted - flow.low_window();
            self.credit.owe(&mut self.endpoints, at, control::WINDOW);
        }
    }

    /// Returns the frames of endpoint `at` since connections were compared last.
    pub(crate) fn traffic_since(&self, at: usize) -> u32 {
        let endpoint = &self.endpoints[at];
        endpoint.frames().wrapping_sub(endpoint.frames_before)
    }

    /// Handles another window for this process's frames.
    pub(crate) fn on_window(&mut self, at: usize, qpn: u32, window: u32) {
        let endpoint = &mut self.endpoints[at];
        if !endpoint.tx.is_on(qpn) || !endpoint.is_ready() {
            return;
        }
        let flow = &mut endpoint.flow;
        flow.window = window.clamp(1, flow.granted);
        if flow.window < flow.granted {
            self.credit.owe(&mut self.endpoints, at, control::LOWERED);
        }
    }

    /// Handles the confirmation of a low window by the peer of endpoint `at`, which has sent the
    /// frames before `end` in the former one.
    pub(crate) fn on_lowered(&mut self, at: usize, qpn: u32, end: u32) {
        let Self { endpoints, recv, credit, .. } = self;
        let endpoint = &mut endpoints[at];
        if !endpoint.tx.is_on(qpn) || !endpoint.flow.is_lowering {
            return;
        }
        let flow = &mut endpoint.flow;
        if (flow.rx_seq.wrapping_sub(end) as i32) < 0 {
            // Written frames are still on their way to memory: asked again, the peer answers later.
            return credit.owe(endpoints, at, control::WINDOW);
        }
        let less = flow.share - flow.low_window();
        (flow.share, flow.is_lowering) = (flow.low_window(), false);
        flow.receives -= less;
        recv.release(less);
        credit.lowered += 1;
        credit.low.push(at as u32);
        // What was no half of the whole window may be all of the low one.
        credit.due.push(at as u32);
    }
}

/// Returns whether the window of the endpoint's peer can be lowered.
fn has_whole_window(endpoint: &Endpoint) -> bool {
    let flow = &endpoint.flow;
    endpoint.is_ready()
        && !flow.is_lowering
        && !flow.due.has(control::WINDOW)
        && flow.share > flow.low_window()
}

/// Returns whether the window of the endpoint's peer is low.
pub(crate) fn has_low_window(endpoint: &Endpoint) -> bool {
    endpoint.is_ready() && endpoint.flow.share < endpoint.flow.granted
}
