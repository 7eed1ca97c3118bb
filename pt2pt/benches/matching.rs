//! Cost of a match, with so many entries in the queue: in the order of arrival, in the reverse
//! order, and by wildcards. The stores are private; therefore their sources are compiled into this
//! program.

#![allow(missing_docs)] // criterion's macros make public functions

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};

#[allow(dead_code)] // only a part is measured
#[path = "../src/index.rs"]
mod index;
#[allow(dead_code)]
#[path = "../src/key.rs"]
mod key;
#[allow(dead_code)]
#[path = "../src/lists.rs"]
mod lists;
#[allow(dead_code)]
#[path = "../src/matching.rs"]
mod matching;

use key::Key;
use matching::{Posted, Unexpected};

const LENGTHS: [u32; 4] = [1, 16, 1_000, 100_000];

fn key(tag: u32) -> Key {
    Key { context: 1, source: 0, tag: tag as i32 }
}

/// Every second receive accepts any source.
fn pattern(tag: u32) -> Key {
    if tag.is_multiple_of(2) { Key { source: Key::ANY_SOURCE, ..key(tag) } } else { key(tag) }
}

fn posted(receives: u32, of: fn(u32) -> Key) -> Posted {
    let mut posted = Posted::new();
    for tag in 0..receives {
        posted.post(of(tag), tag);
    }
    posted
}

fn parked(messages: u32) -> Unexpected<u32> {
    let mut unexpected = Unexpected::new();
    (0..messages).for_each(|tag| unexpected.push(key(tag), tag));
    unexpected
}

fn take_all(mut posted: Posted, tags: impl Iterator<Item = u32>) -> Posted {
    for tag in tags {
        assert_eq!(posted.take(&key(tag)), Some(tag));
    }
    posted
}

fn find_all(
    mut unexpected: Unexpected<u32>,
    tags: impl Iterator<Item = u32>,
    of: fn(u32) -> Key,
) -> Unexpected<u32> {
    for tag in tags {
        let found = unexpected.find(&of(tag)).and_then(|entry| unexpected.remove(entry));
        assert!(found.is_some_and(|(_, message)| message == tag));
    }
    unexpected
}

fn matching(c: &mut Criterion) {
    let mut group = c.benchmark_group("matching");
    for length in LENGTHS {
        group.throughput(Throughput::Elements(u64::from(length)));
        let mut bench = |name: &str, wildcards: bool, run: fn(u32, Posted) -> Posted| {
            let of = if wildcards { pattern } else { key };
            group.bench_function(BenchmarkId::new(name, length), |b| {
                b.iter_batched(
                    || posted(length, of),
                    |posted| run(length, posted),
                    BatchSize::PerIteration,
                );
            });
        };
        bench("posted, in order", false, |n, posted| take_all(posted, 0..n));
        bench("posted, in reverse", false, |n, posted| take_all(posted, (0..n).rev()));
        bench("posted, in reverse, with wildcards", true, |n, posted| {
            take_all(posted, (0..n).rev())
        });
        let mut bench = |name: &str, run: fn(u32, Unexpected<u32>) -> Unexpected<u32>| {
            group.bench_function(BenchmarkId::new(name, length), |b| {
                b.iter_batched(
                    || parked(length),
                    |parked| run(length, parked),
                    BatchSize::PerIteration,
                );
            });
        };
        bench("unexpected, in order", |n, parked| find_all(parked, 0..n, key));
        bench("unexpected, in reverse", |n, parked| find_all(parked, (0..n).rev(), key));
        bench("unexpected, in reverse, with wildcards", |n, parked| {
            find_all(parked, (0..n).rev(), pattern)
        });
    }
    group.finish();
}

criterion_group!(benches, matching);
criterion_main!(benches);
