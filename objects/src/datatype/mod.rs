//! Datatypes: the elements of a buffer and their positions (MPI-5.0 chapter 5).
//!
//! A [`Datatype`] is shared and never changes, except for its name, attributes and committed flag.
//! Constructors (`construct.rs`, `array.rs`) compose type maps. The layout is normalised at once,
//! so that committing costs nothing and a type built from types remains fast.

mod array;
pub mod basic;
mod construct;
mod contents;
pub(crate) mod copy;
mod external;
mod file_form;
mod layout;
mod runs;
mod signature;
mod signature_word;
mod strided_runs;
mod typemap;

use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

pub use array::{Distribution, Order};
pub use basic::{Basic, Family, MPI_LB, MPI_UB, Repr, Scalar};
pub use construct::{Counting, TypeClass};
pub use contents::{Combiner, Contents, Envelope};
pub use runs::{Placement, Run, Runs};
pub use signature_word::SignatureWord;
pub use strided_runs::StridedRuns;

use crate::{Attributes, Class, Error, Result};
use basic::FIRST_HANDLE;
use contents::Construction;
use copy::Nest;
use layout::Node;
use typemap::TypeMap;

/// A datatype. Clones are the same datatype.
#[derive(Clone)]
pub struct Datatype(Arc<Inner>);

struct Inner {
    map: TypeMap,
    size: u64,
    lb: i64,
    extent: i64,
    true_lb: i64,
    true_extent: i64,
    /// Any number of elements is one run of bytes.
    gapless: bool,
    /// The ABI's handle; 0 for types without a name.
    handle: u16,
    /// Predefined, with or without a name: neither committed nor freed by users.
    predefined: bool,
    committed: AtomicBool,
    construction: Construction,
    name: Mutex<OsString>,
    attributes: Mutex<Attributes>,
}

/// Most levels of nested copies; a deeper type is refused.
const MAX_DEPTH: u32 = 500;

impl Datatype {
    /// Returns the predefined datatype of an ABI handle, or of [`MPI_LB`] and [`MPI_UB`].
    #[inline]
    pub fn predefined(handle: usize) -> Option<&'static Datatype> {
        PREDEFINED.get(handle.wrapping_sub(FIRST_HANDLE))?.as_ref()
    }

    /// Returns the bytes of an element of a predefined datatype without gaps; 0 for all other
    /// handles, and for all while signatures are checked ([`SignatureWord`]).
    #[inline]
    pub fn plain_size(handle: usize) -> usize {
        let size = basic::PLAIN.get(handle.wrapping_sub(FIRST_HANDLE));
        size.map_or(0, |size| size.load(Ordering::Relaxed)).into()
    }

    /// Returns the bytes of an element of a predefined integer that wraps; 0 for all other handles.
    #[inline]
    pub fn integer_size(handle: usize) -> usize {
        basic::INTEGERS.get(handle.wrapping_sub(FIRST_HANDLE)).copied().unwrap_or(0).into()
    }

    /// Returns MPI_BYTE.
    pub fn byte() -> &'static Datatype {
        &BYTE
    }

    /// Commits the type (MPI_Type_commit).
    pub fn commit(&self) {
        self.0.committed.store(true, Ordering::Relaxed);
    }

    /// Sets the name (MPI_Type_set_name).
    pub fn set_name(&self, name: impl Into<OsString>) {
        *lock(&self.0.name) = name.into();
    }

    /// Returns the attributes. The lock must not be held while callbacks run: take what they need
    /// out first.
    pub fn attributes(&self) -> &Mutex<Attributes> {
        &self.0.attributes
    }

    /// Returns the name byte for byte (MPI_Type_get_name).
    pub fn given_name(&self) -> OsString {
        lock(&self.0.name).clone()
    }

    /// Returns the name as texts show it.
    pub fn name(&self) -> String {
        self.given_name().to_string_lossy().into_owned()
    }

    /// Returns true if the type may be used for communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.0.committed.load(Ordering::Relaxed)
    }

    /// Returns true for predefined types, with a name or without (a Fortran type by precision, a
    /// pair).
    #[inline]
    pub fn is_predefined(&self) -> bool {
        self.0.predefined
    }

    /// Returns the ABI's handle of a named type.
    #[inline]
    pub fn handle(&self) -> Option<usize> {
        (self.0.handle != 0).then_some(usize::from(self.0.handle))
    }

    /// Returns true for the same object, not for an equal one.
    #[inline]
    pub fn is_same(&self, other: &Datatype) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns a number that identifies the object while it lives.
    #[inline]
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0) as usize
    }

    /// Returns the packed bytes of one element.
    #[inline]
    pub fn size(&self) -> u64 {
        self.0.size
    }

    /// Returns lower bound and extent in bytes.
    #[inline]
    pub fn extent(&self) -> (i64, i64) {
        (self.0.lb, self.0.extent)
    }

    /// Returns lower bound and extent of the data alone, in bytes.
    #[inline]
    pub fn true_extent(&self) -> (i64, i64) {
        (self.0.true_lb, self.0.true_extent)
    }

    /// Returns the bytes that `count` elements occupy, `low .. high` relative to the first one's
    /// address; `None` beyond 63 bits.
    #[inline]
    pub fn reach(&self, count: u64) -> Option<(i64, i64)> {
        if !self.0.gapless {
            return self.reach_with_gaps(count);
        }
        let bytes = i64::try_from(self.0.size.checked_mul(count)?).ok()?;
        let low = if bytes == 0 { 0 } else { self.0.true_lb };
        Some((low, low.checked_add(bytes)?))
    }

    #[inline(never)]
    fn reach_with_gaps(&self, count: u64) -> Option<(i64, i64)> {
        if count == 0 || self.0.size == 0 {
            return Some((0, 0));
        }
        let last = i64::try_from(count - 1).ok()?.checked_mul(self.0.extent)?;
        let low = self.0.true_lb.checked_add(last.min(0))?;
        let high = self.0.true_lb.checked_add(self.0.true_extent)?.checked_add(last.max(0))?;
        self.0.size.checked_mul(count).filter(|&size| size <= i64::MAX as u64)?;
        Some((low, high))
    }

    /// Returns true if any number of elements is one run of bytes (which starts at the true lower
    /// bound).
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.0.gapless
    }

    /// Returns the predefined type of all elements, if there is only one.
    pub fn basic(&self) -> Option<Basic> {
        self.0.map.signature.basic()
    }

    /// Returns the basic elements in one element (MPI-5.0 §5.1.11; a pair has two).
    pub fn elements(&self) -> u64 {
        self.0.map.signature.totals().elements
    }

    /// Returns the whole basic elements in `bytes` packed bytes of this type repeated, and whether
    /// a part of one remains.
    pub fn elements_of(&self, bytes: u64) -> (u64, bool) {
        let totals = self.0.map.signature.totals();
        if totals.size == 0 {
            return (0, bytes > 0);
        }
        let (elements, partial) = self.0.map.signature.elements_of(bytes % totals.size);
        ((bytes / totals.size).saturating_mul(totals.elements).saturating_add(elements), partial)
    }

    /// Returns the packed bytes of so many basic elements (saturating).
    pub fn bytes_of(&self, elements: u64) -> u64 {
        let totals = self.0.map.signature.totals();
        if totals.elements == 0 {
            return 0;
        }
        let rest = self.0.map.signature.bytes_of(elements % totals.elements);
        (elements / totals.elements).saturating_mul(totals.size).saturating_add(rest)
    }

    /// Returns the word of the first `bytes` packed bytes of this type repeated.
    pub fn signature_word(&self, bytes: u64) -> SignatureWord {
        SignatureWord::of(&self.0.map.signature, bytes)
    }

    /// Returns the envelope (MPI_Type_get_envelope).
    pub fn envelope(&self) -> Envelope {
        self.0.construction.envelope()
    }

    /// Returns the contents (MPI_Type_get_contents). MPI_ERR_TYPE for a named type.
    pub fn contents(&self) -> Result<&Contents> {
        match self.0.construction.combiner {
            Combiner::Named => Err(Error::new(
                Class::Type,
                format!("{} is predefined: it has no contents", self.name()),
            )),
            _ => Ok(&self.0.construction.contents),
        }
    }

    /// Returns the copy kernels' view of `count` elements, and the offset of the first from the
    /// element's address.
    #[inline]
    pub(crate) fn nest(&self, count: u64) -> (Nest<'_>, i64) {
        let layout = &self.0.map.layout;
        (Nest { count, stride: self.0.extent, body: &layout.node }, layout.disp)
    }

    /// Returns true if `count` elements are one run of bytes at the true lower bound.
    #[inline]
    pub(crate) fn is_run(&self, count: u64) -> bool {
        self.0.gapless || count <= 1 && matches!(self.0.map.layout.node, Node::Run(_))
    }

    pub(crate) fn map(&self) -> &TypeMap {
        &self.0.map
    }

    /// Makes a type from its map. `None` in `map` stands for out of range.
    fn build(map: Option<TypeMap>, construction: Construction) -> Result<Datatype> {
        let out_of_range =
            || Error::new(Class::Type, "datatype too large: it spans more than 2^63 bytes");
        let map = map.ok_or_else(out_of_range)?;
        if map.layout.node.depth().max(map.signature.totals().depth) > MAX_DEPTH {
            return Err(Error::new(
                Class::Type,
                format!("datatype nested too deeply: must have at most {MAX_DEPTH} levels"),
            ));
        }
        let inner = Inner::new(map, construction).ok_or_else(out_of_range)?;
        Ok(Datatype(Arc::new(inner)))
    }

    /// Makes a predefined type.
    fn fixed(
        map: TypeMap,
        handle: u16,
        name: &str,
        construction: Construction,
    ) -> Option<Datatype> {
        let inner = Inner::new(map, construction)?;
        Some(Datatype(Arc::new(Inner {
            handle,
            predefined: true,
            committed: AtomicBool::new(true),
            name: Mutex::new(name.into()),
            ..inner
        })))
    }
}

impl Inner {
    fn new(map: TypeMap, construction: Construction) -> Option<Inner> {
        let (lb, extent) = map.bounds.extent()?;
        let (true_lb, true_extent) = map.bounds.true_extent()?;
        let size = map.signature.totals().size;
        debug_assert_eq!(size, map.layout.node.size());
        let gapless = match map.layout.node {
            Node::Run(len) => len == 0 || i64::try_from(len) == Ok(extent),
            _ => false,
        };
        Some(Inner {
            map,
            size,
            lb,
            extent,
            true_lb,
            true_extent,
            gapless,
            handle: 0,
            predefined: false,
            committed: AtomicBool::new(false),
            construction,
            name: Mutex::default(),
            attributes: Mutex::default(),
        })
    }
}

impl std::fmt::Debug for Datatype {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Datatype({:?} {:?} of {} bytes)",
            self.name(),
            self.0.construction.combiner,
            self.0.size
        )
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

static PREDEFINED: LazyLock<Vec<Option<Datatype>>> = LazyLock::new(|| {
    let mut table = vec![None; 0x100];
    for &(name, basic) in &basic::NAMED {
        let datatype =
            Datatype::fixed(typemap::basic(basic), basic.handle, name, Construction::named());
        table[usize::from(basic.handle) - FIRST_HANDLE] = datatype;
    }
    for (handle, name) in [(MPI_LB, "MPI_LB"), (MPI_UB, "MPI_UB")] {
        let map = TypeMap::marker(handle == MPI_LB);
        table[handle - FIRST_HANDLE] =
            Datatype::fixed(map, handle as u16, name, Construction::named());
    }
    table
});

static BYTE: LazyLock<&'static Datatype> = LazyLock::new(|| {
    Datatype::predefined(0x247).unwrap_or_else(|| unreachable!("MPI_BYTE is in the table"))
});

#[cfg(test)]
mod tests;
