//! Protection domains, registered memory and address handles.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use fabric::UserBuf;

use super::context::Context;
use super::layout::{self, AhAttr};
use super::{non_null, released};

/// A protection domain, which queues and memory must share.
#[derive(Debug)]
pub struct Pd {
    pub(super) context: Arc<Context>,
    raw: NonNull<layout::Pd>,
}

/// Registered memory.
#[derive(Debug)]
pub struct Mr {
    pd: Arc<Pd>,
    raw: NonNull<layout::Mr>,
}

/// An address handle: the destination of datagrams.
#[derive(Debug)]
pub struct Ah {
    pd: Arc<Pd>,
    raw: NonNull<layout::Ah>,
}

// SAFETY: libibverbs is thread-safe for a domain; the pointer is freed in `drop` alone.
unsafe impl Send for Pd {}
// SAFETY: libibverbs is thread-safe for a domain.
unsafe impl Sync for Pd {}
// SAFETY: a registration belongs to no thread; the pointer is freed in `drop` alone.
unsafe impl Send for Mr {}
// SAFETY: shared references only read its keys, which do not change.
unsafe impl Sync for Mr {}
// SAFETY: an address handle belongs to no thread; the pointer is freed in `drop` alone.
unsafe impl Send for Ah {}
// SAFETY: shared references only name it in work requests, which do not change it.
unsafe impl Sync for Ah {}

impl Pd {
    /// Allocates a domain.
    pub fn new(context: &Arc<Context>) -> io::Result<Arc<Pd>> {
        // SAFETY: the device is open.
        let raw = non_null(unsafe { (context.library.alloc_pd)(context.raw()) })?;
        Ok(Arc::new(Pd { context: Arc::clone(context), raw }))
    }

    /// Returns its device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn raw(&self) -> *mut layout::Pd {
        self.raw.as_ptr()
    }
}

impl Mr {
    /// Pins `memory` and lets the device access it, see [`layout::access`]. The owner drops the
    /// registration before the promise of `memory` ends.
    pub fn register(pd: &Arc<Pd>, memory: UserBuf, access: i32) -> io::Result<Mr> {
        let register = pd.context.library.reg_mr;
        // SAFETY: the domain is alive, and the kernel checks the range. The device's accesses to
        // the memory are covered by the promise of `UserBuf` as long as the registration lives.
        let raw =
            non_null(unsafe { register(pd.raw(), memory.as_ptr().cast(), memory.len(), access) })?;
        Ok(Mr { pd: Arc::clone(pd), raw })
    }

    /// Pins the bytes at these addresses, for requests each of which has its own promise about the
    /// memory that it accesses.
    pub fn register_range(
        pd: &Arc<Pd>,
        range: std::ops::Range<usize>,
        access: i32,
    ) -> io::Result<Mr> {
        // SAFETY: the promise is that of each request, since the device accesses nothing else. This
        // process does not access the bytes through this value.
        let memory = unsafe {
            UserBuf::new(std::ptr::with_exposed_provenance_mut(range.start), range.len())
        };
        Mr::register(pd, memory, access)
    }

    /// Registers all addresses and pins nothing, for devices with
    /// [on-demand paging](Context::pages_on_demand).
    pub fn register_everything(pd: &Arc<Pd>, access: i32) -> io::Result<Mr> {
        Mr::register_range(pd, 0..usize::MAX, access | layout::access::ON_DEMAND)
    }

    /// Returns the key for work requests of this process.
    pub fn lkey(&self) -> u32 {
        // SAFETY: the registration is alive until dropped, and its keys do not change.
        unsafe { self.raw.as_ref().lkey }
    }

    /// Returns the key for RMA requests of peers.
    pub fn rkey(&self) -> u32 {
        // SAFETY: the registration is alive until dropped, and its keys do not change.
        unsafe { self.raw.as_ref().rkey }
    }
}

impl Ah {
    /// Makes a handle of an address. May take milliseconds on RoCE, where a neighbour is looked
    /// up.
    pub fn new(pd: &Arc<Pd>, mut attr: AhAttr) -> io::Result<Ah> {
        // SAFETY: the domain is alive, and the attributes live for the call.
        let raw = non_null(unsafe { (pd.context.library.create_ah)(pd.raw(), &mut attr) })?;
        Ok(Ah { pd: Arc::clone(pd), raw })
    }

    pub(super) fn raw(&self) -> *mut layout::Ah {
        self.raw.as_ptr()
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once; objects made of it hold an `Arc` of it, therefore
        // they are gone.
        released(unsafe { (self.context.library.dealloc_pd)(self.raw()) });
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: made by `register` and freed once. A failure leaves memory pinned, no more.
        released(unsafe { (self.pd.context.library.dereg_mr)(self.raw.as_ptr()) });
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once.
        released(unsafe { (self.pd.context.library.destroy_ah)(self.raw()) });
    }
}
