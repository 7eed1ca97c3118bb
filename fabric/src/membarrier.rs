//! Fences of which one side is cheap: memory barriers that the kernel runs on all processors.
//!
//! Two sides store one thing each and then load that of the other. One of them must see the other's
//! store, which takes a fence between store and load on both sides. Where one side is taken often
//! and the other seldom, the seldom one has the kernel run a barrier on all processors that run
//! registered processes ([`run`]), and the other one only keeps its instructions in order.

use rustix::thread::{MembarrierCommand, membarrier};

/// Registers this process for the barriers of all processes; false if the kernel refuses.
pub fn register() -> bool {
    command(MembarrierCommand::RegisterGlobalExpedited)
}

/// Runs a barrier on all processors that run registered processes; false if the kernel refuses.
pub fn run() -> bool {
    command(MembarrierCommand::GlobalExpedited)
}

fn command(command: MembarrierCommand) -> bool {
    !cfg!(any(loom, miri)) && membarrier(command).is_ok()
}
