//! Layouts of target memory as they travel: segments of elements.
//!
//! A [`Layout`] lists the elements of an operation's target in packing order, as runs of elements
//! at a stride. Put and get have elements of one byte; accumulates have elements of one predefined
//! type. A [`Cursor`] is a position in it, from which [`Layout::cut`] takes what fits a frame. The
//! decoder accepts any bytes; whether a segment lies in the window is checked where it is used.

use objects::Datatype;
use objects::datatype::StridedRuns;

/// Runs of adjacent elements at a fixed stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    /// Displacement of the first element from the window's begin, bytes.
    pub(crate) disp: i64,
    /// Bytes from one run to the next.
    pub(crate) stride: i64,
    /// Elements of a run, at least 1.
    pub(crate) count: u64,
    /// Number of runs, at least 1.
    pub(crate) repeat: u64,
}

impl Segment {
    /// Bytes of an encoded segment.
    pub(crate) const SIZE: usize = 24;

    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> u64 {
        self.count * self.repeat
    }

    /// Encodes displacement (8), stride (8), count (4) and repeat (4), little-endian.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.disp.to_le_bytes());
        out[8..16].copy_from_slice(&self.stride.to_le_bytes());
        out[16..20].copy_from_slice(&(self.count as u32).to_le_bytes());
        out[20..24].copy_from_slice(&(self.repeat as u32).to_le_bytes());
    }

    /// Decodes a segment from exactly [`Segment::SIZE`] bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Segment> {
        let bytes: &[u8; Segment::SIZE] = bytes.try_into().ok()?;
        let wide = |at: usize| i64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let half = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i])).into();
        Some(Segment { disp: wide(0), stride: wide(8), count: half(16), repeat: half(20) })
    }
}

/// The elements of an operation's target, in packing order.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    segments: Segments,
    /// Packed bytes of an element.
    pub(crate) size: usize,
    /// Bytes from one element of a run to the next.
    extent: usize,
}

/// Most runs of a target's layout that are accessed one by one...
const MAX_SHORT_RUNS: u64 = 16;
/// ... unless they have this many bytes on average: a system call or a work request then costs less
/// than a frame.
const LONG_RUN_BYTES: u64 = 2048;

/// One segment needs no memory of its own.
#[derive(Clone, Debug)]
enum Segments {
    One(Segment),
    Many(Vec<Segment>),
}

/// The position of the next element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    index: usize,
    repeat: u64,
    element: u64,
}

/// The bytes that a frame has for segments and for data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Space {
    /// Both share one body.
    Shared(usize),
    /// Segments in the request's body, data in the reply's, each of so many bytes.
    Separate(usize, usize),
}

impl Layout {
    /// No elements.
    pub(crate) const NONE: Layout =
        Layout { segments: Segments::Many(Vec::new()), size: 1, extent: 1 };

    /// Describes `count` elements of `datatype` at `disp` bytes; `size` and `extent` are those of
    /// its basic elements (1 and 1: bytes).
    pub(crate) fn new(
        disp: i64,
        count: u64,
        datatype: &Datatype,
        (size, extent): (usize, usize),
    ) -> Layout {
        let mut builder = Builder { segments: Vec::new(), extent: extent as i64 };
        if size == extent {
            datatype.for_each_run(count, &mut |runs| {
                builder.push(Segment {
                    disp: disp + runs.disp,
                    stride: runs.stride,
                    count: runs.len / size as u64,
                    repeat: runs.count,
                });
            });
        } else {
            let mut packed = 0;
            datatype.for_each_run(count, &mut |runs| {
                packed = builder.push_elements(disp, runs, size as u64, packed);
            });
        }
        let segments = match builder.segments.as_slice() {
            &[one] => Segments::One(one),
            _ => Segments::Many(builder.segments),
        };
        Layout { segments, size, extent }
    }

    /// Keeps only the first elements, of so many packed bytes.
    pub(crate) fn truncate(&mut self, bytes: u64) {
        let mut left = bytes / self.size as u64;
        let mut kept = Vec::new();
        for segment in self.segments() {
            let runs = (left / segment.count).min(segment.repeat);
            if runs > 0 {
                kept.push(Segment { repeat: runs, ..*segment });
            }
            left -= runs * segment.count;
            if runs < segment.repeat {
                let disp = segment.disp + runs as i64 * segment.stride;
                if left > 0 {
                    kept.push(Segment { disp, stride: 0, count: left, repeat: 1 });
                }
                break;
            }
        }
        self.segments = Segments::Many(kept);
    }

    /// Returns all segments.
    pub(crate) fn segments(&self) -> &[Segment] {
        match &self.segments {
            Segments::One(one) => std::slice::from_ref(one),
            Segments::Many(many) => many,
        }
    }

    /// Returns true when the cursor is at the end.
    pub(crate) fn is_end(&self, cursor: Cursor) -> bool {
        cursor.index == self.segments().len()
    }

    /// Takes the next run: its displacement and its elements. `None` at the end.
    pub(crate) fn next_run(&self, cursor: &mut Cursor) -> Option<(i64, u64)> {
        let segment = self.segments().get(cursor.index)?;
        let disp = segment.disp + cursor.repeat as i64 * segment.stride;
        cursor.repeat += 1;
        if cursor.repeat == segment.repeat {
            *cursor = Cursor { index: cursor.index + 1, ..Cursor::default() };
        }
        Some((disp, segment.count))
    }

    /// Returns true if the runs are few or long: each is then accessed by itself rather than sent
    /// with others in frames.
    pub(crate) fn has_long_runs(&self) -> bool {
        let runs: u64 = self.segments().iter().map(|segment| segment.repeat).sum();
        let elements: u64 = self.segments().iter().map(Segment::elements).sum();
        runs <= MAX_SHORT_RUNS || elements * self.size as u64 / runs >= LONG_RUN_BYTES
    }

    /// Moves the elements that fit the space to `out`; returns their packed bytes.
    pub(crate) fn cut(&self, cursor: &mut Cursor, space: Space, out: &mut Vec<Segment>) -> usize {
        let (mut shared, mut replies) = match space {
            Space::Shared(bytes) => (bytes, usize::MAX),
            Space::Separate(segments, data) => (segments, data),
        };
        let is_shared = matches!(space, Space::Shared(_));
        let mut total = 0;
        while let Some(segment) = self.segments().get(cursor.index) {
            let Some(left) = shared.checked_sub(Segment::SIZE) else { break };
            let room = if is_shared { left } else { replies } / self.size;
            let Some(piece) = take(segment, cursor, room as u64, self.extent as i64) else { break };
            let bytes = piece.elements() as usize * self.size;
            out.push(piece);
            total += bytes;
            shared = if is_shared { left - bytes } else { left };
            replies = if is_shared { replies } else { replies - bytes };
        }
        total
    }
}

/// Takes at most `room` elements of a segment: whole runs, or a part of one.
fn take(segment: &Segment, cursor: &mut Cursor, room: u64, extent: i64) -> Option<Segment> {
    let disp = segment.disp + cursor.repeat as i64 * segment.stride;
    let room = room.min(u32::MAX.into());
    let piece = if cursor.element == 0 && room >= segment.count {
        let repeat = (room / segment.count).min(segment.repeat - cursor.repeat);
        cursor.repeat += repeat;
        Segment { disp, repeat, ..*segment }
    } else {
        let count = room.min(segment.count - cursor.element);
        if count == 0 {
            return None;
        }
        let disp = disp + cursor.element as i64 * extent;
        let piece = Segment { disp, stride: 0, count, repeat: 1 };
        cursor.element += count;
        if cursor.element == segment.count {
            (cursor.element, cursor.repeat) = (0, cursor.repeat + 1);
        }
        piece
    };
    if cursor.repeat == segment.repeat {
        *cursor = Cursor { index: cursor.index + 1, ..Cursor::default() };
    }
    Some(piece)
}

/// Collects segments and merges those that continue each other.
struct Builder {
    segments: Vec<Segment>,
    extent: i64,
}

impl Builder {
    /// Adds the elements that begin in these runs, for elements with gaps inside. `packed` is the
    /// packed offset of the first run; returns that of its end.
    fn push_elements(&mut self, disp: i64, runs: StridedRuns, size: u64, mut packed: u64) -> u64 {
        for run in 0..runs.count as i64 {
            let begin = disp + runs.disp + run * runs.stride;
            let mut next = packed.next_multiple_of(size);
            while next < packed + runs.len {
                let disp = begin + (next - packed) as i64;
                self.push(Segment { disp, stride: 0, count: 1, repeat: 1 });
                next += size;
            }
            packed += runs.len;
        }
        packed
    }

    fn push(&mut self, mut segment: Segment) {
        if segment.repeat > 1 && segment.stride == segment.count as i64 * self.extent {
            (segment.count, segment.repeat) = (segment.elements(), 1);
        }
        if segment.repeat == 1
            && let Some(last) = self.segments.last_mut()
        {
            if last.repeat == 1 && last.disp + last.count as i64 * self.extent == segment.disp {
                last.count += segment.count;
                return;
            }
            let is_next =
                last.repeat == 1 || segment.disp == last.disp + last.repeat as i64 * last.stride;
            if last.count == segment.count && is_next {
                if last.repeat == 1 {
                    last.stride = segment.disp - last.disp;
                }
                last.repeat += 1;
                return;
            }
        }
        self.segments.push(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use objects::datatype::Counting::Int;

    /// The displacements of all elements.
    fn expand(segments: &[Segment], extent: i64) -> Vec<i64> {
        let mut all = Vec::new();
        for segment in segments {
            for run in 0..segment.repeat as i64 {
                let begin = segment.disp + run * segment.stride;
                all.extend((0..segment.count as i64).map(|at| begin + at * extent));
            }
        }
        all
    }

    #[test]
    fn pieces_are_the_whole_in_order() {
        let int = Datatype::predefined(0x209).unwrap();
        let column = Datatype::vector(Int, 7, 3, 5, int).unwrap();
        let odd = Datatype::indexed(Int, &[2, 1, 3], &[9, 0, 5], &column).unwrap();
        let pair = Datatype::predefined(0x22c).unwrap();
        let pairs = Datatype::vector(Int, 4, 2, 3, pair).unwrap();
        for (datatype, size, extent) in
            [(int, 4, 4), (&column, 4, 4), (&odd, 4, 4), (&pairs, 6, 8), (&odd, 1, 1)]
        {
            let layout = Layout::new(100, 3, datatype, (size, extent));
            let whole = expand(layout.segments(), extent as i64);
            assert_eq!(whole.len() as u64 * size as u64, datatype.size() * 3);
            for bytes in [30, 40, 64, 100, 4096] {
                for space in [Space::Shared(bytes), Space::Separate(bytes, bytes)] {
                    let (mut cursor, mut found) = (Cursor::default(), Vec::new());
                    while !layout.is_end(cursor) {
                        let mut piece = Vec::new();
                        let data = layout.cut(&mut cursor, space, &mut piece);
                        let heads = piece.len() * Segment::SIZE;
                        assert!(data > 0 && heads <= bytes && data <= bytes);
                        assert!(matches!(space, Space::Separate(..)) || heads + data <= bytes);
                        found.extend(expand(&piece, extent as i64));
                    }
                    assert_eq!(found, whole);
                    let (mut cursor, mut runs) = (Cursor::default(), Vec::new());
                    while let Some((disp, count)) = layout.next_run(&mut cursor) {
                        runs.push(Segment { disp, stride: 0, count, repeat: 1 });
                    }
                    assert!(expand(&runs, extent as i64) == whole && layout.is_end(cursor));
                }
            }
        }
    }

    #[test]
    fn regular_layouts_are_one_segment() {
        let double = Datatype::predefined(0x214).unwrap();
        let column = Datatype::vector(Int, 100, 1, 8, double).unwrap();
        let layout = Layout::new(0, 1, &column, (8, 8));
        let column = Segment { disp: 0, stride: 64, count: 1, repeat: 100 };
        assert_eq!(layout.segments(), [column]);
        let mut bytes = [0; Segment::SIZE];
        column.encode(&mut bytes);
        assert_eq!(Segment::decode(&bytes), Some(column));
        assert_eq!(Segment::decode(&bytes[1..]), None);
        let mut short = layout.clone();
        short.truncate(24);
        assert_eq!(short.segments(), [Segment { repeat: 3, ..column }]);
        assert!(Layout::new(5, 0, double, (1, 1)).is_end(Cursor::default()));
    }
}
