//! The call that all ranks make: operation, sizes and data.
//!
//! Every input element is a function of its rank and index. Therefore the result of each rank can
//! be computed without running anything, and a wrong byte is found wherever it comes from.

use collectives::{CollArgs, Extent, Shape, Space, Span, Ty};
use fabric::CollectiveKind;

/// The operations that can be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in the standard")]
pub enum Operation {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    ReduceScatter,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 9] = [
        Operation::Barrier,
        Operation::Bcast,
        Operation::Reduce,
        Operation::Allreduce,
        Operation::Gather,
        Operation::Scatter,
        Operation::Allgather,
        Operation::Alltoall,
        Operation::ReduceScatter,
    ];

    /// The name as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Barrier => "barrier",
            Operation::Bcast => "bcast",
            Operation::Reduce => "reduce",
            Operation::Allreduce => "allreduce",
            Operation::Gather => "gather",
            Operation::Scatter => "scatter",
            Operation::Allgather => "allgather",
            Operation::Alltoall => "alltoall",
            Operation::ReduceScatter => "reduce_scatter",
        }
    }

    /// The operation of that name.
    pub fn named(name: &str) -> Option<Operation> {
        Operation::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// True where operands are combined.
    pub fn reduces(self) -> bool {
        matches!(self, Operation::Reduce | Operation::Allreduce | Operation::ReduceScatter)
    }
}

/// A collective call, as all ranks make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is called.
    pub operation: Operation,
    /// Bytes of the vector of bcast, reduce and allreduce; otherwise of the block that one rank has
    /// for one other.
    pub bytes: u64,
    /// The root, where there is one.
    pub root: u32,
    /// Operands may be taken in any order.
    pub commutative: bool,
}

impl Call {
    /// A call with root 0 and a commutative operation.
    pub fn new(operation: Operation, bytes: u64) -> Call {
        Call { operation, bytes, root: 0, commutative: true }
    }

    /// Bytes of one element: 8, or 1 for sizes that are no multiple of it.
    fn element(&self) -> u64 {
        if self.bytes.is_multiple_of(8) { 8 } else { 1 }
    }

    /// Packed bytes of a span of this call.
    pub(crate) fn bytes_of(&self, span: &Span) -> u64 {
        span.count * if span.ty == Ty::BYTES { 1 } else { self.element() }
    }

    /// Bytes of a rank's send buffer and of its receive buffer.
    pub fn buffers(&self, rank: u32, size: u32) -> (u64, u64) {
        let (one, all) = (self.bytes, self.bytes * u64::from(size));
        let at_root = |bytes| if rank == self.root { bytes } else { 0 };
        match self.operation {
            Operation::Barrier => (0, 0),
            Operation::Bcast => (0, one),
            Operation::Reduce => (one, at_root(one)),
            Operation::Allreduce => (one, one),
            Operation::Gather => (one, at_root(all)),
            Operation::Scatter => (at_root(all), one),
            Operation::Allgather => (one, all),
            Operation::Alltoall => (all, all),
            Operation::ReduceScatter => (all, one),
        }
    }

    /// Describes one rank's call to an algorithm.
    pub fn with_args<R>(&self, rank: u32, size: u32, then: impl FnOnce(&CollArgs) -> R) -> R {
        let element = self.element();
        let shape = Shape::gapless(element);
        let one = self.bytes / element;
        let all = one * u64::from(size);
        let send = |count| Extent::new(Space::Send, Ty::of(0), count, shape);
        let recv = |count| Extent::new(Space::Recv, Ty::of(1), count, shape);
        let (root, commutative, is_root) = (self.root, self.commutative, rank == self.root);
        match self.operation {
            Operation::Barrier => then(&CollArgs::Barrier),
            Operation::Bcast => then(&CollArgs::Bcast { root, data: recv(one) }),
            Operation::Reduce => {
                let output = is_root.then(|| recv(one));
                then(&CollArgs::Reduce { root, input: send(one), output, commutative })
            }
            Operation::Allreduce => {
                then(&CollArgs::Allreduce { input: send(one), output: recv(one), commutative })
            }
            Operation::Gather => {
                let all = is_root.then(|| recv(all));
                then(&CollArgs::Gather { root, own: Some(send(one)), all })
            }
            Operation::Scatter => {
                let all = is_root.then(|| send(all));
                then(&CollArgs::Scatter { root, all, own: Some(recv(one)) })
            }
            Operation::Allgather => {
                then(&CollArgs::Allgather { own: Some(send(one)), all: recv(all) })
            }
            Operation::Alltoall => {
                let (from, to) = (send(all).split(size), recv(all).split(size));
                let kind = CollectiveKind::Alltoall;
                then(&CollArgs::Alltoall { kind, from: Some(&from), to: &to })
            }
            Operation::ReduceScatter => then(&CollArgs::ReduceScatter {
                kind: CollectiveKind::ReduceScatterBlock,
                input: send(all),
                counts: &vec![one; size as usize],
                output: recv(one),
                commutative,
            }),
        }
    }

    /// The send buffer of a rank.
    pub(crate) fn input(&self, rank: u32, size: u32) -> Vec<u8> {
        self.elements(rank, 0, self.buffers(rank, size).0)
    }

    /// The receive buffer of a rank before the call.
    pub(crate) fn output_before(&self, rank: u32, size: u32) -> Vec<u8> {
        match self.operation {
            Operation::Bcast if rank == self.root => self.elements(rank, 0, self.bytes),
            _ => vec![0xbb; self.buffers(rank, size).1 as usize],
        }
    }

    /// Input bytes of a rank, from the byte `from` on.
    fn elements(&self, rank: u32, from: u64, bytes: u64) -> Vec<u8> {
        let element = self.element();
        let values = (from / element..).map(|index| value(rank, index).to_le_bytes());
        let one = |value: [u8; 8]| value.into_iter().take(element as usize);
        values.flat_map(one).take(bytes as usize).collect()
    }

    /// True where all ranks have the same result.
    pub(crate) fn result_is_the_same(&self) -> bool {
        matches!(self.operation, Operation::Bcast | Operation::Allreduce | Operation::Allgather)
    }

    /// What a rank must have in its receive buffer after the call.
    pub fn expected(&self, rank: u32, size: u32) -> Vec<u8> {
        let one = self.bytes;
        let block = |of: u32, index: u32| self.elements(of, u64::from(index) * one, one);
        match self.operation {
            Operation::Barrier => Vec::new(),
            Operation::Bcast => self.elements(self.root, 0, one),
            Operation::Reduce | Operation::Gather if rank != self.root => Vec::new(),
            Operation::Reduce | Operation::Allreduce => self.reduced(size, 0),
            Operation::ReduceScatter => self.reduced(size, rank),
            Operation::Gather | Operation::Allgather => {
                (0..size).flat_map(|of| block(of, 0)).collect()
            }
            Operation::Scatter => block(self.root, rank),
            Operation::Alltoall => (0..size).flat_map(|of| block(of, rank)).collect(),
        }
    }

    /// The operands of all ranks, combined in rank order, for the block `index`.
    pub(crate) fn reduced(&self, size: u32, index: u32) -> Vec<u8> {
        let from = u64::from(index) * self.bytes;
        let mut result = self.elements(size - 1, from, self.bytes);
        for rank in (0..size - 1).rev() {
            self.reduce(&self.elements(rank, from, self.bytes), &mut result);
        }
        result
    }

    /// `inout[i] = left[i] op inout[i]`: a sum, or the composition of affine functions, which does
    /// not commute.
    pub(crate) fn reduce(&self, left: &[u8], inout: &mut [u8]) {
        if self.element() == 1 {
            inout.iter_mut().zip(left).for_each(|(inout, left)| *inout = inout.wrapping_add(*left));
            return;
        }
        let (left, _) = left.as_chunks::<8>();
        let (inout, _) = inout.as_chunks_mut::<8>();
        for (left, inout) in left.iter().zip(inout) {
            let (a, b) = (u64::from_le_bytes(*left), u64::from_le_bytes(*inout));
            let result = if self.commutative { a.wrapping_add(b) } else { composed(a, b) };
            *inout = result.to_le_bytes();
        }
    }
}

/// x -> a x + b after x -> c x + d; the factors are the lower halves.
fn composed(left: u64, right: u64) -> u64 {
    let (a, b, c, d) = (left as u32, (left >> 32) as u32, right as u32, (right >> 32) as u32);
    let sum = a.wrapping_mul(d).wrapping_add(b);
    u64::from(sum) << 32 | u64::from(a.wrapping_mul(c))
}

/// The input element `index` of a rank: the finaliser of splitmix64 over both.
fn value(rank: u32, index: u64) -> u64 {
    let mut z = (u64::from(rank) << 40).wrapping_add(index).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    // Odd factors: the composition keeps all bits of its operands.
    (z ^ z >> 31) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_results_are_made_of_the_inputs() {
        let call = Call::new(Operation::Alltoall, 16);
        let sent = call.input(2, 4);
        assert_eq!(call.expected(1, 4)[32..48], sent[16..32]);
        let call = Call { commutative: false, ..Call::new(Operation::Allreduce, 8) };
        let word = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().unwrap());
        let [a, b, c] = [0, 1, 2].map(|rank| word(call.input(rank, 3)));
        assert_eq!(word(call.expected(0, 3)), composed(composed(a, b), c));
        assert_ne!(composed(a, b), composed(b, a));
    }

    #[test]
    fn names_are_found() {
        assert!(Operation::ALL.into_iter().all(|op| Operation::named(op.name()) == Some(op)));
        assert_eq!(Operation::named("allreduced"), None);
    }
}
