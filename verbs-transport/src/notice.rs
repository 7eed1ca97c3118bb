//! Notices: a process tells a peer that it has given it up, and why. The peer would otherwise wait
//! for its answers, or repeat datagrams, for ever.
//!
//! A notice is repeated until the peer confirms it, for as long as a connection may take to come
//! back. Later ones answer what the peer sends. [`NoticeMsg::decode`] takes any bytes, never
//! panics, and accepts only a datagram with a valid proof, as wire-up messages have.
//! `docs/verbs.md` draws the bytes.

use std::time::Instant;

use fabric::Peer;

use crate::device::mtu_bytes;
use crate::endpoint::connection::RETRY_MIN;
use crate::transport::VerbsTransport;
use crate::wireup_msg::{self, PROOF};

const MAGIC: [u8; 4] = *b"vrb\x04";
const HEADER: usize = 16;
/// Most bytes of a reason. With the rest they fit into all packets but those of 256 bytes.
const MAX_REASON: usize = 400;

/// The datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NoticeMsg {
    /// The receiver is to confirm that it has received it.
    pub(crate) wants_reply: bool,
    /// Rank of the sender.
    pub(crate) from: u32,
    /// Rank of the receiver, which was given up.
    pub(crate) to: u32,
    pub(crate) why: String,
}

impl NoticeMsg {
    /// Returns the bytes to send, with the proof that the sender knows the secret. The reason is
    /// cut if they are more than `packet`.
    pub(crate) fn encode(&self, secret: &[u8; 32], packet: u16) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for word in [u32::from(self.wants_reply), self.from, self.to] {
            out.extend_from_slice(&word.to_le_bytes());
        }
        let longest = MAX_REASON.min(usize::from(packet) - HEADER - PROOF);
        out.extend_from_slice(&self.why.as_bytes()[..self.why.floor_char_boundary(longest)]);
        out.extend_from_slice(&wireup_msg::proof(&out, secret));
        out
    }

    /// Decodes a datagram; `None` if it is none or does not come from this job.
    pub(crate) fn decode(bytes: &[u8], secret: &[u8; 32]) -> Option<NoticeMsg> {
        if !bytes.starts_with(&MAGIC) {
            return None;
        }
        let (header, why) = wireup_msg::proven(bytes, secret)?.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        if word(4) > 1 || why.len() > MAX_REASON {
            return None;
        }
        let why = std::str::from_utf8(why).ok()?.to_owned();
        Some(NoticeMsg { wants_reply: word(4) == 1, from: word(8), to: word(12), why })
    }
}

impl VerbsTransport {
    /// Tells the peer of endpoint `at`, which has failed, and repeats that.
    pub(crate) fn begin_notice(&mut self, at: usize) {
        let now = Instant::now();
        let conn = &mut self.endpoints[at].conn;
        conn.notice_until = Some(now + self.config.settings.reconnect_timeout);
        (conn.retries, conn.retry_at) = (0, now);
        self.repeat_notice(at, now);
    }

    /// Sends the notice of a failed endpoint again, if its peer may not have it.
    pub(crate) fn repeat_notice(&mut self, at: usize, now: Instant) {
        let conn = &self.endpoints[at].conn;
        if self.adapter.is_gone || conn.notice_until.is_none_or(|until| until <= now) {
            return;
        }
        self.send_notice(at, true);
        let conn = &mut self.endpoints[at].conn;
        conn.requested();
        self.wireup.add_pending(at, conn);
    }

    /// Answers what a peer sends that was given up: it does not know that. Not at every packet.
    #[cold]
    pub(crate) fn answer_failed(&mut self, at: usize) {
        let now = Instant::now();
        let conn = &mut self.endpoints[at].conn;
        if conn.notice_until.is_some() && conn.retry_at <= now {
            conn.retry_at = now + RETRY_MIN;
            self.send_notice(at, false);
        }
    }

    /// Handles a notice: there is no more communication with its sender.
    #[cold]
    pub(crate) fn on_notice(&mut self, notice: &NoticeMsg) {
        if notice.to != self.endpoints.me().0 {
            return;
        }
        let Ok(at) = self.endpoints.get_or_create(Peer(notice.from)) else { return };
        let conn = &mut self.endpoints[at].conn;
        // The peer knows it: answers are enough.
        conn.notice_until = conn.notice_until.map(|until| until.min(Instant::now()));
        self.fail_silently(at, format!("it has given this process up: {}", notice.why));
        if notice.wants_reply {
            self.send_notice(at, false);
        }
    }

    /// Sends a notice. One that cannot be sent counts as lost on the way.
    fn send_notice(&mut self, at: usize, wants_reply: bool) {
        let Self { endpoints, wireup, adapter, config, .. } = self;
        let me = endpoints.me();
        let endpoint = &mut endpoints[at];
        let (Some(why), Some(addr)) = (&endpoint.failed, endpoint.conn.addr) else { return };
        let notice = NoticeMsg { wants_reply, from: me.0, to: endpoint.peer.0, why: why.clone() };
        let ranks = [me, endpoint.peer];
        if let Some(ah) = endpoint.conn.address_handle(adapter, &config.settings, ranks) {
            let packet = mtu_bytes(wireup.ud.mtu(&adapter.port));
            let bytes = notice.encode(&wireup.secret, packet);
            let _ = wireup.ud.send(ah, addr.ud_qpn, bytes.len(), |slot| {
                slot.copy_from_slice(&bytes);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn notice(why: &str) -> NoticeMsg {
        NoticeMsg { wants_reply: true, from: 3, to: 9, why: why.to_owned() }
    }

    #[test]
    fn a_notice_survives_the_wire_and_nothing_else_is_accepted() {
        let bytes = notice("it is gone").encode(&SECRET, 4096);
        assert_eq!(NoticeMsg::decode(&bytes, &SECRET), Some(notice("it is gone")));
        assert_eq!(NoticeMsg::decode(&bytes, &[8; 32]), None);
        for at in 0..bytes.len() {
            let mut forged = bytes.clone();
            forged[at] ^= 1;
            assert_eq!(NoticeMsg::decode(&forged, &SECRET), None, "byte {at} may be changed");
            assert_eq!(NoticeMsg::decode(&bytes[..at], &SECRET), None);
        }
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let why = "ü".repeat(MAX_REASON);
        for (packet, len) in [(4096, MAX_REASON - 1), (512, MAX_REASON - 1), (256, 207)] {
            let bytes = notice(&format!("a{why}")).encode(&SECRET, packet);
            assert!(bytes.len() <= usize::from(packet));
            let cut = NoticeMsg::decode(&bytes, &SECRET);
            assert_eq!(cut.map(|notice| notice.why.len()), Some(len));
        }
    }
}
