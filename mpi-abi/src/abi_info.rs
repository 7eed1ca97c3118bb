//! MPI-5.0 §20: inquiries about the binary interface and about Fortran's types. Fortran's types
//! have the default sizes of Fortran compilers; they are part of the datatypes, and setting others
//! is an error.

use std::os::raw::{c_int, c_void};

use objects::{Class, Datatype, Error, Info, Result};
use runtime::with;

use crate::abi::*;
use crate::args::{not_null, put};
use crate::constants::*;
use crate::info::{copy_of, store};

/// Types whose size a program can query.
const SIZES: [(&str, MPI_Datatype); 4] = [
    ("mpi_logical_size", MPI_LOGICAL),
    ("mpi_integer_size", MPI_INTEGER),
    ("mpi_real_size", MPI_REAL),
    ("mpi_double_precision_size", MPI_DOUBLE_PRECISION),
];

/// Types that not every Fortran compiler has.
const OPTIONAL: [(&str, MPI_Datatype); 19] = [
    ("mpi_logical1_supported", MPI_LOGICAL1),
    ("mpi_logical2_supported", MPI_LOGICAL2),
    ("mpi_logical4_supported", MPI_LOGICAL4),
    ("mpi_logical8_supported", MPI_LOGICAL8),
    ("mpi_logical16_supported", MPI_LOGICAL16),
    ("mpi_integer1_supported", MPI_INTEGER1),
    ("mpi_integer2_supported", MPI_INTEGER2),
    ("mpi_integer4_supported", MPI_INTEGER4),
    ("mpi_integer8_supported", MPI_INTEGER8),
    ("mpi_integer16_supported", MPI_INTEGER16),
    ("mpi_real2_supported", MPI_REAL2),
    ("mpi_real4_supported", MPI_REAL4),
    ("mpi_real8_supported", MPI_REAL8),
    ("mpi_real16_supported", MPI_REAL16),
    ("mpi_complex4_supported", MPI_COMPLEX4),
    ("mpi_complex8_supported", MPI_COMPLEX8),
    ("mpi_complex16_supported", MPI_COMPLEX16),
    ("mpi_complex32_supported", MPI_COMPLEX32),
    ("mpi_double_complex_supported", MPI_DOUBLE_COMPLEX),
];

pub(crate) unsafe fn abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(abi_major, MPI_ABI_VERSION, "abi_major")?;
        put(abi_minor, MPI_ABI_SUBVERSION, "abi_minor")
    }
}

pub(crate) unsafe fn abi_get_info(info: *mut MPI_Info) -> Result<()> {
    let mut sizes = Info::new();
    sizes.set("mpi_aint_size", size_of::<MPI_Aint>().to_string())?;
    sizes.set("mpi_count_size", size_of::<MPI_Count>().to_string())?;
    sizes.set("mpi_offset_size", size_of::<MPI_Offset>().to_string())?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { store(info, sizes) }
}

pub(crate) unsafe fn abi_get_fortran_info(info: *mut MPI_Info) -> Result<()> {
    let known = fortran_info()?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { store(info, known) }
}

fn fortran_info() -> Result<Info> {
    let mut known = Info::new();
    for (key, datatype) in SIZES {
        if let Some(datatype) = Datatype::predefined(datatype.0) {
            known.set(key, datatype.size().to_string())?;
        }
    }
    for (key, datatype) in OPTIONAL {
        known.set(key, Datatype::predefined(datatype.0).is_some().to_string())?;
    }
    Ok(known)
}

/// Accepts what holds anyway, and keys that MPI does not define.
pub(crate) unsafe fn abi_set_fortran_info(info: MPI_Info) -> Result<()> {
    let known = fortran_info()?;
    let given = with(|p| copy_of(p, info))?;
    for (key, value) in given.iter() {
        let ours = known.iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        if let Some(ours) = ours.filter(|ours| *ours != value) {
            let [key, value, ours] = [key, value, ours].map(String::from_utf8_lossy);
            return Err(Error::new(
                Class::Abi,
                format!(
                    "invalid value {value:?} of {key:?}: must be {ours:?}, which is part of this \
                     library"
                ),
            ));
        }
    }
    Ok(())
}

pub(crate) unsafe fn abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> Result<()> {
    for (value, logical, name) in
        [(1, logical_true, "logical_true"), (0, logical_false, "logical_false")]
    {
        let value = logical_bytes(logical_size, value)?;
        not_null(logical, name)?;
        // SAFETY: not null, therefore the user's LOGICAL of `logical_size` bytes.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), logical.cast(), value.len()) };
    }
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(is_set, 1, "is_set") }
}

/// Accepts what holds anyway: 1 and 0.
pub(crate) unsafe fn abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> Result<()> {
    for (value, logical, name) in
        [(1, logical_true, "logical_true"), (0, logical_false, "logical_false")]
    {
        let ours = logical_bytes(logical_size, value)?;
        not_null(logical, name)?;
        // SAFETY: not null, therefore the user's LOGICAL of `logical_size` bytes.
        let given = unsafe { std::slice::from_raw_parts(logical.cast::<u8>(), ours.len()) };
        if given != ours {
            return Err(Error::new(
                Class::Abi,
                format!(
                    "invalid {name}, bytes {given:02x?}: must be {ours:02x?}, which is part of \
                     this library"
                ),
            ));
        }
    }
    Ok(())
}

/// Returns the bytes of a LOGICAL with this value.
fn logical_bytes(logical_size: c_int, value: u128) -> Result<Vec<u8>> {
    let bytes = match logical_size {
        1 | 2 | 4 | 8 | 16 => logical_size as usize,
        other => {
            return Err(Error::new(
                Class::Arg,
                format!("invalid logical_size {other}: must be 1, 2, 4, 8 or 16"),
            ));
        }
    };
    let value = value.to_ne_bytes();
    // The lower half of a number comes first or last, by the machine's byte order.
    let low = if cfg!(target_endian = "little") { 0 } else { value.len() - bytes };
    Ok(value[low..low + bytes].to_vec())
}
