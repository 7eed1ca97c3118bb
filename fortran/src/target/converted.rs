//! Handles of C that are addresses: the library below turns them into integers and back.

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident, $null:expr, $f2c:ident, $c2f:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            #[repr(transparent)]
            #[allow(non_camel_case_types)]
            pub(crate) struct $name(pub(super) *const c_void);

            impl Handle for $name {
                const NULL: $name = $name($null);

                #[inline]
                fn from_fortran(integer: c_int) -> $name {
                    // SAFETY: takes any number.
                    unsafe { $f2c(integer) }
                }

                #[inline]
                fn to_fortran(self) -> c_int {
                    // SAFETY: takes any handle.
                    unsafe { $c2f(self) }
                }
            }
        )*

        unsafe extern "C" {
            $(
                fn $f2c(integer: c_int) -> $name;
                fn $c2f(handle: $name) -> c_int;
            )*
        }
    };
}
pub(super) use handles;
