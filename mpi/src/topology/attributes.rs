//! Attributes of communicators.

#![allow(unsafe_code)]

use std::os::raw::c_void;
use std::ptr;

use super::Communicator;
use crate::attribute::{AttributeKey, CommAttribute};
use crate::error::call;
use crate::raw::AsRaw as _;

/// Methods with a type of the caller's choice. All communicators have them.
pub trait AnyCommunicator: Communicator {
    /// Returns the attribute of a type, if it is set (MPI-5.0 §7.7.2).
    fn get_attr<A: CommAttribute>(&self) -> Option<&A>;

    /// Sets the attribute of a type (MPI-5.0 §7.7.2). The value before is dropped, unless the
    /// communicator is MPI_COMM_WORLD, MPI_COMM_SELF, or the parent's.
    ///
    /// # Panics
    /// If this is a process: it shares its communicator with others, which may lend the value.
    fn set_attr<A: CommAttribute>(&mut self, val: A);
}

impl<C: ?Sized + Communicator> AnyCommunicator for C {
    fn get_attr<A: CommAttribute>(&self) -> Option<&A> {
        let mut value: *mut A = ptr::null_mut();
        let mut flag = 0;
        let output: *mut *mut A = &mut value;
        // SAFETY: the key is valid, and its values are pointers to the type. A value that is found
        // lives as long as the communicator is neither freed nor borrowed for a change.
        unsafe {
            call!(MPI_Comm_get_attr(
                self.as_raw(),
                AttributeKey::of::<A>().as_raw(),
                output.cast::<c_void>(),
                &mut flag,
            ));
            if flag == 0 { None } else { value.as_ref() }
        }
    }

    fn set_attr<A: CommAttribute>(&mut self, val: A) {
        assert!(self.is_owner(), "an attribute of a process: must be set on its communicator");
        let key = AttributeKey::of::<A>();
        let value = Box::into_raw(Box::new(val)).cast::<c_void>();
        // SAFETY: the key is valid, and its callbacks take boxes of the type. A value before is not
        // borrowed, or the communicator has no owner and the callback keeps it.
        unsafe { call!(MPI_Comm_set_attr(self.as_raw(), key.as_raw(), value)) };
    }
}
