//! Structures that are sent: `derive(Equivalence)`.

use std::panic::catch_unwind;

use mpi::point_to_point as p2p;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;

const DIMENSIONS: usize = 3;

#[derive(Clone, Copy, Debug, Default, PartialEq, Equivalence)]
struct Id(u16, bool);

#[derive(Clone, Copy, Debug, Default, PartialEq, Equivalence)]
struct Particle {
    kind: u8,
    position: [f64; DIMENSIONS],
    id: Id,
    pairs: [(u8, [u32; 2], ()); 2],
    nothing: Unit,
    complex: num_complex::Complex32,
    index: usize,
}

/// A byte with much padding at the end, which MPI cannot know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Equivalence)]
#[repr(align(64))]
struct Line(u8);

#[derive(Clone, Copy, Debug, Default, PartialEq, Equivalence)]
#[repr(C, packed)]
struct Packed {
    tag: u8,
    value: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Equivalence)]
struct Unit;

#[derive(Equivalence)]
struct Late(#[allow(dead_code, reason = "only its datatype is asked for")] i32);

mod elsewhere {
    pub(crate) use mpi as message_passing;
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Equivalence)]
#[mpi(crate = "crate::elsewhere::message_passing")]
struct ByAnotherPath {
    value: i32,
}

fn main() {
    assert!(refuses::<Late>(), "there are no datatypes before MPI is initialized");
    let universe = mpi::initialize().unwrap();
    let world = universe.world();

    let particle = |rank: i32| Particle {
        kind: 7,
        position: [0.5, f64::from(rank), -1.0],
        id: Id(rank as u16, true),
        pairs: [(1, [2, 3], ()), (4, [5, rank as u32], ())],
        nothing: Unit,
        complex: num_complex::Complex32::new(0.0, rank as f32),
        index: usize::MAX - rank as usize,
    };
    arrive(&world, particle);
    arrive(&world, |rank| Line(rank as u8));
    arrive(&world, |rank| Packed { tag: 3, value: f64::from(rank) });
    arrive(&world, |rank| ByAnotherPath { value: rank });
    assert_eq!(shifted(&world, &Unit), Unit);
    more_elements_than_an_int_counts(&world);

    let first = Particle::equivalent_datatype().as_raw();
    assert_eq!(Particle::equivalent_datatype().as_raw(), first, "a datatype is made once");
    drop(universe);
    assert!(refuses::<Late>(), "none is made after MPI was finalized");
    assert!(refuses::<Particle>(), "and those that were made are gone");
}

/// Returns whether a type has no datatype now. The question ends a program that cannot unwind.
fn refuses<T: Equivalence>() -> bool {
    if cfg!(panic = "abort") {
        return true;
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let refused = catch_unwind(|| drop(T::equivalent_datatype())).is_err();
    std::panic::set_hook(hook);
    refused
}

/// Sends a value to the next rank and returns that of the one before.
fn shifted<T: Equivalence>(world: &SimpleCommunicator, value: &T) -> T {
    let (rank, size) = (world.rank(), world.size());
    let next = world.process_at_rank((rank + 1) % size);
    let before = world.process_at_rank((rank + size - 1) % size);
    p2p::send_receive(value, &next, &before).0
}

/// Checks that values arrive, one and several.
fn arrive<T>(world: &SimpleCommunicator, value: impl Fn(i32) -> T)
where
    T: Equivalence + Copy + PartialEq + std::fmt::Debug + Default,
{
    let (rank, size) = (world.rank(), world.size());
    let (next, before) = ((rank + 1) % size, (rank + size - 1) % size);
    assert_eq!(shifted(world, &value(rank)), value(before));

    let values = [value(rank), value(rank + 1), value(rank + 2)];
    let mut received = [T::default(); 4];
    let status = p2p::send_receive_into(
        &values,
        &world.process_at_rank(next),
        &mut received,
        &world.process_at_rank(before),
    );
    assert_eq!(status.count(T::equivalent_datatype()), 3);
    let expected = [value(before), value(before + 1), value(before + 2), T::default()];
    assert_eq!(received, expected);
}

/// Sends 2^32 elements, which have no bytes.
fn more_elements_than_an_int_counts(world: &SimpleCommunicator) {
    const MANY: usize = 1 << 32;
    let (many, mut received) = ([Unit; MANY], [Unit; MANY]);
    assert_eq!(many.large_count(), MANY as i64);
    mpi::request::scope(|scope| {
        let receive = world.this_process().immediate_receive_into(scope, &mut received);
        world.this_process().send(&many);
        receive.wait();
    });
}
