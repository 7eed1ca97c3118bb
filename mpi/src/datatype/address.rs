//! Addresses as MPI counts them.

use std::ptr;

use crate::Address;

/// Returns the address of a value, for the displacements of a datatype (MPI-5.0 §5.1.5).
///
/// The difference of two addresses within one object is a displacement in bytes.
pub fn address_of<T>(x: &T) -> Address {
    // In the standard ABI, MPI_Aint is intptr_t and MPI_Get_address converts the pointer to it.
    ptr::from_ref(x).addr() as Address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_displacements_in_bytes() {
        let values = [0_u32; 4];
        assert_eq!(address_of(&values[3]) - address_of(&values), 12);
    }
}
