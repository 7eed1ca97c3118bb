//! Windows for the layer above: creates and frees them, starts operations, synchronises.
//!
//! The protocol is in the crate `rma`. What needs collectives, shared memory or waiting is here.

pub mod access;
pub mod create;
mod deliver;
pub mod fence;
mod offer;
pub mod quick;
pub mod sync;

pub use crate::win::{Flavor, MODEL_UNIFIED, Values, Win};
