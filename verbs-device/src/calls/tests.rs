//! What libibverbs refuses at the end of objects that others use.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;

use verbs_transport::ibv::layout::{
    self as ibv, AhAttr, QpCap, QpInitAttr, SrqAttr, SrqInitAttr, access, qp_type,
};

use super::device::*;
use super::pair::*;
use super::queue::*;
use super::shared::Pd;

/// Runs `work` on an open device and a protection domain of it, which must be unused at the end.
fn opened(work: impl FnOnce(*mut ibv::Context, *mut Pd)) {
    // SAFETY: the list has a device, and all objects are alive until they are destroyed.
    unsafe {
        let list = ibv_get_device_list(null_mut());
        let device = ibv_open_device(*list);
        let pd = ibv_alloc_pd(device);
        work(device, pd);
        assert_eq!(ibv_dealloc_pd(pd), 0);
        assert_eq!(ibv_close_device(device), 0);
        ibv_free_device_list(list);
    }
}

#[test]
fn a_domain_is_kept_for_its_objects() {
    opened(|device, pd| {
        let mut memory = [0u8; 64];
        // SAFETY: all objects are alive until they are destroyed, and the memory is registered for
        // less time than it lives.
        unsafe {
            let mr = ibv_reg_mr(pd, memory.as_mut_ptr().cast::<c_void>(), 64, access::LOCAL_WRITE);
            assert_eq!(ibv_dealloc_pd(pd), libc::EBUSY);
            assert_eq!(ibv_dereg_mr(mr), 0);
            let mut own = MaybeUninit::<ibv::PortAttr>::zeroed();
            assert_eq!(ibv_query_port(device, 1, own.as_mut_ptr()), 0);
            let dlid = own.assume_init().lid;
            let ah = ibv_create_ah(pd, &mut AhAttr { dlid, port_num: 1, ..AhAttr::default() });
            assert_eq!(ibv_dealloc_pd(pd), libc::EBUSY);
            assert_eq!(ibv_destroy_ah(ah), 0);
        }
    });
}

#[test]
fn queues_are_kept_for_their_queue_pairs() {
    opened(|device, pd| {
        let attr = SrqAttr { max_wr: 4, max_sge: 1, srq_limit: 0 };
        // SAFETY: all objects are alive until they are destroyed.
        unsafe {
            let channel = ibv_create_comp_channel(device);
            let cq = ibv_create_cq(device, 4, null_mut(), channel, 0);
            let srq = ibv_create_srq(pd, &mut SrqInitAttr { srq_context: null_mut(), attr });
            assert_eq!(ibv_dealloc_pd(pd), libc::EBUSY);
            let cap = QpCap { max_send_wr: 1, max_send_sge: 1, ..QpCap::default() };
            let mut init = QpInitAttr {
                qp_context: null_mut(),
                send_cq: cq,
                recv_cq: cq,
                srq: srq.cast(),
                cap,
                qp_type: qp_type::RC,
                sq_sig_all: 0,
            };
            let qp = ibv_create_qp(pd, &mut init);
            assert_eq!([ibv_destroy_srq(srq), ibv_destroy_cq(cq)], [libc::EBUSY; 2]);
            assert_eq!(ibv_destroy_comp_channel(channel), libc::EBUSY);
            assert_eq!([ibv_destroy_qp(qp), ibv_destroy_srq(srq), ibv_destroy_cq(cq)], [0; 3]);
            assert_eq!(ibv_destroy_comp_channel(channel), 0);
        }
    });
}

#[test]
fn a_queue_is_kept_until_its_events_are_acknowledged() {
    opened(|device, _| {
        // SAFETY: all objects are alive until they are destroyed, and the results are written.
        unsafe {
            let channel = ibv_create_comp_channel(device);
            let cq = ibv_create_cq(device, 4, null_mut(), channel, 0);
            let take = || {
                let number = (*channel).number;
                super::shared::context(device)
                    .with(|engine| engine.channels.get_mut(&number).unwrap().push(cq as usize));
                let (mut of, mut tag) = (null_mut(), null_mut());
                assert_eq!((ibv_get_cq_event(channel, &mut of, &mut tag), of), (0, cq));
            };
            take();
            take();
            ibv_ack_cq_events(cq, 1);
            assert_eq!(ibv_destroy_cq(cq), libc::EBUSY);
            ibv_ack_cq_events(cq, 2);
            assert_eq!(ibv_destroy_cq(cq), libc::EBUSY, "more than there were");
            take();
            assert_eq!((ibv_destroy_cq(cq), ibv_destroy_comp_channel(channel)), (0, 0));
        }
    });
}
