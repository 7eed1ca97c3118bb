//! Copy kernels for user memory: short copies in line, line by line, and non-temporal.
//!
//! Functions on addresses, without state but for the direction of the next long copy. They do not
//! wait and do not check bounds; [`crate::UserBuf`] does.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;

/// Copies like memcpy; the shortest messages in line, as the call would cost more than the copy.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(always)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
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
            ..BY_STRING => std::ptr::copy_nonoverlapping(from, to, len),
            _ => copy_long(from, to, len),
        }
    }
}

/// Bytes from which on the C library's memcpy may be a string instruction.
const BY_STRING: usize = 2 << 10;

/// Bytes of a page.
#[cfg(any(test, target_arch = "x86_64"))]
const PAGE: usize = 4 << 10;

/// Returns true if the destination lies less than half a line after the source, within their pages.
/// A string instruction then copies 2 GB/s on an AMD EPYC, otherwise 35 to 60, since its loads seem
/// to read what it has just stored (glibc's bug 30994). Long arrays of programs often begin 16
/// bytes after a page, where malloc puts them, and slots on a page.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn is_just_after(from: *const u8, to: *mut u8) -> bool {
    (1..LINE / 2).contains(&(to.addr().wrapping_sub(from.addr()) % PAGE))
}

/// Copies a long run like memcpy, but not by a string instruction where that is slow.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline(never)]
pub unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if len >= LINE
        && is_just_after(from, to)
        && let Some(kernel) = line_kernel()
    {
        // SAFETY: the caller's promise, and the rest was just requested.
        return unsafe { kernel(from, to, len) };
    }
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

/// A kernel that copies line by line. Lines that come from another processor's cache arrive sooner
/// this way than by the C library's memcpy, which changes its method above some length.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`]; at least a line, and the processor is that of
/// [`line_kernel`].
#[cfg(target_arch = "x86_64")]
type LineKernel = unsafe fn(from: *const u8, to: *mut u8, len: usize);

/// Returns the best kernel of this processor, if it has one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn line_kernel() -> Option<LineKernel> {
    whole_lines().or_else(half_lines)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn whole_lines() -> Option<LineKernel> {
    // The first processors with AVX-512 run slower for a while after each use. None has VBMI.
    std::arch::is_x86_feature_detected!("avx512vbmi").then_some(copy_whole_lines)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn half_lines() -> Option<LineKernel> {
    std::arch::is_x86_feature_detected!("avx2").then_some(copy_half_lines)
}

/// Copies lines in one piece, four at a time. They are written out: a profile-guided build makes
/// the loop of a kernel that its training does not reach as short as it can.
///
/// # Safety
/// That of [`LineKernel`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn copy_whole_lines(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512 as load, _mm512_storeu_si512 as store};
    // SAFETY: the caller's promise. The first and the last copy cover the bytes before the first
    // whole line of the destination and after the last. Bytes copied twice get the same value.
    unsafe {
        let (from_line, to_line) = (|at| from.add(at).cast(), |at| to.add(at).cast());
        let line = |at: usize| store(to_line(at), load(from_line(at)));
        line(0);
        let mut at = LINE - to as usize % LINE;
        while at + 4 * LINE <= len {
            let [second, third, fourth] = [at + LINE, at + 2 * LINE, at + 3 * LINE];
            let (a, b) = (load(from_line(at)), load(from_line(second)));
            let (c, d) = (load(from_line(third)), load(from_line(fourth)));
            store(to_line(at), a);
            store(to_line(second), b);
            store(to_line(third), c);
            store(to_line(fourth), d);
            at += 4 * LINE;
        }
        while at + LINE <= len {
            line(at);
            at += LINE;
        }
        line(len - LINE);
    }
}

/// Copies lines in two halves.
///
/// # Safety
/// That of [`LineKernel`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn copy_half_lines(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_storeu_si256};
    // SAFETY: the caller's promise. The first and the last copy cover the bytes before the first
    // whole line of the destination and after the last. Bytes copied twice get the same value.
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

/// Bytes that are copied line by line: fewer cost more by it, and of more the C library knows the
/// processor's best way.
#[cfg(target_arch = "x86_64")]
const BY_LINES: std::ops::RangeInclusive<usize> = 256..=16 << 10;

/// Bytes that are copied in turns from the begin and from the end: what a core's caches do not hold
/// as a whole. The end, which was copied last, is in the caches when the same memory is copied
/// again, and what a program has just written up to its end likewise.
const IN_TURNS: std::ops::RangeInclusive<usize> = 2 * PIECE..=4 << 20;

/// Bytes of a piece, which is copied from its begin in both turns.
const PIECE: usize = 64 << 10;

/// Whether the next copy of [`IN_TURNS`] begins at the end.
static FROM_END: AtomicBool = AtomicBool::new(true);

/// Copies in pieces, from the last one to the first in every second call.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
unsafe fn copy_in_turns(from: *const u8, to: *mut u8, len: usize) {
    // Relaxed, and not as one: either direction is right at any time.
    let from_end = FROM_END.load(Ordering::Relaxed);
    FROM_END.store(!from_end, Ordering::Relaxed);
    let pieces = len / PIECE;
    for turn in 0..pieces {
        let piece = if from_end { pieces - 1 - turn } else { turn };
        let begin = piece * PIECE;
        let end = if piece == pieces - 1 { len } else { begin + PIECE };
        // SAFETY: a part of the caller's run.
        unsafe { copy_long(from.add(begin), to.add(begin), end - begin) };
    }
}

/// Copies any number of bytes; source and destination may overlap.
///
/// # Safety
/// As for [`std::ptr::copy`].
#[inline(never)]
pub(crate) unsafe fn copy_any(from: *const u8, to: *mut u8, len: usize) {
    let overlap = from.addr().abs_diff(to.addr()) < len;
    #[cfg(target_arch = "x86_64")]
    if BY_LINES.contains(&len)
        && !overlap
        && let Some(kernel) = line_kernel()
    {
        // SAFETY: the caller's promise; they do not overlap, and the rest was just requested.
        return unsafe { kernel(from, to, len) };
    }
    // SAFETY: the caller's promise; the first two are for runs that do not overlap.
    unsafe {
        match overlap {
            false if IN_TURNS.contains(&len) => copy_in_turns(from, to, len),
            false => copy_long(from, to, len),
            true => std::ptr::copy(from, to, len),
        }
    }
}

/// Bytes that are copied so that lines of other processors are replaced as a whole.
#[cfg(target_arch = "x86_64")]
const REPLACED: std::ops::RangeInclusive<usize> = 1 << 10..=64 << 10;

/// Copies to lines that another processor has in its caches. A store fetches such a line before it
/// changes a part of it; a string instruction replaces whole lines, which takes half the time from
/// a near cache and a third from a far one. In lines of its own a processor is slower by it.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
#[inline]
pub(crate) unsafe fn replace_lines(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if REPLACED.contains(&len)
        && !is_just_after(from, to)
        && std::arch::is_x86_feature_detected!("ermsb")
    {
        // SAFETY: the caller's promise; the direction flag is clear between statements.
        unsafe {
            std::arch::asm!(
                "rep movsb",
                inout("rcx") len => _,
                inout("rsi") from => _,
                inout("rdi") to => _,
                options(nostack, preserves_flags)
            );
        }
        return;
    }
    // SAFETY: the caller's promise.
    unsafe { copy_any(from, to, len) }
}

/// Prefetches a line for reading.
#[inline(always)]
pub fn prefetch_read(line: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch changes nothing, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = line;
}

/// Orders non-temporal stores before all stores that follow.
#[inline(always)]
pub fn nt_fence() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has SSE.
    unsafe {
        std::arch::x86_64::_mm_sfence()
    };
}

/// Copies with non-temporal stores where the processor has them.
///
/// # Safety
/// As for [`std::ptr::copy_nonoverlapping`].
pub(crate) unsafe fn copy_nt(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        let head = to.align_offset(LINE).min(len);
        let lines = (len - head) / LINE;
        // SAFETY: the three parts together are the caller's run; the stores are aligned, since they
        // begin on a line.
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
    fn any_length_is_copied_in_either_direction_and_over_itself() {
        const SPACE: usize = 64;
        let lengths = [0, 1, 300, (16 << 10) + 1, 2 * PIECE - 1, 2 * PIECE, 3 * PIECE + 5];
        for len in lengths {
            let source: Vec<u8> = (0..len + SPACE).map(|at| (at * 31 % 251) as u8).collect();
            for _ in 0..2 {
                let mut target = vec![0xEE; len + 2];
                // SAFETY: both runs lie inside of their vectors.
                unsafe { copy_any(source.as_ptr(), target.as_mut_ptr().add(1), len) };
                assert_eq!(target[1..=len], source[..len], "{len}");
                assert_eq!((target[0], target[len + 1]), (0xEE, 0xEE), "{len}");
            }
            let mut moved = source.clone();
            let at = moved.as_mut_ptr();
            // SAFETY: both runs lie inside of the vector.
            unsafe { copy_any(at, at.add(SPACE), len) };
            assert_eq!(moved[SPACE..], source[..len], "{len} over itself");
        }
    }

    #[test]
    fn long_runs_are_copied_at_any_distance_within_a_page() {
        let source: Vec<u8> = (0..4 * PAGE as u32).map(|at| (at * 31 % 251) as u8).collect();
        let (len, mut memory) = (PAGE + 77, vec![0; 4 * PAGE]);
        let apart = source.as_ptr().addr().wrapping_sub(memory.as_ptr().addr());
        for distance in (0..80).chain([PAGE - 1]) {
            memory.fill(0xEE);
            let first = apart.wrapping_add(distance) % PAGE;
            let end = first + len;
            // SAFETY: both runs lie inside of their vectors.
            unsafe { copy_long(source.as_ptr(), memory.as_mut_ptr().add(first), len) };
            assert_eq!(memory[first..end], source[..len], "{distance}");
            let others = memory[..first].iter().chain(&memory[end..]);
            assert!(others.clone().all(|&byte| byte == 0xEE), "{distance}");
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn each_kernel_copies_from_and_to_anywhere_and_nothing_else() {
        let source: Vec<u8> = (0..1200_u32).map(|at| (at * 31 % 251) as u8).collect();
        let lengths = || (LINE..1000).step_by(13).chain([64, 128, 256, 320, 321, 576]);
        for kernel in [whole_lines(), half_lines()].into_iter().flatten() {
            for (to, len) in (0..70).flat_map(|to| lengths().map(move |len| (to, len))) {
                let (from, mut target) = (len % 64, vec![0xEE; 1200]);
                // SAFETY: both runs lie inside of their vectors, and the processor is right.
                unsafe { kernel(source.as_ptr().add(from), target.as_mut_ptr().add(to), len) };
                assert_eq!(target[to..to + len], source[from..from + len], "{from} {to} {len}");
                let others = target[..to].iter().chain(&target[to + len..]);
                assert!(others.clone().all(|&byte| byte == 0xEE), "{from} {to} {len}");
            }
        }
    }
}
