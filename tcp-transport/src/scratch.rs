//! The memory that links are read into. Records are handled where they lie.
//!
//! States: empty; or with the bytes of one peer, its owner: the start of a record that has not
//! arrived whole. The bytes stay while the owner is read again. Before another peer is read they
//! move to the owner's `carry`.
//!
//! Invariant: `start <= end`, and both are inside `bytes`.

use crate::peer::PeerState;

/// Most bytes of a read, which stay in the cache.
pub(crate) const READ_BYTES: usize = 128 << 10;
/// Bytes of the memory: after the longest record there is space for a read.
const BYTES: usize = 512 << 10;

pub(crate) struct Scratch {
    memory: Box<[u8]>,
    owner: Option<usize>,
    start: usize,
    end: usize,
}

impl Scratch {
    /// Bytes of the longest record that must arrive whole.
    pub(crate) const MAX_RECORD: usize = BYTES - READ_BYTES;

    pub(crate) fn new() -> Scratch {
        Scratch { memory: vec![0; BYTES].into_boxed_slice(), owner: None, start: 0, end: 0 }
    }

    /// Prepares a read of the peer: its earlier bytes are in front of the space.
    #[inline]
    pub(crate) fn claim(&mut self, at: usize, peers: &mut [PeerState]) {
        let is_new = !peers[at].rx.carry.is_empty();
        if self.owner.is_some_and(|owner| owner != at) || is_new {
            self.change_owner(at, peers);
        } else if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end + READ_BYTES > BYTES {
            self.memory.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        self.owner = Some(at);
    }

    #[cold]
    fn change_owner(&mut self, at: usize, peers: &mut [PeerState]) {
        if let Some(owner) = self.owner.take() {
            peers[owner].rx.carry.extend_from_slice(&self.memory[self.start..self.end]);
        }
        let carry = &mut peers[at].rx.carry;
        self.memory[..carry.len()].copy_from_slice(carry);
        (self.start, self.end) = (0, carry.len());
        carry.clear();
    }

    /// Returns the space for a read of so many bytes.
    #[inline]
    pub(crate) fn space(&mut self, len: usize) -> &mut [u8] {
        &mut self.memory[self.end..self.end + len]
    }

    /// Records that so many bytes were read.
    #[inline]
    pub(crate) fn received(&mut self, len: usize) {
        self.end += len;
    }

    /// Returns the bytes that were not handled.
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }

    /// Records that so many bytes were handled.
    #[inline]
    pub(crate) fn taken(&mut self, len: usize) {
        self.start += len;
    }

    /// Drops the bytes of a peer that has failed.
    pub(crate) fn forget(&mut self, at: usize) {
        if self.owner == Some(at) {
            (self.owner, self.start, self.end) = (None, 0, 0);
        }
    }
}
