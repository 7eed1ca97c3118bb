//! What copies cost, for the tuners that compare two ways to copy.

use std::time::Instant;

/// Time of one copy, nanoseconds for 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyCost(pub(crate) u32);

/// Nanoseconds before the first byte has crossed.
const STARTUP_NS: u64 = 200;

impl CopyCost {
    /// The cost of what must not be done.
    pub(crate) const MOST: CopyCost = CopyCost(u32::MAX);

    /// Returns the cost of a copy of `bytes` that began then and ends now. The time before the
    /// first byte crosses is not counted.
    pub(crate) fn since(begun: Instant, bytes: usize) -> CopyCost {
        CopyCost::of((begun.elapsed().as_nanos() as u64).saturating_sub(STARTUP_NS), bytes)
    }

    /// Returns the cost of a copy of `bytes` that took so many nanoseconds.
    pub(crate) fn of(nanoseconds: u64, bytes: usize) -> CopyCost {
        let scaled = u128::from(nanoseconds) << 16;
        CopyCost((scaled / bytes.max(1) as u128).min(u32::MAX.into()) as u32)
    }
}

/// The last four costs. The least counts: an interrupt only makes a copy slower.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentCosts {
    costs: [u32; RecentCosts::COUNT],
    count: usize,
}

impl RecentCosts {
    /// How many are kept.
    pub(crate) const COUNT: usize = 4;
    pub(crate) const NONE: RecentCosts = RecentCosts { costs: [0; RecentCosts::COUNT], count: 0 };

    pub(crate) fn push(&mut self, cost: CopyCost) {
        self.costs[self.count % RecentCosts::COUNT] = cost.0;
        self.count += 1;
    }

    /// Returns the least cost, `None` until there are four.
    pub(crate) fn least(&self) -> Option<u32> {
        if self.count < RecentCosts::COUNT { None } else { self.costs.iter().copied().min() }
    }
}
