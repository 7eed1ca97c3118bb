//! Accumulates that end at once, and what tells that an operation may: adjacent elements of one
//! predefined datatype, with gaps nowhere, on all sides.

use std::os::raw::c_void;

use fabric::UserBuf;
use objects::Datatype;
use objects::op::{BuiltinOp, Primitive};
use runtime::Process;
use runtime::window::quick;

use crate::abi::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Op};
use crate::args::plain;

/// Count and datatype of the origin, then of the target.
pub(super) type Sides = (MPI_Count, MPI_Datatype, MPI_Count, MPI_Datatype);

/// Returns the origin's buffer if both sides are equally many elements of one predefined datatype
/// without gaps.
#[inline(always)]
pub(super) unsafe fn equal(origin_addr: *const c_void, sides: Sides) -> Option<UserBuf> {
    let (origin_count, origin_datatype, target_count, target_datatype) = sides;
    if origin_count != target_count || origin_datatype.0 != target_datatype.0 {
        return None;
    }
    // SAFETY: the user's buffer, passed on.
    unsafe { plain(origin_addr, origin_count, origin_datatype) }
}

/// Returns the origin's buffer if both sides are equally many bytes of predefined datatypes without
/// gaps.
pub(super) unsafe fn alike(origin_addr: *const c_void, sides: Sides) -> Option<UserBuf> {
    let (origin_count, origin_datatype, target_count, target_datatype) = sides;
    // SAFETY: the user's buffer, passed on; the address of the target's side is not looked at.
    let (origin, target) = unsafe {
        let origin = plain(origin_addr, origin_count, origin_datatype)?;
        (origin, plain(origin_addr, target_count, target_datatype)?)
    };
    (origin.len() == target.len()).then_some(origin)
}

/// Does an accumulate of adjacent elements at once; false if the general path has to. `old` gets
/// what they were.
pub(super) fn combine_now(
    p: &mut Process,
    operands: UserBuf,
    (len, datatype): (usize, MPI_Datatype),
    (of, disp): ((usize, u32), MPI_Aint),
    op: MPI_Op,
    old: Option<UserBuf>,
) -> bool {
    let (primitive, size) = Primitive::of_handles(op.0, datatype.0);
    if size == len
        && primitive != Primitive::Other
        && quick::aim(p, of, disp, len)
        && quick::change(p, of, disp, (primitive, operands), len, old)
    {
        return true;
    }
    let is_plain = primitive != Primitive::Other && size > 0 && old.is_none();
    if is_plain && quick::change_all(p, of, disp, (primitive, operands), size) {
        return true;
    }
    quick::combine(p, of, disp, ((op.0, datatype.0), operands), len, old)
}

/// Returns the operand of MPI_Fetch_and_op and its result, of so many bytes; `None` if the general
/// path has to look at them.
#[inline(always)]
pub(super) unsafe fn one_element(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    size: usize,
    needs_operand: bool,
) -> Option<(UserBuf, UserBuf)> {
    let has_operand = !needs_operand || !origin_addr.is_null();
    if size == 0 || !has_operand || result_addr.is_null() {
        return None;
    }
    // SAFETY: the user's buffers of one element; a value that is kept needs no operand.
    Some(unsafe {
        let operand = UserBuf::new(origin_addr.cast_mut().cast(), size);
        (operand, UserBuf::new(result_addr.cast(), size))
    })
}

/// Returns the expected and the new value of MPI_Compare_and_swap, and where the old one goes;
/// `None` if the general path has to look at them.
#[inline(always)]
pub(super) unsafe fn swapped(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
) -> Option<((UserBuf, UserBuf), UserBuf)> {
    let size = Datatype::integer_size(datatype.0);
    let addresses = [origin_addr, compare_addr, result_addr.cast_const()];
    if size == 0 || addresses.iter().any(|address| address.is_null()) {
        return None;
    }
    // SAFETY: the user's buffers of one element.
    let [new, expected, old] =
        addresses.map(|address| unsafe { UserBuf::new(address.cast_mut().cast(), size) });
    Some(((expected, new), old))
}

/// Does MPI_Get_accumulate of adjacent elements at once; false if the general path has to.
pub(super) unsafe fn get_accumulate_now(
    p: &mut Process,
    (origin_addr, origin_count, origin_datatype): (*const c_void, MPI_Count, MPI_Datatype),
    (result_addr, result_count, result_datatype): (*mut c_void, MPI_Count, MPI_Datatype),
    (target_count, target_datatype): (MPI_Count, MPI_Datatype),
    place: ((usize, u32), MPI_Aint),
    op: MPI_Op,
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
    is_whole && combine_now(p, operands, (old.len(), target_datatype), place, op, Some(old))
}
