//! Ping-pong between two processes on cores 0 and 1 through the raw transport, compared with a bare
//! exchange of one cache line. Both are measured in the same rounds.
//!
//! `cargo run --release --example pingpong [rounds]` prints half a round trip, and
//! the time of one message in a stream: the best round, and the first quartile.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use fabric::{Body, Header, Kind, Peer, PeerFailed, Post, Sink, Transport};
use rustix::thread::{CpuSet, sched_setaffinity};
use shm_transport::{Segment, Settings, ShmTransport, SingleCopy};

const SIZES: [usize; 8] = [0, 8, 24, 64, 256, 1024, 4096, 16384];
const BATCH: usize = 1_000;
const RING: u64 = 128 << 10;
const CHILD: &str = "PINGPONG_FILE";

/// Counts frames, and copies bodies out as a receive would.
struct Count {
    frames: u64,
    copy: Vec<u8>,
}

impl Sink for Count {
    fn frame(&mut self, _: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        let Ok(body) = body.wait_all() else { return };
        self.frames += 1;
        self.copy[..body.len()].copy_from_slice(body);
    }
    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

struct Side {
    transport: ShmTransport,
    other: Peer,
    count: Count,
    data: Vec<u8>,
}

impl Side {
    fn new(file: BorrowedFd<'_>, me: u32) -> Side {
        pin(me as usize);
        let segment = Segment::attach(file, 0, me, 2, RING, 1 << 20).expect("shared memory");
        let settings = Settings {
            eager_max: 1 << 20,
            get_min: 1,
            single_copy: SingleCopy::Off,
            rare_sleeps: true,
        };
        let transport = ShmTransport::new(segment, settings, vec![Peer(0), Peer(1)], Vec::new());
        Side {
            transport,
            other: Peer(1 - me),
            count: Count { frames: 0, copy: vec![0; 1 << 20] },
            data: vec![7; 1 << 20],
        }
    }

    #[inline(never)]
    fn send(&mut self, len: usize) {
        let header = Header { tag: 5, context: 2, length: len as u64, ..Header::new(Kind::Eager) };
        let data = &self.data[..len];
        while self
            .transport
            .post(self.other, &header, len, |slot| slot.copy_from_slice(data))
            .expect("a peer")
            == Post::NoSpace
        {
            self.transport.poll(&mut self.count);
        }
    }

    #[inline(never)]
    fn receive(&mut self, frames: u64) {
        let until = self.count.frames + frames;
        while self.count.frames < until {
            if !self.transport.poll(&mut self.count) {
                std::hint::spin_loop();
            }
        }
    }

    /// Nanoseconds of half a round trip.
    fn ping(&mut self, len: usize) -> f64 {
        let start = Instant::now();
        for _ in 0..BATCH {
            self.send(len);
            self.receive(1);
        }
        start.elapsed().as_nanos() as f64 / BATCH as f64 / 2.0
    }

    fn pong(&mut self, len: usize) {
        for _ in 0..BATCH {
            self.receive(1);
            self.send(len);
        }
    }

    /// Nanoseconds for each message of a stream.
    fn stream(&mut self, len: usize) -> f64 {
        let start = Instant::now();
        (0..BATCH).for_each(|_| self.send(len));
        self.receive(1);
        start.elapsed().as_nanos() as f64 / BATCH as f64
    }

    fn drain(&mut self) {
        self.receive(BATCH as u64);
        self.send(0);
    }
}

fn pin(core: usize) {
    let mut set = CpuSet::new();
    set.set(core);
    if sched_setaffinity(None, &set).is_err() {
        eprintln!("can't pin to core {core}");
    }
}

#[repr(align(128))]
struct Line(AtomicU64);

/// Two lines, one for each direction: nanoseconds of half a round trip.
fn bare() -> f64 {
    let lines = [Line(AtomicU64::new(0)), Line(AtomicU64::new(0))];
    let [there, back] = &lines;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            for at in 1..=BATCH as u64 {
                while there.0.load(Ordering::Acquire) != at {
                    std::hint::spin_loop();
                }
                back.0.store(at, Ordering::Release);
            }
        });
        pin(0);
        let start = Instant::now();
        for at in 1..=BATCH as u64 {
            there.0.store(at, Ordering::Release);
            while back.0.load(Ordering::Acquire) != at {
                std::hint::spin_loop();
            }
        }
        start.elapsed().as_nanos() as f64 / BATCH as f64 / 2.0
    })
}

fn figures(mut of: Vec<f64>) -> String {
    of.sort_by(f64::total_cmp);
    format!("{:>9.1}{:>9.1}", of[0], of[of.len() / 4])
}

fn main() {
    let argument = std::env::args().nth(1);
    let rounds: usize = argument.and_then(|rounds| rounds.parse().ok()).unwrap_or(300);
    if let Ok(file) = std::env::var(CHILD) {
        let file = std::fs::File::options()
            .read(true)
            .write(true)
            .open(file)
            .expect("the file of our parent");
        let mut side = Side::new(file.as_fd(), 1);
        for _ in 0..rounds {
            for len in SIZES {
                side.pong(len);
                side.drain();
            }
        }
        return;
    }
    let file = Segment::file().expect("a memory file");
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    let program = std::env::current_exe().expect("this program");
    let mut child = Command::new(program)
        .arg(rounds.to_string())
        .env(CHILD, path)
        .spawn()
        .expect("a second process");
    let mut side = Side::new(file.as_fd(), 0);
    let mut bares = Vec::new();
    let mut pings = SIZES.map(|_| Vec::new());
    let mut streams = SIZES.map(|_| Vec::new());
    for _ in 0..rounds {
        for (at, len) in SIZES.into_iter().enumerate() {
            pings[at].push(side.ping(len));
            streams[at].push(side.stream(len));
        }
        bares.push(bare());
    }
    child.wait().expect("the second process");
    println!("bare cache line, ns:   {}", figures(bares));
    println!("{:>7} {:>18} {:>18}", "bytes", "half trip, ns", "streamed, ns");
    for ((len, ping), stream) in SIZES.into_iter().zip(pings).zip(streams) {
        println!("{len:>7} {:>18} {:>18}", figures(ping), figures(stream));
    }
}
