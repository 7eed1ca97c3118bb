//! Views: which bytes of the file a process sees, and in which order (MPI-5.0 §14.3).
//!
//! A view is a displacement and a filetype that repeats from there on without end. Positions are
//! counted in etypes. Within this crate a position is the number of data bytes of the view before
//! it ("packed bytes"), of which an etype has a fixed number.
//!
//! Invariants: the runs of the filetype ascend from 0 on, and do not overlap if the file is
//! written; its size is a multiple of the etype's, which is above 0. A filetype whose repetitions
//! overlap is accepted, since programs use it once; an access that needs two of them goes directly.

use objects::datatype::{Placement, Runs};
use objects::{Class, Datatype, Error, Result};

use crate::datarep::Datarep;

/// What a process sees of a file.
pub struct View {
    /// Where the first filetype begins, bytes from the start of the file.
    pub disp: i64,
    /// The unit of positions.
    pub etype: Datatype,
    /// The pattern of visible bytes, as the user gave it.
    pub filetype: Datatype,
    /// The representation of the data.
    pub datarep: Datarep,
    /// The filetype with the sizes of the file.
    layout: Datatype,
    /// Packed bytes of an etype in the file.
    etype_bytes: u64,
    /// No two parts of the filetype overlap.
    disjoint: bool,
    /// The filetype can be repeated: its parts still ascend and do not overlap.
    repeats: bool,
}

impl View {
    /// Returns the view of a file that was just opened: all of it, in bytes.
    pub fn whole() -> View {
        let byte = Datatype::byte();
        View {
            disp: 0,
            etype: byte.clone(),
            filetype: byte.clone(),
            datarep: Datarep::Native,
            layout: byte.clone(),
            etype_bytes: 1,
            disjoint: true,
            repeats: true,
        }
    }

    /// Checks and makes a view; `writes`: the file may be written.
    pub fn new(
        disp: i64,
        etype: Datatype,
        filetype: Datatype,
        datarep: Datarep,
        writes: bool,
    ) -> Result<View> {
        if disp < 0 {
            let text = format!("invalid displacement {disp}: must not be negative");
            return Err(Error::new(Class::Arg, text));
        }
        for (ty, name) in [(&etype, "etype"), (&filetype, "filetype")] {
            if !ty.is_committed() {
                let text = format!("the {name} is not committed: call MPI_Type_commit first");
                return Err(Error::new(Class::Type, text));
            }
        }
        let (layout, unit) = (datarep.in_file(&filetype)?, datarep.in_file(&etype)?);
        if unit.size() == 0 || layout.size() % unit.size() != 0 {
            let text = format!(
                "invalid filetype of {} bytes: must consist of etypes of {} bytes",
                layout.size(),
                unit.size()
            );
            return Err(Error::new(Class::Arg, text));
        }
        let (one, next) = layout.placement();
        check_order(&layout, one, writes)?;
        let (disjoint, repeats) = (one == Placement::Disjoint, next == Placement::Disjoint);
        Ok(View {
            disp,
            etype,
            filetype,
            datarep,
            etype_bytes: unit.size(),
            layout,
            disjoint,
            repeats,
        })
    }

    /// Returns the packed bytes of an etype in the file.
    pub(crate) fn etype_bytes(&self) -> u64 {
        self.etype_bytes
    }

    /// Returns the packed bytes before a position in etypes.
    pub(crate) fn packed(&self, offset: i64) -> Result<u64> {
        let etypes = u64::try_from(offset).map_err(|_| {
            Error::new(Class::Arg, format!("invalid offset {offset}: must not be negative"))
        })?;
        etypes.checked_mul(self.etype_bytes).filter(|&bytes| bytes <= i64::MAX as u64).ok_or_else(
            || Error::new(Class::Arg, format!("invalid offset {offset}: beyond 2^63 bytes")),
        )
    }

    /// Returns how many etypes so many bytes of the file are. MPI_ERR_ARG if it is not a whole
    /// number.
    pub(crate) fn etypes(&self, bytes: u64) -> Result<i64> {
        if !bytes.is_multiple_of(self.etype_bytes) {
            let text = format!(
                "invalid access of {bytes} bytes: must be a multiple of the etype's {}",
                self.etype_bytes
            );
            return Err(Error::new(Class::Arg, text));
        }
        Ok((bytes / self.etype_bytes) as i64)
    }

    /// Returns true if the view shows no byte of the file.
    pub(crate) fn is_empty(&self) -> bool {
        self.layout.size() == 0
    }

    /// Returns true if the view has no holes.
    pub(crate) fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// Returns the runs of the view from a packed byte on, relative to `disp`.
    pub(crate) fn runs(&self, packed: u64) -> Runs<'_> {
        self.layout.runs(packed)
    }

    /// Returns where a packed byte lies in the file if all bytes after it follow it there.
    #[inline]
    pub(crate) fn contiguous_at(&self, packed: u64) -> Option<i64> {
        if !self.layout.is_contiguous() || self.is_empty() {
            return None;
        }
        let first = self.disp.checked_add(self.layout.true_extent().0)?;
        first.checked_add(i64::try_from(packed).ok()?)
    }

    /// Returns where a packed byte lies in the file.
    pub(crate) fn byte_at(&self, packed: u64) -> Result<i64> {
        if let Some(at) = self.contiguous_at(packed) {
            return Ok(at);
        }
        if self.is_empty() {
            return Ok(self.disp);
        }
        let run = self.runs(packed).take(1);
        run.and_then(|run| self.disp.checked_add(run.at))
            .ok_or_else(|| Error::new(Class::Arg, "invalid offset: the byte lies beyond 2^63"))
    }

    /// Returns where a position in etypes lies in the file (MPI_File_get_byte_offset).
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        self.byte_at(self.packed(offset)?)
    }

    /// Returns a range of the file, its first byte and one after its last, in which `len` packed
    /// bytes lie; empty if there are none. It is the smallest if they ascend in the file.
    pub(crate) fn span(&self, packed: u64, len: u64) -> Result<(i64, i64)> {
        let start = self.byte_at(packed)?;
        if len == 0 {
            return Ok((start, start));
        }
        let last = packed + (len - 1);
        let end = self.byte_at(last)?.saturating_add(1);
        let size = self.layout.size().max(1);
        let tiles = (packed / size, last / size);
        match self.disjoint && (self.repeats || tiles.0 == tiles.1) {
            true => Ok((start, end)),
            false => Ok(self.span_of_tiles(tiles).unwrap_or((0, i64::MAX))),
        }
    }

    /// Returns the range of the file in which the tiles from the first to the last one lie, in any
    /// order; `None` if it is too large.
    fn span_of_tiles(&self, (first, last): (u64, u64)) -> Option<(i64, i64)> {
        let (low, high) = self.layout.reach(last - first + 1)?;
        let tile = i64::try_from(first).ok()?.checked_mul(self.layout.extent().1)?;
        let base = self.disp.checked_add(tile)?;
        // Tiles that go back end where the file begins.
        Some((base.checked_add(low)?.max(0), base.checked_add(high)?.max(0)))
    }

    /// Returns true if these packed bytes ascend in the file and none is another one's.
    pub(crate) fn is_disjoint(&self, packed: u64, len: u64) -> bool {
        self.disjoint && (self.repeats || packed.saturating_add(len) <= self.layout.size())
    }

    /// Returns how many packed bytes lie before a byte of the file. The view is disjoint.
    pub(crate) fn packed_before(&self, byte: i64) -> u64 {
        byte.checked_sub(self.disp).map_or(0, |end| self.layout.packed_before(end, self.repeats))
    }

    /// Returns the most pieces of the file that so many packed bytes lie in.
    pub(crate) fn pieces_of(&self, len: u64) -> u64 {
        match self.layout.size() {
            0 => 0,
            _ if self.layout.is_contiguous() => 1,
            size => {
                let each = self.layout.run_count();
                (len / size).saturating_mul(each).saturating_add(each.min(len % size))
            }
        }
    }

    /// Returns the position of the end of a file of `size` bytes, in whole etypes, rounded up.
    pub(crate) fn end_of(&self, size: i64) -> i64 {
        self.packed_before(size).div_ceil(self.etype_bytes) as i64
    }
}

/// Checks that the runs ascend from 0 on, and do not overlap if the file is written.
fn check_order(layout: &Datatype, placement: Placement, writes: bool) -> Result<()> {
    let low = layout.true_extent().0;
    if low < 0 {
        let text = format!("invalid filetype: it begins at {low} bytes, must not be negative");
        return Err(Error::new(Class::Arg, text));
    }
    let why = match placement {
        Placement::Disjoint => return Ok(()),
        Placement::Overlapping if !writes => return Ok(()),
        Placement::Overlapping => {
            "its parts overlap, which is not allowed in a file that is written"
        }
        Placement::Unordered => "its displacements must not descend",
    };
    Err(Error::new(Class::Arg, format!("invalid filetype: {why}")))
}

#[cfg(test)]
mod tests {
    use objects::datatype::Counting::Int;

    use super::*;

    fn view(disp: i64, etype: &Datatype, filetype: &Datatype) -> Result<View> {
        etype.commit();
        filetype.commit();
        View::new(disp, etype.clone(), filetype.clone(), Datarep::Native, true)
    }

    #[test]
    fn positions_lie_in_holes_and_tiles() {
        let int = Datatype::predefined(0x209).unwrap();
        let every_third = Datatype::vector(Int, 2, 1, 3, int).unwrap();
        let tile = Datatype::resized(Int, &every_third, 0, 24).unwrap();
        let view = view(100, int, &tile).unwrap();
        let places: Vec<i64> = (0..5).map(|at| view.byte_offset(at).unwrap()).collect();
        assert_eq!(places, [100, 112, 124, 136, 148]);
        assert_eq!(view.span(4, 8).unwrap(), (112, 128));
        let column = Datatype::vector(Int, 8, 1, 8, int).unwrap();
        let columns =
            self::view(100, int, &Datatype::resized(Int, &column, 0, 4).unwrap()).unwrap();
        // A part of a column, a whole one, one and the first element of the next, nothing.
        assert_eq!(columns.span(36, 8).unwrap(), (136, 172));
        assert_eq!(columns.span(32, 32).unwrap(), (104, 332));
        assert_eq!(columns.span(32, 36).unwrap(), (104, 336));
        assert_eq!(columns.span(32, 0).unwrap(), (104, 104));
        let back = Datatype::resized(Int, &column, 0, -64).unwrap();
        assert_eq!(self::view(100, int, &back).unwrap().span(28, 8).unwrap(), (36, 328));
        assert_eq!(self::view(0, int, &back).unwrap().span(28, 8).unwrap(), (0, 228));
        let far = Datatype::resized(Int, &column, 0, 4).unwrap();
        let far = self::view(i64::MAX - 228, int, &far).unwrap();
        assert_eq!(far.span(32, 4).unwrap(), (i64::MAX - 224, i64::MAX - 220));
        assert_eq!(far.span(28, 8).unwrap(), (0, i64::MAX));
        let ends: Vec<i64> =
            [0, 100, 101, 104, 112, 113, 124, 140].map(|size| view.end_of(size)).into();
        assert_eq!(ends, [0, 0, 1, 1, 1, 2, 2, 4]);
        assert_eq!(view.contiguous_at(4), None);
        let moved = Datatype::hindexed(Int, &[1], &[8], int).unwrap();
        let all = self::view(100, int, &Datatype::resized(Int, &moved, 8, 4).unwrap()).unwrap();
        assert_eq!((all.contiguous_at(0), all.contiguous_at(12)), (Some(108), Some(120)));
        assert_eq!(all.runs(12).take(4).map(|run| run.at + all.disp), Some(120));
        assert_eq!(all.contiguous_at(i64::MAX as u64), None);
        assert_eq!(view.packed(-1).unwrap_err().class(), Class::Arg);
        assert_eq!(view.etypes(6).unwrap_err().class(), Class::Arg);
    }

    #[test]
    fn wrong_views_are_refused() {
        let (byte, int) = (Datatype::byte(), Datatype::predefined(0x209).unwrap());
        let odd = Datatype::contiguous(Int, 6, byte).unwrap();
        let negative = Datatype::hindexed(Int, &[4], &[-4], byte).unwrap();
        let descending = Datatype::indexed(Int, &[1, 1], &[4, 0], byte).unwrap();
        for (disp, etype, filetype) in
            [(-1, byte, byte), (0, int, &odd), (0, byte, &negative), (0, byte, &descending)]
        {
            assert_eq!(view(disp, etype, filetype).map(|_| ()).unwrap_err().class(), Class::Arg);
        }
        let overlapping = Datatype::vector(Int, 2, 4, 2, byte).unwrap();
        assert!(view(0, byte, &overlapping).is_err());
        overlapping.commit();
        assert!(View::new(0, byte.clone(), overlapping, Datarep::Native, false).is_ok());
    }
}
