//! The lock, parking and Leader/Followers under loom: two or three threads in all orders of their
//! memory accesses. A lost wake-up is a deadlock, which loom reports.

use loom::model::Builder;
use loom::thread;

use crate::fake::{Fake, lock, settings};
use crate::global_lock::ProcessLock;
use crate::shared::Settings;
use crate::sync::Ordering;

fn in_every_order(preemptions: usize, run: impl Fn() + Send + Sync + 'static) {
    let mut model = Builder::new();
    model.preemption_bound = Some(preemptions);
    model.max_branches = 20_000;
    model.check(run);
}

fn wait_for_messages(lock: &'static ProcessLock<Fake>, messages: u32) {
    lock.block_on(|fake| (fake.received >= messages).then_some(()));
}

fn wait_for_events(lock: &'static ProcessLock<Fake>, events: u32) {
    lock.block_on(|fake| (fake.events >= events).then_some(()));
}

#[test]
fn loom_no_wake_up_is_lost_between_arm_and_park() {
    in_every_order(3, || {
        let (lock, wire) = lock();
        lock.set_multithreaded(false);
        // A lone rank parks without yielding first, which would let the peer finish.
        lock.configure(Settings { local_ranks: 1, ..settings(8) });
        let peer = thread::spawn(|| wire.send());
        wait_for_messages(lock, 1);
        peer.join().unwrap();
    });
}

#[test]
fn loom_a_parked_leader_is_woken_by_a_thread_that_makes_its_predicate_true() {
    in_every_order(3, || {
        let (lock, _) = lock();
        let other = thread::spawn(|| lock.with(|fake| fake.events += 1));
        wait_for_events(lock, 1);
        other.join().unwrap();
    });
}

#[test]
fn loom_only_one_thread_is_inside() {
    in_every_order(3, || {
        let (lock, _) = lock();
        let threads = [(); 2].map(|()| thread::spawn(|| lock.with(|fake| fake.events += 1)));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lock.with(|fake| assert_eq!(fake.events, 2));
    });
}

#[test]
fn loom_leader_and_follower_both_return_on_a_message() {
    in_every_order(2, || {
        let (lock, wire) = lock();
        let other = thread::spawn(|| wait_for_messages(lock, 1));
        let peer = thread::spawn(|| wire.send());
        wait_for_messages(lock, 1);
        other.join().unwrap();
        peer.join().unwrap();
    });
}

#[test]
fn loom_a_follower_takes_over_when_the_leader_returns() {
    in_every_order(2, || {
        let (lock, wire) = lock();
        let other = thread::spawn(|| wait_for_messages(lock, 1));
        let changer = thread::spawn(|| {
            lock.with(|fake| fake.events += 1);
            wire.send();
        });
        wait_for_events(lock, 1);
        other.join().unwrap();
        changer.join().unwrap();
    });
}

#[test]
fn loom_while_oversubscribed_the_slice_moves_to_the_satisfied_follower() {
    in_every_order(2, || {
        let (lock, wire) = lock();
        lock.configure(settings(0));
        lock.shared.threads.store(2, Ordering::Relaxed);
        let other = thread::spawn(|| wait_for_messages(lock, 1));
        let peer = thread::spawn(|| {
            wire.send();
            wire.send();
        });
        wait_for_messages(lock, 2);
        other.join().unwrap();
        peer.join().unwrap();
    });
}
