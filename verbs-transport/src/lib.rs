//! The transport over InfiniBand and RoCE, through libibverbs, which is opened when
//! the first transport is made.

#![deny(unsafe_code)] // allowed in `ibv`

pub mod device;
pub mod ibv;
mod settings;
mod unavailable;

pub use device::Port;
pub use settings::Settings;
pub use unavailable::Unavailable;
