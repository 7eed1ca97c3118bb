//! The endpoint with two simulated transports: what goes where, and how both sleep.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::AtomicU32;

use super::*;
use crate::body::Body;
use crate::header::Kind;
use crate::sim::{self, Options, SimTransport};

/// Ranks 0 and 1 are on one host, 2 and 3 on another.
const RANKS: u32 = 4;
const LOCAL: std::ops::Range<u32> = 0..2;

#[derive(Default)]
struct Inbox {
    frames: Vec<(u32, Vec<u8>)>,
    failed: Vec<u32>,
    transfers: Vec<u64>,
}

impl Sink for Inbox {
    fn frame(&mut self, from: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        self.frames.push((from.0, body.wait_all().unwrap().to_vec()));
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        assert_eq!(outcome, Ok(()));
        self.transfers.push(token);
    }

    fn peer_failed(&mut self, failed: PeerFailed) {
        self.failed.push(failed.peer.0);
    }
}

/// The endpoints of all ranks. The options are those of the intra-host and the inter-host fabric.
fn endpoints(options: [Options; 2]) -> Vec<Endpoint<SimTransport, SimTransport>> {
    let [intra, inter] = options.map(|options| sim::fabric(RANKS, 1, options));
    let host = |rank| if LOCAL.contains(&rank) { LOCAL } else { LOCAL.end..RANKS };
    let pairs = intra.into_iter().zip(inter);
    (0..).zip(pairs).map(|(rank, (a, b))| Endpoint::multi_host(host(rank), Some(a), b)).collect()
}

fn post<A: HybridGet, B: HybridGet>(
    endpoint: &mut Endpoint<A, B>,
    to: u32,
    body: u8,
) -> Result<Post, PeerFailed> {
    endpoint.post(Peer(to), &Header::new(Kind::Eager), 1, |slot| slot[0] = body)
}

#[test]
fn frames_and_caps_go_by_the_peer() {
    let caps = Caps { frame: 128, ..Options::default().caps };
    let mut ranks = endpoints([Options::default(), Options { caps, ..Options::default() }]);
    assert_eq!((ranks[0].caps(Peer(1)).frame, ranks[0].caps(Peer(2)).frame), (4096, 128));
    for (to, body) in [(1, 10), (2, 20), (3, 30)] {
        assert_eq!(post(&mut ranks[0], to, body), Ok(Post::Sent));
    }
    let frames = |end: &Endpoint<SimTransport, SimTransport>| {
        (end.intra().map(SimTransport::frames), end.inter().map(SimTransport::frames))
    };
    assert_eq!(frames(&ranks[0]), (Some(1), Some(2)));
    for (to, body) in [(1, 10), (2, 20), (3, 30)] {
        let mut inbox = Inbox::default();
        while inbox.frames.is_empty() {
            ranks[to].poll(&mut inbox);
        }
        assert_eq!(inbox.frames, [(0, vec![body])]);
    }
    let traffic = ranks[0].traffic().expect("several hosts").text((0, 0));
    assert!(traffic.starts_with("1 frames of 1 bytes to its host, 2 frames of 2 bytes by RDMA"));
}

#[test]
fn an_endpoint_on_one_host_may_meet_processes_of_other_jobs() {
    let intra = sim::fabric(2, 1, Options::default()).into_iter();
    let inter = sim::fabric(RANKS, 1, Options::default()).into_iter();
    let mut ranks: Vec<_> = intra.map(Endpoint::single_host).collect();
    ranks.extend([Endpoint::alone(), Endpoint::alone()]);
    assert_eq!(post(&mut ranks[0], 1, 10), Ok(Post::Sent));
    let hosts = [0..2, 0..2, 2..3, 3..4];
    for ((rank, host), inter) in ranks.iter_mut().zip(hosts).zip(inter) {
        rank.add_inter(host, inter);
    }
    for (from, to, body) in [(0, 3, 20), (0, 1, 30), (2, 0, 40)] {
        assert_eq!(post(&mut ranks[from], to, body), Ok(Post::Sent), "{from} to {to}");
    }
    for (to, frames) in [(1, vec![(0, vec![10]), (0, vec![30])]), (3, vec![(0, vec![20])])] {
        let mut inbox = Inbox::default();
        while inbox.frames.len() < frames.len() {
            ranks[to].poll(&mut inbox);
        }
        assert_eq!(inbox.frames, frames);
    }
}

#[test]
fn one_sided_transfers_go_by_the_peer() {
    let mut ranks = endpoints([Options::default(), Options::default()]);
    let (mut theirs, mut ours) = ([7_u8; 8], [0_u8; 8]);
    // SAFETY: both arrays outlive the transfers, which end within their calls.
    #[allow(unsafe_code)]
    let (from, into) =
        unsafe { (UserBuf::new(theirs.as_mut_ptr(), 8), UserBuf::new(ours.as_mut_ptr(), 8)) };
    for owner in [1, 2] {
        let region = ranks[owner].register(Peer(0), from, Rights::Get).expect("a region");
        let get = ranks[0].get_or_push(Peer(owner as u32), &region, into, 5);
        assert_eq!(get, Ok(GetOrPush::Get(Transfer::Done)), "rank {owner}");
        // The simulation panics unless the device releases what it registered.
        ranks[owner].release(Peer(0), region);
    }
    let traffic = ranks[0].traffic().expect("several hosts").text((0, 0));
    assert!(traffic.contains("1 reads of 8 bytes"), "only gets from other hosts: {traffic}");
}

#[test]
fn a_device_reports_failures_of_its_own_peers_alone() {
    // Rank 1 is local to rank 0, rank 2 is not; one of them fails on one of the devices.
    for (device, victim, is_reported) in [(0, 1, true), (1, 1, false), (1, 2, true)] {
        let mut options = [Options::default(); 2];
        options[device].death = Some((Peer(victim), 3));
        let (mut ranks, mut inbox) = (endpoints(options), Inbox::default());
        for _ in 0..20 {
            ranks[0].poll(&mut inbox);
        }
        let expected: &[u32] = if is_reported { &[victim] } else { &[] };
        assert_eq!(inbox.failed, expected, "rank {victim} failed on device {device}");
        assert_eq!(post(&mut ranks[0], victim, 1).is_ok(), !is_reported);
        assert_eq!(post(&mut ranks[0], 3, 1), Ok(Post::Sent));
    }
}

#[test]
fn a_process_alone_has_nothing_to_wait_for() {
    let mut alone = Endpoint::<SimTransport, SimTransport>::alone();
    assert!(matches!(alone.arm(), Some(WaitOn::Nothing)));
    assert!(post(&mut alone, 1, 1).is_err_and(|failed| failed.peer == Peer(1)));
    assert!(!alone.poll(&mut Inbox::default()) && alone.flush());
}

/// The events that a [`Sleeper`] waits for.
#[derive(Clone, Copy, PartialEq)]
enum Arm {
    Ready,
    Nothing,
    Futex,
    Fd,
}

/// A transport that only sleeps: counts how often it is armed more than disarmed.
struct Sleeper {
    arm: Arm,
    armed: Rc<Cell<i32>>,
}

static WORD: AtomicU32 = AtomicU32::new(0);

impl HybridGet for Sleeper {}

impl Transport for Sleeper {
    fn caps(&self, _: Peer) -> &Caps {
        &NO_CAPS
    }

    fn post(
        &mut self,
        _: Peer,
        _: &Header,
        _: usize,
        _: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        Ok(Post::NoSpace)
    }

    fn poll(&mut self, _: &mut impl Sink) -> bool {
        false
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        self.armed.set(1);
        match self.arm {
            Arm::Ready => None,
            Arm::Nothing => Some(WaitOn::Nothing),
            Arm::Futex => Some(WaitOn::Futex { word: &WORD, value: 4 }),
            Arm::Fd => Some(WaitOn::Fd(9)),
        }
    }

    fn disarm(&mut self) {
        self.armed.set(0);
    }
}

#[test]
fn both_transports_are_armed_and_disarmed_together() {
    let armed = [(); 2].map(|()| Rc::new(Cell::new(0)));
    let sleeper = |at: usize, arm| Sleeper { arm, armed: armed[at].clone() };
    for (intra, inter) in [
        (Arm::Futex, Arm::Fd),
        (Arm::Futex, Arm::Nothing),
        (Arm::Nothing, Arm::Fd),
        (Arm::Ready, Arm::Fd),
        (Arm::Futex, Arm::Ready),
    ] {
        let (a, b) = (sleeper(0, intra), sleeper(1, inter));
        let mut endpoint = Endpoint::multi_host(LOCAL, Some(a), b);
        match (intra, endpoint.arm(), inter) {
            (Arm::Futex, Some(WaitOn::Either { value: 4, fd: 9, .. }), Arm::Fd) => {}
            (Arm::Futex, Some(WaitOn::Futex { value: 4, .. }), Arm::Nothing) => {}
            (Arm::Nothing, Some(WaitOn::Fd(9)), Arm::Fd) => {}
            (_, None, _) => assert!(intra == Arm::Ready || inter == Arm::Ready),
            (_, wait, _) => panic!("sleeps on {wait:?}"),
        }
        endpoint.disarm();
        assert_eq!(armed.each_ref().map(|armed| armed.get()), [0, 0], "a transport stays armed");
    }
    let mut alone = Endpoint::multi_host(0..1, None::<Sleeper>, sleeper(1, Arm::Fd));
    assert!(matches!(alone.arm(), Some(WaitOn::Fd(9))), "a rank alone on its host");
}
