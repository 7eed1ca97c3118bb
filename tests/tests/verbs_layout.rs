//! The hand-written layouts of libibverbs against the system's header: a C program
//! prints every size and offset, and every number.
//!
//! Without the header (`libibverbs-dev`, which `cargo xtask set-up` installs) there is nothing to
//! compare with, and the test prints that.

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use verbs_transport::ibv::layout::*;
use verbs_transport::ibv::mlx5::{
    DcInitAttr, MLX5_INIT_MASK_DC, Mlx5QpEx, Mlx5QpInitAttr, QP_TYPE_DRIVER, QpEx, QpInitAttrEx,
    WholeQp, dc_type, init_mask, send_ops,
};

const HEADER: &str = "/usr/include/infiniband/mlx5dv.h";

/// An expression of C and what it must be.
type Fact = (String, i64);

/// Whole structures: size and the offset of each field.
macro_rules! structures {
    ($facts:ident; $($rust:ident = $c:literal { $($field:ident),* $(; $($other:ident = $name:literal),*)? })*) => {$(
        $facts.push((format!("sizeof(struct {})", $c), size_of::<$rust>() as i64));
        $($facts.push((format!("offsetof(struct {}, {})", $c, stringify!($field)), offset_of!($rust, $field) as i64));)*
        $($($facts.push((format!("offsetof(struct {}, {})", $c, $name), offset_of!($rust, $other) as i64));)*)?
    )*};
}

/// Beginnings of structures that libibverbs makes.
macro_rules! beginnings {
    ($facts:ident; $($rust:ident = $c:literal { $($($field:ident).+),* })*) => {$(
        $($facts.push((format!("offsetof(struct {}, {})", $c, stringify!($($field).+).replace(' ', "")), offset_of!($rust, $($field).+) as i64));)*
    )*};
}

macro_rules! numbers {
    ($facts:ident; $($path:path = $c:literal),* $(,)?) => {$(
        $facts.push((format!("(long){}", $c), i64::from($path)));
    )*};
}

fn structures() -> Vec<Fact> {
    let mut facts = Vec::new();
    structures! { facts;
        DeviceAttr = "ibv_device_attr" {
            fw_ver, max_mr_size, page_size_cap, vendor_id, vendor_part_id, hw_ver, max_qp, max_qp_wr, device_cap_flags,
            max_sge, max_sge_rd, max_cq, max_cqe, max_mr, max_pd, max_qp_rd_atom, max_ee_rd_atom, max_res_rd_atom,
            max_qp_init_rd_atom, max_ee_init_rd_atom, atomic_cap, max_ee, max_rdd, max_mw, max_raw_ipv6_qp,
            max_raw_ethy_qp, max_mcast_grp, max_mcast_qp_attach, max_total_mcast_qp_attach, max_ah, max_fmr,
            max_map_per_fmr, max_srq, max_srq_wr, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt;
            node_guid_be = "node_guid", sys_image_guid_be = "sys_image_guid"
        }
        PortAttr = "ibv_port_attr" {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr, qkey_viol_cntr,
            pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout, init_type_reply, active_width,
            active_speed, phys_state, link_layer, flags, port_cap_flags2
        }
        GidEntry = "ibv_gid_entry" { gid, gid_index, port_num, gid_type, ndev_ifindex }
        GlobalRoute = "ibv_global_route" { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        AhAttr = "ibv_ah_attr" { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        SrqAttr = "ibv_srq_attr" { max_wr, max_sge, srq_limit }
        SrqInitAttr = "ibv_srq_init_attr" { srq_context, attr }
        QpCap = "ibv_qp_cap" { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        QpInitAttr = "ibv_qp_init_attr" { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        QpAttr = "ibv_qp_attr" {
            qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num, qp_access_flags, cap,
            ah_attr, alt_ah_attr, pkey_index, alt_pkey_index, en_sqd_async_notify, sq_draining, max_rd_atomic,
            max_dest_rd_atomic, min_rnr_timer, port_num, timeout, retry_cnt, rnr_retry, alt_port_num, alt_timeout,
            rate_limit
        }
        Sge = "ibv_sge" { addr, length, lkey }
        SendWr = "ibv_send_wr" {
            wr_id, next, sg_list, num_sge, opcode, send_flags, wr;
            imm_data_be = "imm_data", xrc_remote_srqn = "qp_type.xrc.remote_srqn"
        }
        RecvWr = "ibv_recv_wr" { wr_id, next, sg_list, num_sge }
        Wc = "ibv_wc" {
            wr_id, status, opcode, vendor_err, byte_len, qp_num, src_qp, wc_flags, pkey_index, slid, sl,
            dlid_path_bits; imm_data_be = "imm_data"
        }
        OdpCaps = "ibv_odp_caps" {
            general_caps; rc_odp_caps = "per_transport_caps.rc_odp_caps", uc_odp_caps = "per_transport_caps.uc_odp_caps",
            ud_odp_caps = "per_transport_caps.ud_odp_caps"
        }
        QpInitAttrEx = "ibv_qp_init_attr_ex" {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags,
            max_tso_header, rwq_ind_tbl, source_qpn, send_ops_flags
        }
        Mlx5QpInitAttr = "mlx5dv_qp_init_attr" { comp_mask, create_flags, dc_init_attr, send_ops_flags }
        DcInitAttr = "mlx5dv_dc_init_attr" { dc_type, dct_access_key }
        WholeQp = "ibv_qp" { state, qp_type; public = "context" }
        Context = "ibv_context" {}
        Mr = "ibv_mr" { context, pd, addr, length, handle, lkey, rkey }
        CompChannel = "ibv_comp_channel" { context, fd, refcnt }
        AsyncEvent = "ibv_async_event" { element, event_type }
    }
    beginnings! { facts;
        Context = "ibv_context" {
            device, ops, ops.poll_cq, ops.req_notify_cq, ops.post_srq_recv, ops.post_send, ops.post_recv, cmd_fd,
            async_fd, num_comp_vectors, mutex, abi_compat
        }
        DeviceAttrEx = "ibv_device_attr_ex" { orig_attr, comp_mask, odp_caps }
        Device = "ibv_device" { node_type, transport_type, ibdev_path }
        QpEx = "ibv_qp_ex" {
            qp_base, comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_rdma_read, wr_rdma_write,
            wr_set_sge, wr_start, wr_complete
        }
        Mlx5QpEx = "mlx5dv_qp_ex" { comp_mask, wr_set_dc_addr }
        Pd = "ibv_pd" { context }
        Cq = "ibv_cq" { context, channel, cq_context, handle, cqe }
        Srq = "ibv_srq" { context }
        Qp = "ibv_qp" { context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num }
    }
    facts.push(("sizeof(union ibv_gid)".into(), size_of::<Gid>() as i64));
    facts.push(("_Alignof(union ibv_gid)".into(), align_of::<Gid>() as i64));
    facts.push(("sizeof(struct ibv_context_ops)".into(), size_of::<ContextOps>() as i64));
    // Fields before a context are counted from its end.
    let end = size_of::<Extended>();
    for (c, offset) in [
        ("query_device_ex", offset_of!(Extended, query_device_ex)),
        ("sz", offset_of!(Extended, sz)),
    ] {
        let c = format!("sizeof(struct verbs_context) - offsetof(struct verbs_context, {c})");
        facts.push((c, (end - offset) as i64));
    }
    facts.push(("(long)IBV_ODP_SUPPORT_IMPLICIT".into(), odp::IMPLICIT as i64));
    facts.push(("(long)__VERBS_ABI_IS_EXTENDED".into(), EXTENDED as i64));
    for (c, offset) in [
        ("wr.rdma.remote_addr", offset_of!(Rdma, remote_addr)),
        ("wr.rdma.rkey", offset_of!(Rdma, rkey)),
        ("wr.atomic.remote_addr", offset_of!(Atomic, remote_addr)),
        ("wr.atomic.compare_add", offset_of!(Atomic, compare_add)),
        ("wr.atomic.swap", offset_of!(Atomic, swap)),
        ("wr.atomic.rkey", offset_of!(Atomic, rkey)),
        ("wr.ud.ah", offset_of!(Datagram, ah)),
        ("wr.ud.remote_qpn", offset_of!(Datagram, remote_qpn)),
        ("wr.ud.remote_qkey", offset_of!(Datagram, remote_qkey)),
    ] {
        facts.push((
            format!("offsetof(struct ibv_send_wr, {c})"),
            (offset_of!(SendWr, wr) + offset) as i64,
        ));
    }
    facts
}

fn numbers() -> Vec<Fact> {
    let mut facts = Vec::new();
    numbers! { facts;
        link_layer::INFINIBAND = "IBV_LINK_LAYER_INFINIBAND",
        link_layer::ETHERNET = "IBV_LINK_LAYER_ETHERNET",
        port_state::DOWN = "IBV_PORT_DOWN",
        port_state::INIT = "IBV_PORT_INIT",
        port_state::ARMED = "IBV_PORT_ARMED",
        port_state::ACTIVE = "IBV_PORT_ACTIVE",
        GRH_REQUIRED = "IBV_QPF_GRH_REQUIRED",
        gid_type::IB = "IBV_GID_TYPE_IB",
        gid_type::ROCE_V1 = "IBV_GID_TYPE_ROCE_V1",
        gid_type::ROCE_V2 = "IBV_GID_TYPE_ROCE_V2",
        qp_type::RC = "IBV_QPT_RC",
        qp_type::UD = "IBV_QPT_UD",
        qp_state::RESET = "IBV_QPS_RESET",
        qp_state::INIT = "IBV_QPS_INIT",
        qp_state::RTR = "IBV_QPS_RTR",
        qp_state::RTS = "IBV_QPS_RTS",
        qp_state::ERR = "IBV_QPS_ERR",
        qp_mask::STATE = "IBV_QP_STATE",
        qp_mask::ACCESS_FLAGS = "IBV_QP_ACCESS_FLAGS",
        qp_mask::PKEY_INDEX = "IBV_QP_PKEY_INDEX",
        qp_mask::PORT = "IBV_QP_PORT",
        qp_mask::QKEY = "IBV_QP_QKEY",
        qp_mask::AV = "IBV_QP_AV",
        qp_mask::PATH_MTU = "IBV_QP_PATH_MTU",
        qp_mask::TIMEOUT = "IBV_QP_TIMEOUT",
        qp_mask::RETRY_CNT = "IBV_QP_RETRY_CNT",
        qp_mask::RNR_RETRY = "IBV_QP_RNR_RETRY",
        qp_mask::RQ_PSN = "IBV_QP_RQ_PSN",
        qp_mask::MAX_QP_RD_ATOMIC = "IBV_QP_MAX_QP_RD_ATOMIC",
        qp_mask::MIN_RNR_TIMER = "IBV_QP_MIN_RNR_TIMER",
        qp_mask::SQ_PSN = "IBV_QP_SQ_PSN",
        qp_mask::MAX_DEST_RD_ATOMIC = "IBV_QP_MAX_DEST_RD_ATOMIC",
        qp_mask::DEST_QPN = "IBV_QP_DEST_QPN",
        access::LOCAL_WRITE = "IBV_ACCESS_LOCAL_WRITE",
        access::REMOTE_WRITE = "IBV_ACCESS_REMOTE_WRITE",
        access::REMOTE_READ = "IBV_ACCESS_REMOTE_READ",
        access::REMOTE_ATOMIC = "IBV_ACCESS_REMOTE_ATOMIC",
        ATOMIC_NONE = "IBV_ATOMIC_NONE",
        opcode::ATOMIC_CMP_AND_SWP = "IBV_WR_ATOMIC_CMP_AND_SWP",
        opcode::ATOMIC_FETCH_AND_ADD = "IBV_WR_ATOMIC_FETCH_AND_ADD",
        access::ON_DEMAND = "IBV_ACCESS_ON_DEMAND",
        odp::READ = "IBV_ODP_SUPPORT_READ",
        opcode::RDMA_WRITE = "IBV_WR_RDMA_WRITE",
        opcode::SEND = "IBV_WR_SEND",
        opcode::RDMA_READ = "IBV_WR_RDMA_READ",
        send_flags::SIGNALED = "IBV_SEND_SIGNALED",
        send_flags::INLINE = "IBV_SEND_INLINE",
        wc_status::SUCCESS = "IBV_WC_SUCCESS",
        wc_status::WR_FLUSH_ERR = "IBV_WC_WR_FLUSH_ERR",
        wc_status::RETRY_EXC_ERR = "IBV_WC_RETRY_EXC_ERR",
        wc_flags::GRH = "IBV_WC_GRH",
        wc_opcode::RECV = "IBV_WC_RECV",
        QP_TYPE_DRIVER = "IBV_QPT_DRIVER",
        init_mask::PD = "IBV_QP_INIT_ATTR_PD",
        init_mask::SEND_OPS_FLAGS = "IBV_QP_INIT_ATTR_SEND_OPS_FLAGS",
        dc_type::DCT = "MLX5DV_DCTYPE_DCT",
        dc_type::DCI = "MLX5DV_DCTYPE_DCI",
        event::CQ_ERR = "IBV_EVENT_CQ_ERR",
        event::QP_FATAL = "IBV_EVENT_QP_FATAL",
        event::QP_REQ_ERR = "IBV_EVENT_QP_REQ_ERR",
        event::QP_ACCESS_ERR = "IBV_EVENT_QP_ACCESS_ERR",
        event::DEVICE_FATAL = "IBV_EVENT_DEVICE_FATAL",
        event::PORT_ACTIVE = "IBV_EVENT_PORT_ACTIVE",
        event::PORT_ERR = "IBV_EVENT_PORT_ERR",
        event::LID_CHANGE = "IBV_EVENT_LID_CHANGE",
        event::SRQ_ERR = "IBV_EVENT_SRQ_ERR",
        event::GID_CHANGE = "IBV_EVENT_GID_CHANGE",
    }
    for (c, number) in [
        ("IBV_QP_EX_WITH_RDMA_WRITE", send_ops::RDMA_WRITE),
        ("IBV_QP_EX_WITH_RDMA_READ", send_ops::RDMA_READ),
        ("IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP", send_ops::ATOMIC_CMP_AND_SWP),
        ("IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD", send_ops::ATOMIC_FETCH_AND_ADD),
        ("MLX5DV_QP_INIT_ATTR_MASK_DC", MLX5_INIT_MASK_DC),
    ] {
        facts.push((format!("(long){c}"), number as i64));
    }
    facts
}

#[test]
fn layouts_and_numbers_are_those_of_the_systems_header() {
    if !Path::new(HEADER).exists() {
        eprintln!("{HEADER} is not there (libibverbs-dev): nothing to compare with");
        return;
    }
    let facts: Vec<Fact> = structures().into_iter().chain(numbers()).collect();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, program) = (folder.join("verbs_layout.c"), folder.join("verbs_layout"));
    let lines: String =
        facts.iter().map(|(c, _)| format!("  printf(\"%ld\\n\", (long)({c}));\n")).collect();
    let text = format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/mlx5dv.h>\nint main(void) {{\n{lines}  return 0;\n}}\n"
    );
    std::fs::write(&source, text).expect("the C program is written");
    let compiled =
        Command::new("cc").arg("-o").arg(&program).arg(&source).status().expect("cc runs");
    assert!(compiled.success(), "the C program does not compile");
    let output = Command::new(&program).output().expect("the C program runs");
    let output = String::from_utf8(output.stdout).expect("numbers are text");
    assert_eq!(output.lines().count(), facts.len());
    for ((c, rust), line) in facts.iter().zip(output.lines()) {
        assert_eq!(line.parse(), Ok(*rust), "{c} is {line} in C");
    }
}
