//! Attributes (MPI-5.0 §7.7, §19.3.7).
//!
//! Fortran's values are integers, C's are pointers. A value that Fortran sets is stored in memory
//! of its own, and C gets the address of it. Addresses of that memory are known, so that Fortran
//! gets its integer back. A value that C has set is read in Fortran as the pointer's bits. The
//! memory is freed when the attribute of a Fortran keyval is deleted.

use std::collections::{HashMap, HashSet};
use std::mem::transmute;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::prelude::*;
use crate::target::{self, Predefined};

/// Addresses of values that Fortran has set.
static VALUES: LazyLock<Mutex<HashSet<usize>>> = LazyLock::new(Mutex::default);

fn values() -> MutexGuard<'static, HashSet<usize>> {
    VALUES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Stores Fortran's value; returns what C gets.
fn store(value: i64) -> *mut c_void {
    let address = Box::into_raw(Box::new(value));
    values().insert(address.expose_provenance());
    address.cast()
}

/// Fortran's value of what C has.
fn load(pointer: *mut c_void) -> i64 {
    match values().contains(&pointer.addr()) {
        // SAFETY: an address in the set is a live value.
        true => unsafe { *pointer.cast::<i64>() },
        false => pointer.addr() as i64,
    }
}

/// Frees a value, if Fortran has set it.
fn forget(pointer: *mut c_void) {
    if values().remove(&pointer.addr()) {
        // SAFETY: it was made by `store`, and is out of the set.
        drop(unsafe { Box::from_raw(pointer.cast::<i64>()) });
    }
}

/// What a keyval's functions need. Equal ones are made once, and kept: an attribute may outlive its
/// keyval.
struct Keyval {
    copy: *const c_void,
    delete: *const c_void,
    extra_state: i64,
}

/// Both procedures and the extra state.
type Contents = (usize, usize, i64);

/// Addresses of keyvals by their contents.
static KEYVALS: LazyLock<Mutex<HashMap<Contents, usize>>> = LazyLock::new(Mutex::default);

fn keyval(copy: *const c_void, delete: *const c_void, extra_state: i64) -> *mut c_void {
    let mut known = KEYVALS.lock().unwrap_or_else(PoisonError::into_inner);
    let address = *known.entry((copy.addr(), delete.addr(), extra_state)).or_insert_with(|| {
        Box::into_raw(Box::new(Keyval { copy, delete, extra_state })).expose_provenance()
    });
    std::ptr::with_exposed_provenance_mut(address)
}

type Copy = unsafe extern "C" fn(
    *mut c_int,
    *mut c_int,
    *mut i64,
    *mut i64,
    *mut i64,
    *mut c_int,
    *mut c_int,
);
type Delete = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut i64, *mut i64, *mut c_int);

unsafe extern "C" fn copy<H: Handle>(
    object: H,
    mut number: c_int,
    extra_state: *mut c_void,
    value_in: *mut c_void,
    value_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let mut object = object.to_fortran();
    let (mut value, mut copied, mut is_copied, mut error) = (load(value_in), 0_i64, 0, 0);
    // SAFETY: `extra_state` is a keyval of ours, with a procedure of this type.
    unsafe {
        let state = extra_state.cast::<Keyval>();
        let procedure: Copy = transmute((*state).copy);
        procedure(
            &raw mut object,
            &raw mut number,
            &raw mut (*state).extra_state,
            &raw mut value,
            &raw mut copied,
            &raw mut is_copied,
            &raw mut error,
        );
        *flag = from_logical(is_copied);
        if error == SUCCESS && is_copied != 0 {
            *value_out.cast::<*mut c_void>() = store(copied);
        }
    }
    error
}

unsafe extern "C" fn delete<H: Handle>(
    object: H,
    mut number: c_int,
    pointer: *mut c_void,
    extra_state: *mut c_void,
) -> c_int {
    let (mut object, mut value, mut error) = (object.to_fortran(), load(pointer), 0);
    // SAFETY: `extra_state` is a keyval of ours, with a procedure of this type.
    unsafe {
        let state = extra_state.cast::<Keyval>();
        let procedure: Delete = transmute((*state).delete);
        procedure(
            &raw mut object,
            &raw mut number,
            &raw mut value,
            &raw mut (*state).extra_state,
            &raw mut error,
        );
    }
    if error == SUCCESS {
        forget(pointer);
    }
    error
}

macro_rules! create_keyvals {
    ($($body:ident, $class:ident, $state:ty, $call:ident, $profiled:ident;)*) => {
        $(
            pub(crate) unsafe fn $body<const P: bool>(
                copy_fn: *const c_void,
                delete_fn: *const c_void,
                number: *mut c_int,
                extra_state: *mut $state,
            ) -> c_int {
                // SAFETY: the caller's arguments.
                unsafe {
                    pick!(P, $call, $profiled)(
                        copy::<$class> as *const c_void,
                        delete::<$class> as *const c_void,
                        number,
                        keyval(copy_fn, delete_fn, i64::from(*extra_state)),
                    )
                }
            }
        )*
    };
}

// Bodies: comm_create_keyval type_create_keyval win_create_keyval keyval_create
create_keyvals! {
    comm_create_keyval, MPI_Comm, i64, MPI_Comm_create_keyval, PMPI_Comm_create_keyval;
    type_create_keyval, MPI_Datatype, i64, MPI_Type_create_keyval, PMPI_Type_create_keyval;
    win_create_keyval, MPI_Win, i64, MPI_Win_create_keyval, PMPI_Win_create_keyval;
    keyval_create, MPI_Comm, c_int, MPI_Comm_create_keyval, PMPI_Comm_create_keyval;
}

/// The value of a predefined attribute, where C gets this pointer.
fn value_of(kind: Predefined, pointer: *mut c_void) -> i64 {
    match kind {
        Predefined::Address => pointer.addr() as i64,
        // SAFETY: C gives the address of an MPI_Aint.
        Predefined::Aint => unsafe { *pointer.cast::<i64>() },
        // SAFETY: C gives the address of an int.
        Predefined::Int => i64::from(unsafe { *pointer.cast::<c_int>() }),
    }
}

macro_rules! get_and_set {
    ($($get:ident, $set:ident, $class:ident, $value:ty, $c_get:ident, $p_get:ident,
        $c_set:ident, $p_set:ident;)*) => {
        $(
            pub(crate) unsafe fn $get<const P: bool>(
                object: *mut c_int,
                number: *mut c_int,
                value: *mut $value,
                flag: *mut c_int,
            ) -> c_int {
                let (mut pointer, mut is_set) = (std::ptr::null_mut::<c_void>(), 0);
                // SAFETY: the caller's arguments.
                unsafe {
                    let code = pick!(P, $c_get, $p_get)(
                        $class::from_fortran(*object),
                        target::c_keyval(*number),
                        (&raw mut pointer).cast(),
                        &raw mut is_set,
                    );
                    if code == SUCCESS {
                        *flag = to_logical(is_set);
                        if is_set != 0 {
                            let found = match target::predefined(*number) {
                                Some(kind) if !pointer.is_null() => value_of(kind, pointer),
                                _ => load(pointer),
                            };
                            *value = found as $value;
                        }
                    }
                    code
                }
            }

            pub(crate) unsafe fn $set<const P: bool>(
                object: *mut c_int,
                number: *mut c_int,
                value: *mut $value,
            ) -> c_int {
                // SAFETY: the caller's arguments.
                unsafe {
                    let pointer = store(i64::from(*value));
                    let object = $class::from_fortran(*object);
                    let code = pick!(P, $c_set, $p_set)(object, *number, pointer);
                    if code != SUCCESS {
                        forget(pointer);
                    }
                    code
                }
            }
        )*
    };
}

// Bodies: comm_get_attr type_get_attr win_get_attr attr_get
// Bodies: comm_set_attr type_set_attr win_set_attr attr_put
get_and_set! {
    comm_get_attr, comm_set_attr, MPI_Comm, i64, MPI_Comm_get_attr, PMPI_Comm_get_attr,
        MPI_Comm_set_attr, PMPI_Comm_set_attr;
    type_get_attr, type_set_attr, MPI_Datatype, i64, MPI_Type_get_attr, PMPI_Type_get_attr,
        MPI_Type_set_attr, PMPI_Type_set_attr;
    win_get_attr, win_set_attr, MPI_Win, i64, MPI_Win_get_attr, PMPI_Win_get_attr,
        MPI_Win_set_attr, PMPI_Win_set_attr;
    attr_get, attr_put, MPI_Comm, c_int, MPI_Comm_get_attr, PMPI_Comm_get_attr,
        MPI_Comm_set_attr, PMPI_Comm_set_attr;
}

/// MPI_COMM_DUP_FN and its like, as procedures of Fortran.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_comm_dup_fn_(
    _object: *mut c_int,
    _number: *mut c_int,
    _extra_state: *mut i64,
    value_in: *mut i64,
    value_out: *mut i64,
    flag: *mut c_int,
    error: *mut c_int,
) {
    // SAFETY: the caller's arguments.
    unsafe {
        *value_out = *value_in;
        *flag = to_logical(1);
        *error = SUCCESS;
    }
}
names!(mpi_comm_dup_fn_: mpi_comm_dup_fn mpi_comm_dup_fn__ MPI_COMM_DUP_FN
    mpi_type_dup_fn_ mpi_type_dup_fn mpi_type_dup_fn__ MPI_TYPE_DUP_FN
    mpi_win_dup_fn_ mpi_win_dup_fn mpi_win_dup_fn__ MPI_WIN_DUP_FN);

/// MPI_DUP_FN, whose values are default INTEGERs.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_dup_fn_(
    _object: *mut c_int,
    _number: *mut c_int,
    _extra_state: *mut c_int,
    value_in: *mut c_int,
    value_out: *mut c_int,
    flag: *mut c_int,
    error: *mut c_int,
) {
    // SAFETY: the caller's arguments.
    unsafe {
        *value_out = *value_in;
        *flag = to_logical(1);
        *error = SUCCESS;
    }
}
names!(mpi_dup_fn_: mpi_dup_fn mpi_dup_fn__ MPI_DUP_FN);

/// MPI_COMM_NULL_COPY_FN and its like; values are not touched, whatever their kind.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_comm_null_copy_fn_(
    _object: *mut c_int,
    _number: *mut c_int,
    _extra_state: *mut i64,
    _value_in: *mut i64,
    _value_out: *mut i64,
    flag: *mut c_int,
    error: *mut c_int,
) {
    // SAFETY: the caller's arguments.
    unsafe {
        *flag = 0;
        *error = SUCCESS;
    }
}
names!(mpi_comm_null_copy_fn_:
    mpi_comm_null_copy_fn mpi_comm_null_copy_fn__ MPI_COMM_NULL_COPY_FN
    mpi_type_null_copy_fn_ mpi_type_null_copy_fn mpi_type_null_copy_fn__ MPI_TYPE_NULL_COPY_FN
    mpi_win_null_copy_fn_ mpi_win_null_copy_fn mpi_win_null_copy_fn__ MPI_WIN_NULL_COPY_FN
    mpi_null_copy_fn_ mpi_null_copy_fn mpi_null_copy_fn__ MPI_NULL_COPY_FN);

/// MPI_COMM_NULL_DELETE_FN and its like.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_comm_null_delete_fn_(
    _object: *mut c_int,
    _number: *mut c_int,
    _value: *mut i64,
    _extra_state: *mut i64,
    error: *mut c_int,
) {
    // SAFETY: the caller's argument.
    unsafe { *error = SUCCESS };
}
names!(mpi_comm_null_delete_fn_:
    mpi_comm_null_delete_fn mpi_comm_null_delete_fn__ MPI_COMM_NULL_DELETE_FN
    mpi_type_null_delete_fn_ mpi_type_null_delete_fn mpi_type_null_delete_fn__
    MPI_TYPE_NULL_DELETE_FN
    mpi_win_null_delete_fn_ mpi_win_null_delete_fn mpi_win_null_delete_fn__
    MPI_WIN_NULL_DELETE_FN
    mpi_null_delete_fn_ mpi_null_delete_fn mpi_null_delete_fn__ MPI_NULL_DELETE_FN);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortran_gets_its_integer_back_and_the_bits_of_pointers_of_c() {
        let pointer = store(-5);
        assert_eq!(load(pointer), -5);
        // SAFETY: C sees the address of the value.
        assert_eq!(unsafe { *pointer.cast::<i64>() }, -5);
        forget(pointer);
        let of_c = std::ptr::without_provenance_mut::<c_void>(77);
        assert_eq!(load(of_c), 77);
        forget(of_c);
    }
}
