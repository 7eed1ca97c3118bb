//! The runs of bytes of a datatype, for layouts that travel to another process.
//!
//! One-sided operations describe the target's memory to the target by these.

use super::Datatype;
use super::basic::{Basic, NAMED, Repr, Scalar};
use super::layout::Node;

/// Runs of equal length at a fixed stride.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StridedRuns {
    /// Displacement of the first run from the address of the first element, bytes.
    pub disp: i64,
    /// Bytes of each run.
    pub len: u64,
    /// Bytes from one run to the next.
    pub stride: i64,
    /// Number of runs, at least 1.
    pub count: u64,
}

impl Datatype {
    /// Passes the runs of `count` elements to `each`, in packing order.
    pub fn for_each_run(&self, count: u64, each: &mut dyn FnMut(StridedRuns)) {
        if self.size() == 0 || count == 0 {
            return;
        }
        let (nest, disp) = self.nest(count);
        repeat(nest.body, disp, nest.stride, nest.count, each);
    }

    /// Returns a number that names the predefined type of all elements to another process; `None`
    /// if there are several types, or none.
    pub fn basic_code(&self) -> Option<u32> {
        let basic = self.basic()?;
        match basic.repr {
            Repr::Pair(value, index) if basic.handle == 0 => {
                Some(u32::from(scalar_handle(value)?) | u32::from(scalar_handle(index)?) << 16)
            }
            _ => Some(basic.handle.into()),
        }
    }

    /// Returns the predefined type that [`Datatype::basic_code`] has named; `None` for any other
    /// number.
    pub fn from_basic_code(code: u32) -> Option<Datatype> {
        let named = |handle: u32| {
            Datatype::predefined(handle as usize).filter(|named| named.own_basic().is_some())
        };
        match (code & 0xffff, code >> 16) {
            (handle, 0) => named(handle).cloned(),
            (value, index) => Datatype::value_index(named(value)?, named(index)?),
        }
    }
}

/// Returns a handle of a type with that representation.
fn scalar_handle(scalar: Scalar) -> Option<u16> {
    let is_it = |basic: &Basic| basic.repr == Repr::Single(scalar);
    NAMED.iter().map(|&(_, basic)| basic).find(is_it).map(|basic| basic.handle)
}

fn repeat(body: &Node, disp: i64, stride: i64, count: u64, each: &mut dyn FnMut(StridedRuns)) {
    match body {
        Node::Run(len) => each(StridedRuns { disp, len: *len, stride, count }),
        _ => (0..count as i64).for_each(|index| node(body, disp + index * stride, each)),
    }
}

/// Passes the runs of one node; displacements were checked when the node was built.
fn node(part: &Node, disp: i64, each: &mut dyn FnMut(StridedRuns)) {
    match part {
        Node::Run(len) => each(StridedRuns { disp, len: *len, stride: 0, count: 1 }),
        Node::Loop(inner) => repeat(&inner.body, disp, inner.stride, inner.count, each),
        Node::Gather(inner) => {
            inner.disps.iter().for_each(|&at| node(&inner.body, disp + at, each));
        }
        Node::Blocks(inner) => {
            let lengths = inner.starts.windows(2).map(|pair| pair[1] - pair[0]);
            for (&at, len) in inner.disps.iter().zip(lengths) {
                each(StridedRuns { disp: disp + at, len, stride: 0, count: 1 });
            }
        }
        Node::List(inner) => {
            inner.items.iter().for_each(|(at, item)| node(item, disp + at, each));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::tests::buffer_of;
    use crate::datatype::Counting::Int;

    fn bytes_of(datatype: &Datatype, count: u64) -> Vec<i64> {
        let mut bytes = Vec::new();
        datatype.for_each_run(count, &mut |runs| {
            for run in 0..runs.count as i64 {
                bytes.extend((0..runs.len as i64).map(|at| runs.disp + run * runs.stride + at));
            }
        });
        bytes
    }

    #[test]
    fn runs_are_the_bytes_that_packing_moves() {
        let int = Datatype::predefined(0x209).unwrap();
        let column = Datatype::vector(Int, 3, 1, 4, int).unwrap();
        let mixed = Datatype::indexed(Int, &[2, 1, 0, 3], &[9, -1, 5, 0], &column).unwrap();
        for (datatype, count) in [(int, 5), (&column, 2), (&mixed, 3)] {
            let (low, high) = datatype.reach(count).unwrap();
            let mut memory: Vec<u8> = vec![0; (high - low) as usize];
            let found = bytes_of(datatype, count);
            assert_eq!(found.len() as u64, datatype.size() * count);
            let pattern: Vec<u8> = (0..found.len()).map(|at| (at % 251) as u8).collect();
            buffer_of(&mut memory, -low, count, datatype).unpack(0, &pattern);
            let read: Vec<u8> = found.iter().map(|at| memory[(at - low) as usize]).collect();
            assert_eq!(read, pattern);
        }
    }

    #[test]
    fn codes_name_every_predefined_type() {
        for handle in 0x200..0x300 {
            let Some(datatype) = Datatype::predefined(handle) else { continue };
            let Some(code) = datatype.basic_code() else { continue };
            let back = Datatype::from_basic_code(code).unwrap();
            assert_eq!(back.basic(), datatype.basic(), "{handle:#x}");
        }
        let (float, long) = (Datatype::predefined(0x210), Datatype::predefined(0x20a));
        let pair = Datatype::value_index(float.unwrap(), long.unwrap()).unwrap();
        let back = Datatype::from_basic_code(pair.basic_code().unwrap()).unwrap();
        assert_eq!(back.basic(), pair.basic());
        assert!(Datatype::from_basic_code(0xffff_ffff).is_none());
    }
}
