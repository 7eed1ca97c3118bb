//! Buffers with a part for each rank, as collectives with varying counts take them.
//!
//! Invariant: each part lies within the buffer. The counts and displacements are therefore copied:
//! what is borrowed as a slice of them may be another one the next time.

#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::marker::PhantomData;
use std::os::raw::c_void;

use super::{AsDatatype, Buffer, BufferMut, Pointer, PointerMut};
use crate::Count;
use crate::ffi::MPI_Count;

/// Something in parts, one for each rank (MPI-5.0 §6.5).
pub trait Partitioned {
    /// Returns the number of elements of each part.
    fn counts(&self) -> &[Count];
    /// Returns where each part starts, in elements from the buffer's start.
    fn displs(&self) -> &[Count];
}

/// A buffer in parts.
pub trait PartitionedBuffer: Partitioned + Pointer + AsDatatype {}

/// A mutable buffer in parts.
pub trait PartitionedBufferMut: Partitioned + PointerMut + AsDatatype {}

/// Parts of a buffer.
#[derive(Debug)]
pub struct Partition<'b, B: 'b + ?Sized, C, D> {
    buf: &'b B,
    parts: Parts<C, D>,
}

impl<'b, B: ?Sized, C, D> Partition<'b, B, C, D>
where
    B: 'b + Buffer,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    /// Divides `buf`: part `i` has `counts[i]` elements and starts at element `displs[i]`.
    ///
    /// # Panics
    /// If a part is not within the buffer, or the slices have different lengths.
    #[track_caller]
    pub fn new(buf: &'b B, counts: C, displs: D) -> Self {
        let parts = Parts::new(buf.large_count(), counts, displs);
        Partition { buf, parts }
    }
}

/// Parts of a mutable buffer.
#[derive(Debug)]
pub struct PartitionMut<'b, B: 'b + ?Sized, C, D> {
    buf: &'b mut B,
    parts: Parts<C, D>,
}

impl<'b, B: ?Sized, C, D> PartitionMut<'b, B, C, D>
where
    B: 'b + BufferMut,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    /// Divides `buf`: part `i` has `counts[i]` elements and starts at element `displs[i]`.
    ///
    /// # Panics
    /// If a part is not within the buffer, or the slices have different lengths.
    #[track_caller]
    pub fn new(buf: &'b mut B, counts: C, displs: D) -> Self {
        let parts = Parts::new(buf.large_count(), counts, displs);
        PartitionMut { buf, parts }
    }
}

/// Where the parts of a buffer lie.
#[derive(Debug)]
struct Parts<C, D> {
    counts: Box<[Count]>,
    displacements: Box<[Count]>,
    /// The types that they were copied from.
    phantom: PhantomData<(C, D)>,
}

impl<C: Borrow<[Count]>, D: Borrow<[Count]>> Parts<C, D> {
    /// Panics unless each part lies within a buffer of `len` elements.
    #[track_caller]
    fn new(len: MPI_Count, counts: C, displacements: D) -> Self {
        let counts: Box<[Count]> = counts.borrow().into();
        let displacements: Box<[Count]> = displacements.borrow().into();
        check_parts(len, &counts, &displacements);
        Parts { counts, displacements, phantom: PhantomData }
    }
}

/// Panics unless each part lies within a buffer of `len` elements.
#[track_caller]
pub(crate) fn check_parts(len: MPI_Count, counts: &[Count], displs: &[Count]) {
    assert_eq!(counts.len(), displs.len(), "a part needs a count and a displacement");
    for (part, (&count, &displ)) in counts.iter().zip(displs).enumerate() {
        assert!(
            count >= 0 && displ >= 0 && MPI_Count::from(count) + MPI_Count::from(displ) <= len,
            "part {part} has {count} elements from element {displ}: it must lie within the \
             buffer's {len}"
        );
    }
}

// SAFETY: the datatype is that of the buffer.
unsafe impl<B: ?Sized + AsDatatype, C, D> AsDatatype for Partition<'_, B, C, D> {
    type Out = B::Out;

    fn as_datatype(&self) -> Self::Out {
        self.buf.as_datatype()
    }
}

// SAFETY: the address is that of the buffer, which is borrowed.
unsafe impl<B: ?Sized + Pointer, C, D> Pointer for Partition<'_, B, C, D> {
    fn pointer(&self) -> *const c_void {
        self.buf.pointer()
    }
}

impl<B: ?Sized, C, D> Partitioned for Partition<'_, B, C, D>
where
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    fn counts(&self) -> &[Count] {
        &self.parts.counts
    }

    fn displs(&self) -> &[Count] {
        &self.parts.displacements
    }
}

impl<B: ?Sized, C, D> PartitionedBuffer for Partition<'_, B, C, D>
where
    B: Pointer + AsDatatype,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
}

// SAFETY: the datatype is that of the buffer.
unsafe impl<B: ?Sized + AsDatatype, C, D> AsDatatype for PartitionMut<'_, B, C, D> {
    type Out = B::Out;

    fn as_datatype(&self) -> Self::Out {
        self.buf.as_datatype()
    }
}

// SAFETY: the address is that of the buffer, which is borrowed mutably.
unsafe impl<B: ?Sized + PointerMut, C, D> PointerMut for PartitionMut<'_, B, C, D> {
    fn pointer_mut(&mut self) -> *mut c_void {
        self.buf.pointer_mut()
    }
}

impl<B: ?Sized, C, D> Partitioned for PartitionMut<'_, B, C, D>
where
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
    fn counts(&self) -> &[Count] {
        &self.parts.counts
    }

    fn displs(&self) -> &[Count] {
        &self.parts.displacements
    }
}

impl<B: ?Sized, C, D> PartitionedBufferMut for PartitionMut<'_, B, C, D>
where
    B: PointerMut + AsDatatype,
    C: Borrow<[Count]>,
    D: Borrow<[Count]>,
{
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn parts_may_lie_anywhere_within_the_buffer() {
        let values = [0_u8; 6];
        let parts = Partition::new(&values[..], vec![2, 0, 3], &[0, 6, 3][..]);
        assert_eq!((parts.counts(), parts.displs()), (&[2, 0, 3][..], &[0, 6, 3][..]));
    }

    #[test]
    fn parts_stay_as_they_were_checked() {
        /// Lends another slice each time.
        struct Fickle(Cell<usize>);

        impl Borrow<[Count]> for Fickle {
            fn borrow(&self) -> &[Count] {
                &[[2], [1000]][self.0.replace(1)]
            }
        }

        let mut values = [0_u8; 2];
        let parts = PartitionMut::new(&mut values[..], Fickle(Cell::new(0)), vec![0]);
        assert_eq!((parts.counts(), parts.counts()), (&[2][..], &[2][..]));
    }

    #[test]
    #[should_panic(expected = "part 1 has 3 elements from element 4")]
    fn a_part_beyond_the_end_is_refused() {
        Partition::new(&[0_u8; 6][..], vec![2, 3], vec![0, 4]);
    }

    #[test]
    #[should_panic(expected = "part 0 has 2147483647 elements from element 2147483647")]
    fn the_end_of_a_part_is_counted_without_overflow() {
        PartitionMut::new(&mut [0_u8; 6][..], vec![Count::MAX], vec![Count::MAX]);
    }

    #[test]
    #[should_panic(expected = "part 0 has 1 elements from element -1")]
    fn a_part_before_the_start_is_refused() {
        Partition::new(&[0_u8; 6][..], vec![1], vec![-1]);
    }
}
