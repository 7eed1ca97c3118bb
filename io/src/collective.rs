//! Collective accesses: the members compare what each wants, and choose how the data moves.
//!
//! Each member sends a [`Summary`]; all decide by the same rule on the same values. Hints are those
//! of rank 0. If the ranges of members interleave and their pieces are small, the data goes through
//! aggregators (`two_phase`). Otherwise each member moves its own. If one member has failed, for
//! instance by a wrong argument, none moves data.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use objects::Result;

use crate::access::Direction;
use crate::hints::{Hints, Switch};
use crate::steps::Steps;

/// What one member wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// An error class, 0 for none.
    pub(crate) class: i32,
    /// The access can go through aggregators.
    pub(crate) eligible: bool,
    /// First byte of the file.
    pub(crate) start: i64,
    /// One after the last byte.
    pub(crate) end: i64,
    /// Bytes that are moved.
    pub(crate) len: u64,
    /// Pieces of the file that they lie in.
    pub(crate) pieces: u64,
}

/// How a collective access is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// A member has failed, the first by rank with this class: no data moves.
    Failed { rank: u32, class: i32 },
    /// Each member moves its own data.
    Direct(Reason),
    /// The data goes through aggregators.
    Aggregate(Reason, Domains),
}

/// Why a collective access is carried out as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// There is one member.
    Alone,
    /// A hint forbids aggregators.
    Forbidden,
    /// Atomic mode, another representation than native, or a view that overlaps itself.
    Unfit,
    /// The ranges of members do not interleave.
    Apart,
    /// The pieces are not small.
    Large,
    /// All pieces lie close together, and each member reads them with the holes.
    Near,
    /// A hint asks for aggregators.
    Wanted,
    /// Small pieces interleave.
    Small,
}

impl Reason {
    /// All of them: whether the data goes through aggregators, and why, for `--explain`.
    pub(crate) const ALL: [(Reason, bool, &'static str); 8] = [
        (Reason::Alone, false, "one rank has opened it"),
        (Reason::Forbidden, false, "a hint forbids aggregators"),
        (Reason::Unfit, false, "atomic mode, conversion or overlapping pieces"),
        (Reason::Apart, false, "the ranges of ranks do not interleave"),
        (Reason::Large, false, "the pieces are not small"),
        (Reason::Near, false, "a short range is read"),
        (Reason::Wanted, true, "a hint asks for aggregators"),
        (Reason::Small, true, "small pieces interleave"),
    ];
}

/// How often each reason counted.
#[derive(Default)]
pub(crate) struct Reasons([AtomicU64; Reason::ALL.len()]);

impl Reasons {
    /// Counts the reason of a decision.
    pub(crate) fn count(&self, decision: &Decision) {
        if let Decision::Direct(reason) | Decision::Aggregate(reason, _) = decision {
            self.0[*reason as usize].fetch_add(1, Relaxed);
        }
    }

    /// Returns how often data went through aggregators or not, and why, as far as it did.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (u64, bool, &'static str)> {
        let counts = self.0.iter().map(|count| count.load(Relaxed));
        let all = counts.zip(Reason::ALL).map(|(count, (_, joins, why))| (count, joins, why));
        all.filter(|(count, ..)| *count > 0)
    }
}

/// Rank 0's hints on collective buffering.
#[derive(Clone, Copy, Debug)]
struct Buffering {
    /// Number of aggregators.
    nodes: u64,
    /// Bytes that one moves in a round.
    window: u64,
    /// Bytes that borders of domains are multiples of.
    align: i64,
    /// Smallest mean piece, bytes, that each member moves by itself.
    direct_min: u64,
    /// Longest range, bytes, in which each member moves its pieces by itself.
    direct_range: u64,
}

/// The parts of the file that aggregators serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Domains {
    /// First byte of all.
    pub(crate) start: i64,
    /// One after the last byte of all.
    pub(crate) end: i64,
    /// Bytes of each domain; the last may be shorter.
    pub(crate) each: i64,
    /// Number of aggregators.
    pub(crate) aggregators: u32,
    /// Bytes that an aggregator moves in a round.
    pub(crate) window: i64,
}

impl Summary {
    /// Words of an encoded summary.
    const WORDS: usize = 11;
    const SIZE: usize = Summary::WORDS * 8;

    fn encode(self, hints: &Hints, direction: Direction) -> [u8; Summary::SIZE] {
        let switch = hints.switch(direction);
        let words = [
            i64::from(self.class),
            i64::from(self.eligible) | (switch as i64) << 8,
            self.start,
            self.end,
            self.len as i64,
            self.pieces as i64,
            hints.cb_nodes as i64,
            hints.cb_buffer_size as i64,
            hints.striping_unit as i64,
            hints.direct_min(direction) as i64,
            hints.direct_range(direction) as i64,
        ];
        let mut out = [0; Summary::SIZE];
        for (place, word) in out.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    fn decode(words: &[i64; Summary::WORDS]) -> Summary {
        Summary {
            class: words[0] as i32,
            eligible: words[1] & 1 == 1,
            start: words[2],
            end: words[3],
            len: words[4] as u64,
            pieces: words[5] as u64,
        }
    }
}

/// Compares what the members want. Collective.
pub(crate) async fn decide(
    steps: &Steps<'_>,
    mine: Summary,
    hints: &Hints,
    direction: Direction,
) -> Result<Decision> {
    let size = steps.members().size();
    if size == 1 {
        return Ok(match mine.class {
            0 => Decision::Direct(Reason::Alone),
            class => Decision::Failed { rank: 0, class },
        });
    }
    let all = steps.allgather(&mine.encode(hints, direction)).await?;
    let word = |at: usize| i64::from_le_bytes(std::array::from_fn(|i| all[at * 8 + i]));
    let summaries: Vec<Summary> = (0..size as usize)
        .map(|rank| Summary::decode(&std::array::from_fn(|i| word(rank * Summary::WORDS + i))))
        .collect();
    let switch = Switch::from_number(word(1) >> 8);
    let buffering = Buffering {
        nodes: word(6) as u64,
        window: word(7) as u64,
        align: word(8).max(Domains::ALIGN),
        direct_min: word(9) as u64,
        direct_range: word(10) as u64,
    };
    Ok(choose(&summaries, switch, &buffering))
}

/// Chooses by the members' summaries and rank 0's hints.
fn choose(all: &[Summary], switch: Switch, buffering: &Buffering) -> Decision {
    if let Some(rank) = all.iter().position(|one| one.class != 0) {
        return Decision::Failed { rank: rank as u32, class: all[rank].class };
    }
    let mut busy: Vec<&Summary> = all.iter().filter(|one| one.len > 0).collect();
    let Some(first) = busy.iter().map(|one| one.start).min() else {
        return Decision::Direct(Reason::Apart);
    };
    if switch == Switch::Disable {
        return Decision::Direct(Reason::Forbidden);
    }
    if !busy.iter().all(|one| one.eligible) {
        return Decision::Direct(Reason::Unfit);
    }
    busy.sort_by_key(|one| one.start);
    let interleave = busy.windows(2).any(|pair| pair[1].start < pair[0].end);
    let bytes = busy.iter().fold(0u64, |sum, one| sum.saturating_add(one.len));
    let pieces = busy.iter().fold(0u64, |sum, one| sum.saturating_add(one.pieces));
    let small = bytes / pieces.max(1) < buffering.direct_min;
    let end = busy.iter().map(|one| one.end).max().unwrap_or(first);
    let reason = match (switch, interleave, small) {
        (Switch::Enable, ..) => Reason::Wanted,
        (_, false, _) => return Decision::Direct(Reason::Apart),
        (_, true, false) => return Decision::Direct(Reason::Large),
        (_, true, true) if end.abs_diff(first) <= buffering.direct_range => {
            return Decision::Direct(Reason::Near);
        }
        (_, true, true) => Reason::Small,
    };
    Decision::Aggregate(reason, Domains::new(first, end, all.len() as u32, buffering))
}

impl Domains {
    /// Least bytes that the borders of domains are multiples of: a page, and a block of most disks.
    const ALIGN: i64 = 4096;

    fn new(start: i64, end: i64, size: u32, buffering: &Buffering) -> Domains {
        let Buffering { nodes, window, align, .. } = *buffering;
        // A stripe that is longer than what is moved would leave all work to one aggregator.
        let share = (end - start) / (nodes.clamp(1, size.into()) as i64);
        let align = if share < align { Domains::ALIGN } else { align };
        let start = start - start % align;
        let most = (end - start - 1) / align + 1;
        let aggregators = (nodes.clamp(1, size.into()) as i64).min(most).max(1);
        let each = (end - start - 1) / aggregators + 1;
        let each = each.saturating_add((align - each % align) % align);
        let window = (window.clamp(Domains::ALIGN as u64, 1 << 30) as i64).min(each);
        Domains { start, end, each, aggregators: aggregators as u32, window }
    }

    /// Returns the number of rounds.
    pub(crate) fn rounds(&self) -> i64 {
        (self.each + self.window - 1) / self.window
    }

    /// Returns the bytes of the file that an aggregator serves in a round; empty if there are none.
    pub(crate) fn window_of(&self, aggregator: u32, round: i64) -> (i64, i64) {
        let domain = self.start.saturating_add(i64::from(aggregator) * self.each);
        let last = domain.saturating_add(self.each).min(self.end);
        let from = domain.saturating_add(round * self.window).min(last);
        (from, from.saturating_add(self.window).min(last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wants(start: i64, end: i64, len: u64, pieces: u64) -> Summary {
        Summary { class: 0, eligible: true, start, end, len, pieces }
    }

    #[test]
    fn small_interleaved_pieces_are_aggregated() {
        let all = [wants(0, 9000, 4500, 100), wants(90, 9090, 4500, 100)];
        let direct_min = 4096;
        let (align, direct_range) = (Domains::ALIGN, 9089);
        let with = |all: &[Summary], switch| {
            let (nodes, window) = (4, 1 << 20);
            choose(all, switch, &Buffering { nodes, window, align, direct_min, direct_range })
        };
        let automatic = |all: &[Summary]| with(all, Switch::Automatic);
        assert!(matches!(automatic(&all), Decision::Aggregate(Reason::Small, _)));
        assert_eq!(with(&all, Switch::Disable), Decision::Direct(Reason::Forbidden));
        let near = [wants(1, 9000, 4500, 100), all[1]];
        assert_eq!(automatic(&near), Decision::Direct(Reason::Near));
        assert!(matches!(with(&near, Switch::Enable), Decision::Aggregate(Reason::Wanted, _)));
        let apart = [wants(0, 9000, 9000, 1), wants(9000, 9900, 900, 1)];
        assert_eq!(automatic(&apart), Decision::Direct(Reason::Apart));
        assert!(matches!(with(&apart, Switch::Enable), Decision::Aggregate(Reason::Wanted, _)));
        let large = [wants(0, 1 << 20, 1 << 19, 8), wants(1 << 16, 1 << 20, 1 << 19, 8)];
        assert_eq!(automatic(&large), Decision::Direct(Reason::Large));
        let failed = [Summary { class: 2, ..all[0] }, all[1]];
        assert_eq!(automatic(&failed), Decision::Failed { rank: 0, class: 2 });
        let not = [Summary { eligible: false, ..all[0] }, all[1]];
        assert_eq!(with(&not, Switch::Enable), Decision::Direct(Reason::Unfit));
        assert_eq!(automatic(&[Summary::default(); 2]), Decision::Direct(Reason::Apart));
        for (at, (reason, ..)) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, at);
        }
    }

    #[test]
    fn domains_of_whole_windows_take_one_round_each() {
        let (direct_min, direct_range) = (0, 0);
        let buffering =
            Buffering { nodes: 4, window: 4 << 20, align: 4096, direct_min, direct_range };
        let domains = Domains::new(0, 16 << 20, 4, &buffering);
        assert_eq!((domains.each, domains.rounds()), (4 << 20, 1));
        assert_eq!(Domains::new(0, (16 << 20) + 1, 4, &buffering).rounds(), 2);
        assert_eq!(Domains::new(0, 4096, 4, &buffering).aggregators, 1);
    }

    #[test]
    fn windows_cover_every_byte_once() {
        for (start, end, size, nodes, window, align) in [
            (0, 1, 4, 4, 1, 4096),
            (100, 70_000, 5, 3, 4096, 4096),
            (5000, 1 << 20, 8, 9, 10_000, 4096),
            (5000, 1 << 20, 8, 3, 10_000, 1 << 16),
            (5000, 1 << 20, 8, 3, 10_000, 3 << 20),
        ] {
            let (direct_min, direct_range) = (0, 0);
            let buffering = Buffering { nodes, window, align, direct_min, direct_range };
            let domains = Domains::new(start, end, size, &buffering);
            let whole = (end - start) / i64::from(domains.aggregators);
            assert!(align > whole || domains.each % align == 0, "{domains:?}");
            let mut windows = Vec::new();
            for aggregator in 0..domains.aggregators {
                for round in 0..domains.rounds() {
                    windows.push(domains.window_of(aggregator, round));
                }
            }
            windows.retain(|(from, to)| from < to);
            assert!(windows[0].0 <= start && windows.last().unwrap().1 == end);
            assert!(windows.windows(2).all(|pair| pair[0].1 == pair[1].0), "{windows:?}");
        }
    }
}
