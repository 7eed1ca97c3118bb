//! The job's key-value store for the transports between hosts. Over the control connection to our
//! launcher no call waits for an answer. Another process manager answers at once, from a process of
//! this host, and has all addresses after the fence of MPI_Init. All clones share the answers.
//! Values begin with the version of their process ([`bootstrap::versions`]); another one is an
//! error that names both.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

use bootstrap::control::{Control, ToRank};
use bootstrap::versions::{checked, stamp};
use fabric::Store;

/// The addresses of other processes.
#[derive(Clone)]
pub(crate) struct Addresses {
    store: bootstrap::Store,
    answers: Arc<Mutex<Answers>>,
}

/// What was asked for, and what has arrived so far.
#[derive(Default)]
struct Answers {
    requested: HashSet<String>,
    values: HashMap<String, Vec<u8>>,
    /// The keys of all values that have arrived, in order.
    arrived: Vec<String>,
}

impl Addresses {
    /// Returns an empty cache over the job's store, which no other component reads.
    pub(crate) fn new(store: bootstrap::Store) -> Addresses {
        Addresses { store, answers: Arc::default() }
    }
}

impl Answers {
    /// Requests a value from our launcher, and takes the answers that have come.
    fn update(&mut self, control: &Control, key: &str) -> Result<(), String> {
        // The launcher also sends values that were not asked for yet.
        if !self.values.contains_key(key) && !self.requested.contains(key) {
            control.request(key).map_err(|error| error.to_string())?;
            self.requested.insert(key.to_owned());
        }
        self.receive(control)
    }

    /// Takes the answers that have come.
    fn receive(&mut self, control: &Control) -> Result<(), String> {
        while let Some(message) = control.try_receive().map_err(|error| error.to_string())? {
            if let ToRank::Value { key, value } = message {
                self.arrived.push(key.clone());
                self.values.insert(key, value);
            }
        }
        Ok(())
    }
}

impl Store for Addresses {
    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), String> {
        let value = &stamp(value)[..];
        match &self.store {
            bootstrap::Store::Launcher(control) => {
                control.put(key, value).map_err(|error| error.to_string())
            }
            bootstrap::Store::Manager(manager) => {
                manager.put(key, value).map_err(|error| error.to_string())
            }
        }
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        match &self.store {
            bootstrap::Store::Launcher(control) => answers.update(control, key)?,
            bootstrap::Store::Manager(manager) if !answers.values.contains_key(key) => {
                let value = manager.get(key).map_err(|error| error.to_string())?;
                answers.values.extend(value.map(|value| (key.to_owned(), value)));
            }
            bootstrap::Store::Manager(_) => {}
        }
        answers.values.get(key).map(|value| checked(value).map(<[u8]>::to_vec)).transpose()
    }

    fn forget(&mut self, key: &str) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.requested.remove(key);
        answers.values.remove(key);
    }

    fn shows_changes(&self) -> bool {
        matches!(self.store, bootstrap::Store::Launcher(_))
    }

    fn arrivals(&mut self, seen: &mut usize) -> Vec<String> {
        let bootstrap::Store::Launcher(control) = &self.store else { return Vec::new() };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        // An error shows at the next question.
        let _ = answers.receive(control);
        let new = answers.arrived[*seen..].to_vec();
        *seen = answers.arrived.len();
        new
    }

    fn fd(&self) -> Option<RawFd> {
        match &self.store {
            bootstrap::Store::Launcher(control) => Some(control.as_fd().as_raw_fd()),
            bootstrap::Store::Manager(_) => None,
        }
    }
}
