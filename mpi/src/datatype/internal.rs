//! What the code of `derive(Equivalence)` calls. It is no part of the interface.
//!
//! States of a derived datatype: not made; made and cached, at the first use; freed, when MPI is
//! finalized. MPI_Finalize first deletes the attributes of MPI_COMM_SELF (MPI-5.0 §11.2.4), and an
//! attribute of ours then frees the datatypes.

#![allow(unsafe_code)]

use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::owner::construct;
use super::{DatatypeRef, UncommittedDatatype, UncommittedDatatypeRef, UncommittedUserDatatype};
use crate::environment::{Threading, is_finalized, is_initialized, threading_support};
use crate::error::call;
use crate::ffi::{self, MPI_Comm, MPI_Count, MPI_Datatype};
use crate::raw::traits::*;

/// The datatypes to free. The attribute exists once there is one.
static MADE: Mutex<Vec<MPI_Datatype>> = Mutex::new(Vec::new());
/// Whether they were freed.
static FREED: AtomicBool = AtomicBool::new(false);

/// The datatype of one structure.
#[derive(Debug)]
pub struct Cached(OnceLock<MPI_Datatype>);

impl Cached {
    /// Returns the cache before the datatype is made.
    #[allow(clippy::new_without_default, reason = "a static needs a const function")]
    pub const fn new() -> Self {
        Cached(OnceLock::new())
    }

    /// Returns the datatype of the structure `name`, which `make` describes at the first call.
    ///
    /// # Panics
    /// If MPI is not initialized or was finalized. If the call would make the datatype and this
    /// thread must not call MPI.
    #[inline]
    pub fn datatype(
        &self,
        name: &str,
        make: impl FnOnce() -> UncommittedUserDatatype,
    ) -> DatatypeRef<'static> {
        let handle = *self.0.get_or_init(|| {
            check_state(name);
            keep(make())
        });
        // Relaxed: a program that finalizes MPI sees to it that no thread uses MPI meanwhile.
        if FREED.load(Ordering::Relaxed) {
            after_finalize(name);
        }
        // SAFETY: the datatype is committed, and freed when MPI is finalized, after which no call
        // takes a datatype.
        unsafe { DatatypeRef::from_raw(handle) }
    }
}

/// Panics unless this thread can make a datatype now.
fn check_state(name: &str) {
    assert!(
        is_initialized(),
        "{name} has no MPI datatype before MPI is initialized: call mpi::initialize() first"
    );
    if is_finalized() {
        after_finalize(name);
    }
    let mut main = 0;
    // SAFETY: MPI is initialized; any thread can call the function.
    unsafe { call!(MPI_Is_thread_main(&mut main)) };
    assert!(
        threading_support() == Threading::Multiple || main != 0,
        "the datatype of {name} cannot be made by this thread: call \
         {name}::equivalent_datatype() first in the thread that initialized MPI, or initialize MPI \
         with mpi::Threading::Multiple"
    );
}

#[cold]
fn after_finalize(name: &str) -> ! {
    panic!(
        "{name} has no MPI datatype after MPI was finalized: drop the universe after its last use"
    )
}

/// Commits a datatype that is freed when MPI is finalized.
fn keep(datatype: UncommittedUserDatatype) -> MPI_Datatype {
    let datatype = datatype.commit();
    let handle = datatype.as_raw();
    std::mem::forget(datatype);
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if made.is_empty() {
        free_at_finalize();
    }
    made.push(handle);
    handle
}

/// Gives MPI_COMM_SELF an attribute that frees the datatypes when it is deleted.
fn free_at_finalize() {
    let mut keyval = ffi::MPI_KEYVAL_INVALID;
    // SAFETY: the callback has the type that its declaration in C demands, and no state. The
    // attribute outlives its key, which is freed only after the last attribute.
    unsafe {
        call!(MPI_Comm_create_keyval(
            ffi::MPI_COMM_NULL_COPY_FN,
            ffi::MPI_Comm_delete_attr_function(delete as *const () as usize),
            &mut keyval,
            ptr::null_mut(),
        ));
        call!(MPI_Comm_set_attr(ffi::MPI_COMM_SELF, keyval, ptr::null_mut()));
        call!(MPI_Comm_free_keyval(&mut keyval));
    }
}

/// Frees the datatypes.
unsafe extern "C" fn delete(_: MPI_Comm, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
    FREED.store(true, Ordering::Relaxed);
    for mut datatype in MADE.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
        // SAFETY: the datatype was kept to be freed here, and MPI still works.
        let code = unsafe { ffi::MPI_Type_free(&mut datatype) };
        if code != ffi::MPI_SUCCESS {
            return code;
        }
    }
    ffi::MPI_SUCCESS
}

/// Returns a reference to a field's datatype.
pub fn field<D: UncommittedDatatype>(datatype: &D) -> UncommittedDatatypeRef<'_> {
    // SAFETY: the datatype lives while it is borrowed.
    unsafe { UncommittedDatatypeRef::from_raw(datatype.as_raw()) }
}

/// Makes the datatype of a structure or tuple of `size` bytes with fields at these offsets.
pub fn structure(
    size: usize,
    fields: &[(usize, UncommittedDatatypeRef<'_>)],
) -> UncommittedUserDatatype {
    let displacements: Vec<_> = fields.iter().map(|&(offset, _)| offset as MPI_Count).collect();
    let types: Vec<_> = fields.iter().map(|(_, datatype)| datatype.as_raw()).collect();
    let fields = construct!(MPI_Type_create_struct_c(
        fields.len() as MPI_Count,
        vec![1; fields.len()].as_ptr(),
        displacements.as_ptr(),
        types.as_ptr(),
    ));
    with_size(fields, size)
}

/// Makes a datatype with the elements of `datatype` whose extent is `size` bytes.
///
/// MPI only guesses the padding at the end of a structure.
fn with_size(datatype: UncommittedUserDatatype, size: usize) -> UncommittedUserDatatype {
    if datatype.extent() == (0, size as MPI_Count) {
        return datatype;
    }
    construct!(MPI_Type_create_resized_c(datatype.as_raw(), 0, size as MPI_Count))
}

/// Makes the datatype of an array.
pub fn array<D: UncommittedDatatype>(len: usize, element: &D) -> UncommittedUserDatatype {
    construct!(MPI_Type_contiguous_c(len as MPI_Count, element.as_raw()))
}
