//! Accumulates that end at once, and what tells that an operation may: adjacent elements of one
//! predefined datatype, with gaps nowhere, on all sides.

use std::os::raw::{c_int, c_void};

use fabric::UserBuf;
use objects::Datatype;
use objects::op::{BuiltinOp, PackedOp, Primitive};
use runtime::window::quick;

use crate::abi::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op, MPI_Win};
use crate::args::plain;

/// Returns the origin's buffer if both sides are equally many bytes of predefined datatypes without
/// gaps.
#[inline(always)]
pub(super) unsafe fn alike(
    origin_addr: *const c_void,
    (origin_count, origin_datatype, target_count, target_datatype): (
        MPI_Count,
        MPI_Datatype,
        MPI_Count,
        MPI_Datatype,
    ),
) -> Option<UserBuf> {
    // SAFETY: the user's buffer, passed on; the address of the target's side is not looked at.
    let (origin, target) = unsafe {
        let origin = plain(origin_addr, origin_count, origin_datatype)?;
        (origin, plain(origin_addr, target_count, target_datatype)?)
    };
    (origin.len() == target.len()).then_some(origin)
}

/// Does an accumulate of adjacent elements at once; false if the general path has to. `old` gets
/// what they were.
#[inline(always)]
pub(super) fn combine_now(
    operands: UserBuf,
    (len, datatype): (usize, MPI_Datatype),
    place: (u32, MPI_Aint),
    op: MPI_Op,
    win: MPI_Win,
    old: Option<UserBuf>,
) -> bool {
    let (primitive, size) = Primitive::of_handles(op.0, datatype.0);
    if primitive != Primitive::Other && size == len {
        return quick::change(win.0, place, primitive, operands, len, old);
    }
    combine_many_now(operands, (len, datatype), place, op, win, old)
}

#[inline(never)]
fn combine_many_now(
    operands: UserBuf,
    (len, datatype): (usize, MPI_Datatype),
    place: (u32, MPI_Aint),
    op: MPI_Op,
    win: MPI_Win,
    old: Option<UserBuf>,
) -> bool {
    let (primitive, size) = Primitive::of_handles(op.0, datatype.0);
    let is_plain = primitive != Primitive::Other && size > 0 && old.is_none();
    if is_plain && quick::change_all(win.0, place, primitive, operands, size) {
        return true;
    }
    let packed = PackedOp::of_handles(op.0, datatype.0);
    packed.is_some_and(|packed| quick::combine(win.0, place, packed, operands, len, old))
}

/// Does MPI_Fetch_and_op at once; false if the general path has to.
#[inline(always)]
pub(super) unsafe fn fetch_now(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> bool {
    let size = Datatype::plain_size(datatype.0);
    let has_operand = !origin_addr.is_null() || op.0 == BuiltinOp::NoOp as usize;
    if size == 0 || !has_operand || result_addr.is_null() {
        return false;
    }
    // SAFETY: the user's buffers of one element; a value that is kept needs no operand.
    let (operand, old) = unsafe {
        let operand = UserBuf::new(origin_addr.cast_mut().cast(), size);
        (operand, UserBuf::new(result_addr.cast(), size))
    };
    let place = (target_rank as u32, target_disp);
    combine_now(operand, (size, datatype), place, op, win, Some(old))
}

/// Does MPI_Get_accumulate of adjacent elements at once; false if the general path has to.
#[inline(always)]
pub(super) unsafe fn get_accumulate_now(
    (origin_addr, origin_count, origin_datatype): (*const c_void, MPI_Count, MPI_Datatype),
    (result_addr, result_count, result_datatype): (*mut c_void, MPI_Count, MPI_Datatype),
    (target_count, target_datatype): (MPI_Count, MPI_Datatype),
    place: (u32, MPI_Aint),
    op: MPI_Op,
    win: MPI_Win,
) -> bool {
    let result_addr = result_addr.cast_const();
    let sides = (result_count, result_datatype, target_count, target_datatype);
    // SAFETY: the user's buffers, passed on; MPI_NO_OP has no operands (MPI-5.0 §12.3.4).
    let (old, operands) = unsafe {
        let operands = match op.0 == BuiltinOp::NoOp as usize {
            true => Some(UserBuf::EMPTY),
            false => plain(origin_addr, origin_count, origin_datatype),
        };
        (alike(result_addr, sides), operands)
    };
    let (Some(old), Some(operands)) = (old, operands) else { return false };
    let is_whole = op.0 == BuiltinOp::NoOp as usize || operands.len() == old.len();
    is_whole && combine_now(operands, (old.len(), target_datatype), place, op, win, Some(old))
}
