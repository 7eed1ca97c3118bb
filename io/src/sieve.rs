//! Data sieving: small pieces that lie close together move with the holes between them, in one call
//! of the system (Thakur, Gropp and Lusk, 1999).
//!
//! A read takes a hole along without harm. A write reads a block, changes it and writes it back,
//! holes included: a byte that another process writes there meanwhile would be lost. Therefore
//! writes are sieved only while the caller has locked the range, and only where all writers lock:
//! in atomic mode, or with the hint `romio_ds_write=enable`. Where one process has opened the file
//! with MPI_MODE_UNIQUE_OPEN, the other writers are its own threads: a mutex is enough.

use fabric::UserBuf;
use objects::datatype::{Run, Runs};
use objects::{Class, Error, Result};

use crate::access::Direction;
use crate::disk::Disk;
use crate::hints::{Hints, Switch};
use crate::range_locks::{Locking, RangeLocks};
use crate::staging::Staging;
use crate::view::View;

/// Holes of fewer bytes are moved with the pieces around them.
pub(crate) const MAX_HOLE: u64 = 4096;

/// How pieces with holes are moved.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sieve {
    /// Holes of fewer bytes are read too; 1 for none.
    max_hole: u64,
    /// Most bytes of the file at once.
    max_bytes: u64,
    /// Most bytes of the file that are written back at once.
    max_write_bytes: u64,
    /// Writes are sieved: their range is locked, and the file can be read.
    pub(crate) writes: bool,
}

/// Where an access goes.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) view: &'a View,
    pub(crate) sieve: Sieve,
    pub(crate) locks: &'a RangeLocks,
    /// What each call that writes locks; an access locks by itself what it spans.
    pub(crate) locking: Locking,
}

impl Target<'_> {
    /// Moves a range of the file; writes of a range that others lock are one step.
    pub(crate) fn step(
        &self,
        (at, len): (i64, u64),
        call: impl FnOnce() -> (u64, Result<()>),
    ) -> (u64, Result<()>) {
        let range = (at, at.saturating_add_unsigned(len));
        let lock = match self.locking {
            Locking::Nothing | Locking::Access => return call(),
            Locking::Threads => Ok(self.locks.lock_threads()),
            Locking::Calls => self.locks.lock(self.disk, range, true),
        };
        match lock {
            Ok(_lock) => call(),
            Err(error) => (0, Err(error)),
        }
    }

    /// Returns the byte of the file that a byte of the view's runs is.
    pub(crate) fn offset_of(&self, at: i64) -> Option<i64> {
        self.view.disp.checked_add(at)
    }
}

impl Sieve {
    /// Returns what the hints ask for; `locked`: writes may be sieved.
    pub(crate) fn new(hints: &Hints, locked: bool) -> Sieve {
        let max_hole = match hints.ds_read {
            Switch::Automatic => MAX_HOLE,
            Switch::Enable => hints.ind_rd_buffer_size.max(MAX_HOLE),
            Switch::Disable => 1,
        };
        let writes = locked && hints.ds_write != Switch::Disable;
        let (max_bytes, max_write_bytes) = (hints.ind_rd_buffer_size, hints.ind_wr_buffer_size);
        Sieve { max_hole, max_bytes, max_write_bytes, writes }
    }

    /// Returns the rule for writes.
    fn of_writes(self) -> Sieve {
        Sieve { max_hole: MAX_HOLE, max_bytes: self.max_write_bytes, ..self }
    }
}

/// The next runs of a view, a batch of near ones at a time.
struct Batches<'a, 'b> {
    runs: &'a mut Runs<'b>,
    sieve: Sieve,
    /// Bytes of data that are not in a batch yet.
    left: u64,
    /// A run that is too far from the batch before it.
    next: Option<Run>,
    batch: Vec<Run>,
}

impl<'a, 'b> Batches<'a, 'b> {
    fn new(runs: &'a mut Runs<'b>, sieve: Sieve, len: u64) -> Batches<'a, 'b> {
        Batches { runs, sieve, left: len, next: None, batch: Vec::new() }
    }

    /// Collects the next batch: its first byte and its span. `None` if the runs end early.
    fn advance(&mut self) -> Option<(i64, u64)> {
        self.batch.clear();
        loop {
            let run = match self.next.take() {
                Some(run) => Some(run),
                None if self.left > 0 => {
                    let run = self.runs.take(self.left);
                    self.left -= run.map_or(0, |run| run.len);
                    run
                }
                None => None,
            };
            let Some(run) = run else { break };
            if let (Some(first), Some(last)) = (self.batch.first(), self.batch.last()) {
                let hole = run.at - last.at - last.len as i64;
                let span = (run.at - first.at) as u64 + run.len;
                let is_near = (0..self.sieve.max_hole as i64).contains(&hole);
                if !is_near || span > self.sieve.max_bytes {
                    self.next = Some(run);
                    break;
                }
            }
            self.batch.push(run);
        }
        let (first, last) = (self.batch.first()?, self.batch.last()?);
        Some((first.at, (last.at - first.at) as u64 + last.len))
    }

    /// Returns the bytes of data of the batch.
    fn bytes(&self) -> u64 {
        self.batch.iter().map(|run| run.len).sum()
    }
}

/// Reads the next runs of the file into one run of memory.
pub(crate) fn read(target: Target<'_>, runs: &mut Runs<'_>, memory: UserBuf) -> (u64, Result<()>) {
    by_batches(target, Direction::Read, runs, memory)
}

/// Writes one run of memory to the next runs of the file, whose range is locked.
pub(crate) fn write(target: Target<'_>, runs: &mut Runs<'_>, memory: UserBuf) -> (u64, Result<()>) {
    let target = Target { sieve: target.sieve.of_writes(), ..target };
    by_batches(target, Direction::Write, runs, memory)
}

/// Moves a batch after the other: a single run in place, several by way of a block.
fn by_batches(
    target: Target<'_>,
    direction: Direction,
    runs: &mut Runs<'_>,
    memory: UserBuf,
) -> (u64, Result<()>) {
    let mut batches = Batches::new(runs, target.sieve, memory.len() as u64);
    let (mut done, mut staging) = (0, None);
    while done < memory.len() as u64 {
        let next = batches.advance();
        let place = next.and_then(|(start, span)| Some((start, span, target.offset_of(start)?)));
        let Some((start, span, at)) = place else { return (done, Err(too_far())) };
        let data = memory.slice(done as usize, batches.bytes() as usize);
        let (moved, result) = target.step((at, span), || match (&batches.batch[..], direction) {
            ([_], Direction::Read) => widen(target.disk.read(at, data)),
            ([_], Direction::Write) => widen(target.disk.write(at, data)),
            (batch, _) => match block(&mut staging, span) {
                Ok(block) if direction == Direction::Read => {
                    read_batch(target.disk, block, Batch { start, span, at, runs: batch }, data)
                }
                Ok(block) => {
                    write_batch(target.disk, block, Batch { start, span, at, runs: batch }, data)
                }
                Err(error) => (0, Err(error)),
            },
        });
        done += moved;
        if result.is_err() || moved < data.len() as u64 {
            return (done, result);
        }
    }
    (done, Ok(()))
}

/// Several runs that move in one call.
struct Batch<'a> {
    /// The first byte, relative to the view.
    start: i64,
    /// Bytes from the first to the last.
    span: u64,
    /// The first byte in the file.
    at: i64,
    runs: &'a [Run],
}

/// Reads a block of the file, and copies the runs from it.
fn read_batch(
    disk: &Disk,
    block: &mut Staging,
    batch: Batch<'_>,
    data: UserBuf,
) -> (u64, Result<()>) {
    let Batch { start, span, at, runs } = batch;
    let (got, result) = block.lend(|all| disk.read(at, all.slice(0, span as usize)));
    (scatter(&block.bytes()[..got], start, runs, data), result)
}

/// Reads a block of the file, changes the runs in it, and writes it back.
fn write_batch(
    disk: &Disk,
    block: &mut Staging,
    batch: Batch<'_>,
    data: UserBuf,
) -> (u64, Result<()>) {
    let Batch { start, span, at, runs } = batch;
    let (got, result) = block.lend(|all| disk.read(at, all.slice(0, span as usize)));
    if result.is_err() {
        return (0, result);
    }
    // Beyond the end of the file a hole is zeros.
    block.bytes_mut()[got..span as usize].fill(0);
    gather(block.bytes_mut(), start, runs, data);
    let (written, result) = block.lend(|all| disk.write(at, all.slice(0, span as usize)));
    (bytes_before(start, runs, written as u64), result)
}

pub(crate) fn widen((moved, result): (usize, Result<()>)) -> (u64, Result<()>) {
    (moved as u64, result)
}

/// Returns the block that batches go through, of at least the bytes that this one spans. Few pieces
/// need few bytes: a block of the most that a call moves costs more than to read them.
fn block(staging: &mut Option<Staging>, span: u64) -> Result<&mut Staging> {
    if staging.as_ref().is_some_and(|block| (block.bytes().len() as u64) < span) {
        *staging = None;
    }
    Ok(match staging {
        Some(block) => block,
        empty => empty.insert(Staging::new(span)?),
    })
}

/// Copies the runs that were read from a block to memory; returns the bytes before the end of the
/// block.
fn scatter(block: &[u8], start: i64, batch: &[Run], memory: UserBuf) -> u64 {
    let mut moved = 0;
    for run in batch {
        let from = ((run.at - start) as usize).min(block.len());
        let to = (from + run.len as usize).min(block.len());
        memory.write(moved as usize, &block[from..to]);
        moved += (to - from) as u64;
        if to - from < run.len as usize {
            break;
        }
    }
    moved
}

/// Copies memory to the runs of a block.
fn gather(block: &mut [u8], start: i64, batch: &[Run], memory: UserBuf) {
    let mut from = 0;
    for run in batch {
        let at = (run.at - start) as usize;
        memory.read(from, &mut block[at..at + run.len as usize]);
        from += run.len as usize;
    }
}

/// Returns the bytes of data that lie in the first bytes of a block.
fn bytes_before(start: i64, batch: &[Run], end: u64) -> u64 {
    batch.iter().map(|run| end.saturating_sub((run.at - start) as u64).min(run.len)).sum()
}

#[cold]
pub(crate) fn too_far() -> Error {
    Error::new(Class::Arg, "invalid file offset: the access ends beyond 2^63 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_as_long_as_what_is_read_into_it() {
        let mut staging = None;
        for (span, wanted) in [(100, 100), (90, 100), (5000, 5000), (5000, 5000)] {
            assert_eq!(block(&mut staging, span).unwrap().bytes().len(), wanted);
        }
    }
}
