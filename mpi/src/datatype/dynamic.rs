//! Buffers whose type is known at run time only.
//!
//! Invariant: `len` elements of the datatype lie at the pointer, valid for the lifetime.

#![allow(unsafe_code)]

use std::mem;
use std::os::raw::c_void;
use std::slice;

use super::buffer::{address, address_mut, small_count};
use super::{
    AsDatatype, Buffer, BufferMut, Collection, DatatypeRef, Equivalence, Pointer, PointerMut,
};
use crate::Count;
use crate::ffi::MPI_Count;
use crate::raw::traits::*;

/// A slice of a type that is known at run time only, like `&dyn Any`.
#[derive(Copy, Clone, Debug)]
pub struct DynBuffer<'a> {
    ptr: *const c_void,
    len: MPI_Count,
    datatype: DatatypeRef<'a>,
}

// SAFETY: the value is a shared reference to memory whose elements are plain data.
unsafe impl Send for DynBuffer<'_> {}
// SAFETY: as above.
unsafe impl Sync for DynBuffer<'_> {}

impl<'a> DynBuffer<'a> {
    /// Makes a buffer of a slice.
    ///
    /// If `T` makes a datatype at each call, the buffer's one is not freed.
    pub fn new<T: Equivalence>(buf: &'a [T]) -> Self {
        Self { ptr: buf.as_ptr().cast(), len: buf.large_count(), datatype: lasting_datatype::<T>() }
    }

    /// Returns whether the elements have the datatype of `T`.
    pub fn is<T: Equivalence>(&self) -> bool {
        self.datatype.as_raw() == T::equivalent_datatype().as_raw()
    }

    /// Returns the slice if its elements have the datatype of `T`.
    ///
    /// # Panics
    /// If the elements are not aligned for `T`: memory of the library, in a reduction, may be
    /// aligned to 16 bytes at most.
    #[track_caller]
    pub fn downcast<T: Equivalence>(self) -> Option<&'a [T]> {
        if !self.is::<T>() {
            return None;
        }
        if self.is_empty() {
            return Some(&[]);
        }
        let elements = self.ptr.cast::<T>();
        expect_aligned(elements);
        // SAFETY: the buffer has that many elements of this datatype for `'a`, which is that of
        // `T`, and they are aligned. An equal datatype means an equal layout.
        Some(unsafe { slice::from_raw_parts(elements, self.len()) })
    }

    /// Makes a buffer of its parts.
    ///
    /// # Safety
    /// `len` elements of `datatype` lie at `ptr`, which is not null, and can be read for `'a`.
    pub unsafe fn from_raw<T>(ptr: *const T, len: Count, datatype: DatatypeRef<'a>) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::with_count(ptr.cast(), MPI_Count::from(len), datatype) }
    }

    /// Makes a buffer of its parts, with any number of elements.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw).
    pub(crate) unsafe fn with_count(
        ptr: *const c_void,
        len: MPI_Count,
        datatype: DatatypeRef<'a>,
    ) -> Self {
        debug_assert!(!ptr.is_null(), "a buffer must not be at address 0");
        Self { ptr, len, datatype }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        usize::try_from(self.len).expect("a buffer must not have a negative length")
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address.
    pub fn as_ptr(&self) -> *const c_void {
        self.ptr
    }
}

/// A mutable slice of a type that is known at run time only, like `&mut dyn Any`.
#[derive(Debug)]
pub struct DynBufferMut<'a> {
    ptr: *mut c_void,
    len: MPI_Count,
    datatype: DatatypeRef<'a>,
}

// SAFETY: the value is a mutable reference to memory whose elements are plain data.
unsafe impl Send for DynBufferMut<'_> {}
// SAFETY: a shared reference to the value lets its elements be read only.
unsafe impl Sync for DynBufferMut<'_> {}

impl<'a> DynBufferMut<'a> {
    /// Makes a buffer of a slice.
    ///
    /// If `T` makes a datatype at each call, the buffer's one is not freed.
    pub fn new<T: Equivalence>(buf: &'a mut [T]) -> Self {
        let len = buf.large_count();
        Self { ptr: buf.as_mut_ptr().cast(), len, datatype: lasting_datatype::<T>() }
    }

    /// Returns whether the elements have the datatype of `T`.
    pub fn is<T: Equivalence>(&self) -> bool {
        self.reborrow().is::<T>()
    }

    /// Returns the slice if its elements have the datatype of `T`.
    ///
    /// # Panics
    /// As [`DynBuffer::downcast`].
    #[track_caller]
    pub fn downcast<T: Equivalence>(self) -> Option<&'a mut [T]> {
        if !self.is::<T>() {
            return None;
        }
        if self.is_empty() {
            return Some(&mut []);
        }
        let elements = self.ptr.cast::<T>();
        expect_aligned(elements);
        // SAFETY: the buffer has that many elements of this datatype for `'a`, which is that of
        // `T`, they are aligned, and there is no other reference: `self` was the only one and ends
        // here.
        Some(unsafe { slice::from_raw_parts_mut(elements, self.len()) })
    }

    /// Makes a buffer of its parts.
    ///
    /// # Safety
    /// `len` elements of `datatype` lie at `ptr`, which is not null, and can be read and written
    /// for `'a`. Nothing else refers to them meanwhile.
    pub unsafe fn from_raw<T>(ptr: *mut T, len: Count, datatype: DatatypeRef<'a>) -> Self {
        // SAFETY: as the caller promises.
        unsafe { Self::with_count(ptr.cast(), MPI_Count::from(len), datatype) }
    }

    /// Makes a buffer of its parts, with any number of elements.
    ///
    /// # Safety
    /// As for [`from_raw`](Self::from_raw).
    pub(crate) unsafe fn with_count(
        ptr: *mut c_void,
        len: MPI_Count,
        datatype: DatatypeRef<'a>,
    ) -> Self {
        debug_assert!(!ptr.is_null(), "a buffer must not be at address 0");
        Self { ptr, len, datatype }
    }

    /// Returns the address.
    pub fn as_mut_ptr(&mut self) -> *mut c_void {
        self.ptr
    }

    /// Borrows the buffer mutably for a shorter time.
    pub fn reborrow_mut(&mut self) -> DynBufferMut<'_> {
        DynBufferMut { ptr: self.ptr, len: self.len, datatype: self.datatype }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.reborrow().len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address.
    pub fn as_ptr(&self) -> *const c_void {
        self.ptr
    }

    /// Borrows the buffer for a shorter time.
    pub fn reborrow(&self) -> DynBuffer<'_> {
        DynBuffer { ptr: self.ptr, len: self.len, datatype: self.datatype }
    }

    /// Gives up the right to write.
    pub fn downgrade(self) -> DynBuffer<'a> {
        DynBuffer { ptr: self.ptr, len: self.len, datatype: self.datatype }
    }
}

/// Panics unless elements can lie at an address.
#[track_caller]
fn expect_aligned<T>(elements: *const T) {
    assert!(
        elements.is_aligned(),
        "elements of {} are at {elements:p}: must be aligned to {} bytes",
        std::any::type_name::<T>(),
        align_of::<T>(),
    );
}

/// Returns the datatype of `T` for as long as MPI runs: an owner is not dropped.
fn lasting_datatype<T: Equivalence>() -> DatatypeRef<'static> {
    let datatype = T::equivalent_datatype();
    // SAFETY: the datatype is committed. A reference belongs to a type that always has it, and an
    // owner never frees it now.
    let lasting = unsafe { DatatypeRef::from_raw(datatype.as_raw()) };
    mem::forget(datatype);
    lasting
}

// SAFETY: the datatype is that of the elements.
unsafe impl<'a> AsDatatype for DynBuffer<'a> {
    type Out = DatatypeRef<'a>;

    fn as_datatype(&self) -> Self::Out {
        self.datatype
    }
}

// SAFETY: the number is that of the elements.
unsafe impl Collection for DynBuffer<'_> {
    fn count(&self) -> Count {
        small_count(self.len)
    }

    fn large_count(&self) -> MPI_Count {
        self.len
    }
}

// SAFETY: the elements lie there.
unsafe impl Pointer for DynBuffer<'_> {
    fn pointer(&self) -> *const c_void {
        address(self.ptr)
    }
}

// SAFETY: the elements are initialised and borrowed.
unsafe impl Buffer for DynBuffer<'_> {}

// SAFETY: the datatype is that of the elements.
unsafe impl<'a> AsDatatype for DynBufferMut<'a> {
    type Out = DatatypeRef<'a>;

    fn as_datatype(&self) -> Self::Out {
        self.datatype
    }
}

// SAFETY: the number is that of the elements.
unsafe impl Collection for DynBufferMut<'_> {
    fn count(&self) -> Count {
        small_count(self.len)
    }

    fn large_count(&self) -> MPI_Count {
        self.len
    }
}

// SAFETY: the elements lie there.
unsafe impl Pointer for DynBufferMut<'_> {
    fn pointer(&self) -> *const c_void {
        address(self.ptr)
    }
}

// SAFETY: the elements lie there and are borrowed mutably.
unsafe impl PointerMut for DynBufferMut<'_> {
    fn pointer_mut(&mut self) -> *mut c_void {
        address_mut(self.ptr)
    }
}

// SAFETY: the elements are initialised and borrowed.
unsafe impl Buffer for DynBufferMut<'_> {}
// SAFETY: the elements are borrowed mutably, and any bytes of the datatype make valid ones.
unsafe impl BufferMut for DynBufferMut<'_> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_gives_its_slice_back_to_its_own_type_only() {
        let mut values = [1_i32, 2, 3];
        let mut buffer = DynBufferMut::new(&mut values[..]);
        assert!(buffer.is::<i32>() && !buffer.is::<u32>());
        assert_eq!(buffer.reborrow().downcast::<i32>(), Some(&[1, 2, 3][..]));
        buffer.reborrow_mut().downcast::<i32>().unwrap()[0] = 7;
        assert!(buffer.reborrow_mut().downcast::<f32>().is_none());
        assert_eq!((buffer.len(), buffer.is_empty()), (3, false));
        assert_eq!(buffer.downgrade().downcast::<i32>().unwrap()[0], 7);
    }

    #[test]
    fn an_empty_buffer_is_an_empty_slice() {
        assert_eq!(DynBuffer::new::<u8>(&[]).downcast::<u8>(), Some(&[][..]));
    }
    #[test]
    fn an_empty_buffer_may_lie_anywhere() {
        let nowhere = std::ptr::without_provenance_mut::<u64>(1);
        // SAFETY: there are no elements.
        let buffer = unsafe { DynBufferMut::from_raw(nowhere, 0, u64::equivalent_datatype()) };
        assert_eq!(buffer.reborrow().downcast::<u64>(), Some(&[][..]));
        assert_eq!(buffer.downcast::<u64>(), Some(&mut [][..]));
    }

    #[test]
    #[should_panic(expected = "must be aligned to 8 bytes")]
    fn elements_that_are_not_aligned_are_refused() {
        let values = [0_u64; 2];
        // SAFETY: the bytes of one element lie there.
        let buffer = unsafe {
            DynBuffer::from_raw(values.as_ptr().byte_add(4), 1, u64::equivalent_datatype())
        };
        buffer.downcast::<u64>();
    }
}
