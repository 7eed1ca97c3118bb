//! Devices: names, capabilities, ports and asynchronous events.

#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::Arc;

use super::layout::{
    self, AsyncEvent, DeviceAttr, DeviceAttrEx, Extended, Gid, GidEntry, PortAttr, event, gid_type,
    link_layer, odp,
};
use super::library::Library;
use super::{check, non_null, set_non_blocking};

/// An open device.
#[derive(Debug)]
pub struct Context {
    pub(super) library: &'static Library,
    raw: NonNull<layout::Context>,
}

// SAFETY: libibverbs is thread-safe for an open device; the pointer is freed in `drop` alone.
unsafe impl Send for Context {}
// SAFETY: libibverbs is thread-safe for an open device.
unsafe impl Sync for Context {}

/// An asynchronous event of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A queue pair with this number is in error.
    QueuePair(u32),
    /// A queue pair in error with this number has taken its last receive of the shared queue.
    LastReceive(u32),
    /// A port went down.
    PortDown(u8),
    /// A port is up.
    PortUp(u8),
    /// The addresses of a port have changed.
    Readdressed(u8),
    /// The device, or a queue that all share, has failed.
    Fatal,
    /// Any other event.
    Other,
}

/// Returns the names of all devices, in the order of the system.
pub fn device_names(library: &'static Library) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for_each_device(library, |device| {
        names.push(name_of(library, device));
        Ok(())
    })?;
    Ok(names)
}

/// Calls `each` for every device until it fails.
fn for_each_device(
    library: &'static Library,
    mut each: impl FnMut(*mut layout::Device) -> io::Result<()>,
) -> io::Result<()> {
    let mut count = 0;
    // SAFETY: `count` is valid for writes, and the list is freed below.
    let list = non_null(unsafe { (library.device_list)(&mut count) })?;
    let mut result = Ok(());
    for at in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has `count` devices, valid until it is freed.
        result = result.and_then(|()| each(unsafe { *list.as_ptr().add(at) }));
    }
    // SAFETY: the list from above, freed once. Open devices outlive it.
    unsafe { (library.free_device_list)(list.as_ptr()) };
    result
}

fn name_of(library: &Library, device: *mut layout::Device) -> String {
    // SAFETY: the device is of a list that is not freed yet; its name is terminated and is copied.
    unsafe { CStr::from_ptr((library.device_name)(device)) }.to_string_lossy().into_owned()
}

impl Context {
    /// Opens a device by its name.
    pub fn open(library: &'static Library, name: &str) -> io::Result<Arc<Context>> {
        let mut opened = None;
        for_each_device(library, |device| {
            if opened.is_none() && name_of(library, device) == name {
                // SAFETY: the device is of a list that is not freed yet.
                opened = Some(non_null(unsafe { (library.open_device)(device) })?);
            }
            Ok(())
        })?;
        let raw = opened.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        let context = Context { library, raw };
        set_non_blocking(context.async_fd())?;
        Ok(Arc::new(context))
    }

    /// Opens the same device once more. Each context gets all events of the device.
    pub fn reopen(&self) -> io::Result<Arc<Context>> {
        // SAFETY: the context is open, and libibverbs keeps its device as long.
        let name = name_of(self.library, unsafe { (*self.raw()).device });
        Context::open(self.library, &name)
    }

    /// Returns the device's transport, see [`layout::transport_type`].
    pub fn transport_type(&self) -> i32 {
        // SAFETY: the context is open, and libibverbs keeps its device as long.
        unsafe { (*(*self.raw()).device).transport_type }
    }

    /// Returns the number of the device's vectors of interrupts for completions.
    pub fn completion_vectors(&self) -> u32 {
        // SAFETY: the context is open, and its number of vectors does not change.
        let vectors = unsafe { (*self.raw()).num_comp_vectors };
        u32::try_from(vectors).unwrap_or(0).max(1)
    }

    /// Returns the device's folder in sysfs.
    pub fn folder(&self) -> PathBuf {
        // SAFETY: as in `transport_type`; the path does not change.
        let path = unsafe { &(*(*self.raw()).device).ibdev_path };
        let bytes: Vec<u8> = path.iter().map(|&byte| byte as u8).collect();
        let path = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
        PathBuf::from(OsStr::from_bytes(path.to_bytes()))
    }

    /// Returns the capabilities of the device.
    pub fn device_attr(&self) -> io::Result<DeviceAttr> {
        let mut attr = MaybeUninit::<DeviceAttr>::zeroed();
        // SAFETY: the device is open; `attr` has space for the structure.
        check(unsafe { (self.library.query_device)(self.raw(), attr.as_mut_ptr()) })?;
        // SAFETY: the structure is integers alone, valid when zeroed or filled.
        Ok(unsafe { attr.assume_init() })
    }

    /// Returns whether the device has implicit on-demand paging (one registration of all addresses,
    /// nothing pinned) with RDMA reads.
    pub fn pages_on_demand(&self) -> bool {
        // SAFETY: the device is open, therefore the context is valid.
        if unsafe { (*self.raw()).abi_compat }.addr() != layout::EXTENDED {
            return false;
        }
        let extended = self
            .raw()
            .wrapping_byte_sub(std::mem::offset_of!(Extended, context))
            .cast::<Extended>();
        // SAFETY: by `abi_compat` an extended structure, which contains the context, begins in
        // front of it; it has at least its size field.
        let size = unsafe { (&raw const (*extended).sz).read() };
        if size < size_of::<Extended>() {
            return false;
        }
        // SAFETY: by the size the structure includes this field.
        let Some(query) = (unsafe { (*extended).query_device_ex }) else { return false };
        let mut attr = MaybeUninit::<DeviceAttrEx>::zeroed();
        // SAFETY: the device is open; the driver fills at most the size that is passed.
        let answer = unsafe {
            query(self.raw(), std::ptr::null(), attr.as_mut_ptr(), size_of::<DeviceAttrEx>())
        };
        // SAFETY: the structure is integers alone, valid when zeroed or filled.
        let able = unsafe { attr.assume_init() }.odp_caps;
        answer == 0 && able.general_caps & odp::IMPLICIT != 0 && able.rc_odp_caps & odp::READ != 0
    }

    /// Returns whether the driver is mlx5: the device may have
    /// [dynamically connected queue pairs](super::dynamic).
    pub fn is_mlx5(&self) -> bool {
        // SAFETY: the context is open, and libibverbs keeps its device as long.
        let device = unsafe { (*self.raw()).device };
        // SAFETY: the device is that of an open context.
        self.library.mlx5().is_some_and(|mlx5| unsafe { (mlx5.is_supported)(device) })
    }

    /// Returns properties and state of a port. Ports are numbered from 1.
    pub fn port(&self, port: u8) -> io::Result<PortAttr> {
        let mut attr = MaybeUninit::<PortAttr>::zeroed();
        // SAFETY: the device is open; the library fills at most the whole structure.
        check(unsafe { (self.library.query_port)(self.raw(), port, attr.as_mut_ptr()) })?;
        // SAFETY: the structure is integers alone, valid when zeroed or filled.
        Ok(unsafe { attr.assume_init() })
    }

    /// Returns an entry of a port's GID table; `None` if it is empty.
    pub fn gid(&self, port: u8, index: u32) -> io::Result<Option<GidEntry>> {
        let Some(query) = self.library.query_gid_ex else {
            return self.gid_by_sysfs(port, index);
        };
        let mut entry = GidEntry::default();
        // SAFETY: the device is open; `entry` has the size that is passed.
        let code =
            unsafe { query(self.raw(), port.into(), index, &mut entry, 0, size_of::<GidEntry>()) };
        match check(code) {
            Ok(()) if entry.gid == Gid::default() => Ok(None),
            Ok(()) => Ok(Some(entry)),
            Err(error) if error.raw_os_error() == Some(libc::ENODATA) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns an entry as [`Context::gid`] does, with a library that has no call for its type:
    /// from sysfs, where InfiniBand and version 1 of RoCE have the same name.
    pub fn gid_by_sysfs(&self, port: u8, index: u32) -> io::Result<Option<GidEntry>> {
        let mut entry = GidEntry { gid_index: index, port_num: port.into(), ..GidEntry::default() };
        // SAFETY: the device is open; the GID is valid for writes.
        check(unsafe { (self.library.query_gid)(self.raw(), port, index as i32, &mut entry.gid) })?;
        if entry.gid == Gid::default() {
            return Ok(None);
        }
        let file = self.folder().join(format!("ports/{port}/gid_attrs/types/{index}"));
        // Kernels without the file have no version 2.
        let name = std::fs::read_to_string(file).unwrap_or_default();
        entry.gid_type = match name.trim() {
            "RoCE v2" => gid_type::ROCE_V2,
            _ if self.port(port)?.link_layer == link_layer::ETHERNET => gid_type::ROCE_V1,
            _ => gid_type::IB,
        };
        Ok(Some(entry))
    }

    /// Returns the partition key at an index of a port's table.
    pub fn pkey(&self, port: u8, index: u16) -> io::Result<u16> {
        let mut pkey_be = 0;
        // SAFETY: the device is open; the key is valid for writes.
        check(unsafe { (self.library.query_pkey)(self.raw(), port, index.into(), &mut pkey_be) })?;
        Ok(u16::from_be(pkey_be))
    }

    /// Returns a descriptor that is readable when the device has an asynchronous event.
    pub fn async_fd(&self) -> RawFd {
        // SAFETY: the device is open, therefore the context is valid.
        unsafe { (*self.raw()).async_fd }
    }

    /// Returns the next asynchronous event, if there is one.
    pub fn next_event(&self) -> Option<Event> {
        let mut event = MaybeUninit::<AsyncEvent>::zeroed();
        // SAFETY: the device is open, its descriptor does not block, and `event` is valid for
        // writes.
        check(unsafe { (self.library.async_event)(self.raw(), event.as_mut_ptr()) }).ok()?;
        // SAFETY: the structure is filled, and valid for any bits.
        let mut event = unsafe { event.assume_init() };
        let what = match event.event_type {
            event::QP_FATAL | event::QP_REQ_ERR | event::QP_ACCESS_ERR => {
                // SAFETY: these events carry a queue pair, which lives until the event is
                // acknowledged.
                Event::QueuePair(unsafe { (*event.element.qp).qp_num })
            }
            event::QP_LAST_WQE_REACHED => {
                // SAFETY: as above.
                Event::LastReceive(unsafe { (*event.element.qp).qp_num })
            }
            event::PORT_ERR => Event::PortDown(port_of(&event)),
            event::PORT_ACTIVE => Event::PortUp(port_of(&event)),
            event::LID_CHANGE | event::GID_CHANGE => Event::Readdressed(port_of(&event)),
            event::DEVICE_FATAL | event::SRQ_ERR | event::CQ_ERR => Event::Fatal,
            _ => Event::Other,
        };
        // SAFETY: the event is from the call above and acknowledged once.
        unsafe { (self.library.ack_async_event)(&mut event) };
        Some(what)
    }

    pub(super) fn raw(&self) -> *mut layout::Context {
        self.raw.as_ptr()
    }

    pub(super) fn ops(&self) -> &layout::ContextOps {
        // SAFETY: the device is open, and its table of functions does not change.
        unsafe { &(*self.raw()).ops }
    }
}

fn port_of(event: &AsyncEvent) -> u8 {
    // SAFETY: port events carry the number of a port, and any bits are a valid integer.
    unsafe { event.element.port_num as u8 }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by `open` and closed once; objects made of it hold an `Arc` of it,
        // therefore they are gone.
        unsafe { (self.library.close_device)(self.raw()) };
    }
}
