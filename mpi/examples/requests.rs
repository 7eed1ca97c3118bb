//! Operations that run while the program does something else: requests, scopes, guards,
//! collections, and operations that are started again and again.

use mpi::request::{CancelGuard, StaticScope, WaitGuard, multiple_scope, scope, wait_any};
use mpi::topology::{Process, SimpleCommunicator};
use mpi::traits::*;

const COUNT: usize = 20;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let before = world.process_at_rank((rank + size - 1) % size);
    waits_and_tests(&next, &before);
    guards(&world);
    futures(&next, &before);
    any_of_a_vector(&next, &before);
    collections(&next, &before);
    persistent(&world, &next, &before);
}

fn waits_and_tests(next: &Process, before: &Process) {
    let (sent, mut received) = (vec![1.5_f32; COUNT], vec![0.0_f32; COUNT]);
    scope(|scope| {
        let receive = before.immediate_receive_into(scope, &mut received[..]);
        let send = next.immediate_synchronous_send(scope, &sent[..]);
        let status = receive.wait();
        assert_eq!(status.count(f32::equivalent_datatype()) as usize, COUNT);

        let mut open = send;
        while let Err(request) = open.test() {
            open = request;
        }
    });
    assert_eq!(received, sent);

    // What lives for ever needs no scope of its own.
    let request = next.immediate_send_with_tag(StaticScope, &5_i32, 5);
    assert_eq!(before.receive_with_tag::<i32>(5).0, 5);
    assert_eq!(*request.wait_for_data(), 5);
}

fn guards(world: &SimpleCommunicator) {
    let this = world.this_process();
    let mut received = 0_u8;
    scope(|scope| {
        let _receive = WaitGuard::from(this.immediate_receive_into(scope, &mut received));
        let _send: WaitGuard<_, _> = this.immediate_send(scope, &7_u8).into();
    });
    assert_eq!(received, 7);

    // Nothing is sent with this tag: the receive is cancelled.
    scope(|scope| {
        let _receive =
            CancelGuard::from(this.immediate_receive_into_with_tag(scope, &mut received, 99));
    });
    scope(|scope| {
        let request = this.immediate_receive_into_with_tag(scope, &mut received, 99);
        request.cancel();
        assert!(request.wait().is_cancelled());
    });

    // A guard can become a request again, and a request can move to a shorter scope.
    scope(|outer| {
        let receive = WaitGuard::from(this.immediate_receive_into(outer, &mut received));
        scope(|inner| {
            let request: mpi::request::Request<_, _> = receive.into();
            let request = request.shrink_scope_to(inner);
            this.send(&8_u8);
            request.wait_without_status();
        });
    });
    assert_eq!(received, 8);
}

fn futures(next: &Process, before: &Process) {
    let future = before.immediate_receive::<u64>();
    let mut open = match future.r#try() {
        // The rank before can be ahead of this one.
        Ok((value, _)) => {
            assert_eq!(value, 11);
            next.send(&11_u64);
            return;
        }
        Err(future) => future,
    };
    next.send(&11_u64);
    loop {
        match open.r#try() {
            Ok((value, status)) => {
                assert_eq!((value, status.source_rank()), (11, before.rank()));
                break;
            }
            Err(future) => open = future,
        }
    }
}

fn any_of_a_vector(next: &Process, before: &Process) {
    let sent: Vec<i32> = (0..COUNT as i32).collect();
    let mut received = vec![0; COUNT];
    scope(|scope| {
        let mut receives: Vec<_> = received
            .iter_mut()
            .zip(&sent)
            .map(|(value, &tag)| before.immediate_receive_into_with_tag(scope, value, tag))
            .collect();
        for value in sent.iter().rev() {
            next.send_with_tag(value, *value);
        }
        while let Some((index, _)) = wait_any(&mut receives) {
            assert!(index <= receives.len());
        }
    });
    assert_eq!(received, sent);
}

fn collections(next: &Process, before: &Process) {
    let sent: Vec<i32> = (0..COUNT as i32).collect();
    for round in 0..6 {
        let mut received = vec![-1; COUNT];
        multiple_scope(2 * COUNT, |scope, requests| {
            for (value, tag) in received.iter_mut().zip(0..) {
                requests.add(before.immediate_receive_into_with_tag(scope, value, tag));
            }
            for value in &sent {
                requests.add(next.immediate_send_with_tag(scope, value, *value));
            }
            assert_eq!(requests.incomplete(), 2 * COUNT);
            let (mut some, mut seen) = (Vec::new(), 0);
            while requests.incomplete() > 0 {
                match round {
                    0 => some = requests.wait_any().into_iter().collect(),
                    1 => some = requests.test_any().into_iter().collect(),
                    2 => requests.wait_some(&mut some),
                    3 => requests.test_some(&mut some),
                    4 => requests.wait_all(&mut some),
                    _ => assert_eq!(requests.test_all(&mut some), !some.is_empty()),
                }
                seen += some.len();
                for &(index, _, value) in &some {
                    assert_eq!(*value as usize, index % COUNT);
                }
            }
            assert_eq!(seen, 2 * COUNT);
            assert!(requests.wait_any().is_none() && requests.test_any().is_none());
            requests.wait_some(&mut some);
            assert!(some.is_empty());
        });
        assert_eq!(received, sent);
    }
}

/// Each value goes once around the ring.
fn persistent(world: &SimpleCommunicator, next: &Process, before: &Process) {
    let (mut sent, mut received) = ([world.rank(); 4], [0; 4]);
    scope(|scope| {
        let mut send = next.send_init(scope, &mut sent);
        let mut receive = before.receive_init_into(scope, &mut received);
        for step in 1..=world.size() {
            receive.start();
            send.start();
            assert!(receive.is_active());
            while receive.test().is_none() {}
            send.wait();
            let origin = (world.rank() + world.size() - step) % world.size();
            assert_eq!(*receive.data(), [origin; 4]);
            *send.data_mut() = *receive.data();
        }
    });
    assert_eq!(received, [world.rank(); 4]);
}
