//! Threads of the library's own run with all signals blocked: handlers belong on the application's
//! threads.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Runs `work` with all signals blocked; a thread that it starts inherits that.
pub fn with_signals_blocked<R>(work: impl FnOnce() -> R) -> R {
    let mut all = MaybeUninit::<libc::sigset_t>::uninit();
    let mut before = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: two sets on this stack; `sigfillset` initialises the first before the second call
    // reads it.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let result = work();
    // SAFETY: `before` was filled by the call above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), std::ptr::null_mut()) };
    result
}
