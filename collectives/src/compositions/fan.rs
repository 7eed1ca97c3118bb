//! Compositions for short data in which several ranks of each group send to other groups at once,
//! each for its group. Where one rank would pay its overhead for one message after the other, they
//! pay at the same time; therefore rounds are broader, and fewer.
//!
//! Between groups there are the algorithms of [`radix`], with a group in place of a rank. The
//! messages of a round are dealt to *senders*: the last ranks of each group, as many of each as the
//! smallest group has. Between rounds, the ranks of a group tell each other what has come. They
//! look for the senders last, since these are the last to arrive.

use std::ops::Range;

use super::levels::Levels;
use crate::algorithms::Tree;
use crate::algorithms::radix::{self, Nodes};
use crate::builder::Builder;
use crate::coll_args::CollArgs;
use crate::position::Position;
use crate::shape::{Extent, piece};

/// How the messages of a round between groups are dealt.
struct Fan<'a> {
    levels: &'a Levels<'a>,
    /// The least radix with which there are as few rounds as there can be.
    radix: u32,
    /// One more than the most messages that a group may send in a round.
    max_radix: u32,
    senders: u32,
}

impl<'a> Fan<'a> {
    fn new(levels: &'a Levels) -> Fan<'a> {
        let (groups, smallest) = (levels.groups.count(), levels.groups.lanes().len() as u32);
        let most = smallest.saturating_mul(levels.stages.radix() - 1);
        let max_radix = most.saturating_add(1).min(groups);
        let rounds = |radix| radix::levels(groups, radix).count();
        let is_enough = |radix: &u32| rounds(*radix) == rounds(max_radix);
        let radix = (2..max_radix).find(is_enough).unwrap_or(max_radix);
        Fan { levels, radix, max_radix, senders: smallest.min(radix - 1) }
    }

    fn nodes(&self) -> Nodes {
        Nodes::with_fewest_rounds(self.levels.groups.count(), self.radix..=self.max_radix)
    }

    /// The number of a sender among the ranks of its group.
    fn index(&self, group: u32, sender: u32) -> u32 {
        self.levels.groups.members(group).len() as u32 - self.senders + sender
    }

    fn rank(&self, group: u32, sender: u32) -> u32 {
        self.levels.groups.members(group)[self.index(group, sender) as usize]
    }

    /// Which of so many messages a sender deals with.
    fn share(&self, many: u32, sender: u32) -> Range<u32> {
        let share = piece(many.into(), self.senders.min(many).into(), sender.into());
        if sender < many { share.start as u32..share.end as u32 } else { many..many }
    }

    /// The sender that deals with a message of so many.
    fn sender(&self, message: u32, many: u32) -> u32 {
        let deals = |sender: &u32| self.share(many, *sender).contains(&message);
        (0..self.senders).find(deals).unwrap_or(0)
    }

    /// The own number among the senders.
    fn me(&self) -> Option<u32> {
        self.levels.me.checked_sub(self.index(self.levels.group, 0))
    }

    /// A round of so many empty messages. `partners`: from which group message `by` comes, and to
    /// which one it goes; they are numbered from 1.
    fn signal(&self, b: &mut Builder, many: u32, partners: impl Fn(u32) -> [u32; 2]) {
        if let Some(me) = self.me() {
            for message in self.share(many, me) {
                let [from, to] = partners(message + 1);
                b.await_signal(self.rank(from, me));
                b.signal(self.rank(to, me));
            }
        }
        self.levels.await_last(b, self.senders);
    }
}

/// All ranks of a group arrive before the first round, and await the senders after each. The rounds
/// are those of [`allreduce`], in which groups first exchange with their neighbours, or where these
/// would be more, those of dissemination.
pub(super) fn barrier(b: &mut Builder, levels: &Levels) {
    let fan = Fan::new(levels);
    let nodes = fan.nodes();
    let ring = Position::new(levels.group, levels.groups.count());
    levels.in_group(b, &CollArgs::Barrier);
    if nodes.are_ranks()
        && nodes.rounds(ring.rank).count() == radix::levels(ring.size, fan.radix).count()
    {
        for round in nodes.rounds(ring.rank) {
            fan.signal(b, round.digit.size - 1, |by| round.partners(by));
        }
    } else {
        for (reach, many) in radix::levels(ring.size, fan.radix) {
            fan.signal(b, many, |by| [ring.behind(by * reach), ring.ahead(by * reach)]);
        }
    }
}

/// Down a tree of groups. The sender that has got the data gives them to its group, whose senders
/// pass them on.
pub(super) fn bcast(b: &mut Builder, levels: &Levels, root: u32, data: Extent) {
    let fan = Fan::new(levels);
    let (root_group, root_index) = levels.groups.place(root);
    let tree =
        |group| Tree::new(Position::new(group, levels.groups.count()), root_group, fan.radix);
    let sender_to = |group| fan.sender(tree(group).digit() - 1, fan.radix - 1);
    let mine = tree(levels.group);
    let mut first = root_index;
    if let Some(parent) = mine.parent() {
        let sender = sender_to(levels.group);
        first = fan.index(levels.group, sender);
        if levels.me == first {
            b.recv(fan.rank(parent, sender), data);
        }
    }
    levels.in_group(b, &CollArgs::Bcast { root: first, data });
    for child in mine.children().rev().map(|node| mine.rank(node)) {
        let sender = sender_to(child);
        if fan.me() == Some(sender) {
            b.send(fan.rank(child, sender), data);
        }
    }
}

/// Recursive multiplying over groups. Each rank has the sum of its group, and combines what the
/// senders get in a round, in the order of groups.
pub(super) fn allreduce(
    b: &mut Builder,
    levels: &Levels,
    input: Extent,
    output: Extent,
    commutative: bool,
) {
    let fan = Fan::new(levels);
    levels.in_group(b, &CollArgs::Allreduce { input, output, commutative });
    let nodes = fan.nodes();
    let node = nodes.node_of(levels.group);
    let (folded, acting) = (nodes.ranks(node).start, nodes.rank(node));
    let first = fan.index(levels.group, 0);
    if folded != acting && levels.group == folded {
        if levels.me == first {
            b.send(fan.rank(acting, 0), output);
            b.round();
            b.recv(fan.rank(acting, 0), output);
        }
        return levels.in_group(b, &CollArgs::Bcast { root: first, data: output });
    }
    let most = u64::from(nodes.most() - 1);
    let others = b.like(output, output.count * most.max(u64::from(folded != acting)));
    if folded != acting {
        if levels.me == first {
            let theirs = others.part(0, output.count);
            b.recv(fan.rank(folded, 0), theirs);
            b.reduce(theirs, output);
        }
        levels.in_group(b, &CollArgs::Bcast { root: first, data: output });
    }
    for round in nodes.rounds(node) {
        let many = round.digit.size - 1;
        if let Some(me) = fan.me() {
            for message in fan.share(many, me) {
                let theirs = others.part(u64::from(message) * output.count, output.count);
                let [to, from] = round.partners(message + 1);
                b.recv(fan.rank(from, me), theirs);
                b.send(fan.rank(to, me), output);
            }
        }
        share_received(b, &fan, others, many, output.count);
        combine(b, others, round.digit, output);
    }
    if folded != acting && levels.me == first {
        b.round();
        b.send(fan.rank(folded, 0), output);
    }
}

/// Each rank of the group gets the `many` vectors that its senders have got.
fn share_received(b: &mut Builder, fan: &Fan, others: Extent, many: u32, count: u64) {
    let size = fan.levels.local_size();
    let all: Vec<Extent> = (0..size)
        .map(|index| {
            let sender = (index + fan.senders).checked_sub(size);
            let share = sender.map_or(0..0, |sender| fan.share(many, sender));
            others.range(&(u64::from(share.start) * count..u64::from(share.end) * count))
        })
        .collect();
    fan.levels.in_group(b, &CollArgs::Allgatherv { own: None, all: &all });
}

/// Combines the vectors of all digits into the own one, `output`, from the last digit to the first.
/// The others are in the order of digits from the one after the own one on, round the ring.
fn combine(b: &mut Builder, others: Extent, digit: Position, output: Extent) {
    let count = output.count;
    let distance = count as i64 * output.shape.extent;
    let other = |index: u32| others.part(u64::from(index) * count, count);
    let (below, above) = (digit.rank, digit.size - 1 - digit.rank);
    let result = if above > 0 { other(above - 1) } else { output };
    if above > 0 {
        b.reduce_strided(other(0), above - 1, distance, result);
        b.reduce(output, result);
    }
    if below > 0 {
        b.reduce_strided(other(above), below, distance, result);
    }
    b.copy(result, output);
}
