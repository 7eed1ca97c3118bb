//! A job's store in a folder that all its processes see: a file for each key.

use std::os::fd::RawFd;
use std::path::PathBuf;

use verbs_transport::Store;

/// The folder. A key's slashes become dots.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl<P: Into<PathBuf>> From<P> for Folder {
    fn from(path: P) -> Folder {
        Folder(path.into())
    }
}

impl Store for Folder {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        let name = key.replace('/', ".");
        let new = self.0.join(format!("{name}.new"));
        std::fs::write(&new, value)
            .and_then(|()| std::fs::rename(new, self.0.join(name)))
            .map_err(|e| e.to_string())
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(std::fs::read(self.0.join(key.replace('/', "."))).ok())
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }
}
