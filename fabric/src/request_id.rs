//! Names of operations that are under way, shared by all protocols.
//!
//! A [`RequestId`] names a slot of one protocol's table of requests. A [`Token`] adds the
//! protocol, so that the end of a one-sided transfer reaches the protocol that started it.
//! Ids travel on the wire: a decoder must expect any number and look the id up.

/// Names a request of one protocol: the slot (32 bits) and its generation (28 bits).
///
/// The generation changes when the slot is freed. An id that is over therefore names nothing,
/// whether the user kept it or a peer sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestId(u64);

/// A protocol that shares the endpoint with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProtocolId {
    /// Point-to-point messages and what collectives send.
    Pt2pt = 0,
    /// One-sided communication.
    Rma = 1,
}

/// Names a one-sided transfer: the protocol that started it and its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    /// Receives the end of the transfer.
    pub protocol: ProtocolId,
    /// The protocol's own name for the transfer.
    pub request: RequestId,
}

impl RequestId {
    /// Generations count modulo this plus one.
    pub const GENERATION_MASK: u32 = (1 << (RequestId::BITS - 32)) - 1;
    /// Bits of an id. The bits above are free for the owner of the ids.
    pub const BITS: u32 = 60;

    /// Names the request in `slot` while the slot has this `generation`.
    #[inline]
    pub fn new(slot: u32, generation: u32) -> RequestId {
        RequestId(u64::from(generation) << 32 | u64::from(slot))
    }

    /// Takes a number from anywhere; most numbers name nothing.
    #[inline]
    pub fn from_bits(bits: u64) -> RequestId {
        RequestId(bits)
    }

    /// Returns a number below 2^60.
    #[inline]
    pub fn to_bits(self) -> u64 {
        self.0
    }

    /// Returns the slot that the request is in.
    #[inline]
    pub fn slot(self) -> u32 {
        self.0 as u32
    }

    /// Returns the generation of the slot.
    #[inline]
    pub fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

impl Token {
    /// Returns the number that a transport carries: the protocol in the four highest bits.
    #[inline]
    pub fn to_bits(self) -> u64 {
        (self.protocol as u64) << RequestId::BITS | self.request.to_bits()
    }

    /// Reverses [`Token::to_bits`]; `None` if no protocol has that number.
    #[inline]
    pub fn from_bits(bits: u64) -> Option<Token> {
        let protocol = match bits >> RequestId::BITS {
            0 => ProtocolId::Pt2pt,
            1 => ProtocolId::Rma,
            _ => return None,
        };
        let request = RequestId::from_bits(bits & ((1 << RequestId::BITS) - 1));
        Some(Token { protocol, request })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_the_device_and_a_foreign_one_is_refused() {
        let request = RequestId::new(7, RequestId::GENERATION_MASK);
        let token = Token { protocol: ProtocolId::Pt2pt, request };
        assert_eq!(Token::from_bits(token.to_bits()), Some(token));
        assert_eq!(Token::from_bits(token.to_bits() | 9 << RequestId::BITS), None);
        assert_eq!((request.slot(), request.generation()), (7, RequestId::GENERATION_MASK));
    }
}
