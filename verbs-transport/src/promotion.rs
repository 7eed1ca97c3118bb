//! Which peers have connections: promotion by traffic, and demotion of peers that use theirs least.
//!
//! A peer is *unconnected* (its messages go by datagrams) or has a connection. After
//! `verbs.connect_after` messages it gets one, if both processes have space. A process without
//! space refuses (Decline), and asks the peer that used its connection least, and much less than
//! the one that wants it, to close it (Release). That peer closes it with a Disconnect once it has
//! no operations under way. Messages continue by datagrams all the time: nothing waits for a
//! connection, and none ends for the sake of a single message. Only operations that nothing but a
//! connection can carry take one from a peer that is not asked. The same traffic decides which
//! peers have whole windows, see `shares`.

use std::time::Instant;

use crate::datagram::Micros;
use crate::endpoint::flow::LOW_WINDOW;
use crate::shares::{MUCH_MORE, has_low_window};
use crate::transport::VerbsTransport;
use crate::wireup_msg::{Kind, WireupMsg};

/// Time between two comparisons of connections.
const COMPARE_INTERVAL: Micros = 50_000;
/// Time between two looks at the peers with low windows. Longer, so that peers without a
/// connection get their comparisons too.
const RAISE_INTERVAL: Micros = 200_000;

impl VerbsTransport {
    /// Connects endpoint `at`, whose messages go by datagrams, if it has sent enough of them.
    pub(crate) fn consider_connection(&mut self, at: usize) {
        let after = self.config.settings.connect_after;
        let endpoint = &self.endpoints[at];
        let is_heavy = endpoint.link.as_ref().is_some_and(|link| link.messages >= after);
        if endpoint.conn.is_idle() && (is_heavy || endpoint.conn.is_wanted) {
            self.promote(at);
        }
    }

    /// Connects endpoint `at` unless there is no space or the peer had none. Returns whether the
    /// connection is under way.
    pub(crate) fn promote(&mut self, at: usize) -> bool {
        let endpoint = &mut self.endpoints[at];
        if !endpoint.conn.is_idle() {
            return true;
        }
        if endpoint.conn.addr.is_none() || Instant::now() < endpoint.conn.not_before {
            return false;
        }
        if !self.has_space_for_connection() {
            self.endpoints[at].conn.refused();
            self.compare_connections(at);
            return false;
        }
        self.endpoints[at].conn.is_wanted = true;
        self.connect(at);
        !self.endpoints[at].conn.is_idle()
    }

    /// Connects endpoint `at` for operations. Returns false if there is no space: frames carry the
    /// data.
    pub(crate) fn may_connect(&mut self, at: usize) -> bool {
        if self.endpoints[at].conn.addr.is_none() {
            self.reach(at);
            if self.endpoints[at].conn.addr.is_none() {
                self.wireup.add_pending(at, &mut self.endpoints[at].conn);
                self.credit.block(&mut self.endpoints, at);
                return true;
            }
        }
        self.promote(at)
    }

    /// Makes space for endpoint `at`, which wants a connection, or a whole window on one, if it has
    /// had much more traffic than others in the same time: the peer that has used its connection
    /// least is asked to close it, or peers that have sent least get low windows.
    pub(crate) fn compare_connections(&mut self, at: usize) {
        let now = self.datagrams.now();
        if now < self.compared_at + COMPARE_INTERVAL {
            return;
        }
        self.compared_at = now;
        let (wants, has) = (self.traffic_since(at), self.endpoints[at].flow.receives);
        match has == 0 && self.endpoints.connected() >= self.config.max_connections {
            true => self.release_least(wants),
            false => self.reclaim(wants, self.config.receives_each() - has),
        }
        let connected: Vec<u32> = self.endpoints.with_queue_pairs().collect();
        for other in connected.into_iter().chain([at as u32]) {
            let endpoint = &mut self.endpoints[other as usize];
            endpoint.frames_before = endpoint.frames();
        }
    }

    /// Gives whole windows to peers that send much and have low ones. If there are no receives for
    /// them, peers that send little must do with fewer.
    #[cold]
    pub(crate) fn raise_busy(&mut self) {
        let now = self.datagrams.now();
        if now < self.credit.raised_at + RAISE_INTERVAL {
            return;
        }
        self.credit.raised_at = now;
        let mut low = std::mem::take(&mut self.credit.low);
        low.sort_unstable();
        low.dedup();
        low.retain(|&at| has_low_window(&self.endpoints[at as usize]));
        low.sort_by_cached_key(|&at| std::cmp::Reverse(self.traffic_since(at as usize)));
        let mut raised = 0;
        for &at in &low {
            if self.traffic_since(at as usize) < LOW_WINDOW {
                break;
            }
            if !self.raise(at as usize) {
                self.compare_connections(at as usize);
                break;
            }
            raised += 1;
        }
        self.credit.low.extend_from_slice(&low[raised..]);
    }

    /// Asks the peer that has used its connection least to close it, if another one has had much
    /// more traffic, `wants` frames.
    fn release_least(&mut self, wants: u32) {
        let connected: Vec<u32> = self.endpoints.with_queue_pairs().collect();
        let traffic =
            connected.into_iter().map(|other| (self.traffic_since(other as usize), other));
        let least = traffic.filter(|&(_, other)| {
            let endpoint = &self.endpoints[other as usize];
            endpoint.is_ready() && endpoint.rma.ops.is_empty()
        });
        if let Some((_, victim)) =
            least.min().filter(|(traffic, _)| traffic.saturating_mul(MUCH_MORE) < wants.max(1))
        {
            self.send_msg(victim as usize, Kind::Release);
        }
    }

    /// Handles the peer's wish that a connection be closed, which it uses no more than this end.
    pub(crate) fn on_release(&mut self, at: usize, message: &WireupMsg) {
        let endpoint = &self.endpoints[at];
        if endpoint.conn.handshake.epoch != message.epoch || !endpoint.rma.ops.is_empty() {
            return;
        }
        if !endpoint.conn.is_idle() {
            self.endpoints[at].conn.refused();
            self.close(at);
        }
    }

    /// Handles the refusal of a connection. Operations that wait for one ask again.
    pub(crate) fn on_decline(&mut self, at: usize, message: &WireupMsg) {
        let conn = &mut self.endpoints[at].conn;
        if conn.handshake.on_decline(message.epoch) {
            conn.peer_is_idle(message.epoch);
            self.give_up_connecting(at);
        }
    }

    /// Ends the attempt to connect endpoint `at`: one of both processes has no space.
    pub(crate) fn give_up_connecting(&mut self, at: usize) {
        self.drain(at);
        let conn = &mut self.endpoints[at].conn;
        conn.handshake.reset();
        conn.refused();
        self.resume(at);
    }
}
