//! Names of services (MPI-5.0 §11.9.4): requests to the launcher, and its answers.
//!
//! The `mpiexec` that the user has started keeps the names, also those of spawned jobs; the keeper
//! of a group of jobs keeps theirs. Either answers at once. A name lasts at most as long as the job
//! that has published it: nobody would answer at its port.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The longest name and the longest value, in bytes.
pub const MAX_TEXT: usize = 4096;

/// The largest number of names that a job may have at once.
const MAX_NAMES: usize = 1 << 16;

/// A request of a rank about a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameRequest {
    /// Gives the name a value.
    Publish {
        /// The name.
        name: Vec<u8>,
        /// The value.
        value: Vec<u8>,
    },
    /// Takes the name back.
    Unpublish {
        /// The name.
        name: Vec<u8>,
    },
    /// Asks for the name's value.
    Lookup {
        /// The name.
        name: Vec<u8>,
    },
}

/// The answer to a [`NameRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NameAnswer {
    /// The name is published, or is published no more.
    Done,
    /// The name has this value.
    Value(Vec<u8>),
    /// The name has a value already, which stays.
    Taken,
    /// The name has no value.
    Missing,
    /// The name, the value or their number is beyond its limit.
    TooLarge,
}

/// The names of a job, with their values.
#[derive(Debug, Default)]
pub struct ServiceNames {
    values: HashMap<Vec<u8>, Published>,
}

#[derive(Debug)]
struct Published {
    value: Vec<u8>,
    /// The process number of the publisher.
    by: u32,
}

impl ServiceNames {
    /// Carries out the request of a process, by its number.
    pub fn answer(&mut self, asker: u32, request: NameRequest) -> NameAnswer {
        let count = self.values.len();
        match request {
            NameRequest::Publish { name, value } => match self.values.entry(name) {
                Entry::Occupied(_) => NameAnswer::Taken,
                Entry::Vacant(entry)
                    if count >= MAX_NAMES || entry.key().len().max(value.len()) > MAX_TEXT =>
                {
                    NameAnswer::TooLarge
                }
                Entry::Vacant(entry) => {
                    entry.insert(Published { value, by: asker });
                    NameAnswer::Done
                }
            },
            NameRequest::Unpublish { name } => match self.values.remove(&name) {
                Some(_) => NameAnswer::Done,
                None => NameAnswer::Missing,
            },
            NameRequest::Lookup { name } => match self.values.get(&name) {
                Some(published) => NameAnswer::Value(published.value.clone()),
                None => NameAnswer::Missing,
            },
        }
    }

    /// Takes back the names of processes that have ended.
    pub fn forget(&mut self, processes: &Range<u32>) {
        self.values.retain(|_, published| !processes.contains(&published.by));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_value_until_it_is_taken_back() {
        let mut names = ServiceNames::default();
        let name = || b"ocean".to_vec();
        let publish = |value: &[u8]| NameRequest::Publish { name: name(), value: value.to_vec() };
        assert_eq!(names.answer(7, NameRequest::Lookup { name: name() }), NameAnswer::Missing);
        assert_eq!(names.answer(7, publish(b"a")), NameAnswer::Done);
        assert_eq!(names.answer(7, publish(b"b")), NameAnswer::Taken);
        let found = names.answer(7, NameRequest::Lookup { name: name() });
        assert_eq!(found, NameAnswer::Value(b"a".to_vec()));
        assert_eq!(names.answer(7, NameRequest::Unpublish { name: name() }), NameAnswer::Done);
        assert_eq!(names.answer(7, NameRequest::Unpublish { name: name() }), NameAnswer::Missing);
        assert_eq!(names.answer(7, publish(b"b")), NameAnswer::Done);
        names.forget(&(3..7));
        assert_eq!(names.answer(7, publish(b"c")), NameAnswer::Taken);
        names.forget(&(7..9));
        assert_eq!(names.answer(7, publish(b"c")), NameAnswer::Done);
    }

    #[test]
    fn names_and_values_have_a_limit() {
        let mut names = ServiceNames::default();
        let publish = |name: usize, value: usize| NameRequest::Publish {
            name: vec![b'n'; name],
            value: vec![b'v'; value],
        };
        assert_eq!(names.answer(7, publish(MAX_TEXT, MAX_TEXT)), NameAnswer::Done);
        assert_eq!(names.answer(7, publish(MAX_TEXT + 1, 1)), NameAnswer::TooLarge);
        assert_eq!(names.answer(7, publish(1, MAX_TEXT + 1)), NameAnswer::TooLarge);
    }
}
