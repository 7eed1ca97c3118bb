//! MPI-5.0 chapter 4, partitioned communication.

use std::os::raw::{c_int, c_void};

use objects::{Class, Error, Result};
use runtime::{partitioned, with};

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Info, MPI_Request};
use crate::args::{buffer, not_null, put, slice};
use crate::info::optional;

/// Returns the elements of all partitions.
fn all_elements(partitions: c_int, count: MPI_Count) -> Result<MPI_Count> {
    if count < 0 {
        let detail = format!("invalid count {count}: must not be negative");
        return Err(Error::new(Class::Count, detail));
    }
    MPI_Count::from(partitions.max(0)).checked_mul(count).ok_or_else(|| {
        let detail = format!("{partitions} partitions of {count} elements are more than 2^63");
        Error::new(Class::Count, detail)
    })
}

pub(crate) unsafe fn psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    let elements = all_elements(partitions, count)?;
    optional(info)?;
    // SAFETY: the user's promise about the buffer, passed on.
    let data = with(|p| unsafe { buffer(p, buf, elements, datatype) })?;
    let handle = partitioned::send_init(data, partitions, dest, tag, comm.0)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

pub(crate) unsafe fn precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> Result<()> {
    not_null(request, "request")?;
    let elements = all_elements(partitions, count)?;
    optional(info)?;
    // SAFETY: the user's promise about the buffer, passed on.
    let data = with(|p| unsafe { buffer(p, buf, elements, datatype) })?;
    let handle = partitioned::receive_init(data, partitions, source, tag, comm.0)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(request, MPI_Request(handle), "request") }
}

pub(crate) unsafe fn pready(partition: c_int, request: MPI_Request) -> Result<()> {
    partitioned::ready(request.0, partition, partition)
}

pub(crate) unsafe fn pready_range(
    partition_low: c_int,
    partition_high: c_int,
    request: MPI_Request,
) -> Result<()> {
    partitioned::ready(request.0, partition_low, partition_high)
}

pub(crate) unsafe fn pready_list(
    length: c_int,
    array_of_partitions: *const c_int,
    request: MPI_Request,
) -> Result<()> {
    // SAFETY: as many as the user says.
    let list = unsafe { slice(array_of_partitions, length.into(), "array_of_partitions") }?;
    partitioned::ready_list(request.0, list)
}

pub(crate) unsafe fn parrived(
    request: MPI_Request,
    partition: c_int,
    flag: *mut c_int,
) -> Result<()> {
    let has_arrived = partitioned::has_arrived(request.0, partition)?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(flag, has_arrived.into(), "flag") }
}
