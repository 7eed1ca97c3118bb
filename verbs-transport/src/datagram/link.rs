//! The datagram path to one peer: both halves, and when an acknowledgement is due.
//!
//! An acknowledgement is *none* (nothing to tell), *delayed* (until a packet or the delay takes it
//! along) or *due*. A link is made on first use, and an idle one has [`Link`]'s bytes and no more.

use super::receiver::Receiver;
use super::sender::Sender;
use super::{ACK_DELAY, ACK_EVERY, Micros};
use crate::device::mtu_bytes;

/// Largest packet before the peer's port is known, as libibverbs numbers it: 1024 bytes, which
/// every network carries.
pub(crate) const SAFE_MTU: u8 = 3;

/// Whether the peer must hear what has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AckState {
    #[default]
    None,
    /// With the next packet, or at this time.
    Delayed(Micros),
    /// Now.
    Due,
}

/// The oldest packet to a peer that has not arrived, at its last timeout; see `path_mtu`.
#[derive(Debug, Default)]
pub(crate) struct OldestPacket {
    /// Its stream and number.
    id: (u32, u32),
    /// Timeouts before which the peer was heard.
    lost: u8,
    /// The peer was heard since its last timeout.
    pub(crate) was_heard: bool,
    /// Packets are short since it was lost: a line is due when they arrive.
    pub(crate) is_untold: bool,
}

/// The datagram path to one peer.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) tx: Sender,
    pub(crate) rx: Receiver,
    pub(crate) ack: AckState,
    /// When the link is looked after next.
    pub(crate) timer: Option<Micros>,
    /// When it was made.
    pub(crate) since: Micros,
    /// The proof that datagrams of the two processes have.
    pub(crate) token: u64,
    /// Messages sent by this path since a connection was considered.
    pub(crate) messages: u32,
    /// Packets that have arrived since the last acknowledgement.
    unacked: u32,
    /// Largest packet that both ends take, bytes.
    pub(crate) mtu: u16,
    /// Largest packet that the peer takes, as libibverbs numbers it.
    pub(crate) peer_mtu: u8,
    pub(crate) oldest: OldestPacket,
    /// The peer may not know this process's address.
    pub(crate) is_unknown: bool,
    /// Waits for space in the queue of the UD queue pair.
    pub(crate) is_stalled: bool,
    /// Is among the links whose acknowledgement is due.
    pub(crate) is_listed: bool,
}

const _: () = assert!(size_of::<Link>() <= 256);

impl OldestPacket {
    /// Records a timeout of packet `id`. Returns before how many of its timeouts the peer was
    /// heard.
    pub(crate) fn timed_out(&mut self, id: (u32, u32)) -> u8 {
        if self.id != id {
            (self.id, self.lost) = (id, 0);
        }
        self.lost += u8::from(std::mem::take(&mut self.was_heard));
        self.lost
    }
}

impl Link {
    /// Returns a link to a peer whose port is not known.
    pub(crate) fn new(token: u64, now: Micros) -> Link {
        Link {
            tx: Sender::default(),
            rx: Receiver::default(),
            ack: AckState::None,
            timer: None,
            since: now,
            token,
            messages: 0,
            unacked: 0,
            mtu: mtu_bytes(SAFE_MTU),
            peer_mtu: SAFE_MTU,
            oldest: OldestPacket::default(),
            is_unknown: true,
            is_stalled: false,
            is_listed: false,
        }
    }

    /// Records that a packet has arrived which is to be acknowledged, `at_once` or with others.
    pub(crate) fn received(&mut self, now: Micros, at_once: bool) {
        self.unacked += 1;
        if at_once || self.unacked >= ACK_EVERY {
            self.ack = AckState::Due;
        } else if self.ack == AckState::None {
            self.ack = AckState::Delayed(now + ACK_DELAY);
        }
    }

    /// Records that a packet takes the acknowledgement along.
    pub(crate) fn acknowledged(&mut self) {
        (self.ack, self.unacked) = (AckState::None, 0);
    }

    /// Lets an acknowledgement that is due and cannot go now wait again.
    pub(crate) fn delay_acknowledgement(&mut self, now: Micros) {
        self.ack = AckState::Delayed(now + ACK_DELAY);
    }

    /// Lets a delayed acknowledgement become due. Returns whether one is.
    pub(crate) fn is_ack_due(&mut self, now: Micros) -> bool {
        if matches!(self.ack, AckState::Delayed(at) if at <= now) {
            self.ack = AckState::Due;
        }
        self.ack == AckState::Due
    }

    /// Returns when the link must be looked after.
    pub(crate) fn next_time(&self) -> Option<Micros> {
        let ack = match self.ack {
            AckState::Delayed(at) => Some(at),
            AckState::None | AckState::Due => None,
        };
        self.tx.timer().into_iter().chain(ack).min()
    }
}
