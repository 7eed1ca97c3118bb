//! The simulated fabric keeps the contract of a transport.

use super::*;
use crate::body::Body;
use crate::header::Kind;

#[derive(Default)]
struct Recorder {
    frames: Vec<(u32, u64, Vec<u8>)>,
    lost: Vec<u32>,
}

impl Sink for Recorder {
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        let body = body.wait_all().unwrap();
        self.frames.push((from.0, header.length, body.to_vec()));
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, lost: PeerFailed) {
        self.lost.push(lost.peer.0);
    }
}

const ROUGH: Options = Options {
    caps: Caps {
        frame: 64,
        eager: 32,
        get_min: u64::MAX,
        put_min: u64::MAX,
        offload: Offload::Processor,
        late_puts: false,
    },
    max_delay: 30,
    max_in_flight: 3,
    no_space_permille: 300,
    one_sided: Manner::Refused,
    death: None,
    cut: None,
};

/// Ranks 1.. send numbered frames to rank 0; returns the events of rank 0.
fn numbered(ranks: u32, seed: u64, options: Options, each: u64) -> Recorder {
    let mut transports = fabric(ranks, seed, options);
    let mut recorded = Recorder::default();
    let mut next = vec![0; ranks as usize];
    for _ in 0..each * 200 {
        for rank in 1..ranks as usize {
            let header = Header { length: next[rank], ..Header::new(Kind::Data) };
            let body = next[rank] as u8;
            if next[rank] < each
                && transports[rank].post(Peer(0), &header, 5, |slot| slot.fill(body))
                    == Ok(Post::Sent)
            {
                next[rank] += 1;
            }
        }
        transports[0].poll(&mut recorded);
    }
    recorded
}

#[test]
fn frames_of_a_pair_arrive_once_and_in_order() {
    let recorded = numbered(4, 7, ROUGH, 100);
    assert_eq!(recorded.frames.len(), 300);
    for rank in 1..4 {
        let of_rank: Vec<_> = recorded.frames.iter().filter(|frame| frame.0 == rank).collect();
        assert!(
            of_rank
                .iter()
                .enumerate()
                .all(|(at, frame)| frame.1 == at as u64 && frame.2 == [at as u8; 5])
        );
    }
}

#[test]
fn a_seed_repeats_and_another_does_not() {
    let recorded = |seed| numbered(4, seed, ROUGH, 50).frames;
    assert_eq!(recorded(1), recorded(1));
    assert_ne!(recorded(1), recorded(2));
}

#[test]
fn a_death_is_reported_once_after_the_last_frame() {
    let recorded = numbered(3, 3, Options { death: Some((Peer(2), 200)), ..ROUGH }, 100);
    assert_eq!(recorded.lost, [2]);
    let of_dead = recorded.frames.iter().filter(|frame| frame.0 == 2).count();
    assert!((1..100).contains(&of_dead));
    assert_eq!(recorded.frames.iter().filter(|frame| frame.0 == 1).count(), 100);
}

#[test]
fn a_full_channel_has_no_space_until_it_is_polled() {
    let mut transports = fabric(2, 0, Options { max_in_flight: 2, ..Options::default() });
    let header = Header::new(Kind::Data);
    let [a, b] = &mut transports[..] else { unreachable!() };
    assert!(b.arm().is_some());
    assert_eq!(a.post(Peer(1), &header, 0, |_| {}), Ok(Post::Sent));
    assert_eq!(a.post(Peer(1), &header, 0, |_| {}), Ok(Post::Sent));
    assert_eq!(a.post(Peer(1), &header, 0, |_| {}), Ok(Post::NoSpace));
    assert!(b.arm().is_none());
    assert!(b.poll(&mut Recorder::default()));
    assert!(!b.poll(&mut Recorder::default()));
    assert_eq!(a.post(Peer(1), &header, 0, |_| {}), Ok(Post::Sent));
}
