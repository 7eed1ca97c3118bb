//! The epochs of a window at one rank, and the errors of calls that do not fit them.
//!
//! Access epochs: *fence* (between two fences; it begins with the first access), *started* (from
//! MPI_Win_start to MPI_Win_complete), *locked* (for each target by MPI_Win_lock, or all by
//! MPI_Win_lock_all). They exclude each other (MPI-5.0 §12.5). The exposure epoch lasts from
//! MPI_Win_post to MPI_Win_wait. A refused call changes nothing.
//!
//! [`Reach`] repeats a part of that for calls that end at once: what it allows is allowed, and what
//! it does not allow is decided here. Each change of an epoch computes it anew.

use objects::{Class, Error, Result};

use crate::ledger;
use crate::records::TakenBy;
use crate::steps::StepKind;

/// A lock that this rank holds, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) exclusive: bool,
    /// MPI_MODE_NOCHECK: no lock was taken.
    pub(crate) nocheck: bool,
    /// How it was taken if it was free; see `direct`.
    pub(crate) taken: Option<TakenBy>,
}

impl Hold {
    /// Returns a lock that was free.
    #[inline(always)]
    pub(crate) fn at_once(exclusive: bool, taken_by: TakenBy) -> Hold {
        Hold { exclusive, nocheck: false, taken: Some(taken_by) }
    }
}

/// The targets that a call may access, or flush, without a further look at the epochs: none, one,
/// or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    access: u32,
    flush: u32,
}

/// All targets; no rank has this number.
const ALL: u32 = u32::MAX;
/// No target; no rank has this number.
const NONE: u32 = u32::MAX - 1;

impl Reach {
    const NOTHING: Reach = Reach { access: NONE, flush: NONE };

    /// Returns true if an operation may access the target.
    #[inline(always)]
    pub(crate) fn accesses(self, target: u32) -> bool {
        self.access == ALL || self.access == target
    }

    /// Returns true if a flush of all targets is inside of its epoch.
    #[inline(always)]
    pub(crate) fn flushes_all(self) -> bool {
        self.flush == ALL
    }

    /// Returns true if a flush of the target is inside of its epoch.
    #[inline(always)]
    pub(crate) fn flushes(self, target: u32) -> bool {
        self.flush == ALL || self.flush == target
    }
}

/// The state of the fence epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fence {
    /// There was no fence, or the last one had MPI_MODE_NOSUCCEED.
    #[default]
    Closed,
    /// After a fence; no access yet.
    Open,
    /// After a fence and an access.
    Used,
}

/// All epochs of one window.
#[derive(Debug)]
pub(crate) struct Epochs {
    fence: Fence,
    /// The targets of MPI_Win_start.
    started: Option<Vec<u32>>,
    /// The only lock, while there is one that was taken at once and no other: without an
    /// allocation.
    at_once: Option<(u32, Hold)>,
    /// All locks, by target, ascending; empty while there is one at once.
    locks: Vec<(u32, Hold)>,
    lock_all: Option<Hold>,
    /// The origins of MPI_Win_post.
    exposed: Option<Vec<u32>>,
    reach: Reach,
    /// No epoch but an exposure epoch is open, and accesses are not looked at.
    is_idle: bool,
    /// Every access is looked at (`rma.check`): nothing is in reach.
    is_checked: bool,
}

impl Default for Epochs {
    fn default() -> Epochs {
        Epochs {
            fence: Fence::Closed,
            started: None,
            at_once: None,
            locks: Vec::new(),
            lock_all: None,
            exposed: None,
            reach: Reach::NOTHING,
            is_idle: true,
            is_checked: false,
        }
    }
}

fn misuse(text: impl Into<String>) -> Error {
    Error::new(Class::RmaSync, text)
}

impl Epochs {
    /// Returns what calls may do without a further look.
    #[inline(always)]
    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Has every access looked at.
    pub(crate) fn check_all(&mut self) {
        self.is_checked = true;
        self.renew();
    }

    /// Computes the reach after a change.
    fn renew(&mut self) {
        let only = |ranks: &[u32]| if let &[rank] = ranks { rank } else { NONE };
        self.reach = match (self.locks(), &self.started) {
            _ if self.is_checked => Reach::NOTHING,
            _ if self.lock_all.is_some() => Reach { access: ALL, flush: ALL },
            (&[(rank, _)], None) => Reach { access: rank, flush: rank },
            ([], Some(group)) => Reach { access: only(group), flush: NONE },
            ([], None) if self.fence == Fence::Used => Reach { access: ALL, flush: NONE },
            _ => Reach::NOTHING,
        };
        self.is_idle = self.locks().is_empty()
            && self.lock_all.is_none()
            && self.started.is_none()
            && self.fence != Fence::Used
            && !self.is_checked;
    }

    fn locks(&self) -> &[(u32, Hold)] {
        match &self.at_once {
            Some(only) => std::slice::from_ref(only),
            None => &self.locks,
        }
    }

    fn find(&self, target: u32) -> std::result::Result<usize, usize> {
        self.locks().binary_search_by_key(&target, |&(rank, _)| rank)
    }

    /// Returns true if no epoch but an exposure epoch is open.
    #[inline(always)]
    pub(crate) fn is_idle(&self) -> bool {
        self.is_idle
    }

    /// Returns true if an access would begin the epoch of a fence.
    pub(crate) fn begins_fence(&self) -> bool {
        self.fence == Fence::Open && self.is_idle()
    }

    /// Begins a passive epoch at one target, whose lock was free; [`Epochs::is_idle`] holds.
    #[inline(always)]
    pub(crate) fn lock_at_once(&mut self, target: u32, hold: Hold) {
        self.at_once = Some((target, hold));
        self.reach = Reach { access: target, flush: target };
        self.is_idle = false;
    }

    /// Returns the lock of [`Epochs::lock_at_once`], if that is the target's and the only one.
    #[inline(always)]
    pub(crate) fn only(&self, target: u32) -> Option<Hold> {
        match self.at_once {
            Some((rank, hold)) if rank == target => Some(hold),
            _ => None,
        }
    }

    /// Returns how MPI_Win_lock_all took locks that were free.
    #[inline(always)]
    pub(crate) fn all_taken_by(&self) -> Option<TakenBy> {
        self.lock_all?.taken
    }

    /// Ends the passive epoch of [`Epochs::lock_at_once`], the only one.
    #[inline(always)]
    pub(crate) fn unlock_only(&mut self) {
        self.at_once = None;
        self.reach = Reach::NOTHING;
        self.is_idle = true;
    }

    /// Checks that an epoch allows to access `target`.
    pub(crate) fn check_access(&self, target: u32) -> Result<()> {
        if self.lock_all.is_some() || self.find(target).is_ok() {
            return Ok(());
        }
        match &self.started {
            Some(group) if group.contains(&target) => return Ok(()),
            Some(group) => {
                return Err(misuse(format!(
                    "access to rank {target} outside of an epoch: MPI_Win_start has ranks {group:?}"
                )));
            }
            None => {}
        }
        if !self.locks().is_empty() {
            return Err(misuse(format!(
                "access to rank {target} outside of an epoch: ranks {:?} are locked",
                self.locked()
            )));
        }
        if self.fence == Fence::Closed {
            return Err(misuse(format!(
                "access to rank {target} outside of an epoch: call MPI_Win_fence, MPI_Win_start, \
                 MPI_Win_lock or MPI_Win_lock_all first"
            )));
        }
        Ok(())
    }

    /// Begins the fence epoch with an access, if that is the one which allows it.
    pub(crate) fn begin_access(&mut self) {
        let has_other =
            self.lock_all.is_some() || !self.locks().is_empty() || self.started.is_some();
        if self.fence == Fence::Open && !has_other {
            self.fence = Fence::Used;
            self.renew();
        }
    }

    /// Returns the kind of the epoch in which `target` is accessed.
    pub(crate) fn kind(&self, target: u32) -> ledger::Epoch {
        if self.lock_all.is_some() || self.find(target).is_ok() {
            ledger::Epoch::Passive
        } else if self.started.is_some() {
            ledger::Epoch::Started
        } else {
            ledger::Epoch::Fence
        }
    }

    /// Returns the epoch that excludes a new one; a fence epoch without accesses does not.
    fn obstacle(&self) -> Option<String> {
        if self.lock_all.is_some() {
            return Some("inside an epoch of MPI_Win_lock_all".into());
        }
        if !self.locks().is_empty() {
            return Some(format!("inside an epoch of MPI_Win_lock on ranks {:?}", self.locked()));
        }
        if let Some(group) = &self.started {
            return Some(format!("inside an epoch of MPI_Win_start with ranks {group:?}"));
        }
        None
    }

    fn locked(&self) -> Vec<u32> {
        self.locks().iter().map(|&(rank, _)| rank).collect()
    }

    /// Checks a fence.
    pub(crate) fn check_fence(&self) -> Result<()> {
        if let Some(obstacle) = self.obstacle() {
            return Err(misuse(format!("MPI_Win_fence {obstacle}")));
        }
        match &self.exposed {
            Some(_) => Err(misuse("MPI_Win_fence inside an exposure epoch of MPI_Win_post")),
            None => Ok(()),
        }
    }

    /// Ends a fence epoch and, unless `is_last`, makes the next one possible.
    pub(crate) fn fence(&mut self, is_last: bool) {
        self.fence = if is_last { Fence::Closed } else { Fence::Open };
        self.renew();
    }

    fn begin(&self, call: &str) -> Result<()> {
        if let Some(obstacle) = self.obstacle() {
            return Err(misuse(format!("{call} {obstacle}")));
        }
        match self.fence {
            Fence::Used => Err(misuse(format!(
                "{call} inside a fence epoch with accesses: call MPI_Win_fence first"
            ))),
            Fence::Open | Fence::Closed => Ok(()),
        }
    }

    pub(crate) fn start(&mut self, group: Vec<u32>) -> Result<()> {
        self.begin("MPI_Win_start")?;
        self.started = Some(group);
        self.renew();
        Ok(())
    }

    /// Returns the targets of the epoch that MPI_Win_complete ends.
    pub(crate) fn started(&self) -> Result<&[u32]> {
        self.started
            .as_deref()
            .ok_or_else(|| misuse("MPI_Win_complete without MPI_Win_start before it"))
    }

    /// Ends the epoch of MPI_Win_start; returns its targets.
    pub(crate) fn complete(&mut self) -> Result<Vec<u32>> {
        self.started()?;
        let group = self.started.take().unwrap_or_default();
        self.renew();
        Ok(group)
    }

    /// Checks MPI_Win_post.
    pub(crate) fn check_post(&self) -> Result<()> {
        if self.exposed.is_some() {
            return Err(misuse("MPI_Win_post inside an exposure epoch: call MPI_Win_wait first"));
        }
        if self.fence == Fence::Used {
            return Err(misuse("MPI_Win_post inside a fence epoch with accesses"));
        }
        Ok(())
    }

    /// Begins the exposure epoch of MPI_Win_post.
    pub(crate) fn post(&mut self, group: Vec<u32>) {
        self.exposed = Some(group);
    }

    /// Returns the origins of the exposure epoch.
    pub(crate) fn exposed(&self) -> Result<&[u32]> {
        self.exposed
            .as_deref()
            .ok_or_else(|| misuse("MPI_Win_wait or MPI_Win_test without MPI_Win_post before it"))
    }

    /// Returns the ranks whose steps of a kind the open epoch needs.
    pub(crate) fn expected(&self, kind: StepKind) -> Result<&[u32]> {
        match kind {
            StepKind::Post => self.started(),
            StepKind::Complete => self.exposed(),
        }
    }

    pub(crate) fn end_exposure(&mut self) {
        self.exposed = None;
    }

    /// Begins a passive epoch at one target.
    pub(crate) fn lock(&mut self, target: u32, hold: Hold) -> Result<()> {
        let Err(at) = self.find(target) else {
            return Err(misuse(format!("MPI_Win_lock on rank {target}, which is locked already")));
        };
        if self.locks().is_empty() || self.lock_all.is_some() || self.started.is_some() {
            self.begin("MPI_Win_lock")?;
        }
        self.locks.extend(self.at_once.take());
        self.locks.insert(at, (target, hold));
        self.renew();
        Ok(())
    }

    /// Begins a passive epoch at all targets.
    pub(crate) fn lock_all(&mut self, hold: Hold) -> Result<()> {
        self.begin("MPI_Win_lock_all")?;
        self.lock_all = Some(hold);
        self.renew();
        Ok(())
    }

    /// Returns the lock that MPI_Win_unlock ends.
    pub(crate) fn held(&self, target: u32) -> Result<Hold> {
        self.find(target).map(|at| self.locks()[at].1).map_err(|_| {
            misuse(format!("MPI_Win_unlock of rank {target}, which is not locked by MPI_Win_lock"))
        })
    }

    /// Returns the lock that MPI_Win_unlock_all ends.
    pub(crate) fn held_all(&self) -> Result<Hold> {
        self.lock_all.ok_or_else(|| misuse("MPI_Win_unlock_all without MPI_Win_lock_all before it"))
    }

    pub(crate) fn unlock(&mut self, target: u32) {
        if let Ok(at) = self.find(target)
            && self.at_once.take().is_none()
        {
            self.locks.remove(at);
        }
        self.renew();
    }

    pub(crate) fn unlock_all(&mut self) {
        self.lock_all = None;
        self.renew();
    }

    /// Checks that `target` (`None`: any) is in a passive epoch.
    pub(crate) fn check_passive(&self, target: Option<u32>, call: &str) -> Result<()> {
        let is_locked = match target {
            Some(target) => self.find(target).is_ok(),
            None => !self.locks().is_empty(),
        };
        if is_locked || self.lock_all.is_some() {
            return Ok(());
        }
        let of = target.map_or_else(String::new, |rank| format!(" of rank {rank}"));
        Err(misuse(format!("{call}{of} outside of an epoch of MPI_Win_lock or MPI_Win_lock_all")))
    }

    /// Checks that the window may be freed.
    pub(crate) fn check_free(&self) -> Result<()> {
        if let Some(obstacle) = self.obstacle() {
            return Err(misuse(format!("MPI_Win_free {obstacle}")));
        }
        match &self.exposed {
            Some(_) => Err(misuse("MPI_Win_free inside an exposure epoch of MPI_Win_post")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: Hold = Hold { exclusive: false, nocheck: false, taken: None };

    fn access(epochs: &mut Epochs, target: u32) -> Result<()> {
        epochs.check_access(target)?;
        epochs.begin_access();
        Ok(())
    }

    /// Whether the reach has accesses to, and flushes of, ranks 1 and 2.
    fn reaches(epochs: &Epochs) -> [bool; 4] {
        let reach = epochs.reach();
        [reach.accesses(1), reach.accesses(2), reach.flushes(1), reach.flushes(2)]
    }

    #[test]
    fn the_reach_follows_the_epochs() {
        let mut epochs = Epochs::default();
        assert_eq!(reaches(&epochs), [false; 4]);
        epochs.fence(false);
        assert_eq!(reaches(&epochs), [false; 4], "the first access begins the epoch");
        access(&mut epochs, 1).unwrap();
        assert_eq!(reaches(&epochs), [true, true, false, false]);
        assert!(!epochs.is_idle());
        epochs.fence(true);
        assert_eq!(reaches(&epochs), [false; 4]);
        epochs.lock(1, SHARED).unwrap();
        assert_eq!(reaches(&epochs), [true, false, true, false]);
        epochs.lock(2, SHARED).unwrap();
        assert!(!reaches(&epochs)[0] && access(&mut epochs, 2).is_ok());
        epochs.unlock(1);
        assert_eq!(reaches(&epochs), [false, true, false, true]);
        epochs.unlock(2);
        epochs.start(vec![1]).unwrap();
        assert_eq!(reaches(&epochs), [true, false, false, false]);
        assert_eq!(epochs.complete().unwrap(), [1]);
        assert!(epochs.is_idle());
        for is_only in [true, false] {
            epochs.lock_at_once(2, Hold::at_once(false, TakenBy::Ticket));
            assert!(reaches(&epochs)[3] && epochs.held(2).unwrap().taken.is_some());
            assert!(epochs.only(2).is_some() && epochs.only(1).is_none() && !epochs.is_idle());
            if is_only {
                epochs.unlock_only();
                continue;
            }
            epochs.lock(1, SHARED).unwrap();
            assert!(epochs.only(2).is_none() && epochs.held(2).unwrap().taken.is_some());
            epochs.unlock(2);
            assert!(reaches(&epochs)[2] && epochs.held(2).is_err());
            epochs.unlock(1);
            epochs.lock_at_once(2, Hold::at_once(false, TakenBy::Ticket));
            epochs.unlock(2);
        }
        assert!(epochs.is_idle());
        epochs.lock_all(SHARED).unwrap();
        assert_eq!(reaches(&epochs), [true; 4]);
        epochs.check_all();
        assert_eq!(reaches(&epochs), [false; 4]);
    }

    #[test]
    fn accesses_need_an_epoch_that_has_their_target() {
        let mut epochs = Epochs::default();
        assert_eq!(access(&mut epochs, 1).unwrap_err().class(), Class::RmaSync);
        epochs.fence(false);
        access(&mut epochs, 1).unwrap();
        assert!(epochs.lock(2, SHARED).is_err(), "the fence epoch has an access");
        epochs.fence(true);
        assert!(access(&mut epochs, 1).is_err());
        epochs.lock(2, SHARED).unwrap();
        epochs.lock(3, SHARED).unwrap();
        assert!(access(&mut epochs, 1).is_err() && access(&mut epochs, 3).is_ok());
        assert!(epochs.check_fence().is_err() && epochs.lock_all(SHARED).is_err());
        assert!(epochs.check_passive(Some(1), "MPI_Win_flush").is_err());
        assert!(epochs.check_free().is_err());
        epochs.unlock(2);
        epochs.unlock(3);
        epochs.start(vec![0, 4]).unwrap();
        assert!(access(&mut epochs, 4).is_ok() && access(&mut epochs, 3).is_err());
        epochs.complete().unwrap();
        assert!(epochs.complete().is_err() && epochs.check_post().is_ok());
        epochs.post(vec![1]);
        assert!(epochs.check_post().is_err() && epochs.check_fence().is_err());
        epochs.end_exposure();
        epochs.check_free().unwrap();
    }

    #[test]
    fn a_fence_epoch_without_accesses_excludes_nothing() {
        let mut epochs = Epochs::default();
        epochs.fence(false);
        epochs.lock(0, SHARED).unwrap();
        access(&mut epochs, 0).unwrap();
        epochs.unlock(0);
        epochs.check_fence().unwrap();
        epochs.lock_all(SHARED).unwrap();
        assert!(epochs.held(0).is_err() && epochs.held_all().is_ok());
    }
}
