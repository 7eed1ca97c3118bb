//! MPI-5.0 chapter 9 and §11.2.4: memory, and information about the process and its host.

use std::os::raw::c_void;

use objects::{Class, Error, Info, Result};
use runtime::Process;
use runtime::hardware::{self, Resource};

use crate::abi::{MPI_Aint, MPI_Info};
use crate::args::{null_argument, put};

/// Alignment of MPI_Alloc_mem in bytes: a cache line, and enough for any vector type.
const ALIGNMENT: usize = 64;

/// Returns MPI_INFO_ENV: how the process was started (MPI-5.0 §11.2.3).
pub(crate) fn info_env(p: &mut Process) -> Info {
    let mut info = Info::new();
    let mut add = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            // A value that is too long for an info object is left out, like a key without a value.
            let _ = info.set(key, value.as_str());
        }
    };
    let mut arguments = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    add("command", arguments.next());
    add("argv", Some(arguments.collect::<Vec<_>>().join(" ")).filter(|words| !words.is_empty()));
    add("maxprocs", p.core().ok().map(|core| core.job.size.to_string()));
    add("wdir", std::env::current_dir().ok().map(|path| path.to_string_lossy().into_owned()));
    add("host", hostname());
    add("arch", Some(std::env::consts::ARCH.to_owned()));
    add("thread_level", thread_level(p.thread_level));
    info
}

/// The names of [`runtime::THREAD_LEVELS`] as values of the key "thread_level".
const LEVEL_NAMES: [&str; 4] =
    ["MPI_THREAD_SINGLE", "MPI_THREAD_FUNNELED", "MPI_THREAD_SERIALIZED", "MPI_THREAD_MULTIPLE"];

/// Returns the name of a thread level.
pub(crate) fn thread_level(level: i32) -> Option<String> {
    let at = runtime::THREAD_LEVELS.iter().position(|&known| known == level)?;
    LEVEL_NAMES.get(at).map(|&name| name.to_owned())
}

/// Returns the thread level of a name.
pub(crate) fn level_named(name: &[u8]) -> Option<i32> {
    let at = LEVEL_NAMES.iter().position(|known| known.as_bytes() == name)?;
    runtime::THREAD_LEVELS.get(at).copied()
}

fn hostname() -> Option<String> {
    std::fs::read_to_string("/proc/sys/kernel/hostname").ok().map(|name| name.trim().to_owned())
}

pub(crate) unsafe fn alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) -> Result<()> {
    let size = usize::try_from(size).map_err(|_| {
        Error::new(Class::Arg, format!("invalid size {size}: must not be negative"))
    })?;
    crate::info::optional(info)?;
    if baseptr.is_null() {
        return Err(null_argument("baseptr"));
    }
    let mut memory = std::ptr::null_mut();
    // SAFETY: `memory` is ours; alignment is a power of two.
    if unsafe { libc::posix_memalign(&mut memory, ALIGNMENT, size.max(1)) } != 0 {
        return Err(Error::new(
            Class::NoMem,
            format!("out of memory: cannot allocate {size} bytes"),
        ));
    }
    // SAFETY: the user passes the address of a pointer (MPI-5.0 §9.2).
    unsafe { put(baseptr.cast::<*mut c_void>(), memory, "baseptr") }
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
