//! Integers for handles whose MPI does not turn its own integers back into them.
//!
//! Intel MPI 2021.18's MPI_X_fromint does not return the handle that MPI_X_toint was given, and its
//! integers of files are small numbers, among them those of predefined handles. Whether the MPI's
//! integers can be used is decided at the first conversion of a class. If not, each handle gets the
//! next number from 0x1000 on. MPI gives the handle of a freed object to a new one; it keeps its
//! integer then, so nothing is ever removed, and there are no more entries than different handles.
//!
//! Verbena has one integer for all sends that were complete when they were made. If such a send is
//! the first request, another handle comes back, which completes in the same way. A probe then
//! decides: a request that is active, and is made for that. Later requests of Verbena have handles
//! that differ from all earlier ones, so that its entries would only grow.

use std::collections::BTreeMap;
use std::os::raw::c_int;
use std::sync::{OnceLock, PoisonError, RwLock};

/// The first number that is not a predefined handle.
pub const DYNAMIC: usize = 0x1000;

/// The integers of a class of handles.
pub struct Integers {
    /// Whether the MPI's conversions return its handles; set by the first handle.
    are_returned: OnceLock<bool>,
    /// Decides where the first handle's integer gives another handle; without it, the first does.
    probe: Option<fn() -> bool>,
    own: RwLock<Own>,
}

/// Handles that are numbered here: each is in both.
struct Own {
    handles: Vec<usize>,
    integers: BTreeMap<usize, c_int>,
}

#[allow(clippy::new_without_default, reason = "for statics")]
impl Integers {
    /// Numbers no handle yet.
    pub const fn new() -> Integers {
        let own = Own { handles: Vec::new(), integers: BTreeMap::new() };
        Integers { are_returned: OnceLock::new(), probe: None, own: RwLock::new(own) }
    }

    /// Adds a function that makes a handle and returns whether its integer gives it back.
    pub const fn with_probe(mut self, probe: fn() -> bool) -> Integers {
        self.probe = Some(probe);
        self
    }

    /// The integer of a handle that is not predefined. `to` and `from` are the MPI's conversions.
    #[inline]
    pub fn of(
        &self,
        handle: usize,
        to: impl Fn(usize) -> c_int,
        from: impl Fn(c_int) -> usize,
    ) -> c_int {
        match self.are_returned.get() {
            Some(true) => to(handle),
            _ => self.decided(handle, to, from),
        }
    }

    /// The handle of an integer that is not predefined; `None` if there is no such handle.
    #[inline]
    pub fn handle(&self, integer: c_int, from: impl Fn(c_int) -> usize) -> Option<usize> {
        match self.are_returned.get() {
            Some(false) => self.own_handle(integer),
            // Of no handle yet: the program has the integer from MPI itself.
            _ => Some(from(integer)),
        }
    }

    #[cold]
    #[inline(never)]
    fn decided(
        &self,
        handle: usize,
        to: impl Fn(usize) -> c_int,
        from: impl Fn(c_int) -> usize,
    ) -> c_int {
        let integer = to(handle);
        let decide = || {
            if is_predefined(integer) {
                return false;
            }
            match from(integer) {
                returned if returned == handle => true,
                returned if returned < DYNAMIC => false,
                _ => self.probe.is_some_and(|probe| probe()),
            }
        };
        if *self.are_returned.get_or_init(decide) { integer } else { self.own_of(handle) }
    }

    #[cold]
    #[inline(never)]
    fn own_handle(&self, integer: c_int) -> Option<usize> {
        let at = usize::try_from(integer).ok()?.checked_sub(DYNAMIC)?;
        self.own.read().unwrap_or_else(PoisonError::into_inner).handles.get(at).copied()
    }

    fn own_of(&self, handle: usize) -> c_int {
        let known = |own: &Own| own.integers.get(&handle).copied();
        if let Some(integer) = known(&self.own.read().unwrap_or_else(PoisonError::into_inner)) {
            return integer;
        }
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have numbered it meanwhile.
        if let Some(integer) = known(&own) {
            return integer;
        }
        let integer = (DYNAMIC + own.handles.len()) as c_int;
        own.handles.push(handle);
        own.integers.insert(handle, integer);
        integer
    }
}

/// Whether an integer stands for a predefined handle of the same number.
#[inline]
pub fn is_predefined(integer: c_int) -> bool {
    usize::try_from(integer).is_ok_and(|number| number < DYNAMIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLE: usize = 0x7f20_f1f1_5840;

    #[test]
    fn integers_of_an_mpi_that_returns_its_handles_are_used() {
        let integers = Integers::new();
        let (to, from) = (|handle| (handle - HANDLE) as c_int - 9, |it| HANDLE + (it + 9) as usize);
        assert_eq!(integers.handle(-2, from), Some(HANDLE + 7), "an integer that came first");
        assert_eq!(integers.of(HANDLE, to, from), -9);
        assert_eq!(integers.handle(-4, from), Some(HANDLE + 5));
    }

    #[test]
    fn handles_that_are_not_returned_get_integers_of_their_own() {
        let integers = Integers::new();
        let (to, from) = (|_| 0x8400_0002_u32 as c_int, |integer| integer as usize);
        let of = |handle| integers.of(handle, to, from);
        let (first, second) = (of(HANDLE), of(HANDLE + 8));
        assert!(first != second && !is_predefined(first) && !is_predefined(second));
        assert_eq!((of(HANDLE), of(HANDLE + 8)), (first, second), "the same again");
        assert_eq!(integers.handle(first, from), Some(HANDLE));
        assert_eq!(integers.handle(second, from), Some(HANDLE + 8));
        for unknown in [second + 1, -1, 5] {
            assert_eq!(integers.handle(unknown, from), None);
        }
    }

    /// Integers of Intel MPI's files: they come back, but some are those of predefined handles.
    #[test]
    fn an_integer_of_a_predefined_handle_is_not_used() {
        let integers = Integers::new();
        let integer = integers.of(HANDLE, |_| 1, |_| HANDLE);
        assert!(!is_predefined(integer));
        assert_eq!(integers.handle(integer, |_| 0), Some(HANDLE));
    }

    /// Verbena's sends that were complete when they were made have one integer.
    #[test]
    fn the_probe_decides_where_the_first_integer_gives_another_handle() {
        const SHARED: c_int = 1 << 29;
        let from = |integer| if integer == SHARED { HANDLE } else { integer as usize };
        let first_and_next = |integers: &Integers| {
            let first = integers.of(HANDLE + 8, |_| SHARED, from);
            (first, integers.of(0x9000, |handle| handle as c_int, from))
        };
        let returned = Integers::new().with_probe(|| true);
        assert_eq!(first_and_next(&returned), (SHARED, 0x9000));
        assert_eq!(returned.handle(SHARED, from), Some(HANDLE), "as complete as the first");
        assert_eq!(returned.handle(0x9000, from), Some(0x9000));
        for not_returned in [Integers::new().with_probe(|| false), Integers::new()] {
            let (first, next) = first_and_next(&not_returned);
            assert_eq!(not_returned.handle(first, from), Some(HANDLE + 8));
            assert_eq!(not_returned.handle(next, from), Some(0x9000));
        }
    }

    #[test]
    fn the_probe_is_not_asked_about_a_predefined_handle() {
        for (integer, returned) in [(5, HANDLE + 8), (1 << 29, 0x180)] {
            let integers = Integers::new().with_probe(|| panic!("it was asked"));
            let own = integers.of(HANDLE, |_| integer, |_| returned);
            assert_eq!(integers.handle(own, |_| 0), Some(HANDLE));
        }
    }

    #[test]
    fn threads_agree_on_the_integers() {
        let integers = Integers::new();
        let number = |_| (0..500).map(|at| integers.of(HANDLE + at, |_| 0, |_| 0)).collect();
        let of_all: Vec<Vec<c_int>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|it| scope.spawn(move || number(it))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
        });
        assert!(of_all.iter().all(|of_one| *of_one == of_all[0]));
        for (at, &integer) in of_all[0].iter().enumerate() {
            assert_eq!(integers.handle(integer, |_| 0), Some(HANDLE + at));
        }
    }
}
