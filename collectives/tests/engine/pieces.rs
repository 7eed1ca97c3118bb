//! Long vectors in a segment with flags, piece by piece.

use collectives::Operation;
use fabric::coll_segment::{FEW_FLAGS_RANKS, flags_slot_bytes};
use objects::Op;

use crate::cases::{Inputs, inputs, reduced, user_op};
use crate::random::Random;
use crate::runs::{comms, flags};
use crate::world::{World, any_options, packed};

/// Vectors of 64-bit integers; in place at some of the ranks, or at none.
fn any_inputs(size: u32, count: u64, random: &mut Random) -> Inputs {
    let in_place = random.next();
    let mut any = std::iter::repeat_with(|| {
        inputs(size as usize, count, random, |rank| in_place >> rank & 1 == 0)
    });
    any.find(|inputs| matches!(inputs.op, Op::Builtin(_))).unwrap()
}

/// Runs allreduces one after the other, of which each rank starts the next one when it has ended
/// the one before; ranks progress in random order.
fn run(size: u32, seed: u64, counts: &[u64]) {
    let random = &mut Random(seed);
    let options = any_options(random);
    let (mut world, comms) = (World::new(size, seed, options, &flags()), comms(size));
    for (sequence, &count) in (0..).zip(counts) {
        let inputs = any_inputs(size, count, random);
        let plan = |world: &mut World, rank: usize| {
            let vector = inputs.vector(rank, true);
            world.plan_blocking(rank, &Operation::Allreduce { vector, count }, &comms[0][rank])
        };
        let plans: Vec<_> = (0..size as usize).map(|rank| plan(&mut world, rank)).collect();
        let is_long = 8 * count > flags_slot_bytes(size);
        for plan in &plans {
            assert!(plan.schedule().messages().is_empty(), "{count} elements go by messages");
            assert_eq!(plan.schedule().segment_rounds() > 1, is_long, "{count} elements");
        }
        let ids: Vec<_> = (0..)
            .zip(plans)
            .map(|(rank, plan)| (rank, world.start(rank, plan, sequence)))
            .collect();
        assert!(world.finish(&ids, random).iter().all(Result::is_ok));
        let expected = reduced(&inputs.vectors, &inputs.op);
        for rank in 0..size as usize {
            let found = packed(&inputs.result(rank, count));
            assert!(found == expected, "rank {rank} of {size}, {count} elements, seed {seed}");
        }
    }
}

#[test]
fn long_vectors_are_reduced_in_pieces() {
    for size in 2..=FEW_FLAGS_RANKS {
        let slot = flags_slot_bytes(size) / 8;
        for seed in 0..6 {
            run(size, seed, &[slot + 1, 3 * slot + seed, 5, 11 * slot + 7, slot + 2]);
        }
    }
}

#[test]
fn nonblocking_calls_and_operations_in_rank_order_take_no_pieces() {
    let (random, count) = (&mut Random(1), 9000);
    let (mut world, comms) = (World::new(3, 1, any_options(random), &flags()), comms(3));
    let mut inputs = any_inputs(3, count, random);
    let allreduce = Operation::Allreduce { vector: inputs.vector(0, true), count };
    let uses_segment = |plan: collectives::Plan| plan.schedule().uses_segment();
    assert!(uses_segment(world.plan_blocking(0, &allreduce, &comms[0][0])));
    assert!(!uses_segment(world.plan(0, &allreduce, &comms[0][0])));
    for is_commutative in [false, true] {
        inputs.op = user_op(is_commutative);
        let allreduce = Operation::Allreduce { vector: inputs.vector(0, true), count };
        let plan = world.plan_blocking(0, &allreduce, &comms[0][0]);
        assert_eq!(uses_segment(plan), is_commutative);
    }
}

#[test]
fn ranks_with_vectors_of_different_lengths_learn_of_each_other() {
    for counts in [[9000, 9001], [9000, 100_000], [9000, 5]] {
        let random = &mut Random(3);
        let (mut world, comms) = (World::new(2, 3, any_options(random), &flags()), comms(2));
        let ids = counts.map(|count| any_inputs(2, count, random)).into_iter().enumerate();
        let (mut running, mut kept) = (Vec::new(), Vec::new());
        for (rank, inputs) in ids {
            let (vector, count) = (inputs.vector(rank, true), counts[rank]);
            let allreduce = Operation::Allreduce { vector, count };
            let plan = world.plan_blocking(rank, &allreduce, &comms[0][rank]);
            running.push((rank, world.start(rank, plan, 0)));
            kept.push(inputs);
        }
        for (rank, result) in world.finish(&running, random).into_iter().enumerate() {
            let fault = result.expect_err("it ended well").to_string();
            let expected = format!("is to get {} bytes from rank {}", 8 * counts[rank], 1 - rank);
            assert!(fault.contains(&expected) || fault.contains("has failed at rank"), "{fault}");
        }
        // The first barrier may report what a rank could not know before; then they are in step.
        let mut barrier = |sequence| {
            let mut start = |rank: usize| {
                let plan = world.plan_blocking(rank, &Operation::Barrier, &comms[0][rank]);
                (rank, world.start(rank, plan, sequence))
            };
            let ids = [start(0), start(1)];
            world.finish(&ids, random)
        };
        barrier(1);
        assert!(barrier(2).iter().all(Result::is_ok), "{counts:?}");
    }
}
