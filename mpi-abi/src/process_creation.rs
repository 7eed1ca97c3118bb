//! MPI-5.0 §11.8 to §11.10: processes that a job starts, ports, connections at them, and names of
//! services.

use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::FromRawFd as _;
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;

use bootstrap::spawning::{SpawnRequest, SpawnSection};
use objects::{Class, Comm, Error, Info, Result};
use runtime::{port, service, spawn, with};

use crate::abi::{MPI_Comm, MPI_Info};
use crate::args::{not_null, slice, slice_mut};
use crate::collective::bad_root;
use crate::communicator::store;
use crate::constants::MPI_MAX_PORT_NAME;
use crate::text::{exact, put_text};

/// Returns the user's string as bytes.
///
/// # Safety
/// `text` is null or a terminated string that outlives the result.
unsafe fn bytes<'a>(text: *const c_char, name: &str) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise, passed on.
    unsafe { exact(text, name) }.map(std::ffi::OsStr::as_bytes)
}

/// Checks the rank of the process whose other arguments count.
fn root_of(comm: MPI_Comm, root: c_int) -> Result<u32> {
    with(|p| {
        let comm = p.comm(comm.0)?;
        let rank = u32::try_from(root).ok().filter(|rank| *rank < comm.size());
        rank.ok_or_else(|| bad_root(comm, root))
    })
}

pub(crate) unsafe fn open_port(info: MPI_Info, port_name: *mut c_char) -> Result<()> {
    crate::info::optional(info)?;
    not_null(port_name, "port_name")?;
    let mut length = 0;
    // SAFETY: the user's buffer has MPI_MAX_PORT_NAME characters.
    unsafe { put_text(port_name, MPI_MAX_PORT_NAME, &raw mut length, port::open()?) }
}

pub(crate) unsafe fn close_port(port_name: *const c_char) -> Result<()> {
    // SAFETY: the user's string.
    port::close(unsafe { bytes(port_name, "port_name") }?)
}

/// Creates an intercommunicator at a port.
///
/// # Safety
/// `port_name` is null or a terminated string at the root; `newcomm` is null or valid for a write.
unsafe fn meet(
    by: fn(usize, u32, port::ReadName<'_>) -> Result<Comm>,
    port_name: *const c_char,
    (info, root, comm): (MPI_Info, c_int, MPI_Comm),
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    crate::info::optional(info)?;
    not_null(newcomm, "newcomm")?;
    // SAFETY: the caller's promise; the root alone reads it.
    let name = || unsafe { bytes(port_name, "port_name") }.map(<[u8]>::to_vec);
    let made = by(comm.0, root_of(comm, root)?, &name)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, Some(made)) }
}

pub(crate) unsafe fn comm_accept(
    port_name: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's pointers, passed on.
    unsafe { meet(port::accept, port_name, (info, root, comm), newcomm) }
}

pub(crate) unsafe fn comm_connect(
    port_name: *const c_char,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    // SAFETY: the user's pointers, passed on.
    unsafe { meet(port::connect, port_name, (info, root, comm), newcomm) }
}

pub(crate) unsafe fn comm_join(fd: c_int, intercomm: *mut MPI_Comm) -> Result<()> {
    not_null(intercomm, "intercomm")?;
    if fd < 0 {
        return Err(Error::new(Class::Arg, format!("invalid socket {fd}: must be a descriptor")));
    }
    // SAFETY: a descriptor of the user, open by the user's promise; it is not closed here.
    let socket = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
    let made = port::join(&*socket)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(intercomm, made) }
}

pub(crate) unsafe fn publish_name(
    service_name: *const c_char,
    info: MPI_Info,
    port_name: *const c_char,
) -> Result<()> {
    crate::info::optional(info)?;
    // SAFETY: the user's strings.
    let (name, port) =
        unsafe { (bytes(service_name, "service_name")?, bytes(port_name, "port_name")?) };
    service::publish(name, port)
}

pub(crate) unsafe fn unpublish_name(
    service_name: *const c_char,
    info: MPI_Info,
    port_name: *const c_char,
) -> Result<()> {
    crate::info::optional(info)?;
    // SAFETY: the user's strings.
    let (name, _port) =
        unsafe { (bytes(service_name, "service_name")?, bytes(port_name, "port_name")?) };
    service::unpublish(name)
}

pub(crate) unsafe fn lookup_name(
    service_name: *const c_char,
    info: MPI_Info,
    port_name: *mut c_char,
) -> Result<()> {
    crate::info::optional(info)?;
    not_null(port_name, "port_name")?;
    // SAFETY: the user's string.
    let port = service::look_up(unsafe { bytes(service_name, "service_name") }?)?;
    let mut length = 0;
    let port = std::ffi::OsStr::from_bytes(&port);
    // SAFETY: the user's buffer has MPI_MAX_PORT_NAME characters.
    unsafe { put_text(port_name, MPI_MAX_PORT_NAME, &raw mut length, port) }
}

/// Reads a program that is to be spawned. Of the reserved hints (MPI-5.0 §11.8.4) `host`, `wdir`
/// and `path` count.
///
/// # Safety
/// `command` is null or a terminated string; `argv` is null or an array of such strings that a null
/// pointer ends.
unsafe fn section(
    command: *const c_char,
    argv: *const *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
) -> Result<SpawnSection> {
    let processes = u32::try_from(maxprocs).ok().filter(|processes| *processes > 0);
    let processes = processes.ok_or_else(|| {
        Error::new(Class::Arg, format!("invalid maxprocs {maxprocs}: must be at least 1"))
    })?;
    let mut arguments = Vec::new();
    if !argv.is_null() {
        let mut next = argv;
        // SAFETY: the array goes on to its null pointer, and its strings are terminated.
        unsafe {
            while !(*next).is_null() {
                arguments.push(exact(*next, "argv")?.to_owned());
                next = next.add(1);
            }
        }
    }
    let info = crate::info::optional(info)?;
    Ok(SpawnSection {
        // SAFETY: the caller's promise, passed on.
        program: unsafe { exact(command, "command") }?.to_owned(),
        arguments,
        processes,
        directory: hint(&info, "wdir")?,
        hosts: hint(&info, "host")?,
        path: hint(&info, "path")?,
    })
}

fn hint(info: &Info, key: &str) -> Result<Option<String>> {
    let value = info.value(key)?.map(|value| String::from_utf8(value.to_owned()));
    value.transpose().map_err(|_| {
        Error::new(Class::InfoValue, format!("invalid value of the info key {key}: not UTF-8"))
    })
}

/// Spawns programs, which the root alone reads.
///
/// # Safety
/// `intercomm` is valid for a write; `errcodes` is null or has an element for each process.
unsafe fn spawn_sections(
    sections: impl FnOnce() -> Result<Vec<SpawnSection>>,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    errcodes: *mut c_int,
) -> Result<()> {
    not_null(intercomm, "intercomm")?;
    let mut requested = 0;
    let made = spawn::spawn(comm.0, root_of(comm, root)?, || {
        let sections = sections()?;
        requested = sections.iter().map(|section| section.processes).sum();
        Ok(SpawnRequest { sections })
    });
    let (processes, code) = match &made {
        Ok(made) => (made.peers().size(), 0),
        Err(error) => (requested, error.class() as c_int),
    };
    if !errcodes.is_null() {
        // SAFETY: the user's array has an element for each process.
        unsafe { slice_mut(errcodes, i64::from(processes), "array_of_errcodes") }?.fill(code);
    }
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(intercomm, Some(made?)) }
}

pub(crate) unsafe fn comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    // SAFETY: the user's strings, which the root alone reads.
    let sections = || unsafe { section(command, argv, maxprocs, info) }.map(|one| vec![one]);
    // SAFETY: the user's pointers, passed on.
    unsafe { spawn_sections(sections, root, comm, intercomm, array_of_errcodes) }
}

pub(crate) unsafe fn comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> Result<()> {
    let sections = || {
        if count < 1 {
            let text = format!("invalid count {count} of programs: must be at least 1");
            return Err(Error::new(Class::Arg, text));
        }
        let count = i64::from(count);
        // SAFETY: the user's arrays have an element for each program.
        let (commands, processes, infos) = unsafe {
            (
                slice(array_of_commands, count, "array_of_commands")?,
                slice(array_of_maxprocs, count, "array_of_maxprocs")?,
                slice(array_of_info, count, "array_of_info")?,
            )
        };
        let argvs = match array_of_argv.is_null() {
            true => &[][..],
            // SAFETY: as above.
            false => unsafe { slice(array_of_argv, count, "array_of_argv") }?,
        };
        let one = |at: usize| {
            let argv = argvs.get(at).copied().unwrap_or(std::ptr::null_mut());
            // SAFETY: the user's strings.
            unsafe { section(commands[at], argv, processes[at], infos[at]) }
        };
        (0..commands.len()).map(one).collect()
    };
    // SAFETY: the user's pointers, passed on.
    unsafe { spawn_sections(sections, root, comm, intercomm, array_of_errcodes) }
}
