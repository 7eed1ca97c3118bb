//! What no well-behaved fabric does: peers that die, and peers that lie.

use fabric::sim::SimTransport;
use fabric::{Header, Kind, Lost, Peer, Sink, Transport};
use pt2pt::{Engine, Fault, Mode, Settings};

use super::job::{Job, Pending, WORLD, envelope, pattern, pattern_bytes};
use crate::bytes::{Bytes, Shape};

/// Traffic between all ranks, of which one dies some time. What waits for it
/// fails, what does not goes on.
pub fn dying_peer(job: &mut Job<SimTransport>, victim: u32) {
    let size = job.size();
    let sizes = job.sizes();
    let (mut sends, mut receives) = (Vec::new(), Vec::new());
    for round in 0..40 {
        for (from, to) in (0..size).flat_map(|from| (0..size).map(move |to| (from, to))) {
            let len = job.rng.pick(&sizes).unwrap_or(0);
            let mode = if job.rng.chance(300) { Mode::Synchronous } else { Mode::Standard };
            if !bury(job, victim, from) {
                sends.push((to, job.send(mode, Shape::Run, from, to, round, u64::from(from), len)));
            }
            if !bury(job, victim, to) {
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
    while !bury(job, victim, victim) {
        job.progress();
    }
    job.quiet();
    for rank in (0..size).filter(|&rank| rank != victim) {
        let lost: Vec<Peer> = job.engine(rank).lost().iter().map(|lost| lost.peer).collect();
        assert_eq!(lost, [Peer(victim)], "rank {rank} has not heard of the death");
        fail_receives_from(job.engine(rank), victim);
    }
    for (to, send) in sends.iter().filter(|(_, send)| send.rank != victim) {
        let fault = job.wait(send).fault;
        assert!(fault.is_none() || (*to == victim && is_lost(fault.as_deref(), victim)), "{fault:?}");
    }
    for (from, tag, len, receive) in receives.iter().filter(|(.., receive)| receive.rank != victim) {
        let completion = job.wait(receive);
        match completion.fault.as_deref() {
            None => {
                assert_eq!((completion.source, completion.tag, completion.bytes), (*from, *tag, *len as u64));
                assert!(receive.bytes.read()[..*len] == pattern_bytes(u64::from(*from), *len)[..]);
            }
            fault => assert!(*from == victim && is_lost(fault, victim), "{fault:?}"),
        }
    }
    after_the_death(job, victim, &lonely);
}

/// True when `rank` is the victim and dead; then it is left alone.
fn bury(job: &mut Job<SimTransport>, victim: u32, rank: u32) -> bool {
    if job.dead.is_empty() && job.engine(victim).transport().is_dead() {
        job.dead.push(victim);
    }
    job.dead.contains(&rank)
}

fn is_lost(fault: Option<&Fault>, victim: u32) -> bool {
    matches!(fault, Some(Fault::Lost(lost)) if lost.peer == Peer(victim))
}

fn fail_receives_from(engine: &mut Engine<SimTransport>, victim: u32) {
    let lost = engine.lost()[0].clone();
    engine.fail_receives(|context, source| (context == WORLD && source == Some(victim)).then(|| lost.clone()));
}

fn after_the_death(job: &mut Job<SimTransport>, victim: u32, lonely: &[Pending]) {
    for pending in lonely {
        // Anybody else could still send this one.
        assert!(!job.engine(pending.rank).is_complete(pending.id));
        job.engine(pending.rank).cancel(pending.id);
        assert!(job.wait(pending).cancelled);
        for (mode, len) in [(Mode::Standard, 8), (Mode::Synchronous, 8), (Mode::Standard, 100_000)] {
            let send = job.send(mode, Shape::Run, pending.rank, victim, 0, 0, len);
            assert!(is_lost(job.wait(&send).fault.as_deref(), victim));
            job.engine(pending.rank).cancel(send.id);
        }
    }
}

struct Deaf;

impl Sink for Deaf {
    fn frame(&mut self, _: Peer, _: &Header, _: &[u8]) {}
    fn transferred(&mut self, _: u64, _: Result<(), Lost>) {}
    fn lost(&mut self, _: Lost) {}
}

const KINDS: [Kind; 9] = [
    Kind::Eager, Kind::EagerSync, Kind::Rts, Kind::Cts, Kind::Data, Kind::Done, Kind::Cancel, Kind::CancelReply,
    Kind::Credit,
];

/// Rank 0 is an engine with operations of all kinds under way; rank 1 posts
/// frames that may mean anything. Rank 0 must not panic, must not write beside
/// its buffers, and still talks to rank 2.
pub fn garbage<T: Transport>(seed: u64, transports: Vec<T>) {
    let Ok([honest, mut rogue, friend]) = <[T; 3]>::try_from(transports) else { panic!("three ranks are needed") };
    let mut rng = fabric::sim::Rng::new(seed);
    let mut engine = Engine::new(Peer(0), honest, Settings::default());
    let mut friendly = Engine::new(Peer(2), friend, Settings::default());
    let mut kept = Vec::new();
    for step in 0..3000 {
        if step % 10 == 0 {
            kept.push(start_something(&mut engine, &mut rng));
        }
        let header = lie(&mut rng);
        let len = rng.below(rogue.limits(Peer(0)).frame as u64 + 1).min(rng.bits() % 80) as usize;
        let fill = |slot: &mut [u8]| slot.iter_mut().for_each(|byte| *byte = rng.below(4) as u8);
        let _ = rogue.post(Peer(0), &header, len, fill);
        rogue.poll(&mut Deaf);
        engine.progress();
    }
    let data = Bytes::new(Shape::Run, &pattern_bytes(1, 50_000));
    let room = Bytes::room(Shape::Run, 50_000);
    let apart = |source| pt2pt::Envelope { context: 1 << 40, ..envelope(source, 1) };
    let send = friendly.send(Mode::Standard, Peer(0), apart(2), data.buffer());
    let asked = pt2pt::Pattern { context: 1 << 40, ..pattern(2, 1) };
    let receive = engine.receive(asked, room.buffer());
    while !(engine.is_complete(receive) && friendly.is_complete(send)) {
        engine.progress();
        friendly.progress();
        rogue.poll(&mut Deaf);
    }
    assert!(room.read() == data.read());
    // Reading checks that nothing beside them was written.
    kept.iter().for_each(|bytes| drop(bytes.read()));
}

fn start_something<T: Transport>(engine: &mut Engine<T>, rng: &mut fabric::sim::Rng) -> Bytes {
    let len = rng.below(20_000) as usize;
    let bytes = Bytes::room(Shape::Run, len);
    let tag = rng.below(3) as i32;
    match rng.below(3) {
        0 => engine.send(Mode::Standard, Peer(1), envelope(0, tag), bytes.buffer()),
        1 => engine.send(Mode::Synchronous, Peer(1), envelope(0, tag), bytes.buffer()),
        _ => engine.receive(pattern(None, tag), bytes.buffer()),
    };
    bytes
}

fn lie(rng: &mut fabric::sim::Rng) -> Header {
    let small = |rng: &mut fabric::sim::Rng| match rng.below(6) {
        0 => rng.bits(),
        1 => u64::MAX - rng.below(3),
        _ => rng.below(4) << 32 | rng.below(300),
    };
    Header {
        kind: rng.pick(&KINDS).unwrap_or(Kind::Data),
        flags: rng.bits() as u8,
        collective: if rng.chance(500) { 0 } else { rng.bits() as u8 },
        source: if rng.chance(100) { u32::MAX } else { rng.below(3) as u32 },
        tag: if rng.chance(100) { i32::MIN } else { rng.below(3) as i32 },
        root: if rng.chance(800) { 0 } else { rng.bits() as u32 },
        context: if rng.chance(300) { WORLD } else { small(rng) },
        length: small(rng),
    }
}
