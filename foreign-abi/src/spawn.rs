//! Starting processes (MPI-5.0 §11.8): error codes of the processes, and infos of the commands.

use crate::array::slice;
use crate::prelude::*;

/// # Safety
/// `codes` has one for each process, or is MPI_ERRCODES_IGNORE, which is null.
unsafe fn convert_codes(codes: *mut c_int, processes: c_int) {
    if codes.is_null() {
        return;
    }
    for at in 0..usize::try_from(processes).unwrap_or(0) {
        // SAFETY: the caller's promise.
        unsafe { *codes.add(at) = code::from_standard(*codes.add(at)) };
    }
}

/// Whether this process starts others; only its error codes and arrays are of use.
fn is_root(root: c_int, comm: Standard) -> bool {
    let mut rank = -1;
    // SAFETY: a number of ours.
    unsafe { (library().PMPI_Comm_rank)(comm, &raw mut rank) };
    rank == root
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
) -> c_int {
    let mut handle = MPI_Comm::NULL;
    // SAFETY: the caller's arguments.
    unsafe {
        let code = (library().PMPI_Comm_spawn)(
            command,
            argv,
            maxprocs,
            info.to_standard(),
            root,
            comm.to_standard(),
            given(intercomm, &raw mut handle),
            array_of_errcodes,
        );
        if code == SUCCESS {
            *intercomm = MPI_Comm::from_standard(handle);
        }
        convert_codes(array_of_errcodes, maxprocs);
        code::from_standard(code)
    }
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
) -> c_int {
    let comm = comm.to_standard();
    let commands = if is_root(root, comm) { count } else { 0 };
    let mut handle = MPI_Comm::NULL;
    // SAFETY: the caller's arguments; the arrays are those of the root.
    unsafe {
        let infos = handles(array_of_info, commands);
        let code = (library().PMPI_Comm_spawn_multiple)(
            count,
            array_of_commands,
            array_of_argv,
            array_of_maxprocs,
            address(&infos),
            root,
            comm,
            given(intercomm, &raw mut handle),
            array_of_errcodes,
        );
        if code == SUCCESS {
            *intercomm = MPI_Comm::from_standard(handle);
        }
        convert_codes(array_of_errcodes, slice(array_of_maxprocs, commands).iter().sum());
        code::from_standard(code)
    }
}
