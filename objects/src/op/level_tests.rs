//! Every loop of every level against single elements: at odd lengths and addresses, into a third
//! array and in place.

use super::BuiltinOp;
use super::kernels::{Kernel, Level, kernel_of};
use crate::datatype::basic::{NAMED, Repr, Scalar};

/// The most elements; more than two vectors of the smallest ones, and a remainder.
const MAX_COUNT: usize = if cfg!(miri) { 9 } else { 150 };
/// What surrounds the result.
const GUARD: u8 = 0xa5;

/// Any bits, with zeros, ties, infinities and NaNs among them.
fn array(random: &mut fastrand::Rng, repr: Repr, count: usize) -> Vec<u8> {
    let special = [0_u8, 0x80, 0xff, 0x7f, 1];
    let size = repr.extent() as usize;
    let mut bytes: Vec<u8> = (0..count * size).map(|_| random.u8(..)).collect();
    for element in bytes.chunks_exact_mut(size) {
        if random.u8(..) < 80 {
            let fill = special[random.usize(..special.len())];
            element.fill(fill);
            if let (Repr::Single(Scalar::F32 | Scalar::F64), true) = (repr, random.bool()) {
                // An infinity, or a zero with a sign.
                let exponent: u16 = if size == 4 { 0x7f80 } else { 0x7ff0 };
                element.fill(0);
                let sign = u16::from(random.bool()) << 15;
                let top = sign | if random.bool() { exponent } else { 0 };
                element[size - 2..].copy_from_slice(&top.to_le_bytes());
            }
        }
    }
    bytes
}

/// Runs a loop with its arrays at any address; `place` says which array the result overwrites.
fn run(kernel: Kernel, place: usize, operands: [&[u8]; 2], count: usize, shift: usize) -> Vec<u8> {
    let len = operands[0].len();
    let shifted = |bytes: &[u8]| [&vec![GUARD; shift][..], bytes, &[GUARD; 64]].concat();
    let mut arrays = [shifted(operands[0]), shifted(operands[1]), shifted(&vec![GUARD; len])];
    let [left, right, out] = arrays.each_mut().map(|array| array[shift..].as_mut_ptr());
    let out = [left, right, out][place];
    // SAFETY: each array has `count` elements from its shift on; the result is one of the operands
    // or a third array.
    unsafe { kernel(left, right, out, count) }
    let array = &arrays[place];
    assert!(array[..shift].iter().chain(&array[shift + len..]).all(|&byte| byte == GUARD));
    array[shift..shift + len].to_vec()
}

/// Replaces NaNs of results by one: which payload survives is not defined.
fn canonical(op: BuiltinOp, repr: Repr, bytes: &mut [u8]) {
    let Repr::Single(scalar) = repr else { return };
    if !matches!(op, BuiltinOp::Sum | BuiltinOp::Prod) {
        return;
    }
    let part = scalar.complex_part().unwrap_or(scalar);
    for number in bytes.chunks_exact_mut(part.size() as usize) {
        let is_nan = match part {
            Scalar::F16 => half::f16::from_le_bytes([number[0], number[1]]).is_nan(),
            Scalar::F32 => f32::from_le_bytes((&*number).try_into().unwrap()).is_nan(),
            Scalar::F64 => f64::from_le_bytes((&*number).try_into().unwrap()).is_nan(),
            _ => false,
        };
        if is_nan {
            number.fill(0xff);
        }
    }
}

/// Clears the bytes of an element that hold no data.
fn without_padding(repr: Repr, bytes: &mut [u8]) {
    for element in bytes.chunks_exact_mut(repr.extent() as usize) {
        match repr {
            Repr::Single(Scalar::LongDouble) => element[10..].fill(0),
            Repr::Single(Scalar::CLongDouble) => {
                element[10..16].fill(0);
                element[26..].fill(0);
            }
            Repr::Single(_) => {}
            Repr::Pair(value, index) => {
                let at = Repr::index_offset(value, index) as usize;
                let size = if value == Scalar::LongDouble { 10 } else { value.size() as usize };
                element[size..at].fill(0);
                element[at + index.size() as usize..].fill(0);
            }
        }
    }
}

#[test]
fn all_levels_agree_with_single_elements() {
    let levels = [Level::Baseline, Level::Avx2, Level::Avx512];
    let mut random = fastrand::Rng::with_seed(20);
    let mut seen = std::collections::HashSet::new();
    for &(name, basic) in NAMED.iter() {
        for op in BuiltinOp::ALL {
            let repr = basic.repr;
            let Some(single) = kernel_of(Level::Baseline, op, repr) else { continue };
            if !seen.insert((op, repr)) {
                continue;
            }
            for (level, round) in
                levels.into_iter().flat_map(|level| (0..4).map(move |r| (level, r)))
            {
                if level > Level::best() {
                    continue;
                }
                let kernel = kernel_of(level, op, repr).unwrap();
                let (count, shift) = (random.usize(..MAX_COUNT), random.usize(..67));
                let [left, right] = [0; 2].map(|_| array(&mut random, repr, count));
                let mut wanted = right.clone();
                let size = repr.extent() as usize;
                for at in (0..count * size).step_by(size) {
                    let element = at..at + size;
                    let result =
                        run(single, 1, [&left[element.clone()], &right[element.clone()]], 1, 1);
                    wanted[element].copy_from_slice(&result);
                }
                let mut result = run(kernel, round % 3, [&left, &right], count, shift);
                for bytes in [&mut result, &mut wanted] {
                    without_padding(repr, bytes);
                    canonical(op, repr, bytes);
                }
                assert!(result == wanted, "{name} {op:?} {level:?}: {count} elements at {shift}");
            }
        }
    }
    assert!(seen.len() > 150, "{} loops", seen.len());
}
