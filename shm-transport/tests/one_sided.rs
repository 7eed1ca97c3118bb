//! One-sided access: the buffers of rendezvous, user memory and windows.

mod common;

use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, Ordering};

use common::*;
use fabric::{
    Atomic, GetOrPush, Header, HybridGet, Kind, OneSided, Post, Region, Rights, Transfer,
    Transport, UserBuf,
};
use shm_transport::{Segment, Settings, ShmTransport, SingleCopy};

/// Offset of the number that rank 0 publishes for probes.
const NUMBER: u64 = CONNECTS + 16;

#[test]
fn a_peer_outside_mpi_is_read_and_one_inside_pushes() {
    static IN_MPI: [AtomicU32; 2] = [AtomicU32::new(1), AtomicU32::new(1)];
    let file = Segment::file().unwrap();
    let transport = |me| {
        let segment = Segment::attach(file.as_fd(), 0, me, 2, RING, POOL).unwrap();
        ShmTransport::new(segment, SETTINGS, [0, 1].map(peer).into(), IN_MPI.iter().collect())
    };
    let (mut reader, mut owner, mut inbox) = (transport(0), transport(1), Inbox::default());
    let (secret, mut bytes) = (body(1, 5000), vec![0; 5000]);
    // SAFETY: valid for writes as long as it is used.
    let into = unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) };
    let remainder = |reader: &mut ShmTransport| {
        reader.get_remainder(peer(1), &region(&secret), 0, into).unwrap()
    };
    assert_eq!(post(&mut owner, peer(0), 0, 8), Post::Sent);
    let get = reader.get_or_push(peer(1), &region(&secret), into, 0);
    assert_eq!(get, Ok(GetOrPush::Push));
    IN_MPI[1].store(0, Ordering::Relaxed);
    assert_eq!(remainder(&mut reader), Transfer::NoSpace, "the pair is not connected");
    while reader.poll(&mut inbox) {}
    IN_MPI[1].store(1, Ordering::Relaxed);
    assert_eq!(remainder(&mut reader), Transfer::NoSpace, "it is in MPI");
    IN_MPI[1].store(0, Ordering::Relaxed);
    assert_eq!(post(&mut owner, peer(0), 0, 8), Post::Sent);
    assert_eq!(remainder(&mut reader), Transfer::NoSpace, "a frame of its waits");
    while reader.poll(&mut inbox) {}
    assert_eq!(remainder(&mut reader), Transfer::Done);
    assert_eq!(bytes, secret);
    let piece = Header::new(Kind::Data);
    assert_eq!(
        owner.post(peer(0), &piece, 4000, |slot| slot.fill(1)),
        Ok(Post::Sent),
        "the transfer lock is free"
    );
}

#[test]
fn a_receiver_tries_to_read_large_bodies_and_a_sender_lets_it_while_it_is_in_mpi() {
    const LEN: usize = 70_000;
    static IN_MPI: [AtomicU32; 2] = [AtomicU32::new(1), AtomicU32::new(1)];
    let transports = |settings| {
        let file = Segment::file().unwrap();
        [0, 1].map(|me| {
            let segment = Segment::attach(file.as_fd(), 0, me, 2, 16 * RING, POOL).unwrap();
            ShmTransport::new(segment, settings, [0, 1].map(peer).into(), IN_MPI.iter().collect())
        })
    };
    let send = |owner: &mut ShmTransport, reader: &mut ShmTransport| {
        assert_eq!(post(owner, peer(0), 0, LEN), Post::Sent);
        while !reader.poll(&mut Inbox::default()) {}
    };
    let [mut reader, mut owner] = transports(SETTINGS);
    let (secret, mut bytes) = (body(1, LEN), vec![0; LEN]);
    // SAFETY: valid for writes as long as it is used.
    let into = unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) };
    let get =
        |reader: &mut ShmTransport| reader.get_or_push(peer(1), &region(&secret), into, 0).unwrap();
    assert_eq!(get(&mut reader), GetOrPush::Push, "nothing is known yet");
    for _ in 0..4 {
        assert!(!owner.prefers_get(peer(0), LEN as u64));
        send(&mut owner, &mut reader);
    }
    assert!(owner.prefers_get(peer(0), LEN as u64), "a trial has begun");
    assert!(!owner.prefers_get(peer(0), 30_000) && !owner.prefers_get(peer(0), 140_000));
    IN_MPI[0].store(0, Ordering::Relaxed);
    assert!(!owner.prefers_get(peer(0), LEN as u64), "the receiver would not answer soon");
    IN_MPI[0].store(1, Ordering::Relaxed);
    assert_eq!(get(&mut reader), GetOrPush::Get(Transfer::Done));
    assert_eq!(bytes, secret);

    let [mut reader, mut owner] = transports(Settings { rare_sleeps: false, ..SETTINGS });
    (0..40).for_each(|_| send(&mut owner, &mut reader));
    assert!(!owner.prefers_get(peer(0), LEN as u64), "ranks that share a processor do not measure");
}

#[test]
fn user_memory_of_a_window_is_read_and_written_whether_its_owner_is_in_mpi_or_not() {
    static IN_MPI: [AtomicU32; 2] = [AtomicU32::new(1), AtomicU32::new(1)];
    let file = Segment::file().unwrap();
    let transport = |me| {
        let segment = Segment::attach(file.as_fd(), 0, me, 2, RING, POOL).unwrap();
        ShmTransport::new(segment, SETTINGS, [0, 1].map(peer).into(), IN_MPI.iter().collect())
    };
    let (mut origin, mut owner) = (transport(0), transport(1));
    let (mut window, mut data) = (vec![0; 9000], body(3, 700));
    // SAFETY: both are valid as long as they are used.
    let [memory, from] = [&mut window, &mut data]
        .map(|bytes| unsafe { UserBuf::new(bytes.as_mut_ptr(), bytes.len()) });
    let region = owner.register(peer(0), memory, Rights::All).unwrap();
    let put = origin.one_sided(peer(1), &region, 8300, OneSided::Put(from), 0);
    assert_eq!(put, Ok(Transfer::Done));
    assert_eq!(window[8300..], data);
    assert!(window[..8300].iter().all(|&byte| byte == 0));
    assert_eq!(get(&mut origin, &region, 8300, 700), (Transfer::Done, data.clone()));
    let beyond = origin.one_sided(peer(1), &region, 8301, OneSided::Put(from), 0);
    assert_eq!(beyond, Ok(Transfer::Refused), "beyond the window");
    if !origin.has_xpmem() {
        // SAFETY: as for the read.
        let old = unsafe { UserBuf::new(data.as_mut_ptr(), 8) };
        let add = origin.one_sided(peer(1), &region, 0, OneSided::Atomic(Atomic::Add(1), old), 0);
        assert_eq!(add, Ok(Transfer::Refused), "a message to the owner adds");
    }
    let off = Settings { single_copy: SingleCopy::Off, ..SETTINGS };
    let mut owner = join(&Segment::file().unwrap(), 1, 2, RING, off);
    assert!(owner.register(peer(0), memory, Rights::All).is_none());
}

#[test]
fn atomics_of_a_window_need_aligned_words() {
    let (_file, mut origin, mut owner) = pair();
    let range = owner.segment().reserve_window(64).unwrap();
    let memory = owner.map_window(range).unwrap();
    let region = owner.register(peer(0), memory, Rights::All).unwrap();
    let mut old = [0; 8];
    // SAFETY: valid as long as it is used.
    let into = unsafe { UserBuf::new(old.as_mut_ptr(), 8) };
    let mut change = |at, atomic| {
        let change = OneSided::Atomic(atomic, into);
        origin.one_sided(peer(1), &region, at, change, 0).unwrap()
    };
    assert_eq!(change(56, Atomic::Add(5)), Transfer::Done);
    assert_eq!(change(56, Atomic::CompareSwap { expected: 4, new: 9 }), Transfer::Done);
    assert_eq!(change(56, Atomic::CompareSwap { expected: 5, new: 9 }), Transfer::Done);
    assert_eq!(change(52, Atomic::Add(1)), Transfer::Refused, "not aligned");
    assert_eq!(change(64, Atomic::Add(1)), Transfer::Refused, "beyond the window");
    assert_eq!(old, 5_u64.to_ne_bytes());
    memory.read(56, &mut old);
    assert_eq!(old, 9_u64.to_ne_bytes());
}

#[test]
fn atomics_of_ranks_in_threads_lose_nothing() {
    const RANKS: u32 = 3;
    const ROUNDS: u64 = 20_000;
    let file = Segment::file().unwrap();
    let mut owner = join(&file, 0, RANKS, RING, SETTINGS);
    let range = owner.segment().reserve_window(8).unwrap();
    let memory = owner.map_window(range).unwrap();
    std::thread::scope(|scope| {
        for rank in 1..RANKS {
            let region = owner.register(peer(rank), memory, Rights::All).unwrap();
            let mut origin = join(&file, rank, RANKS, RING, SETTINGS);
            scope.spawn(move || {
                let mut old = [0; 8];
                // SAFETY: valid as long as it is used.
                let old = unsafe { UserBuf::new(old.as_mut_ptr(), 8) };
                for _ in 0..ROUNDS {
                    let add = OneSided::Atomic(Atomic::Add(1), old);
                    assert_eq!(origin.one_sided(peer(0), &region, 0, add, 0), Ok(Transfer::Done));
                }
            });
        }
    });
    let mut sum = [0; 8];
    memory.read(0, &mut sum);
    assert_eq!(u64::from_ne_bytes(sum), u64::from(RANKS - 1) * ROUNDS);
}

#[test]
fn xpmem_is_used_if_its_device_exists_and_the_settings_allow_it() {
    let file = Segment::file().unwrap();
    let device = std::fs::File::options().read(true).write(true).open("/dev/xpmem");
    for (single_copy, expected) in
        [(SingleCopy::Auto, device.is_ok()), (SingleCopy::Readv, false), (SingleCopy::Off, false)]
    {
        let transport = join(&file, 0, 2, RING, Settings { single_copy, ..SETTINGS });
        assert_eq!(transport.has_xpmem(), expected, "{single_copy:?}");
    }
}

#[test]
fn a_probe_that_reads_another_number_forbids_single_copies() {
    let secret = body(1, 5000);
    let (file, mut reader, mut owner) = pair();
    assert!(owner.register(peer(0), UserBuf::EMPTY, Rights::Get).is_some());
    // As if the process id meant another process here.
    std::fs::File::from(file).write_all_at(&[0x5A; 8], NUMBER).unwrap();
    assert_eq!(get(&mut reader, &region(&secret), 0, 5000), (Transfer::Refused, vec![0; 5000]));
    assert_eq!(post(&mut reader, peer(1), 0, 8), Post::Sent);
    assert_eq!(reader.caps(peer(1)).get_min, u64::MAX);
    assert!(reader.register(peer(1), UserBuf::EMPTY, Rights::Get).is_none());
}

#[test]
fn bodies_are_not_announced_to_a_receiver_that_cannot_read_them() {
    const LEN: usize = 70_000;
    static IN_MPI: [AtomicU32; 2] = [AtomicU32::new(1), AtomicU32::new(1)];
    let transports = || {
        let file = Segment::file().unwrap();
        let ranks = [0, 1].map(|me| {
            let segment = Segment::attach(file.as_fd(), 0, me, 2, 16 * RING, POOL).unwrap();
            ShmTransport::new(segment, SETTINGS, [0, 1].map(peer).into(), IN_MPI.iter().collect())
        });
        (std::fs::File::from(file), ranks)
    };
    let send = |owner: &mut ShmTransport, reader: &mut ShmTransport| {
        assert_eq!(post(owner, peer(0), 0, LEN), Post::Sent);
        while !reader.poll(&mut Inbox::default()) {}
    };
    let is_announced = |owner: &ShmTransport| owner.prefers_get(peer(0), LEN as u64);

    let (file, [mut reader, mut owner]) = transports();
    file.write_all_at(&[0x5A; 8], NUMBER).unwrap();
    for _ in 0..40 {
        send(&mut owner, &mut reader);
        assert!(!is_announced(&owner), "the probe has failed");
    }

    let (_file, [mut reader, mut owner]) = transports();
    (0..4).for_each(|_| send(&mut owner, &mut reader));
    assert!(is_announced(&owner), "a trial has begun");
    let nowhere = Region { addr: 16, keys: [0; 4] };
    for _ in 0..4 {
        assert!(reader.get_unexpected(peer(1), &nowhere, LEN).is_none());
        send(&mut owner, &mut reader);
    }
    assert!(!is_announced(&owner), "the trial has failed");
}

#[test]
fn missing_memory_is_refused_once() {
    let secret = body(1, 5000);
    let (_file, mut reader, _owner) = pair();
    let nowhere = Region { addr: 16, keys: [0; 4] };
    assert_eq!(get(&mut reader, &nowhere, 0, 100).0, Transfer::Refused);
    assert_eq!(
        get(&mut reader, &region(&secret), 1000, 4000),
        (Transfer::Done, secret[1000..].to_vec())
    );
    assert_eq!(get(&mut reader, &region(&secret), 0, 0).0, Transfer::Done);
}
