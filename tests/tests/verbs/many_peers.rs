//! One process and thousands of peers, which one UD queue pair of the test plays: it acknowledges
//! their packets and has an address for each. What the process pins, how many queue pairs it makes
//! and what it sends must not grow with peers beyond what each needs, and its time not faster than
//! their number.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::{Header, Kind, Peer, Post, Transport};
use tests::bytes::{Bytes, Shape};
use verbs_transport::ibv::layout::{access, qp_mask as mask, qp_state as state, send_flags};
use verbs_transport::ibv::{Ah, Channel, Cq, Mr, Pd, Qp, QpAttr, Sge, Wc};
use verbs_transport::{InProcessStore, Port, Settings, Store, VerbsTransport};

use crate::Frames;
use crate::stand_in::{LIMIT, alone, settings};

const SECRET: [u8; 32] = [3; 32];
/// Receives of the queue pair, and bytes in front of a datagram.
const RECEIVES: usize = 512;
const ROUTE_HEADER: usize = 40;
/// Bytes of a packet's header, and what its flags are here.
const HEADER: usize = 52;
const DATA: u8 = 4;
const NO_CONNECTION: u8 = 32;

/// All peers of rank 0.
struct Crowd {
    port: Port,
    qp: Qp,
    cq: Cq,
    pd: Arc<Pd>,
    receives: Vec<(Bytes, Mr)>,
    /// Replies that the device may still read.
    replies: VecDeque<(Bytes, Mr)>,
    /// The rank of each token.
    ranks: HashMap<u64, u32>,
    /// Packets that have arrived in order, by rank.
    arrived: Vec<u32>,
    /// Messages about connections.
    wireups: usize,
    to: Option<Ah>,
    qkey: u32,
}

impl Crowd {
    fn new(ranks: u32) -> Crowd {
        let port = Port::choose(&settings()).expect("a port");
        let pd = Pd::new(&port.context).expect("a domain");
        let channel = Channel::new(&port.context).expect("a channel");
        let cq = Cq::new(&channel, 16_384, 0).expect("a completion queue");
        let qp = Qp::new(&pd, &cq, None, 8192, RECEIVES as u32, 0).expect("a queue pair");
        let key = blake3::derive_key("verbena verbs bell qkey", &SECRET);
        let qkey = u32::from_le_bytes([key[0], key[1], key[2], key[3] & 0x7f]);
        let (pkey_index, port_num) = (port.pkey_index, port.number);
        let init =
            QpAttr { qp_state: state::INIT, pkey_index, port_num, qkey, ..QpAttr::default() };
        let all = mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::QKEY;
        qp.modify(init, all).expect("INIT");
        for (qp_state, mask) in
            [(state::RTR, mask::STATE), (state::RTS, mask::STATE | mask::SQ_PSN)]
        {
            qp.modify(QpAttr { qp_state, ..QpAttr::default() }, mask).expect("a transition");
        }
        let slot = |_| registered(&pd, &[0; ROUTE_HEADER + 4096]);
        let receives = (0..RECEIVES).map(slot).collect();
        let ranks_of = (1..ranks).map(|rank| (token(rank), rank)).collect();
        let arrived = vec![0; ranks as usize];
        let (replies, to, wireups) = (VecDeque::new(), None, 0);
        let ranks = ranks_of;
        let crowd =
            Crowd { port, qp, cq, pd, receives, replies, ranks, arrived, wireups, to, qkey };
        (0..RECEIVES).for_each(|slot| crowd.post(slot));
        crowd
    }

    /// Publishes the address of every peer.
    fn publish(&self, store: &mut InProcessStore) {
        let address = &self.port.address;
        let mut bytes = address.gid.raw.to_vec();
        bytes.extend(address.lid.to_le_bytes());
        bytes.extend(self.qp.number().to_le_bytes());
        bytes.push(1);
        for rank in 1..self.arrived.len() {
            store.put(&format!("verbs/{rank}"), &bytes).expect("space");
        }
    }

    fn post(&self, slot: usize) {
        let (bytes, mr) = &self.receives[slot];
        let (addr, length) = (bytes.memory().addr(), bytes.memory().len() as u32);
        let (taken, _) =
            self.qp.post_receives(&[(slot as u64, Sge { addr, length, lkey: mr.lkey() })]);
        assert_eq!(taken, 1, "a receive is refused");
    }

    /// Acknowledges what has arrived.
    fn poll(&mut self) {
        let mut batch = [Wc::default(); 64];
        let count = self.cq.poll(&mut batch);
        for completion in &batch[..count] {
            if completion.wr_id == u64::MAX {
                self.replies.pop_front();
                continue;
            }
            let slot = completion.wr_id as usize;
            let bytes = self.receives[slot].0.read();
            self.post(slot);
            self.on_datagram(&bytes[ROUTE_HEADER..completion.byte_len as usize], completion.src_qp);
        }
    }

    fn on_datagram(&mut self, packet: &[u8], from: u32) {
        if !packet.starts_with(b"vrd\x01") {
            self.wireups += 1;
            return;
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| packet[at + i]));
        let token = u64::from_le_bytes(std::array::from_fn(|i| packet[8 + i]));
        let rank = self.ranks[&token];
        if packet[16] & DATA == 0 {
            return;
        }
        let arrived = &mut self.arrived[rank as usize];
        *arrived += u32::from(*arrived == word(28));
        let mut reply = b"vrd\x01".to_vec();
        reply.extend(rank.to_le_bytes());
        reply.extend(token.to_le_bytes());
        reply.extend([NO_CONNECTION, 0, 0, 0]);
        // Epoch, stream and number of its own; then what it acknowledges, and the frames.
        for word in [word(20), 0, 0, word(24), *arrived, 0, 0, *arrived] {
            reply.extend(word.to_le_bytes());
        }
        assert_eq!(reply.len(), HEADER);
        let to = self.to.get_or_insert_with(|| {
            let attr = self.port.address_vector(&self.port.address, &settings());
            Ah::new(&self.pd, attr).expect("an address handle")
        });
        let (bytes, mr) = registered(&self.pd, &reply);
        let sge = Sge { addr: bytes.memory().addr(), length: HEADER as u32, lkey: mr.lkey() };
        let sent = self.qp.post_datagram(u64::MAX, send_flags::SIGNALED, sge, to, from, self.qkey);
        // One that is refused counts as lost.
        if sent.is_ok() {
            self.replies.push_back((bytes, mr));
        }
    }
}

fn registered(pd: &Arc<Pd>, bytes: &[u8]) -> (Bytes, Mr) {
    let bytes = Bytes::new(Shape::Run, bytes);
    let mr = Mr::register(pd, bytes.memory(), access::LOCAL_WRITE).expect("a registration");
    (bytes, mr)
}

/// Returns what a datagram between rank 0 and this one has.
fn token(rank: u32) -> u64 {
    let mut text = b"verbena datagram\0\0\0\0".to_vec();
    text.extend(rank.to_le_bytes());
    let hash = blake3::keyed_hash(&SECRET, &text);
    u64::from_le_bytes(std::array::from_fn(|at| hash.as_bytes()[at]))
}

/// Lets rank 0 send a frame to each of `ranks` - 1 peers whose addresses it must look up, and end.
/// Returns the processor time.
fn meet(ranks: u32, settings: &Settings) -> Duration {
    const MIB: usize = 1 << 20;
    let mut store = InProcessStore::default();
    let mut crowd = Crowd::new(ranks);
    let shared = Box::new(store.clone());
    let began = processor_time();
    let mut first = VerbsTransport::open(settings.clone(), Peer(0), ranks, SECRET, shared)
        .expect("a transport");
    assert!(first.pinned_bytes()[0] <= 16 * MIB, "{} bytes at start", first.pinned_bytes()[0]);
    let (mut sink, header) = (Frames::default(), Header::new(Kind::Data));
    let deadline = Instant::now() + LIMIT;
    let mut left: Vec<u32> = (1..ranks).collect();
    let mut is_published = false;
    while !left.is_empty() || !first.flush() {
        left.retain(|&peer| {
            let posted = first.post(Peer(peer), &header, 8, |slot| slot.fill(7));
            posted.expect("a peer") == Post::NoSpace
        });
        if !std::mem::replace(&mut is_published, true) {
            assert_eq!(left.len(), ranks as usize - 1, "no address is known yet");
            crowd.publish(&mut store);
        }
        // Time for the addresses and for acknowledgements.
        for _ in 0..ranks / 8 {
            first.poll(&mut sink);
            crowd.poll();
        }
        assert!(Instant::now() < deadline, "{} peers are left", left.len());
    }
    assert!(crowd.arrived[1..].iter().all(|&count| count == 1), "a frame is missing");
    let ([pinned, _], sent) = (first.pinned_bytes(), first.datagrams_sent());
    let (connections, wireups) = (first.connections(), crowd.wireups);
    println!(
        "{ranks} processes: {pinned} bytes pinned, {sent} packets, {wireups} about connections"
    );
    assert!(pinned <= 64 * MIB, "{pinned} bytes");
    assert!(sent <= 2 * u64::from(ranks), "{sent} packets");
    assert!(connections == 0 && wireups == 0, "{connections} connections, {wireups} messages");
    processor_time() - began
}

/// Returns the processor time of this process.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[test]
fn ten_thousand_peers() {
    alone("many_peers::ten_thousand_peers", "", || {
        let time = |ranks| meet(ranks, &settings()).min(meet(ranks, &settings()));
        let (few, many) = (time(2_500), time(10_000));
        println!("2,500 peers: {few:?}; 10,000: {many:?}");
        // Four times as many; n^2 would be 16 times.
        assert!(many < 8 * few, "{few:?} for 2,500 peers, {many:?} for 10,000");
    });
}
