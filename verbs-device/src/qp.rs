//! Queue pairs: their queues and states.
//!
//! States are those of the specification: RESET, INIT, RTR, RTS, SQE, ERR; `modify` refuses a
//! transition whose attributes are missing. Packets of a connection are numbered from 0. A queue
//! pair in error flushes its requests; one on a shared receive queue flushes the receives that it
//! had taken and then reports LAST_WQE_REACHED (`engine`).

use std::collections::{HashMap, VecDeque};
use std::ffi::c_int;
use std::time::Instant;

use verbs_transport::ibv::layout::{
    AhAttr, QpAttr, Sge, opcode, qp_mask as mask, qp_state as state,
};

use crate::completion::Receive;
use crate::packet::PAYLOAD;

/// The local data of a request.
#[derive(Debug)]
pub(crate) enum Data {
    /// Copied when the request was posted.
    Inline(Vec<u8>),
    Memory(Sge),
}

/// A connection of an initiator to a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) address: AhAttr,
    /// Number and key of the target.
    pub(crate) target: u32,
    pub(crate) key: u64,
    /// Number of its first packet.
    pub(crate) start: u32,
}

impl Session {
    /// Returns whether the target of another session is the same.
    pub(crate) fn is_to(&self, other: &Session) -> bool {
        let place = |of: &Session| (of.address.dlid, of.address.grh.dgid, of.target, of.key);
        place(self) == place(other)
    }
}

/// The kind of a queue pair.
#[derive(Debug)]
pub(crate) enum Service {
    /// A reliable connection.
    Connected,
    /// Unreliable datagrams.
    Datagrams,
    /// An initiator of dynamic connections, one at a time, and the one of the last request.
    Initiator(Option<Session>),
    /// A target, its key, and the [servants](Service::Servant) of initiators, by node and number
    /// of the initiator: the start of the connection and the number of the servant.
    Target(u64, HashMap<(u16, u32), (u32, u32)>),
    /// The end of a dynamic connection at the target of this number.
    Servant(u32),
}

/// A request in a send queue.
#[derive(Debug)]
pub(crate) struct Wqe {
    pub(crate) id: u64,
    pub(crate) opcode: u32,
    pub(crate) is_signaled: bool,
    pub(crate) data: Data,
    pub(crate) addr: u64,
    /// Key of the target's memory or queue.
    pub(crate) key: u32,
    pub(crate) operands: [u64; 2],
    /// Target of a datagram.
    pub(crate) datagram: Option<(AhAttr, u32)>,
    /// Connection of an initiator.
    pub(crate) session: Option<Session>,
    /// Number of its first packet, and of its packets.
    pub(crate) first: u32,
    pub(crate) packets: u32,
    /// Bytes of the answer that have arrived.
    pub(crate) received: usize,
}

impl Wqe {
    pub(crate) fn len(&self) -> usize {
        match &self.data {
            Data::Inline(bytes) => bytes.len(),
            Data::Memory(sge) => sge.length as usize,
        }
    }

    /// Returns whether it is answered with data.
    pub(crate) fn is_answered(&self) -> bool {
        !matches!(self.opcode, opcode::SEND | opcode::RDMA_WRITE)
    }

    pub(crate) fn count_packets(&self) -> u32 {
        if self.is_answered() { 1 } else { self.len().div_ceil(PAYLOAD).max(1) as u32 }
    }
}

/// The receives of a queue pair that are in progress.
#[derive(Debug, Default)]
pub(crate) struct Receiving {
    /// Posted to the queue pair itself.
    pub(crate) posted: VecDeque<Receive>,
    /// Taken from the shared queue.
    pub(crate) taken: VecDeque<Receive>,
    /// The one that a message fills, and how far.
    pub(crate) current: Option<(Receive, usize)>,
    /// Number of the next packet.
    pub(crate) expected: u32,
    /// A missing packet was reported.
    pub(crate) has_refused: bool,
    pub(crate) ack_due: bool,
    /// Results of the last atomics, by packet.
    pub(crate) results: VecDeque<(u32, u64)>,
}

/// The requests of a queue pair under way.
#[derive(Debug, Default)]
pub(crate) struct Sending {
    pub(crate) queue: VecDeque<Wqe>,
    /// Requests whose completion was not taken yet.
    pub(crate) used: u32,
    /// Unsignaled requests that are complete.
    pub(crate) unreported: u32,
    /// Numbers of the next packet to give out, to transmit, and to be acknowledged.
    pub(crate) next: u32,
    pub(crate) transmit: u32,
    pub(crate) acked: u32,
    pub(crate) retries: u8,
    pub(crate) not_ready: u8,
    pub(crate) timer: Option<Instant>,
    /// Nothing is sent before.
    pub(crate) pause: Option<Instant>,
    /// The target does not exist.
    pub(crate) is_gone: bool,
}

#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) number: u32,
    pub(crate) service: Service,
    pub(crate) state: u32,
    pub(crate) pd: u32,
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    pub(crate) srq: Option<u32>,
    pub(crate) max_send: u32,
    pub(crate) max_recv: u32,
    pub(crate) inline: u32,
    pub(crate) attr: QpAttr,
    pub(crate) tx: Sending,
    pub(crate) rx: Receiving,
    /// Address of the program's object.
    pub(crate) object: usize,
    /// Events that the program has taken and not acknowledged.
    pub(crate) unacked: u32,
}

impl Qp {
    /// Changes attributes. Returns an error number if the transition or its attributes are
    /// invalid; moving to ERR and to RESET is the caller's.
    pub(crate) fn modify(&mut self, new: &QpAttr, what: c_int, reads: u8) -> Result<(), i32> {
        let to = if what & mask::STATE != 0 { new.qp_state } else { self.state };
        let needed = match (self.state, to, &self.service) {
            (state::RESET, state::INIT, Service::Connected | Service::Target(..)) => {
                mask::PKEY_INDEX | mask::PORT | mask::ACCESS_FLAGS
            }
            (state::RESET, state::INIT, Service::Datagrams) => {
                mask::PKEY_INDEX | mask::PORT | mask::QKEY
            }
            (state::RESET, state::INIT, Service::Initiator(_)) => mask::PKEY_INDEX | mask::PORT,
            (state::INIT, state::RTR, Service::Target(..)) => {
                mask::AV | mask::PATH_MTU | mask::MIN_RNR_TIMER
            }
            (state::INIT, state::RTR, Service::Initiator(_)) => mask::AV | mask::PATH_MTU,
            (state::INIT, state::RTR, Service::Connected) => {
                let address = mask::AV | mask::PATH_MTU | mask::DEST_QPN | mask::RQ_PSN;
                address | mask::MAX_DEST_RD_ATOMIC | mask::MIN_RNR_TIMER
            }
            (state::RTR, state::RTS, Service::Connected | Service::Initiator(_)) => {
                let retries = mask::TIMEOUT | mask::RETRY_CNT | mask::RNR_RETRY;
                retries | mask::SQ_PSN | mask::MAX_QP_RD_ATOMIC
            }
            (state::INIT, state::RTR, Service::Datagrams) => 0,
            (state::RTR, state::RTS, Service::Datagrams) => mask::SQ_PSN,
            // The kernel believes that it is in RTS.
            (state::SQE, state::RTS, _) if new.cur_qp_state == state::SQE => mask::CUR_STATE,
            (state::RTS, state::RTS, _) | (_, state::ERR, _) => 0,
            _ => return Err(libc::EINVAL),
        };
        if what & needed != needed {
            return Err(libc::EINVAL);
        }
        self.copy(new, what);
        if self.attr.max_rd_atomic > reads || self.attr.max_dest_rd_atomic > reads {
            return Err(libc::EINVAL);
        }
        (self.tx.retries, self.tx.not_ready) = (self.attr.retry_cnt, self.attr.rnr_retry);
        self.state = to;
        Ok(())
    }

    fn copy(&mut self, new: &QpAttr, what: c_int) {
        let attr = &mut self.attr;
        macro_rules! take {
            ($($bit:ident: $field:ident),*) => {
                $(if what & mask::$bit != 0 { attr.$field = new.$field; })*
            };
        }
        take!(
            ACCESS_FLAGS: qp_access_flags,
            PKEY_INDEX: pkey_index,
            PORT: port_num,
            QKEY: qkey,
            AV: ah_attr,
            PATH_MTU: path_mtu,
            TIMEOUT: timeout,
            RETRY_CNT: retry_cnt,
            RNR_RETRY: rnr_retry,
            RQ_PSN: rq_psn,
            MAX_QP_RD_ATOMIC: max_rd_atomic,
            MIN_RNR_TIMER: min_rnr_timer,
            SQ_PSN: sq_psn,
            MAX_DEST_RD_ATOMIC: max_dest_rd_atomic,
            DEST_QPN: dest_qp_num
        );
    }

    /// Returns whether its requests go by connections.
    pub(crate) fn is_reliable(&self) -> bool {
        !matches!(self.service, Service::Datagrams)
    }

    /// Returns the target that it is an end of a dynamic connection of.
    pub(crate) fn serves(&self) -> Option<u32> {
        match self.service {
            Service::Servant(target) => Some(target),
            _ => None,
        }
    }

    /// Returns whether packets of the peer are taken.
    pub(crate) fn can_receive(&self) -> bool {
        matches!(self.state, state::RTR | state::RTS | state::SQE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qp(service: Service) -> Qp {
        Qp {
            number: 1,
            service,
            state: state::RESET,
            pd: 0,
            send_cq: 0,
            recv_cq: 0,
            srq: None,
            max_send: 4,
            max_recv: 4,
            inline: 0,
            attr: QpAttr::default(),
            tx: Sending::default(),
            rx: Receiving::default(),
            object: 0,
            unacked: 0,
        }
    }

    #[test]
    fn transitions_need_their_attributes_and_their_order() {
        let mut qp = qp(Service::Datagrams);
        let to = |qp_state| QpAttr { qp_state, max_rd_atomic: 0, ..QpAttr::default() };
        let all = mask::STATE | mask::PKEY_INDEX | mask::PORT | mask::QKEY;
        assert_eq!(qp.modify(&to(state::RTR), mask::STATE, 16), Err(libc::EINVAL));
        assert_eq!(qp.modify(&to(state::INIT), all & !mask::QKEY, 16), Err(libc::EINVAL));
        assert_eq!(qp.modify(&to(state::INIT), all, 16), Ok(()));
        assert_eq!(qp.modify(&to(state::RTR), mask::STATE, 16), Ok(()));
        assert_eq!(qp.modify(&to(state::RTS), mask::STATE, 16), Err(libc::EINVAL));
        assert_eq!(qp.modify(&to(state::RTS), mask::STATE | mask::SQ_PSN, 16), Ok(()));
        assert_eq!(qp.modify(&to(state::INIT), all, 16), Err(libc::EINVAL));
        // A queue that has stopped goes on if the caller names its state.
        qp.state = state::SQE;
        assert_eq!(qp.modify(&to(state::RTS), mask::STATE, 16), Err(libc::EINVAL));
        let stopped = QpAttr { cur_qp_state: state::SQE, ..to(state::RTS) };
        assert_eq!(qp.modify(&stopped, mask::STATE | mask::CUR_STATE, 16), Ok(()));
    }
}
