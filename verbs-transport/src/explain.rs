//! Describes the state of a transport in lines for a person: what a process waits for that does
//! not come to rest. Changes nothing.

use std::fmt::{self, Display, Formatter};
use std::time::Instant;

use crate::endpoint::Endpoint;
use crate::frame::control;
use crate::rails::Rails;
use crate::transport::VerbsTransport;

impl VerbsTransport {
    /// Returns the state: a line of the process, and one for each peer.
    pub fn explain(&self) -> String {
        let mut out = format!(
            "verbs: poll {}, {} datagrams, {} connections, {} queue pairs drain, timers in{}\n",
            self.polls,
            self.datagrams.sent,
            self.endpoints.connected(),
            self.endpoints.draining(),
            self.explain_timers(),
        );
        let conditions = [
            (self.adapter.is_down, "port down"),
            (self.adapter.is_gone, "device gone"),
            (self.recv.is_refused() || self.wireup.ud.is_refused(), "receives refused"),
            (!self.wireup.ud.has_space(), "no space for datagrams"),
            (!self.send.long.has_free(), "no send slots"),
            (self.endpoints.awaits_last_receive(), "awaits a last receive"),
        ];
        for (_, what) in conditions.iter().filter(|(holds, _)| *holds) {
            out += &format!("  {what}\n");
        }
        for at in 0..self.endpoints.len() {
            out += &format!("  {}", self.endpoints[at]);
            if self.endpoints.is_draining(at) {
                out += ", drains";
            }
            out.push('\n');
        }
        out
    }

    /// Returns the milliseconds to each kind of timer that is set.
    fn explain_timers(&self) -> String {
        let now = Instant::now();
        let timers = [
            ("wire-up", self.wireup.next_retry()),
            ("links", self.datagrams.next_timer()),
            ("drain", self.endpoints.next_drain_end()),
            ("rings", self.next_ring_poll()),
        ];
        let set = timers.into_iter().filter_map(|(what, at)| Some((what, at?)));
        let left = |at: Instant| at.saturating_duration_since(now).as_millis();
        set.map(|(what, at)| format!(" {} ms ({what})", left(at))).collect()
    }
}

impl Rails {
    /// Returns the state of each port, see [`VerbsTransport::explain`].
    pub fn explain(&self) -> String {
        self.transports().map(VerbsTransport::explain).collect()
    }
}

impl Display for Endpoint {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let (conn, flow, rma) = (&self.conn, &self.flow, &self.rma);
        write!(
            out,
            "peer {}: {:?} epoch {}, {} requests, {} breaks, {} refusals, wanted {}, address {}; \
             sent {} acked {} window {} unacked {}, received {} told {} window {}; requests in \
             queue {}, \
             operations {} {:?}; rings {:?} {:?}",
            self.peer.0,
            conn.handshake.phase,
            conn.handshake.epoch,
            conn.retries,
            conn.breaks,
            conn.refusals,
            conn.is_wanted,
            conn.addr.map_or_else(|| "unknown".into(), |addr| addr.port.to_string()),
            flow.tx_seq,
            flow.acked,
            flow.window,
            flow.unacked.len(),
            flow.rx_seq,
            flow.advertised,
            flow.share,
            self.tx.used,
            rma.ops.len(),
            rma.path,
            self.eager_rdma.rx,
            self.eager_rdma.tx.is_open(),
        )?;
        let conditions = [
            (flow.no_credit, "no credit"),
            (flow.due.has(control::CREDIT), "credit due"),
            (flow.is_lowering, "lowers"),
            (flow.credit_requested, "credit requested"),
            (flow.is_replaying, "replays"),
        ];
        for (_, what) in conditions.iter().filter(|(holds, _)| *holds) {
            write!(out, ", {what}")?;
        }
        if let Some(link) = &self.link {
            write!(
                out,
                "; link: {} messages, acknowledgement {:?}, received stream {:?}, sent {:?}",
                link.messages,
                link.ack,
                link.rx.ack(),
                link.tx,
            )?;
        }
        match &self.failed {
            Some(why) => write!(out, "; failed: {why}"),
            None => Ok(()),
        }
    }
}
