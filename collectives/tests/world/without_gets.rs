//! A collective segment whose member may not read the memory of the others.

use std::sync::Arc;

use fabric::coll_segment::Wakes;
use fabric::{CollSegment, UserBuf};

/// Like the lease in it, but each get is refused.
#[derive(Debug)]
pub(super) struct WithoutGets(pub(super) Arc<dyn CollSegment>);

impl CollSegment for WithoutGets {
    fn next_round(&self) -> u64 {
        self.0.next_round()
    }

    fn begun(&self) -> u64 {
        self.0.begun()
    }

    fn is_ready(&self, round: u64) -> bool {
        self.0.is_ready(round)
    }

    fn slots(&self, round: u64) -> UserBuf {
        self.0.slots(round)
    }

    fn arrive(&self, round: u64, signature: u64, wakes: Wakes) -> bool {
        self.0.arrive(round, signature, wakes)
    }

    fn agrees(&self, round: u64, member: u32, signature: u64) -> Option<bool> {
        self.0.agrees(round, member, signature)
    }

    fn signature_of(&self, round: u64, member: u32) -> Option<u64> {
        self.0.signature_of(round, member)
    }

    fn own_signature(&self, back: u64) -> Option<u64> {
        self.0.own_signature(back)
    }

    fn mark_reported(&self, round: u64) {
        self.0.mark_reported(round);
    }

    fn is_reported(&self, round: u64) -> bool {
        self.0.is_reported(round)
    }

    fn complete(&self, round: u64) {
        self.0.complete(round);
    }

    fn is_complete(&self, round: u64) -> bool {
        self.0.is_complete(round)
    }

    fn mismatch(&self, round: u64, signature: u64) -> Option<u32> {
        self.0.mismatch(round, signature)
    }

    fn leave(&self, round: u64) {
        self.0.leave(round);
    }

    fn publish(&self, round: u64, word: u64) {
        self.0.publish(round, word);
    }

    fn published(&self, round: u64, member: u32) -> u64 {
        self.0.published(round, member)
    }

    fn has_get(&self) -> bool {
        self.0.has_get()
    }

    fn get(&self, _: u32, _: u64, _: UserBuf) -> bool {
        false
    }

    fn refuse_gets(&self) {
        self.0.refuse_gets();
    }
}
