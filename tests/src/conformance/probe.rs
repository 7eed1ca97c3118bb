//! Probes see what a receive would get; a matched probe takes it away.

use fabric::HybridGet;
use pt2pt::{Mode, Seen};

use super::job::{Job, Pending, pattern};
use crate::bytes::{Bytes, Shape};

pub(super) fn probe<T: HybridGet>(job: &mut Job<T>) {
    let to = job.size() - 1;
    for len in job.sizes() {
        assert_eq!(job.rank(to).pt2pt.probe(&pattern(None, None)), None);
        let first = job.send(Mode::Standard, Shape::Run, 0, to, 1, 1, len);
        let second = job.send(Mode::Standard, Shape::Run, 0, to, 2, 2, len + 1);
        job.quiet();
        for wanted in [pattern(None, None), pattern(0, 1), pattern(0, None), pattern(None, 1)] {
            assert_eq!(
                job.rank(to).pt2pt.probe(&wanted),
                Some(Seen { source: 0, tag: 1, bytes: len as u64 })
            );
        }
        assert_eq!(job.rank(to).pt2pt.probe(&pattern(0, 3)), None);
        assert_eq!(job.rank(to).pt2pt.probe(&pattern(1, 1)), None);
        let seen = Seen { source: 0, tag: 2, bytes: len as u64 + 1 };
        assert_eq!(job.rank(to).pt2pt.probe(&pattern(None, 2)), Some(seen));
        for (tag, more) in [(1, 0), (2, 1)] {
            let receive = job.receive(to, pattern(None, None), Shape::Run, len + more);
            job.expect(&receive, 0, tag, tag as u64, len + more);
        }
        job.sent(&first);
        job.sent(&second);
    }
}

pub(super) fn matched<T: HybridGet>(job: &mut Job<T>) {
    let to = job.size() - 1;
    for len in job.sizes() {
        let sends: Vec<Pending> =
            (0..3).map(|id| job.send(Mode::Standard, Shape::Run, 0, to, 1, id, len)).collect();
        job.quiet();
        let take = |job: &mut Job<T>| job.rank(to).pt2pt.take(&pattern(0, 1));
        let Some(first) = take(job) else { panic!("no message to take") };
        // The first is out of the way of receives, for any order of arrival.
        let second = job.receive(to, pattern(0, None), Shape::Run, len);
        let Some(third) = take(job) else { panic!("no message to take") };
        assert_eq!(take(job), None);
        assert_eq!(job.rank(to).pt2pt.probe(&pattern(None, None)), None);
        job.expect(&second, 0, 1, 1, len);
        for (message, id) in [(third, 2), (first, 0)] {
            let bytes = Bytes::for_receive(Shape::Strided, len);
            let request = job.rank(to).receive_taken(message, bytes.buffer());
            job.expect(&Pending { rank: to, id: request, bytes }, 0, 1, id, len);
        }
        sends.iter().for_each(|send| job.sent(send));
    }
}
