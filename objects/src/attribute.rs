//! Attribute caching: values that a program attaches to communicators, datatypes and windows
//! (MPI-5.0 §7.7).
//!
//! The user's copy and delete functions may call MPI; therefore they must run with no lock held.
//! Each step that may call one has three parts, which the runtime drives: take a [`Deletion`] or
//! [`Copying`] out (locked), run it (unlocked), store its outcome (locked).
//!
//! - *set*: the deletion of the old value, if there is one, then `store`. If the deletion fails,
//!   nothing changes.
//! - *delete*: the deletion, then `remove`. If the deletion fails, the attribute is kept.
//! - *duplicate* an object: each of `copies` in the order in which the attributes were set. Values
//!   that were copied are stored in the new object. If a copy fails, the new object is freed.
//! - *free* an object: `last_deletion` and `remove` until no attribute is left. The attribute that
//!   was set last is deleted first, as MPI_Finalize requires for MPI_COMM_SELF (MPI-5.0 §11.2.4).
//!
//! A key that is freed while values use it lives until the last value is deleted (MPI-5.0 §7.7.2).
//! Until then its number remains valid for reading and deleting them.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::raw::c_int;
use std::sync::Arc;

use crate::{Class, Error, Result, callback};

/// First number of a user's key; predefined keys are below 1,000.
const FIRST_KEY: i32 = 0x1000;

/// The classes of objects that have attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Owner {
    Comm,
    Type,
    Win,
}

/// The C type of a copy function for any class of object (handles are of
/// pointer size): old object, key, extra state, value, address of the new value
/// (a `void **`), flag.
pub type CopyCallback =
    extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;

/// The C type of a delete function: object, key, value, extra state.
pub type DeleteCallback = extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;

/// The rule for a value when its object is duplicated.
#[derive(Clone, Copy, Debug)]
pub enum CopyFunction {
    /// MPI_*_NULL_COPY_FN (the value 0): it is not copied.
    Null,
    /// MPI_*_DUP_FN (the value 1): it is copied as it is.
    Dup,
    /// The user's function decides.
    User(CopyCallback),
}

/// The rule for a value when it is deleted.
#[derive(Clone, Copy, Debug)]
pub enum DeleteFunction {
    /// MPI_*_NULL_DELETE_FN (the value 0): nothing.
    Null,
    /// The user's function is called.
    User(DeleteCallback),
}

/// A key for attributes.
#[derive(Debug)]
pub struct Keyval {
    number: i32,
    owner: Owner,
    copy: CopyFunction,
    delete: DeleteFunction,
    extra_state: usize,
}

/// The attribute keys of a process.
#[derive(Debug, Default)]
pub struct Keyvals {
    by_number: BTreeMap<i32, Arc<Keyval>>,
    /// Keys that are freed and were in use at the last check.
    freed: Vec<i32>,
    created: i32,
}

/// The attributes of one object, in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub struct Attributes {
    entries: Vec<Attribute>,
    /// Number of stores so far; it distinguishes a value from the replaced one.
    stores: u64,
}

#[derive(Clone, Debug)]
struct Attribute {
    keyval: Arc<Keyval>,
    /// The user's `void *`.
    value: usize,
    store: u64,
}

/// A value that is about to be deleted.
#[derive(Debug)]
pub struct Deletion(Attribute);

/// A value that is about to be copied to a duplicate of its object.
#[derive(Debug)]
pub struct Copying(Attribute);

impl Keyvals {
    /// Returns a table without keys.
    pub const fn new() -> Keyvals {
        Keyvals { by_number: BTreeMap::new(), freed: Vec::new(), created: 0 }
    }

    /// Creates a key and returns its number (MPI_*_create_keyval).
    pub fn create(
        &mut self,
        owner: Owner,
        copy: CopyFunction,
        delete: DeleteFunction,
        extra_state: usize,
    ) -> i32 {
        self.forget_unused();
        let number = FIRST_KEY + self.created;
        self.created += 1;
        self.by_number
            .insert(number, Arc::new(Keyval { number, owner, copy, delete, extra_state }));
        number
    }

    /// Frees a key (MPI_*_free_keyval). MPI_ERR_KEYVAL if it is no key or was freed.
    pub fn free(&mut self, owner: Owner, number: i32) -> Result<()> {
        self.find(owner, number)?;
        if self.freed.contains(&number) {
            return Err(Error::new(
                Class::Keyval,
                format!("invalid attribute key {number}: it was freed before"),
            ));
        }
        self.freed.push(number);
        self.forget_unused();
        Ok(())
    }

    /// Returns the key of that number for attributes of `owner`; otherwise MPI_ERR_KEYVAL.
    pub fn find(&self, owner: Owner, number: i32) -> Result<&Arc<Keyval>> {
        let why = match self.by_number.get(&number) {
            Some(keyval) if keyval.owner != owner => {
                format!(
                    "invalid attribute key {number}: it is for {}, not for {}",
                    keyval.owner.noun(),
                    owner.noun()
                )
            }
            Some(keyval) if Arc::strong_count(keyval) == 1 && self.freed.contains(&number) => {
                format!("invalid attribute key {number}: it was freed")
            }
            Some(keyval) => return Ok(keyval),
            None if number == 0 => "invalid attribute key: MPI_KEYVAL_INVALID".to_owned(),
            None if (501..=605).contains(&number) => {
                format!("attribute key {number} is predefined: it cannot be set, deleted or freed")
            }
            None => format!("invalid attribute key {number}: it was never created"),
        };
        Err(Error::new(Class::Keyval, why))
    }

    fn forget_unused(&mut self) {
        self.freed.retain(|number| {
            let in_use =
                self.by_number.get(number).is_some_and(|keyval| Arc::strong_count(keyval) > 1);
            if !in_use {
                self.by_number.remove(number);
            }
            in_use
        });
    }
}

impl Attributes {
    /// Returns an object without attributes.
    pub const fn new() -> Attributes {
        Attributes { entries: Vec::new(), stores: 0 }
    }

    /// Returns true if there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the value of a key.
    pub fn value(&self, key: i32) -> Option<usize> {
        self.entry(key).map(|entry| entry.value)
    }

    /// Returns the deletion to run before the value of `key` is replaced or removed.
    pub fn deletion(&self, key: i32) -> Option<Deletion> {
        self.entry(key).cloned().map(Deletion)
    }

    /// Returns the deletion of the attribute that was set last.
    pub fn last_deletion(&self) -> Option<Deletion> {
        self.entries.last().cloned().map(Deletion)
    }

    /// Returns the copies to run for a duplicate, in the order in which the attributes were set.
    pub fn copies(&self) -> Vec<Copying> {
        self.entries.iter().cloned().map(Copying).collect()
    }

    /// Sets a value, in place of an old one.
    pub fn store(&mut self, keyval: &Arc<Keyval>, value: usize) {
        self.entries.retain(|entry| entry.keyval.number != keyval.number);
        self.stores += 1;
        self.entries.push(Attribute { keyval: keyval.clone(), value, store: self.stores });
    }

    /// Removes the deleted attribute, unless its callback has set a new value.
    pub fn remove(&mut self, deleted: &Deletion) {
        self.entries.retain(|entry| entry.store != deleted.0.store);
    }

    fn entry(&self, key: i32) -> Option<&Attribute> {
        self.entries.iter().find(|entry| entry.keyval.number == key)
    }
}

impl Deletion {
    /// Calls the user's function, if there is one; `handle` is the object's handle. The caller
    /// holds no lock.
    pub fn run(&self, handle: usize) -> Result<()> {
        let Attribute { keyval, value, .. } = &self.0;
        let code = match keyval.delete {
            DeleteFunction::Null => 0,
            DeleteFunction::User(function) => {
                let extra_state = keyval.extra_state as *mut c_void;
                callback::user(|| {
                    function(handle, keyval.number, *value as *mut c_void, extra_state)
                })
            }
        };
        let origin =
            format_args!("the delete function of attribute key {} returned", keyval.number);
        Error::from_code(origin, code).map_or(Ok(()), Err)
    }
}

impl Copying {
    /// Returns the value for the duplicate of the object `handle`, or `None` if it gets none. The
    /// caller holds no lock.
    pub fn run(&self, handle: usize) -> Result<Option<usize>> {
        let Attribute { keyval, value, .. } = &self.0;
        let function = match keyval.copy {
            CopyFunction::Null => return Ok(None),
            CopyFunction::Dup => return Ok(Some(*value)),
            CopyFunction::User(function) => function,
        };
        let (mut copy, mut flag) = (std::ptr::null_mut::<c_void>(), 0);
        let out = (&raw mut copy).cast();
        let extra_state = keyval.extra_state as *mut c_void;
        let old = *value as *mut c_void;
        let code =
            callback::user(|| function(handle, keyval.number, extra_state, old, out, &mut flag));
        let origin = format_args!("the copy function of attribute key {} returned", keyval.number);
        match Error::from_code(origin, code) {
            Some(error) => Err(error),
            None => Ok((flag != 0).then_some(copy as usize)),
        }
    }

    /// Returns the key under which the copy is stored.
    pub fn keyval(&self) -> &Arc<Keyval> {
        &self.0.keyval
    }
}

impl Keyval {
    /// Returns the number by which the user knows the key.
    pub fn number(&self) -> i32 {
        self.number
    }
}

impl Owner {
    fn noun(self) -> &'static str {
        match self {
            Owner::Comm => "communicators",
            Owner::Type => "datatypes",
            Owner::Win => "windows",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local!(static CALLS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });

    fn calls() -> Vec<String> {
        CALLS.take()
    }

    extern "C" fn note_delete(
        handle: usize,
        key: c_int,
        value: *mut c_void,
        extra: *mut c_void,
    ) -> c_int {
        CALLS.with_borrow_mut(|calls| {
            calls.push(format!("delete {handle} {key} {} {}", value as usize, extra as usize))
        });
        0
    }

    extern "C" fn refuse_delete(_: usize, _: c_int, _: *mut c_void, _: *mut c_void) -> c_int {
        777_777
    }

    extern "C" fn never_copy(
        _: usize,
        _: c_int,
        _: *mut c_void,
        _: *mut c_void,
        _: *mut c_void,
        flag: *mut c_int,
    ) -> c_int {
        assert!(!flag.is_null());
        0
    }

    fn key(keys: &mut Keyvals, copy: CopyFunction, delete: DeleteFunction) -> Arc<Keyval> {
        let number = keys.create(Owner::Comm, copy, delete, 99);
        keys.find(Owner::Comm, number).unwrap().clone()
    }

    #[test]
    fn freeing_an_object_deletes_the_newest_first() {
        let mut keys = Keyvals::new();
        let [a, b, c] =
            [(); 3].map(|()| key(&mut keys, CopyFunction::Null, DeleteFunction::User(note_delete)));
        let mut attributes = Attributes::new();
        attributes.store(&a, 1);
        attributes.store(&b, 2);
        attributes.store(&c, 3);
        // Setting again runs the deletion of the old value and makes it the newest.
        attributes.deletion(a.number).unwrap().run(5).unwrap();
        attributes.store(&a, 4);
        while let Some(deletion) = attributes.last_deletion() {
            deletion.run(5).unwrap();
            attributes.remove(&deletion);
        }
        assert!(attributes.is_empty());
        let expected = [(a.number, 1), (a.number, 4), (c.number, 3), (b.number, 2)];
        assert_eq!(calls(), expected.map(|(key, value)| format!("delete 5 {key} {value} 99")));
    }

    #[test]
    fn copies_follow_their_functions() {
        let mut keys = Keyvals::new();
        let null = key(&mut keys, CopyFunction::Null, DeleteFunction::Null);
        let dup = key(&mut keys, CopyFunction::Dup, DeleteFunction::Null);
        let user = key(&mut keys, CopyFunction::User(never_copy), DeleteFunction::Null);
        let mut attributes = Attributes::new();
        for (value, keyval) in [&user, &dup, &null].into_iter().enumerate() {
            attributes.store(keyval, value + 7);
        }
        let copies: Vec<_> = attributes
            .copies()
            .iter()
            .map(|copying| (copying.keyval().number(), copying.run(1).unwrap()))
            .collect();
        assert_eq!(copies, [(user.number, None), (dup.number, Some(8)), (null.number, None)]);
    }

    #[test]
    fn a_function_that_fails_gives_its_own_code() {
        let mut keys = Keyvals::new();
        let keyval = key(&mut keys, CopyFunction::Null, DeleteFunction::User(refuse_delete));
        let mut attributes = Attributes::new();
        attributes.store(&keyval, 1);
        let error = attributes.deletion(keyval.number).unwrap().run(1).unwrap_err();
        assert_eq!(error.code(), Some(777_777));
        assert_eq!(attributes.value(keyval.number), Some(1));
    }

    #[test]
    fn what_a_callback_sets_is_not_removed() {
        let mut keys = Keyvals::new();
        let keyval = key(&mut keys, CopyFunction::Null, DeleteFunction::Null);
        let mut attributes = Attributes::new();
        attributes.store(&keyval, 1);
        let deletion = attributes.deletion(keyval.number).unwrap();
        attributes.store(&keyval, 2);
        attributes.remove(&deletion);
        assert_eq!(attributes.value(keyval.number), Some(2));
    }

    #[test]
    fn a_freed_key_lives_as_long_as_its_values() {
        let mut keys = Keyvals::new();
        let number = keys.create(Owner::Comm, CopyFunction::Null, DeleteFunction::Null, 0);
        let mut attributes = Attributes::new();
        attributes.store(keys.find(Owner::Comm, number).unwrap(), 1);
        keys.free(Owner::Comm, number).unwrap();
        assert!(keys.find(Owner::Comm, number).is_ok());
        assert_eq!(keys.free(Owner::Comm, number).unwrap_err().class(), Class::Keyval);
        let deletion = attributes.deletion(number).unwrap();
        attributes.remove(&deletion);
        drop(deletion);
        assert_eq!(keys.find(Owner::Comm, number).unwrap_err().class(), Class::Keyval);
        keys.create(Owner::Comm, CopyFunction::Null, DeleteFunction::Null, 0);
        assert_eq!((keys.by_number.len(), keys.freed.len()), (1, 0));
    }

    #[test]
    fn a_wrong_key_is_named() {
        let mut keys = Keyvals::new();
        let number = keys.create(Owner::Type, CopyFunction::Dup, DeleteFunction::Null, 0);
        let why = |keys: &Keyvals, number| {
            keys.find(Owner::Comm, number).unwrap_err().detail().to_owned()
        };
        assert_eq!(
            why(&keys, number),
            "invalid attribute key 4096: it is for datatypes, not for communicators"
        );
        assert_eq!(why(&keys, 0), "invalid attribute key: MPI_KEYVAL_INVALID");
        assert!(why(&keys, 501).contains("predefined"));
        assert!(why(&keys, 9999).contains("it was never created"));
        for _ in 0..1000 {
            let number = keys.create(Owner::Win, CopyFunction::Dup, DeleteFunction::Null, 0);
            keys.free(Owner::Win, number).unwrap();
        }
        assert_eq!((keys.by_number.len(), keys.freed.len()), (1, 0));
    }
}
