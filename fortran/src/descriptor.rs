//! The C descriptor by which `mpi_f08` passes choice buffers (ISO/IEC 1539-1:2018, 18.5.3).
//!
//! Compilers agree on base address, element length, version, rank and, from byte 24, on three
//! numbers for each dimension. The order of the bytes between differs, and they are not read.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use crate::generated::c;
use crate::sentinel::c_buffer;
use crate::target::{COMM_WORLD, ERR_BUFFER};

/// One dimension.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Dimension {
    pub(crate) lower_bound: isize,
    /// The number of elements; -1 in the last dimension of an assumed-size array.
    pub(crate) extent: isize,
    /// Bytes from one element to the next.
    pub(crate) stride: isize,
}

/// CFI_cdesc_t.
#[repr(C)]
pub(crate) struct Descriptor {
    pub(crate) base: *mut c_void,
    pub(crate) elem_len: usize,
    pub(crate) version: i32,
    pub(crate) rank: u8,
    pub(crate) rest: [u8; 3],
    pub(crate) dimensions: [Dimension; 0],
}

impl Descriptor {
    /// The address as C has it: MPI_BOTTOM and its like are recognised.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        c_buffer(self.base)
    }

    /// True if there are gaps between the elements. An assumed-size array has none.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        match self.dimensions() {
            [] => false,
            [only] => only.stride != self.elem_len as isize && only.extent > 1,
            _ => self.some_dimension_has_gaps(),
        }
    }

    fn some_dimension_has_gaps(&self) -> bool {
        let mut next = self.elem_len as isize;
        self.dimensions().iter().any(|dimension| {
            let has_gap = dimension.stride != next && dimension.extent > 1;
            next = next.saturating_mul(dimension.extent);
            has_gap
        })
    }

    /// The dimensions.
    #[inline]
    pub(crate) fn dimensions(&self) -> &[Dimension] {
        // SAFETY: the compiler passes as many dimensions as it says.
        unsafe {
            std::slice::from_raw_parts((&raw const self.dimensions).cast(), usize::from(self.rank))
        }
    }

    /// A CHARACTER argument.
    pub(crate) fn text(&self) -> *mut c_char {
        self.base.cast()
    }

    /// Its length.
    pub(crate) fn text_len(&self) -> usize {
        self.elem_len
    }
}

const _: () = assert!(size_of::<Descriptor>() == 24, "dimensions begin at byte 24");

/// Reports a section that a procedure cannot take, to the handler of MPI_COMM_WORLD, by an error
/// code of its own whose text names the procedure.
#[cold]
pub(crate) fn refuse(procedure: &CStr) -> c_int {
    static CODES: Mutex<BTreeMap<CString, c_int>> = Mutex::new(BTreeMap::new());
    let mut codes = CODES.lock().unwrap_or_else(PoisonError::into_inner);
    let code = *codes.entry(procedure.to_owned()).or_insert_with(|| {
        let mut text = procedure.to_bytes().to_vec();
        text.extend_from_slice(
            b": invalid buffer: an array section with gaps; allowed: contiguous arrays, or whole \
              elements of the datatype where the call is one-sided or split\0",
        );
        let mut code = ERR_BUFFER;
        // SAFETY: the address of a number, and a string that ends with zero.
        unsafe {
            if c::PMPI_Add_error_code(ERR_BUFFER, &raw mut code) != 0 {
                return ERR_BUFFER;
            }
            c::PMPI_Add_error_string(code, text.as_ptr().cast());
        }
        code
    });
    drop(codes);
    // SAFETY: takes any communicator and code.
    unsafe { c::PMPI_Comm_call_errhandler(COMM_WORLD, code) };
    code
}
