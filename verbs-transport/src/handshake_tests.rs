//! Two ends over a network that loses, repeats and reorders datagrams, with queue
//! pairs that are only numbers.

use fabric::sim::Rng;

use super::*;

/// An end with its simulated queue pair.
struct End {
    handshake: Handshake,
    /// The other end's queue pair that ours is connected to; 0 for none.
    connected: u32,
    sends: bool,
}

struct World {
    ends: [End; 2],
    rng: Rng,
    next_queue: u32,
    /// To whom, what.
    mail: Vec<(usize, Heard)>,
}

impl World {
    fn new(seed: u64) -> World {
        let end = || End { handshake: Handshake::new(), connected: 0, sends: false };
        World { ends: [end(), end()], rng: Rng::new(seed), next_queue: 1, mail: Vec::new() }
    }

    fn greeting(&self, of: usize) -> Heard {
        let handshake = &self.ends[of].handshake;
        let Handshake { epoch, ours, theirs, .. } = *handshake;
        Heard { epoch, queue: ours, yours: theirs, wants_answer: handshake.wants_answer() }
    }

    fn act(&mut self, at: usize, actions: Actions, heard: u32) {
        if actions.renew {
            let queue = self.next_queue;
            self.next_queue += 1;
            self.ends[at].handshake.made(queue);
            (self.ends[at].connected, self.ends[at].sends) = (0, false);
        }
        if actions.connect {
            assert_eq!(self.ends[at].connected, 0, "connected twice");
            self.ends[at].connected = heard;
        }
        if actions.start {
            assert!(self.ends[at].connected != 0 && !self.ends[at].sends);
            self.ends[at].sends = true;
        }
        if actions.greet {
            let copies = if self.rng.chance(300) { 0 } else { 1 + u32::from(self.rng.chance(100)) };
            for _ in 0..copies {
                self.mail.push((1 - at, self.greeting(at)));
            }
        }
    }

    fn deliver_one(&mut self) {
        if self.mail.is_empty() {
            return;
        }
        let at = self.rng.below(self.mail.len() as u64) as usize;
        let (to, heard) = self.mail.swap_remove(at);
        if self.rng.chance(50) {
            self.mail.push((to, heard));
        }
        let actions = self.ends[to].handshake.hear(heard);
        self.act(to, actions, heard.queue);
    }

    fn is_connected(&self) -> bool {
        let [a, b] = &self.ends;
        a.sends
            && b.sends
            && a.connected == b.handshake.ours
            && b.connected == a.handshake.ours
            && [a, b].iter().all(|end| end.handshake.phase == Phase::Ready)
    }

    /// Rings and mail until both are connected; both want to be, and notice when the
    /// other's queue pair is not the one they are connected to.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            if self.is_connected() {
                return;
            }
            let at = self.rng.below(2) as usize;
            self.deliver_one();
            let want = self.ends[at].handshake.want();
            self.act(at, want, 0);
            let phase = self.ends[at].handshake.phase;
            if matches!(phase, Phase::Calling | Phase::Confirming) && self.rng.chance(200) {
                self.act(at, Actions { greet: true, ..Actions::default() }, 0);
            }
            let gone = self.ends[at].connected != self.ends[1 - at].handshake.ours;
            if phase == Phase::Ready && gone && self.rng.chance(100) {
                self.ends[at].handshake.broke();
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
                    world.ends[at].handshake.broke();
                }
            }
            world.settle();
        }
    }
}

#[test]
fn one_that_only_answers_is_connected_too() {
    let mut world = World::new(1);
    let want = world.ends[0].handshake.want();
    world.act(0, want, 0);
    for _ in 0..1000 {
        world.deliver_one();
        if matches!(world.ends[0].handshake.phase, Phase::Calling | Phase::Confirming) {
            world.act(0, Actions { greet: true, ..Actions::default() }, 0);
        }
    }
    let [caller, other] = &world.ends;
    assert_eq!(caller.handshake.phase, Phase::Ready);
    assert!(caller.connected == other.handshake.ours && other.connected == caller.handshake.ours);
    // Its first message makes the other one ready if no datagram has.
    let arrived = world.ends[1].handshake.arrived();
    world.act(1, arrived, 0);
    assert!(world.is_connected());
}

#[test]
fn without_loss_a_connection_takes_three_datagrams() {
    let (mut a, mut b) = (Handshake::new(), Handshake::new());
    assert_eq!(a.want(), Actions { renew: true, greet: true, ..Actions::default() });
    a.made(10);
    let call = Heard { epoch: 1, queue: 10, yours: 0, wants_answer: true };
    assert_eq!(b.hear(call), Actions { renew: true, connect: true, start: false, greet: true });
    b.made(20);
    let answer = Heard { epoch: 1, queue: 20, yours: 10, wants_answer: b.wants_answer() };
    assert_eq!(a.hear(answer), Actions { renew: false, connect: true, start: true, greet: true });
    let last = Heard { epoch: 1, queue: 10, yours: 20, wants_answer: a.wants_answer() };
    assert_eq!(b.hear(last), Actions { start: true, ..Actions::default() });
    assert_eq!((a.phase, b.phase), (Phase::Ready, Phase::Ready));
}
