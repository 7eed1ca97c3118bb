//! A model of a collective segment whose members count in one word, with three slot sets. It checks
//! which rank accesses memory at which time: see `fabric::coll_segment`.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use super::Memory;

const SETS: usize = 3;

/// A segment that some ranks share.
#[derive(Clone)]
pub(crate) struct Segment(Rc<RefCell<State>>);

struct State {
    members: u32,
    /// Rounds that are complete.
    completed: u64,
    /// Of each slot set: the ranks that have arrived at each round.
    arrived: [(u64, BTreeSet<u32>); SETS],
    sets: [Memory; SETS],
    /// Rounds that each member has left.
    left: Vec<u64>,
}

impl Segment {
    /// A segment with so many bytes in each slot set.
    #[allow(dead_code, reason = "not all tests have segments")]
    pub(crate) fn new(members: u32, bytes: i64) -> Segment {
        Segment(Rc::new(RefCell::new(State {
            members,
            completed: 0,
            arrived: [0, 1, 2].map(|round| (round, BTreeSet::new())),
            sets: [0xe0, 0xe1, 0xe2].map(|fill| Memory::new(0, bytes, fill)),
            left: vec![0; members as usize],
        })))
    }

    pub(crate) fn is_ready(&self, round: u64, me: u32) -> bool {
        let state = self.0.borrow();
        assert_eq!(state.left[me as usize], round, "rounds are left in order");
        state.completed + 1 >= round
    }

    pub(crate) fn waits_no_more(&self, round: u64, me: u32, from: u32) -> bool {
        self.is_ready(round, me) && self.0.borrow().has_arrived(round, from)
    }

    /// True for the last member.
    pub(crate) fn arrive(&self, round: u64, me: u32) -> bool {
        let mut state = self.0.borrow_mut();
        assert!(state.completed + 1 >= round, "a member arrives whose slot is not free");
        let members = state.members as usize;
        let (at, arrived) = &mut state.arrived[round as usize % SETS];
        if *at != round {
            (*at, *arrived) = (round, BTreeSet::new());
        }
        assert!(arrived.insert(me), "a member arrives twice");
        arrived.len() == members
    }

    pub(crate) fn complete(&self, round: u64) {
        let mut state = self.0.borrow_mut();
        assert_eq!(state.completed, round, "rounds are completed in order");
        state.completed += 1;
    }

    pub(crate) fn is_complete(&self, round: u64) -> bool {
        self.0.borrow().completed > round
    }

    pub(crate) fn leave(&self, round: u64, me: u32) {
        assert!(self.0.borrow().has_arrived(round, me), "a member leaves without arriving");
        self.0.borrow_mut().left[me as usize] = round + 1;
    }

    pub(crate) fn read<R>(&self, round: u64, me: u32, read: impl FnOnce(&Memory) -> R) -> R {
        let state = self.0.borrow();
        // After its arrival a member reads the result, or as the last one all slots.
        let may = !state.has_arrived(round, me)
            || state.completed > round
            || state.arrived[round as usize % SETS].1.len() == state.members as usize;
        assert!(may, "a member reads what may not be written yet");
        read(&state.sets[round as usize % SETS])
    }

    pub(crate) fn write<R>(&self, round: u64, me: u32, write: impl FnOnce(&mut Memory) -> R) -> R {
        let mut state = self.0.borrow_mut();
        assert!(state.completed <= round, "a member writes into a complete round");
        assert!(state.completed + 1 >= round, "a member writes slots that others may read");
        assert!(state.left[me as usize] == round, "a member writes into a round that it is not in");
        write(&mut state.sets[round as usize % SETS])
    }
}

impl State {
    fn has_arrived(&self, round: u64, member: u32) -> bool {
        let (at, arrived) = &self.arrived[round as usize % SETS];
        *at > round || *at == round && arrived.contains(&member)
    }
}
