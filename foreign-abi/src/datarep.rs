//! Data representations of the user's (MPI-5.0 §14.5.3).

use std::mem::transmute;

use crate::prelude::*;

/// A data representation; never removed.
struct Representation {
    read: *const c_void,
    write: *const c_void,
    extent: *const c_void,
    extra_state: *mut c_void,
}

macro_rules! conversions {
    ($($name:ident, $users:ident, $count:ty;)*) => {
        $(
            unsafe extern "C" fn $name(
                userbuf: *mut c_void,
                datatype: Standard,
                count: $count,
                filebuf: *mut c_void,
                position: i64,
                extra_state: *mut c_void,
            ) -> c_int {
                type Conversion = unsafe extern "C" fn(
                    *mut c_void,
                    MPI_Datatype,
                    $count,
                    *mut c_void,
                    i64,
                    *mut c_void,
                ) -> c_int;
                // SAFETY: `extra_state` is a `Representation` with a function of this type.
                unsafe {
                    let state = &*extra_state.cast::<Representation>();
                    let users: Conversion = transmute(state.$users);
                    let datatype = MPI_Datatype::from_standard(datatype);
                    let code =
                        users(userbuf, datatype, count, filebuf, position, state.extra_state);
                    code::to_standard(code)
                }
            }
        )*
    };
}

conversions! {
    read, read, c_int;
    write, write, c_int;
    read_c, read, i64;
    write_c, write, i64;
}

unsafe extern "C" fn extent(
    datatype: Standard,
    bytes: *mut i64,
    extra_state: *mut c_void,
) -> c_int {
    type Extent = unsafe extern "C" fn(MPI_Datatype, *mut i64, *mut c_void) -> c_int;
    // SAFETY: `extra_state` is a `Representation` with a function of this type.
    unsafe {
        let state = &*extra_state.cast::<Representation>();
        let users: Extent = transmute(state.extent);
        let datatype = MPI_Datatype::from_standard(datatype);
        code::to_standard(users(datatype, bytes, state.extra_state))
    }
}

macro_rules! register {
    ($($body:ident, $read:ident, $write:ident, $below:ident;)*) => {
        $(
            pub(crate) unsafe fn $body(
                datarep: *const c_char,
                read_fn: *const c_void,
                write_fn: *const c_void,
                extent_fn: *const c_void,
                extra_state: *mut c_void,
            ) -> c_int {
                // MPI_CONVERSION_FN_NULL is null in both ABIs.
                let given = |users: *const c_void, function: *const c_void| {
                    if users.is_null() { users } else { function }
                };
                let state = Box::into_raw(Box::new(Representation {
                    read: read_fn,
                    write: write_fn,
                    extent: extent_fn,
                    extra_state,
                }));
                // SAFETY: the caller's arguments. The state is needed until the program ends.
                unsafe {
                    let code = (library().$below)(
                        datarep,
                        given(read_fn, $read as *const c_void),
                        given(write_fn, $write as *const c_void),
                        given(extent_fn, extent as *const c_void),
                        state.cast(),
                    );
                    if code != SUCCESS {
                        drop(Box::from_raw(state));
                    }
                    code::from_standard(code)
                }
            }
        )*
    };
}

// Bodies: register_datarep register_datarep_c
register! {
    register_datarep, read, write, PMPI_Register_datarep;
    register_datarep_c, read_c, write_c, PMPI_Register_datarep_c;
}
