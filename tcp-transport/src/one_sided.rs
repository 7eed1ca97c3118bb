//! One-sided transfers by records. The peer answers them when it polls.

use fabric::{OneSided, Peer, PeerFailed, Region, Rights, Transfer, UserBuf};

use crate::peer::Incoming;
use crate::regions;
use crate::transport::TcpTransport;
use crate::wire::{self, Kind, MAX_PIECE};

impl TcpTransport {
    pub(crate) fn register_for(&mut self, peer: Peer, memory: UserBuf, rights: Rights) -> Region {
        self.regions.register(peer, memory, rights)
    }

    pub(crate) fn release_from(&mut self, peer: Peer, region: &Region) {
        self.regions.release(region);
        // Nearly always all of it has been acknowledged; otherwise the stream keeps a copy.
        if let Some(at) = self.peer_index(peer) {
            self.peers[at].tx.detach(regions::key(region));
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
                state.gets.insert(number, Incoming { token, into });
                let request: [u8; wire::GET] = wire::words([number, key, from, into.len() as u64]);
                state.append(Kind::Get, wire::GET).copy_from_slice(&request);
                self.write_soon(at);
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
}
