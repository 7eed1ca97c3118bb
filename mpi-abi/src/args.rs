//! Converts C arguments into the types of lower crates, with the checks that the standard requires
//! of every call.

use std::os::raw::{c_int, c_void};

use fabric::UserBuf;
use objects::{Buffer, Class, Datatype, Error, Result, Status};
use runtime::Process;

use crate::abi::{MPI_Count, MPI_Datatype, MPI_Request};

/// MPI_UNDEFINED.
pub(crate) const UNDEFINED: c_int = -32766;
/// MPI_IN_PLACE as a buffer address.
pub(crate) const IN_PLACE: usize = 1;

/// Makes the user's buffer: `count` items of a committed datatype.
///
/// # Safety
/// The caller's promise under MPI: the memory that address, count and datatype describe is valid
/// until the operation completes.
#[inline(always)]
pub(crate) unsafe fn buffer(
    p: &Process,
    address: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<Buffer> {
    // The usual case; `any_buffer` finds every error.
    // SAFETY: the caller's promise, passed on.
    if let Some(memory) = unsafe { plain(address, count, datatype) } {
        return Ok(Buffer::contiguous(memory));
    }
    // A separate variable, so that the buffer above is kept in registers.
    let mut other = Buffer::EMPTY;
    // SAFETY: the same promise.
    unsafe { any_buffer(p, address, count, datatype, &mut other)? };
    Ok(other)
}

/// Returns the user's buffer of elements of a predefined datatype without gaps; `None` for any
/// other datatype, and for arguments that [`buffer`] looks at.
///
/// # Safety
/// As for [`buffer`].
#[inline(always)]
pub(crate) unsafe fn plain(
    address: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Option<UserBuf> {
    let size = Datatype::plain_size(datatype.0);
    if size == 0 || count < 0 || address as usize <= IN_PLACE {
        return None;
    }
    // A size beyond memory saturates, so that it never reads as a small one.
    let len = (count as usize).saturating_mul(size);
    // SAFETY: the caller's promise, which is the user's (MPI-5.0 §3.2, §3.7).
    Some(unsafe { UserBuf::new(address.cast_mut().cast(), len) })
}

#[inline(never)]
unsafe fn any_buffer(
    p: &Process,
    address: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    to: &mut Buffer,
) -> Result<()> {
    let count = checked_count(count, "count")?;
    let datatype = p.datatype(datatype.0)?;
    if !datatype.is_committed() {
        return Err(Error::new(
            Class::Type,
            "the datatype is not committed: call MPI_Type_commit first",
        ));
    }
    if address.is_null() && count > 0 && datatype.size() > 0 && datatype.is_predefined() {
        return Err(Error::new(
            Class::Buffer,
            format!("null buffer with count {count}: must not be null"),
        ));
    }
    if address as usize == IN_PLACE {
        return Err(Error::new(
            Class::Buffer,
            "invalid buffer MPI_IN_PLACE: this call does not take it",
        ));
    }
    // SAFETY: the caller's promise, which is the user's (MPI-5.0 §3.2, §3.7).
    *to = unsafe { Buffer::of_user(address.cast_mut().cast(), count, datatype) };
    Ok(())
}

/// Checks that a count is not negative, otherwise MPI_ERR_COUNT.
#[inline]
pub(crate) fn checked_count(count: MPI_Count, name: &str) -> Result<u64> {
    u64::try_from(count).map_err(|_| {
        Error::new(Class::Count, format!("invalid {name} {count}: must not be negative"))
    })
}

/// Checks that the length of an array is not negative, otherwise MPI_ERR_ARG.
pub(crate) fn length(value: MPI_Count, name: &str) -> Result<usize> {
    usize::try_from(value).map_err(|_| {
        Error::new(Class::Arg, format!("invalid {name} {value}: must not be negative"))
    })
}

/// Stores a status without its MPI_ERROR field, which only calls with arrays of statuses set
/// (MPI-5.0 §3.2.5). The empty status alone has MPI_SUCCESS there (§3.7.3).
///
/// # Safety
/// `to` is MPI_STATUS_IGNORE (null) or points to a status.
#[inline]
pub(crate) unsafe fn put_status(to: *mut Status, status: &Status) {
    if !to.is_null() {
        // SAFETY: not null, therefore it points to a status of the caller's.
        unsafe {
            let error = if *status == Status::empty() { status.error } else { (*to).error };
            *to = *status;
            (*to).error = error;
        }
    }
}

/// Stores through a pointer that must not be null, otherwise MPI_ERR_ARG.
///
/// # Safety
/// `to` is null or valid for a write.
#[inline]
pub(crate) unsafe fn put<T>(to: *mut T, value: T, name: &str) -> Result<()> {
    not_null(to, name)?;
    // SAFETY: not null, therefore valid by the caller's promise.
    unsafe { to.write(value) };
    Ok(())
}

/// Returns the caller's array; an empty one for length 0, with any pointer.
///
/// # Safety
/// `first` is null or points to `len` elements that no other code accesses.
pub(crate) unsafe fn slice<'a, T>(first: *const T, len: MPI_Count, name: &str) -> Result<&'a [T]> {
    match checked_count(len, "count")? {
        0 => Ok(&[]),
        _ if first.is_null() => Err(null_argument(name)),
        // SAFETY: not null, and the caller vouches for the length.
        len => Ok(unsafe { std::slice::from_raw_parts(first, len as usize) }),
    }
}

/// Returns the caller's array for writing, like [`slice()`].
///
/// # Safety
/// As for [`slice()`].
pub(crate) unsafe fn slice_mut<'a, T>(
    first: *mut T,
    len: MPI_Count,
    name: &str,
) -> Result<&'a mut [T]> {
    match checked_count(len, "count")? {
        0 => Ok(&mut []),
        _ if first.is_null() => Err(null_argument(name)),
        // SAFETY: not null, and the caller vouches for the length.
        len => Ok(unsafe { std::slice::from_raw_parts_mut(first, len as usize) }),
    }
}

/// Returns the caller's requests as the plain handles that `runtime` takes.
///
/// # Safety
/// As for [`slice()`].
pub(crate) unsafe fn requests<'a>(first: *mut MPI_Request, len: c_int) -> Result<&'a mut [usize]> {
    // SAFETY: `MPI_Request` is a transparent `usize`; the rest is the caller's promise.
    unsafe { slice_mut(first.cast::<usize>(), len.into(), "array_of_requests") }
}

/// Makes the error of a required pointer that is null.
#[cold]
pub(crate) fn null_argument(name: &str) -> Error {
    Error::new(Class::Arg, format!("{name} is a null pointer"))
}

/// Refuses a required pointer that is null.
#[inline]
pub(crate) fn not_null<T>(pointer: *const T, name: &str) -> Result<()> {
    if pointer.is_null() { Err(null_argument(name)) } else { Ok(()) }
}
