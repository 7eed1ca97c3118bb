//! How two processes whose devices share a fabric agree on verbs or TCP, before any other frame.
//!
//! The lower rank *decides*, once and for all; the other follows. Either begins with Ask over
//! verbs. An Ask is answered on the path that it came by.
//!
//! | stage | event | next |
//! |---|---|---|
//! | Silent | the decider gets Answer over verbs: sends UseVerbs | decided |
//! | Silent | [`Patience::silence`] is over: Ask over TCP | Asked |
//! | Silent | the decider is asked over TCP: it asks both ways | Asked |
//! | Asked | the decider gets Answer over TCP: the peer is awake | Awake |
//! | Awake | [`Patience::grace`] is over, and nothing is left to receive: sends UseTcp | decided |
//! | any | verbs has failed at either side: the decider sends UseTcp, the other Ask over TCP | |
//! | any | UseVerbs or UseTcp arrives at the other side | decided |
//!
//! Invariants: while a peer computes, neither path answers, and nothing is decided. The decider's
//! first frame by a path is UseVerbs or UseTcp, therefore both sides change to the same path and
//! no frame is ever sent twice. It opens no device and reads no clock.

use std::time::{Duration, Instant};

/// The path of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    Verbs,
    Tcp,
}

/// What a frame says; the numbers are those of its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Step {
    /// The receiver must answer. With a body: verbs has failed at the sender, for this reason.
    Ask = 1,
    /// The answer, with the same body.
    Answer = 2,
    /// The decision.
    UseVerbs = 3,
    /// The decision.
    UseTcp = 4,
}

impl Step {
    pub(super) fn from_wire(flags: u8) -> Option<Step> {
        [Step::Ask, Step::Answer, Step::UseVerbs, Step::UseTcp]
            .into_iter()
            .find(|step| *step as u8 == flags)
    }
}

/// How long silence is borne.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Time without an answer over verbs after which TCP is tried.
    pub silence: Duration,
    /// Time for the answer over verbs after the one over TCP. Verbs sends a lost packet again
    /// within half a second.
    pub grace: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { silence: Duration::from_secs(2), grace: Duration::from_millis(1500) }
    }
}

impl Patience {
    /// Returns that with further peers, once verbs has not reached one.
    pub(super) fn after_fallback(self) -> Patience {
        Patience { silence: self.silence / 8, grace: self.grace / 2 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was asked over TCP.
    Silent,
    /// Asked over TCP.
    Asked,
    /// The peer has answered over TCP at this time.
    Awake(Instant),
    Decided(Via),
}

/// The agreement with one peer.
#[derive(Debug)]
pub(super) struct Contact {
    decides: bool,
    patience: Patience,
    /// Since when this process wants to reach the peer.
    since: Option<Instant>,
    stage: Stage,
    /// Why verbs cannot be used.
    pub(super) broken: Option<String>,
    /// Steps that must be sent.
    pub(super) outbox: Vec<(Via, Step)>,
}

impl Contact {
    pub(super) fn new(decides: bool, patience: Patience) -> Contact {
        let outbox = Vec::new();
        Contact { decides, patience, since: None, stage: Stage::Silent, broken: None, outbox }
    }

    /// Takes the wish to reach the peer.
    pub(super) fn want(&mut self, now: Instant) {
        if self.since.is_none() {
            self.since = Some(now);
            if self.broken.is_none() {
                self.outbox.push((Via::Verbs, Step::Ask));
            }
            self.advance(now, false);
        }
    }

    /// Takes a step of the peer, with the reason if verbs has failed there.
    pub(super) fn received(&mut self, via: Via, step: Step, reason: Option<&str>, now: Instant) {
        if let Some(reason) = reason {
            self.broken.get_or_insert_with(|| reason.to_owned());
        }
        match (step, self.decides) {
            (Step::Ask, decides) => {
                self.outbox.push((via, Step::Answer));
                if decides {
                    self.want(now);
                    self.ask_by_tcp(via);
                }
            }
            (Step::Answer, true) if via == Via::Verbs => self.decide(Via::Verbs),
            (Step::Answer, true) if self.stage == Stage::Asked => self.stage = Stage::Awake(now),
            (Step::UseVerbs, false) => self.stage = Stage::Decided(Via::Verbs),
            (Step::UseTcp, false) => self.stage = Stage::Decided(Via::Tcp),
            // Only the other side decides.
            _ => {}
        }
        self.advance(now, false);
    }

    /// Takes the failure of verbs towards the peer.
    pub(super) fn verbs_failed(&mut self, why: String, now: Instant) {
        self.broken.get_or_insert(why);
        self.outbox.retain(|(via, _)| *via == Via::Tcp);
        self.advance(now, false);
    }

    /// Does what time requires. `is_quiet`: nothing was left to receive over verbs.
    pub(super) fn advance(&mut self, now: Instant, is_quiet: bool) {
        let Some(since) = self.since else { return };
        let is_broken = self.broken.is_some();
        match self.stage {
            Stage::Decided(_) => {}
            _ if is_broken && self.decides => self.decide(Via::Tcp),
            Stage::Silent if is_broken || now >= since + self.patience.silence => {
                self.ask_by_tcp(Via::Tcp);
            }
            Stage::Awake(at) if is_quiet && now >= at + self.patience.grace => {
                let seconds = (now - since).as_secs();
                let why = format!(
                    "it answers over TCP, and nothing has arrived from it over RDMA for {seconds} s"
                );
                self.broken = Some(why);
                self.decide(Via::Tcp);
            }
            _ => {}
        }
    }

    /// Returns when [`Contact::advance`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self.stage {
            Stage::Silent => Some(self.since? + self.patience.silence),
            Stage::Awake(at) => Some(at + self.patience.grace),
            Stage::Asked | Stage::Decided(_) => None,
        }
    }

    /// Returns the decision.
    pub(super) fn decision(&self) -> Option<Via> {
        match self.stage {
            Stage::Decided(via) => Some(via),
            _ => None,
        }
    }

    fn ask_by_tcp(&mut self, via: Via) {
        if via == Via::Tcp && self.stage == Stage::Silent {
            self.stage = Stage::Asked;
            self.outbox.push((Via::Tcp, Step::Ask));
        }
    }

    fn decide(&mut self, via: Via) {
        if matches!(self.stage, Stage::Decided(_)) {
            return;
        }
        self.stage = Stage::Decided(via);
        let step = if via == Via::Verbs { Step::UseVerbs } else { Step::UseTcp };
        self.outbox.push((via, step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Delivers steps between a decider and a follower at one moment, until nothing is under way.
    fn exchange(pair: &mut [Contact; 2], works: [bool; 2], now: Instant) {
        while pair.iter().any(|contact| !contact.outbox.is_empty()) {
            for from in 0..2 {
                let reason = pair[from].broken.clone();
                for (via, step) in std::mem::take(&mut pair[from].outbox) {
                    if via == Via::Tcp || works[from] {
                        pair[1 - from].received(via, step, reason.as_deref(), now);
                    }
                }
            }
        }
    }

    fn pair() -> [Contact; 2] {
        [true, false].map(|decides| Contact::new(decides, Patience::default()))
    }

    /// Runs until both have decided, a tenth of a second at a time; returns the decisions.
    fn run(pair: &mut [Contact; 2], works: [bool; 2]) -> [Option<Via>; 2] {
        let mut now = Instant::now();
        for _ in 0..100 {
            exchange(pair, works, now);
            now += Duration::from_millis(100);
            pair.iter_mut().for_each(|contact| contact.advance(now, true));
        }
        pair.each_ref().map(Contact::decision)
    }

    #[test]
    fn both_sides_decide_alike_whoever_begins_and_whatever_is_lost() {
        for beginners in [&[0][..], &[1], &[0, 1]] {
            for works in [[true, true], [true, false], [false, true], [false, false]] {
                let mut pair = pair();
                beginners.iter().for_each(|&at: &usize| pair[at].want(Instant::now()));
                let via = if works == [true, true] { Via::Verbs } else { Via::Tcp };
                assert_eq!(run(&mut pair, works), [Some(via); 2], "{beginners:?} {works:?}");
            }
        }
    }

    #[test]
    fn a_failed_device_is_not_waited_for() {
        for (failed, beginner) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let (mut pair, now) = (pair(), Instant::now());
            pair[beginner].want(now);
            pair[failed].verbs_failed("its cable is out".into(), now);
            let works = [failed != 0, failed != 1];
            if failed == beginner {
                exchange(&mut pair, works, now);
                assert_eq!(pair[0].decision(), Some(Via::Tcp), "{failed} at once");
                assert_eq!(pair[0].broken.as_deref(), Some("its cable is out"));
            }
            assert_eq!(run(&mut pair, works), [Some(Via::Tcp); 2], "{failed} {beginner}");
        }
    }

    #[test]
    fn a_peer_that_computes_is_waited_for() {
        let [mut decider, mut follower] = pair();
        let begin = Instant::now();
        decider.want(begin);
        let hour = begin + Duration::from_secs(3600);
        decider.advance(hour, true);
        assert_eq!(decider.outbox, [(Via::Verbs, Step::Ask), (Via::Tcp, Step::Ask)]);
        assert_eq!((decider.decision(), decider.deadline()), (None, None));
        // The peer finds both at once, and its answer over TCP comes first.
        decider.outbox.clear();
        follower.received(Via::Tcp, Step::Ask, None, hour);
        follower.received(Via::Verbs, Step::Ask, None, hour);
        assert_eq!(follower.outbox, [(Via::Tcp, Step::Answer), (Via::Verbs, Step::Answer)]);
        decider.received(Via::Tcp, Step::Answer, None, hour);
        decider.advance(hour + Duration::from_millis(1400), true);
        decider.advance(hour + Duration::from_secs(9), false);
        decider.received(Via::Verbs, Step::Answer, None, hour);
        assert_eq!(decider.decision(), Some(Via::Verbs));
        follower.received(Via::Verbs, Step::UseVerbs, None, hour);
        assert_eq!(follower.decision(), Some(Via::Verbs));
    }

    #[test]
    fn a_follower_cannot_decide() {
        let [mut decider, mut follower] = pair();
        let now = Instant::now();
        for step in [Step::UseTcp, Step::UseVerbs] {
            decider.received(Via::Tcp, step, None, now);
        }
        follower.received(Via::Verbs, Step::Answer, None, now);
        assert_eq!((decider.decision(), follower.decision()), (None, None));
        assert_eq!((1..=4).filter_map(Step::from_wire).count(), 4);
        assert_eq!((Step::from_wire(0), Step::from_wire(5)), (None, None));
    }
}
