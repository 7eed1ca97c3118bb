//! Algorithms with fewer, broader rounds: where latency is longer than the time to send one message
//! more, a rank sends several at once. For short vectors.
//!
//! `radix` is one more than the messages that a rank sends in a round, at least 2. With 2 they are
//! the binomial tree, recursive doubling and dissemination.
//!
//! Source: Ruefenacht, Bull, Booth, "Generalisation of recursive doubling for AllReduce" (2017).

use std::ops::{Range, RangeInclusive};

use super::Tree;
use crate::builder::Builder;
use crate::position::Position;
use crate::shape::Extent;

/// Barrier by dissemination in ceil(log size) rounds, to the base of the radix: in round k a rank
/// signals the ranks 1, 2, ... times `radix`^k ahead.
pub fn dissemination(b: &mut Builder, pos: Position, radix: u32) {
    for (reach, count) in levels(pos.size, radix) {
        for by in (1..=count).map(|times| times * reach) {
            b.await_signal(pos.behind(by));
            b.signal(pos.ahead(by));
        }
        b.round();
    }
}

/// The powers of the radix below a size, each with how often it may be taken without reaching the
/// size, less than `radix` times.
pub(crate) fn levels(size: u32, radix: u32) -> impl DoubleEndedIterator<Item = (u32, u32)> {
    let powers = std::iter::successors(Some(1u32), move |reach| reach.checked_mul(radix));
    let powers: Vec<u32> = powers.take_while(|&reach| reach < size).collect();
    powers.into_iter().map(move |reach| (reach, (radix - 1).min((size - 1) / reach)))
}

/// Broadcast down a tree; the largest subtrees are served first.
pub fn bcast(b: &mut Builder, pos: Position, root: u32, data: Extent, radix: u32) {
    let tree = Tree::new(pos, root, radix);
    if let Some(parent) = tree.parent() {
        b.recv(parent, data);
        b.round();
    }
    tree.children().rev().for_each(|child| b.send(tree.rank(child), data));
}

/// Reduce up a tree in rank order. All children of a rank are awaited at once, each in scratch
/// memory of its own. Where order matters the tree stands on rank 0, which passes the result on.
pub fn reduce(
    b: &mut Builder,
    pos: Position,
    root: u32,
    (input, output, commutative): (Extent, Option<Extent>, bool),
    radix: u32,
) {
    let base = if commutative { root } else { 0 };
    let tree = Tree::new(pos, base, radix);
    let mut result = input;
    let operands: Vec<Extent> = tree
        .children()
        .map(|child| {
            let operand = b.like(input, input.count);
            b.recv(tree.rank(child), operand);
            operand
        })
        .collect();
    if let Some((&last, before)) = operands.split_last() {
        before.iter().rev().for_each(|&operand| b.reduce(operand, last));
        b.reduce(input, last);
        result = last;
    }
    match tree.parent() {
        Some(parent) => b.send(parent, result),
        None => output.filter(|_| root == base).iter().for_each(|home| b.copy(result, *home)),
    }
    if root != base {
        b.round();
        if pos.rank == base {
            b.send(root, result);
        }
        if let Some(output) = output {
            b.recv(base, output);
        }
    }
}

/// Nodes made of any number of ranks: the first nodes stand for two adjacent ranks each, of which
/// the upper one acts. Their number is a product of factors up to the radix.
pub(crate) struct Nodes {
    factors: Vec<u32>,
    pairs: u32,
}

impl Nodes {
    /// As many nodes as there can be, but at least half as many as ranks.
    fn new(size: u32, radix: u32) -> Nodes {
        let mut count = size;
        loop {
            if let Some(factors) = factors(count, radix) {
                return Nodes { factors, pairs: size - count };
            }
            count -= 1;
        }
    }

    /// Nodes for the smallest of these radixes with which the number of ranks is a product of as
    /// few factors as there can be.
    pub(crate) fn with_fewest_rounds(size: u32, radixes: RangeInclusive<u32>) -> Nodes {
        let fewest = levels(size, *radixes.end()).count();
        let is_best = |factors: &Vec<u32>| factors.len() == fewest;
        let factors = radixes.clone().find_map(|radix| factors(size, radix).filter(is_best));
        match factors {
            Some(factors) => Nodes { factors, pairs: 0 },
            None => Nodes::new(size, *radixes.end()),
        }
    }

    /// True when each node is one rank.
    pub(crate) fn are_ranks(&self) -> bool {
        self.pairs == 0
    }

    /// The most nodes that exchange in a round.
    pub(crate) fn most(&self) -> u32 {
        self.factors.first().copied().unwrap_or(1)
    }

    /// The rounds of recursive multiplying at a node.
    pub(crate) fn rounds(&self, node: u32) -> impl Iterator<Item = Multiplying<'_>> {
        let mut reach = 1;
        self.factors.iter().map(move |&factor| {
            let digit = Position::new(node / reach % factor, factor);
            let round = Multiplying { nodes: self, digit, first: node - digit.rank * reach, reach };
            reach *= factor;
            round
        })
    }

    /// The ranks that a node stands for.
    pub(crate) fn ranks(&self, node: u32) -> Range<u32> {
        match node < self.pairs {
            true => 2 * node..2 * node + 2,
            false => node + self.pairs..node + self.pairs + 1,
        }
    }

    /// The rank that acts for a node.
    pub(crate) fn rank(&self, node: u32) -> u32 {
        self.ranks(node).end - 1
    }

    /// The node of a rank.
    pub(crate) fn node_of(&self, rank: u32) -> u32 {
        if rank < 2 * self.pairs { rank / 2 } else { rank - self.pairs }
    }
}

/// A round of recursive multiplying at a node: nodes that differ in one digit only send each other
/// what they have.
pub(crate) struct Multiplying<'n> {
    nodes: &'n Nodes,
    /// The own digit, and how many there are.
    pub(crate) digit: Position<'static>,
    /// The node with digit 0, and the distance to the next one.
    first: u32,
    reach: u32,
}

impl Multiplying<'_> {
    /// The rank that acts for the node with a digit.
    pub(crate) fn rank(&self, digit: u32) -> u32 {
        self.nodes.rank(self.first + digit * self.reach)
    }

    /// The ranks that act for the nodes `by` digits behind and ahead, round the ring.
    pub(crate) fn partners(&self, by: u32) -> [u32; 2] {
        [self.digit.behind(by), self.digit.ahead(by)].map(|digit| self.rank(digit))
    }
}

/// The fewest factors of a number, each at most `radix`, the largest first. `None`: a prime
/// factor is larger.
fn factors(mut number: u32, radix: u32) -> Option<Vec<u32>> {
    let mut factors = Vec::new();
    while number > 1 {
        let factor = (2..=radix).rev().find(|factor| number.is_multiple_of(*factor))?;
        factors.push(factor);
        number /= factor;
    }
    Some(factors)
}

/// Allreduce by recursive multiplying: in each round, groups of up to `radix` nodes send each other
/// what they have, and each combines it in rank order. Two rounds more where the number of ranks
/// has a prime factor above the radix.
pub fn allreduce(b: &mut Builder, pos: Position, input: Extent, output: Extent, radix: u32) {
    let nodes = Nodes::new(pos.size, radix);
    let node = nodes.node_of(pos.rank);
    let (folded, acting) = (nodes.ranks(node).start, nodes.rank(node));
    if folded != acting && pos.rank == folded {
        b.send(acting, input);
        b.round();
        return b.recv(acting, output);
    }
    let slots: Vec<Extent> = (0..nodes.most().max(2)).map(|_| b.like(input, input.count)).collect();
    let mut mine = input;
    if folded != acting {
        b.recv(folded, slots[0]);
        b.copy(input, slots[1]);
        b.reduce(slots[0], slots[1]);
        b.copy(slots[1], output);
        mine = output;
    }
    for round in nodes.rounds(node) {
        let digit = round.digit;
        for by in 1..digit.size {
            let [from, to] = round.partners(by);
            b.recv(from, slots[digit.behind(by) as usize]);
            b.send(to, mine);
        }
        b.copy(mine, slots[digit.rank as usize]);
        let last = slots[digit.size as usize - 1];
        slots[..digit.size as usize - 1].iter().rev().for_each(|&operand| b.reduce(operand, last));
        b.copy(last, output);
        mine = output;
    }
    if mine.span() != output.span() {
        b.copy(mine, output);
    }
    if folded != acting {
        b.round();
        b.send(folded, output);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_products_of_small_factors() {
        assert_eq!(factors(1024, 8), Some(vec![8, 8, 8, 2]));
        assert_eq!(factors(22, 8), None);
        let nodes = Nodes::new(22, 8);
        assert_eq!((&nodes.factors[..], nodes.pairs), (&[7, 3][..], 1));
        for (size, radix) in (1..200).flat_map(|size| (2..9).map(move |radix| (size, radix))) {
            let nodes = Nodes::new(size, radix);
            let count: u32 = nodes.factors.iter().product();
            assert!(nodes.pairs <= count && count + nodes.pairs == size);
            for rank in 0..size {
                assert!(nodes.ranks(nodes.node_of(rank)).contains(&rank));
            }
        }
    }
    #[test]
    fn the_smallest_radix_with_the_fewest_rounds_is_taken() {
        let factors = |size, radixes| Nodes::with_fewest_rounds(size, radixes).factors;
        assert_eq!(factors(1024, 32..=193), [32, 32]);
        assert_eq!(factors(1000, 32..=193), [40, 25]);
        // A prime number of ranks: one more than there are nodes.
        assert_eq!(Nodes::with_fewest_rounds(17, 5..=7).pairs, 1);
    }
}
