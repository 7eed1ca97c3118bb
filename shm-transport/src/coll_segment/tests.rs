//! Segments of both kinds in the memory of three ranks.

use std::os::fd::AsFd;
use std::sync::Arc;

use fabric::coll_segment::{Wakes, long_slots_bytes, slots_bytes};

use super::{bytes, parts};
use crate::{Segment, SyncKind};

const KINDS: [SyncKind; 2] = [SyncKind::Counter, SyncKind::Flags];
const MEMBERS: [u32; 2] = [2, 0];

fn segments() -> Vec<Segment> {
    let file = Segment::file().unwrap();
    (0..3).map(|me| Segment::attach(file.as_fd(), 0, me, 3, 1 << 14, 1 << 16).unwrap()).collect()
}

fn lease(
    segments: &[Segment],
    sync: SyncKind,
    (owner, index): (u32, u32),
    members: &[u32],
    me: u32,
) -> Arc<dyn fabric::CollSegment> {
    let segment = &segments[members[me as usize] as usize];
    segment.coll_segment(sync, owner, index, members, me).unwrap().unwrap()
}

#[test]
fn members_share_memory_and_segments_are_apart() {
    for sync in KINDS {
        let segments = segments();
        let lease = |me, owner, index| lease(&segments, sync, (owner, index), &MEMBERS, me);
        let (one, other, elsewhere) = (lease(0, 1, 3), lease(1, 1, 3), lease(0, 2, 0));
        for round in 0..1000u64 {
            assert_eq!((one.next_round(), other.next_round()), (round, round));
            assert!(one.is_ready(round) && !one.is_ready(round + 1) && !one.is_complete(round));
            // Beyond the flag, which lies in the first bytes of a slot of that kind.
            one.slots(round).write(16, &round.to_le_bytes());
            assert!(!one.arrive(round, 7, Wakes::All));
            let seen = (other.signature_of(round, 0), other.signature_of(round, 1));
            assert_eq!(seen, (Some(7), None));
            let mut seen = [0; 8];
            other.slots(round).read(16, &mut seen);
            assert_eq!(u64::from_le_bytes(seen), round);
            let is_last = other.arrive(round, 7 + round % 2, Wakes::None);
            assert_eq!(is_last, sync == SyncKind::Counter);
            if is_last {
                other.complete(round);
            }
            assert!(one.is_complete(round) && !elsewhere.is_complete(round));
            // The round after a mismatch shows it again.
            assert_eq!(one.mismatch(round, 7), (round > 0).then_some(1));
            assert_eq!(one.agrees(round, 1, 7), Some(round == 0));
            assert_eq!(one.signature_of(round, 1), Some(7 + round % 2));
            one.leave(round);
            other.leave(round);
        }
    }
}

#[test]
fn a_segment_is_new_for_other_members_when_all_leases_are_back() {
    for sync in KINDS {
        let segments = segments();
        let renew = |leases| segments[1].renew_coll_segment(sync, 2, leases);
        assert!(renew(0) && renew(0), "no member has had it");
        let mut leases = 0;
        for members in [&[2, 0][..], &[0, 1, 2], &[1, 2]] {
            let ranks = 0..members.len() as u32;
            let mut views: Vec<_> =
                ranks.map(|me| lease(&segments, sync, (1, 2), members, me)).collect();
            leases += members.len() as u64;
            for round in 0..3 {
                assert!(views.iter().all(|view| view.next_round() == round));
                assert!(views.iter().all(|view| view.is_ready(round) && !view.is_complete(round)));
                let last = views.iter().filter(|view| view.arrive(round, 7, Wakes::None)).count();
                if sync == SyncKind::Counter {
                    assert!(last == 1 && !views[0].is_complete(round));
                    views[0].complete(round);
                }
                assert!(views.iter().all(|view| view.is_complete(round)));
                assert!(views.iter().all(|view| view.mismatch(round, 7).is_none()));
                views.iter().for_each(|view| view.leave(round));
            }
            while views.pop().is_some() {
                assert_eq!(renew(leases), views.is_empty());
            }
        }
    }
}

#[test]
fn long_slots_are_taken_once_and_hold_for_all() {
    let segments = segments();
    let lease = |me, sync, index| lease(&segments, sync, (1, index), &MEMBERS, me);
    let [one, other] = [0, 1].map(|me| lease(me, SyncKind::Counter, 0));
    let taken_before = segments[0].file_blocks();
    assert!(one.take_long_slots());
    let taken = 512 * (segments[0].file_blocks() - taken_before);
    let long = 3 * (long_slots_bytes(3) - slots_bytes(3));
    assert!(taken.abs_diff(long) <= 3 * 4096, "{taken} bytes for three slot sets, in whole pages");
    assert!(other.take_long_slots());
    assert_eq!(512 * (segments[0].file_blocks() - taken_before), taken);
    for round in 0..3 {
        let end = one.slots(round).len() - 8;
        one.slots(round).write(end, &round.to_le_bytes());
        let mut seen = [0; 8];
        other.slots(round).read(end, &mut seen);
        assert_eq!(u64::from_le_bytes(seen), round, "the last bytes of a set are its own");
    }
    assert!(!lease(0, SyncKind::Flags, 1).take_long_slots());
    segments[1].refuse_long_slots(1, 2);
    assert!((0..2).all(|me| !lease(me, SyncKind::Counter, 2).take_long_slots()));
}

#[test]
fn parts_of_a_segment_follow_one_another() {
    for (size, sync) in KINDS.into_iter().flat_map(|sync| [1, 3, 600].map(|size| (size, sync))) {
        let mut all: Vec<_> = parts(size, sync, false).chain(parts(size, sync, true)).collect();
        all.sort_by_key(|part| (part.start, part.end));
        let is_joined = all.windows(2).all(|pair| pair[0].end == pair[1].start);
        assert!(is_joined && all[0].start == 0, "{all:?}");
        assert_eq!(all.last().unwrap().end, bytes(size, sync));
    }
}

#[test]
fn what_one_rank_found_about_memory_holds_for_all() {
    let segments = segments();
    segments[1].refuse_coll_segment(0, 1);
    for (rank, segment) in segments.iter().enumerate() {
        let lease = |index| {
            segment.coll_segment(SyncKind::Counter, 0, index, &[0, 1, 2], rank as u32).unwrap()
        };
        assert!(lease(1).is_none() && lease(2).is_some());
    }
    let is_free = segments[0].renew_coll_segment(SyncKind::Counter, 1, 0);
    assert!(!is_free, "a segment without memory is not offered again");
}
