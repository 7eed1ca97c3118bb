//! Probes (MPI-5.0 §3.8.1, §3.8.2): a look at what has arrived, without progress.

use crate::credit::cost;
use crate::engine::Engine;
use crate::fault::CollectiveCall;
use crate::message::{MessageId, Pattern, Seen};

impl Engine {
    /// The message that a receive with this pattern would get now.
    #[inline]
    pub fn probe(&mut self, pattern: &Pattern) -> Option<Seen> {
        let found = self.unexpected.find(&pattern.key())?;
        let (key, arrived) = self.unexpected.get(found)?;
        Some(Seen { source: key.source, tag: key.tag, bytes: arrived.bytes })
    }

    /// The collective call that the message belongs to which a receive with this pattern would get
    /// now, for reports.
    #[cold]
    pub fn probe_call(&mut self, pattern: &Pattern) -> Option<CollectiveCall> {
        let found = self.unexpected.find(&pattern.key())?;
        let (_, arrived) = self.unexpected.get(found)?;
        (arrived.part_of.collective != 0).then(|| arrived.part_of.into())
    }

    /// How many messages have arrived that nothing has received or probed.
    pub fn unexpected(&self) -> usize {
        self.unexpected.len()
    }

    /// The eager data among them, in bytes as they count against the budgets. Looks
    /// at all of them.
    pub fn unexpected_bytes(&self) -> u64 {
        let mut sum = 0;
        self.unexpected.newest(|message| {
            sum += if message.is_credited { cost(message.bytes) } else { 0 };
            false
        });
        sum
    }

    /// Takes that message out of matching, to be received by its id alone.
    pub fn take(&mut self, pattern: &Pattern) -> Option<MessageId> {
        let found = self.unexpected.find(&pattern.key())?;
        self.unexpected.set_aside(found);
        Some(MessageId(found))
    }
}
