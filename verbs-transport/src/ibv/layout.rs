//! The structures and constants of libibverbs, as far as this crate uses them.
//!
//! They are written by hand from the documented interface (`infiniband/verbs.h`).
//! `tests/tests/verbs_layout.rs` compares every size and offset with the system's header.
//! Structures that only libibverbs makes end after the last field that is read. Values that the
//! kernel may extend are plain integers here, never enums: newer values must be harmless. Numbers
//! are in the processor's byte order, except where a name contains `be`.

#![allow(missing_docs)] // the names are the interface's

use std::ffi::{c_char, c_int, c_void};

/// A device, as far as its path in sysfs.
#[repr(C)]
#[derive(Debug)]
pub struct Device {
    _ops: [*mut c_void; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    _names: [[c_char; 64]; 2],
    _dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}

/// Values of [`Device::transport_type`].
pub mod transport_type {
    use std::ffi::c_int;
    /// InfiniBand, and RDMA over Ethernet.
    pub const IB: c_int = 0;
    pub const IWARP: c_int = 1;
}

#[repr(C)]
#[derive(Debug)]
pub struct Ah {
    _opaque: [u8; 0],
}

#[repr(C)]
#[derive(Debug)]
pub struct Pd {
    pub context: *mut Context,
}

pub type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
pub type ReqNotifyCq = unsafe extern "C" fn(*mut Cq, c_int) -> c_int;
pub type PostSrqRecv = unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int;
pub type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
pub type QueryDeviceEx =
    unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int;
pub type PostRecv = unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int;

/// The data-path functions of the driver.
#[repr(C)]
#[derive(Debug)]
pub struct ContextOps {
    _first: [*mut c_void; 11],
    pub poll_cq: Option<PollCq>,
    pub req_notify_cq: Option<ReqNotifyCq>,
    _second: [*mut c_void; 7],
    pub post_srq_recv: Option<PostSrqRecv>,
    _third: [*mut c_void; 4],
    pub post_send: Option<PostSend>,
    pub post_recv: Option<PostRecv>,
    _last: [*mut c_void; 5],
}

#[repr(C)]
#[derive(Debug)]
pub struct Context {
    pub device: *mut Device,
    pub ops: ContextOps,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// A context with the last fields of the extended structure in front of it, which exists if
/// `abi_compat` is [`EXTENDED`].
#[repr(C)]
#[derive(Debug)]
pub struct Extended {
    pub query_device_ex: Option<QueryDeviceEx>,
    _first: [*mut c_void; 10],
    _last: u64,
    /// Bytes of the extended structure and the context.
    pub sz: usize,
    pub context: Context,
}

/// The value of `abi_compat` that marks an extended structure.
pub const EXTENDED: usize = usize::MAX;

#[repr(C)]
#[derive(Debug)]
pub struct CompChannel {
    pub context: *mut Context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
#[derive(Debug)]
pub struct Cq {
    pub context: *mut Context,
    pub channel: *mut CompChannel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
}

#[repr(C)]
#[derive(Debug)]
pub struct Srq {
    pub context: *mut Context,
}

#[repr(C)]
#[derive(Debug)]
pub struct Qp {
    pub context: *mut Context,
    pub qp_context: *mut c_void,
    pub pd: *mut Pd,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub handle: u32,
    pub qp_num: u32,
}

#[repr(C)]
#[derive(Debug)]
pub struct Mr {
    pub context: *mut Context,
    pub pd: *mut Pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    pub node_guid_be: u64,
    pub sys_image_guid_be: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: u32,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: u32,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// Ends after the last field that is read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DeviceAttrEx {
    pub orig_attr: DeviceAttr,
    pub comp_mask: u32,
    pub odp_caps: OdpCaps,
}

/// On-demand paging capabilities of a device.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OdpCaps {
    pub general_caps: u64,
    pub rc_odp_caps: u32,
    pub uc_odp_caps: u32,
    pub ud_odp_caps: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PortAttr {
    pub state: u32,
    pub max_mtu: u32,
    pub active_mtu: u32,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

/// A GID in network byte order: the first eight bytes are the subnet prefix.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gid {
    pub raw: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GidEntry {
    pub gid: Gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct GlobalRoute {
    pub dgid: Gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct SrqAttr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct SrqInitAttr {
    pub srq_context: *mut c_void,
    pub attr: SrqAttr,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub cap: QpCap,
    pub qp_type: u32,
    pub sq_sig_all: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QpAttr {
    pub qp_state: u32,
    pub cur_qp_state: u32,
    pub path_mtu: u32,
    pub path_mig_state: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// Target of an RMA operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// Target and operands of an atomic operation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// Destination of a datagram.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Datagram {
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union Target {
    pub rdma: Rdma,
    pub ud: Datagram,
    /// The largest member.
    pub atomic: Atomic,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: u32,
    pub send_flags: u32,
    pub imm_data_be: u32,
    pub wr: Target,
    pub xrc_remote_srqn: u32,
    pub(super) _memory_windows: [u64; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Wc {
    pub wr_id: u64,
    pub status: u32,
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data_be: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union Element {
    pub qp: *mut Qp,
    pub port_num: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AsyncEvent {
    pub element: Element,
    pub event_type: u32,
}

impl SendWr {
    /// An empty request: all zero.
    pub const EMPTY: SendWr = SendWr {
        wr_id: 0,
        next: std::ptr::null_mut(),
        sg_list: std::ptr::null_mut(),
        num_sge: 0,
        opcode: 0,
        send_flags: 0,
        imm_data_be: 0,
        wr: Target { atomic: Atomic { remote_addr: 0, compare_add: 0, swap: 0, rkey: 0 } },
        xrc_remote_srqn: 0,
        _memory_windows: [0; 6],
    };
}

pub mod link_layer {
    pub const INFINIBAND: u8 = 1;
    pub const ETHERNET: u8 = 2;
}

pub mod port_state {
    pub const DOWN: u32 = 1;
    pub const INIT: u32 = 2;
    pub const ARMED: u32 = 3;
    pub const ACTIVE: u32 = 4;
}

/// A flag of ports: every packet needs a global route header.
pub const GRH_REQUIRED: u8 = 1;

pub mod gid_type {
    pub const IB: u32 = 0;
    pub const ROCE_V1: u32 = 1;
    pub const ROCE_V2: u32 = 2;
}

pub mod qp_type {
    pub const RC: u32 = 2;
    pub const UD: u32 = 4;
}

pub mod qp_state {
    pub const RESET: u32 = 0;
    pub const INIT: u32 = 1;
    pub const RTR: u32 = 2;
    pub const RTS: u32 = 3;
    pub const SQE: u32 = 5;
    pub const ERR: u32 = 6;
}

pub mod qp_mask {
    use std::ffi::c_int;
    pub const STATE: c_int = 1;
    pub const CUR_STATE: c_int = 1 << 1;
    pub const ACCESS_FLAGS: c_int = 1 << 3;
    pub const PKEY_INDEX: c_int = 1 << 4;
    pub const PORT: c_int = 1 << 5;
    pub const QKEY: c_int = 1 << 6;
    pub const AV: c_int = 1 << 7;
    pub const PATH_MTU: c_int = 1 << 8;
    pub const TIMEOUT: c_int = 1 << 9;
    pub const RETRY_CNT: c_int = 1 << 10;
    pub const RNR_RETRY: c_int = 1 << 11;
    pub const RQ_PSN: c_int = 1 << 12;
    pub const MAX_QP_RD_ATOMIC: c_int = 1 << 13;
    pub const MIN_RNR_TIMER: c_int = 1 << 15;
    pub const SQ_PSN: c_int = 1 << 16;
    pub const MAX_DEST_RD_ATOMIC: c_int = 1 << 17;
    pub const DEST_QPN: c_int = 1 << 20;
}

pub mod access {
    use std::ffi::c_int;
    pub const LOCAL_WRITE: c_int = 1;
    pub const REMOTE_WRITE: c_int = 2;
    pub const REMOTE_READ: c_int = 4;
    pub const REMOTE_ATOMIC: c_int = 8;
    pub const ON_DEMAND: c_int = 1 << 6;
}

pub mod odp {
    /// General capability: one registration of all addresses.
    pub const IMPLICIT: u64 = 2;
    /// Capability on connections: RDMA reads.
    pub const READ: u32 = 1 << 3;
}

pub mod opcode {
    pub const RDMA_WRITE: u32 = 0;
    pub const SEND: u32 = 2;
    pub const RDMA_READ: u32 = 4;
    pub const ATOMIC_CMP_AND_SWP: u32 = 5;
    pub const ATOMIC_FETCH_AND_ADD: u32 = 6;
}

/// `atomic_cap` of a device without atomic operations.
pub const ATOMIC_NONE: u32 = 0;
/// `atomic_cap` of a device whose atomic operations exclude each other.
pub const ATOMIC_DEVICE: u32 = 1;
/// `atomic_cap` of a device whose atomic operations exclude those of processors as well.
pub const ATOMIC_GLOBAL: u32 = 2;

pub mod send_flags {
    pub const SIGNALED: u32 = 2;
    pub const INLINE: u32 = 8;
}

pub mod wc_status {
    pub const SUCCESS: u32 = 0;
    pub const WR_FLUSH_ERR: u32 = 5;
    pub const RETRY_EXC_ERR: u32 = 12;
}

pub mod wc_flags {
    pub const GRH: u32 = 1;
}

pub mod wc_opcode {
    /// A bit that is set in every opcode of a receive.
    pub const RECV: u32 = 1 << 7;
}

pub mod event {
    pub const CQ_ERR: u32 = 0;
    pub const QP_FATAL: u32 = 1;
    pub const QP_REQ_ERR: u32 = 2;
    pub const QP_ACCESS_ERR: u32 = 3;
    pub const DEVICE_FATAL: u32 = 8;
    pub const PORT_ACTIVE: u32 = 9;
    pub const PORT_ERR: u32 = 10;
    pub const LID_CHANGE: u32 = 11;
    pub const SRQ_ERR: u32 = 14;
    pub const QP_LAST_WQE_REACHED: u32 = 16;
    pub const GID_CHANGE: u32 = 18;
}
