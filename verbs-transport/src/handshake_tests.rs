//! Two ends over a network that loses, repeats and reorders datagrams, with queue
//! pairs that are only numbers. An end may have no space for one.

use fabric::sim::Rng;

use super::*;

/// An end with its simulated queue pair.
struct End {
    handshake: Handshake,
    /// The other end's queue pair that ours is connected to; 0 for none.
    connected: u32,
    sends: bool,
    has_space: bool,
}

/// A message on its way.
#[derive(Clone, Copy)]
enum Mail {
    Connect(Received),
    /// The sender has no space, and has seen this attempt.
    Decline(u32),
}

struct World {
    ends: [End; 2],
    rng: Rng,
    next_qpn: u32,
    /// Destination and message.
    mail: Vec<(usize, Mail)>,
}

impl World {
    fn new(seed: u64) -> World {
        let end =
            || End { handshake: Handshake::new(), connected: 0, sends: false, has_space: true };
        World { ends: [end(), end()], rng: Rng::new(seed), next_qpn: 1, mail: Vec::new() }
    }

    fn message(&self, of: usize) -> Received {
        let handshake = &self.ends[of].handshake;
        let Handshake { epoch, qpn, peer_qpn, .. } = *handshake;
        Received { epoch, qpn, peer_qpn, wants_reply: handshake.wants_reply() }
    }

    fn send(&mut self, from: usize, mail: Mail) {
        let copies = if self.rng.chance(300) { 0 } else { 1 + u32::from(self.rng.chance(100)) };
        (0..copies).for_each(|_| self.mail.push((1 - from, mail)));
    }

    fn act(&mut self, at: usize, actions: Actions, peer_qpn: u32) {
        if actions.create && !self.ends[at].has_space {
            if peer_qpn != 0 {
                self.send(at, Mail::Decline(self.ends[at].handshake.epoch));
            }
            self.ends[at].handshake.reset();
            (self.ends[at].connected, self.ends[at].sends) = (0, false);
            return;
        }
        if actions.create {
            let qpn = self.next_qpn;
            self.next_qpn += 1;
            self.ends[at].handshake.created(qpn);
            (self.ends[at].connected, self.ends[at].sends) = (0, false);
        }
        if actions.move_to_rtr {
            assert_eq!(self.ends[at].connected, 0, "connected twice");
            self.ends[at].connected = peer_qpn;
        }
        if actions.move_to_rts {
            assert!(self.ends[at].connected != 0 && !self.ends[at].sends);
            self.ends[at].sends = true;
        }
        if actions.send {
            self.send(at, Mail::Connect(self.message(at)));
        }
    }

    fn deliver_one(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let at = self.rng.below(self.mail.len() as u64) as usize;
        let (to, mail) = self.mail.swap_remove(at);
        if self.rng.chance(50) {
            self.mail.push((to, mail));
        }
        match mail {
            Mail::Connect(msg) => {
                let actions = self.ends[to].handshake.on_msg(msg);
                self.act(to, actions, msg.qpn);
            }
            Mail::Decline(epoch) => _ = self.ends[to].handshake.on_decline(epoch),
        }
    }

    fn is_connected(&self) -> bool {
        let [a, b] = &self.ends;
        a.sends
            && b.sends
            && a.connected == b.handshake.qpn
            && b.connected == a.handshake.qpn
            && [a, b].iter().all(|end| end.handshake.phase == Phase::Ready)
    }

    /// Sends and delivers until both are connected. Both want to connect, and detect when the
    /// other's queue pair is not the one they are connected to.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            if self.is_connected() {
                return;
            }
            let at = self.rng.below(2) as usize;
            self.deliver_one();
            let actions = self.ends[at].handshake.connect();
            self.act(at, actions, 0);
            let phase = self.ends[at].handshake.phase;
            if matches!(phase, Phase::Requesting | Phase::Confirming) && self.rng.chance(200) {
                self.act(at, Actions { send: true, ..Actions::default() }, 0);
            }
            let gone = self.ends[at].connected != self.ends[1 - at].handshake.qpn;
            if phase == Phase::Ready && gone && self.rng.chance(100) {
                self.ends[at].handshake.reset();
            }
        }
        panic!("never connected: {:?} {:?}", self.ends[0].handshake, self.ends[1].handshake);
    }
}

#[test]
fn both_ends_find_each_other_and_again_after_every_break() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        world.settle();
        for _ in 0..10 {
            for at in 0..2 {
                if world.rng.chance(600) {
                    world.ends[at].handshake.reset();
                }
            }
            world.settle();
        }
    }
}

/// The other end enters MPI late: it finds copies of one request, and has no space.
#[test]
fn an_attempt_that_is_refused_ends_however_many_copies_there_are() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        world.ends[1].has_space = false;
        for round in 0..10 {
            let actions = world.ends[0].handshake.connect();
            world.act(0, actions, 0);
            (0..3).for_each(|_| world.act(0, Actions { send: true, ..Actions::default() }, 0));
            for steps in 0.. {
                world.deliver_one();
                if world.ends[0].handshake.is_idle() {
                    break;
                }
                assert!(steps < 1000, "seed {seed}, round {round}: the attempt does not end");
                if world.mail.is_empty() {
                    world.act(0, Actions { send: true, ..Actions::default() }, 0);
                }
            }
        }
        world.ends[1].has_space = true;
        world.settle();
    }
}

#[test]
fn one_that_only_answers_is_connected_too() {
    let mut world = World::new(1);
    let actions = world.ends[0].handshake.connect();
    world.act(0, actions, 0);
    for _ in 0..1000 {
        world.deliver_one();
        if matches!(world.ends[0].handshake.phase, Phase::Requesting | Phase::Confirming) {
            world.act(0, Actions { send: true, ..Actions::default() }, 0);
        }
    }
    let [caller, other] = &world.ends;
    assert_eq!(caller.handshake.phase, Phase::Ready);
    assert!(caller.connected == other.handshake.qpn && other.connected == caller.handshake.qpn);
    // Its first message makes the other one ready if no datagram has.
    let ready = world.ends[1].handshake.on_data();
    world.act(1, ready, 0);
    assert!(world.is_connected());
}

#[test]
fn without_loss_a_connection_takes_three_datagrams() {
    let (mut a, mut b) = (Handshake::new(), Handshake::new());
    assert_eq!(a.connect(), Actions { create: true, send: true, ..Actions::default() });
    a.created(10);
    let req = Received { epoch: 1, qpn: 10, peer_qpn: 0, wants_reply: true };
    assert_eq!(
        b.on_msg(req),
        Actions { create: true, move_to_rtr: true, move_to_rts: false, send: true }
    );
    b.created(20);
    let rep = Received { epoch: 1, qpn: 20, peer_qpn: 10, wants_reply: b.wants_reply() };
    assert_eq!(
        a.on_msg(rep),
        Actions { create: false, move_to_rtr: true, move_to_rts: true, send: true }
    );
    let last = Received { epoch: 1, qpn: 10, peer_qpn: 20, wants_reply: a.wants_reply() };
    assert_eq!(b.on_msg(last), Actions { move_to_rts: true, ..Actions::default() });
    assert_eq!((a.phase, b.phase), (Phase::Ready, Phase::Ready));
}

#[test]
fn attempts_go_on_after_the_last_number() {
    let last = Received { epoch: u32::MAX, qpn: 10, peer_qpn: 0, wants_reply: true };
    let mut end = Handshake::new();
    // From an end that has seen no attempt yet, that number lies in the past.
    assert_eq!(end.on_msg(last), Actions { create: true, send: true, ..Actions::default() });
    assert_eq!((end.epoch, end.phase), (1, Phase::Requesting));
    // From the number before, it is the next one, and what comes after it is 0.
    let mut end = Handshake { epoch: u32::MAX - 1, ..Handshake::new() };
    assert!(end.on_msg(last).move_to_rtr && end.epoch == u32::MAX);
    end.reset();
    assert!(end.connect().create && end.epoch == 0);
    end.created(20);
    // Now that message is an old copy.
    assert_eq!(end.on_msg(last), Actions { send: true, ..Actions::default() });
    assert!(end.on_msg(Received { epoch: 1, ..last }).move_to_rtr && end.epoch == 1);
    // An idle end with that number answers it with the next one.
    let mut end = Handshake { epoch: u32::MAX, ..Handshake::new() };
    assert!(end.on_msg(last).create && end.epoch == 0);
}

#[test]
fn of_two_attempts_at_most_one_is_later() {
    for (a, b) in
        [(0, 1), (0, u32::MAX), (5, 5 + (1 << 31)), (1 << 31, 0), (7, 9), (1, u32::MAX / 2)]
    {
        assert!(is_later(a, b) != is_later(b, a), "{a} {b}");
        assert!(!is_later(a, a));
    }
}
