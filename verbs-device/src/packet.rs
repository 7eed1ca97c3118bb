//! The packets between contexts: a header of fixed length and the payload. Both ends are of one
//! build; therefore nothing else is checked than lengths and kinds.
//!
//! Packet numbers (`psn`) count from 0 for each connection; `start` is the number that the
//! connection was set up with, which tells packets of an older connection apart. Those of dynamic
//! connections count on over all connections of the initiator, and `start` is the number of the
//! first one.

/// Most bytes of payload.
pub(crate) const PAYLOAD: usize = 16 << 10;
/// Bytes of a header.
pub(crate) const HEADER: usize = 92;

/// The kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Send,
    Write,
    Read,
    /// `operands`: what is added.
    Add,
    /// `operands`: what is compared, and the new value.
    Swap,
    /// All packets before `psn` are done.
    Ack,
    /// All packets before `psn` are done; `psn` is refused, see [`refusal`].
    Nak,
    /// A part of a read, from offset `addr` on.
    Response,
    /// The old value, the answer to an atomic.
    OldValue,
    Datagram,
}

/// Why a packet is refused, in `key`.
pub(crate) mod refusal {
    /// No receive is posted.
    pub(crate) const NOT_READY: u32 = 0;
    /// A packet before it is missing.
    pub(crate) const SEQUENCE: u32 = 1;
    /// No right to the memory.
    pub(crate) const ACCESS: u32 = 2;
    /// The request is invalid.
    pub(crate) const INVALID: u32 = 3;
}

/// The first packet of a message.
pub(crate) const FIRST: u8 = 1;
/// The last packet of a message.
pub(crate) const LAST: u8 = 2;
/// The packet has a global route header.
pub(crate) const GLOBAL: u8 = 4;

/// Where the largest packet of the sender's connection begins in the flags, as libibverbs numbers
/// it.
pub(crate) const MTU_SHIFT: u32 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) kind: Kind,
    pub(crate) flags: u8,
    pub(crate) pkey: u16,
    pub(crate) source_lid: u16,
    pub(crate) target_lid: u16,
    pub(crate) source: u32,
    pub(crate) target: u32,
    pub(crate) start: u32,
    pub(crate) psn: u32,
    /// Key of the memory or of the queue, or a refusal.
    pub(crate) key: u32,
    /// Bytes of the message.
    pub(crate) length: u32,
    pub(crate) addr: u64,
    pub(crate) operands: [u64; 2],
    /// Key of the target of a dynamic connection.
    pub(crate) access: u64,
    pub(crate) source_gid: [u8; 16],
    pub(crate) target_gid: [u8; 16],
    pub(crate) payload: Vec<u8>,
}

impl Packet {
    pub(crate) fn new(kind: Kind) -> Packet {
        Packet {
            kind,
            flags: 0,
            pkey: 0,
            source_lid: 0,
            target_lid: 0,
            source: 0,
            target: 0,
            start: 0,
            psn: 0,
            key: 0,
            length: 0,
            addr: 0,
            operands: [0; 2],
            access: 0,
            source_gid: [0; 16],
            target_gid: [0; 16],
            payload: Vec::new(),
        }
    }

    /// Returns the bytes of the longest packet that a device makes of it on a connection of this
    /// `mtu`. Packets here are as long as all of them together.
    pub(crate) fn longest(&self, mtu: u32) -> usize {
        match self.kind {
            Kind::Datagram => self.payload.len(),
            _ => self.payload.len().min(128 << mtu),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + self.payload.len());
        out.extend([self.kind as u8, self.flags]);
        for half in [self.pkey, self.source_lid, self.target_lid] {
            out.extend(half.to_le_bytes());
        }
        for word in [self.source, self.target, self.start, self.psn, self.key] {
            out.extend(word.to_le_bytes());
        }
        for long in [self.addr, self.operands[0], self.operands[1], self.access] {
            out.extend(long.to_le_bytes());
        }
        out.extend(self.source_gid);
        out.extend(self.target_gid);
        out.extend(self.length.to_le_bytes());
        out.extend(&self.payload);
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Packet> {
        let (front, rest) = bytes.split_at_checked(HEADER)?;
        let (length, payload) = rest.split_first_chunk::<4>()?;
        let half = |at: usize| u16::from_le_bytes([front[at], front[at + 1]]);
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| front[at + i]));
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| front[at + i]));
        let kinds = [
            Kind::Send,
            Kind::Write,
            Kind::Read,
            Kind::Add,
            Kind::Swap,
            Kind::Ack,
            Kind::Nak,
            Kind::Response,
            Kind::OldValue,
            Kind::Datagram,
        ];
        Some(Packet {
            kind: *kinds.get(usize::from(front[0]))?,
            flags: front[1],
            pkey: half(2),
            source_lid: half(4),
            target_lid: half(6),
            source: word(8),
            target: word(12),
            start: word(16),
            psn: word(20),
            key: word(24),
            addr: long(28),
            operands: [long(36), long(44)],
            access: long(52),
            source_gid: std::array::from_fn(|i| front[60 + i]),
            target_gid: std::array::from_fn(|i| front[76 + i]),
            length: u32::from_le_bytes(*length),
            payload: payload.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_survives_the_wire() {
        let packet = Packet {
            flags: FIRST | GLOBAL,
            psn: 7,
            length: 9,
            operands: [1, u64::MAX],
            target_gid: std::array::from_fn(|i| i as u8),
            payload: vec![1, 2, 3],
            ..Packet::new(Kind::Swap)
        };
        assert_eq!(Packet::decode(&packet.encode()), Some(packet));
        assert_eq!(Packet::decode(&[0; HEADER]), None);
    }
}
