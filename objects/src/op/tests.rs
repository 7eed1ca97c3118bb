//! Every predefined operation on every predefined type, against scalars.

use std::cell::RefCell;

use rustc_apfloat::Float;
use rustc_apfloat::ieee::Quad;

use super::*;
use crate::Area;
use crate::buffer::tests::buffer_of;
use crate::datatype::Counting;
use crate::datatype::basic::{NAMED, Repr, Scalar};

const COUNT: usize = 67;

/// Values that show most mistakes: small, of both signs, with ties, zeros.
fn value(seed: usize, index: usize) -> i64 {
    [0, 1, 3, -2, 7, 0, -5, 100, 2, -2, 11][(index * 7 + seed * 3 + index / 11) % 11]
}

fn native(scalar: Scalar, value: i64) -> Vec<u8> {
    if let Some(part) = scalar.complex_part() {
        return [native(part, value), native(part, 2 - value)].concat();
    }
    match scalar {
        Scalar::F16 => half::f16::from_f64(value as f64).to_le_bytes().to_vec(),
        Scalar::F32 => (value as f32).to_le_bytes().to_vec(),
        Scalar::F64 => (value as f64).to_le_bytes().to_vec(),
        Scalar::F128 => Quad::from_i128(value.into()).value.to_bits().to_le_bytes().to_vec(),
        #[cfg(target_arch = "x86_64")]
        Scalar::LongDouble => x87::LongDouble::from_f64(value as f64).0.to_vec(),
        scalar if scalar.size() == 16 => i128::from(value).to_le_bytes().to_vec(),
        _ => value.to_le_bytes()[..scalar.size() as usize].to_vec(),
    }
}

/// The integer that the bytes of an integer type stand for.
fn integer(scalar: Scalar, bytes: &[u8]) -> i128 {
    let negative = scalar.is_signed() && bytes.last().is_some_and(|&byte| byte >= 0x80);
    let mut wide = if negative { [0xff; 16] } else { [0; 16] };
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}

fn number(op: BuiltinOp, left: i128, right: i128) -> i128 {
    match op {
        BuiltinOp::Sum => left.wrapping_add(right),
        BuiltinOp::Prod => left.wrapping_mul(right),
        BuiltinOp::Min => left.min(right),
        BuiltinOp::Max => left.max(right),
        BuiltinOp::Band => left & right,
        BuiltinOp::Bor => left | right,
        BuiltinOp::Bxor => left ^ right,
        BuiltinOp::Land => i128::from(left != 0 && right != 0),
        BuiltinOp::Lor => i128::from(left != 0 || right != 0),
        BuiltinOp::Lxor => i128::from((left != 0) != (right != 0)),
        _ => unreachable!(),
    }
}

/// The result for one element.
fn expected(op: BuiltinOp, basic: Basic, left: i64, right: i64) -> Vec<u8> {
    let Repr::Single(scalar) = basic.repr else { unreachable!() };
    match basic.family {
        Family::Floating => native(scalar, number(op, left.into(), right.into()) as i64),
        Family::Complex => {
            let part = scalar.complex_part().unwrap();
            let (a, b, c, d) = (left, 2 - left, right, 2 - right);
            let (re, im) = match op {
                BuiltinOp::Sum => (a + c, b + d),
                _ => (a * c - b * d, a * d + b * c),
            };
            [native(part, re), native(part, im)].concat()
        }
        _ => {
            let bits = if basic.family == Family::Logical { 1 } else { -1 };
            let (left, right) = (native(scalar, left & bits), native(scalar, right & bits));
            let result = number(op, integer(scalar, &left), integer(scalar, &right));
            result.to_le_bytes()[..left.len()].to_vec()
        }
    }
}

/// Two arrays of C structs, at an odd address to show that none need alignment.
pub(super) fn reduce(op: BuiltinOp, datatype: &Datatype, left: &[u8], right: &[u8]) -> Vec<u8> {
    let (mut left, mut inout) = ([&[0], left].concat(), [&[0], right].concat());
    let count = (right.len() as i64 / datatype.extent().1) as u64;
    let from = buffer_of(&mut left, 1, count, datatype);
    op.reduce(&from.into(), &buffer_of(&mut inout, 1, count, datatype), datatype);
    inout.split_off(1)
}

#[test]
fn every_operation_on_every_type_agrees_with_scalars() {
    let mut checked = 0;
    for &(name, basic) in NAMED.iter().filter(|(_, basic)| basic.family != Family::Pair) {
        let datatype = Datatype::predefined(basic.handle.into()).unwrap();
        let Repr::Single(scalar) = basic.repr else { unreachable!() };
        for op in BuiltinOp::ALL.into_iter().filter(|op| !op.is_rma_only() && op.applies_to(basic))
        {
            let array =
                |seed| (0..COUNT).flat_map(|i| native(scalar, value(seed, i))).collect::<Vec<_>>();
            let result = reduce(op, datatype, &array(0), &array(1));
            let size = scalar.size() as usize;
            for (i, element) in result.chunks_exact(size).enumerate() {
                let wanted = expected(op, basic, value(0, i), value(1, i));
                let (element, wanted) =
                    (unsigned_zeros(basic, element), unsigned_zeros(basic, &wanted));
                assert_eq!(element, wanted, "{name} {op:?} element {i}");
            }
            checked += 1;
        }
    }
    assert_eq!(checked, legal_singles());
}

/// Integers, from which the expected values come, have no negative zero.
fn unsigned_zeros(basic: Basic, element: &[u8]) -> Vec<u8> {
    let mut element = element.to_vec();
    let Repr::Single(scalar) = basic.repr else { unreachable!() };
    if matches!(basic.family, Family::Floating | Family::Complex) {
        let part = scalar.complex_part().unwrap_or(scalar).size() as usize;
        for part in element.chunks_exact_mut(part) {
            if part.iter().map(|&byte| u32::from(byte)).sum::<u32>() == 0x80
                && part.ends_with(&[0x80]) | (part.len() == 16)
            {
                part.fill(0);
            }
        }
    }
    element
}

/// Counted by hand from the table of MPI-5.0 §6.9.2: types of each group times
/// the operations that apply to it; with MPI_CHAR, and with the logical operations on the types of
/// all languages.
fn legal_singles() -> usize {
    let (c, fortran, floating, logical, complex, byte, multi) = (18 + 1, 6, 9, 8, 12, 1, 3);
    c * 10 + fortran * 7 + floating * 4 + logical * 3 + complex * 2 + byte * 3 + multi * 10
}

/// The C struct of a pair.
fn pair_bytes(basic: Basic, value: i64, index: i64) -> Vec<u8> {
    let Repr::Pair(v, i) = basic.repr else { unreachable!() };
    let mut bytes = native(v, value);
    bytes.resize(Repr::index_offset(v, i) as usize, 0);
    bytes.extend(native(i, index));
    bytes.resize(basic.repr.extent() as usize, 0);
    bytes
}

fn located(op: BuiltinOp, left: (i64, i64), right: (i64, i64)) -> (i64, i64) {
    match (left.0 == right.0, (left.0 < right.0) == (op == BuiltinOp::Minloc)) {
        (true, _) => (left.0, left.1.min(right.1)),
        (false, true) => left,
        (false, false) => right,
    }
}

#[test]
fn locations_are_found_on_every_pair() {
    let unnamed = [(0x210, 0x20a), (0x240, 0x201), (0x220, 0x241), (0x20e, 0x209), (0x2e2, 0x209)];
    let unnamed = unnamed.map(|(v, i)| {
        Datatype::value_index(Datatype::predefined(v).unwrap(), Datatype::predefined(i).unwrap())
            .unwrap()
    });
    let named = NAMED.iter().filter(|(_, basic)| basic.family == Family::Pair);
    let named = named.map(|(_, basic)| Datatype::predefined(basic.handle.into()).unwrap().clone());
    for datatype in named.chain(unnamed) {
        let basic = datatype.basic().unwrap();
        let Repr::Pair(v, _) = basic.repr else { unreachable!() };
        // Unsigned values compare as such.
        let sign = |value: i64| {
            if v.is_signed()
                || matches!(v, Scalar::F32 | Scalar::F64 | Scalar::LongDouble | Scalar::F128)
            {
                value
            } else {
                value.abs()
            }
        };
        let pairs = |seed: usize| {
            (0..COUNT).map(move |i| (sign(value(seed, i)), ((i + seed * 5) % 9) as i64))
        };
        for op in [BuiltinOp::Minloc, BuiltinOp::Maxloc] {
            let array = |seed| {
                pairs(seed)
                    .flat_map(|(value, index)| pair_bytes(basic, value, index))
                    .collect::<Vec<_>>()
            };
            let mut result = reduce(op, &datatype, &array(0), &array(1));
            let wanted: Vec<u8> = pairs(0)
                .zip(pairs(1))
                .map(|(left, right)| located(op, left, right))
                .flat_map(|(value, index)| pair_bytes(basic, value, index))
                .collect();
            clear_padding(basic, &mut result);
            assert_eq!(result, wanted, "{datatype:?} {op:?}");
        }
    }
}

fn clear_padding(basic: Basic, bytes: &mut [u8]) {
    let Repr::Pair(v, i) = basic.repr else { unreachable!() };
    let (gap, end) =
        (Repr::index_offset(v, i) as usize, (Repr::index_offset(v, i) + i.size()) as usize);
    for element in bytes.chunks_exact_mut(basic.repr.extent() as usize) {
        element[v.size() as usize..gap].fill(0);
        element[end..].fill(0);
    }
}

#[test]
fn integers_wrap_and_nan_loses() {
    let byte = |handle| Datatype::predefined(handle).unwrap();
    assert_eq!(reduce(BuiltinOp::Sum, byte(0x240), &[127], &[1]), [128]);
    assert_eq!(reduce(BuiltinOp::Prod, byte(0x241), &[200], &[2]), [144]);
    let nan = f64::NAN.to_le_bytes();
    let one = 1_f64.to_le_bytes();
    assert_eq!(reduce(BuiltinOp::Max, byte(0x214), &one, &nan), one);
    assert_eq!(reduce(BuiltinOp::Min, byte(0x214), &nan, &one), one);
    #[cfg(target_arch = "x86_64")]
    {
        let long = |value| x87::LongDouble::from_f64(value).0;
        let (nan, one) = (long(f64::NAN), long(1.0));
        for (left, right) in [(one, nan), (nan, one)] {
            assert_eq!(reduce(BuiltinOp::Max, byte(0x220), &left, &right), one);
            assert_eq!(reduce(BuiltinOp::Min, byte(0x220), &left, &right), one);
        }
    }
}

#[test]
fn what_the_table_does_not_allow_is_refused() {
    let refused = |op: BuiltinOp, handle: usize| {
        let result = Op::Builtin(op).check(Datatype::predefined(handle).unwrap());
        result.is_err_and(|error| error.class() == Class::Op)
    };
    assert!(refused(BuiltinOp::Band, 0x214), "bits of a double");
    assert!(refused(BuiltinOp::Max, 0x212), "order of complex numbers");
    assert!(refused(BuiltinOp::Sum, 0x21e) && refused(BuiltinOp::Sum, 0x23c), "characters");
    assert!(refused(BuiltinOp::Sum, 0x228) && refused(BuiltinOp::Minloc, 0x209));
    assert!(refused(BuiltinOp::Land, 0x219), "a Fortran integer is no truth value");
    assert!(refused(BuiltinOp::Replace, 0x209) && refused(BuiltinOp::NoOp, 0x209));
    let int = Datatype::predefined(0x209).unwrap();
    let derived = Datatype::contiguous(Counting::Int, 2, int).unwrap();
    assert_eq!(Op::Builtin(BuiltinOp::Sum).check(&derived).unwrap_err().class(), Class::Op);
    let fortran = Datatype::f90_integer(9).unwrap();
    assert!(Op::Builtin(BuiltinOp::Sum).check(&fortran).is_ok());
}

#[test]
fn handles_name_operations() {
    assert!(matches!(Op::predefined(0x21), Some(Op::Builtin(BuiltinOp::Sum))));
    assert!(matches!(Op::predefined(0x39), Some(Op::Builtin(BuiltinOp::Maxloc))));
    assert!(Op::predefined(0x20).is_none() && Op::predefined(0).is_none());
    assert!(
        Op::Builtin(BuiltinOp::Sum).commutative() && !Op::Builtin(BuiltinOp::Replace).commutative()
    );
}

thread_local! {
    static CALLS: RefCell<Vec<(usize, usize, i64, usize)>> = const { RefCell::new(Vec::new()) };
}

extern "C" fn note_int(
    left: *mut c_void,
    inout: *mut c_void,
    count: *mut c_int,
    datatype: *mut usize,
) {
    // SAFETY: as MPI_User_function is called: pointers to a count and a handle.
    let (count, datatype) = unsafe { (*count, *datatype) };
    CALLS.with_borrow_mut(|calls| {
        calls.push((left as usize, inout as usize, count.into(), datatype))
    });
}

extern "C" fn note_large(
    left: *mut c_void,
    inout: *mut c_void,
    count: *mut i64,
    datatype: *mut usize,
) {
    // SAFETY: as MPI_User_function_c is called.
    let (count, datatype) = unsafe { (*count, *datatype) };
    CALLS.with_borrow_mut(|calls| calls.push((left as usize, inout as usize, count, datatype)));
}

#[test]
fn users_functions_get_pieces_that_they_can_count() {
    let empty = Datatype::resized(Counting::Int, Datatype::byte(), 0, 1).unwrap();
    let count = i32::MAX as u64 + 10;
    // SAFETY: the functions only note their arguments; nothing is read there.
    let (left, inout, int, large) = unsafe {
        (
            Buffer::new(0x1000 as *mut u8, count, &empty),
            Buffer::new(0x2000 as *mut u8, count, &empty),
            UserOp::new(UserFunction::Int(note_int), true),
            UserOp::new(UserFunction::Large(note_large), false),
        )
    };
    int.call(&left, &inout, &empty, 0x247);
    let most = i32::MAX as usize;
    let calls = CALLS.take();
    assert_eq!(
        calls,
        [(0x1000, 0x2000, most as i64, 0x247), (0x1000 + most, 0x2000 + most, 10, 0x247)]
    );
    large.call(&left, &inout, &empty, 5);
    assert_eq!(CALLS.take(), [(0x1000, 0x2000, count as i64, 5)]);
    assert!(int.commutative() && !large.commutative());
}

#[test]
fn replace_and_no_op_match_their_names() {
    let int = Datatype::predefined(0x209).unwrap();
    assert_eq!(reduce(BuiltinOp::Replace, int, &[1; 8], &[2; 8]), [1; 8]);
    assert_eq!(reduce(BuiltinOp::NoOp, int, &[1; 8], &[2; 8]), [2; 8]);
}

#[test]
fn a_row_of_operands_is_combined_from_the_last_to_the_first() {
    let double = Datatype::predefined(0x214).unwrap();
    // Next to it 1 is lost, next to its opposite it is not.
    const LARGEST_EXACT: f64 = 9_007_199_254_740_992.0;
    let mut row: Vec<u8> = [LARGEST_EXACT, 7.0, 1.0, 7.0, -LARGEST_EXACT]
        .into_iter()
        .flat_map(f64::to_ne_bytes)
        .collect();
    let mut result = 0f64.to_ne_bytes();
    // SAFETY: the bytes of the vector, which is not changed.
    let area = unsafe { Area::new(row.as_mut_ptr(), 0, row.len() as i64) };
    BuiltinOp::Sum.reduce(
        &area.operands(0, 1, double, 3, 16),
        &buffer_of(&mut result, 0, 1, double),
        double,
    );
    assert_eq!(f64::from_ne_bytes(result), 1.0);
    assert!(
        std::panic::catch_unwind(|| area.operands(0, 1, double, 4, 16)).is_err(),
        "the last one is outside"
    );
}
