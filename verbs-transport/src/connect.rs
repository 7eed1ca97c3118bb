//! Set-up: the transport of one process, and connections on first use.
//!
//! Nothing here runs for a message once its pair is ready. What happens and when is
//! decided by [`Handshake`](crate::handshake::Handshake); this file does it. How connections
//! end is in `recovery.rs`.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use config::{Registration, Rendezvous};
use fabric::{Caps, Peer, PeerFailed};
use rustc_hash::FxHashMap;

use crate::coalesce::{self as bundle, Bundle};
use crate::device::Port;
use crate::eager_rdma::wire as ring;
use crate::eager_rdma::wire::{LEAD, PLACE};
use crate::endpoint::{AT_ONCE, EXTRA, Endpoint, SPARE};
use crate::handshake::{Actions, Heard, Phase};
use crate::ibv::layout::{access, port_state, qp_mask as mask, qp_state as state};
use crate::ibv::{Ah, Channel, Cq, Pd, Qp, QpAttr, Srq, Wc};
use crate::memory::{Exposed, Pool};
use crate::registration::Registrations;
use crate::settings::Settings;
use crate::store::Store;
use crate::ud::{UdEndpoint, random_psn};
use crate::unavailable::Unavailable;
use crate::wait::WaitSet;
use crate::wireup_msg::{Address, Kind, WireupMsg};

/// Number and credit in front of a header.
pub(crate) const PREFIX: usize = 8;
/// In front of a body.
pub(crate) const FRONT: usize = PREFIX + fabric::Header::SIZE;
/// Completions taken at once.
pub(crate) const BATCH: usize = 16;
/// Receives that may wait to be posted again, in all.
const IDLE: u32 = 2 * BATCH as u32;
/// Bytes of a slot for short frames.
const SHORT: usize = 256;
/// Bytes that may travel in the request itself.
const INLINE: u32 = 220;
/// Pauses between calls: the first and the longest.
pub(crate) const PAUSE: Duration = Duration::from_millis(2);
pub(crate) const LONGEST: Duration = Duration::from_millis(500);
/// Calls in vain, a second's, after which the device is looked at.
const LONG_UNANSWERED: u32 = 8;

/// A connection is not closed for another one before that.
const TENURE: Duration = Duration::from_millis(10);

/// What a request is, in the highest bits of its number.
pub(crate) mod mark {
    pub(crate) const RECEIVE: u64 = 0;
    pub(crate) const SEND: u64 = 1 << 62;
    pub(crate) const BELL_RECEIVE: u64 = 2 << 62;
    pub(crate) const BELL_SEND: u64 = 3 << 62;
    pub(crate) const ALL: u64 = 3 << 62;
}

/// A queue pair in error, until what has arrived on it is taken.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) qp: Qp,
    /// The poll in which it was retired.
    pub(crate) at: u64,
}

/// The transport over InfiniBand and RoCE of one process.
pub struct VerbsTransport {
    // In the order in which they must be destroyed.
    pub(crate) pairs: Vec<Endpoint>,
    pub(crate) retired: Vec<Retired>,
    pub(crate) registrations: Registrations,
    pub(crate) bell: UdEndpoint,
    pub(crate) srq: Srq,
    pub(crate) cq: Cq,
    pub(crate) receives: Pool,
    pub(crate) long: Pool,
    pub(crate) short: Pool,
    /// For messages without a frame: never used up by frames that wait for credit.
    pub(crate) notes: Pool,
    /// Rings for peers, and the gates where they open and close theirs.
    pub(crate) rings: Pool,
    pub(crate) gates: Pool,
    pub(crate) pd: Arc<Pd>,
    pub(crate) alarm: WaitSet,
    pub(crate) port: Port,
    pub(crate) settings: Settings,
    pub(crate) store: Box<dyn Store>,
    pub(crate) secret: [u8; 32],
    pub(crate) me: Peer,
    pub(crate) caps: Caps,
    /// By rank: place in `pairs` + 1, or 0.
    pub(crate) by_rank: Vec<u32>,
    /// By number of a queue pair, also of a retired one.
    pub(crate) by_queue: FxHashMap<u32, u32>,
    /// Pairs whose address or handshake is awaited.
    pub(crate) unsettled: Vec<u32>,
    /// Pairs that owe credit.
    pub(crate) debts: Vec<u32>,
    /// Pairs that write to us, and pairs that we write to.
    pub(crate) ringed: Vec<u32>,
    pub(crate) held: Vec<u32>,
    /// Sleeps, and times that peers were compared by how much they talk.
    pub(crate) period: u64,
    /// Frames that were written.
    pub(crate) written: u64,
    /// Frames that are put together now, and how many were.
    pub(crate) bundle: Bundle,
    pub(crate) gathered: u64,
    /// Pairs that had no room when last asked.
    pub(crate) starved: Vec<u32>,
    /// For the sink, with the next poll.
    pub(crate) outcomes: Vec<(u64, Result<(), PeerFailed>)>,
    pub(crate) losses: Vec<PeerFailed>,
    pub(crate) completions: [Wc; BATCH],
    /// Of these, those that `arm` has taken.
    pub(crate) stashed: usize,
    /// Receives to post again.
    pub(crate) empty: Vec<u32>,
    /// A frame out of a ring, while it is handed up.
    pub(crate) taken: [u8; PLACE],
    pub(crate) polls: u64,
    /// Queue pairs at once, at most.
    most: u32,
    /// Connections that there are receives for.
    provided: u32,
    /// Requests that a send queue has room for.
    pub(crate) depth: u32,
    pub(crate) is_armed: bool,
    /// It was woken, and has not asked by what.
    pub(crate) has_woken: bool,
    /// Since when the process wants to end.
    pub(crate) flushing_since: Option<Instant>,
    /// The port went down, and did not come up since.
    pub(crate) is_down: bool,
    /// The device has failed or was removed.
    pub(crate) is_gone: bool,
    /// When it was last asked whether it is there.
    pub(crate) asked_at: Instant,
    interruptions: u64,
}

impl VerbsTransport {
    /// The transport of rank `me` of `size`, on the port that the settings choose. Puts this
    /// process's address into the store; talks to nobody.
    pub fn open(
        mut settings: Settings,
        me: Peer,
        size: u32,
        secret: [u8; 32],
        mut store: Box<dyn Store>,
    ) -> Result<VerbsTransport, Unavailable> {
        let port = Port::choose(&settings)?;
        if port.is_emulated {
            // To rdma_rxe 7 is for ever: nobody would hear of a peer that has gone.
            settings.retries = settings.retries.min(6);
        }
        let step = |what| {
            let device = port.device.clone();
            move |error: io::Error| Unavailable::step(&device, what, error)
        };
        let pd = Pd::new(&port.context).map_err(step("making a protection domain"))?;
        let channel = Channel::new(&port.context).map_err(step("making a completion channel"))?;
        let credits = settings.credits;
        let depth = credits + EXTRA;
        let most = most_connections(&settings, &port, size);
        let room = UdEndpoint::COMPLETIONS + 64 + most.min(4) * completions_each(credits);
        let cq = Cq::new(&channel, room).map_err(step("making a completion queue"))?;
        let srq = Srq::new(&pd, most * (credits + SPARE) + IDLE)
            .map_err(step("making a shared receive queue"))?;
        let frame = settings.eager_max + PREFIX;
        let message = bundle::longest(frame);
        let receives = Pool::new(&pd, message, most * (credits + SPARE) + IDLE);
        let long = Pool::new(&pd, LEAD + message, most.min(64) * credits);
        let short = Pool::new(&pd, SHORT, most.min(64) * credits);
        let notes = Pool::new(&pd, PREFIX, most * EXTRA);
        let rings = Pool::open(&pd, ring::bytes(credits), settings.eager_rdma_peers.min(most));
        let gates = Pool::open(&pd, ring::GATE, most);
        let marks = [mark::BELL_RECEIVE, mark::BELL_SEND];
        let bell = UdEndpoint::new(&pd, &cq, &port, &secret, marks)
            .map_err(step("making a datagram queue pair"))?;
        let fds = [channel.fd(), port.context.async_fd()].into_iter().chain(store.fd());
        let alarm = WaitSet::new(fds).map_err(step("watching its events"))?;
        let door = Address { address: port.address, bell: bell.number() };
        store.put(&key(me), &door.encode()).map_err(Unavailable::Store)?;
        let (get_min, put_min) = rendezvous_from(&settings, &port);
        let registrations = Registrations::new(&pd, &settings)?;
        let caps = Caps { frame, eager: settings.eager_max, get_min, put_min };
        let mut transport = VerbsTransport {
            pairs: Vec::new(),
            retired: Vec::new(),
            registrations,
            bell,
            srq,
            cq,
            receives,
            long,
            short,
            notes,
            rings,
            gates,
            pd,
            alarm,
            port,
            settings,
            store,
            secret,
            me,
            caps,
            by_rank: vec![0; size as usize],
            by_queue: FxHashMap::default(),
            unsettled: Vec::new(),
            debts: Vec::new(),
            ringed: Vec::new(),
            held: Vec::new(),
            period: 0,
            written: 0,
            bundle: Bundle::Closed,
            gathered: 0,
            starved: Vec::new(),
            outcomes: Vec::new(),
            losses: Vec::new(),
            completions: [Wc::default(); BATCH],
            stashed: 0,
            empty: Vec::new(),
            taken: [0; PLACE],
            polls: 0,
            most,
            provided: 0,
            depth,
            is_armed: false,
            has_woken: false,
            flushing_since: None,
            is_down: false,
            is_gone: false,
            asked_at: Instant::now(),
            interruptions: 0,
        };
        // So that a lack of memory shows now and not in the middle of the job.
        let device = transport.port.device.clone();
        transport
            .provide(1)
            .map_err(|error| Unavailable::step(&device, "registering its buffers", error))?;
        Ok(transport)
    }

    /// Breaks the connection to a peer, if there is one, as a fault of the device would:
    /// for tests.
    pub fn interrupt(&mut self, peer: Peer) {
        if let Some(at) = self.place(peer).filter(|&at| self.pairs[at].is_ready()) {
            self.interruptions += 1;
            self.break_pair(at, "a test has broken it");
        }
    }

    /// Takes the device for removed: for tests.
    pub fn remove_device(&mut self) {
        self.give_up_device();
    }

    /// Connections that [`VerbsTransport::interrupt`] has broken.
    pub fn interruptions(&self) -> u64 {
        self.interruptions
    }

    /// Registrations of buffers that were made: for tests.
    pub fn registrations_made(&self) -> u64 {
        self.registrations.made()
    }

    /// How registrations of buffers are kept: never `Auto`.
    pub fn registration(&self) -> Registration {
        self.registrations.way()
    }

    /// Frames that were written into the memory of peers.
    pub fn frames_written(&self) -> u64 {
        self.written
    }

    /// The port in use.
    pub fn port(&self) -> &Port {
        &self.port
    }

    /// The pair of a peer, if it was talked to.
    #[inline]
    pub(crate) fn place(&self, peer: Peer) -> Option<usize> {
        match self.by_rank.get(peer.0 as usize) {
            Some(&place) if place != 0 => Some(place as usize - 1),
            _ => None,
        }
    }

    /// The pair of a peer, made on first use.
    #[cold]
    pub(crate) fn meet(&mut self, peer: Peer) -> Result<usize, PeerFailed> {
        if let Some(at) = self.place(peer) {
            return Ok(at);
        }
        let Some(place) = self.by_rank.get_mut(peer.0 as usize).filter(|_| peer != self.me) else {
            return Err(PeerFailed { peer, why: "there is no such process in the job".into() });
        };
        self.pairs.push(Endpoint::new(peer, Instant::now()));
        *place = self.pairs.len() as u32;
        Ok(self.pairs.len() - 1)
    }

    /// Begins to connect unless that is under way.
    #[cold]
    pub(crate) fn want(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        if pair.lost.is_some() || pair.shake.phase != Phase::Idle {
            return;
        }
        if pair.door.is_none() {
            self.unsettle(at);
            return self.look_up(at);
        }
        let actions = pair.shake.want();
        self.act(at, actions, None);
    }

    /// Asks the store for the address of a peer that is to be called.
    fn look_up(&mut self, at: usize) {
        let peer = self.pairs[at].peer;
        match self.store.try_value(&key(peer)) {
            Ok(None) => {
                let again = if self.store.fd().is_some() { LONGEST } else { PAUSE };
                self.pairs[at].ring_at = Instant::now() + again;
            }
            Ok(Some(bytes)) => match Address::decode(&bytes) {
                Some(door) => {
                    self.pairs[at].door = Some(door);
                    self.want(at);
                }
                None => {
                    self.lose(at, "its address in the job's store is none of this version's".into())
                }
            },
            Err(why) => self.lose(at, format!("its address is not to be had: {why}")),
        }
    }

    /// Looks after everything that is not settled: addresses, calls that are due.
    #[cold]
    pub(crate) fn tend(&mut self) {
        let now = Instant::now();
        for place in std::mem::take(&mut self.unsettled) {
            let at = place as usize;
            let pair = &self.pairs[at];
            let overdue =
                pair.broke_at.is_some_and(|broke| now - broke > self.settings.reconnect_timeout);
            if overdue && pair.lost.is_none() {
                let (limit, port) = (self.settings.reconnect_timeout.as_secs(), self.condition());
                let why = format!(
                    "the connection broke and did not come back within {limit} s (verbs.reconnect_timeout)"
                );
                self.lose(at, format!("{why}, on {port}"));
            } else if pair.is_calling() {
                if now >= pair.ring_at {
                    self.greet(at);
                    self.notice(at, now);
                    if self.pairs[at].pause > LONG_UNANSWERED {
                        self.check_device();
                    }
                }
                self.unsettle(at);
            } else if pair.shake.phase == Phase::Idle && pair.needs_connection() {
                let (is_known, is_due) = (pair.door.is_some(), now >= pair.ring_at);
                self.unsettle(at);
                match is_known {
                    // An answer of the store may be there at any time.
                    false => self.look_up(at),
                    true if is_due => self.want(at),
                    true => {}
                }
            }
        }
    }

    /// Says once that a peer that was never connected does not answer. It may compute, so
    /// nothing else follows.
    fn notice(&mut self, at: usize, now: Instant) {
        let (pair, limit) = (&mut self.pairs[at], self.settings.connect_warn_after);
        let Some(door) = pair.door.filter(|_| !pair.noticed && now - pair.since > limit) else {
            return;
        };
        pair.noticed = true;
        let (peer, port) = (pair.peer.0, self.condition());
        eprintln!(
            "verbena: rank {} has called rank {} ({}) for {} s over RDMA without an answer, on {port}. It answers in its next \
             MPI call; if it is in one, the network does not carry the calls: see that both ports are up, that there is a \
             route between these addresses (another verbs.gid_index?), and that no firewall holds UDP port 4791 (RoCE v2); \
             `verbena doctor --rdma` on both hosts",
            self.me.0,
            peer,
            door.address,
            limit.as_secs_f64(),
        );
    }

    /// The port, and whether it is down.
    fn condition(&self) -> String {
        let is_up = self
            .port
            .context
            .port(self.port.number)
            .is_ok_and(|attr| attr.state == port_state::ACTIVE);
        format!("{}{}", self.port, if is_up { "" } else { ", WHICH IS DOWN NOW" })
    }

    /// When `tend` is due.
    pub(crate) fn next_call(&self) -> Option<Instant> {
        self.unsettled.iter().map(|&at| &self.pairs[at as usize]).map(|pair| pair.ring_at).min()
    }

    pub(crate) fn unsettle(&mut self, at: usize) {
        if !self.unsettled.contains(&(at as u32)) {
            self.unsettled.push(at as u32);
        }
    }

    /// A datagram of the job.
    #[cold]
    pub(crate) fn hear(&mut self, hello: &WireupMsg, bell: u32) {
        if hello.to != self.me.0 {
            return;
        }
        let Ok(at) = self.meet(Peer(hello.from)) else { return };
        if hello.frame as usize != self.caps.frame {
            return self.disagree(at, hello, bell);
        }
        let pair = &mut self.pairs[at];
        if pair.lost.is_some() {
            return;
        }
        let door = Address { address: hello.address, bell };
        if pair.door != Some(door) {
            (pair.door, pair.ah) = (Some(door), None);
        }
        if hello.kind == Kind::Close {
            return self.closed(at, hello);
        }
        let wants_answer = hello.kind == Kind::Call;
        let heard =
            Heard { epoch: hello.epoch, queue: hello.queue, yours: hello.yours, wants_answer };
        let actions = pair.shake.hear(heard);
        self.act(at, actions, Some(hello));
    }

    /// The other side's frames do not fit ours. It must hear so as well.
    fn disagree(&mut self, at: usize, hello: &WireupMsg, bell: u32) {
        if hello.kind == Kind::Call {
            self.pairs[at].door = Some(Address { address: hello.address, bell });
            self.say(at, Kind::Answer);
        }
        let [theirs, ours] =
            [hello.frame as usize, self.caps.frame].map(|frame| frame.saturating_sub(PREFIX));
        self.lose(
            at,
            format!(
                "it runs with verbs.eager_max = {theirs}, this process with {ours}: set the same for the whole job"
            ),
        );
    }

    /// Does what the handshake asks for. What fails breaks the pair: it tries again.
    pub(crate) fn act(&mut self, at: usize, actions: Actions, hello: Option<&WireupMsg>) {
        if actions == Actions::default() {
            return;
        }
        match self.try_act(at, actions, hello) {
            Ok(()) => {}
            // All connections are too young to be closed. Whoever called does so again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.retire(at);
                self.pairs[at].shake.broke();
                self.resume_later(at);
            }
            Err(error) => self.break_pair(at, &error.to_string()),
        }
    }

    fn try_act(
        &mut self,
        at: usize,
        actions: Actions,
        hello: Option<&WireupMsg>,
    ) -> io::Result<()> {
        if actions.renew {
            self.renew(at)?;
        }
        if let Some(hello) = hello.filter(|_| actions.connect) {
            self.connect(at, hello)?;
        }
        if actions.start {
            self.start(at)?;
        }
        if actions.greet {
            self.greet(at);
        }
        if self.pairs[at].is_calling() {
            self.unsettle(at);
        }
        Ok(())
    }

    /// A new queue pair in place of the old one, if there is one.
    fn renew(&mut self, at: usize) -> io::Result<()> {
        self.retire(at);
        self.make_way(at)?;
        self.pairs[at].gate = self.new_gate()?;
        let qp = Qp::new(&self.pd, &self.cq, Some(&self.srq), self.depth, 0, INLINE)?;
        let init = QpAttr {
            qp_state: state::INIT,
            pkey_index: self.port.pkey_index,
            port_num: self.port.number,
            qp_access_flags: (access::REMOTE_READ | access::REMOTE_WRITE | self.atomic_access())
                as u32,
            ..QpAttr::default()
        };
        qp.modify(init, mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS)?;
        self.by_queue.insert(qp.number(), at as u32);
        let pair = &mut self.pairs[at];
        pair.shake.made(qp.number());
        (pair.psn, pair.pause, pair.used_at) = (random_psn(), 0, self.polls);
        (pair.qp, pair.since) = (Some(qp), Instant::now());
        Ok(())
    }

    /// To RTR: from now on it can receive.
    fn connect(&mut self, at: usize, hello: &WireupMsg) -> io::Result<()> {
        let pair = &mut self.pairs[at];
        let Some(qp) = &pair.qp else { return Err(io::Error::from_raw_os_error(libc::ENOTCONN)) };
        let device = &self.port.device_attr;
        let answered = small(device.max_qp_rd_atom);
        let attr = QpAttr {
            qp_state: state::RTR,
            path_mtu: self.port.attr.active_mtu.min(hello.mtu.into()),
            dest_qp_num: hello.queue,
            rq_psn: hello.psn,
            max_dest_rd_atomic: answered,
            // 0.64 ms, which is not reached in normal running.
            min_rnr_timer: 12,
            ah_attr: self.port.address_vector(&hello.address, &self.settings),
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
        qp.modify(attr, what | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER)?;
        pair.answers_at_once =
            usize::from(small(device.max_qp_init_rd_atom).min(hello.reads)).clamp(1, AT_ONCE);
        pair.granted = hello.window.min(self.depth - EXTRA);
        pair.their_gate = hello.gate;
        self.credit(at, hello.consumed).map_err(|why| io::Error::other(why.to_owned()))
    }

    /// To RTS: everything that is not consumed goes again, and so does one-sided work.
    fn start(&mut self, at: usize) -> io::Result<()> {
        let pair = &mut self.pairs[at];
        let Some(qp) = &pair.qp else { return Err(io::Error::from_raw_os_error(libc::ENOTCONN)) };
        let attr = QpAttr {
            qp_state: state::RTS,
            timeout: self.settings.ack_timeout,
            retry_cnt: self.settings.retries,
            // For ever.
            rnr_retry: 7,
            sq_psn: pair.psn,
            max_rd_atomic: pair.answers_at_once as u8,
            ..QpAttr::default()
        };
        let what = mask::STATE | mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY | mask::SQ_PSN;
        qp.modify(attr, what | mask::MAX_QP_RD_ATOMIC)?;
        (pair.told, pair.window, pair.noticed, pair.owes_credit) =
            (pair.consumed, pair.granted, true, false);
        self.replay(at);
        self.work_on(at);
        Ok(())
    }

    /// Calls, or answers.
    fn greet(&mut self, at: usize) {
        let kind = if self.pairs[at].shake.wants_answer() { Kind::Call } else { Kind::Answer };
        self.say(at, kind);
        let pair = &mut self.pairs[at];
        let pause = (PAUSE * (1 << pair.pause.min(8))).min(LONGEST);
        pair.ring_at = Instant::now() + pause;
        pair.pause += 1;
    }

    /// Sends a datagram about a pair; one that can't be sent counts as lost on the way.
    pub(crate) fn say(&mut self, at: usize, kind: Kind) {
        let pair = &mut self.pairs[at];
        let Some(door) = pair.door else { return };
        let hello = WireupMsg {
            kind,
            from: self.me.0,
            to: pair.peer.0,
            epoch: pair.shake.epoch,
            queue: pair.qp.as_ref().map_or(0, Qp::number),
            psn: pair.psn,
            yours: pair.shake.theirs,
            consumed: pair.consumed,
            window: self.settings.credits,
            frame: self.caps.frame as u32,
            gate: pair.gate.as_ref().map_or((0, 0), Exposed::target),
            address: self.port.address,
            mtu: self.port.attr.active_mtu as u8,
            reads: small(self.port.device_attr.max_qp_rd_atom),
        };
        if pair.ah.is_none() {
            pair.ah =
                Ah::new(&self.pd, self.port.address_vector(&door.address, &self.settings)).ok();
        }
        if let Some(ah) = &pair.ah {
            let _ = self.bell.ring(ah, door.bell, &hello.encode(&self.secret));
        }
    }

    /// Room for one more queue pair, in the queues and among those that there may be.
    fn make_way(&mut self, at: usize) -> io::Result<()> {
        let live = self.pairs.iter().filter(|pair| pair.qp.is_some()).count() as u32;
        if live >= self.most || self.provide(live + 1).is_err() {
            let idle =
                |pair: &Endpoint| (!pair.works.is_empty(), !pair.retained.is_empty(), pair.used_at);
            let now = Instant::now();
            let is_old = |pair: &Endpoint| {
                now - pair.since > if pair.is_ready() { TENURE } else { 4 * TENURE }
            };
            let others = (0..self.pairs.len())
                .filter(|&other| other != at && self.pairs[other].qp.is_some());
            match others
                .filter(|&other| is_old(&self.pairs[other]))
                .min_by_key(|&other| idle(&self.pairs[other]))
            {
                Some(victim) => self.close(victim),
                None if live == 0 => return self.provide(1),
                None => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
        Ok(())
    }

    /// Receives and completions for so many connections.
    fn provide(&mut self, connections: u32) -> io::Result<()> {
        let each = completions_each(self.settings.credits);
        let room = UdEndpoint::COMPLETIONS + 64 + (connections + self.retired.len() as u32) * each;
        if self.cq.entries() < room {
            let most = u32::try_from(self.port.device_attr.max_cqe).unwrap_or(room);
            self.cq.resize((2 * room).min(most).max(room))?;
        }
        while self.provided < connections {
            let idle = if self.provided == 0 { IDLE } else { 0 };
            for _ in 0..self.settings.credits + SPARE + idle {
                let slot = self
                    .receives
                    .take()?
                    .ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
                self.empty.push(slot);
            }
            self.provided += 1;
        }
        self.post_empty();
        Ok(())
    }
}

fn key(peer: Peer) -> String {
    format!("verbs/{}", peer.0)
}

/// From which size on messages are read, and written.
fn rendezvous_from(settings: &Settings, port: &Port) -> (u64, u64) {
    let device = &port.device_attr;
    let reads_well = device.max_qp_rd_atom.min(device.max_qp_init_rd_atom) > 1;
    match settings.rendezvous {
        Rendezvous::Auto if reads_well => (settings.get_min, u64::MAX),
        Rendezvous::Read => (settings.get_min, u64::MAX),
        Rendezvous::Auto | Rendezvous::Write => (u64::MAX, settings.get_min),
        Rendezvous::Copy => (u64::MAX, u64::MAX),
    }
}

fn small(number: i32) -> u8 {
    number.clamp(1, 16) as u8
}

/// Completions that one connection can have in the queue.
fn completions_each(credits: u32) -> u32 {
    credits + SPARE + credits + EXTRA
}

/// Connections that settings and device allow.
fn most_connections(settings: &Settings, port: &Port, size: u32) -> u32 {
    let device = &port.device_attr;
    let of = |most: i32, taken: u32, each: u32| {
        u32::try_from(most).unwrap_or(0).saturating_sub(taken) / each
    };
    let credits = settings.credits;
    settings
        .connections
        .min(size.saturating_sub(1))
        .min(of(device.max_cqe, UdEndpoint::COMPLETIONS + 64, completions_each(credits)))
        .min(of(device.max_srq_wr, IDLE, credits + SPARE))
        .min(of(device.max_qp, 1, 1))
        .max(1)
}
