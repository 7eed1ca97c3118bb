//! A collective segment for which the system refuses something.

use std::sync::Arc;

use fabric::coll_segment::Wakes;
use fabric::{CollSegment, UserBuf};

/// Like the lease in it, but for what is refused.
#[derive(Debug)]
pub(super) struct Refusing {
    pub(super) lease: Arc<dyn CollSegment>,
    /// Each get.
    pub(super) gets: bool,
    /// Memory for long slots: to all members.
    pub(super) long_slots: bool,
}

impl CollSegment for Refusing {
    fn next_round(&self) -> u64 {
        self.lease.next_round()
    }

    fn begun(&self) -> u64 {
        self.lease.begun()
    }

    fn is_ready(&self, round: u64) -> bool {
        self.lease.is_ready(round)
    }

    fn slots(&self, round: u64) -> UserBuf {
        self.lease.slots(round)
    }

    fn take_long_slots(&self) -> bool {
        !self.long_slots && self.lease.take_long_slots()
    }

    fn write(&self, round: u64, to: UserBuf, from: UserBuf) {
        self.lease.write(round, to, from);
    }

    fn arrive(&self, round: u64, signature: u64, wakes: Wakes) -> bool {
        self.lease.arrive(round, signature, wakes)
    }

    fn agrees(&self, round: u64, member: u32, signature: u64) -> Option<bool> {
        self.lease.agrees(round, member, signature)
    }

    fn signature_of(&self, round: u64, member: u32) -> Option<u64> {
        self.lease.signature_of(round, member)
    }

    fn own_signature(&self, back: u64) -> Option<u64> {
        self.lease.own_signature(back)
    }

    fn mark_reported(&self, round: u64) {
        self.lease.mark_reported(round);
    }

    fn is_reported(&self, round: u64) -> bool {
        self.lease.is_reported(round)
    }

    fn complete(&self, round: u64) {
        self.lease.complete(round);
    }

    fn is_complete(&self, round: u64) -> bool {
        self.lease.is_complete(round)
    }

    fn mismatch(&self, round: u64, signature: u64) -> Option<u32> {
        self.lease.mismatch(round, signature)
    }

    fn leave(&self, round: u64) {
        self.lease.leave(round);
    }

    fn publish(&self, round: u64, word: u64) {
        self.lease.publish(round, word);
    }

    fn published(&self, round: u64, member: u32) -> u64 {
        self.lease.published(round, member)
    }

    fn has_get(&self) -> bool {
        self.lease.has_get()
    }

    fn get(&self, member: u32, address: u64, into: UserBuf) -> bool {
        !self.gets && self.lease.get(member, address, into)
    }

    fn refuse_gets(&self) {
        self.lease.refuse_gets();
    }
}
