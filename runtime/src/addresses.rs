//! The job's key-value store for the transports between hosts: over the control connection to the
//! launcher. No call waits for an answer. All clones share the answers.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use bootstrap::control::{Control, ToRank};
use fabric::Store;

/// The addresses of other processes.
#[derive(Clone)]
pub(crate) struct Addresses {
    control: Arc<Control>,
    answers: Arc<Mutex<Answers>>,
}

/// What was asked for, and what has arrived so far.
#[derive(Default)]
struct Answers {
    requested: HashSet<String>,
    values: HashMap<String, Vec<u8>>,
}

impl Addresses {
    /// Returns an empty store over the control connection, which no other component reads.
    pub(crate) fn new(control: Arc<Control>) -> Addresses {
        Addresses { control, answers: Arc::default() }
    }
}

impl Store for Addresses {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        self.control.put(key, value).map_err(|error| error.to_string())
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if !answers.requested.contains(key) {
            self.control.request(key).map_err(|error| error.to_string())?;
            answers.requested.insert(key.to_owned());
        }
        while let Some(message) = self.control.try_receive().map_err(|error| error.to_string())? {
            if let ToRank::Value { key, value } = message {
                answers.values.insert(key, value);
            }
        }
        Ok(answers.values.get(key).cloned())
    }

    fn fd(&self) -> Option<RawFd> {
        Some(self.control.as_fd().as_raw_fd())
    }
}
