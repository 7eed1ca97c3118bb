//! Grids. Ranks follow the coordinates in row-major order: the last dimension changes fastest
//! (MPI-5.0 §8.5).

use crate::{Class, Error, Result};

/// A grid of processes. With no dimensions it has one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cartesian {
    dims: Vec<u32>,
    periods: Vec<bool>,
}

/// The result of MPI_Cart_sub for one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sub {
    /// Processes of one colour form a communicator.
    pub color: u32,
    /// The rank in it.
    pub rank: u32,
    /// Its topology.
    pub grid: Cartesian,
}

impl Cartesian {
    /// Makes a grid on `processes` ranks or fewer. MPI_ERR_DIMS for extents below 1, MPI_ERR_ARG
    /// for a grid of more processes than there are.
    pub fn new(dims: &[i32], periods: &[bool], processes: u32) -> Result<Cartesian> {
        debug_assert_eq!(dims.len(), periods.len());
        let mut size = 1_u64;
        let mut extents = Vec::with_capacity(dims.len());
        for (dimension, &extent) in dims.iter().enumerate() {
            let Some(extent) = u32::try_from(extent).ok().filter(|&extent| extent > 0) else {
                return Err(Error::new(
                    Class::Dims,
                    format!("invalid extent {extent} of dimension {dimension}: must be at least 1"),
                ));
            };
            size = size.saturating_mul(extent.into());
            extents.push(extent);
        }
        if size > processes.into() {
            let why = format!(
                "grid {dims:?} too large: {size} processes, the communicator has {processes}"
            );
            return Err(Error::new(Class::Arg, why));
        }
        Ok(Cartesian { dims: extents, periods: periods.to_vec() })
    }

    /// Returns the processes in each dimension.
    pub fn dims(&self) -> &[u32] {
        &self.dims
    }

    /// Returns which dimensions are periodic.
    pub fn periods(&self) -> &[bool] {
        &self.periods
    }

    /// Returns the processes in the grid.
    pub fn size(&self) -> u32 {
        self.dims.iter().product()
    }

    /// Returns the coordinates of `rank`, which must be below [`Cartesian::size`]
    /// (MPI_Cart_coords).
    pub fn coords(&self, rank: u32) -> Vec<u32> {
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, extent) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = rest % extent;
            rest /= extent;
        }
        coords
    }

    /// Returns the rank at these coordinates (MPI_Cart_rank). A coordinate in a periodic dimension
    /// wraps; in another one, a coordinate outside the grid is MPI_ERR_ARG.
    pub fn rank(&self, coords: &[i32]) -> Result<u32> {
        if coords.len() != self.dims.len() {
            let why = format!(
                "wrong number of coordinates: {} for a grid of {} dimensions",
                coords.len(),
                self.dims.len()
            );
            return Err(Error::new(Class::Arg, why));
        }
        let mut rank = 0;
        for (dimension, &coord) in coords.iter().enumerate() {
            let along = self.wrap(dimension, coord.into()).ok_or_else(|| {
                let last = self.dims[dimension] - 1;
                let why = format!(
                    "invalid coordinate {coord} in dimension {dimension}, which is not periodic: must be 0 to {last}"
                );
                Error::new(Class::Arg, why)
            })?;
            rank = rank * self.dims[dimension] + along;
        }
        Ok(rank)
    }

    /// Returns source and destination of process `rank` when all shift by `displacement`
    /// (MPI_Cart_shift). `None` is MPI_PROC_NULL. MPI_ERR_DIMS for a direction that the grid does
    /// not have.
    pub fn shift(
        &self,
        rank: u32,
        direction: i32,
        displacement: i32,
    ) -> Result<(Option<u32>, Option<u32>)> {
        let Some(dimension) = usize::try_from(direction).ok().filter(|&at| at < self.dims.len())
        else {
            let why = format!(
                "invalid direction {direction} in a grid of {} dimensions",
                self.dims.len()
            );
            return Err(Error::new(Class::Dims, why));
        };
        let displacement = i64::from(displacement);
        Ok((self.step(rank, dimension, -displacement), self.step(rank, dimension, displacement)))
    }

    /// Returns for each dimension the neighbour at -1, then the one at +1.
    pub fn neighbours(&self, rank: u32) -> Vec<Option<u32>> {
        (0..self.dims.len())
            .flat_map(|dimension| [-1, 1].map(|by| self.step(rank, dimension, by)))
            .collect()
    }

    /// Returns the grid of the dimensions that remain, for process `rank` (MPI_Cart_sub).
    pub fn sub(&self, rank: u32, remain: &[bool]) -> Sub {
        debug_assert_eq!(remain.len(), self.dims.len());
        let coords = self.coords(rank);
        let mut sub =
            Sub { color: 0, rank: 0, grid: Cartesian { dims: Vec::new(), periods: Vec::new() } };
        for (dimension, &remains) in remain.iter().enumerate() {
            let extent = self.dims[dimension];
            if remains {
                sub.rank = sub.rank * extent + coords[dimension];
                sub.grid.dims.push(extent);
                sub.grid.periods.push(self.periods[dimension]);
            } else {
                sub.color = sub.color * extent + coords[dimension];
            }
        }
        sub
    }

    fn wrap(&self, dimension: usize, coord: i64) -> Option<u32> {
        let extent = i64::from(self.dims[dimension]);
        if self.periods[dimension] {
            return Some(coord.rem_euclid(extent) as u32);
        }
        (0..extent).contains(&coord).then_some(coord as u32)
    }

    fn step(&self, rank: u32, dimension: usize, by: i64) -> Option<u32> {
        let below: u32 = self.dims[dimension + 1..].iter().product();
        let here = rank / below % self.dims[dimension];
        let there = self.wrap(dimension, i64::from(here) + by)?;
        Some(rank - here * below + there * below)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid(dims: &[i32], periods: &[bool]) -> Cartesian {
        Cartesian::new(dims, periods, u32::MAX).unwrap()
    }

    #[test]
    fn shifts_end_at_the_border_or_wrap() {
        let grid = grid(&[3, 4], &[false, true]);
        assert_eq!(grid.shift(0, 0, 1).unwrap(), (None, Some(4)));
        assert_eq!(grid.shift(8, 0, 1).unwrap(), (Some(4), None));
        assert_eq!(grid.shift(0, 1, 1).unwrap(), (Some(3), Some(1)));
        assert_eq!(grid.shift(0, 1, -6).unwrap(), (Some(2), Some(2)));
        assert_eq!(grid.shift(5, 1, i32::MIN).unwrap(), (Some(5), Some(5)));
        assert_eq!(grid.shift(5, 0, 0).unwrap(), (Some(5), Some(5)));
        assert_eq!(grid.neighbours(0), [None, Some(4), Some(3), Some(1)]);
        for direction in [-1, 2] {
            assert_eq!(grid.shift(0, direction, 1).unwrap_err().class(), Class::Dims);
        }
    }

    #[test]
    fn a_ring_of_one_or_two_meets_itself() {
        assert_eq!(grid(&[1], &[true]).neighbours(0), [Some(0), Some(0)]);
        assert_eq!(grid(&[2], &[true]).neighbours(0), [Some(1), Some(1)]);
        assert_eq!(grid(&[], &[]).neighbours(0), []);
        assert_eq!(grid(&[], &[]).size(), 1);
    }

    #[test]
    fn what_is_no_grid_is_refused() {
        let class =
            |dims: &[i32]| Cartesian::new(dims, &vec![false; dims.len()], 12).unwrap_err().class();
        assert_eq!(class(&[3, 0]), Class::Dims);
        assert_eq!(class(&[3, -4]), Class::Dims);
        assert_eq!(class(&[13]), Class::Arg);
        assert_eq!(class(&[i32::MAX, i32::MAX, i32::MAX]), Class::Arg);
        let grid = grid(&[3, 4], &[false, true]);
        assert_eq!(grid.rank(&[3, 0]).unwrap_err().class(), Class::Arg);
        assert_eq!(grid.rank(&[0]).unwrap_err().class(), Class::Arg);
        assert_eq!(grid.rank(&[2, -1]).unwrap(), 11);
    }

    proptest! {
        #[test]
        fn coordinates_name_ranks(
            shape in prop::collection::vec((1..5i32, any::<bool>(), any::<bool>()), 0..5),
            which in any::<prop::sample::Index>(),
        ) {
            let dims: Vec<i32> = shape.iter().map(|s| s.0).collect();
            let periods: Vec<bool> = shape.iter().map(|s| s.1).collect();
            let remain: Vec<bool> = shape.iter().map(|s| s.2).collect();
            let grid = grid(&dims, &periods);
            let rank = which.index(grid.size() as usize) as u32;
            let coords: Vec<i32> = grid.coords(rank).iter().map(|&coord| coord as i32).collect();
            prop_assert_eq!(grid.rank(&coords).unwrap(), rank);
            for direction in 0..dims.len() {
                for by in -6..=6 {
                    let mut there = coords.clone();
                    there[direction] += by;
                    let (_, to) = grid.shift(rank, direction as i32, by).unwrap();
                    prop_assert_eq!(to, grid.rank(&there).ok());
                    if let Some(to) = to {
                        prop_assert_eq!(grid.shift(to, direction as i32, by).unwrap().0, Some(rank));
                    }
                }
            }
            // Those of one colour are numbered without gaps and keep the others' coordinates.
            let mine = grid.sub(rank, &remain);
            let peers: Vec<Sub> = (0..grid.size()).map(|rank| grid.sub(rank, &remain)).filter(|sub| sub.color == mine.color).collect();
            prop_assert_eq!(peers.len() as u32, mine.grid.size());
            for (rank, peer) in peers.iter().enumerate() {
                prop_assert_eq!(peer.rank, rank as u32);
                prop_assert_eq!(&peer.grid, &mine.grid);
            }
        }
    }
}
