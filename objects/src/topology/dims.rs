//! MPI_Dims_create: factors as close to each other as can be (MPI-5.0 §8.5.2).
//!
//! Of all products of that many factors, the one with the least difference between the largest and
//! the smallest factor is taken. Of several, the one with the smallest largest factor wins, second
//! largest ... The search is exact. Factors are chosen from the largest down, each in rising order
//! from the smallest possible one. A branch ends as soon as even equal remaining factors could not
//! win.

use crate::{Class, Error, Result};

/// Fills in the zeros of `dims` so that the product is `nodes`, in non-increasing order.
/// MPI_ERR_DIMS for negative entries, and if the given ones do not divide `nodes`; MPI_ERR_ARG for
/// fewer than one node.
pub fn dims_create(nodes: i32, dims: &mut [i32]) -> Result<()> {
    let Some(nodes) = u32::try_from(nodes).ok().filter(|&nodes| nodes > 0) else {
        return Err(Error::new(
            Class::Arg,
            format!("invalid number of processes {nodes}: must be above 0"),
        ));
    };
    let mut given = 1_u64;
    for (dimension, &extent) in dims.iter().enumerate() {
        let Ok(extent) = u64::try_from(extent) else {
            return Err(Error::new(
                Class::Dims,
                format!("invalid extent {extent} of dimension {dimension}: must not be negative"),
            ));
        };
        given = given.saturating_mul(extent.max(1));
    }
    let open = dims.iter().filter(|&&extent| extent == 0).count();
    // Without a zero, the product must be right already.
    if !u64::from(nodes).is_multiple_of(given) || open == 0 && given != nodes.into() {
        let why = format!(
            "{nodes} processes cannot be divided by {given}, the product of the given dimensions"
        );
        return Err(Error::new(Class::Dims, why));
    }
    let factors = closest_factors((u64::from(nodes) / given) as u32, open);
    for (dim, factor) in dims.iter_mut().filter(|dim| **dim == 0).zip(factors) {
        *dim = factor as i32;
    }
    Ok(())
}

/// Returns `count` factors of `n`, largest first.
fn closest_factors(n: u32, count: usize) -> Vec<u32> {
    let mut best = Search::run(n, count).best;
    best.resize(count, 1);
    best
}

struct Search {
    /// Divisors of the number, ascending.
    divisors: Vec<u32>,
    chosen: Vec<u32>,
    best: Vec<u32>,
    /// Difference of the largest and the smallest factor of `best`.
    spread: u32,
    /// Number of divisors tried.
    #[cfg(test)]
    looks: u32,
}

impl Search {
    fn run(n: u32, count: usize) -> Search {
        let mut search = Search {
            divisors: divisors(n),
            chosen: Vec::new(),
            best: Vec::new(),
            spread: u32::MAX,
            #[cfg(test)]
            looks: 0,
        };
        // A number below 2^32 has fewer than 32 prime factors: the rest are ones.
        let searched = count.min(32);
        if searched > 0 {
            search.choose(n, searched, n);
        }
        search
    }

    /// Writes `n` as `count` more factors, none above `limit`.
    fn choose(&mut self, n: u32, count: usize, limit: u32) {
        if count == 1 {
            return self.finish(n, limit);
        }
        // The largest of `count` factors is at least the root.
        let from = self.divisors.partition_point(|&divisor| power_is_below(divisor, count, n));
        for at in from..self.divisors.len() {
            let factor = self.divisors[at];
            #[cfg(test)]
            {
                self.looks += 1;
            }
            if factor > limit {
                return;
            }
            let largest = self.chosen.first().map_or(factor, |&first| first);
            // The smallest of the remaining factors is at most their root, and
            // the root shrinks as this factor grows.
            let smallest = root(n / factor, count - 1);
            if largest - smallest.min(largest) >= self.spread {
                return;
            }
            if n.is_multiple_of(factor) {
                self.chosen.push(factor);
                self.choose(n / factor, count - 1, factor);
                self.chosen.pop();
            }
        }
    }

    fn finish(&mut self, last: u32, limit: u32) {
        if last > limit {
            return;
        }
        let spread = self.chosen.first().map_or(0, |&first| first - last);
        if spread < self.spread || self.best.is_empty() {
            self.spread = spread;
            self.best.clone_from(&self.chosen);
            self.best.push(last);
        }
    }
}

fn divisors(n: u32) -> Vec<u32> {
    let small = (1..)
        .take_while(|&d| u64::from(d) * u64::from(d) <= n.into())
        .filter(|&d| n.is_multiple_of(d));
    let mut all: Vec<u32> = small.flat_map(|d| [d, n / d]).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `base ^ exponent < n`
fn power_is_below(base: u32, exponent: usize, n: u32) -> bool {
    base.checked_pow(exponent as u32).is_some_and(|power| power < n)
}

/// The largest `r` with `r ^ exponent <= n`.
fn root(n: u32, exponent: usize) -> u32 {
    let guess = f64::from(n).powf(1.0 / exponent as f64) as u32 + 1;
    (1..=guess)
        .rev()
        .find(|&r| r.checked_pow(exponent as u32).is_some_and(|power| power <= n))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Most steps of a search: about a millisecond.
    const MAX_STEPS: u32 = 100_000;

    fn created(nodes: i32, dims: &[i32]) -> Vec<i32> {
        let mut dims = dims.to_vec();
        dims_create(nodes, &mut dims).unwrap();
        dims
    }

    #[test]
    fn the_standards_examples() {
        // MPI-5.0 §8.5.2.
        assert_eq!(created(6, &[0, 0]), [3, 2]);
        assert_eq!(created(7, &[0, 0]), [7, 1]);
        assert_eq!(created(6, &[0, 3, 0]), [2, 3, 1]);
        let mut dims = [0, 3, 0];
        assert_eq!(dims_create(7, &mut dims).unwrap_err().class(), Class::Dims);
    }

    #[test]
    fn factors_are_balanced() {
        assert_eq!(created(16, &[0, 0, 0]), [4, 2, 2]);
        assert_eq!(created(48, &[0, 0, 0]), [4, 4, 3]);
        assert_eq!(created(60, &[0, 0, 0]), [5, 4, 3]);
        assert_eq!(created(1800, &[0, 0]), [45, 40]);
        assert_eq!(created(4096, &[0, 0, 0]), [16, 16, 16]);
        assert_eq!(created(1, &[0, 0]), [1, 1]);
        assert_eq!(created(12, &[0, 2, 0, 0]), [3, 2, 2, 1]);
        assert_eq!(created(12, &[3, 4]), [3, 4]);
        assert_eq!(created(1, &[]), []);
        assert_eq!(created(2_147_483_647, &[0, 0]), [2_147_483_647, 1]);
    }

    #[test]
    fn what_can_not_be_divided_is_refused() {
        let class =
            |nodes, dims: &[i32]| dims_create(nodes, &mut dims.to_vec()).unwrap_err().class();
        assert_eq!(class(12, &[5, 0]), Class::Dims);
        assert_eq!(class(12, &[3, 3]), Class::Dims);
        assert_eq!(class(12, &[-1, 0]), Class::Dims);
        assert_eq!(class(12, &[]), Class::Dims);
        assert_eq!(class(0, &[0]), Class::Arg);
        assert_eq!(class(-3, &[0]), Class::Arg);
        assert_eq!(class(12, &[i32::MAX, i32::MAX, i32::MAX, 0]), Class::Dims);
    }

    #[test]
    fn the_search_is_quick_for_the_worst_numbers() {
        // Many divisors; many primes; the largest there is.
        for nodes in [
            2_095_133_040,
            1_396_755_360,
            735_134_400,
            223_092_870,
            1 << 30,
            3_i32.pow(19),
            2_147_483_646,
        ] {
            for count in 1..=40 {
                let dims = created(nodes, &vec![0; count]);
                assert_eq!(dims.iter().map(|&dim| i64::from(dim)).product::<i64>(), nodes.into());
                assert!(dims.is_sorted_by(|a, b| a >= b), "{dims:?}");
                let looks = Search::run(nodes as u32, count).looks;
                assert!(looks < MAX_STEPS, "{nodes} in {count}: {looks}");
            }
        }
    }

    /// Returns each way to write `n` as `count` non-increasing factors.
    fn all_ways(n: i32, count: usize, limit: i32) -> Vec<Vec<i32>> {
        if count == 1 {
            return if n <= limit { vec![vec![n]] } else { vec![] };
        }
        let factors = (1..=n.min(limit)).filter(|factor| n % factor == 0);
        factors
            .flat_map(|factor| {
                all_ways(n / factor, count - 1, factor).into_iter().map(move |mut rest| {
                    rest.insert(0, factor);
                    rest
                })
            })
            .collect()
    }

    proptest! {
        #[test]
        fn no_other_way_is_closer(nodes in 1..400i32, count in 1..6usize) {
            let best = all_ways(nodes, count, nodes)
                .into_iter()
                .min_by_key(|dims| (dims[0] - dims[count - 1], dims.clone()))
                .unwrap();
            prop_assert_eq!(created(nodes, &vec![0; count]), best);
        }
    }
}
