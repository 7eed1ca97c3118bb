//! Datatypes that the program makes: columns of a matrix, blocks, structures, and buffers whose
//! type is known at run time.

#![allow(unsafe_code)]

use mpi::Address;
use mpi::datatype::{
    DynBuffer, DynBufferMut, MutView, UncommittedDatatypeRef, UncommittedUserDatatype,
    UserDatatype, View, address_of,
};
use mpi::point_to_point as p2p;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

const ROWS: usize = 3;
const COLUMNS: usize = 4;

fn main() {
    let universe = mpi::initialize().unwrap();
    let world = universe.world();
    columns(&world);
    blocks(&world);
    block(&world);
    structures(&world);
    dynamic(&world);
    states();
}

/// Sends `sent` to the next rank and receives `received` from the one before.
fn shift<S, R>(world: &SimpleCommunicator, sent: &S, received: &mut R)
where
    S: Buffer + ?Sized,
    R: BufferMut + ?Sized,
{
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let before = world.process_at_rank((rank + size - 1) % size);
    p2p::send_receive_into(sent, &next, received, &before);
}

/// Each rank sends the second column of its matrix, which arrives as the third one.
fn columns(world: &SimpleCommunicator) {
    let before = (world.rank() + world.size() - 1) % world.size();
    let element = |rank: i32, row: usize, column: usize| {
        f64::from(rank) * 100.0 + (row * COLUMNS + column) as f64
    };
    let column = UserDatatype::vector(ROWS as i32, 1, COLUMNS as i32, &f64::equivalent_datatype());

    let mine: Vec<f64> = (0..ROWS * COLUMNS)
        .map(|index| element(world.rank(), index / COLUMNS, index % COLUMNS))
        .collect();
    let mut theirs = [-1.0; ROWS * COLUMNS];
    // SAFETY: a column from the second or third element on lies within the matrix.
    let (sent, mut received) = unsafe {
        (
            View::with_count_and_datatype(&mine[1..], 1, &column),
            MutView::with_count_and_datatype(&mut theirs[2..], 1, &column),
        )
    };
    shift(world, &sent, &mut received);
    for (index, &value) in theirs.iter().enumerate() {
        let (row, at) = (index / COLUMNS, index % COLUMNS);
        assert_eq!(value, if at == 2 { element(before, row, 1) } else { -1.0 });
    }
}

/// Every constructor of blocks picks the elements 1, 4 and 5.
fn blocks(world: &SimpleCommunicator) {
    let int = i32::equivalent_datatype();
    let bytes = size_of::<i32>() as Address;
    let pair = UncommittedUserDatatype::contiguous(2, &int);
    let datatypes = [
        UserDatatype::indexed(&[1, 2], &[1, 4], &int),
        UserDatatype::heterogeneous_indexed(&[1, 2], &[bytes, 4 * bytes], &int),
        UserDatatype::indexed_block(1, &[1, 4, 5], &int),
        UserDatatype::heterogeneous_indexed_block(1, &[bytes, 4 * bytes, 5 * bytes], &int),
        UserDatatype::structured(&[1, 1], &[bytes, 4 * bytes], &[int.into(), pair.as_ref()]),
    ];
    let values: Vec<i32> = (0..6).map(|index| 10 * world.rank() + index).collect();
    let before = (world.rank() + world.size() - 1) % world.size();
    for datatype in &datatypes {
        let mut received = [0; 3];
        // SAFETY: the last element, 5, lies within the values.
        shift(
            world,
            &unsafe { View::with_count_and_datatype(&values, 1, datatype) },
            &mut received,
        );
        assert_eq!(received, [1, 4, 5].map(|index| 10 * before + index));
    }

    // Every second element.
    let every_second = UserDatatype::heterogeneous_vector(3, 1, 2 * bytes, &int);
    let mut received = [0; 6];
    // SAFETY: the last element, 4, lies within the array.
    let mut view = unsafe { MutView::with_count_and_datatype(&mut received, 1, &every_second) };
    shift(world, &values[..3], &mut view);
    assert_eq!(received, [10 * before, 0, 10 * before + 1, 0, 10 * before + 2, 0]);
}

/// A block of the matrix is sent and arrives as a whole.
fn block(world: &SimpleCommunicator) {
    let before = (world.rank() + world.size() - 1) % world.size();
    let mine: Vec<i32> = (0..(ROWS * COLUMNS) as i32).map(|at| 100 * world.rank() + at).collect();
    let int = i32::equivalent_datatype();
    let block = UserDatatype::subarray(&[ROWS, COLUMNS], &[2, 2], &[1, 1], &int);
    assert_eq!((block.size(), block.extent()), (16, (0, size_of_val(&mine[..]) as i64)));
    let mut received = [0; 4];
    // SAFETY: the datatype has the extent of the matrix.
    shift(world, &unsafe { View::with_count_and_datatype(&mine, 1, &block) }, &mut received);
    assert_eq!(received, [5, 6, 9, 10].map(|at| 100 * before + at));

    // With the extent of an element, a column follows the one before: the matrix is transposed.
    let column = UncommittedUserDatatype::vector(ROWS as i32, 1, COLUMNS as i32, &int);
    let column = UserDatatype::resized(0, size_of::<i32>() as Address, &column);
    let mut received = [0; ROWS * COLUMNS];
    // SAFETY: as many columns as the matrix has lie within it.
    let columns = unsafe { View::with_count_and_datatype(&mine, COLUMNS as i32, &column) };
    shift(world, &columns, &mut received);
    for (at, &value) in received.iter().enumerate() {
        assert_eq!(value, 100 * before + (at % ROWS * COLUMNS + at / ROWS) as i32);
    }
}

/// A structure's datatype can be made of the addresses of its fields.
fn structures(world: &SimpleCommunicator) {
    struct Sample {
        weight: f64,
        counts: [u16; 3],
        valid: bool,
    }

    let datatype_of = |sample: &Sample| {
        let start = address_of(sample);
        UserDatatype::structured(
            &[1, 3, 1],
            &[
                address_of(&sample.weight) - start,
                address_of(&sample.counts) - start,
                address_of(&sample.valid) - start,
            ],
            &[
                UncommittedDatatypeRef::from(f64::equivalent_datatype()),
                u16::equivalent_datatype().into(),
                bool::equivalent_datatype().into(),
            ],
        )
    };

    // SAFETY: the datatype has one start address and the displacements of the fields from there.
    unsafe impl Equivalence for Sample {
        type Out = UserDatatype;

        fn equivalent_datatype() -> UserDatatype {
            let fields = UncommittedUserDatatype::structured(
                &[1, 3, 1],
                &[
                    std::mem::offset_of!(Sample, weight) as Address,
                    std::mem::offset_of!(Sample, counts) as Address,
                    std::mem::offset_of!(Sample, valid) as Address,
                ],
                &[
                    UncommittedDatatypeRef::from(f64::equivalent_datatype()),
                    u16::equivalent_datatype().into(),
                    bool::equivalent_datatype().into(),
                ],
            );
            fields.commit()
        }
    }

    let mine = Sample { weight: 0.5, counts: [world.rank() as u16, 7, 9], valid: true };
    let mut theirs = Sample { weight: 0.0, counts: [0; 3], valid: false };
    shift(world, &mine, &mut theirs);
    let before = (world.rank() + world.size() - 1) % world.size();
    assert_eq!((theirs.weight, theirs.counts, theirs.valid), (0.5, [before as u16, 7, 9], true));

    theirs = Sample { weight: 0.0, counts: [0; 3], valid: false };
    let datatype = datatype_of(&theirs);
    // SAFETY: the datatype describes the fields of one sample.
    let mut view = unsafe { MutView::with_count_and_datatype(&mut theirs, 1, &datatype) };
    shift(world, &mine, &mut view);
    assert_eq!(theirs.counts, [before as u16, 7, 9]);
}

/// A buffer whose type is known at run time is sent like any other.
fn dynamic(world: &SimpleCommunicator) {
    let before = (world.rank() + world.size() - 1) % world.size();
    let mine = [world.rank() as i64; 5];
    let mut theirs = [0_i64; 5];
    let mut received = DynBufferMut::new(&mut theirs[..]);
    shift(world, &DynBuffer::new(&mine[..]), &mut received);
    assert!(received.reborrow().downcast::<u64>().is_none());
    assert_eq!(received.downcast::<i64>().unwrap(), [i64::from(before); 5]);
}

/// A duplicate lives on without its original, and is committed if that was.
fn states() {
    let int = i32::equivalent_datatype();
    let part = UncommittedUserDatatype::contiguous(2, &int);
    let committed = part.dup().commit();
    drop(part);
    let duplicate = committed.clone();
    drop(committed);
    let of_the_standard: UserDatatype = int.dup();
    assert_ne!(duplicate.as_raw(), of_the_standard.as_raw());
}
