//! The job's key-value store for the inter-host transport: over the control connection to the
//! launcher. No call waits for an answer.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::Arc;

use bootstrap::control::{Control, ToRank};
use verbs_transport::Store;

/// The addresses of other processes that have arrived so far.
pub(crate) struct Addresses {
    control: Arc<Control>,
    requested: HashSet<String>,
    values: HashMap<String, Vec<u8>>,
}

impl Addresses {
    /// Returns an empty store over the control connection, which no other component reads.
    pub(crate) fn new(control: Arc<Control>) -> Addresses {
        Addresses { control, requested: HashSet::new(), values: HashMap::new() }
    }
}

impl Store for Addresses {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.control.put(key, value).map_err(|error| error.to_string())
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        if !self.requested.contains(key) {
            self.control.request(key).map_err(|error| error.to_string())?;
            self.requested.insert(key.to_owned());
        }
        while let Some(message) = self.control.try_receive().map_err(|error| error.to_string())? {
            if let ToRank::Value { key, value } = message {
                self.values.insert(key, value);
            }
        }
        Ok(self.values.get(key).cloned())
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.control.as_fd().as_raw_fd())
    }
}
