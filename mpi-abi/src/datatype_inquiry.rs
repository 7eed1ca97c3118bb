//! MPI-5.0 §5.1.7 to §5.1.9, §5.1.13 and §7.8: size, extent, origin and name of
//! datatypes.

use std::os::raw::{c_char, c_int};

use objects::datatype::{Contents, Envelope};
use objects::{Class, Datatype, Error, Result};
use runtime::{predefined, with};

use crate::abi::{MPI_Aint, MPI_Count, MPI_Datatype};
use crate::args::{put, slice_mut};
use crate::constants::MPI_MAX_OBJECT_NAME;
use crate::convert::CountOut;
use crate::datatype::handle_of;
use crate::text::{exact, put_text};

fn ask<R>(datatype: MPI_Datatype, question: impl FnOnce(&Datatype) -> R) -> Result<R> {
    with(|p| p.datatype(datatype.0).map(question))
}

pub(crate) unsafe fn type_size(datatype: MPI_Datatype, size: CountOut) -> Result<()> {
    let bytes = ask(datatype, Datatype::size)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { size.put_or_undefined(Some(bytes), "size") }
}

pub(crate) unsafe fn type_get_extent(
    datatype: MPI_Datatype,
    lb: *mut MPI_Aint,
    extent: *mut MPI_Aint,
) -> Result<()> {
    let (low, bytes) = ask(datatype, Datatype::extent)?;
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(lb, low, "lb")?;
        put(extent, bytes, "extent")
    }
}

pub(crate) unsafe fn type_get_true_extent(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Aint,
    true_extent: *mut MPI_Aint,
) -> Result<()> {
    let (low, bytes) = ask(datatype, Datatype::true_extent)?;
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(true_lb, low, "true_lb")?;
        put(true_extent, bytes, "true_extent")
    }
}

/// Serves a name of MPI-1.
pub(crate) unsafe fn type_extent(datatype: MPI_Datatype, extent: *mut MPI_Aint) -> Result<()> {
    let (_, bytes) = ask(datatype, Datatype::extent)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(extent, bytes, "extent") }
}

/// Serves a name of MPI-1.
pub(crate) unsafe fn type_lb(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> Result<()> {
    let (low, _) = ask(datatype, Datatype::extent)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(displacement, low, "displacement") }
}

/// Serves a name of MPI-1.
pub(crate) unsafe fn type_ub(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> Result<()> {
    let (low, bytes) = ask(datatype, Datatype::extent)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(displacement, low + bytes, "displacement") }
}

/// Refuses a datatype made with large counts, which only the `_c` form shows (MPI-5.0 §5.1.13).
fn without_counts(envelope: &Envelope, alternative: &str) -> Result<()> {
    if envelope.counts == 0 {
        return Ok(());
    }
    let why =
        format!("the datatype was made with {} large counts: call {alternative}", envelope.counts);
    Err(Error::new(Class::Type, why))
}

pub(crate) unsafe fn type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> Result<()> {
    let envelope = ask(datatype, Datatype::envelope)?;
    without_counts(&envelope, "MPI_Type_get_envelope_c")?;
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        CountOut::Int(num_integers).put(envelope.integers as MPI_Count, "num_integers")?;
        CountOut::Int(num_addresses).put(envelope.addresses as MPI_Count, "num_addresses")?;
        CountOut::Int(num_datatypes).put(envelope.types as MPI_Count, "num_datatypes")?;
        put(combiner, envelope.combiner as c_int, "combiner")
    }
}

pub(crate) unsafe fn type_get_envelope_c(
    datatype: MPI_Datatype,
    num_integers: *mut MPI_Count,
    num_addresses: *mut MPI_Count,
    num_large_counts: *mut MPI_Count,
    num_datatypes: *mut MPI_Count,
    combiner: *mut c_int,
) -> Result<()> {
    let envelope = ask(datatype, Datatype::envelope)?;
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(num_integers, envelope.integers as MPI_Count, "num_integers")?;
        put(num_addresses, envelope.addresses as MPI_Count, "num_addresses")?;
        put(num_large_counts, envelope.counts as MPI_Count, "num_large_counts")?;
        put(num_datatypes, envelope.types as MPI_Count, "num_datatypes")?;
        put(combiner, envelope.combiner as c_int, "combiner")
    }
}

/// Copies one kind of the contents. MPI_ERR_ARG if the user's array is too short.
unsafe fn put_all<T: Copy>(
    to: *mut T,
    capacity: MPI_Count,
    values: &[T],
    name: &str,
) -> Result<()> {
    if capacity < values.len() as MPI_Count {
        let why = format!(
            "array {name} too short: {capacity} elements, the datatype was made with {}",
            values.len()
        );
        return Err(Error::new(Class::Arg, why));
    }
    // SAFETY: the user's array of `capacity` elements, at least as many as are written.
    unsafe { slice_mut(to, values.len() as MPI_Count, name)? }.copy_from_slice(values);
    Ok(())
}

/// Stores handles for the datatypes of the contents: predefined ones as they are, for others new
/// objects, which the user frees.
unsafe fn put_types(to: *mut MPI_Datatype, capacity: MPI_Count, contents: &Contents) -> Result<()> {
    let null = vec![MPI_Datatype(predefined::DATATYPE_NULL); contents.types.len()];
    // SAFETY: passed on; the first values are replaced below.
    let handles = unsafe {
        put_all(to, capacity, &null, "array_of_datatypes")?;
        slice_mut(to, null.len() as MPI_Count, "array_of_datatypes")?
    };
    for (handle, ty) in handles.iter_mut().zip(&contents.types) {
        *handle = handle_of(if ty.is_predefined() { ty.clone() } else { ty.again()? });
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    let object = ask(datatype, Datatype::clone)?;
    without_counts(&object.envelope(), "MPI_Type_get_contents_c")?;
    let contents = object.contents()?;
    // SAFETY: the user's arrays of these lengths.
    unsafe {
        put_all(array_of_integers, max_integers.into(), &contents.integers, "array_of_integers")?;
        put_all(
            array_of_addresses,
            max_addresses.into(),
            &contents.addresses,
            "array_of_addresses",
        )?;
        put_types(array_of_datatypes, max_datatypes.into(), contents)
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
) -> Result<()> {
    let object = ask(datatype, Datatype::clone)?;
    let contents = object.contents()?;
    // SAFETY: the user's arrays of these lengths.
    unsafe {
        put_all(array_of_integers, max_integers, &contents.integers, "array_of_integers")?;
        put_all(array_of_addresses, max_addresses, &contents.addresses, "array_of_addresses")?;
        put_all(
            array_of_large_counts,
            max_large_counts,
            &contents.counts,
            "array_of_large_counts",
        )?;
        put_types(array_of_datatypes, max_datatypes, contents)
    }
}

pub(crate) unsafe fn type_set_name(datatype: MPI_Datatype, type_name: *const c_char) -> Result<()> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let name = unsafe { exact(type_name, "type_name")? };
    ask(datatype, |datatype| datatype.set_name(name))
}

pub(crate) unsafe fn type_get_name(
    datatype: MPI_Datatype,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> Result<()> {
    // MPI-5.0 §7.8: MPI_DATATYPE_NULL has a name as well.
    let name = match datatype.0 {
        predefined::DATATYPE_NULL => "MPI_DATATYPE_NULL".into(),
        _ => ask(datatype, Datatype::given_name)?,
    };
    // SAFETY: the user's buffer of MPI_MAX_OBJECT_NAME characters.
    unsafe { put_text(type_name, MPI_MAX_OBJECT_NAME, resultlen, &name) }
}
