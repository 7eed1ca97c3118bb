//! Pipelined bodies in every order of memory accesses: the writer is [`Slot`], the reader
//! [`PipelinedBody`], and the frames are counted by a commit word as in a ring.
//!
//! Loom does not see plain memory; therefore each chunk of the block has a cell that the writer
//! changes and the reader looks at. A missing Release or Acquire is then a race of the two.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use fabric::{Body, Chunks, Slot};

use super::{PipelinedBody, Watermark};

/// Bytes of a chunk, and chunks of a body.
const CHUNK: usize = 2;
const CHUNKS: usize = 2;
const LEN: usize = CHUNK * CHUNKS;

/// State that both sides share: a commit word, the watermark and one block.
struct Shared {
    /// Frames published so far.
    commits: AtomicU32,
    watermark: AtomicU32,
    block: [UnsafeCell<u32>; CHUNKS],
}

impl Shared {
    fn new(base: u32) -> Arc<Shared> {
        let block = std::array::from_fn(|_| UnsafeCell::new(0));
        Arc::new(Shared { commits: AtomicU32::new(0), watermark: AtomicU32::new(base), block })
    }

    /// Writes the chunk at `at`.
    fn write(&self, at: usize, value: u32) {
        // SAFETY: loom fails the test if another thread looks at the cell meanwhile.
        self.block[at / CHUNK].with_mut(|cell| unsafe { *cell = value });
    }

    /// Reads the chunk at `at`.
    fn read(&self, at: usize) -> u32 {
        // SAFETY: loom fails the test if another thread changes the cell meanwhile.
        self.block[at / CHUNK].with(|cell| unsafe { *cell })
    }

    /// Publishes frame number `frame`, then writes its body.
    fn send(&self, frame: u32, base: u32) {
        self.commits.store(frame, Ordering::Release);
        let (mut bytes, watermark) = ([0; LEN], Watermark::new(&self.watermark, base));
        let chunks = Chunks { bytes: CHUNK, written: &|bytes| watermark.advance(bytes) };
        Slot::chunked(&mut bytes, false, chunks).fill_chunks(|at, _| self.write(at, frame));
    }

    /// Waits for frame number `frame`.
    fn wait_for(&self, frame: u32) {
        while self.commits.load(Ordering::Acquire) < frame {
            thread::yield_now();
        }
    }
}

fn check(run: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(run);
}

#[test]
fn loom_chunks_are_read_after_they_are_written() {
    for base in [0, u32::MAX - 2] {
        check(move || {
            let shared = Shared::new(base);
            let theirs = shared.clone();
            let sender = thread::spawn(move || theirs.send(1, base));
            shared.wait_for(1);
            let bytes = [0; LEN];
            let body =
                PipelinedBody::new(&bytes, Watermark::new(&shared.watermark, base), false, None);
            let mut next = 0;
            body.for_each_chunk(LEN, |at, chunk| {
                assert_eq!(at, next, "chunks come in order");
                next += chunk.len();
                for part in (at..next).step_by(CHUNK) {
                    assert_eq!(shared.read(part), 1);
                }
            })
            .unwrap();
            assert_eq!(next, LEN);
            sender.join().unwrap();
        });
    }
}

#[test]
fn loom_a_shorter_receive_reuses_the_block_after_the_sender_is_done() {
    check(|| {
        let shared = Shared::new(7);
        let theirs = shared.clone();
        let sender = thread::spawn(move || theirs.send(1, 7));
        shared.wait_for(1);
        let bytes = [0; LEN];
        let body = PipelinedBody::new(&bytes, Watermark::new(&shared.watermark, 7), false, None);
        body.for_each_chunk(CHUNK, |at, _| assert_eq!(shared.read(at), 1)).unwrap();
        body.wait_all().unwrap();
        (0..LEN).step_by(CHUNK).for_each(|at| shared.write(at, 2));
        sender.join().unwrap();
    });
}

#[test]
fn loom_the_watermark_of_one_body_does_not_uncover_the_next() {
    check(|| {
        let base = u32::MAX - LEN as u32;
        let shared = Shared::new(base);
        let theirs = shared.clone();
        // Two blocks are not needed: the second body waits for the reader of the first, as a
        // recycled block does.
        let read = Arc::new(AtomicU32::new(0));
        let theirs_read = read.clone();
        let sender = thread::spawn(move || {
            theirs.send(1, base);
            while theirs_read.load(Ordering::Acquire) < 1 {
                thread::yield_now();
            }
            theirs.send(2, base.wrapping_add(LEN as u32));
        });
        for frame in [1, 2] {
            shared.wait_for(frame);
            let base = base.wrapping_add((frame - 1) * LEN as u32);
            let bytes = [0; LEN];
            let body =
                PipelinedBody::new(&bytes, Watermark::new(&shared.watermark, base), false, None);
            body.for_each_chunk(LEN, |at, chunk| {
                for part in (at..at + chunk.len()).step_by(CHUNK) {
                    assert_eq!(shared.read(part), frame, "of another body");
                }
            })
            .unwrap();
            read.store(frame, Ordering::Release);
        }
        sender.join().unwrap();
    });
}
