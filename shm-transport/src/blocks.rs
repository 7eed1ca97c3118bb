//! The allocator of external bodies: one range of shared memory, with two paths by which blocks
//! return.
//!
//! A block returns with the peer's next message in it (`recycle`), or once the peer has read past
//! its frame (`bounce`). [`BodyBlocks::reserve`] tries them in the order of the [`Method`]. The
//! range is mapped when a body first needs it. Without memory for it, bodies go in the ring.

use fabric::Peer;

use crate::body::{BodyMemory, BodySlot, Descriptor};
use crate::bounce::{BouncePool, Space};
use crate::method::Method;
use crate::outbound::{Outbound, outbound_to};
use crate::recycle::{RecycledBlock, RecycledBlocks};
use crate::segment::Segment;

/// The blocks that this rank can send bodies in.
#[derive(Debug)]
pub(crate) struct BodyBlocks {
    /// This rank's pool, once a body has needed it; `Some(None)` if it could not be mapped.
    pool: Option<Option<BouncePool>>,
    recycled: RecycledBlocks,
}

/// The result of a reservation.
#[derive(Debug)]
pub(crate) enum Reservation<'a> {
    /// Space for the body. Its frame must be published next.
    Slot(BodySlot<'a>),
    /// Retry when the head of the peer's ring is here.
    AfterHead(u64),
    /// Retry soon: the peer is about to send a block.
    Soon,
    /// The body goes in the ring.
    None,
}

impl BodyBlocks {
    /// Makes the blocks of a rank among so many on its host.
    pub(crate) fn new(ranks: usize) -> BodyBlocks {
        BodyBlocks { pool: None, recycled: RecycledBlocks::new(ranks) }
    }

    /// Reserves space for a body of `len` bytes to `peer`, whose next frame is its descriptor.
    #[inline]
    pub(crate) fn reserve(
        &mut self,
        segment: &Segment,
        rings: &mut [Option<Box<Outbound>>],
        (peer, len): (Peer, usize),
        method: Method,
    ) -> Reservation<'_> {
        let map = || segment.bodies(segment.me()).ok().map(BouncePool::new);
        let Some(pool) = self.pool.get_or_insert_with(map) else { return Reservation::None };
        let Some(outbound) = outbound_to(rings, peer) else { return Reservation::None };
        let local = outbound.local;
        if method.recycle {
            let owner = |is_own: bool| if is_own { segment.me() } else { local };
            let grow = |is_own, part| segment.allocate_bodies(owner(is_own), part);
            if let Some(block) = self.recycled.take(local, len, pool.memory(), grow) {
                return Reservation::Slot(block.into_slot(len));
            }
        }
        if method.swap && self.recycled.should_wait(local) {
            return Reservation::Soon;
        }
        if !method.bounce {
            return Reservation::None;
        }
        let grow = |part| segment.allocate_bodies(segment.me(), part);
        let space = pool.find(peer, len, grow, |block| match outbound_to(rings, block.to) {
            Some(outbound) => outbound.producer.has_passed(block.until),
            None => true,
        });
        match (space, outbound_to(rings, peer)) {
            (Space::At(start), Some(Outbound { producer, tuner, .. })) => {
                if tuner.due_for_feedback() {
                    tuner.record_read_cost(producer.poll_read_cost());
                }
                let until = producer.head_after_descriptor(Descriptor::SIZE);
                Reservation::Slot(pool.take(start, len, (peer, until), tuner))
            }
            (Space::AfterHead(position), _) => Reservation::AfterHead(position),
            _ => Reservation::None,
        }
    }

    /// Returns this rank's range, if it is mapped.
    pub(crate) fn own_memory(&self) -> Option<BodyMemory> {
        self.pool.as_ref().and_then(|pool| pool.as_ref()).map(BouncePool::memory)
    }

    /// Adopts a block from a local rank, whose body was read.
    #[inline]
    pub(crate) fn adopt(&mut self, from: u32, block: RecycledBlock) {
        self.recycled.adopt(from, block);
    }
}
