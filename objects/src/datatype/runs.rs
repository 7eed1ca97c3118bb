//! The runs of bytes of a datatype, one after the other, and the order in which they lie.
//!
//! A file view is a datatype repeated at its extent without end. [`Runs`] walks it from any packed
//! byte, found by division or binary search, with one frame for each level of the layout.
//! Therefore a type of 10^9 runs costs no memory. Adjacent runs are merged as far as the caller
//! asks.
//!
//! [`Datatype::placement`] says whether the runs are in ascending order, as file views must be
//! (MPI-5.0 §14.3), and whether some overlap. It looks at each node once, not at each run.

use super::Datatype;
use super::layout::Node;

/// How the runs of a repeated datatype follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Placement {
    /// In ascending order, without an overlap.
    Disjoint,
    /// In ascending order of their first bytes; some overlap.
    Overlapping,
    /// Not in ascending order.
    Unordered,
}

/// The runs of a datatype that is repeated without end.
pub struct Runs<'a> {
    body: &'a Node,
    extent: i64,
    disp: i64,
    /// The next repetition.
    tile: u64,
    /// All repetitions are one run.
    gapless: bool,
    frames: Vec<Frame<'a>>,
    /// A run, or a part of one, that was found and not returned.
    found: Option<Run>,
}

/// A run of bytes: where it begins, relative to the address of the first element, and its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where it begins, bytes.
    pub at: i64,
    /// Its length, bytes.
    pub len: u64,
}

/// A node that is being walked, and its next part.
struct Frame<'a> {
    node: &'a Node,
    base: i64,
    next: u64,
}

impl Datatype {
    /// Returns the runs of this type, repeated without end, from a packed byte on. Empty for a type
    /// without bytes.
    pub fn runs(&self, from: u64) -> Runs<'_> {
        let layout = &self.map().layout;
        let mut runs = Runs {
            body: &layout.node,
            extent: self.extent().1,
            disp: layout.disp,
            tile: 0,
            gapless: self.is_contiguous(),
            frames: Vec::new(),
            found: None,
        };
        runs.seek(from, self.size());
        runs
    }

    /// Returns how the runs of one element follow each other, and how those of the next element
    /// follow them when the type is repeated.
    pub fn placement(&self) -> (Placement, Placement) {
        if self.size() == 0 {
            return (Placement::Disjoint, Placement::Disjoint);
        }
        let one = Course::of(&self.map().layout.node);
        let next = one.shifted(self.extent().1).map(|next| one.followed_by(next));
        (one.placement, next.unwrap_or(Placement::Unordered))
    }

    /// Returns the number of runs of one element, before those that touch are merged.
    pub fn run_count(&self) -> u64 {
        runs_in(&self.map().layout.node)
    }

    /// Returns how many packed bytes of this type lie before byte `end`: of one element, or of a
    /// repetition without end if it `repeats`. What is counted is [`Placement::Disjoint`];
    /// otherwise the number is an estimate.
    pub fn packed_before(&self, end: i64, repeats: bool) -> u64 {
        let layout = &self.map().layout;
        let (extent, size) = (if repeats { self.extent().1 } else { 0 }, self.size());
        let Some(past) = end.checked_sub(layout.disp).filter(|_| size > 0) else { return 0 };
        let past_first = past.saturating_sub(first_byte(&layout.node));
        if past_first <= 0 {
            return 0;
        }
        let tiles = if extent > 0 { (past_first - 1) / extent } else { 0 };
        let rest = past - tiles * extent.max(0);
        (tiles as u64).saturating_mul(size).saturating_add(bytes_before(&layout.node, rest))
    }
}

impl<'a> Runs<'a> {
    /// Returns the next run, cut to `most` bytes, which is above 0; runs that touch are one. `None`
    /// for a type without bytes, and beyond 2^63.
    pub fn take(&mut self, most: u64) -> Option<Run> {
        let mut run = match self.found.take() {
            Some(run) => run,
            None => self.next_run()?,
        };
        if self.gapless && run.len < most {
            // The rest is adjacent, however long.
            let len = most.min((i64::MAX - run.at) as u64);
            let past = run.at.checked_add_unsigned(len)?;
            self.tile = 0;
            self.found = Some(Run { at: past, len: 0 });
            return (len > 0).then_some(Run { at: run.at, len });
        }
        while run.len < most {
            match self.next_run() {
                Some(next) if run.at.checked_add_unsigned(run.len) == Some(next.at) => {
                    run.len += next.len;
                }
                other => {
                    self.found = other;
                    return Some(run);
                }
            }
        }
        if run.len > most {
            self.found = Some(Run { at: run.at.checked_add_unsigned(most)?, len: run.len - most });
            run.len = most;
        }
        Some(run)
    }

    /// Goes to a packed byte.
    fn seek(&mut self, from: u64, size: u64) {
        if size == 0 {
            return;
        }
        self.tile = from / size;
        let Some(mut base) = self.next_tile() else { return };
        let (mut rest, mut node) = (from % size, self.body);
        loop {
            let (next, shift) = match node {
                Node::Run(len) => {
                    self.found =
                        base.checked_add_unsigned(rest).map(|at| Run { at, len: len - rest });
                    return;
                }
                Node::Loop(inner) => {
                    let index = rest / inner.body.size();
                    (index, index as i64 * inner.stride)
                }
                Node::Gather(inner) => {
                    let index = rest / inner.body.size();
                    (index, inner.disps[index as usize])
                }
                Node::Blocks(inner) => {
                    let index = inner.starts.partition_point(|&start| start <= rest) - 1;
                    (index as u64, inner.disps[index])
                }
                Node::List(inner) => {
                    let index = inner.starts.partition_point(|&start| start <= rest) - 1;
                    (index as u64, inner.items[index].0)
                }
            };
            self.frames.push(Frame { node, base, next: next + 1 });
            base += shift;
            match node {
                Node::Run(_) => return,
                Node::Loop(inner) => (rest, node) = (rest % inner.body.size(), &inner.body),
                Node::Gather(inner) => (rest, node) = (rest % inner.body.size(), &inner.body),
                Node::Blocks(inner) => {
                    let index = next as usize;
                    rest -= inner.starts[index];
                    let len = inner.starts[index + 1] - inner.starts[index] - rest;
                    self.found = base.checked_add_unsigned(rest).map(|at| Run { at, len });
                    return;
                }
                Node::List(inner) => {
                    rest -= inner.starts[next as usize];
                    node = &inner.items[next as usize].1;
                }
            }
        }
    }

    /// Returns where the next repetition begins.
    fn next_tile(&mut self) -> Option<i64> {
        let tile = i64::try_from(self.tile).ok()?;
        self.tile += 1;
        self.extent.checked_mul(tile)?.checked_add(self.disp)
    }

    /// Returns the next run as the layout has it.
    fn next_run(&mut self) -> Option<Run> {
        if self.body.size() == 0 {
            return None;
        }
        loop {
            let Some(frame) = self.frames.last_mut() else {
                let base = self.next_tile()?;
                if let Node::Run(len) = *self.body {
                    return Some(Run { at: base, len });
                }
                self.frames.push(Frame { node: self.body, base, next: 0 });
                continue;
            };
            let index = frame.next as usize;
            frame.next += 1;
            let part = match frame.node {
                Node::Run(_) => None,
                Node::Loop(inner) => ((index as u64) < inner.count)
                    .then(|| (index as i64 * inner.stride, Part::Node(&inner.body))),
                Node::Gather(inner) => {
                    inner.disps.get(index).map(|&disp| (disp, Part::Node(&inner.body)))
                }
                Node::Blocks(inner) => inner
                    .disps
                    .get(index)
                    .map(|&disp| (disp, Part::Run(inner.starts[index + 1] - inner.starts[index]))),
                Node::List(inner) => {
                    inner.items.get(index).map(|(disp, node)| (*disp, Part::Node(node)))
                }
            };
            let Some((disp, part)) = part else {
                self.frames.pop();
                continue;
            };
            let base = frame.base.checked_add(disp)?;
            match part {
                Part::Run(len) | Part::Node(&Node::Run(len)) => return Some(Run { at: base, len }),
                Part::Node(node) => self.frames.push(Frame { node, base, next: 0 }),
            }
        }
    }
}

/// A part of a node.
enum Part<'a> {
    Run(u64),
    Node(&'a Node),
}

/// The course of a node's runs: where the first and the last begin, and where the farthest ends.
#[derive(Clone, Copy)]
struct Course {
    placement: Placement,
    first: i64,
    last: i64,
    end: i64,
}

impl Course {
    fn of(node: &Node) -> Course {
        match node {
            Node::Run(len) => {
                Course { placement: Placement::Disjoint, first: 0, last: 0, end: *len as i64 }
            }
            Node::Loop(inner) => {
                let body = Course::of(&inner.body);
                let Some(next) = body.shifted(inner.stride) else { return body.unordered() };
                let placement = body.placement.max(body.followed_by(next));
                let reach = (inner.count as i64 - 1).saturating_mul(inner.stride);
                let end = body.end.saturating_add(reach.max(0));
                Course { placement, last: body.last.saturating_add(reach), end, ..body }
            }
            Node::Gather(inner) => {
                let body = Course::of(&inner.body);
                Course::of_all(inner.disps.iter().map(|&disp| body.shifted(disp)))
            }
            Node::Blocks(inner) => {
                let lengths = inner.starts.windows(2).map(|pair| pair[1] - pair[0]);
                let runs = inner.disps.iter().zip(lengths);
                Course::of_all(runs.map(|(&disp, len)| Course::of(&Node::Run(len)).shifted(disp)))
            }
            Node::List(inner) => Course::of_all(
                inner.items.iter().map(|(disp, node)| Course::of(node).shifted(*disp)),
            ),
        }
    }

    fn of_all(mut parts: impl Iterator<Item = Option<Course>>) -> Course {
        let Some(Some(mut whole)) = parts.next() else {
            let placement = Placement::Unordered;
            return Course { placement, first: 0, last: 0, end: 0 };
        };
        for part in parts {
            let Some(part) = part else { return whole.unordered() };
            whole.placement = whole.placement.max(part.placement).max(whole.followed_by(part));
            (whole.last, whole.end) = (part.last, whole.end.max(part.end));
        }
        whole
    }

    fn unordered(self) -> Course {
        Course { placement: Placement::Unordered, ..self }
    }

    fn shifted(self, by: i64) -> Option<Course> {
        Some(Course {
            first: self.first.checked_add(by)?,
            last: self.last.checked_add(by)?,
            end: self.end.checked_add(by)?,
            ..self
        })
    }

    fn followed_by(self, next: Course) -> Placement {
        match next.first {
            first if first < self.last => Placement::Unordered,
            first if first < self.end => Placement::Overlapping,
            _ => Placement::Disjoint,
        }
    }
}

/// Returns the number of runs of a node.
fn runs_in(node: &Node) -> u64 {
    match node {
        Node::Run(len) => (*len).min(1),
        Node::Loop(inner) => inner.count.saturating_mul(runs_in(&inner.body)),
        Node::Gather(inner) => (inner.disps.len() as u64).saturating_mul(runs_in(&inner.body)),
        Node::Blocks(inner) => inner.disps.len() as u64,
        Node::List(inner) => {
            inner.items.iter().fold(0, |sum, (_, node)| sum.saturating_add(runs_in(node)))
        }
    }
}

/// Returns where the first run of a node begins.
fn first_byte(node: &Node) -> i64 {
    match node {
        Node::Run(_) => 0,
        Node::Loop(inner) => first_byte(&inner.body),
        Node::Gather(inner) => inner.disps[0] + first_byte(&inner.body),
        Node::Blocks(inner) => inner.disps[0],
        Node::List(inner) => inner.items[0].0 + first_byte(&inner.items[0].1),
    }
}

/// Returns how many packed bytes of an ordered node lie before byte `end`.
fn bytes_before(node: &Node, end: i64) -> u64 {
    match node {
        Node::Run(len) => end.clamp(0, *len as i64) as u64,
        Node::Loop(inner) => {
            let past = end - first_byte(&inner.body);
            let last = if inner.stride > 0 && past > 0 { (past - 1) / inner.stride } else { 0 };
            let last = last.min(inner.count as i64 - 1);
            last as u64 * inner.body.size() + bytes_before(&inner.body, end - last * inner.stride)
        }
        Node::Gather(inner) => {
            let first = first_byte(&inner.body);
            match inner.disps.partition_point(|&disp| disp + first < end) {
                0 => 0,
                begun => {
                    let last = begun - 1;
                    last as u64 * inner.body.size()
                        + bytes_before(&inner.body, end - inner.disps[last])
                }
            }
        }
        Node::Blocks(inner) => match inner.disps.partition_point(|&disp| disp < end) {
            0 => 0,
            begun => {
                let last = begun - 1;
                let len = inner.starts[last + 1] - inner.starts[last];
                inner.starts[last] + (end - inner.disps[last]).clamp(0, len as i64) as u64
            }
        },
        Node::List(inner) => {
            let is_begun = |(disp, node): &(i64, Node)| disp + first_byte(node) < end;
            match inner.items.partition_point(is_begun) {
                0 => 0,
                begun => {
                    let (disp, node) = &inner.items[begun - 1];
                    inner.starts[begun - 1] + bytes_before(node, end - disp)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::Counting::Int;

    /// All bytes of `tiles` repetitions, in packing order, by the slow way.
    fn bytes(ty: &Datatype, tiles: u64) -> Vec<i64> {
        let mut runs = ty.runs(0);
        let mut all = Vec::new();
        while (all.len() as u64) < tiles * ty.size() {
            let run = runs.take(1).unwrap();
            assert_eq!(run.len, 1);
            all.push(run.at);
        }
        all
    }

    fn types() -> Vec<Datatype> {
        let (byte, int) = (Datatype::byte(), Datatype::predefined(0x209).unwrap());
        let column = Datatype::vector(Int, 5, 2, 7, byte).unwrap();
        let plane = Datatype::hvector(Int, 3, 1, 100, &column).unwrap();
        let list = Datatype::indexed(Int, &[1, 3, 2], &[0, 4, 12], byte).unwrap();
        let gather = Datatype::indexed_block(Int, 2, &[1, 5, 11], int).unwrap();
        let mixed = Datatype::struct_(
            Int,
            &[1, 1, 1],
            &[0, 400, 1000],
            &[plane.clone(), list.clone(), gather.clone()],
        )
        .unwrap();
        let sparse = Datatype::resized(Int, &column, 0, 64).unwrap();
        vec![byte.clone(), int.clone(), column, plane, list, gather, mixed, sparse]
    }

    #[test]
    fn every_start_and_every_cut_gives_the_same_bytes() {
        for ty in types() {
            let all = bytes(&ty, 4);
            assert_eq!(ty.placement(), (Placement::Disjoint, Placement::Disjoint), "{ty:?}");
            assert!(all.is_sorted(), "{ty:?}");
            for from in 0..all.len().min(150) {
                for most in [1, 3, 1000] {
                    let (mut runs, mut at) = (ty.runs(from as u64), from);
                    while at < all.len() {
                        let run = runs.take(most).unwrap();
                        assert!(run.len <= most && run.len > 0);
                        for byte in 0..run.len as usize {
                            let Some(&wanted) = all.get(at + byte) else { break };
                            assert_eq!(run.at + byte as i64, wanted, "{ty:?} from {from}");
                        }
                        at += run.len as usize;
                    }
                }
            }
        }
    }

    #[test]
    fn bytes_before_an_end_are_counted() {
        for ty in types() {
            let all = bytes(&ty, 3);
            for end in 0..=*all.last().unwrap() + 1 {
                let wanted = all.iter().filter(|&&at| at < end).count() as u64;
                assert_eq!(ty.packed_before(end, true), wanted, "{ty:?} before {end}");
            }
        }
    }

    #[test]
    fn overlaps_and_descents_are_found() {
        let byte = Datatype::byte();
        let descending = Datatype::indexed(Int, &[1, 1], &[4, 0], byte).unwrap();
        assert_eq!(descending.placement().0, Placement::Unordered);
        let overlapping = Datatype::vector(Int, 3, 4, 2, byte).unwrap();
        assert_eq!(overlapping.placement().0, Placement::Overlapping);
        let short = Datatype::resized(Int, &Datatype::vector(Int, 3, 1, 4, byte).unwrap(), 0, 2);
        let short = short.unwrap();
        assert_eq!(short.placement(), (Placement::Disjoint, Placement::Unordered));
        assert_eq!(short.packed_before(1000, false), 3);
        let huge = Datatype::vector(Int, 1 << 30, 1, 2, byte).unwrap();
        let mut runs = huge.runs(1 << 29);
        assert_eq!(runs.take(9), Some(Run { at: 1 << 30, len: 1 }));
        assert_eq!(huge.packed_before(1 << 30, true), 1 << 29);
    }
}
