//! The calls that a datatype was made with (MPI-5.0 §5.1.13): handles, and constants among the
//! integers of subarrays and distributed arrays.

use crate::prelude::*;

/// MPI_COMBINER_SUBARRAY and MPI_COMBINER_DARRAY of the standard ABI.
const SUBARRAY: c_int = 111;
const DARRAY: c_int = 112;

/// Converts the constants among the integers. `are_large` is true where the sizes of arrays are not
/// among them.
///
/// # Safety
/// `integers` are those of a type with this combiner.
unsafe fn convert(combiner: c_int, integers: *mut c_int, are_large: bool) {
    // SAFETY: the caller's promise: the number of dimensions is among the integers.
    unsafe {
        match combiner {
            _ if integers.is_null() => {}
            SUBARRAY => {
                let dimensions = *integers as usize;
                let order = integers.add(1 + if are_large { 0 } else { 3 * dimensions });
                *order = order_out(*order);
            }
            DARRAY => {
                let dimensions = *integers.add(2) as usize;
                let kinds = integers.add(3 + if are_large { 0 } else { dimensions });
                for at in 0..dimensions {
                    let (kind, argument) = (kinds.add(at), kinds.add(dimensions + at));
                    *kind = distribution_out(*kind);
                    *argument = distribution_argument_out(*argument);
                }
                let order = kinds.add(3 * dimensions);
                *order = order_out(*order);
            }
            _ => {}
        }
    }
}

/// # Safety
/// `to` has as many handles as `from`.
unsafe fn store(from: &[Standard], to: *mut MPI_Datatype) {
    for (at, &handle) in from.iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { *to.add(at) = MPI_Datatype::from_standard(handle) };
    }
}

pub(crate) unsafe fn type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    let datatype = datatype.to_standard();
    let (mut integers, mut addresses, mut types, mut combiner) = (0, 0, 0, 0);
    // SAFETY: the caller's arguments, and variables of ours.
    unsafe {
        let code = (library().PMPI_Type_get_envelope)(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut types,
            &raw mut combiner,
        );
        if code != SUCCESS {
            return code::from_standard(code);
        }
        let mut found = vec![MPI_Datatype::NULL; max_datatypes.max(0) as usize];
        let code = (library().PMPI_Type_get_contents)(
            datatype,
            max_integers,
            max_addresses,
            max_datatypes,
            array_of_integers,
            array_of_addresses,
            given(array_of_datatypes, found.as_mut_ptr()),
        );
        if code == SUCCESS {
            convert(combiner, array_of_integers, false);
            store(found.get(..types as usize).unwrap_or(&[]), array_of_datatypes);
        }
        code::from_standard(code)
    }
}

pub(crate) unsafe fn type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut i64,
    array_of_large_counts: *mut i64,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    let datatype = datatype.to_standard();
    let (mut integers, mut addresses, mut counts, mut types, mut combiner) = (0, 0, 0, 0, 0);
    // SAFETY: the caller's arguments, and variables of ours.
    unsafe {
        let code = (library().PMPI_Type_get_envelope_c)(
            datatype,
            &raw mut integers,
            &raw mut addresses,
            &raw mut counts,
            &raw mut types,
            &raw mut combiner,
        );
        if code != SUCCESS {
            return code::from_standard(code);
        }
        let mut found = vec![MPI_Datatype::NULL; max_datatypes.max(0) as usize];
        let code = (library().PMPI_Type_get_contents_c)(
            datatype,
            max_integers,
            max_addresses,
            max_large_counts,
            max_datatypes,
            array_of_integers,
            array_of_addresses,
            array_of_large_counts,
            given(array_of_datatypes, found.as_mut_ptr()),
        );
        if code == SUCCESS {
            // A type made by the function without large counts has its sizes among the integers.
            convert(combiner, array_of_integers, counts > 0);
            store(found.get(..types as usize).unwrap_or(&[]), array_of_datatypes);
        }
        code::from_standard(code)
    }
}
