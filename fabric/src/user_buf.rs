//! A run of bytes that belongs to the user of MPI.
//!
//! MPI lets a user hand over a buffer and forget it until the operation
//! completes. `UserBuf` is that promise as a type: whoever makes one vouches for
//! it once, and the protocol crates above and below copy through it without
//! `unsafe` of their own.
//!
//! Invariant: `ptr .. ptr + len` is valid for reads (and for writes, when it
//! describes a receive buffer) until the operation that carries it completes.
//! Access is by copies, never by references, so that user memory that changes
//! underneath us (an erroneous program) yields wrong data and nothing worse.

#![allow(unsafe_code)]

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// A contiguous run of user memory; see the module for the promise it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserBuf {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: `UserBuf` is an address and a length. Its maker promised that the
// bytes stay valid whichever thread of the process drives the operation.
unsafe impl Send for UserBuf {}
// SAFETY: as for `Send`; there is no interior state to race on.
unsafe impl Sync for UserBuf {}

impl UserBuf {
    /// The run of no bytes.
    pub const EMPTY: UserBuf = UserBuf { ptr: std::ptr::null_mut(), len: 0 };

    /// # Safety
    /// `ptr .. ptr + len` must be valid for reads, and for writes if anything
    /// is to be received into it, until the operation that carries the value
    /// has completed or has been abandoned. `len == 0` allows any `ptr`.
    #[inline]
    pub const unsafe fn new(ptr: *mut u8, len: usize) -> UserBuf {
        UserBuf { ptr, len }
    }

    /// Length in bytes.
    #[inline]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// True when there is nothing to copy.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address, for devices that are told addresses.
    #[inline]
    pub fn addr(&self) -> u64 {
        self.ptr as u64
    }

    /// The pointer, for the few files that copy or register by themselves.
    #[inline]
    pub const fn as_ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// The part `offset .. offset + len`. Panics when it is not inside.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> UserBuf {
        assert!(offset <= self.len && len <= self.len - offset, "slice outside the memory");
        // SAFETY: just checked to lie inside a run that the maker vouched for;
        // `wrapping_add` because an empty run may have any pointer.
        unsafe { UserBuf::new(self.ptr.wrapping_add(offset), len) }
    }

    /// Copies `offset .. offset + out.len()` out. Panics when it is not inside.
    #[inline]
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        let part = self.slice(offset, out.len());
        // SAFETY: the source is valid by the maker's promise, the destination is
        // a Rust slice, and a user buffer never overlaps our own memory.
        unsafe { copy(part.ptr, out.as_mut_ptr(), out.len()) }
    }

    /// As [`UserBuf::read`], but what is written goes past the cache, for slots that
    /// another processor reads next and this one not again. The transport orders
    /// these stores before what it publishes.
    #[inline]
    pub(crate) fn stream(&self, offset: usize, out: &mut [u8]) {
        let part = self.slice(offset, out.len());
        // SAFETY: as for `read`.
        unsafe { stream(part.ptr, out.as_mut_ptr(), out.len()) }
    }

    /// Copies `bytes` to `offset ..`. Panics when they do not fit.
    #[inline]
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let part = self.slice(offset, bytes.len());
        // SAFETY: the destination is valid for writes by the maker's promise; a
        // user buffer never overlaps our own memory.
        unsafe { copy(bytes.as_ptr(), part.ptr, bytes.len()) }
    }

    /// As [`UserBuf::write`], for lines that another processor has just written, or is about to.
    #[inline(never)]
    pub fn write_lines(&self, offset: usize, bytes: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        if bytes.len() >= LINE && std::arch::is_x86_feature_detected!("avx2") {
            let part = self.slice(offset, bytes.len());
            // SAFETY: as for `write`, and the rest was just asked for.
            return unsafe { copy_lines(bytes.as_ptr(), part.ptr, bytes.len()) };
        }
        self.write(offset, bytes);
    }

    /// Copies all of `from` to the start of `self`; the two may overlap.
    #[inline]
    pub fn copy_from(&self, from: UserBuf) {
        let part = self.slice(0, from.len);
        // SAFETY: both runs are valid by their makers' promises; `copy` allows
        // them to overlap.
        unsafe { std::ptr::copy(from.ptr, part.ptr, from.len) }
    }
}

/// memcpy, with the shortest messages done in line: the call would cost more
/// than the copy.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; two words that overlap in the middle cover 8 to
    // 16 bytes, and neither reaches beyond them.
    unsafe {
        match len {
            8..=16 => {
                let (first, last) = (from.cast::<u64>(), from.add(len - 8).cast::<u64>());
                let (first, last) = (first.read_unaligned(), last.read_unaligned());
                to.cast::<u64>().write_unaligned(first);
                to.add(len - 8).cast::<u64>().write_unaligned(last);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// memcpy line by line. Lines that come from another processor's cache arrive sooner this way than
/// by the C library's, which goes about it by other means from some length on.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`]; at least a line, and the processor has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_lines(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    // SAFETY: the caller's promise. The first and the last line cover what is in front of the first
    // whole line of the destination and behind the last; what they share with others is the same.
    unsafe {
        let line = |at: usize| {
            let (from, to) = (from.add(at).cast::<__m256i>(), to.add(at).cast::<__m256i>());
            let (first, second) = (_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1)));
            _mm256_storeu_si256(to, first);
            _mm256_storeu_si256(to.add(1), second);
        };
        line(0);
        let mut at = LINE - to as usize % LINE;
        while at + LINE <= len {
            line(at);
            at += LINE;
        }
        line(len - LINE);
    }
}

/// Another process has written these bytes since this one did, or will before this one reads them. valgrind's memcheck
/// sees one process at a time and would say of them what it knew of ours: a request (MAKE_MEM_DEFINED of its memcheck.h)
/// tells it. Without valgrind it is five instructions that change nothing.
#[inline(always)]
pub fn valgrind_mark_defined(start: *const u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        const DEFINED: u64 = (b'M' as u64) << 24 | (b'C' as u64) << 16 | 2;
        let request: [u64; 6] = [DEFINED, start as u64, len as u64, 0, 0, 0];
        // SAFETY: the rotations add up to two turns of the register, and an exchange with itself is none.
        // valgrind, which knows this sequence, reads the request and answers in `rdx`.
        unsafe {
            std::arch::asm!(
                "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
                inout("rax") request.as_ptr() => _, inout("rdx") 0_u64 => _, out("rdi") _,
                options(nostack),
            )
        };
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    let _ = (start, len);
}

/// What was written past the cache comes before all stores that follow.
#[inline(always)]
pub fn nt_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// memcpy with stores past the cache where the processor has them.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
unsafe fn stream(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = to.align_offset(LINE).min(len);
        let lines = (len - head) / LINE;
        // SAFETY: the three parts together are the caller's run; the stores are
        // aligned, for they begin on a line.
        unsafe {
            copy(from, to, head);
            for line in 0..lines {
                let (from, to) = (from.add(head + line * LINE), to.add(head + line * LINE));
                let words: [__m128i; 4] =
                    std::array::from_fn(|at| _mm_loadu_si128(from.cast::<__m128i>().add(at)));
                for (at, word) in words.into_iter().enumerate() {
                    _mm_stream_si128(to.cast::<__m128i>().add(at), word);
                }
            }
            let done = head + lines * LINE;
            copy(from.add(done), to.add(done), len - done);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        copy(from, to, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_copied_from_and_to_anywhere_and_nothing_beside_them() {
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
