//! A request to valgrind, which sees one process at a time.

#![allow(unsafe_code)]

/// Marks bytes as defined: another process or the kernel has written them since this one did, or
/// will before this one reads them. Memcheck does not see those stores; the request is
/// MAKE_MEM_DEFINED of `memcheck.h`. Without valgrind it is five instructions without effect.
#[inline(always)]
pub fn mark_defined(start: *const u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    {
        const DEFINED: u64 = (b'M' as u64) << 24 | (b'C' as u64) << 16 | 2;
        let request: [u64; 6] = [DEFINED, start as u64, len as u64, 0, 0, 0];
        // SAFETY: the rotations add up to 128 bits, and an exchange with itself is none. valgrind,
        // which knows this sequence, reads the request and answers in `rdx`.
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
