//! Hints of a file: keys of an info object that change how it is accessed (MPI-5.0 §14.2.8), under
//! the names that ROMIO made known.
//!
//! A value that makes no sense is ignored, as the standard demands of hints.

use objects::{Info, Result};

/// The hints in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Permissions of a file that is created.
    pub file_perm: u32,
    /// The kind of file system, as ROMIO writes it.
    pub file_system: &'static str,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints { file_perm: 0o666, file_system: "UFS:" }
    }
}

impl Hints {
    /// Takes over the hints that are given.
    pub fn update(&mut self, info: &Info) -> Result<()> {
        if let Some(mode) = number(info, "file_perm", 8)? {
            self.file_perm = (mode & 0o777) as u32;
        }
        Ok(())
    }

    /// Returns all hints in use (MPI_File_get_info).
    pub fn to_info(&self) -> Result<Info> {
        let mut info = Info::new();
        info.set("file_perm", format!("{:o}", self.file_perm))?;
        info.set("romio_filesystem_type", self.file_system)?;
        Ok(info)
    }
}

fn number(info: &Info, key: &str, radix: u32) -> Result<Option<u64>> {
    let value = info.value(key)?.and_then(|value| std::str::from_utf8(value).ok());
    Ok(value.and_then(|value| u64::from_str_radix(value.trim(), radix).ok()))
}
