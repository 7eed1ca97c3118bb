//! Reliable, ordered messages over unreliable datagrams: the state machines of one peer.
//!
//! Nothing here does I/O or reads a clock: packets and times come in, packets to send come out.
//! [`sender`] cuts messages into packets, keeps a congestion window, and repeats what is lost;
//! [`receiver`] orders packets and joins messages; [`packet`] has the bytes; [`link`] puts them
//! together for one peer. `datagrams` drives them with the UD queue pair.
//!
//! Packets are numbered within a *stream*. A stream ends when a connection takes over, and the
//! next one has a later number; its first packet has number 0. Messages carry the sequence numbers
//! of their frames, which outlive streams and connections: therefore nothing is lost, doubled or
//! reordered when a peer changes between both.

pub(crate) mod link;
pub(crate) mod packet;
pub(crate) mod queue;
pub(crate) mod receiver;
pub(crate) mod sender;

#[cfg(test)]
mod model_tests;

/// Time since the transport was opened, microseconds.
pub(crate) type Micros = u64;

/// Most packets of a stream between the oldest that is missing and the newest. The selective
/// acknowledgement has one bit for each but the first.
pub(crate) const WINDOW: u32 = 64;

/// Longest time that an acknowledgement waits for a packet to travel with.
pub(crate) const ACK_DELAY: Micros = 5_000;
/// Packets received after which an acknowledgement waits no longer.
pub(crate) const ACK_EVERY: u32 = 8;

/// Returns whether number `one` comes after `other`; numbers wrap.
pub(crate) const fn is_after(one: u32, other: u32) -> bool {
    one.wrapping_sub(other) as i32 > 0
}
