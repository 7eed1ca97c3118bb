//! The reduction loops: one small function for each operation and machine type,
//! picked from a table at run time.
//!
//! On x86-64 each loop exists twice, for the baseline and for AVX2; the compiler
//! vectorises both. Pairs and long doubles gain nothing from that and exist once.

#![allow(unsafe_code)]

use half::f16;
use half::slice::HalfFloatSliceExt;

use super::BuiltinOp;
use super::elements::*;
#[cfg(target_arch = "x86_64")]
use super::x87::{self, LongDouble};
use crate::datatype::{Repr, Scalar};

/// `inout[i] = left[i] op inout[i]` for `count` elements at their C distances.
///
/// Safety: `left` is valid for reads and `inout` for reads and writes of so many elements. They
/// need no alignment and must not overlap, but may be the same.
pub(super) type Kernel = unsafe fn(left: *const u8, inout: *mut u8, count: usize);

/// Returns the loop for an operation on a machine type; `None` if there is none. Whether MPI
/// permits the operation is decided elsewhere.
pub(super) fn kernel(op: BuiltinOp, repr: Repr) -> Option<Kernel> {
    match repr {
        Repr::Single(scalar) => single(op, scalar),
        Repr::Pair(Scalar::F32, Scalar::F32) => located::<f32, f32>(op),
        Repr::Pair(Scalar::F64, Scalar::F64) => located::<f64, f64>(op),
        Repr::Pair(value, index) => pair(op, value, index),
    }
}

fn single(op: BuiltinOp, scalar: Scalar) -> Option<Kernel> {
    match scalar {
        Scalar::I8 => integer::<i8>(op),
        Scalar::I16 => integer::<i16>(op),
        Scalar::I32 => integer::<i32>(op),
        Scalar::I64 | Scalar::Long => integer::<i64>(op),
        Scalar::I128 => integer::<i128>(op),
        Scalar::U8 => integer::<u8>(op),
        Scalar::U16 => integer::<u16>(op),
        Scalar::U32 => integer::<u32>(op),
        Scalar::U64 | Scalar::ULong => integer::<u64>(op),
        Scalar::F16 => half_floating(op),
        Scalar::F32 => floating::<f32>(op),
        Scalar::F64 => floating::<f64>(op),
        Scalar::C16 => half_complex(op),
        Scalar::C32 => complex::<f32>(op),
        Scalar::C64 => complex::<f64>(op),
        Scalar::L8 => logical::<u8>(op),
        Scalar::L16 => logical::<u16>(op),
        Scalar::L32 => logical::<u32>(op),
        Scalar::L64 => logical::<u64>(op),
        Scalar::L128 => logical::<u128>(op),
        Scalar::Byte => bitwise::<u8>(op),
        #[cfg(target_arch = "x86_64")]
        Scalar::LongDouble => match op {
            BuiltinOp::Sum => Some(x87::sum),
            BuiltinOp::Prod => Some(x87::product),
            _ => floating::<LongDouble>(op),
        },
        #[cfg(target_arch = "x86_64")]
        Scalar::CLongDouble => complex::<LongDouble>(op),
        _ => None,
    }
}

fn integer<T: Number + Ordered + Bits + Truth>(op: BuiltinOp) -> Option<Kernel> {
    arithmetic::<T>(op)
        .or_else(|| ordered::<T>(op))
        .or_else(|| bitwise::<T>(op))
        .or_else(|| logical::<T>(op))
}

fn floating<T: Number + Ordered>(op: BuiltinOp) -> Option<Kernel> {
    match op {
        // With AVX2 the compiler uses masked stores here, which are three times as slow.
        BuiltinOp::Min => Some(baseline::<T, Min>),
        BuiltinOp::Max => Some(baseline::<T, Max>),
        _ => arithmetic::<T>(op),
    }
}

fn complex<T: Number>(op: BuiltinOp) -> Option<Kernel> {
    arithmetic::<Complex<T>>(op)
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

fn arithmetic<T: Number>(op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Sum => Some(pick::<T, Sum>()),
        BuiltinOp::Prod => Some(pick::<T, Prod>()),
        _ => None,
    }
}

fn ordered<T: Ordered>(op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Min => Some(pick::<T, Min>()),
        BuiltinOp::Max => Some(pick::<T, Max>()),
        _ => None,
    }
}

fn bitwise<T: Bits>(op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Band => Some(pick::<T, Band>()),
        BuiltinOp::Bor => Some(pick::<T, Bor>()),
        BuiltinOp::Bxor => Some(pick::<T, Bxor>()),
        _ => None,
    }
}

fn logical<T: Truth>(op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Land => Some(pick::<T, Land>()),
        BuiltinOp::Lor => Some(pick::<T, Lor>()),
        BuiltinOp::Lxor => Some(pick::<T, Lxor>()),
        _ => None,
    }
}

fn pair(op: BuiltinOp, value: Scalar, index: Scalar) -> Option<Kernel> {
    match value {
        Scalar::I8 => indexed::<i8>(op, index),
        Scalar::I16 => indexed::<i16>(op, index),
        Scalar::I32 => indexed::<i32>(op, index),
        Scalar::I64 | Scalar::Long => indexed::<i64>(op, index),
        Scalar::U8 => indexed::<u8>(op, index),
        Scalar::U16 => indexed::<u16>(op, index),
        Scalar::U32 => indexed::<u32>(op, index),
        Scalar::U64 | Scalar::ULong => indexed::<u64>(op, index),
        Scalar::F32 => indexed::<f32>(op, index),
        Scalar::F64 => indexed::<f64>(op, index),
        #[cfg(target_arch = "x86_64")]
        Scalar::LongDouble => indexed::<LongDouble>(op, index),
        _ => None,
    }
}

fn indexed<V: Ordered>(op: BuiltinOp, index: Scalar) -> Option<Kernel> {
    match index {
        Scalar::I8 => located::<V, i8>(op),
        Scalar::I16 => located::<V, i16>(op),
        Scalar::I32 => located::<V, i32>(op),
        Scalar::I64 | Scalar::Long => located::<V, i64>(op),
        Scalar::U8 => located::<V, u8>(op),
        Scalar::U16 => located::<V, u16>(op),
        Scalar::U32 => located::<V, u32>(op),
        Scalar::U64 | Scalar::ULong => located::<V, u64>(op),
        _ => None,
    }
}

fn located<V: Ordered, I: Ordered>(op: BuiltinOp) -> Option<Kernel> {
    match op {
        BuiltinOp::Minloc => Some(baseline::<Pair<V, I>, Minloc>),
        BuiltinOp::Maxloc => Some(baseline::<Pair<V, I>, Maxloc>),
        _ => None,
    }
}

/// Returns the best loop for this processor.
fn pick<T: Copy, O: Combine<T>>() -> Kernel {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        return avx2::<T, O>;
    }
    baseline::<T, O>
}

#[inline(always)]
unsafe fn each<T: Copy, O: Combine<T>>(left: *const u8, inout: *mut u8, count: usize) {
    let (left, inout) = (left.cast::<T>(), inout.cast::<T>());
    for index in 0..count {
        // SAFETY: element `index` of both arrays, valid by the caller's promise;
        // unaligned accesses need no alignment.
        unsafe {
            let value =
                O::combine(left.add(index).read_unaligned(), inout.add(index).read_unaligned());
            inout.add(index).write_unaligned(value);
        }
    }
}

unsafe fn baseline<T: Copy, O: Combine<T>>(left: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: the caller's promise, passed on.
    unsafe { each::<T, O>(left, inout, count) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn avx2<T: Copy, O: Combine<T>>(left: *const u8, inout: *mut u8, count: usize) {
    // SAFETY: the caller's promise, passed on.
    unsafe { each::<T, O>(left, inout, count) }
}

/// Combines half precision with `PARTS` numbers in an element: widened, combined as `T` and rounded
/// back, in batches, for which processors have instructions.
unsafe fn halves<T: Copy, O: Combine<T>, const PARTS: usize>(
    left: *const u8,
    inout: *mut u8,
    count: usize,
) {
    const BATCH: usize = 64;
    let numbers = count * PARTS;
    for first in (0..numbers).step_by(BATCH) {
        let many = BATCH.min(numbers - first);
        let (mut narrow, mut wide) = ([f16::ZERO; BATCH], [[0_f32; BATCH]; 2]);
        let (from, to) = (left.wrapping_add(2 * first), inout.wrapping_add(2 * first));
        // SAFETY: `many` numbers of either array, valid by the caller's promise,
        // are copied into and out of a local array of `BATCH`. `T` is `PARTS`
        // numbers of `f32`, so `BATCH / PARTS` elements fill a local array.
        unsafe {
            std::ptr::copy_nonoverlapping(from, narrow.as_mut_ptr().cast(), 2 * many);
            narrow.convert_to_f32_slice(&mut wide[0]);
            std::ptr::copy_nonoverlapping(to, narrow.as_mut_ptr().cast(), 2 * many);
            narrow.convert_to_f32_slice(&mut wide[1]);
            let [left, right] = &mut wide;
            each::<T, O>(left.as_ptr().cast(), right.as_mut_ptr().cast(), BATCH / PARTS);
            narrow.convert_from_f32_slice(&wide[1]);
            std::ptr::copy_nonoverlapping(narrow.as_ptr().cast(), to, 2 * many);
        }
    }
}
