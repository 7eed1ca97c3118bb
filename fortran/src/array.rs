//! Arrays of handles and LOGICALs, converted for the call and back.

use std::os::raw::c_int;

use crate::handle::Handle;
use crate::logical::{from_logical, to_logical};

/// Arrays of so many elements need no allocation.
const INLINE: usize = 16;

/// An array of handles in C's form.
pub(crate) struct Handles<H> {
    integers: *mut c_int,
    len: usize,
    inline: [H; INLINE],
    more: Vec<H>,
}

impl<H: Handle> Handles<H> {
    /// Converts `count` handles; a negative count is left to C to refuse.
    ///
    /// # Safety
    /// `integers` is an array of `count` INTEGERs.
    #[inline]
    pub(crate) unsafe fn new(integers: *mut c_int, count: i64) -> Handles<H> {
        let len = usize::try_from(count).unwrap_or(0);
        let mut handles = Handles { integers, len, inline: [H::NULL; INLINE], more: Vec::new() };
        if len > INLINE {
            handles.more = vec![H::NULL; len];
        }
        for (at, handle) in handles.as_mut_slice().iter_mut().enumerate() {
            // SAFETY: `at` is below `count`.
            *handle = H::from_fortran(unsafe { integers.add(at).read() });
        }
        handles
    }

    fn as_mut_slice(&mut self) -> &mut [H] {
        if self.more.is_empty() { &mut self.inline[..self.len] } else { &mut self.more }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut H {
        self.as_mut_slice().as_mut_ptr()
    }

    /// Fortran's array as it is.
    ///
    /// # Safety
    /// As for `new`.
    pub(crate) unsafe fn integers(&self) -> &[c_int] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: by this function's contract.
        unsafe { std::slice::from_raw_parts(self.integers, self.len) }
    }

    /// Stores all handles in Fortran's array.
    ///
    /// # Safety
    /// As for `new`.
    #[inline]
    pub(crate) unsafe fn store(&mut self) {
        for at in 0..self.len {
            // SAFETY: `at` is below `count`.
            unsafe { self.store_one(at) };
        }
    }

    /// Stores one handle.
    ///
    /// # Safety
    /// As for `new`; `at` is less than `count`.
    #[inline]
    pub(crate) unsafe fn store_one(&mut self, at: usize) {
        let integer = self.as_mut_slice()[at].to_fortran();
        // SAFETY: by this function's contract.
        unsafe { self.integers.add(at).write(integer) };
    }
}

/// An array of LOGICALs in C's form.
pub(crate) struct Logicals {
    logicals: *mut c_int,
    flags: Vec<c_int>,
}

impl Logicals {
    /// Converts `count` LOGICALs.
    ///
    /// # Safety
    /// `logicals` is an array of `count` LOGICALs.
    pub(crate) unsafe fn new(logicals: *mut c_int, count: i64) -> Logicals {
        let len = usize::try_from(count).unwrap_or(0);
        // SAFETY: `at` is below `count`.
        let flag = |at| from_logical(unsafe { logicals.add(at).read() });
        Logicals { logicals, flags: (0..len).map(flag).collect() }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut c_int {
        self.flags.as_mut_ptr()
    }

    /// Stores all in Fortran's array.
    ///
    /// # Safety
    /// As for `new`.
    pub(crate) unsafe fn store(&self) {
        for (at, flag) in self.flags.iter().enumerate() {
            // SAFETY: `at` is below the count.
            unsafe { self.logicals.add(at).write(to_logical(*flag)) };
        }
    }
}
