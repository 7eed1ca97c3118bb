//! Handles of communicators, and how they are freed.
//!
//! Invariant: a handle that is to be freed is in one value. Those of MPI_COMM_WORLD, MPI_COMM_SELF
//! and of the parent are in any number, and none of them frees it.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};

use super::Rank;
use crate::environment::frees_objects;
use crate::error::call;
use crate::ffi::{self, MPI_Comm};
use crate::raw::AsRaw;

/// The handle of the parent's communicator, once it was asked for.
static PARENT: AtomicUsize = AtomicUsize::new(ffi::MPI_COMM_NULL.0);

/// The handle of a communicator.
#[derive(Debug)]
pub enum CommunicatorHandle {
    /// MPI_COMM_SELF; never freed.
    SelfComm,
    /// MPI_COMM_WORLD; never freed.
    World,
    /// An intra-communicator that the program has made; freed.
    User(MPI_Comm),
    /// The inter-communicator with the processes that spawned this one. The universe disconnects
    /// it.
    Parent(MPI_Comm),
    /// An inter-communicator that the program has made; disconnected.
    InterComm(MPI_Comm),
}

impl CommunicatorHandle {
    /// Finds the kind of a handle. Returns `None` for MPI_COMM_NULL.
    ///
    /// # Safety
    /// The handle is valid or MPI_COMM_NULL. If the program has made it, it belongs to the result.
    pub(crate) unsafe fn try_from_raw(raw: MPI_Comm) -> Option<CommunicatorHandle> {
        match raw {
            ffi::MPI_COMM_NULL => None,
            ffi::MPI_COMM_WORLD => Some(CommunicatorHandle::World),
            ffi::MPI_COMM_SELF => Some(CommunicatorHandle::SelfComm),
            // SAFETY: the caller passes a valid handle.
            _ if !unsafe { is_inter(raw) } => Some(CommunicatorHandle::User(raw)),
            _ if parent_raw() == raw => Some(CommunicatorHandle::Parent(raw)),
            _ => Some(CommunicatorHandle::InterComm(raw)),
        }
    }

    /// Takes over an intra-communicator.
    ///
    /// # Safety
    /// The handle is that of a valid intra-communicator that the program has made, and belongs to
    /// the result.
    pub(crate) unsafe fn simple_comm_from_raw(raw: MPI_Comm) -> CommunicatorHandle {
        debug_assert_ne!(raw, ffi::MPI_COMM_NULL);
        debug_assert_ne!(raw, ffi::MPI_COMM_WORLD);
        debug_assert_ne!(raw, ffi::MPI_COMM_SELF);
        // SAFETY: the caller passes a valid handle.
        debug_assert!(!unsafe { is_inter(raw) });
        CommunicatorHandle::User(raw)
    }

    /// Takes over an inter-communicator.
    ///
    /// # Safety
    /// The handle is that of a valid inter-communicator other than the parent's, and belongs to the
    /// result.
    pub(crate) unsafe fn inter_comm_from_raw(raw: MPI_Comm) -> CommunicatorHandle {
        debug_assert_ne!(raw, ffi::MPI_COMM_NULL);
        // SAFETY: the caller passes a valid handle.
        debug_assert!(unsafe { is_inter(raw) });
        CommunicatorHandle::InterComm(raw)
    }

    /// Returns the handle of the parent's communicator, if this process was spawned and has not
    /// disconnected.
    pub(crate) fn parent() -> Option<CommunicatorHandle> {
        let raw = parent_raw();
        (raw != ffi::MPI_COMM_NULL).then_some(CommunicatorHandle::Parent(raw))
    }

    /// Returns whether this is an inter-communicator.
    pub(crate) fn is_inter_comm(&self) -> bool {
        matches!(self, CommunicatorHandle::Parent(_) | CommunicatorHandle::InterComm(_))
    }

    /// Returns the rank of the calling process.
    pub(crate) fn rank(&self) -> Rank {
        let mut rank = 0;
        // SAFETY: the handle is valid.
        unsafe { call!(MPI_Comm_rank(self.as_raw(), &mut rank)) };
        rank
    }

    /// Returns the number of processes; of an inter-communicator, those of the own group.
    pub(crate) fn size(&self) -> Rank {
        let mut size = 0;
        // SAFETY: the handle is valid.
        unsafe { call!(MPI_Comm_size(self.as_raw(), &mut size)) };
        size
    }

    /// Returns the number of processes in the other group of an inter-communicator.
    pub(crate) fn remote_size(&self) -> Rank {
        let mut size = 0;
        // SAFETY: the handle is valid.
        unsafe { call!(MPI_Comm_remote_size(self.as_raw(), &mut size)) };
        size
    }

    /// Returns the number of processes that this one can send to.
    pub(crate) fn target_size(&self) -> Rank {
        if self.is_inter_comm() { self.remote_size() } else { self.size() }
    }
}

impl Drop for CommunicatorHandle {
    fn drop(&mut self) {
        match self {
            CommunicatorHandle::User(raw) if frees_objects() => {
                // SAFETY: the handle is valid and in no other value. MPI is initialised still.
                unsafe { call!(MPI_Comm_free(raw)) };
            }
            CommunicatorHandle::InterComm(raw) if frees_objects() => {
                // SAFETY: as above.
                unsafe { call!(MPI_Comm_disconnect(raw)) };
            }
            _ => (),
        }
    }
}

// SAFETY: a handle is valid until it is dropped.
unsafe impl AsRaw for CommunicatorHandle {
    type Raw = MPI_Comm;

    fn as_raw(&self) -> Self::Raw {
        match self {
            CommunicatorHandle::SelfComm => ffi::MPI_COMM_SELF,
            CommunicatorHandle::World => ffi::MPI_COMM_WORLD,
            CommunicatorHandle::User(raw)
            | CommunicatorHandle::Parent(raw)
            | CommunicatorHandle::InterComm(raw) => *raw,
        }
    }
}

/// A type that borrows or has a communicator's handle. No type outside of this crate can be one.
pub trait AsHandle: AsRaw<Raw = MPI_Comm> {
    /// Returns the handle.
    fn as_handle(&self) -> &CommunicatorHandle;

    /// Returns whether a value that is borrowed mutably is the only one for its communicator,
    /// apart from communicators without an owner. A process only borrows its communicator.
    fn is_owner(&self) -> bool {
        true
    }
}

impl AsHandle for CommunicatorHandle {
    fn as_handle(&self) -> &CommunicatorHandle {
        self
    }
}

/// Lets types give a handle, each by the field that has it, and whether it owns that.
macro_rules! give_handles {
    ($($type:ty: $field:tt, $is_owner:literal;)*) => {
        $(
            impl $crate::topology::handle::AsHandle for $type {
                fn as_handle(&self) -> &$crate::topology::handle::CommunicatorHandle {
                    self.$field.as_handle()
                }

                fn is_owner(&self) -> bool {
                    $is_owner
                }
            }

            // SAFETY: the handle is that of the value that this one has or borrows.
            unsafe impl $crate::raw::AsRaw for $type {
                type Raw = $crate::ffi::MPI_Comm;

                fn as_raw(&self) -> Self::Raw {
                    $crate::topology::handle::AsHandle::as_handle(self).as_raw()
                }
            }

        )*
    };
}
pub(super) use give_handles;

/// Returns whether a communicator may be in many values, which do not free it.
pub(crate) fn has_no_owner(raw: MPI_Comm) -> bool {
    // Relaxed: a thread learns the parent's handle in `parent_raw`, before it can set an attribute
    // of the parent. The number orders no other memory.
    raw == ffi::MPI_COMM_WORLD
        || raw == ffi::MPI_COMM_SELF
        || raw.0 == PARENT.load(Ordering::Relaxed)
}

fn parent_raw() -> MPI_Comm {
    let mut raw = ffi::MPI_COMM_NULL;
    // SAFETY: the library checks that MPI is initialised.
    unsafe { call!(MPI_Comm_get_parent(&mut raw)) };
    if raw != ffi::MPI_COMM_NULL {
        PARENT.store(raw.0, Ordering::Relaxed);
    }
    raw
}

/// Returns whether a communicator is an inter-communicator (MPI-5.0 §7.6.1).
///
/// # Safety
/// The handle is valid.
unsafe fn is_inter(raw: MPI_Comm) -> bool {
    let mut flag = 0;
    // SAFETY: the caller passes a valid handle.
    unsafe { call!(MPI_Comm_test_inter(raw, &mut flag)) };
    flag != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_without_an_owner_are_known() {
        assert!(has_no_owner(ffi::MPI_COMM_WORLD));
        assert!(has_no_owner(ffi::MPI_COMM_SELF));
        assert!(!has_no_owner(MPI_Comm(0x12345)));
    }

    #[test]
    fn predefined_handles_need_no_library() {
        assert_eq!(CommunicatorHandle::World.as_raw(), ffi::MPI_COMM_WORLD);
        assert_eq!(CommunicatorHandle::SelfComm.as_raw(), ffi::MPI_COMM_SELF);
        assert!(!CommunicatorHandle::World.is_inter_comm());
    }
}
