//! Changes that the kernel reports, and memory that is not watched.

use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use super::*;

const PAGE: usize = 4096;

/// Returns the userfaultfd of this process, for one test at a time: with two of them the mappings
/// of one may be watched for the other. `None`, with a message, where there is none.
fn here() -> Option<(MutexGuard<'static, ()>, &'static Uffd)> {
    static ALONE: Mutex<()> = Mutex::new(());
    match uffd() {
        Ok(uffd) => Some((ALONE.lock().unwrap_or_else(PoisonError::into_inner), uffd)),
        Err(why) => {
            eprintln!("not run: no userfaultfd ({why})");
            None
        }
    }
}

/// Private pages at `at`, or anywhere, every one of them touched.
fn map(at: usize, pages: usize, flags: i32) -> Range<usize> {
    // SAFETY: a new mapping; where `at` is given, over one of the same test.
    let base = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(at),
            pages * PAGE,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    assert_ne!(base, libc::MAP_FAILED);
    let start = base.expose_provenance();
    (0..pages).for_each(|page| poke(start + page * PAGE));
    start..start + pages * PAGE
}

/// Private pages in a mapping of their own, which no neighbour of another test joins.
fn map_apart(pages: usize) -> Range<usize> {
    let flags = libc::MAP_ANONYMOUS | libc::MAP_PRIVATE;
    // SAFETY: a new mapping, and rights for all of it but its ends.
    let range = unsafe {
        let all =
            libc::mmap(std::ptr::null_mut(), (pages + 2) * PAGE, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(all, libc::MAP_FAILED);
        let start = all.byte_add(PAGE);
        assert_eq!(libc::mprotect(start, pages * PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
        start.expose_provenance()..start.expose_provenance() + pages * PAGE
    };
    range.clone().step_by(PAGE).for_each(poke);
    range
}

fn poke(address: usize) {
    // SAFETY: mapped for writing by its test.
    unsafe { std::ptr::with_exposed_provenance_mut::<u8>(address).write_volatile(1) };
}

fn unmap(range: &Range<usize>) {
    let start = std::ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: a mapping of its test, which no longer uses it.
    let unmapped = unsafe { libc::munmap(start, range.len()) };
    assert_eq!(unmapped, 0);
}

fn track(uffd: &'static Uffd, range: &Range<usize>) -> WatchedRange {
    // Other tests map and unmap at any time, also next to it.
    let deadline = Instant::now() + Duration::from_secs(60);
    let keep = || {
        uffd.watch(range).then(|| uffd.settled().and_then(|now| uffd.track(range, now))).flatten()
    };
    loop {
        if let Some(tracked) = keep() {
            return tracked;
        }
        assert!(Instant::now() < deadline, "private memory can't be watched");
    }
}

/// Checks in the way that registrations do.
fn is_valid(uffd: &Uffd, range: &WatchedRange) -> bool {
    let deadline = Instant::now() + Duration::from_secs(60);
    while uffd.settled().is_none() {
        assert!(Instant::now() < deadline, "never settled");
    }
    range.is_valid()
}

#[test]
fn every_change_is_seen_before_the_call_returns() {
    let Some((_alone, uffd)) = here() else { return };
    // Returns whether the pages are mapped afterwards; if not, any thread may get the addresses.
    type Change = (&'static str, fn(Range<usize>) -> bool);
    let changes: [Change; 6] = [
        ("munmap", |part| {
            unmap(&part);
            false
        }),
        ("mmap over it", |part| {
            map(part.start, part.len() / PAGE, libc::MAP_PRIVATE | libc::MAP_FIXED) == part
        }),
        ("mmap of shared memory over it", |part| {
            map(part.start, part.len() / PAGE, libc::MAP_SHARED | libc::MAP_FIXED) == part
        }),
        ("MADV_DONTNEED", |part| advise(part, libc::MADV_DONTNEED)),
        ("MADV_FREE", |part| advise(part, libc::MADV_FREE)),
        ("mremap", |part| {
            let start = std::ptr::with_exposed_provenance_mut(part.start);
            // SAFETY: a mapping of this test, which no longer uses it.
            let moved =
                unsafe { libc::mremap(start, part.len(), 4 * part.len(), libc::MREMAP_MAYMOVE) };
            assert!(moved != libc::MAP_FAILED && moved != start);
            false
        }),
    ];
    for (what, change) in changes {
        for (from, to) in [(0, 8), (0, 1), (7, 8), (3, 5)] {
            // The next page is mapped, so that mremap must move the part.
            let all = map(0, 9, libc::MAP_PRIVATE);
            let range = all.start..all.end - PAGE;
            let part = range.start + from * PAGE..range.start + to * PAGE;
            let tracked = track(uffd, &range);
            assert!(is_valid(uffd, &tracked));
            let is_kept = change(part.clone());
            assert!(!is_valid(uffd, &tracked), "{what} of pages {from} to {to} is not seen");
            [all.start..part.start, part.end..all.end]
                .iter()
                .filter(|rest| !rest.is_empty())
                .for_each(unmap);
            if is_kept {
                unmap(&part);
            }
        }
    }
}

fn advise(part: Range<usize>, advice: i32) -> bool {
    let start = std::ptr::with_exposed_provenance_mut(part.start);
    // SAFETY: private memory of a test that no longer looks at it.
    let answer = unsafe { libc::madvise(start, part.len(), advice) };
    assert_eq!(answer, 0);
    true
}

#[test]
fn kept_pages_are_valid() {
    let Some((_alone, uffd)) = here() else { return };
    let range = map(0, 8, libc::MAP_PRIVATE);
    let around = [range.start - PAGE..range.start, range.end..range.end + PAGE];
    let tracked = track(uffd, &range);
    for neighbour in around {
        let neighbour = map(neighbour.start, 1, libc::MAP_PRIVATE);
        drop(track(uffd, &neighbour));
        unmap(&neighbour);
    }
    (range.start..range.end).step_by(PAGE).for_each(poke);
    assert!(is_valid(uffd, &tracked));
    // A child takes nothing away from its parent, and is not watched itself.
    // SAFETY: the child makes two calls of the system and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        unmap(&range);
        // SAFETY: ends the child.
        unsafe { libc::_exit(0) };
    }
    let mut status = 1;
    // SAFETY: a child of this test.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    (range.start..range.end).step_by(PAGE).for_each(poke);
    assert!(is_valid(uffd, &tracked));
    drop(tracked);
    unmap(&range);
}

#[test]
fn what_changes_without_a_report_is_not_watched() {
    let Some((_alone, uffd)) = here() else { return };
    let private = map(0, 4, libc::MAP_PRIVATE);
    let shared = map(0, 4, libc::MAP_SHARED);
    // A private mapping of an object that others may truncate.
    // SAFETY: a name and flags; a new mapping of the descriptor.
    let object = unsafe {
        let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
        assert!(fd >= 0 && libc::ftruncate(fd, 4 * PAGE as i64) == 0);
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        libc::mmap(std::ptr::null_mut(), 4 * PAGE, rights, libc::MAP_PRIVATE, fd, 0)
            .expose_provenance()
    };
    (0..4).for_each(|page| poke(object + page * PAGE));
    drop(track(uffd, &private));
    assert!(!uffd.watch(&shared));
    assert!(!uffd.watch(&(object..object + 4 * PAGE)));
    // Memory that another userfaultfd watches.
    let theirs = Uffd::open().expect("a second one");
    let range = map_apart(4);
    assert!(theirs.watch(&range));
    assert!(!uffd.watch(&range));
}

#[test]
fn while_a_change_is_under_way_nothing_is_settled() {
    let Some((_alone, _)) = here() else { return };
    // Only this test reads its reports.
    let uffd: &'static Uffd = Box::leak(Box::new(Uffd::open().expect("a second one")));
    let range = map_apart(8);
    assert!(uffd.watch(&range));
    let before = uffd.settled().expect("nothing is under way");
    let tracked = uffd.track(&range, before).expect("nothing has changed");
    let part = range.start..range.start + PAGE;
    let unmapping = std::thread::spawn(move || unmap(&part));
    let deadline = Instant::now() + Duration::from_secs(60);
    while uffd.settled().is_some() {
        assert!(Instant::now() < deadline, "a change is not seen");
        std::thread::yield_now();
    }
    // The pages may be gone by now and the address in use again, which no report has shown yet.
    assert!(tracked.is_valid() && !unmapping.is_finished());
    assert!(uffd.track(&range, before).is_none());
    while !unmapping.is_finished() {
        uffd.read_reports();
    }
    unmapping.join().expect("unmapped");
    assert!(uffd.settled().is_some_and(|now| now != before));
    assert!(!tracked.is_valid());
    assert!(uffd.track(&range, before).is_none(), "what was made before a change is kept after it");
}

#[test]
fn threads_that_map_and_unmap_never_find_a_stale_range() {
    let Some((_alone, uffd)) = here() else { return };
    // Each maps where the kernel likes, which is where another has just unmapped. The contents of a
    // page and the tracked state must agree.
    let worker = |thread: usize| {
        let mut stale: Vec<(Range<usize>, WatchedRange)> = Vec::new();
        for round in 0..300 {
            let range = map(0, 1 + (round + thread) % 3, libc::MAP_PRIVATE);
            if uffd.settled().is_some() {
                for (old, tracked) in &stale {
                    let overlaps = old.start < range.end && range.start < old.end;
                    assert!(!overlaps || !tracked.is_valid(), "thread {thread}, round {round}");
                }
            }
            if uffd.watch(&range)
                && let Some(tracked) = uffd.settled().and_then(|now| uffd.track(&range, now))
            {
                stale.push((range.clone(), tracked));
            }
            if stale.len() > 20 {
                stale.remove(0);
            }
            unmap(&range);
        }
    };
    std::thread::scope(|scope| (0..4).for_each(|thread| _ = scope.spawn(move || worker(thread))));
}

#[test]
fn mappings_are_read_from_the_systems_text() {
    let maps = "1000-3000 rw-p 00000000 00:00 0 \n3000-5000 r--p 00000000 00:00 0      [heap]\n\
                5000-6000 rw-p 00000000 08:01 77         /usr/bin/x\n7000-8000 rw-s 00000000 00:00 0\n";
    assert_eq!(
        private_mappings(maps, &(0x1800..0x2000)),
        private_mappings(maps, &(0x1000..0x3000))
    );
    assert_eq!(private_mappings(maps, &(0x2000..0x4000)), [0x1000..0x3000, 0x3000..0x5000]);
    for none in [0..0x1800, 0x4000..0x5800, 0x7000..0x7800, 0x6000..0x6800, 0x8000..0x9000] {
        assert!(private_mappings(maps, &none).is_empty(), "{none:?}");
    }
}
