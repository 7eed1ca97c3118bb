//! The progress thread: it makes progress while the application computes.
//!
//! To the others it is a waiting thread that is never satisfied. As their standby it notices that
//! no thread has made progress for a while. Then it takes the lead, and parks in the kernel until
//! something arrives (see [`leader_followers`](crate::leader_followers)). It costs nothing while
//! nothing arrives. It makes no calls of the state's: these wait for a thread of the application. A
//! process with a progress thread must be multithreaded.

use std::io;

use crate::global_lock::ProcessLock;
use crate::guarded::Guarded;
use crate::signals::with_signals_blocked;
use crate::sync::Ordering;
use crate::waiter;

impl<S: Guarded + Send> ProcessLock<S> {
    /// Makes the lock multithreaded and starts the progress thread, which lives as long as the
    /// process.
    pub fn start_progress_thread(&'static self) -> io::Result<()> {
        self.shared.has_progress_thread.store(true, Ordering::Relaxed);
        self.set_multithreaded(true);
        let thread = std::thread::Builder::new().name("mpi-progress".into());
        with_signals_blocked(|| thread.spawn(move || waiter::attend(self))).map(drop)
    }
}
