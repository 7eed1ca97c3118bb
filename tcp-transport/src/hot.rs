//! The hot link: that of a peer which answers again and again.
//!
//! Each poll reads it without asking the system which link is ready. If that goes on, its socket is
//! not watched any more: the system then does less for each packet.
//!
//! States: no hot link; watched; unwatched, after [`UNWATCH_AFTER`] reads that found something. An
//! unwatched link is watched again before this process sleeps, when its socket takes no more bytes,
//! and when it is no longer hot. Invariant: a link that is not hot is watched.

use crate::transport::{Hot, TcpTransport};
use crate::wait_set::Source;

/// Reads in a row that find nothing, after which a link is no longer hot if there are others.
const MAX_MISSES: u32 = 64;
/// Reads that find something, without a sleep, after which the socket is not watched.
const UNWATCH_AFTER: u32 = 256;

impl TcpTransport {
    /// Makes the link of a peer, which something was read from, the hot one.
    pub(crate) fn make_hot(&mut self, at: usize) {
        if self.attention.hot.at != Some(at) {
            self.watch_hot();
            self.attention.hot.at = Some(at);
        }
        self.attention.hot.misses = 0;
    }

    /// Records whether a read of the hot link found something.
    #[inline]
    pub(crate) fn hot_was_read(&mut self, at: usize, found: bool) {
        let hot = &mut self.attention.hot;
        if hot.at != Some(at) {
            return; // it was closed by that
        }
        if found {
            (hot.misses, hot.hits) = (0, hot.hits.saturating_add(1));
            if hot.hits >= UNWATCH_AFTER && !hot.is_unwatched {
                self.unwatch_hot(at);
            }
        } else {
            hot.misses += 1;
            if hot.misses > MAX_MISSES && self.linked.len() > 1 {
                self.watch_hot();
                self.attention.hot = Hot::default();
            }
        }
        if self.attention.hot.is_unwatched && self.has_no_space(at) {
            self.watch_hot();
        }
    }

    fn has_no_space(&self, at: usize) -> bool {
        self.peers[at].link.as_ref().is_none_or(|link| !link.writable)
    }

    fn unwatch_hot(&mut self, at: usize) {
        if let Some(link) = &self.peers[at].link {
            self.attention.hot.is_unwatched = self.wait_set.remove(&link.fd).is_ok();
        }
    }

    /// Watches the hot link again. If it is ready, an event follows.
    pub(crate) fn watch_hot(&mut self) {
        let hot = &mut self.attention.hot;
        hot.hits = 0;
        let (Some(at), true) = (hot.at, std::mem::take(&mut hot.is_unwatched)) else { return };
        if let Some(link) = &self.peers[at].link
            && let Err(error) =
                self.wait_set.add(&link.fd, Source::Link(at as u32, link.generation))
        {
            self.break_link(at, &format!("its socket cannot be watched: {error}"));
        }
    }
}
