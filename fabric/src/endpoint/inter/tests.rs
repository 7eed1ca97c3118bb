//! Two simulated transports as verbs and TCP.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;
use crate::body::Body;
use crate::header::Kind;
use crate::sim::{self, Options, SimTransport};
use crate::store::InProcessStore;
use crate::timer::Timer;

type SimInter = Inter<SimTransport, SimTransport>;

#[derive(Default)]
struct Inbox(Vec<(u32, u8)>, Vec<u32>);

impl Sink for Inbox {
    fn frame(&mut self, from: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        self.0.push((from.0, body.wait_all().unwrap()[0]));
    }
    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
    fn peer_failed(&mut self, failed: PeerFailed) {
        self.1.push(failed.peer.0);
    }
}

/// Ranks 0 and 1 share a fabric, rank 2 has another, rank 3 has none and TCP alone.
const FABRICS: [&str; 4] = ["ib one", "ib one", "ib two", ""];

/// Longest time of a test; a longer one hangs.
const LIMIT: Duration = Duration::from_secs(60);
/// No agreement falls back because this process had no processor for a while.
const LONG: Patience =
    Patience { silence: Duration::from_secs(3600), grace: Duration::from_secs(3600) };
const SHORT: Patience =
    Patience { silence: Duration::from_millis(5), grace: Duration::from_millis(5) };

/// The peers that were reported as reached by TCP instead.
type Reported = Arc<Mutex<Vec<(u32, String)>>>;

fn ranks(
    options: [Options; 2],
    store: &InProcessStore,
    patience: Patience,
) -> (Vec<SimInter>, Reported) {
    let [verbs, tcp] = options.map(|options| sim::fabric(4, 1, options));
    let reported = Reported::default();
    let make = |(rank, (verbs, tcp))| match FABRICS[rank as usize] {
        "" => Inter::tcp_only(tcp),
        fabric => {
            let reported = Arc::clone(&reported);
            let choice = Choice {
                me: Peer(rank),
                world: 0..4,
                fabric: fabric.into(),
                store: Box::new(store.clone()),
                timer: Timer::new().unwrap(),
                patience,
                report: Box::new(move |peer, why| {
                    reported.lock().unwrap().push((peer.0, why.to_owned()));
                }),
            };
            Inter::both(verbs, tcp, choice)
        }
    };
    ((0..).zip(verbs.into_iter().zip(tcp)).map(make).collect(), reported)
}

fn publish_all(store: &mut InProcessStore) {
    for (rank, fabric) in (0..).zip(FABRICS) {
        publish(store, Peer(rank), fabric, true).unwrap();
    }
}

fn post(rank: &mut SimInter, to: u32, body: u8) -> Result<Post, PeerFailed> {
    rank.post(Peer(to), &Header::new(Kind::Eager), 1, |slot| slot[0] = body)
}

/// Posts from one rank to another, polling all ranks, until there is a route.
fn post_soon(
    ranks: &mut [SimInter],
    inboxes: &mut [Inbox; 4],
    (from, to): (usize, u32),
) -> Result<(), PeerFailed> {
    let began = Instant::now();
    while post(&mut ranks[from], to, 7)? == Post::NoSpace {
        poll_all(ranks, inboxes);
        assert!(began.elapsed() < LIMIT, "there is no route from {from} to {to}");
    }
    Ok(())
}

fn poll_all(ranks: &mut [SimInter], inboxes: &mut [Inbox; 4]) {
    for (rank, inbox) in ranks.iter_mut().zip(inboxes) {
        rank.poll(inbox);
    }
}

#[test]
fn a_shared_fabric_is_used_and_everything_else_goes_by_tcp() {
    let mut store = InProcessStore::default();
    let small = Caps { frame: 128, eager: 120, ..Options::default().caps };
    let options = [Options::default(), Options { caps: small, ..Options::default() }];
    let (mut ranks, reported) = ranks(options, &store, LONG);
    let mut inboxes = <[Inbox; 4]>::default();
    assert_eq!(ranks[0].caps(Peer(1)).frame, 128, "both transports can do it");
    assert_eq!(post(&mut ranks[0], 1, 9), Ok(Post::NoSpace), "its fabric is not known");
    publish_all(&mut store);
    assert!(ranks[0].poll(&mut inboxes[0]), "the name has come");
    let routes = [(1, Route::Verbs), (2, Route::Tcp), (3, Route::Tcp)];
    for (to, route) in routes {
        post_soon(&mut ranks, &mut inboxes, (0, to)).unwrap();
        assert_eq!(ranks[0].route(Peer(to)), route, "rank {to}");
    }
    assert_eq!(ranks[0].caps(Peer(1)).frame, 4096);
    assert_eq!(ranks[0].by_tcp((3, 3)), (2, 2));
    assert_eq!(ranks[0].route(Peer(4)), Route::Tcp, "a process of another job");
    (1..4).for_each(|from| post_soon(&mut ranks, &mut inboxes, (from, 0)).unwrap());
    (0..30).for_each(|_| poll_all(&mut ranks, &mut inboxes));
    assert!(inboxes[1..].iter().all(|inbox| inbox.0 == [(0, 7)]), "each frame arrives once");
    assert_eq!(inboxes[0].0.len(), 3);
    assert!(reported.lock().unwrap().is_empty());
}

#[test]
fn what_verbs_does_not_reach_goes_by_tcp_once_and_in_order() {
    for cut in [(0, 1), (1, 0)] {
        for begin in [0, 1] {
            let mut store = InProcessStore::default();
            publish_all(&mut store);
            let cut = Some((Peer(cut.0), Peer(cut.1)));
            let options = [Options { cut, ..Options::default() }, Options::default()];
            let (mut ranks, reported) = ranks(options, &store, SHORT);
            let mut inboxes = <[Inbox; 4]>::default();
            for (from, to) in [(begin, 1 - begin as u32), (1 - begin, begin as u32)] {
                post_soon(&mut ranks, &mut inboxes, (from, to)).unwrap();
                assert_eq!(ranks[from].route(Peer(to)), Route::Tcp);
            }
            (0..30).for_each(|_| poll_all(&mut ranks, &mut inboxes));
            assert_eq!((&inboxes[0].0, &inboxes[1].0), (&vec![(1, 7)], &vec![(0, 7)]));
            let reported = reported.lock().unwrap();
            assert_eq!(reported.len(), 1, "the lower rank alone reports it");
            assert!(reported[0].0 == 1 && reported[0].1.contains("answers over TCP"));
            assert!(inboxes.iter().all(|inbox| inbox.1.is_empty()), "no peer has failed");
        }
    }
}

#[test]
fn an_agreement_that_is_over_wakes_nobody() {
    let mut store = InProcessStore::default();
    publish_all(&mut store);
    let (mut ranks, _) = ranks(<[Options; 2]>::default(), &store, SHORT);
    let mut inboxes = <[Inbox; 4]>::default();
    let began = Instant::now();
    while post(&mut ranks[0], 1, 7) == Ok(Post::NoSpace) {
        // It sleeps, and its timer ends that.
        while ranks[0].arm().is_some() && began.elapsed() < SHORT.silence * 2 {}
        ranks[0].disarm();
        poll_all(&mut ranks, &mut inboxes);
        assert!(began.elapsed() < LIMIT, "there is no route");
    }
    while ranks[0].arm().is_none() {
        poll_all(&mut ranks, &mut inboxes);
        assert!(began.elapsed() < LIMIT, "it never sleeps");
    }
    std::thread::sleep(SHORT.silence * 2);
    let Transports::Both(both) = &ranks[0].transports else { panic!("it has both") };
    let timer = &both.choice.timer;
    assert!(rustix::io::read(timer, &mut [0; 8]).is_err(), "it would sleep no more");
}

#[test]
fn a_process_without_tcp_is_not_asked() {
    let mut store = InProcessStore::default();
    publish(&mut store, Peer(1), FABRICS[1], false).unwrap();
    let (mut ranks, _) = ranks([Options::default(); 2], &store, LONG);
    assert_eq!(post(&mut ranks[0], 1, 1), Ok(Post::Sent));
    assert_eq!(ranks[0].route(Peer(1)), Route::Verbs);
}

#[test]
fn a_device_fails_its_own_peers_alone() {
    for (device, victim, is_reported) in [(0, 1, true), (1, 1, false), (0, 2, false)] {
        let mut store = InProcessStore::default();
        publish_all(&mut store);
        let mut options = [Options::default(); 2];
        options[device].death = Some((Peer(victim), 400));
        let (mut ranks, _) = ranks(options, &store, LONG);
        let mut inboxes = <[Inbox; 4]>::default();
        for to in [1, 2] {
            post_soon(&mut ranks, &mut inboxes, (0, to)).unwrap();
        }
        (0..400).for_each(|_| poll_all(&mut ranks, &mut inboxes));
        let expected: &[u32] = if is_reported { &[victim] } else { &[] };
        assert_eq!(inboxes[0].1, expected, "rank {victim} failed on device {device}");
    }
}

#[test]
fn a_peer_that_dies_unreached_is_reported_when_both_have_lost_it() {
    let mut store = InProcessStore::default();
    publish_all(&mut store);
    let dead = Options { death: Some((Peer(1), 1)), ..Options::default() };
    let (mut ranks, _) = ranks([dead; 2], &store, LONG);
    let mut inboxes = <[Inbox; 4]>::default();
    let began = Instant::now();
    while inboxes[0].1.is_empty() && post(&mut ranks[0], 1, 1) == Ok(Post::NoSpace) {
        ranks[0].poll(&mut inboxes[0]);
        assert!(began.elapsed() < LIMIT);
    }
    assert!(post(&mut ranks[0], 1, 1).is_err());
}
