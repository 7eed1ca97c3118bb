//! The check of type signatures (MPI-5.0 §3.3.1; knob `check.signatures`): a word of 32 bits that
//! stands for the signature of a message, as its sender gave it.
//!
//! Bits 0 to 7 are the code of the first basic type: its handle - 0x200. Bit 8 is set if all
//! elements have this type. Otherwise bits 9 to 31 are a hash of the sequence of elements. The hash
//! does not depend on how constructors grouped them: it is a polynomial, and that of two sequences
//! follows from those of its parts. A pair counts as its two elements.
//!
//! The word 0 says nothing and matches every word: the message is empty, or its sender does not
//! check.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::basic::{self, Basic, FIRST_HANDLE, Repr};
use super::signature::Signature;

/// Set once, at initialisation.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The word of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignatureWord(u32);

const UNIFORM: u32 = 1 << 8;
const HASH_AT: u32 = 9;
const CODE_MASK: u32 = 0xff;
/// The code of both elements of a pair without a name.
const UNNAMED: u8 = 0xff;
/// The code of MPI_PACKED.
const PACKED: u8 = 0x07;

impl SignatureWord {
    /// The word that says nothing.
    pub const NONE: SignatureWord = SignatureWord(0);

    /// Switches the check on for this process, for good. Buffers made from handles then keep their
    /// datatypes.
    pub fn switch_on() {
        IS_ON.store(true, Relaxed);
        basic::PLAIN.iter().for_each(|size| size.store(0, Relaxed));
    }

    /// Returns true if signatures are checked.
    #[inline]
    pub fn is_on() -> bool {
        IS_ON.load(Relaxed)
    }

    /// Returns the word of the first `bytes` packed bytes of elements of a signature; a part of a
    /// basic element at the end belongs to no sender's message and makes a word of its own.
    pub(crate) fn of(signature: &Signature, bytes: u64) -> SignatureWord {
        let size = signature.totals().size;
        if size == 0 || bytes == 0 {
            return SignatureWord::NONE;
        }
        let whole = signature.digest(size).times(bytes / size);
        let digest = whole.then(signature.digest(bytes % size));
        // Spreads a difference of the last element, which is in the low bits, over the upper ones.
        let spread = digest.value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = (spread >> (32 + HASH_AT)) as u32;
        let rest = if digest.is_uniform { UNIFORM } else { hash << HASH_AT };
        SignatureWord(u32::from(digest.first) | rest)
    }

    /// Returns the word that a frame carries.
    #[inline]
    pub const fn from_wire(bits: u32) -> SignatureWord {
        SignatureWord(bits)
    }

    /// Returns the word for a frame.
    #[inline]
    pub const fn to_wire(self) -> u32 {
        self.0
    }

    /// Returns true if data sent as one may be received as the other. MPI_PACKED matches every
    /// type; MPI_BYTE matches MPI_BYTE alone.
    pub fn matches(self, other: SignatureWord) -> bool {
        let is_open = |word: SignatureWord| {
            word == SignatureWord::NONE
                || word.code() == UNNAMED
                || word.is_uniform() && word.code() == PACKED
        };
        self == other || is_open(self) || is_open(other)
    }

    /// Returns the words for `bytes` bytes of this signature: "6 MPI_INT (24 bytes)".
    pub fn describe(self, bytes: u64) -> String {
        let basic = Basic::named(u16::from(self.code()) + FIRST_HANDLE as u16);
        match basic {
            Some(basic) if self.is_uniform() => {
                let (count, name) = (bytes / basic.repr.size(), basic.name());
                format!("{count} {name} ({bytes} bytes)")
            }
            Some(basic) => {
                format!("elements of several types, first {} ({bytes} bytes)", basic.name())
            }
            None => format!("{bytes} bytes"),
        }
    }

    const fn code(self) -> u8 {
        (self.0 & CODE_MASK) as u8
    }

    const fn is_uniform(self) -> bool {
        self.0 & UNIFORM != 0
    }
}

/// The hash of a sequence of elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Digest {
    /// The polynomial at [`BASE`], modulo [`PRIME`].
    value: u64,
    /// [`BASE`] to the power of the number of elements.
    power: u64,
    /// The code of the first element; 0 if there is none.
    first: u8,
    is_uniform: bool,
}

const PRIME: u64 = (1 << 61) - 1;
const BASE: u64 = 0x0a37_29f6_1c55_ed03;

impl Digest {
    const EMPTY: Digest = Digest { value: 0, power: 1, first: 0, is_uniform: true };

    fn of(code: u8) -> Digest {
        Digest { value: u64::from(code), power: BASE, first: code, is_uniform: true }
    }

    /// Returns the digest of this sequence and another one after it.
    fn then(self, next: Digest) -> Digest {
        let first = if self.first == 0 { next.first } else { self.first };
        let is_same = next.first == 0 || next.first == first;
        Digest {
            value: (product(self.value, next.power) + next.value) % PRIME,
            power: product(self.power, next.power),
            first,
            is_uniform: self.is_uniform && next.is_uniform && is_same,
        }
    }

    /// Returns the digest of the sequence repeated.
    fn times(self, mut count: u64) -> Digest {
        let (mut result, mut square) = (Digest::EMPTY, self);
        while count > 0 {
            if count % 2 == 1 {
                result = result.then(square);
            }
            square = square.then(square);
            count /= 2;
        }
        result
    }
}

fn product(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64
}

impl Signature {
    /// Returns the digest of the first `bytes` packed bytes.
    fn digest(&self, bytes: u64) -> Digest {
        match self {
            Signature::Empty => Digest::EMPTY,
            Signature::Run(basic, _) => run(*basic, bytes),
            Signature::Repeat(inner) => {
                let size = inner.body.totals().size;
                if size == 0 {
                    return Digest::EMPTY;
                }
                let whole = inner.body.digest(size).times(bytes / size);
                whole.then(inner.body.digest(bytes % size))
            }
            Signature::Sequence(inner) => {
                let (mut left, mut digest) = (bytes, Digest::EMPTY);
                for item in &inner.items {
                    let part = left.min(item.totals().size);
                    digest = digest.then(item.digest(part));
                    left -= part;
                }
                digest
            }
        }
    }
}

/// Returns the digest of `bytes` bytes of elements of one type.
fn run(basic: Basic, bytes: u64) -> Digest {
    let code = |handle: u16| handle.checked_sub(FIRST_HANDLE as u16).map_or(UNNAMED, |at| at as u8);
    let size = basic.repr.size();
    let (one, first) = match basic.repr {
        Repr::Single(scalar) => (Digest::of(code(basic.handle)), scalar.size()),
        Repr::Pair(value, _) => {
            let parts = basic.parts().map(|(value, index)| (code(value), code(index)));
            let (of_value, of_index) = parts.unwrap_or((UNNAMED, UNNAMED));
            (Digest::of(of_value).then(Digest::of(of_index)), value.size())
        }
    };
    let whole = one.times(bytes / size);
    match bytes % size {
        0 => whole,
        rest if rest == first => whole.then(Digest::of(one.first)),
        // A part of an element: no code has this digest.
        rest => whole.then(Digest { value: 0x100 + rest, ..Digest::of(UNNAMED - 1) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Datatype;
    use crate::datatype::Counting::Int;

    fn word(datatype: &Datatype, count: u64) -> SignatureWord {
        datatype.signature_word(datatype.size() * count)
    }

    fn named(handle: usize) -> &'static Datatype {
        Datatype::predefined(handle).unwrap()
    }

    #[test]
    fn grouping_does_not_matter() {
        let (int, double, byte) = (named(0x209), named(0x214), Datatype::byte());
        let rows = Datatype::vector(Int, 3, 2, 5, int).unwrap();
        assert_eq!(word(int, 6), word(&rows, 1));
        assert_eq!(word(int, 6).describe(24), "6 MPI_INT (24 bytes)");
        let pair = Datatype::struct_(Int, &[1, 1], &[0, 8], &[int.clone(), double.clone()]);
        let pair = pair.unwrap();
        let four = Datatype::contiguous(Int, 4, &pair).unwrap();
        assert_eq!(word(&pair, 4), word(&four, 1));
        assert_ne!(word(&pair, 4), word(&pair, 3));
        let turned = Datatype::struct_(Int, &[1, 1], &[0, 8], &[double.clone(), int.clone()]);
        let turned = turned.unwrap();
        assert_ne!(word(&pair, 1), word(&turned, 1));
        // A prefix of the receive.
        assert_eq!(pair.signature_word(12), four.signature_word(12));
        let tail = Datatype::struct_(Int, &[1, 1], &[0, 8], &[pair.clone(), turned]).unwrap();
        assert_eq!(tail.signature_word(12), word(&pair, 1));
        assert!(!word(byte, 4).matches(word(int, 1)));
        assert!(!tail.signature_word(13).matches(tail.signature_word(16)));
    }

    #[test]
    fn each_element_counts() {
        let int = named(0x209);
        let mut types = vec![int.clone(); 9];
        types[0] = named(0x214).clone();
        let (lengths, disps) = ([1; 9], [0, 8, 16, 24, 32, 40, 48, 56, 64]);
        let made = |types: &[Datatype]| Datatype::struct_(Int, &lengths, &disps, types).unwrap();
        let right = word(&made(&types), 1);
        for at in 1..9 {
            types[at] = named(0x20d).clone();
            assert_ne!(word(&made(&types), 1), right, "element {at}");
            types[at] = int.clone();
        }
    }

    #[test]
    fn pairs_are_their_elements() {
        assert_eq!(word(named(0x22b), 3), word(named(0x209), 6));
        let parts = [named(0x214).clone(), named(0x209).clone()];
        let double_int = Datatype::struct_(Int, &[1, 1], &[0, 8], &parts).unwrap();
        assert_eq!(word(named(0x229), 2), word(&double_int, 2));
    }

    #[test]
    fn packed_data_matches_all_types() {
        let (packed, int, long) = (named(0x207), named(0x209), named(0x20a));
        assert!(word(packed, 8).matches(word(int, 2)) && word(int, 2).matches(word(packed, 8)));
        assert!(!word(int, 2).matches(word(long, 1)));
        assert!(word(int, 0).matches(word(long, 1)));
    }

    #[test]
    fn long_sequences_cost_little() {
        let int = named(0x209);
        let parts = [int.clone(), named(0x214).clone()];
        let mut deep = Datatype::struct_(Int, &[1, 1], &[0, 8], &parts).unwrap();
        for _ in 0..20 {
            deep = Datatype::contiguous(Int, 3, &deep).unwrap();
        }
        assert_ne!(word(&deep, 1 << 20), SignatureWord::NONE);
    }
}
