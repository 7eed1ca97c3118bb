//! The endpoints whose credit needs attention.
//!
//! Invariant: every endpoint with a frame refused for lack of room is in `blocked`, and every one
//! that must send an acknowledgement or a stop is in `due`.

use crate::endpoints::Endpoints;

/// Endpoints that owe credit, and endpoints without room.
#[derive(Debug, Default)]
pub(crate) struct Credit {
    /// Endpoints that must tell their peer what was delivered.
    pub(crate) due: Vec<u32>,
    /// Endpoints that had no room when last asked.
    blocked: Vec<u32>,
}

impl Credit {
    /// Records that endpoint `at` had no room for a frame.
    pub(crate) fn block(&mut self, endpoints: &mut Endpoints, at: usize) {
        endpoints[at].flow.no_credit = true;
        if !self.blocked.contains(&(at as u32)) {
            self.blocked.push(at as u32);
        }
    }

    /// Returns whether an endpoint that had no room has some now, and forgets those that have.
    pub(crate) fn has_room_again(
        &mut self,
        endpoints: &mut Endpoints,
        depth: u32,
        has_slots: bool,
    ) -> bool {
        let before = self.blocked.len();
        self.blocked.retain(|&at| {
            let endpoint = &mut endpoints[at as usize];
            let has_room = has_slots && endpoint.has_room(depth);
            endpoint.flow.no_credit &= endpoint.failed.is_none() && !has_room;
            endpoint.flow.no_credit
        });
        self.blocked.len() < before
    }
}
