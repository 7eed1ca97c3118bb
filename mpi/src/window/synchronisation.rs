//! Opening and closing epochs and locks, in one place, so that each that is opened is closed.
//!
//! A failure to close is the end of the program: MPI could go on to use buffers that the caller
//! gets back.

#![allow(unsafe_code)]

use std::os::raw::{c_int, c_void};
use std::process;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::Rank;
use crate::error::{MpiError, call, try_call};
use crate::ffi::{self, MPI_Comm, MPI_Group, MPI_Win};

/// How ranks synchronise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Synchronisation {
    /// Two fences.
    Fence,
    /// The memory is exposed to the first group; this rank accesses that of the second.
    Groups(MPI_Group, MPI_Group),
    /// A lock of this type on one rank.
    Lock(c_int, Rank),
    /// A shared lock on each rank.
    LockAll,
}

/// An open epoch or lock, closed when it is dropped.
#[derive(Debug)]
pub(super) struct Open {
    handle: MPI_Win,
    synchronisation: Synchronisation,
}

/// The number of epochs and locks that are open.
static OPEN: AtomicUsize = AtomicUsize::new(0);
/// Whether MPI is finalized, or about to be: memory of windows is gone.
static IS_FINALIZED: AtomicBool = AtomicBool::new(false);

impl Open {
    /// Begins an epoch, or takes a lock.
    ///
    /// # Panics
    /// If MPI is finalized.
    pub(super) fn new(handle: MPI_Win, synchronisation: Synchronisation) -> Open {
        // Relaxed, as below: a window belongs to one thread, and the thread that finalizes MPI does
        // so after all use of it.
        assert!(!IS_FINALIZED.load(Ordering::Relaxed), "a window is used after MPI was finalized");
        // SAFETY: the handle is that of a window, and the groups are valid.
        unsafe {
            match synchronisation {
                Synchronisation::Fence => call!(MPI_Win_fence(ffi::MPI_MODE_NOPRECEDE, handle)),
                Synchronisation::Groups(origins, targets) => {
                    call!(MPI_Win_post(origins, 0, handle));
                    call!(MPI_Win_start(targets, 0, handle));
                }
                Synchronisation::Lock(kind, rank) => call!(MPI_Win_lock(kind, rank, 0, handle)),
                Synchronisation::LockAll => call!(MPI_Win_lock_all(0, handle)),
            }
        }
        OPEN.fetch_add(1, Ordering::Relaxed);
        Open { handle, synchronisation }
    }

    fn close(&self) -> Result<(), MpiError> {
        let handle = self.handle;
        // SAFETY: the handle is that of a window on which this was opened.
        unsafe {
            match self.synchronisation {
                Synchronisation::Fence => {
                    try_call!(MPI_Win_fence(ffi::MPI_MODE_NOSUCCEED, handle))
                }
                Synchronisation::Groups(..) => try_call!(MPI_Win_complete(handle))
                    .and_then(|()| try_call!(MPI_Win_wait(handle))),
                Synchronisation::Lock(_, rank) => try_call!(MPI_Win_unlock(rank, handle)),
                Synchronisation::LockAll => try_call!(MPI_Win_unlock_all(handle)),
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        expect_completed(self.close());
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Ends the program if operations could not be completed: they may still use their buffers.
#[inline]
pub(super) fn expect_completed(completed: Result<(), MpiError>) {
    if let Err(error) = completed {
        abort(&error.to_string());
    }
}

#[cold]
fn abort(reason: &str) -> ! {
    eprintln!("{reason}\nOperations of a window may still use their buffers: the program ends.");
    process::abort();
}

/// Has MPI_Finalize end the program while epochs or guards are open, as they refer to memory that
/// MPI then frees.
pub(super) fn watch_finalize() {
    static WATCHES: Once = Once::new();
    WATCHES.call_once(|| {
        let on_delete: unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void, *mut c_void) -> c_int =
            expect_none_open;
        let on_delete = ffi::MPI_Comm_delete_attr_function(on_delete as usize);
        let mut key = 0;
        let none = ptr::null_mut();
        // SAFETY: the functions have the types that MPI expects, and use none of the pointers.
        unsafe {
            let never_copied = ffi::MPI_COMM_NULL_COPY_FN;
            call!(MPI_Comm_create_keyval(never_copied, on_delete, &mut key, none));
            call!(MPI_Comm_set_attr(ffi::MPI_COMM_SELF, key, none));
        }
    });
}

/// Runs at the start of MPI_Finalize, which first frees MPI_COMM_SELF (MPI-5.0 §11.2.4).
unsafe extern "C" fn expect_none_open(
    _: MPI_Comm,
    _: c_int,
    _: *mut c_void,
    _: *mut c_void,
) -> c_int {
    if OPEN.load(Ordering::Relaxed) > 0 {
        abort("MPI is finalized in an epoch of a window, or while its memory is borrowed.");
    }
    IS_FINALIZED.store(true, Ordering::Relaxed);
    ffi::MPI_SUCCESS
}
