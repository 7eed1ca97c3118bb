//! Post / start / complete / wait: epochs of groups of ranks. `steps` has the states of pairs.
//!
//! A call that has to wait is a function that is asked again and again (`poll_...`), as in `sync`.

use fabric::HybridGet;
use objects::Result;

use crate::engine::Engine;
use crate::steps::StepKind;
use crate::window::{Target, Window};
use crate::wire::Step;

impl Window {
    /// Returns whether a rank has made a step that is not taken.
    #[inline]
    pub(crate) fn has_step(&self, rank: u32, kind: StepKind) -> bool {
        self.steps.has(rank, self.remotes[rank as usize].steps.as_ref(), kind)
    }

    /// Returns true if a call waits for steps that are all there.
    pub(crate) fn has_awaited_steps(&self) -> bool {
        self.steps.awaited().any(|kind| {
            let ranks = self.epochs.expected(kind);
            ranks.is_ok_and(|ranks| ranks.iter().all(|&rank| self.has_step(rank, kind)))
        })
    }

    /// Makes a step in the memory of a rank; false if a message has to. The step ends the accesses
    /// to the rank that come before it.
    #[inline]
    fn store_step(&mut self, rank: u32, kind: StepKind) -> bool {
        let has_frames = || self.targets.get(&rank).is_some_and(Target::is_used);
        let may = rank != self.rank && !(self.has_frames && has_frames());
        may && self.steps.store(rank, self.remotes[rank as usize].steps.as_ref(), kind)
    }
}

impl Engine {
    /// Makes a step for another rank.
    fn make_step(&mut self, window: u64, rank: u32, kind: StepKind) -> Result<()> {
        let state = self.window_mut(window)?;
        if state.store_step(rank, kind) {
            let peer = state.peer(rank)?;
            self.wakes.push(peer);
            return self.check_alive(peer);
        }
        let step = match kind {
            StepKind::Post => Step::Post,
            StepKind::Complete => Step::Complete,
        };
        self.send_step(window, rank, step)
    }

    /// Performs MPI_Win_post for the origins of `group`, by their ranks in the window.
    pub fn post<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        group: Vec<u32>,
        nocheck: bool,
    ) -> Result<()> {
        self.window(window)?.epochs.check_post()?;
        let told: &[u32] = if nocheck { &[] } else { &group };
        let made = told.iter().try_for_each(|&rank| self.make_step(window, rank, StepKind::Post));
        self.window_mut(window)?.epochs.post(group);
        self.settle(endpoint);
        made
    }

    /// Begins MPI_Win_start; unless the user knows that the targets have posted,
    /// [`Engine::poll_start`] waits for them.
    pub fn begin_access(&mut self, window: u64, group: Vec<u32>) -> Result<()> {
        self.window_mut(window)?.epochs.start(group)
    }

    /// Returns the outcome of MPI_Win_start once all targets have posted.
    #[inline]
    pub fn poll_start(&mut self, window: u64) -> Option<Result<()>> {
        let outcome = self.take_steps(window, StepKind::Post);
        self.set_awaited(window, StepKind::Post, outcome.is_none());
        let outcome = outcome?;
        if outcome.is_err()
            && let Ok(state) = self.window_mut(window)
        {
            let _ = state.epochs.complete();
        }
        Some(outcome)
    }

    /// Performs MPI_Win_complete if no operation has to end before; false if the other calls have
    /// to: [`Engine::begin_complete`], [`Engine::poll_local`] and [`Engine::complete`].
    pub fn complete_now<T: HybridGet>(&mut self, endpoint: &mut T, window: u64) -> Result<bool> {
        let has_frames = self.window(window)?.has_frames;
        if has_frames { Ok(false) } else { self.complete(endpoint, window).map(|()| true) }
    }

    /// Begins MPI_Win_complete; [`Engine::poll_local`] waits. If accesses are checked, the targets
    /// have compared all of them afterwards.
    pub fn begin_complete<T: HybridGet>(&mut self, endpoint: &mut T, window: u64) -> Result<()> {
        let state = self.window(window)?;
        state.epochs.started()?;
        if state.check.is_some() { self.flush_all(endpoint, window) } else { Ok(()) }
    }

    /// Ends the access epoch of MPI_Win_start; its operations have ended locally.
    pub fn complete<T: HybridGet>(&mut self, endpoint: &mut T, window: u64) -> Result<()> {
        let group = self.window_mut(window)?.epochs.complete()?;
        let make = |done: Result<()>, &rank: &u32| {
            let made = self.make_step(window, rank, StepKind::Complete);
            done.and(made)
        };
        let done = group.iter().fold(Ok(()), make);
        let state = self.window_mut(window)?;
        if state.has_frames {
            for rank in &group {
                if let Some(target) = state.targets.get_mut(rank) {
                    (target.is_dirty, target.unconfirmed) = (false, None);
                }
            }
            state.has_frames = state.has_unfinished();
        }
        self.settle(endpoint);
        done
    }

    /// Returns the outcome of MPI_Win_wait once all origins have ended their access epochs.
    #[inline]
    pub fn poll_wait(&mut self, window: u64) -> Option<Result<()>> {
        let outcome = self.test_exposure(window);
        self.set_awaited(window, StepKind::Complete, outcome.is_none());
        outcome
    }

    /// Returns the outcome of MPI_Win_test once all origins have ended their access epochs.
    pub fn test_exposure(&mut self, window: u64) -> Option<Result<()>> {
        let outcome = self.take_steps(window, StepKind::Complete)?;
        if let Ok(state) = self.window_mut(window) {
            state.epochs.end_exposure();
            if let Some(ledger) = state.ledger() {
                ledger.waited();
            }
        }
        Some(outcome)
    }

    /// Takes a step of each rank that the open epoch needs, once all of them are there.
    fn take_steps(&mut self, window: u64, kind: StepKind) -> Option<Result<()>> {
        let state = match self.window_mut(window) {
            Ok(state) => state,
            Err(error) => return Some(Err(error)),
        };
        let ranks = match state.epochs.expected(kind) {
            Ok(ranks) => ranks,
            Err(error) => return Some(Err(error)),
        };
        if ranks.iter().all(|&rank| state.has_step(rank, kind)) {
            ranks.iter().for_each(|&rank| state.steps.take(rank, kind));
            return Some(Ok(()));
        }
        if self.failed_peers.is_empty() {
            return None;
        }
        let state = self.windows.get(&window)?;
        let missing =
            state.epochs.expected(kind).ok()?.iter().filter(|&&rank| !state.has_step(rank, kind));
        let failure = |&rank: &u32| self.check_alive(state.peer(rank).ok()?).err();
        missing.filter_map(failure).next().map(Err)
    }

    /// Remembers whether a call waits for steps, so that it does not sleep when they are there.
    #[inline]
    fn set_awaited(&mut self, window: u64, kind: StepKind, is_awaited: bool) {
        let Ok(state) = self.window_mut(window) else { return };
        if state.steps.set_awaited(kind, is_awaited) {
            match is_awaited {
                true => self.shared_waits += 1,
                false => self.shared_waits -= 1,
            }
        }
    }
}
