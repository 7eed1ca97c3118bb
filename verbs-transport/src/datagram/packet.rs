//! The bytes of a datagram that carries frames or acknowledges them; `docs/verbs.md` draws them.
//!
//! Any host of the network can send datagrams to a UD queue pair. [`Packet::decode`] therefore
//! takes any bytes and never panics. The caller compares the token, which only processes of the
//! job can compute.

use crate::device::PortAddress;
use crate::ibv::Gid;
use crate::wireup_msg::Address;

/// Bytes in front of the payload, without the address.
pub(crate) const HEADER: usize = 52;
/// Bytes of the sender's address, where it is sent.
pub(crate) const ADDRESS: usize = 24;

const MAGIC: u32 = u32::from_le_bytes(*b"vrd\x01");

/// The properties of a packet, as bits.
pub(crate) mod flags {
    /// The payload begins a message.
    pub(crate) const FIRST: u8 = 1;
    /// The payload ends a message.
    pub(crate) const LAST: u8 = 2;
    /// There is a payload, with a packet number.
    pub(crate) const DATA: u8 = 4;
    /// The sender needs an acknowledgement now.
    pub(crate) const ACK_NOW: u8 = 8;
    /// The address of the sender follows the header.
    pub(crate) const ADDRESS: u8 = 16;
    /// The sender has no connection, and none of this epoch or an earlier one.
    pub(crate) const NO_CONNECTION: u8 = 32;
}

/// The words of a packet before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Rank of the sender.
    pub(crate) from: u32,
    /// The proof that the sender belongs to the job.
    pub(crate) token: u64,
    /// See [`flags`].
    pub(crate) flags: u8,
    /// The sender's latest connection attempt.
    pub(crate) epoch: u32,
    /// Stream of the payload.
    pub(crate) stream: u32,
    /// Number of the packet within its stream.
    pub(crate) number: u32,
    /// The other direction, as far as it has arrived.
    pub(crate) ack: Ack,
    /// Frames of the other direction that were delivered.
    pub(crate) delivered: u32,
    /// The sender's address, where the peer may not know it.
    pub(crate) address: Option<SenderAddress>,
}

/// What has arrived of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) stream: u32,
    /// All packets before this one have arrived.
    pub(crate) next: u32,
    /// Bit *i*: packet `next + 1 + i` has arrived.
    pub(crate) later: u64,
}

/// The sender's port and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SenderAddress {
    pub(crate) port: PortAddress,
    /// Largest packet of the port, as libibverbs numbers it.
    pub(crate) mtu: u8,
    /// Largest body of a frame, bytes.
    pub(crate) frame: u32,
}

impl SenderAddress {
    /// Returns the address of a process whose datagrams come from UD queue pair `ud_qpn`.
    pub(crate) fn of(&self, ud_qpn: u32) -> Address {
        Address { port: self.port, ud_qpn, takes_datagrams: true }
    }
}

impl Packet {
    /// Returns the bytes in front of the payload.
    pub(crate) fn header_bytes(&self) -> usize {
        if self.address.is_some() { HEADER + ADDRESS } else { HEADER }
    }

    /// Writes the packet but for its payload to the front of `out`.
    pub(crate) fn encode(&self, out: &mut [u8]) {
        let flags = self.flags | if self.address.is_some() { flags::ADDRESS } else { 0 };
        let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &self.from.to_le_bytes());
        put(8, &self.token.to_le_bytes());
        put(16, &[flags, 0, 0, 0]);
        put(20, &self.epoch.to_le_bytes());
        put(24, &self.stream.to_le_bytes());
        put(28, &self.number.to_le_bytes());
        put(32, &self.ack.stream.to_le_bytes());
        put(36, &self.ack.next.to_le_bytes());
        put(40, &self.ack.later.to_le_bytes());
        put(48, &self.delivered.to_le_bytes());
        if let Some(address) = &self.address {
            put(HEADER, &address.port.gid.raw);
            put(HEADER + 16, &address.port.lid.to_le_bytes());
            put(HEADER + 18, &[address.mtu, 0]);
            put(HEADER + 20, &address.frame.to_le_bytes());
        }
    }

    /// Decodes a datagram into the packet and its payload; `None` if it is something else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Packet, &[u8])> {
        let (front, rest) = bytes.split_first_chunk::<HEADER>()?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| front[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| front[at + i]));
        if word(0) != MAGIC {
            return None;
        }
        let (address, payload) = match front[16] & flags::ADDRESS {
            0 => (None, rest),
            _ => {
                let (address, payload) = rest.split_first_chunk::<ADDRESS>()?;
                (Some(SenderAddress::decode(address)), payload)
            }
        };
        let ack = Ack { stream: word(32), next: word(36), later: long(40) };
        let packet = Packet {
            from: word(4),
            token: long(8),
            flags: front[16] & !flags::ADDRESS,
            epoch: word(20),
            stream: word(24),
            number: word(28),
            ack,
            delivered: word(48),
            address,
        };
        Some((packet, payload))
    }

    /// Returns whether there is a payload.
    pub(crate) fn has_data(&self) -> bool {
        self.flags & flags::DATA != 0
    }
}

impl SenderAddress {
    fn decode(bytes: &[u8; ADDRESS]) -> SenderAddress {
        SenderAddress {
            port: PortAddress {
                lid: u16::from_le_bytes([bytes[16], bytes[17]]),
                gid: Gid { raw: std::array::from_fn(|i| bytes[i]) },
            },
            mtu: bytes[18],
            frame: u32::from_le_bytes([bytes[20], bytes[21], bytes[22], bytes[23]]),
        }
    }
}

/// Returns the proof that a datagram between two ranks comes from the job: no process without its
/// secret can compute it.
pub(crate) fn token(secret: &[u8; 32], one: u32, other: u32) -> u64 {
    let mut text = *b"verbena datagram\0\0\0\0\0\0\0\0";
    text[16..20].copy_from_slice(&one.min(other).to_le_bytes());
    text[20..].copy_from_slice(&one.max(other).to_le_bytes());
    let hash = blake3::keyed_hash(secret, &text);
    u64::from_le_bytes(std::array::from_fn(|at| hash.as_bytes()[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(address: Option<SenderAddress>) -> Packet {
        Packet {
            from: 3,
            token: token(&[1; 32], 3, 4),
            flags: flags::DATA | flags::FIRST,
            epoch: 5,
            stream: 6,
            number: u32::MAX,
            ack: Ack { stream: 7, next: 8, later: 0x8000_0000_0000_0001 },
            delivered: 9,
            address,
        }
    }

    #[test]
    fn a_packet_survives_the_wire() {
        let port = PortAddress { lid: 0x1234, gid: Gid { raw: [9; 16] } };
        for address in [None, Some(SenderAddress { port, mtu: 5, frame: 8200 })] {
            let packet = packet(address);
            let mut bytes = vec![0; packet.header_bytes()];
            packet.encode(&mut bytes);
            bytes.extend([1, 2, 3]);
            assert_eq!(Packet::decode(&bytes), Some((packet, [1, 2, 3].as_slice())));
            for len in 0..packet.header_bytes() {
                assert_eq!(Packet::decode(&bytes[..len]), None);
            }
            bytes[0] ^= 1;
            assert_eq!(Packet::decode(&bytes), None);
        }
    }

    #[test]
    fn tokens_are_the_same_at_both_ends_and_differ_otherwise() {
        let secret = [7; 32];
        assert_eq!(token(&secret, 1, 2), token(&secret, 2, 1));
        assert_ne!(token(&secret, 1, 2), token(&secret, 1, 3));
        assert_ne!(token(&secret, 1, 2), token(&[8; 32], 1, 2));
    }
}
