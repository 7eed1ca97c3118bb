//! Devices: the list, what they are, and their memory.

#![allow(unsafe_code)]
#![allow(unreachable_pub)] // reached by name in the loaded library
#![allow(clippy::missing_safety_doc)] // the interface's: objects are alive, structures are there

use std::ffi::{c_char, c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use verbs_transport::ibv::layout::{
    self as ibv, DeviceAttr, DeviceAttrEx, Gid, GidEntry, PortAttr,
};

use super::queue::{poll_cq, req_notify_cq};
use super::shared::{Pd, context, fail};
use super::work::{post_recv, post_send, post_srq_recv};
use crate::context::Context;
use crate::engine::Engine;
use crate::forks;
use crate::memory::Region;
use crate::objects::{ContextObject, Device};
use crate::options::Options;

pub(super) struct Setup {
    pub(super) options: Options,
    devices: Vec<Device>,
}

pub(super) fn setup() -> &'static Setup {
    static SETUP: OnceLock<Setup> = OnceLock::new();
    SETUP.get_or_init(|| {
        let options = Options::from_environment().unwrap_or_else(|why| {
            eprintln!("verbs-device: {why}");
            std::process::exit(1);
        });
        let named = options.devices.iter().enumerate();
        let devices = named
            .map(|(at, (name, link))| Device::new(name, *link, &options.sysfs, at as u16))
            .collect();
        Setup { options, devices }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(count: *mut c_int) -> *mut *mut Device {
    let mut list: Vec<*mut Device> =
        setup().devices.iter().map(|device| std::ptr::from_ref(device).cast_mut()).collect();
    if !count.is_null() {
        // SAFETY: by the interface the count is valid for writes.
        unsafe { *count = list.len() as c_int };
    }
    list.push(null_mut());
    Box::leak(list.into_boxed_slice()).as_mut_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut Device) {
    let slice = std::ptr::slice_from_raw_parts_mut(list, setup().devices.len() + 1);
    // SAFETY: the list is of the function above, with as many entries.
    drop(unsafe { Box::from_raw(slice) });
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut Device) -> *const c_char {
    // SAFETY: the device is of the list and lives for ever.
    unsafe { (*device).name.as_ptr() }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_open_device(device: *mut Device) -> *mut ibv::Context {
    // SAFETY: the device is of the list and lives for ever.
    let index = unsafe { (*device).index };
    let Ok(context) = Context::open(&setup().options, index) else { return fail(libc::EIO) };
    let async_fd = context.with(|engine| engine.events.fd.as_raw_fd());
    ContextObject::allocate(context, async_fd, |public| {
        public.query_device_ex = Some(query_device_ex);
        let ops = &mut public.context.ops;
        ops.poll_cq = Some(poll_cq);
        ops.req_notify_cq = Some(req_notify_cq);
        ops.post_srq_recv = Some(post_srq_recv);
        ops.post_send = Some(post_send);
        ops.post_recv = Some(post_recv);
        public.context.device = device.cast();
        public.context.num_comp_vectors = setup().options.vectors as c_int;
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(device: *mut ibv::Context) -> c_int {
    // SAFETY: by the interface the context is open, and not used later.
    unsafe {
        context(device).close();
        ContextObject::free(device);
    }
    0
}

fn describe(engine: &Engine, attr: &mut DeviceAttr) {
    let options = &engine.options;
    attr.max_mr_size = u64::MAX;
    attr.vendor_id = 0x2c9;
    (attr.max_qp, attr.max_qp_wr, attr.max_sge) = (1 << 14, 32_768, 1);
    (attr.max_cq, attr.max_cqe, attr.max_mr, attr.max_pd) = (1 << 16, 4_194_303, 1 << 24, 1 << 16);
    attr.max_qp_rd_atom = options.reads.into();
    attr.max_qp_init_rd_atom = options.reads.into();
    attr.atomic_cap = options.atomics;
    if !options.lacks_srq.contains(&engine.name) {
        (attr.max_srq, attr.max_srq_wr, attr.max_srq_sge) = (1 << 16, options.srq as c_int, 1);
    }
    attr.max_pkeys = options.pkeys.len() as u16;
    attr.phys_port_cnt = options.ports;
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    device: *mut ibv::Context,
    out: *mut DeviceAttr,
) -> c_int {
    // SAFETY: by the interface the context is open and the structure valid for writes.
    let (context, attr) = unsafe { (context(device), &mut *out) };
    context.with(|engine| {
        describe(engine, attr);
        if engine.is_removed { libc::EIO } else { 0 }
    })
}

unsafe extern "C" fn query_device_ex(
    device: *mut ibv::Context,
    _: *const c_void,
    out: *mut DeviceAttrEx,
    _: usize,
) -> c_int {
    // SAFETY: by the interface the context is open and the structure valid for writes.
    let (context, attr) = unsafe { (context(device), &mut *out) };
    context.with(|engine| {
        describe(engine, &mut attr.orig_attr);
        if engine.options.odp {
            attr.odp_caps.general_caps = 3;
            attr.odp_caps.rc_odp_caps = 0x1f;
        }
    });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    device: *mut ibv::Context,
    port: u8,
    out: *mut PortAttr,
) -> c_int {
    // SAFETY: by the interface the context is open and the structure valid for writes.
    let (context, attr) = unsafe { (context(device), &mut *out) };
    PORT_QUERIES.fetch_add(1, Ordering::Relaxed);
    context.with(|engine| match engine.ports.get(usize::from(port).wrapping_sub(1)) {
        _ if engine.is_removed => libc::EIO,
        None => libc::EINVAL,
        Some(port) => {
            port.describe(attr, engine.options.mtu);
            0
        }
    })
}

static PORT_QUERIES: AtomicI32 = AtomicI32::new(0);

/// Returns how often a port was queried.
#[unsafe(no_mangle)]
pub extern "C" fn verbs_device_port_queries() -> c_int {
    PORT_QUERIES.load(Ordering::Relaxed)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    device: *mut ibv::Context,
    port: u8,
    index: c_int,
    out: *mut Gid,
) -> c_int {
    let mut entry = GidEntry::default();
    let (port, size) = (port.into(), size_of::<GidEntry>());
    // SAFETY: as the caller, with a structure of this function.
    let code = unsafe { _ibv_query_gid_ex(device, port, index as u32, &mut entry, 0, size) };
    // SAFETY: by the interface the result is valid for writes.
    unsafe { *out = entry.gid };
    if code == 0 { 0 } else { -1 }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    device: *mut ibv::Context,
    port: u32,
    index: u32,
    out: *mut GidEntry,
    _: u32,
    _: usize,
) -> c_int {
    // SAFETY: by the interface the context is open and the structure valid for writes.
    let (context, out) = unsafe { (context(device), &mut *out) };
    let port = (port as usize).wrapping_sub(1);
    match context.with(|engine| engine.ports.get(port).and_then(|port| port.gid(index))) {
        Some(entry) => {
            *out = entry;
            0
        }
        None => libc::ENODATA,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    device: *mut ibv::Context,
    port: u8,
    index: c_int,
    out: *mut u16,
) -> c_int {
    // SAFETY: by the interface the context is open and the key valid for writes.
    let (context, out) = unsafe { (context(device), &mut *out) };
    let port = usize::from(port).wrapping_sub(1);
    let key = |engine: &mut Engine| engine.ports.get(port)?.pkeys.get(index as usize).copied();
    match context.with(key) {
        Some(key) => {
            *out = key.to_be();
            0
        }
        None => -1,
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_pd(device: *mut ibv::Context) -> *mut Pd {
    // SAFETY: by the interface the context is open.
    let number = unsafe { context(device) }.with(Engine::handle);
    Box::into_raw(Box::new(Pd { public: ibv::Pd { context: device }, number }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dealloc_pd(pd: *mut Pd) -> c_int {
    // SAFETY: by the interface the domain is alive and its context open.
    let is_used = unsafe { context((*pd).public.context).with(|engine| engine.uses((*pd).number)) };
    if is_used {
        return libc::EBUSY;
    }
    // SAFETY: the domain is of the function above and not used later.
    drop(unsafe { Box::from_raw(pd) });
    0
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut Pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv::Mr {
    // SAFETY: by the interface the domain is alive.
    let (context_of, domain) = unsafe { ((*pd).public.context, (*pd).number) };
    let needs_local = ibv::access::REMOTE_WRITE | ibv::access::REMOTE_ATOMIC;
    if access & needs_local != 0 && access & ibv::access::LOCAL_WRITE == 0 {
        return fail(libc::EINVAL);
    }
    let (addr_of, bytes) = (addr as u64, length as u64);
    let region = Region { pd: domain, addr: addr_of, length: bytes, access };
    // SAFETY: by the interface the context is open.
    let key = unsafe { context(context_of) }.with(|engine| {
        let on_demand = access & ibv::access::ON_DEMAND != 0;
        if on_demand && !engine.options.odp {
            return Err(libc::EOPNOTSUPP);
        }
        let limit = u64::from(engine.options.pinned) << 10;
        if limit > 0 && !on_demand && engine.regions.pinned() + bytes > limit {
            return Err(libc::ENOMEM);
        }
        if engine.is_removed { Err(libc::EIO) } else { Ok(engine.regions.insert(region)) }
    });
    match key {
        Ok(key) => {
            forks::registered(addr_of, bytes);
            Box::into_raw(Box::new(ibv::Mr {
                context: context_of,
                pd: pd.cast(),
                addr,
                length,
                handle: key,
                lkey: key,
                rkey: key,
            }))
        }
        Err(code) => fail(code),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv::Mr) -> c_int {
    // SAFETY: the registration is of the function above and not used later.
    let mr = unsafe { Box::from_raw(mr) };
    // SAFETY: by the interface the context is open.
    unsafe { context(mr.context) }.with(|engine| engine.regions.remove(mr.lkey));
    forks::deregistered(mr.addr as u64, mr.length as u64);
    0
}
