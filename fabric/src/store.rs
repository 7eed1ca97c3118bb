//! The job's store of addresses, as far as transports need it. The runtime implements it over its
//! connection to the launcher.

use std::collections::HashMap;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError};

/// A key-value store that all processes of the job share.
pub trait Store: Send {
    /// Stores a value for all processes of the job.
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String>;

    /// Returns the value that a process has stored under `key`; `None` while there is no answer.
    /// The first call sends the question. Never blocks.
    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String>;

    /// Forgets what is known of a value, which another process may have changed: the next
    /// [`Store::try_value`] asks again.
    fn forget(&mut self, _key: &str) {}

    /// Returns whether a value that a process changes later is seen by others that ask again.
    fn shows_changes(&self) -> bool {
        true
    }

    /// Returns the keys whose values have arrived, from number `seen` on, and moves `seen` behind
    /// them. A store whose answers do not come by a descriptor names none.
    fn arrivals(&mut self, _seen: &mut usize) -> Vec<String> {
        Vec::new()
    }

    /// Returns a descriptor that is readable when an answer may have come; `None` if answers do
    /// not come by a descriptor.
    fn fd(&self) -> Option<RawFd>;
}

/// A store for ranks within one process, for tests.
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
