//! Operations on MPI_REAL16 and MPI_COMPLEX32 against the bits that libgcc computes.

use super::BuiltinOp;
use super::tests::reduce;
use crate::Datatype;

const SIGN: u128 = 1 << 127;
const ONE: u128 = 0x3fff << 112;
const TWO: u128 = 0x4000 << 112;
const THREE: u128 = 0x4000_8000 << 96;
const THIRD: u128 = 0x3ffd_5555_5555_5555_5555_5555_5555_5555;
/// Half of the distance from one to the next number.
const HALF_ULP: u128 = 0x3f8e << 112;
const MAX: u128 = 0x7ffe_ffff_ffff_ffff_ffff_ffff_ffff_ffff;
const MIN_NORMAL: u128 = 1 << 112;
const INFINITY: u128 = 0x7fff << 112;
const NAN: u128 = 0x7fff_8000 << 96;

/// Two operands, their sum and their product.
const KNOWN: [[u128; 4]; 14] = [
    [THIRD, THREE, 0x4000_aaaa_aaaa_aaaa_aaaa_aaaa_aaaa_aaab, ONE],
    // Ties go to even, and what is above a tie goes up.
    [ONE, HALF_ULP, ONE, HALF_ULP],
    [ONE + 1, HALF_ULP, ONE + 2, HALF_ULP + 1],
    [ONE, HALF_ULP + 1, ONE + 1, HALF_ULP + 1],
    // Cancellation.
    [ONE + 1, SIGN | ONE, 0x3f8f << 112, SIGN | (ONE + 1)],
    [ONE, SIGN | ONE, 0, SIGN | ONE],
    // Subnormal numbers.
    [3, MIN_NORMAL - 2, MIN_NORMAL + 1, 0],
    [1, 0x3ffe << 112, 0x3ffe << 112, 0],
    [MIN_NORMAL, SIGN | MIN_NORMAL, 0, SIGN],
    // Overflow.
    [MAX, MAX, INFINITY, INFINITY],
    [MAX, ONE + 1, MAX, INFINITY],
    [INFINITY, SIGN | TWO, INFINITY, SIGN | INFINITY],
    [0, SIGN, 0, SIGN],
    [
        0x4010_d1f2_a3b4_c5d6_e7f8_091a_2b3c_4d5e,
        0xc00f_1234_5678_9abc_def0_fedc_ba98_7654,
        0x4010_48d8_7878_7878_787f_89ab_cdf0_1234,
        0xc020_f314_f5e3_c2d7_6593_8bdf_37e3_9e22,
    ],
];

fn real(op: BuiltinOp, left: u128, right: u128) -> u128 {
    let datatype = Datatype::predefined(0x2e2).unwrap();
    let result = reduce(op, datatype, &left.to_le_bytes(), &right.to_le_bytes());
    u128::from_le_bytes(result.try_into().unwrap())
}

fn complex(op: BuiltinOp, left: [u128; 2], right: [u128; 2]) -> [u128; 2] {
    let datatype = Datatype::predefined(0x2eb).unwrap();
    let bytes = |number: [u128; 2]| number.map(u128::to_le_bytes).concat();
    let result = reduce(op, datatype, &bytes(left), &bytes(right));
    [0, 16].map(|at| u128::from_le_bytes(result[at..at + 16].try_into().unwrap()))
}

#[test]
fn sums_and_products_have_the_known_bits() {
    for [a, b, sum, product] in KNOWN {
        for (a, b) in [(a, b), (b, a)] {
            assert_eq!(real(BuiltinOp::Sum, a, b), sum, "{a:x} + {b:x}");
            assert_eq!(real(BuiltinOp::Prod, a, b), product, "{a:x} * {b:x}");
            // Parts that are zero leave the other one as it is.
            assert_eq!(complex(BuiltinOp::Sum, [a, 0], [b, ONE]), [sum, ONE]);
        }
    }
    let difference = real(BuiltinOp::Sum, INFINITY, SIGN | INFINITY);
    assert!(difference & !SIGN > INFINITY, "{difference:x} is a NaN");
}

#[test]
fn complex_products_round_each_part() {
    assert_eq!(complex(BuiltinOp::Prod, [ONE, TWO], [THREE, ONE]), [ONE, 0x4001_c000 << 96]);
    // (1 + ulp)² is rounded before 1 is subtracted from it.
    let difference = complex(BuiltinOp::Prod, [ONE + 1, ONE], [ONE + 1, ONE]);
    assert_eq!(difference, [0x3f90 << 112, 0x4000 << 112 | 1]);
}

#[test]
fn numbers_are_ordered_and_win_over_nan() {
    let ascending =
        [SIGN | INFINITY, SIGN | TWO, SIGN | ONE, SIGN | 1, 0, 1, MIN_NORMAL, ONE, ONE + 1, MAX];
    for pair in ascending.windows(2) {
        for (a, b) in [(pair[0], pair[1]), (pair[1], pair[0])] {
            assert_eq!(real(BuiltinOp::Min, a, b), pair[0]);
            assert_eq!(real(BuiltinOp::Max, a, b), pair[1]);
        }
    }
    for nan in [NAN, SIGN | NAN, INFINITY | 1] {
        for op in [BuiltinOp::Min, BuiltinOp::Max] {
            assert_eq!((real(op, nan, ONE), real(op, ONE, nan)), (ONE, ONE));
        }
    }
}
