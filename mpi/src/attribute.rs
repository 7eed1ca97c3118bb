//! Attributes: values that a program keeps with a communicator (MPI-5.0 §7.7).
//!
//! Each type of attribute has one key, made when it is first asked for and freed with the universe.
//! A value lies in a box of its own that belongs to the communicator: the callbacks of the key
//! clone it or drop it.
//!
//! Invariant: a value is dropped only when nothing can borrow it any more. A communicator with an
//! owner is borrowed as long as its values are. MPI_COMM_WORLD, MPI_COMM_SELF and the parent have
//! no owner: any number of values stand for each. Therefore their attributes are never dropped.

#![allow(unsafe_code)]

use std::any::TypeId;
use std::collections::HashMap;
use std::os::raw::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use crate::error::call;
use crate::ffi;
use crate::raw::AsRaw;
use crate::topology::handle;

/// The traits of this module.
pub mod traits {
    pub use super::CommAttribute;
}

/// The key of each type that was asked for.
static KEYS: Mutex<Option<HashMap<TypeId, AttributeKey>>> = Mutex::new(None);

/// A type whose values communicators can hold: one of each type
/// ([`AnyCommunicator::set_attr`](crate::topology::AnyCommunicator::set_attr), MPI-5.0 §7.7).
///
/// A communicator drops its value when it is freed or gets another. MPI_COMM_WORLD, MPI_COMM_SELF
/// and the communicator of the parent never do.
pub trait CommAttribute
where
    Self: 'static + Sized + Clone,
{
    /// Whether the duplicate of a communicator gets a clone of the value. By default it does not.
    const CLONE_ON_DUP: bool = false;

    /// Drops a value: MPI calls this when the communicator is freed, or its value replaced.
    /// Attributes that Rust sets need no other definition. A panic ends the program.
    ///
    /// # Safety
    /// The value is a box of [`set_attr`](crate::topology::AnyCommunicator::set_attr) that nothing
    /// uses after the call.
    unsafe extern "C" fn comm_delete_attr_fn(
        comm: ffi::MPI_Comm,
        _key: c_int,
        val: *mut c_void,
        _extra_state: *mut c_void,
    ) -> c_int {
        if !handle::has_no_owner(comm) {
            // SAFETY: the caller hands over a box of this type. It is not borrowed: that would
            // borrow the communicator, which its owner frees or changes.
            drop(unsafe { Box::from_raw(val.cast::<Self>()) });
        }
        ffi::MPI_SUCCESS
    }

    /// Clones a value if [`CLONE_ON_DUP`](Self::CLONE_ON_DUP) says so: MPI calls this when a
    /// communicator is duplicated. Attributes that Rust sets need no other definition. A panic ends
    /// the program.
    ///
    /// # Safety
    /// The value is a box of [`set_attr`](crate::topology::AnyCommunicator::set_attr); a pointer
    /// and a number may be written to the outputs.
    unsafe extern "C" fn comm_copy_attr_fn(
        _old_comm: ffi::MPI_Comm,
        _key: c_int,
        _extra_state: *mut c_void,
        val_in: *mut c_void,
        val_out: *mut c_void,
        flag: *mut c_int,
    ) -> c_int {
        if Self::CLONE_ON_DUP {
            // SAFETY: the caller passes a value of this type that lives, and an output for a
            // pointer. The new box belongs to the new communicator.
            unsafe {
                let copy = Box::new((*val_in.cast::<Self>()).clone());
                *val_out.cast::<*mut Self>() = Box::into_raw(copy);
            }
        }
        // SAFETY: the caller passes an output for a number.
        unsafe { *flag = c_int::from(Self::CLONE_ON_DUP) };
        ffi::MPI_SUCCESS
    }

    /// Returns the type's key, which is made in the first call. MPI must be initialised.
    ///
    /// To use the attribute of a C library, a type defines this as its key. The key of another type
    /// is refused where the attribute is set or read.
    fn get_key() -> AttributeKey {
        let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = keys.get_or_insert_default();
        keys.entry(TypeId::of::<Self>()).or_insert_with(create_key::<Self>).clone()
    }
}

fn create_key<A: CommAttribute>() -> AttributeKey {
    let copy = ffi::MPI_Comm_copy_attr_function(A::comm_copy_attr_fn as *const () as usize);
    let delete = ffi::MPI_Comm_delete_attr_function(A::comm_delete_attr_fn as *const () as usize);
    let mut key = 0;
    // SAFETY: both functions have the declarations of the standard, and use no extra state.
    unsafe { call!(MPI_Comm_create_keyval(copy, delete, &mut key, ptr::null_mut())) };
    AttributeKey { key, owner: Some(TypeId::of::<A>()) }
}

/// Frees the keys of all types. Values stay with their communicators.
pub(crate) fn free_keys() {
    let keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner).take();
    for (_, mut key) in keys.into_iter().flatten() {
        // SAFETY: the key was created by `create_key`, and freed never before.
        unsafe { call!(MPI_Comm_free_keyval(&mut key.key)) };
    }
}

/// The key of an attribute (MPI-5.0 §7.7.2).
#[derive(Debug, Clone)]
pub struct AttributeKey {
    key: c_int,
    /// The type of the values, if this crate made the key.
    owner: Option<TypeId>,
}

impl AttributeKey {
    /// Returns the key of the type `A`.
    ///
    /// # Panics
    /// If its definition of [`CommAttribute::get_key`] returns the key of another type.
    #[track_caller]
    pub(crate) fn of<A: CommAttribute>() -> AttributeKey {
        let key = A::get_key();
        let name = std::any::type_name::<A>();
        assert!(
            key.owner.is_none_or(|owner| owner == TypeId::of::<A>()),
            "{name} has the attribute key of another type: must have its own"
        );
        key
    }

    /// Makes a key of its number, for definitions of [`CommAttribute::get_key`].
    ///
    /// # Safety
    /// The key is valid, and the values of its attribute are pointers to the type that has this
    /// key. A type with a key whose callbacks do not drop boxes must not be set from Rust.
    pub unsafe fn new_unchecked(k: i32) -> Self {
        AttributeKey::foreign(k)
    }

    /// Makes a key whose values are not known to this crate.
    const fn foreign(key: c_int) -> Self {
        AttributeKey { key, owner: None }
    }
}

// SAFETY: a key is valid until the universe is dropped.
unsafe impl AsRaw for AttributeKey {
    type Raw = c_int;

    fn as_raw(&self) -> Self::Raw {
        self.key
    }
}

/// MPI_UNIVERSE_SIZE, which the library sets.
#[repr(transparent)]
#[derive(Clone)]
pub(crate) struct UniverseSize(c_int);

impl CommAttribute for UniverseSize {
    fn get_key() -> AttributeKey {
        AttributeKey::foreign(ffi::MPI_UNIVERSE_SIZE)
    }
}

impl TryFrom<&UniverseSize> for usize {
    type Error = std::num::TryFromIntError;

    fn try_from(size: &UniverseSize) -> Result<Self, Self::Error> {
        usize::try_from(size.0)
    }
}

/// MPI_APPNUM, which the library sets.
#[repr(transparent)]
#[derive(Clone)]
pub(crate) struct AppNum(c_int);

impl CommAttribute for AppNum {
    fn get_key() -> AttributeKey {
        AttributeKey::foreign(ffi::MPI_APPNUM)
    }
}

impl From<&AppNum> for isize {
    fn from(number: &AppNum) -> Self {
        number.0 as isize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone)]
    struct Number;

    impl CommAttribute for Number {
        fn get_key() -> AttributeKey {
            AttributeKey { key: 7, owner: Some(TypeId::of::<Number>()) }
        }
    }

    #[derive(Clone)]
    struct Text;

    impl CommAttribute for Text {
        fn get_key() -> AttributeKey {
            Number::get_key()
        }
    }

    #[test]
    fn a_type_has_its_own_key_or_one_of_c() {
        assert_eq!(AttributeKey::of::<Number>().as_raw(), 7);
        assert_eq!(AttributeKey::of::<AppNum>().as_raw(), ffi::MPI_APPNUM);
    }

    #[test]
    #[should_panic(expected = "Text has the attribute key of another type")]
    fn the_key_of_another_type_is_refused() {
        AttributeKey::of::<Text>();
    }
}
