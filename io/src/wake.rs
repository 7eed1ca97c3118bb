//! The descriptor that a sleeping thread polls while accesses run: readable when one of them may be
//! done. Workers signal it, and the kernel for operations of io_uring.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;

use rustix::event::{EventfdFlags, eventfd};

static EVENT: OnceLock<Option<OwnedFd>> = OnceLock::new();

fn event() -> Option<&'static OwnedFd> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    EVENT.get_or_init(|| eventfd(0, flags).ok()).as_ref()
}

/// Returns the descriptor; `None` if the system has none left.
pub(crate) fn descriptor() -> Option<RawFd> {
    event().map(AsRawFd::as_raw_fd)
}

/// Makes the descriptor readable.
pub(crate) fn signal() {
    if let Some(event) = event() {
        // A counter that is full is readable already.
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
    }
}

/// Takes all signals.
pub(crate) fn drain() {
    if let Some(event) = event() {
        let _ = rustix::io::read(event, &mut [0; 8]);
    }
}
