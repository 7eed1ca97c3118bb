//! Memory of peers, read, written and changed without their help: registration, and
//! transfers in pieces.
//!
//! Transfers of a pair begin in the order asked for; so do their pieces, and a queue
//! pair completes its requests in order. When a connection breaks, what is missing of
//! reads and writes is asked for again, which does no harm while nobody was told that it
//! was over. An atomic that was posted may have been done or not: it fails.
//!
//! The last piece that a connection has completed before it breaks is in doubt, and asked for again too: `rdma_rxe`
//! (Linux 6.1) completes a request with success when the answer to it is out of place, and only then lets the queue
//! pair fail. So an emulated device is asked for the state of the queue pair before a transfer is called done.

use fabric::{OneSided, Peer, PeerFailed, Region, Rights, Transfer, UserBuf};

use crate::connect::VerbsTransport;
use crate::endpoint::{AT_ONCE, Endpoint, Signal, Work};
use crate::ibv::layout::{ATOMIC_NONE, access};
use crate::ibv::{Destination, Qp, Sge};

/// Bytes of one request that reads: the peer's device answers one after the other, and with several
/// of this size the two devices work side by side.
const READ: usize = 64 << 10;
/// Bytes of one that writes.
const WRITE: usize = 1 << 20;

impl VerbsTransport {
    /// Lets a peer use memory; `None` when it can't be registered.
    pub(crate) fn register_for(
        &mut self,
        peer: Peer,
        memory: UserBuf,
        rights: Rights,
    ) -> Option<Region> {
        let access = match rights {
            Rights::Get => access::REMOTE_READ,
            Rights::Put => access::LOCAL_WRITE | access::REMOTE_WRITE,
            Rights::All => {
                access::LOCAL_WRITE
                    | access::REMOTE_WRITE
                    | access::REMOTE_READ
                    | self.atomic_access()
            }
        };
        let key = self.registrations.lend(peer, memory, access).ok()?;
        Some(Region { addr: memory.addr(), keys: [key, 0, 0, 0] })
    }

    /// Ends that.
    pub(crate) fn release_from(&mut self, peer: Peer, region: Region) {
        self.registrations.give_back(peer, region.keys[0]);
    }

    /// Whether the device changes 64 bits in one step.
    pub(crate) fn has_atomics(&self) -> bool {
        self.port.device_attr.atomic_cap != ATOMIC_NONE
    }

    /// The right to that, where the device does it.
    pub(crate) fn atomic_access(&self) -> i32 {
        if self.has_atomics() { access::REMOTE_ATOMIC } else { 0 }
    }

    /// Begins a transfer.
    pub(crate) fn begin(
        &mut self,
        peer: Peer,
        region: &Region,
        from: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let at = self.meet(peer)?;
        if let Some(why) = &self.pairs[at].lost {
            return Err(PeerFailed { peer, why: why.clone() });
        }
        let ours = what.memory();
        if ours.is_empty() {
            return Ok(Transfer::Done);
        }
        let access = match what {
            OneSided::Put(_) => 0,
            OneSided::Atomic(..) if !self.has_atomics() || ours.len() != 8 => {
                return Ok(Transfer::Refused);
            }
            // Only where a read was answered with `InProcessStore`.
            OneSided::GetRemainder(_) => return Ok(Transfer::Refused),
            OneSided::Get(_) | OneSided::Atomic(..) => access::LOCAL_WRITE,
        };
        let Ok(mr) = self.registrations.hold(ours, access) else { return Ok(Transfer::Refused) };
        let (addr, rkey) = (region.addr.wrapping_add(from), region.keys[0]);
        self.pairs[at].works.push_back(Work {
            token,
            addr,
            rkey,
            what,
            mr,
            asked: 0,
            finished: 0,
            doubted: 0,
        });
        match self.pairs[at].is_ready() {
            true => self.work_on(at),
            false => self.want(at),
        }
        Ok(Transfer::Started)
    }

    /// Posts the next pieces.
    pub(crate) fn work_on(&mut self, at: usize) {
        let depth = self.depth;
        let pair = &mut self.pairs[at];
        let mut place = 0;
        while place < pair.works.len() && pair.pieces < AT_ONCE && pair.used < depth {
            let work = &mut pair.works[place];
            let is_answered = !matches!(work.what, OneSided::Put(_));
            let most = if is_answered { READ } else { WRITE };
            let len = most.min(work.what.memory().len() - work.asked);
            if len == 0 {
                place += 1;
                continue;
            }
            if is_answered && pair.answers >= pair.answers_at_once {
                return;
            }
            let (memory, to) = work.piece(len);
            work.asked += len;
            if pair.submit(memory, to, Signal { piece: len as u32, ..Signal::NONE }).is_err() {
                return self.break_pair(at, "a one-sided request was refused");
            }
            pair.pieces += 1;
            pair.answers += usize::from(is_answered);
        }
    }

    /// The oldest piece that was asked for is done.
    pub(crate) fn piece_finished(&mut self, at: usize, len: usize) {
        let pair = &mut self.pairs[at];
        let Some(work) = pair.works.front_mut() else { return };
        pair.pieces -= 1;
        pair.answers -= usize::from(!matches!(work.what, OneSided::Put(_)));
        work.finished += len;
        let before = std::mem::replace(&mut work.doubted, len);
        let is_over = work.finished == work.what.memory().len();
        // Nobody takes back what the user was told.
        if is_over && self.port.is_emulated && !pair.qp.as_ref().is_some_and(Qp::is_ready_to_send) {
            return self.break_pair(at, "a request that it completed has failed");
        }
        if is_over || before > 0 {
            (pair.breaks, pair.broke_at) = (0, None);
        }
        if is_over {
            let finished = pair.works.pop_front();
            self.outcomes.extend(finished.map(|work| (work.token, Ok(()))));
        }
        self.work_on(at);
    }

    /// The connection has broken: atomics of which nobody can tell any more whether they
    /// were done fail.
    pub(crate) fn give_up_atomics(&mut self, at: usize) {
        let Endpoint { peer, works, .. } = &mut self.pairs[at];
        let is_unclear = |work: &Work| matches!(work.what, OneSided::Atomic(..)) && work.asked > 0;
        let why = "the connection broke while an atomic operation was under way: nobody can tell whether it was done";
        self.outcomes.extend(
            works
                .iter()
                .filter(|work| is_unclear(work))
                .map(|work| (work.token, Err(PeerFailed { peer: *peer, why: why.into() }))),
        );
        works.retain(|work| !is_unclear(work));
    }
}

impl Work {
    /// Its connection is gone: what is missing, or in doubt, is asked for again.
    pub(crate) fn start_over(&mut self) {
        self.finished -= std::mem::take(&mut self.doubted);
        self.asked = self.finished;
    }

    /// The next request of it, over `len` bytes.
    fn piece(&self, len: usize) -> (Sge, Destination) {
        let offset = self.asked as u64;
        let memory = Sge {
            addr: self.what.memory().addr() + offset,
            length: len as u32,
            lkey: self.mr.lkey(),
        };
        let (addr, rkey) = (self.addr.wrapping_add(offset), self.rkey);
        let to = match self.what {
            OneSided::Get(_) | OneSided::GetRemainder(_) => Destination::read(addr, rkey),
            OneSided::Put(_) => Destination::write(addr, rkey),
            OneSided::Atomic(what, _) => Destination::atomic(addr, rkey, what),
        };
        (memory, to)
    }
}
