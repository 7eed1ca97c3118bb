//! The endpoints whose credit needs attention.
//!
//! Invariant: every endpoint with a frame refused for lack of space is in `blocked`. Every one that
//! must send an acknowledgement or a stop is in `due`.

use crate::endpoints::Endpoints;

/// Endpoints that owe credit, and endpoints without space.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    /// Endpoints that must report to their peer how many frames were delivered.
    pub(crate) due: Vec<u32>,
    /// Endpoints that had no space when last tried.
    blocked: Vec<u32>,
}

impl Credit {
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
