//! Two processes, on one host or two, that measure the verbs transport by itself:
//!
//! ```sh
//! verbs_pair RANK FOLDER      # rank 0 prints; FOLDER is empty and seen by both
//! ```
//!
//! Measures half round trips of frames, sleeping and (with VERBS_PAIR_POLL set) polling, and the
//! rate of small ones. Also measures the bandwidth of several large messages at once.
//! VERBS_PAIR_POLL=small measures those of 8 bytes alone, by polling. Compare with `ib_send_lat`,
//! `ib_read_bw` of the same boot. Knobs apply (`VERBENA_VERBS_DEVICES`, `VERBENA_VERBS_RENDEZVOUS`
//! ...).

use std::time::{Duration, Instant};

use config::Knobs;
use fabric::{Body, Header, Kind, Peer, PeerFailed, Post, Sink, Transport, WaitOn};
use pt2pt::Mode;
use tests::bytes::{Bytes, Shape};
use tests::conformance::{Rank, envelope, pattern, pattern_bytes};
use tests::folder::Folder;
use tests::idle::until_readable;
use verbs_transport::{Settings, VerbsTransport};

#[derive(Default)]
struct Recorder {
    frames: u64,
}

impl Sink for Recorder {
    fn frame(&mut self, _: Peer, header: &Header, _: &(impl Body + ?Sized)) {
        assert_eq!(header.length, self.frames, "a frame is missing or came twice");
        self.frames += 1;
    }

    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}

    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

struct End {
    transport: VerbsTransport,
    peer: Peer,
    recorded: Recorder,
    sent: u64,
    sleeps: bool,
}

impl End {
    /// Polls until a condition holds.
    fn until(&mut self, is_so: impl Fn(&Recorder) -> bool) {
        while !is_so(&self.recorded) {
            if !self.transport.poll(&mut self.recorded) && self.sleeps {
                if let Some(WaitOn::Fd(fd)) = self.transport.arm() {
                    assert!(until_readable(&[fd], Duration::from_secs(20)), "nothing wakes us");
                }
                self.transport.disarm();
            }
        }
    }

    fn send(&mut self, kind: Kind, body: &[u8]) {
        let header = Header { length: self.sent, ..Header::new(kind) };
        loop {
            match self
                .transport
                .post(self.peer, &header, body.len(), |slot| slot.copy_from_slice(body))
            {
                Ok(Post::Sent) => break,
                Ok(Post::NoSpace) => _ = self.transport.poll(&mut self.recorded),
                Err(lost) => panic!("{lost}"),
            }
        }
        self.sent += 1;
    }

    /// Returns the median of `count` half round trips in µs.
    fn latency(&mut self, rank: u32, body: &[u8], count: usize) -> f64 {
        let mut times = Vec::new();
        for _ in 0..count {
            let (began, next) = (Instant::now(), self.recorded.frames + 1);
            if rank == 0 {
                self.send(Kind::Eager, body);
            }
            self.until(|recorded| recorded.frames >= next);
            if rank == 1 {
                self.send(Kind::Eager, body);
            }
            times.push(began.elapsed().as_secs_f64() * 5e5);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }
}

impl End {
    /// Returns the rate of 8-byte frames from rank 0 to rank 1, per second.
    fn rate(&mut self, rank: u32, count: u64) -> f64 {
        let (began, recorded) = (Instant::now(), self.recorded.frames);
        if rank == 0 {
            (0..count).for_each(|_| self.send(Kind::Eager, &[7; 8]));
            self.until(|now| now.frames > recorded);
        } else {
            self.until(|now| now.frames >= recorded + count);
            self.send(Kind::Eager, &[7; 8]);
        }
        count as f64 / began.elapsed().as_secs_f64()
    }
}

/// Returns the MB/s of `rounds` times `window` concurrent messages from rank 0 to rank 1, by
/// `verbs.rendezvous`, with the protocol above the transport.
fn bandwidth(
    engine: &mut Rank<VerbsTransport>,
    rank: u32,
    len: usize,
    window: usize,
    rounds: usize,
) -> f64 {
    let (peer, data) = (Peer(1 - rank), pattern_bytes(len as u64, len));
    let new = || {
        if rank == 0 { Bytes::new(Shape::Run, &data) } else { Bytes::for_receive(Shape::Run, len) }
    };
    let (buffers, token): (Vec<Bytes>, _) =
        ((0..window).map(|_| new()).collect(), Bytes::for_receive(Shape::Run, 4));
    let mut exchange = |sends: bool, tag: i32, buffers: &[Bytes]| {
        let begin = |bytes: &Bytes| match sends {
            true => engine.send(Mode::Standard, peer, envelope(rank, tag), bytes.buffer()),
            false => engine.receive(pattern(1 - rank, tag), bytes.buffer()),
        };
        let ids: Vec<_> = buffers.iter().map(begin).collect();
        for id in ids {
            while !engine.pt2pt.is_complete(id) {
                rest(engine);
            }
            assert!(engine.pt2pt.finish(id).is_some_and(|done| done.fault.is_none()));
        }
    };
    let mut began = Instant::now();
    for round in 0..=rounds {
        // The first round warms up.
        if round == 1 {
            began = Instant::now();
        }
        exchange(rank == 0, 1, &buffers);
        exchange(rank == 1, 2, std::slice::from_ref(&token));
    }
    let seconds = began.elapsed().as_secs_f64();
    assert!(buffers.iter().all(|bytes| bytes.read() == data), "{len} bytes arrived damaged");
    (len * window * rounds) as f64 / seconds / 1e6
}

/// Makes progress; sleeps if there is none.
fn rest(engine: &mut Rank<VerbsTransport>) {
    if !engine.progress() {
        if let Some(WaitOn::Fd(fd)) = engine.arm() {
            assert!(until_readable(&[fd], Duration::from_secs(20)), "nothing wakes us");
        }
        engine.disarm();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rank, folder] = arguments.as_slice() else { panic!("verbs_pair RANK FOLDER") };
    let rank: u32 = rank.parse().expect("0 or 1");
    let settings =
        Settings::from_knobs(&Knobs::from_process().unwrap_or_else(|why| panic!("{why}")));
    let store = Box::new(Folder::from(folder));
    let transport = VerbsTransport::open(settings, Peer(rank), 2, [9; 32], store)
        .unwrap_or_else(|why| panic!("{why}"));
    if rank == 0 {
        println!("{}", transport.port());
    }
    let mut end = End {
        transport,
        peer: Peer(1 - rank),
        recorded: Recorder::default(),
        sent: 0,
        sleeps: true,
    };
    let print = |what: String| {
        if rank == 0 {
            println!("{what}");
        }
    };
    let began = Instant::now();
    end.latency(rank, &[1; 8], 1);
    print(format!("first message {:.1} ms", began.elapsed().as_secs_f64() * 1e3));
    let polls = std::env::var_os("VERBS_PAIR_POLL");
    if polls.as_ref().is_some_and(|polls| polls == "small") {
        end.sleeps = false;
        for _ in 0..10 {
            let half = end.latency(rank, &[7; 8], 500);
            print(format!(
                "polling      8 B  {half:8.1} µs  {:8.0} frames/s",
                end.rate(rank, 4000)
            ));
        }
        print(format!("{} frames written", end.transport.frames_written()));
        while !end.transport.flush() {
            end.transport.poll(&mut end.recorded);
        }
        return;
    }
    let polls = polls.is_some();
    for sleeps in [true, false] {
        if !sleeps && !polls {
            continue;
        }
        end.sleeps = sleeps;
        let how = if sleeps { "sleeping" } else { "polling" };
        for len in [8, 1024, 4096, 8192] {
            let half = end.latency(rank, &vec![7; len], 300);
            print(format!("{how} {len:>6} B  {half:8.1} µs"));
        }
        print(format!("{how}      8 B  {:8.0} frames/s", end.rate(rank, 4000)));
    }
    let mut engine = Rank::new(Peer(rank), end.transport, Default::default());
    for (len, window, rounds) in [(64 << 10, 32, 4), (1 << 20, 8, 3), (4 << 20, 4, 2)] {
        let rate = bandwidth(&mut engine, rank, len, window, rounds);
        print(format!("bandwidth {len:>8} B  {rate:8.1} MB/s"));
    }
    while !engine.is_drained() {
        engine.progress();
    }
}
