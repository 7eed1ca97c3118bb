//! Elements of accumulates: one predefined type, and how an operation changes them in place.
//!
//! Packed elements without gaps are changed as `combine` says. Those with gaps, and words that are
//! compared and swapped, go by the same rules here.

use fabric::UserBuf;
use objects::datatype::{Basic, Family};
use objects::op::{BuiltinOp, PackedOp, Primitive};
use objects::{Area, Datatype};

use crate::combine::{self, Executor, Olds, Operands};
use crate::device_atomic::Unclear;
use crate::{atomic, device_atomic};

/// Largest packed element, bytes.
pub(crate) const MAX_SIZE: usize = 32;

/// A predefined type.
#[derive(Clone, Debug)]
pub(crate) struct Element {
    /// Names it to other processes.
    pub(crate) code: u32,
    datatype: Datatype,
    basic: Basic,
    /// Packed bytes.
    pub(crate) size: usize,
    /// Bytes from one to the next.
    pub(crate) extent: usize,
    /// Bytes from its first to its last.
    span: usize,
}

impl Element {
    /// Returns the type of all elements of a datatype; `None` if there are several.
    pub(crate) fn of(datatype: &Datatype) -> Option<Element> {
        Element::from_code(datatype.basic_code()?)
    }

    /// Returns the type that a peer has named.
    pub(crate) fn from_code(code: u32) -> Option<Element> {
        let datatype = Datatype::from_basic_code(code)?;
        let (size, extent) = (datatype.size() as usize, datatype.extent().1 as usize);
        let (basic, span) = (datatype.basic()?, datatype.true_extent().1 as usize);
        (1..=MAX_SIZE).contains(&size).then_some(Element {
            code,
            datatype,
            basic,
            size,
            extent,
            span,
        })
    }

    /// Returns whether an operation applies.
    pub(crate) fn takes(&self, op: BuiltinOp) -> bool {
        op.applies_to(self.basic)
    }

    /// Returns the bytes that adjacent elements occupy; `None` beyond 64 bits.
    pub(crate) fn bytes(&self, count: u64) -> Option<usize> {
        let before = count.checked_sub(1)?.checked_mul(self.extent as u64)?;
        usize::try_from(before.checked_add(self.span as u64)?).ok()
    }

    /// Returns how one instruction does an operation; `None`: its elements have gaps.
    pub(crate) fn primitive(&self, op: BuiltinOp) -> Option<Primitive> {
        PackedOp::new(op, self.basic).map(PackedOp::primitive)
    }

    /// Returns whether MPI_Compare_and_swap takes the type.
    pub(crate) fn is_comparable(&self) -> bool {
        use Family::{Byte, CInteger, Char, FortranInteger, Logical, MultiLanguage};
        matches!(
            self.basic.family,
            CInteger | Char | FortranInteger | Logical | MultiLanguage | Byte
        )
    }

    /// Returns the type's name.
    pub(crate) fn name(&self) -> String {
        self.basic.name()
    }

    /// Combines packed elements with those in memory, which are adjacent; `old` gets what they
    /// were, packed. The operation must apply.
    pub(crate) fn combine(
        &self,
        op: BuiltinOp,
        by: Executor<'_>,
        at: UserBuf,
        data: &[u8],
        old: Option<&mut [u8]>,
    ) -> Result<(), Unclear> {
        let Some(packed) = PackedOp::new(op, self.basic) else {
            by.alone(|| self.combine_gapped(op, at, data, old));
            return Ok(());
        };
        combine::combine(by, packed, at, Operands::Slice(data), old.map(Olds::Slice))
    }

    fn combine_gapped(&self, op: BuiltinOp, at: UserBuf, data: &[u8], mut old: Option<&mut [u8]>) {
        for (index, operand) in data.chunks_exact(self.size).enumerate() {
            let element = Area::from(at).buffer((index * self.extent) as i64, 1, &self.datatype);
            if let Some(old) = &mut old {
                element.pack(0, &mut old[index * self.size..(index + 1) * self.size]);
            }
            op.reduce_packed(operand, &element, &self.datatype);
        }
    }

    /// Replaces one element by `new` if it equals `expected`; `old` gets what it was. All are
    /// packed; the type has no gaps.
    pub(crate) fn compare_swap(
        &self,
        by: Executor<'_>,
        at: UserBuf,
        (expected, new): (&[u8], &[u8]),
        old: &mut [u8],
    ) -> Result<(), Unclear> {
        if let Some(device) = by.device(at, self.size) {
            return device_atomic::compare_swap(device, at, (expected, new), old);
        }
        if atomic::is_atomic(at, self.size) {
            by.beside_others(|| atomic::compare_swap(at, expected, new, old));
            return Ok(());
        }
        by.alone(|| {
            at.read(0, old);
            if old == expected {
                at.write(0, new);
            }
        });
        Ok(())
    }
}
