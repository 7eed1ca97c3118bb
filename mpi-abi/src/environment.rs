//! MPI-5.0 chapter 9 and §11.2.4: memory, and information about the process and its host.

use std::os::raw::c_void;

use objects::{Class, Error, Info, Result};
use runtime::hardware::{self, Resource};

use crate::abi::{MPI_Aint, MPI_Info};
use crate::args::{not_null, put};

/// Alignment of MPI_Alloc_mem in bytes: a cache line, and enough for any vector type.
const ALIGNMENT: usize = 64;

pub(crate) unsafe fn alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) -> Result<()> {
    let size = usize::try_from(size).map_err(|_| {
        Error::new(Class::Arg, format!("invalid size {size}: must not be negative"))
    })?;
    let alignment = alignment(&crate::info::optional(info)?)?;
    not_null(baseptr, "baseptr")?;
    let mut memory = std::ptr::null_mut();
    // SAFETY: `memory` is ours; alignment is a power of two.
    if unsafe { libc::posix_memalign(&mut memory, alignment, size.max(1)) } != 0 {
        return Err(Error::new(
            Class::NoMem,
            format!("out of memory: cannot allocate {size} bytes"),
        ));
    }
    // SAFETY: the user passes the address of a pointer (MPI-5.0 §9.2).
    unsafe { put(baseptr.cast::<*mut c_void>(), memory, "baseptr") }
}

/// Returns the alignment that a hint asks for, at least [`ALIGNMENT`] (MPI-5.0 §9.2).
fn alignment(info: &Info) -> Result<usize> {
    let Some(value) = info.value("mpi_minimum_memory_alignment")? else { return Ok(ALIGNMENT) };
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse::<usize>().ok());
    let wanted = number.filter(|number| number.is_power_of_two()).ok_or_else(|| {
        let value = String::from_utf8_lossy(value);
        let text = format!(
            "invalid hint mpi_minimum_memory_alignment={value}: must be a power of two in bytes"
        );
        Error::new(Class::InfoValue, text)
    })?;
    Ok(wanted.max(ALIGNMENT))
}

pub(crate) unsafe fn free_mem(base: *mut c_void) -> Result<()> {
    // SAFETY: the user passes what MPI_Alloc_mem gave (MPI-5.0 §9.2); null is allowed.
    unsafe { libc::free(base) };
    Ok(())
}

pub(crate) unsafe fn get_hw_resource_info(hw_info: *mut MPI_Info) -> Result<()> {
    // A key for each value of "mpi_hw_resource_type" that MPI_Comm_split_type knows.
    let mut info = Info::new();
    for (resource, instance) in Resource::ALL.into_iter().zip(hardware::instances()) {
        info.set(resource.name(), if instance.is_some() { "true" } else { "false" })?;
    }
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::info::store(hw_info, info) }
}
