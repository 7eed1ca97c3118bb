//! The access mode of a file (MPI-5.0 §14.2.1).

use objects::{Class, Error, Result};

/// MPI_MODE_APPEND: pointers start at the end.
pub const APPEND: i32 = 1;
/// MPI_MODE_CREATE: create the file if it does not exist.
pub const CREATE: i32 = 2;
/// MPI_MODE_DELETE_ON_CLOSE: delete the file when it is closed.
pub const DELETE_ON_CLOSE: i32 = 4;
/// MPI_MODE_EXCL: fail if the file exists.
pub const EXCL: i32 = 8;
/// MPI_MODE_RDONLY: read only.
pub const RDONLY: i32 = 16;
/// MPI_MODE_RDWR: read and write.
pub const RDWR: i32 = 32;
/// MPI_MODE_SEQUENTIAL: shared pointer only, no seeks.
pub const SEQUENTIAL: i32 = 64;
/// MPI_MODE_UNIQUE_OPEN: no other program opens the file.
pub const UNIQUE_OPEN: i32 = 128;
/// MPI_MODE_WRONLY: write only.
pub const WRONLY: i32 = 256;

const ALL: i32 = 511;

/// A valid access mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Amode(i32);

impl Amode {
    /// Checks an access mode, otherwise MPI_ERR_AMODE.
    pub fn new(bits: i32) -> Result<Amode> {
        let wrong = |text: String| Err(Error::new(Class::Amode, text));
        if bits & !ALL != 0 {
            return wrong(format!("invalid amode {bits}: must be a sum of MPI_MODE_ constants"));
        }
        let kinds = [RDONLY, RDWR, WRONLY].into_iter().filter(|kind| bits & kind != 0).count();
        if kinds != 1 {
            return wrong(format!(
                "invalid amode {bits}: must have exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and \
                 MPI_MODE_WRONLY"
            ));
        }
        if bits & RDONLY != 0 && bits & (CREATE | EXCL) != 0 {
            return wrong(format!(
                "invalid amode {bits}: MPI_MODE_CREATE and MPI_MODE_EXCL need a file that is written"
            ));
        }
        if bits & RDWR != 0 && bits & SEQUENTIAL != 0 {
            return wrong(format!(
                "invalid amode {bits}: MPI_MODE_SEQUENTIAL does not allow MPI_MODE_RDWR"
            ));
        }
        Ok(Amode(bits))
    }

    /// Returns the number that the user gave.
    pub fn bits(self) -> i32 {
        self.0
    }

    /// Returns true if the mode has this constant.
    pub fn has(self, bit: i32) -> bool {
        self.0 & bit != 0
    }

    /// Returns true if data may be read.
    pub fn reads(self) -> bool {
        !self.has(WRONLY)
    }

    /// Returns true if data may be written.
    pub fn writes(self) -> bool {
        !self.has(RDONLY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_way_of_access() {
        for bits in
            [0, RDONLY | RDWR, CREATE, RDONLY | CREATE, RDONLY | EXCL, RDWR | SEQUENTIAL, 512]
        {
            assert_eq!(Amode::new(bits).unwrap_err().class(), Class::Amode, "{bits}");
        }
        let mode = Amode::new(RDWR | CREATE | EXCL | APPEND).unwrap();
        assert!(mode.reads() && mode.writes() && mode.has(EXCL) && !mode.has(WRONLY));
        assert!(Amode::new(WRONLY | SEQUENTIAL).is_ok());
    }
}
