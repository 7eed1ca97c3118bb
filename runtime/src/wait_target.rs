//! What a blocking call waits for, in the terms of this process.

use collectives::CollectiveId;
use pt2pt::RequestId;

/// What the last call looked for and did not find.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum WaitTarget {
    /// Something without a name here.
    #[default]
    Nothing,
    /// The end of a request, by its handle.
    Request(usize),
    /// The end of a message that never had a handle.
    Message(RequestId),
    /// The end of a collective.
    Collective(CollectiveId),
    /// A message that could be received, by the arguments of the call.
    Probe { source: i32, tag: i32, comm: usize },
}
