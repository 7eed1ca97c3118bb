//! What hosts send alike, joined on its way up: the ends of ranks that did not fail, and the
//! answers to `Table`.
//!
//! States of ended ranks: none -> waiting, for [`BATCH_TIME`] if others may wait for a rank of
//! them, otherwise until the job is over or a table is sent -> sent. States of tables: none ->
//! waiting, for all hosts that will answer, at most [`TABLE_TIME`] -> sent, before the ranks that
//! have ended: `mpiexec` does not wait for the table of a host whose ranks have all ended, and
//! these may have ended since.

use std::time::{Duration, Instant};

use crate::frames::{EndedRank, FromHost, HostTable};

/// Time that the end of a rank that others may wait for is held back.
const BATCH_TIME: Duration = Duration::from_millis(20);
/// Time that a table waits for those of other hosts. Each level of the tree may take so long.
const TABLE_TIME: Duration = Duration::from_millis(200);

/// Messages of one host and of those below it that were not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    ended: Vec<EndedRank>,
    tables: Vec<HostTable>,
    due: Option<Instant>,
}

impl Batch {
    /// Adds a rank that ended and did not fail.
    pub(crate) fn add_ended(&mut self, ended: EndedRank, now: Instant) {
        if ended.is_absent() {
            self.be_due(now + BATCH_TIME);
        }
        self.ended.push(ended);
    }

    /// Adds answers to `Table`; `answering`: the hosts that this process sends answers of.
    pub(crate) fn add_tables(&mut self, tables: Vec<HostTable>, answering: usize, now: Instant) {
        self.tables.extend(tables);
        let is_complete = self.tables.len() >= answering;
        self.be_due(if is_complete { now } else { now + TABLE_TIME });
    }

    fn be_due(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    /// Returns the time at which the messages are to be sent.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Returns true if the messages are to be sent now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| now >= due)
    }

    /// Takes the messages.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = FromHost> {
        let Batch { ended, tables, .. } = std::mem::take(self);
        let ended = (!ended.is_empty()).then_some(FromHost::Ended(ended));
        let tables = (!tables.is_empty()).then_some(FromHost::Tables(tables));
        tables.into_iter().chain(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_go_before_the_ends_of_their_ranks() {
        let now = Instant::now();
        let mut batch = Batch::default();
        batch.add_tables(
            vec![HostTable { first: 4, lines: Vec::new(), notes: Vec::new() }],
            2,
            now,
        );
        batch.add_ended(EndedRank { rank: 4, line: super::super::simulation::line() }, now);
        assert!(!batch.is_due(now) && batch.is_due(now + TABLE_TIME));
        let sent: Vec<FromHost> = batch.take().collect();
        assert!(matches!(sent[..], [FromHost::Tables(_), FromHost::Ended(_)]), "{sent:?}");
        assert_eq!((batch.take().count(), batch.deadline()), (0, None));
    }
}
