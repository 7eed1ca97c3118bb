//! Further names of functions.

/// Exports another name of a function: an identifier, or an expression that is a string. What has
/// the name is naked, so that any number of arguments arrives as it was passed.
#[macro_export]
macro_rules! jump {
    ($name:ident to $target:path) => {
        #[unsafe(no_mangle)]
        #[unsafe(naked)]
        #[allow(non_snake_case)]
        unsafe extern "C" fn $name() {
            #[cfg(target_arch = "x86_64")]
            core::arch::naked_asm!("jmp {}", sym $target);
            #[cfg(target_arch = "aarch64")]
            core::arch::naked_asm!("b {}", sym $target);
        }
    };
    ($name:expr, to $target:path) => {
        const _: () = {
            #[unsafe(export_name = $name)]
            #[unsafe(naked)]
            unsafe extern "C" fn name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym $target);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym $target);
            }
        };
    };
}
pub use jump;
