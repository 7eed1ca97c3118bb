//! Datatypes against a naive interpreter: a type map as the list of all its
//! basic elements with their displacements, as MPI-5.0 §5.1 defines it.

use proptest::prelude::*;

use super::*;
use crate::buffer::tests::buffer_of;
use Counting::{Int, Large};

/// The type map itself. Pairs are two entries.
#[derive(Clone, Debug)]
struct Naive {
    /// Displacement and bytes of each basic element.
    entries: Vec<(i64, u64)>,
    /// One past the last byte of each element of a basic type or structure, with its padding.
    ends: Vec<i64>,
    lbs: Vec<i64>,
    ubs: Vec<i64>,
    align: i64,
}

impl Naive {
    fn empty() -> Naive {
        Naive { entries: vec![], ends: vec![], lbs: vec![], ubs: vec![], align: 1 }
    }

    fn basic(handle: usize) -> Naive {
        if handle == MPI_LB || handle == MPI_UB {
            let at = |marker| if handle == marker { vec![0] } else { vec![] };
            return Naive { lbs: at(MPI_LB), ubs: at(MPI_UB), ..Naive::empty() };
        }
        let repr = Basic::named(handle as u16).unwrap().repr;
        let entries = match repr {
            Repr::Single(scalar) => vec![(0, scalar.size())],
            Repr::Pair(value, index) => {
                vec![(0, value.size()), (Repr::index_offset(value, index) as i64, index.size())]
            }
        };
        let align = repr.align() as i64;
        Naive { entries, ends: vec![0], lbs: vec![], ubs: vec![], align }.padded()
    }

    fn true_bounds(&self) -> (i64, i64) {
        let low = self.entries.iter().map(|&(disp, _)| disp).min().unwrap_or(0);
        (low, self.entries.iter().map(|&(disp, size)| disp + size as i64).max().unwrap_or(0))
    }

    fn lb(&self) -> i64 {
        self.lbs.iter().copied().min().unwrap_or(self.true_bounds().0)
    }

    fn extent(&self) -> i64 {
        let lb = self.lb();
        match self.ubs.iter().copied().max() {
            Some(ub) => ub - lb,
            None if self.entries.is_empty() => 0,
            None => self.ends.iter().copied().max().unwrap_or(0) - lb,
        }
    }

    /// Adds the padding of a basic type or structure.
    fn padded(mut self) -> Naive {
        let mut end = self.true_bounds().1.max(self.ends.iter().copied().max().unwrap_or(i64::MIN));
        while (end - self.lb()) % self.align != 0 {
            end += 1;
        }
        if !self.entries.is_empty() && self.ubs.is_empty() {
            self.ends = vec![end];
        }
        self
    }

    /// Copies of it at displacements in bytes, one after the other.
    fn at(&self, disps: impl IntoIterator<Item = i64>) -> Naive {
        disps.into_iter().fold(Naive::empty(), |all, disp| all.then(self, disp))
    }

    fn then(mut self, other: &Naive, disp: i64) -> Naive {
        self.entries.extend(other.entries.iter().map(|&(at, size)| (at + disp, size)));
        self.ends.extend(other.ends.iter().map(|end| end + disp));
        self.lbs.extend(other.lbs.iter().map(|lb| lb + disp));
        self.ubs.extend(other.ubs.iter().map(|ub| ub + disp));
        self.align = self.align.max(other.align);
        self
    }

    fn block(&self, count: i64) -> Naive {
        self.at((0..count).map(|i| i * self.extent()))
    }

    /// The displacement of each packed byte.
    fn bytes(&self) -> Vec<i64> {
        self.entries.iter().flat_map(|&(disp, size)| disp..disp + size as i64).collect()
    }
}

/// A random way to make a datatype.
#[derive(Clone, Debug)]
enum Plan {
    Basic(usize),
    Contiguous(i64, Box<Plan>),
    Vector(i64, i64, i64, bool, Box<Plan>),
    Indexed(Vec<(i64, i64)>, bool, Box<Plan>),
    Block(i64, Vec<i64>, bool, Box<Plan>),
    Struct(Vec<(i64, i64, Plan)>),
    Resized(i64, i64, Box<Plan>),
    Subarray(Vec<(i64, i64, i64)>, Order, Box<Plan>),
    Dup(Box<Plan>),
}

impl Plan {
    fn build(&self) -> (Datatype, Naive) {
        match self {
            Plan::Basic(handle) => {
                (Datatype::predefined(*handle).unwrap().clone(), Naive::basic(*handle))
            }
            Plan::Contiguous(count, old) => {
                let (old, naive) = old.build();
                (Datatype::contiguous(Int, *count, &old).unwrap(), naive.block(*count))
            }
            Plan::Vector(count, each, stride, bytes, old) => {
                let (old, naive) = old.build();
                let (make, unit) = if *bytes {
                    (Datatype::hvector(Large, *count, *each, *stride, &old), 1)
                } else {
                    (Datatype::vector(Int, *count, *each, *stride, &old), naive.extent())
                };
                (make.unwrap(), naive.block(*each).at((0..*count).map(|i| i * stride * unit)))
            }
            Plan::Indexed(blocks, bytes, old) => {
                let (old, naive) = old.build();
                let (lengths, disps): (Vec<i64>, Vec<i64>) = blocks.iter().copied().unzip();
                let (make, unit) = if *bytes {
                    (Datatype::hindexed(Int, &lengths, &disps, &old), 1)
                } else {
                    (Datatype::indexed(Large, &lengths, &disps, &old), naive.extent())
                };
                let all = blocks.iter().fold(Naive::empty(), |all, &(length, disp)| match length {
                    0 => all,
                    _ => all.then(&naive.block(length), disp * unit),
                });
                (make.unwrap(), all)
            }
            Plan::Block(each, disps, bytes, old) => {
                let (old, naive) = old.build();
                let (make, unit) = if *bytes {
                    (Datatype::hindexed_block(Int, *each, disps, &old), 1)
                } else {
                    (Datatype::indexed_block(Int, *each, disps, &old), naive.extent())
                };
                let naive = match each {
                    0 => Naive::empty(),
                    _ => naive.block(*each).at(disps.iter().map(|disp| disp * unit)),
                };
                (make.unwrap(), naive)
            }
            Plan::Struct(members) => build_struct(members),
            Plan::Resized(lb, extent, old) => {
                let (old, naive) = old.build();
                let naive = Naive { lbs: vec![*lb], ubs: vec![lb + extent], ..naive };
                (Datatype::resized(Int, &old, *lb, *extent).unwrap(), naive)
            }
            Plan::Subarray(dims, order, old) => build_subarray(dims, *order, old),
            Plan::Dup(old) => {
                let (old, naive) = old.build();
                (old.dup().unwrap(), naive)
            }
        }
    }
}

fn build_struct(members: &[(i64, i64, Plan)]) -> (Datatype, Naive) {
    let (mut lengths, mut disps, mut types, mut all) = (vec![], vec![], vec![], Naive::empty());
    for (length, disp, plan) in members {
        let (datatype, naive) = plan.build();
        lengths.push(*length);
        disps.push(*disp);
        types.push(datatype);
        if *length > 0 {
            all = all.then(&naive.block(*length), *disp);
        }
    }
    (Datatype::struct_(Int, &lengths, &disps, &types).unwrap(), all.padded())
}

/// Every index of the whole array in order of memory; those inside are taken.
fn build_subarray(dims: &[(i64, i64, i64)], order: Order, old: &Plan) -> (Datatype, Naive) {
    let (old, naive) = old.build();
    let part = |pick: fn(&(i64, i64, i64)) -> i64| dims.iter().map(pick).collect::<Vec<_>>();
    let (sizes, subsizes, starts) = (part(|dim| dim.0), part(|dim| dim.1), part(|dim| dim.2));
    let datatype = Datatype::subarray(Int, &sizes, &subsizes, &starts, order, &old).unwrap();
    let total: i64 = sizes.iter().product();
    let mut densest_first: Vec<_> = dims.to_vec();
    if order == Order::C {
        densest_first.reverse();
    }
    let inside = |&index: &i64| {
        let mut rest = index;
        densest_first.iter().all(|&(size, subsize, start)| {
            let at = rest % size;
            rest /= size;
            (start..start + subsize).contains(&at)
        })
    };
    let extent = naive.extent();
    let taken = naive.at((0..total).filter(inside).map(|index| index * extent));
    (datatype, Naive { lbs: vec![0], ubs: vec![total * extent], ..taken })
}

fn plans() -> impl Strategy<Value = Plan> {
    let leaf = prop::sample::select(vec![0x247, 0x208, 0x209, 0x214, 0x228, 0x229, 0x22c, 0x220])
        .prop_map(Plan::Basic);
    let order = prop_oneof![Just(Order::C), Just(Order::Fortran)];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let old = inner.clone().prop_map(Box::new);
        let markers = prop::sample::select(vec![MPI_LB, MPI_UB]).prop_map(Plan::Basic);
        let member = prop_oneof![4 => inner, 1 => markers];
        let dims = prop::collection::vec((1..5_i64, 1..5_i64, 0..5_i64), 1..4).prop_map(|dims| {
            let fit = |(size, subsize, start): (i64, i64, i64)| {
                let subsize = subsize.min(size);
                (size, subsize, start.min(size - subsize))
            };
            dims.into_iter().map(fit).collect::<Vec<_>>()
        });
        prop_oneof![
            (0..5_i64, old.clone()).prop_map(|(count, old)| Plan::Contiguous(count, old)),
            (prop_oneof![0..6_i64, 8..12_i64], 0..4_i64, -6..9_i64, any::<bool>(), old.clone())
                .prop_map(|(count, each, stride, bytes, old)| Plan::Vector(
                    count, each, stride, bytes, old
                )),
            (prop::collection::vec((0..4_i64, -8..20_i64), 0..6), any::<bool>(), old.clone())
                .prop_map(|(blocks, bytes, old)| Plan::Indexed(blocks, bytes, old)),
            (0..4_i64, prop::collection::vec(-8..20_i64, 0..6), any::<bool>(), old.clone())
                .prop_map(|(each, disps, bytes, old)| Plan::Block(each, disps, bytes, old)),
            prop::collection::vec((0..3_i64, -40..80_i64, member), 0..5).prop_map(Plan::Struct),
            (-16..16_i64, -8..64_i64, old.clone())
                .prop_map(|(lb, extent, old)| Plan::Resized(lb, extent, old)),
            (dims, order.clone(), old.clone())
                .prop_map(|(dims, order, old)| Plan::Subarray(dims, order, old)),
            old.prop_map(Plan::Dup),
        ]
    })
}

/// The packed bytes of `count` elements, as displacements into the memory.
fn packed_bytes(naive: &Naive, count: i64) -> Vec<i64> {
    naive.at((0..count).map(|i| i * naive.extent())).bytes()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn sizes_and_bounds_are_those_of_the_type_map(plan in plans()) {
        let (datatype, naive) = plan.build();
        let (low, high) = naive.true_bounds();
        prop_assert_eq!(datatype.size(), naive.bytes().len() as u64);
        prop_assert_eq!(datatype.extent(), (naive.lb(), naive.extent()));
        prop_assert_eq!(datatype.true_extent(), (low, high - low));
        prop_assert_eq!(datatype.elements(), naive.entries.len() as u64);
    }

    #[test]
    fn elements_are_counted_at_any_byte(plan in plans(), repeats in 1..4_u64) {
        let (datatype, naive) = plan.build();
        let (mut bytes, mut elements) = (0, 0);
        for _ in 0..repeats {
            for &(_, size) in &naive.entries {
                for part in 0..size {
                    prop_assert_eq!(datatype.elements_of(bytes + part), (elements, part > 0));
                }
                prop_assert_eq!(datatype.bytes_of(elements), bytes);
                bytes += size;
                elements += 1;
            }
        }
    }

    #[test]
    fn any_piece_is_packed_and_unpacked(plan in plans(), count in prop_oneof![0..5_u64, 60..140_u64], cuts in prop::collection::vec(0.0..=1.0, 0..5), seed in any::<u8>()) {
        let (datatype, naive) = plan.build();
        let (low, high) = datatype.reach(count).unwrap();
        let mut memory: Vec<u8> = (0..high - low).map(|i| (i * 37 + i64::from(seed)) as u8).collect();
        let places = packed_bytes(&naive, count as i64);
        let expected: Vec<u8> = places.iter().map(|&at| memory[(at - low) as usize]).collect();

        let buffer = buffer_of(&mut memory, -low, count, &datatype);
        prop_assert_eq!(buffer.len(), expected.len() as u64);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| (cut * expected.len() as f64) as usize).collect();
        cuts.extend([0, expected.len()]);
        cuts.sort_unstable();
        for pair in cuts.windows(2) {
            let mut piece = vec![0; pair[1] - pair[0]];
            buffer.pack(pair[0] as u64, &mut piece);
            prop_assert_eq!(&piece, &expected[pair[0]..pair[1]]);
        }

        let distinct: std::collections::BTreeSet<i64> = places.iter().copied().collect();
        if distinct.len() < places.len() {
            return Ok(()); // Receiving into the same byte twice is erroneous.
        }
        let news: Vec<u8> = (0..expected.len()).map(|i| (i * 11 + 5) as u8).collect();
        let mut wanted = memory.clone();
        for (&at, &byte) in places.iter().zip(&news) {
            wanted[(at - low) as usize] = byte;
        }
        let buffer = buffer_of(&mut memory, -low, count, &datatype);
        for pair in cuts.windows(2) {
            buffer.unpack(pair[0] as u64, &news[pair[0]..pair[1]]);
        }
        prop_assert_eq!(memory, wanted);
    }

    #[test]
    fn distributed_arrays_are_dealt_out_without_loss(
        dims in prop::collection::vec((1..9_i64, 1..4_i32, 0..3_u8, 1..4_i32), 1..4), order in prop_oneof![Just(Order::C), Just(Order::Fortran)],
    ) {
        let gsizes: Vec<i64> = dims.iter().map(|dim| dim.0).collect();
        let psizes: Vec<i32> = dims.iter().map(|dim| if dim.2 == 0 { 1 } else { dim.1 }).collect();
        let distribs: Vec<i32> = dims.iter().map(|dim| 16 + i32::from(dim.2)).collect();
        // A block must be large enough for all; a cycle may have any length.
        let dargs: Vec<i32> = dims.iter().map(|dim| if dim.2 == 2 { dim.3 } else { 19 }).collect();
        let size: i32 = psizes.iter().product();
        let total: i64 = gsizes.iter().product();
        let mut owners = vec![0; total as usize];
        for rank in 0..size {
            let part = Datatype::darray(Int, size, rank, &gsizes, &distribs, &dargs, &psizes, order, Datatype::byte()).unwrap();
            prop_assert_eq!(part.extent(), (0, total));
            let mut mine = vec![0_u8; total as usize];
            let buffer = buffer_of(&mut mine, 0, 1, &part);
            buffer.unpack(0, &vec![1; part.size() as usize]);
            owners.iter_mut().zip(&mine).for_each(|(owner, mine)| *owner += mine);
            let expected = naive_owner(&gsizes, &distribs, &dargs, &psizes, order, rank);
            prop_assert_eq!(mine, expected);
        }
        prop_assert!(owners.iter().all(|&owner| owner == 1));
    }
}

/// Ones where the element belongs to `rank`.
fn naive_owner(
    gsizes: &[i64],
    distribs: &[i32],
    dargs: &[i32],
    psizes: &[i32],
    order: Order,
    rank: i32,
) -> Vec<u8> {
    let ndims = gsizes.len();
    let total: i64 = gsizes.iter().product();
    let mut coordinates = vec![0; ndims];
    let mut rest = rank;
    for dim in (0..ndims).rev() {
        coordinates[dim] = rest % psizes[dim];
        rest /= psizes[dim];
    }
    let densest_first: Vec<usize> =
        if order == Order::C { (0..ndims).rev().collect() } else { (0..ndims).collect() };
    let owned = |index: i64| {
        let mut rest = index;
        densest_first.iter().all(|&dim| {
            let (at, processes) = (rest % gsizes[dim], i64::from(psizes[dim]));
            rest /= gsizes[dim];
            let owner = match distribs[dim] {
                16 => 0,
                17 => at / ((gsizes[dim] + processes - 1) / processes),
                _ => at / i64::from(if dargs[dim] == 19 { 1 } else { dargs[dim] }) % processes,
            };
            owner == i64::from(coordinates[dim])
        })
    };
    (0..total).map(|index| u8::from(owned(index))).collect()
}

fn int() -> &'static Datatype {
    Datatype::predefined(0x209).unwrap()
}

#[test]
fn every_handle_of_the_abi_is_there() {
    assert_eq!(Datatype::predefined(0x200).map(Datatype::size), None);
    assert!(Datatype::predefined(0).is_none() && Datatype::predefined(usize::MAX).is_none());
    for &(name, basic) in &basic::NAMED {
        let datatype = Datatype::predefined(usize::from(basic.handle)).unwrap();
        assert_eq!((datatype.name().as_str(), datatype.size()), (name, basic.repr.size()));
        assert_eq!(datatype.basic(), Some(basic));
        assert!(datatype.is_committed() && datatype.is_predefined());
        assert_eq!(datatype.envelope().combiner, Combiner::Named);
    }
}

#[test]
fn the_old_markers_set_bounds() {
    let markers =
        [Datatype::predefined(MPI_LB).unwrap(), int(), Datatype::predefined(MPI_UB).unwrap()]
            .map(Clone::clone);
    let marked = Datatype::struct_(Int, &[1, 1, 1], &[-3, 0, 6], &markers).unwrap();
    assert_eq!((marked.extent(), marked.size()), ((-3, 9), 4));
    // The example of MPI-1.1 §3.12.3: two of them reach from -3 to 15.
    let two = Datatype::contiguous(Int, 2, &marked).unwrap();
    assert_eq!((two.extent(), two.true_extent()), ((-3, 18), (0, 13)));
    let one_end =
        Datatype::struct_(Int, &[1, 1], &[0, 6], &[int().clone(), markers[2].clone()]).unwrap();
    assert_eq!(one_end.extent(), (0, 6));
}

#[test]
fn a_struct_is_padded_to_its_alignment() {
    let types = [
        Datatype::predefined(0x214).unwrap().clone(),
        Datatype::predefined(0x243).unwrap().clone(),
    ];
    let padded = Datatype::struct_(Int, &[1, 1], &[0, 8], &types).unwrap();
    assert_eq!((padded.extent(), padded.true_extent(), padded.size()), ((0, 16), (0, 9), 9));
}

#[test]
fn blocks_at_misaligned_displacements_are_not_padded() {
    let extent = |made: Result<Datatype>| made.unwrap().extent();
    assert_eq!(extent(Datatype::hvector(Int, 2, 1, 5, int())), (0, 9));
    assert_eq!(extent(Datatype::hindexed(Int, &[4, 4], &[1, 25], int())), (1, 40));
    // Whole elements are placed, each with its padding.
    let types = [int().clone(), Datatype::predefined(0x243).unwrap().clone()];
    let padded = Datatype::struct_(Int, &[1, 1], &[0, 4], &types).unwrap();
    let two = Datatype::hvector(Int, 2, 1, 9, &padded).unwrap();
    assert_eq!((two.extent(), two.true_extent()), ((0, 17), (0, 14)));
    // A structure of them is padded.
    assert_eq!(extent(Datatype::struct_(Int, &[1], &[0], &[two])), (0, 20));
}

#[test]
fn envelopes_distinguish_both_forms() {
    let shape = |datatype: &Datatype| {
        let envelope = datatype.envelope();
        (envelope.combiner, envelope.integers, envelope.addresses, envelope.counts, envelope.types)
    };
    let both = |make: &dyn Fn(Counting) -> Datatype| [shape(&make(Int)), shape(&make(Large))];
    use Combiner::*;
    let byte = Datatype::byte();
    assert_eq!(
        both(&|form| Datatype::contiguous(form, 3, byte).unwrap()),
        [(Contiguous, 1, 0, 0, 1), (Contiguous, 0, 0, 1, 1)]
    );
    assert_eq!(
        both(&|form| Datatype::vector(form, 3, 1, 2, byte).unwrap()),
        [(Vector, 3, 0, 0, 1), (Vector, 0, 0, 3, 1)]
    );
    assert_eq!(
        both(&|form| Datatype::hvector(form, 3, 1, 2, byte).unwrap()),
        [(Hvector, 2, 1, 0, 1), (Hvector, 0, 0, 3, 1)]
    );
    assert_eq!(
        both(&|form| Datatype::indexed(form, &[1, 2], &[0, 5], byte).unwrap()),
        [(Indexed, 5, 0, 0, 1), (Indexed, 0, 0, 5, 1)]
    );
    assert_eq!(
        both(&|form| Datatype::hindexed(form, &[1, 2], &[0, 5], byte).unwrap()),
        [(Hindexed, 3, 2, 0, 1), (Hindexed, 0, 0, 5, 1)]
    );
    assert_eq!(
        both(&|form| Datatype::indexed_block(form, 2, &[0, 5], byte).unwrap()),
        [(IndexedBlock, 4, 0, 0, 1), (IndexedBlock, 0, 0, 4, 1)]
    );
    assert_eq!(
        both(&|form| Datatype::hindexed_block(form, 2, &[0, 5], byte).unwrap()),
        [(HindexedBlock, 2, 2, 0, 1), (HindexedBlock, 0, 0, 4, 1)]
    );
    let types = [byte.clone(), byte.clone()];
    assert_eq!(
        both(&|form| Datatype::struct_(form, &[1, 2], &[0, 5], &types).unwrap()),
        [(Struct, 3, 2, 0, 2), (Struct, 0, 0, 5, 2)]
    );
    assert_eq!(
        both(&|form| Datatype::resized(form, byte, 0, 5).unwrap()),
        [(Resized, 0, 2, 0, 1), (Resized, 0, 0, 2, 1)]
    );
    let subarray =
        |form| Datatype::subarray(form, &[4, 5], &[2, 3], &[1, 1], Order::C, byte).unwrap();
    assert_eq!(both(&subarray), [(Subarray, 8, 0, 0, 1), (Subarray, 2, 0, 6, 1)]);
    assert_eq!(subarray(Int).contents().unwrap().integers, [2, 4, 5, 2, 3, 1, 1, 12]);
    let darray = |form| {
        Datatype::darray(form, 4, 1, &[4, 5], &[17, 18], &[19, 2], &[2, 2], Order::Fortran, byte)
            .unwrap()
    };
    assert_eq!(both(&darray), [(Darray, 12, 0, 0, 1), (Darray, 10, 0, 2, 1)]);
    assert_eq!(darray(Int).contents().unwrap().integers, [4, 1, 2, 4, 5, 17, 18, 19, 2, 2, 2, 15]);
    assert_eq!(shape(&byte.dup().unwrap()), (Dup, 0, 0, 0, 1));
    assert!(byte.dup().unwrap().is_committed() && !subarray(Int).is_committed());
    assert_eq!(byte.contents().unwrap_err().class(), Class::Type);
}

#[test]
fn wrong_arguments_have_their_classes() {
    let class = |result: Result<Datatype>| result.unwrap_err().class();
    let byte = Datatype::byte();
    assert_eq!(class(Datatype::contiguous(Int, -1, byte)), Class::Count);
    assert_eq!(class(Datatype::vector(Int, 1, -1, 1, byte)), Class::Arg);
    assert_eq!(class(Datatype::indexed(Int, &[1, -1], &[0, 1], byte)), Class::Arg);
    assert_eq!(class(Datatype::contiguous(Large, i64::MAX, int())), Class::Type);
    assert_eq!(class(Datatype::hvector(Large, 3, 1, i64::MAX, byte)), Class::Type);
    assert_eq!(class(Datatype::subarray(Int, &[4], &[5], &[0], Order::C, byte)), Class::Arg);
    assert_eq!(class(Datatype::subarray(Int, &[4], &[2], &[3], Order::C, byte)), Class::Arg);
    assert_eq!(
        class(Datatype::darray(Int, 3, 0, &[4], &[17], &[19], &[2], Order::C, byte)),
        Class::Arg
    );
    assert_eq!(
        class(Datatype::darray(Int, 2, 0, &[4], &[17], &[1], &[2], Order::C, byte)),
        Class::Arg
    );
    assert_eq!(
        class(Datatype::darray(Int, 2, 0, &[4], &[16], &[19], &[2], Order::C, byte)),
        Class::Arg
    );
    assert_eq!(class(Datatype::f90_real(Some(40), None)), Class::Arg);
    assert_eq!(Datatype::match_size(TypeClass::Real, 3).unwrap_err().class(), Class::Arg);
}

#[test]
fn predefined_types_without_names_are_made_once() {
    let real = Datatype::f90_real(Some(15), Some(300)).unwrap();
    assert!(real.is_same(&Datatype::f90_real(Some(15), Some(300)).unwrap()));
    assert!(!real.is_same(&Datatype::f90_real(Some(14), Some(300)).unwrap()));
    assert_eq!((real.size(), real.envelope().combiner), (8, Combiner::F90Real));
    assert_eq!(
        Datatype::f90_real(None, Some(300)).unwrap().contents().unwrap().integers,
        [-32766, 300]
    );
    assert_eq!(Datatype::f90_complex(Some(6), None).unwrap().size(), 8);
    assert_eq!(Datatype::f90_integer(12).unwrap().size(), 8);
    let float = Datatype::predefined(0x210).unwrap();
    assert!(
        Datatype::value_index(float, int()).unwrap().is_same(Datatype::predefined(0x228).unwrap())
    );
    let long = Datatype::predefined(0x20a).unwrap();
    let pair = Datatype::value_index(float, long).unwrap();
    assert!(pair.is_same(&Datatype::value_index(float, long).unwrap()) && pair.is_predefined());
    assert_eq!((pair.size(), pair.extent(), pair.elements()), (12, (0, 16), 2));
    assert!(Datatype::value_index(float, Datatype::predefined(0x212).unwrap()).is_none());
}

#[test]
fn chains_of_any_length_come_and_go() {
    let mut datatype = int().clone();
    for _ in 0..100_000 {
        datatype = datatype.dup().unwrap();
    }
    drop(datatype);
    // A type that nests deeper and deeper is refused in the end, and does no harm.
    let mut nest = int().clone();
    let refused = loop {
        let (_, extent) = nest.extent();
        match Datatype::hvector(Large, 2, 1, extent + 4, &nest) {
            Ok(next) => nest = next,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.class(), Class::Type);
    let mut chain = int().clone();
    let refused = loop {
        let (_, extent) = chain.extent();
        match Datatype::struct_(Int, &[1, 1], &[0, 8 + extent], &[chain.clone(), int().clone()]) {
            Ok(next) => chain = next,
            Err(error) => break error,
        }
        if chain.size() > 40_000 {
            return;
        }
    };
    assert_eq!(refused.class(), Class::Type);
}

#[test]
fn large_counts_do_not_wrap() {
    let huge = Datatype::contiguous(Large, 1 << 60, int()).unwrap();
    assert_eq!(huge.size(), 1 << 62);
    assert_eq!(huge.reach(3), None);
    assert_eq!(huge.external_size(3), None);
    assert_eq!(huge.elements_of(1 << 40), (1 << 38, false));
    let strided = Datatype::vector(Large, 1 << 40, 1, 1 << 20, int()).unwrap();
    assert_eq!(strided.true_extent().1, ((1 << 40) - 1) * (1 << 22) + 4);
}
