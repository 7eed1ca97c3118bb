//! Faults that no well-behaved fabric has: peers that die, and peers that lie.

use fabric::sim::{Rng, SimTransport};
use fabric::transport::Rts;
use fabric::{Body, Header, HybridGet, Kind, Peer, PeerFailed, Region, Sink};
use objects::{Comm, Group};
use pt2pt::{Envelope, Fault, Mode, Pattern, RequestId, Settings};

use super::job::{Job, Pending, WORLD, envelope, pattern, pattern_bytes};
use super::rank::Rank;
use crate::bytes::{Bytes, Shape};

/// Traffic between all ranks, of which one dies some time. Requests that wait for it fail, others
/// go on.
pub fn dying_peer(job: &mut Job<SimTransport>, victim: u32) {
    let size = job.size();
    let sizes = job.sizes();
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for round in 0..40 {
        for (from, to) in (0..size).flat_map(|from| (0..size).map(move |to| (from, to))) {
            let len = job.rng.pick(&sizes).unwrap_or(0);
            let mode = if job.rng.chance(300) { Mode::Synchronous } else { Mode::Standard };
            if !is_reported_dead(job, victim, from) {
                sends.push((to, job.send(mode, Shape::Run, from, to, round, u64::from(from), len)));
            }
            if !is_reported_dead(job, victim, to) {
                let receive = job.receive(to, pattern(from, round), Shape::Run, 70_000);
                receives.push((from, round, len, receive));
            }
            job.stir();
        }
    }
    let lonely: Vec<Pending> = (0..size)
        .filter(|&rank| rank != victim)
        .map(|rank| job.receive(rank, pattern(None, 999), Shape::Run, 8))
        .collect();
    while !is_reported_dead(job, victim, victim) {
        job.progress();
    }
    job.quiet();
    for rank in (0..size).filter(|&rank| rank != victim) {
        let lost: Vec<Peer> =
            job.rank(rank).pt2pt.failed_peers().iter().map(|lost| lost.peer).collect();
        assert_eq!(lost, [Peer(victim)], "rank {rank} has not heard of the death");
        fail_receives_from(job, rank);
    }
    for (to, send) in sends.iter().filter(|(_, send)| send.rank != victim) {
        let fault = job.wait(send).fault;
        assert!(
            fault.is_none() || (*to == victim && is_lost(fault.as_deref(), victim)),
            "{fault:?}"
        );
    }
    for (from, tag, len, receive) in receives.iter().filter(|(.., receive)| receive.rank != victim)
    {
        let completion = job.wait(receive);
        match completion.fault.as_deref() {
            None => {
                assert_eq!(
                    (completion.source, completion.tag, completion.bytes),
                    (*from, *tag, *len as u64)
                );
                assert!(receive.bytes.read()[..*len] == pattern_bytes(u64::from(*from), *len)[..]);
            }
            fault => assert!(*from == victim && is_lost(fault, victim), "{fault:?}"),
        }
    }
    after_the_death(job, victim, &lonely);
}

/// True when `rank` is the victim and dead; then it is left alone.
fn is_reported_dead(job: &mut Job<SimTransport>, victim: u32, rank: u32) -> bool {
    if job.dead.is_empty() && job.rank(victim).transport.is_dead() {
        job.dead.push(victim);
    }
    job.dead.contains(&rank)
}

fn is_lost(fault: Option<&Fault>, victim: u32) -> bool {
    matches!(fault, Some(Fault::PeerFailed(lost)) if lost.peer == Peer(victim))
}

/// As the owner of the communicator does it.
fn fail_receives_from(job: &mut Job<SimTransport>, rank: u32) {
    let comm = Comm::new("all", WORLD / 2, rank, Group::world(job.size()));
    let engine = job.rank(rank);
    let lost = engine.pt2pt.failed_peers()[0].clone();
    engine.pt2pt.fail_receives(|context, source| {
        assert_eq!(context, 2 * comm.context());
        comm.missing(source, |peer| peer == lost.peer).map(|_| lost.clone())
    });
}

fn after_the_death(job: &mut Job<SimTransport>, victim: u32, lonely: &[Pending]) {
    for pending in lonely {
        if job.size() == 2 {
            // No other rank could send this one.
            assert!(is_lost(job.wait(pending).fault.as_deref(), victim));
        } else {
            assert!(!job.rank(pending.rank).pt2pt.is_complete(pending.id));
            job.rank(pending.rank).cancel(pending.id);
            assert!(job.wait(pending).cancelled);
        }
        for (mode, len) in [(Mode::Standard, 8), (Mode::Synchronous, 8), (Mode::Standard, 100_000)]
        {
            let send = job.send(mode, Shape::Run, pending.rank, victim, 0, 0, len);
            assert!(is_lost(job.wait(&send).fault.as_deref(), victim));
            job.rank(pending.rank).cancel(send.id);
        }
    }
}

/// Notes the request ids in what it is sent, to lie about them.
#[derive(Default)]
struct Spy {
    ids: Vec<u64>,
}

impl Sink for Spy {
    fn frame(&mut self, _: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        let body = body.wait_all().unwrap();
        self.ids.extend([header.context, header.length]);
        self.ids.extend(body.first_chunk().map(|id| u64::from_le_bytes(*id)));
        let surplus = self.ids.len().saturating_sub(30);
        self.ids.drain(..surplus);
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
    fn peer_failed(&mut self, _: PeerFailed) {}
}

const KINDS: [Kind; 9] = [
    Kind::Eager,
    Kind::EagerSync,
    Kind::Rts,
    Kind::Cts,
    Kind::Data,
    Kind::Done,
    Kind::Cancel,
    Kind::CancelReply,
    Kind::Credit,
];

/// Rank 0 is an engine with operations of all kinds under way; rank 1 posts
/// frames that may mean anything. Rank 0 must not panic, must not write outside its buffers, and
/// its messages with rank 2 are none of rank 1's business.
pub fn garbage<T: HybridGet>(seed: u64, transports: Vec<T>) {
    let Ok([honest, mut rogue, friend]) = <[T; 3]>::try_from(transports) else {
        panic!("three ranks are needed")
    };
    let mut rng = Rng::new(seed);
    let mut engine = Rank::new(Peer(0), honest, Settings::default());
    let mut friendship = Friendship {
        engine: Rank::new(Peer(2), friend, Settings::default()),
        pending: None,
        id: 0,
    };
    let (mut spy, mut kept) = (Spy::default(), Vec::new());
    for step in 0..6000 {
        if step % 10 == 0 {
            kept.push(start_something(&mut engine, &mut rng));
        }
        friendship.go_on(&mut engine);
        let (header, body) = lie(&mut rng, &spy.ids);
        let len = body.len().min(rogue.caps(Peer(0)).frame);
        let _ = rogue.post(Peer(0), &header, len, |slot| slot.copy_from_slice(&body[..len]));
        rogue.poll(&mut spy);
        engine.progress();
    }
    assert!(friendship.id > 10, "hardly a message of the others came through");
    // Reading checks that no other bytes were written.
    kept.iter().for_each(|bytes| drop(bytes.read()));
}

/// Messages from rank 2 to rank 0, one after the other, all of them checked.
struct Friendship<T: HybridGet> {
    engine: Rank<T>,
    pending: Option<(RequestId, Bytes, RequestId, Bytes)>,
    id: u64,
}

impl<T: HybridGet> Friendship<T> {
    fn go_on(&mut self, other: &mut Rank<T>) {
        self.engine.progress();
        let Some((send, data, receive, into)) = &self.pending else { return self.start(other) };
        if self.engine.pt2pt.is_complete(*send) && other.pt2pt.is_complete(*receive) {
            assert!(
                into.read() == data.read(),
                "message {} between the others was damaged",
                self.id
            );
            let outcomes = [self.engine.pt2pt.finish(*send), other.pt2pt.finish(*receive)];
            assert!(
                outcomes.into_iter().flatten().all(|done| done.fault.is_none() && !done.cancelled)
            );
            self.pending = None;
        }
    }

    fn start(&mut self, other: &mut Rank<T>) {
        self.id += 1;
        let len = [8, 5000, 20_000][self.id as usize % 3];
        let data = Bytes::new(Shape::Run, &pattern_bytes(self.id, len));
        let into = Bytes::for_receive(Shape::Run, len);
        let mode = if self.id.is_multiple_of(2) { Mode::Standard } else { Mode::Synchronous };
        let apart = Envelope { context: 1 << 40, ..envelope(2, 1) };
        let send = self.engine.send(mode, Peer(0), apart, data.buffer());
        let receive = other.receive(Pattern { context: 1 << 40, ..pattern(2, 1) }, into.buffer());
        self.pending = Some((send, data, receive, into));
    }
}

fn start_something<T: HybridGet>(engine: &mut Rank<T>, rng: &mut Rng) -> Bytes {
    let len = rng.below(20_000) as usize;
    let bytes = Bytes::for_receive(Shape::Run, len);
    let tag = rng.below(3) as i32;
    match rng.below(3) {
        0 => engine.send(Mode::Standard, Peer(1), envelope(0, tag), bytes.buffer()),
        1 => engine.send(Mode::Synchronous, Peer(1), envelope(0, tag), bytes.buffer()),
        _ => engine.receive(pattern(None, tag), bytes.buffer()),
    };
    bytes
}

/// A frame that may be plausible.
fn lie(rng: &mut Rng, ids: &[u64]) -> (Header, Vec<u8>) {
    let number = |rng: &mut Rng| match rng.below(8) {
        0 => rng.bits(),
        1 => u64::MAX - rng.below(3),
        2 | 3 => rng.below(20_000),
        4 | 5 => rng.pick(ids).unwrap_or(0),
        _ => rng.below(4) << 32 | rng.below(300),
    };
    let kind = rng.pick(&KINDS).unwrap_or(Kind::Data);
    let header = Header {
        kind,
        flags: rng.bits() as u8,
        collective: if rng.chance(900) { 0 } else { rng.bits() as u16 },
        source: if rng.chance(100) { u32::MAX } else { rng.below(2) as u32 },
        tag: if rng.chance(100) { i32::MIN } else { rng.below(3) as i32 },
        root: if rng.chance(900) { 0 } else { rng.bits() as u32 },
        context: if rng.chance(400) { WORLD } else { number(rng) },
        length: number(rng),
    };
    let body = match kind {
        Kind::Rts if rng.chance(900) => {
            let region = rng.chance(300).then(|| Region { addr: rng.bits(), keys: [0; 4] });
            Rts { send: number(rng), region }.encode().to_vec()
        }
        _ => pattern_bytes(rng.bits(), rng.below(100) as usize),
    };
    (header, body)
}
