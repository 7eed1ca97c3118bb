//! MPI-5.0 §5.2 and §5.3: packing into the user's memory, in the native representation (the bytes
//! as they are) and in "external32".

use std::os::raw::{c_char, c_void};

use fabric::UserBuf;
use objects::{Buffer, Class, Datatype, Error, Result};
use runtime::with;

use crate::abi::{MPI_Aint, MPI_Comm, MPI_Count, MPI_Datatype};
use crate::args::{buffer, checked_count, null_argument, put};
use crate::convert::CountOut;
use crate::text::text;

/// A user's packed buffer, from its position on.
struct Packed {
    base: *mut u8,
    position: MPI_Count,
    capacity: u64,
}

impl Packed {
    /// Checks that the position is in the buffer of `size` bytes.
    fn new(address: *const c_void, size: MPI_Count, position: MPI_Count) -> Result<Packed> {
        if size < 0 {
            return Err(Error::new(
                Class::Arg,
                format!("invalid size {size} of the packed buffer: must not be negative"),
            ));
        }
        if position < 0 || position > size {
            let why =
                format!("invalid position {position} in the packed buffer: must be 0 to {size}");
            return Err(Error::new(Class::Arg, why));
        }
        Ok(Packed { base: address.cast_mut().cast(), position, capacity: (size - position) as u64 })
    }

    /// Returns the next `len` bytes and the position after them. MPI_ERR_TRUNCATE if there are
    /// fewer.
    fn take(&self, len: u64) -> Result<(UserBuf, MPI_Count)> {
        if len > self.capacity {
            let why = format!(
                "packed buffer too short: {len} bytes needed from position {}, the buffer has {}",
                self.position, self.capacity
            );
            return Err(Error::new(Class::Truncate, why));
        }
        if len > 0 && self.base.is_null() {
            return Err(Error::new(Class::Buffer, "the packed buffer is a null pointer"));
        }
        // SAFETY: within the buffer of the size that the user gave.
        let memory = unsafe {
            UserBuf::new(self.base.wrapping_offset(self.position as isize), len as usize)
        };
        Ok((memory, self.position + len as MPI_Count))
    }
}

/// Returns the typed buffer, if the communicator is valid too.
unsafe fn typed(
    comm: Option<MPI_Comm>,
    address: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<(Buffer, Datatype)> {
    with(|p| {
        if let Some(comm) = comm {
            p.comm(comm.0)?;
        }
        // SAFETY: the user's promise about the buffer, passed on.
        Ok((unsafe { buffer(p, address, count, datatype)? }, p.datatype(datatype.0)?.clone()))
    })
}

pub(crate) unsafe fn pack(
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Count,
    position: CountOut,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's buffers and pointer.
    unsafe {
        let (from, _) = typed(Some(comm), inbuf, incount, datatype)?;
        let (to, end) =
            Packed::new(outbuf, outsize, position.value("position")?)?.take(from.len())?;
        Buffer::contiguous(to).copy_from(&from);
        position.put(end, "position")
    }
}

pub(crate) unsafe fn unpack(
    inbuf: *const c_void,
    insize: MPI_Count,
    position: CountOut,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's buffers and pointer.
    unsafe {
        let (to, _) = typed(Some(comm), outbuf, outcount, datatype)?;
        let (from, end) =
            Packed::new(inbuf, insize, position.value("position")?)?.take(to.len())?;
        to.copy_from(&Buffer::contiguous(from));
        position.put(end, "position")
    }
}

/// Stores the exact size, not only an upper bound.
pub(crate) unsafe fn pack_size(
    incount: MPI_Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: CountOut,
) -> Result<()> {
    let count = checked_count(incount, "incount")?;
    let each = with(|p| {
        p.comm(comm.0)?;
        p.datatype(datatype.0).map(Datatype::size)
    })?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { size.put_or_undefined(each.checked_mul(count), "size") }
}

/// Checks the data representation; these calls support "external32" only.
unsafe fn check_datarep(datarep: *const c_char) -> Result<()> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    match unsafe { text(datarep, "datarep")? }.as_ref() {
        "external32" => Ok(()),
        other => Err(Error::new(
            Class::Arg,
            format!("invalid data representation \"{other}\": must be \"external32\""),
        )),
    }
}

/// Returns the bytes in "external32". MPI_ERR_COUNT if there are too many.
fn external_size(datatype: &Datatype, count: MPI_Count) -> Result<u64> {
    datatype.external_size(checked_count(count, "count")?).ok_or_else(|| {
        Error::new(
            Class::Count,
            format!(
                "count too large: {count} elements of {} bytes span more than 2^63 bytes",
                datatype.size()
            ),
        )
    })
}

pub(crate) unsafe fn pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: MPI_Aint,
    position: *mut MPI_Aint,
) -> Result<()> {
    // SAFETY: the user's string, buffers and pointer.
    unsafe {
        check_datarep(datarep)?;
        let (from, datatype) = typed(None, inbuf, incount, datatype)?;
        let at = *position.as_ref().ok_or_else(|| null_argument("position"))?;
        let (to, end) =
            Packed::new(outbuf, outsize, at)?.take(external_size(&datatype, incount)?)?;
        if !to.is_empty() {
            datatype.pack_external(&from, std::slice::from_raw_parts_mut(to.as_ptr(), to.len()))?;
        }
        put(position, end, "position")
    }
}

pub(crate) unsafe fn unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: MPI_Aint,
    position: *mut MPI_Aint,
    outbuf: *mut c_void,
    outcount: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<()> {
    // SAFETY: the user's string, buffers and pointer.
    unsafe {
        check_datarep(datarep)?;
        let (to, datatype) = typed(None, outbuf, outcount, datatype)?;
        let at = *position.as_ref().ok_or_else(|| null_argument("position"))?;
        let (from, end) =
            Packed::new(inbuf, insize, at)?.take(external_size(&datatype, outcount)?)?;
        if !from.is_empty() {
            datatype.unpack_external(std::slice::from_raw_parts(from.as_ptr(), from.len()), &to)?;
        }
        put(position, end, "position")
    }
}

pub(crate) unsafe fn pack_external_size(
    datarep: *const c_char,
    incount: MPI_Count,
    datatype: MPI_Datatype,
    size: *mut MPI_Aint,
) -> Result<()> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    unsafe { check_datarep(datarep)? };
    let bytes = with(|p| external_size(p.datatype(datatype.0)?, incount))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(size, bytes as MPI_Aint, "size") }
}
