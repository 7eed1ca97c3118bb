//! An aggregator's work in one round of a two-phase access: it moves the pieces of all members in
//! its window of the file.
//!
//! Pieces move between their messages and the file in calls of the system that take many of them.
//! Pieces that are short or overlap, and those that go past the cache of the system, move through a
//! block of memory instead.
//!
//! Invariant: the bytes that some member gave are written, and no others. Where members overlap,
//! the higher rank's bytes are written.

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

use fabric::UserBuf;
use objects::Result;

use crate::access::Direction;
use crate::disk::Disk;
use crate::members::Messages;
use crate::pieces::{self, Piece};
use crate::range_locks::RangeLocks;
use crate::sieve::MAX_HOLE;
use crate::spare;
use crate::staging::Staging;

/// Smallest mean length, bytes, of pieces that a call takes from and to their messages: below it,
/// copying a piece costs less than naming it.
const VECTORED_MIN: u64 = 256;

/// What an aggregator needs to move a window.
#[derive(Clone)]
pub(crate) struct Window {
    pub(crate) disk: Arc<Disk>,
    /// Number of members.
    pub(crate) size: u32,
    /// Locks what the aggregator writes, if independent writes take holes along.
    pub(crate) locks: Option<Arc<RangeLocks>>,
    /// Most bytes that move faster than another thread begins to work.
    pub(crate) short_bytes: u64,
}

/// The pieces that a member writes, and their data, one after the other.
type Part<'a> = (Vec<Piece>, &'a [u8]);

impl Window {
    /// Returns true if the range moves faster than a thread begins to work, and needs no lock.
    pub(crate) fn is_short(&self, (from, to): (i64, i64)) -> bool {
        (to - from) as u64 <= self.short_bytes && self.locks.is_none()
    }

    /// Writes the pieces of all members; `received` has their lists and data.
    pub(crate) fn write(&self, (from, to): (i64, i64), received: Messages) -> Result<()> {
        let result = self.write_pieces(from, (to - from) as u64, &received);
        spare::give_back(received.bytes);
        result
    }

    fn write_pieces(&self, from: i64, window: u64, received: &Messages) -> Result<()> {
        let mut parts = Vec::new();
        for mut message in received.each().filter(|message| !message.is_empty()) {
            let list = pieces::decode(&mut message, window)?;
            if list.iter().map(|piece| piece.len).sum::<u64>() != message.len() as u64 {
                return Err(pieces::malformed());
            }
            parts.push((list, message));
        }
        let first = parts.iter().filter_map(|(list, _)| list.first());
        let Some(base) = first.map(|piece| piece.at).min() else { return Ok(()) };
        let last = parts.iter().filter_map(|(list, _)| list.last());
        let end = last.map(|piece| piece.end()).max().unwrap_or(base);
        let range = (from + base as i64, from + end as i64);
        let locks = self.locks.as_ref();
        let _lock = locks.map(|locks| locks.lock(&self.disk, range, true)).transpose()?;
        let is_vectored = self.is_vectored(Direction::Write, parts.iter().map(|(list, _)| list));
        match is_vectored.then(|| sorted(&parts)).filter(|sorted| is_disjoint(sorted, |one| one.0))
        {
            Some(sorted) => self.write_vectored(from, &sorted),
            None => self.write_staged(from, (base, end), &parts),
        }
    }

    /// Returns true if calls take the pieces from or to their messages, provided that none overlap.
    fn is_vectored<'a>(
        &self,
        direction: Direction,
        lists: impl Iterator<Item = &'a Vec<Piece>>,
    ) -> bool {
        let add = |(count, bytes), piece: &Piece| (count + 1, bytes + piece.len);
        let (count, bytes) = lists.flatten().fold((0, 0), add);
        bytes / count.max(1) >= VECTORED_MIN && !self.disk.is_direct(direction)
    }

    /// Writes pieces from where they are, in a call for many that touch.
    fn write_vectored(&self, from: i64, sorted: &[(Piece, &[u8])]) -> Result<()> {
        let touch = |before: &(Piece, _), next: &(Piece, _)| before.0.end() == next.0.at;
        sorted.chunk_by(touch).try_for_each(|run| {
            let mut slices: Vec<IoSlice> = run.iter().map(|(_, data)| IoSlice::new(data)).collect();
            self.disk.write_slices(from + run[0].0.at as i64, &mut slices)
        })
    }

    /// Puts pieces together in a block, in order of rank, and writes what they cover.
    fn write_staged(&self, from: i64, (base, end): (u64, u64), parts: &[Part<'_>]) -> Result<()> {
        let mut staging = Staging::new(end - base)?;
        for (piece, data) in parts.iter().flat_map(each_piece) {
            let at = (piece.at - base) as usize;
            staging.bytes_mut()[at..at + data.len()].copy_from_slice(data);
        }
        let all = pieces::union(parts.iter().flat_map(|(list, _)| list).copied().collect());
        staging.lend(|memory| {
            all.iter().try_for_each(|piece| {
                let part = memory.slice((piece.at - base) as usize, piece.len as usize);
                self.disk.write(from + piece.at as i64, part).1
            })
        })
    }

    /// Reads what the members request and returns each one's data, cut at the end of the file.
    pub(crate) fn read(&self, (from, to): (i64, i64), requested: &Messages) -> Result<Messages> {
        let window = (to - from) as u64;
        let lists = requested.each().map(|mut message| match message.is_empty() {
            true => Ok(Vec::new()),
            false => pieces::decode(&mut message, window),
        });
        let lists: Vec<Vec<Piece>> = lists.collect::<Result<_>>()?;
        let mut sorted: Vec<Piece> = lists.iter().flatten().copied().collect();
        sorted.sort();
        if sorted.is_empty() {
            return Ok(Messages::none(self.size));
        }
        let is_vectored = self.is_vectored(Direction::Read, lists.iter());
        if is_vectored && is_disjoint(&sorted, |piece| *piece) {
            self.read_vectored(from, &lists, &sorted)
        } else {
            self.read_staged(from, &lists, pieces::union(sorted))
        }
    }

    /// Reads pieces to where they are sent from, in a call for many with small holes between them.
    fn read_vectored(&self, from: i64, lists: &[Vec<Piece>], sorted: &[Piece]) -> Result<Messages> {
        let bytes = sorted.iter().map(|piece| piece.len).sum::<u64>() as usize;
        let mut answers = Messages { bytes: spare::take(bytes), lengths: Vec::new() };
        let end = self.fill(from, &mut answers.bytes, lists, sorted)?;
        let (mut start, mut kept) = (0, 0);
        for list in lists {
            let before_end = |piece: &Piece| end.min(piece.end()).saturating_sub(piece.at);
            let len = list.iter().map(before_end).sum::<u64>();
            answers.bytes.copy_within(start..start + len as usize, kept);
            answers.lengths.push(len);
            start += list.iter().map(|piece| piece.len).sum::<u64>() as usize;
            kept += len as usize;
        }
        answers.bytes.truncate(kept);
        Ok(answers)
    }

    /// Reads pieces into `answers`, list after list; returns where the file ends in the window, or
    /// a larger number.
    fn fill(
        &self,
        from: i64,
        mut answers: &mut [u8],
        lists: &[Vec<Piece>],
        sorted: &[Piece],
    ) -> Result<u64> {
        let holes = sorted.windows(2).map(|pair| pair[1].at - pair[0].end());
        let mut skipped = spare::take(holes.filter(|&hole| hole < MAX_HOLE).sum::<u64>() as usize);
        let mut unused = &mut skipped[..];
        let mut parts: Vec<(u64, &mut [u8])> = Vec::with_capacity(sorted.len());
        for piece in lists.iter().flatten() {
            parts.push((piece.at, cut(&mut answers, piece.len as usize)));
        }
        parts.sort_by_key(|(at, _)| *at);
        let (mut parts, mut found) = (parts.into_iter().peekable(), u64::MAX);
        while let Some((start, first)) = parts.next() {
            let mut end = start + first.len() as u64;
            let mut slices = vec![IoSliceMut::new(first)];
            while let Some((at, part)) = parts.next_if(|(at, _)| at - end < MAX_HOLE) {
                if at > end {
                    slices.push(IoSliceMut::new(cut(&mut unused, (at - end) as usize)));
                }
                end = at + part.len() as u64;
                slices.push(IoSliceMut::new(part));
            }
            let got = self.disk.read_slices(from + start as i64, &mut slices)? as u64;
            if got < end - start {
                found = start + got;
                break;
            }
        }
        spare::give_back(skipped);
        Ok(found)
    }

    /// Reads what the pieces `all` cover into a block, and answers from it.
    fn read_staged(&self, from: i64, lists: &[Vec<Piece>], all: Vec<Piece>) -> Result<Messages> {
        let mut answers = Messages::none(self.size);
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return Ok(answers) };
        let base = first.at;
        let mut staging = Staging::new(last.end() - base)?;
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
                end = piece.end();
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

/// Iterates over the pieces of a member, each with its data.
fn each_piece<'a>((list, data): &Part<'a>) -> impl Iterator<Item = (Piece, &'a [u8])> {
    let mut rest = *data;
    list.iter().map(move |&piece| {
        let (now, after) = rest.split_at(piece.len as usize);
        rest = after;
        (piece, now)
    })
}

/// Returns the pieces of all members, ascending, each with its data.
fn sorted<'a>(parts: &[Part<'a>]) -> Vec<(Piece, &'a [u8])> {
    let mut all: Vec<_> = parts.iter().flat_map(each_piece).collect();
    all.sort_by_key(|(piece, _)| *piece);
    all
}

/// Returns true if no two of ascending pieces overlap.
fn is_disjoint<T>(sorted: &[T], piece: impl Fn(&T) -> Piece) -> bool {
    sorted.windows(2).all(|pair| piece(&pair[0]).end() <= piece(&pair[1]).at)
}

/// Cuts bytes off the front.
pub(crate) fn cut<'a>(rest: &mut &'a mut [u8], len: usize) -> &'a mut [u8] {
    let (part, after) = std::mem::take(rest).split_at_mut(len);
    *rest = after;
    part
}
