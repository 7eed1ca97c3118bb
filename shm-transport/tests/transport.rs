//! The whole transport, its ranks in threads of this process and in other processes. A second
//! process is this program again, running the test `child`.

mod common;

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::*;
use fabric::{
    Body, Header, Kind, Peer, PeerFailed, Post, Region, Sink, Slot, Transfer, Transport, WaitOn,
};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::futex;
use shm_transport::{Segment, SegmentError, Settings, ShmTransport};

/// Longer than any step takes that does not hang.
const MAX_WAIT: Duration = Duration::from_secs(30);

fn length(tag: u64, most: usize) -> usize {
    let bits = tag.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    (bits >> 4) as usize % [30, 300, most + 1][bits as usize % 3].min(most + 1)
}

/// Waits as an idle process does. Panics if no peer wakes it.
fn sleep(transport: &mut ShmTransport) {
    if let Some(WaitOn::Futex { word, value }) = transport.arm() {
        let timeout = futex::Timespec { tv_sec: MAX_WAIT.as_secs() as i64, tv_nsec: 0 };
        let slept = futex::wait(word, futex::Flags::empty(), value, Some(&timeout));
        assert_ne!(slept, Err(rustix::io::Errno::TIMEDOUT), "no peer has woken this rank");
    }
    transport.disarm();
}

/// Takes bodies chunk by chunk, as the engine does.
#[derive(Default)]
struct Parts {
    bodies: Vec<(u64, Vec<u8>)>,
    parts: usize,
}

impl Sink for Parts {
    fn frame(&mut self, _: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        let mut taken = Vec::new();
        body.for_each_chunk(body.len(), |at, part| {
            assert_eq!(at, taken.len());
            taken.extend_from_slice(part);
            self.parts += usize::from(body.is_arriving());
        })
        .unwrap();
        self.bodies.push((header.context, taken));
    }
    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

/// Returns the number of chunks in which 50 bodies of a length arrive, one after the other. A body
/// that arrives whole counts 0.
fn chunks_of_a_stream(len: usize) -> usize {
    let file = Segment::file().unwrap();
    let [mut first, mut second] = [0, 1].map(|me| join(&file, me, 2, 16 * RING, SETTINGS));
    let rounds = 50;
    let mut inbox = Parts::default();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for tag in 0..rounds {
                let header = Header { context: tag, ..Header::new(Kind::Data) };
                let data = body(tag, len);
                let write = |slot: &mut Slot| {
                    slot.fill_chunks(|at, part| {
                        part.copy_from_slice(&data[at..at + part.len()]);
                        std::thread::sleep(Duration::from_micros(tag * 20));
                    });
                };
                while first.post(peer(1), &header, len, write).unwrap() == Post::NoSpace {
                    std::thread::yield_now();
                }
            }
        });
        while inbox.bodies.len() < rounds as usize {
            second.poll(&mut inbox);
        }
    });
    for (tag, (context, data)) in (0..).zip(&inbox.bodies) {
        assert!(*context == tag && *data == body(tag, len), "message {tag}");
    }
    inbox.parts
}

#[test]
fn bodies_are_pipelined_except_the_shorter_ones_of_a_stream() {
    let (shorter, longer) = (chunks_of_a_stream(10_500), chunks_of_a_stream(70_000));
    assert!(longer > 50, "no body was seen in chunks");
    assert!(
        (1..=15).contains(&shorter),
        "{shorter} parts, where the first three bodies have five each"
    );
}

#[test]
fn a_reply_goes_back_in_the_block_that_the_request_came_in() {
    let file = Segment::file().unwrap();
    let taken = || rustix::fs::fstat(&file).unwrap().st_blocks as u64 * 512;
    let [mut first, mut second] = [0, 1].map(|me| join(&file, me, 2, 4 * RING, SETTINGS));
    let mut inbox = Inbox::default();
    let mut arrives = |at: &mut ShmTransport, tag, len| {
        assert!(at.poll(&mut inbox));
        let [(_, header, data)] = &inbox.frames[..] else {
            panic!("{} frames", inbox.frames.len())
        };
        assert!(header.context == tag && *data == body(tag, len), "message {tag}");
        inbox.frames.clear();
    };
    // The reply is longer than the request: the block's holder takes more memory for it.
    let (question, answer, begun) = (8_000, 10_500, taken());
    for tag in 0..500 {
        assert_eq!(post(&mut first, peer(1), tag, question), Post::Sent);
        arrives(&mut second, tag, question);
        assert_eq!(post(&mut second, peer(0), tag, answer), Post::Sent);
        arrives(&mut first, tag, answer);
    }
    let pages = |bytes: u64| bytes / rustix::param::page_size() as u64;
    let to_and_fro = taken() - begun;
    assert!(
        to_and_fro <= 16 << 10 || pages(to_and_fro) <= 6,
        "{to_and_fro} bytes for one message at a time"
    );
    for tag in 0..500 {
        assert_eq!(post(&mut first, peer(1), tag, question), Post::Sent);
        assert_eq!(post(&mut second, peer(0), tag, answer), Post::Sent);
        arrives(&mut second, tag, question);
        arrives(&mut first, tag, answer);
    }
    let at_once = taken() - begun;
    assert!(
        at_once <= 32 << 10 || pages(at_once) <= 10,
        "{at_once} bytes for two messages at a time"
    );
    for tag in 0..500 {
        assert_eq!(post(&mut first, peer(1), tag, question), Post::Sent);
        arrives(&mut second, tag, question);
    }
    assert!(taken() > begun + at_once, "bodies without replies went through the bounce pool");
}

#[test]
fn a_reply_of_a_kilobyte_has_a_block_and_later_frames_have_none() {
    let file = Segment::file().unwrap();
    let taken = || rustix::fs::fstat(&file).unwrap().st_blocks as u64 * 512;
    let [mut first, mut second] = [0, 1].map(|me| join(&file, me, 2, 4 * RING, SETTINGS));
    let mut inbox = Inbox::default();
    let exchange =
        |from: &mut ShmTransport, at: &mut ShmTransport, inbox: &mut Inbox, len, count| {
            let to = if from.segment().me() == 0 { peer(1) } else { peer(0) };
            (0..count).for_each(|tag| assert_eq!(post(from, to, tag, len), Post::Sent));
            while inbox.frames.len() < count as usize {
                assert!(at.poll(inbox));
            }
            for (tag, (_, header, data)) in (0..).zip(inbox.frames.drain(..)) {
                assert!(header.context == tag && data == body(tag, len), "message {tag} of {len}");
            }
        };
    let mut to_and_fro = |len, count| {
        exchange(&mut first, &mut second, &mut inbox, len, count);
        exchange(&mut second, &mut first, &mut inbox, len, count);
    };
    to_and_fro(8, 1);
    let begun = taken();
    (0..100).for_each(|_| to_and_fro(700, 1));
    assert_eq!(taken(), begun, "short ones stay in the ring");
    (0..100).for_each(|_| to_and_fro(1000, 1));
    let block = taken() - begun;
    assert!(
        block >= 8 << 10 && block <= (8 << 10).max(rustix::param::page_size() as u64),
        "{block} bytes for a block"
    );
    (0..100).for_each(|_| to_and_fro(1000, 3));
    assert_eq!(taken(), begun + block, "the second and the third are no replies");
}

/// Receives without reading the bodies.
struct Unwilling(u32);

impl Sink for Unwilling {
    fn frame(&mut self, _: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        self.0 += u32::from(body.is_arriving());
    }
    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

#[test]
fn a_block_is_adopted_only_after_the_sender_has_written_all_of_it() {
    let file = Segment::file().unwrap();
    let [mut first, mut second] = [0, 1].map(|me| join(&file, me, 2, 4 * RING, SETTINGS));
    let (len, written) = (10_500, AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let write = |slot: &mut Slot| {
                slot.fill_chunks(|_, part| {
                    std::thread::sleep(Duration::from_millis(20));
                    part.fill(1);
                    written.fetch_add(part.len() as u32, Ordering::Relaxed);
                });
            };
            assert_eq!(first.post(peer(1), &Header::new(Kind::Data), len, write), Ok(Post::Sent));
        });
        let mut sink = Unwilling(0);
        while sink.0 == 0 {
            second.poll(&mut sink);
        }
        assert_eq!(written.load(Ordering::Relaxed) as usize, len);
    });
}

/// Counts frames, and may expect none of them.
#[derive(Default)]
struct Count {
    frames: usize,
    pipelined: usize,
    expects: bool,
}

impl Sink for Count {
    fn frame(&mut self, _: Peer, _: &Header, body: &(impl Body + ?Sized)) {
        self.frames += usize::from(!body.is_arriving() || !body.wait_all().unwrap().is_empty());
        self.pipelined += usize::from(body.is_arriving());
    }
    fn expects(&mut self, _: Peer, _: &Header) -> bool {
        self.expects
    }
    fn transferred(&mut self, _: u64, _: Result<(), PeerFailed>) {}
    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

#[test]
fn an_unexpected_body_after_other_frames_stays_until_the_next_poll() {
    let (_file, mut first, mut second) = pair();
    for (expects, polls) in [(true, vec![3]), (false, vec![1, 1, 1])] {
        let mut sink = Count { expects, ..Count::default() };
        // A pause made bursts short.
        for burst in [0, 1, 2] {
            (0..burst).for_each(|tag| assert_eq!(post(&mut first, peer(1), tag, 8), Post::Sent));
            second.poll(&mut sink);
        }
        for len in [8, 10_500, 10_500] {
            assert_eq!(post(&mut first, peer(1), 0, len), Post::Sent);
        }
        for taken in polls {
            sink.frames = 0;
            assert!(
                second.poll(&mut sink) && sink.frames == taken,
                "{} frames in a poll",
                sink.frames
            );
        }
        assert!(!second.poll(&mut sink));
    }
}

#[test]
fn bodies_of_crossing_streams_are_not_pipelined() {
    let file = Segment::file().unwrap();
    let [mut first, mut second] = [0, 1].map(|me| join(&file, me, 2, 16 * RING, SETTINGS));
    assert_eq!(post(&mut second, peer(0), 0, 8), Post::Sent);
    assert!(first.poll(&mut Count::default()), "the pair is connected");
    let seen = [false, true].map(|crosses| {
        if crosses {
            assert_eq!(post(&mut second, peer(0), 0, 70_000), Post::Sent);
        }
        let mut sink = Count { expects: true, ..Count::default() };
        (0..8).for_each(|tag| assert_eq!(post(&mut first, peer(1), tag, 70_000), Post::Sent));
        while second.poll(&mut sink) {}
        assert_eq!(sink.frames, 8);
        first.poll(&mut Count::default());
        sink.pipelined
    });
    assert!(seen[0] == 8 && seen[1] < 4, "{seen:?} of 8");
}

#[test]
fn large_bodies_that_cross_wait_for_each_others_blocks() {
    const LEN: usize = 256 << 10;
    let file = Segment::file().unwrap();
    let [mut first, mut second] = [0, 1].map(|me| {
        let segment = Segment::attach(file.as_fd(), 0, me, 2, 1 << 20, 16 * LEN as u64).unwrap();
        ShmTransport::new(segment, SETTINGS, vec![peer(0), peer(1)], Vec::new())
    });
    // Takes all frames of the second rank, which replies to one.
    let mut cross = |first: &mut ShmTransport, tag| {
        let (mut requested, mut answered) = (Parts::default(), Parts::default());
        while second.poll(&mut requested) {}
        assert_eq!(post(&mut second, peer(0), tag, LEN), Post::Sent);
        while !first.poll(&mut answered) {}
        assert_eq!(answered.bodies, [(tag, body(tag, LEN))]);
        requested.bodies.len()
    };
    assert_eq!(post(&mut first, peer(1), 0, LEN), Post::Sent);
    assert_eq!(cross(&mut first, 1), 1);
    for tag in 2..40 {
        let (mut tries, mut came) = (0, 0);
        while post(&mut first, peer(1), tag, LEN) == Post::NoSpace {
            tries += 1;
            if tries == 8 {
                came = cross(&mut first, 100 + tag);
            }
        }
        // A few go in blocks of its own. From then on one block travels each time.
        assert!(
            tag < 12 && (tries, came) == (0, 0) || tries == 8 && (came == 1 || tag < 12),
            "{tag}: {tries}, {came}"
        );
    }
    let tries =
        std::iter::from_fn(|| (post(&mut first, peer(1), 0, LEN) == Post::NoSpace).then_some(()))
            .count();
    assert_eq!(tries, 1024, "the body goes without a block in the end");
}

/// Waits for a frame, asleep.
fn receive(transport: &mut ShmTransport, inbox: &mut Inbox) {
    while inbox.frames.is_empty() {
        sleep(transport);
        transport.poll(inbox);
    }
}

/// All ranks send to all others, as fast as there is space, and wait when there is nothing to do.
fn exchange(file: &OwnedFd, me: u32, size: u32, count: u64, settings: Settings) {
    let mut transport = join(file, me, size, 4096, settings);
    let most = transport.caps(peer(me ^ 1)).frame;
    let (mut sent, mut received) = (vec![0; size as usize], vec![0; size as usize]);
    (sent[me as usize], received[me as usize]) = (count, count);
    let mut inbox = Inbox::default();
    while sent.iter().chain(&received).any(|&done| done < count) {
        let mut moved = false;
        for to in 0..size {
            let tag = sent[to as usize];
            if tag < count && post(&mut transport, peer(to), tag, length(tag, most)) == Post::Sent {
                sent[to as usize] += 1;
                moved = true;
            }
        }
        moved |= transport.poll(&mut inbox);
        assert_eq!(inbox.lost, []);
        for (from, header, data) in inbox.frames.drain(..) {
            let next = &mut received[(from.0 as usize - 3) / 2];
            assert_eq!(header.context, *next, "from {from:?}");
            assert_eq!(data, body(*next, length(*next, most)));
            *next += 1;
        }
        if !moved {
            sleep(&mut transport);
        }
    }
}

#[test]
fn ranks_in_threads_exchange_everything() {
    for (size, rare_sleeps) in [(2, true), (2, false), (5, true), (5, false)] {
        let file = &Segment::file().unwrap();
        std::thread::scope(|scope| {
            for me in 0..size {
                scope.spawn(move || {
                    exchange(file, me, size, 2000, Settings { rare_sleeps, ..SETTINGS })
                });
            }
        });
    }
}

#[test]
fn idle_rings_among_many_are_polled() {
    const SIZE: u32 = 70;
    let file = Segment::file().unwrap();
    let mut ranks: Vec<_> = (0..SIZE).map(|me| join(&file, me, SIZE, RING, SETTINGS)).collect();
    let (listener, senders) = ranks.split_first_mut().unwrap();
    let mut inbox = Inbox::default();
    for round in 0..5 {
        for (at, talker) in senders.iter_mut().enumerate() {
            assert_eq!(post(talker, peer(0), round, 8), Post::Sent);
            // One at a time in every other round: the others are idle meanwhile.
            let wanted = if round % 2 == 0 { at + 1 } else { 0 };
            let until = Instant::now() + MAX_WAIT;
            while inbox.frames.len() < wanted {
                listener.poll(&mut inbox);
                assert!(Instant::now() < until, "rank {at} is not received in round {round}");
            }
        }
        while inbox.frames.len() < senders.len() {
            assert!(listener.arm().is_none(), "a rank with unread frames must not wait");
            listener.poll(&mut inbox);
        }
        assert!(inbox.frames.drain(..).all(|(_, header, _)| header.context == round));
        (0..2000).for_each(|_| assert!(!listener.poll(&mut inbox)));
        assert!(listener.arm().is_some());
        listener.disarm();
    }
}

#[test]
fn no_space_is_no_error_and_ends() {
    let (_file, mut sender, mut receiver) = pair();
    let frame = sender.caps(peer(1)).frame;
    let sent =
        (0..).take_while(|&tag| post(&mut sender, peer(1), tag, frame) == Post::Sent).count();
    assert!(sent >= 3, "{sent} frames in the ring");
    assert!(sender.arm().is_some(), "there is no space, and nothing to do");
    let mut inbox = Inbox::default();
    while receiver.poll(&mut inbox) {}
    assert_eq!(inbox.frames.len(), sent);
    assert!(sender.arm().is_none(), "there is space again");
    assert_eq!(post(&mut sender, peer(1), 0, frame), Post::Sent);
    assert!(sender.arm().is_some());
}

#[test]
fn a_silent_pair_costs_next_to_nothing_and_an_active_one_a_page() {
    const SIZE: u32 = 64;
    let taken = |file: &OwnedFd| rustix::fs::fstat(file).unwrap().st_blocks as u64 * 512;
    let file = Segment::file().unwrap();
    let mut ranks: Vec<_> =
        (0..SIZE).map(|me| join(&file, me, SIZE, 128 << 10, SETTINGS)).collect();
    let at_first = taken(&file);
    assert!(at_first <= 64 * u64::from(SIZE) * u64::from(SIZE), "{at_first} bytes");
    let mut inbox = Inbox::default();
    for tag in 0..10_000 {
        assert_eq!(post(&mut ranks[1], peer(0), tag, 8), Post::Sent);
        assert!(ranks[0].poll(&mut inbox));
    }
    assert_eq!(taken(&file) - at_first, rustix::param::page_size() as u64);
}

#[test]
fn a_wake_is_not_lost_to_a_thread_that_announces_the_wait_again() {
    let (_file, mut sleeper, waker) = pair();
    assert!(sleeper.arm().is_some() && sleeper.arm().is_some(), "nothing has come");
    waker.wake(peer(0));
    assert!(sleeper.arm().is_none(), "the sleeper is to look at what it was woken for");
    sleeper.disarm();
    assert!(sleeper.arm().is_some());
}

#[test]
fn rings_of_less_than_a_page_have_a_page() {
    let file = Segment::file().unwrap();
    let page = rustix::param::page_size() as u64;
    let [mut first, mut second] = [page / 2, page].map(|bytes| {
        let segment = Segment::attach(file.as_fd(), 0, (bytes == page).into(), 2, bytes, POOL);
        ShmTransport::new(segment.unwrap(), SETTINGS, [0, 1].map(peer).into(), Vec::new())
    });
    let mut inbox = Inbox::default();
    assert_eq!(post(&mut first, peer(1), 5, 100), Post::Sent);
    assert!(second.poll(&mut inbox) && inbox.frames[0].2 == body(5, 100));
}

#[test]
fn ranks_that_disagree_get_an_error() {
    let file = Segment::file().unwrap();
    Segment::attach(file.as_fd(), 0, 0, 2, RING, POOL).unwrap();
    let error = Segment::attach(file.as_fd(), 0, 1, 2, 2 * RING, POOL).unwrap_err();
    assert_eq!(
        error,
        SegmentError::Disagreement { ours: (2, 2 * RING, POOL), theirs: (2, RING, POOL) }
    );
    assert!(Segment::attach(file.as_fd(), 0, 2, 3, RING, POOL).is_err());
    Segment::attach(file.as_fd(), 0, 1, 2, RING, POOL).unwrap();
}

#[test]
fn a_peer_of_another_host_fails() {
    let (_file, mut transport, _) = pair();
    for invalid in [0, 4, 6, 1000, u32::MAX] {
        let posted =
            transport.post(Peer(invalid), &Header::new(Kind::Data), 0, |_| panic!("no slot"));
        assert_eq!(posted.unwrap_err().peer, Peer(invalid));
    }
}

const BITMAP: u64 = 64 + BLOCK + 128;

#[test]
fn a_corrupted_ring_fails_its_peer_alone() {
    // Impossible commit words, then a possible one before an impossible header.
    let mut word = [0xEE; 64];
    word[..8].copy_from_slice(&9u64.to_le_bytes());
    for garbage in [[0xEE; 64], [0x01; 64], [0xFF; 64], word] {
        let (file, mut sender, mut receiver) = pair();
        let mut inbox = Inbox::default();
        assert_eq!(post(&mut sender, peer(1), 0, 8), Post::Sent);
        assert!(receiver.poll(&mut inbox));
        // The ring from rank 0 to rank 1 is the third of four, before the bodies of two ranks.
        let raw = std::fs::File::from(file);
        let ring = raw.metadata().unwrap().len() - 2 * RING - 6 * POOL;
        (0..RING / 64).for_each(|line| raw.write_all_at(&garbage, ring + line * 64).unwrap());
        raw.write_all_at(&[0xEE; 8], ring).unwrap();
        (0..3).for_each(|_| _ = receiver.poll(&mut inbox));
        assert_eq!(inbox.frames.len(), 1, "no frame after the garbage is handed over");
        assert_eq!(inbox.lost.iter().map(|lost| lost.peer).collect::<Vec<_>>(), [peer(0)]);
        // The head is garbage too: the sender finds out when it needs space.
        let header = Header::new(Kind::Data);
        let lost = (0..1000)
            .find_map(|_| sender.post(peer(1), &header, 8, |_| ()).err())
            .expect("an error");
        assert!(lost.why.contains("overwritten memory"), "{lost}");
        assert_eq!(post(&mut receiver, peer(0), 5, 8), Post::Sent, "the other direction is whole");
        assert!(sender.poll(&mut inbox));
    }
}

#[test]
fn corrupted_connect_bits_do_no_harm() {
    let (file, mut sender, mut receiver) = pair();
    let raw = std::fs::File::from(file);
    raw.write_all_at(&[0xFF; 8], CONNECTS).unwrap();
    raw.write_all_at(&[0xFF; 64], BITMAP).unwrap();
    let mut inbox = Inbox::default();
    assert!(!receiver.poll(&mut inbox));
    assert_eq!(post(&mut sender, peer(1), 0, 8), Post::Sent);
    assert!(receiver.poll(&mut inbox));
    assert_eq!((inbox.frames.len(), inbox.lost.len()), (1, 0));
}

// Two processes.

const ROLE: &str = "SHM_TRANSPORT_TEST_CHILD";

struct Process(Child);

impl Process {
    /// Starts this program again, in a role, with this one's memory file.
    fn start(role: &str, file: &OwnedFd) -> Process {
        let program = std::env::current_exe().unwrap();
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        let arguments = ["--exact", "child", "--ignored", "--nocapture"];
        Process(
            Command::new(program)
                .args(arguments)
                .env(ROLE, format!("{role} {path}"))
                .spawn()
                .unwrap(),
        )
    }

    fn end(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "the other process of the tests below"]
fn child() {
    // Run among all ignored tests, this one has nothing to do.
    let Ok(role) = std::env::var(ROLE) else { return };
    let (role, path) = role.split_once(' ').unwrap();
    let file = OwnedFd::from(std::fs::File::options().read(true).write(true).open(path).unwrap());
    let fences = Settings { rare_sleeps: false, ..SETTINGS };
    match role {
        "exchange" => exchange(&file, 1, 3, 2000, SETTINGS),
        "exchange-with-fences" => exchange(&file, 1, 3, 2000, fences),
        "echo" => echo(&file, SETTINGS),
        "echo-with-fences" => echo(&file, fences),
        "own" => own(&file),
        "small-files" => small_files(&file),
        "small-address-space" => small_address_space(&file),
        _ => panic!("unknown role {role}"),
    }
}

#[test]
fn processes_and_threads_exchange_everything() {
    for role in ["exchange", "exchange-with-fences"] {
        let file = &Segment::file().unwrap();
        let other = Process::start(role, file);
        // Each waiter chooses which side fences: all mixtures work.
        std::thread::scope(|scope| {
            scope.spawn(|| exchange(file, 0, 3, 2000, SETTINGS));
            scope.spawn(|| exchange(file, 2, 3, 2000, Settings { rare_sleeps: false, ..SETTINGS }));
        });
        other.end();
    }
}

const ECHOES: u64 = 3000;

fn echo(file: &OwnedFd, settings: Settings) {
    let (mut transport, mut inbox) = (join(file, 1, 2, RING, settings), Inbox::default());
    for tag in 0..ECHOES {
        receive(&mut transport, &mut inbox);
        inbox.frames.clear();
        assert_eq!(post(&mut transport, peer(0), tag, 8), Post::Sent);
    }
}

#[test]
fn processes_that_sleep_for_each_frame_are_woken() {
    for (role, rare_sleeps) in [("echo", true), ("echo", false), ("echo-with-fences", false)] {
        let file = Segment::file().unwrap();
        let other = Process::start(role, &file);
        let mut transport = join(&file, 0, 2, RING, Settings { rare_sleeps, ..SETTINGS });
        let mut inbox = Inbox::default();
        for tag in 0..ECHOES {
            assert_eq!(post(&mut transport, peer(1), tag, 8), Post::Sent);
            receive(&mut transport, &mut inbox);
            inbox.frames.clear();
        }
        other.end();
    }
}

/// Announces some memory, and keeps it until the other side has read it.
fn own(file: &OwnedFd) {
    let (mut transport, mut inbox) = (join(file, 1, 2, RING, SETTINGS), Inbox::default());
    let secret = body(9, 3_000_000);
    let header = Header { context: secret.as_ptr() as u64, ..Header::new(Kind::Rts) };
    assert_eq!(transport.post(peer(0), &header, 0, |_| ()), Ok(Post::Sent));
    receive(&mut transport, &mut inbox);
}

#[test]
fn memory_of_another_process_is_read_until_it_is_gone() {
    let file = Segment::file().unwrap();
    let other = Process::start("own", &file);
    let (mut transport, mut inbox) = (join(&file, 0, 2, RING, SETTINGS), Inbox::default());
    receive(&mut transport, &mut inbox);
    let region = Region { addr: inbox.frames[0].1.context, keys: [0; 4] };
    let (transfer, bytes) = get(&mut transport, &region, 1000, 2_000_000);
    assert_eq!(post(&mut transport, peer(1), 0, 8), Post::Sent);
    other.end();
    if transfer == Transfer::Refused {
        eprintln!("skipped: process_vm_readv is not allowed here");
        return;
    }
    assert_eq!((transfer, &bytes[..]), (Transfer::Done, &body(9, 3_000_000)[1000..2_001_000]));
    assert_eq!(transport.caps(peer(1)).get_min, 1);
    assert_eq!(get(&mut transport, &region, 0, 100).0, Transfer::Refused);
    assert_eq!(transport.caps(peer(1)).get_min, u64::MAX, "the process is gone");
}

/// A limit of file sizes is an error before the kernel sends a signal.
fn small_files(file: &OwnedFd) {
    setrlimit(Resource::Fsize, Rlimit { current: Some(100_000), maximum: Some(100_000) }).unwrap();
    let error = Segment::attach(file.as_fd(), 0, 0, 8, 1 << 20, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("ulimit -f"), "{error}");
}

/// Rings that cannot be mapped fail the peers that they lead to, and no others.
fn small_address_space(file: &OwnedFd) {
    let mut transport = join(file, 0, 8, 16 << 20, SETTINGS);
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').next().unwrap().parse().unwrap();
    let now = pages * rustix::param::page_size() as u64;
    setrlimit(Resource::As, Rlimit { current: Some(now + (40 << 20)), maximum: None }).unwrap();
    let header = Header::new(Kind::Data);
    let lost = (1..8)
        .find_map(|to| transport.post(peer(to), &header, 8, |_| ()).err())
        .expect("no space for eight");
    assert!(lost.why.contains("RLIMIT_AS"), "{lost}");
    assert_eq!(transport.post(peer(1), &header, 8, |_| ()), Ok(Post::Sent), "other peers stay");
}

#[test]
fn limits_of_the_system_are_named() {
    for role in ["small-files", "small-address-space"] {
        Process::start(role, &Segment::file().unwrap()).end();
    }
}
