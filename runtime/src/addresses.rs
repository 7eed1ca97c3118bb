//! The job's store as inter-host transports use it: over the control connection to the launcher,
//! without waiting for an answer.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::Arc;

use bootstrap::control::{Control, ToRank};
use verbs_transport::Store;

/// Addresses of other processes, as far as they are known.
pub(crate) struct Addresses {
    line: Arc<Control>,
    asked: HashSet<String>,
    answers: HashMap<String, Vec<u8>>,
}

impl Addresses {
    /// Over the process's line to its launcher, which nobody else reads.
    pub(crate) fn new(line: Arc<Control>) -> Addresses {
        Addresses { line, asked: HashSet::new(), answers: HashMap::new() }
    }
}

impl Store for Addresses {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.line.put(key, value).map_err(|error| error.to_string())
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        if !self.asked.contains(key) {
            self.line.request(key).map_err(|error| error.to_string())?;
            self.asked.insert(key.to_owned());
        }
        while let Some(message) = self.line.try_receive().map_err(|error| error.to_string())? {
            if let ToRank::Value { key, value } = message {
                self.answers.insert(key, value);
            }
        }
        Ok(self.answers.get(key).cloned())
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.line.as_fd().as_raw_fd())
    }
}
