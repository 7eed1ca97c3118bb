//! C functions that call a function of the user's, for callbacks without extra state.
//!
//! MPI passes such a function nothing that leads to the user's, here called the procedure;
//! therefore each procedure gets a C function of its own from a fixed number. It keeps the function
//! for good: an operation may be freed while a call still uses it. A procedure that is registered
//! again gets its old function.

use std::os::raw::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Procedures of one type that a program can register.
pub const SLOTS: usize = 256;

/// The procedures of one type, by slot.
pub struct Slots {
    procedures: [AtomicPtr<c_void>; SLOTS],
    used: Mutex<usize>,
}

#[allow(clippy::new_without_default, reason = "for statics")]
impl Slots {
    /// No procedures.
    pub const fn new() -> Slots {
        Slots {
            procedures: [const { AtomicPtr::new(std::ptr::null_mut()) }; SLOTS],
            used: Mutex::new(0),
        }
    }

    /// The slot of a procedure; `None` if all belong to others.
    pub fn find(&self, procedure: *const c_void) -> Option<usize> {
        let mut used = self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let known = self.procedures[..*used]
            .iter()
            .position(|slot| slot.load(Ordering::Relaxed).cast_const() == procedure);
        if known.is_some() {
            return known;
        }
        let free = self.procedures.get(*used)?;
        // Release: a thread that calls the slot's function finds the procedure.
        free.store(procedure.cast_mut(), Ordering::Release);
        *used += 1;
        Some(*used - 1)
    }

    /// The procedure of a slot.
    #[inline]
    pub fn procedure(&self, slot: usize) -> *const c_void {
        self.procedures[slot].load(Ordering::Acquire)
    }
}

/// An array of one C function for each slot: `table!(function: type)`, where `function::<N>` is the
/// C function of slot N.
#[macro_export]
macro_rules! slot_table {
    ($function:ident: $type:ty) => {{
        const TABLE: [$type; $crate::slots::SLOTS] = $crate::slot_table!(@16 $function:
            0 16 32 48 64 80 96 112 128 144 160 176 192 208 224 240);
        TABLE
    }};
    (@16 $function:ident: $($base:literal)*) => {
        [$(
            $function::<{ $base }>, $function::<{ $base + 1 }>, $function::<{ $base + 2 }>,
            $function::<{ $base + 3 }>, $function::<{ $base + 4 }>, $function::<{ $base + 5 }>,
            $function::<{ $base + 6 }>, $function::<{ $base + 7 }>, $function::<{ $base + 8 }>,
            $function::<{ $base + 9 }>, $function::<{ $base + 10 }>, $function::<{ $base + 11 }>,
            $function::<{ $base + 12 }>, $function::<{ $base + 13 }>,
            $function::<{ $base + 14 }>, $function::<{ $base + 15 }>,
        )*]
    };
}
pub use slot_table as table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_procedure_keeps_its_slot_and_the_last_one_is_refused() {
        let slots = Box::new(Slots::new());
        let procedure = |n: usize| std::ptr::without_provenance::<c_void>(n + 1);
        for n in 0..SLOTS {
            assert_eq!(slots.find(procedure(n)), Some(n));
        }
        assert_eq!(slots.find(procedure(7)), Some(7));
        assert_eq!(slots.procedure(7), procedure(7));
        assert_eq!(slots.find(procedure(SLOTS)), None);
    }
}
