//! Small puts and gets wait in this rank's mailbox until a synchronisation, or until it is full.
//!
//! The caller delivers what waits: [`Engine::offer`], then polls with progress of its own while
//! [`Engine::is_served`] is false, then [`Engine::conclude`] until that is true.

use fabric::{HybridGet, OneSided, Post, UserBuf};
use objects::{Buffer, Class, Datatype, Error};

use crate::engine::Engine;
use crate::mailbox::{Entry, Kind, MAX_DATA, Mailbox};
use crate::origin::{Access, Place};
use crate::window::Window;
use crate::wire::Step;

/// Most bytes of an access that waits: above, a system call costs less than two copies.
const MAX_BYTES: usize = 16 << 10;

/// What became of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// It waits.
    Waits,
    /// What waits has to be delivered before.
    Full,
    /// Another path has to do it.
    Refused,
}

impl Window {
    /// Lets small accesses wait in the mailbox, if it has one.
    pub fn defer_accesses(&mut self) {
        self.deferred.is_on = true;
    }

    fn mailbox(&self) -> Option<Mailbox> {
        self.remotes[self.rank as usize].mailbox
    }

    /// Returns the own mailbox and an access as its entry, if the access may wait.
    fn entry(&self, target: u32, disp: i64, len: usize) -> Option<(Mailbox, Entry)> {
        let (mailbox, remote) = (self.mailbox()?, self.remotes.get(target as usize)?);
        let disp = u64::try_from(disp).ok()?.checked_mul(remote.unit)?;
        let may = self.deferred.is_on
            && self.check.is_none()
            && target != self.rank
            && (1..=MAX_BYTES).contains(&len);
        // In a dynamic window the region is what the target has attached there.
        let is_inside =
            self.is_dynamic() || disp <= remote.size && len as u64 <= remote.size - disp;
        if !may || !is_inside {
            return None;
        }
        self.region_of(target, disp as i64, (0, len as i64))?;
        Some((mailbox, Entry { disp, len: len as u64 }))
    }
}

impl Engine {
    /// Lets a put or get of a few bytes wait until a synchronisation.
    pub fn defer(&mut self, slot: u32, target: u32, disp: i64, what: OneSided) -> Deferral {
        let Some(window) = self.windows.at_mut(slot) else { return Deferral::Refused };
        let len = what.memory().len();
        let Some((mailbox, entry)) = window.entry(target, disp, len) else {
            return Deferral::Refused;
        };
        let is_get = matches!(what, OneSided::Get(_));
        if !window.deferred.has_space(target, is_get, len) {
            return Deferral::Full;
        }
        let is_first = window.deferred.waiting.is_empty();
        // An error of the epoch is found by the general path.
        if is_first && window.deferred.skips(target) || window.epochs.check_access(target).is_err()
        {
            return Deferral::Refused;
        }
        window.epochs.begin_access();
        (window.deferred.target, window.deferred.is_get) = (target, is_get);
        window.deferred.add(mailbox, entry, what);
        window.has_frames = true;
        Deferral::Waits
    }

    /// Returns whether accesses of the window wait.
    #[inline]
    pub fn has_deferred(&self, slot: u32) -> bool {
        self.windows.at(slot).is_some_and(Window::has_waiting)
    }

    /// Offers what waits to its target; false if the target cannot learn of it.
    pub fn offer<T: HybridGet>(&mut self, endpoint: &mut T, slot: u32) -> bool {
        let Some(window) = self.windows.at_mut(slot) else { return false };
        let (Some(mailbox), Ok(peer)) = (window.mailbox(), window.peer(window.deferred.target))
        else {
            return false;
        };
        let deferred = &mut window.deferred;
        deferred.number += 1;
        mailbox.offer(deferred.number, deferred.kind(), deferred.waiting.len());
        let mut header = Step::Offer.header(window.id, window.rank);
        header.length = deferred.number;
        match endpoint.post(peer, &header, 0, |_| {}) {
            Ok(posted) => posted == Post::Sent,
            Err(failed) => {
                self.mark_failed(failed);
                false
            }
        }
    }

    /// Returns true when the target has done what was offered.
    #[inline]
    pub fn is_served(&self, slot: u32) -> bool {
        self.windows.at(slot).is_some_and(|window| {
            let number = window.deferred.number;
            window.mailbox().is_some_and(|mailbox| mailbox.is_done(number))
        })
    }

    /// Ends an offer, by single copy if the target has not come; false while the target is at it.
    /// An error is that of the next synchronisation.
    pub fn conclude<T: HybridGet>(&mut self, endpoint: &mut T, slot: u32) -> bool {
        let Some(window) = self.windows.at_mut(slot) else { return true };
        let Some(mailbox) = window.mailbox() else { return true };
        let (id, target, number) = (window.id, window.deferred.target, window.deferred.number);
        let has_come = mailbox.is_done(number);
        if !has_come && !mailbox.withdraw(number) {
            let control = window.remotes[target as usize].control;
            if !control.is_some_and(|control| control.has_ended()) {
                return false;
            }
            // This call makes no progress that tells of failures.
            let text = format!("rank {target} has ended inside of an access to its memory");
            let error = Error::new(Class::ProcAborted, text);
            self.end_deferred(slot, Some(error));
            return true;
        }
        window.deferred.mark(target, has_come);
        let waiting = std::mem::take(&mut window.deferred.waiting);
        let (mut at, mut lost) = (0, None);
        for (entry, into) in &waiting {
            let data = mailbox.data(at, entry.len as usize);
            at += data.len();
            match into {
                Some(into) if has_come => into.copy_from(data),
                None if has_come => {}
                into => {
                    let done = self.access(endpoint, id, target, *entry, (data, *into));
                    lost = lost.or(done.err());
                }
            }
        }
        if let Some(window) = self.windows.at_mut(slot) {
            window.deferred.waiting = waiting;
        }
        self.end_deferred(slot, lost);
        true
    }

    /// Does one access by another path: a get if there is memory for it, otherwise a put.
    fn access<T: HybridGet>(
        &mut self,
        endpoint: &mut T,
        window: u64,
        target: u32,
        entry: Entry,
        (data, into): (UserBuf, Option<UserBuf>),
    ) -> objects::Result<()> {
        let unit = self.window(window)?.remotes[target as usize].unit.max(1);
        let datatype = Datatype::byte().clone();
        let place = Place { target, disp: (entry.disp / unit) as i64, count: entry.len, datatype };
        let access = match into {
            Some(into) => Access::Get(Buffer::contiguous(into)),
            None => Access::Put(Buffer::contiguous(data)),
        };
        self.start(endpoint, window, access, &place, false).map(|_| ())
    }

    fn end_deferred(&mut self, slot: u32, lost: Option<objects::Error>) {
        let Some(window) = self.windows.at_mut(slot) else { return };
        window.deferred.clear();
        let rank = window.deferred.target;
        if lost.is_some() {
            window.target(rank).lost = lost;
        }
        // Where single copy was refused, frames read the mailbox until they have left.
        window.deferred.is_on &= window.targets.get(&rank).is_none_or(|target| target.active == 0);
        window.has_frames = window.has_unfinished();
    }

    /// Does what an origin has offered.
    pub(crate) fn offer_arrived(&mut self, window: u64, origin: u32, number: u64) {
        let Some(window) = self.windows.get(&window) else { return };
        let remote = window.remotes.get(origin as usize);
        let Some(mailbox) = remote.and_then(|remote| remote.mailbox) else { return };
        let Some((kind, entries)) = mailbox.take(number) else { return };
        let mut at = 0;
        for entry in (0..entries).map(|index| mailbox.entry(index)) {
            if entry.len > (MAX_DATA - at) as u64 {
                break;
            }
            let data = mailbox.data(at, entry.len as usize);
            at += data.len();
            match (window.locate(entry.disp as i64, data.len()), kind) {
                (Some(memory), Kind::Put) => memory.copy_from(data),
                (Some(memory), Kind::Get) => data.copy_from(memory),
                // Checked at the origin.
                (None, _) => {}
            }
        }
        mailbox.finish(number);
    }
}
