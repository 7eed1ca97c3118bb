//! The steps of each rank. Ranks have most rounds and their local steps in common, those with the
//! same number in their hosts for example: each list is kept once. Their messages are one list.

use std::hash::Hash;
use std::ops::Range;
use std::rc::Rc;

use collectives::schedule::Round;
use collectives::{Local, Message, Schedule};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::time::Time;

/// The schedule of one rank.
pub(crate) struct Steps {
    /// Where its messages begin.
    messages: usize,
    pub(crate) rounds: Rc<[Round]>,
    /// See [`Schedule::main_rounds`].
    pub(crate) main_rounds: u32,
    /// The number of each round's list of local steps.
    locals: Rc<[u32]>,
    /// See [`Schedule::window`].
    pub(crate) window: u32,
}

impl Steps {
    /// The numbers of the first message and the first local step of a round.
    pub(crate) fn start_of(&self, round: u32) -> (u32, u32) {
        Round::start(&self.rounds, round as usize)
    }
}

/// What schedules have in common.
#[derive(Default)]
pub(crate) struct Library {
    /// Of all ranks.
    messages: Vec<Message>,
    /// The local steps of a round, by their numbers.
    locals: Vec<Rc<[Local]>>,
    /// The time of the steps before each one of them, and of all.
    costs: Vec<Box<[Time]>>,
    numbers: FxHashMap<Rc<[Local]>, u32>,
    lists: FxHashSet<Rc<[u32]>>,
    rounds: FxHashSet<Rc<[Round]>>,
    /// Bytes of the largest schedule.
    pub(crate) schedule_bytes: usize,
    /// The most scratch memory of a schedule.
    pub(crate) temp_bytes: u64,
}

impl Library {
    /// Keeps the steps of a rank; `cost` is the time of a local step.
    pub(crate) fn steps(&mut self, schedule: &Schedule, cost: impl Fn(&Local) -> Time) -> Steps {
        let (messages, locals) = (schedule.messages(), schedule.locals());
        let rounds = schedule.rounds();
        let bytes = size_of_val(messages) + size_of_val(locals) + size_of_val(rounds);
        self.schedule_bytes = self.schedule_bytes.max(bytes);
        self.temp_bytes = self.temp_bytes.max(schedule.temp());
        let first = self.messages.len();
        self.messages.extend_from_slice(messages);
        let mut start = 0;
        let numbers: Vec<u32> = rounds
            .iter()
            .map(|round| {
                let begun = std::mem::replace(&mut start, round.locals as usize);
                self.number(&locals[begun..start], &cost)
            })
            .collect();
        Steps {
            messages: first,
            rounds: shared(&mut self.rounds, rounds),
            locals: shared(&mut self.lists, &numbers),
            main_rounds: schedule.main_rounds() as u32,
            window: schedule.window(),
        }
    }

    /// A message, by its number in all of the schedule.
    pub(crate) fn message(&self, steps: &Steps, index: u32) -> Message {
        self.messages[steps.messages + index as usize]
    }

    /// A local step of a round, by its number in all of the schedule.
    pub(crate) fn local(&self, steps: &Steps, round: u32, index: u32) -> Local {
        let (_, begun) = steps.start_of(round);
        let number = steps.locals[round as usize];
        self.locals[number as usize][(index - begun) as usize]
    }

    /// Returns the time of local steps of a round, which are numbered as in [`Library::local`].
    pub(crate) fn cost(&self, steps: &Steps, round: u32, which: Range<u32>) -> Time {
        let (_, begun) = steps.start_of(round);
        let costs = &self.costs[steps.locals[round as usize] as usize];
        let until = |index: u32| costs[(index - begun) as usize];
        Time(until(which.end).0 - until(which.start).0)
    }

    fn number(&mut self, locals: &[Local], cost: &impl Fn(&Local) -> Time) -> u32 {
        if let Some(number) = self.numbers.get(locals) {
            return *number;
        }
        let (new, number): (Rc<[Local]>, _) = (locals.into(), self.locals.len() as u32);
        self.locals.push(new.clone());
        let mut sum = Time::ZERO;
        let sums = locals.iter().map(|local| {
            sum += cost(local);
            sum
        });
        self.costs.push(std::iter::once(Time::ZERO).chain(sums).collect());
        self.numbers.insert(new, number);
        number
    }
}

/// The list among those known that equals `list`.
fn shared<T: Clone + Eq + Hash>(known: &mut FxHashSet<Rc<[T]>>, list: &[T]) -> Rc<[T]> {
    if let Some(equal) = known.get(list) {
        return equal.clone();
    }
    let new: Rc<[T]> = list.into();
    known.insert(new.clone());
    new
}
