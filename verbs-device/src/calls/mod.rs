//! The functions of libibverbs, and the tables of functions that its inline functions call.
//!
//! A function checks what a driver checks, and leaves the work to the engine. All of them may
//! assume what the interface demands of programs: objects are alive, and pointers lead to the
//! structures that the header names.

#![allow(unsafe_code)]

pub(crate) mod device;
pub(crate) mod event;
pub(crate) mod mlx5;
pub(crate) mod pair;
pub(crate) mod queue;
mod shared;
pub(crate) mod test;
#[cfg(test)]
mod tests;
pub(crate) mod work;
