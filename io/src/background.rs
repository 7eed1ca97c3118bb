//! Transfers that go on after the calls that began them: by io_uring if they are short and one run
//! of memory and of the file, otherwise on a thread of the pool.
//!
//! A short access to a file in memory moves in the call that begins it: a thread, of the kernel's
//! or of the pool, costs more than the copy.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use fabric::UserBuf;

use crate::access::Direction;
use crate::datarep::UserData;
use crate::file::File;
use crate::pending::{Outcome, Pending};
use crate::range_locks::Locking;
use crate::statistics::Access;
use crate::uring::{self, Transfer};
use crate::view::View;
use crate::workers;

/// A checked access: through which view, from which packed byte on, and the user's data.
pub(crate) type Wanted = (Arc<View>, u64, Arc<UserData>);

/// Most pieces of the file of a short access: each takes a call of the system.
const MAX_SHORT_PIECES: u64 = 64;

/// One run of memory and where it begins in the file.
#[derive(Clone, Copy)]
struct Run {
    direction: Direction,
    memory: UserBuf,
    offset: i64,
}

impl File {
    /// Starts the transfer of a checked access.
    pub(crate) fn begin_transfer(
        self: &Arc<File>,
        wanted: Wanted,
        direction: Direction,
    ) -> Arc<Pending> {
        if self.is_short(&wanted, direction) {
            let (view, packed, data) = wanted;
            return Arc::new(Pending::finished(self.transfer(&view, packed, &data, direction)));
        }
        let run = self.one_run(&wanted, direction);
        self.has_background.store(true, Relaxed);
        let pending = Arc::new(Pending::begin());
        if run.is_some_and(|run| self.begin_by_kernel(run, &pending)) {
            return pending;
        }
        let (file, promise, (view, packed, data)) = (self.clone(), pending.clone(), wanted);
        workers::run(Box::new(move || {
            promise.finish(file.transfer(&view, packed, &data, direction));
        }));
        pending
    }

    /// Returns true if the access costs less than to let another thread carry it out, and waits for
    /// no device and no lock.
    fn is_short(&self, (view, _, data): &Wanted, direction: Direction) -> bool {
        let len = data.buffer.len();
        len <= self.short_bytes()
            && view.pieces_of(len) <= MAX_SHORT_PIECES
            && self.locking(direction) == Locking::Nothing
    }

    /// Returns the most bytes that move faster than another thread begins to work; 0 if the system
    /// may have to wait for a device.
    pub(crate) fn short_bytes(&self) -> u64 {
        if self.is_in_memory() { uring::MAX_INLINE_BYTES as u64 } else { 0 }
    }

    /// Returns the only run of an access; `None` if it has several, or takes more than moving it.
    fn one_run(&self, (view, packed, data): &Wanted, direction: Direction) -> Option<Run> {
        let memory = data.buffer.memory().filter(|memory| !memory.is_empty())?;
        let offset = view.contiguous_at(*packed)?;
        let is_plain = view.datarep.is_native() && self.locking(direction) == Locking::Nothing;
        is_plain.then_some(Run { direction, memory, offset })
    }

    /// Lets the kernel move a run; false if it refuses.
    fn begin_by_kernel(self: &Arc<File>, run: Run, pending: &Arc<Pending>) -> bool {
        let Run { direction, memory, offset } = run;
        let Some((fd, cached_fd)) = self.disk.single_call(direction, offset, memory) else {
            return false;
        };
        if !uring::takes(memory.len(), cached_fd.is_some()) {
            return false;
        }
        uring::start(|| {
            self.disk.count_call(direction);
            let (file, pending, start) = (self.clone(), pending.clone(), Instant::now());
            let on_end = Box::new(move |done, result: std::io::Result<()>| {
                let disk = &file.disk;
                let error = result.map_err(|error| {
                    disk.access_error(direction, offset, (memory.len(), done), &error)
                });
                let (bytes, time) = (done as u64, start.elapsed());
                let access = Access { bytes, pieces: 1, aggregated: false, time };
                file.statistics.add(direction, &access);
                pending.finish(Outcome { bytes, error: error.err() });
            });
            Transfer { direction, fd, cached_fd, memory, offset, on_end }
        })
    }
}
