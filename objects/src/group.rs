//! Groups: ordered sets of processes, and their algebra (MPI-5.0 §7.3).
//!
//! There are three forms. A *range* holds peers `first, first + stride, ...` in three words:
//! MPI_COMM_WORLD, its halves, every k-th rank. *Parts* are a few ranges one after the other: a
//! world with holes, blocks of ranks in another order. A *list* names each member. The members
//! alone decide the form; therefore equal groups have equal form.
//!
//! A list finds a peer by an index (its ranks, sorted by peer), which is made at the first look-up
//! and shared by all clones.

use std::fmt;
use std::sync::{Arc, OnceLock};

use fabric::Peer;

use crate::{Class, Error, Result};

/// The relation of two groups or communicators (MPI-5.0 §7.3.1, §7.4.1), numbered as in the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Comparison {
    /// Equal: as many members in equal order; of communicators: the same one.
    Ident = 201,
    /// Communicators with identical groups.
    Congruent = 202,
    /// The members are equal, in another order.
    Similar = 203,
    /// Different members.
    Unequal = 204,
}

/// An ordered set of processes. Cheap to clone.
#[derive(Clone)]
pub struct Group(Form);

#[derive(Clone)]
enum Form {
    Range(Range),
    Parts(Arc<Parts>),
    List(Arc<List>),
}

/// A range: `len` peers from `first` on. With `len < 2` the stride is 1.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Range {
    first: u32,
    stride: i32,
    len: u32,
}

/// Two ranges or more, at most [`MAX_PARTS`], with [`MIN_PART_MEMBERS`] members each on average.
#[derive(PartialEq, Eq)]
struct Parts {
    size: u32,
    parts: Box<[Part]>,
}

/// A range and the rank at which it begins.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    begin: u32,
    range: Range,
}

/// Most parts of a group; with more, a list finds a peer faster.
const MAX_PARTS: usize = 64;
/// Fewest members of a part on average: a part takes as much memory as so many members of a list.
const MIN_PART_MEMBERS: usize = 4;

struct List {
    peers: Box<[u32]>,
    /// The ranks, sorted by peer.
    by_peer: OnceLock<Box<[u32]>>,
}

impl Range {
    const EMPTY: Range = Range { first: 0, stride: 1, len: 0 };

    #[inline]
    fn peer_of(self, rank: u32) -> u32 {
        (i64::from(self.first) + i64::from(self.stride) * i64::from(rank)) as u32
    }

    #[inline]
    fn rank_of(self, peer: u32) -> Option<u32> {
        let (distance, stride) = (i64::from(peer) - i64::from(self.first), i64::from(self.stride));
        // The usual stride costs no division.
        let rank = match stride {
            1 => distance,
            stride if distance % stride == 0 => distance / stride,
            _ => return None,
        };
        (0..i64::from(self.len)).contains(&rank).then_some(rank as u32)
    }
}

impl Parts {
    fn peer_of(&self, rank: u32) -> Option<u32> {
        let at = self.parts.partition_point(|part| part.begin <= rank);
        let part = self.parts[at - 1];
        (rank < self.size).then(|| part.range.peer_of(rank - part.begin))
    }

    fn rank_of(&self, peer: u32) -> Option<u32> {
        self.parts.iter().find_map(|part| Some(part.begin + part.range.rank_of(peer)?))
    }
}

impl List {
    fn rank_of(&self, peer: u32) -> Option<u32> {
        let by_peer = self.by_peer.get_or_init(|| {
            let mut ranks: Box<[u32]> = (0..self.peers.len() as u32).collect();
            ranks.sort_unstable_by_key(|&rank| self.peers[rank as usize]);
            ranks
        });
        by_peer
            .binary_search_by_key(&peer, |&rank| self.peers[rank as usize])
            .ok()
            .map(|at| by_peer[at])
    }
}

/// Collects peers as ranges, while these are few.
#[derive(Default)]
struct Builder {
    parts: Vec<Part>,
    size: u32,
    list: Vec<u32>,
}

impl Builder {
    fn push(&mut self, peer: u32) {
        if !self.list.is_empty() {
            return self.list.push(peer);
        }
        if !self.parts.last_mut().is_some_and(|part| part.range.extend(peer)) {
            let range = Range { first: peer, stride: 1, len: 1 };
            self.parts.push(Part { begin: self.size, range });
        }
        self.size += 1;
        if self.parts.len() > MAX_PARTS {
            self.spill();
        }
    }

    fn spill(&mut self) {
        self.list.extend(self.parts.iter().flat_map(|part| part.range.iter()));
    }

    fn finish(mut self) -> Group {
        if self.list.is_empty() {
            match self.parts[..] {
                [] => return Group::empty(),
                [Part { range, .. }] => return Group(Form::Range(range)),
                _ if self.parts.len() * MIN_PART_MEMBERS <= self.size as usize => {
                    return Group(Form::Parts(Arc::new(Parts {
                        size: self.size,
                        parts: self.parts.into(),
                    })));
                }
                _ => self.spill(),
            }
        }
        Group(Form::List(Arc::new(List { peers: self.list.into(), by_peer: OnceLock::new() })))
    }
}

/// Makes a group of these members, which must be different peers.
impl FromIterator<Peer> for Group {
    fn from_iter<I: IntoIterator<Item = Peer>>(peers: I) -> Group {
        let mut builder = Builder::default();
        peers.into_iter().for_each(|peer| builder.push(peer.0));
        builder.finish()
    }
}

impl Group {
    /// Returns MPI_GROUP_EMPTY.
    pub const fn empty() -> Group {
        Group(Form::Range(Range::EMPTY))
    }

    /// Returns the group of peers 0 to `size - 1`.
    pub const fn world(size: u32) -> Group {
        Group(Form::Range(Range { first: 0, stride: 1, len: size }))
    }

    /// Returns the group of one process.
    pub const fn single(peer: Peer) -> Group {
        Group(Form::Range(Range { first: peer.0, stride: 1, len: 1 }))
    }

    /// Returns the number of members.
    #[inline]
    pub fn size(&self) -> u32 {
        match &self.0 {
            Form::Range(range) => range.len,
            Form::Parts(parts) => parts.size,
            Form::List(list) => list.peers.len() as u32,
        }
    }

    /// Returns true if there are no members.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.size() == 0
    }

    /// Returns the member of that rank.
    #[inline]
    pub fn peer_of(&self, rank: u32) -> Option<Peer> {
        match &self.0 {
            Form::Range(range) => (rank < range.len).then(|| Peer(range.peer_of(rank))),
            Form::Parts(parts) => parts.peer_of(rank).map(Peer),
            Form::List(list) => list.peers.get(rank as usize).map(|&peer| Peer(peer)),
        }
    }

    /// Returns the rank of that peer; `None` if it is not a member.
    #[inline]
    pub fn rank_of(&self, peer: Peer) -> Option<u32> {
        match &self.0 {
            Form::Range(range) => range.rank_of(peer.0),
            Form::Parts(parts) => parts.rank_of(peer.0),
            Form::List(list) => list.rank_of(peer.0),
        }
    }

    /// Returns true if the peer is a member.
    #[inline]
    pub fn contains(&self, peer: Peer) -> bool {
        self.rank_of(peer).is_some()
    }

    /// Iterates over the members in order of rank.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Peer> + '_ {
        (0..self.size()).map(|rank| self.peer_of(rank).unwrap_or(Peer(u32::MAX)))
    }

    /// Returns the rank in `other` of this group's member `rank` (MPI_Group_translate_ranks);
    /// `None` if it is not a member there. MPI_ERR_RANK if `rank` is out of range.
    pub fn translate(&self, rank: u32, other: &Group) -> Result<Option<u32>> {
        let peer = self.peer_of(rank).ok_or_else(|| self.bad_rank(rank.into()))?;
        Ok(other.rank_of(peer))
    }

    /// Compares two groups (MPI_Group_compare): ident, similar or unequal.
    pub fn compare(&self, other: &Group) -> Comparison {
        if self == other {
            Comparison::Ident
        } else if self.size() == other.size() && self.iter().all(|peer| other.contains(peer)) {
            Comparison::Similar
        } else {
            Comparison::Unequal
        }
    }

    /// Returns this group's members, then the further members of `other` in its order.
    #[must_use]
    pub fn union(&self, other: &Group) -> Group {
        self.iter().chain(other.iter().filter(|&peer| !self.contains(peer))).collect()
    }

    /// Returns the members that are in `other` too, in this group's order.
    #[must_use]
    pub fn intersection(&self, other: &Group) -> Group {
        self.iter().filter(|&peer| other.contains(peer)).collect()
    }

    /// Returns the members that are not in `other`, in this group's order.
    #[must_use]
    pub fn difference(&self, other: &Group) -> Group {
        self.iter().filter(|&peer| !other.contains(peer)).collect()
    }

    /// Returns the members of these ranks, in this order. MPI_ERR_RANK if a rank is out of range or
    /// given twice.
    pub fn incl(&self, ranks: &[u32]) -> Result<Group> {
        self.check_distinct(ranks.iter().copied())?;
        Ok(self.select(ranks.iter().copied()))
    }

    /// Returns the members without these ranks, in this group's order. Errors are those of
    /// [`Group::incl`].
    pub fn excl(&self, ranks: &[u32]) -> Result<Group> {
        let without = self.check_distinct(ranks.iter().copied())?;
        Ok(self.select((0..self.size()).filter(|&rank| !without.contains(rank))))
    }

    /// Includes ranks like [`Group::incl`], given as (first, last, stride) triplets; a stride may
    /// be negative. MPI_ERR_ARG for a stride of zero or one that leads away from `last`.
    pub fn range_incl(&self, triplets: &[[i32; 3]]) -> Result<Group> {
        let ranges = self.check_triplets(triplets)?;
        self.check_distinct(ranges.iter().flat_map(|range| range.iter()))?;
        Ok(self.select(ranges.iter().flat_map(|range| range.iter())))
    }

    /// Excludes ranks like [`Group::excl`], given as in [`Group::range_incl`].
    pub fn range_excl(&self, triplets: &[[i32; 3]]) -> Result<Group> {
        let ranges = self.check_triplets(triplets)?;
        let without = self.check_distinct(ranges.iter().flat_map(|range| range.iter()))?;
        Ok(self.select((0..self.size()).filter(|&rank| !without.contains(rank))))
    }

    /// Returns the members of these ranks, which the caller has checked.
    fn select(&self, ranks: impl Iterator<Item = u32>) -> Group {
        ranks.filter_map(|rank| self.peer_of(rank)).collect()
    }

    /// Returns the ranks as a set, if all are in range and none is given twice.
    fn check_distinct(&self, ranks: impl Iterator<Item = u32>) -> Result<RankSet> {
        let mut seen = RankSet::new(self.size());
        for rank in ranks {
            if rank >= self.size() {
                return Err(self.bad_rank(rank.into()));
            }
            if !seen.insert(rank) {
                return Err(Error::new(
                    Class::Rank,
                    format!("duplicate rank {rank}: each rank must be given once"),
                ));
            }
        }
        Ok(seen)
    }

    fn check_triplets(&self, triplets: &[[i32; 3]]) -> Result<Vec<Range>> {
        triplets.iter().map(|&triplet| self.check_triplet(triplet)).collect()
    }

    /// Returns the ranks of a triplet. The computed ranks must be in range, `last` itself may lie
    /// outside (MPI-5.0 §7.3.2).
    fn check_triplet(&self, [first, last, stride]: [i32; 3]) -> Result<Range> {
        let sentence = |why: &str| format!("invalid range ({first}, {last}, {stride}): {why}");
        if stride == 0 {
            return Err(Error::new(Class::Arg, sentence("the stride must not be zero")));
        }
        let steps = (i64::from(last) - i64::from(first)) / i64::from(stride);
        if (last < first) != (stride < 0) && first != last {
            return Err(Error::new(Class::Arg, sentence("the stride must lead to the last rank")));
        }
        let end = i64::from(first) + steps * i64::from(stride);
        for rank in [i64::from(first), end] {
            if !(0..i64::from(self.size())).contains(&rank) {
                return Err(self.bad_rank(rank));
            }
        }
        Ok(Range { first: first as u32, stride, len: steps as u32 + 1 })
    }

    #[cold]
    fn bad_rank(&self, rank: i64) -> Error {
        Error::new(
            Class::Rank,
            format!(
                "invalid rank {rank} in a group of {0} processes: must be at least 0 and below {0}",
                self.size()
            ),
        )
    }
}

impl Range {
    /// Adds a peer, if it continues the range.
    fn extend(&mut self, peer: u32) -> bool {
        let step = i64::from(peer) - i64::from(self.first);
        match (self.len, i32::try_from(step)) {
            (1, Ok(stride)) if stride != 0 => self.stride = stride,
            (len, _) if len > 1 && step == i64::from(self.stride) * i64::from(len) => {}
            _ => return false,
        }
        self.len += 1;
        true
    }

    fn iter(self) -> impl Iterator<Item = u32> {
        (0..self.len).map(move |rank| self.peer_of(rank))
    }
}

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        match (&self.0, &other.0) {
            (Form::Range(one), Form::Range(two)) => one == two,
            (Form::Parts(one), Form::Parts(two)) => Arc::ptr_eq(one, two) || one == two,
            (Form::List(one), Form::List(two)) => Arc::ptr_eq(one, two) || one.peers == two.peers,
            // The members decide the form.
            _ => false,
        }
    }
}

impl Eq for Group {}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Range(Range { first, stride, len }) => {
                write!(f, "Group({len} from {first} by {stride})")
            }
            Form::Parts(parts) => f
                .debug_list()
                .entries(parts.parts.iter().map(|part| Group(Form::Range(part.range))))
                .finish(),
            Form::List(list) => f.debug_tuple("Group").field(&list.peers).finish(),
        }
    }
}

/// One bit for each rank of a group.
struct RankSet(Vec<u64>);

impl RankSet {
    fn new(size: u32) -> RankSet {
        RankSet(vec![0; size.div_ceil(64) as usize])
    }

    /// Adds a rank; returns true if it was not in the set.
    fn insert(&mut self, rank: u32) -> bool {
        let (word, bit) = (&mut self.0[rank as usize / 64], 1 << (rank % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn contains(&self, rank: u32) -> bool {
        self.0[rank as usize / 64] & 1 << (rank % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn group(peers: &[u32]) -> Group {
        peers.iter().map(|&peer| Peer(peer)).collect()
    }

    fn members(group: &Group) -> Vec<u32> {
        group.iter().map(|peer| peer.0).collect()
    }

    fn is_range(group: &Group) -> bool {
        matches!(group.0, Form::Range(_))
    }

    #[test]
    fn what_could_be_a_range_is_one() {
        let world = Group::world(100);
        assert!(is_range(&world.incl(&[90, 60, 30, 0]).unwrap()));
        assert!(is_range(&world.excl(&[0, 99]).unwrap()));
        assert!(is_range(&world.range_incl(&[[0, 9, 1], [10, 19, 1]]).unwrap()));
        assert!(!is_range(&world.incl(&[0, 1, 3]).unwrap()));
        assert!(is_range(&group(&[7])) && is_range(&group(&[])) && is_range(&group(&[9, 2])));
        assert!(!is_range(&group(&[0, u32::MAX])), "a stride that does not fit is a list");
        assert_eq!(members(&group(&[0, u32::MAX, 5])), [0, u32::MAX, 5]);
        assert_eq!(group(&[3, 4]).incl(&[1]).unwrap(), Group::single(Peer(4)));
    }

    #[test]
    fn ranges_of_a_million_list_no_members() {
        let world = Group::world(1_000_000);
        let even = world.range_incl(&[[0, 999_999, 2]]).unwrap();
        let (low, high) = (
            world.range_incl(&[[0, 499_999, 1]]).unwrap(),
            world.range_incl(&[[500_000, 999_999, 1]]).unwrap(),
        );
        let reversed = world.range_incl(&[[999_999, 0, -1]]).unwrap();
        let made = [
            world.difference(&even),
            world.range_excl(&[[0, 999_999, 2]]).unwrap(),
            low.union(&high),
            even.intersection(&low),
            world.difference(&low),
            reversed.intersection(&high),
        ];
        for group in [&even, &low, &high, &reversed].into_iter().chain(&made) {
            assert!(is_range(group), "{group:?}");
        }
        assert_eq!(made[0], made[1]);
        assert_eq!(made[2], world);
        assert_eq!((made[3].size(), made[4].size(), made[5].size()), (250_000, 500_000, 500_000));
        assert!(size_of::<Group>() <= 16, "a range costs its three words");
    }

    #[test]
    fn a_world_with_holes_or_in_another_order_lists_no_members() {
        let world = Group::world(1_000_000);
        let (low, high) = (
            world.range_incl(&[[0, 499_999, 1]]).unwrap(),
            world.range_excl(&[[0, 499_999, 1]]).unwrap(),
        );
        let swapped = high.union(&low);
        let holes = world.excl(&[3, 70, 999_998]).unwrap();
        let interleaved = world.range_incl(&[[0, 999_999, 2], [1, 999_999, 2]]).unwrap();
        for (group, parts) in [(&swapped, 2), (&holes, 4), (&interleaved, 2)] {
            assert!(
                matches!(&group.0, Form::Parts(form) if form.parts.len() == parts),
                "{group:?}"
            );
        }
        assert_eq!(
            (swapped.peer_of(0), swapped.rank_of(Peer(0))),
            (Some(Peer(500_000)), Some(500_000))
        );
        assert_eq!(
            (holes.size(), holes.peer_of(70), holes.rank_of(Peer(70))),
            (999_997, Some(Peer(72)), None)
        );
        assert_eq!(
            (interleaved.peer_of(500_000), interleaved.rank_of(Peer(3))),
            (Some(Peer(1)), Some(500_001))
        );
        assert_eq!(swapped.compare(&world), Comparison::Similar);
        assert_eq!(holes.union(&world.incl(&[3, 70, 999_998]).unwrap()).size(), 1_000_000);
        let many: Vec<u32> = (0..500).filter(|peer| peer % 5 != 0).collect();
        assert!(matches!(group(&many).0, Form::List(_)), "100 parts are a list");
    }

    #[test]
    fn triplets_follow_the_standards_example() {
        // MPI-5.0 §7.3.2: (6,7,1), (1,6,2), (0,9,4) of the group a..j gives g,h,b,d,f,a,e,i.
        let world = Group::world(10);
        let ranges = [[6, 7, 1], [1, 6, 2], [0, 9, 4]];
        assert_eq!(members(&world.range_incl(&ranges).unwrap()), [6, 7, 1, 3, 5, 0, 4, 8]);
        assert_eq!(members(&world.range_excl(&ranges).unwrap()), [2, 9]);
        assert_eq!(members(&world.range_incl(&[[8, 0, -3], [0, 0, 5]]).unwrap()), [8, 5, 2, 0]);
        assert_eq!(
            members(&world.range_incl(&[[9, -5, -100]]).unwrap()),
            [9],
            "only computed ranks count"
        );
        assert_eq!(world.range_incl(&[]).unwrap(), Group::empty());
        assert_eq!(world.range_excl(&[]).unwrap(), world);
    }

    #[test]
    fn wrong_ranks_are_named() {
        let world = Group::world(4);
        let class = |result: Result<Group>| result.unwrap_err().class();
        assert_eq!(class(world.incl(&[4])), Class::Rank);
        assert_eq!(class(world.incl(&[1, 2, 1])), Class::Rank);
        assert_eq!(class(world.excl(&[0, 0])), Class::Rank);
        assert_eq!(class(world.range_incl(&[[0, 3, 0]])), Class::Arg);
        assert_eq!(class(world.range_incl(&[[0, 3, -1]])), Class::Arg);
        assert_eq!(class(world.range_incl(&[[3, 0, 1]])), Class::Arg);
        assert_eq!(class(world.range_incl(&[[0, 4, 1]])), Class::Rank);
        assert_eq!(class(world.range_incl(&[[-1, 2, 1]])), Class::Rank);
        assert_eq!(class(world.range_excl(&[[0, 2, 1], [2, 3, 1]])), Class::Rank);
        assert_eq!(class(world.range_incl(&[[i32::MIN, i32::MAX, 1]])), Class::Rank);
        assert_eq!(class(world.range_incl(&[[i32::MAX, i32::MIN, i32::MIN]])), Class::Rank);
        assert_eq!(world.translate(9, &world).unwrap_err().class(), Class::Rank);
    }

    /// A group and the list that it should be: some subset of 0..40 in some order,
    /// often an even progression.
    fn any_group() -> impl Strategy<Value = Vec<u32>> {
        let shuffled = Just((0..40u32).collect::<Vec<_>>())
            .prop_shuffle()
            .prop_flat_map(|all| (0..=all.len()).prop_map(move |len| all[..len].to_vec()));
        let even =
            (0..40u32, 1..7u32, 0..8u32, any::<bool>()).prop_map(|(first, stride, len, down)| {
                let mut peers: Vec<u32> = (0..len).map(|i| first + i * stride).collect();
                if down {
                    peers.reverse();
                }
                peers
            });
        let blocks = (1..9u32, Just(vec![0, 1, 2, 3, 4]).prop_shuffle(), 0..6usize).prop_map(
            |(len, order, count)| {
                order[..count.min(5)]
                    .iter()
                    .flat_map(|block| (0..len).map(move |i| block * len + i))
                    .collect()
            },
        );
        prop_oneof![shuffled, even, blocks]
    }

    proptest! {
        #[test]
        fn the_algebra_is_that_of_lists(one in any_group(), two in any_group()) {
            let (a, b) = (group(&one), group(&two));
            prop_assert_eq!(members(&a), &one[..]);
            for peer in 0..90 {
                let rank = one.iter().position(|&other| other == peer).map(|rank| rank as u32);
                prop_assert_eq!(a.rank_of(Peer(peer)), rank);
                prop_assert_eq!(a.peer_of(peer), one.get(peer as usize).map(|&peer| Peer(peer)));
            }
            let both: Vec<u32> = one.iter().copied().filter(|peer| two.contains(peer)).collect();
            let ours: Vec<u32> = one.iter().copied().filter(|peer| !two.contains(peer)).collect();
            let theirs = two.iter().copied().filter(|peer| !one.contains(peer));
            let all: Vec<u32> = one.iter().copied().chain(theirs).collect();
            prop_assert_eq!(a.union(&b), group(&all));
            prop_assert_eq!(a.intersection(&b), group(&both));
            prop_assert_eq!(a.difference(&b), group(&ours));
            let (mut sorted_one, mut sorted_two) = (one.clone(), two.clone());
            sorted_one.sort_unstable();
            sorted_two.sort_unstable();
            let expected = match (one == two, sorted_one == sorted_two) {
                (true, _) => Comparison::Ident,
                (_, true) => Comparison::Similar,
                _ => Comparison::Unequal,
            };
            prop_assert_eq!(a.compare(&b), expected);
            for rank in 0..a.size() {
                let there = two.iter().position(|&peer| peer == one[rank as usize]).map(|rank| rank as u32);
                prop_assert_eq!(a.translate(rank, &b).unwrap(), there);
            }
        }

        #[test]
        fn incl_and_excl_split_a_group(all in any_group(), picks in prop::collection::vec(0..40u32, 0..12)) {
            let a = group(&all);
            let mut distinct = picks.clone();
            distinct.sort_unstable();
            distinct.dedup();
            let legal = distinct.len() == picks.len() && picks.iter().all(|&rank| rank < a.size());
            match (a.incl(&picks), a.excl(&picks)) {
                (Ok(with), Ok(without)) => {
                    prop_assert!(legal);
                    prop_assert_eq!(members(&with), picks.iter().map(|&rank| all[rank as usize]).collect::<Vec<_>>());
                    prop_assert_eq!(without, a.difference(&with));
                }
                (Err(_), Err(_)) => prop_assert!(!legal),
                _ => prop_assert!(false),
            }
        }

        #[test]
        fn ranges_are_the_ranks_they_spell(all in any_group(), triplets in prop::collection::vec([-3..42i32, -3..42i32, -6..7i32], 0..4)) {
            let a = group(&all);
            // As the standard writes them out, one by one.
            let mut ranks = Some(Vec::new());
            for &[first, last, stride] in &triplets {
                let toward = stride != 0 && (first == last || (last > first) == (stride > 0));
                ranks = ranks.filter(|_| toward);
                let Some(ranks) = &mut ranks else { break };
                let mut rank = first;
                while if stride > 0 { rank <= last } else { rank >= last } {
                    ranks.push(rank as u32);
                    rank += stride;
                }
            }
            let expected = ranks.clone().and_then(|ranks| a.incl(&ranks).ok());
            prop_assert_eq!(a.range_incl(&triplets).ok(), expected);
            prop_assert_eq!(a.range_excl(&triplets).ok(), ranks.and_then(|ranks| a.excl(&ranks).ok()));
        }
    }
}
