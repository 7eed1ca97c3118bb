//! Communicators whose topology is a grid (MPI-5.0 §8.5).

#![allow(unsafe_code)]

use std::mem;
use std::os::raw::c_int;

use super::handle::{AsHandle as _, CommunicatorHandle, give_handles};
use super::{Rank, SimpleCommunicator, Topology, check_rank};
use crate::Count;
use crate::error::call;
use crate::ffi::{self, MPI_Comm};
use crate::raw::{AsRaw, FromRaw};

/// Truth values as C wants them.
type Flags = Vec<c_int>;

/// The shape of a grid, and the place of the calling process in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CartesianLayout {
    /// The extent of each dimension.
    pub dims: Vec<Count>,
    /// Whether each dimension is a ring.
    pub periods: Vec<bool>,
    /// The coordinates of the calling process.
    pub coords: Vec<Count>,
}

/// A communicator whose processes form a grid of any number of dimensions (MPI-5.0 §8.5), from
/// [`create_cartesian_communicator`](super::Communicator::create_cartesian_communicator).
#[derive(Debug)]
pub struct CartesianCommunicator(pub(super) SimpleCommunicator);

give_handles! {
    CartesianCommunicator: 0, true;
}

impl CartesianCommunicator {
    /// Takes over a communicator if it has a grid. Otherwise returns `None`, and the handle stays
    /// with the caller.
    ///
    /// # Safety
    /// The handle is MPI_COMM_NULL or valid. If there is a result, the handle belongs to it.
    pub unsafe fn try_from_raw(raw: MPI_Comm) -> Option<CartesianCommunicator> {
        // SAFETY: as the caller promises.
        let comm = SimpleCommunicator(unsafe { CommunicatorHandle::try_from_raw(raw)? });
        if !comm.0.is_inter_comm() && comm.topology() == Topology::Cartesian {
            return Some(CartesianCommunicator(comm));
        }
        mem::forget(comm);
        None
    }

    /// Returns the number of dimensions (MPI-5.0 §8.5.5).
    pub fn num_dimensions(&self) -> Count {
        let mut dimensions = 0;
        // SAFETY: the communicator is valid and has a grid.
        unsafe { call!(MPI_Cartdim_get(self.as_raw(), &mut dimensions)) };
        dimensions
    }

    /// Writes the grid's shape and the coordinates of the calling process (MPI-5.0 §8.5.5).
    ///
    /// # Safety
    /// Each slice is as long as the grid has dimensions.
    pub unsafe fn get_layout_into_unchecked(
        &self,
        dims: &mut [Count],
        periods: &mut [bool],
        coords: &mut [Count],
    ) {
        let mut flags: Flags = periods.iter().map(|_| 0).collect();
        // SAFETY: the communicator is valid and has a grid. The arrays are long enough, as the
        // caller promises.
        unsafe {
            call!(MPI_Cart_get(
                self.as_raw(),
                self.num_dimensions(),
                dims.as_mut_ptr(),
                flags.as_mut_ptr(),
                coords.as_mut_ptr(),
            ));
        }
        for (period, flag) in periods.iter_mut().zip(flags) {
            *period = flag != 0;
        }
    }

    /// Writes the grid's shape and the coordinates of the calling process (MPI-5.0 §8.5.5).
    ///
    /// # Panics
    /// If a slice is not as long as the grid has dimensions.
    #[track_caller]
    pub fn get_layout_into(&self, dims: &mut [Count], periods: &mut [bool], coords: &mut [Count]) {
        self.check_dimensions("dims", dims.len());
        self.check_dimensions("periods", periods.len());
        self.check_dimensions("coords", coords.len());
        // SAFETY: the lengths were checked.
        unsafe { self.get_layout_into_unchecked(dims, periods, coords) }
    }

    /// Returns the grid's shape and the coordinates of the calling process (MPI-5.0 §8.5.5).
    pub fn get_layout(&self) -> CartesianLayout {
        let dimensions = self.num_dimensions() as usize;
        let mut layout = CartesianLayout {
            dims: vec![0; dimensions],
            periods: vec![false; dimensions],
            coords: vec![0; dimensions],
        };
        self.get_layout_into(&mut layout.dims, &mut layout.periods, &mut layout.coords);
        layout
    }

    /// Returns the rank at coordinates (MPI-5.0 §8.5.5). Those of rings may be of any size.
    ///
    /// # Safety
    /// There is a coordinate for each dimension. Those of dimensions that are no rings are within
    /// the grid.
    pub unsafe fn coordinates_to_rank_unchecked(&self, coords: &[Count]) -> Rank {
        let mut rank = 0;
        // SAFETY: the communicator is valid and has a grid; the rest as the caller promises.
        unsafe { call!(MPI_Cart_rank(self.as_raw(), coords.as_ptr(), &mut rank)) };
        rank
    }

    /// Returns the rank at coordinates (MPI-5.0 §8.5.5). Those of rings may be of any size.
    ///
    /// # Panics
    /// If there is not a coordinate for each dimension, or one of a dimension that is no ring lies
    /// outside of the grid.
    #[track_caller]
    pub fn coordinates_to_rank(&self, coords: &[Count]) -> Rank {
        self.check_dimensions("coords", coords.len());
        let layout = self.get_layout();
        for (dimension, &coordinate) in coords.iter().enumerate() {
            let extent = layout.dims[dimension];
            assert!(
                layout.periods[dimension] || (0..extent).contains(&coordinate),
                "invalid coordinate {coordinate} in dimension {dimension}: must be 0 to {}",
                extent - 1,
            );
        }
        // SAFETY: the coordinates were checked.
        unsafe { self.coordinates_to_rank_unchecked(coords) }
    }

    /// Writes the coordinates of a rank (MPI-5.0 §8.5.5).
    ///
    /// # Safety
    /// The communicator has the rank, and the slice is as long as the grid has dimensions.
    pub unsafe fn rank_to_coordinates_into_unchecked(&self, rank: Rank, coords: &mut [Count]) {
        let (len, coords) = (self.num_dimensions(), coords.as_mut_ptr());
        // SAFETY: the communicator is valid and has a grid; the rest as the caller promises.
        unsafe { call!(MPI_Cart_coords(self.as_raw(), rank, len, coords)) };
    }

    /// Writes the coordinates of a rank (MPI-5.0 §8.5.5).
    ///
    /// # Panics
    /// If the communicator does not have the rank, or the slice is not as long as the grid has
    /// dimensions.
    #[track_caller]
    pub fn rank_to_coordinates_into(&self, rank: Rank, coords: &mut [Count]) {
        check_rank(rank, self.as_handle().size());
        self.check_dimensions("coords", coords.len());
        // SAFETY: both were checked.
        unsafe { self.rank_to_coordinates_into_unchecked(rank, coords) }
    }

    /// Returns the coordinates of a rank (MPI-5.0 §8.5.5).
    ///
    /// # Panics
    /// If the communicator does not have the rank.
    #[track_caller]
    pub fn rank_to_coordinates(&self, rank: Rank) -> Vec<Count> {
        let mut coords = vec![0; self.num_dimensions() as usize];
        self.rank_to_coordinates_into(rank, &mut coords);
        coords
    }

    /// Returns the ranks `displacement` steps below and above the calling process in a dimension,
    /// where the grid has one there (MPI-5.0 §8.5.6).
    ///
    /// # Safety
    /// The grid has the dimension, counted from 0.
    pub unsafe fn shift_unchecked(
        &self,
        dimension: Count,
        displacement: Count,
    ) -> (Option<Rank>, Option<Rank>) {
        let (mut below, mut above) = (ffi::MPI_PROC_NULL, ffi::MPI_PROC_NULL);
        // SAFETY: the communicator is valid and has a grid; the rest as the caller promises.
        unsafe {
            call!(MPI_Cart_shift(self.as_raw(), dimension, displacement, &mut below, &mut above,));
        }
        let present = |rank| (rank != ffi::MPI_PROC_NULL).then_some(rank);
        (present(below), present(above))
    }

    /// Returns the ranks `displacement` steps below and above the calling process in a dimension,
    /// where the grid has one there (MPI-5.0 §8.5.6).
    ///
    /// # Panics
    /// If the grid does not have the dimension, counted from 0.
    #[track_caller]
    pub fn shift(&self, dimension: Count, displacement: Count) -> (Option<Rank>, Option<Rank>) {
        let dimensions = self.num_dimensions();
        assert!(
            (0..dimensions).contains(&dimension),
            "invalid dimension {dimension} of a grid with {dimensions}",
        );
        // SAFETY: the dimension was checked.
        unsafe { self.shift_unchecked(dimension, displacement) }
    }

    /// Makes communicators of parts of the grid that keep some dimensions (MPI-5.0 §8.5.7).
    /// Collective.
    ///
    /// # Safety
    /// The slice is as long as the grid has dimensions.
    pub unsafe fn subgroup_unchecked(&self, retain: &[bool]) -> CartesianCommunicator {
        let retain: Flags = retain.iter().map(|&retained| c_int::from(retained)).collect();
        let mut part = ffi::MPI_COMM_NULL;
        // SAFETY: the communicator is valid and has a grid. The array is long enough, as the caller
        // promises. The new communicator belongs to the result.
        unsafe {
            call!(MPI_Cart_sub(self.as_raw(), retain.as_ptr(), &mut part));
            CartesianCommunicator::from_raw(part)
        }
    }

    /// Makes communicators of parts of the grid that keep some dimensions (MPI-5.0 §8.5.7).
    /// Collective.
    ///
    /// # Panics
    /// If the slice is not as long as the grid has dimensions.
    #[track_caller]
    pub fn subgroup(&self, retain: &[bool]) -> CartesianCommunicator {
        self.check_dimensions("retain", retain.len());
        // SAFETY: the length was checked.
        unsafe { self.subgroup_unchecked(retain) }
    }

    /// Panics unless there is an element for each dimension.
    #[track_caller]
    fn check_dimensions(&self, what: &str, len: usize) {
        let dimensions = self.num_dimensions();
        assert!(
            len == dimensions as usize,
            "{what} has {len} elements: must be {dimensions}, one for each dimension",
        );
    }
}

impl FromRaw for CartesianCommunicator {
    /// Takes over a communicator with a grid.
    ///
    /// # Safety
    /// The handle is that of a valid intra-communicator with a grid, and belongs to the result.
    unsafe fn from_raw(raw: <Self as AsRaw>::Raw) -> Self {
        // SAFETY: as the caller promises.
        CartesianCommunicator(unsafe { SimpleCommunicator::from_raw(raw) })
    }
}

/// Returns the number of dimensions of a grid, and its periods as C wants them.
///
/// Panics unless there is a period for each dimension.
pub(super) fn grid(dims: &[Count], periods: &[bool]) -> (c_int, Flags) {
    assert!(
        dims.len() == periods.len(),
        "a grid of {} dimensions with {} periods: must be as many",
        dims.len(),
        periods.len(),
    );
    let dimensions = dims.len().try_into().expect("no grid has so many dimensions");
    (dimensions, periods.iter().map(|&period| c_int::from(period)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truth_values_become_numbers() {
        let (dimensions, periods) = grid(&[2, 3], &[true, false]);
        assert_eq!((dimensions, &periods[..]), (2, &[1, 0][..]));
    }

    #[test]
    #[should_panic(expected = "a grid of 2 dimensions with 1 periods")]
    fn each_dimension_needs_a_period() {
        let _ = grid(&[2, 3], &[true]);
    }
}
