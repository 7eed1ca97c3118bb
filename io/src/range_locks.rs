//! Locks on ranges of a file: of the system, against other opens of the file, and between the
//! threads of this process, which share a descriptor and therefore its locks of the system.

use std::sync::{Mutex, MutexGuard, PoisonError};

use objects::Result;

use crate::disk::{Disk, RangeLock};

/// What an access locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locking {
    /// No other access loses by it.
    Nothing,
    /// Each call that writes, against other threads: no other process writes the file.
    Threads,
    /// The range of each call that writes, so that holes can be written back.
    Calls,
    /// All that it spans, so that it is one step.
    Access,
}

/// The locks of an open file.
#[derive(Default)]
pub(crate) struct RangeLocks(Mutex<()>);

/// A locked range. The fields are released in this order.
pub(crate) struct Locked<'a> {
    /// `None`: against other threads alone.
    _range: Option<RangeLock<'a>>,
    _thread: MutexGuard<'a, ()>,
}

impl RangeLocks {
    /// Locks a range; waits until it is free.
    pub(crate) fn lock<'a>(
        &'a self,
        disk: &'a Disk,
        (start, end): (i64, i64),
        exclusive: bool,
    ) -> Result<Locked<'a>> {
        let _thread = self.thread();
        Ok(Locked { _range: Some(disk.lock(start, end - start, exclusive)?), _thread })
    }

    /// Locks the file against other threads of this process; waits until it is free.
    pub(crate) fn lock_threads(&self) -> Locked<'_> {
        Locked { _range: None, _thread: self.thread() }
    }

    fn thread(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
