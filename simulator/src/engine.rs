//! The engine: runs the schedules of all ranks in simulated time.
//!
//! A rank posts the messages of a round one after the other, each for the overhead of its link,
//! waits for them, and runs its local steps. A message of at most `eager_max` bytes leaves at once;
//! a longer one when both ends are posted. Between hosts adapters move the bytes
//! ([`crate::network`]). Within a host processors do: the receiver copies the message, and the
//! sender of an eager one copies it as well.
//!
//! Invariant: events are handled in the order of their times, and a rank does nothing before its
//! clock. The i-th send from one rank to another one matches the i-th receive.

use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::ops::Range;

use collectives::schedule::Direction;
use collectives::{Level, Local, Message, Position, Schedule, SegSync, Selection, Space, Topology};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::call::Call;
use crate::event_queue::{Event, EventQueue};
use crate::machine::{LinkKind, Machine};
use crate::memory::{Memory, Slots};
use crate::network::Network;
use crate::rank::Rank;
use crate::report::{Outcome, Traffic};
use crate::segment::{Awaited, Segment};
use crate::steps::Library;
use crate::time::Time;

/// Why a simulation gave no result.
#[derive(Debug, Error)]
pub enum SimulationError {
    /// It would take too long.
    #[error(
        "more than {limit} messages are too many to simulate; simulate fewer ranks, or another \
         algorithm"
    )]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// The root is not among the ranks.
    #[error("invalid root {root}: must be 0 to {last}")]
    Root {
        /// The root.
        root: u32,
        /// The last rank.
        last: u32,
    },
    /// Ranks wait for each other: the schedules are wrong.
    #[error("rank {rank} waits for ever in round {round} of its schedule, and {others} others")]
    Deadlock {
        /// The first rank that waits.
        rank: u32,
        /// Its round.
        round: u32,
        /// Other ranks that wait.
        others: usize,
    },
    /// A result is wrong: the schedules are wrong.
    #[error("rank {rank} has a wrong result from byte {byte} on")]
    WrongResult {
        /// The first such rank.
        rank: u32,
        /// The first wrong byte of its receive buffer.
        byte: usize,
    },
}

/// What crosses when a rank reads a flag in a segment: a cache line.
const LINE_BYTES: u64 = 64;

/// One end of a message that waits for the other end.
struct Posted {
    /// The number in the schedule.
    index: u32,
    /// When it was posted, or when an eager message has arrived.
    at: Time,
    /// The data of a send, where it is carried.
    data: Option<Vec<u8>>,
}

/// A message between two hosts, from the time when it may leave until it has reached the other one.
struct Crossing {
    ranks: (u32, u32),
    bytes: u64,
    /// An eager send, or the numbers of receive and send of another one.
    what: Result<Posted, (u32, u32)>,
}

/// What is posted between two ranks: sends or receives, never both.
#[derive(Default)]
struct Pair {
    sends: VecDeque<Posted>,
    recvs: VecDeque<Posted>,
}

/// A simulation of one call.
pub struct Simulation<'m> {
    machine: &'m Machine,
    call: Call,
    ranks: Vec<Rank>,
    library: Library,
    segments: Vec<Segment>,
    network: Network,
    /// By their numbers; those of messages that have reached the other host are used again.
    crossing: Vec<Option<Crossing>>,
    free: Vec<u32>,
    pairs: FxHashMap<(u32, u32), Pair>,
    /// The data of messages that are on their way to a rank, by number in its schedule.
    in_flight: FxHashMap<(u32, u32), Vec<u8>>,
    events: EventQueue,
    traffic: Traffic,
    now: Time,
}

impl<'m> Simulation<'m> {
    /// The most messages, sends and receives, of a simulation.
    pub const MAX_MESSAGES: u64 = 400_000_000;

    /// Writes the schedules of all ranks as `selection` chooses. `carries_data`: messages carry
    /// bytes, and the results are checked.
    pub fn new(
        machine: &'m Machine,
        call: Call,
        selection: &Selection,
        carries_data: bool,
    ) -> Result<Simulation<'m>, SimulationError> {
        let size = machine.ranks;
        if call.root >= size {
            return Err(SimulationError::Root { root: call.root, last: size - 1 });
        }
        let topology = machine.topology();
        let schedule = |rank| schedule(machine, &call, selection, &topology, rank);
        // Ranks differ, the root of a linear gather from its leaves for example. All are counted
        // below, unless it is too much with the least of a few.
        let sample = [0, size / 2, size - 1].map(|rank| schedule(rank).messages().len() as u64);
        check_messages(sample.into_iter().min().unwrap_or(0) * u64::from(size))?;
        let mut messages = 0;
        let hosts = topology.groups(Level::Host);
        let segments =
            (0..hosts).map(|host| Segment::new(topology.members(Level::Host, host))).collect();
        let mut library = Library::default();
        let ranks = (0..size)
            .map(|rank| {
                let schedule = schedule(rank);
                messages += schedule.messages().len() as u64;
                check_messages(messages)?;
                let host = topology.group_of(Level::Host, rank);
                let local = topology.members(Level::Host, host);
                let member = local.partition_point(|&other| other < rank) as u32;
                let memory = carries_data.then(|| Box::new(Memory::new(&call, rank, size)));
                let steps = library.steps(&schedule, |local| cost(machine, &call, local));
                Ok(Rank::new(steps, (host, member), memory))
            })
            .collect::<Result<_, _>>()?;
        Ok(Simulation {
            machine,
            call,
            ranks,
            library,
            segments,
            network: Network::new(machine.hosts),
            crossing: Vec::new(),
            free: Vec::new(),
            pairs: FxHashMap::default(),
            in_flight: FxHashMap::default(),
            events: EventQueue::default(),
            traffic: Traffic::default(),
            now: Time::ZERO,
        })
    }

    /// Runs all ranks to the end. Each starts at time 0.
    pub fn run(mut self) -> Result<Outcome, SimulationError> {
        for rank in 0..self.ranks.len() as u32 {
            self.wake(rank, Time::ZERO);
        }
        while let Some((at, rank, event)) = self.events.pop() {
            self.now = at;
            self.handle(rank, event);
        }
        self.outcome()
    }

    fn outcome(self) -> Result<Outcome, SimulationError> {
        let mut stuck = self.ranks.iter().enumerate().filter(|(_, rank)| !rank.is_finished());
        if let Some((rank, state)) = stuck.next() {
            let (rank, round, others) = (rank as u32, state.strands[0].round, stuck.count());
            return Err(SimulationError::Deadlock { rank, round, others });
        }
        self.check()?;
        Ok(Outcome {
            time: self.ranks.iter().map(|rank| rank.clock).max().unwrap_or_default(),
            traffic: self.traffic,
            is_checked: self.ranks.iter().all(|rank| rank.memory.is_some()),
            schedule_bytes: self.library.schedule_bytes,
            temp_bytes: self.library.temp_bytes,
            events: self.events.count(),
        })
    }

    /// Compares the receive buffers with what they must hold.
    fn check(&self) -> Result<(), SimulationError> {
        let size = self.ranks.len() as u32;
        let is_same = self.call.result_is_the_same();
        let mut expected = None;
        for (rank, state) in (0..).zip(&self.ranks) {
            let Some(memory) = &state.memory else { continue };
            if expected.is_none() || !is_same {
                expected = Some(self.call.expected(rank, size));
            }
            let expected = expected.as_ref().expect("was computed");
            let found = memory.result(expected.len());
            if let Some(byte) =
                found.iter().zip(expected).position(|(found, wanted)| found != wanted)
            {
                return Err(SimulationError::WrongResult { rank, byte });
            }
        }
        Ok(())
    }

    fn handle(&mut self, rank: u32, event: Event) {
        let state = &mut self.ranks[rank as usize];
        match event {
            Event::Wake => {
                state.is_scheduled = false;
                if state.clock > self.now {
                    let clock = state.clock;
                    return self.wake(rank, clock);
                }
                state.clock = self.now;
                return self.advance(rank);
            }
            Event::Sent(index) => state.strand_of(index).open -= 1,
            Event::Leaves(crossing) => return self.cross(crossing),
            Event::Reached(crossing) => return self.receive(crossing),
            Event::Arrived(index, sent) => {
                state.strand_of(index).open -= 1;
                let message = self.library.message(&state.steps, index);
                let from = message.with.rank();
                let kind = self.machine.link_kind(rank, from);
                let link = self.machine.link(kind);
                state.clock = state.clock.max(self.now) + link.overhead;
                if !kind.is_inter_host() {
                    let bytes = self.call.bytes_of(&message.span);
                    state.clock += link.transfer(bytes);
                    if bytes > self.machine.eager_max {
                        self.events.push(state.clock + link.latency, from, Event::Sent(sent));
                    }
                }
                if let Some(data) = self.in_flight.remove(&(rank, index)) {
                    let memory = state.memory.as_mut().expect("data is carried");
                    memory.write(&message.span, &data, None);
                }
            }
        }
        let at = state.clock.max(self.now);
        self.wake(rank, at);
    }

    /// Lets a rank go on at a time.
    fn wake(&mut self, rank: u32, at: Time) {
        let state = &mut self.ranks[rank as usize];
        if !std::mem::replace(&mut state.is_scheduled, true) {
            self.events.push(at, rank, Event::Wake);
        }
    }

    /// Takes a rank as far as it gets at this moment. What it has beside the main strand comes
    /// first: other hosts wait for its messages.
    fn advance(&mut self, rank: u32) {
        loop {
            let state = &self.ranks[rank as usize];
            if state.clock > self.now {
                let clock = state.clock;
                return self.wake(rank, clock);
            }
            if !self.step(rank, 1) && !self.step(rank, 0) {
                return;
            }
        }
    }

    /// Lets a rank do one thing in a strand. Returns false if that must wait.
    fn step(&mut self, rank: u32, of: usize) -> bool {
        let state = &self.ranks[rank as usize];
        match state.sync(of) {
            None => false,
            Some(_) if state.strands[of].has_begun_locals => self.run_round(rank, of),
            Some(SegSync::None) => self.exchange(rank, of),
            Some(sync) => !state.waits_in_segment && self.synchronise(rank, sync),
        }
    }

    /// Posts one message, or ends a round of messages. Returns false if the rank must wait.
    fn exchange(&mut self, rank: u32, of: usize) -> bool {
        let state = &mut self.ranks[rank as usize];
        if let Some(index) = state.next_message(of) {
            let message = self.library.message(&state.steps, index);
            state.strands[of].next += 1;
            match message.direction {
                Direction::Send => self.post_send(rank, index, &message),
                Direction::Recv => self.post_recv(rank, index, &message),
            }
            return true;
        }
        if state.strands[of].open > 0 {
            let early = state.early_locals(of);
            // Afterwards the processor may be busy.
            let has_run = !early.is_empty();
            self.run_locals(rank, of, early);
            return has_run;
        }
        self.run_round(rank, of)
    }

    /// Runs local steps of the round of a strand, and ends it with the last one.
    fn run_round(&mut self, rank: u32, of: usize) -> bool {
        let state = &self.ranks[rank as usize];
        let (next, all) = (state.next_locals(of), state.locals(of));
        let is_last = next == all;
        self.run_locals(rank, of, next);
        let state = &mut self.ranks[rank as usize];
        state.strands[of].has_begun_locals = !is_last;
        if is_last {
            state.end_round(of);
        }
        true
    }

    fn post_send(&mut self, rank: u32, index: u32, message: &Message) {
        let to = message.with.rank();
        let bytes = self.call.bytes_of(&message.span);
        let kind = self.machine.link_kind(rank, to);
        let link = *self.machine.link(kind);
        self.traffic.add(kind, bytes);
        let call = self.call;
        let state = &mut self.ranks[rank as usize];
        let is_eager = bytes <= self.machine.eager_max;
        // An eager send is done when the processor is.
        state.strand_of(index).open += u32::from(!is_eager);
        state.clock += link.overhead;
        if is_eager && !kind.is_inter_host() {
            state.clock += link.transfer(bytes);
        }
        let clock = state.clock;
        let data = state.memory.as_mut().map(|memory| memory.read(&call, &message.span, None));
        let send = Posted { index, at: clock + link.latency, data };
        if is_eager && kind.is_inter_host() {
            self.send_at(clock, Crossing { ranks: (rank, to), bytes, what: Ok(send) });
            return;
        }
        self.match_send((rank, to), send, bytes);
    }

    /// Gives a send to its receive, or leaves it.
    fn match_send(&mut self, (from, to): (u32, u32), send: Posted, bytes: u64) {
        let pair = match self.pairs.entry((from, to)) {
            Entry::Occupied(pair) => pair.into_mut(),
            Entry::Vacant(pair) => return pair.insert(Pair::default()).sends.push_back(send),
        };
        let Some(recv) = pair.recvs.pop_front() else { return pair.sends.push_back(send) };
        if pair.recvs.is_empty() {
            self.pairs.remove(&(from, to));
        }
        self.deliver((from, to), send, &recv, bytes);
    }

    fn post_recv(&mut self, rank: u32, index: u32, message: &Message) {
        let from = message.with.rank();
        let bytes = self.call.bytes_of(&message.span);
        self.ranks[rank as usize].strand_of(index).open += 1;
        let recv = Posted { index, at: self.now, data: None };
        let pair = match self.pairs.entry((from, rank)) {
            Entry::Occupied(pair) => pair.into_mut(),
            Entry::Vacant(pair) => return pair.insert(Pair::default()).recvs.push_back(recv),
        };
        let Some(send) = pair.sends.pop_front() else { return pair.recvs.push_back(recv) };
        if pair.sends.is_empty() {
            self.pairs.remove(&(from, rank));
        }
        self.deliver((from, rank), send, &recv, bytes);
    }

    /// Both ends of a message are posted: says when it arrives.
    fn deliver(&mut self, (from, to): (u32, u32), send: Posted, recv: &Posted, bytes: u64) {
        let arrived = send.at.max(recv.at).max(self.now);
        if let Some(data) = send.data {
            self.in_flight.insert((to, recv.index), data);
        }
        let kind = self.machine.link_kind(from, to);
        if kind.is_inter_host() && bytes > self.machine.eager_max {
            // The receiver has the sender's request, and asks for the data.
            let asked = arrived + self.machine.link(kind).latency;
            let what = Err((recv.index, send.index));
            self.send_at(asked, Crossing { ranks: (from, to), bytes, what });
        } else {
            self.events.push(arrived, to, Event::Arrived(recv.index, send.index));
        }
    }

    /// Sends a message to another host once it is `at`: the adapter is for those that are there
    /// first.
    fn send_at(&mut self, at: Time, message: Crossing) {
        let number = self.free.pop().unwrap_or_else(|| {
            self.crossing.push(None);
            self.crossing.len() as u32 - 1
        });
        let (from, _) = message.ranks;
        self.crossing[number as usize] = Some(message);
        self.events.push(at, from, Event::Leaves(number));
    }

    /// A message is at the adapter of its host.
    fn cross(&mut self, number: u32) {
        let Some(message) = &self.crossing[number as usize] else { return };
        let (from, to) = message.ranks;
        let link = self.machine.link(self.machine.link_kind(from, to));
        let host = self.machine.host_of(from);
        let (left, reached) = self.network.send(host, link, message.bytes, self.now);
        if let Err((_, send)) = message.what {
            self.events.push(left, from, Event::Sent(send));
        }
        self.events.push(reached, to, Event::Reached(number));
    }

    /// A message is at the adapter of the other host.
    fn receive(&mut self, number: u32) {
        let Some(message) = self.crossing[number as usize].take() else { return };
        self.free.push(number);
        let Crossing { ranks: (from, to), bytes, what } = message;
        let link = self.machine.link(self.machine.link_kind(from, to));
        let arrived = self.network.receive(self.machine.host_of(to), link, bytes, self.now);
        match what {
            Ok(send) => self.match_send((from, to), Posted { at: arrived, ..send }, bytes),
            Err((recv, send)) => self.events.push(arrived, to, Event::Arrived(recv, send)),
        }
    }

    /// Runs local steps of the round of a strand.
    fn run_locals(&mut self, rank: u32, of: usize, steps: Range<u32>) {
        let call = self.call;
        let state = &mut self.ranks[rank as usize];
        let (host, round) = (state.segment.0 as usize, state.segment_round);
        let strand = &mut state.strands[of];
        strand.next_local = strand.next_local.max(steps.end);
        if !steps.is_empty() {
            state.clock += self.library.cost(&state.steps, strand.round, steps.clone());
        }
        let Some(memory) = &mut state.memory else { return };
        for index in steps {
            let local = self.library.local(&state.steps, strand.round, index);
            if touches_slots(&local) {
                let run = |slots: &mut Slots| memory.run(&call, &local, Some(slots));
                self.segments[host].with_slots(round, run);
            } else {
                memory.run(&call, &local, None);
            }
        }
    }

    /// Synchronises with the segment of the host. Returns false if the rank must wait.
    fn synchronise(&mut self, rank: u32, sync: SegSync) -> bool {
        let host = self.ranks[rank as usize].segment.0 as usize;
        let round = self.ranks[rank as usize].segment_round;
        match sync {
            SegSync::Acquire
            | SegSync::WaitFor(_)
            | SegSync::WaitForArrival(_)
            | SegSync::WaitAll => {
                let clock = self.await_in_segment(rank, sync);
                let state = &mut self.ranks[rank as usize];
                state.waits_in_segment = clock.is_none();
                let Some(clock) = clock else { return false };
                state.clock = clock.max(self.now);
                return self.run_round(rank, 0);
            }
            SegSync::Next => {
                self.segments[host].leave(round);
                self.ranks[rank as usize].segment_round += 1;
            }
            SegSync::Arrive | SegSync::ArriveBefore(_) | SegSync::SignalEarly | SegSync::None => {
                self.arrive(rank, host, round, sync == SegSync::Arrive);
            }
        }
        self.ranks[rank as usize].end_round(0);
        true
    }

    /// Returns when a rank has read the lines with the news that it awaits in the segment; `None`
    /// if it must wait. Lines that have been written cross one after the other at the rate of their
    /// links; it reads those that are there while it waits for the next one.
    fn await_in_segment(&mut self, rank: u32, sync: SegSync) -> Option<Time> {
        let state = &mut self.ranks[rank as usize];
        let (segment, round) = (&mut self.segments[state.segment.0 as usize], state.segment_round);
        if sync == SegSync::Acquire {
            return segment.wait(round, Awaited::Slot, rank).map(|come| state.clock.max(come));
        }
        let read = |clock: Time, (writer, written): (u32, Time)| {
            let link = self.machine.link(self.machine.link_kind(rank, writer));
            let is_own = writer == rank;
            if is_own {
                clock
            } else {
                clock.max(written + link.latency) + link.transfer(LINE_BYTES)
            }
        };
        let (mut clock, mut next) = state.reading.take().unwrap_or((state.clock, 0));
        if let SegSync::WaitFor(awaited) | SegSync::WaitForArrival(awaited) = sync {
            for member in awaited.members().skip(next) {
                let Some(written) = segment.wait(round, Awaited::Member(member), rank) else {
                    state.reading = Some((clock, next));
                    return None;
                };
                clock = read(clock, (segment.members()[member as usize], written));
                next += 1;
            }
            return Some(clock);
        }
        let Some(come) = segment.wait(round, Awaited::Completion, rank) else {
            state.reading = Some((clock, 0));
            return None;
        };
        Some(match segment.arrivals(round) {
            Some(arrivals) => arrivals.fold(clock, read),
            None => clock.max(come + self.machine.link(LinkKind::Host).latency),
        })
    }

    /// A rank arrives at a round of the segment; the last one completes it.
    fn arrive(&mut self, rank: u32, host: usize, round: u32, counts: bool) {
        let (_, member) = self.ranks[rank as usize].segment;
        let is_last = self.segments[host].arrive(round, member, self.now, counts);
        let mut woken = self.segments[host].wake_for(round, member);
        if is_last {
            self.run_locals(rank, 0, self.ranks[rank as usize].locals(0));
            let now = self.ranks[rank as usize].clock;
            woken.append(&mut self.segments[host].complete(round, now));
        }
        let at = self.ranks[rank as usize].clock;
        for rank in woken {
            self.ranks[rank as usize].waits_in_segment = false;
            self.wake(rank, at);
        }
    }
}

fn check_messages(messages: u64) -> Result<(), SimulationError> {
    let limit = Simulation::MAX_MESSAGES;
    if messages > limit { Err(SimulationError::TooLarge { limit }) } else { Ok(()) }
}

/// This rank's schedule.
fn schedule(
    machine: &Machine,
    call: &Call,
    selection: &Selection,
    topology: &Topology,
    rank: u32,
) -> Schedule {
    let position = Position::in_topology(rank, topology);
    call.with_args(rank, machine.ranks, |args| selection.schedule(args, position, true))
}

fn cost(machine: &Machine, call: &Call, local: &Local) -> Time {
    let (bytes, per_byte) = match local {
        Local::Copy { from, .. } => (call.bytes_of(from), machine.copy_per_byte),
        Local::Reduce { left, out, .. } => {
            (call.bytes_of(out) * u64::from(left.many), machine.reduce_per_byte)
        }
        Local::Get { to, .. } => (call.bytes_of(to), machine.copy_per_byte),
        Local::Publish(_) | Local::Confirm | Local::Check(_) => return Time(0),
    };
    Time((bytes as f64 * per_byte).round() as u64)
}

fn touches_slots(local: &Local) -> bool {
    let spaces = match local {
        Local::Copy { from, to } => [from.space, from.space, to.space],
        Local::Reduce { left, right, out } => [left.first.space, right.space, out.space],
        Local::Publish(_) | Local::Get { .. } | Local::Confirm | Local::Check(_) => return false,
    };
    spaces.iter().any(|space| matches!(space, Space::CollSegment | Space::PreviousSlots))
}
