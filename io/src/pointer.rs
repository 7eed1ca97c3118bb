//! Seeks and positions of the individual and the shared pointer (MPI-5.0 §14.4.3, §14.4.4).

use objects::{Class, Error, Result};

use crate::agreement::{agree, agree_same, agree_with};
use crate::amode::SEQUENTIAL;
use crate::file::{File, sequential, too_far};

/// What an offset of a seek is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The start of the view.
    Set,
    /// The pointer.
    Current,
    /// The end of the file.
    End,
}

impl File {
    /// Moves the individual pointer (MPI_File_seek).
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.check_seekable()?;
        let end = if whence == Whence::End { self.end()? } else { 0 };
        let mut state = self.state();
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => state.position,
            Whence::End => end,
        };
        state.position = checked(base, offset)?;
        Ok(())
    }

    /// Returns the individual pointer, etypes.
    pub fn position(&self) -> Result<i64> {
        self.check_seekable()?;
        Ok(self.state().position)
    }

    /// Returns the byte of the file that a position of the view is.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        self.check_seekable()?;
        self.view().byte_offset(offset)
    }

    /// Moves the shared pointer (MPI_File_seek_shared). Collective.
    pub fn seek_shared(&self, offset: i64, whence: Result<Whence>) -> Result<()> {
        let mine = self.check_seekable().and(whence);
        let mut arguments = offset.to_ne_bytes().to_vec();
        arguments.push(mine.as_ref().map_or(0, |whence| *whence as u8));
        let checked = mine.as_ref().map(|_| ()).map_err(Clone::clone);
        agree_same(self.group(), checked, &arguments, "the offset or whence")?;
        let whence = mine?;
        let mine = match self.members.rank() {
            0 => self.target(offset, whence).and_then(|target| self.shared.store(target)),
            _ => Ok(()),
        };
        agree(self.group(), mine)
    }

    fn target(&self, offset: i64, whence: Whence) -> Result<i64> {
        let base = match whence {
            Whence::Set => 0,
            Whence::Current => self.shared.load()?,
            Whence::End => self.end()?,
        };
        checked(base, offset)
    }

    /// Returns the shared pointer, etypes.
    pub fn shared_position(&self) -> Result<i64> {
        self.check_seekable()?;
        self.shared.load()
    }

    /// Returns the byte of the file that the shared pointer is at, the same for all. Collective.
    pub(crate) fn shared_byte(&self) -> Result<i64> {
        // A member that has not come yet may still move the pointer.
        agree(self.group(), self.check_no_split())?;
        let mine = match self.members.rank() {
            0 => self.shared.load().and_then(|here| self.view().byte_offset(here)),
            _ => Ok(0),
        };
        let here = *mine.as_ref().unwrap_or(&0);
        let all = agree_with(self.group(), mine.map(|_| ()), &here.to_ne_bytes())?;
        Ok(i64::from_ne_bytes(std::array::from_fn(|i| all[i])))
    }

    /// Returns the end of the file, etypes of the view.
    pub(crate) fn end(&self) -> Result<i64> {
        Ok(self.view().end_of(self.size()?))
    }

    fn check_seekable(&self) -> Result<()> {
        if self.amode.has(SEQUENTIAL) { Err(sequential()) } else { Ok(()) }
    }
}

fn checked(base: i64, offset: i64) -> Result<i64> {
    match base.checked_add(offset) {
        Some(target @ 0..) => Ok(target),
        Some(target) => Err(Error::new(
            Class::Arg,
            format!("invalid offset {offset}: the pointer would be {target}, before the start"),
        )),
        None => Err(too_far()),
    }
}
