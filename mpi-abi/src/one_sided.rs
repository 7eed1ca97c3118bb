//! MPI-5.0 §12.3 to §12.5: one-sided operations and synchronisation.

mod at_once;

use std::os::raw::{c_int, c_void};

use fabric::OneSided;
use objects::op::{BuiltinOp, Primitive};
use objects::{Buffer, Class, Datatype, Error, Op, Result};
use rma::{Access, Place};
use runtime::window::fence::fence;
use runtime::window::{access, quick, sync};
use runtime::{Process, with};

use self::at_once::{alike, combine_now, equal, get_accumulate_now, one_element, swapped};
use crate::abi::{MPI_Aint, MPI_Count, MPI_Datatype, MPI_Group, MPI_Op, MPI_Request, MPI_Win};
use crate::args::{buffer, checked_count, not_null, put as store};
use crate::constants::{
    MPI_LOCK_EXCLUSIVE, MPI_LOCK_SHARED, MPI_MODE_NOCHECK, MPI_MODE_NOPRECEDE, MPI_MODE_NOPUT,
    MPI_MODE_NOSTORE, MPI_MODE_NOSUCCEED, MPI_PROC_NULL,
};

/// The target of an operation, as the call describes it.
struct Target {
    rank: c_int,
    disp: MPI_Aint,
    count: MPI_Count,
    datatype: MPI_Datatype,
}

impl Target {
    /// Returns the place, or `None` for MPI_PROC_NULL.
    fn place(&self, p: &Process) -> Result<Option<Place>> {
        let count = checked_count(self.count, "target_count")?;
        let datatype = p.datatype(self.datatype.0)?;
        if !datatype.is_committed() {
            return Err(Error::new(
                Class::Type,
                "the target datatype is not committed: call MPI_Type_commit first",
            ));
        }
        if self.rank == MPI_PROC_NULL {
            return Ok(None);
        }
        let target = rank(self.rank)?;
        Ok(Some(Place { target, disp: self.disp, count, datatype: datatype.clone() }))
    }
}

fn rank(rank: c_int) -> Result<u32> {
    u32::try_from(rank).map_err(|_| {
        let text = format!("invalid rank {rank}: must not be negative, or be MPI_PROC_NULL");
        Error::new(Class::Rank, text)
    })
}

/// Returns the predefined operation of a handle. MPI_ERR_OP for the user's own.
fn builtin(p: &Process, op: MPI_Op) -> Result<BuiltinOp> {
    match p.op(op.0)? {
        Op::Builtin(op) => Ok(op),
        Op::User(_) => Err(Error::new(
            Class::Op,
            "invalid operation: accumulates take predefined operations only",
        )),
    }
}

fn accumulating(p: &Process, op: MPI_Op) -> Result<BuiltinOp> {
    match builtin(p, op)? {
        BuiltinOp::NoOp => {
            Err(Error::new(Class::Op, "invalid operation MPI_NO_OP: only calls that fetch take it"))
        }
        op => Ok(op),
    }
}

/// Starts an operation without a request.
fn start(
    win: MPI_Win,
    target: &Target,
    access: impl FnOnce(&Process) -> Result<Access>,
) -> Result<()> {
    access::start(win.0, false, |p| {
        let access = access(p)?;
        Ok(target.place(p)?.map(|place| (access, place)))
    })
    .map(|_| ())
}

/// Starts an operation with a request.
unsafe fn start_wanted(
    win: MPI_Win,
    target: &Target,
    request: *mut MPI_Request,
    access: impl FnOnce(&Process) -> Result<Access>,
) -> Result<()> {
    not_null(request, "request")?;
    let handle = access::start(win.0, true, |p| {
        let access = access(p)?;
        Ok(target.place(p)?.map(|place| (access, place)))
    })?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { store(request, MPI_Request(handle), "request") }
}

/// Makes the arguments of MPI_Get_accumulate and MPI_Rget_accumulate.
unsafe fn fetch(
    p: &Process,
    (origin_addr, origin_count, origin_datatype): (*const c_void, MPI_Count, MPI_Datatype),
    (result_addr, result_count, result_datatype): (*mut c_void, MPI_Count, MPI_Datatype),
    op: MPI_Op,
) -> Result<Access> {
    let op = builtin(p, op)?;
    // SAFETY: the user's buffers; MPI_NO_OP does not look at the origin (MPI-5.0 §12.3.4).
    unsafe {
        let origin = match op {
            BuiltinOp::NoOp => Buffer::EMPTY,
            _ => buffer(p, origin_addr, origin_count, origin_datatype)?,
        };
        let result = buffer(p, result_addr.cast_const(), result_count, result_datatype)?;
        Ok(Access::Fetch(op, origin, result))
    }
}

#[inline(always)]
pub(crate) unsafe fn put_now(
    p: &mut Process,
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> bool {
    let sides = (origin_count, origin_datatype, target_count, target_datatype);
    let of = (win.0, target_rank as u32);
    // SAFETY: the user's buffer, passed on.
    let memory = unsafe { equal(origin_addr, sides) };
    let Some(memory) = memory else { return false };
    quick::put(p, of, target_disp, memory)
}

pub(crate) unsafe fn put(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let sides = (origin_count, origin_datatype, target_count, target_datatype);
    let of = (win.0, target_rank as u32);
    // SAFETY: the user's buffer, passed on.
    if let Some(memory) = unsafe { alike(origin_addr, sides) }
        && with(|p| {
            quick::aim(p, of, target_disp, memory.len()) && quick::put(p, of, target_disp, memory)
                || quick::defer(p, of, target_disp, OneSided::Put(memory))
        })
    {
        return Ok(());
    }
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers, passed on.
    start(win, &target, |p| unsafe {
        buffer(p, origin_addr, origin_count, origin_datatype).map(Access::Put)
    })
}

#[inline(always)]
pub(crate) unsafe fn get_now(
    p: &mut Process,
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> bool {
    let sides = (origin_count, origin_datatype, target_count, target_datatype);
    let of = (win.0, target_rank as u32);
    // SAFETY: the user's buffer, passed on.
    let memory = unsafe { equal(origin_addr.cast_const(), sides) };
    let Some(memory) = memory else { return false };
    quick::get(p, of, target_disp, memory)
}

pub(crate) unsafe fn get(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> Result<()> {
    let sides = (origin_count, origin_datatype, target_count, target_datatype);
    let of = (win.0, target_rank as u32);
    // SAFETY: the user's buffer, passed on.
    if let Some(memory) = unsafe { alike(origin_addr.cast_const(), sides) }
        && with(|p| {
            quick::aim(p, of, target_disp, memory.len()) && quick::get(p, of, target_disp, memory)
                || quick::defer(p, of, target_disp, OneSided::Get(memory))
        })
    {
        return Ok(());
    }
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers, passed on.
    start(win, &target, |p| unsafe {
        buffer(p, origin_addr.cast_const(), origin_count, origin_datatype).map(Access::Get)
    })
}

#[inline(always)]
pub(crate) unsafe fn accumulate_now(
    p: &mut Process,
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> bool {
    let sides = (origin_count, origin_datatype, target_count, target_datatype);
    let of = (win.0, target_rank as u32);
    let (primitive, size) = Primitive::of_handles(op.0, target_datatype.0);
    // SAFETY: the user's buffer, passed on.
    let Some(memory) = (unsafe { equal(origin_addr, sides) }) else { return false };
    primitive != Primitive::Keep
        && size == memory.len()
        && quick::change(p, of, target_disp, (primitive, memory), size, None)
}

pub(crate) unsafe fn accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let sides = (origin_count, origin_datatype, target_count, target_datatype);
    let place = ((win.0, target_rank as u32), target_disp);
    // SAFETY: the user's buffer, passed on.
    if let Some(memory) = unsafe { alike(origin_addr, sides) }
        && op.0 != BuiltinOp::NoOp as usize
        && with(|p| combine_now(p, memory, (memory.len(), target_datatype), place, op, None))
    {
        return Ok(());
    }
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers, passed on.
    start(win, &target, |p| unsafe {
        let op = accumulating(p, op)?;
        let origin = buffer(p, origin_addr, origin_count, origin_datatype)?;
        Ok(Access::Accumulate(op, origin))
    })
}

pub(crate) unsafe fn get_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let origin = (origin_addr, origin_count, origin_datatype);
    let result = (result_addr, result_count, result_datatype);
    let place = ((win.0, target_rank as u32), target_disp);
    let at = (target_count, target_datatype);
    // SAFETY: the user's buffers, passed on.
    if with(|p| unsafe { get_accumulate_now(p, origin, result, at, place, op) }) {
        return Ok(());
    }
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers, passed on.
    start(win, &target, |p| unsafe { fetch(p, origin, result, op) })
}

pub(crate) unsafe fn rput(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers and pointer, passed on.
    unsafe {
        start_wanted(win, &target, request, |p| {
            buffer(p, origin_addr, origin_count, origin_datatype).map(Access::Put)
        })
    }
}

pub(crate) unsafe fn rget(
    origin_addr: *mut c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers and pointer, passed on.
    unsafe {
        start_wanted(win, &target, request, |p| {
            buffer(p, origin_addr.cast_const(), origin_count, origin_datatype).map(Access::Get)
        })
    }
}

pub(crate) unsafe fn raccumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers and pointer, passed on.
    unsafe {
        start_wanted(win, &target, request, |p| {
            let op = accumulating(p, op)?;
            let origin = buffer(p, origin_addr, origin_count, origin_datatype)?;
            Ok(Access::Accumulate(op, origin))
        })
    }
}

pub(crate) unsafe fn rget_accumulate(
    origin_addr: *const c_void,
    origin_count: MPI_Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: MPI_Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: MPI_Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> Result<()> {
    let target = Target {
        rank: target_rank,
        disp: target_disp,
        count: target_count,
        datatype: target_datatype,
    };
    // SAFETY: the user's buffers and pointer, passed on.
    unsafe {
        start_wanted(win, &target, request, |p| {
            let origin = (origin_addr, origin_count, origin_datatype);
            fetch(p, origin, (result_addr, result_count, result_datatype), op)
        })
    }
}

#[inline(always)]
pub(crate) unsafe fn fetch_and_op_now(
    p: &mut Process,
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> bool {
    let of = (win.0, target_rank as u32);
    let (primitive, size) = Primitive::of_handles(op.0, datatype.0);
    let needs_operand = primitive != Primitive::Keep;
    // SAFETY: the user's buffers, passed on.
    let element = unsafe { one_element(origin_addr, result_addr, size, needs_operand) };
    let Some((operand, old)) = element else { return false };
    quick::change(p, of, target_disp, (primitive, operand), size, Some(old))
}

pub(crate) unsafe fn fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> Result<()> {
    let place = ((win.0, target_rank as u32), target_disp);
    let (size, needs_operand) =
        (Datatype::plain_size(datatype.0), op.0 != BuiltinOp::NoOp as usize);
    // SAFETY: the user's buffers, passed on.
    let element = unsafe { one_element(origin_addr, result_addr, size, needs_operand) };
    if let Some((operand, old)) = element
        && with(|p| combine_now(p, operand, (size, datatype), place, op, Some(old)))
    {
        return Ok(());
    }
    let target = Target { rank: target_rank, disp: target_disp, count: 1, datatype };
    start(win, &target, |p| {
        check_predefined(p, datatype)?;
        // SAFETY: the user's buffers of one element, passed on.
        unsafe { fetch(p, (origin_addr, 1, datatype), (result_addr, 1, datatype), op) }
    })
}

#[inline(always)]
pub(crate) unsafe fn compare_and_swap_now(
    p: &mut Process,
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> bool {
    // SAFETY: the user's buffers, passed on.
    let values = unsafe { swapped(origin_addr, compare_addr, result_addr, datatype) };
    let Some((values, old)) = values else { return false };
    quick::swap(p, (win.0, target_rank as u32), target_disp, values, old)
}

pub(crate) unsafe fn compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> Result<()> {
    let of = (win.0, target_rank as u32);
    // SAFETY: the user's buffers, passed on.
    let values = unsafe { swapped(origin_addr, compare_addr, result_addr, datatype) };
    if let Some((values, old)) = values
        && with(|p| {
            quick::aim(p, of, target_disp, old.len())
                && quick::swap(p, of, target_disp, values, old)
        })
    {
        return Ok(());
    }
    let target = Target { rank: target_rank, disp: target_disp, count: 1, datatype };
    start(win, &target, |p| {
        check_predefined(p, datatype)?;
        // SAFETY: the user's buffers of one element, passed on.
        unsafe {
            Ok(Access::Swap(
                buffer(p, compare_addr, 1, datatype)?,
                buffer(p, origin_addr, 1, datatype)?,
                buffer(p, result_addr.cast_const(), 1, datatype)?,
            ))
        }
    })
}

fn check_predefined(p: &Process, datatype: MPI_Datatype) -> Result<()> {
    match p.datatype(datatype.0)?.is_predefined() {
        true => Ok(()),
        false => Err(Error::new(Class::Type, "the datatype is derived: must be predefined")),
    }
}

/// Checks that an assertion has no other bits than those of `allowed`.
fn check_assert(assert: c_int, allowed: c_int) -> Result<()> {
    match assert & !allowed {
        0 => Ok(()),
        others => Err(Error::new(
            Class::Assert,
            format!("invalid assertion {assert}: this call does not take the bits {others}"),
        )),
    }
}

pub(crate) unsafe fn win_fence(assert: c_int, win: MPI_Win) -> Result<()> {
    let allowed = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
    check_assert(assert, allowed)?;
    fence(win.0, assert & MPI_MODE_NOPRECEDE != 0, assert & MPI_MODE_NOSUCCEED != 0)
}

pub(crate) unsafe fn win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
    let members = with(|p| p.group(group.0))?;
    sync::post(win.0, &members, assert & MPI_MODE_NOCHECK != 0)
}

pub(crate) unsafe fn win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> Result<()> {
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let members = with(|p| p.group(group.0))?;
    sync::start(win.0, &members, assert & MPI_MODE_NOCHECK != 0)
}

pub(crate) unsafe fn win_complete(win: MPI_Win) -> Result<()> {
    sync::complete(win.0)
}

pub(crate) unsafe fn win_wait(win: MPI_Win) -> Result<()> {
    sync::wait_exposure(win.0)
}

pub(crate) unsafe fn win_test(win: MPI_Win, flag: *mut c_int) -> Result<()> {
    not_null(flag, "flag")?;
    let has_ended = sync::test_exposure(win.0)?;
    // SAFETY: not null, and valid by the user's promise.
    unsafe { store(flag, has_ended.into(), "flag") }
}

#[inline(always)]
pub(crate) unsafe fn win_lock_now(
    p: &mut Process,
    lock_type: c_int,
    target: c_int,
    assert: c_int,
    win: MPI_Win,
) -> bool {
    let exclusive = lock_type == MPI_LOCK_EXCLUSIVE;
    let is_plain = assert == 0 && (exclusive || lock_type == MPI_LOCK_SHARED);
    is_plain && quick::lock(p, (win.0, target as u32), exclusive)
}

pub(crate) unsafe fn win_lock(
    lock_type: c_int,
    target: c_int,
    assert: c_int,
    win: MPI_Win,
) -> Result<()> {
    let of = (win.0, target as u32);
    if assert == 0
        && matches!(lock_type, MPI_LOCK_EXCLUSIVE | MPI_LOCK_SHARED)
        && with(|p| quick::lock_any(p, of, lock_type == MPI_LOCK_EXCLUSIVE))
    {
        return Ok(());
    }
    check_assert(assert, MPI_MODE_NOCHECK)?;
    let exclusive = match lock_type {
        MPI_LOCK_EXCLUSIVE => true,
        MPI_LOCK_SHARED => false,
        other => {
            return Err(Error::new(
                Class::Locktype,
                format!("invalid lock type {other}: must be MPI_LOCK_EXCLUSIVE or MPI_LOCK_SHARED"),
            ));
        }
    };
    with(|p| p.win(win.0).map(|_| ()))?;
    match target {
        MPI_PROC_NULL => Ok(()),
        target => sync::lock(win.0, rank(target)?, exclusive, assert & MPI_MODE_NOCHECK != 0),
    }
}

pub(crate) unsafe fn win_lock_all(assert: c_int, win: MPI_Win) -> Result<()> {
    if assert == 0 && with(|p| quick::lock_all(p, win.0)) {
        return Ok(());
    }
    check_assert(assert, MPI_MODE_NOCHECK)?;
    sync::lock_all(win.0, assert & MPI_MODE_NOCHECK != 0)
}

/// Runs `work` for a rank, nothing for MPI_PROC_NULL.
fn at_rank(win: MPI_Win, target: c_int, work: impl FnOnce(u32) -> Result<()>) -> Result<()> {
    with(|p| p.win(win.0).map(|_| ()))?;
    if target == MPI_PROC_NULL { Ok(()) } else { work(rank(target)?) }
}

#[inline(always)]
pub(crate) unsafe fn win_unlock_now(p: &mut Process, target: c_int, win: MPI_Win) -> bool {
    quick::unlock(p, (win.0, target as u32))
}

pub(crate) unsafe fn win_unlock(target: c_int, win: MPI_Win) -> Result<()> {
    if with(|p| quick::unlock_any(p, (win.0, target as u32))) {
        return Ok(());
    }
    at_rank(win, target, |target| sync::unlock(win.0, Some(target)))
}

pub(crate) unsafe fn win_unlock_all(win: MPI_Win) -> Result<()> {
    if with(|p| quick::unlock_all(p, win.0)) {
        return Ok(());
    }
    sync::unlock(win.0, None)
}

#[inline(always)]
pub(crate) unsafe fn win_flush_now(p: &mut Process, target: c_int, win: MPI_Win) -> bool {
    quick::flush(p, (win.0, target as u32))
}

pub(crate) unsafe fn win_flush(target: c_int, win: MPI_Win) -> Result<()> {
    if with(|p| quick::flush_any(p, (win.0, target as u32))) {
        return Ok(());
    }
    at_rank(win, target, |target| sync::flush(win.0, Some(target), "MPI_Win_flush"))
}

pub(crate) unsafe fn win_flush_all(win: MPI_Win) -> Result<()> {
    if with(|p| quick::flush_all(p, win.0)) {
        return Ok(());
    }
    sync::flush(win.0, None, "MPI_Win_flush_all")
}

#[inline(always)]
pub(crate) unsafe fn win_flush_local_now(p: &mut Process, target: c_int, win: MPI_Win) -> bool {
    quick::flush(p, (win.0, target as u32))
}

pub(crate) unsafe fn win_flush_local(target: c_int, win: MPI_Win) -> Result<()> {
    if with(|p| quick::flush_any(p, (win.0, target as u32))) {
        return Ok(());
    }
    at_rank(win, target, |target| sync::flush_local(win.0, Some(target), "MPI_Win_flush_local"))
}

pub(crate) unsafe fn win_flush_local_all(win: MPI_Win) -> Result<()> {
    if with(|p| quick::flush_all(p, win.0)) {
        return Ok(());
    }
    sync::flush_local(win.0, None, "MPI_Win_flush_local_all")
}

pub(crate) unsafe fn win_sync(win: MPI_Win) -> Result<()> {
    sync::sync(win.0)
}
