//! The constructors of MPI-5.0 §5.1.2 to §5.1.10, but for arrays.
//!
//! Each constructor checks its arguments, composes the type map and keeps the arguments.
//! Displacements and strides are in bytes for the `h` forms and in extents of the old type
//! otherwise. [`Counting`] records which form of the call was used.

use std::slice::from_ref;
use std::sync::Mutex;

use super::basic::{Basic, Family, Repr, Scalar};
use super::contents::{Combiner, Construction, Contents};
use super::typemap::{self, Builder, Placer, TypeMap};
use super::{Datatype, lock};
use crate::{Class, Error, Result};

/// The form of a constructor that was called; the envelope shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Counts are `int`, displacements in bytes are `MPI_Aint`.
    Int,
    /// The `_c` form: all are `MPI_Count`.
    Large,
}

/// MPI_TYPECLASS_*, numbered as in the standard ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TypeClass {
    /// An extension: MPIX_TYPECLASS_LOGICAL.
    Logical = 191,
    Integer = 192,
    Real = 193,
    Complex = 194,
}

/// Collects the arguments of a constructor into its contents.
pub(super) struct Arguments {
    counting: Counting,
    contents: Contents,
}

impl Arguments {
    pub(super) fn new(counting: Counting) -> Arguments {
        Arguments { counting, contents: Contents::default() }
    }

    /// Adds an argument that is an `int` in both forms.
    pub(super) fn int(mut self, value: i32) -> Arguments {
        self.contents.integers.push(value);
        self
    }

    /// Adds an array that is of `int` in both forms.
    pub(super) fn ints(mut self, values: &[i32]) -> Arguments {
        self.contents.integers.extend_from_slice(values);
        self
    }

    pub(super) fn count(self, value: i64) -> Arguments {
        self.counts(&[value])
    }

    pub(super) fn counts(mut self, values: &[i64]) -> Arguments {
        match self.counting {
            // The caller's `int`, which was widened.
            Counting::Int => {
                self.contents.integers.extend(values.iter().map(|&value| value as i32))
            }
            Counting::Large => self.contents.counts.extend_from_slice(values),
        }
        self
    }

    pub(super) fn addresses(mut self, values: &[i64]) -> Arguments {
        match self.counting {
            Counting::Int => self.contents.addresses.extend_from_slice(values),
            Counting::Large => self.contents.counts.extend_from_slice(values),
        }
        self
    }

    pub(super) fn of(mut self, combiner: Combiner, types: &[Datatype]) -> Construction {
        self.contents.types = types.to_vec();
        Construction { combiner, contents: self.contents }
    }
}

/// Checks that a count is not negative, otherwise MPI_ERR_COUNT.
fn checked_count(count: i64) -> Result<u64> {
    u64::try_from(count).map_err(|_| {
        Error::new(Class::Count, format!("invalid count {count}: must not be negative"))
    })
}

/// Checks that a value is not negative, otherwise MPI_ERR_ARG.
pub(super) fn checked(value: i64, name: &str) -> Result<u64> {
    u64::try_from(value).map_err(|_| {
        Error::new(Class::Arg, format!("invalid {name} {value}: must not be negative"))
    })
}

fn same_length(count: usize, other: usize) -> Result<()> {
    match count == other {
        true => Ok(()),
        false => Err(Error::new(
            Class::Arg,
            format!("array lengths differ: {count} block lengths, {other} displacements or types"),
        )),
    }
}

impl Datatype {
    /// Repeats `old` (MPI_Type_contiguous).
    pub fn contiguous(counting: Counting, count: i64, old: &Datatype) -> Result<Datatype> {
        let map = old.block(checked_count(count)?);
        Datatype::build(
            map,
            Arguments::new(counting).count(count).of(Combiner::Contiguous, from_ref(old)),
        )
    }

    /// Makes blocks at a `stride` in extents of `old` (MPI_Type_vector).
    pub fn vector(
        counting: Counting,
        count: i64,
        blocklength: i64,
        stride: i64,
        old: &Datatype,
    ) -> Result<Datatype> {
        let (blocks, each) = (checked_count(count)?, checked(blocklength, "blocklength")?);
        let bytes = stride.checked_mul(old.extent().1);
        let map = bytes.and_then(|bytes| old.block(each)?.repeat(blocks, bytes));
        let arguments = Arguments::new(counting).count(count).count(blocklength).count(stride);
        Datatype::build(map, arguments.of(Combiner::Vector, from_ref(old)))
    }

    /// Makes blocks at a `stride` in bytes (MPI_Type_create_hvector).
    pub fn hvector(
        counting: Counting,
        count: i64,
        blocklength: i64,
        stride: i64,
        old: &Datatype,
    ) -> Result<Datatype> {
        let (blocks, each) = (checked_count(count)?, checked(blocklength, "blocklength")?);
        let map = old.block(each).and_then(|block| block.repeat(blocks, stride));
        let arguments =
            Arguments::new(counting).count(count).count(blocklength).addresses(&[stride]);
        Datatype::build(map, arguments.of(Combiner::Hvector, from_ref(old)))
    }

    /// Makes blocks at displacements in extents of `old` (MPI_Type_indexed).
    pub fn indexed(
        counting: Counting,
        blocklengths: &[i64],
        disps: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        let map = old.blocks(blocklengths, disps, old.extent().1)?;
        let count = blocklengths.len() as i64;
        let arguments = Arguments::new(counting).count(count).counts(blocklengths).counts(disps);
        Datatype::build(map, arguments.of(Combiner::Indexed, from_ref(old)))
    }

    /// Makes blocks at displacements in bytes (MPI_Type_create_hindexed).
    pub fn hindexed(
        counting: Counting,
        blocklengths: &[i64],
        disps: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        let map = old.blocks(blocklengths, disps, 1)?;
        let count = blocklengths.len() as i64;
        let arguments = Arguments::new(counting).count(count).counts(blocklengths).addresses(disps);
        Datatype::build(map, arguments.of(Combiner::Hindexed, from_ref(old)))
    }

    /// Makes equal blocks at displacements in extents of `old` (MPI_Type_create_indexed_block).
    pub fn indexed_block(
        counting: Counting,
        blocklength: i64,
        disps: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        let map = old.equal_blocks(blocklength, disps, old.extent().1)?;
        let arguments =
            Arguments::new(counting).count(disps.len() as i64).count(blocklength).counts(disps);
        Datatype::build(map, arguments.of(Combiner::IndexedBlock, from_ref(old)))
    }

    /// Makes equal blocks at displacements in bytes (MPI_Type_create_hindexed_block).
    pub fn hindexed_block(
        counting: Counting,
        blocklength: i64,
        disps: &[i64],
        old: &Datatype,
    ) -> Result<Datatype> {
        let map = old.equal_blocks(blocklength, disps, 1)?;
        let arguments =
            Arguments::new(counting).count(disps.len() as i64).count(blocklength).addresses(disps);
        Datatype::build(map, arguments.of(Combiner::HindexedBlock, from_ref(old)))
    }

    /// Makes a structure with displacements in bytes (MPI_Type_create_struct, and the old
    /// MPI_Type_struct with its markers).
    pub fn struct_(
        counting: Counting,
        blocklengths: &[i64],
        disps: &[i64],
        types: &[Datatype],
    ) -> Result<Datatype> {
        same_length(blocklengths.len(), disps.len())?;
        same_length(blocklengths.len(), types.len())?;
        let lengths = checked_lengths(blocklengths)?;
        let compose = || {
            let mut builder = Builder::default();
            for ((&length, &disp), old) in lengths.iter().zip(disps).zip(types) {
                if length > 0 {
                    builder.push(old.block(length)?.shift(disp)?)?;
                }
            }
            builder.finish()?.padded()
        };
        let count = blocklengths.len() as i64;
        let arguments = Arguments::new(counting).count(count).counts(blocklengths).addresses(disps);
        Datatype::build(compose(), arguments.of(Combiner::Struct, types))
    }

    /// Sets lower bound and extent in bytes (MPI_Type_create_resized).
    pub fn resized(counting: Counting, old: &Datatype, lb: i64, extent: i64) -> Result<Datatype> {
        let map = old.map().clone().resized(lb, extent);
        Datatype::build(
            map,
            Arguments::new(counting).addresses(&[lb, extent]).of(Combiner::Resized, from_ref(old)),
        )
    }

    /// Duplicates a type (MPI_Type_dup). It is committed if the old one is, and has no name and no
    /// attributes.
    pub fn dup(&self) -> Result<Datatype> {
        let construction = Arguments::new(Counting::Int).of(Combiner::Dup, from_ref(self));
        let new = Datatype::build(Some(self.map().clone()), construction)?;
        if self.is_committed() {
            new.commit();
        }
        Ok(new)
    }

    /// Returns a new object that is made like this one, without its name and attributes.
    /// MPI_Type_get_contents returns it for a derived type.
    pub fn again(&self) -> Result<Datatype> {
        let new = Datatype::build(Some(self.map().clone()), self.0.construction.clone())?;
        if self.is_committed() {
            new.commit();
        }
        Ok(new)
    }

    /// Returns the pair type for MINLOC and MAXLOC, the same object each time
    /// (MPI_Type_get_value_index). `None` if there is no such pair.
    pub fn value_index(value: &Datatype, index: &Datatype) -> Option<Datatype> {
        let (Some(v), Some(i)) = (value.own_basic(), index.own_basic()) else { return None };
        let pair = Basic::pair(v, i)?;
        if pair.handle != 0 {
            return Datatype::predefined(usize::from(pair.handle)).cloned();
        }
        let types = [value.clone(), index.clone()];
        unnamed(pair, || Arguments::new(Counting::Int).of(Combiner::ValueIndex, &types))
    }

    /// Returns a real type (MPI_Type_create_f90_real); `None` stands for MPI_UNDEFINED. MPI_ERR_ARG
    /// if no type has that precision (decimal digits) or range (decimal exponent).
    pub fn f90_real(precision: Option<i32>, range: Option<i32>) -> Result<Datatype> {
        let scalars = [Scalar::F32, Scalar::F64, Scalar::LongDouble, Scalar::F128];
        f90_float(Combiner::F90Real, Family::Floating, scalars, precision, range)
    }

    /// Returns a complex type, with the arguments of `f90_real` (MPI_Type_create_f90_complex).
    pub fn f90_complex(precision: Option<i32>, range: Option<i32>) -> Result<Datatype> {
        let scalars = [Scalar::C32, Scalar::C64, Scalar::CLongDouble, Scalar::C128];
        f90_float(Combiner::F90Complex, Family::Complex, scalars, precision, range)
    }

    /// Returns an integer type of at least so many decimal digits (MPI_Type_create_f90_integer).
    pub fn f90_integer(range: i32) -> Result<Datatype> {
        let scalar = match range {
            ..=2 => Scalar::I8,
            3..=4 => Scalar::I16,
            5..=9 => Scalar::I32,
            10..=18 => Scalar::I64,
            19..=38 => Scalar::I128,
            _ => {
                return Err(Error::new(
                    Class::Arg,
                    format!(
                        "invalid range {range}: no Fortran integer has that many decimal digits"
                    ),
                ));
            }
        };
        let basic = basic_of(Family::FortranInteger, scalar);
        let construction =
            || Arguments::new(Counting::Int).int(range).of(Combiner::F90Integer, &[]);
        basic
            .and_then(|basic| unnamed(basic, construction))
            .ok_or_else(|| Error::internal("Fortran integer without a type"))
    }

    /// Returns the Fortran type of `size` bytes (MPI_Type_match_size). MPI_ERR_ARG if there is
    /// none.
    pub fn match_size(class: TypeClass, size: i32) -> Result<&'static Datatype> {
        let handle = match (class, size) {
            (TypeClass::Logical, 1) => 0x2c0,
            (TypeClass::Logical, 2) => 0x2c8,
            (TypeClass::Logical, 4) => 0x2d0,
            (TypeClass::Logical, 8) => 0x2d8,
            (TypeClass::Logical, 16) => 0x2e0,
            (TypeClass::Integer, 1) => 0x2c1,
            (TypeClass::Integer, 2) => 0x2c9,
            (TypeClass::Integer, 4) => 0x2d1,
            (TypeClass::Integer, 8) => 0x2d9,
            (TypeClass::Integer, 16) => 0x2e1,
            (TypeClass::Real, 2) => 0x2ca,
            (TypeClass::Real, 4) => 0x2d2,
            (TypeClass::Real, 8) => 0x2da,
            (TypeClass::Real, 16) => 0x2e2,
            (TypeClass::Complex, 4) => 0x2d3,
            (TypeClass::Complex, 8) => 0x2db,
            (TypeClass::Complex, 16) => 0x2e3,
            (TypeClass::Complex, 32) => 0x2eb,
            _ => 0,
        };
        Datatype::predefined(handle).ok_or_else(|| {
            Error::new(
                Class::Arg,
                format!("invalid size {size}: no {class:?} type has that many bytes")
                    .to_lowercase(),
            )
        })
    }

    /// Returns `count` adjacent elements.
    pub(super) fn block(&self, count: u64) -> Option<TypeMap> {
        self.map().repeat(count, self.extent().1)
    }

    /// Returns the basic type if this is one, not only consists of one.
    pub(crate) fn own_basic(&self) -> Option<Basic> {
        self.basic().filter(|_| self.is_predefined())
    }

    fn blocks(&self, blocklengths: &[i64], disps: &[i64], unit: i64) -> Result<Option<TypeMap>> {
        same_length(blocklengths.len(), disps.len())?;
        let lengths = checked_lengths(blocklengths)?;
        Ok(self.placed(lengths.iter().copied().zip(disps.iter().copied()), unit))
    }

    fn equal_blocks(&self, blocklength: i64, disps: &[i64], unit: i64) -> Result<Option<TypeMap>> {
        let length = checked(blocklength, "blocklength")?;
        Ok(self.placed(disps.iter().map(|&disp| (length, disp)), unit))
    }

    /// Composes blocks of so many elements, each at a displacement in units of bytes.
    fn placed(&self, blocks: impl Iterator<Item = (u64, i64)>, unit: i64) -> Option<TypeMap> {
        let mut placer = Placer::new(self.map(), self.extent().1, blocks.size_hint().0);
        for (length, disp) in blocks {
            if length > 0 {
                placer.push(length, disp.checked_mul(unit)?)?;
            }
        }
        placer.finish()
    }
}

fn checked_lengths(blocklengths: &[i64]) -> Result<Vec<u64>> {
    blocklengths.iter().map(|&length| checked(length, "blocklength")).collect()
}

/// Fortran's kinds: decimal precision and exponent range of gfortran.
const F90_FLOATS: [(i32, i32); 4] = [(6, 37), (15, 307), (18, 4931), (33, 4931)];

fn f90_float(
    combiner: Combiner,
    family: Family,
    scalars: [Scalar; 4],
    precision: Option<i32>,
    range: Option<i32>,
) -> Result<Datatype> {
    let (digits, exponent) = (precision.unwrap_or(0), range.unwrap_or(0));
    if precision.is_none() && range.is_none() {
        return Err(Error::new(
            Class::Arg,
            "invalid precision and range: at least one must not be MPI_UNDEFINED",
        ));
    }
    let kind = F90_FLOATS.iter().position(|&(p, r)| digits <= p && exponent <= r);
    let basic = kind.and_then(|kind| basic_of(family, scalars[kind]));
    let construction = || {
        let plain = |value: Option<i32>| value.unwrap_or(UNDEFINED);
        Arguments::new(Counting::Int).int(plain(precision)).int(plain(range)).of(combiner, &[])
    };
    basic.and_then(|basic| unnamed(basic, construction)).ok_or_else(|| {
        Error::new(
            Class::Arg,
            format!("invalid precision {digits} and range {exponent}: no type has both"),
        )
    })
}

/// MPI_UNDEFINED of the standard ABI.
const UNDEFINED: i32 = -32766;

/// Returns the Fortran type with that representation.
fn basic_of(family: Family, scalar: Scalar) -> Option<Basic> {
    let fits = |basic: &Basic| basic.family == family && basic.repr == Repr::Single(scalar);
    super::basic::NAMED.iter().rev().map(|&(_, basic)| basic).find(fits)
}

/// Returns a predefined type without a name, the same object each time. Like named types it lives
/// until the process ends.
static UNNAMED: Mutex<Vec<Datatype>> = Mutex::new(Vec::new());

fn unnamed(basic: Basic, construction: impl Fn() -> Construction) -> Option<Datatype> {
    let construction = construction();
    let mut known = lock(&UNNAMED);
    let same = |datatype: &&Datatype| {
        let (ours, theirs) = (&datatype.0.construction, &construction);
        ours.combiner == theirs.combiner
            && ours.contents.integers == theirs.contents.integers
            && ours.contents.types.iter().map(Datatype::identity).eq(theirs
                .contents
                .types
                .iter()
                .map(Datatype::identity))
    };
    if let Some(datatype) = known.iter().find(same) {
        return Some(datatype.clone());
    }
    let datatype = Datatype::fixed(typemap::basic(basic), 0, "", construction)?;
    known.push(datatype.clone());
    Some(datatype)
}
