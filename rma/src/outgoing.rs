//! Frames and operations that wait for space, in order, for each peer.

use std::collections::VecDeque;

use fabric::{Header, Peer, RequestId};
use rustc_hash::FxHashMap;

/// Something to post.
#[derive(Debug)]
pub(crate) enum Item {
    /// The next pieces of an operation.
    Operation(RequestId),
    /// A frame with its body.
    Frame(Header, Box<[u8]>),
    /// The description of this rank's memory in a window, which is registered first.
    Description(u64),
}

/// The items of one peer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pub(crate) items: VecDeque<Item>,
    /// The last post found no space.
    pub(crate) blocked: bool,
}

/// All that waits. Invariant: `ready` has each peer with items once.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    queues: FxHashMap<Peer, Queue>,
    ready: VecDeque<Peer>,
}

impl Outgoing {
    pub(crate) const fn new() -> Outgoing {
        Outgoing {
            queues: FxHashMap::with_hasher(rustc_hash::FxBuildHasher),
            ready: VecDeque::new(),
        }
    }

    /// Appends an item.
    pub(crate) fn push(&mut self, peer: Peer, item: Item) {
        let queue = self.queues.entry(peer).or_default();
        if queue.items.is_empty() {
            self.ready.push_back(peer);
        }
        queue.items.push_back(item);
    }

    /// Returns the items of a peer.
    pub(crate) fn queue(&mut self, peer: Peer) -> &mut Queue {
        self.queues.entry(peer).or_default()
    }

    /// Returns the number of items of a peer.
    pub(crate) fn len(&self, peer: Peer) -> usize {
        self.queues.get(&peer).map_or(0, |queue| queue.items.len())
    }

    /// Returns true if the last post to a peer found no space.
    pub(crate) fn is_blocked(&self, peer: Peer) -> bool {
        self.queues.get(&peer).is_some_and(|queue| queue.blocked)
    }

    /// Returns true if there is nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty()
    }

    /// Returns true if something could be posted now.
    pub(crate) fn can_post(&self) -> bool {
        self.ready.iter().any(|peer| !self.queues[peer].blocked)
    }

    /// Takes the next peer to be served.
    pub(crate) fn take_ready(&mut self) -> Option<Peer> {
        self.ready.pop_front()
    }

    /// Returns the number of peers with items.
    pub(crate) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// Puts a served peer back if it has more items.
    pub(crate) fn put_back(&mut self, peer: Peer) {
        if self.queues.get(&peer).is_some_and(|queue| !queue.items.is_empty()) {
            self.ready.push_back(peer);
        }
    }

    /// Drops all items of a peer that has failed.
    pub(crate) fn forget(&mut self, peer: Peer) {
        self.queues.remove(&peer);
        self.ready.retain(|&other| other != peer);
    }
}
