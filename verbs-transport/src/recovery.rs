//! How connections end, and what comes after: closed for another one, broken, given up,
//! or all at once because the device is gone.
//!
//! A pair that is *closed* or *broken* is Idle again, and connects anew when it has anything to
//! carry; one that is *lost* never does, and everything that waits for it ends with the reason.

use std::time::Instant;

use fabric::{Peer, PeerFailed};

use crate::coalesce::Bundle;
use crate::connect::{PAUSE, Retired, VerbsTransport};
use crate::handshake::Phase;
use crate::ibv::QpAttr;
use crate::ibv::layout::{qp_mask as mask, qp_state as state};
use crate::wireup_msg::{Kind, WireupMsg};

/// Breaks in a row, without a frame consumed, that end a pair.
const BREAKS: u32 = 10;

impl VerbsTransport {
    /// Closes the connection of a pair: that of the one that has been idle for longest, or one that the other
    /// side has closed, which is the answer to that.
    pub(crate) fn close(&mut self, at: usize) {
        self.say(at, Kind::Close);
        self.retire(at);
        self.pairs[at].shake.broke();
        self.resume_later(at);
    }

    /// The other side has closed, or answers that it has.
    pub(crate) fn closed(&mut self, at: usize, hello: &WireupMsg) {
        if self.credit(at, hello.consumed).is_err() {
            return self.lose(at, "it acknowledges what was never sent".into());
        }
        let pair = &self.pairs[at];
        if pair.shake.phase != Phase::Idle && pair.shake.epoch == hello.epoch {
            self.close(at);
        }
    }

    /// What was not consumed goes through another connection, in a moment: the answer to
    /// Close may still say that it was.
    pub(crate) fn resume_later(&mut self, at: usize) {
        if self.pairs[at].needs_connection() {
            self.pairs[at].ring_at = Instant::now() + 8 * PAUSE;
            self.unsettle(at);
        }
    }

    /// Takes a pair's queue pair out of service; what has arrived on it still counts.
    pub(crate) fn retire(&mut self, at: usize) {
        self.give_up_atomics(at);
        if matches!(self.bundle, Bundle::Open(it) | Bundle::Empty(it) if it == at) {
            // It goes with all else that is retained.
            self.bundle = Bundle::Closed;
        }
        let notes = &mut self.notes;
        let qp = self.pairs[at].disconnect(|slot| notes.put(slot));
        if let Some(qp) = qp {
            let _ = qp.modify(QpAttr { qp_state: state::ERR, ..QpAttr::default() }, mask::STATE);
            self.retired.push(Retired { qp, at: self.polls });
        }
        self.leave_rings(at);
    }

    /// A connection has failed: it is made anew if anything is to go through it.
    #[cold]
    pub(crate) fn break_pair(&mut self, at: usize, why: &str) {
        let had_worked = self.pairs[at].is_ready();
        if had_worked {
            // So that the other side need not wait for its device to find out.
            self.say(at, Kind::Close);
        }
        self.retire(at);
        let now = Instant::now();
        let pair = &mut self.pairs[at];
        pair.shake.broke();
        if pair.lost.is_some() {
            return;
        }
        pair.breaks += 1;
        if had_worked {
            pair.broke_at.get_or_insert(now);
            // What we told of frames consumed, and Close, may be lost. A peer whose window is full
            // sends nothing by which it would find out.
            pair.owes_credit = true;
        }
        if pair.breaks > BREAKS {
            return self.lose(
                at,
                format!(
                    "the connection broke {BREAKS} times in a row, the last time because {why}"
                ),
            );
        }
        pair.ring_at = now + PAUSE * (1 << pair.breaks.min(8));
        if pair.needs_connection() {
            self.unsettle(at);
        }
    }

    /// Gives a peer up.
    #[cold]
    pub(crate) fn lose(&mut self, at: usize, why: String) {
        self.retire(at);
        // Nothing may write into memory of transfers that are over.
        self.retired
            .retain(|retired| self.by_queue.get(&retired.qp.number()) != Some(&(at as u32)));
        self.by_queue.retain(|_, place| *place != at as u32);
        let pair = &mut self.pairs[at];
        pair.shake.broke();
        if pair.lost.is_some() {
            return;
        }
        let peer = pair.peer;
        let lost = PeerFailed { peer, why: why.clone() };
        pair.lost = Some(why);
        for held in pair.retained.drain(..) {
            crate::post::put(&mut self.long, &mut self.short, held.slot);
        }
        self.outcomes.extend(pair.works.drain(..).map(|work| (work.token, Err(lost.clone()))));
        self.losses.push(lost);
        self.free_ring(at);
    }

    /// Gives everybody up if the device is not there any more. Not each driver reports that:
    /// with `rdma_rxe` the port goes down when its network device is removed, and soon can't be asked.
    #[cold]
    pub(crate) fn check_device(&mut self) {
        let answer = self.port.context.port(self.port.number);
        if answer.is_err_and(|error| matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EIO)))
        {
            self.give_up_device();
        }
    }

    /// The device is gone for good, and with it the way to all, talked to or not: whoever waits
    /// for a first message would wait for ever.
    #[cold]
    pub(crate) fn give_up_device(&mut self) {
        if std::mem::replace(&mut self.is_gone, true) {
            return;
        }
        let why = self.why_gone();
        for rank in 0..self.by_rank.len() {
            if let Ok(at) = self.meet(Peer(rank as u32)) {
                self.lose(at, why.clone());
            }
        }
    }

    /// What has happened to the device and what to do about it, for the user.
    pub(crate) fn why_gone(&self) -> String {
        format!(
            "the RDMA device {} of this host has failed or was removed (see `dmesg`, and `verbena doctor --rdma`; \
             verbs.device names another one)",
            self.port.device
        )
    }
}
