//! Parts of arrays: MPI_Type_create_subarray and MPI_Type_create_darray
//! (MPI-5.0 §5.1.3, §5.1.4).
//!
//! Both begin with the dimension that is densest in memory; each further dimension repeats the
//! result so far. The type has the extent of the whole array.

use std::slice::from_ref;

use super::Datatype;
use super::construct::{Arguments, Counting, checked};
use super::contents::Combiner;
use super::typemap::{Builder, TypeMap};
use crate::{Class, Error, Result};

/// The order of an array's elements in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Order {
    /// MPI_ORDER_C: the last index runs fastest.
    C = 12,
    /// MPI_ORDER_FORTRAN: the first index runs fastest.
    Fortran = 15,
}

/// The distribution of one dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Distribution {
    /// MPI_DISTRIBUTE_NONE: not distributed.
    None = 16,
    /// MPI_DISTRIBUTE_BLOCK: one block for each process.
    Block = 17,
    /// MPI_DISTRIBUTE_CYCLIC: blocks in turn.
    Cyclic = 18,
}

/// MPI_DISTRIBUTE_DFLT_DARG.
const DEFAULT_ARGUMENT: i32 = 19;

impl Order {
    /// Returns the order of the ABI's number, otherwise MPI_ERR_ARG.
    pub fn from_number(number: i32) -> Result<Order> {
        match number {
            12 => Ok(Order::C),
            15 => Ok(Order::Fortran),
            _ => Err(Error::new(
                Class::Arg,
                format!("invalid order {number}: must be MPI_ORDER_C or MPI_ORDER_FORTRAN"),
            )),
        }
    }

    /// Iterates over the dimensions, densest first.
    fn dimensions(self, ndims: usize) -> Box<dyn Iterator<Item = usize>> {
        match self {
            Order::C => Box::new((0..ndims).rev()),
            Order::Fortran => Box::new(0..ndims),
        }
    }
}

impl Distribution {
    fn from_number(number: i32) -> Result<Distribution> {
        match number {
            16 => Ok(Distribution::None),
            17 => Ok(Distribution::Block),
            18 => Ok(Distribution::Cyclic),
            _ => Err(Error::new(
                Class::Arg,
                format!("invalid distribution {number}: must be an MPI_DISTRIBUTE_ constant"),
            )),
        }
    }
}

impl Datatype {
    /// Makes the type of a subarray (MPI_Type_create_subarray). The three arrays have one entry for
    /// each dimension.
    pub fn subarray(
        counting: Counting,
        sizes: &[i64],
        subsizes: &[i64],
        starts: &[i64],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype> {
        let ndims = sizes.len();
        if ndims == 0 || subsizes.len() != ndims || starts.len() != ndims {
            return Err(Error::new(
                Class::Arg,
                format!("invalid ndims {ndims}: a subarray needs at least 1 dimension"),
            ));
        }
        for ((&size, &subsize), &start) in sizes.iter().zip(subsizes).zip(starts) {
            if subsize < 1 || subsize > size || start < 0 || start > size - subsize {
                let text = format!(
                    "invalid subarray: {subsize} elements from {start} exceed the dimension of {size}"
                );
                return Err(Error::new(Class::Arg, text));
            }
        }
        let compose = || {
            let mut whole = Whole::new(old);
            for dim in order.dimensions(ndims) {
                let part = whole.part.repeat(subsizes[dim] as u64, whole.stride)?;
                whole = whole.grow(part, starts[dim], sizes[dim])?;
            }
            whole.finish()
        };
        let arguments = Arguments::new(counting).int(ndims as i32);
        let arguments = arguments.counts(sizes).counts(subsizes).counts(starts).int(order as i32);
        Datatype::build(compose(), arguments.of(Combiner::Subarray, from_ref(old)))
    }

    /// Makes the type of the part of `rank` among `size` processes in a grid of `psizes`, in
    /// row-major order (MPI_Type_create_darray). The arrays have one entry for each dimension;
    /// `distribs` and `dargs` hold the ABI's numbers.
    #[allow(clippy::too_many_arguments)]
    pub fn darray(
        counting: Counting,
        size: i32,
        rank: i32,
        gsizes: &[i64],
        distribs: &[i32],
        dargs: &[i32],
        psizes: &[i32],
        order: Order,
        old: &Datatype,
    ) -> Result<Datatype> {
        let ndims = gsizes.len();
        if ndims == 0 || [distribs.len(), dargs.len(), psizes.len()] != [ndims; 3] {
            return Err(Error::new(
                Class::Arg,
                format!("invalid ndims {ndims}: a distributed array needs at least 1 dimension"),
            ));
        }
        if let Some(gsize) = gsizes.iter().find(|&&gsize| gsize < 1) {
            return Err(Error::new(
                Class::Arg,
                format!("invalid array size {gsize}: must be above 0"),
            ));
        }
        let coordinates = coordinates(size, rank, psizes)?;
        let deals = (0..ndims).map(|dim| {
            let grid = (i64::from(psizes[dim]), coordinates[dim]);
            Deal::new(gsizes[dim], Distribution::from_number(distribs[dim])?, dargs[dim], grid)
        });
        let deals: Vec<Deal> = deals.collect::<Result<_>>()?;
        let compose = || {
            let mut whole = Whole::new(old);
            for dim in order.dimensions(ndims) {
                let part = deals[dim].apply(&whole.part, whole.stride)?;
                whole = whole.grow(part, deals[dim].start, gsizes[dim])?;
            }
            whole.finish()
        };
        let arguments = Arguments::new(counting).int(size).int(rank).int(ndims as i32);
        let arguments =
            arguments.counts(gsizes).ints(distribs).ints(dargs).ints(psizes).int(order as i32);
        Datatype::build(compose(), arguments.of(Combiner::Darray, from_ref(old)))
    }
}

/// The array so far: its densest dimensions.
struct Whole {
    /// The part of this process.
    part: TypeMap,
    /// Bytes of the whole array so far: the stride of the next dimension.
    stride: i64,
}

impl Whole {
    fn new(old: &Datatype) -> Whole {
        Whole { part: old.map().clone(), stride: old.extent().1 }
    }

    /// Adds a dimension, of which this process has `part` from element `start` on.
    fn grow(self, part: TypeMap, start: i64, size: i64) -> Option<Whole> {
        let part = part.shift(start.checked_mul(self.stride)?)?;
        Some(Whole { part, stride: self.stride.checked_mul(size)? })
    }

    fn finish(self) -> Option<TypeMap> {
        self.part.resized(0, self.stride)
    }
}

/// Returns the coordinates of `rank` in the process grid, row-major.
fn coordinates(size: i32, rank: i32, psizes: &[i32]) -> Result<Vec<i64>> {
    let product = psizes
        .iter()
        .try_fold(1_i32, |product, &extent| product.checked_mul(extent).filter(|_| extent > 0));
    if product != Some(size) {
        return Err(Error::new(
            Class::Arg,
            format!("invalid process grid {psizes:?}: it must have {size} processes"),
        ));
    }
    if rank < 0 || rank >= size {
        return Err(Error::new(
            Class::Arg,
            format!("invalid rank {rank} of {size} processes: must be 0 to {size} - 1"),
        ));
    }
    let mut rest = i64::from(rank);
    let mut coordinates: Vec<i64> = psizes
        .iter()
        .rev()
        .map(|&extent| {
            let own = rest % i64::from(extent);
            rest /= i64::from(extent);
            own
        })
        .collect();
    coordinates.reverse();
    Ok(coordinates)
}

/// The part that one process has of one dimension, in elements.
struct Deal {
    /// The first element of this process.
    start: i64,
    /// Elements in a block.
    block: i64,
    /// Whole blocks of this process.
    count: i64,
    /// Distance of two blocks of this process.
    cycle: i64,
    /// Elements of this process after the last whole block.
    rest: i64,
}

impl Deal {
    fn new(
        size: i64,
        distribution: Distribution,
        argument: i32,
        (processes, own): (i64, i64),
    ) -> Result<Deal> {
        checked(size, "dimension size")?;
        let wrong = |text: String| Err(Error::new(Class::Arg, text));
        let default = argument == DEFAULT_ARGUMENT;
        if !default && argument < 1 && distribution != Distribution::None {
            return wrong(format!("invalid distribution argument {argument}: must be above 0"));
        }
        match distribution {
            Distribution::None if processes != 1 => wrong(format!(
                "invalid process count {processes} of an undistributed dimension: must be 1"
            )),
            Distribution::None => {
                Ok(Deal { start: 0, block: size, count: 1, cycle: size, rest: 0 })
            }
            Distribution::Block => {
                let block = if default {
                    size / processes + i64::from(size % processes > 0)
                } else {
                    i64::from(argument)
                };
                if i128::from(block) * i128::from(processes) < i128::from(size) {
                    return wrong(format!(
                        "invalid distribution: {processes} blocks of {block} cannot hold {size} elements"
                    ));
                }
                let start = (block * own).min(size);
                Ok(Deal { start, block: block.min(size - start), count: 1, cycle: size, rest: 0 })
            }
            Distribution::Cyclic => {
                let block = if default { 1 } else { i64::from(argument) };
                let (start, cycle) = ((block * own).min(size), block * processes);
                // The blocks begin at start, start + cycle, ..; the last may be cut.
                let (rounds, left) = ((size - start) / cycle, (size - start) % cycle);
                let (count, rest) = if left >= block { (rounds + 1, 0) } else { (rounds, left) };
                Ok(Deal { start, block, count, cycle, rest })
            }
        }
    }

    /// Returns this process's elements of a dimension whose elements are `part`, `stride` bytes
    /// apart.
    fn apply(&self, part: &TypeMap, stride: i64) -> Option<TypeMap> {
        let cycle = self.cycle.checked_mul(stride)?;
        let mut all = Builder::default();
        all.push(part.repeat(self.block as u64, stride)?.repeat(self.count as u64, cycle)?)?;
        if self.rest > 0 {
            all.push(
                part.repeat(self.rest as u64, stride)?.shift(self.count.checked_mul(cycle)?)?,
            )?;
        }
        all.finish()
    }
}
