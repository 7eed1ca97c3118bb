//! Two processes, on one host or two, that measure the verbs transport by itself:
//!
//! ```sh
//! verbs_pair RANK FOLDER      # rank 0 prints; FOLDER is empty and seen by both
//! ```
//!
//! Half round trips of frames, polling and sleeping, and messages read or pushed, all
//! checked. Compare with `ib_send_lat`, `ib_read_bw` of the same boot. Knobs apply
//! (`VERBENA_VERBS_DEVICE` ...).

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fabric::knobs::Knobs;
use fabric::{Header, Kind, Lost, Memory, OneSided, Peer, Post, Region, Rights, Sink, Transfer, Transport, WaitOn};
use tests::bytes::{Bytes, Shape};
use tests::conformance::pattern_bytes;
use tests::idle::until_readable;
use verbs_transport::{Settings, Store, VerbsTransport};

/// A store in a folder.
struct Folder(PathBuf);

impl Store for Folder {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        let name = key.replace('/', ".");
        let new = self.0.join(format!("{name}.new"));
        std::fs::write(&new, value).and_then(|()| std::fs::rename(new, self.0.join(name))).map_err(|e| e.to_string())
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(std::fs::read(self.0.join(key.replace('/', "."))).ok())
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }
}

#[derive(Default)]
struct Heard {
    frames: u64,
    bytes: u64,
    region: Option<Region>,
    transfers: u64,
}

impl Sink for Heard {
    fn frame(&mut self, _: Peer, header: &Header, body: &[u8]) {
        assert_eq!(header.length, self.frames, "a frame is missing or came twice");
        self.frames += 1;
        self.bytes += body.len() as u64;
        if header.kind == Kind::Rts {
            self.region = fabric::transport::Rts::decode(body).and_then(|rts| rts.region);
        }
    }

    fn transferred(&mut self, _: u64, outcome: Result<(), Lost>) {
        outcome.expect("a read succeeds");
        self.transfers += 1;
    }

    fn lost(&mut self, lost: Lost) {
        panic!("{lost}");
    }
}

struct End {
    transport: VerbsTransport,
    peer: Peer,
    heard: Heard,
    sent: u64,
    sleeps: bool,
}

impl End {
    /// Until something is so.
    fn until(&mut self, is_so: impl Fn(&Heard) -> bool) {
        while !is_so(&self.heard) {
            if !self.transport.poll(&mut self.heard) && self.sleeps {
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
            match self.transport.post(self.peer, &header, body.len(), |slot| slot.copy_from_slice(body)) {
                Ok(Post::Sent) => break,
                Ok(Post::NoRoom) => _ = self.transport.poll(&mut self.heard),
                Err(lost) => panic!("{lost}"),
            }
        }
        self.sent += 1;
    }

    /// Half round trips in µs: the median of `count`.
    fn latency(&mut self, rank: u32, body: &[u8], count: usize) -> f64 {
        let mut times = Vec::new();
        for _ in 0..count {
            let (began, next) = (Instant::now(), self.heard.frames + 1);
            if rank == 0 {
                self.send(Kind::Eager, body);
            }
            self.until(|heard| heard.frames >= next);
            if rank == 1 {
                self.send(Kind::Eager, body);
            }
            times.push(began.elapsed().as_secs_f64() * 5e5);
        }
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    /// MB/s of a message from rank 0, read by rank 1, or pushed.
    fn bandwidth(&mut self, rank: u32, len: usize, count: usize, read: bool) -> f64 {
        let data = pattern_bytes(len as u64, len);
        let bytes = if rank == 0 { Bytes::new(Shape::Run, &data) } else { Bytes::room(Shape::Run, len) };
        let memory = bytes.buffer().memory().expect("one run");
        let began = Instant::now();
        for _ in 0..count {
            if read { self.one_read(rank, memory) } else { self.one_push(rank, memory) }
        }
        let seconds = began.elapsed().as_secs_f64();
        assert!(bytes.read() == data, "{len} bytes arrived damaged");
        (len * count) as f64 / seconds / 1e6
    }

    fn one_read(&mut self, rank: u32, memory: Memory) {
        let next = self.heard.frames + 1;
        if rank == 0 {
            let region = self.transport.register(self.peer, memory, Rights::Get).expect("memory can be registered");
            self.send(Kind::Rts, &fabric::transport::Rts { send: 0, region: Some(region) }.encode());
            self.until(|heard| heard.frames >= next);
            return self.transport.release(self.peer, region);
        }
        self.until(|heard| heard.frames >= next);
        let (region, done) = (self.heard.region.expect("a region"), self.heard.transfers + 1);
        let started = self.transport.one_sided(self.peer, &region, 0, OneSided::Get(memory), 1);
        assert_eq!(started, Ok(Transfer::Started));
        self.until(|heard| heard.transfers >= done);
        self.send(Kind::Done, &[]);
    }

    fn one_push(&mut self, rank: u32, memory: Memory) {
        let next = self.heard.frames + 1;
        if rank == 0 {
            let frame = self.transport.limits(self.peer).frame;
            let mut piece = vec![0; frame];
            for from in (0..memory.len()).step_by(frame) {
                let len = frame.min(memory.len() - from);
                memory.read(from, &mut piece[..len]);
                self.send(Kind::Data, &piece[..len]);
            }
            return self.until(|heard| heard.frames >= next);
        }
        let all = self.heard.bytes + memory.len() as u64;
        self.until(|heard| heard.bytes >= all);
        // What was pushed is counted, not kept.
        memory.write(0, &pattern_bytes(memory.len() as u64, memory.len()));
        self.send(Kind::Done, &[]);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, rank, folder] = arguments.as_slice() else { panic!("verbs_pair RANK FOLDER") };
    let rank: u32 = rank.parse().expect("0 or 1");
    let settings = Settings::from_knobs(&Knobs::from_process().unwrap_or_else(|why| panic!("{why}")));
    let store = Box::new(Folder(folder.into()));
    let transport = VerbsTransport::open(settings, Peer(rank), 2, [9; 32], store).unwrap_or_else(|why| panic!("{why}"));
    if rank == 0 {
        println!("{}", transport.port());
    }
    let mut end = End { transport, peer: Peer(1 - rank), heard: Heard::default(), sent: 0, sleeps: true };
    let print = |what: String| {
        if rank == 0 {
            println!("{what}");
        }
    };
    let began = Instant::now();
    end.latency(rank, &[1; 8], 1);
    print(format!("first message {:.1} ms", began.elapsed().as_secs_f64() * 1e3));
    let polls = std::env::var_os("VERBS_PAIR_POLL").is_some();
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
    }
    end.sleeps = true;
    for (len, count) in [(64 << 10, 40), (1 << 20, 10), (4 << 20, 4)] {
        for read in [true, false] {
            let rate = end.bandwidth(rank, len, count, read);
            print(format!("{} {len:>8} B  {rate:8.1} MB/s", if read { "read  " } else { "pushed" }));
        }
    }
    while !end.transport.flush() {
        end.transport.poll(&mut end.heard);
    }
}
