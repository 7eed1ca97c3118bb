//! The datatypes of Rust types.

#![allow(unsafe_code)]

use super::{Datatype, DatatypeRef};
use crate::ffi;
use crate::raw::traits::*;

/// A datatype of the standard, such as `MPI_FLOAT` (MPI-5.0 §3.2.2).
pub type SystemDatatype = DatatypeRef<'static>;

/// A type with a datatype: its values can be sent and received (MPI-5.0 §3.2.2).
///
/// Integers, floating-point numbers and `bool` have one, and with the feature `complex` the
/// complex numbers of the crate num-complex. The feature `derive` gives one to structures:
///
/// ```
/// # #[cfg(feature = "derive")]
/// # mod particle {
/// use mpi::traits::*;
///
/// #[derive(Equivalence)]
/// struct Particle {
///     position: [f64; 3],
///     charge: i8,
/// }
/// # }
/// ```
///
/// If the program has this crate under another path, it says so with
/// `#[mpi(crate = "::path::to::mpi")]`.
///
/// # Safety
/// The datatype describes initialised bytes of the value and nothing outside, and its extent is the
/// type's size. Any bytes that a process of the job sends with a matching datatype make a valid
/// value. The type has no interior mutability.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no MPI datatype",
    note = "derive it for a structure with the feature `derive`: #[derive(Equivalence)]"
)]
pub unsafe trait Equivalence {
    /// The datatype's type: a reference, or the owner of a datatype that is made at each call.
    type Out: Datatype;

    /// Returns the datatype.
    fn equivalent_datatype() -> Self::Out;
}

macro_rules! system_datatypes {
    ($($rust:path => $mpi:ident,)*) => {
        $(
            // SAFETY: the datatype is the standard's for this type, of the same size.
            unsafe impl Equivalence for $rust {
                type Out = SystemDatatype;

                fn equivalent_datatype() -> Self::Out {
                    // SAFETY: a datatype of the standard is committed and never freed.
                    unsafe { DatatypeRef::from_raw(ffi::$mpi) }
                }
            }
        )*
    };
}

system_datatypes! {
    bool => MPI_C_BOOL,
    f32 => MPI_FLOAT,
    f64 => MPI_DOUBLE,
    i8 => MPI_INT8_T,
    i16 => MPI_INT16_T,
    i32 => MPI_INT32_T,
    i64 => MPI_INT64_T,
    isize => MPI_INT64_T,
    u8 => MPI_UINT8_T,
    u16 => MPI_UINT16_T,
    u32 => MPI_UINT32_T,
    u64 => MPI_UINT64_T,
    usize => MPI_UINT64_T,
}

const _: () = assert!(size_of::<usize>() == 8, "usize is sent as MPI_UINT64_T");

/// The datatypes of complex numbers.
#[cfg(feature = "complex")]
pub mod complex_datatype {
    use num_complex::{Complex32, Complex64};

    use super::{DatatypeRef, Equivalence, FromRaw as _, SystemDatatype, ffi};

    system_datatypes! {
        Complex32 => MPI_C_FLOAT_COMPLEX,
        Complex64 => MPI_C_DOUBLE_COMPLEX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_datatypes_of_their_size() {
        assert_eq!(usize::equivalent_datatype().as_raw(), ffi::MPI_UINT64_T);
        assert_eq!(i16::equivalent_datatype().as_raw(), ffi::MPI_INT16_T);
        assert_eq!(bool::equivalent_datatype().as_raw(), ffi::MPI_C_BOOL);
        #[cfg(feature = "complex")]
        assert_eq!(
            num_complex::Complex64::equivalent_datatype().as_raw(),
            ffi::MPI_C_DOUBLE_COMPLEX
        );
    }
}
