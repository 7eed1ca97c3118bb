//! Operations that closures compute.
//!
//! MPI calls a function without data of the program's, so a closure needs a function of its own
//! that finds it. There is a pool of [`SLOTS`] such functions, each with a slot for its closure.
//!
//! States of a slot: free, with a null pointer; taken, with a pointer to the closure, from
//! [`UserOperation::new`] until the operation is dropped.
//!
//! Invariant: while MPI can call the function of a slot, the slot is taken. The operation is freed
//! before its slot. A call that computes it borrows the [`UserOperation`], and so does a request
//! until it is complete; therefore no computation is under way when it is dropped. An operation
//! that is forgotten keeps its slot, and nothing refers to its handle any more.

#![allow(unsafe_code)]

use std::os::raw::{c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};
use std::{fmt, ptr};

use super::Operation;
use super::operation::free;
use crate::datatype::{DatatypeRef, DynBuffer, DynBufferMut};
use crate::error::call;
use crate::ffi::{self, MPI_Count, MPI_Datatype, MPI_Op};
use crate::raw::{AsRaw, FromRaw as _};

/// The number of closures that can be operations at the same time.
const SLOTS: usize = 64;

/// A closure, in a box so that a slot is one pointer.
struct Closure<'a>(Box<dyn Fn(DynBuffer<'_>, DynBufferMut<'_>) + Sync + 'a>);

/// The closure of each function of [`TRAMPOLINES`].
static POOL: [AtomicPtr<Closure<'static>>; SLOTS] =
    [const { AtomicPtr::new(ptr::null_mut()) }; SLOTS];

/// Calls the closure of slot `N` with the buffers of a reduction. A panic ends the process, since
/// it cannot leave a function of C.
unsafe extern "C" fn trampoline<const N: usize>(
    first: *mut c_void,
    second: *mut c_void,
    len: *mut MPI_Count,
    datatype: *mut MPI_Datatype,
) {
    // Acquire: pairs with the release by which `Slot::take` published the closure.
    let closure = POOL[N].load(Ordering::Acquire);
    // SAFETY: the slot is taken while MPI can call this function, and its closure lives meanwhile.
    // Closures are `Sync`, so any thread may call it. MPI passes a valid number and datatype, and
    // buffers of that many elements, of which nothing else uses the second.
    unsafe {
        let (len, datatype) = (*len, DatatypeRef::from_raw(*datatype));
        let first = DynBuffer::with_count(dangling_if_null(first), len, datatype);
        let second = DynBufferMut::with_count(dangling_if_null(second), len, datatype);
        ((*closure).0)(first, second);
    }
}

/// Returns an address that a slice can have. That of a buffer without elements may be null.
fn dangling_if_null(pointer: *mut c_void) -> *mut c_void {
    if pointer.is_null() { ptr::without_provenance_mut(align_of::<u128>()) } else { pointer }
}

macro_rules! trampolines {
    ($($slot:literal)*) => { [$(trampoline::<$slot>),*] };
}

/// The function of each slot.
#[rustfmt::skip]
static TRAMPOLINES: [ffi::MPI_User_function_c; SLOTS] = trampolines![
     0  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
];

/// A slot that is taken. It is freed, with its closure, when the value is dropped.
struct Slot<'a> {
    index: usize,
    closure: *mut Closure<'a>,
}

impl<'a> Slot<'a> {
    /// Puts a closure in a free slot.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    fn take(closure: Closure<'a>) -> Slot<'a> {
        let closure = Box::into_raw(Box::new(closure));
        // The slot forgets how long the closure lives; the value does not.
        let forgetful: *mut Closure<'static> = closure.cast();
        let index = POOL.iter().position(|slot| {
            // Release: the thread that MPI calls the closure in sees it whole. Acquire: the slot's
            // closure before was dropped.
            let (free, taken) = (Ordering::AcqRel, Ordering::Relaxed);
            slot.compare_exchange(ptr::null_mut(), forgetful, free, taken).is_ok()
        });
        let Some(index) = index else {
            // SAFETY: the pointer is that of a box, and in no slot.
            drop(unsafe { Box::from_raw(closure) });
            panic!(
                "all {SLOTS} functions for closures are in use: drop a UserOperation, or keep one \
                 for all reductions of its kind; an UnsafeUserOperation needs none of them"
            );
        };
        Slot { index, closure }
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // Release: the closure is used no more before the slot is taken again.
        POOL[self.index].store(ptr::null_mut(), Ordering::Release);
        // SAFETY: the pointer is that of a box, and was in this slot only.
        drop(unsafe { Box::from_raw(self.closure) });
    }
}

/// Any value. Only its drop matters.
trait Anchor {}

impl<T> Anchor for T {}

/// An operation that a closure computes (MPI-5.0 §6.9.5). It is freed when it is dropped.
///
/// A reference to it is an [`Operation`]. There can be 64 operations of closures at a time.
///
/// ```no_run
/// use mpi::collective::UserOperation;
/// use mpi::traits::*;
///
/// let universe = mpi::initialize().unwrap();
/// let world = universe.world();
/// let longest = UserOperation::commutative(|new, result| {
///     let (new, result) = (new.downcast::<f64>().unwrap(), result.downcast::<f64>().unwrap());
///     for (new, result) in new.iter().zip(result) {
///         *result = result.abs().max(new.abs());
///     }
/// });
/// let mut result = 0.0;
/// world.all_reduce_into(&-3.5, &mut result, &longest);
/// ```
///
/// An operation outlives the scope of the requests that use it:
///
/// ```compile_fail,E0597
/// # use mpi::collective::UserOperation;
/// # use mpi::traits::*;
/// # let universe = mpi::initialize().unwrap();
/// # let world = universe.world();
/// let (value, mut result) = (1, 0);
/// mpi::request::scope(|scope| {
///     let operation = UserOperation::commutative(|_, _| ());
///     world.immediate_all_reduce_into(scope, &value, &mut result, &operation).wait();
/// });
/// ```
pub struct UserOperation<'a> {
    op: MPI_Op,
    /// Dropped after the operation is freed.
    _anchor: Box<dyn Anchor + 'a>,
}

impl<'a> UserOperation<'a> {
    /// Makes an operation that is associative, but not commutative. See [`new`](Self::new).
    #[track_caller]
    pub fn associative<F>(function: F) -> Self
    where
        F: Fn(DynBuffer<'_>, DynBufferMut<'_>) + Sync + 'a,
    {
        Self::new(false, function)
    }

    /// Makes an operation that is associative and commutative. See [`new`](Self::new).
    #[track_caller]
    pub fn commutative<F>(function: F) -> Self
    where
        F: Fn(DynBuffer<'_>, DynBufferMut<'_>) + Sync + 'a,
    {
        Self::new(true, function)
    }

    /// Makes an operation that is associative, and commutative if `commute` says so
    /// (MPI-5.0 §6.9.5).
    ///
    /// The closure gets two buffers with the same number of elements of the same datatype. It
    /// combines each element of the first with that of the second, and writes the result in the
    /// second. The elements of the first come from lower ranks. If the closure panics, the process
    /// ends. It must not communicate (MPI-5.0 §6.9.5): ranks call it at different times, and not
    /// equally often.
    ///
    /// # Panics
    /// If there are 64 operations of closures.
    #[track_caller]
    pub fn new<F>(commute: bool, function: F) -> Self
    where
        F: Fn(DynBuffer<'_>, DynBufferMut<'_>) + Sync + 'a,
    {
        let slot = Slot::take(Closure(Box::new(function)));
        let mut op = ffi::MPI_OP_NULL;
        // SAFETY: the function has the declaration of the standard, and its slot is taken until the
        // operation is freed.
        unsafe {
            let function = TRAMPOLINES[slot.index];
            call!(MPI_Op_create_c(Some(function), c_int::from(commute), &mut op));
        }
        UserOperation { op, _anchor: Box::new(slot) }
    }

    /// Takes over an operation that was made otherwise, with a value to drop after it is freed.
    ///
    /// # Safety
    /// The operation is valid, made by the program, and belongs to the result. It can be computed
    /// on all buffers for which it is used as long as `anchor` lives.
    pub unsafe fn from_raw<T: 'a>(op: MPI_Op, anchor: Box<T>) -> Self {
        UserOperation { op, _anchor: anchor }
    }
}

impl Drop for UserOperation<'_> {
    fn drop(&mut self) {
        free(self.op);
    }
}

impl fmt::Debug for UserOperation<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("UserOperation").field(&self.op).finish()
    }
}

// SAFETY: the operation is valid until it is dropped.
unsafe impl AsRaw for UserOperation<'_> {
    type Raw = MPI_Op;

    fn as_raw(&self) -> Self::Raw {
        self.op
    }
}

impl Operation for &UserOperation<'_> {}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Tests share the pool.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    fn sum(values: &Mutex<i32>) -> Slot<'_> {
        Slot::take(Closure(Box::new(|first, second| {
            let (first, second) = (first.downcast::<i32>().unwrap(), second.downcast::<i32>());
            for (first, second) in first.iter().zip(second.unwrap()) {
                *second += first;
                *values.lock().unwrap() += 1;
            }
        })))
    }

    fn call(slot: &Slot<'_>, first: &mut [i32], second: &mut [i32]) {
        let (mut len, mut datatype) = (first.len() as MPI_Count, ffi::MPI_INT32_T);
        let (first, second) = (first.as_mut_ptr().cast(), second.as_mut_ptr().cast());
        // SAFETY: the slot is taken, and both arrays have that many elements.
        unsafe { TRAMPOLINES[slot.index](first, second, &mut len, &mut datatype) };
    }

    #[test]
    fn a_function_calls_the_closure_of_its_slot() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|error| error.into_inner());
        let calls = [const { Mutex::new(0) }; SLOTS];
        let slots: Vec<_> = calls.iter().map(sum).collect();
        let mut result = [10, 20];
        for slot in &slots {
            call(slot, &mut [1, 2], &mut result);
        }
        assert_eq!(result, [10 + SLOTS as i32, 20 + 2 * SLOTS as i32]);
        assert!(calls.iter().all(|calls| *calls.lock().unwrap() == 2));
    }

    #[test]
    fn a_slot_is_taken_again_once_it_is_free() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|error| error.into_inner());
        let calls = Mutex::new(0);
        let mut slots: Vec<_> = (0..SLOTS).map(|_| sum(&calls)).collect();
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sum(&calls)));
        let text = *refused.err().unwrap().downcast::<String>().unwrap();
        assert!(text.contains("all 64 functions for closures are in use"), "{text}");
        assert_eq!(slots.remove(17).index, 17);
        assert_eq!(sum(&calls).index, 17);
    }

    #[test]
    fn a_buffer_without_elements_has_an_address() {
        let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(|error| error.into_inner());
        let calls = Mutex::new(0);
        let (slot, mut len, mut datatype) = (sum(&calls), 0, ffi::MPI_INT32_T);
        let null = ptr::null_mut();
        // SAFETY: the slot is taken, and there are no elements.
        unsafe { TRAMPOLINES[slot.index](null, null, &mut len, &mut datatype) };
        assert_eq!(*calls.lock().unwrap(), 0);
    }
}
