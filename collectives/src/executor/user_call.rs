//! Calls of a user's reduction function, which the executor hands out: the function may call MPI;
//! therefore no lock may be held around it.

use std::sync::Arc;

use objects::op::UserOp;
use objects::{Buffer, Datatype, Operands};

use super::collective_id::CollectiveId;

/// Bytes of a vector that a function is given at a time: the data that it reads and writes is in
/// the cache.
const PIECE_BYTES: u64 = 256 << 10;

/// A user's reduction, to be called outside of everything.
pub struct UserCall {
    pub(super) id: CollectiveId,
    pub(super) op: Arc<UserOp>,
    pub(super) left: Operands,
    pub(super) inout: Buffer,
    pub(super) count: u64,
    pub(super) datatype: Datatype,
    /// The datatype's handle in the ABI.
    pub(super) handle: usize,
}

/// A user's reduction that has been called.
#[must_use]
pub struct UserReturn(pub(super) CollectiveId);

impl UserCall {
    /// Returns the datatype of the operands, and the handle that the function gets, which was the
    /// datatype's at the collective call.
    pub fn datatype(&self) -> (&Datatype, usize) {
        (&self.datatype, self.handle)
    }

    /// Gives the function another handle of the datatype.
    #[must_use]
    pub fn with_handle(self, handle: usize) -> UserCall {
        UserCall { handle, ..self }
    }

    /// Calls the user's function, in pieces where the vector is long. No lock may be held.
    pub fn run(self) -> UserReturn {
        let piece = (PIECE_BYTES / self.datatype.size().max(1)).max(1);
        for left in self.left.backwards() {
            let mut first = 0;
            while first < self.count {
                let count = piece.min(self.count - first);
                let part = |buffer: &Buffer| buffer.elements(first, count, &self.datatype);
                self.op.call(&part(&left), &part(&self.inout), &self.datatype, self.handle);
                first += count;
            }
        }
        UserReturn(self.id)
    }
}
