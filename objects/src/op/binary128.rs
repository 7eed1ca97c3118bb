//! IEEE binary128, which Fortran calls `real(16)`, in software: no processor that we build for has
//! instructions for it, and Rust has no stable type. Rounds to nearest, ties to even.

use rustc_apfloat::Float;
use rustc_apfloat::ieee::Quad;

use super::elements::{Number, Ordered};

/// A number by its bits.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(transparent)]
pub(super) struct Binary128(u128);

impl Binary128 {
    #[inline(always)]
    fn unpacked(self) -> Quad {
        Quad::from_bits(self.0)
    }

    #[inline(always)]
    fn packed(value: Quad) -> Binary128 {
        Binary128(value.to_bits())
    }
}

impl Number for Binary128 {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Binary128::packed((self.unpacked() + other.unpacked()).value)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Binary128::packed((self.unpacked() - other.unpacked()).value)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Binary128::packed((self.unpacked() * other.unpacked()).value)
    }
}

impl Ordered for Binary128 {
    #[inline(always)]
    fn less(self, other: Self) -> bool {
        self.unpacked() < other.unpacked()
    }
    #[inline(always)]
    fn is_unordered(self) -> bool {
        self.unpacked().is_nan()
    }
}
