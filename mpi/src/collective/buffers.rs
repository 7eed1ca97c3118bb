//! Buffers as the functions of C take them, and the checks of their lengths.

#![allow(unsafe_code)]

use std::any::type_name;
use std::ops::Deref;
use std::os::raw::{c_int, c_void};
use std::ptr::{self, NonNull};

use crate::Count;
use crate::datatype::{
    AsDatatype, Buffer, BufferMut, Datatype, DatatypeRef, Partitioned, PartitionedBuffer,
    PartitionedBufferMut, UncommittedDatatype as _, check_parts,
};
use crate::ffi::{self, MPI_Count, MPI_Datatype, MPI_Request};
use crate::raw::FromRaw as _;
use crate::request::{Request, Scope};
use crate::topology::handle::CommunicatorHandle;

/// A number of elements of a datatype.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements {
    pub(super) pointer: *mut c_void,
    pub(super) count: MPI_Count,
    pub(super) datatype: MPI_Datatype,
    /// The type of the buffer in Rust, for texts of errors.
    pub(super) type_name: &'static str,
}

/// Elements in parts, one for each process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts<'b> {
    pub(super) pointer: *mut c_void,
    counts: &'b [Count],
    displacements: &'b [Count],
    pub(super) datatype: MPI_Datatype,
}

/// A buffer, and the value that owns or borrows its datatype.
#[derive(Debug)]
pub(super) struct Typed<B, D> {
    buffer: B,
    /// Keeps the datatype until the call has been made. MPI keeps it for the operation.
    _datatype: D,
}

impl<B, D> Deref for Typed<B, D> {
    type Target = B;

    fn deref(&self) -> &B {
        &self.buffer
    }
}

/// The elements of buffer `B`.
pub(super) type ElementsOf<B> = Typed<Elements, <B as AsDatatype>::Out>;
/// The parts of buffer `B`.
pub(super) type PartsOf<'b, B> = Typed<Parts<'b>, <B as AsDatatype>::Out>;

/// Returns a buffer that is sent.
pub(super) fn sent<B: ?Sized + Buffer>(buffer: &B) -> ElementsOf<B> {
    let (datatype, count) = (buffer.as_datatype(), buffer.large_count());
    typed(datatype, |datatype| Elements {
        pointer: buffer.pointer().cast_mut(),
        count,
        datatype,
        type_name: type_name::<B>(),
    })
}

/// Returns a buffer that is received into.
pub(super) fn received<B: ?Sized + BufferMut>(buffer: &mut B) -> ElementsOf<B> {
    let (datatype, count) = (buffer.as_datatype(), buffer.large_count());
    typed(datatype, |datatype| Elements {
        pointer: buffer.pointer_mut(),
        count,
        datatype,
        type_name: type_name::<B>(),
    })
}

/// Returns a buffer in parts that is sent.
#[track_caller]
pub(super) fn sent_parts<B: ?Sized + PartitionedBuffer>(buffer: &B) -> PartsOf<'_, B> {
    parts(buffer, buffer.pointer().cast_mut())
}

/// Returns a buffer in parts that is received into.
#[track_caller]
pub(super) fn received_parts<B: ?Sized + PartitionedBufferMut>(buffer: &mut B) -> PartsOf<'_, B> {
    let pointer = buffer.pointer_mut();
    parts(&*buffer, pointer)
}

/// Returns the parts of a buffer that lies at `pointer`.
///
/// # Panics
/// If the buffer is one value of a type with a datatype, and a part not within it. A
/// [`Partition`](crate::datatype::Partition) was checked when it was made, but any program can
/// make its own types partitioned.
#[track_caller]
fn parts<B>(buffer: &B, pointer: *mut c_void) -> PartsOf<'_, B>
where
    B: ?Sized + Partitioned + AsDatatype,
{
    let (counts, displacements) = (buffer.counts(), buffer.displs());
    if pointer.addr() == ptr::from_ref(buffer).addr() {
        check_parts(1, counts, displacements);
    }
    typed(buffer.as_datatype(), |datatype| Parts { pointer, counts, displacements, datatype })
}

fn typed<B, D: Datatype>(datatype: D, buffer: impl FnOnce(MPI_Datatype) -> B) -> Typed<B, D> {
    Typed { buffer: buffer(datatype.as_raw()), _datatype: datatype }
}

impl Elements {
    /// The buffer of a process that gives or gets nothing: its arguments are not significant.
    pub(super) const NONE: Elements =
        Elements { pointer: ptr::null_mut(), count: 0, datatype: ffi::MPI_BYTE, type_name: "" };

    /// Returns how many elements there are for each process that `comm` addresses.
    pub(super) fn per_process(&self, comm: &CommunicatorHandle) -> MPI_Count {
        self.count / MPI_Count::from(comm.target_size())
    }

    /// Returns how many elements there are for each of `neighbors`.
    ///
    /// # Panics
    /// If they are not as many for each.
    #[track_caller]
    pub(super) fn per_neighbor(&self, neighbors: Count) -> MPI_Count {
        let neighbors = MPI_Count::from(neighbors);
        let is_even = match neighbors {
            0 => self.count == 0,
            _ => self.count % neighbors == 0,
        };
        assert!(
            is_even,
            "{} elements for {neighbors} neighbors: must be as many for each",
            self.count,
        );
        self.count / neighbors.max(1)
    }

    /// Returns the number of elements as an `int`.
    ///
    /// # Panics
    /// If it is larger than 2^31 - 1.
    #[track_caller]
    pub(super) fn int_count(&self) -> c_int {
        self.count.try_into().unwrap_or_else(|_| {
            panic!(
                "{} elements in one buffer: a partitioned operation takes 2147483647",
                self.count
            )
        })
    }

    /// Panics unless the result of a reduction of `sent` fits into this buffer.
    #[track_caller]
    pub(super) fn check_result_of(&self, sent: &Elements) {
        assert!(
            self.count >= sent.count,
            "the receive buffer has {} elements: must have {}, as many as the send buffer",
            self.count,
            sent.count,
        );
        assert!(
            are_same(self.datatype, sent.datatype),
            "the send buffer is {}, but the receive buffer {}: must have the same datatype",
            sent.type_name,
            self.type_name,
        );
    }
}

impl<'b> Parts<'b> {
    /// The buffer of a process that gives or gets nothing: its arguments are not significant.
    pub(super) const NONE: Parts<'static> = Parts {
        pointer: ptr::null_mut(),
        counts: &[],
        displacements: &[],
        datatype: ffi::MPI_BYTE,
    };

    pub(super) fn counts(&self) -> *const c_int {
        self.counts.as_ptr()
    }

    pub(super) fn displacements(&self) -> *const c_int {
        self.displacements.as_ptr()
    }

    /// Returns the number of elements of a process's part.
    pub(super) fn of(&self, rank: c_int) -> MPI_Count {
        MPI_Count::from(self.counts[rank as usize])
    }

    /// Panics unless there is a part for each process that `comm` addresses.
    #[track_caller]
    pub(super) fn check_number(&self, comm: &CommunicatorHandle) {
        self.check_neighbors(comm.target_size());
    }

    /// Panics unless there is a part for each of `processes`.
    #[track_caller]
    pub(super) fn check_neighbors(&self, processes: Count) {
        let parts = self.counts.len().min(self.displacements.len());
        assert!(
            parts >= processes as usize,
            "the buffer has {parts} parts: must have {processes}, one for each process",
        );
    }
}

/// Panics unless the process sends itself as many bytes as it receives from itself.
///
/// MPI copies the one to the other. There is no such part on an inter-communicator.
#[track_caller]
pub(super) fn check_own(
    comm: &CommunicatorHandle,
    sent: (MPI_Count, MPI_Datatype),
    received: (MPI_Count, MPI_Datatype),
) {
    if sent == received || comm.is_inter_comm() {
        return;
    }
    let bytes = |(count, datatype)| i128::from(count) * i128::from(borrowed(datatype).size());
    let (sent, received) = (bytes(sent), bytes(received));
    assert!(
        sent == received,
        "the process sends itself {sent} bytes and receives {received}: must be as many",
    );
}

/// Returns the datatype of a buffer that is borrowed.
fn borrowed<'b>(datatype: MPI_Datatype) -> DatatypeRef<'b> {
    // SAFETY: a buffer has a committed datatype, which lives as long as the buffer is borrowed.
    unsafe { DatatypeRef::from_raw(datatype) }
}

/// Returns whether elements of one datatype can be written where those of another are.
fn are_same(one: MPI_Datatype, other: MPI_Datatype) -> bool {
    /// Handles of predefined objects are below this number (MPI-5.0 §20.3).
    const FIRST_MADE: usize = 0x1000;
    let measures = |datatype| (borrowed(datatype).size(), borrowed(datatype).extent());
    // A type may make a new datatype at each call; these are compared by their measures.
    let both_made = one.0.min(other.0) >= FIRST_MADE;
    one == other || (both_made && measures(one) == measures(other))
}

/// Borrows a receive buffer for an operation that is complete only later.
pub(super) fn lent<B: ?Sized + BufferMut>(buffer: &mut B) -> (NonNull<B>, ElementsOf<B>) {
    let mut data = NonNull::from(buffer);
    // SAFETY: the buffer is borrowed mutably, and this reference ends here.
    (data, received(unsafe { data.as_mut() }))
}

/// Borrows a receive buffer in parts for an operation that is complete only later.
pub(super) fn lent_parts<'a, B: ?Sized + PartitionedBufferMut>(
    buffer: &'a mut B,
) -> (NonNull<B>, PartsOf<'a, B>) {
    let mut data = NonNull::from(buffer);
    // SAFETY: the buffer is borrowed mutably for `'a`. Its counts and displacements are borrowed
    // for that time, and only read.
    (data, received_parts(unsafe { data.as_mut() }))
}

/// Where the request of an operation is written, or `None` to complete it in the call.
pub(super) type Start = Option<*mut MPI_Request>;

/// Calls a function, or the one that starts the same operation and writes a request.
macro_rules! start {
    ($start:expr, $complete:ident or $immediate:ident, $($argument:expr),* $(,)?) => {
        match $start {
            None => $crate::error::call!($complete($($argument),*)),
            Some(request) => $crate::error::call!($immediate($($argument),*, request)),
        }
    };
}
pub(super) use start;

/// Starts an operation and returns its request.
///
/// # Safety
/// `start` starts an operation and writes its request. All buffers of the operation are borrowed
/// for `'a`, those that it writes mutably.
pub(super) unsafe fn started<'a, D: ?Sized, S: Scope<'a>>(
    scope: S,
    data: NonNull<D>,
    start: impl FnOnce(Start),
) -> Request<'a, D, S> {
    let mut request = ffi::MPI_REQUEST_NULL;
    start(Some(&mut request));
    // SAFETY: the request is open and belongs to the result; the rest as the caller promises.
    unsafe { Request::with_pointer(request, data, scope) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::{Equivalence, PartitionMut, SystemDatatype};

    const WORLD: CommunicatorHandle = CommunicatorHandle::World;

    #[test]
    fn a_buffer_is_its_elements() {
        let values = [1_i32, 2, 3];
        let elements = sent(&values[..]);
        assert_eq!(elements.pointer.cast_const().cast(), values.as_ptr());
        assert_eq!((elements.count, elements.datatype), (3, ffi::MPI_INT32_T));
    }

    #[test]
    fn parts_are_those_of_the_partition() {
        let mut values = [0_u8; 5];
        let mut parts = PartitionMut::new(&mut values[..], vec![2, 3], vec![0, 2]);
        let parts = received_parts(&mut parts);
        assert_eq!((parts.of(0), parts.of(1), parts.displacements), (2, 3, &[0, 2][..]));
    }

    #[test]
    #[should_panic(expected = "part 0 has 9 elements from element 0: it must lie within")]
    fn parts_of_a_value_lie_within_it() {
        struct Value(#[expect(dead_code, reason = "it gives the value bytes")] u8);

        // SAFETY: the datatype is that of the field.
        unsafe impl Equivalence for Value {
            type Out = SystemDatatype;

            fn equivalent_datatype() -> SystemDatatype {
                u8::equivalent_datatype()
            }
        }

        impl Partitioned for Value {
            fn counts(&self) -> &[Count] {
                &[9]
            }

            fn displs(&self) -> &[Count] {
                &[0]
            }
        }

        impl PartitionedBufferMut for Value {}

        received_parts(&mut Value(0));
    }

    #[test]
    fn equal_parts_of_the_same_datatype_need_no_library() {
        check_own(&WORLD, (3, ffi::MPI_BYTE), (3, ffi::MPI_BYTE));
        received(&mut [0_i16; 4]).check_result_of(&sent(&[1_i16; 3]));
    }

    #[test]
    #[should_panic(expected = "the receive buffer has 2 elements: must have 3")]
    fn a_result_must_fit() {
        received(&mut [0_i16; 2]).check_result_of(&sent(&[1_i16; 3]));
    }

    #[test]
    #[should_panic(expected = "the send buffer is [u8; 3], but the receive buffer [i16; 3]")]
    fn a_result_has_the_datatype_of_the_values() {
        received(&mut [0_i16; 3]).check_result_of(&sent(&[1_u8; 3]));
    }

    #[test]
    fn neighbors_get_as_many_elements_each() {
        assert_eq!(sent(&[1_u8; 6]).per_neighbor(3), 2);
        assert_eq!(sent(&[1_u8; 0]).per_neighbor(0), 0);
    }

    #[test]
    #[should_panic(expected = "6 elements for 4 neighbors")]
    fn elements_that_are_left_over_are_refused() {
        sent(&[1_u8; 6]).per_neighbor(4);
    }

    #[test]
    #[should_panic(expected = "2147483648 elements in one buffer")]
    fn an_int_does_not_hold_any_count() {
        Elements { count: 1 << 31, ..Elements::NONE }.int_count();
    }
}
