//! libibverbs, opened at run time and never closed: drivers leave threads and handlers.
//!
//! Nothing is linked against it; therefore programs start on hosts without RDMA. [`library`] is the
//! one place that decides which file is opened: the system's, or the one that `verbs.library`
//! names, as tests do with a stand-in device.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use super::functions::Functions;
use super::layout::*;
use super::mlx5::{self, Mlx5};

/// Why the library cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    /// The file is missing or cannot be loaded.
    #[error("{file} cannot be loaded: {why}")]
    Missing {
        /// The file.
        file: String,
        /// The reason of the system.
        why: String,
    },
    /// A function is missing that every version since 2011 has.
    #[error("{file} has no function {function}")]
    TooOld {
        /// The file.
        file: String,
        /// The function.
        function: &'static str,
    },
}

/// The file that is opened unless another one is named.
const FILE: &str = "libibverbs.so.1";

macro_rules! functions {
    ($($(#[$doc:meta])* $field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions of libibverbs that this crate calls.
        #[derive(Debug)]
        #[allow(missing_docs)]
        pub struct Library {
            $($(#[$doc])* pub $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            /// Since version 32 (IBVERBS_1.11); `None` in older ones.
            pub query_gid_ex: Option<unsafe extern "C" fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int>,
            /// Since version 36; `None` in older ones.
            pub is_fork_initialized: Option<unsafe extern "C" fn() -> c_int>,
            functions: Functions,
            mlx5: OnceLock<Option<Mlx5>>,
        }

        impl Library {
            fn load(file: &str) -> Result<Library, LibraryError> {
                let missing = |why| LibraryError::Missing { file: file.to_owned(), why };
                let functions = Functions::open(file).map_err(missing)?;
                let too_old = |symbol: &'static CStr| LibraryError::TooOld {
                    file: file.to_owned(),
                    function: symbol.to_str().unwrap_or("?"),
                };
                Ok(Library {
                    $($field: {
                        let symbol = functions.find($symbol).ok_or_else(|| too_old($symbol))?;
                        // SAFETY: the symbol is the function of this name, a pointer that is not
                        // null, and the interface has fixed its signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol) }
                    },)*
                    query_gid_ex: functions.find(c"_ibv_query_gid_ex").map(|symbol| {
                        // SAFETY: as above: a function by its name, with a fixed signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut Context, u32, u32, *mut GidEntry, u32, usize) -> c_int>(symbol) }
                    }),
                    is_fork_initialized: functions.find(c"ibv_is_fork_initialized").map(|symbol| {
                        // SAFETY: as above: a function by its name, with a fixed signature.
                        unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(symbol) }
                    }),
                    functions,
                    mlx5: OnceLock::new(),
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

/// Returns the library, opened by the first call: the file of this name or path, or the system's.
/// Later calls return the same one.
pub fn library(file: Option<&str>) -> Result<&'static Library, LibraryError> {
    static LIBRARY: OnceLock<Result<Library, LibraryError>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let library = Library::load(file.unwrap_or(FILE))?;
        library.prepare_for_forks();
        Ok(library)
    });
    library.as_ref().map_err(Clone::clone)
}

/// The answer of `ibv_is_fork_initialized` where the kernel copies pinned pages for children
/// (since Linux 5.12): nothing else is needed.
const KERNEL_COPIES: c_int = 2;

impl Library {
    /// Returns the functions of the mlx5 driver, opened by the first call; `None` if there are
    /// none. A stand-in for libibverbs has them itself.
    pub(super) fn mlx5(&self) -> Option<&Mlx5> {
        let load = || {
            let driver = match self.functions.find(c"mlx5dv_create_qp") {
                Some(_) => self.functions,
                None => Functions::open(mlx5::FILE).ok()?,
            };
            Mlx5::load(self.functions, driver)
        };
        self.mlx5.get_or_init(load).as_ref()
    }

    /// Keeps pinned pages with this process when it forks. `ibv_fork_init` takes them out of the
    /// child (MADV_DONTFORK): with cached registrations pages of the heap would be missing there.
    /// Some versions do that although the kernel copies; therefore the kernel is asked first.
    fn prepare_for_forks(&self) {
        // SAFETY: the function takes no arguments.
        let answer = self.is_fork_initialized.map(|ask| unsafe { ask() });
        let copies = match answer {
            Some(answer) => answer == KERNEL_COPIES,
            None => kernel_copies(),
        };
        if !copies {
            // SAFETY: the function takes no arguments, and is called before any device is opened,
            // as it must be.
            unsafe { (self.fork_init)() };
        }
    }
}

/// Returns whether the kernel copies pinned pages for children, by its version.
fn kernel_copies() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let mut next = || numbers.next().and_then(Result::ok).unwrap_or(0);
    (next(), next()) >= (5, 12)
}
