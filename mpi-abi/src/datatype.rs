//! MPI-5.0 §5.1: constructors of datatypes, commit and free. `datatype_inquiry.rs` has the
//! inquiries about size and contents.
//!
//! A body serves a function and its `_c` twin. If no argument shows which of the two was called,
//! the twin has a body of its own. The envelope of a datatype shows the form (MPI-5.0 §5.1.13).

use std::os::raw::c_int;

use objects::datatype::{Counting, Order, TypeClass};
use objects::{Class, Datatype, Error, Result};
use runtime::{predefined, with};

use crate::abi::{MPI_Aint, MPI_Count, MPI_Datatype};
use crate::args::{checked_count, not_null, put, slice};
use crate::constants::{
    MPI_TYPECLASS_COMPLEX, MPI_TYPECLASS_INTEGER, MPI_TYPECLASS_REAL, MPI_UNDEFINED,
    MPIX_TYPECLASS_LOGICAL,
};
use crate::convert::{Counts, Displs};

/// Returns the form that was called, by the width of an array.
fn counting(array: Counts) -> Counting {
    match array {
        Counts::Int(_) => Counting::Int,
        Counts::Large(_) => Counting::Large,
    }
}

/// Returns the datatype of a handle, committed or not.
fn object(datatype: MPI_Datatype) -> Result<Datatype> {
    with(|p| p.datatype(datatype.0).cloned())
}

/// Returns the handle of a datatype that was just made or found. A predefined datatype keeps its
/// handle, with a name or without.
pub(crate) fn handle_of(datatype: Datatype) -> MPI_Datatype {
    if let Some(handle) = datatype.handle() {
        return MPI_Datatype(handle);
    }
    with(|p| {
        let known = match datatype.is_predefined() {
            true => p
                .tables
                .datatypes
                .iter()
                .find(|(_, other)| other.is_same(&datatype))
                .map(|(handle, _)| handle),
            false => None,
        };
        MPI_Datatype(known.unwrap_or_else(|| p.tables.datatypes.insert(datatype)) as usize)
    })
}

/// Makes a datatype from an old one and stores its handle.
unsafe fn derive(
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
    make: impl FnOnce(&Datatype) -> Result<Datatype>,
) -> Result<()> {
    not_null(newtype, "newtype")?;
    let made = make(&object(oldtype)?)?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(newtype, handle_of(made), "newtype") }
}

/// Stores the handle of a datatype that exists already.
unsafe fn store(
    newtype: *mut MPI_Datatype,
    datatype: impl FnOnce() -> Result<Datatype>,
) -> Result<()> {
    not_null(newtype, "newtype")?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(newtype, handle_of(datatype()?), "newtype") }
}

/// Returns the length of arrays with an element for each block.
fn length(count: MPI_Count) -> Result<usize> {
    checked_count(count, "count").map(|count| count as usize)
}

/// Returns the length of arrays with an element for each dimension.
fn dimensions(ndims: c_int) -> Result<usize> {
    usize::try_from(ndims)
        .map_err(|_| Error::new(Class::Arg, format!("invalid ndims {ndims}: must not be negative")))
}

pub(crate) unsafe fn type_contiguous(
    count: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { derive(oldtype, newtype, |old| Datatype::contiguous(Counting::Int, count, old)) }
}

pub(crate) unsafe fn type_contiguous_c(
    count: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { derive(oldtype, newtype, |old| Datatype::contiguous(Counting::Large, count, old)) }
}

pub(crate) unsafe fn type_vector(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe {
        derive(oldtype, newtype, |old| {
            Datatype::vector(Counting::Int, count, blocklength, stride, old)
        })
    }
}

pub(crate) unsafe fn type_vector_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe {
        derive(oldtype, newtype, |old| {
            Datatype::vector(Counting::Large, count, blocklength, stride, old)
        })
    }
}

pub(crate) unsafe fn type_create_hvector(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe {
        derive(oldtype, newtype, |old| {
            Datatype::hvector(Counting::Int, count, blocklength, stride, old)
        })
    }
}

pub(crate) unsafe fn type_create_hvector_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    stride: MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe {
        derive(oldtype, newtype, |old| {
            Datatype::hvector(Counting::Large, count, blocklength, stride, old)
        })
    }
}

/// Serves the name of MPI-1.
pub(crate) unsafe fn type_hvector(
    count: c_int,
    blocklength: c_int,
    stride: MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { type_create_hvector(count.into(), blocklength.into(), stride, oldtype, newtype) }
}

pub(crate) unsafe fn type_indexed(
    count: MPI_Count,
    array_of_blocklengths: Counts,
    array_of_displacements: Displs,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let count = length(count)?;
    // SAFETY: the user's arrays of `count` elements, and pointer.
    unsafe {
        let lengths = array_of_blocklengths.to_vec(count, "array_of_blocklengths")?;
        let places = array_of_displacements.to_vec(count, "array_of_displacements")?;
        derive(oldtype, newtype, |old| {
            Datatype::indexed(counting(array_of_blocklengths), &lengths, &places, old)
        })
    }
}

pub(crate) unsafe fn type_create_hindexed(
    count: MPI_Count,
    array_of_blocklengths: Counts,
    array_of_displacements: *const MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's arrays of `count` elements, and pointer.
    unsafe {
        let lengths = array_of_blocklengths.to_vec(length(count)?, "array_of_blocklengths")?;
        let places = slice(array_of_displacements, count, "array_of_displacements")?;
        derive(oldtype, newtype, |old| {
            Datatype::hindexed(counting(array_of_blocklengths), &lengths, places, old)
        })
    }
}

/// Serves the name of MPI-1.
pub(crate) unsafe fn type_hindexed(
    count: c_int,
    array_of_blocklengths: *mut c_int,
    array_of_displacements: *mut MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let lengths = Counts::Int(array_of_blocklengths);
    // SAFETY: the caller's promise, passed on.
    unsafe { type_create_hindexed(count.into(), lengths, array_of_displacements, oldtype, newtype) }
}

pub(crate) unsafe fn type_create_indexed_block(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: Displs,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's array of `count` elements, and pointer.
    unsafe {
        let places = array_of_displacements.to_vec(length(count)?, "array_of_displacements")?;
        let counting = counting(array_of_displacements.into());
        derive(oldtype, newtype, |old| Datatype::indexed_block(counting, blocklength, &places, old))
    }
}

pub(crate) unsafe fn type_create_hindexed_block(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: *const MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's array of `count` elements, and pointer.
    unsafe {
        let places = slice(array_of_displacements, count, "array_of_displacements")?;
        derive(oldtype, newtype, |old| {
            Datatype::hindexed_block(Counting::Int, blocklength, places, old)
        })
    }
}

pub(crate) unsafe fn type_create_hindexed_block_c(
    count: MPI_Count,
    blocklength: MPI_Count,
    array_of_displacements: *const MPI_Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's array of `count` elements, and pointer.
    unsafe {
        let places = slice(array_of_displacements, count, "array_of_displacements")?;
        derive(oldtype, newtype, |old| {
            Datatype::hindexed_block(Counting::Large, blocklength, places, old)
        })
    }
}

pub(crate) unsafe fn type_create_struct(
    count: MPI_Count,
    array_of_blocklengths: Counts,
    array_of_displacements: *const MPI_Aint,
    array_of_types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's arrays of `count` elements, and pointer.
    unsafe {
        let lengths = array_of_blocklengths.to_vec(length(count)?, "array_of_blocklengths")?;
        let places = slice(array_of_displacements, count, "array_of_displacements")?;
        let handles = slice(array_of_types, count, "array_of_types")?;
        let types =
            handles.iter().map(|&handle| object(handle)).collect::<Result<Vec<Datatype>>>()?;
        store(newtype, || {
            Datatype::struct_(counting(array_of_blocklengths), &lengths, places, &types)
        })
    }
}

/// Serves the name of MPI-1, which also had MPI_LB and MPI_UB.
pub(crate) unsafe fn type_struct(
    count: c_int,
    array_of_blocklengths: *mut c_int,
    array_of_displacements: *mut MPI_Aint,
    array_of_types: *mut MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let lengths = Counts::Int(array_of_blocklengths);
    // SAFETY: the caller's promise, passed on.
    unsafe {
        type_create_struct(count.into(), lengths, array_of_displacements, array_of_types, newtype)
    }
}

pub(crate) unsafe fn type_create_subarray(
    ndims: c_int,
    array_of_sizes: Counts,
    array_of_subsizes: Counts,
    array_of_starts: Counts,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (ndims, order) = (dimensions(ndims)?, Order::from_number(order)?);
    // SAFETY: the user's arrays of `ndims` elements, and pointer.
    unsafe {
        let sizes = array_of_sizes.to_vec(ndims, "array_of_sizes")?;
        let subsizes = array_of_subsizes.to_vec(ndims, "array_of_subsizes")?;
        let starts = array_of_starts.to_vec(ndims, "array_of_starts")?;
        let counting = counting(array_of_sizes);
        derive(oldtype, newtype, |old| {
            Datatype::subarray(counting, &sizes, &subsizes, &starts, order, old)
        })
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: Counts,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let (length, order) = (dimensions(ndims)?, Order::from_number(order)?);
    // SAFETY: the user's arrays of `ndims` elements, and pointer.
    unsafe {
        let gsizes = array_of_gsizes.to_vec(length, "array_of_gsizes")?;
        let distribs = slice(array_of_distribs, ndims.into(), "array_of_distribs")?;
        let dargs = slice(array_of_dargs, ndims.into(), "array_of_dargs")?;
        let psizes = slice(array_of_psizes, ndims.into(), "array_of_psizes")?;
        let counting = counting(array_of_gsizes);
        derive(oldtype, newtype, |old| {
            Datatype::darray(counting, size, rank, &gsizes, distribs, dargs, psizes, order, old)
        })
    }
}

pub(crate) unsafe fn type_create_resized(
    oldtype: MPI_Datatype,
    lb: MPI_Aint,
    extent: MPI_Aint,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { derive(oldtype, newtype, |old| Datatype::resized(Counting::Int, old, lb, extent)) }
}

pub(crate) unsafe fn type_create_resized_c(
    oldtype: MPI_Datatype,
    lb: MPI_Count,
    extent: MPI_Count,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { derive(oldtype, newtype, |old| Datatype::resized(Counting::Large, old, lb, extent)) }
}

/// Duplicates a datatype. The copy functions of attributes run when the duplicate has its handle;
/// if one fails, the duplicate is freed.
pub(crate) unsafe fn type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> Result<()> {
    not_null(newtype, "newtype")?;
    let handle = handle_of(object(oldtype)?.dup()?);
    if let Err(error) = crate::attribute::copy_type_into(oldtype, handle) {
        let _ = with(|p| p.tables.datatypes.remove(handle.0 as u64));
        return Err(error);
    }
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(newtype, handle, "newtype") }
}

pub(crate) unsafe fn type_commit(datatype: *mut MPI_Datatype) -> Result<()> {
    not_null(datatype, "datatype")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *datatype };
    with(|p| p.datatype(handle.0).map(Datatype::commit))
}

/// Frees a datatype. Operations in progress and datatypes made from it keep what they need.
pub(crate) unsafe fn type_free(datatype: *mut MPI_Datatype) -> Result<()> {
    not_null(datatype, "datatype")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *datatype };
    let object = object(handle)?;
    if object.is_predefined() {
        let name = object.name();
        let what = if name.is_empty() { "a datatype without a name" } else { &name };
        return Err(Error::new(Class::Type, format!("cannot free {what}: it is predefined")));
    }
    crate::attribute::delete_all_of_type(handle)?;
    with(|p| p.tables.datatypes.remove(handle.0 as u64))
        .map_err(|stale| runtime::bad_handle(Class::Type, "datatype", stale))?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(datatype, MPI_Datatype(predefined::DATATYPE_NULL), "datatype") }
}

/// Stores MPI_DATATYPE_NULL if the two form no pair type (MPI-5.0 §6.9.4).
pub(crate) unsafe fn type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: *mut MPI_Datatype,
) -> Result<()> {
    let (value, index) = (object(value_type)?, object(index_type)?);
    not_null(pair_type, "pair_type")?;
    let pair = Datatype::value_index(&value, &index);
    let handle = pair.map_or(MPI_Datatype(predefined::DATATYPE_NULL), handle_of);
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(pair_type, handle, "pair_type") }
}

/// Returns a precision or range of Fortran; MPI_UNDEFINED is `None`.
fn chosen(digits: c_int) -> Option<c_int> {
    (digits != MPI_UNDEFINED).then_some(digits)
}

pub(crate) unsafe fn type_create_f90_real(
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { store(newtype, || Datatype::f90_real(chosen(p), chosen(r))) }
}

pub(crate) unsafe fn type_create_f90_complex(
    p: c_int,
    r: c_int,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { store(newtype, || Datatype::f90_complex(chosen(p), chosen(r))) }
}

pub(crate) unsafe fn type_create_f90_integer(r: c_int, newtype: *mut MPI_Datatype) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { store(newtype, || Datatype::f90_integer(r)) }
}

pub(crate) unsafe fn type_match_size(
    typeclass: c_int,
    size: c_int,
    datatype: *mut MPI_Datatype,
) -> Result<()> {
    let class = match typeclass {
        MPI_TYPECLASS_INTEGER => TypeClass::Integer,
        MPI_TYPECLASS_REAL => TypeClass::Real,
        MPI_TYPECLASS_COMPLEX => TypeClass::Complex,
        MPIX_TYPECLASS_LOGICAL => TypeClass::Logical,
        other => {
            return Err(Error::new(
                Class::Arg,
                format!("invalid typeclass {other}: must be an MPI_TYPECLASS_ constant"),
            ));
        }
    };
    // SAFETY: the user's pointer, passed on.
    unsafe { store(datatype, || Datatype::match_size(class, size).cloned()) }
}
