//! The elements of a section, copied into memory without gaps.
//!
//! Elements are numbered in array order, as they lie in the copy.

use std::ops::Range;
use std::os::raw::c_void;

use crate::descriptor::{Descriptor, Dimension};

/// Elements without gaps, and where they belong.
pub(crate) struct Copy {
    memory: Vec<u128>,
    base: *mut c_void,
    elem_len: usize,
    elements: usize,
    dimensions: Vec<Dimension>,
    is_written: bool,
}

// SAFETY: a copy is used by the thread that completes the request, one at a time.
unsafe impl Send for Copy {}

impl Copy {
    /// Memory for all elements; `is_written` if the call writes them.
    pub(crate) fn of(descriptor: &Descriptor, is_written: bool) -> Copy {
        let dimensions = descriptor.dimensions().to_vec();
        let elements: usize = dimensions
            .iter()
            .map(|dimension| usize::try_from(dimension.extent).unwrap_or(0))
            .product();
        let bytes = elements.saturating_mul(descriptor.elem_len);
        Copy {
            memory: vec![0; bytes.div_ceil(size_of::<u128>()).max(1)],
            base: descriptor.address(),
            elem_len: descriptor.elem_len,
            elements,
            dimensions,
            is_written,
        }
    }

    pub(crate) fn address(&mut self) -> *mut c_void {
        self.memory.as_mut_ptr().cast()
    }

    /// Reads the section.
    pub(crate) fn load(&mut self) {
        self.load_some(0..self.elements);
    }

    /// Writes the section, if the call writes it.
    pub(crate) fn store(&mut self) {
        self.store_some(0..self.elements);
    }

    /// Reads the elements in which these bytes of the copy lie.
    pub(crate) fn load_bytes(&mut self, bytes: Range<usize>) {
        self.load_some(self.elements_of(bytes));
    }

    /// Writes the elements in which these bytes of the copy lie, if the call writes them.
    pub(crate) fn store_bytes(&mut self, bytes: Range<usize>) {
        self.store_some(self.elements_of(bytes));
    }

    fn elements_of(&self, bytes: Range<usize>) -> Range<usize> {
        let len = self.elem_len.max(1);
        (bytes.start / len).min(self.elements)..bytes.end.div_ceil(len).min(self.elements)
    }

    fn load_some(&mut self, elements: Range<usize>) {
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        // SAFETY: both places have `elem_len` bytes: the section by the compiler's descriptor, the
        // memory by its size.
        self.each(elements, |at, element, len| unsafe {
            std::ptr::copy_nonoverlapping(element, memory.add(at), len);
        });
    }

    fn store_some(&mut self, elements: Range<usize>) {
        if !self.is_written {
            return;
        }
        let memory = self.memory.as_mut_ptr().cast::<u8>();
        // SAFETY: as for `load_some`.
        self.each(elements, |at, element, len| unsafe {
            std::ptr::copy_nonoverlapping(memory.add(at).cast_const(), element, len);
        });
    }

    /// Calls `visit` with position, address and length of each element in the range.
    fn each(&self, elements: Range<usize>, mut visit: impl FnMut(usize, *mut u8, usize)) {
        let mut index = self.index(elements.start);
        for element in elements {
            let offset: isize =
                index.iter().zip(&self.dimensions).map(|(i, dimension)| i * dimension.stride).sum();
            let address = self.base.cast::<u8>().wrapping_offset(offset);
            visit(element * self.elem_len, address, self.elem_len);
            for (at, dimension) in self.dimensions.iter().enumerate() {
                index[at] += 1;
                if index[at] < dimension.extent {
                    break;
                }
                index[at] = 0;
            }
        }
    }

    /// The subscripts of an element, from 0.
    fn index(&self, mut element: usize) -> Vec<isize> {
        let subscript = |dimension: &Dimension| {
            let extent = usize::try_from(dimension.extent).unwrap_or(1).max(1);
            let subscript = element % extent;
            element /= extent;
            subscript as isize
        };
        self.dimensions.iter().map(subscript).collect()
    }
}
