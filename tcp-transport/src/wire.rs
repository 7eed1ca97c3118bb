//! The bytes on a connection: the messages of the handshake, then records.
//!
//! All numbers are little-endian; `docs/tcp.md` draws them. Any process that reaches the listener
//! can send bytes. The handshake's messages have fixed sizes and are compared with their proof
//! before any field is used. Records are decoded only after that, into checked types; a record
//! that is not one ends the connection and fails the peer.
//!
//! A proof is a BLAKE3 hash of all earlier messages of the connection, keyed with the job's
//! secret. Each side's proof covers a nonce of the other, and begins with a word for its role:
//! a recorded or reflected proof is worth nothing.

use fabric::{Atomic, Header};

/// Bytes of a nonce and of a proof.
const HASH: usize = 32;
const MAGIC: u32 = u32::from_le_bytes(*b"vrt\x01");
/// Most streams between two processes.
pub(crate) const MAX_LANES: u32 = 8;

/// The first message: the dialer says which processes it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Rank of the dialer.
    pub(crate) from: u32,
    /// Rank that it means to reach.
    pub(crate) to: u32,
    /// Number of the connection between these two processes.
    pub(crate) epoch: u32,
    /// Which of their streams it carries, below [`MAX_LANES`].
    pub(crate) lane: u32,
    /// Random bytes.
    pub(crate) nonce: [u8; HASH],
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

impl Hello {
    /// Bytes on the wire.
    pub(crate) const SIZE: usize = 20 + HASH;

    pub(crate) fn encode(&self) -> [u8; Hello::SIZE] {
        let mut out = [0; Hello::SIZE];
        let words = [MAGIC, self.from, self.to, self.epoch, self.lane];
        for (slot, word) in out.chunks_exact_mut(4).zip(words) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        out[20..].copy_from_slice(&self.nonce);
        out
    }

    pub(crate) fn decode(bytes: &[u8; Hello::SIZE]) -> Option<Hello> {
        let lane = number(bytes, 16);
        (number(bytes, 0) == MAGIC && lane < MAX_LANES).then(|| Hello {
            from: number(bytes, 4),
            to: number(bytes, 8),
            epoch: number(bytes, 12),
            lane,
            nonce: std::array::from_fn(|i| bytes[20 + i]),
        })
    }
}

/// What both sides of a handshake know; makes and checks the proofs.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    hello: [u8; Hello::SIZE],
    nonce: [u8; HASH],
}

/// The listener's answer: its nonce and its proof.
pub(crate) const CHALLENGE: usize = 2 * HASH;
/// The dialer's proof, and the listener's acceptance: bytes received so far, and the proof.
pub(crate) const PROOF: usize = 8 + HASH;

impl Transcript {
    /// Returns the transcript of the listener, which has chosen a nonce.
    pub(crate) fn new(hello: &Hello, nonce: [u8; HASH]) -> Transcript {
        Transcript { hello: hello.encode(), nonce }
    }

    fn hash(&self, secret: &[u8; 32], role: &[u8; 8], received: [u64; 2]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(secret);
        hasher.update(role).update(&self.hello).update(&self.nonce);
        hasher.update(&received[0].to_le_bytes()).update(&received[1].to_le_bytes());
        hasher.finalize()
    }

    /// Returns the listener's challenge.
    pub(crate) fn challenge(&self, secret: &[u8; 32]) -> [u8; CHALLENGE] {
        let mut out = [0; CHALLENGE];
        out[..HASH].copy_from_slice(&self.nonce);
        out[HASH..].copy_from_slice(self.hash(secret, b"listener", [0; 2]).as_bytes());
        out
    }

    /// Checks a listener's challenge; returns the transcript with its nonce.
    pub(crate) fn check_challenge(
        hello: &Hello,
        bytes: &[u8; CHALLENGE],
        secret: &[u8; 32],
    ) -> Option<Transcript> {
        let transcript = Transcript::new(hello, std::array::from_fn(|i| bytes[i]));
        let proof = transcript.hash(secret, b"listener", [0; 2]);
        is_equal(proof, &bytes[HASH..]).then_some(transcript)
    }

    /// Returns the dialer's proof; `received` are the bytes of the peer's stream that it has.
    pub(crate) fn proof(&self, secret: &[u8; 32], received: u64) -> [u8; PROOF] {
        with_proof(received, self.hash(secret, b"dialer..", [received, 0]))
    }

    /// Checks a dialer's proof; returns what it has received.
    pub(crate) fn check_proof(&self, bytes: &[u8; PROOF], secret: &[u8; 32]) -> Option<u64> {
        let received = long(bytes, 0);
        is_equal(self.hash(secret, b"dialer..", [received, 0]), &bytes[8..]).then_some(received)
    }

    /// Returns the listener's acceptance of a proof; `received` are the bytes that it has.
    pub(crate) fn accept(
        &self,
        secret: &[u8; 32],
        dialer_received: u64,
        received: u64,
    ) -> [u8; PROOF] {
        with_proof(received, self.hash(secret, b"accepted", [dialer_received, received]))
    }

    /// Checks a listener's acceptance; returns what it has received.
    pub(crate) fn check_accept(
        &self,
        bytes: &[u8; PROOF],
        secret: &[u8; 32],
        dialer_received: u64,
    ) -> Option<u64> {
        let received = long(bytes, 0);
        let proof = self.hash(secret, b"accepted", [dialer_received, received]);
        is_equal(proof, &bytes[8..]).then_some(received)
    }
}

fn with_proof(received: u64, proof: blake3::Hash) -> [u8; PROOF] {
    let mut out = [0; PROOF];
    out[..8].copy_from_slice(&received.to_le_bytes());
    out[8..].copy_from_slice(proof.as_bytes());
    out
}

/// Compares in constant time, as `blake3::Hash` does.
fn is_equal(proof: blake3::Hash, bytes: &[u8]) -> bool {
    <[u8; HASH]>::try_from(bytes).is_ok_and(|bytes| proof == blake3::Hash::from_bytes(bytes))
}

/// The kinds of records. The numbers are the wire's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A frame: header and body.
    Frame = 1,
    /// Requests bytes of a region: transfer, key, offset, length.
    Get = 2,
    /// Some of these bytes, in order: transfer, then the bytes.
    Piece = 3,
    /// Bytes for a region: key, offset, then the bytes.
    Put = 4,
    /// Changes a word of a region: transfer, key, offset, operation and two operands.
    Atomic = 5,
    /// The old value of that word: transfer, value.
    Old = 6,
    /// The region is not registered: transfer.
    Refused = 7,
    /// Nothing but the count of received bytes.
    Ack = 8,
    /// As `Ack`; the sender wants to close the connection.
    Bye = 9,
    /// As `Ack`; the sender agrees that the peer closes the connection.
    Agree = 10,
}

/// The header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Bytes after the header.
    pub(crate) len: usize,
    /// Bytes of the other direction's stream that its sender has received.
    pub(crate) received: u64,
}

/// Bytes that are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRecord;

/// Bytes that follow the header of each kind at least, and for `Piece` and `Put` before the data.
pub(crate) const GET: usize = 32;
pub(crate) const PIECE: usize = 8;
pub(crate) const PUT: usize = 16;
pub(crate) const ATOMIC: usize = 48;
pub(crate) const OLD: usize = 16;
/// Most bytes of data in a `Piece` or `Put`.
pub(crate) const MAX_PIECE: usize = 512 << 10;

impl Record {
    /// Bytes of the header.
    pub(crate) const SIZE: usize = 16;

    /// Returns the bytes: length (4), kind (1), zeros (3), received (8).
    #[inline]
    pub(crate) fn encode(&self) -> [u8; Record::SIZE] {
        let mut out = [0; Record::SIZE];
        out[..4].copy_from_slice(&(self.len as u32).to_le_bytes());
        out[4] = self.kind as u8;
        out[8..].copy_from_slice(&self.received.to_le_bytes());
        out
    }

    /// Decodes a header; the length fits the kind. `max_frame` is the most bytes of a frame's body.
    #[inline]
    pub(crate) fn decode(bytes: &[u8; Record::SIZE], max_frame: usize) -> Result<Record, NoRecord> {
        let len = number(bytes, 0) as usize;
        let (kind, lengths) = match bytes[4] {
            1 => (Kind::Frame, Header::SIZE..=Header::SIZE + max_frame),
            2 => (Kind::Get, GET..=GET),
            3 => (Kind::Piece, PIECE..=PIECE + MAX_PIECE),
            4 => (Kind::Put, PUT..=PUT + MAX_PIECE),
            5 => (Kind::Atomic, ATOMIC..=ATOMIC),
            6 => (Kind::Old, OLD..=OLD),
            7 => (Kind::Refused, 8..=8),
            8 => (Kind::Ack, 0..=0),
            9 => (Kind::Bye, 0..=0),
            10 => (Kind::Agree, 0..=0),
            _ => return Err(NoRecord),
        };
        if !lengths.contains(&len) {
            return Err(NoRecord);
        }
        Ok(Record { kind, len, received: long(bytes, 8) })
    }

    /// Returns the bytes that must have arrived, after the header, before the record is handled.
    #[inline]
    pub(crate) fn needed(&self) -> usize {
        match self.kind {
            Kind::Piece => PIECE,
            Kind::Put => PUT,
            _ => self.len,
        }
    }
}

/// Encodes words.
pub(crate) fn words<const N: usize, const BYTES: usize>(words: [u64; N]) -> [u8; BYTES] {
    const { assert!(BYTES == 8 * N) };
    let mut out = [0; BYTES];
    for (slot, word) in out.chunks_exact_mut(8).zip(words) {
        slot.copy_from_slice(&word.to_le_bytes());
    }
    out
}

/// Decodes the words at the start of `bytes`, which are long enough.
pub(crate) fn read_words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|i| long(bytes, 8 * i))
}

/// Returns the three words of an atomic.
pub(crate) fn atomic_words(atomic: Atomic) -> [u64; 3] {
    match atomic {
        Atomic::Add(more) => [1, more, 0],
        Atomic::CompareSwap { expected, new } => [2, expected, new],
    }
}

/// Decodes an atomic.
pub(crate) fn atomic(words: [u64; 3]) -> Result<Atomic, NoRecord> {
    match words {
        [1, more, _] => Ok(Atomic::Add(more)),
        [2, expected, new] => Ok(Atomic::CompareSwap { expected, new }),
        _ => Err(NoRecord),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: [u8; 32] = [7; 32];

    fn hello() -> Hello {
        Hello { from: 3, to: 9, epoch: 2, lane: 1, nonce: [5; HASH] }
    }

    #[test]
    fn a_handshake_proves_both_sides() {
        let listener = Transcript::new(&hello(), [6; HASH]);
        let challenge = listener.challenge(&SECRET);
        let dialer = Transcript::check_challenge(&hello(), &challenge, &SECRET).unwrap();
        let proof = dialer.proof(&SECRET, 77);
        assert_eq!(listener.check_proof(&proof, &SECRET), Some(77));
        let accept = listener.accept(&SECRET, 77, 88);
        assert_eq!(dialer.check_accept(&accept, &SECRET, 77), Some(88));
        assert_eq!(dialer.check_accept(&accept, &SECRET, 78), None);
        assert_eq!(dialer.check_accept(&proof, &SECRET, 77), None, "reflected");
    }

    #[test]
    fn without_the_secret_nothing_is_accepted() {
        let listener = Transcript::new(&hello(), [6; HASH]);
        let challenge = listener.challenge(&SECRET);
        assert!(Transcript::check_challenge(&hello(), &challenge, &[8; 32]).is_none());
        for at in 0..CHALLENGE {
            let mut forged = challenge;
            forged[at] ^= 1;
            assert!(Transcript::check_challenge(&hello(), &forged, &SECRET).is_none(), "{at}");
        }
        let proof = listener.proof(&SECRET, 77);
        for at in 0..PROOF {
            let mut forged = proof;
            forged[at] ^= 1;
            assert_eq!(listener.check_proof(&forged, &SECRET), None, "{at}");
        }
        let later = Transcript::new(&hello(), [9; HASH]);
        assert_eq!(later.check_proof(&proof, &SECRET), None, "a recorded proof");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_record_or_none(
            kind in 0u8..12,
            len in prop_oneof![0u32..100, any::<u32>()],
            received in any::<u64>(),
        ) {
            let mut bytes = [0; Record::SIZE];
            bytes[..4].copy_from_slice(&len.to_le_bytes());
            bytes[4] = kind;
            bytes[8..].copy_from_slice(&received.to_le_bytes());
            if let Ok(record) = Record::decode(&bytes, 1000) {
                prop_assert_eq!(record.encode(), bytes);
                prop_assert!(record.needed() <= 1000 + Header::SIZE);
            }
        }

        #[test]
        fn any_hello_encodes_to_what_it_came_from(mut bytes in prop::array::uniform32(0u8..)) {
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            let bytes: [u8; Hello::SIZE] = std::array::from_fn(|i| bytes[i % 32]);
            match Hello::decode(&bytes) {
                Some(hello) => prop_assert_eq!(hello.encode(), bytes),
                None => prop_assert!(number(&bytes, 16) >= MAX_LANES),
            }
        }
    }
}
