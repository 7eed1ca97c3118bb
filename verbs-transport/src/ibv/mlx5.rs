//! The structures and functions of the mlx5 driver's own library (`infiniband/mlx5dv.h`), and those
//! of libibverbs that they extend, as far as dynamically connected queue pairs need them.
//!
//! The structures are written by hand as in [`layout`], and compared with the
//! system's headers by the same test.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use super::functions::Functions;
use super::layout::{self, QpCap};

/// The driver's library.
pub(super) const FILE: &str = "libmlx5.so.1";

/// A whole `ibv_qp`.
#[repr(C)]
#[allow(missing_docs)] // the names are the interface's
pub struct WholeQp {
    pub public: layout::Qp,
    pub state: c_uint,
    pub qp_type: c_uint,
    _mutex: libc::pthread_mutex_t,
    _cond: libc::pthread_cond_t,
    _events_completed: u32,
}

/// Begins a read or a write: key and address of the target's memory.
pub type Access = unsafe extern "C" fn(*mut QpEx, u32, u64);
/// Begins an atomic comparison and exchange.
pub type CompareSwap = unsafe extern "C" fn(*mut QpEx, u32, u64, u64, u64);
/// Begins an atomic addition.
pub type FetchAdd = unsafe extern "C" fn(*mut QpEx, u32, u64, u64);
/// Sets the local memory of the request begun last: key, address and length.
pub type SetSge = unsafe extern "C" fn(*mut QpEx, u32, u64, u32);
/// Begins a list of requests.
pub type Start = unsafe extern "C" fn(*mut QpEx);
/// Posts the list.
pub type Complete = unsafe extern "C" fn(*mut QpEx) -> c_int;
/// Sets the target of the request begun last: address, number and key.
pub type SetTarget = unsafe extern "C" fn(*mut Mlx5QpEx, *mut layout::Ah, u32, u64);

/// `ibv_qp_ex`: a queue pair whose requests are built by calls.
#[repr(C)]
#[allow(missing_docs)] // the names are the interface's
pub struct QpEx {
    pub qp_base: WholeQp,
    pub comp_mask: u64,
    pub wr_id: u64,
    pub wr_flags: c_uint,
    pub wr_atomic_cmp_swp: Option<CompareSwap>,
    pub wr_atomic_fetch_add: Option<FetchAdd>,
    _windows: [*mut c_void; 2],
    pub wr_rdma_read: Option<Access>,
    pub wr_rdma_write: Option<Access>,
    _sends: [*mut c_void; 9],
    pub wr_set_sge: Option<SetSge>,
    _set_sge_list: *mut c_void,
    pub wr_start: Option<Start>,
    pub wr_complete: Option<Complete>,
}

/// The beginning of `mlx5dv_qp_ex`.
#[repr(C)]
#[allow(missing_docs)] // the names are the interface's
pub struct Mlx5QpEx {
    pub comp_mask: u64,
    pub wr_set_dc_addr: Option<SetTarget>,
}

/// `ibv_qp_init_attr_ex`.
#[repr(C)]
#[allow(missing_docs)] // the names are the interface's
pub struct QpInitAttrEx {
    pub qp_context: *mut c_void,
    pub send_cq: *mut layout::Cq,
    pub recv_cq: *mut layout::Cq,
    pub srq: *mut layout::Srq,
    pub cap: QpCap,
    pub qp_type: u32,
    pub sq_sig_all: c_int,
    pub comp_mask: u32,
    pub pd: *mut layout::Pd,
    pub xrcd: *mut c_void,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: [u64; 3],
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

/// `mlx5dv_qp_init_attr`.
#[repr(C)]
#[allow(missing_docs)] // the names are the interface's
pub struct Mlx5QpInitAttr {
    pub comp_mask: u64,
    pub create_flags: u32,
    pub dc_init_attr: DcInitAttr,
    pub send_ops_flags: u64,
}

/// `mlx5dv_dc_init_attr`.
#[repr(C)]
#[allow(missing_docs)] // the names are the interface's
pub struct DcInitAttr {
    pub dc_type: c_uint,
    pub dct_access_key: u64,
}

/// `IBV_QPT_DRIVER`: the driver's attributes say what it is.
pub const QP_TYPE_DRIVER: u32 = 0xff;

/// Fields that are set in [`QpInitAttrEx::comp_mask`].
pub mod init_mask {
    /// The protection domain.
    pub const PD: u32 = 1;
    /// The kinds of requests.
    pub const SEND_OPS_FLAGS: u32 = 1 << 6;
}

/// Kinds of requests, in [`QpInitAttrEx::send_ops_flags`].
pub mod send_ops {
    /// Writes.
    pub const RDMA_WRITE: u64 = 1;
    /// Reads.
    pub const RDMA_READ: u64 = 1 << 4;
    /// Atomic comparison and exchange.
    pub const ATOMIC_CMP_AND_SWP: u64 = 1 << 5;
    /// Atomic addition.
    pub const ATOMIC_FETCH_AND_ADD: u64 = 1 << 6;
}

/// In [`Mlx5QpInitAttr::comp_mask`]: `dc_init_attr` is set.
pub const MLX5_INIT_MASK_DC: u64 = 1 << 1;

/// Values of [`DcInitAttr::dc_type`].
pub mod dc_type {
    /// A target.
    pub const DCT: u32 = 1;
    /// An initiator.
    pub const DCI: u32 = 2;
}

type CreateQp = unsafe extern "C" fn(
    *mut layout::Context,
    *mut QpInitAttrEx,
    *mut Mlx5QpInitAttr,
) -> *mut layout::Qp;

/// The functions of both libraries that such queue pairs need.
#[derive(Debug)]
pub(super) struct Mlx5 {
    pub(super) is_supported: unsafe extern "C" fn(*mut layout::Device) -> bool,
    pub(super) create_qp: CreateQp,
    pub(super) qp_ex: unsafe extern "C" fn(*mut layout::Qp) -> *mut QpEx,
    pub(super) mlx5_qp_ex: unsafe extern "C" fn(*mut QpEx) -> *mut Mlx5QpEx,
}

impl Mlx5 {
    /// Returns the functions, some of libibverbs and some of the driver; `None` if one is missing.
    pub(super) fn load(verbs: Functions, driver: Functions) -> Option<Mlx5> {
        let (is_supported, create) = (c"mlx5dv_is_supported", c"mlx5dv_create_qp");
        let (qp_ex, mlx5_qp_ex) = (c"ibv_qp_to_qp_ex", c"mlx5dv_qp_ex_from_ibv_qp_ex");
        // SAFETY: the symbols are the functions of these names, whose signatures the interface has
        // fixed.
        unsafe {
            Some(Mlx5 {
                is_supported: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut layout::Device) -> bool,
                >(driver.find(is_supported)?),
                create_qp: std::mem::transmute::<*mut c_void, CreateQp>(driver.find(create)?),
                qp_ex: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut layout::Qp) -> *mut QpEx,
                >(verbs.find(qp_ex)?),
                mlx5_qp_ex: std::mem::transmute::<
                    *mut c_void,
                    unsafe extern "C" fn(*mut QpEx) -> *mut Mlx5QpEx,
                >(driver.find(mlx5_qp_ex)?),
            })
        }
    }
}
