//! Two-phase collective access (Thakur, Gropp and Lusk, "Data Sieving and Collective I/O in ROMIO",
//! 1999): members exchange pieces with aggregators, which move large ranges of the file.
//!
//! The file is divided into domains, one for each aggregator, and each domain into windows, one for
//! each round. In a round each member sends each aggregator a list of its pieces in that
//! aggregator's window ([`pieces`]), with the data for writing. For reading, the aggregator answers
//! with the data. All members make the same exchanges in all rounds, also if a call of the system
//! fails; the caller lets them agree on the outcome.
//!
//! Invariant: an aggregator writes the bytes that some member gave, and no others. Where members
//! overlap, the higher rank's bytes are written.

use std::sync::{Mutex, PoisonError};

use fabric::UserBuf;
use objects::{Buffer, Result};

use crate::access::Direction;
use crate::collective::Domains;
use crate::disk::Disk;
use crate::members::Members;
use crate::pieces::{self, Piece};
use crate::sieve::MAX_HOLE;
use crate::staging::Staging;
use crate::view::View;

/// One member's part in a collective access.
pub(crate) struct TwoPhase<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) members: &'a dyn Members,
    pub(crate) view: &'a View,
    /// The first packed byte of the view.
    pub(crate) packed: u64,
    pub(crate) buffer: &'a Buffer,
    pub(crate) domains: Domains,
    /// The ranks of the aggregators.
    pub(crate) aggregators: &'a [u32],
    /// Held by the aggregator while it writes under a lock of the system, if independent writes
    /// take holes along.
    pub(crate) locks: Option<&'a Mutex<()>>,
}

/// Messages to or from each member, one after the other.
struct Messages {
    bytes: Vec<u8>,
    lengths: Vec<u64>,
}

impl Messages {
    fn none(size: u32) -> Messages {
        Messages { bytes: Vec::new(), lengths: vec![0; size as usize] }
    }

    /// Iterates over the messages in order of rank.
    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |&len| {
            let (message, after) = rest.split_at((len as usize).min(rest.len()));
            rest = after;
            message
        })
    }
}

impl TwoPhase<'_> {
    /// Moves the data; returns the bytes moved and the error of this member's own system calls.
    pub(crate) fn run(&self, direction: Direction) -> (u64, Result<()>) {
        let mut outcome = Ok(());
        let mut end = self.buffer.len();
        let own = self.aggregators.iter().position(|&rank| rank == self.members.rank());
        let own = own.map(|at| at as u32);
        for round in 0..self.domains.rounds() {
            let result = match direction {
                Direction::Write => self.write_round(own, round),
                Direction::Read => self.read_round(own, round, &mut end),
            };
            match result {
                Ok(mine) => outcome = outcome.and(mine),
                Err(lost) => return (0, Err(lost)),
            }
        }
        let bytes = if outcome.is_ok() { end } else { 0 };
        (bytes, outcome)
    }

    /// The outer error is one of communication, which ends the access; the inner one of the system.
    fn write_round(&self, own: Option<u32>, round: i64) -> Result<Result<()>> {
        let received = self.exchange(self.lists(round, true))?;
        let Some(own) = own else { return Ok(Ok(())) };
        Ok(self.write_window(self.domains.window_of(own, round), &received))
    }

    /// Reads a round; `end` is the number of the buffer's bytes before the end of the file.
    fn read_round(&self, own: Option<u32>, round: i64, end: &mut u64) -> Result<Result<()>> {
        let requested = self.exchange(self.lists(round, false))?;
        let size = self.members.size();
        let (answers, result) = match own {
            None => (Messages::none(size), Ok(())),
            Some(own) => match self.read_window(self.domains.window_of(own, round), &requested) {
                Ok(answers) => (answers, Ok(())),
                Err(error) => (Messages::none(size), Err(error)),
            },
        };
        let received = self.exchange(answers)?;
        let answers: Vec<&[u8]> = received.each().collect();
        for aggregator in 0..self.domains.aggregators {
            let (first, len) = self.part(aggregator, round);
            let from = answers[self.aggregators[aggregator as usize] as usize];
            let got = (from.len() as u64).min(len);
            self.buffer.unpack(first, &from[..got as usize]);
            if got < len {
                *end = (*end).min(first + got);
            }
        }
        Ok(result)
    }

    /// Returns the bytes of the buffer that lie in an aggregator's window: the first and how many.
    fn part(&self, aggregator: u32, round: i64) -> (u64, u64) {
        let (from, to) = self.domains.window_of(aggregator, round);
        let inside = |byte: i64| {
            self.view.packed_before(byte).saturating_sub(self.packed).min(self.buffer.len())
        };
        let first = inside(from);
        (first, inside(to) - first)
    }

    /// Returns the list of pieces for each aggregator, with the data if it is written.
    fn lists(&self, round: i64, with_data: bool) -> Messages {
        let mut messages = Messages::none(self.members.size());
        let mut found = Vec::new();
        for aggregator in 0..self.domains.aggregators {
            let (first, len) = self.part(aggregator, round);
            if len == 0 {
                continue;
            }
            let (window, _) = self.domains.window_of(aggregator, round);
            self.find_pieces(first, len, window, &mut found);
            let before = messages.bytes.len();
            pieces::encode(&mut messages.bytes, &found);
            if with_data {
                let at = messages.bytes.len();
                messages.bytes.resize(at + len as usize, 0);
                self.buffer.pack(first, &mut messages.bytes[at..]);
            }
            let rank = self.aggregators[aggregator as usize];
            messages.lengths[rank as usize] = (messages.bytes.len() - before) as u64;
        }
        messages
    }

    /// Finds the pieces of a part, relative to the window.
    fn find_pieces(&self, first: u64, len: u64, window: i64, found: &mut Vec<Piece>) {
        found.clear();
        let (mut runs, mut done) = (self.view.runs(self.packed + first), 0);
        while done < len {
            let Some(run) = runs.take(len - done) else { return };
            let at = (run.at + self.view.disp - window) as u64;
            found.push(Piece { at, len: run.len });
            done += run.len;
        }
    }

    fn exchange(&self, messages: Messages) -> Result<Messages> {
        let (bytes, lengths) = self.members.exchange(&messages.bytes, &messages.lengths)?;
        Ok(Messages { bytes, lengths })
    }

    /// Puts the pieces of all members together and writes them.
    fn write_window(&self, (from, to): (i64, i64), received: &Messages) -> Result<()> {
        let window = (to - from) as u64;
        let mut parts = Vec::new();
        for mut message in received.each() {
            if !message.is_empty() {
                parts.push((pieces::decode(&mut message, window)?, message));
            }
        }
        let all = pieces::union(parts.iter().flat_map(|(list, _)| list.iter().copied()).collect());
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return Ok(()) };
        let base = first.at;
        let mut staging = Staging::new(last.at + last.len - base)?;
        for (list, mut data) in parts {
            for piece in list {
                let at = (piece.at - base) as usize;
                let (now, rest) = data.split_at((piece.len as usize).min(data.len()));
                staging.bytes_mut()[at..at + now.len()].copy_from_slice(now);
                data = rest;
            }
        }
        let _thread = self.locks.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        let _lock = match self.locks {
            Some(_) => {
                let len = (last.at + last.len - base) as i64;
                Some(self.disk.lock(from + base as i64, len, true)?)
            }
            None => None,
        };
        staging.lend(|memory| {
            all.iter().try_for_each(|piece| {
                let part = memory.slice((piece.at - base) as usize, piece.len as usize);
                self.disk.write(from + piece.at as i64, part).1
            })
        })
    }

    /// Reads what the members request and returns each one's data, cut at the end of the file.
    fn read_window(&self, (from, to): (i64, i64), requested: &Messages) -> Result<Messages> {
        let window = (to - from) as u64;
        let lists = requested.each().map(|mut message| match message.is_empty() {
            true => Ok(Vec::new()),
            false => pieces::decode(&mut message, window),
        });
        let lists: Vec<Vec<Piece>> = lists.collect::<Result<_>>()?;
        let all = pieces::union(lists.iter().flatten().copied().collect());
        let mut answers = Messages::none(self.members.size());
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return Ok(answers) };
        let base = first.at;
        let mut staging = Staging::new(last.at + last.len - base)?;
        let got = staging.lend(|memory| self.read_pieces(from, base, &all, memory))?;
        for (list, length) in lists.iter().zip(&mut answers.lengths) {
            let before = answers.bytes.len();
            for piece in list {
                let at = piece.at - base;
                let end = (at + piece.len).min(got).max(at);
                answers.bytes.extend_from_slice(&staging.bytes()[at as usize..end as usize]);
            }
            *length = (answers.bytes.len() - before) as u64;
        }
        Ok(answers)
    }

    /// Reads pieces into memory that begins at `base`; returns where the file ends in it. Small
    /// holes are read too.
    fn read_pieces(&self, from: i64, base: u64, all: &[Piece], memory: UserBuf) -> Result<u64> {
        let mut next = 0;
        while let Some(&Piece { at, len }) = all.get(next) {
            let mut end = at + len;
            next += 1;
            while let Some(piece) = all.get(next).filter(|piece| piece.at - end < MAX_HOLE) {
                end = piece.at + piece.len;
                next += 1;
            }
            let part = memory.slice((at - base) as usize, (end - at) as usize);
            let (got, result) = self.disk.read(from + at as i64, part);
            result?;
            if (got as u64) < end - at {
                return Ok(at - base + got as u64);
            }
        }
        Ok(memory.len() as u64)
    }
}
