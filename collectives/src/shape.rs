//! Where data lies, as numbers: what an algorithm may know of a buffer.
//!
//! Algorithms see no pointers and no datatypes. They see an [`Extent`]: a count of elements, each
//! of a [`Shape`], at a displacement in one of the spaces of a call. Calls with equal shapes can
//! share a schedule.

/// One of the buffers of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// The user's send buffer; never written.
    Send,
    /// The user's receive buffer.
    Recv,
    /// Scratch memory of the call, [`temp`](crate::schedule::Schedule::temp) bytes.
    Temp,
    /// The slots of the current round of the collective segment.
    CollSegment,
    /// The slots of the round before, of the same call, in a segment with flags.
    PreviousSlots,
}

/// Elements in one of the call's buffers, as a schedule names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// In which buffer.
    pub space: Space,
    /// Of which type.
    pub ty: Ty,
    /// Bytes from the buffer's address to the first element.
    pub disp: i64,
    /// How many elements.
    pub count: u64,
}

/// Equal spans at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strided {
    /// The first.
    pub first: Span,
    /// How many there are.
    pub many: u32,
    /// Bytes from one to the next.
    pub distance: i64,
}

impl Span {
    /// A span of no bytes.
    pub const NOTHING: Span = Span { space: Space::Temp, ty: Ty::BYTES, disp: 0, count: 0 };
}

/// Which of the call's types an element is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ty(pub u32);

impl Ty {
    /// Packed bytes.
    pub const BYTES: Ty = Ty(0);

    /// The call's type number `index`.
    pub const fn of(index: u32) -> Ty {
        Ty(index + 1)
    }

    /// The reverse of [`Ty::of`]; `None` for packed bytes.
    #[inline]
    pub const fn index(self) -> Option<usize> {
        match self.0 {
            0 => None,
            n => Some(n as usize - 1),
        }
    }
}

/// The properties of a datatype that an algorithm needs. All in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Packed size of one element.
    pub size: u64,
    /// Distance from one element to the next (MPI-5.0 §5.1.7).
    pub extent: i64,
    /// First byte that holds data, relative to the element's address.
    pub true_lb: i64,
    /// One past the last byte that holds data.
    pub true_ub: i64,
    /// Any number of elements is one gapless run that starts at its address,
    /// so that it may be cut between any two bytes.
    pub gapless: bool,
}

impl Shape {
    /// One byte.
    pub const BYTE: Shape = Shape::gapless(1);

    /// A type of `size` bytes without gaps.
    pub const fn gapless(size: u64) -> Shape {
        Shape { size, extent: size as i64, true_lb: 0, true_ub: size as i64, gapless: true }
    }

    /// The bytes that `count` elements touch, relative to the first one's
    /// address: `low .. high`. Extents may be negative.
    pub fn reach(&self, count: u64) -> (i64, i64) {
        if count == 0 || self.size == 0 {
            return (0, 0);
        }
        let last = (count as i64 - 1) * self.extent;
        (self.true_lb + last.min(0), self.true_ub + last.max(0))
    }
}

/// `count` elements of one type, one after the other, in one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Extent {
    /// In which buffer.
    pub space: Space,
    /// Of which type.
    pub ty: Ty,
    /// Bytes from the buffer's address to the first element.
    pub disp: i64,
    /// How many elements.
    pub count: u64,
    /// The numbers of `ty`.
    pub shape: Shape,
}

impl Extent {
    /// Elements of the call's type `ty` from the start of `space`.
    pub const fn new(space: Space, ty: Ty, count: u64, shape: Shape) -> Extent {
        Extent { space, ty, disp: 0, count, shape }
    }

    /// The elements `from .. from + count` of it.
    pub fn part(&self, from: u64, count: u64) -> Extent {
        debug_assert!(from + count <= self.count, "part outside the run");
        Extent { disp: self.disp + from as i64 * self.shape.extent, count, ..*self }
    }

    /// The elements numbered by a range.
    pub fn range(&self, range: &std::ops::Range<u64>) -> Extent {
        self.part(range.start, range.end - range.start)
    }

    /// Cuts it into `parts` runs of equal counts.
    pub fn split(&self, parts: u32) -> Vec<Extent> {
        let each = self.count / u64::from(parts);
        (0..u64::from(parts)).map(|index| self.part(index * each, each)).collect()
    }

    /// The same extent as packed bytes; `None` if there are gaps.
    pub fn as_bytes(&self) -> Option<Extent> {
        let bytes = Extent { ty: Ty::BYTES, count: self.bytes(), shape: Shape::BYTE, ..*self };
        (self.shape.gapless || self.bytes() == 0).then_some(bytes)
    }

    /// Packed bytes in all.
    pub const fn bytes(&self) -> u64 {
        self.count * self.shape.size
    }

    /// The input of a schedule.
    pub const fn span(&self) -> Span {
        Span { space: self.space, ty: self.ty, disp: self.disp, count: self.count }
    }
}

/// Cuts `count` things into `parts` nearly equal pieces; the piece `index`.
pub fn piece(count: u64, parts: u64, index: u64) -> std::ops::Range<u64> {
    let (each, rest) = (count / parts, count % parts);
    let start = |i: u64| i * each + i.min(rest);
    start(index)..start(index + 1)
}

/// Returns extents that follow each other as one run of bytes; `None` if there are gaps.
pub(crate) fn joined(extents: &[Extent]) -> Option<Extent> {
    let first = extents.first()?.as_bytes()?;
    extents[1..].iter().try_fold(first, |all, next| {
        let next = next.as_bytes()?;
        let follows = next.space == all.space && next.disp == all.disp + all.count as i64;
        follows.then_some(Extent { count: all.count + next.count, ..all })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_everything_once() {
        for (count, parts) in [(0, 3), (1, 3), (10, 3), (9, 3), (u64::MAX / 2, 7)] {
            let mut at = 0;
            for i in 0..parts {
                let piece = piece(count, parts, i);
                assert_eq!(piece.start, at);
                at = piece.end;
            }
            assert_eq!(at, count);
        }
    }

    #[test]
    fn reach_knows_gaps_and_negative_extents() {
        let shape = Shape { size: 12, extent: 16, true_lb: 0, true_ub: 12, gapless: false };
        assert_eq!(shape.reach(3), (0, 44));
        let back = Shape { extent: -16, true_lb: 4, true_ub: 16, ..shape };
        assert_eq!(back.reach(3), (-28, 16));
        assert_eq!(back.reach(0), (0, 0));
    }
}
