//! Our side of an exchange with a peer that others' code drives (`tests/foreign`):
//!
//! ```sh
//! verbs_foreign FOLDER first|second      # FOLDER is the store, empty and seen by both
//! ```
//!
//! The two are a job of two processes whose secret is 32 times the byte 9; this one is rank 0. Both
//! send numbered frames, many more than fit a window and of all lengths, then each lets the other
//! read memory. `first`: this side calls.

use std::time::{Duration, Instant};

use config::Knobs;
use fabric::transport::Rts;
use fabric::{
    Body, Header, Kind, OneSided, Peer, PeerFailed, Post, Region, Rights, Sink, Transfer,
    Transport, UserBuf, WaitOn,
};
use tests::bytes::{Bytes, Shape};
use tests::folder::Folder;
use tests::idle::until_readable;
use verbs_transport::{Settings, VerbsTransport};

const PEER: Peer = Peer(1);
const FRAMES: u64 = 200;
/// Bytes that each side reads of the other.
const MEMORY: usize = 300_000;
/// Names what we offer in Rts and Done.
const REQUEST: u64 = 55;
const MAX_TIME: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Recorder {
    frames: u64,
    offer: Option<Rts>,
    /// Our read is over.
    fetched: bool,
    /// It has read ours.
    done: bool,
}

impl Sink for Recorder {
    fn frame(&mut self, _: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        let body = body.wait_all().unwrap();
        match header.kind {
            Kind::Eager => {
                assert_eq!(header.length, self.frames, "a frame is missing or came twice");
                assert!(
                    body == self::body(self.frames, body.len()),
                    "frame {} arrived damaged",
                    self.frames
                );
                assert_eq!(body.len(), length(self.frames));
                self.frames += 1;
            }
            Kind::Rts => self.offer = Rts::decode(body),
            Kind::Done => self.done = header.context == REQUEST,
            other => panic!("a frame of kind {other:?}"),
        }
    }

    fn transferred(&mut self, _: u64, outcome: Result<(), PeerFailed>) {
        outcome.unwrap_or_else(|lost| panic!("{lost}"));
        self.fetched = true;
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

/// Of frame `number`: nothing, few bytes, many, all that fit.
fn length(number: u64) -> usize {
    [0, 8, 200, 8200][number as usize % 4]
}

fn body(number: u64, len: usize) -> Vec<u8> {
    (0..len as u64).map(|at| (number * 7 + at * 31) as u8).collect()
}

struct End {
    transport: VerbsTransport,
    recorded: Recorder,
    began: Instant,
}

impl End {
    fn until(&mut self, what: &str, is_so: impl Fn(&Recorder) -> bool) {
        while !is_so(&self.recorded) {
            assert!(
                self.began.elapsed() < MAX_TIME,
                "{what} did not come; {} frames did",
                self.recorded.frames
            );
            if !self.transport.poll(&mut self.recorded) {
                if let Some(WaitOn::Fd(fd)) = self.transport.arm() {
                    until_readable(&[fd], Duration::from_secs(1));
                }
                self.transport.disarm();
            }
        }
    }

    fn send(&mut self, header: Header, body: &[u8]) {
        loop {
            match self.transport.post(PEER, &header, body.len(), |slot| slot.copy_from_slice(body))
            {
                Ok(Post::Sent) => break,
                Ok(Post::NoSpace) => _ = self.transport.poll(&mut self.recorded),
                Err(lost) => panic!("{lost}"),
            }
            assert!(
                self.began.elapsed() < MAX_TIME,
                "there is no room; {} frames came",
                self.recorded.frames
            );
        }
    }

    /// Offers our memory, reads the other's, and reports it.
    fn read_each_other(&mut self) {
        let (ours, into) =
            (Bytes::new(Shape::Run, &body(0, MEMORY)), Bytes::for_receive(Shape::Run, MEMORY));
        let region = self
            .transport
            .register(PEER, ours.memory(), Rights::Get)
            .expect("memory is registered");
        let offer = Rts { send: REQUEST, region: Some(region) }.encode();
        self.send(Header { length: MEMORY as u64, ..Header::new(Kind::Rts) }, &offer);
        self.until("an offer", |recorded| recorded.offer.is_some());
        let Some(Rts { send, region: Some(offered) }) = self.recorded.offer else {
            panic!("no memory to read is offered")
        };
        self.fetch(&offered, into.memory());
        assert!(into.read() == body(1, MEMORY), "what was read is wrong");
        self.send(Header { context: send, ..Header::new(Kind::Done) }, &[]);
        self.until("the end of its read", |recorded| recorded.done);
        self.transport.release(PEER, region);
    }

    fn fetch(&mut self, offered: &Region, into: UserBuf) {
        let began = self.transport.one_sided(PEER, offered, 0, OneSided::Get(into), 1);
        assert!(matches!(began, Ok(Transfer::Started)), "{began:?}");
        self.until("what is read", |recorded| recorded.fetched);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, folder, role] = arguments.as_slice() else {
        panic!("verbs_foreign FOLDER first|second")
    };
    let settings =
        Settings::from_knobs(&Knobs::from_process().unwrap_or_else(|why| panic!("{why}")));
    let store = Box::new(Folder::from(folder));
    let transport = VerbsTransport::open(settings, Peer(0), 2, [9; 32], store)
        .unwrap_or_else(|why| panic!("{why}"));
    let mut end = End { transport, recorded: Recorder::default(), began: Instant::now() };
    if role == "second" {
        end.until("the first frame", |recorded| recorded.frames > 0);
    }
    for number in 0..FRAMES {
        let header = Header { length: number, ..Header::new(Kind::Eager) };
        end.send(header, &body(number, length(number)));
    }
    end.until("the last frame", |recorded| recorded.frames == FRAMES);
    end.read_each_other();
    while !end.transport.flush() {
        end.transport.poll(&mut end.recorded);
    }
    println!("ours: ok, {FRAMES} frames each way");
}
