//! How a file is opened.

use std::os::raw::c_int;

use crate::ffi;

/// How a file is opened (MPI-5.0 §14.2.1). At first nothing is set; at least one of
/// [`read`](OpenOptions::read) and [`write`](OpenOptions::write) must be.
///
/// ```
/// use mpi::file::OpenOptions;
///
/// let mut options = OpenOptions::new();
/// options.read(true).write(true).create(true).hint("cb_nodes", "2");
/// ```
#[derive(Clone, Debug, Default)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    /// The other constants MPI_MODE.
    modes: c_int,
    hints: Vec<(String, String)>,
}

impl OpenOptions {
    /// Returns options of which none is set.
    pub fn new() -> OpenOptions {
        OpenOptions::default()
    }

    /// Sets whether the file is read.
    pub fn read(&mut self, read: bool) -> &mut OpenOptions {
        self.read = read;
        self
    }

    /// Sets whether the file is written.
    pub fn write(&mut self, write: bool) -> &mut OpenOptions {
        self.write = write;
        self
    }

    /// Sets whether the file is created if there is none.
    pub fn create(&mut self, create: bool) -> &mut OpenOptions {
        self.set(ffi::MPI_MODE_CREATE, create)
    }

    /// Sets whether the file is created, and is an error if there is one already.
    pub fn create_new(&mut self, create_new: bool) -> &mut OpenOptions {
        self.set(ffi::MPI_MODE_CREATE | ffi::MPI_MODE_EXCL, create_new)
    }

    /// Sets whether all pointers are at the end of the file at first.
    pub fn append(&mut self, append: bool) -> &mut OpenOptions {
        self.set(ffi::MPI_MODE_APPEND, append)
    }

    /// Sets whether the file is deleted when it is closed.
    pub fn delete_on_close(&mut self, delete: bool) -> &mut OpenOptions {
        self.set(ffi::MPI_MODE_DELETE_ON_CLOSE, delete)
    }

    /// Sets whether the file is accessed by the shared pointer alone, as a tape is.
    pub fn sequential(&mut self, sequential: bool) -> &mut OpenOptions {
        self.set(ffi::MPI_MODE_SEQUENTIAL, sequential)
    }

    /// Promises that the file is open nowhere else.
    pub fn unique(&mut self, unique: bool) -> &mut OpenOptions {
        self.set(ffi::MPI_MODE_UNIQUE_OPEN, unique)
    }

    /// Gives a hint (MPI-5.0 §14.2.8). The library ignores hints that it does not know.
    ///
    /// # Panics
    /// `File::open` panics if a key or value has a zero byte.
    pub fn hint(&mut self, key: &str, value: &str) -> &mut OpenOptions {
        self.hints.push((key.into(), value.into()));
        self
    }

    fn set(&mut self, modes: c_int, is_set: bool) -> &mut OpenOptions {
        if is_set {
            self.modes |= modes;
        } else {
            self.modes &= !modes;
        }
        self
    }

    /// Returns the access mode. Without reading and writing it is invalid, which the library says.
    pub(super) fn mode(&self) -> c_int {
        let access = match (self.read, self.write) {
            (true, true) => ffi::MPI_MODE_RDWR,
            (true, false) => ffi::MPI_MODE_RDONLY,
            (false, true) => ffi::MPI_MODE_WRONLY,
            (false, false) => 0,
        };
        access | self.modes
    }

    pub(super) fn hints(&self) -> impl Iterator<Item = (&str, &str)> {
        self.hints.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_add_up_to_the_mode() {
        let mut options = OpenOptions::new();
        options.read(true).create_new(true).append(true).append(false);
        let created = ffi::MPI_MODE_CREATE | ffi::MPI_MODE_EXCL;
        assert_eq!(options.mode(), ffi::MPI_MODE_RDONLY | created);
        options.write(true).create_new(false);
        assert_eq!(options.mode(), ffi::MPI_MODE_RDWR);
    }
}
