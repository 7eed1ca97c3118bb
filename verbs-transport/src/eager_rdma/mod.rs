//! Frames that the sender writes into the receiver's memory.

pub(crate) mod channel;
pub(crate) mod wire;
