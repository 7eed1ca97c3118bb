//! Datatypes and buffers: where the data of a message lies in memory (MPI-5.0 §5).
//!
//! A datatype has one of two states. An uncommitted one is only a part of other datatypes; a
//! committed one also describes messages. Each state has an owner and a reference:
//!
//! | | owner, frees the datatype | reference |
//! |---|---|---|
//! | uncommitted | [`UncommittedUserDatatype`] | [`UncommittedDatatypeRef`] |
//! | committed | [`UserDatatype`] | [`DatatypeRef`] |
//!
//! [`Equivalence`] names the datatype of a Rust type; the feature `derive` implements it for
//! structures. A [`Buffer`] is a region of memory with its datatype and the number of elements: a
//! value, a slice, a vector or an array of any `T: Equivalence`. A [`View`] is a buffer of another
//! datatype than that of its elements. A [`DynBuffer`] knows its type at run time only.
//!
//! Calls of MPI take [`Collection::large_count`], so that a buffer can have more than 2^31 - 1
//! elements.

pub use self::address::address_of;
pub use self::buffer::{AsDatatype, Buffer, BufferMut, Collection, Pointer, PointerMut};
pub(crate) use self::buffer::{address_mut, small_count};
pub use self::dynamic::{DynBuffer, DynBufferMut};
#[cfg(feature = "complex")]
pub use self::equivalence::complex_datatype;
pub use self::equivalence::{Equivalence, SystemDatatype};
pub use self::owner::{UncommittedUserDatatype, UserDatatype};
pub(crate) use self::partition::check_parts;
pub use self::partition::{
    Partition, PartitionMut, Partitioned, PartitionedBuffer, PartitionedBufferMut,
};
pub use self::reference::{DatatypeRef, UncommittedDatatypeRef};
pub use self::state::{Datatype, UncommittedDatatype};
pub use self::view::{MutView, View};

mod address;
mod buffer;
mod dynamic;
mod equivalence;
#[doc(hidden)]
pub mod internal;
mod layout;
mod owner;
mod partition;
mod reference;
mod state;
mod uncommitted;
mod user;
mod view;

/// The traits of this module.
pub mod traits {
    pub use super::{
        AsDatatype, Buffer, BufferMut, Collection, Datatype, Equivalence, Partitioned,
        PartitionedBuffer, PartitionedBufferMut, Pointer, PointerMut, UncommittedDatatype,
    };
}
