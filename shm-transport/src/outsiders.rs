//! Outsiders: processes of other jobs on this host.
//!
//! Each job has a segment of its own. Two processes of different jobs that are about to communicate
//! open each other's. A ring lies in the segment of its receiver, at a place that follows from the
//! process number of its sender; external bodies lie in the sender's segment, as always. The sender
//! makes the ring with the first frame, sets a bit of the receiver's and counts a connect, as
//! within a job. What arrives before the receiver has met the sender waits in the ring.
//!
//! In this process outsiders have the local ranks after those of the segment. Whether they are in a
//! call of the library is not known.
//!
//! An outsider may end while this process goes on. Therefore it lends no blocks and borrows none,
//! and no process reads a body that is not written yet (`method`). `meet` makes them known, and
//! forgets them: the files and mappings of an outsider that has ended are closed once its frames
//! are read, so that a process may meet any number of jobs one after the other.

use std::sync::Arc;

use fabric::Peer;

use crate::home::Home;
use crate::segment::{Segment, SegmentError};

/// The processes of other jobs that were met.
#[derive(Debug, Default)]
pub(crate) struct Outsiders {
    /// Their segments, by their nonces.
    segments: Vec<(u64, Arc<Segment>)>,
    /// By local rank, from the segment's size on; `None` for those that were forgotten.
    all: Vec<Option<Outsider>>,
}

#[derive(Debug)]
struct Outsider {
    segment: Arc<Segment>,
    /// Its rank there.
    rank: u32,
    /// The ring from it is mapped.
    is_accepted: bool,
}

/// Returns the bit by which a process of another job says that it has connected.
pub(crate) fn outsider_bit(number: Peer) -> u64 {
    1 << (number.0 % 64)
}

impl Outsiders {
    /// Returns the segment of a local rank, and its rank there. `own` is this process's segment.
    pub(crate) fn find<'a>(&'a self, own: &'a Segment, local: u32) -> (&'a Segment, u32) {
        match local.checked_sub(own.size()).and_then(|at| self.all.get(at as usize)) {
            Some(Some(Outsider { segment, rank, .. })) => (segment, *rank),
            _ => (own, local),
        }
    }

    /// Notes that the ring from a local rank is mapped. Returns false if it was before.
    pub(crate) fn accept(&mut self, own: &Segment, local: u32) -> bool {
        let outsider = local.checked_sub(own.size()).and_then(|at| self.all.get_mut(at as usize));
        let outsider = outsider.and_then(Option::as_mut);
        outsider.is_some_and(|it| !std::mem::replace(&mut it.is_accepted, true))
    }

    /// Opens the segment of a process.
    pub(crate) fn open(&mut self, home: &Home) -> Result<Arc<Segment>, SegmentError> {
        if let Some((_, known)) = self.segments.iter().find(|(nonce, _)| *nonce == home.nonce) {
            return Ok(known.clone());
        }
        let segment = Arc::new(Segment::open(home)?);
        self.segments.push((home.nonce, segment.clone()));
        Ok(segment)
    }

    /// Adds the process with this local rank, by its segment and its rank there.
    pub(crate) fn add(&mut self, own: &Segment, local: u32, segment: Arc<Segment>, rank: u32) {
        let at = (local - own.size()) as usize;
        self.all.resize_with(self.all.len().max(at + 1), || None);
        self.all[at] = Some(Outsider { segment, rank, is_accepted: false });
    }

    /// Forgets the process with this local rank. Returns its segment if no other process of it is
    /// known.
    pub(crate) fn forget(&mut self, own: &Segment, local: u32) -> Option<Segment> {
        let Outsider { segment, .. } = self.all[(local - own.size()) as usize].take()?;
        let at = self.segments.iter().position(|(_, known)| Arc::ptr_eq(known, &segment))?;
        // The list and this function have one each.
        if Arc::strong_count(&segment) > 2 {
            return None;
        }
        self.segments.swap_remove(at);
        Arc::into_inner(segment)
    }
}
