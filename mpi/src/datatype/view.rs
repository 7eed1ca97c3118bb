//! Buffers with a datatype that the program chose.

#![allow(unsafe_code)]

use std::os::raw::c_void;

use super::{AsDatatype, Buffer, BufferMut, Collection, Datatype, Pointer, PointerMut};
use crate::Count;

/// A buffer with a number of elements and a datatype that the program chose.
#[derive(Debug)]
pub struct View<'d, 'b, D, B: ?Sized>
where
    D: 'd + Datatype,
    B: 'b + Pointer,
{
    datatype: &'d D,
    count: Count,
    buffer: &'b B,
}

impl<'d, 'b, D, B: ?Sized> View<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: 'b + Pointer,
{
    /// Makes a view of `count` elements of `datatype` at the start of `buffer`.
    ///
    /// # Safety
    /// The elements lie within the object that `buffer` borrows and have no uninitialised bytes.
    pub unsafe fn with_count_and_datatype(
        buffer: &'b B,
        count: Count,
        datatype: &'d D,
    ) -> View<'d, 'b, D, B> {
        View { datatype, count, buffer }
    }
}

// SAFETY: the datatype is the one that the view was made with.
unsafe impl<'d, D: Datatype, B: ?Sized + Pointer> AsDatatype for View<'d, '_, D, B> {
    type Out = &'d D;

    fn as_datatype(&self) -> Self::Out {
        self.datatype
    }
}

// SAFETY: the number is the one that the view was made with.
unsafe impl<D: Datatype, B: ?Sized + Pointer> Collection for View<'_, '_, D, B> {
    fn count(&self) -> Count {
        self.count
    }
}

// SAFETY: the address is that of the buffer, which is borrowed.
unsafe impl<D: Datatype, B: ?Sized + Pointer> Pointer for View<'_, '_, D, B> {
    fn pointer(&self) -> *const c_void {
        self.buffer.pointer()
    }
}

// SAFETY: the maker of the view promised that its elements can be read.
unsafe impl<D: Datatype, B: ?Sized + Pointer> Buffer for View<'_, '_, D, B> {}

/// A mutable buffer with a number of elements and a datatype that the program chose.
#[derive(Debug)]
pub struct MutView<'d, 'b, D, B: ?Sized>
where
    D: 'd + Datatype,
    B: 'b + PointerMut,
{
    datatype: &'d D,
    count: Count,
    buffer: &'b mut B,
}

impl<'d, 'b, D, B: ?Sized> MutView<'d, 'b, D, B>
where
    D: 'd + Datatype,
    B: 'b + PointerMut,
{
    /// Makes a view of `count` elements of `datatype` at the start of `buffer`.
    ///
    /// # Safety
    /// The elements lie within the object that `buffer` borrows, do not overlap, and any bytes of
    /// the datatype are valid there.
    pub unsafe fn with_count_and_datatype(
        buffer: &'b mut B,
        count: Count,
        datatype: &'d D,
    ) -> MutView<'d, 'b, D, B> {
        MutView { datatype, count, buffer }
    }
}

// SAFETY: the datatype is the one that the view was made with.
unsafe impl<'d, D: Datatype, B: ?Sized + PointerMut> AsDatatype for MutView<'d, '_, D, B> {
    type Out = &'d D;

    fn as_datatype(&self) -> Self::Out {
        self.datatype
    }
}

// SAFETY: the number is the one that the view was made with.
unsafe impl<D: Datatype, B: ?Sized + PointerMut> Collection for MutView<'_, '_, D, B> {
    fn count(&self) -> Count {
        self.count
    }
}

// SAFETY: the address is that of the buffer, which is borrowed mutably.
unsafe impl<D: Datatype, B: ?Sized + PointerMut> PointerMut for MutView<'_, '_, D, B> {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.buffer.pointer_mut()
    }
}

// SAFETY: the maker of the view promised that its elements can be written.
unsafe impl<D: Datatype, B: ?Sized + PointerMut> BufferMut for MutView<'_, '_, D, B> {}
