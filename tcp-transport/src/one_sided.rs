//! One-sided transfers by records. The peer answers them when it polls.

use fabric::{OneSided, Peer, PeerFailed, Region, Rights, Transfer, UserBuf};

use crate::peer::Incoming;
use crate::regions;
use crate::stripes::Completes;
use crate::transport::TcpTransport;
use crate::wire::{self, Kind, MAX_LANES, MAX_PIECE};

/// Streams with a far peer unless `tcp.sockets` is set: a loss slows down one of them alone.
const FAR_LANES: usize = 4;
/// Smallest part of a get that is divided, bytes.
const MIN_PART: usize = 64 << 10;
/// Parts begin at multiples of this many bytes of the get.
const PART_UNIT: usize = 4 << 10;

impl TcpTransport {
    pub(crate) fn register_for(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Region {
        self.regions.register(peer, memory, rights)
    }

    pub(crate) fn release_from(&mut self, peer: Peer, region: &Region) {
        self.regions.release(region);
        // Nearly always all of it has been acknowledged; otherwise the stream keeps a copy.
        if let Some(at) = self.peer_index(peer) {
            self.peers[at].tx.detach(regions::key(region));
            for lane in self.peers[at].lanes.clone() {
                self.peers[lane].tx.detach(regions::key(region));
            }
        }
    }

    /// Begins a transfer; see `Transport::one_sided`.
    pub(crate) fn begin(
        &mut self,
        peer: Peer,
        region: &Region,
        from: u64,
        what: OneSided,
        token: u64,
    ) -> Result<Transfer, PeerFailed> {
        let at = self.usable(peer)?;
        let (memory, key) = (what.memory(), regions::key(region));
        if memory.is_empty() {
            return Ok(Transfer::Done);
        }
        self.counts.transfer += 1;
        let number = self.counts.transfer;
        let state = &mut self.peers[at];
        match what {
            OneSided::Get(into) => {
                self.get(at, (key, from), into, token);
                return Ok(Transfer::Started);
            }
            OneSided::Put(data) => {
                for offset in (0..data.len()).step_by(MAX_PIECE) {
                    let piece = data.slice(offset, MAX_PIECE.min(data.len() - offset));
                    let head: [u8; wire::PUT] = wire::words([key, from + offset as u64]);
                    state.append_user(Kind::Put, &head, (piece, None));
                }
                state.puts.push_back((state.tx.end(), token));
            }
            OneSided::Atomic(atomic, into) => {
                state.atomics.insert(number, (token, into));
                let [operation, first, second] = wire::atomic_words(atomic);
                let request: [u8; wire::ATOMIC] =
                    wire::words([number, key, from, operation, first, second]);
                state.append(Kind::Atomic, wire::ATOMIC).copy_from_slice(&request);
            }
        }
        state.write(self.attention.polls);
        Ok(Transfer::Started)
    }

    /// Requests data over one stream, or a part of it over each of several.
    fn get(&mut self, at: usize, (key, from): (u64, u64), into: UserBuf, token: u64) {
        let (lanes, count) = self.lanes_for(at, into.len());
        if count == 1 {
            return self.request(at, (key, from), into, Completes::Transfer(token));
        }
        let number = self.counts.transfer;
        let share = into.len().div_ceil(count).next_multiple_of(PART_UNIT);
        self.stripes.begin(number, token, into.len().div_ceil(share));
        for (start, lane) in (0..into.len()).step_by(share).zip(lanes) {
            let part = into.slice(start, share.min(into.len() - start));
            self.request(lane, (key, from + start as u64), part, Completes::Part(number));
        }
    }

    /// Sends a request for data over one stream.
    fn request(&mut self, at: usize, (key, from): (u64, u64), into: UserBuf, completes: Completes) {
        self.counts.transfer += 1;
        let number = self.counts.transfer;
        let state = &mut self.peers[at];
        state.gets.insert(number, Incoming { completes, into });
        let request: [u8; wire::GET] = wire::words([number, key, from, into.len() as u64]);
        state.append(Kind::Get, wire::GET).copy_from_slice(&request);
        match state.is_main() {
            true => self.write_soon(at),
            false => state.write(self.attention.polls),
        }
    }

    /// Returns the streams with the peer of lane 0 at `main` that share a get of so many bytes, and
    /// their number. Lanes without a connection are dialed for the gets that follow.
    fn lanes_for(&mut self, main: usize, len: usize) -> ([usize; MAX_LANES as usize], usize) {
        let mut lanes = [main; MAX_LANES as usize];
        let state = &self.peers[main];
        let usual = if state.is_far { FAR_LANES } else { 1 };
        let wanted = self.settings.sockets.unwrap_or(usual).min(len / MIN_PART);
        if wanted <= 1 {
            return (lanes, 1);
        }
        let (peer, mut count) = (state.peer, 1);
        for lane in 1..wanted.min(lanes.len()) {
            let Some(at) = self.stream_index(peer, lane as u32) else { break };
            let state = &self.peers[at];
            if state.link.as_ref().is_some_and(|link| !link.is_closing && !link.is_shut) {
                (lanes[count], count) = (at, count + 1);
            } else if !state.is_unusable && self.has_room_for_lanes() {
                self.start_dialing(at, "no attempt has ended");
            }
        }
        (lanes, count)
    }

    /// Returns true if connections are few enough: those of other peers are needed more.
    fn has_room_for_lanes(&self) -> bool {
        self.linked.len() + self.dialing.len() < self.limits.max_links / 2
    }
}
