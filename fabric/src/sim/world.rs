//! State that the simulated ranks share: channels, registered memory, time and death.

use std::collections::{HashMap, VecDeque};

use super::{Manner, Options, Rng};
use crate::header::Header;
use crate::transport::{
    OneSided, Peer, PeerFailed, Placed, Post, Region, Rights, Sink, Slot, Transfer,
};
use crate::user_buf::UserBuf;

#[derive(Debug)]
struct Flight {
    due: u64,
    header: Header,
    body: Vec<u8>,
}

/// The transfer and the two ranks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) owner: Peer,
    pub(super) key: u32,
    pub(super) at: u64,
    pub(super) what: OneSided,
}

/// A one-sided transfer that is under way.
#[derive(Debug)]
struct Underway {
    due: u64,
    access: Access,
    token: u64,
}

#[derive(Debug, Default)]
struct RankState {
    /// Peers that have frames on the way to this rank.
    senders: Vec<Peer>,
    transfers: Vec<Underway>,
    /// Deaths that were reported to this rank.
    reported_deaths: usize,
    /// Peers that a post found no space for; the rank itself if a transfer found none.
    blocked_on: Vec<Peer>,
}

#[derive(Debug)]
pub(super) struct World {
    options: Options,
    rng: Rng,
    now: u64,
    pub(super) frames: u64,
    ranks: Vec<RankState>,
    channels: HashMap<(Peer, Peer), VecDeque<Flight>>,
    /// Owner, peer, memory and what the peer may do, of each key.
    regions: HashMap<u32, (Peer, Peer, UserBuf, Rights)>,
    next_key: u32,
    /// By the rank that offers and the one that may take it.
    offers: HashMap<(Peer, Peer), Offer>,
    dead: Vec<Peer>,
}

/// Memory that a peer may write once.
#[derive(Debug)]
struct Offer {
    number: u32,
    memory: UserBuf,
    is_taken: bool,
}

/// An event for a rank.
pub(super) enum Event {
    Frame(Peer, Header, Vec<u8>),
    Transferred(u64, Result<(), PeerFailed>),
    PeerFailed(PeerFailed),
}

impl Event {
    pub(super) fn deliver(self, sink: &mut impl Sink) {
        match self {
            Event::Frame(from, header, body) => sink.frame(from, &header, body.as_slice()),
            Event::Transferred(token, outcome) => sink.transferred(token, outcome),
            Event::PeerFailed(lost) => sink.peer_failed(lost),
        }
    }
}

fn lost(peer: Peer) -> PeerFailed {
    PeerFailed { peer, why: "it died in the simulation".into() }
}

impl World {
    pub(super) fn new(ranks: u32, seed: u64, options: Options) -> World {
        World {
            options,
            rng: Rng::new(seed),
            now: 0,
            frames: 0,
            ranks: (0..ranks).map(|_| RankState::default()).collect(),
            channels: HashMap::new(),
            regions: HashMap::new(),
            next_key: 1,
            offers: HashMap::new(),
            dead: Vec::new(),
        }
    }

    pub(super) fn is_dead(&self, rank: Peer) -> bool {
        self.dead.contains(&rank)
    }

    pub(super) fn registered(&self) -> usize {
        self.regions.len()
    }

    /// Advances time; a rank may fail by that.
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
        self.now + self.rng.below(self.options.max_delay + 1)
    }

    pub(super) fn post(
        &mut self,
        from: Peer,
        to: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        self.tick();
        if self.is_dead(to) || self.is_dead(from) {
            return Err(lost(to));
        }
        let due = self.due();
        let no_space = self.rng.chance(self.options.no_space_permille);
        let channel = self.channels.entry((from, to)).or_default();
        if no_space || channel.len() >= self.options.max_in_flight {
            self.mark_blocked(from, to);
            return Ok(Post::NoSpace);
        }
        let mut body = vec![0xA5; len];
        fill(&mut Slot::new(&mut body, false));
        if self.options.cut == Some((from, to)) {
            return Ok(Post::Sent);
        }
        if channel.is_empty() {
            self.ranks[to.0 as usize].senders.push(from);
        }
        // A later frame of the pair never comes earlier.
        let due = channel.back().map_or(due, |last| due.max(last.due));
        channel.push_back(Flight { due, header: *header, body });
        self.frames += 1;
        Ok(Post::Sent)
    }

    fn mark_blocked(&mut self, rank: Peer, of: Peer) {
        let blocked_on = &mut self.ranks[rank.0 as usize].blocked_on;
        if !blocked_on.contains(&of) {
            blocked_on.push(of);
        }
    }

    /// Returns the next event for `rank` in this poll.
    pub(super) fn next_event(&mut self, rank: Peer, budget: &mut usize) -> Option<Event> {
        if *budget == 0 || self.is_dead(rank) {
            return None;
        }
        *budget -= 1;
        self.next_transfer(rank).or_else(|| self.next_frame(rank)).or_else(|| self.next_death(rank))
    }

    fn next_frame(&mut self, rank: Peer) -> Option<Event> {
        let senders = &self.ranks[rank.0 as usize].senders;
        let start = self.rng.below(senders.len() as u64) as usize;
        let mut candidates = (0..senders.len()).map(|turn| (start + turn) % senders.len());
        let is_due = |at: &usize| {
            let channel = self.channels.get(&(senders[*at], rank));
            channel
                .is_none_or(|channel| channel.front().is_none_or(|flight| flight.due <= self.now))
        };
        let at = candidates.find(is_due)?;
        let from = senders[at];
        let channel = self.channels.entry((from, rank)).or_default();
        let flight = channel.pop_front();
        if channel.is_empty() {
            self.ranks[rank.0 as usize].senders.swap_remove(at);
        }
        match flight {
            Some(flight) => Some(Event::Frame(from, flight.header, flight.body)),
            // A dead sender's last frames were swallowed.
            None => self.next_frame(rank),
        }
    }

    fn next_transfer(&mut self, rank: Peer) -> Option<Event> {
        let transfers = &mut self.ranks[rank.0 as usize].transfers;
        let at = transfers.iter().position(|transfer| transfer.due <= self.now)?;
        let Underway { access, token, .. } = transfers.remove(at);
        if self.is_dead(access.owner) {
            return Some(Event::Transferred(token, Err(lost(access.owner))));
        }
        self.carry_out(rank, access);
        Some(Event::Transferred(token, Ok(())))
    }

    /// A death is reported after the last frame of the dead rank.
    fn next_death(&mut self, rank: Peer) -> Option<Event> {
        let state = &mut self.ranks[rank.0 as usize];
        let dead = *self.dead.get(state.reported_deaths)?;
        if state.senders.contains(&dead) {
            return None;
        }
        state.reported_deaths += 1;
        Some(Event::PeerFailed(lost(dead)))
    }

    pub(super) fn register(
        &mut self,
        owner: Peer,
        user: Peer,
        memory: UserBuf,
        rights: Rights,
    ) -> Region {
        let key = self.next_key;
        self.next_key += 1;
        self.regions.insert(key, (owner, user, memory, rights));
        Region { addr: memory.addr(), keys: [key, 0, 0, 0] }
    }

    pub(super) fn release(&mut self, owner: Peer, user: Peer, region: Region) {
        if self.is_dead(owner) {
            return;
        }
        let released = self.regions.remove(&region.keys[0]);
        assert!(
            released.is_some_and(|(of, by, ..)| (of, by) == (owner, user)),
            "rank {} releases what it did not register",
            owner.0
        );
    }

    pub(super) fn one_sided(
        &mut self,
        user: Peer,
        access: Access,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        if self.is_dead(access.owner) {
            return Err(lost(access.owner));
        }
        let manner = match self.options.one_sided {
            Manner::Whim => self.rng.pick(&[
                Manner::Immediate,
                Manner::Later,
                Manner::Refused,
                Manner::Hybrid,
                Manner::Whim,
            ]),
            fixed => Some(fixed),
        };
        // Atomics towards one peer are in order.
        let is_atomic = |access: &Access| matches!(access.what, OneSided::Atomic(..));
        let before = self.ranks[user.0 as usize].transfers.iter();
        let before = before.filter(|before| {
            is_atomic(&access) && is_atomic(&before.access) && before.access.owner == access.owner
        });
        let not_before = before.map(|before| before.due).max();
        Ok(match manner {
            Some(Manner::Immediate) if not_before.is_none() => {
                self.carry_out(user, access);
                Transfer::Done
            }
            Some(Manner::Later | Manner::Immediate) => {
                let due = (self.due() + 1).max(not_before.unwrap_or(0));
                self.ranks[user.0 as usize].transfers.push(Underway { due, access, token });
                Transfer::Started
            }
            Some(Manner::Refused | Manner::Hybrid | Manner::Cooperative) => Transfer::Refused,
            Some(Manner::Whim) | None => {
                self.mark_blocked(user, user);
                Transfer::NoSpace
            }
        })
    }

    /// Returns true if a receiver should request a push.
    pub(super) fn prefers_push(&mut self) -> bool {
        match self.options.one_sided {
            Manner::Hybrid => true,
            Manner::Whim => self.rng.chance(200),
            _ => false,
        }
    }

    /// Gets the bytes that a peer was requested to push, if none of them is under way.
    pub(super) fn get_remainder(
        &mut self,
        user: Peer,
        access: Access,
    ) -> Result<Transfer, PeerFailed> {
        if self.is_dead(access.owner) {
            return Err(lost(access.owner));
        }
        let on_the_way =
            self.channels.get(&(access.owner, user)).is_some_and(|channel| !channel.is_empty());
        if on_the_way || self.rng.chance(500) {
            return Ok(Transfer::NoSpace);
        }
        if self.options.one_sided == Manner::Whim && self.rng.chance(100) {
            return Ok(Transfer::Refused);
        }
        self.carry_out(user, access);
        Ok(Transfer::Done)
    }

    /// Returns true if both sides of a message should copy a half.
    pub(super) fn prefers_to_cooperate(&mut self) -> bool {
        match self.options.one_sided {
            Manner::Cooperative => true,
            Manner::Whim => self.rng.chance(300),
            _ => false,
        }
    }

    /// True if an access at once is refused, though it might be possible.
    fn refuses(&mut self) -> bool {
        matches!(self.options.one_sided, Manner::Whim | Manner::Cooperative) && self.rng.chance(100)
    }

    pub(super) fn get_now(&mut self, user: Peer, access: Access) -> Transfer {
        if self.is_dead(access.owner) || self.refuses() {
            return Transfer::Refused;
        }
        self.carry_out(user, access);
        Transfer::Done
    }

    pub(super) fn offer(&mut self, pair: (Peer, Peer), memory: UserBuf) -> Option<Region> {
        if self.offers.contains_key(&pair) {
            return None;
        }
        let number = self.next_key;
        self.next_key += 1;
        self.offers.insert(pair, Offer { number, memory, is_taken: false });
        Some(Region { addr: memory.addr(), keys: [number; 4] })
    }

    /// Takes an offer, of that number if one is given; `None` if it is taken or over.
    pub(super) fn take_offer(
        &mut self,
        pair: (Peer, Peer),
        number: Option<u32>,
    ) -> Option<UserBuf> {
        let offer = self.offers.get_mut(&pair)?;
        let is_it = number.is_none_or(|number| number == offer.number) && !offer.is_taken;
        offer.is_taken |= is_it;
        is_it.then_some(offer.memory)
    }

    pub(super) fn end_offer(&mut self, pair: (Peer, Peer)) {
        self.offers.remove(&pair);
    }

    /// The second of the pair takes an offer of the first, and writes there.
    pub(super) fn place(&mut self, pair: (Peer, Peer), offer: &Region, from: UserBuf) -> Placed {
        let Some(memory) = self.take_offer(pair, Some(offer.keys[0])) else {
            return Placed::Withdrawn;
        };
        if self.is_dead(pair.0) || self.refuses() {
            return Placed::Refused;
        }
        memory.copy_from(from);
        Placed::Done
    }

    /// Gets the bytes of a message at once, unless transfers are refused.
    pub(super) fn get_unexpected(
        &mut self,
        user: Peer,
        owner: Peer,
        key: u32,
        bytes: usize,
    ) -> Option<Box<[u8]>> {
        if self.options.one_sided == Manner::Refused || self.is_dead(owner) || self.refuses() {
            return None;
        }
        let mut data = vec![0; bytes].into_boxed_slice();
        self.memory_of(user, owner, key, Rights::Get).read(0, &mut data);
        Some(data)
    }

    fn carry_out(&self, user: Peer, Access { owner, key, at, what }: Access) {
        let needed = match what {
            OneSided::Get(_) => Rights::Get,
            OneSided::Put(_) => Rights::Put,
            OneSided::Atomic(..) => Rights::All,
        };
        let ours = what.memory();
        let theirs = self.memory_of(user, owner, key, needed).slice(at as usize, ours.len());
        match what {
            OneSided::Get(_) => ours.copy_from(theirs),
            OneSided::Put(_) => theirs.copy_from(ours),
            OneSided::Atomic(atomic, _) => {
                let mut word = [0; 8];
                theirs.read(0, &mut word);
                ours.write(0, &word);
                theirs.write(0, &atomic.of(u64::from_ne_bytes(word)).to_ne_bytes());
            }
        }
    }

    /// Memory that a rank has registered for another one.
    fn memory_of(&self, user: Peer, owner: Peer, key: u32, needed: Rights) -> UserBuf {
        let Some(&(of, by, memory, rights)) = self.regions.get(&key) else {
            panic!(
                "rank {} uses memory of rank {} that is not registered (any more)",
                user.0, owner.0
            )
        };
        assert_eq!((of, by), (owner, user), "memory was registered for another peer");
        assert!(
            rights == needed || rights == Rights::All,
            "memory registered for {rights:?} is used for {needed:?}"
        );
        memory
    }

    /// Whether a rank that wants to sleep has something to wait for actively.
    pub(super) fn is_anything_coming(&self, rank: Peer) -> bool {
        let state = &self.ranks[rank.0 as usize];
        !state.senders.is_empty()
            || !state.transfers.is_empty()
            || state.reported_deaths < self.dead.len()
    }

    /// Returns whether a post that found no space can be repeated; forgets these posts.
    pub(super) fn has_space_again(&mut self, rank: Peer) -> bool {
        let has_space = |&to: &Peer| {
            let channel = self.channels.get(&(rank, to));
            channel.is_none_or(|channel| channel.len() < self.options.max_in_flight)
        };
        let blocked_on = &mut self.ranks[rank.0 as usize].blocked_on;
        let found = blocked_on.iter().any(has_space);
        if found {
            blocked_on.clear();
        }
        found
    }
}
