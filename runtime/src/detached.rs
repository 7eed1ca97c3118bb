//! Messages that no call waits for, with their memory.

use pt2pt::RequestId;

use crate::stack::Stack;

/// A message with the memory that it is sent from or received into. Must be kept until it is over.
#[derive(Debug)]
pub(crate) struct Detached {
    request: RequestId,
    _bytes: Box<[u8]>,
}

impl Detached {
    /// Takes over the memory of a request. Boxed bytes stay where they are.
    pub(crate) fn new(request: RequestId, bytes: Box<[u8]>) -> Detached {
        Detached { request, _bytes: bytes }
    }

    /// Returns true once the message is complete, or has failed.
    pub(crate) fn is_over(&self, stack: &mut Stack) -> bool {
        stack.pt2pt().finish(self.request).is_some()
    }
}
