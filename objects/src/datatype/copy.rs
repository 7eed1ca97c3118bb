//! The copy kernels: between packed bytes and the memory that a layout describes.
//!
//! One walk serves both directions. [`transfer`] starts and stops at any packed byte: it handles
//! the partial bodies at both ends. The whole ones between them go to strided loops, which know the
//! common block lengths at compile time. A body is a [`Node`]; the layout has merged adjacent ones
//! before.
//!
//! Safety, for every function here: the caller vouches that each byte that the node describes
//! relative to `user` is valid (for writes when unpacking). It also vouches that `packed` is valid
//! for the moved bytes, and that the two do not overlap. The pointers need no alignment. Addresses
//! are computed by wrapping arithmetic; therefore only bytes that are moved must exist. Bytes that
//! a layout describes twice (erroneous for receiving) may be written in any order.

#![allow(unsafe_code)]

use fabric::copy::copy_long;

use super::layout::{Blocks, Node};

/// `count` bodies at a stride: the kernels' view of a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Nest<'a> {
    pub(crate) count: u64,
    pub(crate) stride: i64,
    pub(crate) body: &'a Node,
}

/// Moves the packed bytes `from .. to` of the nest at `user`: to `packed` if `PACK`, otherwise from
/// it.
///
/// # Safety
/// See the module. `from <= to <= nest.count * nest.body.size()`.
pub(crate) unsafe fn transfer<const PACK: bool>(
    nest: Nest<'_>,
    user: *mut u8,
    packed: *mut u8,
    from: u64,
    to: u64,
) {
    let nest = match nest.body {
        // A loop that its repetition continues is one long loop.
        Node::Loop(inner) if inner.stride.wrapping_mul(inner.count as i64) == nest.stride => {
            Nest { count: nest.count * inner.count, stride: inner.stride, body: &inner.body }
        }
        _ => nest,
    };
    // SAFETY: the caller's promise, passed on.
    unsafe { span::<PACK>(nest, user, packed, from, to) }
}

/// Moves some of the packed bytes of a nest.
unsafe fn span<const PACK: bool>(
    nest: Nest<'_>,
    user: *mut u8,
    mut packed: *mut u8,
    from: u64,
    to: u64,
) {
    if from >= to {
        return;
    }
    let size = nest.body.size();
    let (mut first, head) = (from / size, from % size);
    let (last, tail) = (to / size, to % size);
    let at = |index: u64| user.wrapping_offset((index as i64).wrapping_mul(nest.stride) as isize);
    // SAFETY: bodies `first ..= last` belong to the nest, and each call moves its given number of
    // bytes, by which `packed` advances.
    unsafe {
        if first == last {
            return part::<PACK>(nest.body, at(first), packed, head, tail);
        }
        if head > 0 {
            part::<PACK>(nest.body, at(first), packed, head, size);
            packed = packed.wrapping_add((size - head) as usize);
            first += 1;
        }
        strided::<PACK>(
            nest.body,
            at(first),
            nest.stride as isize,
            packed,
            (last - first) as usize,
        );
        if tail > 0 {
            packed = packed.wrapping_add(((last - first) * size) as usize);
            part::<PACK>(nest.body, at(last), packed, 0, tail);
        }
    }
}

/// Moves the packed bytes `from .. to` of one node, `from < to`.
unsafe fn part<const PACK: bool>(node: &Node, user: *mut u8, packed: *mut u8, from: u64, to: u64) {
    // SAFETY: the caller's promise; lists are walked from the item with `from` to the item with `to
    // - 1`.
    unsafe {
        match node {
            Node::Run(_) => {
                run::<PACK>(user.wrapping_add(from as usize), packed, (to - from) as usize)
            }
            Node::Loop(inner) => {
                let nest = Nest { count: inner.count, stride: inner.stride, body: &inner.body };
                span::<PACK>(nest, user, packed, from, to);
            }
            Node::Gather(inner) => {
                let size = inner.body.size();
                let starts =
                    (from / size..).map(|index| (index as usize, index * size, (index + 1) * size));
                pieces(starts, from, to, |index, skip, low, high| {
                    let at = user.wrapping_offset(inner.disps[index] as isize);
                    part_or_whole::<PACK>(&inner.body, at, packed.wrapping_add(skip), low, high);
                });
            }
            Node::Blocks(inner) => blocks_part::<PACK>(inner, user, packed, from, to),
            Node::List(inner) => {
                pieces(items_from(&inner.starts, from), from, to, |index, skip, low, high| {
                    let (disp, node) = &inner.items[index];
                    let at = user.wrapping_offset(*disp as isize);
                    part_or_whole::<PACK>(node, at, packed.wrapping_add(skip), low, high);
                });
            }
        }
    }
}

unsafe fn part_or_whole<const PACK: bool>(
    node: &Node,
    user: *mut u8,
    packed: *mut u8,
    from: u64,
    to: u64,
) {
    // SAFETY: the caller's promise, passed on.
    unsafe {
        match from == 0 && to == node.size() {
            true => whole::<PACK>(node, user, packed),
            false => part::<PACK>(node, user, packed, from, to),
        }
    }
}

unsafe fn blocks_part<const PACK: bool>(
    blocks: &Blocks,
    user: *mut u8,
    packed: *mut u8,
    from: u64,
    to: u64,
) {
    pieces(items_from(&blocks.starts, from), from, to, |index, skip, low, high| {
        let at = user.wrapping_offset(blocks.disps[index] as isize).wrapping_add(low as usize);
        // SAFETY: bytes `low .. high` of block `index`, as the caller promised.
        unsafe { run::<PACK>(at, packed.wrapping_add(skip), (high - low) as usize) }
    });
}

/// Iterates over index, start and end of the items of a list, from the item with `from`.
#[inline(always)]
fn items_from(starts: &[u64], from: u64) -> impl Iterator<Item = (usize, u64, u64)> {
    let first = starts.partition_point(|&start| start <= from) - 1;
    starts.windows(2).enumerate().skip(first).map(|(index, pair)| (index, pair[0], pair[1]))
}

/// Cuts items to `from .. to`, and calls with the index, the offset into the packed bytes, and the
/// range inside the item.
#[inline(always)]
fn pieces(
    items: impl Iterator<Item = (usize, u64, u64)>,
    from: u64,
    to: u64,
    mut each: impl FnMut(usize, usize, u64, u64),
) {
    for (index, start, end) in items {
        if start >= to {
            break;
        }
        let (low, high) = (from.max(start), to.min(end));
        each(index, (low - from) as usize, low - start, high - start);
    }
}

/// Moves one whole node.
unsafe fn whole<const PACK: bool>(node: &Node, user: *mut u8, packed: *mut u8) {
    // SAFETY: the caller's promise for the node covers each of its parts.
    unsafe {
        match node {
            Node::Run(len) => run::<PACK>(user, packed, *len as usize),
            Node::Loop(inner) => {
                strided::<PACK>(
                    &inner.body,
                    user,
                    inner.stride as isize,
                    packed,
                    inner.count as usize,
                );
            }
            Node::Gather(inner) => gathered::<PACK>(&inner.body, &inner.disps, user, packed),
            Node::Blocks(inner) => {
                for (disp, start) in inner.disps.iter().zip(inner.starts.windows(2)) {
                    let (at, to) = (
                        user.wrapping_offset(*disp as isize),
                        packed.wrapping_add(start[0] as usize),
                    );
                    run::<PACK>(at, to, (start[1] - start[0]) as usize);
                }
            }
            Node::List(inner) => {
                for ((disp, node), start) in inner.items.iter().zip(&inner.starts) {
                    whole::<PACK>(
                        node,
                        user.wrapping_offset(*disp as isize),
                        packed.wrapping_add(*start as usize),
                    );
                }
            }
        }
    }
}

/// Calls the kernel, with the block length as a constant if it is a common one.
macro_rules! by_length {
    ($len:expr, $kernel:ident::<$pack:ident>($($argument:expr),*), $other:expr) => {
        match $len {
            1 => $kernel::<$pack, 1>($($argument),*),
            2 => $kernel::<$pack, 2>($($argument),*),
            3 => $kernel::<$pack, 3>($($argument),*),
            4 => $kernel::<$pack, 4>($($argument),*),
            6 => $kernel::<$pack, 6>($($argument),*),
            8 => $kernel::<$pack, 8>($($argument),*),
            12 => $kernel::<$pack, 12>($($argument),*),
            16 => $kernel::<$pack, 16>($($argument),*),
            20 => $kernel::<$pack, 20>($($argument),*),
            24 => $kernel::<$pack, 24>($($argument),*),
            32 => $kernel::<$pack, 32>($($argument),*),
            40 => $kernel::<$pack, 40>($($argument),*),
            48 => $kernel::<$pack, 48>($($argument),*),
            64 => $kernel::<$pack, 64>($($argument),*),
            96 => $kernel::<$pack, 96>($($argument),*),
            128 => $kernel::<$pack, 128>($($argument),*),
            _ => $other,
        }
    };
}

/// Moves `count` whole bodies at a stride.
unsafe fn strided<const PACK: bool>(
    body: &Node,
    mut user: *mut u8,
    stride: isize,
    mut packed: *mut u8,
    count: usize,
) {
    let size = body.size() as usize;
    // SAFETY: the caller's promise covers each body.
    unsafe {
        if let Node::Run(len) = body {
            return runs::<PACK>(*len as usize, (user, stride), (packed, *len as usize), count);
        }
        if count >= MAX_INTERLEAVED_RUNS
            && size <= MAX_INTERLEAVED_BYTES
            && few_runs(body, |_, _, _| {})
        {
            return interleaved::<PACK>(body, user, stride, packed, count);
        }
        for _ in 0..count {
            whole::<PACK>(body, user, packed);
            user = user.wrapping_offset(stride);
            packed = packed.wrapping_add(size);
        }
    }
}

/// Most runs of a body that is interleaved, and fewest bodies.
const MAX_INTERLEAVED_RUNS: usize = 8;
/// Most bytes of a body that is interleaved.
const MAX_INTERLEAVED_BYTES: usize = 256;
/// Number of bodies that are interleaved at a time: they fit the nearest cache.
const TILE_BODIES: usize = 64;

/// Moves many small bodies of few runs each, such as structs with gaps: the first run of all of
/// them, then the second, so that each loop knows its length.
unsafe fn interleaved<const PACK: bool>(
    body: &Node,
    user: *mut u8,
    stride: isize,
    packed: *mut u8,
    count: usize,
) {
    let size = body.size() as usize;
    for first in (0..count).step_by(TILE_BODIES) {
        let many = TILE_BODIES.min(count - first);
        let (user, packed) = (
            user.wrapping_offset((first as isize).wrapping_mul(stride)),
            packed.wrapping_add(first * size),
        );
        few_runs(body, |disp, start, len| {
            let (at, to) =
                (user.wrapping_offset(disp as isize), packed.wrapping_add(start as usize));
            // SAFETY: this run of `many` bodies, as the caller promised.
            unsafe { runs::<PACK>(len as usize, (at, stride), (to, size), many) }
        });
    }
}

/// Calls with displacement, packed offset and length of each run, if the node consists of a few
/// runs; otherwise returns false.
#[inline(always)]
fn few_runs(node: &Node, mut each: impl FnMut(i64, u64, u64)) -> bool {
    match node {
        Node::Loop(inner) if inner.count <= MAX_INTERLEAVED_RUNS as u64 => {
            let Node::Run(len) = inner.body else { return false };
            (0..inner.count).for_each(|index| each(index as i64 * inner.stride, index * len, len));
        }
        Node::Gather(inner) if inner.disps.len() <= MAX_INTERLEAVED_RUNS => {
            let Node::Run(len) = inner.body else { return false };
            (0_u64..).zip(&inner.disps).for_each(|(index, &disp)| each(disp, index * len, len));
        }
        Node::Blocks(inner) if inner.disps.len() <= MAX_INTERLEAVED_RUNS => {
            let pairs = inner.starts.windows(2).zip(&inner.disps);
            pairs.for_each(|(start, &disp)| each(disp, start[0], start[1] - start[0]));
        }
        _ => return false,
    }
    true
}

/// Moves `count` runs of one length, at a stride on either side.
unsafe fn runs<const PACK: bool>(
    len: usize,
    user: (*mut u8, isize),
    packed: (*mut u8, usize),
    count: usize,
) {
    // SAFETY: the caller's promise covers each run.
    unsafe {
        if packed.1 == len {
            // The usual case, with one variable less.
            by_length!(
                len,
                dense::<PACK>(user, packed.0, count),
                any::<PACK>(len, user, packed, count)
            );
        } else {
            by_length!(
                len,
                fixed::<PACK>(user, packed, count),
                any::<PACK>(len, user, packed, count)
            );
        }
    }
}

/// Moves a body at each displacement.
unsafe fn gathered<const PACK: bool>(
    body: &Node,
    disps: &[i64],
    user: *mut u8,
    mut packed: *mut u8,
) {
    // SAFETY: the caller's promise covers each body.
    unsafe {
        if let Node::Run(len) = body {
            let len = *len as usize;
            by_length!(len, scattered::<PACK>(disps, user, packed), {
                for &disp in disps {
                    run::<PACK>(user.wrapping_offset(disp as isize), packed, len);
                    packed = packed.wrapping_add(len);
                }
            });
            return;
        }
        let size = body.size() as usize;
        for &disp in disps {
            whole::<PACK>(body, user.wrapping_offset(disp as isize), packed);
            packed = packed.wrapping_add(size);
        }
    }
}

unsafe fn dense<const PACK: bool, const LEN: usize>(
    user: (*mut u8, isize),
    packed: *mut u8,
    count: usize,
) {
    // SAFETY: the caller's promise, passed on.
    unsafe { fixed::<PACK, LEN>(user, (packed, LEN), count) }
}

#[inline(always)]
unsafe fn fixed<const PACK: bool, const LEN: usize>(
    user: (*mut u8, isize),
    packed: (*mut u8, usize),
    count: usize,
) {
    for index in 0..count {
        let at = user.0.wrapping_offset((index as isize).wrapping_mul(user.1));
        // SAFETY: block `index`, as the caller promised.
        unsafe { block::<PACK>(at, packed.0.wrapping_add(index * packed.1), LEN) }
    }
}

unsafe fn scattered<const PACK: bool, const LEN: usize>(
    disps: &[i64],
    user: *mut u8,
    packed: *mut u8,
) {
    for (index, &disp) in disps.iter().enumerate() {
        // SAFETY: block `index`, as the caller promised.
        unsafe {
            block::<PACK>(
                user.wrapping_offset(disp as isize),
                packed.wrapping_add(index * LEN),
                LEN,
            )
        }
    }
}

unsafe fn any<const PACK: bool>(
    len: usize,
    user: (*mut u8, isize),
    packed: (*mut u8, usize),
    count: usize,
) {
    let ((mut user, stride), (mut packed, step)) = (user, packed);
    for _ in 0..count {
        // SAFETY: one block, as the caller promised.
        unsafe { run::<PACK>(user, packed, len) }
        user = user.wrapping_offset(stride);
        packed = packed.wrapping_add(step);
    }
}

/// Moves a run of any length. Short runs are two or four overlapping moves, which are faster than a
/// call of memcpy.
#[inline(always)]
unsafe fn run<const PACK: bool>(user: *mut u8, packed: *mut u8, len: usize) {
    // SAFETY: each move is within the `len` bytes that the caller vouches for.
    unsafe {
        match len {
            0 => {}
            1 => block::<PACK>(user, packed, 1),
            2..=3 => ends::<PACK, 2>(user, packed, len),
            4..=7 => ends::<PACK, 4>(user, packed, len),
            8..=15 => ends::<PACK, 8>(user, packed, len),
            16..=31 => ends::<PACK, 16>(user, packed, len),
            32..=63 => ends::<PACK, 32>(user, packed, len),
            64..=2047 => block::<PACK>(user, packed, len),
            _ if PACK => copy_long(user, packed, len),
            _ => copy_long(packed, user, len),
        }
    }
}

/// Moves the first and the last `LEN` bytes, which together are the run.
#[inline(always)]
unsafe fn ends<const PACK: bool, const LEN: usize>(user: *mut u8, packed: *mut u8, len: usize) {
    let back = len - LEN;
    // SAFETY: `LEN <= len`; therefore both moves lie within the run.
    unsafe {
        block::<PACK>(user, packed, LEN);
        block::<PACK>(user.wrapping_add(back), packed.wrapping_add(back), LEN);
    }
}

#[inline(always)]
unsafe fn block<const PACK: bool>(user: *mut u8, packed: *mut u8, len: usize) {
    let (from, to) = if PACK { (user, packed) } else { (packed, user) };
    // SAFETY: valid and disjoint by the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}
