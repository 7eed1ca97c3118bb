//! Starting and ending MPI, and questions about the environment: threads, versions, names, time.
//!
//! States of MPI in a process: not initialised; initialised, as long as the [`Universe`] lives;
//! finalised, for the rest of the process. [`LIFECYCLE`] is locked across both
//! changes. Therefore a thread that holds it for reading sees no change.

#![allow(unsafe_code)]

use std::os::raw::{c_double, c_int, c_void};
use std::ptr;
use std::string::FromUtf8Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

pub(crate) use self::state::{frees_objects, is_finalized, is_initialized};
use crate::attribute::{self, AppNum, UniverseSize};
use crate::error::call;
use crate::ffi::{self, written};
use crate::topology::SimpleCommunicator;
use crate::topology::traits::*;

mod state;

/// The exit code of a job in which a rank panicked: that of a Rust program that panics.
const PANIC_EXIT_CODE: c_int = 101;

/// Held while MPI is initialised or finalised.
static LIFECYCLE: Mutex<()> = Mutex::new(());

fn lock_lifecycle() -> MutexGuard<'static, ()> {
    // It guards no data that a panic could leave half-written.
    LIFECYCLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// MPI, initialised. It is finalised when this value is dropped.
///
/// Values of this crate that own objects of MPI are dropped before it. Otherwise their objects are
/// not freed.
///
/// If the thread panics while it drops this value, the job is aborted with the exit code 101:
/// MPI_Finalize would wait for ranks that wait for this one.
pub struct Universe {
    buffer: Option<Vec<u8>>,
}

impl Universe {
    /// Returns MPI_COMM_WORLD, the communicator of all processes that started together
    /// (MPI-5.0 §7.4.1).
    pub fn world(&self) -> SimpleCommunicator {
        SimpleCommunicator::world()
    }

    /// Returns how many processes the environment has room for, if it says so
    /// (MPI-5.0 §11.10.1). The world may have fewer, or more.
    pub fn size(&self) -> Option<usize> {
        self.world()
            .get_attr::<UniverseSize>()
            .map(|size| usize::try_from(size).expect("the library gives a negative universe size"))
    }

    /// Returns the number of this process's application within the command line of `mpiexec` or
    /// the call that spawned it, counted from 0 (MPI-5.0 §11.10.3).
    pub fn appnum(&self) -> Option<isize> {
        self.world().get_attr::<AppNum>().map(isize::from)
    }

    /// Returns the size of the buffer for buffered sends, in bytes.
    pub fn buffer_size(&self) -> usize {
        self.buffer.as_ref().map_or(0, Vec::len)
    }

    /// Replaces the buffer for buffered sends by one of `size` bytes (MPI-5.0 §3.6). The call waits
    /// until all messages have left the buffer before. With 0 there is no buffer.
    ///
    /// Each message takes MPI_BSEND_OVERHEAD bytes ([`crate::ffi::MPI_BSEND_OVERHEAD`]) on top of
    /// its data.
    pub fn set_buffer_size(&mut self, size: usize) {
        self.detach_buffer();
        if size == 0 {
            return;
        }
        let mut buffer = vec![0_u8; size];
        // SAFETY: the buffer's memory does not move with the vector, and stays until
        // `detach_buffer` has taken it from MPI.
        unsafe { call!(MPI_Buffer_attach_c(buffer.as_mut_ptr().cast(), size as ffi::MPI_Count)) };
        self.buffer = Some(buffer);
    }

    /// Removes the buffer for buffered sends (MPI-5.0 §3.6). The call waits until all messages have
    /// left it.
    pub fn detach_buffer(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        let mut address: *mut c_void = ptr::null_mut();
        let mut size: ffi::MPI_Count = 0;
        // SAFETY: the address is written where the first argument points. MPI does not use the
        // buffer after the call, which is dropped after it.
        unsafe { call!(MPI_Buffer_detach_c((&raw mut address).cast(), &mut size)) };
        debug_assert_eq!((address.cast(), size), (buffer.as_ptr().cast_mut(), buffer.len() as i64));
    }

    /// Disconnects from the processes that spawned this one, if there are any (MPI-5.0 §11.8.2,
    /// §11.10.4). The call waits until the other side disconnects. It is part of dropping the
    /// universe.
    ///
    /// Values of [`Communicator::parent`] must not be used after it.
    pub fn disconnect_parent(&mut self) {
        let mut parent = ffi::MPI_COMM_NULL;
        // SAFETY: MPI is initialised. A communicator that MPI_Comm_get_parent returns is connected;
        // it returns MPI_COMM_NULL after that.
        unsafe {
            call!(MPI_Comm_get_parent(&mut parent));
            if parent != ffi::MPI_COMM_NULL {
                call!(MPI_Comm_disconnect(&mut parent));
            }
        }
    }
}

impl Drop for Universe {
    fn drop(&mut self) {
        if is_finalized() {
            // By code in another language, which has done all of this.
            return;
        }
        if thread::panicking() {
            abort_after_panic();
        }
        let _lifecycle = lock_lifecycle();
        self.detach_buffer();
        self.disconnect_parent();
        attribute::free_keys();
        // SAFETY: MPI is initialised, and there is one universe in a process.
        unsafe { call!(MPI_Finalize()) };
    }
}

/// Ends the job, as one of its ranks panicked.
fn abort_after_panic() -> ! {
    let world = SimpleCommunicator::world();
    eprintln!("rank {} panicked: aborting the job", world.rank());
    world.abort(PANIC_EXIT_CODE)
}

/// How threads of a process may call MPI (MPI-5.0 §11.6).
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Threading {
    /// The process has one thread.
    Single,
    /// Only the thread that initialised MPI calls it.
    Funneled,
    /// Any thread calls MPI, but no two at the same time.
    Serialized,
    /// Any thread calls MPI at any time.
    Multiple,
}

impl Threading {
    fn as_raw(self) -> c_int {
        match self {
            Threading::Single => ffi::MPI_THREAD_SINGLE,
            Threading::Funneled => ffi::MPI_THREAD_FUNNELED,
            Threading::Serialized => ffi::MPI_THREAD_SERIALIZED,
            Threading::Multiple => ffi::MPI_THREAD_MULTIPLE,
        }
    }
}

impl From<c_int> for Threading {
    /// Panics unless the number is one of the MPI_THREAD constants.
    fn from(level: c_int) -> Threading {
        match level {
            ffi::MPI_THREAD_SINGLE => Threading::Single,
            ffi::MPI_THREAD_FUNNELED => Threading::Funneled,
            ffi::MPI_THREAD_SERIALIZED => Threading::Serialized,
            ffi::MPI_THREAD_MULTIPLE => Threading::Multiple,
            _ => panic!("unknown thread level {level}"),
        }
    }
}

/// Initialises MPI for a process with one thread (MPI-5.0 §11.2.1).
///
/// Returns `None` if MPI was initialised before. Equals `initialize_with_threading` with
/// [`Threading::Single`].
///
/// # Panics
/// If no MPI library is found. The text says where it was sought.
pub fn initialize() -> Option<Universe> {
    initialize_with_threading(Threading::Single).map(|(universe, _)| universe)
}

/// Initialises MPI for a use by threads (MPI-5.0 §11.2.1), and returns the level that the library
/// provides, which may be another.
///
/// Returns `None` if MPI was initialised before.
///
/// # Panics
/// If no MPI library is found. The text says where it was sought.
pub fn initialize_with_threading(threading: Threading) -> Option<(Universe, Threading)> {
    // Locked before the question, or two threads could both initialise.
    let lifecycle = lock_lifecycle();
    if let Err(error) = ffi::open() {
        drop(lifecycle);
        panic!("{error}");
    }
    if is_initialized() {
        return None;
    }
    let mut provided = 0;
    // SAFETY: MPI is not initialised, and no other thread of this crate does it now. Null stands
    // for no arguments.
    unsafe {
        call!(MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), threading.as_raw(), &mut provided));
    }
    Some((Universe { buffer: None }, provided.into()))
}

/// Returns how threads may call MPI (MPI-5.0 §11.6). MPI must be initialised.
pub fn threading_support() -> Threading {
    let mut level = 0;
    // SAFETY: the library checks that MPI is initialised.
    unsafe { call!(MPI_Query_thread(&mut level)) };
    level.into()
}

/// Returns the version of the standard that the library implements: `(5, 0)` is MPI 5.0
/// (MPI-5.0 §9.1.1). MPI need not be initialised.
pub fn version() -> (c_int, c_int) {
    let (mut version, mut subversion) = (0, 0);
    // SAFETY: the call is allowed at any time.
    unsafe { call!(MPI_Get_version(&mut version, &mut subversion)) };
    (version, subversion)
}

/// Returns the library's description of itself (MPI-5.0 §9.1.1). MPI need not be initialised.
///
/// # Errors
/// If the text is not UTF-8.
pub fn library_version() -> Result<String, FromUtf8Error> {
    // SAFETY: the function writes no more than the constant says, and is allowed at any time.
    let text = unsafe {
        written(ffi::MPI_MAX_LIBRARY_VERSION_STRING, |text, len| {
            call!(MPI_Get_library_version(text, len));
        })
    };
    String::from_utf8(text)
}

/// Returns the name of the machine that this process runs on (MPI-5.0 §9.1.2).
///
/// # Errors
/// If the name is not UTF-8.
pub fn processor_name() -> Result<String, FromUtf8Error> {
    // SAFETY: the function writes no more than the constant says.
    let name = unsafe {
        written(ffi::MPI_MAX_PROCESSOR_NAME, |text, len| {
            call!(MPI_Get_processor_name(text, len));
        })
    };
    String::from_utf8(name)
}

/// Returns the seconds since a moment in the past that stays the same while the process lives
/// (MPI-5.0 §9.6).
pub fn time() -> c_double {
    // SAFETY: the call reads a clock.
    unsafe { ffi::MPI_Wtime() }
}

/// Returns the seconds between two ticks of the clock of [`time`] (MPI-5.0 §9.6).
pub fn time_resolution() -> c_double {
    // SAFETY: the call reads a constant.
    unsafe { ffi::MPI_Wtick() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_levels_are_ordered_and_survive_the_way_through_c() {
        let levels =
            [Threading::Single, Threading::Funneled, Threading::Serialized, Threading::Multiple];
        assert!(levels.is_sorted());
        for level in levels {
            assert_eq!(Threading::from(level.as_raw()), level);
        }
    }

    #[test]
    #[should_panic(expected = "unknown thread level 7")]
    fn an_unknown_thread_level_panics() {
        let _ = Threading::from(7);
    }
}
