//! Starting processes (MPI-5.0 §11.8).

#![allow(unsafe_code)]

use std::ffi::{CString, OsStr};
use std::os::raw::{c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::process::Command;
use std::ptr;

use crate::MpiError;
use crate::error;
use crate::ffi::{self, MPI_Comm, MPI_Info};
use crate::info::Info;
use crate::raw::{AsRaw as _, FromRaw as _};
use crate::topology::handle::CommunicatorHandle;
use crate::topology::{InterCommunicator, Rank};

/// A program to start, as the functions of C take it.
struct Program {
    file: CString,
    /// The texts that `argument_pointers` points to.
    _arguments: Vec<CString>,
    argument_pointers: Vec<*mut c_char>,
    folder: Option<CString>,
}

impl Program {
    fn new(command: &Command) -> Result<Program, MpiError> {
        assert!(
            command.get_envs().len() == 0,
            "the command to spawn changes the environment: MPI cannot pass that on",
        );
        let arguments = command.get_args().map(text).collect::<Result<Vec<_>, _>>()?;
        let pointers = arguments.iter().map(|argument| argument.as_ptr().cast_mut());
        let argument_pointers = pointers.chain([ptr::null_mut()]).collect();
        let folder =
            command.get_current_dir().map(|folder| text(folder.as_os_str())).transpose()?;
        let file = text(command.get_program())?;
        Ok(Program { file, _arguments: arguments, argument_pointers, folder })
    }

    /// Returns what the library is told besides the arguments: the folder.
    fn info(&self) -> Result<Info, MpiError> {
        let mut info = Info::empty();
        if let Some(folder) = &self.folder {
            info.set(c"wdir", folder)?;
        }
        Ok(info)
    }
}

fn text(text: &OsStr) -> Result<CString, MpiError> {
    Ok(CString::new(text.as_bytes())?)
}

/// Starts processes of one program.
pub(super) fn one(
    comm: &CommunicatorHandle,
    root: Rank,
    command: &Command,
    processes: Rank,
) -> Result<InterCommunicator, MpiError> {
    let mut program = Program::new(command)?;
    let info = program.info()?;
    finish("MPI_Comm_spawn", comm, root, &[processes], |new, codes| {
        // SAFETY: all texts and arrays live until the call returns, and end with a zero. There is a
        // code for each process, or none are asked for.
        unsafe {
            ffi::MPI_Comm_spawn(
                program.file.as_ptr(),
                program.argument_pointers.as_mut_ptr(),
                processes,
                info.as_raw(),
                root,
                comm.as_raw(),
                new,
                codes,
            )
        }
    })
}

/// Starts processes of several programs.
pub(super) fn several(
    comm: &CommunicatorHandle,
    root: Rank,
    commands: &[Command],
    processes: &[Rank],
) -> Result<InterCommunicator, MpiError> {
    assert!(
        commands.len() == processes.len(),
        "{} commands to spawn with {} numbers of processes: must be as many",
        commands.len(),
        processes.len(),
    );
    let mut programs = commands.iter().map(Program::new).collect::<Result<Vec<_>, _>>()?;
    let infos = programs.iter().map(Program::info).collect::<Result<Vec<_>, _>>()?;
    let infos: Vec<MPI_Info> = infos.iter().map(Info::as_raw).collect();
    let mut files: Vec<_> =
        programs.iter().map(|program| program.file.as_ptr().cast_mut()).collect();
    let mut arguments: Vec<_> =
        programs.iter_mut().map(|program| program.argument_pointers.as_mut_ptr()).collect();
    let count = commands.len().try_into().expect("no job has so many programs");
    finish("MPI_Comm_spawn_multiple", comm, root, processes, |new, codes| {
        // SAFETY: all texts and arrays live until the call returns, and end with a zero where the
        // standard says so. There is a code for each process, or none are asked for.
        unsafe {
            ffi::MPI_Comm_spawn_multiple(
                count,
                files.as_mut_ptr(),
                arguments.as_mut_ptr(),
                processes.as_ptr(),
                infos.as_ptr(),
                root,
                comm.as_raw(),
                new,
                codes,
            )
        }
    })
}

/// Spawns by `call`, which takes where the new communicator and the codes are written.
fn finish(
    name: &'static str,
    comm: &CommunicatorHandle,
    root: Rank,
    processes: &[Rank],
    call: impl FnOnce(*mut MPI_Comm, *mut c_int) -> c_int,
) -> Result<InterCommunicator, MpiError> {
    // Only the root knows how many codes there are.
    let mut codes =
        if comm.rank() == root { vec![ffi::MPI_SUCCESS; total(processes)] } else { vec![] };
    let pointer = match codes.is_empty() {
        true => ptr::without_provenance_mut(ffi::MPI_ERRCODES_IGNORE as usize),
        false => codes.as_mut_ptr(),
    };
    let mut new = ffi::MPI_COMM_NULL;
    let returned = call(&mut new, pointer);
    let failed = codes.iter().filter(|&&code| code != ffi::MPI_SUCCESS).count();
    if failed > 0 {
        return Err(MpiError::Spawn(failed as Rank, codes.len() as Rank));
    }
    error::check(name, returned)?;
    // SAFETY: the call made an inter-communicator, which belongs to the result.
    Ok(unsafe { InterCommunicator::from_raw(new) })
}

/// Returns the number of all processes.
fn total(processes: &[Rank]) -> usize {
    let number = |&processes| {
        usize::try_from(processes).unwrap_or_else(|_| {
            panic!("invalid number of processes to spawn {processes}: must not be negative")
        })
    };
    processes.iter().map(number).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_has_its_arguments_and_folder() {
        let mut command = Command::new("worker");
        let program = Program::new(command.args(["-n", "4"]).current_dir("/tmp")).unwrap();
        assert_eq!(program.file.as_c_str(), c"worker");
        assert_eq!(program.argument_pointers.len(), 3);
        assert!(program.argument_pointers[2].is_null());
        assert_eq!(program.folder.as_deref(), Some(c"/tmp"));
    }

    #[test]
    #[should_panic(expected = "changes the environment")]
    fn a_command_that_changes_the_environment_is_refused() {
        let _ = Program::new(Command::new("worker").env("A", "b"));
    }

    #[test]
    #[should_panic(expected = "invalid number of processes to spawn -1")]
    fn a_negative_number_of_processes_is_refused() {
        total(&[2, -1]);
    }
}
