//! All ranks at once.

use fabric::HybridGet;
use pt2pt::Mode;

use super::job::{Job, Pending, pattern};
use crate::bytes::Shape;

pub(super) fn large<T: HybridGet>(job: &mut Job<T>) {
    let size = job.size();
    let len = if size > 4 { 300_001 } else { (3 << 20) + 5 };
    for shapes in
        [(Shape::Run, Shape::Run), (Shape::Strided, Shape::Run), (Shape::Run, Shape::Strided)]
    {
        let partners = |rank: u32| [(rank + 1) % size, (rank + size - 1) % size];
        let mut sends: Vec<Pending> = Vec::new();
        let mut receives = Vec::new();
        for rank in 0..size {
            for (tag, partner) in (0..).zip(partners(rank)) {
                let id = u64::from(rank) << 8 | tag as u64;
                sends.push(job.send(Mode::Standard, shapes.0, rank, partner, tag, id, len));
                // The partner's data on this side goes round in the same direction.
                let id = u64::from(partner) << 8 | (1 - tag) as u64;
                receives.push((
                    partner,
                    1 - tag,
                    id,
                    job.receive(rank, pattern(partner, 1 - tag), shapes.1, len),
                ));
            }
        }
        for (partner, tag, id, receive) in receives {
            job.expect(&receive, partner, tag, id, len);
        }
        sends.iter().for_each(|send| job.sent(send));
    }
}

pub(super) fn ring<T: HybridGet>(job: &mut Job<T>) {
    let size = job.size();
    for len in [8, job.caps().eager + 1] {
        for round in 0..30 {
            for rank in 0..size {
                let next = (rank + 1) % size;
                let receive = job.receive(next, pattern(rank, None), Shape::Run, len);
                let send = job.send(Mode::Standard, Shape::Run, rank, next, round, 5, len);
                job.expect(&receive, rank, round, 5, len);
                job.sent(&send);
            }
        }
    }
}
