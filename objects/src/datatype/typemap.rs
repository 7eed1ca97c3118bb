//! A type map: layout, signature and bounds of a datatype. Three operations make one from others:
//! shift, repeat, concatenate. Every constructor of MPI is a composition of these.
//!
//! Bounds follow MPI-5.0 §5.1.7: bounds that were set explicitly (resized types, subarrays, the old
//! MPI_LB and MPI_UB) win over those of the elements and are inherited. Basic types and structures
//! pad their upper bound so that the extent is a multiple of the strictest alignment. All other
//! constructors place whole elements, and add no padding to them: blocks at misaligned
//! displacements show that the program wants none.
//!
//! All arithmetic is checked: `None` means that a size, displacement or extent
//! does not fit 63 bits.

use super::basic::Basic;
use super::layout::{self, Layout};
use super::signature::{self, Signature};

/// The value that constructors compute with.
#[derive(Clone, Debug)]
pub(crate) struct TypeMap {
    pub(crate) layout: Layout,
    pub(crate) signature: Signature,
    pub(crate) bounds: Bounds,
}

/// Bytes relative to the address of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lower bound, if set explicitly.
    pub(crate) lb: Option<i64>,
    /// The upper bound, if set explicitly.
    pub(crate) ub: Option<i64>,
    /// First byte of data and one past the last.
    pub(crate) data: Option<(i64, i64)>,
    /// The same with the padding of basic types and structures.
    pub(crate) padded: Option<(i64, i64)>,
    /// The strictest alignment among the basic elements.
    pub(crate) align: u64,
}

impl Bounds {
    const EMPTY: Bounds = Bounds { lb: None, ub: None, data: None, padded: None, align: 1 };

    /// Returns lower bound and extent (MPI_Type_get_extent).
    pub(crate) fn extent(&self) -> Option<(i64, i64)> {
        let (low, high) = self.padded.unwrap_or((0, 0));
        let lb = self.lb.unwrap_or(low);
        let extent = match self.ub {
            Some(ub) => ub.checked_sub(lb)?,
            None if self.padded.is_none() => 0,
            None => high.checked_sub(lb)?,
        };
        Some((lb, extent))
    }

    /// Pads the upper bound for the strictest alignment.
    fn pad(self) -> Option<Bounds> {
        let Some((low, high)) = self.padded.filter(|_| self.ub.is_none()) else {
            return Some(self);
        };
        let bare = high.checked_sub(self.lb.unwrap_or(low))?;
        let align = i64::try_from(self.align).ok()?;
        let high = high.checked_add((align - bare.rem_euclid(align)) % align)?;
        Some(Bounds { padded: Some((low, high)), ..self })
    }

    /// Returns lower bound and extent of the data alone.
    pub(crate) fn true_extent(&self) -> Option<(i64, i64)> {
        let (low, high) = self.data.unwrap_or((0, 0));
        Some((low, high.checked_sub(low)?))
    }

    fn shift(self, by: i64) -> Option<Bounds> {
        let moved = |bound: Option<i64>| match bound {
            Some(bound) => bound.checked_add(by).map(Some),
            None => Some(None),
        };
        let range = |range: Option<(i64, i64)>| match range {
            Some((low, high)) => Some(Some((low.checked_add(by)?, high.checked_add(by)?))),
            None => Some(None),
        };
        Some(Bounds {
            lb: moved(self.lb)?,
            ub: moved(self.ub)?,
            data: range(self.data)?,
            padded: range(self.padded)?,
            align: self.align,
        })
    }

    fn union(self, other: Bounds) -> Bounds {
        let both = |a: Option<i64>, b: Option<i64>, pick: fn(i64, i64) -> i64| match (a, b) {
            (Some(a), Some(b)) => Some(pick(a, b)),
            (a, b) => a.or(b),
        };
        type Range = Option<(i64, i64)>;
        let range = |a: Range, b: Range| match (a, b) {
            (Some((low, high)), Some((lower, higher))) => Some((low.min(lower), high.max(higher))),
            (a, b) => a.or(b),
        };
        Bounds {
            lb: both(self.lb, other.lb, i64::min),
            ub: both(self.ub, other.ub, i64::max),
            data: range(self.data, other.data),
            padded: range(self.padded, other.padded),
            align: self.align.max(other.align),
        }
    }

    fn repeat(self, count: u64, stride: i64) -> Option<Bounds> {
        let last = i64::try_from(count.checked_sub(1)?).ok()?.checked_mul(stride)?;
        Some(self.union(self.shift(last)?))
    }
}

impl TypeMap {
    /// Returns the type map without elements.
    pub(crate) const EMPTY: TypeMap =
        TypeMap { layout: Layout::EMPTY, signature: Signature::Empty, bounds: Bounds::EMPTY };

    /// Returns a marker of the old MPI_Type_struct at displacement 0.
    pub(crate) const fn marker(lower: bool) -> TypeMap {
        let (lb, ub) = if lower { (Some(0), None) } else { (None, Some(0)) };
        TypeMap { bounds: Bounds { lb, ub, ..Bounds::EMPTY }, ..TypeMap::EMPTY }
    }

    /// Repeats the map `count` times at a stride in bytes.
    pub(crate) fn repeat(&self, count: u64, stride: i64) -> Option<TypeMap> {
        if count == 0 {
            return Some(TypeMap::EMPTY);
        }
        Some(TypeMap {
            layout: self.layout.clone().repeat(count, stride)?,
            signature: self.signature.repeat(count)?,
            bounds: self.bounds.repeat(count, stride)?,
        })
    }

    /// Shifts the map by so many bytes.
    pub(crate) fn shift(self, by: i64) -> Option<TypeMap> {
        Some(TypeMap {
            layout: self.layout.shift(by)?,
            signature: self.signature,
            bounds: self.bounds.shift(by)?,
        })
    }

    /// Pads the upper bound as a structure's.
    pub(crate) fn padded(self) -> Option<TypeMap> {
        Some(TypeMap { bounds: self.bounds.pad()?, ..self })
    }

    /// Sets bounds explicitly.
    pub(crate) fn resized(self, lb: i64, extent: i64) -> Option<TypeMap> {
        let bounds = Bounds { lb: Some(lb), ub: Some(lb.checked_add(extent)?), ..self.bounds };
        Some(TypeMap { bounds, ..self })
    }
}

/// Concatenates type maps.
#[derive(Default)]
pub(crate) struct Builder {
    layout: layout::Builder,
    signature: signature::Builder,
    bounds: Option<Bounds>,
}

impl Builder {
    /// Adds a type map.
    pub(crate) fn push(&mut self, map: TypeMap) -> Option<()> {
        self.layout.push(map.layout)?;
        self.signature.push(&map.signature)?;
        self.bounds = Some(self.bounds.map_or(map.bounds, |bounds| bounds.union(map.bounds)));
        Some(())
    }

    /// Returns the whole.
    pub(crate) fn finish(self) -> Option<TypeMap> {
        Some(TypeMap {
            layout: self.layout.finish()?,
            signature: self.signature.finish()?,
            bounds: self.bounds.unwrap_or(Bounds::EMPTY),
        })
    }
}

/// Places blocks of elements of one type, of which there may be very many. What a block has in
/// common with all others is not computed for each: the signature follows from the number of
/// elements, the bounds from the first and the last position of an element.
pub(crate) struct Placer<'a> {
    element: &'a TypeMap,
    /// Bytes from one element of a block to the next.
    extent: i64,
    layout: layout::Builder,
    elements: u64,
    /// Lowest and highest displacement of an element.
    reach: Option<(i64, i64)>,
    /// The latest block: its elements, its layout, and the displacement of its last element.
    last: Option<(u64, Layout, i64)>,
}

impl<'a> Placer<'a> {
    /// `blocks` is how many are expected.
    pub(crate) fn new(element: &'a TypeMap, extent: i64, blocks: usize) -> Placer<'a> {
        let layout = layout::Builder::with_capacity(blocks);
        Placer { element, extent, layout, elements: 0, reach: None, last: None }
    }

    /// Adds a block of `elements`, at least one, at a displacement in bytes; `None` if out of
    /// range.
    pub(crate) fn push(&mut self, elements: u64, disp: i64) -> Option<()> {
        let (layout, last) = match &self.last {
            Some((same, layout, last)) if *same == elements => (layout.clone(), *last),
            _ => {
                let layout = self.element.layout.clone().repeat(elements, self.extent)?;
                let last = i64::try_from(elements - 1).ok()?.checked_mul(self.extent)?;
                self.last = Some((elements, layout.clone(), last));
                (layout, last)
            }
        };
        self.layout.push(layout.shift(disp)?)?;
        self.elements = self.elements.checked_add(elements)?;
        let end = disp.checked_add(last)?;
        let (low, high) = self.reach.unwrap_or((disp, disp));
        self.reach = Some((low.min(disp).min(end), high.max(disp).max(end)));
        Some(())
    }

    /// Returns the whole.
    pub(crate) fn finish(self) -> Option<TypeMap> {
        let Some((low, high)) = self.reach else { return Some(TypeMap::EMPTY) };
        let bounds = self.element.bounds;
        Some(TypeMap {
            layout: self.layout.finish()?,
            signature: self.element.signature.repeat(self.elements)?,
            bounds: bounds.shift(low)?.union(bounds.shift(high)?),
        })
    }
}

/// Returns the type map of a basic type.
pub(crate) fn basic(basic: Basic) -> TypeMap {
    use super::basic::{Repr, Scalar};
    let repr = basic.repr;
    let signature = Signature::Run(basic, 1);
    let run = |at: u64, scalar: Scalar| Layout { disp: at as i64, ..Layout::run(scalar.size()) };
    let (layout, end) = match repr {
        Repr::Single(scalar) => (run(0, scalar), scalar.size()),
        Repr::Pair(value, index) => {
            let at = Repr::index_offset(value, index);
            let mut both = layout::Builder::default();
            // Both fit: a pair has at most 48 bytes.
            let _ = both.push(run(0, value)).and(both.push(run(at, index)));
            (both.finish().unwrap_or(Layout::EMPTY), at + index.size())
        }
    };
    let data = Some((0, end as i64));
    let padded = Some((0, repr.extent() as i64));
    let bounds = Bounds { lb: None, ub: None, data, padded, align: repr.align() };
    TypeMap { layout, signature, bounds }
}
