//! Striped transfers: large reads and writes in parts, each on a port of its own.
//!
//! A part that fails on a secondary port is transferred again through the primary one, which alone
//! reports failed peers. The reader's own device reports when a part of a read is in memory. A
//! completed write is not that: no device promises that a write through it is seen before a frame
//! through another one. Therefore each part of a write on a secondary port is followed by a read of
//! its last byte on the same connection. A device answers that after it has placed the write, and
//! on its bus the read pushes the write before it (the same is done for flushes of persistent
//! memory, and for memory of GPUs).
//!
//! Invariants: a striped transfer completes once, when all its requests have; none of them uses its
//! memory afterwards. A part that is written again has the same bytes.

use fabric::{
    Body, Header, OneSided, Peer, PeerFailed, Region, Sink, Transfer, Transport, UserBuf,
};
use rustc_hash::FxHashMap;

use crate::transport::VerbsTransport;

/// Fewest bytes of a part.
const PART_MIN: usize = 128 << 10;
/// Marks the token of a request of a part. Tokens of callers are smaller.
const PART_TOKEN: u64 = 1 << 63;
/// Marks the read that confirms a write; the two bits before it are the index of the part.
const CONFIRMS: u64 = 4;
/// Bits before the number of the transfer.
const NUMBER_SHIFT: u32 = 3;

/// The striped transfers of a process.
#[derive(Debug, Default)]
pub(crate) struct Stripes {
    /// Transfers under way, by number.
    under_way: FxHashMap<u64, Striped>,
    next_number: u64,
    /// Tokens of requests that must be carried out through the primary port.
    pub(crate) retry: Vec<u64>,
    /// Bytes that went through secondary ports.
    pub(crate) secondary_bytes: u64,
}

/// A transfer to stripe.
#[derive(Debug)]
pub(crate) struct Striped {
    pub(crate) token: u64,
    pub(crate) peer: Peer,
    pub(crate) region: Region,
    pub(crate) at: u64,
    pub(crate) what: OneSided,
    pub(crate) parts: usize,
    /// Requests that have not ended.
    left: usize,
    failure: Option<PeerFailed>,
}

impl Striped {
    /// Returns a transfer in as many parts as it has bytes for, at most one for each of `ports`;
    /// `None` if that is only one.
    pub(crate) fn new(
        token: u64,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        ports: usize,
    ) -> Option<Striped> {
        let parts = (what.memory().len() / PART_MIN).min(ports);
        let is_striped = parts > 1 && !matches!(what, OneSided::Atomic(..));
        let region = *region;
        is_striped.then_some(Striped {
            token,
            peer,
            region,
            at,
            what,
            parts,
            left: 0,
            failure: None,
        })
    }

    /// Returns where a part begins, and its length.
    fn part(&self, part: usize) -> (usize, usize) {
        let bytes = self.what.memory().len();
        let share = bytes.div_ceil(self.parts).next_multiple_of(4096);
        let begin = (part * share).min(bytes);
        (begin, share.min(bytes - begin))
    }

    /// Begins a part through a port whose key has index `key`. The result and the token are those
    /// of [`Transport::one_sided`]; a port is a transport that reads `keys[0]` alone.
    fn begin_part(
        &self,
        part: usize,
        on: &mut VerbsTransport,
        key: usize,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let (begin, len) = self.part(part);
        let memory = self.what.memory().slice(begin, len);
        let what = match self.what {
            OneSided::Put(_) => OneSided::Put(memory),
            OneSided::Get(_) | OneSided::Atomic(..) => OneSided::Get(memory),
        };
        on.one_sided(self.peer, &self.key(key), self.at + begin as u64, what, token)
    }

    /// Begins the read of the last byte of a part that is written on a secondary port.
    fn confirm_part(
        &self,
        part: usize,
        on: &mut VerbsTransport,
        into: UserBuf,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let (begin, len) = self.part(part);
        let last = self.at + (begin + len - 1) as u64;
        on.one_sided(self.peer, &self.key(part), last, OneSided::Get(into), token)
    }

    fn key(&self, key: usize) -> Region {
        Region { addr: self.region.addr, keys: [self.region.keys[key], 0, 0, 0] }
    }
}

impl Stripes {
    /// Begins a transfer, each part on the next port. Confirming reads go to `scratch`.
    pub(crate) fn begin(
        &mut self,
        mut striped: Striped,
        primary: &mut VerbsTransport,
        secondary: &mut [VerbsTransport],
        scratch: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        let number = self.next_number;
        self.next_number = (number + 1) & ((PART_TOKEN >> NUMBER_SHIFT) - 1);
        let token = |part| PART_TOKEN | number << NUMBER_SHIFT | part as u64;
        // What the primary port refuses is refused altogether: nothing is under way yet.
        let began = striped.begin_part(0, primary, 0, token(0))?;
        if !matches!(began, Transfer::Started | Transfer::Done) {
            return Ok(began);
        }
        striped.left = 1;
        for (part, port) in (1..striped.parts).zip(secondary) {
            striped.left += 1;
            let Ok(Transfer::Started) = striped.begin_part(part, port, part, token(part)) else {
                self.retry.push(token(part));
                continue;
            };
            self.secondary_bytes += striped.part(part).1 as u64;
            if let OneSided::Put(_) = striped.what {
                striped.left += 1;
                let token = token(part) | CONFIRMS;
                if !matches!(
                    striped.confirm_part(part, port, scratch, token),
                    Ok(Transfer::Started)
                ) {
                    self.retry.push(token);
                }
            }
        }
        self.under_way.insert(number, striped);
        Ok(Transfer::Started)
    }

    /// Carries out what failed on secondary ports through the primary one. A write that was not
    /// confirmed is written again.
    #[cold]
    pub(crate) fn retry_parts(&mut self, primary: &mut VerbsTransport, sink: &mut impl Sink) {
        for token in std::mem::take(&mut self.retry) {
            let Some(striped) = self.under_way.get(&number(token)) else { continue };
            match striped.begin_part((token & 3) as usize, primary, 0, token) {
                Ok(Transfer::Started) => {}
                Ok(Transfer::Done) => self.end_request(token, Ok(()), sink),
                Ok(Transfer::NoSpace | Transfer::Refused) => self.retry.push(token),
                Err(failure) => self.end_request(token, Err(failure), sink),
            }
        }
    }

    /// Handles the end of a request, and reports the transfer if it was the last one.
    fn end_request(&mut self, token: u64, outcome: Result<(), PeerFailed>, sink: &mut impl Sink) {
        let Some(striped) = self.under_way.get_mut(&number(token)) else { return };
        striped.left -= 1;
        striped.failure = striped.failure.take().or(outcome.err());
        if striped.left == 0
            && let Some(striped) = self.under_way.remove(&number(token))
        {
            sink.transferred(striped.token, striped.failure.map_or(Ok(()), Err));
        }
    }
}

fn number(token: u64) -> u64 {
    (token & !PART_TOKEN) >> NUMBER_SHIFT
}

/// The sink of one port: takes requests of parts out of what goes to the protocol.
pub(crate) struct PartSink<'a, S> {
    pub(crate) sink: &'a mut S,
    pub(crate) stripes: &'a mut Stripes,
    pub(crate) is_secondary: bool,
}

impl<S: Sink> Sink for PartSink<'_, S> {
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized)) {
        // No process of this library sends one through a secondary port.
        if !self.is_secondary {
            self.sink.frame(from, header, body);
        }
    }

    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>) {
        if token & PART_TOKEN == 0 {
            self.sink.transferred(token, outcome);
        } else if self.is_secondary && outcome.is_err() {
            self.stripes.retry.push(token);
        } else {
            self.stripes.end_request(token, outcome, self.sink);
        }
    }

    fn peer_failed(&mut self, failure: PeerFailed) {
        if !self.is_secondary {
            self.sink.peer_failed(failure);
        }
    }
}
