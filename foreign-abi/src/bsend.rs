//! Buffers for MPI_Bsend (MPI-5.0 §3.6).
//!
//! MPI_BSEND_OVERHEAD is 96 bytes in MPICH, 88 in Intel MPI and 128 in Open MPI; that of the
//! library below may be 512. A buffer that suffices for the program would then be too small.
//! Therefore the library below buffers by itself (MPI_BUFFER_AUTOMATIC), and the program's buffer
//! is only remembered for detaching.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::prelude::*;
use crate::sentinel::STANDARD_BUFFER_AUTOMATIC;

/// What a buffer is attached to: the process, a communicator or a session.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Owner {
    Process,
    Comm(Standard),
    Session(Standard),
}

/// Address and size of the program's buffers.
static BUFFERS: LazyLock<Mutex<HashMap<Owner, (usize, i64)>>> = LazyLock::new(Mutex::default);

fn buffers() -> MutexGuard<'static, HashMap<Owner, (usize, i64)>> {
    BUFFERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// MPI_BUFFER_AUTOMATIC below, whatever the program attaches.
fn automatic() -> *mut c_void {
    std::ptr::without_provenance_mut(STANDARD_BUFFER_AUTOMATIC)
}

fn attach(owner: Owner, buffer: *mut c_void, size: i64, code: c_int) -> c_int {
    if code == SUCCESS {
        buffers().insert(owner, (buffer.expose_provenance(), size));
    }
    code::from_standard(code)
}

/// The program's buffer; null for one that was never attached.
fn detach(owner: Owner) -> (*mut c_void, i64) {
    let (address, size) = buffers().remove(&owner).unwrap_or_default();
    (std::ptr::with_exposed_provenance_mut(address), size)
}

macro_rules! of_process {
    ($($attach:ident, $detach:ident, $size:ty, $attach_below:ident, $detach_below:ident;)*) => {$(
        pub(crate) unsafe fn $attach(buffer: *mut c_void, size: $size) -> c_int {
            // SAFETY: no memory is passed.
            let code = unsafe { (library().$attach_below)(automatic(), 0) };
            attach(Owner::Process, buffer, size.into(), code)
        }

        pub(crate) unsafe fn $detach(buffer_addr: *mut c_void, size: *mut $size) -> c_int {
            let (mut address, mut bytes) = (std::ptr::null_mut::<c_void>(), 0);
            // SAFETY: variables of ours and the caller's; one is the address of a pointer.
            unsafe {
                let code = (library().$detach_below)((&raw mut address).cast(), &raw mut bytes);
                if code == SUCCESS {
                    let (address, bytes) = detach(Owner::Process);
                    *buffer_addr.cast::<*mut c_void>() = address;
                    *size = bytes as $size;
                }
                code::from_standard(code)
            }
        }
    )*};
}

macro_rules! of_object {
    ($($attach:ident, $detach:ident, $class:ident, $owner:ident, $size:ty, $attach_below:ident,
        $detach_below:ident;)*) => {$(
        pub(crate) unsafe fn $attach(object: $class, buffer: *mut c_void, size: $size) -> c_int {
            let object = object.to_standard();
            // SAFETY: no memory is passed.
            let code = unsafe { (library().$attach_below)(object, automatic(), 0) };
            attach(Owner::$owner(object), buffer, size.into(), code)
        }

        pub(crate) unsafe fn $detach(
            object: $class,
            buffer_addr: *mut c_void,
            size: *mut $size,
        ) -> c_int {
            let object = object.to_standard();
            let (mut address, mut bytes) = (std::ptr::null_mut::<c_void>(), 0);
            // SAFETY: variables of ours and the caller's; one is the address of a pointer.
            unsafe {
                let code =
                    (library().$detach_below)(object, (&raw mut address).cast(), &raw mut bytes);
                if code == SUCCESS {
                    let (address, bytes) = detach(Owner::$owner(object));
                    *buffer_addr.cast::<*mut c_void>() = address;
                    *size = bytes as $size;
                }
                code::from_standard(code)
            }
        }
    )*};
}

// Bodies: buffer_attach buffer_detach buffer_attach_c buffer_detach_c
of_process! {
    buffer_attach, buffer_detach, c_int, PMPI_Buffer_attach, PMPI_Buffer_detach;
    buffer_attach_c, buffer_detach_c, i64, PMPI_Buffer_attach_c, PMPI_Buffer_detach_c;
}

// Bodies: comm_attach_buffer comm_detach_buffer comm_attach_buffer_c comm_detach_buffer_c
// Bodies: session_attach_buffer session_detach_buffer session_attach_buffer_c
// Bodies: session_detach_buffer_c
of_object! {
    comm_attach_buffer, comm_detach_buffer, MPI_Comm, Comm, c_int,
        PMPI_Comm_attach_buffer, PMPI_Comm_detach_buffer;
    comm_attach_buffer_c, comm_detach_buffer_c, MPI_Comm, Comm, i64,
        PMPI_Comm_attach_buffer_c, PMPI_Comm_detach_buffer_c;
    session_attach_buffer, session_detach_buffer, MPI_Session, Session, c_int,
        PMPI_Session_attach_buffer, PMPI_Session_detach_buffer;
    session_attach_buffer_c, session_detach_buffer_c, MPI_Session, Session, i64,
        PMPI_Session_attach_buffer_c, PMPI_Session_detach_buffer_c;
}
