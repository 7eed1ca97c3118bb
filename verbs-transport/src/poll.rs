//! The progress loop: rings, completions, and now and then everything else.

use fabric::Sink;

use crate::completions::{BATCH, wr_id};
use crate::ibv::Wc;
use crate::ibv::layout::wc_status;
use crate::transport::VerbsTransport;

/// Most batches of completions handled in one poll.
const MAX_BATCHES: usize = 4;
/// Polls between two looks at pending endpoints and at ring controls.
const MAINTENANCE_INTERVAL: u64 = 16;
/// Polls between two looks at the device's events, each a system call. A multiple of the former.
/// The events wake a sleeper by themselves.
const EVENTS_INTERVAL: u64 = 4096;

impl VerbsTransport {
    /// Delivers what has arrived. Returns whether there was anything.
    #[inline]
    pub(crate) fn progress(&mut self, sink: &mut impl Sink) -> bool {
        self.polls += 1;
        let is_maintenance_due = self.polls.is_multiple_of(MAINTENANCE_INTERVAL);
        if is_maintenance_due {
            self.maintain();
        }
        let mut moved = !self.rings.readable.is_empty() && self.poll_rings(sink);
        // While rings have frames, completions are taken now and then only.
        if !moved || is_maintenance_due {
            moved |= self.take_completions(sink);
        }
        if !self.credit.due.is_empty() {
            self.return_credits();
        }
        if !self.reports.is_empty() {
            self.reports.deliver(sink);
            moved = true;
        }
        // Completed sends and the time change the answer of `flush`, which is called again only
        // after something has happened.
        moved || self.flushing.is_some()
    }

    /// Performs the checks that are not due in each poll.
    #[cold]
    fn maintain(&mut self) {
        if self.wireup.is_any_pending() {
            self.progress_wireup();
        }
        if self.wireup.ud.mend_at().is_some() {
            self.mend_datagrams();
        }
        if self.datagrams.has_timers() || !self.datagrams.due.is_empty() {
            self.progress_links();
        }
        if self.polls.is_multiple_of(EVENTS_INTERVAL) || self.endpoints.awaits_last_receive() {
            self.process_device_events();
        }
        self.read_ring_controls();
        if !self.credit.low.is_empty() {
            self.raise_busy();
        }
    }

    /// Handles what the completion queue has. Returns whether a frame was delivered.
    #[inline]
    fn take_completions(&mut self, sink: &mut impl Sink) -> bool {
        let taken = self.completions.take();
        if taken > 0 {
            return self.complete_all(taken, sink);
        }
        // There is nothing better to do.
        if self.recv.waiting() > 0 {
            self.recv.repost();
        }
        self.endpoints.is_any_draining() && self.destroy_drained(sink)
    }

    /// Destroys the queue pairs that have drained: the completion queue is empty. Returns whether a
    /// frame was delivered that has waited for that.
    #[cold]
    fn destroy_drained(&mut self, sink: &mut impl Sink) -> bool {
        let Self { endpoints, rings, polls, .. } = self;
        let destroyed = endpoints.destroy_drained(*polls, |control| rings.put_control(control));
        destroyed.into_iter().fold(false, |moved, at| self.on_drained(at as usize, sink) | moved)
    }

    /// Handles so many completions, and those after them. Out of line, so that a poll that finds
    /// nothing does not save its registers.
    #[inline(never)]
    fn complete_all(&mut self, mut taken: usize, sink: &mut impl Sink) -> bool {
        let mut moved = false;
        for left in (0..MAX_BATCHES).rev() {
            for at in 0..taken {
                let completion = self.completions.batch[at];
                moved |= self.complete(&completion, sink);
            }
            if self.recv.waiting() >= BATCH {
                self.recv.repost();
            }
            if taken < BATCH {
                moved |= self.endpoints.is_any_draining() && self.destroy_drained(sink);
                break;
            }
            // Completions that are taken off the queue must be handled in this call.
            if left > 0 {
                taken = self.completions.take();
            }
        }
        if !self.datagrams.due.is_empty() {
            self.send_acknowledgements();
        }
        moved
    }

    /// Handles one completion. Returns whether a frame was delivered.
    #[inline]
    fn complete(&mut self, completion: &Wc, sink: &mut impl Sink) -> bool {
        match completion.wr_id & wr_id::MASK {
            wr_id::RECV => {
                let slot = completion.wr_id as u32;
                let moved = completion.status == wc_status::SUCCESS
                    && self.on_message(completion, slot, sink);
                self.recv.put(slot);
                if completion.status != wc_status::SUCCESS {
                    self.wc_error(completion);
                }
                moved
            }
            wr_id::SEND => {
                self.on_sent(completion);
                false
            }
            wr_id::UD_RECV => self.on_datagram(completion, sink),
            _ => {
                self.wireup.ud.send_done(completion);
                if !self.datagrams.stalled.is_empty() {
                    self.pump_stalled();
                }
                false
            }
        }
    }

    /// Handles the completion of a signaled request, and of those before it.
    #[inline]
    fn on_sent(&mut self, completion: &Wc) {
        if completion.status != wc_status::SUCCESS {
            return self.wc_error(completion);
        }
        let Some(at) = self.endpoints.served_by(completion.qp_num) else {
            return self.dynamic_done(completion);
        };
        let Some(signal) = self.endpoints[at].tx.complete() else { return };
        if signal.ends_replay {
            let Self { endpoints, send, .. } = self;
            endpoints[at].flow.end_replay(|slot| send.put(slot));
        }
        if let Some(slot) = signal.slot {
            self.send.control.put(slot);
        }
        if signal.piece != 0 {
            self.rma_piece_done(at, signal.piece as usize);
        }
    }

    /// Handles the completion of a request that failed. A completion of a draining queue pair has
    /// no effect.
    #[cold]
    fn wc_error(&mut self, completion: &Wc) {
        let Some(at) = self.endpoints.served_by(completion.qp_num) else {
            return self.dynamic_done(completion);
        };
        let why = match completion.status {
            wc_status::WR_FLUSH_ERR => "the other side closed it".to_owned(),
            wc_status::RETRY_EXC_ERR => "the other side does not acknowledge".to_owned(),
            status => format!(
                "a request failed with status {status} (vendor's code {:#x})",
                completion.vendor_err
            ),
        };
        self.break_connection(at, &why);
    }
}
