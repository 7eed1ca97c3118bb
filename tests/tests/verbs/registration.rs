//! Messages from and to memory that is unmapped, moved, emptied and mapped again between them: no
//! byte that arrives, or is left, is of the memory that was at the address before.
//!
//! `VERBENA_TEST_ROUNDS` sets the number of rounds, each a change and two messages.

use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::time::{Duration, Instant};

use config::Registration;
use fabric::sim::Rng;
use fabric::{
    Body, Header, OneSided, Peer, PeerFailed, Rights, Sink, Transfer, Transport, UserBuf,
};
use libc::{MAP_ANONYMOUS, MAP_FIXED, MAP_FIXED_NOREPLACE, MAP_PRIVATE, MAP_SHARED};
use verbs_transport::{Settings, VerbsTransport};

const PAGE: usize = 4096;
/// Pages of a buffer.
const PAGES: usize = 16;
/// The longest message whose other end needs no registration.
const SHORT: usize = 1 << 10;

/// A range of addresses whose memory changes.
struct Pages {
    base: usize,
}

impl Pages {
    fn new() -> Pages {
        Pages { base: map(0, PAGES, MAP_PRIVATE) }
    }

    /// Changes some of the pages and returns how. All are writable afterwards.
    fn change(&self, rng: &mut Rng) -> &'static str {
        let first = rng.below(PAGES as u64) as usize;
        let pages = 1 + rng.below((PAGES - first) as u64) as usize;
        let (at, len) = (self.base + first * PAGE, pages * PAGE);
        let place = with_exposed_provenance_mut(at);
        // SAFETY: the pages belong to this range, no reference to them exists, and no test expects
        // their contents to last.
        unsafe {
            match rng.below(11) {
                0 => {
                    assert_eq!(libc::munmap(place, len), 0);
                    assert_eq!(map(at, pages, MAP_PRIVATE | MAP_FIXED_NOREPLACE), at);
                    "unmapped, mapped"
                }
                1 => {
                    map(at, pages, MAP_PRIVATE | MAP_FIXED);
                    "mapped over"
                }
                2 => {
                    map(at, pages, MAP_SHARED | MAP_FIXED);
                    "shared memory mapped over"
                }
                3 => {
                    assert_eq!(libc::madvise(place, len, libc::MADV_DONTNEED), 0);
                    "MADV_DONTNEED"
                }
                4 => {
                    libc::madvise(place, len, libc::MADV_FREE);
                    "MADV_FREE"
                }
                5 => {
                    map(at, pages, MAP_PRIVATE | MAP_FIXED);
                    let to = with_exposed_provenance_mut(map(0, pages, MAP_PRIVATE));
                    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    assert_eq!(libc::mremap(place, len, len, flags, to), to);
                    map(at, pages, MAP_PRIVATE | MAP_FIXED_NOREPLACE);
                    assert_eq!(libc::munmap(to, len), 0);
                    "moved away by mremap"
                }
                6 => {
                    let from = with_exposed_provenance_mut(map(0, pages, MAP_PRIVATE));
                    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    assert_eq!(libc::mremap(from, len, len, flags, place), place);
                    "moved here by mremap"
                }
                7 => {
                    child(at, len);
                    "fork"
                }
                _ => "nothing",
            }
        }
    }

    /// Returns a random part of the bytes.
    fn part(&self, rng: &mut Rng) -> UserBuf {
        let from = rng.below((PAGES * PAGE - 1) as u64) as usize;
        let len = 1 + rng.below((PAGES * PAGE - from) as u64) as usize;
        // SAFETY: every page is mapped and writable after each `change`.
        unsafe { UserBuf::new(with_exposed_provenance_mut(self.base + from), len) }
    }
}

/// Maps new pages, all of them populated.
fn map(at: usize, pages: usize, flags: i32) -> usize {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let flags = flags | MAP_ANONYMOUS | libc::MAP_POPULATE;
    // SAFETY: the mapping replaces pages of a `Pages` range alone, to which no reference exists.
    let base =
        unsafe { libc::mmap(with_exposed_provenance_mut(at), pages * PAGE, rights, flags, -1, 0) };
    assert_ne!(base, libc::MAP_FAILED);
    base.expose_provenance()
}

/// Forks a child that writes to the pages and unmaps them while its parent goes on.
fn child(at: usize, len: usize) {
    let place: *mut u8 = with_exposed_provenance_mut(at);
    // SAFETY: the child makes system calls alone, which are safe after fork, and writes to its own
    // copy of the pages. The parent's pages are mapped and writable.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            std::ptr::write_bytes(place, 0x55, len);
            libc::munmap(place.cast(), len);
            libc::_exit(0);
        }
        // The parent's next write copies the page, or the child's does.
        std::ptr::write_bytes(place, 0x66, len);
        libc::waitpid(child, null_mut(), 0);
    }
}

#[derive(Default)]
struct Recorder {
    done: u64,
}

impl Sink for Recorder {
    fn frame(&mut self, _: Peer, _: &Header, _: &(impl Body + ?Sized)) {}

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        outcome.expect("a message is read");
        self.done = token;
    }

    fn peer_failed(&mut self, lost: PeerFailed) {
        panic!("{lost}");
    }
}

/// Returns the bytes of message `round`.
fn pattern(round: u64, len: usize) -> Vec<u8> {
    let mut word = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Exchanges messages between two transports. Returns the number of registrations made, and the
/// most that are needed: one of the target of a message, and one of a long message's other end.
fn rounds(seed: u64, rounds: u64, mut ends: [VerbsTransport; 2]) -> [u64; 2] {
    let mut rng = Rng::new(seed);
    let pages = [Pages::new(), Pages::new()];
    let mut recorded = Recorder::default();
    let mut read = vec![0; PAGES * PAGE];
    let mut needed = 0;
    for round in 1..=rounds {
        let changes = [0, 1].map(|at| pages[at].change(&mut rng));
        let (from, into) = (pages[0].part(&mut rng), pages[1].part(&mut rng));
        let len = from.len().min(into.len());
        let (from, into) = (from.slice(0, len), into.slice(0, len));
        let is_read = rng.chance(500);
        // The second message takes the rest.
        for message in [2 * round, 2 * round + 1] {
            needed += 1 + u64::from(len > SHORT);
            let written = pattern(message, len);
            from.write(0, &written);
            into.write(0, &vec![0xaa; len]);
            let (owner, other, memory, rights, what) = match is_read {
                true => (0, 1, from, Rights::Get, OneSided::Get(into)),
                false => (1, 0, into, Rights::Put, OneSided::Put(from)),
            };
            let region = ends[owner]
                .register(Peer(other as u32), memory, rights)
                .expect("memory can be registered");
            let deadline = Instant::now() + Duration::from_secs(60);
            // There is no space until the processes have connected.
            while let Transfer::NoSpace = ends[other]
                .one_sided(Peer(owner as u32), &region, 0, what, message)
                .expect("the peer is there")
            {
                assert!(Instant::now() < deadline, "round {round} of seed {seed} never begins");
                ends.iter_mut().for_each(|end| _ = end.poll(&mut recorded));
            }
            while recorded.done < message {
                assert!(Instant::now() < deadline, "round {round} of seed {seed} hangs");
                ends.iter_mut().for_each(|end| _ = end.poll(&mut recorded));
            }
            ends[owner].release(Peer(other as u32), region);
            into.read(0, &mut read[..len]);
            let wrong = (0..len).find(|&at| read[at] != written[at]);
            assert_eq!(
                wrong, None,
                "seed {seed}, round {round}: {len} bytes after {changes:?}: stale"
            );
        }
    }
    [ends.iter().map(VerbsTransport::registrations_made).sum(), needed]
}

fn run(registration: Registration) {
    let Some(devices) = super::devices() else { return };
    let many = std::env::var("VERBENA_TEST_ROUNDS")
        .ok()
        .and_then(|rounds| rounds.parse().ok())
        .unwrap_or(10_000);
    let seed = super::seed();
    // Few, so that registrations are evicted too.
    let settings = Settings { registration, get_min: 1, registrations: 6, ..super::defaults() };
    let transports =
        <[_; 2]>::try_from(super::transports(&devices, 2, &settings)).ok().expect("two");
    let began = Instant::now();
    let [made, needed] = rounds(seed, many, transports);
    println!("seed {seed}, {many} rounds, {made} registrations, {:?}", began.elapsed());
    match registration {
        Registration::None => assert_eq!(made, needed),
        _ => assert!(made < 3 * many, "too few registrations are reused"),
    }
}

#[test]
fn no_byte_is_stale_where_memory_is_watched() {
    run(Registration::Userfaultfd);
}

#[test]
fn no_byte_is_stale_where_each_message_is_registered() {
    run(Registration::None);
}
