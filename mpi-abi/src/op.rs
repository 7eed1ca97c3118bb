//! MPI-5.0 §6.9.5 to §6.9.7: user-defined operations, and local reduction.

use std::os::raw::{c_int, c_void};
use std::sync::Arc;

use objects::op::{UserFunction, UserOp};
use objects::{Class, Error, Op, Result};
use runtime::{predefined, with};

use crate::abi::{MPI_Count, MPI_Datatype, MPI_Op, MPI_User_function, MPI_User_function_c};
use crate::args::{buffer, not_null, null_argument, put};

unsafe fn create(function: UserFunction, commute: c_int, op: *mut MPI_Op) -> Result<()> {
    not_null(op, "op")?;
    // SAFETY: the user promises that the function takes the datatypes that it is
    // used with (MPI-5.0 §6.9.5).
    let made = unsafe { UserOp::new(function, commute != 0) };
    let handle = with(|p| p.tables.ops.insert(Op::User(Arc::new(made)))) as usize;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(op, MPI_Op(handle), "op") }
}

pub(crate) unsafe fn op_create(
    user_fn: Option<MPI_User_function>,
    commute: c_int,
    op: *mut MPI_Op,
) -> Result<()> {
    let function = user_fn.ok_or_else(|| null_argument("user_fn"))?;
    // SAFETY: the types differ in the side that vouches for a call, see `UserOp::new`, and in the
    // handle, which is a transparent `usize`.
    let function = unsafe {
        std::mem::transmute::<
            MPI_User_function,
            extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut usize),
        >(function)
    };
    // SAFETY: the user's function and pointer, passed on.
    unsafe { create(UserFunction::Int(function), commute, op) }
}

pub(crate) unsafe fn op_create_c(
    user_fn: Option<MPI_User_function_c>,
    commute: c_int,
    op: *mut MPI_Op,
) -> Result<()> {
    let function = user_fn.ok_or_else(|| null_argument("user_fn"))?;
    // SAFETY: as in `op_create`.
    let function = unsafe {
        std::mem::transmute::<
            MPI_User_function_c,
            extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut usize),
        >(function)
    };
    // SAFETY: the user's function and pointer, passed on.
    unsafe { create(UserFunction::Large(function), commute, op) }
}

/// Frees an operation. Collectives in progress keep it until they complete.
pub(crate) unsafe fn op_free(op: *mut MPI_Op) -> Result<()> {
    not_null(op, "op")?;
    // SAFETY: not null, and valid by the user's promise.
    let handle = unsafe { *op };
    let object = with(|p| p.op(handle.0))?;
    if handle.0 < predefined::END {
        return Err(Error::new(
            Class::Op,
            format!("cannot free {}: it is predefined", object.name()),
        ));
    }
    with(|p| p.tables.ops.remove(handle.0 as u64))
        .map_err(|stale| runtime::bad_handle(Class::Op, "operation", stale))?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { put(op, MPI_Op(predefined::OP_NULL), "op") }
}

pub(crate) unsafe fn op_commutative(op: MPI_Op, commute: *mut c_int) -> Result<()> {
    let commutes = with(|p| p.op(op.0))?.commutative();
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(commute, c_int::from(commutes), "commute") }
}

/// Reduces locally. The user's function runs outside the process lock; therefore it may call MPI.
pub(crate) unsafe fn reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<()> {
    let (op, ty, left, inout) = with(|p| {
        let op = p.op(op.0)?;
        let ty = p.datatype(datatype.0)?.clone();
        // SAFETY: the user's buffers of `count` elements each.
        let (left, inout) =
            unsafe { (buffer(p, inbuf, count, datatype)?, buffer(p, inoutbuf, count, datatype)?) };
        op.check(&ty)?;
        Ok((op, ty, left, inout))
    })?;
    if inbuf == inoutbuf.cast_const() && !left.is_empty() {
        return Err(Error::new(Class::Buffer, "inbuf and inoutbuf must not be the same memory"));
    }
    if count > 0 {
        op.reduce(left, &inout, &ty, datatype.0);
    }
    Ok(())
}
