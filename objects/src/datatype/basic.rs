//! The basic datatypes of predefined handles.
//!
//! One table, ordered by the handle values of the standard ABI (MPI-5.0 appendix A and chapter 20).
//! A [`Scalar`] is an element's representation in memory; a [`Family`] decides which reductions
//! accept it (MPI-5.0 §6.9.2); the handle identifies it.
//!
//! Sizes are those of 64-bit Linux; Fortran's default INTEGER, REAL and LOGICAL
//! have 4 bytes, DOUBLE PRECISION 8.

use std::sync::atomic::AtomicU8;

/// The representation of one value in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Scalar {
    I8,
    I16,
    I32,
    I64,
    I128,
    U8,
    U16,
    U32,
    U64,
    /// C `long`: 8 bytes here, 4 in "external32".
    Long,
    /// C `unsigned long`.
    ULong,
    F16,
    F32,
    F64,
    /// C `long double`: x87 extended precision in 16 bytes on x86-64.
    LongDouble,
    /// IEEE binary128, Fortran's `real(16)`.
    F128,
    C16,
    C32,
    C64,
    CLongDouble,
    C128,
    /// Truth values: odd is true.
    L8,
    L16,
    L32,
    L64,
    L128,
    /// A byte without meaning.
    Byte,
    /// C `wchar_t`: 4 bytes here, 2 in "external32".
    Wide,
}

impl Scalar {
    /// Returns the bytes in memory.
    pub const fn size(self) -> u64 {
        use Scalar::*;
        match self {
            I8 | U8 | L8 | Byte => 1,
            I16 | U16 | F16 | L16 => 2,
            I32 | U32 | F32 | C16 | L32 | Wide => 4,
            I64 | U64 | Long | ULong | F64 | C32 | L64 => 8,
            I128 | LongDouble | F128 | C64 | L128 => 16,
            CLongDouble | C128 => 32,
        }
    }

    /// Returns the alignment in bytes that C and Fortran compilers use.
    pub const fn align(self) -> u64 {
        match self.complex_part() {
            Some(part) => part.size(),
            None => self.size(),
        }
    }

    /// Returns the bytes in "external32" (MPI-5.0 §14.5.2, table of lengths).
    pub const fn external_size(self) -> u64 {
        match self {
            Scalar::Long | Scalar::ULong => 4,
            Scalar::Wide => 2,
            other => other.size(),
        }
    }

    /// Returns the type of the two halves of a complex number.
    pub const fn complex_part(self) -> Option<Scalar> {
        Some(match self {
            Scalar::C16 => Scalar::F16,
            Scalar::C32 => Scalar::F32,
            Scalar::C64 => Scalar::F64,
            Scalar::CLongDouble => Scalar::LongDouble,
            Scalar::C128 => Scalar::F128,
            _ => return None,
        })
    }

    /// Returns true for signed integers.
    pub const fn is_signed(self) -> bool {
        use Scalar::*;
        matches!(self, I8 | I16 | I32 | I64 | I128 | Long)
    }
}

/// The composition of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// One value.
    Single(Scalar),
    /// A C struct of a value and an index, for MINLOC and MAXLOC.
    Pair(Scalar, Scalar),
}

impl Repr {
    /// Returns the offset of the index in a pair, in bytes.
    pub const fn index_offset(value: Scalar, index: Scalar) -> u64 {
        value.size().next_multiple_of(index.align())
    }

    /// Returns the packed bytes.
    pub const fn size(self) -> u64 {
        match self {
            Repr::Single(scalar) => scalar.size(),
            Repr::Pair(value, index) => value.size() + index.size(),
        }
    }

    /// Returns the alignment in bytes.
    pub const fn align(self) -> u64 {
        match self {
            Repr::Single(scalar) => scalar.align(),
            Repr::Pair(value, index) if value.align() > index.align() => value.align(),
            Repr::Pair(_, index) => index.align(),
        }
    }

    /// Returns the distance between the elements of an array, in bytes.
    pub const fn extent(self) -> u64 {
        match self {
            Repr::Single(scalar) => scalar.size(),
            Repr::Pair(value, index) => {
                (Repr::index_offset(value, index) + index.size()).next_multiple_of(self.align())
            }
        }
    }

    /// Returns the bytes in "external32".
    pub const fn external_size(self) -> u64 {
        match self {
            Repr::Single(scalar) => scalar.external_size(),
            Repr::Pair(value, index) => value.external_size() + index.external_size(),
        }
    }

    /// Returns the basic elements as MPI_Get_elements counts them: a pair has two.
    pub const fn elements(self) -> u64 {
        match self {
            Repr::Single(_) => 1,
            Repr::Pair(..) => 2,
        }
    }
}

/// The groups of types of MPI-5.0 §6.9.2, which decide on reductions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Family {
    CInteger,
    FortranInteger,
    Floating,
    Logical,
    Complex,
    Byte,
    MultiLanguage,
    /// For MINLOC and MAXLOC.
    Pair,
    /// MPI_CHAR: reduced as the integer that C's `char` is, beyond the table of §6.9.2, since
    /// programs rely on it.
    Char,
    /// Other characters and packed data: no reductions.
    Text,
}

/// A basic datatype.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basic {
    /// Its ABI handle; 0 for a pair type without a name.
    pub handle: u16,
    /// Its group.
    pub family: Family,
    /// Its representation.
    pub repr: Repr,
}

impl Basic {
    /// Returns the standard's name; for a pair without one, a description.
    pub fn name(self) -> String {
        match NAMED.iter().find(|(_, basic)| basic.handle == self.handle) {
            Some((name, _)) => (*name).to_owned(),
            None => format!("a pair {:?}", self.repr),
        }
    }

    /// Returns the basic type with that handle.
    pub fn named(handle: u16) -> Option<Basic> {
        NAMED.iter().map(|&(_, basic)| basic).find(|basic| basic.handle == handle)
    }

    /// Returns the handles of value and index of a named pair.
    pub(crate) fn parts(self) -> Option<(u16, u16)> {
        let row = PAIRS.iter().find(|(.., pair)| *pair == self.handle);
        row.map(|&(value, index, _)| (value, index))
    }

    /// Returns the pair type of a value and an index, named where the standard has a name for it
    /// (MPI-5.0 §6.9.4). `None` if they cannot form one.
    pub fn pair(value: Basic, index: Basic) -> Option<Basic> {
        use Family::*;
        let (Repr::Single(v), Repr::Single(i)) = (value.repr, index.repr) else { return None };
        let named = PAIRS.iter().find(|row| (row.0, row.1) == (value.handle, index.handle));
        if let Some(&(_, _, handle)) = named {
            return Basic::named(handle);
        }
        let value_fits =
            matches!(value.family, CInteger | FortranInteger | Floating | MultiLanguage)
                && !matches!(v, Scalar::F16 | Scalar::I128);
        let index_fits =
            matches!(index.family, CInteger | FortranInteger | MultiLanguage) && i != Scalar::I128;
        (value_fits && index_fits).then_some(Basic {
            handle: 0,
            family: Pair,
            repr: Repr::Pair(v, i),
        })
    }
}

/// Marker of the old MPI_Type_struct: a lower bound, with no data. Not in the
/// ABI; our header defines it.
pub const MPI_LB: usize = 0x23e;
/// The upper bound, in the same way.
pub const MPI_UB: usize = 0x23f;

const fn one(
    name: &'static str,
    handle: u16,
    family: Family,
    scalar: Scalar,
) -> (&'static str, Basic) {
    (name, Basic { handle, family, repr: Repr::Single(scalar) })
}

const fn two(
    name: &'static str,
    handle: u16,
    value: Scalar,
    index: Scalar,
) -> (&'static str, Basic) {
    (name, Basic { handle, family: Family::Pair, repr: Repr::Pair(value, index) })
}

/// C's `char`: signed on x86-64, unsigned on aarch64.
const CHAR: Scalar = if std::ffi::c_char::MIN == 0 { Scalar::U8 } else { Scalar::I8 };

/// Value type, index type, and the pair that has a name.
const PAIRS: [(u16, u16, u16); 9] = [
    (0x210, 0x209, 0x228),
    (0x214, 0x209, 0x229),
    (0x20a, 0x209, 0x22a),
    (0x209, 0x209, 0x22b),
    (0x208, 0x209, 0x22c),
    (0x220, 0x209, 0x22d),
    (0x21a, 0x21a, 0x230),
    (0x21c, 0x21c, 0x231),
    (0x219, 0x219, 0x232),
];

/// Every datatype handle of the ABI except the null handle.
pub(crate) static NAMED: [(&str, Basic); 70] = TABLE;

/// The first handle of a datatype.
pub(crate) const FIRST_HANDLE: usize = 0x200;

/// Bytes of the predefined types without gaps, by handle; 0 for all others. While signatures are
/// checked all are 0.
pub(crate) static PLAIN: [AtomicU8; 0x100] = {
    let (mut sizes, mut at) = ([const { AtomicU8::new(0) }; 0x100], 0);
    while at < TABLE.len() {
        let Basic { handle, repr, .. } = TABLE[at].1;
        if repr.size() == repr.extent() {
            sizes[handle as usize - FIRST_HANDLE] = AtomicU8::new(repr.size() as u8);
        }
        at += 1;
    }
    sizes
};

/// Bytes of the predefined integers that wrap, by handle; 0 for all others.
pub(crate) static INTEGERS: [u8; 0x100] = {
    let (mut sizes, mut at) = ([0; 0x100], 0);
    while at < TABLE.len() {
        let Basic { handle, repr, family, .. } = TABLE[at].1;
        let is_integer = matches!(
            family,
            Family::CInteger | Family::Char | Family::FortranInteger | Family::MultiLanguage
        );
        if is_integer && matches!(repr, Repr::Single(_)) {
            sizes[handle as usize - FIRST_HANDLE] = repr.size() as u8;
        }
        at += 1;
    }
    sizes
};

const TABLE: [(&str, Basic); 70] = [
    one("MPI_AINT", 0x201, Family::MultiLanguage, Scalar::I64),
    one("MPI_COUNT", 0x202, Family::MultiLanguage, Scalar::I64),
    one("MPI_OFFSET", 0x203, Family::MultiLanguage, Scalar::I64),
    one("MPI_PACKED", 0x207, Family::Text, Scalar::Byte),
    one("MPI_SHORT", 0x208, Family::CInteger, Scalar::I16),
    one("MPI_INT", 0x209, Family::CInteger, Scalar::I32),
    one("MPI_LONG", 0x20a, Family::CInteger, Scalar::Long),
    one("MPI_LONG_LONG", 0x20b, Family::CInteger, Scalar::I64),
    one("MPI_UNSIGNED_SHORT", 0x20c, Family::CInteger, Scalar::U16),
    one("MPI_UNSIGNED", 0x20d, Family::CInteger, Scalar::U32),
    one("MPI_UNSIGNED_LONG", 0x20e, Family::CInteger, Scalar::ULong),
    one("MPI_UNSIGNED_LONG_LONG", 0x20f, Family::CInteger, Scalar::U64),
    one("MPI_FLOAT", 0x210, Family::Floating, Scalar::F32),
    one("MPI_C_FLOAT_COMPLEX", 0x212, Family::Complex, Scalar::C32),
    one("MPI_CXX_FLOAT_COMPLEX", 0x213, Family::Complex, Scalar::C32),
    one("MPI_DOUBLE", 0x214, Family::Floating, Scalar::F64),
    one("MPI_C_DOUBLE_COMPLEX", 0x216, Family::Complex, Scalar::C64),
    one("MPI_CXX_DOUBLE_COMPLEX", 0x217, Family::Complex, Scalar::C64),
    one("MPI_LOGICAL", 0x218, Family::Logical, Scalar::L32),
    one("MPI_INTEGER", 0x219, Family::FortranInteger, Scalar::I32),
    one("MPI_REAL", 0x21a, Family::Floating, Scalar::F32),
    one("MPI_COMPLEX", 0x21b, Family::Complex, Scalar::C32),
    one("MPI_DOUBLE_PRECISION", 0x21c, Family::Floating, Scalar::F64),
    one("MPI_DOUBLE_COMPLEX", 0x21d, Family::Complex, Scalar::C64),
    one("MPI_CHARACTER", 0x21e, Family::Text, Scalar::Byte),
    one("MPI_LONG_DOUBLE", 0x220, Family::Floating, Scalar::LongDouble),
    one("MPI_C_LONG_DOUBLE_COMPLEX", 0x224, Family::Complex, Scalar::CLongDouble),
    one("MPI_CXX_LONG_DOUBLE_COMPLEX", 0x225, Family::Complex, Scalar::CLongDouble),
    two("MPI_FLOAT_INT", 0x228, Scalar::F32, Scalar::I32),
    two("MPI_DOUBLE_INT", 0x229, Scalar::F64, Scalar::I32),
    two("MPI_LONG_INT", 0x22a, Scalar::Long, Scalar::I32),
    two("MPI_2INT", 0x22b, Scalar::I32, Scalar::I32),
    two("MPI_SHORT_INT", 0x22c, Scalar::I16, Scalar::I32),
    two("MPI_LONG_DOUBLE_INT", 0x22d, Scalar::LongDouble, Scalar::I32),
    two("MPI_2REAL", 0x230, Scalar::F32, Scalar::F32),
    two("MPI_2DOUBLE_PRECISION", 0x231, Scalar::F64, Scalar::F64),
    two("MPI_2INTEGER", 0x232, Scalar::I32, Scalar::I32),
    one("MPI_C_BOOL", 0x238, Family::Logical, Scalar::L8),
    one("MPI_CXX_BOOL", 0x239, Family::Logical, Scalar::L8),
    one("MPI_WCHAR", 0x23c, Family::Text, Scalar::Wide),
    one("MPI_INT8_T", 0x240, Family::CInteger, Scalar::I8),
    one("MPI_UINT8_T", 0x241, Family::CInteger, Scalar::U8),
    one("MPI_CHAR", 0x243, Family::Char, CHAR),
    one("MPI_SIGNED_CHAR", 0x244, Family::CInteger, Scalar::I8),
    one("MPI_UNSIGNED_CHAR", 0x245, Family::CInteger, Scalar::U8),
    one("MPI_BYTE", 0x247, Family::Byte, Scalar::Byte),
    one("MPI_INT16_T", 0x248, Family::CInteger, Scalar::I16),
    one("MPI_UINT16_T", 0x249, Family::CInteger, Scalar::U16),
    one("MPI_INT32_T", 0x250, Family::CInteger, Scalar::I32),
    one("MPI_UINT32_T", 0x251, Family::CInteger, Scalar::U32),
    one("MPI_INT64_T", 0x258, Family::CInteger, Scalar::I64),
    one("MPI_UINT64_T", 0x259, Family::CInteger, Scalar::U64),
    one("MPI_LOGICAL1", 0x2c0, Family::Logical, Scalar::L8),
    one("MPI_INTEGER1", 0x2c1, Family::FortranInteger, Scalar::I8),
    one("MPI_LOGICAL2", 0x2c8, Family::Logical, Scalar::L16),
    one("MPI_INTEGER2", 0x2c9, Family::FortranInteger, Scalar::I16),
    one("MPI_REAL2", 0x2ca, Family::Floating, Scalar::F16),
    one("MPI_LOGICAL4", 0x2d0, Family::Logical, Scalar::L32),
    one("MPI_INTEGER4", 0x2d1, Family::FortranInteger, Scalar::I32),
    one("MPI_REAL4", 0x2d2, Family::Floating, Scalar::F32),
    one("MPI_COMPLEX4", 0x2d3, Family::Complex, Scalar::C16),
    one("MPI_LOGICAL8", 0x2d8, Family::Logical, Scalar::L64),
    one("MPI_INTEGER8", 0x2d9, Family::FortranInteger, Scalar::I64),
    one("MPI_REAL8", 0x2da, Family::Floating, Scalar::F64),
    one("MPI_COMPLEX8", 0x2db, Family::Complex, Scalar::C32),
    one("MPI_LOGICAL16", 0x2e0, Family::Logical, Scalar::L128),
    one("MPI_INTEGER16", 0x2e1, Family::FortranInteger, Scalar::I128),
    one("MPI_REAL16", 0x2e2, Family::Floating, Scalar::F128),
    one("MPI_COMPLEX16", 0x2e3, Family::Complex, Scalar::C64),
    one("MPI_COMPLEX32", 0x2eb, Family::Complex, Scalar::C128),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_look_as_c_lays_them_out() {
        let shape = |handle| {
            let repr = Basic::named(handle).unwrap().repr;
            (repr.size(), repr.extent(), repr.align())
        };
        assert_eq!(shape(0x228), (8, 8, 4));
        assert_eq!(shape(0x229), (12, 16, 8));
        assert_eq!(shape(0x22a), (12, 16, 8));
        assert_eq!(shape(0x22c), (6, 8, 4));
        assert_eq!(shape(0x22d), (20, 32, 16));
    }

    #[test]
    fn handles_that_carry_their_size_agree() {
        for (name, basic) in NAMED.iter().filter(|(_, basic)| basic.handle >= 0x240) {
            assert_eq!(basic.repr.size(), 1 << ((basic.handle >> 3) & 7), "{name}");
        }
    }
}
