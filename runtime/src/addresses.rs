//! The job's key-value store for the transports between hosts. Over the control connection to our
//! launcher no call waits for an answer. Another process manager answers at once, from a process of
//! this host, and has all addresses after the fence of MPI_Init. A process that joins our launcher
//! later has the addresses of its own job from the manager, and those of other jobs from the
//! launcher, to which it gives what it has put before. All clones share launcher and answers.
//! Values begin with the version of their process ([`bootstrap::versions`]); another one is an
//! error that names both.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bootstrap::control::{Control, ToRank};
use bootstrap::store_key::putter;
use bootstrap::versions::{checked, stamp};
use fabric::Store;

/// The addresses of other processes.
#[derive(Clone)]
pub(crate) struct Addresses {
    store: bootstrap::Store,
    /// The process numbers of this job.
    world: Range<u32>,
    /// The launcher that this process has joined while it ran.
    joined: Arc<OnceLock<Arc<Control>>>,
    answers: Arc<Mutex<Answers>>,
}

/// What was asked for, and what has arrived so far.
#[derive(Default)]
struct Answers {
    requested: HashSet<String>,
    values: HashMap<String, Vec<u8>>,
    /// The keys of all values that have arrived, in order.
    arrived: Vec<String>,
    /// What this process has put into a manager's store.
    own: Vec<(String, Vec<u8>)>,
}

impl Addresses {
    /// Returns an empty cache over the job's store, which no other component reads; `world`: the
    /// process numbers of the job.
    pub(crate) fn new(store: bootstrap::Store, world: Range<u32>) -> Addresses {
        Addresses { store, world, joined: Arc::default(), answers: Arc::default() }
    }

    /// Joins a launcher, where processes of other jobs look. The error is a text for the user.
    pub(crate) fn join(&self, control: &Arc<Control>) -> Result<(), String> {
        if self.joined.set(control.clone()).is_err() {
            return Ok(());
        }
        let answers = self.answers();
        let put = |(key, value): &(String, Vec<u8>)| control.put(key, value);
        answers.own.iter().try_for_each(put).map_err(|error| error.to_string())
    }

    /// Returns the connection to the launcher, if it has the value of a key.
    fn launcher_of(&self, key: &str) -> Option<&Arc<Control>> {
        let is_managed = matches!(self.store, bootstrap::Store::Manager(_));
        let is_of_job = || putter(key).is_some_and(|number| self.world.contains(&number));
        self.launcher().filter(|_| !(is_managed && is_of_job()))
    }

    /// Returns the connection to the launcher.
    fn launcher(&self) -> Option<&Arc<Control>> {
        match &self.store {
            bootstrap::Store::Launcher(control) => Some(control),
            bootstrap::Store::Manager(_) => self.joined.get(),
        }
    }

    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
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
        let value = stamp(value);
        if let Some(control) = self.launcher() {
            return control.put(key, &value).map_err(|error| error.to_string());
        }
        if let bootstrap::Store::Manager(manager) = &self.store {
            manager.put(key, &value).map_err(|error| error.to_string())?;
        }
        self.answers().own.push((key.to_owned(), value));
        Ok(())
    }

    fn try_value(&mut self, key: &str) -> Result<Option<Vec<u8>>, String> {
        let mut answers = self.answers();
        match (&self.store, self.launcher_of(key)) {
            (_, Some(control)) => answers.update(control, key)?,
            (bootstrap::Store::Manager(manager), None) if !answers.values.contains_key(key) => {
                let value = manager.get(key).map_err(|error| error.to_string())?;
                answers.values.extend(value.map(|value| (key.to_owned(), value)));
            }
            _ => {}
        }
        answers.values.get(key).map(|value| checked(value).map(<[u8]>::to_vec)).transpose()
    }

    fn forget(&mut self, key: &str) {
        let mut answers = self.answers();
        answers.requested.remove(key);
        answers.values.remove(key);
    }

    fn shows_changes(&self) -> bool {
        matches!(self.store, bootstrap::Store::Launcher(_))
    }

    fn arrivals(&mut self, seen: &mut usize) -> Vec<String> {
        let Some(control) = self.launcher() else { return Vec::new() };
        let mut answers = self.answers();
        // An error shows at the next question.
        let _ = answers.receive(control);
        let new = answers.arrived[*seen..].to_vec();
        *seen = answers.arrived.len();
        new
    }

    fn fd(&self) -> Option<RawFd> {
        self.launcher().map(|control| control.as_fd().as_raw_fd())
    }
}
