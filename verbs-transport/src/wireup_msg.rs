//! The datagrams by which two processes connect, and the address that each publishes.
//! `docs/verbs.md` draws the bytes.
//!
//! Any host of the network can send datagrams to a UD queue pair. [`WireupMsg::decode`] therefore
//! takes any bytes, never panics, and accepts only a datagram with a valid proof: a BLAKE3 hash
//! keyed with the job's secret.

use crate::device::PortAddress;
use crate::ibv::Gid;

/// The request of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Describes the sender's end and requires a reply.
    Req = 1,
    /// Describes the sender's end, which is ready.
    Rep = 2,
    /// The sender's connection is over. It repeats this until the receiver's is.
    Disconnect = 3,
    /// The sender has no space for a connection.
    Decline = 4,
    /// Asks the receiver to close the connection when it has no operations under way.
    Release = 5,
    /// Answers a Disconnect: the sender has no connection either.
    Closed = 6,
}

/// A wire-up datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WireupMsg {
    /// Its request.
    pub(crate) kind: Kind,
    /// Operations of the sender wait for the connection, which nothing else can carry.
    pub(crate) is_urgent: bool,
    /// The sender takes the packets of the datagram path.
    pub(crate) takes_datagrams: bool,
    /// Rank of the sender.
    pub(crate) from: u32,
    /// Rank of the receiver.
    pub(crate) to: u32,
    /// Number of the connection attempt.
    pub(crate) epoch: u32,
    /// Number of the sender's queue pair.
    pub(crate) qpn: u32,
    /// First packet sequence number of the sender.
    pub(crate) psn: u32,
    /// Number of the receiver's queue pair as far as the sender knows it; otherwise 0.
    pub(crate) peer_qpn: u32,
    /// Number of frames that the sender has received.
    pub(crate) rx_seq: u32,
    /// Frames that the receiver may have unacknowledged towards the sender.
    pub(crate) window: u32,
    /// Largest body of a frame in either direction, bytes.
    pub(crate) frame: u32,
    /// Address and key of the sender's ring control; 0 if the sender writes into no ring.
    pub(crate) ring_control: (u64, u32),
    /// Address of the sender's port.
    pub(crate) port: PortAddress,
    /// Largest packet of the sender's port, as libibverbs numbers it.
    pub(crate) mtu: u8,
    /// Reads that the sender's device answers at once.
    pub(crate) max_reads: u8,
}

const MAGIC: u32 = u32::from_le_bytes(*b"vrb\x03");
pub(crate) const PROOF: usize = 32;

impl WireupMsg {
    /// Bytes on the wire.
    pub(crate) const SIZE: usize = 108;

    /// Returns the bytes to send, with the proof that the sender knows the secret.
    pub(crate) fn encode(&self, secret: &[u8; 32]) -> [u8; WireupMsg::SIZE] {
        let mut out = [0; WireupMsg::SIZE];
        let words = [
            MAGIC,
            self.kind as u32
                | u32::from(self.is_urgent) << 8
                | u32::from(self.takes_datagrams) << 9,
            self.from,
            self.to,
            self.epoch,
            self.qpn,
            self.psn,
            self.peer_qpn,
            self.rx_seq,
            self.window,
        ];
        for (slot, word) in out.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        out[40..42].copy_from_slice(&self.port.lid.to_le_bytes());
        (out[42], out[43]) = (self.mtu, self.max_reads);
        out[44..60].copy_from_slice(&self.port.gid.raw);
        out[60..64].copy_from_slice(&self.frame.to_le_bytes());
        out[64..72].copy_from_slice(&self.ring_control.0.to_le_bytes());
        out[72..76].copy_from_slice(&self.ring_control.1.to_le_bytes());
        let proof = proof(&out[..WireupMsg::SIZE - PROOF], secret);
        out[WireupMsg::SIZE - PROOF..].copy_from_slice(&proof);
        out
    }

    /// Decodes a datagram; `None` if it does not come from this job.
    pub(crate) fn decode(bytes: &[u8], secret: &[u8; 32]) -> Option<WireupMsg> {
        let bytes: &[u8; WireupMsg::SIZE] = bytes.try_into().ok()?;
        proven(bytes, secret)?;
        let word = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        if word(0) != MAGIC || word(4) >> 10 != 0 {
            return None;
        }
        let kind = match bytes[4] {
            1 => Kind::Req,
            2 => Kind::Rep,
            3 => Kind::Disconnect,
            4 => Kind::Decline,
            5 => Kind::Release,
            6 => Kind::Closed,
            _ => return None,
        };
        let port = PortAddress {
            lid: u16::from_le_bytes([bytes[40], bytes[41]]),
            gid: Gid { raw: std::array::from_fn(|i| bytes[44 + i]) },
        };
        Some(WireupMsg {
            kind,
            is_urgent: bytes[5] & 1 != 0,
            takes_datagrams: bytes[5] & 2 != 0,
            from: word(8),
            to: word(12),
            epoch: word(16),
            qpn: word(20),
            psn: word(24),
            peer_qpn: word(28),
            rx_seq: word(32),
            window: word(36),
            frame: word(60),
            ring_control: (u64::from(word(64)) | u64::from(word(68)) << 32, word(72)),
            port,
            mtu: bytes[42],
            max_reads: bytes[43],
        })
    }
}

/// Returns the proof that the sender of a datagram knows the secret; it stands behind the text.
pub(crate) fn proof(text: &[u8], secret: &[u8; 32]) -> [u8; PROOF] {
    *blake3::keyed_hash(secret, text).as_bytes()
}

/// Returns the text of a datagram; `None` if the proof behind it is not valid.
pub(crate) fn proven<'a>(bytes: &'a [u8], secret: &[u8; 32]) -> Option<&'a [u8]> {
    let (text, proof) = bytes.split_last_chunk::<PROOF>()?;
    // `Hash` compares in constant time.
    (blake3::keyed_hash(secret, text) == blake3::Hash::from_bytes(*proof)).then_some(text)
}

/// Where a process receives wire-up datagrams, as published in the job's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// Address of its port.
    pub(crate) port: PortAddress,
    /// Number of its UD queue pair.
    pub(crate) ud_qpn: u32,
    /// It takes the packets of the datagram path; otherwise frames need a connection.
    pub(crate) takes_datagrams: bool,
}

impl Address {
    /// Bytes in the store. A process that takes no datagrams but wire-up messages publishes one
    /// byte less.
    pub(crate) const SIZE: usize = 23;

    /// Returns the bytes to publish.
    pub(crate) fn encode(&self) -> [u8; Address::SIZE] {
        let mut out = [0; Address::SIZE];
        out[..16].copy_from_slice(&self.port.gid.raw);
        out[16..18].copy_from_slice(&self.port.lid.to_le_bytes());
        out[18..22].copy_from_slice(&self.ud_qpn.to_le_bytes());
        out[22] = self.takes_datagrams.into();
        out
    }

    /// Decodes a published address; `None` for bytes of another length.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Address> {
        let (bytes, takes_datagrams) = match bytes {
            [bytes @ .., flag @ 0..=1] if bytes.len() == Address::SIZE - 1 => (bytes, *flag == 1),
            bytes if bytes.len() == Address::SIZE - 1 => (bytes, false),
            _ => return None,
        };
        Some(Address {
            port: PortAddress {
                gid: Gid { raw: std::array::from_fn(|i| bytes[i]) },
                lid: u16::from_le_bytes([bytes[16], bytes[17]]),
            },
            ud_qpn: u32::from_le_bytes(std::array::from_fn(|i| bytes[18 + i])),
            takes_datagrams,
        })
    }
}

/// What a process publishes in the job's store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Published {
    pub(crate) address: Address,
    /// Everything that it had to send has arrived; it may never poll again.
    pub(crate) has_ended: bool,
    /// Number of its target for operations without a connection, see `dynamic`.
    pub(crate) target: Option<u32>,
}

impl Published {
    /// Bit of the address's last byte that tells of the end.
    const HAS_ENDED: u8 = 2;

    /// Returns the bytes to publish: an address, and four bytes more if there is a target.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut address = self.address.encode();
        if self.has_ended {
            address[Address::SIZE - 1] |= Published::HAS_ENDED;
        }
        let target = self.target.map(u32::to_le_bytes);
        [&address[..], target.as_ref().map_or(&[], |number| &number[..])].concat()
    }

    /// Decodes what was published; `None` for bytes of another length.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Published> {
        let (address, target) = match bytes.split_at_checked(Address::SIZE) {
            Some((address, target @ [_, ..])) => {
                (address, Some(u32::from_le_bytes(target.try_into().ok()?)))
            }
            _ => (bytes, None),
        };
        let mut address = address.to_vec();
        let flags = address.get_mut(Address::SIZE - 1);
        let has_ended = flags.is_some_and(|flags| {
            let is_set = *flags & Published::HAS_ENDED != 0;
            *flags &= !Published::HAS_ENDED;
            is_set
        });
        Some(Published { address: Address::decode(&address)?, has_ended, target })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn message() -> WireupMsg {
        WireupMsg {
            kind: Kind::Req,
            is_urgent: true,
            takes_datagrams: true,
            from: 3,
            to: 9,
            epoch: 2,
            qpn: 0x12_3456,
            psn: 0xab_cdef,
            peer_qpn: 17,
            rx_seq: u32::MAX,
            window: 32,
            frame: 8200,
            ring_control: (0x7fff_0123_4567, 0x89ab_cdef),
            port: PortAddress { lid: 5, gid: Gid { raw: std::array::from_fn(|i| i as u8) } },
            mtu: 5,
            max_reads: 16,
        }
    }

    /// Replaces the proof by the right one.
    fn prove(bytes: &mut [u8; WireupMsg::SIZE]) {
        let proof = proof(&bytes[..WireupMsg::SIZE - PROOF], &SECRET);
        bytes[WireupMsg::SIZE - PROOF..].copy_from_slice(&proof);
    }

    #[test]
    fn a_message_survives_the_wire() {
        use Kind::{Closed, Decline, Disconnect, Release, Rep, Req};
        for kind in [Req, Rep, Disconnect, Decline, Release, Closed] {
            let message = WireupMsg { kind, ..message() };
            assert_eq!(WireupMsg::decode(&message.encode(&SECRET), &SECRET), Some(message));
        }
        let address = Address { port: message().port, ud_qpn: 77, takes_datagrams: true };
        assert_eq!(Address::decode(&address.encode()), Some(address));
        let without = Address { takes_datagrams: false, ..address };
        assert_eq!(Address::decode(&address.encode()[..22]), Some(without));
        assert_eq!(Address::decode(&[0; 21]), None);
        for (target, has_ended) in [(None, false), (None, true), (Some(0x1234), true)] {
            let published = Published { address, has_ended, target };
            assert_eq!(Published::decode(&published.encode()), Some(published));
        }
        assert_eq!(Published::decode(&[0; 25]), None);
    }

    #[test]
    fn without_the_secret_nothing_is_accepted() {
        let bytes = message().encode(&SECRET);
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
    fn an_unknown_kind_is_refused_even_with_a_valid_proof() {
        let mut bytes = message().encode(&SECRET);
        bytes[4] = 7;
        prove(&mut bytes);
        assert_eq!(WireupMsg::decode(&bytes, &SECRET), None);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_nothing_or_to_what_encodes_to_them(
            text in prop::collection::vec(any::<u8>(), WireupMsg::SIZE - PROOF),
            kind in 0u32..8,
            other in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut bytes = [0; WireupMsg::SIZE];
            bytes[..text.len()].copy_from_slice(&text);
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            bytes[4..8].copy_from_slice(&kind.to_le_bytes());
            prove(&mut bytes);
            let decoded = WireupMsg::decode(&bytes, &SECRET);
            prop_assert_eq!(decoded.is_some(), (1..7).contains(&kind));
            prop_assert!(decoded.is_none_or(|message| message.encode(&SECRET) == bytes));
            prop_assert_eq!(WireupMsg::decode(&other, &SECRET), None);
            let address = Address::decode(&other);
            let is_one = match other.len() {
                22 => true,
                23 => other[22] <= 1,
                _ => false,
            };
            prop_assert_eq!(address.is_some(), is_one);
            let address = Address::decode(&bytes[..22]).map(|it| it.encode());
            prop_assert_eq!(address.as_ref().map(|it| &it[..22]), Some(&bytes[..22]));
        }
    }
}
