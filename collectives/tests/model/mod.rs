//! All ranks of a collective in one process, without an engine.
//!
//! Runs a schedule for each rank on buffers of its own, in a random order. Sends are at random
//! buffered or wait for their receive. It checks the promises of a schedule: see the module
//! `collectives::schedule`. Ranks may share collective segments ([`segment`]).

mod segment;

#[allow(unused_imports, reason = "not all tests have segments")]
pub(crate) use self::segment::Segment;
use std::collections::{HashMap, VecDeque};

use collectives::schedule::{Direction, Message};
use collectives::{Local, Schedule, SegSync, Shape, Space, Span, Ty};

use crate::random::Random;

/// A datatype: blocks of bytes and an extent.
#[derive(Clone, Debug)]
pub(crate) struct Type {
    pub(crate) blocks: Vec<(i64, u64)>,
    pub(crate) extent: i64,
}

impl Type {
    pub(crate) fn gapless(size: u64) -> Type {
        Type { blocks: vec![(0, size)], extent: size as i64 }
    }

    #[allow(dead_code, reason = "not all tests have types with gaps")]
    /// A type of 8 data bytes, gapless or with gaps and odd bounds.
    pub(crate) fn of_eight(random: &mut Random) -> Type {
        match random.below(4) {
            0 => Type { blocks: vec![(0, 4), (8, 4)], extent: 16 },
            1 => Type { blocks: vec![(4, 3), (-5, 5)], extent: -24 },
            _ => Type::gapless(8),
        }
    }

    pub(crate) fn shape(&self) -> Shape {
        let size = self.blocks.iter().map(|block| block.1).sum();
        Shape {
            size,
            extent: self.extent,
            true_lb: self.blocks.iter().map(|block| block.0).min().unwrap_or(0),
            true_ub: self.blocks.iter().map(|block| block.0 + block.1 as i64).max().unwrap_or(0),
            gapless: self.blocks == [(0, size)] && self.extent == size as i64,
        }
    }
}

/// A buffer whose address is in the middle of its bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    origin: i64,
}

impl Memory {
    pub(crate) fn new(low: i64, high: i64, fill: u8) -> Memory {
        Memory { bytes: vec![fill; (high - low) as usize], origin: -low }
    }

    fn each(span: &Span, ty: &Type, mut apply: impl FnMut(i64)) {
        for element in 0..span.count as i64 {
            for &(at, len) in &ty.blocks {
                let start = span.disp + element * ty.extent + at;
                (start..start + len as i64).for_each(&mut apply);
            }
        }
    }

    pub(crate) fn pack(&self, span: &Span, ty: &Type) -> Vec<u8> {
        let mut out = Vec::new();
        Memory::each(span, ty, |at| out.push(self.bytes[(at + self.origin) as usize]));
        out
    }

    pub(crate) fn unpack(&mut self, span: &Span, ty: &Type, bytes: &[u8]) {
        let mut next = bytes.iter();
        Memory::each(span, ty, |at| {
            if let Some(byte) = next.next() {
                self.bytes[(at + self.origin) as usize] = *byte;
            }
        });
        assert!(next.next().is_none(), "more bytes than room");
    }
}

/// How far a rank has come in a strand of its schedule.
struct Strand {
    round: usize,
    end: usize,
    next: usize,
    /// Messages under way.
    open: Vec<usize>,
}

/// One rank: its schedule, its buffers, its types.
pub(crate) struct RankModel {
    pub(crate) schedule: Schedule,
    pub(crate) send: Memory,
    pub(crate) recv: Memory,
    pub(crate) types: Vec<Type>,
    pub(crate) temp: Memory,
    /// The main one, and the one beside it.
    strands: [Strand; 2],
    /// The segment of some ranks, this one's number among its members, and its round there.
    segment: Option<(Segment, u32)>,
    segment_round: u64,
}

impl RankModel {
    pub(crate) fn new(
        schedule: Schedule,
        send: Memory,
        recv: Memory,
        types: Vec<Type>,
    ) -> RankModel {
        let temp = Memory::new(0, schedule.temp() as i64, 0xdd);
        let (main, all) = (schedule.main_rounds(), schedule.rounds().len());
        let strands = [(0, main), (main, all)].map(|(round, end)| {
            let next = schedule.start_of(round).0;
            Strand { round, end, next, open: Vec::new() }
        });
        let rank = RankModel {
            schedule,
            send,
            recv,
            types,
            temp,
            strands,
            segment: None,
            segment_round: 0,
        };
        rank.check_overlaps();
        rank.check_strands();
        rank
    }

    fn ty(&self, ty: Ty) -> Type {
        ty.index().map_or(Type::gapless(1), |index| self.types[index].clone())
    }

    fn memory(&mut self, space: Space) -> &mut Memory {
        match space {
            Space::Send => &mut self.send,
            Space::Recv => &mut self.recv,
            Space::Temp => &mut self.temp,
            Space::CollSegment | Space::PreviousSlots => {
                unreachable!("the segment has its own accesses")
            }
        }
    }

    /// Makes it member `me` of a segment.
    #[allow(dead_code, reason = "not all tests have segments")]
    pub(crate) fn share(&mut self, segment: &Segment, me: u32) {
        self.segment = Some((segment.clone(), me));
    }

    fn pack(&mut self, span: &Span) -> Vec<u8> {
        let ty = self.ty(span.ty);
        if span.space == Space::CollSegment {
            let (segment, me) = self.segment.as_ref().expect("this rank shares no segment");
            return segment.read(self.segment_round, *me, |memory| memory.pack(span, &ty));
        }
        self.memory(span.space).pack(span, &ty)
    }

    fn unpack(&mut self, span: &Span, bytes: &[u8]) {
        assert_ne!(span.space, Space::Send, "the send buffer is written");
        let ty = self.ty(span.ty);
        if span.space == Space::CollSegment {
            let (segment, me) = self.segment.as_ref().expect("this rank shares no segment");
            return segment
                .write(self.segment_round, *me, |memory| memory.unpack(span, &ty, bytes));
        }
        self.memory(span.space).unpack(span, &ty, bytes);
    }

    /// Synchronises with the segment; true if the round is done.
    fn synchronise(&mut self, sync: SegSync, reduce: &dyn Fn(&[u8], &mut [u8])) -> bool {
        let (segment, me) = self.segment.clone().expect("this rank shares no segment");
        let round = self.segment_round;
        match sync {
            SegSync::Acquire if !segment.is_ready(round, me) => return false,
            SegSync::WaitFor(awaited) | SegSync::WaitForArrival(awaited)
                if !awaited.members().all(|from| segment.waits_no_more(round, me, from)) =>
            {
                return false;
            }
            SegSync::WaitAll if !segment.is_complete(round) => return false,
            _ if sync.arrives() => {
                if segment.arrive(round, me) {
                    self.run_locals(0, reduce);
                    segment.complete(round);
                }
            }
            SegSync::Next => {
                segment.leave(round, me);
                self.segment_round += 1;
            }
            _ => self.run_locals(0, reduce),
        }
        self.strands[0].round += 1;
        true
    }

    fn size(&self, span: &Span) -> u64 {
        span.count * self.ty(span.ty).shape().size
    }

    /// No message of a round writes what another one of the round touches, and no copy beside them
    /// reads what they bring or writes what they move.
    fn check_overlaps(&self) {
        let (mut start, mut local) = (0, 0);
        for round in self.schedule.rounds() {
            let mut touched: HashMap<(Space, i64), Direction> = HashMap::new();
            for message in &self.schedule.messages()[start..round.messages as usize] {
                let ty = self.ty(message.span.ty);
                Memory::each(&message.span, &ty, |at| {
                    let before = touched.insert((message.span.space, at), message.direction);
                    let race = before.is_some_and(|before| {
                        before == Direction::Recv || message.direction == Direction::Recv
                    });
                    assert!(
                        !race,
                        "two messages of a round race for {:?} {at}",
                        message.span.space
                    );
                });
            }
            for early in self.schedule.locals().iter().take(round.early as usize).skip(local) {
                let Local::Copy { from, to } = early else { panic!("{early:?} is no copy") };
                Memory::each(from, &self.ty(from.ty), |at| {
                    let moved = touched.get(&(from.space, at));
                    assert_ne!(moved, Some(&Direction::Recv), "a copy reads what arrives");
                });
                Memory::each(to, &self.ty(to.ty), |at| {
                    let moved = touched.get(&(to.space, at));
                    assert_eq!(moved, None, "a copy writes what is under way");
                });
            }
            (start, local) = (round.messages as usize, round.locals as usize);
        }
    }

    /// The strands exchange messages with different ranks, and only one uses the segment.
    fn check_strands(&self) {
        let main = self.schedule.main_rounds();
        let (first, second) = self.schedule.messages().split_at(self.schedule.start_of(main).0);
        let is_mixed = |message: &Message| first.iter().any(|other| other.with == message.with);
        assert!(!second.iter().any(is_mixed), "two strands exchange messages with one rank");
        assert!(self.schedule.rounds()[main..].iter().all(|round| round.sync == SegSync::None));
    }

    fn finished(&self) -> bool {
        self.strands.iter().all(|strand| strand.round == strand.end)
    }

    fn message(&self, index: usize) -> Message {
        self.schedule.messages()[index]
    }

    fn run_locals(&mut self, strand: usize, reduce: &dyn Fn(&[u8], &mut [u8])) {
        let round = self.strands[strand].round;
        let [(_, start), (_, end)] = [round, round + 1].map(|round| self.schedule.start_of(round));
        for index in start..end {
            match self.schedule.locals()[index] {
                Local::Copy { from, to } => {
                    let bytes = self.pack(&from);
                    assert_eq!(self.size(&to), bytes.len() as u64);
                    self.unpack(&to, &bytes);
                }
                Local::Reduce { left, right, out } => {
                    let bytes = self.pack(&right);
                    self.unpack(&out, &bytes);
                    for index in (0..left.many).rev() {
                        let disp = left.first.disp + i64::from(index) * left.distance;
                        let (left, mut right) =
                            (self.pack(&Span { disp, ..left.first }), self.pack(&out));
                        assert_eq!(left.len(), right.len());
                        for (left, right) in left.chunks(8).zip(right.chunks_mut(8)) {
                            reduce(left, right);
                        }
                        self.unpack(&out, &right);
                    }
                }
                Local::Publish(_) | Local::Get { .. } | Local::Confirm | Local::Check(_) => {
                    unreachable!("these ranks do not read each other's memory");
                }
            }
        }
    }
}

struct Flying {
    bytes: Vec<u8>,
    /// The sender's message, while it waits for the receive.
    waiting: Option<usize>,
}

/// Runs all ranks to the end; panics where a promise of a schedule is broken.
pub(crate) fn run(ranks: &mut [RankModel], random: &mut Random, reduce: &dyn Fn(&[u8], &mut [u8])) {
    let mut flying: HashMap<(usize, usize), VecDeque<Flying>> = HashMap::new();
    let sent_before: Vec<Memory> = ranks.iter().map(|rank| rank.send.clone()).collect();
    let mut idle = 0;
    while !ranks.iter().all(RankModel::finished) {
        let any = random.below(ranks.len() as u64) as usize;
        let mut moved = false;
        for offset in 0..ranks.len() {
            moved |= step(ranks, (any + offset) % ranks.len(), &mut flying, random, reduce);
            if moved && random.chance() {
                break;
            }
        }
        idle = if moved { 0 } else { idle + 1 };
        assert!(
            idle < 2,
            "deadlock: rounds {:?}",
            ranks.iter().map(|rank| rank.strands[0].round).collect::<Vec<_>>()
        );
    }
    for rank in &*ranks {
        assert!(rank.segment_round + 1 == rank.schedule.segment_rounds().max(1).into());
    }
    assert!(flying.values().all(VecDeque::is_empty), "a message was not received");
    for (rank, before) in ranks.iter().zip(sent_before) {
        assert!(rank.send == before, "a send buffer was written");
    }
}

/// Runs all ranks but one for as long as they move; panics if one of them comes to its end.
#[allow(dead_code, reason = "not all tests have barriers")]
pub(crate) fn run_without(late: usize, ranks: &mut [RankModel], random: &mut Random) {
    let mut flying = HashMap::new();
    let others: Vec<usize> = (0..ranks.len()).filter(|&rank| rank != late).collect();
    while others.iter().any(|&rank| step(ranks, rank, &mut flying, random, &|_, _| ())) {}
    let ended = others.iter().find(|&&rank| ranks[rank].finished());
    assert!(ended.is_none(), "rank {ended:?} does not wait for rank {late}");
}

/// Lets one rank do one thing in one of its strands; true if there was one.
fn step(
    ranks: &mut [RankModel],
    me: usize,
    flying: &mut HashMap<(usize, usize), VecDeque<Flying>>,
    random: &mut Random,
    reduce: &dyn Fn(&[u8], &mut [u8]),
) -> bool {
    let first = usize::from(random.chance());
    [first, 1 - first]
        .into_iter()
        .any(|strand| step_strand(ranks, (me, strand), flying, random, reduce))
}

fn step_strand(
    ranks: &mut [RankModel],
    (me, of): (usize, usize),
    flying: &mut HashMap<(usize, usize), VecDeque<Flying>>,
    random: &mut Random,
    reduce: &dyn Fn(&[u8], &mut [u8]),
) -> bool {
    let [strand, other] = [of, 1 - of].map(|of| &ranks[me].strands[of]);
    if strand.round == strand.end {
        return false;
    }
    let round = ranks[me].schedule.rounds()[strand.round];
    if other.round < round.after as usize && round.after > 0 {
        return false;
    }
    if round.sync != SegSync::None {
        return ranks[me].synchronise(round.sync, reduce);
    }
    let end = round.messages as usize;
    let window = ranks[me].schedule.window() as usize;
    if strand.next < end && strand.open.len() < window {
        let index = strand.next;
        let message = ranks[me].message(index);
        let mut is_open = true;
        if message.direction == Direction::Send {
            let bytes = ranks[me].pack(&message.span);
            let waiting = random.chance().then_some(index);
            let queue = flying.entry((me, message.with.rank() as usize)).or_default();
            is_open = waiting.is_some();
            queue.push_back(Flying { bytes, waiting });
        }
        let strand = &mut ranks[me].strands[of];
        strand.open.extend(is_open.then_some(index));
        strand.next += 1;
        return true;
    }
    for at in 0..strand.open.len() {
        let strand = &ranks[me].strands[of];
        let message = ranks[me].message(strand.open[at]);
        let from = message.with.rank() as usize;
        if message.direction == Direction::Recv && earliest(&ranks[me], strand, at) {
            let Some(arrived) = flying.get_mut(&(from, me)).and_then(VecDeque::pop_front) else {
                continue;
            };
            assert_eq!(
                arrived.bytes.len() as u64,
                ranks[me].size(&message.span),
                "{from} to {me}: sizes differ"
            );
            if let Some(index) = arrived.waiting {
                let span = ranks[from].message(index).span;
                assert_eq!(
                    ranks[from].pack(&span),
                    arrived.bytes,
                    "a send's data changed under way"
                );
                for strand in &mut ranks[from].strands {
                    strand.open.retain(|&open| open != index);
                }
            }
            ranks[me].unpack(&message.span, &arrived.bytes);
            let open = &ranks[me].strands[of].open;
            let index = open.iter().position(|&open| ranks[me].message(open) == message).unwrap();
            ranks[me].strands[of].open.remove(index);
            return true;
        }
    }
    let strand = &ranks[me].strands[of];
    if strand.next == end && strand.open.is_empty() {
        ranks[me].run_locals(of, reduce);
        ranks[me].strands[of].round += 1;
        return true;
    }
    false
}

/// Receives from one rank are matched in the order posted.
fn earliest(rank: &RankModel, strand: &Strand, at: usize) -> bool {
    let with = |at: usize| rank.message(strand.open[at]);
    !(0..at).any(|before| {
        with(before).direction == Direction::Recv && with(before).with == with(at).with
    })
}
