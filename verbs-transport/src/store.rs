//! The job's store of addresses, as far as this crate needs it. The runtime
//! implements it with its line to the launcher.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

/// What processes tell each other before they are connected.
pub trait Store: Send {
    /// Stores a value for all processes of the job.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String>;

    /// What some process has put under `key`. The first call asks; `None` while there is
    /// no answer. Never blocks.
    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String>;

    /// Readable when an answer may have come; `None` if nothing ever has to be waited for.
    fn fd(&self) -> Option<RawFd>;
}

/// A store of the processes that are threads of one: for tests.
#[derive(Clone, Debug, Default)]
pub struct InProcessStore(Arc<Mutex<HashMap<String, Vec<u8>>>>);

impl Store for InProcessStore {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn fd(&self) -> Option<RawFd> {
        None
    }
}
