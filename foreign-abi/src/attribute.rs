//! Attributes (MPI-5.0 §7.7).
//!
//! The functions of a keyval get the program's handles; their extra state below is a record that
//! leads to the user's. Predefined attributes whose values are constants, ranks or codes lead to
//! variables of this library.

use std::collections::HashMap;
use std::mem::transmute;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::prelude::*;

/// What a keyval's functions need. Equal ones are made once, and kept: an attribute may outlive its
/// keyval.
struct Keyval {
    copy: *const c_void,
    delete: *const c_void,
    extra_state: *mut c_void,
}

/// Both functions and the extra state.
type Contents = (usize, usize, usize);

/// Addresses of keyvals by their contents.
static KEYVALS: LazyLock<Mutex<HashMap<Contents, usize>>> = LazyLock::new(Mutex::default);

fn keyval(copy: *const c_void, delete: *const c_void, extra_state: *mut c_void) -> *mut c_void {
    let mut known = KEYVALS.lock().unwrap_or_else(PoisonError::into_inner);
    let contents: Contents = (copy.addr(), delete.addr(), extra_state.addr());
    let address = *known.entry(contents).or_insert_with(|| {
        Box::into_raw(Box::new(Keyval { copy, delete, extra_state })).expose_provenance()
    });
    std::ptr::with_exposed_provenance_mut(address)
}

unsafe extern "C" fn copy<H: Handle>(
    object: Standard,
    number: c_int,
    extra_state: *mut c_void,
    value_in: *mut c_void,
    value_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    type Users<H> =
        unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
    // SAFETY: `extra_state` is a keyval of ours, with a function of this type.
    unsafe {
        let state = &*extra_state.cast::<Keyval>();
        let users: Users<H> = transmute(state.copy);
        let object = H::from_standard(object);
        let number = keyval_out(number);
        code::to_standard(users(object, number, state.extra_state, value_in, value_out, flag))
    }
}

unsafe extern "C" fn delete<H: Handle>(
    object: Standard,
    number: c_int,
    value: *mut c_void,
    extra_state: *mut c_void,
) -> c_int {
    type Users<H> = unsafe extern "C" fn(H, c_int, *mut c_void, *mut c_void) -> c_int;
    // SAFETY: `extra_state` is a keyval of ours, with a function of this type.
    unsafe {
        let state = &*extra_state.cast::<Keyval>();
        let users: Users<H> = transmute(state.delete);
        let object = H::from_standard(object);
        code::to_standard(users(object, keyval_out(number), value, state.extra_state))
    }
}

macro_rules! create_keyvals {
    ($($body:ident, $class:ident, $below:ident;)*) => {
        $(
            pub(crate) unsafe fn $body(
                copy_fn: *const c_void,
                delete_fn: *const c_void,
                number: *mut c_int,
                extra_state: *mut c_void,
            ) -> c_int {
                // MPI_X_NULL_COPY_FN and MPI_X_NULL_DELETE_FN are null in both ABIs.
                let given = |users: *const c_void, function: *const c_void| {
                    if users.is_null() { users } else { function }
                };
                // SAFETY: the caller's arguments.
                unsafe {
                    code::from_standard((library().$below)(
                        given(copy_fn, copy::<$class> as *const c_void),
                        given(delete_fn, delete::<$class> as *const c_void),
                        number,
                        keyval(copy_fn, delete_fn, extra_state),
                    ))
                }
            }
        )*
    };
}

// Bodies: comm_create_keyval type_create_keyval win_create_keyval keyval_create
create_keyvals! {
    comm_create_keyval, MPI_Comm, PMPI_Comm_create_keyval;
    type_create_keyval, MPI_Datatype, PMPI_Type_create_keyval;
    win_create_keyval, MPI_Win, PMPI_Win_create_keyval;
    keyval_create, MPI_Comm, PMPI_Comm_create_keyval;
}

/// Predefined attributes of the standard ABI whose values differ.
const IO: c_int = 502;
const HOST: c_int = 503;
const LASTUSEDCODE: c_int = 506;
const CREATE_FLAVOR: c_int = 604;
const MODEL: c_int = 605;

/// The variable that the user gets the address of, with the program's value in place of the
/// standard's. A window's attributes have few values, each with a variable of its own.
unsafe fn predefined(number: c_int, value: *mut c_void) -> *mut c_void {
    static SHARED: [AtomicI32; 3] = [const { AtomicI32::new(0) }; 3];
    static SMALL: [c_int; 5] = [0, 1, 2, 3, 4];
    let shared = |at: usize, value: c_int| {
        SHARED[at].store(value, Ordering::Relaxed);
        SHARED[at].as_ptr().cast::<c_void>()
    };
    let small = |value: c_int| {
        let variable = SMALL.get(value as usize).unwrap_or(&SMALL[0]);
        (&raw const *variable).cast_mut().cast::<c_void>()
    };
    // SAFETY: these attributes lead to an int.
    let found = || unsafe { *value.cast::<c_int>() };
    match number {
        IO => shared(0, rank_out(found())),
        HOST => shared(1, rank_out(found())),
        LASTUSEDCODE => shared(2, code::last_from_standard(found())),
        CREATE_FLAVOR => small(win_flavor_out(found())),
        MODEL => small(win_model_out(found())),
        _ => value,
    }
}

macro_rules! get_attributes {
    ($($body:ident, $class:ident, $below:ident;)*) => {
        $(
            pub(crate) unsafe fn $body(
                object: $class,
                number: c_int,
                value: *mut c_void,
                flag: *mut c_int,
            ) -> c_int {
                let number = keyval_in(number);
                // SAFETY: the caller's arguments; `value` is the address of a pointer.
                unsafe {
                    let code = (library().$below)(object.to_standard(), number, value, flag);
                    if code == SUCCESS && *flag != 0 {
                        let value = value.cast::<*mut c_void>();
                        *value = predefined(number, *value);
                    }
                    code::from_standard(code)
                }
            }
        )*
    };
}

// Bodies: comm_get_attr win_get_attr attr_get
get_attributes! {
    comm_get_attr, MPI_Comm, PMPI_Comm_get_attr;
    win_get_attr, MPI_Win, PMPI_Win_get_attr;
    attr_get, MPI_Comm, PMPI_Comm_get_attr;
}
