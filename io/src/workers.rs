//! The threads that nonblocking accesses run on.
//!
//! Threads are made when there is more work than idle threads, up to [`MAX_THREADS`], and end when
//! they have been idle for [`IDLE_TIME`]. All signals are blocked in them, so that a program's
//! handlers run on its own threads.

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most threads of the pool.
const MAX_THREADS: usize = 4;
/// How long an idle thread waits for work.
const IDLE_TIME: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

struct Pool {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
}

static POOL: Mutex<Pool> = Mutex::new(Pool { jobs: VecDeque::new(), threads: 0, idle: 0 });
static WORK: Condvar = Condvar::new();

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a job on a thread of the pool, or here if the system refuses the first thread.
pub(crate) fn run(job: Job) {
    let mut pool = pool();
    pool.jobs.push_back(job);
    if pool.jobs.len() > pool.idle && pool.threads < MAX_THREADS {
        match spawn() {
            Ok(()) => pool.threads += 1,
            Err(_) if pool.threads == 0 => {
                let job = pool.jobs.pop_back();
                drop(pool);
                job.into_iter().for_each(|job| job());
                return;
            }
            Err(_) => {}
        }
    }
    drop(pool);
    WORK.notify_one();
}

/// Starts a thread that takes no signals.
fn spawn() -> std::io::Result<()> {
    // SAFETY: all zeros are a valid set, which the calls fill.
    let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
    // SAFETY: valid sets. A new thread inherits the mask of the thread that makes it.
    unsafe {
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &mut before);
    }
    let made = std::thread::Builder::new().name("mpi-io".to_owned()).spawn(work);
    // SAFETY: the mask that the thread had before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    made.map(|_| ())
}

fn work() {
    let mut pool = pool();
    loop {
        while let Some(job) = pool.jobs.pop_front() {
            drop(pool);
            job();
            pool = self::pool();
        }
        pool.idle += 1;
        let (next, waited) =
            WORK.wait_timeout(pool, IDLE_TIME).unwrap_or_else(PoisonError::into_inner);
        pool = next;
        pool.idle -= 1;
        if waited.timed_out() && pool.jobs.is_empty() {
            pool.threads -= 1;
            return;
        }
    }
}
