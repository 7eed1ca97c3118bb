//! The four names under which compilers call an external procedure.

/// Gives a function more names: each is a jump to it.
macro_rules! names {
    ($target:ident: $($name:ident)*) => {
        $(
            abi_client::jump::jump!($name to $target);
        )*
    };
}
pub(crate) use names;
