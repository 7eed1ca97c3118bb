//! Blocking sends and receives around a ring, in all modes.

#![allow(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};

use mpi::datatype::UserDatatype;
use mpi::point_to_point as p2p;
use mpi::request::{StaticScope, WaitGuard, scope};
use mpi::topology::{Process, SimpleCommunicator};
use mpi::traits::*;

fn main() {
    let mut universe = mpi::initialize().unwrap();
    universe.set_buffer_size(1 << 20);
    let world = universe.world();
    let ring = Ring::of(&world);
    values(&ring);
    vectors(&ring);
    modes(&world, &ring);
    at_once(&ring);
    any_source(&world);
    if cfg!(panic = "unwind") {
        wrong_lengths(&world);
    }
}

/// The neighbours of this rank.
struct Ring<'a> {
    rank: i32,
    next: Process<'a>,
    before: Process<'a>,
}

impl<'a> Ring<'a> {
    fn of(world: &'a SimpleCommunicator) -> Ring<'a> {
        let (rank, size) = (world.rank(), world.size());
        Ring {
            rank,
            next: world.process_at_rank((rank + 1) % size),
            before: world.process_at_rank((rank + size - 1) % size),
        }
    }

    /// Sends a buffer to the next rank while `receive` runs. A blocking send could wait for a
    /// receive of the next rank, which waits for that of its next one, and so on.
    fn sending<B, R>(&self, buffer: &B, tag: i32, receive: impl FnOnce() -> R) -> R
    where
        B: Buffer + ?Sized,
    {
        scope(|scope| {
            let _send = WaitGuard::from(self.next.immediate_send_with_tag(scope, buffer, tag));
            receive()
        })
    }
}

fn values(ring: &Ring) {
    let (value, status) = ring.sending(&ring.rank, 0, || ring.before.receive::<i32>());
    assert_eq!((value, status.source_rank(), status.tag()), (ring.before.rank(), value, 0));

    // The tags decide which message is received, and not the order.
    ring.sending(&1_u8, 10, || {
        ring.sending(&2_u8, 20, || assert_eq!(ring.before.receive_with_tag::<u8>(20).0, 2));
        let (value, status) = ring.before.receive::<u8>();
        assert_eq!((value, status.tag()), (1, 10));
    });
}

fn vectors(ring: &Ring) {
    let before = &ring.before;
    let sent: Vec<u64> = (0..100).map(|index| index * ring.rank as u64).collect();
    ring.sending(&sent[..], 0, || {
        let status = before.probe();
        assert_eq!(status.count(u64::equivalent_datatype()), 100);
        assert_eq!(status.large_count(u32::equivalent_datatype()), 200);
        let (received, _) = before.receive_vec::<u64>();
        assert_eq!((received.len(), received[99]), (100, 99 * before.rank() as u64));
    });

    ring.sending::<[u8], _>(&[], 0, || assert!(before.receive_vec::<u8>().0.is_empty()));
    ring.sending::<[u8], _>(&[], 0, || before.receive_into::<[u8]>(&mut []));

    // A message may be shorter than the buffer.
    let mut received = vec![false; 5];
    let status = ring.sending(&[true; 3], 0, || before.receive_into(&mut received));
    assert_eq!(status.count(bool::equivalent_datatype()), 3);
    assert_eq!(received, [true, true, true, false, false]);
}

fn modes(world: &SimpleCommunicator, ring: &Ring) {
    ring.next.buffered_send(&1_i8);
    ring.next.buffered_send_with_tag(&2_i8, 2);
    assert_eq!(ring.before.receive_with_tag::<i8>(2).0, 2);
    assert_eq!(ring.before.receive::<i8>().0, 1);

    let mut value = 0_i16;
    scope(|scope| {
        let receive = ring.before.immediate_receive_into_with_tag(scope, &mut value, 3);
        ring.next.synchronous_send_with_tag(&3_i16, 3);
        receive.wait();
    });
    assert_eq!(value, 3);

    scope(|scope| {
        let receive = world.this_process().immediate_receive_into(scope, &mut value);
        // SAFETY: the receive of this process has started.
        unsafe { world.this_process().ready_send(&4_i16) };
        receive.wait();
    });
    assert_eq!(value, 4);
}

fn at_once(ring: &Ring) {
    let (before, _): (i32, _) = p2p::send_receive(&ring.rank, &ring.next, &ring.before);
    assert_eq!(before, ring.before.rank());
    let (tagged, status): (f64, _) =
        p2p::send_receive_with_tags(&0.5_f64, &ring.next, 9, &ring.before, 9);
    assert_eq!((tagged, status.tag()), (0.5, 9));

    let mut buffer = [ring.rank; 3];
    p2p::send_receive_replace_into(&mut buffer, &ring.next, &ring.before);
    assert_eq!(buffer, [ring.before.rank(); 3]);
}

fn any_source(world: &SimpleCommunicator) {
    if world.rank() == 0 {
        let mut sum = 0;
        for _ in 1..world.size() {
            let (value, status) = world.any_process().receive_with_tag::<i32>(77);
            assert_eq!(value, status.source_rank());
            sum += value;
        }
        assert_eq!(sum, (1..world.size()).sum());
    } else {
        world.process_at_rank(0).send_with_tag(&world.rank(), 77);
    }
}

/// A receive of values never returns any that the message did not bring.
fn wrong_lengths(world: &SimpleCommunicator) {
    let this = world.this_process();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let text = |receive: &mut dyn FnMut()| -> String {
        let panic = catch_unwind(AssertUnwindSafe(receive)).expect_err("the receive must panic");
        *panic.downcast::<String>().expect("the panic has a text")
    };

    let send = |values: &'static [i32]| this.immediate_send(StaticScope, values);
    let request = send(&[]);
    assert!(text(&mut || _ = this.receive::<i32>()).contains("has 0"));
    request.wait();
    let request = send(&[1]);
    assert!(text(&mut || _ = this.receive::<Pair>()).contains("a part of one"));
    request.wait();
    std::panic::set_hook(hook);
}

/// Two numbers.
#[derive(Debug)]
struct Pair(#[allow(dead_code, reason = "no pair arrives")] [i32; 2]);

// SAFETY: the datatype is two numbers in a row, as the type is.
unsafe impl Equivalence for Pair {
    type Out = UserDatatype;

    fn equivalent_datatype() -> UserDatatype {
        UserDatatype::contiguous(2, &i32::equivalent_datatype())
    }
}
