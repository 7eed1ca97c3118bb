use super::*;
use crate::fake::{Fake, lock, settings};
use crate::global_lock::ProcessLock;

/// Waiters without threads: each call is one that its thread would make.
struct Scene {
    lock: &'static ProcessLock<Fake>,
}

/// Returns a waiter's side; `number` names its thread.
fn me(number: i32) -> Me {
    let (parker, thread) = (Parker::take(state::AWAKE), ThreadId(number));
    Me { parker, thread, is_progress_thread: false }
}

impl Scene {
    fn new() -> Scene {
        Scene { lock: lock().0 }
    }

    /// Three threads of each of two ranks on one processor.
    fn oversubscribed() -> Scene {
        let scene = Scene::new();
        scene.lock.configure(settings(1));
        scene.lock.shared.threads.store(3, Ordering::Relaxed);
        scene
    }

    /// Runs `work` under the lock, and returns what it returns and the wake-ups that are due.
    fn under_lock<R>(&self, work: impl FnOnce(&mut Scheduler<'_, Fake>) -> R) -> (R, Wakes) {
        self.lock.with_scheduler(|scheduler| {
            let result = work(scheduler);
            (result, std::mem::take(&mut scheduler.waiters.wakes))
        })
    }

    /// Registers a waiter for so many events.
    fn enlist(&self, me: &Me, events: u32) -> (Next, Wakes) {
        let predicate: Box<Predicate<'static, Fake>> = Box::new(move |fake| fake.events >= events);
        self.under_lock(|scheduler| scheduler.enlist(me, Box::leak(predicate)))
    }

    /// Parks a follower; returns the rounds that a standby has seen.
    fn park(&self, me: &Me) -> Option<u32> {
        match self.under_lock(|scheduler| scheduler.prepare_follow(me)).0 {
            Rest::Park { standby, .. } => standby,
            Rest::Over(_) => panic!("it does not park"),
        }
    }

    /// Makes so many events happen, and leaves the lock.
    fn events(&self, events: u32) -> Wakes {
        let change = |scheduler: &mut Scheduler<'_, Fake>| {
            scheduler.state.events = events;
            scheduler.run_predicates();
        };
        self.under_lock(change).1
    }

    /// Makes so many events happen in a round of the leader's.
    fn events_in_round(&self, leader: &Me, events: u32) -> (Round<()>, Wakes) {
        self.under_lock(|scheduler| {
            scheduler.state.events = events;
            scheduler.state.wire.send();
            scheduler.lead_round(leader, false)
        })
    }
}

fn state_of(me: &Me) -> u32 {
    me.parker.load(Ordering::Relaxed)
}

#[test]
fn the_first_waiter_leads_and_the_second_stands_by() {
    let scene = Scene::new();
    let [leader, standby, follower] = [1, 2, 3].map(me);
    assert!(matches!(scene.enlist(&leader, 1).0, Next::Lead));
    assert!(matches!(scene.enlist(&standby, 1).0, Next::Follow));
    assert!(matches!(scene.enlist(&follower, 1).0, Next::Follow));
    assert!(scene.park(&standby).is_some());
    assert!(scene.park(&follower).is_none());
}

#[test]
fn a_true_predicate_is_not_listed() {
    let scene = Scene::new();
    assert!(matches!(scene.enlist(&me(1), 0).0, Next::Return));
    assert!(scene.under_lock(|scheduler| scheduler.waiters.waiting.is_empty()).0);
}

#[test]
fn exactly_the_satisfied_followers_wake() {
    let scene = Scene::new();
    let [leader, first, second, third] = [1, 2, 3, 4].map(me);
    scene.enlist(&leader, 9);
    for (follower, events) in [(&first, 1), (&second, 2), (&third, 1)] {
        scene.enlist(follower, events);
        scene.park(follower);
    }
    let wakes = scene.events(1);
    assert!(wakes.leader.is_none() && wakes.next_owner.is_none());
    assert!(
        wakes.parkers == [third.parker, first.parker]
            || wakes.parkers == [first.parker, third.parker]
    );
    let states = [&first, &second, &third].map(state_of);
    assert_eq!(states, [state::SATISFIED, state::PARKED, state::SATISFIED]);
}

#[test]
fn a_standby_that_wakes_leads_if_the_leader_is_outside() {
    let scene = Scene::new();
    let [leader, standby] = [1, 2].map(me);
    scene.enlist(&leader, 1);
    scene.enlist(&standby, 2);
    let rounds = scene.park(&standby).unwrap();
    let (round, _) = scene.events_in_round(&leader, 1);
    assert!(matches!(round, Round::Over(Next::Return)), "the leader is satisfied");
    let next = scene.under_lock(|s| s.standby_woke(&standby, true, rounds)).0;
    assert!(matches!(next, Next::Follow), "a round was made");
    assert!(matches!(scene.under_lock(|s| s.prepare_follow(&standby)).0, Rest::Over(Next::Lead)));
}

#[test]
fn while_oversubscribed_a_standby_leads_once_no_rounds_are_made() {
    let scene = Scene::oversubscribed();
    let [leader, standby] = [1, 2].map(me);
    scene.enlist(&leader, 1);
    scene.enlist(&standby, 2);
    let before = scene.park(&standby).unwrap();
    scene.events_in_round(&leader, 1);
    let woke = |rounds| scene.under_lock(|s| s.standby_woke(&standby, true, rounds)).0;
    assert!(matches!(woke(before), Next::Follow), "a round was made");
    let now = scene.park(&standby).unwrap();
    let early = scene.under_lock(|s| s.standby_woke(&standby, false, now)).0;
    assert!(matches!(early, Next::Follow), "its time is not up");
    assert!(matches!(woke(now), Next::Lead));
}

#[test]
fn a_parked_leader_is_unparked_for_its_predicate_and_for_a_thread_that_is_awake() {
    for is_satisfied in [true, false] {
        let scene = Scene::new();
        let [leader, other] = [1, 2].map(me);
        scene.enlist(&leader, 1);
        assert!(matches!(scene.under_lock(|s| s.lead_round(&leader, false)).0, Round::Idle(_)));
        assert!(matches!(scene.under_lock(|s| s.prepare_park(&leader)).0, Ok(Some(_))));
        assert!(scene.lock.with(|fake| fake.wire.is_armed()));
        if is_satisfied {
            assert!(scene.events(1).leader.is_some());
            let next = scene.under_lock(|s| s.leader_woke(&leader)).0;
            assert!(matches!(next, Some(Next::Return)));
        } else {
            let (next, wakes) = scene.enlist(&other, 1);
            assert!(matches!(next, Next::Lead) && wakes.leader.is_some());
            let parks = scene.under_lock(|s| s.prepare_park(&other)).0;
            assert!(matches!(parks, Ok(None)), "the old leader may still sleep there");
            let next = scene.under_lock(|s| s.leader_woke(&leader)).0;
            assert!(matches!(next, Some(Next::Follow)));
            assert!(matches!(scene.under_lock(|s| s.prepare_park(&other)).0, Ok(Some(_))));
        }
    }
}

#[test]
fn while_oversubscribed_a_satisfied_follower_waits_for_the_slice() {
    let scene = Scene::oversubscribed();
    let [leader, standby, follower] = [1, 2, 3].map(me);
    scene.enlist(&leader, 9);
    for (waiter, events) in [(&standby, 9), (&follower, 1)] {
        scene.enlist(waiter, events);
        scene.park(waiter);
    }
    let (round, wakes) = scene.events_in_round(&leader, 1);
    assert!(matches!(round, Round::Moved) && wakes.parkers.is_empty());
    assert_eq!(state_of(&follower), state::PARKED, "only the leader's predicate runs each round");
    // An idle leader runs the others', and hands over.
    let (parks, wakes) = scene.under_lock(|s| s.prepare_park(&leader));
    assert!(matches!(parks, Err(Next::Follow)));
    assert!(wakes.next_owner.is_some_and(|(parker, _)| parker == follower.parker));
    assert_eq!(state_of(&follower), state::SATISFIED);
    assert!(matches!(scene.under_lock(|s| s.prepare_follow(&leader)).0, Rest::Park { .. }));
}

#[test]
fn a_leader_hands_over_to_the_head_of_the_ready_queue_when_its_slice_ends() {
    let scene = Scene::oversubscribed();
    let [leader, standby, first, second] = [1, 2, 3, 4].map(me);
    scene.enlist(&leader, 9);
    for (waiter, events) in [(&standby, 9), (&first, 1), (&second, 1)] {
        scene.enlist(waiter, events);
        scene.park(waiter);
    }
    scene.events_in_round(&leader, 1);
    scene.lock.shared.slice_micros.store(SLICE_MICROS, Ordering::Relaxed);
    let (round, wakes) = scene.under_lock(|s| s.lead_round(&leader, false));
    assert!(matches!(round, Round::Over(Next::Follow)));
    assert!(wakes.next_owner.is_some_and(|(parker, _)| parker == first.parker));
    assert_eq!([&first, &second].map(state_of), [state::SATISFIED, state::READY]);
    assert_eq!(scene.lock.shared.slice_micros.load(Ordering::Relaxed), 0, "a new slice");
}

#[test]
fn a_standby_releases_ready_threads_of_an_overdue_owner() {
    let scene = Scene::oversubscribed();
    let [owner, standby, ready] = [1, 2, 3].map(me);
    scene.enlist(&owner, 1);
    for (waiter, events) in [(&standby, 9), (&ready, 1)] {
        scene.enlist(waiter, events);
        scene.park(waiter);
    }
    // The owner is satisfied, returns, and only tests from then on: rounds are made, and the
    // others' predicates stale.
    scene.events_in_round(&owner, 1);
    assert_eq!(state_of(&ready), state::PARKED);
    let overdue = SLICE_MICROS + OVERDUE_MICROS;
    scene.lock.shared.slice_micros.store(overdue, Ordering::Relaxed);
    let (next, wakes) = scene.under_lock(|s| s.standby_woke(&standby, true, 0));
    assert!(matches!(next, Next::Follow));
    assert_eq!(state_of(&ready), state::SATISFIED);
    assert!(wakes.parkers.contains(&ready.parker));
}

#[test]
fn the_end_of_an_owner_gives_its_slice_to_a_ready_thread() {
    let scene = Scene::oversubscribed();
    let [owner, standby, ready] = [1, 2, 3].map(me);
    scene.enlist(&owner, 1);
    for (waiter, events) in [(&standby, 9), (&ready, 1)] {
        scene.enlist(waiter, events);
        scene.park(waiter);
    }
    scene.events_in_round(&owner, 1);
    let ((), wakes) = scene.under_lock(|s| s.thread_ended(owner.thread));
    assert!(wakes.next_owner.is_some_and(|(parker, _)| parker == ready.parker));
    assert_eq!(state_of(&ready), state::SATISFIED);
}

#[test]
fn a_thread_that_was_away_for_long_is_released_while_another_leads() {
    let scene = Scene::oversubscribed();
    let [leader, standby, late] = [1, 2, 3].map(me);
    scene.enlist(&leader, 9);
    scene.enlist(&standby, 9);
    scene.park(&standby);
    let long_ago = scene.lock.shared.rounds().wrapping_sub(1 << 20);
    scene.under_lock(|s| s.waiters.absent.left(late.thread, long_ago));
    scene.enlist(&late, 1);
    scene.park(&late);
    scene.events_in_round(&leader, 1);
    let ((), wakes) = scene.under_lock(|s| s.run_pending());
    assert_eq!(state_of(&late), state::SATISFIED);
    assert!(wakes.parkers.contains(&late.parker) && wakes.next_owner.is_none());
}

#[test]
fn the_progress_thread_steps_down_for_a_call() {
    let scene = Scene::new();
    let [progress_thread, waiter] = [1, 2].map(me);
    let progress_thread = Me { is_progress_thread: true, ..progress_thread };
    assert!(matches!(scene.enlist(&progress_thread, 9).0, Next::Follow));
    let rounds = scene.park(&progress_thread).unwrap();
    let next = scene.under_lock(|s| s.standby_woke(&progress_thread, true, rounds)).0;
    assert!(matches!(next, Next::Lead), "no other thread makes progress");
    scene.enlist(&waiter, 9);
    scene.park(&waiter);
    scene.lock.with(|fake| fake.has_call = true);
    let (round, wakes) = scene.under_lock(|s| s.lead_round(&progress_thread, false));
    assert!(matches!(round, Round::Over(Next::Follow)));
    assert!(wakes.parkers.contains(&waiter.parker));
    assert_eq!(state_of(&waiter), state::NOTIFIED);
    assert_eq!(scene.lock.with(|fake| fake.postponed), 1);
    assert!(matches!(scene.under_lock(|s| s.prepare_follow(&waiter)).0, Rest::Over(Next::Lead)));
}

#[test]
fn a_leader_that_runs_a_call_appoints_a_standby() {
    let scene = Scene::new();
    let [leader, follower] = [1, 2].map(me);
    assert!(matches!(scene.enlist(&leader, 9).0, Next::Lead));
    scene.enlist(&follower, 9);
    assert!(scene.under_lock(|s| s.prepare_park(&leader)).0.is_ok_and(|target| target.is_some()));
    assert!(scene.park(&follower).is_none(), "the leader is parked");
    assert!(scene.under_lock(|s| s.leader_woke(&leader)).0.is_none());
    scene.lock.with(|fake| fake.has_call = true);
    let (round, wakes) = scene.under_lock(|s| s.lead_round(&leader, false));
    assert!(matches!(round, Round::Call(())));
    assert!(wakes.parkers.contains(&follower.parker));
    assert!(matches!(scene.under_lock(|s| s.prepare_follow(&follower)).0, Rest::Over(Next::Lead)));
}
