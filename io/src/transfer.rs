//! Moves the bytes of one access between the user's data and the runs of a view.
//!
//! A buffer that is one run of memory is read and written in place, and at once if it is one run of
//! the file, too. Other buffers go through staging memory, a piece at a time, and converted ones
//! through a buffer of the whole access. A read ends at the end of the file: what was read before
//! it counts.
//!
//! Small pieces that lie close together are read with the holes between them, in one call
//! ([`sieve`]). Writes do not touch a hole unless they are locked: another process may write there
//! at the same time.

use fabric::UserBuf;
use objects::datatype::Runs;
use objects::{Buffer, Class, Error, Result};

use crate::access::Direction;
use crate::datarep::UserData;
use crate::pending::Outcome;
use crate::sieve::{self, Target, too_far, widen};
use crate::staging::Staging;
use crate::view::View;

/// Bytes staged at a time.
const STAGING_BYTES: u64 = 1 << 20;

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
    if let (Some(at), Some(memory)) = (view.contiguous_at(packed), buffer.memory()) {
        return target.step((at, buffer.len()), || match direction {
            Direction::Read => widen(target.disk.read(at, memory)),
            Direction::Write => widen(target.disk.write(at, memory)),
        });
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
    match direction {
        Direction::Read => sieve::read(target, runs, memory),
        Direction::Write if target.sieve.writes => sieve::write(target, runs, memory),
        Direction::Write => write_each(target, runs, memory),
    }
}

/// Writes one run of memory to the next runs of the file, one after the other.
fn write_each(target: Target<'_>, runs: &mut Runs<'_>, memory: UserBuf) -> (u64, Result<()>) {
    let mut done = 0;
    while done < memory.len() {
        let run = runs.take((memory.len() - done) as u64);
        let Some((run, at)) = run.and_then(|run| Some((run, target.offset_of(run.at)?))) else {
            return (done as u64, Err(too_far()));
        };
        let part = memory.slice(done, run.len as usize);
        let (moved, result) = target.step((at, run.len), || widen(target.disk.write(at, part)));
        done += moved as usize;
        if result.is_err() || moved < run.len {
            return (done as u64, result);
        }
    }
    (done as u64, Ok(()))
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
