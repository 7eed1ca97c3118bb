//! The common parts of the endpoint's clients, and the rounds that drive them.
//!
//! A protocol receives frames inside `poll`, where it must not post. It queues what follows,
//! and [`progress`] lets it post afterwards. Point-to-point is one protocol; one-sided
//! communication will be another. Several protocols on one endpoint are one [`Protocol`] to
//! this module: a struct of them whose [`Sink`] looks at [`crate::Kind::protocol`].

use crate::transport::{HybridGet, Sink, Transport, WaitOn};

/// A client of the endpoint.
pub trait Protocol: Sink {
    /// Returns true when something is to be posted, whether or not there is space for it.
    fn has_work(&self) -> bool;

    /// Returns true when something could be posted now: not everything waits for space.
    fn can_work(&mut self) -> bool;

    /// Takes the wish that the transport be polled before the next `work`: arrived frames may
    /// return space or credit, or make the work superfluous.
    fn take_poll_request(&mut self) -> bool;

    /// Posts queued frames, as far as there is space. Returns true if anything was posted.
    fn work<T: HybridGet>(&mut self, endpoint: &mut T) -> bool;

    /// Returns true when nothing that a peer waits for is still to be posted.
    fn is_drained(&self) -> bool;
}

/// Does one round: hands over what has arrived, then posts what is queued. Returns true if
/// anything happened.
#[inline]
pub fn progress<T: HybridGet, P: Protocol>(endpoint: &mut T, protocol: &mut P) -> bool {
    let arrived = endpoint.poll(protocol);
    arrived | (protocol.has_work() && work(endpoint, protocol))
}

/// Polls as often as the protocol requests, then lets it post. Out of line: a round without work
/// has no cost.
#[inline(never)]
fn work<T: HybridGet, P: Protocol>(endpoint: &mut T, protocol: &mut P) -> bool {
    let mut moved = false;
    while protocol.take_poll_request() {
        moved |= endpoint.poll(protocol);
    }
    protocol.work(endpoint) | moved
}

/// Announces that the caller is about to sleep; see [`Transport::arm`]. Returns `None` when
/// there is something to do now.
pub fn arm<'a, T: Transport>(
    endpoint: &'a mut T,
    protocol: &mut impl Protocol,
) -> Option<WaitOn<'a>> {
    if protocol.can_work() { None } else { endpoint.arm() }
}

/// Returns true when the process may end: nothing that a peer waits for is still to leave it.
pub fn is_drained<T: Transport>(endpoint: &mut T, protocol: &impl Protocol) -> bool {
    protocol.is_drained() && endpoint.flush()
}
