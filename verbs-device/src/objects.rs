//! The objects that the program holds: structures of libibverbs' interface, and behind them the
//! number of the object in the engine.
//!
//! Invariant: a structure is allocated when the program makes the object and freed when it destroys
//! it; between, the program does not change it and passes its address to the functions of `calls`
//! alone.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::mem::{MaybeUninit, offset_of};
use std::sync::Arc;

use verbs_transport::ibv::layout::{self, AhAttr, Extended, Sge};
use verbs_transport::ibv::mlx5::{Mlx5QpEx, QpEx};

use crate::context::Context;
use crate::options::Link;

/// A device of the list, as `struct ibv_device` is laid out.
#[repr(C)]
pub(crate) struct Device {
    _ops: [*mut c_void; 2],
    node_type: c_int,
    transport_type: c_int,
    pub(crate) name: [c_char; 64],
    dev_name: [c_char; 64],
    dev_path: [c_char; 256],
    ibdev_path: [c_char; 256],
    pub(crate) index: u16,
}

/// A context with what belongs to it.
#[repr(C)]
pub(crate) struct ContextObject {
    pub(crate) context: Arc<Context>,
    public: Extended,
}

/// An object whose structure has no place for its number.
#[repr(C)]
pub(crate) struct Numbered<T> {
    pub(crate) public: T,
    pub(crate) number: u32,
}

/// A queue pair, of which most programs know the first fields alone.
#[repr(C)]
pub(crate) struct QpObject {
    pub(crate) ex: QpEx,
    pub(crate) mlx5: Mlx5QpEx,
    /// Requests of an initiator that are being built.
    pub(crate) requests: Vec<Request>,
}

/// A request of an initiator.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    pub(crate) id: u64,
    pub(crate) flags: u32,
    pub(crate) opcode: u32,
    pub(crate) addr: u64,
    pub(crate) key: u32,
    pub(crate) operands: [u64; 2],
    pub(crate) sge: Sge,
    /// Address, number and key of its target.
    pub(crate) to: Option<(AhAttr, u32, u64)>,
}

/// An address handle.
#[repr(C)]
pub(crate) struct AhObject {
    pub(crate) context: *mut layout::Context,
    pub(crate) number: u32,
    pub(crate) attr: AhAttr,
}

// SAFETY: a device is read alone, and its pointers are null.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

impl Device {
    pub(crate) fn new(name: &str, link: Link, sysfs: &str, index: u16) -> Device {
        // Numbers of enum ibv_node_type and enum ibv_transport_type.
        let (node_type, transport_type) = match link {
            Link::Iwarp => (4, 1),
            Link::Efa => (7, 4),
            _ => (1, 0),
        };
        Device {
            _ops: [std::ptr::null_mut(); 2],
            node_type,
            transport_type,
            name: text(name),
            dev_name: text(name),
            dev_path: text(""),
            ibdev_path: text(&format!("{sysfs}/{name}")),
            index,
        }
    }
}

fn text<const SIZE: usize>(text: &str) -> [c_char; SIZE] {
    let mut out = [0; SIZE];
    out.iter_mut().zip(text.bytes().take(SIZE - 1)).for_each(|(to, from)| *to = from as c_char);
    out
}

impl QpObject {
    /// Makes the structure of a queue pair.
    pub(crate) fn allocate(public: layout::Qp) -> *mut QpObject {
        // SAFETY: the structures are integers, pointers, optional functions, and a lock and a
        // condition of the system, all valid as zeros.
        let (mut ex, mlx5) = unsafe {
            (
                MaybeUninit::<QpEx>::zeroed().assume_init(),
                MaybeUninit::<Mlx5QpEx>::zeroed().assume_init(),
            )
        };
        ex.qp_base.public = public;
        Box::into_raw(Box::new(QpObject { ex, mlx5, requests: Vec::new() }))
    }
}

impl ContextObject {
    /// Makes the structure of a context; its tables of functions are `ops`'.
    pub(crate) fn allocate(
        context: Arc<Context>,
        async_fd: c_int,
        fill: impl FnOnce(&mut Extended),
    ) -> *mut layout::Context {
        // SAFETY: the structure is integers, pointers and optional functions, all valid as zeros.
        let mut public = unsafe { MaybeUninit::<Extended>::zeroed().assume_init() };
        public.sz = size_of::<Extended>();
        public.context.abi_compat = std::ptr::without_provenance_mut(layout::EXTENDED);
        (public.context.cmd_fd, public.context.async_fd) = (-1, async_fd);
        fill(&mut public);
        let object = Box::into_raw(Box::new(ContextObject { context, public }));
        // SAFETY: the object is allocated; the result points into it.
        unsafe { &raw mut (*object).public.context }
    }

    /// Returns the object of a context.
    ///
    /// # Safety
    /// The context was made by [`ContextObject::allocate`] and is not closed.
    pub(crate) unsafe fn of<'a>(context: *mut layout::Context) -> &'a ContextObject {
        let offset = offset_of!(ContextObject, public) + offset_of!(Extended, context);
        // SAFETY: by the caller's promise the context lies at this offset of a live object.
        unsafe { &*context.wrapping_byte_sub(offset).cast::<ContextObject>() }
    }

    /// Frees the object of a context.
    ///
    /// # Safety
    /// As [`ContextObject::of`], and nothing uses it later.
    pub(crate) unsafe fn free(context: *mut layout::Context) {
        let offset = offset_of!(ContextObject, public) + offset_of!(Extended, context);
        // SAFETY: by the caller's promise this is the address that `allocate` got of the allocator.
        drop(unsafe { Box::from_raw(context.wrapping_byte_sub(offset).cast::<ContextObject>()) });
    }
}
