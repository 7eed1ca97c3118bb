//! One suite for every transport: what MPI promises of messages, driven through
//! [`pt2pt::Engine`] with all ranks in one thread.
//!
//! [`run`] is given a maker of transports and runs every case on it. Cases see a
//! [`Job`]: engines, a seeded stream of random numbers, and waiting that gives
//! up with a report instead of hanging. A failure prints the case, the number of
//! ranks and the seed.

mod cancel;
mod exchange;
mod flood;
mod job;
mod one_sided;
mod order;
mod probe;
mod rank;
mod single;
mod storm;
mod trouble;
mod unrest;

use fabric::HybridGet;

pub use job::{Job, Pending, envelope, pattern, pattern_bytes};
pub use one_sided::{one_sided, one_sided_bytes, one_sided_in};
pub use rank::Rank;
pub use storm::{Weather, storm};
pub use trouble::{dying_peer, garbage};

/// One thing that must hold.
pub struct Case<T: HybridGet> {
    /// The subject of the case.
    pub name: &'static str,
    /// How many ranks it is run with.
    pub ranks: &'static [u32],
    /// Panics when it does not hold.
    pub run: fn(&mut Job<T>),
}

/// Every case.
pub fn cases<T: HybridGet>() -> Vec<Case<T>> {
    const ANY: &[u32] = &[1, 2, 3, 4, 5, 7, 8, 16];
    const SEVERAL: &[u32] = &[2, 3, 4, 5, 7, 8, 16];
    const PAIR: &[u32] = &[2];
    vec![
        Case { name: "every size in every mode", ranks: &[1, 2, 3], run: single::sizes_and_modes },
        Case { name: "many ranks, every pair", ranks: ANY, run: single::every_pair },
        Case { name: "truncation", ranks: &[1, 2], run: single::truncation },
        Case {
            name: "a synchronous send waits for its match",
            ranks: &[1, 2],
            run: single::synchronous,
        },
        Case { name: "an eager send waits for no receive", ranks: PAIR, run: single::eager },
        Case { name: "a late receive for a ready send", ranks: &[1, 2], run: single::ready },
        Case { name: "collectives that do not match", ranks: &[1, 2], run: single::mismatched },
        Case { name: "freed while active", ranks: &[1, 2], run: single::detached },
        Case { name: "order across protocols", ranks: &[1, 2, 4], run: order::across_protocols },
        Case { name: "order with wildcards", ranks: SEVERAL, run: order::wildcards },
        Case { name: "contexts do not mix", ranks: &[1, 2], run: order::contexts },
        Case { name: "probe", ranks: &[1, 2], run: probe::probe },
        Case { name: "matched probe", ranks: &[1, 2], run: probe::matched },
        Case { name: "cancel a receive", ranks: &[1, 2], run: cancel::receive },
        Case { name: "cancel a send", ranks: &[1, 2], run: cancel::send },
        Case { name: "cancel too late", ranks: &[1, 2], run: cancel::too_late },
        Case { name: "cancelled and freed", ranks: PAIR, run: cancel::freed },
        Case { name: "cancel in a race", ranks: PAIR, run: cancel::race },
        Case { name: "a flooded receiver pushes back", ranks: &[1, 2, 4], run: flood::bounded },
        Case { name: "many unexpected messages, backwards", ranks: &[1, 2], run: flood::backwards },
        Case { name: "large messages both ways at once", ranks: SEVERAL, run: exchange::large },
        Case { name: "a ring", ranks: ANY, run: exchange::ring },
        Case { name: "a storm", ranks: ANY, run: |job| storm(job, &Weather::default()) },
    ]
}

/// Runs every case on transports from `make`, which is given the number of ranks
/// and a seed.
pub fn run<T: HybridGet>(seed: u64, make: impl FnMut(u32, u64) -> Vec<T>) {
    run_with(|_| true, seed, make);
}

/// As [`run`], with some numbers of ranks alone: for what another run has shown
/// in all of them.
pub fn run_with<T: HybridGet>(
    is_meant: impl Fn(u32) -> bool,
    seed: u64,
    mut make: impl FnMut(u32, u64) -> Vec<T>,
) {
    for case in cases() {
        for &ranks in case.ranks.iter().filter(|&&ranks| is_meant(ranks)) {
            let mut job = Job::new(case.name, seed, make(ranks, seed));
            let began = std::time::Instant::now();
            (case.run)(&mut job);
            job.end();
            // Captured unless requested: what takes long on a slow device.
            println!("{:>6} ms  {}, {ranks} ranks", began.elapsed().as_millis(), case.name);
        }
    }
}
