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

/// Runs a loop over the words of `$len` values of the type `T`. In its body, `Word` is the integer
/// of the alignment of `T`, of up to 8 bytes, and `Atomic` its atomic. Words have no padding.
macro_rules! for_each_word {
    ($len:expr, |$index:ident| $body:expr) => {
        match align_of::<T>() {
            1 => for_each_word!($len, |$index| $body, u8, AtomicU8),
            2 => for_each_word!($len, |$index| $body, u16, AtomicU16),
            4 => for_each_word!($len, |$index| $body, u32, AtomicU32),
            _ => for_each_word!($len, |$index| $body, u64, AtomicU64),
        }
    };
    ($len:expr, |$index:ident| $body:expr, $word:ty, $atomic:ty) => {{
        type Word = $word;
        type Atomic = $atomic;
        for $index in 0..$len * (size_of::<T>() / size_of::<Word>()) {
            $body;
        }
    }};
}

/// Copies values out of memory that other processes may write at the same time. Values of up to 8
/// bytes are not torn.
///
/// # Safety
/// `from` is aligned and has as many values as `to`, and this process accesses them by atomics
/// alone.
pub(crate) unsafe fn load_shared<T: PlainData>(from: *mut T, to: &mut [T]) {
    let (from, to, len) = (from, to.as_mut_ptr(), to.len());
    // SAFETY: each word lies within the values of both sides, and is aligned as they are.
    for_each_word!(len, |index| unsafe {
        let word = Atomic::from_ptr(from.cast::<Word>().add(index)).load(Ordering::Relaxed);
        to.cast::<Word>().add(index).write(word);
    });
}

/// Copies values to memory that other processes may access at the same time. Values of up to 8
/// bytes are not torn.
///
/// # Safety
/// `to` is aligned and has room for the values, and this process accesses it by atomics alone.
pub(crate) unsafe fn store_shared<T: PlainData>(from: &[T], to: *mut T) {
    let (from, len) = (from.as_ptr(), from.len());
    // SAFETY: as in `load_shared`.
    for_each_word!(len, |index| unsafe {
        let word = from.cast::<Word>().add(index).read();
        Atomic::from_ptr(to.cast::<Word>().add(index)).store(word, Ordering::Relaxed);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copies<T: PlainData + PartialEq + std::fmt::Debug>(values: [T; 3]) {
        let (mut shared, mut copy) = ([zero(); 3], [zero(); 3]);
        // SAFETY: `shared` has three values that this thread alone accesses.
        unsafe {
            store_shared(&values, shared.as_mut_ptr());
            load_shared(shared.as_mut_ptr(), &mut copy);
        }
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
