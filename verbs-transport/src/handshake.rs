//! The state machine by which two ends agree on one connection. Either end may begin, any datagram
//! may be lost, and the connection may break at any time.
//!
//! Pure: no device, no clock. The owner reports events and carries out the [`Actions`] returned.
//! Both ends run the same rules. Every attempt has a number (epoch) that only grows; the later
//! one wins. Numbers wrap, so that no message of a peer is the last one that counts.
//!
//! States: [`Phase`]. Invariants: a queue pair serves one epoch; an end is ready only when the
//! peer knows the number of its queue pair.

/// State of one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No queue pair.
    Idle,
    /// A queue pair that is not connected; sends requests.
    Requesting,
    /// Connected for receiving; sends requests until the peer is known to know this end.
    Confirming,
    /// Connected in both directions.
    Ready,
}

/// One end of the handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) phase: Phase,
    /// The latest attempt that this end made or saw.
    pub(crate) epoch: u32,
    /// Number of this end's queue pair, while there is one.
    qpn: u32,
    /// Number of the peer's queue pair from `Confirming` on; otherwise 0.
    pub(crate) peer_qpn: u32,
}

/// The sender's end, as a Req or a Rep describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    pub(crate) epoch: u32,
    pub(crate) qpn: u32,
    pub(crate) peer_qpn: u32,
    /// The message is a Req.
    pub(crate) wants_reply: bool,
}

/// The actions of the owner, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    /// Replace the queue pair by a new one; then call [`Handshake::created`].
    pub(crate) create: bool,
    /// Connect the queue pair to the sender of the message: state RTR.
    pub(crate) move_to_rtr: bool,
    /// Let the queue pair send: state RTS.
    pub(crate) move_to_rts: bool,
    /// Send a message: a Req if [`Handshake::wants_reply`], otherwise a Rep.
    pub(crate) send: bool,
}

impl Handshake {
    pub(crate) const fn new() -> Handshake {
        Handshake { phase: Phase::Idle, epoch: 0, qpn: 0, peer_qpn: 0 }
    }

    /// Returns whether there is no queue pair.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Returns whether an attempt is under way.
    pub(crate) fn is_connecting(&self) -> bool {
        matches!(self.phase, Phase::Requesting | Phase::Confirming)
    }

    /// Returns whether the peer may use the queue pair, which is connected for receiving.
    pub(crate) fn can_receive(&self) -> bool {
        matches!(self.phase, Phase::Confirming | Phase::Ready)
    }

    /// Returns whether this attempt is over for a peer that has made, or seen, attempt `epoch`.
    pub(crate) fn is_left_for(&self, epoch: u32) -> bool {
        self.can_receive() && is_later(epoch, self.epoch)
    }

    /// Returns whether this end has made, or seen, a later attempt than `epoch`.
    pub(crate) fn is_after(&self, epoch: u32) -> bool {
        is_later(self.epoch, epoch)
    }

    /// Returns whether a message of this end needs a reply.
    pub(crate) fn wants_reply(&self) -> bool {
        self.phase != Phase::Ready
    }

    /// Records the number of the queue pair that was created.
    pub(crate) fn created(&mut self, qpn: u32) {
        self.qpn = qpn;
    }

    /// Starts an attempt if there is none.
    pub(crate) fn connect(&mut self) -> Actions {
        if self.phase != Phase::Idle {
            return Actions::default();
        }
        self.epoch = self.epoch.wrapping_add(1);
        (self.phase, self.qpn, self.peer_qpn) = (Phase::Requesting, 0, 0);
        Actions { create: true, send: true, ..Actions::default() }
    }

    /// Handles a Req or a Rep of the peer.
    pub(crate) fn on_msg(&mut self, msg: Received) -> Actions {
        if is_later(msg.epoch, self.epoch) {
            // The peer is ahead: its queue pair is new; therefore this one must be replaced.
            self.epoch = msg.epoch;
            (self.phase, self.qpn, self.peer_qpn) = (Phase::Confirming, 0, msg.qpn);
            return Actions { create: true, move_to_rtr: true, move_to_rts: false, send: true };
        }
        if self.phase == Phase::Idle {
            // The peer is late, or this is an old copy: show it a later epoch.
            return self.connect();
        }
        if msg.epoch != self.epoch {
            let send = self.phase != Phase::Ready;
            return Actions { send, ..Actions::default() };
        }
        let knows_us = msg.peer_qpn == self.qpn;
        match self.phase {
            Phase::Requesting => {
                self.peer_qpn = msg.qpn;
                self.phase = if knows_us { Phase::Ready } else { Phase::Confirming };
                Actions {
                    create: false,
                    move_to_rtr: true,
                    move_to_rts: knows_us,
                    send: msg.wants_reply,
                }
            }
            _ if msg.qpn != self.peer_qpn => Actions::default(),
            Phase::Confirming if knows_us => {
                self.phase = Phase::Ready;
                Actions { move_to_rts: true, send: msg.wants_reply, ..Actions::default() }
            }
            _ => Actions { send: msg.wants_reply, ..Actions::default() },
        }
    }

    /// Handles data on the queue pair: the peer is ready.
    pub(crate) fn on_data(&mut self) -> Actions {
        if self.phase != Phase::Confirming {
            return Actions::default();
        }
        self.phase = Phase::Ready;
        Actions { move_to_rts: true, ..Actions::default() }
    }

    /// Handles the peer's refusal of attempt `epoch`. Returns whether that ends an attempt of this
    /// end, the same one or an earlier one. A peer that refuses copies of a request has a later
    /// epoch with each; the next attempt of this end must be later than all of them.
    pub(crate) fn on_decline(&mut self, epoch: u32) -> bool {
        if !self.is_connecting() || self.is_after(epoch) {
            return false;
        }
        self.reset();
        self.saw_end(epoch);
        true
    }

    /// Records that attempt `epoch` is over at the peer.
    pub(crate) fn saw_end(&mut self, epoch: u32) {
        if self.is_idle() && is_later(epoch, self.epoch) {
            self.epoch = epoch;
        }
    }

    /// Returns to [`Phase::Idle`]: the queue pair is out of service.
    pub(crate) fn reset(&mut self) {
        (self.phase, self.qpn, self.peer_qpn) = (Phase::Idle, 0, 0);
    }
}

/// Returns true if `epoch` comes after `other`: within the next half of all numbers. Of two that
/// are half of all numbers apart the greater one does, so that one end always gives way.
const fn is_later(epoch: u32, other: u32) -> bool {
    const HALF: u32 = 1 << 31;
    let ahead = epoch.wrapping_sub(other);
    (ahead != 0 && ahead < HALF) || (ahead == HALF && epoch > other)
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
