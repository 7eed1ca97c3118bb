//! The cost of a frame in a ring: within one thread, and from one thread to another and back.

#![allow(missing_docs)] // criterion's macros make public functions

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fabric::{Header, Kind};
use shm_transport::ring::{
    Consumer, LINE, LINE_GRANULES, Producer, RingMemory, Space, max_granules,
};

const LINES: u64 = 1024;

/// Returns a ring that lives as long as the process.
fn ring() -> (Producer, Consumer) {
    let bytes = vec![[0_u64; LINE / 8]; LINES as usize + 1].leak().as_mut_ptr().cast::<u8>();
    // SAFETY: aligned by an offset of less than the spare line; zeroed; leaked; and
    // each clone goes to one side.
    let memory = unsafe { RingMemory::new(bytes.add(bytes.align_offset(LINE)), LINES) };
    (Producer::new(memory.clone(), LINES * LINE_GRANULES, 0), Consumer::new(memory, 0))
}

fn publish(producer: &mut Producer, body: &[u8]) {
    let needed = max_granules(body.len());
    while !producer.has_space(needed) && producer.find_space(needed, false) != Ok(Space::Found) {
        std::hint::spin_loop();
    }
    let header = Header { length: body.len() as u64, ..Header::new(Kind::Eager) };
    producer.publish(&header, body.len(), false, |slot| slot.copy_from_slice(body));
}

/// Takes a frame if there is one.
fn take(consumer: &mut Consumer, into: &mut [u8]) -> bool {
    let taken = consumer.pop(|header, body, _| {
        into[..body.len()].copy_from_slice(body);
        header.kind == Kind::Eager
    });
    if consumer.is_release_due() {
        consumer.release();
    }
    taken == Ok(Some(true))
}

fn one_thread(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring, publish and pop");
    for size in [8, 256, 4096] {
        let ((mut producer, mut consumer), body) = (ring(), vec![1; size]);
        let mut into = vec![0; size];
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter(|| {
                publish(&mut producer, black_box(&body));
                assert!(take(&mut consumer, &mut into));
            });
        });
    }
    group.finish();
}

/// A round trip; half of it is the latency of the ring.
fn two_threads(c: &mut Criterion) {
    let mut group = c.benchmark_group("ring, round trip between threads");
    for size in [8, 256, 4096] {
        let ((mut there, mut arrives), (mut back, mut answers)) = (ring(), ring());
        let (ended, body) = (AtomicBool::new(false), vec![1; size]);
        let mut into = vec![0; size];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut into = vec![0; size];
                while !ended.load(Ordering::Relaxed) {
                    if take(&mut arrives, &mut into) {
                        publish(&mut back, &into);
                    }
                }
            });
            group.bench_function(BenchmarkId::from_parameter(size), |b| {
                b.iter(|| {
                    publish(&mut there, black_box(&body));
                    while !take(&mut answers, &mut into) {}
                });
            });
            ended.store(true, Ordering::Relaxed);
        });
    }
    group.finish();
}

criterion_group!(benches, one_thread, two_threads);
criterion_main!(benches);
