//! What a window's check of accesses consists of, and what it reports (`rma.check`).

use crate::ledger::Ledger;

/// What the layer above contributes to the check.
#[derive(Clone, Copy, Debug)]
pub struct Hooks {
    /// Returns the number of the current call.
    pub current_call: fn() -> u32,
    /// Reports a conflict.
    pub report: fn(&Conflict<'_>),
}

/// Two accesses that conflict.
#[derive(Clone, Copy, Debug)]
pub struct Conflict<'a> {
    /// The window, described for a report.
    pub window: &'a str,
    /// The rank whose memory they access.
    pub target: u32,
    /// Ranges are addresses.
    pub is_dynamic: bool,
    /// By rank, then by range.
    pub accesses: [Access; 2],
}

/// One of two accesses that conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Access {
    /// The rank in the window that called.
    pub origin: u32,
    /// Begin and end of its bytes that meet the other's, from the begin of the target's memory.
    pub range: (i64, i64),
    /// The number of its call ([`Hooks::current_call`]).
    pub call: u32,
}

/// The state of a window's check.
#[derive(Debug)]
pub(crate) struct Check {
    pub(crate) hooks: Hooks,
    pub(crate) ledger: Ledger,
    /// Describes the window in reports.
    pub(crate) name: String,
}
