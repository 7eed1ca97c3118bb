//! Cost of writing and reading a header.

#![allow(missing_docs)] // criterion's macros make public functions

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use fabric::{Header, Kind};

fn header(c: &mut Criterion) {
    let header =
        Header { source: 3, tag: 7, context: 1 << 33, length: 8, ..Header::new(Kind::Eager) };
    let frame = [&header.encode()[..], &[0; 8]].concat();
    c.bench_function("header/encode", |b| b.iter(|| black_box(&header).encode()));
    c.bench_function("header/decode", |b| {
        b.iter(|| Header::decode(black_box(&frame)).map(|(header, _)| header))
    });
    c.bench_function("header/decode a lie", |b| {
        b.iter(|| Header::decode(black_box(&[0xff; 40])).is_err())
    });
}

criterion_group!(benches, header);
criterion_main!(benches);
