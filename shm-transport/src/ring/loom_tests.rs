//! The ring and the event count under loom: every order in which two threads may see each other's
//! stores. The ring has eight lines, or sixteen whose laps begin with eight.
//!
//! Loom does not see raw memory; therefore a ring has a model besides its bytes: a loom atomic for
//! the first word of each granule, and a cell that notes accesses to the rest of the granule. Bytes
//! are written and read in the ring itself. The cells find a read that the orderings do not put
//! after its write, even if it reads the right bytes by luck.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use fabric::{Header, Kind};

use super::{Consumer, LINE, LINE_GRANULES, Producer, RingMemory, Space, max_granules};
use crate::event_count::EventCount;
use crate::sync::{AtomicU64, Ordering};

const LINES: u64 = 8;
/// First word of a granule inside a frame: taken for a commit word, it would be found corrupted.
const BODY: u64 = 1 << 50;

/// A lap was extended in its middle.
static EXTENDED_MIDWAY: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Model(Arc<Vec<(AtomicU64, UnsafeCell<()>)>>);

impl Model {
    pub(super) fn first_word(&self, offset: u64) -> &AtomicU64 {
        &self.0[offset as usize].0
    }

    pub(super) fn write(&self, offset: u64, granules: u64) {
        for at in offset..offset + granules {
            self.0[at as usize].1.with_mut(|_| ());
            if at > offset {
                self.0[at as usize].0.store(BODY, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn read(&self, offset: u64, granules: u64) {
        for at in offset..offset + granules {
            self.0[at as usize].1.with(|_| ());
        }
    }
}

/// A ring of so many lines, and the bytes it lies in.
fn ring(lines: u64) -> (Producer, Consumer, Vec<[u64; 8]>) {
    let mut bytes = vec![[0; 8]; lines as usize + 1];
    let base = bytes.as_mut_ptr().cast::<u8>();
    let base = base.wrapping_add(base.align_offset(LINE));
    let cells =
        (0..lines * LINE_GRANULES).map(|_| (AtomicU64::new(0), UnsafeCell::new(()))).collect();
    let memory =
        RingMemory { base, granules: lines * LINE_GRANULES, model: Model(Arc::new(cells)) };
    (Producer::new(memory.clone(), LINES * LINE_GRANULES, 0), Consumer::new(memory, 0), bytes)
}

fn push(producer: &mut Producer, tag: u8, len: usize) -> bool {
    let needed = max_granules(len);
    while !producer.has_space(needed) {
        match producer.find_space(needed, true).unwrap() {
            Space::Found => break,
            Space::None => return false,
            Space::Extend(end) => {
                producer.extend_lap(end);
                EXTENDED_MIDWAY
                    .fetch_or(producer.on_new_lines, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }
    // Odd ones have the short header.
    let length = if tag % 2 == 1 { len as u64 } else { 0 };
    producer.set_streaming(tag % 3 == 0);
    producer
        .publish(&Header { length, ..Header::new(Kind::Eager) }, len, false, |slot| slot.fill(tag));
    true
}

fn take(consumer: &mut Consumer) -> Option<(u8, usize)> {
    let taken = consumer.pop(|_, body, _| {
        assert!(body.iter().all(|&byte| byte == body[0]), "a torn frame");
        (body[0], body.len())
    });
    let taken = taken.expect("the producer tells no lies");
    if taken.is_some() && consumer.is_release_due() {
        consumer.release();
    }
    taken
}

/// Frames of these lengths arrive whole, once and in order. The first `distance` were
/// in the ring, and `early` of them taken out, before the two threads start.
fn passes(lines: u64, lengths: &'static [usize], distance: usize, early: usize) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let (mut producer, mut consumer, _bytes) = ring(lines);
        let mut tagged = (1..).zip(lengths);
        for (tag, &len) in tagged.by_ref().take(distance) {
            assert!(push(&mut producer, tag, len));
        }
        for (tag, &len) in (1..).zip(lengths).take(early) {
            assert_eq!(take(&mut consumer), Some((tag, len)));
        }
        let sender = thread::spawn(move || {
            for (tag, &len) in tagged {
                while !push(&mut producer, tag, len) {
                    thread::yield_now();
                }
            }
            producer.position
        });
        for (tag, &len) in (1..).zip(lengths).skip(early) {
            let frame = loop {
                if let Some(frame) = take(&mut consumer) {
                    break frame;
                }
                thread::yield_now();
            };
            assert_eq!(frame, (tag, len));
        }
        let position = sender.join().unwrap();
        assert!(distance == 0 || position > LINES * LINE_GRANULES, "it did not go round");
        assert_eq!(take(&mut consumer), None);
    });
}

#[test]
fn frames_pass_through_an_empty_ring() {
    passes(LINES, &[1, 30, 2], 0, 0);
}

#[test]
fn small_frames_go_round_a_full_ring() {
    passes(LINES, &[1, 2, 30, 4, 5, 6, 7, 8, 30, 10], 5, 0);
}

#[test]
fn larger_frames_go_round_a_full_ring() {
    passes(LINES, &[40, 30, 40, 1, 40, 24], 2, 0);
}

#[test]
fn laps_are_lengthened_while_frames_of_the_last_one_are_read() {
    passes(2 * LINES, &[40, 40, 30, 1, 30, 40, 40, 1], 4, 3);
    assert!(EXTENDED_MIDWAY.load(std::sync::atomic::Ordering::Relaxed), "they never were");
}

/// The source of a large message: by the producer for its pieces, by a consumer that takes what is
/// missing, and written by its owner when it has been sent.
#[test]
fn a_complete_message_is_not_read_under_the_transfer_lock() {
    loom::model(|| {
        let (mut producer, mut consumer, _bytes) = ring(LINES);
        let data = Arc::new(UnsafeCell::new(()));
        let theirs = data.clone();
        let sender = thread::spawn(move || {
            let Some(lock) = producer.lock_transfers().unwrap() else { return false };
            assert!(push(&mut producer, 1, 8));
            theirs.with(|_| ());
            drop(lock);
            theirs.with_mut(|_| ());
            true
        });
        let taken = consumer.lock_transfers().map(|_lock| data.with(|_| ())).is_some();
        let pushed = sender.join().unwrap();
        assert_eq!(take(&mut consumer).is_some(), pushed);
        assert!(
            consumer.lock_transfers().is_some() && (taken || pushed),
            "the transfer lock is left locked"
        );
    });
}

#[test]
fn a_wait_for_a_frame_is_woken() {
    loom::model(|| {
        let (mut producer, consumer, _bytes) = ring(LINES);
        let event_count = Arc::new(EventCount::default());
        let theirs = event_count.clone();
        let sender = thread::spawn(move || {
            assert!(push(&mut producer, 1, 8));
            theirs.publish_fence(false);
            theirs.notify()
        });
        let sleeps = event_count.prepare_wait() && !consumer.is_ready();
        let woke = sender.join().unwrap();
        assert!(!sleeps || woke, "the consumer waits although there is a frame");
    });
}

#[test]
fn a_wait_for_space_is_woken() {
    loom::model(|| {
        let (mut producer, mut consumer, _bytes) = ring(LINES);
        while push(&mut producer, 1, 8) {}
        let event_count = Arc::new(EventCount::default());
        let theirs = event_count.clone();
        let receiver = thread::spawn(move || {
            for _ in 0..4 {
                assert!(consumer.pop(|_, _, _| ()).unwrap().is_some());
            }
            consumer.release();
            theirs.publish_fence(false);
            consumer.is_producer_waiting() && theirs.notify()
        });
        producer.set_waiting();
        let sleeps = event_count.prepare_wait() && !producer.has_space_again();
        let woke = receiver.join().unwrap();
        assert!(!sleeps || woke, "the producer waits although there is space");
    });
}

#[test]
fn of_two_senders_one_wakes() {
    loom::model(|| {
        let event_count = Arc::new(EventCount::default());
        assert!(event_count.prepare_wait());
        let senders = [(); 2].map(|()| {
            let theirs = event_count.clone();
            thread::spawn(move || {
                theirs.publish_fence(false);
                theirs.notify()
            })
        });
        let woken = senders.map(|sender| u32::from(sender.join().unwrap()));
        assert_eq!(woken.iter().sum::<u32>(), 1);
    });
}

/// A thread announces a wait that another thread of its process has announced and not yet begun.
#[test]
fn a_wake_is_not_lost_to_a_second_announcement() {
    loom::model(|| {
        let event_count = Arc::new(EventCount::default());
        assert!(event_count.prepare_wait());
        let theirs = event_count.clone();
        let sender = thread::spawn(move || {
            theirs.publish_fence(false);
            theirs.notify()
        });
        let may_wait = event_count.prepare_wait();
        assert!(sender.join().unwrap(), "the sender has seen neither");
        let is_waiting = event_count.notify();
        assert!(!may_wait || !is_waiting, "the first thread begins a wait that it was woken from");
    });
}
