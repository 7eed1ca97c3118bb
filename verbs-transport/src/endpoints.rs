//! The endpoints of a process, found by rank and by queue pair, and the queue pairs that drain.
//!
//! An endpoint is made on first use and kept; its index is its name within the transport. A queue
//! pair taken out of service drains: data that has arrived on it is still taken from the completion
//! queue, and then it is destroyed. An adapter may have taken receives of the shared queue for it,
//! which it returns as completions; the event LAST_WQE_REACHED shows that the last one is there. A
//! queue pair that is destroyed earlier takes them with it. What a peer has written through it, and
//! what is acknowledged, is in memory for sure only when it is destroyed.

use std::ops::{Index, IndexMut};
use std::time::{Duration, Instant};

use fabric::{Peer, PeerFailed};
use rustc_hash::FxHashMap;

use crate::endpoint::Endpoint;
use crate::ibv::Qp;
use crate::memory::Exposed;

/// Longest wait for the event LAST_WQE_REACHED. A device that does not send it then loses receives.
const MAX_DRAIN: Duration = Duration::from_secs(2);

/// A queue pair in error, until what has arrived on it is taken.
#[derive(Debug)]
struct Draining {
    qp: Qp,
    /// Index of its endpoint.
    at: u32,
    /// The ring control that the peer could write through it.
    control: Option<Exposed>,
    /// The peer may have written through it.
    may_write: bool,
    /// The poll since which everything that arrived on it is in the completion queue; `None` while
    /// the device may still return receives.
    since: Option<u64>,
    /// When it is no longer waited for.
    until: Instant,
}

/// All endpoints of a process.
#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<Endpoint>,
    draining: Vec<Draining>,
    /// Endpoints with a queue pair.
    connected: u32,
    me: Peer,
    /// Index + 1 of the endpoint of each rank; 0: there is none.
    by_rank: Vec<u32>,
    /// Index of the endpoint of each queue pair, also of a draining one.
    by_qp: FxHashMap<u32, u32>,
    /// Connections that a test has broken.
    pub(crate) interruptions: u64,
}

impl Endpoints {
    /// Returns the table of process `me` in a job of `size` processes.
    pub(crate) fn new(me: Peer, size: u32) -> Endpoints {
        Endpoints {
            list: Vec::new(),
            draining: Vec::new(),
            connected: 0,
            me,
            by_rank: vec![0; size as usize],
            by_qp: FxHashMap::default(),
            interruptions: 0,
        }
    }

    /// Returns the rank of this process.
    pub(crate) fn me(&self) -> Peer {
        self.me
    }

    /// Returns the number of processes in the job.
    pub(crate) fn job_size(&self) -> u32 {
        self.by_rank.len() as u32
    }

    /// Returns the number of endpoints.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the endpoint of a peer, if there is one.
    #[inline]
    pub(crate) fn find(&self, peer: Peer) -> Option<usize> {
        match self.by_rank.get(peer.0 as usize) {
            Some(&index) if index != 0 => Some(index as usize - 1),
            _ => None,
        }
    }

    /// Returns the endpoint of a peer, made on first use.
    #[cold]
    pub(crate) fn get_or_create(&mut self, peer: Peer) -> Result<usize, PeerFailed> {
        if let Some(at) = self.find(peer) {
            return Ok(at);
        }
        let me = self.me;
        let Some(index) = self.by_rank.get_mut(peer.0 as usize).filter(|_| peer != me) else {
            return Err(PeerFailed { peer, why: "there is no such process in the job".into() });
        };
        self.list.push(Endpoint::new(peer, Instant::now()));
        *index = self.list.len() as u32;
        Ok(self.list.len() - 1)
    }

    /// Returns the endpoint of a queue pair, also of a draining one.
    #[inline]
    pub(crate) fn by_qp(&self, qpn: u32) -> Option<usize> {
        self.by_qp.get(&qpn).map(|&at| at as usize)
    }

    /// Returns the endpoint that a queue pair serves; `None` for a draining one.
    #[inline]
    pub(crate) fn served_by(&self, qpn: u32) -> Option<usize> {
        self.by_qp(qpn).filter(|&at| self.list[at].tx.is_on(qpn))
    }

    /// Gives endpoint `at` a new queue pair.
    pub(crate) fn attach(&mut self, at: usize, qp: Qp) {
        self.by_qp.insert(qp.number(), at as u32);
        self.list[at].tx.connecting = Some(qp);
        self.connected += 1;
    }

    /// Ends the connection of endpoint `at` and returns its queue pair, see
    /// [`Endpoint::disconnect`].
    pub(crate) fn detach(&mut self, at: usize, free: impl FnMut(u32)) -> Option<Qp> {
        let qp = self.list[at].disconnect(free)?;
        self.connected -= 1;
        Some(qp)
    }

    /// Returns a number that changes when anything arrives from any peer.
    pub(crate) fn traffic(&self) -> u64 {
        let counts = |endpoint: &Endpoint| {
            u64::from(endpoint.flow.rx_seq) + u64::from(endpoint.flow.acked) + endpoint.used_at
        };
        self.list.iter().map(counts).fold(0, u64::wrapping_add)
    }

    /// Returns the endpoints with a queue pair.
    pub(crate) fn with_queue_pairs(&self) -> impl Iterator<Item = u32> + '_ {
        let serves = |(&qpn, &at): (&u32, &u32)| self.list[at as usize].tx.is_on(qpn).then_some(at);
        self.by_qp.iter().filter_map(serves)
    }

    /// Returns the number of endpoints with a queue pair.
    pub(crate) fn connected(&self) -> u32 {
        self.connected
    }

    /// Lets a queue pair of endpoint `at` that is in error drain. If it `has_receives`, the device
    /// reports when it has returned them. The `control` is kept as long: a write that has arrived
    /// may reach it late.
    pub(crate) fn drain(
        &mut self,
        at: usize,
        qp: Qp,
        now: u64,
        has_receives: bool,
        control: Option<Exposed>,
        may_write: bool,
    ) {
        let since = (!has_receives).then_some(now);
        let (at, until) = (at as u32, Instant::now() + MAX_DRAIN);
        self.draining.push(Draining { qp, at, control, may_write, since, until });
    }

    /// Records that the device has returned all receives of a queue pair.
    pub(crate) fn on_last_receive(&mut self, qpn: u32, now: u64) {
        let found = self.draining.iter_mut().find(|draining| draining.qp.number() == qpn);
        if let Some(draining) = found {
            draining.since.get_or_insert(now);
        }
    }

    /// Returns whether the device must report a last receive.
    pub(crate) fn awaits_last_receive(&self) -> bool {
        self.draining.iter().any(|draining| draining.since.is_none())
    }

    /// Returns when the next queue pair is no longer waited for.
    pub(crate) fn next_drain_end(&self) -> Option<Instant> {
        self.draining.iter().map(|draining| draining.until).min()
    }

    /// Returns whether any queue pair drains.
    #[inline]
    pub(crate) fn is_any_draining(&self) -> bool {
        !self.draining.is_empty()
    }

    /// Returns the number of draining queue pairs.
    pub(crate) fn draining(&self) -> u32 {
        self.draining.len() as u32
    }

    /// Returns whether a queue pair of endpoint `at` drains.
    pub(crate) fn is_draining(&self, at: usize) -> bool {
        self.draining.iter().any(|draining| draining.at == at as u32)
    }

    /// Returns whether what the peer wrote through a queue pair of endpoint `at` may still be on
    /// its way to memory.
    pub(crate) fn holds_writes(&self, at: usize) -> bool {
        self.draining.iter().any(|draining| draining.may_write && draining.at == at as u32)
    }

    /// Returns whether a queue pair can be destroyed by the next polls.
    pub(crate) fn is_any_drained(&self) -> bool {
        let is_over =
            |draining: &Draining| draining.since.is_some() || draining.until <= Instant::now();
        self.draining.iter().any(is_over)
    }

    /// Destroys the queue pairs on which nothing can have arrived since the completion queue was
    /// last empty: those that drain since before poll `now`. `free` gets their ring controls.
    /// Returns their endpoints.
    #[cold]
    pub(crate) fn destroy_drained(&mut self, now: u64, mut free: impl FnMut(Exposed)) -> Vec<u32> {
        let (time, mut destroyed) = (Instant::now(), Vec::new());
        for index in (0..self.draining.len()).rev() {
            let draining = &mut self.draining[index];
            if draining.since.is_none() && draining.until <= time {
                draining.since = Some(now);
            }
            if draining.since.is_some_and(|since| since < now) {
                let Draining { qp, control, at, .. } = self.draining.swap_remove(index);
                self.by_qp.remove(&qp.number());
                drop(qp);
                control.into_iter().for_each(&mut free);
                destroyed.push(at);
            }
        }
        destroyed
    }

    /// Drops what arrives on the draining queue pairs of a failed endpoint. In error they write no
    /// memory; they stay until the device has returned their receives.
    pub(crate) fn abandon(&mut self, at: usize) {
        self.by_qp.retain(|_, index| *index != at as u32);
    }
}

impl Index<usize> for Endpoints {
    type Output = Endpoint;

    #[inline]
    fn index(&self, at: usize) -> &Endpoint {
        &self.list[at]
    }
}

impl IndexMut<usize> for Endpoints {
    #[inline]
    fn index_mut(&mut self, at: usize) -> &mut Endpoint {
        &mut self.list[at]
    }
}
