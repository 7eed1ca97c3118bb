//! The receiving half of the data path: what completions mean.

use fabric::{Header, Sink};

use crate::coalesce as bundle;
use crate::connect::{BATCH, PREFIX, VerbsTransport, mark};
use crate::eager_rdma::wire as ring;
use crate::eager_rdma::wire::Inbound;
use crate::endpoint::Endpoint;
use crate::ibv::layout::{wc_status, wc_status::WR_FLUSH_ERR};
use crate::ibv::{Qp, Wc};
use crate::post::{note, put};

/// Batches of completions taken in one poll.
const BATCHES: usize = 4;
/// Polls between two looks at what is unsettled, and at gates.
const TEND: u64 = 16;
/// The same for the device's events, a call of the system each; a multiple of the former. Who sleeps is woken by them.
const EVENTS: u64 = 4096;

impl VerbsTransport {
    /// Hands over what has arrived; true if there was anything.
    #[inline]
    pub(crate) fn poll_queue(&mut self, sink: &mut impl Sink) -> bool {
        self.polls += 1;
        let is_round = self.polls.is_multiple_of(TEND);
        if is_round {
            self.look_around();
        }
        let mut moved = !self.ringed.is_empty() && self.look_in_rings(sink);
        // Who finds frames in rings looks elsewhere now and then.
        if !moved || is_round {
            moved |= self.take_completions(sink);
        }
        if !self.debts.is_empty() {
            self.pay();
        }
        if !self.outcomes.is_empty() || !self.losses.is_empty() {
            self.tell(sink);
            moved = true;
        }
        // What has left, and the time, change the answer of `flush`, which is only asked again
        // after something has happened.
        moved || self.flushing_since.is_some()
    }

    /// What need not be looked at in each poll.
    #[cold]
    fn look_around(&mut self) {
        if !self.unsettled.is_empty() {
            self.tend();
        }
        if self.polls.is_multiple_of(EVENTS) {
            self.hear_device();
        }
        self.look_at_gates();
    }

    /// What the completion queue has; true if the sink has heard of any.
    #[inline]
    fn take_completions(&mut self, sink: &mut impl Sink) -> bool {
        let taken = self.next_completions();
        if taken > 0 {
            return self.complete_all(taken, sink);
        }
        // There is nothing better to do.
        if !self.empty.is_empty() {
            self.post_empty();
        }
        if !self.retired.is_empty() {
            self.bury();
        }
        false
    }

    #[inline]
    fn next_completions(&mut self) -> usize {
        match std::mem::take(&mut self.stashed) {
            0 => self.cq.poll(&mut self.completions),
            stashed => stashed,
        }
    }

    /// Completions, so many for now, and those behind them. Out of line: a poll in vain does not pay for its registers.
    #[inline(never)]
    fn complete_all(&mut self, mut taken: usize, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        for left in (0..BATCHES).rev() {
            for at in 0..taken {
                let completion = self.completions[at];
                moved |= self.complete(&completion, sink);
            }
            // Many at once.
            if self.empty.len() >= BATCH {
                self.post_empty();
            }
            if taken < BATCH {
                if !self.retired.is_empty() {
                    self.bury();
                }
                break;
            }
            // What is taken off the queue is completed here: nobody finds it again.
            if left > 0 {
                taken = self.next_completions();
            }
        }
        moved
    }

    /// One completion; true if the sink has heard of it.
    #[inline]
    fn complete(&mut self, completion: &Wc, sink: &mut impl Sink) -> bool {
        match completion.wr_id & mark::ALL {
            mark::RECEIVE => {
                let slot = completion.wr_id as u32;
                let heard =
                    completion.status == wc_status::SUCCESS && self.arrived(completion, slot, sink);
                self.empty.push(slot);
                if completion.status != wc_status::SUCCESS {
                    self.failed(completion);
                }
                heard
            }
            mark::SEND => {
                self.sent(completion);
                false
            }
            mark::BELL_RECEIVE => {
                if let Some(hello) = self.bell.heard(completion, &self.secret) {
                    self.hear(&hello, completion.src_qp);
                }
                false
            }
            _ => {
                self.bell.rung(completion);
                false
            }
        }
    }

    /// A message on a connection; true if the sink has heard of it.
    #[inline]
    fn arrived(&mut self, completion: &Wc, slot: u32, sink: &mut impl Sink) -> bool {
        let Some(&at) = self.by_queue.get(&completion.qp_num) else { return false };
        let at = at as usize;
        if self.pairs[at].is_calling() {
            self.confirm(at, completion.qp_num);
        }
        let message = self.receives.bytes(slot, completion.byte_len as usize);
        let Some(([number, consumed], frame)) = prefix(message) else {
            return self.nonsense(at, "a message is too short");
        };
        let (is_note, is_several) = (frame.is_empty(), bundle::is_one(frame));
        if let Err(why) = self.credit(at, consumed) {
            return self.nonsense(at, why);
        }
        let pair = &mut self.pairs[at];
        pair.used_at = self.polls;
        if is_note {
            if number == note::ASK {
                pair.owes_credit = true;
                self.debts.push(at as u32);
            }
            return number == note::STOPPED && self.peer_has_stopped(at, completion.qp_num, sink);
        }
        if is_several {
            return self.take_bundle(at, slot, completion.byte_len as usize, number, sink);
        }
        let mut heard = false;
        if number != pair.consumed {
            // What was written before it is in its place by now.
            heard = self.take_written(at, sink);
            let pair = &self.pairs[at];
            if number != pair.consumed {
                // It came before its connection broke, and now again; or it can't be.
                let ahead = pair.lost.is_none() && number.wrapping_sub(pair.consumed) as i32 > 0;
                return heard | (ahead && self.nonsense(at, "a frame is missing"));
            }
        }
        let (pair, receives) = (&mut self.pairs[at], &self.receives);
        let frame = &receives.bytes(slot, completion.byte_len as usize)[PREFIX..];
        let len = frame.len();
        if !pair.hand_up(frame, sink) {
            return heard | self.nonsense(at, "a header is malformed");
        }
        self.count(at, len);
        true
    }

    /// A frame was handed up: when the peer must hear of it, and whether it talks so much that it
    /// had better write.
    #[inline]
    pub(crate) fn count(&mut self, at: usize, len: usize) {
        let pair = &mut self.pairs[at];
        if pair.consumed.wrapping_sub(pair.told) >= pair.granted / 2 {
            self.debts.push(at as u32);
        }
        if ring::taken(PREFIX + len) <= ring::PLACE {
            if pair.period != self.period {
                (pair.period, pair.lately) = (self.period, 0);
            }
            pair.lately += 1;
            if pair.lately >= self.settings.eager_rdma_threshold && pair.inbound == Inbound::Absent
            {
                self.give_ring(at);
            }
        }
    }

    /// A message on the queue pair of a pair that was not sure whether the other side is ready.
    #[cold]
    fn confirm(&mut self, at: usize, queue: u32) {
        let pair = &mut self.pairs[at];
        if pair.qp.as_ref().is_some_and(|qp| qp.number() == queue) {
            let actions = pair.shake.arrived();
            self.act(at, actions, None);
        }
    }

    /// What no process of ours sends: the pair is not to be trusted with memory.
    #[cold]
    pub(crate) fn nonsense(&mut self, at: usize, what: &str) -> bool {
        self.lose(at, format!("{what}: one of the two has overwritten memory"));
        false
    }

    /// A request of ours is over, and those before it.
    #[inline]
    fn sent(&mut self, completion: &Wc) {
        if completion.status != wc_status::SUCCESS {
            return self.failed(completion);
        }
        let Some(&at) = self.by_queue.get(&completion.qp_num) else { return };
        let pair = &mut self.pairs[at as usize];
        if pair.qp.as_ref().map(Qp::number) != Some(completion.qp_num) {
            return;
        }
        let Some(signal) = pair.signaled.pop_front() else { return };
        pair.used -= signal.requests;
        if let Some(slot) = signal.slot {
            self.notes.put(slot);
        }
        if signal.piece != 0 {
            self.piece_finished(at as usize, signal.piece as usize);
        }
    }

    /// A request that was not carried out.
    #[cold]
    fn failed(&mut self, completion: &Wc) {
        let Some(&at) = self.by_queue.get(&completion.qp_num) else { return };
        let at = at as usize;
        // Not for a queue pair that is retired already.
        if self.pairs[at].qp.as_ref().is_some_and(|qp| qp.number() == completion.qp_num) {
            let why = match completion.status {
                WR_FLUSH_ERR => "the other side closed it".to_owned(),
                wc_status::RETRY_EXC_ERR => "the other side does not acknowledge".to_owned(),
                status => format!(
                    "a request failed with status {status}, vendor's {:#x}",
                    completion.vendor_err
                ),
            };
            self.break_pair(at, &why);
        }
    }

    /// Posts receives again.
    #[inline(never)]
    pub(crate) fn post_empty(&mut self) {
        let len = self.receives.slot_bytes().min(bundle::longest(self.caps.frame));
        for some in self.empty.chunks(BATCH) {
            let mut list = [(0, crate::ibv::Sge::default()); BATCH];
            for (place, &slot) in list.iter_mut().zip(some) {
                *place = (mark::RECEIVE | u64::from(slot), self.receives.sge(slot, len));
            }
            // There is room for as many as there are slots; a device that refuses is gone
            // and says so by an event.
            let _ = self.srq.post(&list[..some.len()]);
        }
        self.empty.clear();
    }

    /// Sends the credit that is owed.
    #[cold]
    fn pay(&mut self) {
        for at in std::mem::take(&mut self.debts) {
            let pair = &mut self.pairs[at as usize];
            if std::mem::take(&mut pair.owes_stop) && !self.note(at as usize, note::STOPPED) {
                self.pairs[at as usize].owes_stop = true;
                self.debts.push(at);
                continue;
            }
            let pair = &mut self.pairs[at as usize];
            let owes =
                pair.owes_credit || pair.consumed.wrapping_sub(pair.told) >= pair.granted / 2;
            pair.owes_credit = false;
            if owes && !self.note(at as usize, note::CREDIT) {
                self.pairs[at as usize].owes_credit = true;
                self.debts.push(at);
            }
        }
    }

    /// Destroys queue pairs on which nothing can have arrived since the queue was last
    /// empty.
    #[cold]
    fn bury(&mut self) {
        let (polls, by_queue) = (self.polls, &mut self.by_queue);
        self.retired.retain(|retired| {
            let is_over = retired.at < polls;
            if is_over {
                by_queue.remove(&retired.qp.number());
            }
            !is_over
        });
    }

    #[cold]
    fn tell(&mut self, sink: &mut impl Sink) {
        for (token, outcome) in self.outcomes.drain(..) {
            sink.transferred(token, outcome);
        }
        for lost in self.losses.drain(..) {
            sink.peer_failed(lost);
        }
    }

    /// A peer says how many frames it has consumed.
    #[inline]
    pub(crate) fn credit(&mut self, at: usize, consumed: u32) -> Result<(), &'static str> {
        let Self { pairs, long, short, .. } = self;
        pairs[at].acknowledge(consumed, |slot| put(long, short, slot))
    }
}

impl Endpoint {
    /// Hands up the next frame, header and body. False if it is none.
    #[inline]
    pub(crate) fn hand_up(&mut self, frame: &[u8], sink: &mut impl Sink) -> bool {
        let Ok((header, body)) = Header::decode(frame) else { return false };
        sink.frame(self.peer, &header, body);
        self.consumed = self.consumed.wrapping_add(1);
        true
    }
}

/// Number and credit, and what follows them.
#[inline]
pub(crate) fn prefix(message: &[u8]) -> Option<([u32; 2], &[u8])> {
    let (front, frame) = message.split_first_chunk::<PREFIX>()?;
    let word =
        |at: usize| u32::from_le_bytes([front[at], front[at + 1], front[at + 2], front[at + 3]]);
    Some(([word(0), word(4)], frame))
}
