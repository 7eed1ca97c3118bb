//! Partitioned communication with copies of sections: a partition is loaded before it is sent, and
//! stored when it has arrived (`pending`).

use std::ops::RangeInclusive;

use crate::pending;
use crate::prelude::*;

/// Keeps what a call uses, with the bytes of a partition.
pub(crate) unsafe fn keep_partitions(
    request: c_int,
    section: Section,
    partitions: c_int,
    count: i64,
    datatype: c_int,
) {
    let (mut lower, mut extent) = (0, 0);
    // SAFETY: the addresses of local numbers; the call has taken the datatype.
    unsafe {
        let datatype = MPI_Datatype::from_fortran(datatype);
        c::PMPI_Type_get_extent_c(datatype, &raw mut lower, &raw mut extent);
    }
    let bytes = usize::try_from(extent.saturating_mul(count)).unwrap_or(0);
    pending::keep_partitions(request, section, partitions, bytes);
}

/// Loads partitions before they are sent.
fn load(request: c_int, partitions: RangeInclusive<c_int>) {
    if pending::any() {
        partitions.for_each(|partition| pending::ready(request, partition));
    }
}

pub(crate) unsafe fn pready<const P: bool>(partition: *mut c_int, request: *mut c_int) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        load(*request, *partition..=*partition);
        pick!(P, MPI_Pready, PMPI_Pready)(*partition, MPI_Request::from_fortran(*request))
    }
}

pub(crate) unsafe fn pready_range<const P: bool>(
    partition_low: *mut c_int,
    partition_high: *mut c_int,
    request: *mut c_int,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let (low, high) = (*partition_low, *partition_high);
        load(*request, low..=high);
        let handle = MPI_Request::from_fortran(*request);
        pick!(P, MPI_Pready_range, PMPI_Pready_range)(low, high, handle)
    }
}

pub(crate) unsafe fn pready_list<const P: bool>(
    length: *mut c_int,
    array_of_partitions: *mut c_int,
    request: *mut c_int,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        for at in 0..usize::try_from(*length).unwrap_or(0) {
            let partition = *array_of_partitions.add(at);
            load(*request, partition..=partition);
        }
        let handle = MPI_Request::from_fortran(*request);
        pick!(P, MPI_Pready_list, PMPI_Pready_list)(*length, array_of_partitions, handle)
    }
}

pub(crate) unsafe fn parrived<const P: bool>(
    request: *mut c_int,
    partition: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let mut done = 0;
        let handle = MPI_Request::from_fortran(*request);
        let code = pick!(P, MPI_Parrived, PMPI_Parrived)(handle, *partition, &raw mut done);
        if code == SUCCESS {
            *flag = to_logical(done);
            if done != 0 {
                pending::arrived(*request, *partition);
            }
        }
        code
    }
}
