//! The running result of a reduction at one rank.
//!
//! MPI's operations can only compute `inout = left op inout`. Therefore the place of the result
//! depends on the side that an operand comes from. `Fold` keeps track: operands are taken in rank
//! order. The user's send buffer is read from, and copied only if it must be. Scratch memory is
//! reserved only when two buffers do not suffice.

use std::ops::Range;

use crate::builder::Builder;
use crate::shape::Extent;

/// On which side of the running result an incoming operand goes: from lower
/// ranks on the left, from higher ones on the right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `incoming op result`.
    Left,
    /// `result op incoming`.
    Right,
}

/// Where the running result stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// In the call's input, which must not be written.
    Input,
    /// Where the final result is wanted.
    Home,
    /// In the second buffer.
    Other,
}

/// See the module.
pub(super) struct Fold {
    input: Extent,
    home: Extent,
    other: Option<Extent>,
    at: At,
    /// Where the first operand is received while the result is the input.
    first: At,
    commutative: bool,
}

impl Fold {
    /// Starts from `input`; `home` is where the result is wanted and is the
    /// input itself when in place.
    pub(super) fn new(input: Extent, home: Extent, commutative: bool) -> Fold {
        let at = if input.span() == home.span() { At::Home } else { At::Input };
        Fold { input, home, other: None, at, first: At::Home, commutative }
    }

    /// The running result.
    pub(super) fn result(&self) -> Extent {
        match self.at {
            At::Input => self.input,
            At::Home => self.home,
            At::Other => self.other.expect("the result stands there"),
        }
    }

    /// Where an operand for `side` is to be received.
    pub(super) fn incoming(&mut self, b: &mut Builder, side: Side) -> Extent {
        let first = self.commutative || side == Side::Right;
        match self.at {
            At::Input if first && self.first == At::Home => self.home,
            At::Input | At::Home => self.other(b),
            At::Other => self.home,
        }
    }

    /// Combines what stands in `incoming(side)` into the result, the elements
    /// `range` only.
    pub(super) fn combine(&mut self, b: &mut Builder, side: Side, range: &Range<u64>) {
        let incoming = self.incoming(b, side).range(range);
        let result = self.result().range(range);
        match (self.at, side) {
            (At::Input, Side::Left) if !self.commutative => {
                b.copy(result, self.home.range(range));
                b.reduce(incoming, self.home.range(range));
                self.at = At::Home;
            }
            (At::Input, _) => {
                b.reduce(result, incoming);
                self.at = self.first;
            }
            (_, Side::Right) if !self.commutative => {
                b.reduce(result, incoming);
                self.at = if self.at == At::Home { At::Other } else { At::Home };
            }
            _ => b.reduce(incoming, result),
        }
    }

    /// All elements of the result, for [`Fold::combine`].
    pub(super) fn everything(&self) -> Range<u64> {
        0..self.home.count
    }

    /// Sees to it that the elements `range` of the result stand at home.
    pub(super) fn settle(&mut self, b: &mut Builder, range: &Range<u64>) -> Extent {
        b.copy(self.result().range(range), self.home.range(range));
        self.at = At::Home;
        self.home
    }

    /// Declares that `count` right operands follow and nothing else: each moves the result to the
    /// other buffer, and the last one shall land at home.
    pub(super) fn expect_right(&mut self, count: usize) {
        self.first =
            if count.is_multiple_of(2) && !self.commutative { At::Other } else { At::Home };
    }

    fn other(&mut self, b: &mut Builder) -> Extent {
        *self.other.get_or_insert_with(|| b.like(self.home, self.home.count))
    }
}
