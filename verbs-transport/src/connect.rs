//! Makes connections on first use: looks addresses up, sends requests, handles wire-up messages.
//!
//! [`Handshake`](crate::handshake::Handshake) decides what happens; this file carries it out.
//! An endpoint that is *pending* is looked after by [`VerbsTransport::progress_wireup`] until its
//! connection is ready. Nothing here runs for a message once it is.

use std::io;
use std::time::Instant;

use fabric::Peer;

use crate::endpoint::connection::{Connection, PeerTarget};
use crate::frame::PREFIX;
use crate::handshake::{Actions, Received};
use crate::transport::VerbsTransport;
use crate::wireup_msg::{Address, Kind, WireupMsg};

/// Requests without an answer, about a second's, after which the device is checked.
const CHECK_DEVICE_AFTER: u32 = 8;

impl VerbsTransport {
    /// Makes endpoint `at` reachable: looks its address up, and then lets its messages go by
    /// datagrams. It is connected as well if operations wait for that.
    #[cold]
    pub(crate) fn reach(&mut self, at: usize) {
        let endpoint = &self.endpoints[at];
        if endpoint.failed.is_some() {
            return;
        }
        if endpoint.conn.addr.is_none() {
            self.wireup.add_pending(at, &mut self.endpoints[at].conn);
            return self.look_up(at);
        }
        if endpoint.flow.window == 0 {
            self.use_datagrams(at);
        }
        let endpoint = &self.endpoints[at];
        let has_window = endpoint.flow.window > 0;
        if endpoint.needs_connection() || !has_window {
            self.connect(at);
        } else if self.config.settings.connect_after == 0 {
            self.promote(at);
        }
    }

    /// Begins to connect endpoint `at` unless that is under way.
    #[cold]
    pub(crate) fn connect(&mut self, at: usize) {
        let endpoint = &mut self.endpoints[at];
        if endpoint.failed.is_some() || !endpoint.conn.is_idle() {
            return;
        }
        if endpoint.conn.addr.is_none() {
            self.wireup.add_pending(at, &mut self.endpoints[at].conn);
            return self.look_up(at);
        }
        let actions = endpoint.conn.handshake.connect();
        self.apply(at, actions, None);
    }

    /// Requests from the store the address of a peer that is to be connected.
    fn look_up(&mut self, at: usize) {
        let endpoint = &mut self.endpoints[at];
        match self.wireup.look_up(endpoint.peer) {
            Ok(None) => endpoint.conn.retry_at = Instant::now() + self.wireup.look_up_interval(),
            Ok(Some(published)) => {
                endpoint.conn.found(&published);
                endpoint.conn.target = PeerTarget::Known(published.target);
                self.reach(at);
            }
            Err(why) => self.fail(at, why),
        }
    }

    /// Requests from the store the target of a peer, also if its address is known.
    pub(crate) fn look_up_target(&mut self, at: usize) {
        let endpoint = &mut self.endpoints[at];
        if endpoint.conn.addr.is_none() {
            self.reach(at);
            return;
        }
        match self.wireup.look_up_again(endpoint.peer) {
            Ok(Some(published)) => endpoint.conn.target = PeerTarget::Known(published.target),
            Ok(None) => {}
            Err(_) => endpoint.conn.target = PeerTarget::Known(None),
        }
    }

    /// Looks after the pending endpoints whose time has come: addresses, and requests that are due.
    #[cold]
    pub(crate) fn progress_wireup(&mut self) {
        let now = Instant::now();
        for peer in self.wireup.arrived() {
            if let Some(at) = self.endpoints.find(peer) {
                self.endpoints[at].conn.retry_at = now;
                self.wireup.add_pending(at, &mut self.endpoints[at].conn);
            }
        }
        let mut due = Vec::new();
        while let Some((at, time)) = self.wireup.next_due(now) {
            let conn = &mut self.endpoints[at].conn;
            if conn.scheduled == Some(time) {
                conn.scheduled = None;
                due.push(at);
            }
        }
        due.into_iter().for_each(|at| self.progress_pending(at, now));
    }

    /// Takes the next step of a pending endpoint, which stays pending until it needs none.
    fn progress_pending(&mut self, at: usize, now: Instant) {
        let endpoint = &self.endpoints[at];
        if endpoint.failed.is_some() {
            self.renew_addr(at);
            return self.repeat_notice(at, now);
        }
        let (has_addr, is_due) = (endpoint.conn.addr.is_some(), now >= endpoint.conn.retry_at);
        if endpoint.awaits_connection() && self.is_overdue(&endpoint.conn, now) {
            return self.give_up_reconnecting(at);
        }
        if endpoint.conn.is_connecting() {
            if is_due {
                self.repeat_request(at);
            }
        } else if endpoint.awaits_connection() {
            match has_addr {
                false => self.look_up(at),
                true if is_due => self.connect(at),
                true => {}
            }
        }
        if is_due && self.endpoints[at].conn.is_idle() {
            self.repeat_disconnect(at, now);
        }
        let endpoint = &mut self.endpoints[at];
        let is_untold = endpoint.conn.is_idle() && endpoint.conn.disconnect_until.is_some();
        if (endpoint.awaits_connection() || is_untold) && endpoint.failed.is_none() {
            self.wireup.add_pending(at, &mut endpoint.conn);
        }
    }

    /// Returns whether a connection that broke should have come back by now.
    fn is_overdue(&self, conn: &Connection, now: Instant) -> bool {
        let timeout = self.config.settings.reconnect_timeout;
        conn.broke_at.is_some_and(|broke_at| now - broke_at > timeout)
    }

    fn give_up_reconnecting(&mut self, at: usize) {
        let timeout = self.config.settings.reconnect_timeout.as_secs();
        let port = self.adapter.describe();
        self.lose(
            at,
            format!(
                "the connection broke and did not come back within {timeout} s \
                 (verbs.reconnect_timeout), on {port}"
            ),
        );
    }

    /// Sends the request of an endpoint that is connecting once more.
    fn repeat_request(&mut self, at: usize) {
        self.send_req(at);
        self.warn_unanswered(at, self.endpoints[at].conn.created_at);
        if self.renew_addr(at) {
            self.check_device();
        }
    }

    /// Sends a Disconnect once more, if the peer may not have it.
    fn repeat_disconnect(&mut self, at: usize, now: Instant) {
        let conn = &mut self.endpoints[at].conn;
        if conn.disconnect_until.take_if(|until| *until <= now).is_some() {
            return;
        }
        if conn.disconnect_until.is_some() {
            self.send_msg(at, Kind::Disconnect);
            self.endpoints[at].conn.requested();
            self.renew_addr(at);
        }
    }

    /// Looks the address of a peer up again that has not answered for long: its port may have
    /// another one now. Returns whether that was long enough.
    fn renew_addr(&mut self, at: usize) -> bool {
        let endpoint = &mut self.endpoints[at];
        let is_silent = endpoint.conn.retries > CHECK_DEVICE_AFTER;
        if is_silent && let Ok(Some(published)) = self.wireup.look_up_again(endpoint.peer) {
            endpoint.conn.found(&published);
        }
        is_silent
    }

    /// Warns once about a peer that was never connected and does not answer. It may compute;
    /// therefore nothing else follows.
    pub(crate) fn warn_unanswered(&mut self, at: usize, since: Instant) {
        let (endpoint, limit) = (&mut self.endpoints[at], self.config.settings.connect_warn_after);
        let conn = &mut endpoint.conn;
        let is_due = !conn.warned && since.elapsed() > limit;
        let Some(addr) = conn.addr.filter(|_| is_due) else { return };
        conn.warned = true;
        let (peer, port) = (endpoint.peer.0, self.adapter.describe());
        eprintln!(
            "verbena: rank {} has called rank {peer} ({}) for {} s over RDMA without an answer, on \
             {port}. It answers in its next MPI call. If it is in one, the network does not carry \
             the requests: check that both ports are up, that there is a route between the two \
             addresses (another verbs.gid_index?), and that no firewall blocks UDP port 4791 \
             (RoCE v2); run `verbena doctor --rdma` on both hosts",
            self.endpoints.me().0,
            addr.port,
            limit.as_secs_f64(),
        );
    }

    /// Handles a wire-up message of the job that came from UD queue pair `ud_qpn`.
    #[cold]
    pub(crate) fn on_msg(&mut self, message: &WireupMsg, ud_qpn: u32) {
        if message.to != self.endpoints.me().0 {
            return;
        }
        let Ok(at) = self.endpoints.get_or_create(Peer(message.from)) else { return };
        let takes_datagrams = message.takes_datagrams;
        let addr = Address { port: message.port, ud_qpn, takes_datagrams };
        if message.frame as usize != self.config.caps.frame {
            if message.kind == Kind::Req {
                self.endpoints[at].conn.addr = Some(addr);
                self.send_msg(at, Kind::Rep);
            }
            return self.on_frame_size_mismatch(at, message.frame as usize);
        }
        let endpoint = &mut self.endpoints[at];
        endpoint.conn.heard(addr);
        if endpoint.failed.is_some() {
            return self.answer_failed(at);
        }
        match message.kind {
            Kind::Disconnect | Kind::Closed => return self.on_disconnect(at, message),
            Kind::Decline => return self.on_decline(at, message),
            Kind::Release => return self.on_release(at, message),
            Kind::Req | Kind::Rep => {}
        }
        if !self.is_last_connection_over(at, message.epoch) {
            return;
        }
        let received = Received {
            epoch: message.epoch,
            qpn: message.qpn,
            peer_qpn: message.peer_qpn,
            wants_reply: message.kind == Kind::Req,
        };
        let actions = self.endpoints[at].conn.handshake.on_msg(received);
        self.apply(at, actions, Some(message));
    }

    /// Fails a peer whose frames have bodies of another size.
    pub(crate) fn on_frame_size_mismatch(&mut self, at: usize, frame: usize) {
        let [theirs, ours] =
            [frame, self.config.caps.frame].map(|frame| frame.saturating_sub(PREFIX));
        self.fail(
            at,
            format!(
                "it runs with verbs.eager_max = {theirs}, this process with {ours}: it must be \
                 the same in the whole job"
            ),
        );
    }

    /// Handles data on queue pair `qpn` of an endpoint that did not know whether its peer is
    /// ready.
    #[cold]
    pub(crate) fn on_first_data(&mut self, at: usize, qpn: u32) {
        let endpoint = &mut self.endpoints[at];
        if endpoint.tx.is_on(qpn) {
            let actions = endpoint.conn.handshake.on_data();
            self.apply(at, actions, None);
        }
    }

    /// Carries out the actions of the handshake. A failure breaks the connection, which is tried
    /// again.
    fn apply(&mut self, at: usize, actions: Actions, message: Option<&WireupMsg>) {
        if actions == Actions::default() {
            return;
        }
        match self.try_apply(at, actions, message) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if message.is_some() {
                    self.send_msg(at, Kind::Decline);
                    self.compare_connections(at);
                }
                self.give_up_connecting(at);
            }
            Err(error) => self.break_connection(at, &error.to_string()),
        }
    }

    fn try_apply(
        &mut self,
        at: usize,
        actions: Actions,
        message: Option<&WireupMsg>,
    ) -> io::Result<()> {
        if actions.create {
            let is_urgent = self.endpoints[at].is_urgent();
            let is_urgent = is_urgent || message.is_some_and(|message| message.is_urgent);
            self.create_qp(at, is_urgent)?;
        }
        if let Some(message) = message.filter(|_| actions.move_to_rtr) {
            self.move_to_rtr(at, message)?;
        }
        if actions.move_to_rts {
            self.move_to_rts(at)?;
        }
        if actions.send {
            self.send_req(at);
        }
        if self.endpoints[at].conn.is_connecting() {
            self.wireup.add_pending(at, &mut self.endpoints[at].conn);
        }
        Ok(())
    }

    /// Sends a Req, or a Rep if the endpoint is ready.
    fn send_req(&mut self, at: usize) {
        let wants_reply = self.endpoints[at].conn.handshake.wants_reply();
        self.send_msg(at, if wants_reply { Kind::Req } else { Kind::Rep });
        self.endpoints[at].conn.requested();
    }
}
