//! Notices: a member of a collective that waits asks the member that it waits for about its call,
//! and that one answers if their calls differ or its own has failed.
//!
//! The engine carries notices; the executor of collectives judges them. A notice is a control
//! frame: it is not matched, needs no credit, and is dropped where it finds no collective. A peer
//! that has failed gets none.

use fabric::{Header, HybridGet, Kind, Peer};

use crate::engine::Engine;
use crate::fault::CollectiveCall;
use crate::message::Notice;

impl Engine {
    /// Sends a notice.
    #[cold]
    pub fn notify<T: HybridGet>(&mut self, endpoint: &mut T, to: Peer, notice: &Notice) {
        if to == self.me || self.peers.of(to).failure.is_some() {
            return;
        }
        let round = (notice.round.unwrap_or(0) << Header::ROUND_AT) as u8;
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let header = Header {
            flags: flag(notice.is_answer, Header::ANSWER)
                | flag(notice.round.is_some(), Header::IN_SEGMENT | round),
            collective: notice.call.kind.into(),
            source: notice.source,
            tag: notice.sequence,
            root: notice.call.root,
            context: notice.context,
            length: notice.call.bytes.unwrap_or(u64::MAX),
            ..Header::new(Kind::Notice)
        };
        self.reply(to, header);
        self.settle(endpoint);
    }

    /// Handles a `Notice` frame.
    pub(crate) fn notice_arrived(&mut self, from: Peer, header: &Header) {
        let notice = Notice {
            context: header.context,
            source: header.source,
            sequence: header.tag,
            call: CollectiveCall {
                kind: header.collective as u8,
                root: header.root,
                bytes: Some(header.length).filter(|&bytes| bytes != u64::MAX),
            },
            is_answer: header.flags & Header::ANSWER != 0,
            round: (header.flags & Header::IN_SEGMENT != 0)
                .then_some(u64::from(header.flags >> Header::ROUND_AT)),
        };
        self.notices.push((from, notice));
        self.has_incidents = true;
    }

    /// Takes the notices that have arrived, with their senders.
    #[cold]
    pub fn take_notices(&mut self) -> Vec<(Peer, Notice)> {
        self.has_incidents = !self.failed_peers.is_empty();
        std::mem::take(&mut self.notices)
    }

    /// Returns true if notices have arrived that were not taken.
    pub fn has_notices(&self) -> bool {
        !self.notices.is_empty()
    }

    /// Returns true if notices have arrived, or a peer has failed.
    #[inline]
    pub fn has_incidents(&self) -> bool {
        self.has_incidents
    }
}
