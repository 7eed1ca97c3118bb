//! The peer of `peer.c`, over queue pairs of the crate `ibverbs`:
//!
//! ```sh
//! foreign-peer DEVICE GID_INDEX FOLDER second
//! ```
//!
//! It accepts connections and requests none (`second`): the crate takes a queue pair from its
//! creation to RTS in one step. The crate has no RDMA read either: the other side reads the memory
//! of this process, which answers offers of the other side with done.

#![allow(unsafe_code)]

mod ud;

use std::time::{Duration, Instant};

use ibverbs::{CompletionQueue, Context, Gid, MemoryRegion, ProtectionDomain, QueuePair, QueuePairEndpoint};
use ud::{DISCONNECT, REP, REQ, UdEndpoint, WireupMsg};

const FRAMES: u64 = 200;
const FRAME: usize = 8200;
const MEMORY: usize = 300_000;
const WINDOW: u32 = 8;
/// Receives for messages of credit.
const CONTROL_RECVS: u32 = 6;
/// In front of a body.
const HEADER: usize = 40;
const SLOT: usize = HEADER + FRAME;
const EAGER: u8 = 1;
const RTS: u8 = 3;
const DONE: u8 = 6;
const MAX_TIME: Duration = Duration::from_secs(60);
/// Numbers of the requests that are no receives.
const SENT: u64 = 1000;
/// Names what we offer in Rts and Done.
const REQUEST: u64 = 77;

/// Of frame `number`.
fn length(number: u64) -> usize {
    [0, 8, 200, FRAME][number as usize % 4]
}

fn body(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number * 7 + at * 31) as u8).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

/// The connection, once the other side has called.
struct Connection<'a> {
    qp: QueuePair<'a>,
    number: u32,
    theirs: u32,
    epoch: u32,
    window: u32,
}

struct Peer<'a> {
    ud: UdEndpoint,
    pd: &'a ProtectionDomain<'a>,
    cq: &'a CompletionQueue<'a>,
    gid_index: u32,
    received: MemoryRegion<u8>,
    sent: MemoryRegion<u8>,
    connection: Option<Connection<'a>>,
    /// It has acknowledged our queue pair.
    is_ready: bool,
    is_closed: bool,
    next: u32,
    acked: u32,
    consumed: u32,
    advertised: u32,
    frames: u64,
    offered: Option<u64>,
    done: bool,
    began: Instant,
}

impl Peer<'_> {
    /// The table of `docs/verbs.md`, for the called side.
    fn on_msg(&mut self, msg: &WireupMsg, from: u32) {
        if (msg.from, msg.to) != (0, 1) {
            return;
        }
        assert_eq!(msg.frame as usize, FRAME, "the other side's frames are of another size");
        if msg.kind == DISCONNECT {
            self.is_closed = true;
            return;
        }
        let known = self.connection.as_ref().map_or(0, |connection| connection.epoch);
        if msg.epoch > known {
            assert!(!self.is_ready, "the connection broke");
            self.connect(msg);
        }
        let Some(connection) = self.connection.as_ref().filter(|connection| connection.epoch == msg.epoch) else {
            return;
        };
        self.is_ready |= msg.peer_qpn == connection.number;
        let reply = WireupMsg {
            kind: if self.is_ready { REP } else { REQ },
            from: 1,
            epoch: connection.epoch,
            qpn: connection.number,
            peer_qpn: connection.theirs,
            rx_seq: self.consumed,
            window: WINDOW,
            reads: 1,
            frame: FRAME as u32,
            ..WireupMsg::default()
        };
        if msg.kind == REQ {
            self.ud.reply(msg, from, reply);
        }
    }

    /// From nothing to RTS. Messages that come before its receives are posted are sent again.
    fn connect(&mut self, msg: &WireupMsg) {
        let made = self
            .pd
            .create_qp(self.cq, self.cq, ibverbs::ibv_qp_type::IBV_QPT_RC)
            .set_max_send_wr(4 * WINDOW)
            .set_max_recv_wr(WINDOW + CONTROL_RECVS)
            .set_gid_index(self.gid_index)
            .allow_remote_rw()
            .set_path_mtu(msg.mtu.into())
            .set_rq_psn(msg.psn)
            .set_timeout(14)
            .set_retry_count(7)
            .set_rnr_retry(7)
            .build()
            .expect("a queue pair");
        let mut gid = Gid::default();
        gid.as_mut().raw = msg.gid;
        let number = made.endpoint().num;
        let remote = QueuePairEndpoint { num: msg.qpn, lid: msg.lid, gid: Some(gid) };
        let qp = made.handshake(remote).expect("a connection");
        let window = msg.window.min(WINDOW);
        self.connection = Some(Connection { qp, number, theirs: msg.qpn, epoch: msg.epoch, window });
        (0..WINDOW + CONTROL_RECVS).for_each(|slot| self.receive_with(slot.into()));
    }

    fn receive_with(&mut self, slot: u64) {
        let Some(connection) = &mut self.connection else { return };
        let at = slot as usize * SLOT;
        // SAFETY: no code looks at the slot before the request is over.
        unsafe { connection.qp.post_receive(&mut self.received, at..at + SLOT, slot) }.expect("a receive");
    }

    /// Looks at everything once.
    fn progress(&mut self) {
        if let Some((msg, from)) = self.ud.recv() {
            self.on_msg(&msg, from);
        }
        let mut completions = [ibverbs::ibv_wc::default(); 4];
        let completed = self.cq.poll(&mut completions).expect("completions");
        for completion in &*completed {
            assert!(completion.is_valid(), "request {} fails: {:?}", completion.wr_id(), completion.error());
            let slot = completion.wr_id();
            if slot < SENT {
                self.is_ready = true;
                let at = slot as usize * SLOT;
                let message = self.received[at..at + completion.len()].to_vec();
                self.on_frame(&message);
                self.receive_with(slot);
            }
        }
        if completed.is_empty() {
            std::thread::sleep(Duration::from_micros(50));
        }
        assert!(self.began.elapsed() < MAX_TIME, "too slow: {} sent, {} heard", self.next, self.frames);
    }

    /// A message on the connection.
    fn on_frame(&mut self, message: &[u8]) {
        let (number, consumed) = (word(message, 0), word(message, 4));
        if consumed.wrapping_sub(self.acked) as i32 > 0 {
            self.acked = consumed;
        }
        let Some(body) = message.get(HEADER..) else {
            if number == 1 {
                self.credit();
            }
            return;
        };
        assert_eq!(number, self.consumed, "a frame is missing or came twice");
        match message[8] {
            EAGER => {
                assert_eq!(long(message, 32), self.frames);
                assert!(body == self::body(self.frames, length(self.frames)), "frame {} arrived damaged", self.frames);
                self.frames += 1;
            }
            RTS => self.offered = Some(long(body, 0)),
            DONE => self.done = long(message, 24) == REQUEST,
            other => panic!("a frame of kind {other}"),
        }
        self.consumed += 1;
        if self.consumed - self.advertised >= self.window() / 2 {
            self.credit();
        }
    }

    fn window(&self) -> u32 {
        self.connection.as_ref().map_or(0, |connection| connection.window)
    }

    /// A message of number and credit alone. It lies after the slots of the frames.
    fn credit(&mut self) {
        let at = WINDOW as usize * SLOT;
        self.post(at, 0, 8);
    }

    fn post(&mut self, at: usize, number: u32, len: usize) {
        self.sent[at..at + 4].copy_from_slice(&number.to_le_bytes());
        self.sent[at + 4..at + 8].copy_from_slice(&self.consumed.to_le_bytes());
        self.advertised = self.consumed;
        let Some(connection) = &mut self.connection else { return };
        // SAFETY: a slot is written again when its frame is consumed; credit that changes on its
        // way is newer credit.
        unsafe { connection.qp.post_send(&mut self.sent, at..at + len, SENT) }.expect("a request");
    }

    fn send(&mut self, kind: u8, context: u64, length: u64, body: &[u8]) {
        while !self.is_ready || self.next - self.acked >= self.window() {
            self.progress();
        }
        let (at, number) = ((self.next % WINDOW) as usize * SLOT, self.next);
        let frame = &mut self.sent[at..at + HEADER + body.len()];
        frame[8..HEADER].fill(0);
        frame[8] = kind;
        frame[24..32].copy_from_slice(&context.to_le_bytes());
        frame[32..40].copy_from_slice(&length.to_le_bytes());
        frame[HEADER..].copy_from_slice(body);
        self.next += 1;
        self.post(at, number, HEADER + body.len());
    }

    /// Offers our memory; announces that we are done with the other's memory.
    fn offer(&mut self, memory: &MemoryRegion<u8>) {
        let [request, addr] = [REQUEST, memory.as_ptr() as u64].map(u64::to_le_bytes);
        let body = [request, 1u64.to_le_bytes(), addr, u64::from(memory.rkey().key).to_le_bytes(), [0; 8]].concat();
        self.send(RTS, 0, MEMORY as u64, &body);
        let theirs = loop {
            match self.offered {
                Some(request) => break request,
                None => self.progress(),
            }
        };
        self.send(DONE, theirs, 0, &[]);
        while !self.done {
            self.progress();
        }
    }
}

fn opened(device: &str) -> Context {
    let devices = ibverbs::devices().expect("devices");
    let found = devices.iter().find(|found| found.name().is_some_and(|name| name.to_bytes() == device.as_bytes()));
    found.expect("no such device").open().expect("the device can't be opened")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, device, gid_index, folder, role] = arguments.as_slice() else {
        panic!("foreign-peer DEVICE GID_INDEX FOLDER second")
    };
    assert_eq!(role, "second", "this peer is called");
    let gid_index = gid_index.parse().expect("a number");
    let context = opened(device);
    let pd = context.alloc_pd().expect("a protection domain");
    let cq = context.create_cq(8 * WINDOW as i32, 0).expect("a queue");
    let allocate = |bytes| pd.allocate::<u8>(bytes).expect("memory");
    let (ud, address) = UdEndpoint::open(device, gid_index, &[9; 32]);
    let mut memory = allocate(MEMORY);
    memory.copy_from_slice(&body(1, MEMORY));
    let mut peer = Peer {
        ud,
        pd: &pd,
        cq: &cq,
        gid_index,
        received: allocate((WINDOW + CONTROL_RECVS) as usize * SLOT),
        sent: allocate(WINDOW as usize * SLOT + 8),
        connection: None,
        is_ready: false,
        is_closed: false,
        next: 0,
        acked: 0,
        consumed: 0,
        advertised: 0,
        frames: 0,
        offered: None,
        done: false,
        began: Instant::now(),
    };
    let (new, name) = (format!("{folder}/verbs.1.new"), format!("{folder}/verbs.1"));
    std::fs::write(&new, address.bytes()).and_then(|()| std::fs::rename(new, name)).expect("the store");
    for number in 0..FRAMES {
        peer.send(EAGER, 0, number, &body(number, length(number)));
    }
    while peer.frames < FRAMES {
        peer.progress();
    }
    peer.offer(&memory);
    while !peer.is_closed {
        peer.progress();
    }
    println!("peer: ok, {} frames each way", peer.frames);
}
