//! The methods of all communicators: ranks, duplicates, splits, names, topologies, packing.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::os::raw::c_int;
use std::process;

use super::handle::{AsHandle, CommunicatorHandle};
use super::rank::defined;
use super::{
    AnyProcess, CartesianCommunicator, Color, CommunicatorRelation, DistributedGraphCommunicator,
    GraphCommunicator, Group, InterCommunicator, Key, Process, Rank, SimpleCommunicator, SplitType,
    UserGroup, cartesian, check_rank, graph, pack,
};
use crate::datatype::{Buffer, BufferMut, Datatype};
use crate::error::call;
use crate::ffi::{self, MPI_Comm, written};
use crate::raw::{AsRaw, FromRaw};
use crate::{Count, Tag};

/// A value that belongs to a communicator.
pub trait AsCommunicator {
    /// The communicator's type.
    type Out: Communicator;
    /// Returns the communicator.
    fn as_communicator(&self) -> &Self::Out;
}

/// A group of processes with a context of its own (MPI-5.0 chapter 7).
///
/// Calls that make communicators are collective: all processes of the communicator make them, in
/// the same order. No type outside of this crate can be a communicator.
pub trait Communicator: AsHandle {
    /// Returns the number of processes that this one can send to: those of the communicator, or of
    /// the other group of an inter-communicator.
    fn target_size(&self) -> Rank {
        self.as_handle().target_size()
    }

    /// Returns the number of processes; of an inter-communicator, those of the own group
    /// (MPI-5.0 §7.4.1).
    fn size(&self) -> Rank {
        self.as_handle().size()
    }

    /// Returns the rank of the calling process (MPI-5.0 §7.4.1).
    fn rank(&self) -> Rank {
        self.as_handle().rank()
    }

    /// Returns the process of a rank: of the other group of an inter-communicator.
    ///
    /// # Panics
    /// If there is none.
    #[track_caller]
    fn process_at_rank(&self, r: Rank) -> Process<'_> {
        check_rank(r, self.target_size());
        Process::by_rank_unchecked(self, r)
    }

    /// Returns the source of a receive that takes messages from any process.
    fn any_process(&self) -> AnyProcess<'_> {
        AnyProcess::of(self)
    }

    /// Returns the calling process.
    fn this_process(&self) -> Process<'_> {
        Process::by_rank_unchecked(self, self.rank())
    }

    /// Compares two communicators (MPI-5.0 §7.4.1).
    fn compare(&self, other: &dyn Communicator) -> CommunicatorRelation {
        let mut relation = 0;
        // SAFETY: both handles are valid.
        unsafe { call!(MPI_Comm_compare(self.as_raw(), other.as_raw(), &mut relation)) };
        relation.into()
    }

    /// Makes a communicator of the same processes with a context of its own (MPI-5.0 §7.4.2).
    /// Attributes are cloned if their types say so.
    ///
    /// # Panics
    /// If this is an inter-communicator. [`InterCommunicator::duplicate`] is for those.
    fn duplicate(&self) -> SimpleCommunicator {
        made_of(self.as_handle(), "duplicate", |raw, new| {
            // SAFETY: the handle is valid.
            unsafe { call!(MPI_Comm_dup(raw, new)) }
        })
        .expect("MPI_Comm_dup makes a communicator")
    }

    /// Makes a communicator for each colour, of the processes that give it, in the order of their
    /// ranks (MPI-5.0 §7.4.2). Returns `None` where the colour is undefined.
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn split_by_color(&self, color: Color) -> Option<SimpleCommunicator> {
        self.split_by_color_with_key(color, Key::default())
    }

    /// Makes a communicator for each colour, of the processes that give it, in the order of their
    /// keys (MPI-5.0 §7.4.2). Returns `None` where the colour is undefined.
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn split_by_color_with_key(&self, color: Color, key: Key) -> Option<SimpleCommunicator> {
        made_of(self.as_handle(), "split", |raw, new| {
            // SAFETY: the handle is valid.
            unsafe { call!(MPI_Comm_split(raw, color.as_raw(), key, new)) }
        })
    }

    /// Makes a communicator of those processes that can share memory with this one, in the order of
    /// their keys (MPI-5.0 §7.4.2, MPI_COMM_TYPE_SHARED).
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn split_shared(&self, key: c_int) -> SimpleCommunicator {
        let shared = self.split_by_type(SplitType::Shared, key);
        shared.expect("each process shares memory with itself")
    }

    /// Makes communicators of processes that have something in common, in the order of their keys
    /// (MPI-5.0 §7.4.2, MPI_Comm_split_type).
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn split_by_type(&self, kind: SplitType, key: Key) -> Option<SimpleCommunicator> {
        made_of(self.as_handle(), "split", |raw, new| {
            let (kind, info) = (kind.as_raw(), ffi::MPI_INFO_NULL);
            // SAFETY: the handle is valid.
            unsafe { call!(MPI_Comm_split_type(raw, kind, key, info, new)) }
        })
    }

    /// Makes a communicator for each group that is given (MPI-5.0 §7.4.2, MPI_Comm_create). All
    /// processes of this communicator make the call. Groups that differ have no process in common.
    /// Returns `None` where the group does not have the calling process.
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn split_by_subgroup_collective(&self, group: &dyn Group) -> Option<SimpleCommunicator> {
        made_of(self.as_handle(), "split", |raw, new| {
            // SAFETY: both handles are valid.
            unsafe { call!(MPI_Comm_create(raw, group.as_raw(), new)) }
        })
    }

    /// Makes a communicator of a group (MPI-5.0 §7.4.2, MPI_Comm_create_group). Only the processes
    /// of the group make the call. Returns `None` to another process that makes it.
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn split_by_subgroup(&self, group: &dyn Group) -> Option<SimpleCommunicator> {
        self.split_by_subgroup_with_tag(group, Tag::default())
    }

    /// Makes a communicator of a group, as [`split_by_subgroup`](Self::split_by_subgroup) does. The
    /// tag tells apart the calls of several threads at the same time.
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn split_by_subgroup_with_tag(
        &self,
        group: &dyn Group,
        tag: Tag,
    ) -> Option<SimpleCommunicator> {
        made_of(self.as_handle(), "split", |raw, new| {
            // SAFETY: both handles are valid.
            unsafe { call!(MPI_Comm_create_group(raw, group.as_raw(), tag, new)) }
        })
    }

    /// Returns the group of the communicator's processes; of an inter-communicator, the own one
    /// (MPI-5.0 §7.3.2).
    fn group(&self) -> UserGroup {
        let mut group = ffi::MPI_GROUP_NULL;
        // SAFETY: the handle is valid, and the group belongs to the result.
        unsafe {
            call!(MPI_Comm_group(self.as_raw(), &mut group));
            UserGroup::from_raw(group)
        }
    }

    /// Ends all processes of the communicator, or of the job, with an exit code (MPI-5.0 §9.7).
    fn abort(&self, errorcode: c_int) -> ! {
        // SAFETY: the handle is valid.
        unsafe { ffi::MPI_Abort(self.as_raw(), errorcode) };
        process::abort();
    }

    /// Returns whether this is an inter-communicator (MPI-5.0 §7.6.1).
    fn test_inter(&self) -> bool {
        self.as_handle().is_inter_comm()
    }

    /// Names the communicator (MPI-5.0 §7.8). MPI keeps the first 127 bytes.
    ///
    /// # Panics
    /// If the name has a zero byte.
    fn set_name(&self, name: &str) {
        let name = CString::new(name).expect("a name of a communicator has no zero byte");
        // SAFETY: the handle is valid, and the name ends with a zero byte.
        unsafe { call!(MPI_Comm_set_name(self.as_raw(), name.as_ptr())) };
    }

    /// Returns the communicator's name, which is empty if it got none (MPI-5.0 §7.8).
    fn get_name(&self) -> String {
        // SAFETY: the handle is valid, and no name is longer than the constant says.
        let name = unsafe {
            written(ffi::MPI_MAX_OBJECT_NAME, |name, len| {
                call!(MPI_Comm_get_name(self.as_raw(), name, len));
            })
        };
        String::from_utf8_lossy(&name).into_owned()
    }

    /// Makes a communicator of a grid (MPI-5.0 §8.5.1). Returns `None` where the grid has no place
    /// for the calling process.
    ///
    /// `dims` has the extent of each dimension, `periods` whether it is a ring. If `reorder` is
    /// true, the library may order the ranks so that neighbours are close.
    ///
    /// # Panics
    /// If `dims` and `periods` differ in length, or this is an inter-communicator.
    fn create_cartesian_communicator(
        &self,
        dims: &[Count],
        periods: &[bool],
        reorder: bool,
    ) -> Option<CartesianCommunicator> {
        let (dimensions, periods) = cartesian::grid(dims, periods);
        made_of(self.as_handle(), "grid", |raw, new| {
            let (dims, periods) = (dims.as_ptr(), periods.as_ptr());
            // SAFETY: the handle is valid, and both arrays have a number for each dimension.
            unsafe {
                call!(MPI_Cart_create(raw, dimensions, dims, periods, c_int::from(reorder), new));
            }
        })
        .map(CartesianCommunicator)
    }

    /// Makes a communicator of a graph (MPI-5.0 §8.5.4, MPI_Dist_graph_create_adjacent). Each
    /// process gives its own edges: the ranks of those that come to it, and of those that go from
    /// it. The edges have no weights.
    ///
    /// If `reorder` is true, the library may order the ranks so that neighbours are close.
    ///
    /// # Panics
    /// If this is an inter-communicator.
    fn create_graph_communicator(
        &self,
        sources: &[Rank],
        destinations: &[Rank],
        reorder: bool,
    ) -> DistributedGraphCommunicator {
        let size = self.size();
        sources.iter().chain(destinations).for_each(|&rank| check_rank(rank, size));
        let made = made_of(self.as_handle(), "graph", |raw, new| {
            let reorder = c_int::from(reorder);
            // SAFETY: the handle is valid.
            unsafe { graph::create(raw, sources, destinations, reorder, new) }
        });
        DistributedGraphCommunicator(made.expect("each process is in the graph"))
    }

    /// Returns the rank that the calling process would have in a grid whose ranks are reordered
    /// (MPI-5.0 §8.5.8), or `None` if it would have no place there.
    ///
    /// # Panics
    /// If `dims` and `periods` differ in length.
    fn cartesian_map(&self, dims: &[Count], periods: &[bool]) -> Option<Rank> {
        let (dimensions, periods) = cartesian::grid(dims, periods);
        let (dims, periods) = (dims.as_ptr(), periods.as_ptr());
        let mut rank = ffi::MPI_UNDEFINED;
        // SAFETY: the handle is valid, and both arrays have a number for each dimension.
        unsafe { call!(MPI_Cart_map(self.as_raw(), dimensions, dims, periods, &mut rank)) };
        defined(rank)
    }

    /// Returns how many bytes packing elements of a datatype takes at most (MPI-5.0 §5.2).
    ///
    /// # Panics
    /// If there are more bytes than a `Count` holds.
    fn pack_size<Dt>(&self, incount: Count, datatype: &Dt) -> Count
    where
        Dt: Datatype,
        Self: Sized,
    {
        // SAFETY: both handles are valid.
        let size = unsafe { pack::size(self.as_raw(), incount.into(), datatype.as_raw()) };
        size.try_into().expect("packed data of more than 2147483647 bytes has no Count")
    }

    /// Packs a buffer into bytes, in a form of the library's choice (MPI-5.0 §5.2).
    fn pack<Buf>(&self, inbuf: &Buf) -> Vec<u8>
    where
        Buf: ?Sized + Buffer,
        Self: Sized,
    {
        let (count, datatype) = (inbuf.large_count(), inbuf.as_datatype());
        // SAFETY: both handles are valid.
        let size = unsafe { pack::size(self.as_raw(), count, datatype.as_raw()) };
        let mut bytes = vec![0; usize::try_from(size).expect("a negative packed size")];
        let end = self.pack_into(inbuf, &mut bytes, 0);
        bytes.truncate(end as usize);
        bytes
    }

    /// Packs a buffer into bytes from `position`, and returns the position after it
    /// (MPI-5.0 §5.2).
    ///
    /// # Panics
    /// If `position` lies outside of the bytes.
    fn pack_into<Buf>(&self, inbuf: &Buf, outbuf: &mut [u8], position: Count) -> Count
    where
        Buf: ?Sized + Buffer,
        Self: Sized,
    {
        // SAFETY: the handle is valid.
        unsafe { pack::pack(self.as_raw(), inbuf, outbuf, position) }
    }

    /// Unpacks a buffer out of packed bytes from `position`, and returns the position after it
    /// (MPI-5.0 §5.2).
    ///
    /// # Safety
    /// The bytes at the position come from packing a buffer of the same types.
    ///
    /// # Panics
    /// If `position` lies outside of the bytes.
    unsafe fn unpack_into<Buf>(&self, inbuf: &[u8], outbuf: &mut Buf, position: Count) -> Count
    where
        Buf: ?Sized + BufferMut,
        Self: Sized,
    {
        // SAFETY: the handle is valid; the rest as the caller promises.
        unsafe { pack::unpack(self.as_raw(), inbuf, outbuf, position) }
    }

    /// Returns the inter-communicator with the processes that spawned this one (MPI-5.0 §11.8.2),
    /// if there are any and [`disconnect_parent`] was not called.
    ///
    /// [`disconnect_parent`]: crate::environment::Universe::disconnect_parent
    fn parent(&self) -> Option<InterCommunicator> {
        CommunicatorHandle::parent().map(InterCommunicator)
    }
}

/// Returns the communicator that a call makes of an intra-communicator.
fn made_of(
    comm: &CommunicatorHandle,
    what: &str,
    call: impl FnOnce(MPI_Comm, *mut MPI_Comm),
) -> Option<SimpleCommunicator> {
    assert!(!comm.is_inter_comm(), "{what} of an inter-communicator: only intra-communicators");
    let mut new = ffi::MPI_COMM_NULL;
    call(comm.as_raw(), &mut new);
    // SAFETY: a call makes an intra-communicator of an intra-communicator, or MPI_COMM_NULL.
    unsafe { SimpleCommunicator::try_from_raw(new) }
}

/// Makes types communicators, each of which belongs to itself.
macro_rules! communicators {
    ($($type:ty),* $(,)?) => {
        $(
            impl Communicator for $type {}

            impl AsCommunicator for $type {
                type Out = Self;

                fn as_communicator(&self) -> &Self::Out {
                    self
                }
            }
        )*
    };
}

communicators! {
    SimpleCommunicator,
    CartesianCommunicator,
    GraphCommunicator,
    DistributedGraphCommunicator,
    InterCommunicator,
    AnyProcess<'_>,
}

impl Communicator for Process<'_> {}

impl<'a> AsCommunicator for Process<'a> {
    type Out = AnyProcess<'a>;

    fn as_communicator(&self) -> &Self::Out {
        &self.comm
    }
}
