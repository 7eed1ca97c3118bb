//! How a communicator is split: colours, keys, types.

use std::os::raw::c_int;

use crate::ffi;

/// The processes that give the same colour get a communicator together (MPI-5.0 §7.4.2).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub struct Color(c_int);

impl Color {
    /// Returns the colour of processes that get no communicator.
    pub fn undefined() -> Color {
        Color(ffi::MPI_UNDEFINED)
    }

    /// Returns the colour of a number.
    ///
    /// # Panics
    /// If the number is negative.
    pub fn with_value(value: c_int) -> Color {
        assert!(value >= 0, "invalid color {value}: must not be negative");
        Color(value)
    }

    pub(super) fn as_raw(self) -> c_int {
        self.0
    }
}

/// Orders the processes of a communicator that a split makes: first by key, then by rank before.
pub type Key = c_int;

/// The property that the processes of a communicator share (MPI-5.0 §7.4.2).
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SplitType {
    /// They can share memory.
    Shared,
    /// They run on one part of the hardware that is smaller than the communicator's part now. A
    /// process that is on no such part gets no communicator.
    Hardware,
}

impl SplitType {
    pub(super) fn as_raw(self) -> c_int {
        match self {
            SplitType::Shared => ffi::MPI_COMM_TYPE_SHARED,
            SplitType::Hardware => ffi::MPI_COMM_TYPE_HW_UNGUIDED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_the_numbers_that_mpi_knows() {
        assert_eq!(Color::with_value(3).as_raw(), 3);
        assert_eq!(Color::undefined().as_raw(), ffi::MPI_UNDEFINED);
    }

    #[test]
    #[should_panic(expected = "invalid color -1")]
    fn a_negative_color_panics() {
        let _ = Color::with_value(-1);
    }
}
