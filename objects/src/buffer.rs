//! The user's buffer: an address, a count and a datatype, as one value that can
//! be packed, unpacked and copied piece by piece.
//!
//! There are two shapes: one run of memory (every contiguous type, and single elements without
//! gaps), which costs no reference count, and all other layouts. All offsets are packed bytes.
//! While signatures are checked, users' buffers keep their datatype in any case.
//!
//! The maker of a [`Buffer`] or an [`Area`] vouches for the memory once, as for [`UserBuf`]. The
//! protocol crates then need no `unsafe` of their own. Access is by copies, never by references: if
//! an erroneous program changes the memory meanwhile, the data is wrong and nothing else.

#![allow(unsafe_code)]

use fabric::{Slot, UserBuf};

use crate::datatype::SignatureWord;
use crate::datatype::copy::transfer;
use crate::{Class, Datatype, Error, Result};

/// Bytes staged at a time between two layouts with gaps.
const STAGING_BYTES: usize = 8192;

/// The memory that a message is sent from or received into.
#[derive(Clone)]
pub struct Buffer(Shape);

#[derive(Clone)]
enum Shape {
    /// Describes one run of bytes.
    Contiguous(UserBuf),
    /// Elements of a type with gaps, or not in order, or whose signature is checked.
    Typed { base: Base, count: u64, datatype: Datatype },
}

/// The address of the first element.
#[derive(Clone, Copy)]
struct Base(*mut u8);

// SAFETY: an address; the maker of the buffer promised that the bytes are valid in whichever thread
// of the process drives the operation.
unsafe impl Send for Base {}
// SAFETY: as for `Send`; there is no interior state to race on.
unsafe impl Sync for Base {}

impl Buffer {
    /// A buffer without bytes.
    pub const EMPTY: Buffer = Buffer(Shape::Contiguous(UserBuf::EMPTY));

    /// Describes `count` elements of `datatype` at `base`, as MPI calls take them.
    ///
    /// # Safety
    /// The bytes that `datatype` describes for these elements must be valid for reads, and
    /// for writes if anything is to be received. This holds until the operation that carries the
    /// buffer has completed. With no bytes any `base` will do.
    #[inline]
    pub unsafe fn new(base: *mut u8, count: u64, datatype: &Datatype) -> Buffer {
        if datatype.is_run(count) {
            // A size beyond memory saturates, so that it never reads as a small one.
            let len = datatype.size().saturating_mul(count);
            let start = base.wrapping_offset(datatype.true_extent().0 as isize);
            // SAFETY: the caller's promise: one run from the true lower bound.
            return Buffer(Shape::Contiguous(unsafe { UserBuf::new(start, len as usize) }));
        }
        if count == 0 {
            return Buffer::EMPTY;
        }
        Buffer(Shape::Typed { base: Base(base), count, datatype: datatype.clone() })
    }

    /// Describes a user's buffer like [`Buffer::new`]; it keeps its signature if these are checked.
    ///
    /// # Safety
    /// As [`Buffer::new`].
    #[inline]
    pub unsafe fn of_user(base: *mut u8, count: u64, datatype: &Datatype) -> Buffer {
        if SignatureWord::is_on() && count > 0 {
            return Buffer(Shape::Typed { base: Base(base), count, datatype: datatype.clone() });
        }
        // SAFETY: the caller's promise.
        unsafe { Buffer::new(base, count, datatype) }
    }

    /// Describes one run of bytes.
    #[inline]
    pub const fn contiguous(memory: UserBuf) -> Buffer {
        Buffer(Shape::Contiguous(memory))
    }

    /// Returns the number of packed bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        match &self.0 {
            Shape::Contiguous(memory) => memory.len() as u64,
            Shape::Typed { count, datatype, .. } => datatype.size().saturating_mul(*count),
        }
    }

    /// Returns the number of packed bytes; `None` while signatures are checked, if this buffer has
    /// one: its messages take the general path.
    #[inline(always)]
    pub fn unchecked_len(&self) -> Option<u64> {
        match &self.0 {
            Shape::Contiguous(memory) => Some(memory.len() as u64),
            Shape::Typed { .. } => self.unchecked_typed_len(),
        }
    }

    /// Returns the signature of the first `bytes` packed bytes, if signatures are checked and this
    /// buffer has one.
    #[inline]
    pub fn signature(&self, bytes: u64) -> SignatureWord {
        match &self.0 {
            Shape::Contiguous(_) => SignatureWord::NONE,
            Shape::Typed { datatype, .. } => signature(datatype, bytes),
        }
    }

    #[inline(never)]
    fn unchecked_typed_len(&self) -> Option<u64> {
        (!SignatureWord::is_on()).then(|| self.len())
    }

    /// Returns true if there are no bytes to move.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the memory, if it is one run.
    #[inline]
    pub fn memory(&self) -> Option<UserBuf> {
        match &self.0 {
            Shape::Contiguous(memory) => Some(*memory),
            Shape::Typed { base, count, datatype } => typed_memory(*base, *count, datatype),
        }
    }

    /// Releases the datatype, if the buffer holds one. The buffer must not be used afterwards.
    #[inline]
    pub fn release(&mut self) {
        if let Shape::Typed { .. } = self.0 {
            *self = Buffer::EMPTY;
        }
    }

    /// Returns the elements `first .. first + count` of a buffer made with `datatype`. Panics if
    /// they are not inside.
    pub fn elements(&self, first: u64, count: u64, datatype: &Datatype) -> Buffer {
        match &self.0 {
            Shape::Contiguous(memory) => {
                let size = datatype.size() as usize;
                Buffer(Shape::Contiguous(
                    memory.slice(first as usize * size, count as usize * size),
                ))
            }
            Shape::Typed { base, count: all, datatype } => {
                assert!(first <= *all && count <= all - first, "elements outside the buffer");
                let offset = (first as i64).wrapping_mul(datatype.extent().1);
                // SAFETY: these elements are part of ours, for which our maker vouched.
                unsafe { Buffer::new(base.0.wrapping_offset(offset as isize), count, datatype) }
            }
        }
    }

    /// Returns the packed bytes `first .. first + len`; `None` if they are a part of an element
    /// with gaps. Panics if they are not inside.
    pub fn part(&self, first: u64, len: u64) -> Option<Buffer> {
        let is_inside = first.checked_add(len).is_some_and(|end| end <= self.len());
        assert!(is_inside, "packed bytes {first} + {len} outside the buffer");
        match &self.0 {
            Shape::Contiguous(memory) => {
                Some(Buffer::contiguous(memory.slice(first as usize, len as usize)))
            }
            Shape::Typed { datatype, .. } => {
                let size = datatype.size().max(1);
                let is_whole = first.is_multiple_of(size) && len.is_multiple_of(size);
                is_whole.then(|| self.elements(first / size, len / size, datatype))
            }
        }
    }

    /// Copies the packed bytes `offset .. offset + out.len()` to `out`. Panics if they are not
    /// inside.
    #[inline]
    pub fn pack(&self, offset: u64, out: &mut [u8]) {
        match &self.0 {
            Shape::Contiguous(memory) => memory.read(offset as usize, out),
            // SAFETY: `out` is a Rust slice, disjoint from user memory.
            Shape::Typed { .. } => unsafe {
                self.move_typed::<true>(offset, out.as_mut_ptr(), out.len())
            },
        }
    }

    /// Returns the packed bytes; MPI_ERR_NO_MEM if there is no memory for them.
    pub fn packed(&self) -> Result<Vec<u8>> {
        let bytes = self.len();
        let mut copy = Vec::new();
        copy.try_reserve_exact(bytes as usize).map_err(|_| {
            Error::new(Class::NoMem, format!("out of memory: cannot copy {bytes} bytes"))
        })?;
        // SAFETY: the vector has space for as many bytes as this buffer has, and all of them are
        // written before its length says so.
        unsafe {
            let memory = UserBuf::new(copy.as_mut_ptr(), bytes as usize);
            Buffer::contiguous(memory).copy_from(self);
            copy.set_len(bytes as usize);
        }
        Ok(copy)
    }

    /// Packs into a slot of a transport, like [`Buffer::pack`].
    #[inline]
    pub fn fill(&self, offset: u64, slot: &mut Slot) {
        match &self.0 {
            Shape::Contiguous(memory) => slot.copy_from(memory.slice(offset as usize, slot.len())),
            Shape::Typed { .. } => self.fill_typed(offset, slot),
        }
    }

    #[inline(never)]
    fn fill_typed(&self, offset: u64, slot: &mut Slot) {
        slot.fill_chunks(|at, part| self.pack(offset + at as u64, part));
    }

    /// Copies `bytes` to the packed bytes `offset ..`. Panics if they do not fit.
    #[inline]
    pub fn unpack(&self, offset: u64, bytes: &[u8]) {
        match &self.0 {
            Shape::Contiguous(memory) => memory.write(offset as usize, bytes),
            // SAFETY: `bytes` is a Rust slice, only read, disjoint from user memory.
            Shape::Typed { .. } => unsafe {
                self.move_typed::<false>(offset, bytes.as_ptr().cast_mut(), bytes.len())
            },
        }
    }

    /// Unpacks a part of a body, like [`Buffer::unpack`]; `by_lines` selects the copy line by line.
    #[inline]
    pub fn unpack_part(&self, offset: u64, bytes: &[u8], by_lines: bool) {
        match &self.0 {
            Shape::Contiguous(memory) if by_lines => memory.write_lines(offset as usize, bytes),
            _ => self.unpack(offset, bytes),
        }
    }

    /// Copies from another buffer of any layout as many packed bytes as both have, and returns
    /// their number. Two single runs may overlap.
    pub fn copy_from(&self, from: &Buffer) -> u64 {
        if let (Shape::Contiguous(to), Shape::Contiguous(from)) = (&self.0, &from.0) {
            let len = to.len().min(from.len());
            to.copy_from(from.slice(0, len));
            return len as u64;
        }
        self.copy_typed(from)
    }

    #[inline(never)]
    fn copy_typed(&self, from: &Buffer) -> u64 {
        let len = self.len().min(from.len());
        match (self.memory(), from.memory()) {
            (Some(to), Some(from)) => to.copy_from(from.slice(0, len as usize)),
            // SAFETY: the run is valid by its maker's promise, and MPI forbids
            // that two buffers of one call overlap.
            (Some(to), None) => unsafe { from.move_typed::<true>(0, to.as_ptr(), len as usize) },
            // SAFETY: as in the function before.
            (None, Some(from)) => unsafe {
                self.move_typed::<false>(0, from.as_ptr(), len as usize)
            },
            (None, None) => self.copy_staged(from, len),
        }
        len
    }

    fn copy_staged(&self, from: &Buffer, len: u64) {
        let mut staging = [0; STAGING_BYTES];
        let mut done = 0;
        while done < len {
            let piece = &mut staging[..(len - done).min(STAGING_BYTES as u64) as usize];
            from.pack(done, piece);
            self.unpack(done, piece);
            done += piece.len() as u64;
        }
    }

    /// Returns the address of the first element of a buffer made with `datatype`. Reductions and
    /// user functions work on elements.
    #[inline]
    pub(crate) fn address(&self, datatype: &Datatype) -> *mut u8 {
        match &self.0 {
            Shape::Contiguous(memory) => {
                let lb = datatype.true_extent().0 as isize;
                memory.as_ptr().wrapping_offset(lb.wrapping_neg())
            }
            Shape::Typed { base, .. } => base.0,
        }
    }

    /// Returns the number of elements of a buffer made with `datatype`.
    #[inline]
    pub(crate) fn count(&self, datatype: &Datatype) -> u64 {
        match &self.0 {
            Shape::Contiguous(memory) => {
                (memory.len() as u64).checked_div(datatype.size()).unwrap_or(0)
            }
            Shape::Typed { count, .. } => *count,
        }
    }

    /// # Safety
    /// `packed` must be valid for `len` bytes (for writes when `PACK`) and must
    /// not overlap the buffer.
    #[inline(never)]
    unsafe fn move_typed<const PACK: bool>(&self, offset: u64, packed: *mut u8, len: usize) {
        let Shape::Typed { base, count, datatype } = &self.0 else {
            unreachable!("runs are copied directly")
        };
        let end = offset.checked_add(len as u64).filter(|&end| end <= self.len());
        let end = end.unwrap_or_else(|| panic!("packed bytes {offset} + {len} outside the buffer"));
        let (nest, disp) = datatype.nest(*count);
        // SAFETY: our maker vouched for the elements, the caller for `packed`;
        // the range was just checked.
        unsafe {
            transfer::<PACK>(nest, base.0.wrapping_offset(disp as isize), packed, offset, end)
        }
    }
}

/// Returns the memory of elements that are one run: they keep their type for its signature.
#[inline(never)]
fn typed_memory(base: Base, count: u64, datatype: &Datatype) -> Option<UserBuf> {
    if !datatype.is_run(count) {
        return None;
    }
    let len = datatype.size().saturating_mul(count) as usize;
    let start = base.0.wrapping_offset(datatype.true_extent().0 as isize);
    // SAFETY: the buffer's maker vouched for the elements, which are one run.
    Some(unsafe { UserBuf::new(start, len) })
}

#[inline(never)]
fn signature(datatype: &Datatype, bytes: u64) -> SignatureWord {
    if SignatureWord::is_on() { datatype.signature_word(bytes) } else { SignatureWord::NONE }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Shape::Contiguous(memory) => {
                write!(f, "Buffer({} bytes at {:#x})", memory.len(), memory.addr())
            }
            Shape::Typed { base, count, datatype } => {
                write!(f, "Buffer({count} x {datatype:?} at {:p})", base.0)
            }
        }
    }
}

/// The left operands of a reduction: buffers made with one count and datatype, at equal distances.
#[derive(Clone, Debug)]
pub struct Operands {
    first: Buffer,
    many: u32,
    /// Bytes from one operand to the next.
    distance: i64,
}

impl Operands {
    /// Iterates from the last operand to the first, as reductions take them.
    pub fn backwards(&self) -> impl Iterator<Item = Buffer> + '_ {
        self.offsets().map(|offset| match &self.first.0 {
            Shape::Contiguous(memory) => {
                // SAFETY: our maker vouched for each of them.
                Buffer::contiguous(unsafe {
                    UserBuf::new(memory.as_ptr().wrapping_offset(offset), memory.len())
                })
            }
            Shape::Typed { base, count, datatype } => {
                let (base, count, datatype) =
                    (Base(base.0.wrapping_offset(offset)), *count, datatype.clone());
                Buffer(Shape::Typed { base, count, datatype })
            }
        })
    }

    /// Returns the addresses of the operands from the last to the first.
    #[inline]
    pub(crate) fn addresses(&self, datatype: &Datatype) -> impl Iterator<Item = *mut u8> + use<> {
        let first = self.first.address(datatype);
        self.offsets().map(move |offset| first.wrapping_offset(offset))
    }

    /// Returns the number of packed bytes of each operand.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.first.len()
    }

    #[inline]
    fn offsets(&self) -> impl Iterator<Item = isize> + use<> {
        let distance = self.distance;
        (0..i64::from(self.many)).rev().map(move |index| (index * distance) as isize)
    }
}

/// Makes a single operand.
impl From<Buffer> for Operands {
    fn from(first: Buffer) -> Operands {
        Operands { first, many: 1, distance: 0 }
    }
}

/// An address from which a collective cuts buffers, with the bytes around it that it may access.
/// Copies are the same area.
#[derive(Clone, Copy, Debug)]
pub struct Area {
    base: *mut u8,
    low: i64,
    high: i64,
}

// SAFETY: as for `Base`.
unsafe impl Send for Area {}
// SAFETY: as for `Base`.
unsafe impl Sync for Area {}

impl Area {
    /// An area without bytes.
    pub const EMPTY: Area = Area { base: std::ptr::null_mut(), low: 0, high: 0 };

    /// Describes the bytes `low .. high` relative to `base`.
    ///
    /// # Safety
    /// As [`Buffer::new`], for those of these bytes that the buffers cut from it
    /// describe.
    #[inline]
    pub const unsafe fn new(base: *mut u8, low: i64, high: i64) -> Area {
        Area { base, low, high }
    }

    /// Describes the bytes that `count` elements of `datatype` at `base` occupy.
    ///
    /// # Safety
    /// As [`Buffer::new`].
    #[inline]
    pub unsafe fn of(base: *mut u8, count: u64, datatype: &Datatype) -> Area {
        let (low, high) = datatype.reach(count).unwrap_or((0, 0));
        Area { base, low, high }
    }

    /// Returns the bytes of both areas. Panics if the addresses differ.
    #[must_use]
    pub fn union(self, other: Area) -> Area {
        assert!(self.base == other.base, "areas of different buffers");
        Area { base: self.base, low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Returns the address that displacements are relative to.
    #[inline]
    pub fn address(&self) -> u64 {
        self.base as u64
    }

    /// Returns `count` elements of `datatype` at `disp` bytes. Panics if they are not inside.
    #[inline]
    pub fn buffer(&self, disp: i64, count: u64, datatype: &Datatype) -> Buffer {
        let (low, high) = datatype.reach(count).unwrap_or((i64::MIN, i64::MAX));
        if low == high {
            return Buffer::EMPTY;
        }
        self.check(disp.checked_add(low), disp.checked_add(high));
        // SAFETY: inside the area, for which its maker vouched.
        unsafe { Buffer::new(self.base.wrapping_offset(disp as isize), count, datatype) }
    }

    /// Returns `len` bytes at `disp`. Panics if they are not inside.
    #[inline]
    pub fn bytes(&self, disp: i64, len: u64) -> Buffer {
        Buffer::contiguous(self.memory(disp, len))
    }

    /// Returns the memory of `len` bytes at `disp`. Panics if they are not inside.
    #[inline]
    pub fn memory(&self, disp: i64, len: u64) -> UserBuf {
        if len == 0 {
            return UserBuf::EMPTY;
        }
        self.check(Some(disp), disp.checked_add_unsigned(len));
        // SAFETY: inside the area, for which its maker vouched.
        unsafe { UserBuf::new(self.base.wrapping_offset(disp as isize), len as usize) }
    }

    /// Returns `many` operands of `count` elements of `datatype`: the first at `disp` bytes, each
    /// `distance` bytes after the one before. Panics if they are not inside.
    #[inline]
    pub fn operands(
        &self,
        disp: i64,
        count: u64,
        datatype: &Datatype,
        many: u32,
        distance: i64,
    ) -> Operands {
        if many > 1 {
            let last = distance
                .checked_mul(i64::from(many) - 1)
                .and_then(|behind| disp.checked_add(behind));
            // The operands between the first and the last lie between them.
            self.buffer(last.expect("the operands of a reduction are inside"), count, datatype);
        }
        Operands { first: self.buffer(disp, count, datatype), many, distance }
    }

    #[inline]
    fn check(&self, low: Option<i64>, high: Option<i64>) {
        let inside =
            low.is_some_and(|low| low >= self.low) && high.is_some_and(|high| high <= self.high);
        assert!(inside, "bytes {low:?} .. {high:?} outside the area {} .. {}", self.low, self.high);
    }
}

/// Describes the whole block, from its first byte on.
impl From<UserBuf> for Area {
    #[inline]
    fn from(memory: UserBuf) -> Area {
        // SAFETY: its maker vouched for the bytes.
        unsafe { Area::new(memory.as_ptr(), 0, memory.len() as i64) }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::datatype::Counting::Int;

    /// Returns `count` elements at `at`, all of whose bytes are in `bytes`. The slice must outlive
    /// the buffer.
    pub(crate) fn buffer_of(bytes: &mut [u8], at: i64, count: u64, datatype: &Datatype) -> Buffer {
        // SAFETY: the bytes of the slice; `buffer` checks that it is inside.
        let area = unsafe { Area::new(bytes.as_mut_ptr(), 0, bytes.len() as i64) };
        area.buffer(at, count, datatype)
    }

    #[test]
    fn contiguous_types_are_one_run() {
        let mut bytes = [0; 64];
        let int = Datatype::predefined(0x209).unwrap();
        assert_eq!(buffer_of(&mut bytes, 0, 16, int).memory().unwrap().len(), 64);
        let row = Datatype::contiguous(Int, 4, int).unwrap();
        assert_eq!(buffer_of(&mut bytes, 0, 4, &row).memory().unwrap().len(), 64);
        let padded = Datatype::predefined(0x229).unwrap();
        assert!(buffer_of(&mut bytes, 0, 1, padded).memory().is_some());
        assert!(buffer_of(&mut bytes, 0, 2, padded).memory().is_none());
        assert!(Buffer::EMPTY.is_empty());
    }

    #[test]
    fn a_copy_without_memory_for_it_is_an_error() {
        let byte = Datatype::predefined(0x207).unwrap();
        let column = Datatype::vector(Int, 3, 1, 2, byte).unwrap();
        let mut bytes = [1, 2, 3, 4, 5];
        assert_eq!(buffer_of(&mut bytes, 0, 1, &column).packed().unwrap(), [1, 3, 5]);
        // SAFETY: the bytes are never accessed, since there is no memory for the copy.
        let huge = Buffer::contiguous(unsafe { UserBuf::new(bytes.as_mut_ptr(), usize::MAX) });
        assert_eq!(huge.packed().unwrap_err().class(), Class::NoMem);
    }

    #[test]
    fn a_column_is_packed_from_any_byte() {
        let mut matrix: Vec<u8> = (0..100).collect();
        let column = Datatype::vector(Int, 10, 2, 10, Datatype::byte()).unwrap();
        let buffer = buffer_of(&mut matrix, 3, 1, &column);
        let mut out = [0; 20];
        buffer.pack(0, &mut out);
        assert_eq!(out[..6], [3, 4, 13, 14, 23, 24]);
        let mut tail = [0; 5];
        buffer.pack(13, &mut tail);
        assert_eq!(tail[..], out[13..18]);
        buffer.unpack(13, &[0; 5]);
        let mut again = [0; 20];
        buffer.pack(0, &mut again);
        assert_eq!(again[13..18], [0; 5]);
        assert_eq!(again[..13], out[..13]);
    }

    #[test]
    fn a_part_is_of_whole_elements_or_of_one_run() {
        let mut matrix: Vec<u8> = (0..100).collect();
        let pair = Datatype::vector(Int, 2, 1, 5, Datatype::byte()).unwrap();
        let buffer = buffer_of(&mut matrix, 0, 8, &pair);
        let mut all = [0; 16];
        buffer.pack(0, &mut all);
        for (first, len) in [(0, 16), (2, 4), (6, 0), (16, 0), (4, 12)] {
            let mut out = vec![0; len as usize];
            buffer.part(first, len).unwrap().pack(0, &mut out);
            assert_eq!(out, all[first as usize..(first + len) as usize]);
        }
        assert!(buffer.part(3, 4).is_none() && buffer.part(2, 3).is_none());
        let run = buffer_of(&mut matrix, 0, 100, Datatype::byte());
        assert_eq!(run.part(7, 3).unwrap().len(), 3);
    }

    #[test]
    fn layouts_are_copied_into_each_other() {
        let mut from: Vec<u8> = (0..240).collect();
        let mut to = vec![0; 60_000];
        let rows = Datatype::vector(Int, 12, 4, 20, Datatype::byte()).unwrap();
        let sparse = Datatype::vector(Int, 24, 2, 100, Datatype::byte()).unwrap();
        let (source, target) =
            (buffer_of(&mut from, 0, 1, &rows), buffer_of(&mut to, 0, 1, &sparse));
        assert_eq!(target.copy_from(&source), 48);
        let (mut packed, mut copied) = ([0; 48], [0; 48]);
        source.pack(0, &mut packed);
        target.pack(0, &mut copied);
        assert_eq!(packed, copied);
    }

    #[test]
    #[should_panic(expected = "outside the area")]
    fn an_area_ends_where_it_ends() {
        let mut bytes = [0; 10];
        buffer_of(&mut bytes, 4, 2, Datatype::predefined(0x209).unwrap());
    }

    #[test]
    fn elements_of_a_buffer_are_a_buffer() {
        let mut bytes: Vec<u8> = (0..64).collect();
        let padded = Datatype::predefined(0x229).unwrap();
        let all = buffer_of(&mut bytes, 0, 4, padded);
        let last = all.elements(2, 2, padded);
        let mut out = [0; 24];
        last.pack(0, &mut out);
        assert_eq!(out[..13], [32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 48]);
    }
}
