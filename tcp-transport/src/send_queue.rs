//! The stream of records to one peer: what is to be sent, and what is kept until the peer has
//! acknowledged it.
//!
//! Positions count the bytes of the stream from its first byte on, over all connections.
//! Invariants: `base <= sent <= end`. Bytes from `base` on are retained, bytes from `sent` on are
//! not written to the present connection. A new connection begins at the position that the peer
//! has received ([`SendQueue::resume`]).

use std::collections::VecDeque;

use fabric::UserBuf;

use crate::sys::{MAX_PARTS, Part};
use crate::wire::{Kind, Record};

/// Bytes of the smallest and the largest chunk, unless a record is longer.
const CHUNK: std::ops::RangeInclusive<usize> = (2 << 10)..=(160 << 10);

/// Bytes of a chunk between data of the user: for the headers of records.
const HEADS: usize = 256;

/// Most chunks that are kept for reuse.
const MAX_SPARES: usize = 8;

/// Bytes of the stream.
enum Item {
    /// Records in memory of ours: `bytes[start..end]`.
    Own { bytes: Box<[u8]>, start: usize, end: usize },
    /// Data of the user; `key` names the region, if it is one.
    User { memory: UserBuf, key: Option<u64> },
}

impl Item {
    fn len(&self) -> usize {
        match self {
            Item::Own { start, end, .. } => end - start,
            Item::User { memory, .. } => memory.len(),
        }
    }

    fn part(&self, from: usize) -> Part<'_> {
        match self {
            Item::Own { bytes, start, end } => Part::Own(&bytes[start + from..*end]),
            Item::User { memory, .. } => Part::User(memory.slice(from, memory.len() - from)),
        }
    }

    /// Drops the first `len` bytes.
    fn advance(&mut self, len: usize) {
        match self {
            Item::Own { start, .. } => *start += len,
            Item::User { memory, .. } => *memory = memory.slice(len, memory.len() - len),
        }
    }
}

/// An acknowledgement of bytes that were never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadPosition;

/// The stream of records to one peer.
#[derive(Default)]
pub(crate) struct SendQueue {
    items: VecDeque<Item>,
    base: u64,
    sent: u64,
    end: u64,
    /// End of the last record that the peer must get.
    important: u64,
    /// The item at `sent`, and the bytes of it before that.
    cursor: (usize, usize),
    /// Bytes of our memory that are retained.
    owned: usize,
    /// Chunks of the largest size that may be used again: a new one costs zeroing.
    spares: Vec<Box<[u8]>>,
}

impl SendQueue {
    /// Returns the bytes of our memory that are retained.
    #[inline]
    pub(crate) fn owned(&self) -> usize {
        self.owned
    }

    /// Returns the number of bytes that the peer has not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.end - self.base
    }

    /// Returns the position after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns true when there are bytes to write.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.sent < self.end
    }

    /// Returns the number of bytes to write.
    pub(crate) fn unsent(&self) -> u64 {
        self.end - self.sent
    }

    /// Returns true while the peer may lack a record that it must get.
    pub(crate) fn is_pending(&self) -> bool {
        self.important > self.base
    }

    /// Appends a record of `len` bytes after the header, and returns the place of these bytes.
    #[inline]
    pub(crate) fn append(&mut self, kind: Kind, len: usize, received: u64) -> &mut [u8] {
        let total = Record::SIZE + len;
        let fits = matches!(self.items.back(),
            Some(Item::Own { bytes, end, .. }) if bytes.len() - end >= total);
        if !fits {
            self.add_chunk(total);
        }
        (self.owned, self.end) = (self.owned + total, self.end + total as u64);
        if !matches!(kind, Kind::Ack | Kind::Bye | Kind::Agree) {
            self.important = self.end;
        }
        let Some(Item::Own { bytes, end, .. }) = self.items.back_mut() else {
            unreachable!("a chunk with space is last")
        };
        let at = *end;
        *end += total;
        bytes[at..at + Record::SIZE].copy_from_slice(&Record { kind, len, received }.encode());
        &mut bytes[at + Record::SIZE..at + total]
    }

    /// Makes a chunk for `total` bytes. Peers that get little have small chunks.
    #[cold]
    fn add_chunk(&mut self, total: usize) {
        let usual = match self.items.back() {
            Some(Item::User { .. }) => HEADS,
            _ => (self.end as usize / 4).clamp(*CHUNK.start(), *CHUNK.end()),
        };
        let size = total.max(usual);
        let spare = if size == *CHUNK.end() { self.spares.pop() } else { None };
        let bytes = spare.unwrap_or_else(|| vec![0; size].into_boxed_slice());
        self.items.push_back(Item::Own { bytes, start: 0, end: 0 });
    }

    /// Appends a record whose data is the user's: `head` follows the header, then `memory`.
    pub(crate) fn append_user(
        &mut self,
        kind: Kind,
        head: &[u8],
        (memory, key): (UserBuf, Option<u64>),
        received: u64,
    ) {
        let place = self.append(kind, head.len(), received);
        place.copy_from_slice(head);
        let len = memory.len();
        if len == 0 {
            return;
        }
        self.extend_last(len, head.len());
        self.items.push_back(Item::User { memory, key });
        self.end += len as u64;
        self.important = self.end;
    }

    /// Adds `more` to the length in the header of the last record, which has `tail` bytes.
    fn extend_last(&mut self, more: usize, tail: usize) {
        if let Some(Item::Own { bytes, end, .. }) = self.items.back_mut() {
            let at = *end - tail - Record::SIZE;
            bytes[at..at + 4].copy_from_slice(&((tail + more) as u32).to_le_bytes());
        }
    }

    /// Lists the runs that are to be written next; returns their number.
    pub(crate) fn parts<'a>(&'a self, list: &mut [Part<'a>; MAX_PARTS]) -> usize {
        let (at, mut from) = self.cursor;
        let mut count = 0;
        for item in self.items.iter().skip(at) {
            if count == MAX_PARTS {
                break;
            }
            if item.len() > from {
                list[count] = item.part(from);
                count += 1;
            }
            from = 0;
        }
        count
    }

    /// Records that so many bytes were written.
    pub(crate) fn wrote(&mut self, mut bytes: usize) {
        self.sent += bytes as u64;
        let (mut at, mut from) = self.cursor;
        while bytes > 0 {
            let left = self.items[at].len() - from;
            if bytes < left || at + 1 == self.items.len() {
                from += bytes;
                break;
            }
            (bytes, at, from) = (bytes - left, at + 1, 0);
        }
        self.cursor = (at, from);
    }

    /// Records that the peer has received the stream up to `position`, and drops that.
    #[inline]
    pub(crate) fn ack(&mut self, position: u64) -> Result<(), BadPosition> {
        if position > self.sent {
            return Err(BadPosition);
        }
        if position > self.base {
            self.drop_until(position);
        }
        Ok(())
    }

    fn drop_until(&mut self, position: u64) {
        let mut left = (position - self.base) as usize;
        self.base = position;
        while left > 0 {
            let Some(front) = self.items.front_mut() else { break };
            let dropped = front.len().min(left);
            let is_own = matches!(front, Item::Own { .. });
            front.advance(dropped);
            left -= dropped;
            self.owned -= if is_own { dropped } else { 0 };
            if self.cursor.0 == 0 {
                self.cursor.1 -= dropped;
            }
            if front.len() > 0 || self.items.len() == 1 {
                break;
            }
            if let Some(Item::Own { bytes, .. }) = self.items.pop_front()
                && bytes.len() == *CHUNK.end()
                && self.spares.len() < MAX_SPARES
            {
                self.spares.push(bytes);
            }
            // A cursor in front of the next item may still be at the end of this one.
            self.cursor.0 = self.cursor.0.saturating_sub(1);
        }
        if self.base == self.end
            && let Some(Item::Own { start, end, .. }) = self.items.front_mut()
        {
            // All is acknowledged: the memory begins anew, while it is in the cache.
            (*start, *end, self.cursor) = (0, 0, (0, 0));
        }
    }

    /// Begins a connection whose peer has received the stream up to `position`.
    pub(crate) fn resume(&mut self, position: u64) -> Result<(), BadPosition> {
        if position < self.base {
            return Err(BadPosition);
        }
        self.ack(position)?;
        (self.sent, self.cursor) = (position, (0, 0));
        Ok(())
    }

    /// Copies the rest of a region that ends, if it is still in the stream.
    pub(crate) fn detach(&mut self, ended: u64) {
        for item in &mut self.items {
            if let Item::User { memory, key: Some(key) } = item
                && *key == ended
            {
                let mut bytes = vec![0; memory.len()].into_boxed_slice();
                memory.read(0, &mut bytes);
                let end = bytes.len();
                self.owned += end;
                *item = Item::Own { bytes, start: 0, end };
            }
        }
    }

    /// Frees the memory of a stream that is acknowledged.
    pub(crate) fn shrink(&mut self) {
        if self.base == self.end {
            (self.items, self.cursor, self.spares) = (VecDeque::new(), (0, 0), Vec::new());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns up to `most` unsent bytes, and marks them as written.
    fn write(queue: &mut SendQueue, most: usize) -> Vec<u8> {
        let mut list = [Part::Own(&[]); MAX_PARTS];
        let count = queue.parts(&mut list);
        let mut bytes: Vec<u8> = Vec::new();
        for part in &list[..count] {
            match part {
                Part::Own(own) => bytes.extend_from_slice(own),
                Part::User(memory) => {
                    let mut own = vec![0; memory.len()];
                    memory.read(0, &mut own);
                    bytes.extend(own);
                }
            }
        }
        bytes.truncate(most);
        queue.wrote(bytes.len());
        bytes
    }

    #[test]
    fn a_stream_goes_on_where_the_peer_is() {
        let mut queue = SendQueue::default();
        let mut stream = Vec::new();
        let mut received = 0;
        for round in 0..2000_usize {
            let len = (round * 131) % 700;
            queue.append(Kind::Frame, len, 0).fill(round as u8);
            stream.extend(Record { kind: Kind::Frame, len, received: 0 }.encode());
            stream.extend(vec![round as u8; len]);
            let wrote = write(&mut queue, 1 + round * 37 % 900);
            let from = (queue.sent as usize) - wrote.len();
            assert_eq!(wrote, stream[from..from + wrote.len()]);
            // The peer acknowledges a part, and now and then the connection breaks.
            received = (received + round as u64 * 17 % 500).min(queue.sent);
            queue.ack(received).unwrap();
            if round % 7 == 0 {
                let position = received + (queue.sent - received) / 2;
                queue.resume(position).unwrap();
                received = position;
            }
            assert_eq!(queue.owned as u64, queue.end - queue.base);
        }
        while queue.has_unsent() {
            let from = queue.sent as usize;
            let wrote = write(&mut queue, 1000);
            assert_eq!(wrote, stream[from..from + wrote.len()]);
        }
        assert!(queue.is_pending());
        queue.ack(queue.end).unwrap();
        assert!(!queue.is_pending() && queue.owned == 0);
        assert_eq!(queue.ack(queue.end + 1), Err(BadPosition));
        assert_eq!(queue.resume(queue.end - 1), Err(BadPosition));
    }

    #[test]
    fn acknowledgements_alone_keep_nothing_pending() {
        let mut queue = SendQueue::default();
        queue.append(Kind::Ack, 0, 5);
        assert!(queue.has_unsent() && !queue.is_pending());
        queue.append(Kind::Frame, 40, 5);
        assert!(queue.is_pending());
        write(&mut queue, 1000);
        assert!(queue.is_pending());
        queue.ack(queue.end).unwrap();
        assert!(!queue.is_pending());
    }
}
