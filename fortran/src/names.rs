//! The four names under which compilers call an external procedure.

/// Gives a function more names: each is a jump to it.
macro_rules! names {
    ($target:ident: $($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            #[allow(non_snake_case)]
            unsafe extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym $target);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym $target);
            }
        )*
    };
}
pub(crate) use names;
