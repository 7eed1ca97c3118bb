//! Synchronisation: locks, flushes, fences, and the frames of all synchronisation.
//!
//! A call that has to wait is a function that is asked again and again (`poll_...`); it returns
//! `None` until it has ended. Frames of one pair stay in order. Therefore a target that handles a
//! flush, an unlock or the end of an access epoch has done all operations before it.
//!
//! Locks: a rank draws a ticket in the target's record, or sends a request that the target grants.
//! An unlock by message is acknowledged like a flush. An unlock in memory follows a flush.

use fabric::{Header, HybridGet, Peer, Region};
use objects::{Class, Error, Result};

use crate::control::Use;
use crate::engine::Engine;
use crate::epoch::Hold;
use crate::outgoing::Item;
use crate::records::TakenBy;
use crate::steps::StepKind;
use crate::target::Refusal;
use crate::window::{LockBy, LockState, Target, Window};
use crate::wire::Step;

impl Engine {
    /// Queues a step for another rank, or does it here if it is for this one.
    pub(crate) fn send_step(&mut self, window: u64, rank: u32, step: Step) -> Result<()> {
        let state = self.window(window)?;
        let (me, peer) = (state.rank, state.peer(rank)?);
        if rank == me {
            self.step(window, me, step);
            return Ok(());
        }
        self.check_alive(peer)?;
        self.outgoing.push(peer, Item::Frame(step.header(window, me), Box::default()));
        Ok(())
    }

    /// Sends a step that the other rank acknowledges. One that has failed never would.
    pub(crate) fn send_acknowledged(&mut self, window: u64, rank: u32, step: Step) -> Result<()> {
        self.check_alive(self.window(window)?.peer(rank)?)?;
        self.window_mut(window)?.target(rank).unacked += 1;
        self.send_step(window, rank, step)
    }

    /// Takes a step of another rank.
    pub(crate) fn step_arrived(&mut self, from: Peer, header: &Header, body: &[u8]) {
        let Some(step) = Step::from_wire(header.collective as u8) else { return };
        let window = self.windows.get(&header.context);
        if window.and_then(|window| window.peers.peer_of(header.source)) != Some(from) {
            return;
        }
        match step {
            Step::Describe => self.outgoing.push(from, Item::Description(header.context)),
            Step::Described => self.described(header.context, header.source, Region::decode(body)),
            Step::Announce => self.announced(header, body),
            Step::Offer => self.offer_arrived(header.context, header.source, header.length),
            Step::Refused => self.refusal_arrived(header),
            step => self.step(header.context, header.source, step),
        }
    }

    fn step(&mut self, id: u64, rank: u32, step: Step) {
        let Some(window) = self.windows.get_mut(&id) else { return };
        match step {
            Step::LockShared | Step::LockExclusive => {
                window.locks.request(rank, step == Step::LockExclusive);
                self.grant_locks(id);
            }
            Step::Granted => {
                let target = window.target(rank);
                if target.lock == LockState::Requested {
                    target.lock = LockState::Held;
                }
            }
            Step::Unlock => {
                window.end_passive(rank, false);
                window.locks.remove(rank);
                self.acknowledge(id, rank);
                self.grant_locks(id);
            }
            Step::Flush | Step::FlushLocal => {
                window.end_passive(rank, step == Step::FlushLocal);
                self.acknowledge(id, rank);
            }
            Step::Ack => {
                let target = window.target(rank);
                target.unacked = target.unacked.saturating_sub(1);
            }
            Step::Post => window.steps.arrived(rank, StepKind::Post),
            Step::Complete => window.steps.arrived(rank, StepKind::Complete),
            // Of other ranks alone; see `step_arrived`.
            Step::Describe | Step::Described | Step::Announce | Step::Offer | Step::Refused => {}
        }
    }

    fn refusal_arrived(&mut self, header: &Header) {
        let Some(window) = self.windows.get_mut(&header.context) else { return };
        let error = Refusal::from_wire(header.root).error(header.source);
        (window.refused, window.has_frames) = (Some(error), true);
    }

    fn acknowledge(&mut self, window: u64, rank: u32) {
        // A peer that has failed needs no answer.
        let _ = self.send_step(window, rank, Step::Ack);
    }

    /// Grants this rank's lock to those whose turn it is.
    pub(crate) fn grant_locks(&mut self, id: u64) {
        while let Some(rank) = self.windows.get_mut(&id).and_then(|window| window.locks.grant()) {
            let _ = self.send_step(id, rank, Step::Granted);
        }
    }

    /// Begins MPI_Win_lock; [`Engine::poll_lock`] waits for it.
    pub fn lock<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        target: u32,
        exclusive: bool,
        nocheck: bool,
    ) -> Result<()> {
        let hold = Hold { exclusive, nocheck, taken: None };
        let state = self.window_mut(window)?;
        state.peer(target)?;
        state.epochs.lock(target, hold)?;
        let requested = self.request_lock(endpoint, window, target, hold);
        requested.inspect_err(|_| self.withdraw_lock(endpoint, window, Some(target)))
    }

    /// Begins MPI_Win_lock_all; [`Engine::poll_lock_all`] waits for it.
    pub fn lock_all<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        nocheck: bool,
    ) -> Result<()> {
        let hold = Hold { exclusive: false, nocheck, taken: None };
        let state = self.window_mut(window)?;
        state.epochs.lock_all(hold)?;
        let size = state.size();
        let requested =
            (0..size).try_for_each(|target| self.request_lock(endpoint, window, target, hold));
        requested.inspect_err(|_| self.withdraw_lock(endpoint, window, None))
    }

    /// Ends the epoch of a lock (`None`: of all locks) that cannot be had, and returns what it has
    /// of it.
    #[cold]
    pub fn withdraw_lock<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        target: Option<u32>,
    ) {
        // The caller has the error of the lock.
        let _ = match target {
            Some(target) => self.unlock(endpoint, window, target),
            None => self.unlock_all(endpoint, window),
        };
        let _ = self.end_passive(window, target);
    }

    fn request_lock<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        target: u32,
        hold: Hold,
    ) -> Result<()> {
        let state = self.window_mut(window)?;
        let lock = match (hold.nocheck, state.remotes[target as usize].control) {
            (true, _) => LockState::Held,
            (_, Some(control)) if state.lock_by == LockBy::Memory => {
                if hold.exclusive {
                    state.begin_use(Use::Writers);
                }
                LockState::Ticket(control.draw(hold.exclusive))
            }
            _ => LockState::Requested,
        };
        state.target(target).lock = lock;
        if let LockState::Ticket(_) = lock {
            self.shared_waits += 1;
        }
        if lock == LockState::Requested {
            let step = if hold.exclusive { Step::LockExclusive } else { Step::LockShared };
            self.send_step(window, target, step)?;
            self.settle(endpoint);
        }
        Ok(())
    }

    /// Returns the outcome of MPI_Win_lock once the lock is held.
    pub fn poll_lock(&mut self, window: u64, target: u32) -> Option<Result<()>> {
        let state = match self.windows.get_mut(&window) {
            Some(state) => state,
            None => return Some(Err(Error::internal("a window vanished"))),
        };
        let hold = state.epochs.held(target).or_else(|_| state.epochs.held_all());
        let hold = match hold {
            Ok(hold) => hold,
            Err(error) => return Some(Err(error)),
        };
        match state.target(target).lock {
            LockState::Held => Some(Ok(())),
            LockState::Ticket(ticket) => self.take_turn(window, target, ticket, hold),
            LockState::None | LockState::Requested => {
                let peer = state.peer(target);
                peer.and_then(|peer| self.check_alive(peer)).err().map(Err)
            }
        }
    }

    fn take_turn(
        &mut self,
        window: u64,
        target: u32,
        ticket: u32,
        hold: Hold,
    ) -> Option<Result<()>> {
        let state = self.windows.get_mut(&window)?;
        let control = state.remotes[target as usize].control?;
        if !state.is_turn(target, ticket, hold.exclusive) {
            let holder = state.holder(target);
            return self.lock_failure(window, target, holder).map(Err);
        }
        control.begin(state.rank);
        state.target(target).lock = LockState::Held;
        self.shared_waits -= 1;
        Some(Ok(()))
    }

    /// Returns the error of a lock in shared memory that may never be returned, since a rank of the
    /// window has failed.
    fn lock_failure(&self, window: u64, target: u32, holder: Option<u32>) -> Option<Error> {
        let window = self.windows.get(&window).filter(|_| !self.failed_peers.is_empty())?;
        let mut failed = self.failed_peers.iter();
        let (rank, failed) =
            failed.find_map(|failed| Some((window.peers.rank_of(failed.peer)?, failed)))?;
        let has = if holder == Some(rank) { "holds" } else { "may hold or wait for" };
        let text = format!("rank {rank} {has} the lock of rank {target}, and has failed: {failed}");
        Some(Error::new(Class::ProcAborted, text))
    }

    /// Remembers that waiters of a lock may go on.
    #[cold]
    pub(crate) fn wake_all(&mut self, window: u64) {
        if let Some(window) = self.windows.get(&window) {
            let me = window.peers.peer_of(window.rank);
            self.wakes.extend(window.peers.iter().filter(|&peer| Some(peer) != me));
        }
    }

    /// Returns the outcome of MPI_Win_lock_all once all locks are held.
    pub fn poll_lock_all(&mut self, window: u64) -> Option<Result<()>> {
        let size = self.windows.get(&window).map_or(0, Window::size);
        for target in 0..size {
            if let Err(error) = self.poll_lock(window, target)? {
                return Some(Err(error));
            }
        }
        Some(Ok(()))
    }

    /// Returns how many changes of shared memory this process waits for: locks and steps.
    #[inline]
    pub fn shared_waits(&self) -> u32 {
        self.shared_waits
    }

    /// Returns true if a lock that this process waits for in shared memory is its own now, or the
    /// steps that it waits for are there; takes nothing.
    pub fn has_turn(&self) -> bool {
        let is_due = |window: &Window, rank: u32, ticket: u32| {
            let hold = window.epochs.held(rank).or_else(|_| window.epochs.held_all());
            hold.is_ok_and(|hold| window.is_turn(rank, ticket, hold.exclusive))
        };
        self.windows.values().any(|window| {
            // A rank that returns the lock either has stored that, or finds the ticket.
            window.fences.heavy();
            let has_lock = window.targets.iter().any(|(&rank, target)| match target.lock {
                LockState::Ticket(ticket) => is_due(window, rank, ticket),
                _ => false,
            });
            has_lock || window.has_awaited_steps()
        })
    }

    /// Takes the locks in shared memory that are this process's turn; true if there were any, or if
    /// steps are there that a call waits for.
    #[cold]
    pub fn take_turns(&mut self) -> bool {
        let waits = |window: &Window| {
            let targets = window.targets.iter();
            let waiting = targets.filter(|(_, target)| matches!(target.lock, LockState::Ticket(_)));
            waiting.map(|(&rank, _)| (window.id, rank)).collect::<Vec<_>>()
        };
        let waiting: Vec<_> = self.windows.values().flat_map(waits).collect();
        let has_steps = self.windows.values().any(Window::has_awaited_steps);
        waiting.into_iter().fold(has_steps, |took, (window, target)| {
            self.poll_lock(window, target).is_some() | took
        })
    }

    /// Begins to complete all operations at a target, so that [`Engine::poll_flush`] can wait.
    pub fn flush<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        target: u32,
    ) -> Result<()> {
        let state = self.window_mut(window)?;
        let Some(used) = state.targets.get_mut(&target) else { return Ok(()) };
        if std::mem::take(&mut used.is_dirty) {
            used.unconfirmed = None;
            self.send_acknowledged(window, target, Step::Flush)?;
        } else if used.unconfirmed.is_some() {
            self.confirm(window, target)?;
        } else {
            return Ok(());
        }
        self.settle(endpoint);
        Ok(())
    }

    /// Begins to complete all operations at all targets.
    pub fn flush_all<T: HybridGet>(&mut self, endpoint: &mut T, window: u64) -> Result<()> {
        let state = self.window(window)?;
        if !state.has_frames {
            return Ok(());
        }
        let used: Vec<u32> = state.targets.keys().copied().collect();
        used.into_iter().try_for_each(|target| self.flush(endpoint, window, target))
    }

    /// Returns the outcome of a flush of `target` (`None`: of all) once it has ended.
    pub fn poll_flush(&mut self, window: u64, target: Option<u32>) -> Option<Result<()>> {
        self.order_stores();
        if let Err(error) = self.confirm_ended(window, target) {
            return Some(Err(error));
        }
        let is_done = |it: &Target| it.active == 0 && it.unacked == 0 && it.unconfirmed.is_none();
        self.poll_targets(window, target, is_done)
    }

    /// Returns the outcome of a local flush once the local memory of all operations is free and,
    /// if accesses are checked, the target knows it.
    pub fn poll_local(&mut self, window: u64, target: Option<u32>) -> Option<Result<()>> {
        let is_checked = self.windows.get(&window).is_some_and(|state| state.check.is_some());
        self.poll_targets(window, target, |target| {
            target.active == 0 && !(is_checked && target.unacked > 0)
        })
    }

    fn poll_targets(
        &mut self,
        window: u64,
        target: Option<u32>,
        is_done: impl Fn(&Target) -> bool,
    ) -> Option<Result<()>> {
        let state = match self.window_mut(window) {
            Ok(state) => state,
            Err(error) => return Some(Err(error)),
        };
        let is_over = match target {
            Some(rank) => state.targets.get(&rank).is_none_or(is_done),
            None => state.targets.values().all(is_done),
        };
        if !is_over {
            return None;
        }
        let lost = match target {
            Some(rank) => state.targets.get_mut(&rank).and_then(|target| target.lost.take()),
            None => state.targets.values_mut().find_map(|target| target.lost.take()),
        };
        let lost = lost.or_else(|| state.refused.take());
        state.has_frames = state.has_unfinished();
        Some(lost.map_or(Ok(()), Err))
    }

    /// Returns the lock of MPI_Win_unlock (`None`: MPI_Win_unlock_all), or the error of a call
    /// without one; changes nothing.
    pub fn check_unlock(&self, window: u64, target: Option<u32>) -> Result<()> {
        let state = self.window(window)?;
        match target {
            Some(target) => {
                state.peer(target)?;
                state.epochs.held(target).map(|_| ())
            }
            None => state.epochs.held_all().map(|_| ()),
        }
    }

    /// Returns the lock of one target; its operations have ended locally and, where the lock lies
    /// in memory, at the target. [`Engine::poll_flush`] waits for the answers.
    pub fn unlock<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        target: u32,
    ) -> Result<()> {
        let state = self.window_mut(window)?;
        let hold = state.epochs.held(target).or_else(|_| state.epochs.held_all())?;
        let (records, lock_by) = (state.records_of(target), state.lock_by);
        let used = state.target(target);
        let lock = std::mem::take(&mut used.lock);
        if hold.nocheck {
            return self.flush(endpoint, window, target);
        }
        match records {
            // Nobody begins what it was drawn for: those behind it wait for ever.
            _ if matches!(lock, LockState::Ticket(_)) => {
                self.shared_waits -= 1;
                Ok(())
            }
            // A lock that was free is not recorded here.
            _ if lock == LockState::None && hold.taken.is_none() => Ok(()),
            Some(records) if lock_by == LockBy::Memory => {
                if records.give_back(hold.exclusive, hold.taken.unwrap_or(TakenBy::Ticket)) {
                    self.wake_all(window);
                }
                Ok(())
            }
            _ => {
                (used.is_dirty, used.unconfirmed) = (false, None);
                self.send_acknowledged(window, target, Step::Unlock)?;
                self.settle(endpoint);
                Ok(())
            }
        }
    }

    /// Returns the locks of all targets, like [`Engine::unlock`].
    pub fn unlock_all<T: HybridGet>(&mut self, endpoint: &mut T, window: u64) -> Result<()> {
        let size = self.window(window)?.size();
        let mut done = Ok(());
        for target in 0..size {
            // The locks of targets after one that has failed are returned too.
            let unlocked = self.unlock(endpoint, window, target);
            done = done.and(unlocked);
        }
        done
    }

    /// Ends the epoch of MPI_Win_unlock (`None`: MPI_Win_unlock_all).
    pub fn end_passive(&mut self, window: u64, target: Option<u32>) -> Result<()> {
        let epochs = &mut self.window_mut(window)?.epochs;
        match target {
            Some(target) => epochs.unlock(target),
            None => epochs.unlock_all(),
        }
        Ok(())
    }

    /// Checks a flush of `target` (`None`: of all).
    pub fn check_flush(&self, window: u64, target: Option<u32>, call: &str) -> Result<()> {
        let state = self.window(window)?;
        if let Some(target) = target {
            state.peer(target)?;
        }
        state.epochs.check_passive(target, call)
    }

    /// Checks MPI_Win_fence.
    pub fn check_fence(&self, window: u64) -> Result<()> {
        self.window(window)?.epochs.check_fence()
    }

    /// Ends a fence epoch and, unless `is_last`, makes the next one possible.
    pub fn fence(&mut self, window: u64, is_last: bool) -> Result<()> {
        self.window_mut(window)?.end_fence(is_last);
        Ok(())
    }
}
