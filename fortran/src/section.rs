//! Choice buffers of `mpi_f08` whose elements lie apart: sections of arrays.
//!
//! A section stands for its elements in array order. A call that passes all of them once gets a
//! derived type in place of the caller's, which is freed at once: MPI keeps a type while a call
//! uses it. Where the elements do not fit the caller's type, or a call cuts the buffer into blocks,
//! the elements are copied into memory without gaps, and back when the call is complete. For
//! nonblocking and persistent calls `pending` keeps these copies.
//!
//! Invariants: a `Section` owns its type or its copy; `address`, `count` and `datatype` describe
//! the same data as the caller's three arguments. Contiguous buffers pass through untouched.

use std::os::raw::{c_int, c_void};

use crate::copy::Copy;
use crate::descriptor::{Descriptor, Dimension};
use crate::generated::c;
use crate::handle::{Handle, MPI_Datatype};

/// MPI_SUCCESS.
const SUCCESS: c_int = 0;

/// A buffer as C gets it.
pub(crate) struct Section {
    pub(crate) address: *mut c_void,
    pub(crate) count: i64,
    pub(crate) datatype: MPI_Datatype,
    own: Own,
}

/// What belongs to a section.
enum Own {
    /// Nothing: the caller's buffer is passed.
    Nothing,
    /// A derived type, freed with the section.
    Type,
    /// A copy of the elements.
    Copy(Box<Copy>),
}

// SAFETY: the address is passed on to MPI alone; a type may be freed by any thread.
unsafe impl Send for Section {}

impl Section {
    /// The buffer of a call that passes `count` times `datatype` in one piece.
    #[inline]
    pub(crate) fn whole(
        descriptor: &Descriptor,
        count: i64,
        datatype: MPI_Datatype,
        is_written: bool,
    ) -> Section {
        Section::in_place(descriptor, count, datatype)
            .unwrap_or_else(|| Section::copied(descriptor, count, datatype, is_written))
    }

    /// The buffer of a call that cuts it into blocks, or of a reduction.
    #[inline]
    pub(crate) fn blocks(
        descriptor: &Descriptor,
        count: i64,
        datatype: MPI_Datatype,
        is_written: bool,
    ) -> Section {
        if !descriptor.has_gaps() {
            let address = descriptor.address();
            return Section { address, count, datatype, own: Own::Nothing };
        }
        Section::copied(descriptor, count, datatype, is_written)
    }

    /// As `whole`, but never by a copy.
    pub(crate) fn in_place(
        descriptor: &Descriptor,
        count: i64,
        datatype: MPI_Datatype,
    ) -> Option<Section> {
        // An invalid count is left to C to refuse.
        if count <= 0 || !descriptor.has_gaps() {
            let address = descriptor.address();
            return Some(Section { address, count, datatype, own: Own::Nothing });
        }
        Section::typed(descriptor, count, datatype)
    }

    /// The buffer of a partitioned call. In place if partitions begin at a regular distance,
    /// otherwise a copy, which is made and stored by partitions. A count that C's plain form does
    /// not take becomes a type.
    #[cold]
    pub(crate) fn partitions(
        descriptor: &Descriptor,
        partitions: i64,
        count: i64,
        datatype: MPI_Datatype,
        is_written: bool,
    ) -> Section {
        let section = match descriptor.has_gaps() {
            true => Section::typed_partitions(descriptor, partitions, count, datatype),
            false => Section::in_place(descriptor, count, datatype),
        };
        let section =
            section.unwrap_or_else(|| Section::copied(descriptor, count, datatype, is_written));
        if section.count <= i64::from(c_int::MAX) {
            return section;
        }
        let mut built = Built::new(section.datatype);
        let typed = built.contiguous(section.count);
        match typed.and_then(|()| Section::of_type(descriptor, 1, built)) {
            Some(typed) if !section.has_copy() => typed,
            _ => section,
        }
    }

    /// A derived type whose elements follow each other at the stride of a dimension. `None` if a
    /// partition ends within a slice of that dimension, or further dimensions have other strides.
    fn typed_partitions(
        descriptor: &Descriptor,
        partitions: i64,
        count: i64,
        datatype: MPI_Datatype,
    ) -> Option<Section> {
        let dimensions = descriptor.dimensions();
        let Fit { each, elements } = Fit::of(descriptor, partitions.checked_mul(count)?, datatype)?;
        let of_partition = elements / partitions;
        if of_partition * partitions != elements {
            return None;
        }
        let is_regular = |at: usize| {
            dimensions[at..]
                .windows(2)
                .all(|pair| pair[1].stride == pair[0].stride * pair[0].extent)
        };
        let (inner, outer) = (0..dimensions.len())
            .find(|&at| is_regular(at) && of_partition % product(&dimensions[..at]) == 0)
            .map(|at| dimensions.split_at(at))?;
        let mut built = Built::new(datatype);
        built.contiguous(each)?;
        built.elements(inner, product(inner))?;
        let stride = outer[0].stride as i64;
        built.replace(|old, new| {
            // SAFETY: a valid type and the address of a handle.
            unsafe { c::PMPI_Type_create_resized_c(old, 0, stride, new) }
        })?;
        Section::of_type(descriptor, of_partition / product(inner), built)
    }

    /// A derived type over the first elements; `None` if they do not fit the caller's type.
    #[cold]
    fn typed(descriptor: &Descriptor, count: i64, datatype: MPI_Datatype) -> Option<Section> {
        let Fit { each, elements } = Fit::of(descriptor, count, datatype)?;
        let mut built = Built::new(datatype);
        built.contiguous(each)?;
        built.elements(descriptor.dimensions(), elements)?;
        Section::of_type(descriptor, 1, built)
    }

    /// `count` elements of a type that was made here.
    fn of_type(descriptor: &Descriptor, count: i64, mut built: Built) -> Option<Section> {
        // SAFETY: the address of a type that was made here.
        if unsafe { c::PMPI_Type_commit(&raw mut built.datatype) } != SUCCESS {
            return None;
        }
        let datatype = built.take();
        Some(Section { address: descriptor.address(), count, datatype, own: Own::Type })
    }

    /// A copy of all elements.
    #[cold]
    fn copied(
        descriptor: &Descriptor,
        count: i64,
        datatype: MPI_Datatype,
        is_written: bool,
    ) -> Section {
        let mut copy = Box::new(Copy::of(descriptor, is_written));
        copy.load();
        let address = copy.address();
        Section { address, count, datatype, own: Own::Copy(copy) }
    }

    /// True if the buffer is described by a type that was made here.
    pub(crate) fn has_type(&self) -> bool {
        matches!(self.own, Own::Type)
    }

    fn has_copy(&self) -> bool {
        matches!(self.own, Own::Copy(_))
    }

    /// After a blocking call: stores what was written.
    pub(crate) fn finish(&mut self) {
        if let Own::Copy(copy) = &mut self.own {
            copy.store();
        }
    }

    /// After the start of a nonblocking call: the copy, which must live until it completes.
    pub(crate) fn into_copy(mut self) -> Option<Copy> {
        match std::mem::replace(&mut self.own, Own::Nothing) {
            Own::Copy(copy) => Some(*copy),
            own => {
                self.own = own;
                None
            }
        }
    }
}

/// How a call's data covers a section.
struct Fit {
    /// Elements of the caller's type in one element of the section.
    each: i64,
    /// Elements of the section.
    elements: i64,
}

impl Fit {
    /// `None` if the caller's type does not consist of whole elements without gaps, or the elements
    /// do not suffice.
    fn of(descriptor: &Descriptor, count: i64, datatype: MPI_Datatype) -> Option<Fit> {
        let elem_len = i64::try_from(descriptor.elem_len).ok()?;
        let (mut size, mut lower, mut extent) = (0, 0, 0);
        // SAFETY: the addresses of local numbers; a wrong handle is refused.
        let codes = unsafe {
            [
                c::PMPI_Type_size_c(datatype, &raw mut size),
                c::PMPI_Type_get_extent_c(datatype, &raw mut lower, &raw mut extent),
            ]
        };
        if codes != [SUCCESS; 2] || size <= 0 || size != extent || lower != 0 || count < 0 {
            return None;
        }
        if elem_len % size != 0 || count % (elem_len / size) != 0 {
            return None;
        }
        let each = elem_len / size;
        let elements = count / each;
        let suffices = elements > 0 && elements <= product(descriptor.dimensions());
        suffices.then_some(Fit { each, elements })
    }
}

/// The number of elements in some dimensions.
fn product(dimensions: &[Dimension]) -> i64 {
    dimensions.iter().map(|dimension| dimension.extent as i64).product()
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        if let Own::Type = self.own {
            // SAFETY: the type was made here; MPI keeps it while a call uses it.
            unsafe { c::PMPI_Type_free(&raw mut self.datatype) };
        }
    }
}

/// A type under construction; freed unless it is taken.
struct Built {
    datatype: MPI_Datatype,
    is_own: bool,
}

impl Built {
    fn new(datatype: MPI_Datatype) -> Built {
        Built { datatype, is_own: false }
    }

    /// Takes the present type `each` times.
    fn contiguous(&mut self, each: i64) -> Option<()> {
        if each == 1 {
            return Some(());
        }
        self.replace(|old, new| {
            // SAFETY: a valid type and the address of a handle.
            unsafe { c::PMPI_Type_contiguous_c(each, old, new) }
        })
    }

    /// Makes a type of the present one, which is freed if it was made here.
    fn replace(
        &mut self,
        make: impl FnOnce(MPI_Datatype, *mut MPI_Datatype) -> c_int,
    ) -> Option<()> {
        let mut new = MPI_Datatype::NULL;
        if make(self.datatype, &raw mut new) != SUCCESS {
            return None;
        }
        self.release();
        *self = Built { datatype: new, is_own: true };
        Some(())
    }

    /// The first `elements` of a section, of which the present type is one.
    fn elements(&mut self, dimensions: &[Dimension], elements: i64) -> Option<()> {
        let Some((last, inner)) = dimensions.split_last() else { return Some(()) };
        let of_inner = product(inner);
        let (whole, rest) = (elements / of_inner, elements % of_inner);
        let stride = last.stride as i64;
        if rest == 0 {
            self.elements(inner, of_inner)?;
            return self.replace(|old, new| {
                // SAFETY: a valid type and the address of a handle.
                unsafe { c::PMPI_Type_create_hvector_c(whole, 1, stride, old, new) }
            });
        }
        if whole == 0 {
            return self.elements(inner, rest);
        }
        // Whole slices, then a part of the next one.
        let mut part = Built::dup(self.datatype)?;
        part.elements(inner, rest)?;
        self.elements(inner, of_inner)?;
        self.replace(|old, new| {
            // SAFETY: a valid type and the address of a handle.
            unsafe { c::PMPI_Type_create_hvector_c(whole, 1, stride, old, new) }
        })?;
        let (lengths, places) = ([1_i64, 1], [0, whole * stride]);
        let other = part.datatype;
        self.replace(|old, new| {
            let types = [old, other];
            // SAFETY: three arrays of two elements, and the address of a handle.
            unsafe {
                c::PMPI_Type_create_struct_c(
                    2,
                    lengths.as_ptr(),
                    places.as_ptr(),
                    types.as_ptr(),
                    new,
                )
            }
        })
    }

    fn dup(datatype: MPI_Datatype) -> Option<Built> {
        let mut built = Built::new(datatype);
        // SAFETY: a valid type and the address of a handle.
        built.replace(|old, new| unsafe { c::PMPI_Type_dup(old, new) })?;
        Some(built)
    }

    fn take(mut self) -> MPI_Datatype {
        self.is_own = false;
        self.datatype
    }

    fn release(&mut self) {
        if self.is_own {
            // SAFETY: the type was made here and is used by other types at most.
            unsafe { c::PMPI_Type_free(&raw mut self.datatype) };
        }
        self.is_own = false;
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        self.release();
    }
}
