//! Post, start, complete and wait with groups that change, on one host and on several.

use fabric::sim::{Options, Rng, fabric};
use fabric::{Peer, protocol};
use objects::{Datatype, Group};
use rma::{Access, Engine, LockBy, Memory, Place, Remote, StepRow, WaitsFor, Window};
use tests::bytes::{Bytes, Shape};

use crate::{ID, Job, MAX_ROUNDS, ROUGH, seed};

/// What a rank does next in an epoch of groups.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Post,
    Start,
    Access,
    Complete,
    Wait,
}

/// Ranks of several hosts: those of one host count steps in memory that they share.
fn hosts_job(hosts: &[u64], seed: u64, options: Options, rng: &mut Rng) -> (Job, Vec<Bytes>) {
    let ranks = hosts.len();
    let bytes = 4 * ranks;
    let memory: Vec<Bytes> =
        hosts.iter().map(|_| Bytes::new(Shape::Run, &vec![0; bytes])).collect();
    let row_bytes = StepRow::bytes(ranks);
    let rows: Vec<Bytes> =
        hosts.iter().map(|_| Bytes::new(Shape::Run, &vec![0; row_bytes + 8])).collect();
    let row = |rank: usize| {
        let memory = rows[rank].memory();
        let at = memory.addr().next_multiple_of(8) - memory.addr();
        // The ranks before it on its host.
        let index = hosts[..rank].iter().filter(|&&host| host == hosts[rank]).count();
        StepRow::new(memory.slice(at as usize, row_bytes), index as u32)
    };
    let mut engine = |me: usize| {
        let remote = |rank: usize| {
            let is_local = hosts[rank] == hosts[me];
            // Memory that the process does not map is accessed in frames.
            let is_direct = is_local && rng.chance(700);
            Remote {
                size: bytes as u64,
                unit: 4,
                is_distant: !is_local,
                steps: is_local.then(|| row(rank)),
                direct: is_direct.then(|| memory[rank].memory()),
                ..Remote::default()
            }
        };
        let remotes = (0..ranks).map(remote).collect();
        let own = Memory::Fixed(memory[me].memory());
        let mut engine = Engine::new();
        let group = Group::world(ranks as u32);
        engine.open(Window::new((ID, me as u32), group, own, remotes, LockBy::Message));
        engine
    };
    let engines = (0..ranks).map(&mut engine).collect();
    (Job { transports: fabric(ranks as u32, seed, options), engines, memory }, rows)
}

/// Ranks post, start, complete and wait with other groups in each round, some rounds ahead of each
/// other. Steps go by memory and by messages, also between the same two ranks. Whoever has waited
/// finds what its origins have put, and nobody waits for ever.
#[test]
fn epochs_of_groups_agree_with_the_model() {
    const ROUNDS: usize = 40;
    for at in 0..24 {
        let (seed, ranks) = (seed() + 700 + at, [2, 3, 4, 6][at as usize % 4]);
        let mut rng = Rng::new(seed);
        let hosts: Vec<u64> = (0..ranks).map(|_| rng.below(1 + at % 3)).collect();
        let options = if at % 2 == 0 { ROUGH } else { Options::default() };
        let (mut job, _rows) = hosts_job(&hosts, seed, options, &mut rng);
        // By round, origin and target.
        let edges: Vec<Vec<Vec<bool>>> = (0..ROUNDS)
            .map(|_| {
                let edge = |rng: &mut Rng| rng.chance(500);
                (0..ranks).map(|_| (0..ranks).map(|_| edge(&mut rng)).collect()).collect()
            })
            .collect();
        let int = Datatype::predefined(0x209).expect("MPI_INT").clone();
        let value = |round: usize, origin: usize| (1000 * round + origin) as i32;
        let mut at = vec![(0, Phase::Post); ranks];
        let mut keep = Vec::new();
        for turn in 0.. {
            assert!(turn < MAX_ROUNDS, "seed {seed}: a step is lost, ranks at {at:?}");
            if at.iter().all(|&(round, _)| round == ROUNDS) {
                break;
            }
            let me = rng.below(ranks as u64) as usize;
            let (round, phase) = at[me];
            let (engine, transport) = (&mut job.engines[me], &mut job.transports[me]);
            protocol::progress(transport, engine);
            if round == ROUNDS {
                continue;
            }
            let targets: Vec<u32> =
                (0..ranks).filter(|&to| edges[round][me][to]).map(|to| to as u32).collect();
            let origins: Vec<u32> =
                (0..ranks).filter(|&from| edges[round][from][me]).map(|from| from as u32).collect();
            let is_exposed = !origins.is_empty();
            at[me].1 = match phase {
                Phase::Post => {
                    if is_exposed {
                        engine.post(transport, ID, origins, false).expect("a post");
                    }
                    Phase::Start
                }
                Phase::Start => {
                    engine.begin_access(ID, targets).expect("a start begins");
                    Phase::Access
                }
                Phase::Access => {
                    let Some(begun) = engine.poll_start(ID) else { continue };
                    begun.expect("started");
                    for &target in &targets {
                        let data = value(round, me).to_ne_bytes();
                        let data = Bytes::new(Shape::Run, &data);
                        let place =
                            Place { target, disp: me as i64, count: 1, datatype: int.clone() };
                        let put = Access::Put(data.buffer());
                        engine.start(transport, ID, put, &place, false).expect("a put");
                        keep.push(data);
                    }
                    engine.begin_complete(transport, ID).expect("a complete begins");
                    Phase::Complete
                }
                Phase::Complete => {
                    if !engine.complete_now(transport, ID).expect("completed") {
                        let Some(ended) = engine.poll_local(ID, None) else { continue };
                        ended.expect("ended locally");
                        engine.complete(transport, ID).expect("completed");
                    }
                    Phase::Wait
                }
                Phase::Wait if !is_exposed => Phase::Post,
                Phase::Wait => {
                    let waits = rng.chance(500);
                    let ended = if waits { engine.poll_wait(ID) } else { engine.test_exposure(ID) };
                    let Some(ended) = ended else { continue };
                    ended.expect("waited");
                    let found = job.memory[me].read();
                    for origin in origins {
                        let origin = origin as usize;
                        let cell = &found[4 * origin..4 * origin + 4];
                        let expected = value(round, origin).to_ne_bytes();
                        assert_eq!(cell, expected, "seed {seed}: {me} from {origin}, {round}");
                    }
                    Phase::Post
                }
            };
            engine.take_wakes().for_each(drop);
            if phase == Phase::Wait && at[me].1 == Phase::Post {
                at[me].0 += 1;
            }
        }
    }
}

/// Post and start with MPI_MODE_NOCHECK leave no step that a later epoch would find.
#[test]
fn epochs_that_are_not_checked_leave_no_step() {
    let mut rng = Rng::new(seed());
    let (mut job, _rows) = hosts_job(&[0, 0], seed(), Options::default(), &mut rng);
    let Job { transports, engines, .. } = &mut job;
    let ([one, other], [first, second]) = (&mut engines[..], &mut transports[..]) else {
        unreachable!("two ranks");
    };
    for _ in 0..3 {
        other.post(second, ID, vec![0], true).expect("a post");
        one.begin_access(ID, vec![1]).expect("a start");
        assert!(other.poll_wait(ID).is_none() && other.shared_waits() == 1 && !other.has_turn());
        assert!(one.complete_now(first, ID).expect("completed"));
        assert!(one.take_wakes().eq([Peer(1)]) && other.has_turn() && other.take_turns());
        other.poll_wait(ID).expect("an end").expect("waited");
        assert!(other.shared_waits() == 0 && !other.has_turn());
        one.begin_access(ID, vec![1]).expect("a start");
        assert!(one.poll_start(ID).is_none() && one.shared_waits() == 1);
        assert_eq!(one.blocked_on(ID, WaitsFor::Exposure), Some((1, None)));
        other.post(second, ID, vec![0], false).expect("a post");
        assert!(other.take_wakes().eq([Peer(0)]) && one.has_turn());
        assert_eq!(other.blocked_on(ID, WaitsFor::AccessEnd), Some((0, None)));
        one.poll_start(ID).expect("an end").expect("started");
        assert!(other.test_exposure(ID).is_none() && other.shared_waits() == 0);
        assert!(one.complete_now(first, ID).expect("completed"));
        other.test_exposure(ID).expect("an end").expect("waited");
        one.take_wakes().for_each(drop);
    }
    assert!(one.complete_now(first, ID).is_err() && other.poll_wait(ID).expect("an end").is_err());
}

/// A rank that dies between its epochs is named to those that wait for its steps in memory.
#[test]
fn a_rank_that_dies_before_its_step_is_named() {
    let options = Options { death: Some((Peer(1), 50)), max_delay: 5, ..Options::default() };
    let mut rng = Rng::new(seed());
    let (mut job, _rows) = hosts_job(&[0, 0, 0], seed(), options, &mut rng);
    job.engines[0].post(&mut job.transports[0], ID, vec![2, 1], false).expect("a post");
    job.engines[0].begin_access(ID, vec![1, 2]).expect("a start");
    assert!(job.engines[0].poll_start(ID).is_none() && job.engines[0].poll_wait(ID).is_none());
    for _ in 0..1000 {
        protocol::progress(&mut job.transports[0], &mut job.engines[0]);
    }
    let ends = [Engine::poll_start, Engine::poll_wait].map(|poll| {
        let error = poll(&mut job.engines[0], ID).expect("an end").expect_err("a failure");
        assert!(error.detail().contains("rank 1"), "{}", error.detail());
        error.class()
    });
    assert_eq!(ends, [objects::Class::ProcAborted; 2]);
    assert_eq!(job.engines[0].shared_waits(), 0);
}
