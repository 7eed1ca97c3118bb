//! The layout: the position of a datatype's bytes, in packing order.
//!
//! A [`Node`] is a small program for the copy kernels: a run of bytes, a loop, a gather of equal
//! bodies, a list of runs, or a list of nodes. Nodes are normalised as they are built: adjacent
//! runs merge, loops over gapless bodies become runs, and loops of loops that continue each other
//! become one. Lists of equal bodies at equal distances become loops, and short lists are inlined
//! into the list around them. Every node knows its packed size, and lists keep prefix sums, so that
//! a copy starts at any packed byte by division or binary search.
//!
//! Invariants: only the empty run has size 0; sizes are below 2^63; bodies are relative to their
//! displacement. Displacements may be negative and may overlap (MPI allows that for sending).

use std::sync::Arc;

/// Most pieces of a list that is inlined into the list around it.
const MAX_INLINED_PIECES: usize = 64;
/// Most runs of a loop that is inlined.
const MAX_UNROLLED_RUNS: u64 = 8;

/// A part of a layout. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// A run of so many bytes.
    Run(u64),
    /// A body repeated at a fixed stride.
    Loop(Arc<Loop>),
    /// A body at each of many displacements.
    Gather(Arc<Gather>),
    /// Runs of different lengths.
    Blocks(Arc<Blocks>),
    /// Nodes of different kinds.
    List(Arc<List>),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) count: u64,
    pub(crate) stride: i64,
    pub(crate) size: u64,
    pub(crate) depth: u32,
    pub(crate) body: Node,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gather {
    pub(crate) size: u64,
    pub(crate) depth: u32,
    pub(crate) body: Node,
    pub(crate) disps: Box<[i64]>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Blocks {
    /// Packed offset of each run, then the size.
    pub(crate) starts: Box<[u64]>,
    pub(crate) disps: Box<[i64]>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct List {
    /// Packed offset of each item, then the size.
    pub(crate) starts: Box<[u64]>,
    pub(crate) items: Box<[(i64, Node)]>,
    pub(crate) depth: u32,
}

/// A node and its displacement from the address of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) disp: i64,
    pub(crate) node: Node,
}

impl Node {
    /// Returns the packed bytes.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        match self {
            Node::Run(len) => *len,
            Node::Loop(inner) => inner.size,
            Node::Gather(inner) => inner.size,
            Node::Blocks(inner) => inner.starts[inner.disps.len()],
            Node::List(inner) => inner.starts[inner.items.len()],
        }
    }

    /// Returns how deep a copy recurses.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Node::Run(_) | Node::Blocks(_) => 1,
            Node::Loop(inner) => inner.depth,
            Node::Gather(inner) => inner.depth,
            Node::List(inner) => inner.depth,
        }
    }

    /// Returns the number of pieces when inlined; `None` if the node is not inlined.
    fn pieces(&self) -> Option<usize> {
        let count = match self {
            Node::Run(_) => 1,
            Node::Loop(inner)
                if inner.count <= MAX_UNROLLED_RUNS && matches!(inner.body, Node::Run(_)) =>
            {
                inner.count as usize
            }
            Node::Loop(_) => return None,
            Node::Gather(inner) => inner.disps.len(),
            Node::Blocks(inner) => inner.disps.len(),
            Node::List(inner) => inner.items.len(),
        };
        (count <= MAX_INLINED_PIECES).then_some(count)
    }

    /// Passes each piece to `add`; displacements were checked when the node was built.
    fn dissolve(&self, mut piece: impl FnMut(i64, Node)) {
        match self {
            Node::Run(_) => piece(0, self.clone()),
            Node::Loop(inner) => {
                (0..inner.count as i64).for_each(|i| piece(i * inner.stride, inner.body.clone()))
            }
            Node::Gather(inner) => {
                inner.disps.iter().for_each(|&disp| piece(disp, inner.body.clone()))
            }
            Node::Blocks(inner) => {
                let lengths = inner.starts.windows(2).map(|pair| pair[1] - pair[0]);
                inner
                    .disps
                    .iter()
                    .zip(lengths)
                    .for_each(|(&disp, len)| piece(disp, Node::Run(len)));
            }
            Node::List(inner) => {
                inner.items.iter().for_each(|(disp, node)| piece(*disp, node.clone()))
            }
        }
    }
}

impl Layout {
    /// Returns the layout without bytes.
    pub(crate) const EMPTY: Layout = Layout { disp: 0, node: Node::Run(0) };

    /// Returns one run at the element's address.
    pub(crate) const fn run(len: u64) -> Layout {
        Layout { disp: 0, node: Node::Run(len) }
    }

    /// Returns the layout moved by so many bytes; `None` if out of range.
    pub(crate) fn shift(self, by: i64) -> Option<Layout> {
        Some(Layout { disp: self.disp.checked_add(by)?, node: self.node })
    }

    /// Returns the layout `count` times at a stride in bytes; `None` if out of range.
    pub(crate) fn repeat(self, count: u64, stride: i64) -> Option<Layout> {
        let size = self.node.size();
        if count == 0 || size == 0 {
            return Some(Layout::EMPTY);
        }
        if count == 1 {
            return Some(self);
        }
        let total = size.checked_mul(count).filter(|&total| total <= i64::MAX as u64)?;
        stride.checked_mul(i64::try_from(count).ok()?)?;
        let (count, stride, body) = match self.node {
            Node::Run(len) if len as i64 == stride => {
                return Some(Layout { disp: self.disp, node: Node::Run(total) });
            }
            Node::Loop(inner) if inner.stride.checked_mul(inner.count as i64) == Some(stride) => {
                (count * inner.count, inner.stride, inner.body.clone())
            }
            body => (count, stride, body),
        };
        let node = Loop { count, stride, size: total, depth: body.depth() + 1, body };
        Some(Layout { disp: self.disp, node: Node::Loop(Arc::new(node)) })
    }
}

/// Concatenates layouts in packing order.
#[derive(Default)]
pub(crate) struct Builder {
    items: Vec<(i64, Node)>,
    size: u64,
}

impl Builder {
    /// Returns a builder with space for so many layouts.
    pub(crate) fn with_capacity(layouts: usize) -> Builder {
        Builder { items: Vec::with_capacity(layouts), size: 0 }
    }

    /// Adds a layout; `None` above 2^63 bytes.
    pub(crate) fn push(&mut self, layout: Layout) -> Option<()> {
        let size = layout.node.size();
        if size == 0 {
            return Some(());
        }
        self.size = self.size.checked_add(size).filter(|&total| total <= i64::MAX as u64)?;
        self.append(layout.disp, layout.node);
        Some(())
    }

    /// Returns the normalised whole; `None` if out of range.
    pub(crate) fn finish(mut self) -> Option<Layout> {
        if !self.all_equal() {
            self.dissolve()?;
        }
        if self.items.is_empty() {
            return Some(Layout::EMPTY);
        }
        if self.items.len() == 1 {
            let (disp, node) = self.items.pop()?;
            return Some(Layout { disp, node });
        }
        if self.all_equal() {
            return match self.progression() {
                Some(stride) => {
                    let count = self.items.len() as u64;
                    let (disp, node) = self.items.swap_remove(0);
                    Layout { disp, node }.repeat(count, stride)
                }
                None => Some(Layout { disp: 0, node: self.gather() }),
            };
        }
        let runs = self.items.iter().all(|(_, node)| matches!(node, Node::Run(_)));
        Some(Layout { disp: 0, node: if runs { self.blocks() } else { self.list() } })
    }

    fn append(&mut self, disp: i64, node: Node) {
        if let (Some((last, Node::Run(len))), Node::Run(more)) = (self.items.last_mut(), &node)
            && last.checked_add_unsigned(*len) == Some(disp)
        {
            *len += more;
            return;
        }
        self.items.push((disp, node));
    }

    fn all_equal(&self) -> bool {
        self.items.windows(2).all(|pair| pair[0].1 == pair[1].1)
    }

    fn progression(&self) -> Option<i64> {
        let stride = self.items[1].0.checked_sub(self.items[0].0)?;
        self.items
            .windows(2)
            .all(|pair| pair[1].0.checked_sub(pair[0].0) == Some(stride))
            .then_some(stride)
    }

    /// Inlines short nodes, unless that makes the whole much longer.
    fn dissolve(&mut self) -> Option<()> {
        let pieces: usize = self.items.iter().map(|(_, node)| node.pieces().unwrap_or(1)).sum();
        if pieces == self.items.len() || pieces > 1 << 16 {
            return Some(());
        }
        for (disp, node) in std::mem::take(&mut self.items) {
            if node.pieces().is_none() {
                self.items.push((disp, node));
                continue;
            }
            let mut fits = Some(());
            node.dissolve(|at, piece| match disp.checked_add(at) {
                Some(at) => self.append(at, piece),
                None => fits = None,
            });
            fits?;
        }
        Some(())
    }

    fn gather(self) -> Node {
        let body = self.items[0].1.clone();
        let disps = self.items.iter().map(|&(disp, _)| disp).collect();
        Node::Gather(Arc::new(Gather { size: self.size, depth: body.depth() + 1, body, disps }))
    }

    fn blocks(self) -> Node {
        let disps = self.items.iter().map(|&(disp, _)| disp).collect();
        Node::Blocks(Arc::new(Blocks { starts: self.starts(), disps }))
    }

    fn list(self) -> Node {
        let depth = 1 + self.items.iter().map(|(_, node)| node.depth()).max().unwrap_or(0);
        let starts = self.starts();
        Node::List(Arc::new(List { starts, items: self.items.into(), depth }))
    }

    fn starts(&self) -> Box<[u64]> {
        let sizes = self.items.iter().map(|(_, node)| node.size());
        let ends = sizes.scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        std::iter::once(0).chain(ends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(items: impl IntoIterator<Item = (i64, Layout)>) -> Layout {
        let mut builder = Builder::default();
        for (disp, layout) in items {
            builder.push(layout.shift(disp).unwrap()).unwrap();
        }
        builder.finish().unwrap()
    }

    #[test]
    fn gapless_bodies_become_one_run() {
        assert_eq!(Layout::run(4).repeat(10, 4), Some(Layout::run(40)));
        assert_eq!(
            sequence([(8, Layout::run(4)), (12, Layout::run(2))]),
            Layout { disp: 8, node: Node::Run(6) }
        );
        assert_eq!(Layout::run(4).repeat(0, 4), Some(Layout::EMPTY));
    }

    #[test]
    fn loops_that_continue_each_other_become_one() {
        let column = Layout::run(8).repeat(10, 80).unwrap();
        let two = column.clone().repeat(2, 800).unwrap();
        assert_eq!(two, Layout::run(8).repeat(20, 80).unwrap());
        let listed = sequence((0..10).map(|i| (i * 80, Layout::run(8))));
        assert_eq!(listed, column);
    }

    #[test]
    fn lists_take_the_simplest_shape() {
        let gather = sequence([(0, Layout::run(4)), (10, Layout::run(4)), (40, Layout::run(4))]);
        assert!(matches!(&gather.node, Node::Gather(inner) if inner.disps.len() == 3));
        let blocks = sequence([(0, gather.clone()), (60, Layout::run(8))]);
        assert!(matches!(&blocks.node, Node::Blocks(inner) if *inner.starts == [0, 4, 8, 12, 20]));
        let column = Layout::run(8).repeat(10, 80).unwrap();
        let list = sequence([(0, column), (2000, Layout::run(8))]);
        assert!(matches!(&list.node, Node::List(_)));
        assert_eq!(list.node.size(), 88);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        assert_eq!(Layout::run(8).repeat(1 << 61, 8), None);
        assert_eq!(Layout::run(8).repeat(2, i64::MAX), None);
        assert_eq!(Layout::run(8).shift(i64::MAX).unwrap().shift(1), None);
    }
}
