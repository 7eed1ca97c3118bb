//! The words of a lock as a model, in which every order of steps is tried: a writer with the lock
//! in tickets, and readers that are announced where they find no writer.
//!
//! Each rank has a store buffer, whose stores become visible one by one at any later time, in order
//! (x86-64's rule; a processor that reorders more is kept in order by the orderings of `Control`).
//! Atomic instructions and a sleeping rank's own fence empty the rank's buffer; the heavy fence
//! empties all. A light fence does nothing.

use std::collections::HashSet;

/// The words.
const WORDS: usize = 6;
const NEXT: usize = 0;
const READERS_AFTER: usize = 1;
const ENDED: usize = 2;
const USED: usize = 3;
/// Announcements of the ranks, then.
const READS: usize = 4;

const BEGUN: u8 = 1;
const SEEN: u8 = 2;

const RANKS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum At {
    Idle,
    Announced,
    /// The use was begun, but its fence has not run.
    Begun,
    Draw,
    Waits,
    /// About to sleep, and announced as such; the heavy fence has run.
    Fenced,
    Asleep,
    Inside,
    InsideAnnounced,
    /// The end was stored; the waiters are to be looked for.
    Ended,
    EndedAnnounced,
    Over,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rank {
    is_writer: bool,
    at: At,
    ticket: u8,
    /// Locks that are still to be taken.
    left: u8,
    stores: Vec<(usize, u8)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    words: [u8; WORDS],
    ranks: Vec<Rank>,
}

/// What the algorithm leaves out, to see that the model finds it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// A writer begins without the heavy fence.
    NoFence,
    /// A rank sleeps without the heavy fence.
    NoFenceToSleep,
    /// Writers do not look for readers.
    NoLook,
    /// A reader whose announcement comes too late wakes nobody.
    NoWakeAfterRefusal,
}

impl State {
    fn load(&self, rank: usize, word: usize) -> u8 {
        let own = self.ranks[rank].stores.iter().rev().find(|&&(at, _)| at == word);
        own.map_or(self.words[word], |&(_, value)| value)
    }

    fn store(&mut self, rank: usize, word: usize, value: u8) {
        self.ranks[rank].stores.push((word, value));
    }

    fn drain(&mut self, rank: usize) {
        for (word, value) in std::mem::take(&mut self.ranks[rank].stores) {
            self.words[word] = value;
        }
    }

    fn drain_all(&mut self) {
        (0..RANKS).for_each(|rank| self.drain(rank));
    }

    /// Wakes all that sleep or are about to.
    fn wake(&mut self) {
        for rank in &mut self.ranks {
            if matches!(rank.at, At::Fenced | At::Asleep) {
                rank.at = At::Waits;
            }
        }
    }

    fn is_turn(&self, rank: usize, fault: Fault) -> bool {
        let is_free = fault == Fault::NoLook || (0..RANKS).all(|r| self.load(rank, READS + r) == 0);
        let Rank { is_writer, ticket, .. } = self.ranks[rank];
        self.load(rank, ENDED) >= ticket && (!is_writer || is_free)
    }

    /// Takes the next step of a rank; `None` if it has none.
    fn step(&self, rank: usize, fault: Fault) -> Option<State> {
        let mut next = self.clone();
        let Rank { is_writer, at, ticket, left, .. } = self.ranks[rank];
        next.ranks[rank].at = match at {
            At::Idle if left == 0 => At::Over,
            At::Idle if is_writer && self.load(rank, USED) & SEEN == 0 => {
                next.drain(rank);
                next.words[USED] |= BEGUN;
                At::Begun
            }
            At::Idle if is_writer || self.load(rank, USED) & BEGUN != 0 => At::Draw,
            At::Idle => {
                next.store(rank, READS + rank, 1);
                At::Announced
            }
            At::Announced if self.load(rank, USED) & BEGUN == 0 => At::InsideAnnounced,
            At::Announced => {
                next.store(rank, READS + rank, 0);
                if fault != Fault::NoWakeAfterRefusal {
                    next.wake();
                }
                At::Draw
            }
            At::Begun => {
                match fault {
                    Fault::NoFence => next.drain(rank),
                    _ => next.drain_all(),
                }
                next.words[USED] |= SEEN;
                At::Draw
            }
            At::Draw => {
                next.drain(rank);
                let drawn = next.words[NEXT];
                next.ranks[rank].ticket = if is_writer { drawn } else { next.words[READERS_AFTER] };
                next.words[NEXT] += 1;
                if is_writer {
                    next.words[READERS_AFTER] = drawn + 1;
                }
                At::Waits
            }
            At::Waits if self.is_turn(rank, fault) => At::Inside,
            At::Waits => {
                match fault {
                    Fault::NoFenceToSleep => next.drain(rank),
                    _ => next.drain_all(),
                }
                At::Fenced
            }
            At::Fenced if self.is_turn(rank, fault) => At::Inside,
            At::Fenced => At::Asleep,
            At::Inside => {
                if is_writer {
                    next.store(rank, ENDED, self.load(rank, ENDED) + 1);
                } else {
                    next.drain(rank);
                    next.words[ENDED] += 1;
                }
                At::Ended
            }
            At::Ended => {
                let now = self.load(rank, ENDED);
                let waits = match is_writer {
                    // Nobody else ends before this rank has drawn again.
                    true => self.load(rank, NEXT) != ticket + 1,
                    false => self.load(rank, READERS_AFTER) > now,
                };
                if waits {
                    next.wake();
                }
                next.ranks[rank].left -= 1;
                At::Idle
            }
            At::InsideAnnounced => {
                next.store(rank, READS + rank, 0);
                At::EndedAnnounced
            }
            At::EndedAnnounced => {
                if self.load(rank, USED) & BEGUN != 0 {
                    next.wake();
                }
                next.ranks[rank].left -= 1;
                At::Idle
            }
            At::Asleep | At::Over => return None,
        };
        Some(next)
    }

    /// Returns what is wrong, if anything is.
    fn wrong(&self) -> Option<&'static str> {
        let inside = |rank: &&Rank| matches!(rank.at, At::Inside | At::InsideAnnounced);
        let inside: Vec<_> = self.ranks.iter().filter(inside).collect();
        (inside.len() > 1 && inside.iter().any(|rank| rank.is_writer)).then_some("two inside")
    }
}

/// Tries all orders; returns what went wrong in one of them.
fn explore(writers: [bool; RANKS], fault: Fault) -> Option<&'static str> {
    let rank = |&is_writer: &bool| Rank {
        is_writer,
        at: At::Idle,
        ticket: 0,
        left: 2,
        stores: Vec::new(),
    };
    let first = State { words: [0; WORDS], ranks: writers.iter().map(rank).collect() };
    let (mut seen, mut open) = (HashSet::from([first.clone()]), vec![first]);
    while let Some(state) = open.pop() {
        if let Some(wrong) = state.wrong() {
            return Some(wrong);
        }
        let mut nexts: Vec<State> = (0..RANKS).filter_map(|rank| state.step(rank, fault)).collect();
        if nexts.is_empty() && state.ranks.iter().any(|rank| rank.at == At::Asleep) {
            return Some("all sleep");
        }
        for rank in (0..RANKS).filter(|&rank| !state.ranks[rank].stores.is_empty()) {
            let mut next = state.clone();
            let (word, value) = next.ranks[rank].stores.remove(0);
            next.words[word] = value;
            nexts.push(next);
        }
        open.extend(nexts.into_iter().filter(|next| seen.insert(next.clone())));
    }
    None
}

#[test]
fn no_order_of_steps_lets_two_in_or_lets_all_sleep() {
    for writers in [[true, true], [true, false], [false, false]] {
        assert_eq!(explore(writers, Fault::None), None, "{writers:?}");
    }
}

#[test]
fn each_part_is_needed() {
    assert_eq!(explore([true, false], Fault::NoFence), Some("two inside"));
    assert_eq!(explore([true, false], Fault::NoLook), Some("two inside"));
    assert_eq!(explore([true, true], Fault::NoFenceToSleep), Some("all sleep"));
    assert_eq!(explore([true, false], Fault::NoWakeAfterRefusal), Some("all sleep"));
}
