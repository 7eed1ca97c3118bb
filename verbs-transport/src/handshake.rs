//! How two ends of a pair come to have one connection, whoever begins, whatever
//! gets lost, and however often it breaks.
//!
//! Pure: no device, no clock. The owner says what happened and does what is
//! answered. Both ends run the same rules; every attempt has a number (epoch) that
//! only grows, and the higher one wins.
//!
//! States: [`Phase`]. Invariants: a queue pair serves one epoch; an end is ready only
//! when the other one has its number.

/// How far an end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// No queue pair.
    Idle,
    /// A queue pair that is not connected; it calls.
    Calling,
    /// Connected, it could receive; it calls until the other end is known to know it.
    Confirming,
    /// Connected both ways.
    Ready,
}

/// One end.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) phase: Phase,
    /// The last attempt that this end made or saw.
    pub(crate) epoch: u32,
    /// Number of our queue pair, while there is one.
    ours: u32,
    /// Number of theirs, from `Confirming` on; else 0.
    pub(crate) theirs: u32,
}

/// What a Call or an Answer says of its sender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heard {
    pub(crate) epoch: u32,
    pub(crate) queue: u32,
    pub(crate) yours: u32,
    /// It is a Call.
    pub(crate) wants_answer: bool,
}

/// What the owner is to do, in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actions {
    /// Retire the queue pair, if there is one, and make another: [`Handshake::made`].
    pub(crate) renew: bool,
    /// Connect it to the end that was heard, for receiving.
    pub(crate) connect: bool,
    /// Make it send: the pair is ready.
    pub(crate) start: bool,
    /// Say hello, as [`Handshake::wants_answer`] says.
    pub(crate) greet: bool,
}

impl Handshake {
    pub(crate) const fn new() -> Handshake {
        Handshake { phase: Phase::Idle, epoch: 0, ours: 0, theirs: 0 }
    }

    /// What we say wants an answer while we are not ready.
    pub(crate) fn wants_answer(&self) -> bool {
        self.phase != Phase::Ready
    }

    /// The number of the queue pair that was made.
    pub(crate) fn made(&mut self, queue: u32) {
        self.ours = queue;
    }

    /// A connection is needed.
    pub(crate) fn want(&mut self) -> Actions {
        if self.phase != Phase::Idle {
            return Actions::default();
        }
        self.epoch += 1;
        (self.phase, self.ours, self.theirs) = (Phase::Calling, 0, 0);
        Actions { renew: true, greet: true, ..Actions::default() }
    }

    /// The other end has said hello.
    pub(crate) fn hear(&mut self, heard: Heard) -> Actions {
        if heard.epoch > self.epoch {
            // They are ahead: their queue pair is new, so ours must be.
            self.epoch = heard.epoch;
            (self.phase, self.ours, self.theirs) = (Phase::Confirming, 0, heard.queue);
            return Actions { renew: true, connect: true, start: false, greet: true };
        }
        if self.phase == Phase::Idle {
            // They are behind (or this is an old copy): show them a later epoch.
            return self.want();
        }
        if heard.epoch < self.epoch {
            let greet = self.phase != Phase::Ready;
            return Actions { greet, ..Actions::default() };
        }
        let knows_us = heard.yours == self.ours;
        match self.phase {
            Phase::Calling => {
                self.theirs = heard.queue;
                self.phase = if knows_us { Phase::Ready } else { Phase::Confirming };
                Actions { renew: false, connect: true, start: knows_us, greet: heard.wants_answer }
            }
            _ if heard.queue != self.theirs => Actions::default(),
            Phase::Confirming if knows_us => {
                self.phase = Phase::Ready;
                Actions { start: true, greet: heard.wants_answer, ..Actions::default() }
            }
            _ => Actions { greet: heard.wants_answer, ..Actions::default() },
        }
    }

    /// Something has arrived on the queue pair: the other end is ready.
    pub(crate) fn arrived(&mut self) -> Actions {
        if self.phase != Phase::Confirming {
            return Actions::default();
        }
        self.phase = Phase::Ready;
        Actions { start: true, ..Actions::default() }
    }

    /// The queue pair is retired.
    pub(crate) fn broke(&mut self) {
        (self.phase, self.ours, self.theirs) = (Phase::Idle, 0, 0);
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
