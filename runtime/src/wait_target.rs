//! What a blocking call waits for, by handle or id. `blocked_on` translates it for the status page.

use collectives::CollectiveId;
use pt2pt::RequestId;

/// What the last call waits for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum WaitTarget {
    /// Nothing that has a handle or an id.
    #[default]
    Nothing,
    /// The completion of a request, by its handle.
    Request(usize),
    /// The completion of a request or of others, by its handle.
    OneOf(usize),
    /// The completion of a message without a handle.
    Message(RequestId),
    /// The completion of a collective.
    Collective(CollectiveId),
    /// Other ranks of a window, by its id.
    Window(u64, rma::WaitsFor),
    /// A message to probe, by the arguments of the call.
    Probe { source: i32, tag: i32, comm: usize },
}
