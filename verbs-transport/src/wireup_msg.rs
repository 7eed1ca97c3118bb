//! The datagrams by which two processes connect. `docs/verbs.md` draws them.
//!
//! Whoever can send datagrams to us can send anything: [`WireupMsg::decode`] takes any
//! bytes and believes only those that prove to come from the job.

use crate::device::PortAddress;
use crate::ibv::Gid;

/// What a datagram asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// "This is my end of the connection; what is yours?"
    Call = 1,
    /// The same, from one who knows the other end already.
    Answer = 2,
    /// "I have closed my end."
    Close = 3,
}

/// A datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireupMsg {
    /// What it asks for.
    pub kind: Kind,
    /// Rank of the sender.
    pub from: u32,
    /// Rank it is meant for.
    pub to: u32,
    /// Which attempt of the pair it is about.
    pub epoch: u32,
    /// Number of the sender's queue pair.
    pub queue: u32,
    /// Where the numbers of the sender's packets begin.
    pub psn: u32,
    /// Number of the receiver's queue pair, as far as the sender knows it; else 0.
    pub yours: u32,
    /// Frames from the receiver that the sender has handed up.
    pub consumed: u32,
    /// Frames that the receiver may have under way to the sender.
    pub window: u32,
    /// The largest body of a frame, either way.
    pub frame: u32,
    /// Where the receiver opens and closes its ring for the sender: address and key; 0 where the
    /// sender writes into none.
    pub gate: (u64, u32),
    /// The sender's port.
    pub address: PortAddress,
    /// Its packet size, as libibverbs numbers it.
    pub mtu: u8,
    /// Reads that its device answers at once.
    pub reads: u8,
}

const MAGIC: u32 = u32::from_le_bytes(*b"vrb\x03");
const PROOF: usize = 32;

impl WireupMsg {
    /// Bytes on the wire.
    pub(crate) const SIZE: usize = 108;

    /// The bytes that go out, with the proof that the sender knows the secret.
    pub(crate) fn encode(&self, secret: &[u8; 32]) -> [u8; WireupMsg::SIZE] {
        let mut out = [0; WireupMsg::SIZE];
        let words = [
            MAGIC,
            self.kind as u32,
            self.from,
            self.to,
            self.epoch,
            self.queue,
            self.psn,
            self.yours,
        ];
        let words = words.into_iter().chain([self.consumed, self.window]);
        for (slot, word) in out.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        out[40..42].copy_from_slice(&self.address.lid.to_le_bytes());
        (out[42], out[43]) = (self.mtu, self.reads);
        out[44..60].copy_from_slice(&self.address.gid.raw);
        out[60..64].copy_from_slice(&self.frame.to_le_bytes());
        out[64..72].copy_from_slice(&self.gate.0.to_le_bytes());
        out[72..76].copy_from_slice(&self.gate.1.to_le_bytes());
        let proof = blake3::keyed_hash(secret, &out[..WireupMsg::SIZE - PROOF]);
        out[WireupMsg::SIZE - PROOF..].copy_from_slice(proof.as_bytes());
        out
    }

    /// The reverse; `None` for what is no datagram of this job.
    pub(crate) fn decode(bytes: &[u8], secret: &[u8; 32]) -> Option<WireupMsg> {
        let bytes: &[u8; WireupMsg::SIZE] = bytes.try_into().ok()?;
        let (text, proof) = bytes.split_at(WireupMsg::SIZE - PROOF);
        let proof: [u8; PROOF] = proof.try_into().ok()?;
        // The comparison takes the same time wherever the two differ.
        if blake3::keyed_hash(secret, text) != blake3::Hash::from_bytes(proof) {
            return None;
        }
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let kind = match (word(0), word(4)) {
            (MAGIC, 1) => Kind::Call,
            (MAGIC, 2) => Kind::Answer,
            (MAGIC, 3) => Kind::Close,
            _ => return None,
        };
        let address = PortAddress {
            lid: u16::from_le_bytes([bytes[40], bytes[41]]),
            gid: Gid { raw: std::array::from_fn(|i| bytes[44 + i]) },
        };
        Some(WireupMsg {
            kind,
            from: word(8),
            to: word(12),
            epoch: word(16),
            queue: word(20),
            psn: word(24),
            yours: word(28),
            consumed: word(32),
            window: word(36),
            frame: word(60),
            gate: (u64::from(word(64)) | u64::from(word(68)) << 32, word(72)),
            address,
            mtu: bytes[42],
            reads: bytes[43],
        })
    }
}

/// Where a process can be rung up, as it stands in the job's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Its port.
    pub address: PortAddress,
    /// Number of its datagram queue pair.
    pub bell: u32,
}

impl Address {
    const SIZE: usize = 22;

    /// As stored.
    pub(crate) fn encode(&self) -> [u8; Address::SIZE] {
        let mut out = [0; Address::SIZE];
        out[..16].copy_from_slice(&self.address.gid.raw);
        out[16..18].copy_from_slice(&self.address.lid.to_le_bytes());
        out[18..].copy_from_slice(&self.bell.to_le_bytes());
        out
    }

    /// The reverse; `None` for other bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Address> {
        let bytes: &[u8; Address::SIZE] = bytes.try_into().ok()?;
        Some(Address {
            address: PortAddress {
                gid: Gid { raw: std::array::from_fn(|i| bytes[i]) },
                lid: u16::from_le_bytes([bytes[16], bytes[17]]),
            },
            bell: u32::from_le_bytes(std::array::from_fn(|i| bytes[18 + i])),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn hello() -> WireupMsg {
        WireupMsg {
            kind: Kind::Call,
            from: 3,
            to: 9,
            epoch: 2,
            queue: 0x12_3456,
            psn: 0xab_cdef,
            yours: 17,
            consumed: u32::MAX,
            window: 32,
            frame: 8200,
            gate: (0x7fff_0123_4567, 0x89ab_cdef),
            address: PortAddress { lid: 5, gid: Gid { raw: std::array::from_fn(|i| i as u8) } },
            mtu: 5,
            reads: 16,
        }
    }

    #[test]
    fn a_hello_survives_the_wire() {
        for kind in [Kind::Call, Kind::Answer, Kind::Close] {
            let hello = WireupMsg { kind, ..hello() };
            assert_eq!(WireupMsg::decode(&hello.encode(&SECRET), &SECRET), Some(hello));
        }
        let door = Address { address: hello().address, bell: 77 };
        assert_eq!(Address::decode(&door.encode()), Some(door));
        assert_eq!(Address::decode(&[0; 21]), None);
    }

    #[test]
    fn without_the_secret_nothing_is_believed() {
        let bytes = hello().encode(&SECRET);
        assert_eq!(WireupMsg::decode(&bytes, &[8; 32]), None);
        for at in 0..WireupMsg::SIZE {
            let mut forged = bytes;
            forged[at] ^= 1;
            assert_eq!(WireupMsg::decode(&forged, &SECRET), None, "byte {at} may be changed");
        }
        for length in [0, 1, 64, 107, 109, 4096] {
            assert_eq!(WireupMsg::decode(&vec![1; length], &SECRET), None);
        }
    }

    #[test]
    fn proven_nonsense_is_refused() {
        let mut bytes = hello().encode(&SECRET);
        bytes[4] = 4;
        let proof = blake3::keyed_hash(&SECRET, &bytes[..WireupMsg::SIZE - PROOF]);
        bytes[WireupMsg::SIZE - PROOF..].copy_from_slice(proof.as_bytes());
        assert_eq!(WireupMsg::decode(&bytes, &SECRET), None);
    }
}
