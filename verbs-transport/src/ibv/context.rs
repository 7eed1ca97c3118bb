//! Devices: which there are, what they can do, and what they report.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::Arc;

use super::layout::{
    self, AsyncEvent, DeviceAttr, DeviceAttrEx, Extended, Gid, GidEntry, PortAttr, event, gid_type,
    odp,
};
use super::library::Library;
use super::{check, non_null, set_non_blocking};

/// An open device.
#[derive(Debug)]
pub struct Context {
    pub(super) library: &'static Library,
    raw: NonNull<layout::Context>,
}

// SAFETY: libibverbs locks what threads share; the pointer is only freed in `drop`.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

/// What a device reports without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A queue pair is in error; its number.
    QueuePair(u32),
    /// A port went down.
    PortDown(u8),
    /// A port is up.
    PortUp(u8),
    /// A port's addresses have changed.
    Readdressed(u8),
    /// The device, or a queue that all share, is broken.
    Fatal,
    /// Of no concern.
    Other,
}

/// The names of all devices, in the order of the system.
pub fn device_names(library: &'static Library) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for_each_device(library, |device| {
        names.push(name_of(library, device));
        Ok(())
    })?;
    Ok(names)
}

fn for_each_device(
    library: &'static Library,
    mut each: impl FnMut(*mut layout::Device) -> io::Result<()>,
) -> io::Result<()> {
    let mut count = 0;
    // SAFETY: `count` is valid for writes.
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
    // SAFETY: a device of a list that is not freed yet; its name is terminated.
    unsafe { CStr::from_ptr((library.device_name)(device)) }.to_string_lossy().into_owned()
}

impl Context {
    /// Opens a device by its name.
    pub fn open(library: &'static Library, name: &str) -> io::Result<Arc<Context>> {
        let mut opened = None;
        for_each_device(library, |device| {
            if opened.is_none() && name_of(library, device) == name {
                // SAFETY: a device of a list that is not freed yet.
                opened = Some(non_null(unsafe { (library.open_device)(device) })?);
            }
            Ok(())
        })?;
        let raw = opened.ok_or_else(|| io::Error::from_raw_os_error(libc::ENODEV))?;
        let context = Context { library, raw };
        set_non_blocking(context.async_fd())?;
        Ok(Arc::new(context))
    }

    /// What the device can do.
    pub fn device_attr(&self) -> io::Result<DeviceAttr> {
        let mut attr = MaybeUninit::<DeviceAttr>::zeroed();
        // SAFETY: an open device; `attr` has room for the structure.
        check(unsafe { (self.library.query_device)(self.raw(), attr.as_mut_ptr()) })?;
        // SAFETY: integers alone, zeroed or filled.
        Ok(unsafe { attr.assume_init() })
    }

    /// True when the device reads and writes memory that is not pinned, at all addresses at
    /// once (implicit on-demand paging), with RDMA reads.
    pub fn pages_on_demand(&self) -> bool {
        // SAFETY: an open device.
        if unsafe { (*self.raw()).abi_compat }.addr() != layout::EXTENDED {
            return false;
        }
        let extended = self
            .raw()
            .wrapping_byte_sub(std::mem::offset_of!(Extended, context))
            .cast::<Extended>();
        // SAFETY: `abi_compat` says that an extended structure, which contains the context, begins
        // in front of it; it has at least its size field.
        let size = unsafe { (&raw const (*extended).sz).read() };
        if size < size_of::<Extended>() {
            return false;
        }
        // SAFETY: what stands in front reaches back to this field.
        let Some(query) = (unsafe { (*extended).query_device_ex }) else { return false };
        let mut attr = MaybeUninit::<DeviceAttrEx>::zeroed();
        // SAFETY: an open device; the driver fills no more than the size that is said.
        let answer = unsafe {
            query(self.raw(), std::ptr::null(), attr.as_mut_ptr(), size_of::<DeviceAttrEx>())
        };
        // SAFETY: integers alone, zeroed or filled.
        let able = unsafe { attr.assume_init() }.odp_caps;
        answer == 0 && able.general_caps & odp::IMPLICIT != 0 && able.rc_odp_caps & odp::READ != 0
    }

    /// What a port is and how it is. Ports are numbered from 1.
    pub fn port(&self, port: u8) -> io::Result<PortAttr> {
        let mut attr = MaybeUninit::<PortAttr>::zeroed();
        // SAFETY: an open device; the library fills at most the whole structure.
        check(unsafe { (self.library.query_port)(self.raw(), port, attr.as_mut_ptr()) })?;
        // SAFETY: integers alone, zeroed or filled.
        Ok(unsafe { attr.assume_init() })
    }

    /// An entry of a port's table of GIDs; `None` where it is empty.
    pub fn gid(&self, port: u8, index: u32) -> io::Result<Option<GidEntry>> {
        let mut entry = GidEntry::default();
        let code = match self.library.query_gid_ex {
            // SAFETY: an open device; `entry` is of the size that is said.
            Some(query) => unsafe {
                query(self.raw(), port.into(), index, &mut entry, 0, size_of::<GidEntry>())
            },
            None => {
                entry.gid_type = gid_type::IB;
                // SAFETY: an open device; a GID to be written.
                unsafe { (self.library.query_gid)(self.raw(), port, index as i32, &mut entry.gid) }
            }
        };
        match check(code) {
            Ok(()) if entry.gid == Gid::default() => Ok(None),
            Ok(()) => Ok(Some(entry)),
            Err(error) if error.raw_os_error() == Some(libc::ENODATA) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The partition key at an index of a port's table.
    pub fn pkey(&self, port: u8, index: u16) -> io::Result<u16> {
        let mut pkey_be = 0;
        // SAFETY: an open device; a key to be written.
        check(unsafe { (self.library.query_pkey)(self.raw(), port, index.into(), &mut pkey_be) })?;
        Ok(u16::from_be(pkey_be))
    }

    /// Readable when the device has something to report.
    pub fn async_fd(&self) -> RawFd {
        // SAFETY: an open device.
        unsafe { (*self.raw()).async_fd }
    }

    /// The next report, if there is one.
    pub fn next_event(&self) -> Option<Event> {
        let mut event = MaybeUninit::<AsyncEvent>::zeroed();
        // SAFETY: an open device whose descriptor does not block.
        check(unsafe { (self.library.async_event)(self.raw(), event.as_mut_ptr()) }).ok()?;
        // SAFETY: filled, and valid for any bits.
        let mut event = unsafe { event.assume_init() };
        let what = match event.event_type {
            event::QP_FATAL | event::QP_REQ_ERR | event::QP_ACCESS_ERR => {
                // SAFETY: these events carry a queue pair, which lives until the
                // event is acknowledged.
                Event::QueuePair(unsafe { (*event.element.qp).qp_num })
            }
            event::PORT_ERR => Event::PortDown(port_of(&event)),
            event::PORT_ACTIVE => Event::PortUp(port_of(&event)),
            event::LID_CHANGE | event::GID_CHANGE => Event::Readdressed(port_of(&event)),
            event::DEVICE_FATAL | event::SRQ_ERR | event::CQ_ERR => Event::Fatal,
            _ => Event::Other,
        };
        // SAFETY: an event from above, acknowledged once.
        unsafe { (self.library.ack_async_event)(&mut event) };
        Some(what)
    }

    pub(super) fn raw(&self) -> *mut layout::Context {
        self.raw.as_ptr()
    }

    pub(super) fn ops(&self) -> &layout::ContextOps {
        // SAFETY: an open device's table of functions does not change.
        unsafe { &(*self.raw()).ops }
    }
}

fn port_of(event: &AsyncEvent) -> u8 {
    // SAFETY: port events carry the number of a port; any bits are an integer.
    unsafe { event.element.port_num as u8 }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: opened by `open`, and whatever was made of it is gone.
        unsafe { (self.library.close_device)(self.raw()) };
    }
}
