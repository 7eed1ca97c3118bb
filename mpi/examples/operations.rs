//! Operations of reductions: those of MPI, closures, and functions of C.

#![deny(warnings)]

use std::os::raw::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::slice;

use mpi::collective::{SystemOperation, UnsafeUserOperation, UserOperation, reduce_local_into};
use mpi::datatype::{DynBuffer, DynBufferMut, MutView, UserDatatype, View};
use mpi::ffi::MPI_Datatype;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

/// How many closures can be operations at the same time.
const CLOSURES: usize = 64;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    local();
    closures(&world);
    all_closures(&world);
    in_the_order_of_ranks(&world);
    functions_of_c(&world);
}

fn local() {
    let mut result = [4, 1];
    reduce_local_into(&[3, 2][..], &mut result[..], SystemOperation::max());
    assert_eq!(result, [4, 2]);
    let mut bits = 0b1100_u8;
    reduce_local_into(&0b1010_u8, &mut bits, SystemOperation::bitwise_xor());
    assert_eq!(bits, 0b0110);
    assert!(SystemOperation::sum().is_commutative());
    let short = || reduce_local_into(&[3, 2][..], &mut 0, SystemOperation::max());
    assert!(refuses(short), "the result does not fit");
}

/// Adds a number to the sum of two.
fn add(number: i64, first: DynBuffer<'_>, second: DynBufferMut<'_>) {
    let (first, second) = (first.downcast::<i64>().unwrap(), second.downcast::<i64>().unwrap());
    for (first, second) in first.iter().zip(second) {
        *second += first + number;
    }
}

fn closures(world: &SimpleCommunicator) {
    let (rank, size) = (i64::from(world.rank()), i64::from(world.size()));
    // A closure may borrow what outlives the operation.
    let number = 10;
    let operation = UserOperation::commutative(|first, second| add(number, first, second));
    assert!((&operation).is_commutative());
    let mut result = [0; 100];
    world.all_reduce_into(&[rank; 100][..], &mut result[..], &operation);
    assert_eq!(result, [size * (size - 1) / 2 + 10 * (size - 1); 100]);
}

/// Each of many closures is its own operation; one more is refused until one is dropped.
fn all_closures(world: &SimpleCommunicator) {
    let size = i64::from(world.size());
    let make = |number| UserOperation::commutative(move |first, second| add(number, first, second));
    let mut operations: Vec<_> = (0..CLOSURES as i64).map(make).collect();
    assert!(refuses(|| drop(make(0))), "one more than there can be");
    for (number, operation) in (0..).zip(&operations) {
        let mut result = 0;
        world.all_reduce_into(&1_i64, &mut result, operation);
        assert_eq!(result, size + number * (size - 1));
    }

    operations.swap_remove(31);
    operations.push(make(1000));
    let mut result = 0;
    world.all_reduce_into(&1_i64, &mut result, operations.last().unwrap());
    assert_eq!(result, size + 1000 * (size - 1));
    drop(operations);
    for number in 0..2 * CLOSURES as i64 {
        let mut result = 0;
        world.all_reduce_into(&1_i64, &mut result, &make(number));
        assert_eq!(result, size + number * (size - 1));
    }
}

/// The first digits stay first, although the operation is not commutative.
fn in_the_order_of_ranks(world: &SimpleCommunicator) {
    // An element is a number, and ten to the power of its digits.
    let pair = UserDatatype::contiguous(2, &u64::equivalent_datatype());
    let append = UserOperation::associative(|first, mut second| {
        assert_eq!((first.len(), second.len()), (1, 1));
        // SAFETY: an element of this datatype is two numbers.
        let (first, second) = unsafe {
            let first = slice::from_raw_parts(first.as_ptr().cast::<u64>(), 2);
            (first, slice::from_raw_parts_mut(second.as_mut_ptr().cast::<u64>(), 2))
        };
        second[0] += first[0] * second[1];
        second[1] *= first[1];
    });
    assert!(!(&append).is_commutative());
    let (own, mut all) = ([world.rank() as u64 + 1, 10], [0; 2]);
    {
        // SAFETY: both buffers have two numbers.
        let (own, mut all) = unsafe {
            (
                View::with_count_and_datatype(&own[..], 1, &pair),
                MutView::with_count_and_datatype(&mut all[..], 1, &pair),
            )
        };
        world.all_reduce_into(&own, &mut all, &append);
    }
    let digits: String = (1..=world.size()).map(|digit| digit.to_string()).collect();
    assert_eq!(all[0].to_string(), digits);
}

unsafe extern "C" fn smaller(
    first: *mut c_void,
    second: *mut c_void,
    len: *mut c_int,
    _datatype: *mut MPI_Datatype,
) {
    // SAFETY: MPI passes two arrays of that many numbers.
    unsafe {
        let (first, second, len) = (first.cast::<i32>(), second.cast::<i32>(), *len as usize);
        for index in 0..len {
            *second.add(index) = (*second.add(index)).min(*first.add(index));
        }
    }
}

fn functions_of_c(world: &SimpleCommunicator) {
    // SAFETY: the operation is used for such numbers only.
    let operation = unsafe { UnsafeUserOperation::commutative(smaller) };
    let mut result = 0;
    world.all_reduce_into(&(5 - world.rank()), &mut result, &operation);
    assert_eq!(result, 6 - world.size());
}

/// Returns whether a call panics. The question ends a program that cannot unwind.
fn refuses(call: impl FnOnce()) -> bool {
    if cfg!(panic = "abort") {
        return true;
    }
    let hook = take_hook();
    set_hook(Box::new(|_| ()));
    let refused = catch_unwind(AssertUnwindSafe(call)).is_err();
    set_hook(hook);
    refused
}
