//! Protection domains, registered memory and address handles.

#![allow(unsafe_code)]

use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use fabric::UserBuf;

use super::context::Context;
use super::layout::{self, AhAttr};
use super::{check, non_null};

/// What queues and memory must share to work together.
#[derive(Debug)]
pub struct Pd {
    pub(super) context: Arc<Context>,
    raw: NonNull<layout::Pd>,
}

/// Memory that the device may access.
#[derive(Debug)]
pub struct Mr {
    pd: Arc<Pd>,
    raw: NonNull<layout::Mr>,
}

/// Where datagrams go.
#[derive(Debug)]
pub struct Ah {
    pd: Arc<Pd>,
    raw: NonNull<layout::Ah>,
}

// SAFETY: libibverbs locks what threads share; the pointers are only freed in `drop`.
unsafe impl Send for Pd {}
// SAFETY: as above.
unsafe impl Sync for Pd {}
// SAFETY: as above.
unsafe impl Send for Mr {}
// SAFETY: as above; it is only read.
unsafe impl Sync for Mr {}
// SAFETY: as above.
unsafe impl Send for Ah {}

impl Pd {
    /// A new domain.
    pub fn new(context: &Arc<Context>) -> io::Result<Arc<Pd>> {
        // SAFETY: an open device.
        let raw = non_null(unsafe { (context.library.alloc_pd)(context.raw()) })?;
        Ok(Arc::new(Pd { context: Arc::clone(context), raw }))
    }

    /// Its device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn raw(&self) -> *mut layout::Pd {
        self.raw.as_ptr()
    }
}

impl Mr {
    /// Pins `memory` and lets the device access it; see [`layout::access`]. The owner
    /// drops the registration before the promise of `memory` ends.
    pub fn register(pd: &Arc<Pd>, memory: UserBuf, access: i32) -> io::Result<Mr> {
        let register = pd.context.library.reg_mr;
        // SAFETY: the kernel checks the range; what the device does to it is covered
        // by the promise of `UserBuf`, for as long as the registration lives.
        let raw =
            non_null(unsafe { register(pd.raw(), memory.as_ptr().cast(), memory.len(), access) })?;
        Ok(Mr { pd: Arc::clone(pd), raw })
    }

    /// Pins the bytes at these addresses, for requests each of which has its own promise
    /// that what it touches is memory.
    pub fn register_range(
        pd: &Arc<Pd>,
        range: std::ops::Range<usize>,
        access: i32,
    ) -> io::Result<Mr> {
        // SAFETY: the device does nothing but what is requested.
        let memory = unsafe {
            UserBuf::new(std::ptr::with_exposed_provenance_mut(range.start), range.len())
        };
        Mr::register(pd, memory, access)
    }

    /// All addresses there are, pinned nowhere: for devices that
    /// [page on demand](Context::pages_on_demand).
    pub fn register_everything(pd: &Arc<Pd>, access: i32) -> io::Result<Mr> {
        Mr::register_range(pd, 0..usize::MAX, access | layout::access::ON_DEMAND)
    }

    /// What names it in work requests of this process.
    pub fn lkey(&self) -> u32 {
        // SAFETY: alive until dropped; the keys do not change.
        unsafe { self.raw.as_ref().lkey }
    }

    /// What names it in others' one-sided requests.
    pub fn rkey(&self) -> u32 {
        // SAFETY: as for `lkey`.
        unsafe { self.raw.as_ref().rkey }
    }
}

impl Ah {
    /// A way to an address. May take milliseconds on RoCE, where a neighbour is
    /// looked up.
    pub fn new(pd: &Arc<Pd>, mut attr: AhAttr) -> io::Result<Ah> {
        // SAFETY: a domain and attributes of ours.
        let raw = non_null(unsafe { (pd.context.library.create_ah)(pd.raw(), &mut attr) })?;
        Ok(Ah { pd: Arc::clone(pd), raw })
    }

    pub(super) fn raw(&self) -> *mut layout::Ah {
        self.raw.as_ptr()
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: made by `new`; whatever was made of it is gone.
        unsafe { (self.context.library.dealloc_pd)(self.raw()) };
    }
}

impl Drop for Mr {
    fn drop(&mut self) {
        // SAFETY: made by `register`. A failure would leave memory pinned, no more.
        let _ = check(unsafe { (self.pd.context.library.dereg_mr)(self.raw.as_ptr()) });
    }
}

impl Drop for Ah {
    fn drop(&mut self) {
        // SAFETY: made by `new`.
        unsafe { (self.pd.context.library.destroy_ah)(self.raw()) };
    }
}
