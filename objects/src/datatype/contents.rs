//! The envelope and the contents of a datatype: how it was made (MPI-5.0 §5.1.13).
//!
//! The arguments of a constructor are kept as they were given: as integers and addresses, or as
//! large counts if a large-count constructor was used.

use std::sync::Arc;

use super::Datatype;

/// The constructor of a datatype; numbered as in the standard ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
    ValueIndex = 117,
}

/// The number of arguments of each kind in the contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Length of `integers`.
    pub integers: usize,
    /// Length of `addresses`.
    pub addresses: usize,
    /// Length of `counts`; above 0 only for large-count constructors.
    pub counts: usize,
    /// Length of `types`.
    pub types: usize,
    /// The constructor.
    pub combiner: Combiner,
}

/// The arguments of the constructor, in the order of the standard's table.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Counts, block lengths and the like; each fits an `int`.
    pub integers: Vec<i32>,
    /// Displacements in bytes.
    pub addresses: Vec<i64>,
    /// Both of these as a large-count constructor took them.
    pub counts: Vec<i64>,
    /// The datatypes it was made of.
    pub types: Vec<Datatype>,
}

#[derive(Clone, Debug)]
pub(crate) struct Construction {
    pub(crate) combiner: Combiner,
    pub(crate) contents: Contents,
}

impl Construction {
    pub(crate) fn named() -> Construction {
        Construction { combiner: Combiner::Named, contents: Contents::default() }
    }

    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            integers: self.contents.integers.len(),
            addresses: self.contents.addresses.len(),
            counts: self.contents.counts.len(),
            types: self.contents.types.len(),
            combiner: self.combiner,
        }
    }
}

impl Drop for Construction {
    /// Drops the types that only this one kept alive, without recursion: chains of types have any
    /// length.
    fn drop(&mut self) {
        let mut pending = std::mem::take(&mut self.contents.types);
        while let Some(Datatype(inner)) = pending.pop() {
            if let Some(mut inner) = Arc::into_inner(inner) {
                pending.append(&mut inner.construction.contents.types);
            }
        }
    }
}
