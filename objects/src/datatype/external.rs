//! The data representation "external32" (MPI-5.0 §14.5.2): big-endian, IEEE,
//! two's complement, with the standard's lengths.
//!
//! Data is packed piecewise and converted along the signature; therefore this file knows no
//! layouts. A value that does not fit the shorter types (`long` has 4 bytes, `wchar_t` 2) is an
//! error, not a truncation. C's long double is converted to IEEE binary128, which holds every x87
//! value exactly; the reverse rounds to nearest.

use super::Datatype;
use super::basic::{Basic, Repr, Scalar};
use crate::{Buffer, Class, Error, Result};

/// Packed data that is converted at a time, bytes; more than any element has.
const PIECE_BYTES: usize = 4096;

impl Datatype {
    /// Returns the bytes of `count` elements in "external32"; `None` above 2^63.
    pub fn external_size(&self, count: u64) -> Option<u64> {
        let each = self.map().signature.totals().external;
        each.checked_mul(count).filter(|&size| size <= i64::MAX as u64)
    }

    /// Converts a buffer of this type into `out`, which has exactly [`Datatype::external_size`]
    /// bytes. MPI_ERR_CONVERSION if a value does not fit.
    pub fn pack_external(&self, from: &Buffer, out: &mut [u8]) -> Result<()> {
        let mut staging = [0; PIECE_BYTES];
        let (mut offset, mut done) = (0, 0);
        self.pieces(from, |basic, count| {
            let size = basic.repr.size() as usize;
            let native = &mut staging[..size * count];
            from.pack(offset, native);
            let external = basic.repr.external_size() as usize;
            let place = out.get_mut(done..done + external * count).ok_or_else(too_short)?;
            native
                .chunks_exact(size)
                .zip(place.chunks_exact_mut(external))
                .try_for_each(|(value, place)| by_parts(basic.repr, value, place, encode))?;
            offset += native.len() as u64;
            done += external * count;
            Ok(())
        })
    }

    /// Converts "external32" bytes into a buffer of this type. MPI_ERR_TRUNCATE if there are too
    /// few bytes.
    pub fn unpack_external(&self, bytes: &[u8], into: &Buffer) -> Result<()> {
        let mut staging = [0; PIECE_BYTES];
        let (mut offset, mut done) = (0, 0);
        self.pieces(into, |basic, count| {
            let (size, external) =
                (basic.repr.size() as usize, basic.repr.external_size() as usize);
            let native = &mut staging[..size * count];
            let place = bytes.get(done..done + external * count).ok_or_else(too_short)?;
            native.chunks_exact_mut(size).zip(place.chunks_exact(external)).try_for_each(
                |(value, place)| {
                    by_parts(basic.repr, value, place, |scalar, value, place| {
                        decode(scalar, place, value);
                        Ok(())
                    })
                },
            )?;
            into.unpack(offset, native);
            offset += native.len() as u64;
            done += external * count;
            Ok(())
        })
    }

    /// Calls with pieces of equal elements, at most `PIECE_BYTES` packed bytes each.
    fn pieces(
        &self,
        buffer: &Buffer,
        mut each: impl FnMut(Basic, usize) -> Result<()>,
    ) -> Result<()> {
        let Some(count) = buffer.len().checked_div(self.size()) else { return Ok(()) };
        let signature = self.map().signature.repeat(count);
        let signature = signature.ok_or_else(|| {
            Error::new(Class::Count, "buffer too large: it spans more than 2^63 bytes")
        })?;
        signature.try_for_each_run(&mut |basic, mut left| {
            while left > 0 {
                let count = left.min(PIECE_BYTES as u64 / basic.repr.size());
                each(basic, count as usize)?;
                left -= count;
            }
            Ok(())
        })
    }
}

fn too_short() -> Error {
    Error::new(Class::Truncate, "external32 buffer too short: it must hold all of the data")
}

/// Splits an element into plain scalars. `A` and `B` are its native and its external form; either
/// one is written.
fn by_parts<A: Cut, B: Cut>(
    repr: Repr,
    native: A,
    external: B,
    mut each: impl FnMut(Scalar, A, B) -> Result<()>,
) -> Result<()> {
    let (first, second) = match repr {
        Repr::Single(scalar) => match scalar.complex_part() {
            Some(part) => (part, part),
            None => return each(scalar, native, external),
        },
        Repr::Pair(value, index) => (value, index),
    };
    let (low, high) = native.cut(first.size() as usize);
    let (external_low, external_high) = external.cut(first.external_size() as usize);
    each(first, low, external_low)?;
    each(second, high, external_high)
}

/// A slice, shared or mutable, that can be split.
trait Cut: Sized {
    fn cut(self, at: usize) -> (Self, Self);
}

impl Cut for &[u8] {
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at)
    }
}

impl Cut for &mut [u8] {
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

fn encode(scalar: Scalar, native: &[u8], out: &mut [u8]) -> Result<()> {
    let kept = out.len();
    match scalar {
        Scalar::Long | Scalar::ULong | Scalar::Wide => {
            let sign = scalar == Scalar::Long && native[kept - 1] >= 0x80;
            let fill = if sign { 0xff } else { 0 };
            if native[kept..].iter().any(|&byte| byte != fill) {
                let text = format!(
                    "a value of {} bytes does not fit the {kept} bytes of external32",
                    native.len()
                );
                return Err(Error::new(Class::Conversion, text));
            }
            reverse(&native[..kept], out);
        }
        Scalar::LongDouble => out.copy_from_slice(&quad_from_x87(word(native)).to_be_bytes()),
        _ => reverse(native, out),
    }
    Ok(())
}

fn decode(scalar: Scalar, external: &[u8], native: &mut [u8]) {
    let (low, high) = native.split_at_mut(external.len());
    reverse(external, low);
    let negative = scalar == Scalar::Long && external[0] >= 0x80;
    high.fill(if negative { 0xff } else { 0 });
    if scalar == Scalar::LongDouble {
        let value = x87_from_quad(word(low));
        low.copy_from_slice(&value.to_le_bytes());
    }
}

fn reverse(from: &[u8], to: &mut [u8]) {
    to.iter_mut().zip(from.iter().rev()).for_each(|(to, from)| *to = *from);
}

/// 16 bytes, little-endian.
fn word(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte))
}

/// x87: 64 bits of significand with its leading bit, 15 of exponent, a sign.
/// binary128: 112 bits of significand without the leading bit, the same
/// exponent and sign.
fn quad_from_x87(value: u128) -> u128 {
    if cfg!(not(target_arch = "x86_64")) {
        return value;
    }
    let fraction = value & ((1 << 63) - 1);
    let head = (value >> 64) & 0xffff;
    head << 112 | fraction << 49
}

fn x87_from_quad(value: u128) -> u128 {
    if cfg!(not(target_arch = "x86_64")) {
        return value;
    }
    let head = value >> 112;
    let exponent = head & 0x7fff;
    let fraction = value & ((1 << 112) - 1);
    let leading = u128::from(exponent != 0) << 63;
    let short = leading | fraction >> 49;
    let rest = fraction & ((1 << 49) - 1);
    let half = 1 << 48;
    let up = match exponent {
        // Infinity is kept, and a NaN must not become infinity.
        0x7fff => return head << 64 | short | u128::from(rest > 0),
        _ => rest > half || rest == half && short & 1 == 1,
    };
    let rounded = short + u128::from(up);
    if rounded >> 64 == 1 {
        return (head + 1) << 64 | 1 << 63;
    }
    // A subnormal that rounds up to the smallest normal number.
    let head = if exponent == 0 && rounded >> 63 == 1 { head + 1 } else { head };
    head << 64 | rounded
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::tests::buffer_of;

    fn external(datatype: &Datatype, bytes: &mut [u8], count: u64) -> Result<Vec<u8>> {
        let mut out = vec![0; datatype.external_size(count).unwrap() as usize];
        let buffer = buffer_of(bytes, 0, count, datatype);
        datatype.pack_external(&buffer, &mut out)?;
        Ok(out)
    }

    #[test]
    fn numbers_become_big_endian_of_the_standards_length() {
        let (int, long) =
            (Datatype::predefined(0x209).unwrap(), Datatype::predefined(0x20a).unwrap());
        let mut ints: Vec<u8> = [1_i32, -2].iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(external(int, &mut ints, 2).unwrap(), [0, 0, 0, 1, 255, 255, 255, 254]);
        let mut longs: Vec<u8> = [-3_i64, 7].iter().flat_map(|value| value.to_le_bytes()).collect();
        let packed = external(long, &mut longs, 2).unwrap();
        assert_eq!(packed, [255, 255, 255, 253, 0, 0, 0, 7]);
        let mut back = [0; 16];
        long.unpack_external(&packed, &buffer_of(&mut back, 0, 2, long)).unwrap();
        assert_eq!(back[..], longs[..]);
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let long = Datatype::predefined(0x20a).unwrap();
        let error = external(long, &mut (1_i64 << 31).to_le_bytes(), 1).unwrap_err();
        assert_eq!(error.class(), Class::Conversion);
        let mut bytes = [0; 8];
        let error = long.unpack_external(&[0; 3], &buffer_of(&mut bytes, 0, 1, long)).unwrap_err();
        assert_eq!(error.class(), Class::Truncate);
    }

    #[test]
    fn a_struct_is_converted_along_its_signature() {
        let (int, double) =
            (Datatype::predefined(0x209).unwrap(), Datatype::predefined(0x214).unwrap());
        let types = [int.clone(), double.clone()];
        let pair =
            Datatype::struct_(crate::datatype::Counting::Int, &[1, 1], &[0, 8], &types).unwrap();
        let mut bytes = vec![0; 32];
        bytes[0] = 5;
        bytes[8..16].copy_from_slice(&1.5_f64.to_le_bytes());
        bytes[16] = 6;
        let packed = external(&pair, &mut bytes, 2).unwrap();
        assert_eq!(packed.len(), 24);
        assert_eq!(packed[..4], [0, 0, 0, 5]);
        assert_eq!(packed[4..12], 1.5_f64.to_be_bytes());
        let mut back = vec![0; 32];
        pair.unpack_external(&packed, &buffer_of(&mut back, 0, 2, &pair)).unwrap();
        assert_eq!(back, bytes);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn long_doubles_go_through_binary128() {
        // 1.0, -2.0, infinity, the smallest subnormal, the largest number.
        let values: [u128; 5] = [
            0x3fff << 64 | 1 << 63,
            0xc000 << 64 | 1 << 63,
            0x7fff << 64 | 1 << 63,
            1,
            0x7ffe << 64 | u128::from(u64::MAX),
        ];
        for value in values {
            assert_eq!(x87_from_quad(quad_from_x87(value)), value);
        }
        assert_eq!(quad_from_x87(values[0]), 0x3fff << 112);
        // Half an ulp above 1.0 rounds to even, three quarters round up.
        assert_eq!(x87_from_quad(0x3fff << 112 | 1 << 48), values[0]);
        assert_eq!(x87_from_quad(0x3fff << 112 | 3 << 47), values[0] + 1);
        // Just below 2.0 rounds up to it.
        assert_eq!(x87_from_quad((0x4000 << 112) - 1), 0x4000 << 64 | 1 << 63);
    }
}
