//! This rank's memory for the devices of other hosts.
//!
//! At the first request of an origin the target registers its memory for that origin, until the
//! window is closed. In a dynamic window it registers a table instead, in which each range that is
//! attached now has a registration of its own. Attaching adds one, and detaching removes it before
//! it ends. Memory that the device refuses is not in the table, and is accessed by frames.

use fabric::{Peer, Region, Rights, Transport, UserBuf};

use crate::attached::PeerTable;

/// What was registered for one origin.
#[derive(Debug, Default)]
pub(crate) struct Export {
    /// The memory of the window, or the table; `None`: no device can access it.
    pub(crate) region: Option<Region>,
    /// In dynamic windows.
    table: Option<PeerTable>,
    /// Begin and registration of attached ranges.
    attached: Vec<(u64, Region)>,
}

impl Export {
    /// Registers the memory of a window.
    pub(crate) fn fixed<T: Transport>(endpoint: &mut T, peer: Peer, memory: UserBuf) -> Export {
        if memory.is_empty() {
            return Export::default();
        }
        Export { region: endpoint.register(peer, memory, Rights::All), ..Export::default() }
    }

    /// Registers a table of what is attached to a dynamic window.
    pub(crate) fn dynamic<T: Transport>(
        endpoint: &mut T,
        peer: Peer,
        ranges: &[UserBuf],
    ) -> Export {
        let table = PeerTable::new();
        let region = endpoint.register(peer, table.memory(), Rights::Get);
        let mut export = Export { region, table: Some(table), attached: Vec::new() };
        ranges.iter().for_each(|&memory| export.attach(endpoint, peer, memory));
        export
    }

    /// Adds memory that was attached.
    pub(crate) fn attach<T: Transport>(&mut self, endpoint: &mut T, peer: Peer, memory: UserBuf) {
        let Some(table) = self.table.as_ref().filter(|_| self.region.is_some()) else { return };
        let Some(region) = endpoint.register(peer, memory, Rights::All) else { return };
        match table.table().add(memory, &region) {
            true => self.attached.push((memory.addr(), region)),
            false => endpoint.release(peer, region),
        }
    }

    /// Removes memory that is detached.
    pub(crate) fn detach<T: Transport>(&mut self, endpoint: &mut T, peer: Peer, base: u64) {
        let Some(at) = self.attached.iter().position(|&(begin, _)| begin == base) else { return };
        if let Some(table) = &self.table {
            table.table().remove(base);
        }
        let (_, region) = self.attached.swap_remove(at);
        endpoint.release(peer, region);
    }

    /// Ends all registrations.
    pub(crate) fn release<T: Transport>(self, endpoint: &mut T, peer: Peer) {
        let attached = self.attached.into_iter().map(|(_, region)| region);
        attached.chain(self.region).for_each(|region| endpoint.release(peer, region));
    }
}
