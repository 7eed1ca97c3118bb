//! The executor: runs schedules over the point-to-point engine, any number of collectives at once,
//! each as far as it can go whenever something has completed.
//!
//! Blocking, nonblocking and persistent collectives are the same here; the states of one stand in
//! [`running`]. Work is done in [`Active::start`] and [`Active::advance`] only, and in
//! [`InlineRun::go`] for a collective that its caller runs outside of the list.

mod collective_id;
mod cursor;
mod failure;
mod inline_run;
mod inquiry;
mod running;
mod user_call;

use fabric::{CollectiveKind, HybridGet, Peer};
use objects::scratch::Pool;
use objects::{Class, Error, Result};
use pt2pt::{Engine, Fault};

pub use self::collective_id::CollectiveId;
use self::cursor::Cursor;
pub use self::inline_run::{InlineRun, Suspended};
use self::inquiry::Calls;
pub use self::inquiry::Passed;
use self::running::{OpenLists, Running, State, Step};
pub use self::user_call::{UserCall, UserReturn};
use crate::latest_call;
use crate::plan::Plan;
use crate::schedule::{Member, Schedule};

/// All running collectives of a process.
#[derive(Default)]
pub struct Active {
    entries: Vec<Entry>,
    vacant: Vec<u32>,
    /// Entries of collectives that are not over, in the order of their start.
    live: Vec<u32>,
    pool: Pool,
    /// The latest ones that are over.
    past: Calls,
}

#[derive(Default)]
struct Entry {
    generation: u32,
    running: Option<Running>,
    /// The lists of requests of the last collective here, for their memory.
    open: OpenLists,
}

/// The event that a collective waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectiveWait {
    /// The operation.
    pub kind: CollectiveKind,
    /// Which collective of its communicator it is.
    pub sequence: i32,
    /// The context id on the wire.
    pub context: u64,
    /// The first member whose data is missing.
    pub member: Option<Peer>,
}

/// The result of [`Active::advance`].
#[must_use]
pub enum Advance {
    /// Nothing could be done.
    Idle,
    /// Something was done; some collectives may be over.
    Moved,
    /// A user's reduction function is due: call [`UserCall::run`] with no lock held, then
    /// [`Active::resume`].
    User(UserCall),
}

impl Active {
    /// An executor without collectives.
    pub fn new() -> Active {
        Active::default()
    }

    /// Starts a collective, the `sequence`th on its communicator, and does what can be done at
    /// once. Persistent ones have negative numbers, and all starts of one the same, one after the
    /// other. MPI_ERR_NO_MEM if there is no scratch memory: the collective has failed here.
    pub fn start<T: HybridGet>(
        &mut self,
        pt2pt: &mut Engine,
        endpoint: &mut T,
        plan: Plan,
        sequence: i32,
    ) -> Result<CollectiveId> {
        let scratch = match plan.scratch_bytes() {
            0 => None,
            bytes => match self.pool.take(bytes) {
                None => return Err(self.refuse(&plan, sequence, bytes)),
                scratch => scratch,
            },
        };
        let slot = self.vacancy();
        let entry = &mut self.entries[slot as usize];
        let id = CollectiveId { slot, generation: entry.generation };
        let open = std::mem::take(&mut entry.open);
        let cursor = Cursor::first(&plan, sequence);
        let running = entry.running.insert(Running::new(plan, sequence, cursor, open, scratch));
        let mut moved = false;
        // A user's function that is due already waits for `advance`.
        match running.step(pt2pt, endpoint, id, false, &mut moved) {
            Step::Over => self.retire(pt2pt, slot),
            Step::Blocked | Step::Repeated(_) | Step::User(_) | Step::Refused => {
                self.live.push(slot);
            }
        }
        Ok(id)
    }

    /// Counts a collective without scratch memory as refused: members may wait for it.
    #[cold]
    fn refuse(&mut self, plan: &Plan, sequence: i32, bytes: u64) -> Error {
        if !plan.is_alone() {
            self.mark_refused(plan.context(), sequence, plan.rank(), plan.latest());
        }
        let text = format!("no memory for the {bytes} bytes of scratch space of a collective");
        Error::new(Class::NoMem, text)
    }

    /// Continues an inline run as a collective like all others.
    pub fn resume_as_active(&mut self, run: Suspended) -> CollectiveId {
        let Suspended { plan, sequence, cursor } = run;
        self.activate(|open| Running::new(plan, sequence, cursor, open, None))
    }

    /// Adds a collective that `make` makes, with empty lists that have had space before.
    fn activate(&mut self, make: impl FnOnce(OpenLists) -> Running) -> CollectiveId {
        let slot = self.vacancy();
        let entry = &mut self.entries[slot as usize];
        let id = CollectiveId { slot, generation: entry.generation };
        entry.running = Some(make(std::mem::take(&mut entry.open)));
        self.live.push(slot);
        id
    }

    /// Takes every collective as far as it gets without waiting. Call it after the engine has
    /// progressed.
    pub fn advance<T: HybridGet>(&mut self, pt2pt: &mut Engine, endpoint: &mut T) -> Advance {
        let mut moved = false;
        let mut at = 0;
        if !pt2pt.failed_peers().is_empty() {
            self.fail_receives_of_lost(pt2pt);
            self.fail_with_lost(pt2pt, endpoint);
        }
        while let Some(&slot) = self.live.get(at) {
            let entry = &mut self.entries[slot as usize];
            let id = CollectiveId { slot, generation: entry.generation };
            let Some(running) = &mut entry.running else {
                self.live.remove(at);
                continue;
            };
            match running.step(pt2pt, endpoint, id, true, &mut moved) {
                Step::Blocked => at += 1,
                Step::Repeated(rounds) => self.push_later(slot, rounds),
                Step::User(call) => return Advance::User(call),
                Step::Refused => self.begin_without_gets(slot),
                Step::Over => {
                    self.live.remove(at);
                    self.retire(pt2pt, slot);
                }
            }
        }
        if moved { Advance::Moved } else { Advance::Idle }
    }

    /// Continues a collective after a user's reduction.
    pub fn resume(&mut self, done: UserReturn) {
        if let Some(running) = self.find_mut(done.0)
            && matches!(running.state, State::Away)
        {
            running.state = State::Locals;
        }
    }

    /// True when the result is there.
    #[inline]
    pub fn is_complete(&self, id: CollectiveId) -> bool {
        self.find(id).is_none_or(|running| matches!(running.state, State::Over(_)))
    }

    /// Takes the result, which ends the id; `None` while the collective is running.
    #[inline]
    pub fn finish(&mut self, id: CollectiveId) -> Option<std::result::Result<(), Box<Fault>>> {
        match &self.find(id)?.state {
            State::Over(_) => {}
            _ => return None,
        }
        match self.vacate(id.slot)? {
            State::Over(result) => Some(result),
            _ => None,
        }
    }

    /// The event that an unfinished collective waits for, for reports.
    pub fn blocked_on(&self, id: CollectiveId, pt2pt: &Engine) -> Option<CollectiveWait> {
        self.find(id).map(|running| CollectiveWait {
            kind: running.plan.collective().kind,
            sequence: running.sequence,
            context: running.plan.context(),
            member: running.missing_member(pt2pt),
        })
    }

    /// Returns true if a collective is under way beside the awaited one, or that has two strands,
    /// of which one may go on while the other waits.
    pub fn has_others(&self, awaited: Option<CollectiveId>) -> bool {
        let is_awaited = |slot: u32| {
            let id = awaited.filter(|id| id.slot == slot);
            id.and_then(|id| self.find(id)).is_some_and(|running| !running.is_divided())
        };
        let running = |slot: u32| self.entries[slot as usize].running.as_ref();
        self.live
            .iter()
            .any(|&slot| !is_awaited(slot) && running(slot).is_some_and(Running::is_under_way))
    }

    /// Lets a collective end by itself; its result is dropped (MPI_Request_free).
    pub fn detach(&mut self, id: CollectiveId) {
        let Some(running) = self.find_mut(id) else { return };
        running.detached = true;
        if matches!(running.state, State::Over(_)) {
            self.vacate(id.slot);
        }
    }

    /// Returns true if `advance` would progress by a collective segment, which no transport
    /// reports. Call it before a thread sleeps.
    pub fn has_segment_work<T: HybridGet>(&mut self, pt2pt: &mut Engine, endpoint: &mut T) -> bool {
        if self.running().any(Running::is_due) {
            return true;
        }
        let Active { live, entries, .. } = self;
        live.iter().fold(false, |is_due, &slot| {
            entries[slot as usize]
                .running
                .as_mut()
                .is_some_and(|running| running.receive_mismatched(pt2pt, endpoint))
                | is_due
        })
    }

    /// Returns those that run.
    fn running(&self) -> impl Iterator<Item = &Running> {
        self.live.iter().filter_map(|&slot| self.entries[slot as usize].running.as_ref())
    }

    /// Returns how many are running.
    #[inline]
    pub fn len(&self) -> usize {
        self.live.len()
    }

    /// True when none is running: `advance` has nothing to do.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// Returns true while a collective with that context id on the wire runs.
    pub fn is_in_use(&self, context: u64) -> bool {
        self.running().any(|running| running.plan.context() == context)
    }

    /// True when no member of a collective waits for this process.
    pub fn is_drained(&self) -> bool {
        self.running().all(Running::has_arrived_in_all)
    }

    /// Ends the receives that wait for failed processes: the engine knows ranks, the plans know
    /// which process each rank is.
    #[cold]
    fn fail_receives_of_lost(&self, pt2pt: &mut Engine) {
        let lost = pt2pt.failed_peers().to_vec();
        let running =
            || self.live.iter().filter_map(|&slot| self.entries[slot as usize].running.as_ref());
        pt2pt.fail_receives(|context, source| {
            let plan = &running().find(|running| running.plan.context() == context)?.plan;
            let peer = plan.peer(Member::from_wire(source?))?;
            lost.iter().find(|lost| lost.peer == peer).cloned()
        });
    }

    /// Fails the collectives in which a failed process takes part: others may wait for it in a
    /// segment, where no message ends.
    #[cold]
    fn fail_with_lost<T: HybridGet>(&mut self, pt2pt: &mut Engine, endpoint: &mut T) {
        let lost = pt2pt.failed_peers().to_vec();
        for &slot in &self.live {
            let Some(running) = &mut self.entries[slot as usize].running else { continue };
            let failed = lost.iter().find(|lost| running.plan.has_member(lost.peer));
            if let (Some(failed), State::Messages | State::Locals) = (failed, &running.state) {
                running.fail(pt2pt, endpoint, Box::new(Fault::PeerFailed(failed.clone())));
            }
        }
    }

    /// Begins a collective anew in which a get was refused; all members do so.
    #[cold]
    fn begin_without_gets(&mut self, slot: u32) {
        let Some(running) = &mut self.entries[slot as usize].running else { return };
        let Some((plan, segment)) = running.plan.without_gets().zip(running.plan.segment()) else {
            return debug_assert!(false, "a plan with gets has another one");
        };
        segment.refuse_gets();
        running.cursor.leave(&running.plan);
        let (sequence, detached) = (running.sequence, running.detached);
        let (lists, scratch) = (running.take_lists(), running.scratch.take());
        let cursor = Cursor::first(&plan, sequence);
        *running = Running::new(plan, sequence, cursor, lists, scratch);
        running.detached = detached;
    }

    fn vacancy(&mut self) -> u32 {
        self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(Entry::default());
            self.entries.len() as u32 - 1
        })
    }

    fn find(&self, id: CollectiveId) -> Option<&Running> {
        let slot = self.entries.get(id.slot as usize)?;
        slot.running.as_ref().filter(|_| slot.generation == id.generation)
    }

    fn find_mut(&mut self, id: CollectiveId) -> Option<&mut Running> {
        let slot = self.entries.get_mut(id.slot as usize)?;
        slot.running.as_mut().filter(|_| slot.generation == id.generation)
    }

    /// Releases the resources of a finished collective.
    fn retire(&mut self, pt2pt: &mut Engine, slot: u32) {
        let Some(running) = &mut self.entries[slot as usize].running else { return };
        match running.state {
            State::Left => {
                self.vacate(slot);
                return;
            }
            State::Over(Err(_)) => self.past.name_earlier(running, pt2pt),
            _ => {}
        }
        let detached = running.detached;
        let has_failed = running.has_failed;
        self.past.keep(&running.plan, running.sequence, has_failed);
        let mut rest = None;
        if has_failed {
            latest_call::fail(running.plan.latest());
            let lost = pt2pt.failed_peers();
            // With a failed process the rounds of the segment never end.
            let is_whole = !lost.iter().any(|lost| running.plan.has_member(lost.peer));
            let (remainder, pushed) = running.remainder();
            rest = remainder.filter(|_| is_whole);
            self.push_later(slot, pushed);
        }
        let Some(running) = &mut self.entries[slot as usize].running else { return };
        running.leave(has_failed);
        if let Some(scratch) = running.scratch.take() {
            self.pool.give(scratch);
        }
        if detached {
            self.vacate(slot);
        }
        if let Some(rest) = rest {
            self.activate(|_| rest);
        }
    }

    /// Moves the later collectives in the segment of a failed one on by the rounds that it has
    /// begun after them.
    fn push_later(&mut self, slot: u32, pushed: u64) {
        let Some(failed) = &self.entries[slot as usize].running else { return };
        if pushed == 0 {
            return;
        }
        let (context, end) = (failed.plan.context(), failed.cursor.segment_end() - pushed);
        for (of, entry) in (0..).zip(&mut self.entries) {
            let running = entry.running.as_mut().filter(|_| of != slot);
            if let Some(running) = running.filter(|running| running.plan.context() == context) {
                running.cursor.move_on(end, pushed);
            }
        }
    }

    /// Drops a collective where it is, for it is large; returns its last state.
    fn vacate(&mut self, slot: u32) -> Option<State> {
        let entry = &mut self.entries[slot as usize];
        let running = entry.running.as_mut()?;
        let state = std::mem::replace(&mut running.state, State::Left);
        entry.open = running.take_lists();
        entry.running = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.vacant.push(slot);
        Some(state)
    }
}

/// Schedules are shared between threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Schedule>();
    shared::<Plan>();
    const fn sent<T: Send>() {}
    sent::<Active>();
    sent::<UserCall>();
};
