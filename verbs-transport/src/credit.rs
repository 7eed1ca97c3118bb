//! The endpoints whose credit needs attention.
//!
//! Invariant: every endpoint with a frame refused for lack of space is in `blocked`. Every one that
//! must send an acknowledgement or another control message is in `due`. Every connected one whose
//! peer has a low window is in `low`.

use crate::datagram::Micros;
use crate::endpoints::Endpoints;

/// Endpoints that owe credit, and endpoints without space.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    /// Endpoints that must send a control message.
    pub(crate) due: Vec<u32>,
    /// Endpoints whose peers have low windows, and some that had.
    pub(crate) low: Vec<u32>,
    /// When those that send much were looked for last.
    pub(crate) raised_at: Micros,
    /// Number of windows that were lowered.
    pub(crate) lowered: u64,
    /// Endpoints that had no space when last tried.
    blocked: Vec<u32>,
}

impl Credit {
    /// Records that endpoint `at` must send the control message with this code.
    pub(crate) fn owe(&mut self, endpoints: &mut Endpoints, at: usize, code: u32) {
        endpoints[at].flow.due.add(code);
        self.due.push(at as u32);
    }

    /// Records that endpoint `at` had no space for a frame.
    pub(crate) fn block(&mut self, endpoints: &mut Endpoints, at: usize) {
        let flow = &mut endpoints[at].flow;
        flow.no_credit = true;
        if !std::mem::replace(&mut flow.is_blocked, true) {
            self.blocked.push(at as u32);
        }
    }

    /// Returns whether an endpoint that had no space has some now, and forgets those that have.
    pub(crate) fn has_space_again(
        &mut self,
        endpoints: &mut Endpoints,
        depth: u32,
        has_slots: bool,
    ) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|&at| {
            let endpoint = &mut endpoints[at as usize];
            let has_space = has_slots && endpoint.has_space(depth);
            endpoint.flow.no_credit &= endpoint.failed.is_none() && !has_space;
            endpoint.flow.is_blocked = endpoint.flow.no_credit;
            endpoint.flow.is_blocked
        });
        self.blocked.len() < before
    }
}
