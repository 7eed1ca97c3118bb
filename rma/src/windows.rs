//! All windows of a process: by the id that all ranks know, and by the slot in this process.
//!
//! A slot is found without a hash; therefore calls of the user use it where they are short. A slot
//! is used again after its window was closed. The target that was accessed last is forgotten when a
//! window may change, but for the epoch of its lock.

use rustc_hash::FxHashMap;

use crate::recent::Recent;
use crate::window::Window;

/// The windows.
#[derive(Debug)]
pub(crate) struct Windows {
    recent: Recent,
    slots: Vec<Option<Window>>,
    by_id: FxHashMap<u64, u32>,
}

impl Windows {
    pub(crate) const fn new() -> Windows {
        let by_id = FxHashMap::with_hasher(rustc_hash::FxBuildHasher);
        Windows { recent: Recent::NONE, slots: Vec::new(), by_id }
    }

    /// Adds a window; returns its slot.
    pub(crate) fn insert(&mut self, window: Window) -> u32 {
        let vacant = self.slots.iter().position(Option::is_none);
        let slot = vacant.unwrap_or(self.slots.len());
        self.by_id.insert(window.id, slot as u32);
        match vacant {
            Some(slot) => self.slots[slot] = Some(window),
            None => self.slots.push(Some(window)),
        }
        slot as u32
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.recent.forget();
        if let Some(slot) = self.by_id.remove(&id) {
            self.slots[slot as usize] = None;
        }
    }

    pub(crate) fn get(&self, id: &u64) -> Option<&Window> {
        self.at(*self.by_id.get(id)?)
    }

    pub(crate) fn get_mut(&mut self, id: &u64) -> Option<&mut Window> {
        self.at_mut(*self.by_id.get(id)?)
    }

    /// Returns the window of a slot.
    #[inline(always)]
    pub(crate) fn at(&self, slot: u32) -> Option<&Window> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// Returns the window of a slot, to change it.
    #[inline(always)]
    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Window> {
        self.recent.forget();
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Returns the target that was accessed last.
    #[inline(always)]
    pub(crate) fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Returns the target that was accessed last and its window. It is not forgotten: the caller
    /// changes both alike.
    #[inline(always)]
    pub(crate) fn recent_mut(&mut self) -> Option<(&mut Recent, &mut Window)> {
        let window = self.slots.get_mut(self.recent.slot())?.as_mut()?;
        Some((&mut self.recent, window))
    }

    /// Remembers the target that is accessed next.
    pub(crate) fn remember(&mut self, recent: Recent) {
        self.recent = recent;
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &Window> {
        self.slots.iter().flatten()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut Window> {
        self.recent.forget();
        self.slots.iter_mut().flatten()
    }
}
