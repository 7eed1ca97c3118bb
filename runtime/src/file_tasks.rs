//! Accesses to files that go on after their calls, and that progress resumes.
//!
//! States of a [`FileTask`]: *waiting* in the list; *resumed*, outside the process lock, since it
//! starts collectives and moves data. At most one access of a file is in the list at work: the
//! others of the file wait for it. Progress looks at the list when a collective has moved and when
//! an access or work on another thread is done (`io::pending::take_news`).

use std::sync::{Arc, Mutex, PoisonError};

use collectives::{Active, CollectiveId};
use io::{Resumable, WaitsFor};

/// The collective that a file's exchange runs, if one does.
pub(crate) type Current = Arc<Mutex<Option<CollectiveId>>>;

/// An access that goes on.
pub struct FileTask {
    access: Box<dyn Resumable>,
    /// The collective of its file's exchange.
    current: Current,
}

/// The accesses of a process that go on.
pub(crate) struct FileTasks(Vec<FileTask>);

impl FileTasks {
    pub(crate) const fn new() -> FileTasks {
        FileTasks(Vec::new())
    }

    /// Returns true if no access waits in the list.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds an access.
    pub(crate) fn push(&mut self, task: FileTask) {
        self.0.push(task);
        // What it waits for may have come meanwhile.
        io::pending::announce();
    }

    /// Takes an access that can go on.
    pub(crate) fn take_ready(&mut self, collectives: &Active) -> Option<FileTask> {
        let ready = self.0.iter().position(|task| task.is_ready(collectives))?;
        Some(self.0.swap_remove(ready))
    }
}

impl FileTask {
    /// Returns an access of a file whose exchanges `current` names.
    pub(crate) fn new(access: Box<dyn Resumable>, current: Current) -> FileTask {
        FileTask { access, current }
    }

    /// Lets the access go on; returns it unless it is done. Outside the process lock.
    pub(crate) fn resume(mut self) -> Option<FileTask> {
        if self.access.resume() { None } else { Some(self) }
    }

    fn is_ready(&self, collectives: &Active) -> bool {
        match self.access.waits_for() {
            WaitsFor::Pending(pending) => pending.is_done(),
            WaitsFor::Exchange => self
                .current
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_none_or(|id| collectives.is_complete(id)),
        }
    }
}
