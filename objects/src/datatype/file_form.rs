//! The form that a datatype has in a file whose data representation has other sizes than memory
//! (MPI-5.0 §14.5).
//!
//! The type is made again by its constructors from types of the file's sizes. Displacements in
//! elements therefore scale. Displacements in bytes stay as they are: the user computes them from
//! MPI_File_get_type_extent, as the standard demands.

use super::{Basic, Combiner, Contents, Counting, Datatype, Order};
use crate::{Class, Error, Result};

/// Most constructors inside each other; a deeper type is refused.
const MAX_NESTED: u32 = 1000;

impl Datatype {
    /// Returns this type with the sizes of a file. `size` returns the bytes of one basic element in
    /// the file.
    pub fn in_file(&self, size: &mut dyn FnMut(Basic) -> Result<u64>) -> Result<Datatype> {
        form(self, size, 0)
    }

    /// Returns the bytes in a file of one element: the sum over its basic elements.
    pub fn size_in_file(&self, size: &mut dyn FnMut(Basic) -> Result<u64>) -> Result<u64> {
        let mut total = 0u64;
        self.map().signature.try_for_each_run(&mut |basic, count| {
            let bytes = size(basic)?.checked_mul(count).and_then(|more| total.checked_add(more));
            total = bytes.ok_or_else(too_large)?;
            Ok(())
        })?;
        Ok(total)
    }

    /// Returns the native bytes of the whole basic elements in so many bytes of "external32".
    /// Elements count up to those of `count` elements of this type.
    pub fn native_bytes_of(&self, external: u64, count: u64) -> u64 {
        let totals = self.map().signature.totals();
        if totals.external == 0 {
            return 0;
        }
        let whole = (external / totals.external).min(count);
        if whole == count {
            return whole.saturating_mul(totals.size);
        }
        let (mut left, mut bytes) = (external % totals.external, 0);
        let _ = self.map().signature.try_for_each_run(&mut |basic, count| {
            let fits = (left / basic.repr.external_size()).min(count);
            left -= fits * basic.repr.external_size();
            bytes += fits * basic.repr.size();
            if fits < count { Err(()) } else { Ok(()) }
        });
        whole.saturating_mul(totals.size).saturating_add(bytes)
    }
}

fn too_large() -> Error {
    Error::new(Class::Type, "datatype too large: it spans more than 2^63 bytes of the file")
}

fn form(ty: &Datatype, size: &mut dyn FnMut(Basic) -> Result<u64>, depth: u32) -> Result<Datatype> {
    if depth > MAX_NESTED {
        let text = format!("datatype nested too deeply: must have at most {MAX_NESTED} levels");
        return Err(Error::new(Class::Type, text));
    }
    if let Some(basic) = ty.basic().filter(|_| ty.is_predefined()) {
        let (bytes, lb) = (size(basic)?, ty.true_extent().0);
        if ty.is_contiguous() && lb == 0 && bytes == ty.size() {
            return Ok(ty.clone());
        }
        let bytes = i64::try_from(bytes).map_err(|_| too_large())?;
        return Datatype::contiguous(Counting::Large, bytes, Datatype::byte());
    }
    if ty.is_predefined() {
        return Ok(ty.clone());
    }
    let contents = ty.contents()?;
    let types = contents.types.iter().map(|old| form(old, size, depth + 1));
    let types: Vec<Datatype> = types.collect::<Result<_>>()?;
    make_again(ty.envelope().combiner, contents, &types)
}

/// Applies a constructor to other types. The arguments are in the order of MPI-5.0 §5.1.13.
fn make_again(combiner: Combiner, contents: &Contents, types: &[Datatype]) -> Result<Datatype> {
    let mut arguments = Arguments { contents, integers: 0, addresses: 0, counts: 0 };
    let args = &mut arguments;
    let large = Counting::Large;
    // Only a structure can be without a type.
    let old = types.first().unwrap_or(Datatype::byte());
    Ok(match combiner {
        Combiner::Dup => old.clone(),
        Combiner::Contiguous => Datatype::contiguous(large, args.count(), old)?,
        Combiner::Vector => Datatype::vector(large, args.count(), args.count(), args.count(), old)?,
        Combiner::Hvector => {
            Datatype::hvector(large, args.count(), args.count(), args.address(), old)?
        }
        Combiner::Indexed => {
            let blocks = args.count();
            Datatype::indexed(large, &args.counts(blocks), &args.counts(blocks), old)?
        }
        Combiner::Hindexed => {
            let blocks = args.count();
            Datatype::hindexed(large, &args.counts(blocks), &args.addresses(blocks), old)?
        }
        Combiner::IndexedBlock => {
            let (blocks, length) = (args.count(), args.count());
            Datatype::indexed_block(large, length, &args.counts(blocks), old)?
        }
        Combiner::HindexedBlock => {
            let (blocks, length) = (args.count(), args.count());
            Datatype::hindexed_block(large, length, &args.addresses(blocks), old)?
        }
        Combiner::Struct => {
            let blocks = args.count();
            Datatype::struct_(large, &args.counts(blocks), &args.addresses(blocks), types)?
        }
        Combiner::Resized => Datatype::resized(large, old, args.address(), args.address())?,
        Combiner::Subarray => {
            let dims = args.integer().into();
            let (sizes, subsizes) = (args.counts(dims), args.counts(dims));
            let starts = args.counts(dims);
            let order = Order::from_number(args.integer())?;
            Datatype::subarray(large, &sizes, &subsizes, &starts, order, old)?
        }
        Combiner::Darray => darray_again(args, old)?,
        other => {
            let text = format!("invalid constructor {other:?} in a file type");
            return Err(Error::new(Class::Type, text));
        }
    })
}

fn darray_again(args: &mut Arguments<'_>, old: &Datatype) -> Result<Datatype> {
    let (size, rank, dims) = (args.integer(), args.integer(), args.integer());
    let gsizes = args.counts(dims.into());
    let (distribs, dargs, psizes) = (args.ints(dims), args.ints(dims), args.ints(dims));
    let order = Order::from_number(args.integer())?;
    let large = Counting::Large;
    Datatype::darray(large, size, rank, &gsizes, &distribs, &dargs, &psizes, order, old)
}

/// The arguments of a constructor, read in order. A constructor with large counts keeps counts and
/// addresses in one list.
struct Arguments<'a> {
    contents: &'a Contents,
    integers: usize,
    addresses: usize,
    counts: usize,
}

impl Arguments<'_> {
    fn integer(&mut self) -> i32 {
        self.integers += 1;
        self.contents.integers.get(self.integers - 1).copied().unwrap_or_default()
    }

    fn count(&mut self) -> i64 {
        if self.contents.counts.is_empty() { self.integer().into() } else { self.large() }
    }

    fn address(&mut self) -> i64 {
        if !self.contents.counts.is_empty() {
            return self.large();
        }
        self.addresses += 1;
        self.contents.addresses.get(self.addresses - 1).copied().unwrap_or_default()
    }

    fn large(&mut self) -> i64 {
        self.counts += 1;
        self.contents.counts.get(self.counts - 1).copied().unwrap_or_default()
    }

    fn ints(&mut self, len: i32) -> Vec<i32> {
        (0..len).map(|_| self.integer()).collect()
    }

    fn counts(&mut self, len: i64) -> Vec<i64> {
        (0..len).map(|_| self.count()).collect()
    }

    fn addresses(&mut self, len: i64) -> Vec<i64> {
        (0..len).map(|_| self.address()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn external(basic: Basic) -> Result<u64> {
        Ok(basic.repr.external_size())
    }

    #[test]
    fn constructors_are_applied_to_the_files_sizes() {
        let long = Datatype::predefined(0x20a).unwrap();
        let (int, large) = (Counting::Int, Counting::Large);
        let c = Order::C;
        let native = [
            Datatype::vector(int, 3, 2, 5, long).unwrap(),
            Datatype::indexed(large, &[1, 2], &[0, 4], long).unwrap(),
            Datatype::indexed_block(int, 2, &[0, 4], long).unwrap(),
            Datatype::subarray(int, &[4, 6], &[2, 3], &[1, 2], c, long).unwrap(),
            Datatype::subarray(large, &[4, 6], &[2, 3], &[1, 2], c, long).unwrap(),
            Datatype::darray(int, 4, 1, &[5, 7], &[17, 18], &[19, 2], &[2, 2], c, long).unwrap(),
            Datatype::hindexed(int, &[1, 2], &[0, 64], long).unwrap(),
            Datatype::contiguous(large, 7, long).unwrap().dup().unwrap(),
        ];
        for ty in &native {
            let made = ty.in_file(&mut external).unwrap();
            assert_eq!(made.size() * 2, ty.size(), "{ty:?}");
            assert_eq!(ty.size_in_file(&mut external).unwrap(), made.size());
            let (mut here, mut there) = (ty.runs(0), made.runs(0));
            for _ in 0..20 {
                let (one, other) = (here.take(8).unwrap(), there.take(4).unwrap());
                let by_bytes = ty.envelope().combiner == Combiner::Hindexed;
                assert!(by_bytes || (one.at, one.len) == (other.at * 2, other.len * 2), "{ty:?}");
            }
        }
    }

    #[test]
    fn native_bytes_count_whole_elements() {
        let types = [0x209, 0x20a].map(|handle| Datatype::predefined(handle).unwrap().clone());
        let pair = Datatype::struct_(Counting::Int, &[1, 1], &[0, 8], &types).unwrap();
        let wanted = [(0, 0), (3, 0), (4, 4), (7, 4), (8, 12), (11, 12), (16, 24), (99, 24)];
        for (external, native) in wanted {
            assert_eq!(pair.native_bytes_of(external, 2), native, "{external}");
        }
    }
}
