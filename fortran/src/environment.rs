//! Start and end, time, addresses, and the entry points without an error code.

use crate::logical;
use crate::prelude::*;

/// A count that C takes as an `int`; one that does not fit becomes -1, which C refuses.
pub(crate) fn narrow(count: i64) -> c_int {
    c_int::try_from(count).unwrap_or(-1)
}

pub(crate) unsafe fn init<const P: bool>() -> c_int {
    // SAFETY: null pointers are allowed.
    let code = unsafe { pick!(P, MPI_Init, PMPI_Init)(std::ptr::null_mut(), std::ptr::null_mut()) };
    logical::learn();
    code
}

pub(crate) unsafe fn init_thread<const P: bool>(
    required: *mut c_int,
    provided: *mut c_int,
) -> c_int {
    let null = std::ptr::null_mut;
    // SAFETY: null pointers are allowed; the others are the caller's INTEGERs.
    let code = unsafe {
        pick!(P, MPI_Init_thread, PMPI_Init_thread)(
            null(),
            std::ptr::null_mut(),
            *required,
            provided,
        )
    };
    logical::learn();
    code
}

pub(crate) unsafe fn abi_set_fortran_booleans<const P: bool>(
    logical_size: *mut c_int,
    logical_true: *mut c_int,
    logical_false: *mut c_int,
) -> c_int {
    let set = pick!(P, MPI_Abi_set_fortran_booleans, PMPI_Abi_set_fortran_booleans);
    // SAFETY: the caller's INTEGER, and two LOGICALs whose bits C reads.
    let code = unsafe { set(*logical_size, logical_true.cast(), logical_false.cast()) };
    if code == SUCCESS {
        logical::learn();
    }
    code
}

macro_rules! clocks {
    ($($first:ident, $call:ident, $rest:tt;)*) => {
        $(
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $first() -> f64 {
                // SAFETY: takes nothing.
                unsafe { c::$call() }
            }
            clocks!(@names $first $rest);
        )*
    };
    (@names $first:ident ($($name:ident)*)) => { names!($first: $($name)*); };
}

clocks! {
    mpi_wtime_, MPI_Wtime, (mpi_wtime mpi_wtime__ MPI_WTIME);
    pmpi_wtime_, PMPI_Wtime, (pmpi_wtime pmpi_wtime__ PMPI_WTIME);
    mpi_wtick_, MPI_Wtick, (mpi_wtick mpi_wtick__ MPI_WTICK);
    pmpi_wtick_, PMPI_Wtick, (pmpi_wtick pmpi_wtick__ PMPI_WTICK);
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_aint_add_(base: *const i64, disp: *const i64) -> i64 {
    // SAFETY: the caller's INTEGERs.
    unsafe { (*base).wrapping_add(*disp) }
}
names!(mpi_aint_add_: mpi_aint_add mpi_aint_add__ MPI_AINT_ADD
    pmpi_aint_add_ pmpi_aint_add pmpi_aint_add__ PMPI_AINT_ADD
    mpi_aint_add_f08_ mpi_aint_add_f08 mpi_aint_add_f08__ MPI_AINT_ADD_F08
    pmpi_aint_add_f08_ pmpi_aint_add_f08 pmpi_aint_add_f08__ PMPI_AINT_ADD_F08);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_aint_diff_(one: *const i64, other: *const i64) -> i64 {
    // SAFETY: the caller's INTEGERs.
    unsafe { (*one).wrapping_sub(*other) }
}
names!(mpi_aint_diff_: mpi_aint_diff mpi_aint_diff__ MPI_AINT_DIFF
    pmpi_aint_diff_ pmpi_aint_diff pmpi_aint_diff__ PMPI_AINT_DIFF
    mpi_aint_diff_f08_ mpi_aint_diff_f08 mpi_aint_diff_f08__ MPI_AINT_DIFF_F08
    pmpi_aint_diff_f08_ pmpi_aint_diff_f08 pmpi_aint_diff_f08__ PMPI_AINT_DIFF_F08);

/// MPI_F_sync_reg: does nothing, but the compiler cannot know that (MPI-5.0 §19.1.8).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_f_sync_reg_(_buf: *mut c_void) {}
names!(mpi_f_sync_reg_: mpi_f_sync_reg mpi_f_sync_reg__ MPI_F_SYNC_REG
    pmpi_f_sync_reg_ pmpi_f_sync_reg pmpi_f_sync_reg__ PMPI_F_SYNC_REG
    mpi_f_sync_reg_f08ts pmpi_f_sync_reg_f08ts);

#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_pcontrol_(level: *const c_int) {
    // SAFETY: the caller's INTEGER.
    unsafe { c::MPI_Pcontrol(*level) };
}
names!(mpi_pcontrol_: mpi_pcontrol mpi_pcontrol__ MPI_PCONTROL
    mpi_pcontrol_f08_ mpi_pcontrol_f08 mpi_pcontrol_f08__ MPI_PCONTROL_F08);

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn pmpi_pcontrol_(level: *const c_int) {
    // SAFETY: the caller's INTEGER.
    unsafe { c::PMPI_Pcontrol(*level) };
}
names!(pmpi_pcontrol_: pmpi_pcontrol pmpi_pcontrol__ PMPI_PCONTROL
    pmpi_pcontrol_f08_ pmpi_pcontrol_f08 pmpi_pcontrol_f08__ PMPI_PCONTROL_F08);

/// MPI_Sizeof: bytes of one element (MPI-5.0 §19.1.9).
#[unsafe(no_mangle)]
unsafe extern "C" fn mpi_sizeof_f08ts(x: *const Descriptor, size: *mut c_int, ierror: *mut c_int) {
    // SAFETY: the compiler's descriptor, the caller's INTEGERs.
    unsafe {
        *size = narrow((*x).elem_len as i64);
        finish(ierror, SUCCESS);
    }
}
names!(mpi_sizeof_f08ts: pmpi_sizeof_f08ts);

/// MPI_Status_f2f08 and MPI_Status_f082f: both forms are the same eight INTEGERs.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn mpi_status_f2f08_(
    from: *const MPI_Status,
    to: *mut MPI_Status,
    ierror: *mut c_int,
) {
    // SAFETY: the caller's statuses, which may be the same.
    unsafe {
        std::ptr::copy(from, to, 1);
        finish(ierror, SUCCESS);
    }
}
names!(mpi_status_f2f08_: mpi_status_f2f08 mpi_status_f2f08__ MPI_STATUS_F2F08
    pmpi_status_f2f08_ pmpi_status_f2f08 pmpi_status_f2f08__ PMPI_STATUS_F2F08
    mpi_status_f2f08_f08_ mpi_status_f2f08_f08 mpi_status_f2f08_f08__ MPI_STATUS_F2F08_F08
    pmpi_status_f2f08_f08_ pmpi_status_f2f08_f08 pmpi_status_f2f08_f08__ PMPI_STATUS_F2F08_F08
    mpi_status_f082f_ mpi_status_f082f mpi_status_f082f__ MPI_STATUS_F082F
    pmpi_status_f082f_ pmpi_status_f082f pmpi_status_f082f__ PMPI_STATUS_F082F
    mpi_status_f082f_f08_ mpi_status_f082f_f08 mpi_status_f082f_f08__ MPI_STATUS_F082F_F08
    pmpi_status_f082f_f08_ pmpi_status_f082f_f08 pmpi_status_f082f_f08__ PMPI_STATUS_F082F_F08);
