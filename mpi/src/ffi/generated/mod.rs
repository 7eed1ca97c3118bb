//! What comes from the tables of the ABI.

#[rustfmt::skip]
pub(super) mod callbacks;
#[rustfmt::skip]
pub(super) mod constants;
#[allow(clippy::too_many_arguments, reason = "as many as in C")]
#[rustfmt::skip]
pub(super) mod functions;
