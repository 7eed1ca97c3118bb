//! MPI-5.0 §7.7 (attribute caching) and the predefined attributes of §9.1.
//!
//! User functions run outside the process lock: a step is taken out, run, and its outcome stored
//! (see `objects::attribute`).

use std::os::raw::{c_int, c_void};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicI32, Ordering};

use objects::attribute::{Attributes, CopyFunction, DeleteFunction, Owner};
use objects::{Comm, Result, error_codes};
use runtime::{Process, predefined, with};

use crate::abi::{
    MPI_Comm, MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function, MPI_Copy_function,
    MPI_Datatype, MPI_Delete_function, MPI_Type_copy_attr_function, MPI_Type_delete_attr_function,
    MPI_Win, MPI_Win_copy_attr_function, MPI_Win_delete_attr_function,
};
use crate::args::{not_null, put};
use crate::constants::{
    MPI_APPNUM, MPI_HOST, MPI_IO, MPI_KEYVAL_INVALID, MPI_LASTUSEDCODE, MPI_PROC_NULL, MPI_TAG_UB,
    MPI_UNIVERSE_SIZE, MPI_WIN_BASE, MPI_WIN_CREATE_FLAVOR, MPI_WIN_DISP_UNIT, MPI_WIN_MODEL,
    MPI_WIN_SIZE, MPI_WTIME_IS_GLOBAL,
};

/// Runs `work` on the attributes of an object. `work` must not call user functions.
fn attributes<R>(
    p: &mut Process,
    owner: Owner,
    handle: usize,
    work: impl FnOnce(&mut Attributes) -> R,
) -> Result<R> {
    match owner {
        Owner::Type => {
            let cached = p.datatype(handle)?.attributes();
            Ok(work(&mut cached.lock().unwrap_or_else(PoisonError::into_inner)))
        }
        Owner::Win => p.win_mut(handle).map(|win| work(&mut win.attributes)),
        Owner::Comm => p.comm_mut(handle).map(|comm| work(comm.attributes_mut())),
    }
}

fn set(owner: Owner, handle: usize, keyval: c_int, value: usize) -> Result<()> {
    let (keyval, old) = with(|p| {
        let old = attributes(p, owner, handle, |attributes| attributes.deletion(keyval))?;
        Ok((p.tables.keyvals.find(owner, keyval)?.clone(), old))
    })?;
    old.map_or(Ok(()), |old| old.run(handle))?;
    with(|p| attributes(p, owner, handle, |attributes| attributes.store(&keyval, value)))
}

fn delete(owner: Owner, handle: usize, keyval: c_int) -> Result<()> {
    let deletion = with(|p| {
        p.tables.keyvals.find(owner, keyval)?;
        attributes(p, owner, handle, |attributes| attributes.deletion(keyval))
    })?;
    let Some(deletion) = deletion else { return Ok(()) };
    deletion.run(handle)?;
    with(|p| attributes(p, owner, handle, |attributes| attributes.remove(&deletion)))
}

/// Deletes all attributes of an object that is about to be freed, newest first.
fn delete_all(owner: Owner, handle: usize) -> Result<()> {
    while let Some(deletion) =
        with(|p| attributes(p, owner, handle, |attributes| attributes.last_deletion()))?
    {
        deletion.run(handle)?;
        with(|p| attributes(p, owner, handle, |attributes| attributes.remove(&deletion)))?;
    }
    Ok(())
}

/// Returns the attributes for a duplicate of `handle`. If a copy function fails, the copied
/// attributes are deleted again.
fn copies(owner: Owner, handle: usize) -> Result<Attributes> {
    let steps = with(|p| attributes(p, owner, handle, |attributes| attributes.copies()))?;
    let mut fresh = Attributes::new();
    for step in steps {
        match step.run(handle) {
            Ok(Some(value)) => fresh.store(step.keyval(), value),
            Ok(None) => {}
            Err(error) => {
                while let Some(deletion) = fresh.last_deletion() {
                    let _ = deletion.run(handle);
                    fresh.remove(&deletion);
                }
                return Err(error);
            }
        }
    }
    Ok(fresh)
}

/// Copies the attributes of `parent` to its duplicate that has no handle yet.
pub(crate) fn copy_comm(parent: MPI_Comm, duplicate: &mut Comm) -> Result<()> {
    *duplicate.attributes_mut() = copies(Owner::Comm, parent.0)?;
    Ok(())
}

/// Copies attributes like [`copy_comm`], to a duplicate that has its handle.
pub(crate) fn copy_comm_into(parent: MPI_Comm, duplicate: MPI_Comm) -> Result<()> {
    let fresh = copies(Owner::Comm, parent.0)?;
    with(|p| attributes(p, Owner::Comm, duplicate.0, |attributes| *attributes = fresh))
}

/// Copies the attributes of a datatype to its duplicate.
pub(crate) fn copy_type_into(original: MPI_Datatype, duplicate: MPI_Datatype) -> Result<()> {
    let fresh = copies(Owner::Type, original.0)?;
    with(|p| attributes(p, Owner::Type, duplicate.0, |attributes| *attributes = fresh))
}

/// Deletes the attributes for MPI_Comm_free.
pub(crate) fn delete_all_of_comm(comm: MPI_Comm) -> Result<()> {
    delete_all(Owner::Comm, comm.0)
}

/// Deletes the attributes for MPI_Type_free.
pub(crate) fn delete_all_of_type(datatype: MPI_Datatype) -> Result<()> {
    delete_all(Owner::Type, datatype.0)
}

/// Deletes the attributes for MPI_Win_free.
pub(crate) fn delete_all_of_win(win: MPI_Win) -> Result<()> {
    delete_all(Owner::Win, win.0)
}

/// Deletes the attributes of MPI_COMM_SELF, the first step of MPI_Finalize (MPI-5.0 §11.2.4).
pub(crate) fn delete_all_of_self() -> Result<()> {
    delete_all(Owner::Comm, predefined::COMM_SELF)
}

unsafe fn create_keyval(
    owner: Owner,
    copy: usize,
    delete: usize,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    not_null(keyval, "keyval")?;
    let copy = match copy {
        0 => CopyFunction::Null,
        1 => CopyFunction::Dup,
        address => {
            // SAFETY: neither 0 nor 1, the predefined values, therefore the user's function of the
            // type that the call's prototype demands.
            CopyFunction::User(unsafe {
                std::mem::transmute::<usize, objects::attribute::CopyCallback>(address)
            })
        }
    };
    let delete = match delete {
        0 => DeleteFunction::Null,
        address => {
            // SAFETY: as for the copy function; the predefined value is 0.
            DeleteFunction::User(unsafe {
                std::mem::transmute::<usize, objects::attribute::DeleteCallback>(address)
            })
        }
    };
    let number = with(|p| p.tables.keyvals.create(owner, copy, delete, extra_state as usize));
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { put(keyval, number, "keyval") }
}

unsafe fn free_keyval(owner: Owner, keyval: *mut c_int) -> Result<()> {
    not_null(keyval, "keyval")?;
    // SAFETY: not null, and valid by the user's promise.
    let number = unsafe { *keyval };
    with(|p| p.tables.keyvals.free(owner, number))?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(keyval, MPI_KEYVAL_INVALID, "keyval") }
}

unsafe fn store(value: Option<usize>, attribute_val: *mut c_void, flag: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; the user passes the address of a pointer.
    unsafe {
        if let Some(value) = value {
            put(attribute_val.cast::<usize>(), value, "attribute_val")?;
        }
        put(flag, c_int::from(value.is_some()), "flag")
    }
}

/// Returns the address of a predefined attribute's value (MPI-5.0 §9.1.2); `Some(None)` if it is
/// not set, `None` for other keyvals. All are integers that the C binding passes by address.
fn predefined_value(p: &Process, keyval: c_int) -> Option<Option<usize>> {
    static TAG_UB: AtomicI32 = AtomicI32::new(runtime::message::TAG_UB);
    static HOST: AtomicI32 = AtomicI32::new(MPI_PROC_NULL);
    static IO: AtomicI32 = AtomicI32::new(runtime::message::ANY_SOURCE);
    static GLOBAL: AtomicI32 = AtomicI32::new(0);
    static APPNUM: AtomicI32 = AtomicI32::new(0);
    static UNIVERSE: AtomicI32 = AtomicI32::new(0);
    static LAST_CODE: AtomicI32 = AtomicI32::new(0);
    let value = match keyval {
        MPI_TAG_UB => &TAG_UB,
        MPI_HOST => &HOST,
        MPI_IO => &IO,
        MPI_WTIME_IS_GLOBAL => {
            // Each host has a monotonic clock of its own.
            GLOBAL.store(p.is_on_one_host().into(), Ordering::Relaxed);
            &GLOBAL
        }
        MPI_APPNUM => {
            let Some(appnum) = p.appnum() else { return Some(None) };
            APPNUM.store(appnum as c_int, Ordering::Relaxed);
            &APPNUM
        }
        MPI_UNIVERSE_SIZE => {
            UNIVERSE.store(p.universe_size() as c_int, Ordering::Relaxed);
            &UNIVERSE
        }
        MPI_LASTUSEDCODE => {
            LAST_CODE.store(error_codes().last_used(), Ordering::Relaxed);
            &LAST_CODE
        }
        _ => return None,
    };
    Some(Some(value.as_ptr() as usize))
}

pub(crate) unsafe fn comm_create_keyval(
    comm_copy_attr_fn: MPI_Comm_copy_attr_function,
    comm_delete_attr_fn: MPI_Comm_delete_attr_function,
    comm_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    // SAFETY: the user's functions and pointer, passed on.
    unsafe {
        create_keyval(
            Owner::Comm,
            comm_copy_attr_fn.0,
            comm_delete_attr_fn.0,
            comm_keyval,
            extra_state,
        )
    }
}

pub(crate) unsafe fn keyval_create(
    copy_fn: MPI_Copy_function,
    delete_fn: MPI_Delete_function,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    // SAFETY: the user's functions and pointer, passed on.
    unsafe { create_keyval(Owner::Comm, copy_fn.0, delete_fn.0, keyval, extra_state) }
}

pub(crate) unsafe fn type_create_keyval(
    type_copy_attr_fn: MPI_Type_copy_attr_function,
    type_delete_attr_fn: MPI_Type_delete_attr_function,
    type_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    // SAFETY: the user's functions and pointer, passed on.
    unsafe {
        create_keyval(
            Owner::Type,
            type_copy_attr_fn.0,
            type_delete_attr_fn.0,
            type_keyval,
            extra_state,
        )
    }
}

pub(crate) unsafe fn win_create_keyval(
    win_copy_attr_fn: MPI_Win_copy_attr_function,
    win_delete_attr_fn: MPI_Win_delete_attr_function,
    win_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    // SAFETY: the user's functions and pointer, passed on.
    unsafe {
        create_keyval(Owner::Win, win_copy_attr_fn.0, win_delete_attr_fn.0, win_keyval, extra_state)
    }
}

pub(crate) unsafe fn comm_free_keyval(comm_keyval: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { free_keyval(Owner::Comm, comm_keyval) }
}

pub(crate) unsafe fn keyval_free(keyval: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { free_keyval(Owner::Comm, keyval) }
}

pub(crate) unsafe fn type_free_keyval(type_keyval: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { free_keyval(Owner::Type, type_keyval) }
}

pub(crate) unsafe fn win_free_keyval(win_keyval: *mut c_int) -> Result<()> {
    // SAFETY: the user's pointer, passed on.
    unsafe { free_keyval(Owner::Win, win_keyval) }
}

pub(crate) unsafe fn comm_set_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<()> {
    set(Owner::Comm, comm.0, comm_keyval, attribute_val as usize)
}

pub(crate) unsafe fn attr_put(
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<()> {
    set(Owner::Comm, comm.0, keyval, attribute_val as usize)
}

pub(crate) unsafe fn type_set_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<()> {
    set(Owner::Type, datatype.0, type_keyval, attribute_val as usize)
}

pub(crate) unsafe fn win_set_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: *mut c_void,
) -> Result<()> {
    set(Owner::Win, win.0, win_keyval, attribute_val as usize)
}

pub(crate) unsafe fn win_get_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    let value = with(|p| {
        let object = p.win(win.0)?;
        let values = &*object.values;
        let predefined = match win_keyval {
            MPI_WIN_BASE => object.base,
            MPI_WIN_SIZE => &raw const values.size as usize,
            MPI_WIN_DISP_UNIT => &raw const values.unit as usize,
            MPI_WIN_CREATE_FLAVOR => &raw const values.flavor as usize,
            MPI_WIN_MODEL => &raw const values.model as usize,
            _ => {
                p.tables.keyvals.find(Owner::Win, win_keyval)?;
                return Ok(object.attributes.value(win_keyval));
            }
        };
        Ok(Some(predefined))
    })?;
    // SAFETY: the user's pointers, passed on.
    unsafe { store(value, attribute_val, flag) }
}

pub(crate) unsafe fn win_delete_attr(win: MPI_Win, win_keyval: c_int) -> Result<()> {
    delete(Owner::Win, win.0, win_keyval)
}

pub(crate) unsafe fn comm_get_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    let value = with(|p| {
        p.comm(comm.0)?;
        if let Some(value) = predefined_value(p, comm_keyval) {
            return Ok(value);
        }
        p.tables.keyvals.find(Owner::Comm, comm_keyval)?;
        p.comm(comm.0).map(|comm| comm.attributes().value(comm_keyval))
    })?;
    // SAFETY: the user's pointers, passed on.
    unsafe { store(value, attribute_val, flag) }
}

pub(crate) unsafe fn attr_get(
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: the caller's promise, passed on.
    unsafe { comm_get_attr(comm, keyval, attribute_val, flag) }
}

pub(crate) unsafe fn type_get_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    let value = with(|p| {
        p.tables.keyvals.find(Owner::Type, type_keyval)?;
        attributes(p, Owner::Type, datatype.0, |attributes| attributes.value(type_keyval))
    })?;
    // SAFETY: the user's pointers, passed on.
    unsafe { store(value, attribute_val, flag) }
}

pub(crate) unsafe fn comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) -> Result<()> {
    delete(Owner::Comm, comm.0, comm_keyval)
}

pub(crate) unsafe fn attr_delete(comm: MPI_Comm, keyval: c_int) -> Result<()> {
    delete(Owner::Comm, comm.0, keyval)
}

pub(crate) unsafe fn type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) -> Result<()> {
    delete(Owner::Type, datatype.0, type_keyval)
}
