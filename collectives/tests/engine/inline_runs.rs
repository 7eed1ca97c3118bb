//! Collectives that their callers run by themselves.

use collectives::{InlineRun, Operation, Thresholds};
use fabric::sim::Options;
use objects::{Comm, Group, Op};

use crate::cases::{Layout, inputs, reduced};
use crate::random::Random;
use crate::runs::{comms, counter, flags};
use crate::world::{World, packed};

#[test]
fn an_inline_run_needs_neither_progress_nor_a_list() {
    for thresholds in [counter(), flags()] {
        let (mut world, random, comms) =
            (World::new(3, 7, Options::default(), &thresholds), &mut Random(7), comms(3));
        for sequence in 0..100 {
            let mut any_inputs = std::iter::repeat_with(|| inputs(3, 5, random, |_| true));
            let inputs = any_inputs.find(|inputs| matches!(inputs.op, Op::Builtin(_))).unwrap();
            let operation =
                |rank: usize| Operation::Allreduce { vector: inputs.vector(rank, true), count: 5 };
            let plans = [0, 1, 2].map(|rank| world.plan(rank, &operation(rank), &comms[0][rank]));
            let mut runs: Vec<_> =
                (0..3).map(|rank| (rank, InlineRun::new(&plans[rank], sequence))).collect();
            for tries in 0.. {
                if runs.is_empty() {
                    break;
                }
                assert!(tries < 1000, "round {sequence} goes on for ever");
                let at = random.below(runs.len() as u64) as usize;
                if runs[at].1.go() {
                    let (rank, _) = runs.swap_remove(at);
                    assert!(
                        packed(&inputs.result(rank, 5)) == reduced(&inputs.vectors, &inputs.op)
                    );
                }
            }
        }
    }
}

#[test]
fn a_process_alone_runs_inline_to_the_end() {
    let (mut world, random) =
        (World::new(1, 7, Options::default(), &Thresholds::default()), &mut Random(7));
    let comm = Comm::new("", 5, 0, Group::world(1));
    let mut any_inputs = std::iter::repeat_with(|| inputs(1, 5, random, |_| true));
    let inputs = any_inputs.find(|inputs| matches!(inputs.op, Op::Builtin(_))).unwrap();
    let operation = Operation::Allreduce { vector: inputs.vector(0, true), count: 5 };
    let plan = world.plan(0, &operation, &comm);
    assert!(plan.may_run_inline(), "it waits for nothing");
    assert!(InlineRun::new(&plan, 0).go());
    assert!(packed(&inputs.result(0, 5)) == reduced(&inputs.vectors, &inputs.op));
}

#[test]
fn an_inline_run_leaves_mismatches_to_the_executor() {
    for thresholds in [counter(), flags()] {
        let (mut world, random, comms) =
            (World::new(3, 7, Options::default(), &thresholds), &mut Random(7), comms(3));
        let data = Layout::new(vec![5], 0, random, 0);
        let operation = |rank: usize| match rank {
            1 => Operation::Barrier,
            _ => Operation::Bcast { root: 1, data: data.data() },
        };
        let plans = [0, 1, 2].map(|rank| world.plan(rank, &operation(rank), &comms[0][rank]));
        let mut runs: Vec<_> = (0..3).map(|rank| InlineRun::new(&plans[rank], 0)).collect();
        for _ in 0..10 {
            runs.iter_mut().for_each(|run| assert!(!run.go()));
        }
        let pairs = runs.into_iter().enumerate();
        let ids: Vec<_> = pairs
            .map(|(rank, run)| (rank, world.ranks[rank].active.resume_as_active(run.suspend())))
            .collect();
        for result in world.finish(&ids, random) {
            let fault = result.expect_err("it ended well").to_string();
            assert!(fault.contains("called") || fault.contains("has failed at rank"), "{fault}");
        }
    }
}
