//! C's `long double` on x86-64: x87 extended precision in 16 bytes, of which ten
//! count. Rust has no such type; therefore each operation is a few instructions.

#![allow(unsafe_code)]

use std::arch::asm;

use super::elements::{Number, Ordered};

/// Ten bytes of x87 extended precision and six of padding.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(16))]
pub(super) struct LongDouble(pub(super) [u8; 16]);

macro_rules! binary {
    ($name:ident, $instruction:literal) => {
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            let mut result = other;
            // SAFETY: loads ten bytes from each of two live values and stores ten to one of them.
            // The x87 stack is empty before (all of it is declared clobbered) and after.
            unsafe {
                asm!(
                    "fld tbyte ptr [{left}]",
                    "fld tbyte ptr [{right}]",
                    $instruction,
                    "fstp tbyte ptr [{right}]",
                    left = in(reg) &raw const self,
                    right = in(reg) &raw mut result,
                    out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                    out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                    options(nostack),
                );
            }
            result
        }
    };
}

impl Number for LongDouble {
    binary!(add, "faddp st(1), st");
    binary!(sub, "fsubp st(1), st");
    binary!(mul, "fmulp st(1), st");
}

impl Ordered for LongDouble {
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        let above: u8;
        // SAFETY: loads ten bytes from each of two live values and pops both.
        unsafe {
            asm!(
                "fld tbyte ptr [{left}]",
                "fld tbyte ptr [{right}]",
                "fcomip st, st(1)",
                "fstp st(0)",
                "seta {above}",
                left = in(reg) &raw const self,
                right = in(reg) &raw const other,
                above = out(reg_byte) above,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack, readonly),
            );
        }
        above != 0
    }

    #[inline(always)]
    fn is_unordered(self) -> bool {
        let [mantissa, exponent] =
            [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|byte| self.0[at + byte])));
        exponent & 0x7fff == 0x7fff && mantissa << 1 != 0
    }
}

macro_rules! in_memory {
    ($name:ident, $instruction:literal) => {
        /// Defines a kernel that works in the user's memory. A sum that is stored to a local first
        /// would be read back before the store has finished.
        pub(super) unsafe fn $name(
            left: *const u8,
            right: *const u8,
            out: *mut u8,
            count: usize,
        ) {
            for offset in (0..count * size_of::<LongDouble>()).step_by(size_of::<LongDouble>()) {
                // SAFETY: an element of each array, valid by the caller's promise;
                // x87 loads and stores need no alignment.
                unsafe {
                    asm!(
                        "fld tbyte ptr [{left}]",
                        "fld tbyte ptr [{right}]",
                        $instruction,
                        "fstp tbyte ptr [{out}]",
                        left = in(reg) left.add(offset),
                        right = in(reg) right.add(offset),
                        out = in(reg) out.add(offset),
                        out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                        out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                        options(nostack),
                    );
                }
            }
        }
    };
}

in_memory!(sum, "faddp st(1), st");
in_memory!(product, "fmulp st(1), st");

#[cfg(test)]
impl LongDouble {
    /// Converts exactly.
    pub(super) fn from_f64(value: f64) -> LongDouble {
        let mut result = LongDouble([0; 16]);
        // SAFETY: loads eight bytes and stores ten, both in live values.
        unsafe {
            asm!(
                "fld qword ptr [{from}]",
                "fstp tbyte ptr [{to}]",
                from = in(reg) &raw const value,
                to = in(reg) &raw mut result,
                out("st(0)") _, out("st(1)") _, out("st(2)") _, out("st(3)") _,
                out("st(4)") _, out("st(5)") _, out("st(6)") _, out("st(7)") _,
                options(nostack),
            );
        }
        result
    }
}
