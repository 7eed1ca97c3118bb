//! The elements of reductions, and how two of them combine.
//!
//! Half precision is computed as `f32` (see the kernels). Traits describe the abilities of a
//! machine type ([`Number`], [`Ordered`], [`Bits`], [`Truth`]). One empty type for each operation
//! implements it.

/// Adds and multiplies; integers wrap.
pub(super) trait Number: Copy {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

/// Has an order; a NaN is less than nothing.
pub(super) trait Ordered: Copy {
    fn less(self, other: Self) -> bool;
    /// True for a NaN. A number wins over it, so that the result does not depend on the order of
    /// ranks.
    #[inline(always)]
    fn is_unordered(self) -> bool {
        false
    }
    // Without a branch, or loops are not vectorised. Of equal zeros with different signs, and of
    // two NaNs, the result is `other` at every level of instructions.
    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        if self.less(other) | other.is_unordered() { self } else { other }
    }
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if other.less(self) | other.is_unordered() { self } else { other }
    }
}

/// Is a set of bits.
pub(super) trait Bits: Copy {
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

/// Is true or false: zero is false, and true is written as one.
pub(super) trait Truth: Copy {
    fn is_true(self) -> bool;
    fn truth(value: bool) -> Self;
}

/// A LOGICAL or a C bool. Odd values are true: some Fortran compilers write all bits, negate by
/// inverting them, and look at the lowest one alone.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct Logical<T>(T);

impl<T: Bits + From<bool> + PartialEq> Truth for Logical<T> {
    #[inline(always)]
    fn is_true(self) -> bool {
        self.0.and(true.into()) == true.into()
    }
    #[inline(always)]
    fn truth(value: bool) -> Self {
        Logical(value.into())
    }
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
        impl Ordered for $type {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
        }
        impl Bits for $type {
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
        impl Truth for $type {
            #[inline(always)]
            fn is_true(self) -> bool {
                self != 0
            }
            #[inline(always)]
            fn truth(value: bool) -> Self {
                Self::from(value)
            }
        }
    )*};
}

integers! { i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 }

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
        }
        impl Ordered for $type {
            #[inline(always)]
            fn less(self, other: Self) -> bool {
                self < other
            }
            #[inline(always)]
            fn is_unordered(self) -> bool {
                self.is_nan()
            }
        }
    )*};
}

floats! { f32 f64 }

/// A complex number as C and Fortran lay it out.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(super) struct Complex<T> {
    pub(super) re: T,
    pub(super) im: T,
}

impl<T: Number> Number for Complex<T> {
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Complex { re: self.re.add(other.re), im: self.im.add(other.im) }
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Complex { re: self.re.sub(other.re), im: self.im.sub(other.im) }
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        Complex {
            re: self.re.mul(other.re).sub(self.im.mul(other.im)),
            im: self.re.mul(other.im).add(self.im.mul(other.re)),
        }
    }
}

/// A pair type as C lays it out.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(super) struct Pair<V, I> {
    pub(super) value: V,
    pub(super) index: I,
}

/// An operation on elements of type `T`.
pub(super) trait Combine<T> {
    fn combine(left: T, right: T) -> T;
}

macro_rules! operations {
    ($($name:ident on $bound:ident: |$left:ident, $right:ident| $body:expr;)*) => {$(
        pub(super) struct $name;

        impl<T: $bound> Combine<T> for $name {
            #[inline(always)]
            fn combine($left: T, $right: T) -> T {
                $body
            }
        }
    )*};
}

operations! {
    Sum on Number: |left, right| left.add(right);
    Prod on Number: |left, right| left.mul(right);
    Min on Ordered: |left, right| left.smaller(right);
    Max on Ordered: |left, right| left.larger(right);
    Band on Bits: |left, right| left.and(right);
    Bor on Bits: |left, right| left.or(right);
    Bxor on Bits: |left, right| left.xor(right);
    Land on Truth: |left, right| T::truth(left.is_true() & right.is_true());
    Lor on Truth: |left, right| T::truth(left.is_true() | right.is_true());
    Lxor on Truth: |left, right| T::truth(left.is_true() ^ right.is_true());
}

pub(super) struct Minloc;
pub(super) struct Maxloc;

/// The better value; of equal ones the smaller index.
#[inline(always)]
fn located<V: Ordered, I: Ordered>(
    better: bool,
    worse: bool,
    left: Pair<V, I>,
    right: Pair<V, I>,
) -> Pair<V, I> {
    // Field by field and without a branch: the loops of pairs without padding are vectorised.
    let is_left = better | (!worse & left.index.less(right.index));
    Pair {
        value: if is_left { left.value } else { right.value },
        index: if is_left { left.index } else { right.index },
    }
}

impl<V: Ordered, I: Ordered> Combine<Pair<V, I>> for Minloc {
    #[inline(always)]
    fn combine(left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
        located(left.value.less(right.value), right.value.less(left.value), left, right)
    }
}

impl<V: Ordered, I: Ordered> Combine<Pair<V, I>> for Maxloc {
    #[inline(always)]
    fn combine(left: Pair<V, I>, right: Pair<V, I>) -> Pair<V, I> {
        located(right.value.less(left.value), left.value.less(right.value), left, right)
    }
}
