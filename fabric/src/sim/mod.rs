//! A simulated transport: all ranks of a job in one thread of one process.
//!
//! It does on purpose and repeatably what a network may do: frames take a random time, slots run
//! out, one-sided transfers are refused or finish late, a process dies between two frames. All
//! randomness follows from one seed; therefore a failure that prints its seed can be run again.
//!
//! It panics where a device would be silent: on a post to self, a body that is too long, memory
//! that is not registered for the access, and a second release.
//!
//! Time is counted in ticks: every `post`, `poll` and `arm` of any rank is one.

mod random;
mod world;

use std::cell::RefCell;
use std::rc::Rc;

use crate::header::Header;
use crate::transport::{
    Caps, GetOrPush, GiveUp, HybridGet, Offload, OneSided, Peer, PeerFailed, Placed, Post, Region,
    Rights, Sink, Slot, Transfer, Transport, WaitOn,
};
use crate::user_buf::UserBuf;

pub use random::Rng;
use world::{Access, World};

/// Most frames handed over in one poll.
const MAX_POLLED_FRAMES: usize = 64;

/// The behaviour of one-sided transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// They finish within the call.
    Immediate,
    /// They finish in a later poll, in any order.
    Later,
    /// Memory can be registered, but a transfer is refused.
    Refused,
    /// A receiver should request a push, and may get the bytes that do not arrive ([`HybridGet`]).
    Hybrid,
    /// Both copy a half ([`HybridGet::offer`]).
    Cooperative,
    /// Each time one of the above, or no space.
    Whim,
}

/// The behaviour of the simulated fabric.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The same knobs for every pair. `get_min` and `put_min` of `u64::MAX`: no registration.
    pub caps: Caps,
    /// Longest time that a frame or a one-sided transfer takes, ticks.
    pub max_delay: u64,
    /// Frames that an ordered pair can have under way.
    pub max_in_flight: usize,
    /// Posts of 1,000 that find no space although there is some.
    pub no_space_permille: u32,
    /// One-sided transfers.
    pub one_sided: Manner,
    /// The rank that dies, and the tick at which it does.
    pub death: Option<(Peer, u64)>,
    /// Frames from the first rank to the second are lost.
    pub cut: Option<(Peer, Peer)>,
}

impl Default for Options {
    /// Returns a network without delays, refusals and deaths, whose pairs have no one-sided put.
    fn default() -> Options {
        Options {
            caps: Caps {
                frame: 4096,
                eager: 1024,
                get_min: 8192,
                put_min: u64::MAX,
                offload: Offload::Processor,
                late_puts: false,
            },
            max_delay: 0,
            max_in_flight: 64,
            no_space_permille: 0,
            one_sided: Manner::Immediate,
            death: None,
            cut: None,
        }
    }
}

/// One rank's end of the simulated fabric.
#[derive(Debug)]
pub struct SimTransport {
    me: Peer,
    caps: Caps,
    world: Rc<RefCell<World>>,
}

/// The transports of `ranks` processes, rank 0 first.
pub fn fabric(ranks: u32, seed: u64, options: Options) -> Vec<SimTransport> {
    let caps = options.caps;
    let world = Rc::new(RefCell::new(World::new(ranks, seed, options)));
    (0..ranks).map(|rank| SimTransport { me: Peer(rank), caps, world: Rc::clone(&world) }).collect()
}

impl SimTransport {
    /// True once this rank is dead: the test loop then does not poll it.
    pub fn is_dead(&self) -> bool {
        self.world.borrow().is_dead(self.me)
    }

    /// Frames posted so far, of all ranks.
    pub fn frames(&self) -> u64 {
        self.world.borrow().frames
    }

    /// Memory registered now, of all ranks.
    pub fn registered(&self) -> usize {
        self.world.borrow().registered()
    }
}

impl Transport for SimTransport {
    #[inline]
    fn caps(&self, _: Peer) -> &Caps {
        &self.caps
    }

    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed> {
        assert!(peer != self.me, "a process posts to itself");
        assert!(len <= self.caps.frame, "a body of {len} bytes does not fit a frame");
        self.world.borrow_mut().post(self.me, peer, header, len, fill)
    }

    fn poll(&mut self, sink: &mut impl Sink) -> bool {
        let (mut budget, mut any) = (MAX_POLLED_FRAMES, false);
        self.world.borrow_mut().tick();
        // The world is unlocked while the sink runs, though the sink must not post.
        loop {
            let Some(event) = self.world.borrow_mut().next_event(self.me, &mut budget) else {
                return any;
            };
            any = true;
            event.deliver(sink);
        }
    }

    fn register(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Option<Region> {
        assert!(peer != self.me, "a process registers memory for itself");
        let is_possible = self.caps.get_min.min(self.caps.put_min) != u64::MAX;
        is_possible.then(|| self.world.borrow_mut().register(self.me, peer, memory, rights))
    }

    fn release(&mut self, peer: Peer, region: Region) {
        self.world.borrow_mut().release(self.me, peer, region);
    }

    fn one_sided(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let access = Access { owner: peer, key: region.keys[0], at, what };
        self.world.borrow_mut().one_sided(self.me, access, token)
    }

    fn arm(&mut self) -> Option<WaitOn<'_>> {
        let mut world = self.world.borrow_mut();
        world.tick();
        let go_on = world.is_anything_coming(self.me) || world.has_space_again(self.me);
        (!go_on).then_some(WaitOn::Nothing)
    }
}

impl GiveUp for SimTransport {
    fn give_up(&mut self, _: Peer, _: &str) {}
}

impl HybridGet for SimTransport {
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        if self.world.borrow_mut().prefers_push() {
            return Ok(GetOrPush::Push);
        }
        if self.world.borrow_mut().prefers_to_cooperate() {
            return Ok(GetOrPush::Cooperate);
        }
        self.one_sided(peer, region, 0, OneSided::Get(into), token).map(GetOrPush::Get)
    }

    fn get_remainder(
        &mut self,
        peer: Peer,
        region: &Region,
        at: u64,
        into: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        let access = Access { owner: peer, key: region.keys[0], at, what: OneSided::Get(into) };
        self.world.borrow_mut().get_remainder(self.me, access)
    }

    fn prefers_get(&self, _: Peer, _: u64) -> bool {
        !self.world.borrow_mut().prefers_push()
    }

    fn get_now(&mut self, peer: Peer, region: &Region, at: u64, into: UserBuf) -> Transfer {
        let access = Access { owner: peer, key: region.keys[0], at, what: OneSided::Get(into) };
        self.world.borrow_mut().get_now(self.me, access)
    }

    fn offer(&mut self, peer: Peer, memory: UserBuf) -> Option<Region> {
        self.world.borrow_mut().offer((self.me, peer), memory)
    }

    fn withdraw(&mut self, peer: Peer) -> bool {
        self.world.borrow_mut().take_offer((self.me, peer), None).is_some()
    }

    fn end_offer(&mut self, peer: Peer) {
        self.world.borrow_mut().end_offer((self.me, peer));
    }

    fn place(&mut self, peer: Peer, offer: &Region, from: UserBuf) -> Placed {
        self.world.borrow_mut().place((peer, self.me), offer, from)
    }

    fn get_unexpected(&mut self, peer: Peer, region: &Region, bytes: usize) -> Option<Box<[u8]>> {
        self.world.borrow_mut().get_unexpected(self.me, peer, region.keys[0], bytes)
    }
}

#[cfg(test)]
mod tests;
