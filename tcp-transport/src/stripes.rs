//! Gets that are divided among several streams of a peer.
//!
//! Each part is requested over another stream, and arrives there. The get is complete when all its
//! parts are.

use fabric::PeerFailed;
use rustc_hash::FxHashMap;

/// What a get completes when its last byte is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completes {
    /// The transfer with this token.
    Transfer(u64),
    /// One part of the divided get with this number.
    Part(u64),
}

/// A token, and how its transfer has ended.
pub(crate) type Outcome = (u64, Result<(), PeerFailed>);

#[derive(Debug)]
struct Divided {
    token: u64,
    /// Parts that are under way.
    left: usize,
    /// The first part that was refused.
    refused: Option<PeerFailed>,
}

/// The divided gets of a process.
#[derive(Debug, Default)]
pub(crate) struct Stripes {
    gets: FxHashMap<u64, Divided>,
}

impl Stripes {
    /// Returns true if no divided get is under way.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.gets.is_empty()
    }

    /// Begins a get of so many parts.
    pub(crate) fn begin(&mut self, number: u64, token: u64, parts: usize) {
        self.gets.insert(number, Divided { token, left: parts, refused: None });
    }

    /// Records the outcome of a get or part; returns that of its transfer if it was the last one.
    #[inline]
    pub(crate) fn complete(
        &mut self,
        what: Completes,
        outcome: Result<(), PeerFailed>,
    ) -> Option<Outcome> {
        match what {
            Completes::Transfer(token) => Some((token, outcome)),
            Completes::Part(number) => self.complete_part(number, outcome),
        }
    }

    /// Ends a get or part whose peer has failed; returns the token of its transfer, once.
    pub(crate) fn abandon(&mut self, what: Completes) -> Option<u64> {
        match what {
            Completes::Transfer(token) => Some(token),
            Completes::Part(number) => self.gets.remove(&number).map(|get| get.token),
        }
    }

    fn complete_part(&mut self, number: u64, outcome: Result<(), PeerFailed>) -> Option<Outcome> {
        let get = self.gets.get_mut(&number)?;
        get.left -= 1;
        if let Err(failure) = outcome {
            get.refused.get_or_insert(failure);
        }
        if get.left > 0 {
            return None;
        }
        let get = self.gets.remove(&number)?;
        Some((get.token, get.refused.map_or(Ok(()), Err)))
    }
}

#[cfg(test)]
mod tests {
    use fabric::Peer;

    use super::*;

    #[test]
    fn a_divided_get_is_reported_once_and_last() {
        let failure = || PeerFailed { peer: Peer(1), why: "no".into() };
        let mut stripes = Stripes::default();
        assert_eq!(stripes.complete(Completes::Transfer(4), Ok(())), Some((4, Ok(()))));
        stripes.begin(9, 5, 3);
        assert_eq!(stripes.complete(Completes::Part(9), Ok(())), None);
        assert_eq!(stripes.complete(Completes::Part(9), Err(failure())), None);
        assert_eq!(stripes.complete(Completes::Part(9), Ok(())), Some((5, Err(failure()))));
        assert!(stripes.is_empty());
        stripes.begin(10, 6, 2);
        assert_eq!(stripes.abandon(Completes::Part(10)), Some(6));
        assert_eq!(stripes.abandon(Completes::Part(10)), None);
    }
}
