//! Memory of the MPI user: an address and a length.
//!
//! The constructor's caller promises once that the memory is valid. Protocols and transports then
//! copy through it without `unsafe` of their own.
//!
//! Invariant: `ptr .. ptr + len` is valid for reads, and for writes if it is a receive buffer,
//! until the operation that carries it completes. Access is by copies, never by references:
//! memory that an erroneous program changes meanwhile yields wrong data and nothing worse.

#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use crate::copy::line_kernel;
use crate::copy::{LINE, copy, copy_any, copy_nt, nt_fence, prefetch_read, replace_lines};

/// Contiguous user memory; see the module for the promise it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserBuf {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: `UserBuf` is an address and a length. Its maker promised that the bytes are valid in
// whichever thread of the process drives the operation.
unsafe impl Send for UserBuf {}
// SAFETY: as for `Send`; there is no interior state to race on.
unsafe impl Sync for UserBuf {}

impl UserBuf {
    /// No bytes.
    pub const EMPTY: UserBuf = UserBuf { ptr: std::ptr::null_mut(), len: 0 };

    /// Wraps user memory.
    ///
    /// # Safety
    /// `ptr .. ptr + len` must be valid for reads, and for writes if anything is to be
    /// received into it. This holds until the operation that carries the value has completed or has
    /// been abandoned. `len == 0` allows any `ptr`.
    #[inline]
    pub const unsafe fn new(ptr: *mut u8, len: usize) -> UserBuf {
        UserBuf { ptr, len }
    }

    /// Returns the length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there is nothing to copy.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the address, for devices that take numbers.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.ptr as u64
    }

    /// Returns the pointer, for the few files that copy or register by themselves.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Returns the part `offset .. offset + len`. Panics if it is not inside.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> UserBuf {
        assert!(offset <= self.len && len <= self.len - offset, "slice outside the memory");
        // SAFETY: just checked to lie inside a run that the maker vouched for;
        // `wrapping_add` because an empty run may have any pointer.
        unsafe { UserBuf::new(self.ptr.wrapping_add(offset), len) }
    }

    /// Prefetches the lines of `offset .. offset + len`, which another processor is about to write.
    /// They then arrive together, not the rest after the first one. Panics if it is not inside.
    #[inline]
    pub fn prefetch(&self, offset: usize, len: usize) {
        let part = self.slice(offset, len);
        let mut at = part.ptr.addr() & !(LINE - 1);
        while at < part.ptr.addr() + len {
            prefetch_read(part.ptr.with_addr(at));
            at += LINE;
        }
    }

    /// Copies `offset .. offset + out.len()` to `out`. Panics if it is not inside.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let part = self.slice(offset, out.len());
        // SAFETY: the source is valid by the maker's promise, the destination is
        // a Rust slice, and a user buffer never overlaps our own memory.
        unsafe { copy(part.ptr, out.as_mut_ptr(), out.len()) }
    }

    /// As [`UserBuf::read`], with non-temporal stores, for slots that another processor reads next.
    /// The transport orders these stores before what it publishes ([`crate::copy::nt_fence`]).
    #[inline]
    pub(crate) fn copy_out_nt(&self, offset: usize, out: &mut [u8]) {
        let part = self.slice(offset, out.len());
        // SAFETY: as for `read`.
        unsafe { copy_nt(part.ptr, out.as_mut_ptr(), out.len()) }
    }

    /// Copies all of `from` to the start of `self` with non-temporal stores, which come before all
    /// stores that follow. The two do not overlap. Panics if they do not fit.
    pub fn copy_from_past_cache(&self, from: UserBuf) {
        let part = self.slice(0, from.len);
        // SAFETY: both runs are valid by their makers' promises, and have these bytes.
        unsafe { copy_nt(from.ptr, part.ptr, from.len) }
        nt_fence();
    }

    /// Copies `bytes` to `offset ..`. Panics if they do not fit.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let part = self.slice(offset, bytes.len());
        // SAFETY: the destination is valid for writes by the maker's promise; a
        // user buffer never overlaps our own memory.
        unsafe { copy(bytes.as_ptr(), part.ptr, bytes.len()) }
    }

    /// As [`UserBuf::write`], for cache lines that another processor has just written or is about
    /// to write.
    #[inline(never)]
    pub fn write_lines(&self, offset: usize, bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if bytes.len() >= LINE
            && let Some(kernel) = line_kernel()
        {
            let part = self.slice(offset, bytes.len());
            // SAFETY: as for `write`, and the rest was just requested.
            return unsafe { kernel(bytes.as_ptr(), part.ptr, bytes.len()) };
        }
        self.write(offset, bytes);
    }

    /// Copies all of `from` to the start of `self`; the two may overlap.
    #[inline(always)]
    pub fn copy_from(&self, from: UserBuf) {
        let part = self.slice(0, from.len);
        // SAFETY: both runs are valid by their makers' promises, and have these bytes; they may
        // overlap, since a word is read before it is written, and `copy` allows it.
        unsafe {
            match from.len {
                8 => {
                    part.ptr.cast::<u64>().write_unaligned(from.ptr.cast::<u64>().read_unaligned())
                }
                4 => {
                    part.ptr.cast::<u32>().write_unaligned(from.ptr.cast::<u32>().read_unaligned())
                }
                len => copy_any(from.ptr, part.ptr, len),
            }
        }
    }
}

impl UserBuf {
    /// Copies all of `from` to the start of `self`, the bytes in the first cache line last. Another
    /// processor polls that line, and takes it away whenever it is there. The two do not overlap.
    #[inline(always)]
    pub fn copy_from_first_line_last(&self, from: UserBuf) {
        let first = self.before_whole_lines(from.len);
        let rest = from.len - first;
        self.slice(first, rest).copy_from(from.slice(first, rest));
        if first > 0 {
            self.copy_from(from.slice(0, first));
        }
    }

    /// As [`UserBuf::copy_from_first_line_last`], for long data and lines that another processor
    /// has in its caches: it has read them since they were last written.
    pub fn replace_lines(&self, from: UserBuf) {
        let first = self.before_whole_lines(from.len);
        let rest = from.len - first;
        let (to, lines) = (self.slice(first, rest), from.slice(first, rest));
        // SAFETY: both runs are valid by their makers' promises, have these bytes, and do not
        // overlap, as the caller promises.
        unsafe { replace_lines(lines.ptr, to.ptr, rest) };
        if first > 0 {
            self.copy_from(from.slice(0, first));
        }
    }

    /// Returns how many of the first `len` bytes are in a line that begins before them; 0 if all
    /// are.
    #[inline(always)]
    fn before_whole_lines(&self, len: usize) -> usize {
        let first = self.ptr.addr().wrapping_neg() % LINE;
        if first < len { first } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_are_copied_also_onto_themselves() {
        for len in [0, 1, 7, 8, 63, 255, 256, 300, 4096, 16 << 10, 20_000, 24_577] {
            // In both directions.
            let places =
                [(0, 30_000), (1, 30_000), (30_000, 3), (5, 6), (6, 5), (200, 70), (70, 200)];
            for (from, to) in places {
                let mut memory: Vec<u8> = (0..60_000_u32).map(|at| (at * 31 % 251) as u8).collect();
                let wanted = memory[from..from + len].to_vec();
                // SAFETY: the run is the vector's, which outlives it and is not used meanwhile.
                let all = unsafe { UserBuf::new(memory.as_mut_ptr(), memory.len()) };
                all.slice(to, len).copy_from(all.slice(from, len));
                assert_eq!(memory[to..to + len], wanted, "{len} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn the_first_line_is_copied_too_when_it_comes_last() {
        for (at, len) in
            (0..2 * LINE).flat_map(|at| [0, 1, 8, 47, 48, 49, 64, 300].map(|l| (at, l)))
        {
            let mut memory: Vec<u8> = (0..2_000_u32).map(|at| (at * 31 % 251) as u8).collect();
            let wanted = [&memory[..at], &memory[1_000..1_000 + len], &memory[at + len..]].concat();
            // SAFETY: the run is the vector's, which outlives it and is not used meanwhile.
            let all = unsafe { UserBuf::new(memory.as_mut_ptr(), memory.len()) };
            all.slice(at, len).copy_from_first_line_last(all.slice(1_000, len));
            assert!(memory == wanted, "{len} bytes to {at}");
        }
    }

    #[test]
    fn lines_are_copied_from_and_to_anywhere_and_nothing_else() {
        let source: Vec<u8> = (0..700_u32).map(|at| (at * 31 % 251) as u8).collect();
        for (from, to, len) in
            (0..70).flat_map(|to| (0..400).step_by(7).map(move |len| (len % 64, to, len)))
        {
            let mut target = vec![0xEE; 600];
            // SAFETY: the run is the vector's, which outlives it and is not used meanwhile.
            let memory = unsafe { UserBuf::new(target.as_mut_ptr(), target.len()) };
            memory.write_lines(to, &source[from..from + len]);
            assert_eq!(target[to..to + len], source[from..from + len], "{from} {to} {len}");
            assert!(
                target[..to].iter().chain(&target[to + len..]).all(|&byte| byte == 0xEE),
                "{from} {to} {len}"
            );
        }
    }
}
