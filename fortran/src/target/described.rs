//! Descriptors where procedures of `mpi_f08` with buffers have BIND(C), or no descriptors at all.

/// The descriptor of an entry point.
pub(crate) use crate::descriptor::Descriptor as Passed;

/// The C standard's form of a descriptor that an entry point was passed: itself.
macro_rules! described {
    ($passed:expr) => {
        $passed
    };
}
pub(crate) use described;
