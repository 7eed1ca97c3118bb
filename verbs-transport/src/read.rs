//! Large messages: memory registered for each, read in pieces by the receiver.

use fabric::{Lost, Memory, Peer, Region, Transfer};

use crate::connect::VerbsTransport;
use crate::ibv::layout::access;
use crate::ibv::{Destination, Mr, Sge};
use crate::pair::{Read, Signal};

/// Bytes of one read.
const PIECE: usize = 1 << 20;

impl VerbsTransport {
    /// Lets a peer read memory; `None` when it can't be registered.
    pub(crate) fn register_for(&mut self, peer: Peer, memory: Memory) -> Option<Region> {
        let mr = Mr::register(&self.pd, memory, access::REMOTE_READ).ok()?;
        let region = Region { addr: memory.addr(), keys: [mr.rkey(), 0, 0, 0] };
        self.registered.insert(mr.rkey(), (peer, mr));
        Some(region)
    }

    /// Ends that.
    pub(crate) fn release_from(&mut self, peer: Peer, region: Region) {
        let key = region.keys[0];
        if self.registered.get(&key).is_some_and(|(of, _)| *of == peer) {
            self.registered.remove(&key);
        }
    }

    /// Begins to read a message.
    pub(crate) fn begin_read(
        &mut self,
        peer: Peer,
        region: &Region,
        from: u64,
        into: Memory,
        token: u64,
    ) -> Result<Transfer, Lost> {
        let at = self.meet(peer)?;
        if let Some(why) = &self.pairs[at].lost {
            return Err(Lost { peer, why: why.clone() });
        }
        if into.is_empty() {
            return Ok(Transfer::Done);
        }
        let Ok(mr) = Mr::register(&self.pd, into, access::LOCAL_WRITE) else { return Ok(Transfer::Refused) };
        let read = Read { token, region: *region, from, into, mr, asked: 0, arrived: 0 };
        self.pairs[at].reads.push_back(read);
        match self.pairs[at].is_ready() {
            true => self.read_on(at),
            false => self.want(at),
        }
        Ok(Transfer::Started)
    }

    /// Asks for the next pieces.
    pub(crate) fn read_on(&mut self, at: usize) {
        let depth = self.depth;
        let pair = &mut self.pairs[at];
        let mut place = 0;
        while place < pair.reads.len() && pair.reading < pair.reads_at_once && pair.used < depth {
            let read = &mut pair.reads[place];
            let len = PIECE.min(read.into.len() - read.asked);
            if len == 0 {
                place += 1;
                continue;
            }
            let offset = read.asked as u64;
            let memory = Sge { addr: read.into.addr() + offset, length: len as u32, lkey: read.mr.lkey() };
            let addr = read.region.addr.wrapping_add(read.from).wrapping_add(offset);
            let to = Destination::Read { addr, rkey: read.region.keys[0] };
            read.asked += len;
            let signal = Signal { read: len as u32, ..Signal::NONE };
            if pair.submit(memory, to, signal).is_err() {
                return self.break_pair(at, "a read was refused");
            }
            pair.reading += 1;
        }
    }

    /// The oldest piece that was asked for is here.
    pub(crate) fn read_arrived(&mut self, at: usize, len: usize) {
        let pair = &mut self.pairs[at];
        pair.reading -= 1;
        (pair.breaks, pair.broke_at) = (0, None);
        // Pieces arrive in the order asked for.
        let Some(read) = pair.reads.front_mut() else { return };
        read.arrived += len;
        if read.arrived == read.into.len() {
            let finished = pair.reads.pop_front();
            self.outcomes.extend(finished.map(|read| (read.token, Ok(()))));
        }
        self.read_on(at);
    }
}
