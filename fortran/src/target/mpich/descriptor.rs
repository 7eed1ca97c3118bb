//! Descriptors of choice buffers as `mpi_f08` of MPICH and of Intel MPI passes them: its procedures
//! have no BIND(C), so each compiler passes its own form.
//!
//! gfortran's has, from byte 24, four zero bytes and the rank, and strides that count spans. That
//! of Intel's compilers has flags there, the rank eight bytes after, and strides in bytes. Both
//! become the form of the C standard, which the entry points read.

use std::mem::MaybeUninit;
use std::os::raw::{c_char, c_void};

use crate::descriptor::{Descriptor, Dimension};

/// Dimensions that a compiler's arrays can have.
const MAX_RANK: usize = 15;

/// A descriptor of either form.
#[repr(C)]
pub(crate) struct Foreign {
    base: *mut c_void,
    /// gfortran: where the element with all indices zero lies. Intel: bytes of an element.
    second: isize,
    /// gfortran: bytes of an element. Intel: as gfortran's second.
    third: usize,
    /// gfortran: 0, then rank, type and attribute. Intel: flags.
    fourth: u64,
    /// gfortran: bytes that strides count. Intel: the rank.
    fifth: usize,
    rest: [Dimension; 0],
}

/// The descriptor of the C standard, with space for all dimensions.
#[repr(C)]
pub(crate) struct Described {
    head: Descriptor,
    dimensions: [MaybeUninit<Dimension>; MAX_RANK],
}

impl Described {
    /// Reads a buffer's descriptor.
    ///
    /// # Safety
    /// `foreign` is a descriptor that a compiler has made.
    #[inline]
    pub(crate) unsafe fn new(foreign: *const Foreign) -> Described {
        // SAFETY: by this function's contract; the part before the dimensions is always there.
        let Foreign { base, second, third, fourth, fifth, .. } = unsafe { foreign.read() };
        // SAFETY: stays within the descriptor.
        let rest = unsafe { (&raw const (*foreign).rest).cast::<isize>() };
        // SAFETY: a descriptor has as many dimensions as its rank says.
        let three = |first: usize| unsafe { rest.add(first).cast::<[isize; 3]>().read() };
        let is_gfortran = fourth as u32 == 0 && fourth != 0;
        if is_gfortran {
            let span = if fifth == 0 { third } else { fifth } as isize;
            let rank = usize::from((fourth >> 32) as u8);
            return Described::with(base, third, rank, |at| {
                let [stride, lower_bound, upper] = three(3 * at);
                Dimension { lower_bound, extent: upper - lower_bound + 1, stride: stride * span }
            });
        }
        Described::with(base, second as usize, fifth, |at| {
            // After the rank there is a word that is not used.
            let [extent, stride, lower_bound] = three(3 * at + 1);
            Dimension { lower_bound, extent, stride }
        })
    }

    /// A CHARACTER argument.
    pub(crate) fn text(text: *mut c_char, len: usize) -> Described {
        let none = |_| unreachable!("it has no dimensions");
        Described::with(text.cast(), len, 0, none)
    }

    fn with(
        base: *mut c_void,
        elem_len: usize,
        rank: usize,
        dimension: impl Fn(usize) -> Dimension,
    ) -> Described {
        let rank = rank.min(MAX_RANK);
        let dimensions = [const { MaybeUninit::uninit() }; MAX_RANK];
        let head = Descriptor {
            base,
            elem_len,
            version: 0,
            rank: rank as u8,
            rest: [0; 3],
            dimensions: [],
        };
        let mut described = Described { head, dimensions };
        for (at, to) in described.dimensions.iter_mut().take(rank).enumerate() {
            to.write(dimension(at));
        }
        described
    }

    /// What the entry points read.
    pub(crate) fn as_ptr(&self) -> *const Descriptor {
        (&raw const *self).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A section of two dimensions as a compiler passes it.
    #[repr(C)]
    struct OfTwo<const N: usize> {
        base: *mut c_void,
        words: [isize; N],
    }

    fn is_read<const N: usize>(words: [isize; N], wanted: [(isize, isize); 2]) {
        let passed = OfTwo { base: std::ptr::without_provenance_mut(64), words };
        // SAFETY: laid out as a compiler's descriptor.
        let described = unsafe { Described::new((&raw const passed).cast()) };
        // SAFETY: it lives as long as `described`.
        let descriptor = unsafe { &*described.as_ptr() };
        assert_eq!((descriptor.elem_len, descriptor.address().addr()), (8, 64));
        let dimensions: Vec<_> =
            descriptor.dimensions().iter().map(|it| (it.extent, it.stride)).collect();
        assert_eq!(dimensions, wanted);
    }

    /// `real(8) :: a(10, 10)`, of which `a(1:9:2, 3:6)` is passed.
    #[test]
    fn descriptors_of_both_families_of_compilers_are_read() {
        let wanted = [(5, 16), (4, 80)];
        let real_of_rank_2 = 0x0302 << 32;
        is_read([-11, 8, real_of_rank_2, 8, 2, 1, 5, 10, 1, 4], wanted);
        for flags in [0, 1, 3] {
            is_read([8, 0, flags, 2, 0, 5, 16, 1, 4, 80, 1], wanted);
        }
    }

    /// `pairs%second`, where a pair has 24 bytes: gfortran's strides count pairs.
    #[test]
    fn strides_of_components_count_spans() {
        let real_of_rank_2 = 0x0302 << 32;
        is_read([-4, 8, real_of_rank_2, 24, 1, 1, 3, 3, 1, 2], [(3, 24), (2, 72)]);
    }
}
