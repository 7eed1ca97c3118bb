//! Messages of unknown length: a probe takes them, so that no other thread can.

use mpi::request::{WaitGuard, scope};
use mpi::topology::Process;
use mpi::traits::*;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let before = world.process_at_rank((rank + size - 1) % size);
    assert!(before.immediate_matched_probe_with_tag(99).is_none());
    known_length(rank, &next, &before);
    values(&next, &before);
    any_order(&next, &before);
    at_once(&next, &before);
}

/// The length is known before the message is received.
fn known_length(rank: i32, next: &Process, before: &Process) {
    let sent = vec![rank; rank as usize + 1];
    scope(|scope| {
        let _send = WaitGuard::from(next.immediate_send_with_tag(scope, &sent, 1));
        let (message, status) = before.matched_probe_with_tag(1);
        let count = status.count(i32::equivalent_datatype());
        assert_eq!(count, before.rank() + 1);
        assert!(!message.is_no_proc());
        let mut values = vec![0; count as usize];
        message.matched_receive_into(&mut values);
        assert_eq!(values, vec![before.rank(); count as usize]);
    });
}

fn values(next: &Process, before: &Process) {
    let sent = [0.25_f64; 3];
    scope(|scope| {
        let _send = WaitGuard::from(next.immediate_send(scope, &sent));
        let (values, status) = before.matched_probe().matched_receive_vec::<f64>();
        assert_eq!((values, status.source_rank()), (sent.to_vec(), before.rank()));

        let _send = WaitGuard::from(next.immediate_send(scope, &7_u32));
        let (message, _) = before.matched_probe();
        assert_eq!(message.matched_receive::<u32>().0, 7);
    });
}

/// Messages that were taken are received in any order.
fn any_order(next: &Process, before: &Process) {
    let (sent, mut values) = ([1_u8, 2], [0; 2]);
    let (one, two) = values.split_at_mut(1);
    scope(|scope| {
        let _sends =
            sent.each_ref().map(|value| WaitGuard::from(next.immediate_send(scope, value)));
        let (first, _) = before.matched_probe();
        let (second, _) = before.matched_probe();
        let two = second.immediate_matched_receive_into(scope, two);
        let one = first.immediate_matched_receive_into(scope, one);
        two.wait();
        one.wait();
    });
    assert_eq!(values, sent);
}

/// A message that is there is taken, without a wait if there is none.
fn at_once(next: &Process, before: &Process) {
    scope(|scope| {
        let _send = WaitGuard::from(next.immediate_send_with_tag(scope, &4_u8, 4));
        let (message, _) = loop {
            if let Some(taken) = before.immediate_matched_probe_with_tag(4) {
                break taken;
            }
        };
        assert_eq!(message.matched_receive::<u8>().0, 4);
    });
}
