//! Memory of this process that peers may access.
//!
//! A region has a key: its index and a generation. A key names one registration, and a peer can
//! use only those that were made for it.

use fabric::{Peer, Region, Rights, UserBuf};

#[derive(Clone, Copy, Debug)]
struct Registered {
    generation: u32,
    owner: Option<(Peer, UserBuf, Rights)>,
}

/// The registrations of a process.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    entries: Vec<Registered>,
    free: Vec<u32>,
}

/// The access that a peer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Change,
}

/// Returns the key of a region, as it travels in requests.
pub(crate) fn key(region: &Region) -> u64 {
    u64::from(region.keys[0]) | u64::from(region.keys[1]) << 32
}

impl Regions {
    /// Lets `peer` access memory.
    pub(crate) fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Region {
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Registered { generation: 0, owner: None });
            (self.entries.len() - 1) as u32
        });
        let entry = &mut self.entries[at as usize];
        entry.owner = Some((peer, memory, rights));
        Region { addr: memory.addr(), keys: [at, entry.generation, 0, 0] }
    }

    /// Ends a registration.
    pub(crate) fn release(&mut self, region: &Region) {
        let [at, generation, ..] = region.keys;
        if let Some(entry) = self.entries.get_mut(at as usize)
            && entry.generation == generation
            && entry.owner.take().is_some()
        {
            entry.generation = generation.wrapping_add(1);
            self.free.push(at);
        }
    }

    /// Returns the part of a region that a peer names; `None` unless it may access all of it.
    pub(crate) fn find(
        &self,
        peer: Peer,
        key: u64,
        (at, len): (u64, u64),
        access: Access,
    ) -> Option<UserBuf> {
        let entry = self.entries.get(key as u32 as usize)?;
        let (owner, memory, rights) = entry.owner?;
        let is_allowed = match access {
            Access::Read => matches!(rights, Rights::Get | Rights::All),
            Access::Write => matches!(rights, Rights::Put | Rights::All),
            Access::Change => rights == Rights::All,
        };
        let end = at.checked_add(len)?;
        let is_inside = end <= memory.len() as u64;
        (owner == peer && entry.generation == (key >> 32) as u32 && is_allowed && is_inside)
            .then(|| memory.slice(at as usize, len as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_of_a_key_accesses_what_it_may() {
        let memory = UserBuf::EMPTY;
        let mut regions = Regions::default();
        let region = regions.register(Peer(1), memory, Rights::Get);
        let find = |regions: &Regions, peer, key, range, access| {
            regions.find(Peer(peer), key, range, access).is_some()
        };
        let right = key(&region);
        assert!(find(&regions, 1, right, (0, 0), Access::Read));
        assert!(!find(&regions, 2, right, (0, 0), Access::Read));
        assert!(!find(&regions, 1, right + 1, (0, 0), Access::Read));
        assert!(!find(&regions, 1, right, (0, 1), Access::Read));
        assert!(!find(&regions, 1, right, (u64::MAX, 2), Access::Read));
        assert!(!find(&regions, 1, right, (0, 0), Access::Write));
        regions.release(&region);
        assert!(!find(&regions, 1, right, (0, 0), Access::Read));
        let again = regions.register(Peer(1), memory, Rights::All);
        assert_ne!(key(&again), right);
        assert!(find(&regions, 1, key(&again), (0, 0), Access::Change));
        regions.release(&region);
        assert!(find(&regions, 1, key(&again), (0, 0), Access::Change), "an old key ends nothing");
    }
}
