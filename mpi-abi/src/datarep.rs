//! MPI-5.0 §14.5.3: data representations of the user.
//!
//! The user's functions run outside the process lock, on the thread of the call that moves data.

use std::os::raw::{c_char, c_int, c_void};

use io::UserDatarep;
use io::datarep::{Conversion, FileExtent};
use objects::callback::user;
use objects::{Class, Error, Result};
use runtime::with;

use crate::abi::{
    MPI_Aint, MPI_Count, MPI_Datarep_conversion_function, MPI_Datarep_conversion_function_c,
    MPI_Datarep_extent_function, MPI_Datatype,
};
use crate::args::null_argument;
use crate::text::exact;

/// The user's state, which only the user's functions look at.
#[derive(Clone, Copy)]
struct ExtraState(*mut c_void);

// SAFETY: the library only carries the address. The program may call MPI from any thread at the
// level that it requested, and its functions are called on the threads that do.
unsafe impl Send for ExtraState {}
// SAFETY: as for `Send`.
unsafe impl Sync for ExtraState {}

impl ExtraState {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Makes the error of a function's return value, of class MPI_ERR_CONVERSION unless it has another.
fn checked(code: c_int) -> Result<()> {
    match Error::from_code("a conversion function returned", code) {
        None => Ok(()),
        Some(error) if error.class() == Class::Other => {
            Err(Error::new(Class::Conversion, error.detail()))
        }
        Some(error) => Err(error),
    }
}

fn plain(
    function: Option<MPI_Datarep_conversion_function>,
    extra: ExtraState,
) -> Option<Conversion> {
    let function = function?;
    Some(Box::new(move |buffer, datatype, count, bytes, position| {
        let count = c_int::try_from(count).map_err(|_| {
            Error::new(
                Class::Count,
                format!(
                    "count {count} does not fit the conversion function's int: register it with \
                     MPI_Register_datarep_c"
                ),
            )
        })?;
        let (buffer, bytes, ty) = (buffer.cast(), bytes.cast(), MPI_Datatype(datatype));
        // SAFETY: the user registered this function for such buffers (MPI-5.0 §14.5.3).
        checked(unsafe { user(|| function(buffer, ty, count, bytes, position, extra.get())) })
    }))
}

fn large(
    function: Option<MPI_Datarep_conversion_function_c>,
    extra: ExtraState,
) -> Option<Conversion> {
    let function = function?;
    Some(Box::new(move |buffer, datatype, count: MPI_Count, bytes, position| {
        let (buffer, bytes, ty) = (buffer.cast(), bytes.cast(), MPI_Datatype(datatype));
        // SAFETY: the user registered this function for such buffers (MPI-5.0 §14.5.3).
        checked(unsafe { user(|| function(buffer, ty, count, bytes, position, extra.get())) })
    }))
}

fn extent(function: MPI_Datarep_extent_function, extra: ExtraState) -> FileExtent {
    Box::new(move |datatype| {
        let mut extent: MPI_Aint = 0;
        let ty = MPI_Datatype(datatype);
        // SAFETY: the user registered this function; it stores through the pointer.
        checked(unsafe { user(|| function(ty, &mut extent, extra.get())) })?;
        Ok(extent)
    })
}

unsafe fn register(
    name: *const c_char,
    read: Option<Conversion>,
    write: Option<Conversion>,
    extent_fn: Option<MPI_Datarep_extent_function>,
    extra: ExtraState,
) -> Result<()> {
    let extent_fn = extent_fn.ok_or_else(|| null_argument("dtype_file_extent_fn"))?;
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let name = unsafe { exact(name, "datarep")? }.to_owned();
    let datarep = UserDatarep { name, read, write, extent: extent(extent_fn, extra) };
    with(|p| p.tables.files.datareps.register(datarep))
}

pub(crate) unsafe fn register_datarep(
    datarep: *const c_char,
    read_conversion_fn: Option<MPI_Datarep_conversion_function>,
    write_conversion_fn: Option<MPI_Datarep_conversion_function>,
    dtype_file_extent_fn: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    let extra = ExtraState(extra_state);
    let (read, write) = (plain(read_conversion_fn, extra), plain(write_conversion_fn, extra));
    // SAFETY: the user's string, passed on.
    unsafe { register(datarep, read, write, dtype_file_extent_fn, extra) }
}

pub(crate) unsafe fn register_datarep_c(
    datarep: *const c_char,
    read_conversion_fn: Option<MPI_Datarep_conversion_function_c>,
    write_conversion_fn: Option<MPI_Datarep_conversion_function_c>,
    dtype_file_extent_fn: Option<MPI_Datarep_extent_function>,
    extra_state: *mut c_void,
) -> Result<()> {
    let extra = ExtraState(extra_state);
    let (read, write) = (large(read_conversion_fn, extra), large(write_conversion_fn, extra));
    // SAFETY: the user's string, passed on.
    unsafe { register(datarep, read, write, dtype_file_extent_fn, extra) }
}
