//! Handles the records of a peer: frames go to the sink, data of one-sided transfers to or from
//! the user's memory.
//!
//! Nothing is sent here: answers are appended to the peer's stream, and written after the read.

use fabric::{Header, Reports, Sink, UserBuf};

use crate::peer::{Bulk, PeerState, Then};
use crate::regions::{Access, Regions};
use crate::stripes::Stripes;
use crate::sys;
use crate::wire::{self, Kind, MAX_PIECE, Record};

/// Why a peer is given up: it sent what no peer of this version sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) &'static str);

/// What records are handled with: one peer, and parts of the transport.
pub(crate) struct Handler<'a> {
    pub(crate) state: &'a mut PeerState,
    pub(crate) regions: &'a mut Regions,
    pub(crate) stripes: &'a mut Stripes,
    pub(crate) reports: &'a mut Reports,
    pub(crate) max_frame: usize,
    /// A peer without space has some again below this.
    pub(crate) low_water: usize,
    /// Set when a post that found no space may find some.
    pub(crate) has_space_again: &'a mut bool,
}

impl Handler<'_> {
    /// Handles the records at the start of `bytes`; returns how many bytes they have. The rest is
    /// the start of a record that has not arrived whole.
    #[inline]
    pub(crate) fn take(&mut self, bytes: &[u8], sink: &mut impl Sink) -> Result<usize, Violation> {
        let mut at = 0;
        while let Some(head) = bytes[at..].first_chunk() {
            let record = Record::decode(head, self.max_frame)
                .map_err(|_| Violation("it sent bytes that are no record"))?;
            let rest = &bytes[at + Record::SIZE..];
            if rest.len() < record.needed() {
                break;
            }
            self.acknowledged(record.received)?;
            at += Record::SIZE;
            at += match record.kind {
                Kind::Frame => {
                    let (header, body) = Header::decode(&rest[..record.len])
                        .map_err(|_| Violation("it sent a frame of an unknown kind"))?;
                    self.state.said_bye = false;
                    sink.frame(self.state.peer, &header, body);
                    record.len
                }
                _ => self.other(&record, rest)?,
            };
        }
        Ok(at)
    }

    /// Handles a record that is not a frame; returns the bytes taken after the header.
    #[inline(never)]
    fn other(&mut self, record: &Record, rest: &[u8]) -> Result<usize, Violation> {
        let is_bye = matches!(record.kind, Kind::Bye | Kind::Agree);
        self.state.said_bye = is_bye || (self.state.said_bye && record.kind == Kind::Ack);
        if is_bye && self.state.rx.bye_due != Some(Kind::Bye) {
            self.state.rx.bye_due = Some(record.kind);
        }
        match record.kind {
            Kind::Get => self.get(wire::read_words(rest)),
            Kind::Piece => return self.piece(record.len - wire::PIECE, rest),
            Kind::Put => return self.put(record.len - wire::PUT, rest),
            Kind::Atomic => self.atomic(wire::read_words(rest))?,
            Kind::Old => self.old(wire::read_words(rest))?,
            Kind::Refused => self.refused(wire::read_words(rest)),
            Kind::Frame | Kind::Ack | Kind::Bye | Kind::Agree => {}
        }
        Ok(record.len)
    }

    /// Drops what the peer has received, and reports puts that are in place.
    #[inline]
    fn acknowledged(&mut self, position: u64) -> Result<(), Violation> {
        let state = &mut *self.state;
        state
            .tx
            .ack(position)
            .map_err(|_| Violation("it acknowledged bytes that were never sent"))?;
        while let Some(token) = state.next_delivered(position) {
            self.reports.transfers.push((token, Ok(())));
        }
        *self.has_space_again |= state.has_space_again(self.low_water);
        Ok(())
    }

    /// Appends the bytes that a get requests.
    fn get(&mut self, [number, key, at, len]: [u64; 4]) {
        let state = &mut *self.state;
        match self.regions.find(state.peer, key, (at, len), Access::Read) {
            Some(memory) => {
                for from in (0..memory.len()).step_by(MAX_PIECE) {
                    let piece = memory.slice(from, MAX_PIECE.min(memory.len() - from));
                    state.append_user(Kind::Piece, &number.to_le_bytes(), (piece, Some(key)));
                }
            }
            None => state.append(Kind::Refused, 8).copy_from_slice(&number.to_le_bytes()),
        }
    }

    /// Copies what is there of a piece of `len` bytes; the rest is read in place.
    fn piece(&mut self, len: usize, rest: &[u8]) -> Result<usize, Violation> {
        let [number] = wire::read_words(rest);
        let Some(get) = self.state.gets.get_mut(&number).filter(|get| get.into.len() >= len) else {
            return Err(Violation("it sent data that was not requested"));
        };
        let into = get.into.slice(0, len);
        get.into = get.into.slice(len, get.into.len() - len);
        let then = if get.into.is_empty() { Then::Report(get.completes) } else { Then::Nothing };
        if then != Then::Nothing {
            self.state.gets.remove(&number);
        }
        Ok(wire::PIECE + self.arrives(into, then, &rest[wire::PIECE..]))
    }

    /// Copies what is there of a put of `len` bytes; the rest is read in place.
    fn put(&mut self, len: usize, rest: &[u8]) -> Result<usize, Violation> {
        let [key, at] = wire::read_words(rest);
        let range = (at, len as u64);
        let into = self.regions.find(self.state.peer, key, range, Access::Write);
        let into = into.ok_or(Violation("it wrote to memory that is not registered for it"))?;
        Ok(wire::PUT + self.arrives(into, Then::Acknowledge, &rest[wire::PUT..]))
    }

    /// Copies the bytes that are there, and returns their number. The rest follows.
    fn arrives(&mut self, into: UserBuf, then: Then, bytes: &[u8]) -> usize {
        let here = into.len().min(bytes.len());
        into.write(0, &bytes[..here]);
        let bulk = Bulk { into: into.slice(here, into.len() - here), then };
        if bulk.into.is_empty() {
            self.arrived(bulk);
        } else {
            self.state.rx.bulk = Some(bulk);
        }
        here
    }

    /// Does what follows when the last bytes of a record are in place.
    pub(crate) fn arrived(&mut self, bulk: Bulk) {
        match bulk.then {
            Then::Nothing => {}
            Then::Report(what) => {
                // No frame of ours follows on a further lane, which would acknowledge it.
                self.state.rx.ack_due |= !self.state.is_main();
                self.reports.transfers.extend(self.stripes.complete(what, Ok(())));
            }
            Then::Acknowledge => self.state.rx.ack_due = true,
        }
    }

    fn atomic(&mut self, words: [u64; 6]) -> Result<(), Violation> {
        let [number, key, at, operation, first, second] = words;
        let state = &mut *self.state;
        let memory = self.regions.find(state.peer, key, (at, 8), Access::Change);
        let atomic = wire::atomic([operation, first, second]).ok();
        let old = memory.zip(atomic).and_then(|(memory, atomic)| sys::change(memory, atomic));
        let old = old.ok_or(Violation("it changed memory that is not registered for it"))?;
        let answer: [u8; wire::OLD] = wire::words([number, old]);
        state.append(Kind::Old, wire::OLD).copy_from_slice(&answer);
        Ok(())
    }

    fn old(&mut self, [number, value]: [u64; 2]) -> Result<(), Violation> {
        let found = self.state.atomics.remove(&number);
        let (token, into) = found.ok_or(Violation("it sent a value that was not requested"))?;
        into.write(0, &value.to_ne_bytes());
        self.reports.transfers.push((token, Ok(())));
        Ok(())
    }

    fn refused(&mut self, [number]: [u64; 1]) {
        if let Some(get) = self.state.gets.remove(&number) {
            let why = "the memory to read is not registered there".into();
            let failure = fabric::PeerFailed { peer: self.state.peer, why };
            self.reports.transfers.extend(self.stripes.complete(get.completes, Err(failure)));
        }
    }
}
