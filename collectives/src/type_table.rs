//! The datatypes of a call, which schedules name by number.

use objects::Datatype;

use crate::shape::{Shape, Ty};

/// The types of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeTable {
    pub(crate) send: Option<Datatype>,
    pub(crate) recv: Option<Datatype>,
    /// Types of the blocks of a `w` operation.
    pub(crate) blocks: Vec<Datatype>,
}

impl TypeTable {
    /// The type of that number; `None` for packed bytes.
    #[inline]
    pub(crate) fn of(&self, ty: Ty) -> Option<&Datatype> {
        match ty.index()? {
            0 => self.send.as_ref(),
            1 => self.recv.as_ref(),
            index => self.blocks.get(index - FIRST_BLOCK as usize),
        }
    }
}

/// The type of the send buffer.
pub(crate) const SEND: Ty = Ty::of(0);
/// The type of the receive buffer.
pub(crate) const RECV: Ty = Ty::of(1);
/// The number of the first block's type.
pub(crate) const FIRST_BLOCK: u32 = 2;

impl Shape {
    /// The numbers of a datatype.
    #[inline]
    pub fn of(datatype: &Datatype) -> Shape {
        let (true_lb, true_extent) = datatype.true_extent();
        Shape {
            size: datatype.size(),
            extent: datatype.extent().1,
            true_lb,
            true_ub: true_lb + true_extent,
            gapless: datatype.is_contiguous() && true_lb == 0,
        }
    }
}
