//! Arguments that are `int` in a function and 64 bits wide in its `_c` twin (MPI-5.0 §2.5.8). They
//! let both run one body.
//!
//! Arrays are not copied: they are read in the user's memory.

use std::os::raw::c_int;

use objects::{Class, Error, Result};

use crate::abi::{MPI_Aint, MPI_Count};
use crate::args::null_argument;
use crate::constants::MPI_UNDEFINED;

/// A user's array of counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counts {
    /// As `int`.
    Int(*const c_int),
    /// As `MPI_Count`.
    Large(*const MPI_Count),
}

/// A user's array of displacements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Displs {
    /// As `int`.
    Int(*const c_int),
    /// As `MPI_Aint`, which `MPI_Count` equals.
    Large(*const MPI_Aint),
}

/// The address of a count that the call stores, and may read first (MPI_Pack's position).
#[derive(Clone, Copy, Debug)]
pub(crate) enum CountOut {
    /// An `int`.
    Int(*mut c_int),
    /// An `MPI_Count`.
    Large(*mut MPI_Count),
}

impl Counts {
    /// Returns true for the address 0, which is valid if no count is read.
    #[inline]
    pub(crate) fn is_null(self) -> bool {
        match self {
            Counts::Int(first) => first.is_null(),
            Counts::Large(first) => first.is_null(),
        }
    }

    /// Returns the count at `index`, which may be negative.
    ///
    /// # Safety
    /// The array has more than `index` elements.
    #[inline]
    pub(crate) unsafe fn at(self, index: usize) -> MPI_Count {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Counts::Int(first) => (*first.add(index)).into(),
                Counts::Large(first) => *first.add(index),
            }
        }
    }

    /// Returns all elements. MPI_ERR_ARG for null with `len` above 0.
    ///
    /// # Safety
    /// The array is null or has `len` elements.
    pub(crate) unsafe fn to_vec(self, len: usize, name: &str) -> Result<Vec<MPI_Count>> {
        if len > 0 && self.is_null() {
            return Err(null_argument(name));
        }
        // SAFETY: the caller's promise.
        Ok((0..len).map(|index| unsafe { self.at(index) }).collect())
    }
}

impl Displs {
    /// Returns all elements. MPI_ERR_ARG for null with `len` above 0.
    ///
    /// # Safety
    /// The array is null or has `len` elements.
    pub(crate) unsafe fn to_vec(self, len: usize, name: &str) -> Result<Vec<MPI_Aint>> {
        // SAFETY: the caller's promise.
        unsafe { Counts::from(self).to_vec(len, name) }
    }
}

/// Both are numbers of the same width.
impl From<Displs> for Counts {
    #[inline]
    fn from(displs: Displs) -> Counts {
        match displs {
            Displs::Int(first) => Counts::Int(first),
            Displs::Large(first) => Counts::Large(first),
        }
    }
}

impl CountOut {
    /// Returns the stored value. MPI_ERR_ARG for null.
    ///
    /// # Safety
    /// The address is null or valid.
    pub(crate) unsafe fn value(self, name: &str) -> Result<MPI_Count> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                CountOut::Int(from) => from.as_ref().map(|value| (*value).into()),
                CountOut::Large(from) => from.as_ref().copied(),
            }
        }
        .ok_or_else(|| null_argument(name))
    }

    /// Stores a value. MPI_ERR_ARG for null, MPI_ERR_VALUE_TOO_LARGE if an `int` is too small.
    ///
    /// # Safety
    /// The address is null or valid.
    pub(crate) unsafe fn put(self, value: MPI_Count, name: &str) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                CountOut::Int(to) => match c_int::try_from(value) {
                    Ok(value) => crate::args::put(to, value, name),
                    Err(_) => Err(too_large(value, name)),
                },
                CountOut::Large(to) => crate::args::put(to, value, name),
            }
        }
    }

    /// Stores a value; `None`, and a value that does not fit, become MPI_UNDEFINED. MPI_ERR_ARG for
    /// null.
    ///
    /// # Safety
    /// The address is null or valid.
    pub(crate) unsafe fn put_or_undefined(self, value: Option<u64>, name: &str) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                CountOut::Int(to) => {
                    let value = value.and_then(|value| c_int::try_from(value).ok());
                    crate::args::put(to, value.unwrap_or(MPI_UNDEFINED), name)
                }
                CountOut::Large(to) => {
                    let value = value.and_then(|value| MPI_Count::try_from(value).ok());
                    crate::args::put(to, value.unwrap_or(MPI_UNDEFINED.into()), name)
                }
            }
        }
    }
}

#[cold]
fn too_large(value: MPI_Count, name: &str) -> Error {
    Error::new(
        Class::ValueTooLarge,
        format!("{name} {value} does not fit an int: call the function whose name ends in _c"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_of_both_widths_read_alike() {
        let (ints, wides) = ([3, -1, 5], [3, -1, 1 << 40]);
        // SAFETY: the arrays have three elements each.
        unsafe {
            assert_eq!(Counts::Int(ints.as_ptr()).to_vec(3, "counts").unwrap(), [3, -1, 5]);
            assert_eq!(
                Displs::Large(wides.as_ptr()).to_vec(3, "displs").unwrap(),
                [3, -1, 1 << 40]
            );
            assert_eq!(
                Counts::Int(std::ptr::null()).to_vec(1, "counts").unwrap_err().class(),
                Class::Arg
            );
            assert!(Counts::Large(std::ptr::null()).to_vec(0, "counts").unwrap().is_empty());
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error_or_undefined() {
        let (mut small, mut wide) = (7, 7);
        let (int, large) = (CountOut::Int(&raw mut small), CountOut::Large(&raw mut wide));
        // SAFETY: both addresses are ours.
        unsafe {
            assert_eq!(int.put(1 << 31, "size").unwrap_err().class(), Class::ValueTooLarge);
            assert_eq!(int.value("size").unwrap(), 7);
            int.put_or_undefined(Some(1 << 31), "size").unwrap();
            large.put(1 << 31, "size").unwrap();
            assert_eq!(
                (int.value("size").unwrap(), large.value("size").unwrap()),
                (-32766, 1 << 31)
            );
            large.put_or_undefined(None, "size").unwrap();
            assert_eq!(large.value("size").unwrap(), -32766);
            assert_eq!(
                CountOut::Int(std::ptr::null_mut()).put(1, "size").unwrap_err().class(),
                Class::Arg
            );
        }
    }
}
