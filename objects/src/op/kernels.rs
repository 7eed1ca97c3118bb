//! The reduction loops: one small function for each operation and machine type,
//! picked from a table at run time.
//!
//! On x86-64 each loop exists for each [`Level`] of instructions; the compiler vectorises all of
//! them. On other processors the baseline has the vectors (NEON on aarch64). Long doubles,
//! binary128 and pairs with padding exist once.
//!
//! All levels give the same bits, but for the payload of a NaN: no operation is fused with another
//! one, and minima and maxima are explicit selections.

#![allow(unsafe_code)]

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::BuiltinOp;
use super::binary128::Binary128;
use super::elements::*;
#[cfg(target_arch = "x86_64")]
use super::x87::{self, LongDouble};
use crate::datatype::{Repr, Scalar};

/// `out[i] = left[i] op right[i]` for `count` elements at their C distances.
///
/// Safety: `left` and `right` are valid for reads and `out` for writes of so many elements. They
/// need no alignment. `out` may be one of the others, and must not overlap them otherwise.
pub(super) type Kernel = unsafe fn(left: *const u8, right: *const u8, out: *mut u8, count: usize);

/// Levels of vector instructions, each including the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// What every processor of the target has.
    Baseline,
    /// 256 bits.
    Avx2,
    /// 512 bits, for elements of any size.
    Avx512,
}

impl Level {
    /// Returns the highest level of this processor.
    #[inline]
    pub(super) fn best() -> Level {
        #[cfg(target_arch = "x86_64")]
        {
            // The first processors with AVX-512 run slower for a while after each use. None of them
            // has VBMI.
            if is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                return Level::Avx512;
            }
            if is_x86_feature_detected!("avx2") {
                return Level::Avx2;
            }
        }
        Level::Baseline
    }
}

/// Returns the best loop for an operation on a machine type; `None` if there is none. Whether MPI
/// permits the operation is decided elsewhere.
#[inline]
pub(super) fn kernel(op: BuiltinOp, repr: Repr) -> Option<Kernel> {
    kernel_of(Level::best(), op, repr)
}

/// Returns the loop of a level, which this processor must have.
pub(super) fn kernel_of(level: Level, op: BuiltinOp, repr: Repr) -> Option<Kernel> {
    match repr {
        Repr::Single(scalar) => single(level, op, scalar),
        Repr::Pair(Scalar::F32, Scalar::F32) => located::<f32, f32>(level, op),
        Repr::Pair(Scalar::F64, Scalar::F64) => located::<f64, f64>(level, op),
        Repr::Pair(value, index) => pair(level, op, value, index),
    }
}

fn single(level: Level, op: BuiltinOp, scalar: Scalar) -> Option<Kernel> {
    match scalar {
        Scalar::I8 => integer::<i8>(level, op),
        Scalar::I16 => integer::<i16>(level, op),
        Scalar::I32 => integer::<i32>(level, op),
        Scalar::I64 | Scalar::Long => integer::<i64>(level, op),
        Scalar::I128 => integer::<i128>(level, op),
        Scalar::U8 => integer::<u8>(level, op),
        Scalar::U16 => integer::<u16>(level, op),
        Scalar::U32 => integer::<u32>(level, op),
        Scalar::U64 | Scalar::ULong => integer::<u64>(level, op),
        Scalar::F16 => half_floating(op),
        Scalar::F32 => floating::<f32>(level, op),
        Scalar::F64 => floating::<f64>(level, op),
        Scalar::F128 => floating::<Binary128>(Level::Baseline, op),
        Scalar::C16 => half_complex(op),
        Scalar::C32 => complex::<f32>(level, op),
        Scalar::C64 => complex::<f64>(level, op),
        Scalar::C128 => complex::<Binary128>(Level::Baseline, op),
        Scalar::L8 => logical::<Logical<u8>>(level, op),
        Scalar::L16 => logical::<Logical<u16>>(level, op),
        Scalar::L32 => logical::<Logical<u32>>(level, op),
        Scalar::L64 => logical::<Logical<u64>>(level, op),
        Scalar::L128 => logical::<Logical<u128>>(level, op),
        Scalar::Byte => bitwise::<u8>(level, op),
        #[cfg(target_arch = "x86_64")]
        Scalar::LongDouble => match op {
            BuiltinOp::Sum => Some(x87::sum),
            BuiltinOp::Prod => Some(x87::product),
            _ => floating::<LongDouble>(level, op),
        },
        #[cfg(target_arch = "x86_64")]
        Scalar::CLongDouble => complex::<LongDouble>(level, op),
        _ => None,
    }
}

fn integer<T: Number + Ordered + Bits + Truth>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    arithmetic::<T>(level, op)
        .or_else(|| ordered::<T>(level, op))
        .or_else(|| bitwise::<T>(level, op))
        .or_else(|| logical::<T>(level, op))
}

fn floating<T: Number + Ordered>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    arithmetic::<T>(level, op).or_else(|| ordered::<T>(level, op))
}

fn complex<T: Number>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    arithmetic::<Complex<T>>(level, op)
}

fn half_floating(op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Sum => Some(halves::<f32, Sum, 1>),
        BuiltinOp::Prod => Some(halves::<f32, Prod, 1>),
        BuiltinOp::Min => Some(halves::<f32, Min, 1>),
        BuiltinOp::Max => Some(halves::<f32, Max, 1>),
        _ => None,
    }
}

fn half_complex(op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Sum => Some(halves::<Complex<f32>, Sum, 2>),
        BuiltinOp::Prod => Some(halves::<Complex<f32>, Prod, 2>),
        _ => None,
    }
}

fn arithmetic<T: Number>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Sum => Some(pick::<T, Sum>(level)),
        BuiltinOp::Prod => Some(pick::<T, Prod>(level)),
        _ => None,
    }
}

fn ordered<T: Ordered>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Min => Some(pick::<T, Min>(level)),
        BuiltinOp::Max => Some(pick::<T, Max>(level)),
        _ => None,
    }
}

fn bitwise<T: Bits>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Band => Some(pick::<T, Band>(level)),
        BuiltinOp::Bor => Some(pick::<T, Bor>(level)),
        BuiltinOp::Bxor => Some(pick::<T, Bxor>(level)),
        _ => None,
    }
}

fn logical<T: Truth>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Land => Some(pick::<T, Land>(level)),
        BuiltinOp::Lor => Some(pick::<T, Lor>(level)),
        BuiltinOp::Lxor => Some(pick::<T, Lxor>(level)),
        _ => None,
    }
}

fn pair(level: Level, op: BuiltinOp, value: Scalar, index: Scalar) -> Option<Kernel> {
    match value {
        Scalar::I8 => indexed::<i8>(level, op, index),
        Scalar::I16 => indexed::<i16>(level, op, index),
        Scalar::I32 => indexed::<i32>(level, op, index),
        Scalar::I64 | Scalar::Long => indexed::<i64>(level, op, index),
        Scalar::U8 => indexed::<u8>(level, op, index),
        Scalar::U16 => indexed::<u16>(level, op, index),
        Scalar::U32 => indexed::<u32>(level, op, index),
        Scalar::U64 | Scalar::ULong => indexed::<u64>(level, op, index),
        Scalar::F32 => indexed::<f32>(level, op, index),
        Scalar::F64 => indexed::<f64>(level, op, index),
        Scalar::F128 => indexed::<Binary128>(Level::Baseline, op, index),
        #[cfg(target_arch = "x86_64")]
        Scalar::LongDouble => indexed::<LongDouble>(level, op, index),
        _ => None,
    }
}

fn indexed<V: Ordered>(level: Level, op: BuiltinOp, index: Scalar) -> Option<Kernel> {
    match index {
        Scalar::I8 => located::<V, i8>(level, op),
        Scalar::I16 => located::<V, i16>(level, op),
        Scalar::I32 => located::<V, i32>(level, op),
        Scalar::I64 | Scalar::Long => located::<V, i64>(level, op),
        Scalar::U8 => located::<V, u8>(level, op),
        Scalar::U16 => located::<V, u16>(level, op),
        Scalar::U32 => located::<V, u32>(level, op),
        Scalar::U64 | Scalar::ULong => located::<V, u64>(level, op),
        _ => None,
    }
}

fn located<V: Ordered, I: Ordered>(level: Level, op: BuiltinOp) -> Option<Kernel> {
    // Gaps are not vectorised at any level.
    let level = if size_of::<V>() == size_of::<I>() { level } else { Level::Baseline };
    match op {
        BuiltinOp::Minloc => Some(pick::<Pair<V, I>, Minloc>(level)),
        BuiltinOp::Maxloc => Some(pick::<Pair<V, I>, Maxloc>(level)),
        _ => None,
    }
}

/// Returns the loop of a level.
fn pick<T: Copy, O: Combine<T>>(level: Level) -> Kernel {
    #[cfg(target_arch = "x86_64")]
    match level {
        Level::Avx512 => return avx512::<T, O>,
        Level::Avx2 => return avx2::<T, O>,
        Level::Baseline => {}
    }
    let _ = level;
    baseline::<T, O>
}

/// The loop. In place it is another one, since vectors need operands that do not overlap the
/// result, or are the result.
#[inline(always)]
unsafe fn each<T: Copy, O: Combine<T>>(
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    let (left, out) = (left.cast::<T>(), out.cast::<T>());
    let combine = |right: *const T| {
        for index in 0..count {
            // SAFETY: element `index` of each array, valid by the caller's promise; unaligned
            // accesses need no alignment.
            unsafe {
                let value =
                    O::combine(left.add(index).read_unaligned(), right.add(index).read_unaligned());
                out.add(index).write_unaligned(value);
            }
        }
    };
    if right.cast::<T>() == out.cast_const() {
        combine(out);
    } else {
        combine(right.cast());
    }
}

unsafe fn baseline<T: Copy, O: Combine<T>>(
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise, passed on.
    unsafe { each::<T, O>(left, right, out, count) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<T: Copy, O: Combine<T>>(
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise, passed on.
    unsafe { each::<T, O>(left, right, out, count) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn avx512<T: Copy, O: Combine<T>>(
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise, passed on.
    unsafe { each::<T, O>(left, right, out, count) }
}

/// Combines half precision with `PARTS` numbers in an element: widened, combined as `T` and rounded
/// back, in batches, for which processors have instructions.
unsafe fn halves<T: Copy, O: Combine<T>, const PARTS: usize>(
    left: *const u8,
    right: *const u8,
    out: *mut u8,
    count: usize,
) {
    const BATCH: usize = 64;
    let numbers = count * PARTS;
    for first in (0..numbers).step_by(BATCH) {
        let many = BATCH.min(numbers - first);
        let (mut narrow, mut wide) = ([f16::ZERO; BATCH], [[0_f32; BATCH]; 2]);
        let at = 2 * first;
        // SAFETY: `many` numbers of each array, valid by the caller's promise, are copied into and
        // out of a local array of `BATCH`. `T` is `PARTS` numbers of `f32`, so `BATCH / PARTS`
        // elements fill a local array.
        unsafe {
            for (operand, wide) in [left, right].into_iter().zip(&mut wide) {
                let from = operand.wrapping_add(at);
                std::ptr::copy_nonoverlapping(from, narrow.as_mut_ptr().cast(), 2 * many);
                narrow.convert_to_f32_slice(wide);
            }
            let [left, right] = &mut wide;
            let right = right.as_mut_ptr().cast::<u8>();
            each::<T, O>(left.as_ptr().cast(), right, right, BATCH / PARTS);
            narrow.convert_from_f32_slice(&wide[1]);
            let to = out.wrapping_add(at);
            std::ptr::copy_nonoverlapping(narrow.as_ptr().cast(), to, 2 * many);
        }
    }
}
