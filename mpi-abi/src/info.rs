//! MPI-5.0 chapter 10: info objects.

use std::ffi::CStr;
use std::os::raw::{c_char, c_int};

use objects::{Class, Error, Info, Result};
use runtime::{Process, bad_handle, bad_predefined, predefined, with};

use crate::abi::MPI_Info;
use crate::args::{not_null, null_argument, put};

/// Returns a copy of the info object of a handle. MPI_ERR_INFO for any other value.
pub(crate) fn copy_of(p: &mut Process, info: MPI_Info) -> Result<Info> {
    match info.0 {
        predefined::INFO_ENV => Ok(crate::info_env::info_env(p)),
        small if small < predefined::END => {
            Err(bad_predefined(Class::Info, "info", small, predefined::INFO_NULL))
        }
        handle => p
            .tables
            .infos
            .get(handle as u64)
            .cloned()
            .map_err(|stale| bad_handle(Class::Info, "info", stale)),
    }
}

/// Returns a copy like [`copy_of`]; MPI_INFO_NULL stands for no hints.
pub(crate) fn optional(info: MPI_Info) -> Result<Info> {
    if info.0 == predefined::INFO_NULL {
        return Ok(Info::new());
    }
    with(|p| copy_of(p, info))
}

/// Stores the handle of a new info object.
///
/// # Safety
/// `info` is null or valid for a write.
pub(crate) unsafe fn store(info: *mut MPI_Info, object: Info) -> Result<()> {
    not_null(info, "info")?;
    let handle = with(|p| p.tables.infos.insert(object)) as usize;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(info, MPI_Info(handle), "info") }
}

/// Returns the user's string as bytes.
unsafe fn bytes<'a>(text: *const c_char, name: &str) -> Result<&'a [u8]> {
    not_null(text, name)?;
    // SAFETY: not null, therefore a terminated string.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Changes an info object that is not predefined.
pub(crate) fn change<R>(info: MPI_Info, change: impl FnOnce(&mut Info) -> Result<R>) -> Result<R> {
    if info.0 == predefined::INFO_ENV {
        return Err(Error::new(Class::Info, "cannot change MPI_INFO_ENV"));
    }
    if info.0 < predefined::END {
        return Err(bad_predefined(Class::Info, "info", info.0, predefined::INFO_NULL));
    }
    with(|p| {
        change(
            p.tables
                .infos
                .get_mut(info.0 as u64)
                .map_err(|stale| bad_handle(Class::Info, "info", stale))?,
        )
    })
}

pub(crate) unsafe fn info_create(info: *mut MPI_Info) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { store(info, Info::new()) }
}

pub(crate) unsafe fn info_create_env(
    _argc: c_int,
    _argv: *mut *mut c_char,
    info: *mut MPI_Info,
) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { store(info, with(crate::info_env::info_env)) }
}

pub(crate) unsafe fn info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> Result<()> {
    let copy = with(|p| copy_of(p, info))?;
    // SAFETY: the user's pointer, passed on.
    unsafe { store(newinfo, copy) }
}

pub(crate) unsafe fn info_free(info: *mut MPI_Info) -> Result<()> {
    not_null(info, "info")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *info };
    change(handle, |_| Ok(()))?;
    let _ = with(|p| p.tables.infos.remove(handle.0 as u64));
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(info, MPI_Info(predefined::INFO_NULL), "info") }
}

pub(crate) unsafe fn info_set(
    info: MPI_Info,
    key: *const c_char,
    value: *const c_char,
) -> Result<()> {
    // SAFETY: null is refused; other strings are terminated, by the user's promise.
    let (key, value) = unsafe { (bytes(key, "key")?, bytes(value, "value")?) };
    change(info, |info| info.set(key, value))
}

pub(crate) unsafe fn info_delete(info: MPI_Info, key: *const c_char) -> Result<()> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let key = unsafe { bytes(key, "key")? };
    change(info, |info| info.delete(key))
}

pub(crate) unsafe fn info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) -> Result<()> {
    let keys = with(|p| copy_of(p, info))?.len();
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(nkeys, keys as c_int, "nkeys") }
}

pub(crate) unsafe fn info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> Result<()> {
    let object = with(|p| copy_of(p, info))?;
    let name = object.nth_key(n.into())?;
    // SAFETY: the user's buffer of MPI_MAX_INFO_KEY characters, which holds every key.
    unsafe { put_bytes(key, name) }
}

/// Writes bytes and a terminator.
unsafe fn put_bytes(to: *mut c_char, bytes: &[u8]) -> Result<()> {
    not_null(to, "the buffer for the result")?;
    // SAFETY: the caller vouches for the capacity.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), to, bytes.len());
        *to.add(bytes.len()) = 0;
    }
    Ok(())
}

pub(crate) unsafe fn info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    let object = with(|p| copy_of(p, info))?;
    // SAFETY: null is refused; other strings and pointers are valid by the user's promise, and the
    // buffer has `*buflen` characters.
    unsafe {
        let key = bytes(key, "key")?;
        let capacity = *buflen.as_ref().ok_or_else(|| null_argument("buflen"))?;
        let out = crate::args::slice_mut(value.cast::<u8>(), capacity.into(), "value")?;
        let needed = object.read_string(key, out)?;
        if let Some(needed) = needed {
            put(buflen, needed as c_int, "buflen")?;
        }
        put(flag, c_int::from(needed.is_some()), "flag")
    }
}

pub(crate) unsafe fn info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> Result<()> {
    let object = with(|p| copy_of(p, info))?;
    // SAFETY: null is refused; other strings and pointers are valid by the user's promise. The
    // buffer has `valuelen` characters, and space for the terminator (MPI-5.0 §16.3).
    unsafe {
        let (key, capacity) =
            (bytes(key, "key")?, crate::args::length(valuelen.into(), "valuelen")?);
        let found = object.value(key)?;
        if let Some(found) = found {
            put_bytes(value, &found[..found.len().min(capacity)])?;
        }
        put(flag, c_int::from(found.is_some()), "flag")
    }
}

pub(crate) unsafe fn info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> Result<()> {
    let object = with(|p| copy_of(p, info))?;
    // SAFETY: null is refused; other strings and pointers are valid by the user's promise.
    unsafe {
        let found = object.value(bytes(key, "key")?)?;
        if let Some(found) = found {
            put(valuelen, found.len() as c_int, "valuelen")?;
        }
        put(flag, c_int::from(found.is_some()), "flag")
    }
}
