//! Moves the bytes of one access between the user's data and the runs of a view.
//!
//! A buffer that is one run of memory is read and written in place. Other buffers go through
//! staging memory, a piece at a time, and converted ones through a buffer of the whole access. A
//! read ends at the end of the file: what was read before it counts.
//!
//! Small pieces that lie close together are read with the holes between them, in one call (data
//! sieving). Writes never touch a hole: another process may write there at the same time, and no
//! lock would keep it out.

use fabric::UserBuf;
use objects::datatype::{Run, Runs};
use objects::{Buffer, Class, Error, Result};

use crate::access::Direction;
use crate::datarep::UserData;
use crate::disk::Disk;
use crate::hints::{Hints, Switch};
use crate::pending::Outcome;
use crate::staging::Staging;
use crate::view::View;

/// Holes of fewer bytes are read with the pieces around them.
pub(crate) const MAX_READ_HOLE: u64 = 4096;
/// Bytes staged at a time.
const STAGING_BYTES: u64 = 1 << 20;

/// How pieces with holes are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sieve {
    /// Holes of fewer bytes are read too; 1 for none.
    max_hole: u64,
    /// Most bytes of the file at once.
    max_bytes: u64,
}

impl Sieve {
    /// Returns what the hints ask for.
    pub(crate) fn new(hints: &Hints) -> Sieve {
        let max_hole = match hints.ds_read {
            Switch::Automatic => MAX_READ_HOLE,
            Switch::Enable => hints.ind_rd_buffer_size.max(MAX_READ_HOLE),
            Switch::Disable => 1,
        };
        Sieve { max_hole, max_bytes: hints.ind_rd_buffer_size }
    }
}

/// Where an access goes.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    pub(crate) disk: &'a Disk,
    pub(crate) view: &'a View,
    pub(crate) sieve: Sieve,
}

/// Moves the data at a packed byte of the view. The outcome has the bytes of the user's that were
/// moved, also with an error.
pub(crate) fn run(
    target: Target<'_>,
    packed: u64,
    data: &UserData,
    direction: Direction,
) -> Outcome {
    through(target.view, data, direction, |buffer| plain(target, packed, buffer, direction))
}

/// Moves the data by `mover`, which gets a buffer of bytes as the file has them, and returns how
/// many it moved.
fn through(
    view: &View,
    data: &UserData,
    direction: Direction,
    mover: impl FnOnce(&Buffer) -> (u64, Result<()>),
) -> Outcome {
    if view.datarep.is_native() {
        let (bytes, result) = mover(&data.buffer);
        return Outcome { bytes, error: result.err() };
    }
    match converted(view, data, direction, mover) {
        Ok(outcome) => outcome,
        Err(error) => Outcome { bytes: 0, error: Some(error) },
    }
}

/// Moves data whose bytes are those of memory.
fn plain(
    target: Target<'_>,
    packed: u64,
    buffer: &Buffer,
    direction: Direction,
) -> (u64, Result<()>) {
    if buffer.is_empty() {
        return (0, Ok(()));
    }
    let view = target.view;
    if view.is_empty() {
        let text = format!("cannot access {} bytes: the view shows none", buffer.len());
        return (0, Err(Error::new(Class::Io, text)));
    }
    let mut runs = view.runs(packed);
    match buffer.memory() {
        Some(memory) => pieces(target, &mut runs, memory, direction),
        None => staged(target, &mut runs, buffer, direction),
    }
}

/// Moves data through a staging buffer, since the user's is not one run of memory.
fn staged(
    target: Target<'_>,
    runs: &mut Runs<'_>,
    buffer: &Buffer,
    direction: Direction,
) -> (u64, Result<()>) {
    let len = buffer.len();
    let mut staging = match Staging::new(len.min(STAGING_BYTES)) {
        Ok(staging) => staging,
        Err(error) => return (0, Err(error)),
    };
    let mut done = 0;
    while done < len {
        let piece = (len - done).min(STAGING_BYTES) as usize;
        if direction == Direction::Write {
            buffer.pack(done, &mut staging.bytes_mut()[..piece]);
        }
        let (moved, result) =
            staging.lend(|memory| pieces(target, runs, memory.slice(0, piece), direction));
        if direction == Direction::Read {
            buffer.unpack(done, &staging.bytes()[..moved as usize]);
        }
        done += moved;
        if result.is_err() || moved < piece as u64 {
            return (done, result);
        }
    }
    (done, Ok(()))
}

/// Moves one run of memory to or from the next runs of the file.
fn pieces(
    target: Target<'_>,
    runs: &mut Runs<'_>,
    memory: UserBuf,
    direction: Direction,
) -> (u64, Result<()>) {
    if direction == Direction::Read {
        return sieve(target, runs, memory);
    }
    let (disk, disp) = (target.disk, target.view.disp);
    let mut done = 0;
    while done < memory.len() {
        let run = runs.take((memory.len() - done) as u64);
        let Some((run, at)) = run.and_then(|run| Some((run, disp.checked_add(run.at)?))) else {
            let text = "invalid file offset: the access ends beyond 2^63 bytes";
            return (done as u64, Err(Error::new(Class::Arg, text)));
        };
        let part = memory.slice(done, run.len as usize);
        let (moved, result) = disk.write(at, part);
        done += moved;
        if result.is_err() || moved < part.len() {
            return (done as u64, result);
        }
    }
    (done as u64, Ok(()))
}

/// Reads the next runs of the file into one run of memory.
fn sieve(target: Target<'_>, runs: &mut Runs<'_>, memory: UserBuf) -> (u64, Result<()>) {
    let Target { disk, view, sieve } = target;
    let (mut done, mut asked, mut next) = (0, 0, None);
    let (mut batch, mut staging) = (Vec::new(), None);
    while done < memory.len() as u64 {
        batch.clear();
        asked = collect((runs, sieve), memory.len() as u64, asked, &mut next, &mut batch);
        let (Some(first), Some(last)) = (batch.first(), batch.last()) else {
            let text = "invalid file offset: the access ends beyond 2^63 bytes";
            return (done, Err(Error::new(Class::Arg, text)));
        };
        let (start, span) = (first.at, (last.at - first.at) as u64 + last.len);
        let Some(at) = view.disp.checked_add(start) else { return (done, Ok(())) };
        let (moved, result) = if let [run] = batch[..] {
            let (moved, result) = disk.read(at, memory.slice(done as usize, run.len as usize));
            (moved as u64, result)
        } else {
            let block = match &mut staging {
                Some(block) => block,
                empty => match Staging::new(sieve.max_bytes) {
                    Ok(block) => empty.insert(block),
                    Err(error) => return (done, Err(error)),
                },
            };
            let (got, result) = block.lend(|all| disk.read(at, all.slice(0, span as usize)));
            (scatter(&block.bytes()[..got], start, &batch, memory, done), result)
        };
        done += moved;
        let wanted: u64 = batch.iter().map(|run| run.len).sum();
        if result.is_err() || moved < wanted {
            return (done, result);
        }
    }
    (done, Ok(()))
}

/// Collects runs that lie close together, up to `len` bytes of data in all, of which `asked` were
/// collected before; returns that number anew. `next` keeps a run that is too far away.
fn collect(
    (runs, sieve): (&mut Runs<'_>, Sieve),
    len: u64,
    mut asked: u64,
    next: &mut Option<Run>,
    batch: &mut Vec<Run>,
) -> u64 {
    loop {
        let run = match next.take() {
            Some(run) => Some(run),
            None if asked < len => runs.take(len - asked),
            None => None,
        };
        let Some(run) = run else { return asked };
        if let (Some(first), Some(last)) = (batch.first(), batch.last()) {
            let last: &Run = last;
            let hole = run.at - last.at - last.len as i64;
            let span = (run.at - first.at) as u64 + run.len;
            if !(0..sieve.max_hole as i64).contains(&hole) || span > sieve.max_bytes {
                *next = Some(run);
                return asked;
            }
        }
        asked += run.len;
        batch.push(run);
    }
}

/// Copies the runs that were read from a block to memory, at `done`; returns the bytes before the
/// end of the block.
fn scatter(block: &[u8], start: i64, batch: &[Run], memory: UserBuf, done: u64) -> u64 {
    let mut moved = 0;
    for run in batch {
        let from = ((run.at - start) as usize).min(block.len());
        let to = (from + run.len as usize).min(block.len());
        memory.write((done + moved) as usize, &block[from..to]);
        moved += (to - from) as u64;
        if to - from < run.len as usize {
            break;
        }
    }
    moved
}

/// Moves data in another representation.
fn converted(
    view: &View,
    data: &UserData,
    direction: Direction,
    mover: impl FnOnce(&Buffer) -> (u64, Result<()>),
) -> Result<Outcome> {
    let mut staging = match direction {
        Direction::Write => view.datarep.encode(data)?,
        Direction::Read => Staging::new(view.datarep.file_bytes(data)?)?,
    };
    let all = staging.bytes().len() as u64;
    let (moved, result) = staging.lend(|memory| mover(&Buffer::contiguous(memory)));
    let bytes = match direction {
        Direction::Read => view.datarep.decode(data, &mut staging, moved)?,
        Direction::Write if moved == all => data.buffer.len(),
        Direction::Write => data.datatype.native_bytes_of(moved, data.count),
    };
    Ok(Outcome { bytes, error: result.err() })
}
