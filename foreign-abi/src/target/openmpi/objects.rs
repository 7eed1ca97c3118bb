//! The objects whose addresses are Open MPI's predefined handles.
//!
//! A program that was linked without `-fPIC` has copies of the objects that it names, and the
//! dynamic linker makes all libraries use these. Therefore an address is known only when the
//! program is loaded, and is always taken through the dynamic linker's table. The objects have
//! Open MPI's sizes, which the linker has put into programs; their bytes mean nothing.

use std::cell::UnsafeCell;
use std::os::raw::c_void;

use crate::abi::Standard;
use crate::generated::handles::OBJECTS;

/// An object of so many bytes.
#[repr(C, align(32))]
pub(crate) struct Object<const BYTES: usize>(UnsafeCell<[u8; BYTES]>);

impl<const BYTES: usize> Object<BYTES> {
    pub(crate) const fn new() -> Object<BYTES> {
        Object(UnsafeCell::new([0; BYTES]))
    }
}

/// The address of an object.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Address(pub(crate) *const c_void);

// SAFETY: nothing is read or written through it.
unsafe impl Sync for Address {}

/// Defines the objects, and lists their addresses with the standard ABI's handles.
macro_rules! objects {
    ($($name:ident: $bytes:literal = $standard:literal;)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            static mut $name: $crate::target::Object<$bytes> = $crate::target::Object::new();
        )*

        /// All objects.
        pub(crate) static OBJECTS: [($crate::target::Address, usize); [$($standard),*].len()] =
            [$(($crate::target::Address((&raw const $name).cast()), $standard)),*];
    };
}
pub(crate) use objects;

/// One more than the last predefined handle of the standard ABI.
const LIMIT: usize = 0x300;

/// The objects by the standard ABI's handles, of which the first one counts.
static ADDRESSES: [Address; LIMIT] = {
    let mut addresses = [Address(std::ptr::null()); LIMIT];
    let mut at = OBJECTS.len();
    while at > 0 {
        at -= 1;
        let (address, standard) = OBJECTS[at];
        addresses[standard] = address;
    }
    addresses
};

/// How many bits of the hash are used: places for four times as many objects as there are.
const BITS: u32 = 9;
const PLACES: usize = 1 << BITS;
const _: () = assert!(OBJECTS.len() * 3 < PLACES);

/// The objects by a hash of their address; an object whose place is taken has the next free one.
struct Table(UnsafeCell<[(usize, Standard); PLACES]>);

// SAFETY: written only by `fill`, before any thread calls MPI.
unsafe impl Sync for Table {}

static TABLE: Table = Table(UnsafeCell::new([(0, 0); PLACES]));

#[inline]
fn place(address: usize) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - BITS)) % PLACES
}

/// The standard ABI's handle. One that is no object is the standard's own; so is 0.
#[inline]
pub(super) fn standard(handle: usize) -> Standard {
    // SAFETY: `fill` has run when this library was loaded.
    let table = unsafe { &*TABLE.0.get() };
    let mut at = place(handle);
    loop {
        let (address, standard) = table[at];
        if address == handle {
            return standard;
        }
        if address == 0 {
            return handle;
        }
        at = (at + 1) % PLACES;
    }
}

/// The user's handle. One that Open MPI does not have is the standard's own.
#[inline]
pub(super) fn address(handle: Standard) -> usize {
    match ADDRESSES.get(handle) {
        Some(address) if !address.0.is_null() => address.0.addr(),
        _ => handle,
    }
}

/// Fills the table.
extern "C" fn fill() {
    // SAFETY: no other thread is there yet.
    let table = unsafe { &mut *TABLE.0.get() };
    for (address, standard) in &OBJECTS {
        let mut at = place(address.0.addr());
        while table[at].0 != 0 {
            at = (at + 1) % PLACES;
        }
        table[at] = (address.0.addr(), *standard);
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static FILL: extern "C" fn() = fill;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_and_other_handles_come_back() {
        for (object, handle) in &OBJECTS {
            assert_eq!(standard(object.0.addr()), *handle);
            assert_eq!(standard(address(*handle)), *handle);
        }
        // MPI_COMM_WORLD and MPI_INT have the objects of these names.
        assert_ne!(address(0x101), 0x101);
        assert_ne!(address(0x101), address(0x209));
        for handle in [0, 0x2ff, 0x1000, 0x1000_0000_0000_0007] {
            assert_eq!((standard(handle), address(handle)), (handle, handle));
        }
    }
}
