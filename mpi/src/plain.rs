//! Types whose values are any bytes.
//!
//! Memory of a window and the contents of files come from anywhere: other ranks may have written
//! them as another type, or only half. Therefore they are read as [`PlainData`] alone.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::datatype::traits::*;
use crate::datatype::{MutView, SystemDatatype};

/// A type of which any bytes are a value: integers, floating-point numbers, complex numbers.
///
/// # Safety
/// All of these hold for the type:
/// - Any content of its bytes is a valid value, all bytes zero among them.
/// - It has no padding, and its datatype describes all of its bytes.
/// - It has no interior mutability, such as that of a `Cell`.
#[diagnostic::on_unimplemented(
    message = "bytes from other ranks or from files may be no valid `{Self}`",
    note = "numbers are plain data; a structure of them is if `unsafe impl PlainData` says so"
)]
pub unsafe trait PlainData: Equivalence + Copy + 'static {}

/// A number that MPI can compare and swap (MPI-5.0 §12.3.4): an integer.
pub trait Integer: PlainData + Equivalence<Out = SystemDatatype> {}

macro_rules! plain_data {
    ($($type:ty),*) => {
        // SAFETY: each value of the bytes is a number, and there is no padding.
        $(unsafe impl PlainData for $type {})*
    };
}

macro_rules! integers {
    ($($type:ty),*) => {
        plain_data!($($type),*);
        $(impl Integer for $type {})*
    };
}

integers!(i8, i16, i32, i64, isize, u8, u16, u32, u64, usize);
plain_data!(f32, f64);
#[cfg(feature = "complex")]
plain_data!(num_complex::Complex32, num_complex::Complex64);

/// A buffer that any bytes can be read into.
///
/// # Safety
/// All elements that the buffer describes are [`PlainData`].
#[diagnostic::on_unimplemented(
    message = "bytes of a file may be no valid elements of `{Self}`",
    note = "read into numbers, their slices, vectors and arrays, or other `PlainData`"
)]
pub unsafe trait PlainBufferMut: BufferMut {}

// SAFETY: the elements are plain data.
unsafe impl<T: PlainData> PlainBufferMut for T {}
// SAFETY: the elements are plain data.
unsafe impl<T: PlainData> PlainBufferMut for [T] {}
// SAFETY: the elements are plain data.
unsafe impl<T: PlainData> PlainBufferMut for Vec<T> {}
// SAFETY: the elements are plain data.
unsafe impl<T: PlainData, const N: usize> PlainBufferMut for [T; N] {}
// SAFETY: the view describes bytes of plain data, which remain plain data.
unsafe impl<D: Datatype, B: PlainBufferMut + ?Sized> PlainBufferMut for MutView<'_, '_, D, B> {}

/// Returns the value all of whose bytes are zero.
pub(crate) fn zero<T: PlainData>() -> T {
    // SAFETY: any bytes are a value of plain data.
    unsafe { std::mem::zeroed() }
}

/// Copies values while other processes may access either memory. Words of up to 8 bytes that are
/// aligned in both are not torn.
///
/// # Safety
/// Both pointers are aligned, `from` is valid for reading and `to` for writing `len` values, and no
/// thread of this process accesses the memory otherwise than by atomics.
pub(crate) unsafe fn copy_shared<T: PlainData>(from: *const T, to: *mut T, len: usize) {
    macro_rules! copy_words {
        ($atomic:ty) => {
            for word in 0..len * (size_of::<T>() / size_of::<$atomic>()) {
                // SAFETY: words lie within the values and are aligned, as their size is the
                // alignment of the values, or less. Without padding each has a value.
                unsafe {
                    let value = (*from.cast::<$atomic>().add(word)).load(Ordering::Relaxed);
                    (*to.cast::<$atomic>().add(word)).store(value, Ordering::Relaxed);
                }
            }
        };
    }
    match align_of::<T>() {
        1 => copy_words!(AtomicU8),
        2 => copy_words!(AtomicU16),
        4 => copy_words!(AtomicU32),
        _ => copy_words!(AtomicU64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies<T: PlainData + PartialEq + std::fmt::Debug>(values: [T; 3]) {
        let mut copy = [zero(); 3];
        // SAFETY: both are arrays of three values that this thread alone has.
        unsafe { copy_shared(values.as_ptr(), copy.as_mut_ptr(), 3) };
        assert_eq!(copy, values);
    }

    #[test]
    fn values_of_all_alignments_are_copied() {
        copies([1_u8, 2, 3]);
        copies([1_i16, -2, 3]);
        copies([1.5_f32, 2.5, -3.5]);
        copies([1.5_f64, 2.5, -3.5]);
        #[cfg(feature = "complex")]
        copies([1.0, 2.0, 3.0].map(|real| num_complex::Complex64::new(real, -1.0)));
    }
}
