use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use crate::fake::{Fake, lock, settings};
use crate::global_lock::ProcessLock;
use crate::sync::Ordering;

/// Far more than a wake-up takes, and less than the time after which sleepers look by themselves.
const SOON: Duration = Duration::from_millis(1500);

fn until(is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "it never was so");
        thread::yield_now();
    }
}

fn wait_for_messages(lock: &'static ProcessLock<Fake>, messages: u32) {
    lock.block_on(|fake| (fake.received >= messages).then_some(()));
}

#[test]
fn a_lone_thread_parks_until_a_message_arrives() {
    let (lock, wire) = lock();
    lock.set_multithreaded(false);
    for messages in 1..200 {
        let waiter = thread::spawn(move || wait_for_messages(lock, messages));
        until(|| wire.is_armed());
        let sent = Instant::now();
        wire.send();
        waiter.join().unwrap();
        assert!(sent.elapsed() < SOON, "message {messages} woke nothing");
    }
}

#[test]
fn a_parked_leader_returns_when_another_thread_makes_its_predicate_true() {
    let (lock, wire) = lock();
    for events in 1..200 {
        let waiter = thread::spawn(move || lock.block_on(|f| (f.events >= events).then_some(())));
        until(|| wire.is_armed());
        let changed = Instant::now();
        lock.with(|fake| fake.events += 1);
        waiter.join().unwrap();
        assert!(changed.elapsed() < SOON, "event {events} woke nothing");
        assert!(!wire.is_armed(), "the transport stays armed");
    }
}

#[test]
fn predicates_run_between_two_reports_of_a_wait() {
    for multithreaded in [false, true] {
        let (lock, wire) = lock();
        let max_sleep = crate::waiter::REPORT_AFTER / 2;
        lock.configure(crate::Settings { max_sleep, ..settings(8) });
        lock.set_multithreaded(multithreaded);
        let waiter = thread::spawn(move || {
            let (mut reports, mut looks, mut is_old) = (0, 0, false);
            lock.block_on(|fake| {
                is_old |= fake.reports > reports + 1;
                looks += u32::from(fake.reports > reports);
                reports = fake.reports;
                (fake.received > 0).then_some(())
            });
            (looks, is_old)
        });
        thread::sleep(8 * crate::waiter::REPORT_AFTER);
        wire.send();
        let (looks, is_old) = waiter.join().unwrap();
        assert!(looks > 3 && !is_old, "multithreaded: {multithreaded}, {looks} looks");
    }
}

#[test]
fn a_leader_that_reports_its_wait_sleeps_on() {
    let (lock, wire) = lock();
    lock.with(|fake| fake.has_more = true);
    let waiter = thread::spawn(move || wait_for_messages(lock, 1));
    thread::sleep(3 * crate::waiter::REPORT_AFTER);
    let before = lock.shared.rounds();
    thread::sleep(3 * crate::waiter::REPORT_AFTER);
    let made = lock.shared.rounds() - before;
    wire.send();
    waiter.join().unwrap();
    assert!(made < 10, "{made} rounds of progress while nothing happened");
}

#[test]
fn the_leader_serves_followers_and_a_follower_leads_after_it() {
    for processors in [8, 1] {
        let (lock, wire) = lock();
        lock.configure(settings(processors));
        static RETURNED: AtomicU32 = AtomicU32::new(0);
        RETURNED.store(0, SeqCst);
        let threads = [1, 2, 3, 3].map(|messages| {
            thread::spawn(move || {
                wait_for_messages(lock, messages);
                RETURNED.fetch_add(1, SeqCst);
            })
        });
        until(|| lock.shared.threads.load(Ordering::Relaxed) == 4);
        for returned in [1, 2, 4] {
            wire.send();
            until(|| RETURNED.load(SeqCst) == returned);
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        until(|| lock.shared.threads.load(Ordering::Relaxed) == 0);
    }
}

#[test]
fn messages_are_received_while_the_owner_of_progress_stays_outside() {
    for processors in [8, 1] {
        let (lock, wire) = lock();
        lock.configure(settings(processors));
        wire.send();
        // It leads, has its message, and does not come back.
        let owner = thread::spawn(move || {
            wait_for_messages(lock, 1);
            thread::park();
        });
        until(|| lock.shared.rounds() > 0);
        let waiter = thread::spawn(move || wait_for_messages(lock, 2));
        wire.send();
        waiter.join().unwrap();
        owner.thread().unpark();
        owner.join().unwrap();
    }
}

#[test]
fn the_progress_thread_polls_while_the_application_computes() {
    let (lock, wire) = lock();
    lock.start_progress_thread().unwrap();
    lock.set_multithreaded(false);
    assert!(lock.is_multithreaded(), "the progress thread needs the mutex");
    for messages in 1..50 {
        wire.send();
        until(|| lock.with(|fake| fake.received) == messages);
    }
    // A call waits for a thread of the application.
    lock.with(|fake| fake.has_call = true);
    wire.send();
    until(|| lock.with(|fake| fake.postponed) == 1);
    assert_eq!(lock.with(|fake| fake.resumed), 0);
}

#[test]
fn calls_run_outside_the_lock() {
    let (lock, _) = lock();
    for multithreaded in [false, true] {
        lock.set_multithreaded(multithreaded);
        lock.with(|fake| (fake.has_call, fake.resumed) = (true, 0));
        lock.block_on(|fake| (fake.resumed == 1).then_some(()));
    }
}

#[test]
fn many_threads_wait_at_once_and_none_is_forgotten() {
    for processors in [64, 1] {
        let (lock, wire) = lock();
        lock.configure(settings(processors));
        let threads: Vec<_> = (1..=6)
            .map(|_| {
                thread::spawn(move || {
                    for events in 1..=100 {
                        lock.block_on(|fake| (fake.events >= events).then_some(()));
                    }
                })
            })
            .collect();
        for _ in 0..100 {
            lock.with(|fake| fake.events += 1);
            wire.send();
            thread::yield_now();
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}
