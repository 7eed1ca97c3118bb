//! What the simulated ranks share: channels, registered memory, time and death.

use std::collections::{HashMap, VecDeque};

use super::{Get, Options, Rng};
use crate::header::Header;
use crate::memory::Memory;
use crate::transport::{Lost, Peer, Post, Region, Sink, Slot, Transfer};

#[derive(Debug)]
struct Flight {
    due: u64,
    header: Header,
    body: Vec<u8>,
}

/// A one-sided read that is under way.
#[derive(Debug)]
struct Reading {
    due: u64,
    owner: Peer,
    key: u32,
    from: u64,
    into: Memory,
    token: u64,
}

#[derive(Debug, Default)]
struct Place {
    /// Peers that have frames on the way to this rank.
    senders: Vec<Peer>,
    reading: Vec<Reading>,
    /// Deaths that this rank has been told of.
    told: usize,
    /// Peers that there was no room for when last posted to; a rank itself when
    /// there was none for a read.
    starved: Vec<Peer>,
}

#[derive(Debug)]
pub(super) struct World {
    options: Options,
    rng: Rng,
    now: u64,
    pub(super) frames: u64,
    places: Vec<Place>,
    channels: HashMap<(Peer, Peer), VecDeque<Flight>>,
    /// Owner, reader and memory of each key.
    regions: HashMap<u32, (Peer, Peer, Memory)>,
    next_key: u32,
    dead: Vec<Peer>,
}

/// Something for a rank to hear of.
pub(super) enum Event {
    Frame(Peer, Header, Vec<u8>),
    Transferred(u64, Result<(), Lost>),
    Lost(Lost),
}

impl Event {
    pub(super) fn deliver(self, sink: &mut impl Sink) {
        match self {
            Event::Frame(from, header, body) => sink.frame(from, &header, &body),
            Event::Transferred(token, outcome) => sink.transferred(token, outcome),
            Event::Lost(lost) => sink.lost(lost),
        }
    }
}

fn lost(peer: Peer) -> Lost {
    Lost { peer, why: "it died in the simulation".into() }
}

impl World {
    pub(super) fn new(ranks: u32, seed: u64, options: Options) -> World {
        World {
            options,
            rng: Rng::new(seed),
            now: 0,
            frames: 0,
            places: (0..ranks).map(|_| Place::default()).collect(),
            channels: HashMap::new(),
            regions: HashMap::new(),
            next_key: 1,
            dead: Vec::new(),
        }
    }

    pub(super) fn is_dead(&self, rank: Peer) -> bool {
        self.dead.contains(&rank)
    }

    pub(super) fn registered(&self) -> usize {
        self.regions.len()
    }

    /// Time passes; somebody may die of it.
    pub(super) fn tick(&mut self) {
        self.now += 1;
        if let Some((victim, at)) = self.options.death
            && self.now >= at
            && self.dead.is_empty()
        {
            self.kill(victim);
        }
    }

    fn kill(&mut self, victim: Peer) {
        self.dead.push(victim);
        self.regions.retain(|_, (owner, ..)| *owner != victim);
        // Of what it had sent, the network swallows a part.
        for (&(from, _), channel) in &mut self.channels {
            if from == victim {
                channel.truncate(self.rng.below(channel.len() as u64 + 1) as usize);
            }
        }
    }

    fn due(&mut self) -> u64 {
        self.now + self.rng.below(self.options.delay + 1)
    }

    pub(super) fn post(
        &mut self,
        from: Peer,
        to: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, Lost> {
        self.tick();
        if self.is_dead(to) || self.is_dead(from) {
            return Err(lost(to));
        }
        let due = self.due();
        let no_room = self.rng.chance(self.options.no_room);
        let channel = self.channels.entry((from, to)).or_default();
        if no_room || channel.len() >= self.options.slots {
            self.starve(from, to);
            return Ok(Post::NoRoom);
        }
        let mut body = vec![0xA5; len];
        fill(&mut Slot::new(&mut body, false));
        if channel.is_empty() {
            self.places[to.0 as usize].senders.push(from);
        }
        // A later frame of the pair never comes earlier.
        let due = channel.back().map_or(due, |last| due.max(last.due));
        channel.push_back(Flight { due, header: *header, body });
        self.frames += 1;
        Ok(Post::Sent)
    }

    fn starve(&mut self, rank: Peer, of: Peer) {
        let starved = &mut self.places[rank.0 as usize].starved;
        if !starved.contains(&of) {
            starved.push(of);
        }
    }

    /// The next thing for `rank` to hear of in this poll.
    pub(super) fn next_event(&mut self, rank: Peer, budget: &mut usize) -> Option<Event> {
        if *budget == 0 || self.is_dead(rank) {
            return None;
        }
        *budget -= 1;
        self.next_transfer(rank).or_else(|| self.next_frame(rank)).or_else(|| self.next_death(rank))
    }

    fn next_frame(&mut self, rank: Peer) -> Option<Event> {
        let senders = &self.places[rank.0 as usize].senders;
        let start = self.rng.below(senders.len() as u64) as usize;
        let mut in_turn = (0..senders.len()).map(|turn| (start + turn) % senders.len());
        let is_due = |at: &usize| {
            let channel = self.channels.get(&(senders[*at], rank));
            channel.is_none_or(|channel| channel.front().is_none_or(|flight| flight.due <= self.now))
        };
        let at = in_turn.find(is_due)?;
        let from = senders[at];
        let channel = self.channels.entry((from, rank)).or_default();
        let flight = channel.pop_front();
        if channel.is_empty() {
            self.places[rank.0 as usize].senders.swap_remove(at);
        }
        match flight {
            Some(flight) => Some(Event::Frame(from, flight.header, flight.body)),
            // A dead sender's last frames were swallowed.
            None => self.next_frame(rank),
        }
    }

    fn next_transfer(&mut self, rank: Peer) -> Option<Event> {
        let reading = &mut self.places[rank.0 as usize].reading;
        let at = reading.iter().position(|reading| reading.due <= self.now)?;
        let reading = reading.swap_remove(at);
        if self.is_dead(reading.owner) {
            return Some(Event::Transferred(reading.token, Err(lost(reading.owner))));
        }
        self.read(rank, reading.owner, reading.key, reading.from, reading.into);
        Some(Event::Transferred(reading.token, Ok(())))
    }

    /// A death is heard of after the last frame of the dead.
    fn next_death(&mut self, rank: Peer) -> Option<Event> {
        let place = &mut self.places[rank.0 as usize];
        let dead = *self.dead.get(place.told)?;
        if place.senders.contains(&dead) {
            return None;
        }
        place.told += 1;
        Some(Event::Lost(lost(dead)))
    }

    pub(super) fn register(&mut self, owner: Peer, reader: Peer, memory: Memory) -> Region {
        let key = self.next_key;
        self.next_key += 1;
        self.regions.insert(key, (owner, reader, memory));
        Region { addr: memory.addr(), keys: [key, 0, 0, 0] }
    }

    pub(super) fn release(&mut self, owner: Peer, reader: Peer, region: Region) {
        if self.is_dead(owner) {
            return;
        }
        let released = self.regions.remove(&region.keys[0]);
        assert!(
            released.is_some_and(|(of, by, _)| (of, by) == (owner, reader)),
            "rank {} releases what it did not register",
            owner.0
        );
    }

    pub(super) fn get(
        &mut self,
        reader: Peer,
        owner: Peer,
        region: &Region,
        from: u64,
        into: Memory,
        token: u64,
    ) -> Result<Transfer, Lost> {
        if self.is_dead(owner) {
            return Err(lost(owner));
        }
        let manner = match self.options.get {
            Get::Whim => self.rng.pick(&[Get::AtOnce, Get::Later, Get::Refused, Get::Whim]),
            fixed => Some(fixed),
        };
        let key = region.keys[0];
        Ok(match manner {
            Some(Get::AtOnce) => {
                self.read(reader, owner, key, from, into);
                Transfer::Done
            }
            Some(Get::Later) => {
                let due = self.due() + 1;
                self.places[reader.0 as usize].reading.push(Reading { due, owner, key, from, into, token });
                Transfer::Started
            }
            Some(Get::Refused) => Transfer::Refused,
            Some(Get::Whim) | None => {
                self.starve(reader, reader);
                Transfer::NoRoom
            }
        })
    }

    fn read(&self, reader: Peer, owner: Peer, key: u32, from: u64, into: Memory) {
        let Some(&(of, by, memory)) = self.regions.get(&key) else {
            panic!("rank {} reads memory of rank {} that is not registered (any more)", reader.0, owner.0)
        };
        assert_eq!((of, by), (owner, reader), "memory was registered for another reader");
        into.copy_from(memory.slice(from as usize, into.len()));
    }

    /// Whether a rank that wants to sleep has something to wait for actively.
    pub(super) fn is_anything_coming(&self, rank: Peer) -> bool {
        let place = &self.places[rank.0 as usize];
        !place.senders.is_empty() || !place.reading.is_empty() || place.told < self.dead.len()
    }

    /// Whether somebody that a rank had no room for can be posted to again;
    /// forgets who it was then.
    pub(super) fn has_room_again(&mut self, rank: Peer) -> bool {
        let has_room = |&to: &Peer| {
            let channel = self.channels.get(&(rank, to));
            channel.is_none_or(|channel| channel.len() < self.options.slots)
        };
        let starved = &mut self.places[rank.0 as usize].starved;
        let found = starved.iter().any(has_room);
        if found {
            starved.clear();
        }
        found
    }
}
