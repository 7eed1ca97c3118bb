//! Eager RDMA: short frames that the sender writes into the receiver's memory, where the receiver
//! polls for them (Open MPI's "eager RDMA", MVAPICH's "RDMA fast path").
//!
//! `wire` is the bytes, `channel` the states of one endpoint, `rings` the memory of all. `grant`
//! opens and closes rings; `recv` takes frames out of them.

pub(crate) mod channel;
pub(crate) mod grant;
pub(crate) mod recv;
pub(crate) mod rings;
pub(crate) mod wire;
