//! Puts and gets that wait in this rank's mailbox: which, for which target, and whether the next
//! one may wait as well. `offers` delivers them.
//!
//! A target that has let an offer pass is asked less often.

use fabric::{OneSided, UserBuf};

use crate::mailbox::{Entry, Kind, MAX_DATA, MAX_ENTRIES, Mailbox};

/// Most accesses that are not offered after a target has let an offer pass.
const MAX_SKIPS: u8 = 64;

/// The accesses of a window that wait.
#[derive(Debug, Default)]
pub(crate) struct Deferred {
    /// The job has a processor for each rank, so that a target may come at once.
    pub(crate) is_on: bool,
    /// The number of the latest offer.
    pub(crate) number: u64,
    pub(crate) target: u32,
    pub(crate) is_get: bool,
    /// The entries in the mailbox, and where the data of gets go.
    pub(crate) waiting: Vec<(Entry, Option<UserBuf>)>,
    /// Bytes of their data.
    pub(crate) bytes: usize,
    /// By target.
    patience: Vec<Patience>,
}

/// How a target has answered offers.
#[derive(Clone, Copy, Debug, Default)]
struct Patience {
    /// Accesses that are not to be offered.
    skips: u8,
    /// What `skips` becomes when the target lets an offer pass.
    next: u8,
}

impl Deferred {
    pub(crate) fn has_space(&self, target: u32, is_get: bool, len: usize) -> bool {
        self.waiting.is_empty()
            || self.target == target
                && self.is_get == is_get
                && self.waiting.len() < MAX_ENTRIES
                && len <= MAX_DATA - self.bytes
    }

    /// Returns whether the next access to a target is not to be offered.
    pub(crate) fn skips(&mut self, target: u32) -> bool {
        match self.patience.get_mut(target as usize) {
            Some(Patience { skips, .. }) if *skips > 0 => {
                *skips -= 1;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn add(&mut self, mailbox: Mailbox, entry: Entry, what: OneSided) {
        let memory = what.memory();
        mailbox.set_entry(self.waiting.len(), entry);
        if let OneSided::Put(from) = what {
            mailbox.data(self.bytes, from.len()).copy_from(from);
        }
        self.waiting.push((entry, matches!(what, OneSided::Get(_)).then_some(memory)));
        self.bytes += memory.len();
    }

    pub(crate) fn mark(&mut self, target: u32, has_come: bool) {
        if self.patience.len() <= target as usize {
            self.patience.resize(target as usize + 1, Patience::default());
        }
        let patience = &mut self.patience[target as usize];
        let next = if has_come { 0 } else { (patience.next * 2 + 1).min(MAX_SKIPS) };
        *patience = Patience { skips: next, next };
    }

    /// Returns what the waiting accesses are.
    pub(crate) fn kind(&self) -> Kind {
        if self.is_get { Kind::Get } else { Kind::Put }
    }

    /// Forgets what has waited.
    pub(crate) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}
