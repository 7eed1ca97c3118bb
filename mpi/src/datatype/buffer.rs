//! Buffers: a region of memory, its datatype, and the number of elements in it.
//!
//! A buffer is made of four properties, each a trait: the datatype ([`AsDatatype`]), the number of
//! elements ([`Collection`]), and the address to read ([`Pointer`]) or to write ([`PointerMut`]).
//! Values, slices, vectors and arrays of `T: Equivalence` have all of them.

#![allow(unsafe_code)]

use std::os::raw::c_void;

use super::{Datatype, Equivalence};
use crate::Count;
use crate::ffi::MPI_Count;

/// Something with a datatype.
///
/// # Safety
/// The datatype describes the elements of the buffer that the value is.
pub unsafe trait AsDatatype {
    /// The datatype's type.
    type Out: Datatype;

    /// Returns the datatype.
    fn as_datatype(&self) -> Self::Out;
}

/// Something with a number of elements.
///
/// # Safety
/// The buffer that the value is has at least this many elements.
pub unsafe trait Collection {
    /// Returns the number of elements.
    ///
    /// # Panics
    /// If it is larger than 2^31 - 1; [`large_count`](Self::large_count) has no such limit.
    fn count(&self) -> Count;

    /// Returns the number of elements. Calls of MPI by this crate take this number.
    fn large_count(&self) -> MPI_Count {
        MPI_Count::from(self.count())
    }
}

/// Something with an address that is read.
///
/// # Safety
/// The elements of the buffer that the value is lie there and can be read while it is borrowed.
pub unsafe trait Pointer {
    /// Returns the address.
    fn pointer(&self) -> *const c_void;
}

/// Something with an address that is written.
///
/// # Safety
/// The elements of the buffer that the value is lie there and can be written while it is borrowed.
pub unsafe trait PointerMut {
    /// Returns the address.
    fn pointer_mut(&mut self) -> *mut c_void;
}

/// A region of memory that can be sent: `large_count()` elements of `as_datatype()` at `pointer()`.
///
/// # Safety
/// The region is initialised and can be read while the value is borrowed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be sent: its elements have no MPI datatype",
    note = "numbers, slices, vectors and arrays of them can; so can structures with \
            #[derive(Equivalence)], and the bytes of a text"
)]
pub unsafe trait Buffer: Pointer + Collection + AsDatatype {}

/// A region of memory that can be received into: `large_count()` elements of `as_datatype()` at
/// `pointer_mut()`.
///
/// # Safety
/// The region can be written while the value is borrowed, by any bytes of the datatype.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be received into: its elements have no MPI datatype",
    note = "numbers, slices, vectors and arrays of them can; so can structures with \
            #[derive(Equivalence)]"
)]
pub unsafe trait BufferMut: PointerMut + Collection + AsDatatype {}

/// Converts a number of elements.
///
/// # Panics
/// If it is larger than 2^31 - 1.
#[track_caller]
pub(crate) fn small_count(count: impl TryInto<Count> + Copy + std::fmt::Display) -> Count {
    count.try_into().unwrap_or_else(|_| {
        panic!("a buffer of {count} elements has no Count: it must have at most 2147483647")
    })
}

/// The end of the addresses at which no object with bytes lies. Some of them mean something to MPI:
/// in the standard ABI, MPI_BOTTOM is 0 and MPI_IN_PLACE is 1, which is also where Rust lets an
/// empty slice of bytes lie.
const NO_OBJECT_BELOW: usize = 4096;
/// Stands for objects without bytes. Nothing is read or written here.
static NO_BYTES: u64 = 0;

/// Returns the address of a buffer as MPI takes it.
#[inline]
pub(super) fn address<T>(pointer: *const T) -> *const c_void {
    if pointer.addr() < NO_OBJECT_BELOW { (&raw const NO_BYTES).cast() } else { pointer.cast() }
}

/// Returns the address of a mutable buffer as MPI takes it. Receives into anything but a
/// [`BufferMut`] need it too.
#[inline]
pub(crate) fn address_mut<T>(pointer: *mut T) -> *mut c_void {
    if pointer.addr() < NO_OBJECT_BELOW { address(pointer).cast_mut() } else { pointer.cast() }
}

// SAFETY: the datatype is that of the value.
unsafe impl<T: Equivalence> AsDatatype for T {
    type Out = T::Out;

    fn as_datatype(&self) -> Self::Out {
        T::equivalent_datatype()
    }
}

// SAFETY: a value is one element.
unsafe impl<T: Equivalence> Collection for T {
    fn count(&self) -> Count {
        1
    }
}

// SAFETY: the value lies there.
unsafe impl<T: Equivalence> Pointer for T {
    fn pointer(&self) -> *const c_void {
        address(self)
    }
}

// SAFETY: the value lies there and is borrowed mutably.
unsafe impl<T: Equivalence> PointerMut for T {
    fn pointer_mut(&mut self) -> *mut c_void {
        address_mut(self)
    }
}

// SAFETY: a value is an element of its datatype.
unsafe impl<T: Equivalence> Buffer for T {}
// SAFETY: as above, and any bytes of the datatype make a valid value.
unsafe impl<T: Equivalence> BufferMut for T {}

/// Makes a type that has the elements of a slice a buffer.
macro_rules! buffers_of_slices {
    ($([$($generics:tt)*] $type:ty;)*) => {
        $(
            // SAFETY: the datatype is that of each element.
            unsafe impl<$($generics)*> AsDatatype for $type {
                type Out = T::Out;

                fn as_datatype(&self) -> Self::Out {
                    T::equivalent_datatype()
                }
            }

            // SAFETY: the number is that of the elements.
            unsafe impl<$($generics)*> Collection for $type {
                fn count(&self) -> Count {
                    small_count(self.len())
                }

                fn large_count(&self) -> MPI_Count {
                    // A slice has at most isize::MAX bytes. For elements without bytes the number
                    // does not matter.
                    MPI_Count::try_from(self.len()).unwrap_or(MPI_Count::MAX)
                }
            }

            // SAFETY: the elements lie there.
            unsafe impl<$($generics)*> Pointer for $type {
                fn pointer(&self) -> *const c_void {
                    address(self.as_ptr())
                }
            }

            // SAFETY: the elements lie there and are borrowed mutably.
            unsafe impl<$($generics)*> PointerMut for $type {
                fn pointer_mut(&mut self) -> *mut c_void {
                    address_mut(self.as_mut_ptr())
                }
            }

            // SAFETY: each element is one of the datatype, and they follow one another by its
            // extent.
            unsafe impl<$($generics)*> Buffer for $type {}
            // SAFETY: as above, and any bytes of the datatype make a valid element.
            unsafe impl<$($generics)*> BufferMut for $type {}
        )*
    };
}

buffers_of_slices! {
    [T: Equivalence] [T];
    [T: Equivalence] Vec<T>;
    [T: Equivalence, const N: usize] [T; N];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_slices_vectors_and_arrays_are_buffers() {
        let mut values = vec![1_u16, 2, 3];
        assert_eq!((values.large_count(), values[1..].count(), 7_u8.count()), (3, 2, 1));
        assert_eq!(values.pointer(), values[..].pointer());
        assert_eq!([0.0_f64; 4].count(), 4);
        let first = values.as_ptr().cast();
        assert_eq!(values.pointer_mut().cast_const(), first);
    }

    #[test]
    fn a_buffer_without_bytes_is_at_no_address_with_a_meaning() {
        let mut empty: [u8; 0] = [];
        let vector = Vec::<u8>::new();
        assert_eq!(vector.as_ptr().addr(), 1, "this address is MPI_IN_PLACE");
        let addresses = [
            vector.pointer().addr(),
            <[u16]>::pointer(&[]).addr(),
            empty[..].pointer_mut().addr(),
            super::super::DynBuffer::new::<u8>(&[]).pointer().addr(),
        ];
        assert!(addresses.iter().all(|&address| address >= NO_OBJECT_BELOW), "{addresses:?}");
    }

    #[test]
    #[should_panic(expected = "a buffer of 2147483648 elements has no Count")]
    fn a_number_of_elements_beyond_an_int_has_no_small_count() {
        small_count(1_i64 << 31);
    }
}
