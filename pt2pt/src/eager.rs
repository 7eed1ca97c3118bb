//! An envelope arrives with its data, or has to be kept for a receive to come.

use fabric::{Body, Header, Peer};

use crate::credit::is_credited;
use crate::engine::Engine;
use crate::fault::LateReady;
use crate::message::Head;
use crate::unexpected::{Arrived, Content, Data};

impl Engine {
    /// An `Eager` frame.
    #[inline(always)]
    pub(crate) fn eager_arrived(
        &mut self,
        from: Peer,
        header: &Header,
        data: &(impl Body + ?Sized),
    ) {
        let head = Head::of(header, data.len() as u64);
        match self.posted.take(&head.key) {
            Some(slot) => {
                self.store(self.requests.id(slot), from, &head, data);
                self.count_stored(from, head.bytes);
            }
            None => {
                let sequence = self.count_arrival(from);
                // A message that was cut is none.
                let Ok(data) = data.wait_all() else { return };
                self.park(from, sequence, header, head.bytes, Content::Eager(Data::copy(data)));
            }
        }
    }

    /// An `EagerSync` frame.
    pub(crate) fn eager_sync_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some((send, data)) = body.split_first_chunk() else { return };
        let send = u64::from_le_bytes(*send);
        let head = Head::of(header, data.len() as u64);
        match self.posted.take(&head.key) {
            Some(slot) => {
                self.store(self.requests.id(slot), from, &head, data);
                self.count_stored(from, head.bytes);
                self.send_done(from, send);
            }
            None => {
                let sequence = self.count_arrival(from);
                self.park(
                    from,
                    sequence,
                    header,
                    head.bytes,
                    Content::EagerSync(send, Data::copy(data)),
                );
            }
        }
    }

    /// The number of an envelope that has just come.
    #[inline]
    pub(crate) fn count_arrival(&mut self, from: Peer) -> u64 {
        let peer = self.peers.of(from);
        peer.arrived += 1;
        peer.arrived - 1
    }

    /// Keeps a message that no receive was posted for. An envelope that names a
    /// wildcard is not from a sane peer and is dropped.
    #[inline(never)]
    pub(crate) fn park(
        &mut self,
        from: Peer,
        sequence: u64,
        header: &Header,
        bytes: u64,
        content: Content,
    ) {
        let head = Head::of(header, bytes);
        if header.flags & Header::READY != 0 {
            self.note_late_ready(&head);
        }
        if head.key.is_exact() {
            let Head { key, bytes, part_of } = head;
            let is_credited = is_credited(header);
            self.unexpected
                .push(key, Arrived { from, part_of, bytes, sequence, is_credited, content });
        }
    }

    /// A ready send found no receive: an error of the program, reported once.
    #[cold]
    pub(crate) fn note_late_ready(&mut self, head: &Head) {
        let late =
            LateReady { source: head.key.source, tag: head.key.tag, context: head.key.context };
        self.late_ready.get_or_insert(late);
    }
}
