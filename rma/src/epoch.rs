//! The epochs of a window at one rank, and the errors of calls that do not fit them.
//!
//! Access epochs: *fence* (between two fences; it begins with the first access), *started* (from
//! MPI_Win_start to MPI_Win_complete), *locked* (for each target by MPI_Win_lock, or all by
//! MPI_Win_lock_all). They exclude each other (MPI-5.0 §12.5). The exposure epoch lasts from
//! MPI_Win_post to MPI_Win_wait. A refused call changes nothing.

use objects::{Class, Error, Result};
use rustc_hash::FxHashMap;

/// A lock that this rank holds, or waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) exclusive: bool,
    /// MPI_MODE_NOCHECK: no lock was taken.
    pub(crate) nocheck: bool,
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
#[derive(Debug, Default)]
pub(crate) struct Epochs {
    fence: Fence,
    /// The targets of MPI_Win_start.
    started: Option<Vec<u32>>,
    locks: FxHashMap<u32, Hold>,
    lock_all: Option<Hold>,
    /// The origins of MPI_Win_post.
    exposed: Option<Vec<u32>>,
}

fn misuse(text: impl Into<String>) -> Error {
    Error::new(Class::RmaSync, text)
}

impl Epochs {
    /// Checks an access to `target`, and begins the fence epoch if that is the one.
    pub(crate) fn access(&mut self, target: u32) -> Result<()> {
        if self.lock_all.is_some() || self.locks.contains_key(&target) {
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
        if !self.locks.is_empty() {
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
        self.fence = Fence::Used;
        Ok(())
    }

    /// Returns the epoch that excludes a new one; a fence epoch without accesses does not.
    fn obstacle(&self) -> Option<String> {
        if self.lock_all.is_some() {
            return Some("inside an epoch of MPI_Win_lock_all".into());
        }
        if !self.locks.is_empty() {
            return Some(format!("inside an epoch of MPI_Win_lock on ranks {:?}", self.locked()));
        }
        if let Some(group) = &self.started {
            return Some(format!("inside an epoch of MPI_Win_start with ranks {group:?}"));
        }
        None
    }

    fn locked(&self) -> Vec<u32> {
        let mut ranks: Vec<u32> = self.locks.keys().copied().collect();
        ranks.sort_unstable();
        ranks
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
        Ok(())
    }

    /// Returns the targets of the epoch that MPI_Win_complete ends.
    pub(crate) fn started(&self) -> Result<&[u32]> {
        self.started
            .as_deref()
            .ok_or_else(|| misuse("MPI_Win_complete without MPI_Win_start before it"))
    }

    pub(crate) fn complete(&mut self) {
        self.started = None;
    }

    pub(crate) fn post(&mut self, group: Vec<u32>) -> Result<()> {
        if self.exposed.is_some() {
            return Err(misuse("MPI_Win_post inside an exposure epoch: call MPI_Win_wait first"));
        }
        if self.fence == Fence::Used {
            return Err(misuse("MPI_Win_post inside a fence epoch with accesses"));
        }
        self.exposed = Some(group);
        Ok(())
    }

    /// Returns the origins of the exposure epoch.
    pub(crate) fn exposed(&self) -> Result<&[u32]> {
        self.exposed
            .as_deref()
            .ok_or_else(|| misuse("MPI_Win_wait or MPI_Win_test without MPI_Win_post before it"))
    }

    pub(crate) fn end_exposure(&mut self) {
        self.exposed = None;
    }

    /// Begins a passive epoch at one target.
    pub(crate) fn lock(&mut self, target: u32, hold: Hold) -> Result<()> {
        if self.locks.contains_key(&target) {
            return Err(misuse(format!("MPI_Win_lock on rank {target}, which is locked already")));
        }
        if self.locks.is_empty() || self.lock_all.is_some() || self.started.is_some() {
            self.begin("MPI_Win_lock")?;
        }
        self.locks.insert(target, hold);
        Ok(())
    }

    /// Begins a passive epoch at all targets.
    pub(crate) fn lock_all(&mut self, hold: Hold) -> Result<()> {
        self.begin("MPI_Win_lock_all")?;
        self.lock_all = Some(hold);
        Ok(())
    }

    /// Returns the lock that MPI_Win_unlock ends.
    pub(crate) fn held(&self, target: u32) -> Result<Hold> {
        self.locks.get(&target).copied().ok_or_else(|| {
            misuse(format!("MPI_Win_unlock of rank {target}, which is not locked by MPI_Win_lock"))
        })
    }

    /// Returns the lock that MPI_Win_unlock_all ends.
    pub(crate) fn held_all(&self) -> Result<Hold> {
        self.lock_all.ok_or_else(|| misuse("MPI_Win_unlock_all without MPI_Win_lock_all before it"))
    }

    pub(crate) fn unlock(&mut self, target: u32) {
        self.locks.remove(&target);
    }

    pub(crate) fn unlock_all(&mut self) {
        self.lock_all = None;
    }

    /// Checks that `target` (`None`: any) is in a passive epoch.
    pub(crate) fn check_passive(&self, target: Option<u32>, call: &str) -> Result<()> {
        let is_locked = match target {
            Some(target) => self.locks.contains_key(&target),
            None => !self.locks.is_empty(),
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

    const SHARED: Hold = Hold { exclusive: false, nocheck: false };

    #[test]
    fn accesses_need_an_epoch_that_has_their_target() {
        let mut epochs = Epochs::default();
        assert_eq!(epochs.access(1).unwrap_err().class(), Class::RmaSync);
        epochs.fence(false);
        epochs.access(1).unwrap();
        assert!(epochs.lock(2, SHARED).is_err(), "the fence epoch has an access");
        epochs.fence(true);
        assert!(epochs.access(1).is_err());
        epochs.lock(2, SHARED).unwrap();
        epochs.lock(3, SHARED).unwrap();
        assert!(epochs.access(1).is_err() && epochs.access(3).is_ok());
        assert!(epochs.check_fence().is_err() && epochs.lock_all(SHARED).is_err());
        assert!(epochs.check_passive(Some(1), "MPI_Win_flush").is_err());
        assert!(epochs.check_free().is_err());
        epochs.unlock(2);
        epochs.unlock(3);
        epochs.start(vec![0, 4]).unwrap();
        assert!(epochs.access(4).is_ok() && epochs.access(3).is_err());
        epochs.complete();
        epochs.post(vec![1]).unwrap();
        assert!(epochs.post(vec![1]).is_err() && epochs.check_fence().is_err());
        epochs.end_exposure();
        epochs.check_free().unwrap();
    }

    #[test]
    fn a_fence_epoch_without_accesses_excludes_nothing() {
        let mut epochs = Epochs::default();
        epochs.fence(false);
        epochs.lock(0, SHARED).unwrap();
        epochs.access(0).unwrap();
        epochs.unlock(0);
        epochs.check_fence().unwrap();
        epochs.lock_all(SHARED).unwrap();
        assert!(epochs.held(0).is_err() && epochs.held_all().is_ok());
    }
}
