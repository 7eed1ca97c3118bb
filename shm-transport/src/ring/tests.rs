//! A ring by itself, in memory of this process. The modules `under_miri` run under Miri too; the
//! other tests need system calls or much time.

use fabric::{Header, Kind, UserBuf};

use super::{
    CONTROL_GRANULES, Consumer, Corrupted, FULL_PREFIX, GRANULE, LINE, LINE_GRANULES, Producer,
    RingMemory, SHORT, SHORT_PREFIX, SKIP, Space, layout, max_granules,
};
use crate::sync::Ordering;

/// Memory of one ring, which the test drops last.
struct Heap(Vec<[u64; 8]>);

impl Heap {
    fn new(lines: u64) -> Heap {
        // A spare line, to align the first.
        Heap(vec![[0; 8]; lines as usize + 1])
    }

    fn memory(&mut self) -> RingMemory {
        let base = self.0.as_mut_ptr().cast::<u8>();
        let lines = self.0.len() as u64 - 1;
        // SAFETY: aligned to a line by the offset, which is less than the spare line; zeroed, and
        // the tests keep it alive.
        unsafe { RingMemory::new(base.add(base.align_offset(LINE)), lines) }
    }

    /// Returns a ring with laps of `end` lines.
    fn ring(&mut self, end: u64) -> (Producer, Consumer, RingMemory) {
        let memory = self.memory();
        (
            Producer::new(memory.clone(), end * LINE_GRANULES, 3),
            Consumer::new(memory.clone(), 3),
            memory,
        )
    }
}

/// Returns headers of which some have a short form.
fn header(tag: u64, len: usize) -> Header {
    let source = if tag.is_multiple_of(3) { 4 } else { 3 };
    Header {
        context: tag,
        source,
        tag: !tag as i32,
        length: len as u64,
        ..Header::new(Kind::Eager)
    }
}

fn body(tag: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (at * 7 + tag) as u8).collect()
}

/// Posts a frame as a transport does, with memory for every lap.
fn push(producer: &mut Producer, tag: u64, len: usize) -> Result<bool, Corrupted> {
    while !producer.has_space(max_granules(len)) {
        match producer.find_space(max_granules(len), true)? {
            Space::Found => break,
            Space::None => return Ok(false),
            Space::Extend(end) => producer.extend_lap(end),
        }
    }
    let mut from = body(tag, len);
    // SAFETY: the vector outlives the call.
    let from = unsafe { UserBuf::new(from.as_mut_ptr(), len) };
    producer.set_streaming(tag % 5 < 2);
    producer.publish(&header(tag, len), len, false, |slot| slot.copy_from(from));
    Ok(true)
}

/// Takes a frame as a transport does, returning space when it is due.
fn take(consumer: &mut Consumer) -> Result<Option<(u64, Vec<u8>)>, Corrupted> {
    let taken = consumer.pop(|seen, body, _| {
        assert_eq!(*seen, header(seen.context, body.len()));
        (seen.context, body.to_vec())
    })?;
    if consumer.is_release_due() {
        consumer.release();
    }
    Ok(taken)
}

/// Returns lengths from 0 to `most`, small ones more often.
fn some_length(seed: u64, most: usize) -> usize {
    let bits = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 16;
    let range = [25, 130, 600, most + 1][bits as usize % 4].min(most + 1);
    (bits >> 8) as usize % range
}

mod under_miri {
    use super::*;

    const MANY: u64 = if cfg!(miri) { 60 } else { 20_000 };
    /// Steps between the starting points that a test tries; larger under Miri.
    const STRIDE: usize = if cfg!(miri) { 13 } else { 1 };

    #[test]
    fn frames_of_all_lengths_arrive_in_order_through_many_laps() {
        for (lines, end) in [(8, 8), (64, 16), (64, 64), (256, 64), (256, 256)] {
            let (mut heap, most) = (Heap::new(lines), Producer::max_body(lines));
            let (mut producer, mut consumer, _) = heap.ring(end);
            let (mut sent, mut taken) = (0, 0);
            while taken < MANY {
                let burst = 1 + some_length(sent + taken, 40);
                for _ in 0..burst {
                    let max_granules =
                        sent < MANY && push(&mut producer, sent, some_length(sent, most)).unwrap();
                    sent += u64::from(max_granules);
                }
                for _ in 0..burst / 2 + 1 {
                    let Some((tag, data)) = take(&mut consumer).unwrap() else { break };
                    assert_eq!((tag, &data), (taken, &body(taken, some_length(taken, most))));
                    taken += 1;
                }
            }
            assert_eq!(take(&mut consumer), Ok(None));
        }
    }

    #[test]
    fn an_empty_ring_has_space_for_the_largest_frame_at_any_position() {
        // All earlier frames were consumed, but not all their space returned.
        for &lines in if cfg!(miri) { &[8, 32][..] } else { &[8, 64, 256] } {
            for before in (0..2 * lines).step_by(STRIDE) {
                let (mut heap, most) = (Heap::new(lines), Producer::max_body(lines));
                let (mut producer, mut consumer, _) = heap.ring(8);
                for tag in 0..before * LINE_GRANULES / 3 {
                    assert!(push(&mut producer, tag, 0).unwrap());
                    assert!(take(&mut consumer).unwrap().is_some());
                }
                assert!(push(&mut producer, 7, most).unwrap(), "{lines} lines, after {before}");
                assert_eq!(take(&mut consumer), Ok(Some((7, body(7, most)))));
            }
        }
    }

    #[test]
    fn a_short_ring_carries_its_largest_frame() {
        let cases = (0..70).flat_map(|before| (1..32).map(move |lines| (before, lines)));
        for (before, lines) in cases.step_by(STRIDE) {
            let mut heap = Heap::new(128);
            let (mut producer, mut consumer, _) = heap.ring(64);
            let large = lines * LINE;
            if !producer.fits_eventually(max_granules(large)) {
                continue;
            }
            let mut post = |consumer: &mut Consumer, len: usize| {
                let needed = max_granules(len);
                assert!(
                    producer.has_space(needed)
                        || producer.find_space(needed, false).unwrap() == Space::Found
                );
                producer.publish(&header(0, len), len, false, |slot| slot.fill(1));
                assert_eq!(take(consumer).unwrap().unwrap().1.len(), len);
            };
            (0..before).for_each(|_| post(&mut consumer, 8));
            post(&mut consumer, large);
        }
    }

    #[test]
    fn a_full_ring_has_no_space_until_the_consumer_returns_some() {
        let mut heap = Heap::new(8);
        let (mut producer, mut consumer, memory) = heap.ring(8);
        let mut sent = 0;
        while push(&mut producer, sent, 0).unwrap() {
            sent += 1;
        }
        let after =
            |at, tag| at + layout(at, if tag % 3 == 0 { FULL_PREFIX } else { SHORT_PREFIX }, 0).1;
        let end = (0..sent).fold(CONTROL_GRANULES, after);
        assert!(end + max_granules(0) + 1 > 8 * LINE_GRANULES && end < 8 * LINE_GRANULES);
        assert!(producer.is_waiting() && !producer.has_space_again());
        producer.set_waiting();
        assert!(consumer.is_producer_waiting());
        for _ in 0..4 {
            consumer.pop(|_, _, _| ()).unwrap().unwrap();
        }
        assert!(!producer.has_space_again(), "no space was returned");
        consumer.release();
        assert!(producer.has_space_again() && !producer.is_waiting());
        assert!(!consumer.is_producer_waiting());
        assert!(push(&mut producer, sent, 0).unwrap());
        assert_eq!(
            memory.head().load(Ordering::Relaxed),
            (0..4).fold(CONTROL_GRANULES, after) - CONTROL_GRANULES
        );
    }

    #[test]
    fn laps_grow_for_a_slow_consumer_alone() {
        let (mut heap, mut slow) = (Heap::new(256), Heap::new(256));
        let (mut producer, mut consumer, _) = heap.ring(64);
        for tag in 0..2000 {
            assert!(push(&mut producer, tag, 8).unwrap());
            assert!(take(&mut consumer).unwrap().is_some());
        }
        assert_eq!(producer.end(), 64 * LINE_GRANULES);
        let (mut producer, _, _) = slow.ring(64);
        let frames = (0..).take_while(|&tag| push(&mut producer, tag, 512).unwrap()).count();
        assert_eq!((producer.end(), frames as u64), (256 * LINE_GRANULES, (256 - 2 - 1) / 9));
    }

    #[test]
    fn the_consumer_has_gone_to_the_next_lap_before_the_frame_that_is_there() {
        let mut heap = Heap::new(64);
        let (mut producer, mut consumer, memory) = heap.ring(64);
        for tag in 0..100 {
            assert!(push(&mut producer, tag, 1000).unwrap());
            let word = memory.first_word(consumer.position).load(Ordering::Relaxed);
            assert!(word & SKIP == 0, "frame {tag} is in another lap");
            assert!(take(&mut consumer).unwrap().is_some());
            assert_eq!(take(&mut consumer), Ok(None));
        }
    }

    #[test]
    fn a_burst_finds_space_at_any_position() {
        for before in (0..250).step_by(STRIDE) {
            let mut heap = Heap::new(256);
            let (mut producer, mut consumer, _) = heap.ring(64);
            for tag in 0..before {
                assert!(push(&mut producer, tag, 8).unwrap());
                assert!(take(&mut consumer).unwrap().is_some());
            }
            let burst = before..before + 100;
            for tag in burst.clone() {
                assert!(
                    push(&mut producer, tag, some_length(tag, 100)).unwrap(),
                    "{tag} after {before}"
                );
            }
            for tag in burst {
                assert_eq!(take(&mut consumer), Ok(Some((tag, body(tag, some_length(tag, 100))))));
            }
            assert_eq!(take(&mut consumer), Ok(None));
        }
    }

    #[test]
    fn impossible_commit_words_are_refused() {
        for lie in [
            62 * LINE as u64,
            64 * LINE as u64,
            1 << 40,
            SHORT,
            SHORT | (62 * LINE as u64),
            SKIP,
            u64::MAX,
        ] {
            let mut heap = Heap::new(64);
            let (_, mut consumer, memory) = heap.ring(64);
            memory.first_word(CONTROL_GRANULES).store(lie, Ordering::Relaxed);
            assert!(consumer.pop(|_, _, _| ()).is_err(), "{lie:#x}");
        }
        // The largest frame that ends before the last granule, and one line more.
        let most = (64 - 1 - 2 - 1) * LINE as u64;
        for (body, fits) in [(most, true), (most + 1, false)] {
            let mut heap = Heap::new(64);
            let (_, mut consumer, memory) = heap.ring(64);
            memory.first_word(CONTROL_GRANULES).store(SHORT | (body + 1), Ordering::Relaxed);
            assert_eq!(consumer.pop(|_, body, _| body.len()).is_ok(), fits);
        }
        // A header of an unknown kind.
        let mut heap = Heap::new(64);
        let (_, mut consumer, memory) = heap.ring(64);
        memory.first_word(CONTROL_GRANULES).store(1, Ordering::Relaxed);
        assert!(consumer.pop(|_, _, _| ()).is_err());
        // A skip that leads to another skip.
        let mut heap = Heap::new(64);
        let (_, mut consumer, memory) = heap.ring(64);
        memory.first_word(CONTROL_GRANULES).store(SKIP | CONTROL_GRANULES, Ordering::Relaxed);
        assert_eq!(consumer.pop(|_, _, _| ()), Ok(None), "one skip per call");
    }

    #[test]
    fn impossible_heads_are_refused() {
        for lie in [8 * LINE_GRANULES, 1 << 40, u64::MAX, u64::MAX - 1] {
            let mut heap = Heap::new(8);
            let (mut producer, _, memory) = heap.ring(8);
            while push(&mut producer, 0, 0).unwrap() {}
            memory.head().store(lie, Ordering::Relaxed);
            assert!(push(&mut producer, 0, 0).is_err(), "{lie}");
            assert!(producer.has_space_again(), "a waiting producer has to find out");
        }
        // A head that moves back is impossible too.
        let mut heap = Heap::new(8);
        let (mut producer, mut consumer, memory) = heap.ring(8);
        for tag in 0..17 {
            push(&mut producer, tag, 0).unwrap();
            take(&mut consumer).unwrap();
        }
        memory.head().store(0, Ordering::Relaxed);
        while matches!(push(&mut producer, 0, 0), Ok(true)) {}
        assert!(push(&mut producer, 0, 0).is_err());
    }

    #[test]
    fn two_threads_lose_nothing() {
        for (lines, end) in [(8, 8), (256, 64)] {
            let (mut heap, most) = (Heap::new(lines), Producer::max_body(lines));
            let (mut producer, mut consumer, _) = heap.ring(end);
            std::thread::scope(|scope| {
                scope.spawn(move || {
                    for tag in 0..MANY {
                        while !push(&mut producer, tag, some_length(tag, most)).unwrap() {
                            std::thread::yield_now();
                        }
                    }
                });
                for tag in 0..MANY {
                    let (with, data) = loop {
                        if let Some(frame) = take(&mut consumer).unwrap() {
                            break frame;
                        }
                        std::thread::yield_now();
                    };
                    assert_eq!((with, data), (tag, body(tag, some_length(tag, most))));
                }
            });
        }
    }
}

#[test]
fn two_small_messages_share_a_line() {
    let short = |body| layout(0, SHORT_PREFIX, body).1;
    assert_eq!([0, 16, 17, 48, 49, 64].map(short), [1, 2, 4, 4, 8, 8]);
    assert_eq!([0, 8, 9, 24, 25].map(max_granules), [6, 6, 7, 7, 8]);
}

#[test]
fn a_descriptor_ends_where_it_was_announced_at_any_position() {
    // A body that waits for space in the bounce pool waits for exactly this head: nothing may
    // follow it.
    let mut heap = Heap::new(64);
    let (mut producer, mut consumer, _memory) = heap.ring(64);
    for (count, len) in (0..8).flat_map(|count| (0..40).map(move |len| (count, len))) {
        (0..count).for_each(|tag| assert!(push(&mut producer, tag, len).unwrap()));
        assert!(matches!(producer.find_space(max_granules(24), true), Ok(Space::Found)));
        let behind = producer.head_after_descriptor(24);
        producer.publish_descriptor(&header(0, 0), &[0; 24]);
        while consumer.pop(|_, _, _| ()).unwrap().is_some() {}
        consumer.release();
        assert!(producer.has_passed(behind) && producer.position == behind);
    }
}

#[test]
fn a_frame_of_more_than_half_a_line_ends_with_one() {
    for position in 0..2 * LINE_GRANULES {
        for (prefix, body) in [SHORT_PREFIX, FULL_PREFIX]
            .into_iter()
            .flat_map(|prefix| (17..512).map(move |body| (prefix, body)))
        {
            let (at, granules) = layout(position, prefix, body);
            assert!(
                at == prefix && (position + granules).is_multiple_of(LINE_GRANULES),
                "{position} {prefix} {body}"
            );
            assert!(
                (prefix + body).div_ceil(GRANULE) as u64 <= granules
                    && granules <= max_granules(body),
                "{position} {prefix} {body}"
            );
        }
    }
}

#[test]
fn a_larger_body_shares_no_line() {
    for position in 0..2 * LINE_GRANULES {
        for prefix in [SHORT_PREFIX, FULL_PREFIX] {
            for body in [512, 513, 4096] {
                let (at, granules) = layout(position, prefix, body);
                let start = position as usize * GRANULE + at;
                assert!(at >= prefix && start.is_multiple_of(LINE), "{position} {prefix} {body}");
                assert_eq!(
                    (position + granules) * GRANULE as u64,
                    (start + body).next_multiple_of(LINE) as u64
                );
                assert!(granules <= max_granules(body));
            }
        }
    }
}

#[test]
fn the_largest_body_takes_three_eighths() {
    for lines in [8, 16, 32, 64, 256, 4096] {
        let (most, granules) = (Producer::max_body(lines), (lines * 3 / 8 - 1) * LINE_GRANULES);
        assert!(
            max_granules(most) <= granules && max_granules(most + 2 * LINE) > granules,
            "{lines}"
        );
    }
    assert!((0..5000).all(|body| max_granules(body) <= max_granules(body + 1)));
}
