//! libibverbs, opened at run time and never closed: drivers leave threads and handlers.
//!
//! Nothing is linked against it; therefore programs start on hosts without RDMA. [`library`] is the
//! one place that decides which file is opened; a stand-in device for tests would be opened here.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::layout::*;

/// Why the library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The file is missing or cannot be loaded.
    #[error("libibverbs.so.1 cannot be loaded: {0}")]
    Missing(String),
    /// A function is missing that every version since 2011 has.
    #[error("libibverbs.so.1 has no function {0}")]
    TooOld(&'static str),
}

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libibverbs that this crate calls.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub struct Library {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Since version 22; `None` in older ones.
            pub query_gid_ex: Option<unsafe extern "C" fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int>,
        }

        impl Library {
            fn load() -> Result<Library, LibraryError> {
                let handle = open()?;
                Ok(Library {
                    $($field: {
                        let symbol = find(handle, $symbol).ok_or(LibraryError::TooOld($symbol.to_str().unwrap_or("?")))?;
                        // SAFETY: the symbol is the function of this name, a pointer that is not
                        // null, and the interface has fixed its signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol) }
                    },)*
                    query_gid_ex: find(handle, c"_ibv_query_gid_ex").map(|symbol| {
                        // SAFETY: as above: a function by its name, with a fixed signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int>(symbol) }
                    }),
                })
            }
        }
    };
}

functions! {
    fork_init = c"ibv_fork_init": fn() -> c_int;
    device_list = c"ibv_get_device_list": fn(*mut c_int) -> *mut *mut Device;
    free_device_list = c"ibv_free_device_list": fn(*mut *mut Device);
    device_name = c"ibv_get_device_name": fn(*mut Device) -> *const c_char;
    open_device = c"ibv_open_device": fn(*mut Device) -> *mut Context;
    close_device = c"ibv_close_device": fn(*mut Context) -> c_int;
    query_device = c"ibv_query_device": fn(*mut Context, *mut DeviceAttr) -> c_int;
    query_port = c"ibv_query_port": fn(*mut Context, u8, *mut PortAttr) -> c_int;
    query_gid = c"ibv_query_gid": fn(*mut Context, u8, c_int, *mut Gid) -> c_int;
    query_pkey = c"ibv_query_pkey": fn(*mut Context, u8, c_int, *mut u16) -> c_int;
    async_event = c"ibv_get_async_event": fn(*mut Context, *mut AsyncEvent) -> c_int;
    ack_async_event = c"ibv_ack_async_event": fn(*mut AsyncEvent);
    alloc_pd = c"ibv_alloc_pd": fn(*mut Context) -> *mut Pd;
    dealloc_pd = c"ibv_dealloc_pd": fn(*mut Pd) -> c_int;
    reg_mr = c"ibv_reg_mr": fn(*mut Pd, *mut c_void, usize, c_int) -> *mut Mr;
    dereg_mr = c"ibv_dereg_mr": fn(*mut Mr) -> c_int;
    create_channel = c"ibv_create_comp_channel": fn(*mut Context) -> *mut CompChannel;
    destroy_channel = c"ibv_destroy_comp_channel": fn(*mut CompChannel) -> c_int;
    create_cq = c"ibv_create_cq": fn(*mut Context, c_int, *mut c_void, *mut CompChannel, c_int) -> *mut Cq;
    resize_cq = c"ibv_resize_cq": fn(*mut Cq, c_int) -> c_int;
    destroy_cq = c"ibv_destroy_cq": fn(*mut Cq) -> c_int;
    cq_event = c"ibv_get_cq_event": fn(*mut CompChannel, *mut *mut Cq, *mut *mut c_void) -> c_int;
    ack_cq_events = c"ibv_ack_cq_events": fn(*mut Cq, c_uint);
    create_srq = c"ibv_create_srq": fn(*mut Pd, *mut SrqInitAttr) -> *mut Srq;
    destroy_srq = c"ibv_destroy_srq": fn(*mut Srq) -> c_int;
    create_qp = c"ibv_create_qp": fn(*mut Pd, *mut QpInitAttr) -> *mut Qp;
    modify_qp = c"ibv_modify_qp": fn(*mut Qp, *mut QpAttr, c_int) -> c_int;
    query_qp = c"ibv_query_qp": fn(*mut Qp, *mut QpAttr, c_int, *mut QpInitAttr) -> c_int;
    destroy_qp = c"ibv_destroy_qp": fn(*mut Qp) -> c_int;
    create_ah = c"ibv_create_ah": fn(*mut Pd, *mut AhAttr) -> *mut Ah;
    destroy_ah = c"ibv_destroy_ah": fn(*mut Ah) -> c_int;
}

/// Returns the library, opened by the first call.
pub fn library() -> Result<&'static Library, LibraryError> {
    static LIBRARY: OnceLock<Result<Library, LibraryError>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let library = Library::load()?;
        // Where the kernel copies pinned pages for children (5.12 and later) this does
        // nothing; before, it keeps them with the parent.
        // SAFETY: the function takes no arguments, and is called before any other function of the
        // library, as it must be.
        unsafe { (library.fork_init)() };
        Ok(library)
    });
    library.as_ref().map_err(Clone::clone)
}

fn open() -> Result<*mut c_void, LibraryError> {
    // SAFETY: the name is a terminated string. The library's constructors run like those of any
    // library that is loaded at run time.
    let handle =
        unsafe { libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: after a failed dlopen, dlerror returns null or a terminated string that lives until
    // the thread's next such call, and it is copied before that.
    let why = unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    };
    Err(LibraryError::Missing(why))
}

fn find(handle: *mut c_void, symbol: &'static CStr) -> Option<*mut c_void> {
    // SAFETY: the handle is of an open library that is never closed, and the name is terminated.
    let found = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
    (!found.is_null()).then_some(found)
}
