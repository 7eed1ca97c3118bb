//! Symbols that `mpi.h` of both targets declares beside MPI's functions, under names of its own.

/// Variables that hold addresses: name, type of what is there, and the address.
macro_rules! variables {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            static mut $name: *mut $type = $value;
        )*
    };
}
pub(crate) use variables;

/// What MPI_COMM_DUP_FN and its like are: copy the value. The first argument is a handle.
macro_rules! copy_functions {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name(
                _object: *mut c_void,
                _keyval: c_int,
                _extra_state: *mut c_void,
                value_in: *mut c_void,
                value_out: *mut c_void,
                flag: *mut c_int,
            ) -> c_int {
                // SAFETY: the caller's arguments; `value_out` is the address of a pointer.
                unsafe {
                    *value_out.cast::<*mut c_void>() = value_in;
                    *flag = 1;
                }
                0
            }
        )*
    };
}
pub(crate) use copy_functions;
