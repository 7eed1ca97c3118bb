//! MPI_Comm_spawn and MPI_Comm_spawn_multiple: arrays of strings (MPI-5.0 §11.8).

use std::ffi::CString;

use crate::prelude::*;
use crate::sentinel::{is_argv_null, is_argvs_null, is_errcodes_ignore};

/// Strings as C passes them: an array of pointers that a null pointer ends.
struct Words {
    _strings: Vec<CString>,
    pointers: Vec<*mut c_char>,
}

impl Words {
    fn new(strings: Vec<CString>) -> Words {
        let pointers = strings.iter().map(|word| word.as_ptr().cast_mut());
        let pointers = pointers.chain([std::ptr::null_mut()]).collect();
        Words { _strings: strings, pointers }
    }

    /// Every `step`-th string of `len` characters, until a blank one.
    unsafe fn until_blank(first: *const c_char, len: usize, step: usize) -> Words {
        let mut words = Vec::new();
        loop {
            // SAFETY: the caller's array ends with a blank string.
            let word = unsafe { TextIn::without_blanks(first.add(words.len() * step * len), len) };
            let word = word.into_inner();
            if word.is_empty() {
                return Words::new(words);
            }
            words.push(word);
        }
    }

    fn as_mut_ptr(&mut self) -> *mut *mut c_char {
        self.pointers.as_mut_ptr()
    }
}

fn errcodes(address: *mut c_int) -> *mut c_int {
    if is_errcodes_ignore(address) { std::ptr::null_mut() } else { address }
}

pub(crate) unsafe fn comm_spawn<const P: bool>(
    command: *mut c_char,
    argv: *mut c_char,
    maxprocs: *mut c_int,
    info: *mut c_int,
    root: *mut c_int,
    comm: *mut c_int,
    intercomm: *mut c_int,
    array_of_errcodes: *mut c_int,
    command_len: usize,
    argv_len: usize,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments; argv matters at the root alone.
    unsafe {
        let command = TextIn::without_blanks(command, command_len);
        let is_root = is_root(*comm, *root);
        let has_words = is_root && !is_argv_null(argv) && argv_len > 0;
        let mut words = has_words.then(|| Words::until_blank(argv, argv_len, 1));
        let mut handle = MPI_Comm::NULL;
        let code = pick!(P, MPI_Comm_spawn, PMPI_Comm_spawn)(
            command.as_ptr(),
            words.as_mut().map_or(std::ptr::null_mut(), Words::as_mut_ptr),
            *maxprocs,
            MPI_Info::from_fortran(*info),
            *root,
            MPI_Comm::from_fortran(*comm),
            &raw mut handle,
            errcodes(array_of_errcodes),
        );
        if code == SUCCESS {
            *intercomm = handle.to_fortran();
        }
        code
    }
}

pub(crate) unsafe fn comm_spawn_multiple<const P: bool>(
    count: *mut c_int,
    array_of_commands: *mut c_char,
    array_of_argv: *mut c_char,
    array_of_maxprocs: *mut c_int,
    array_of_info: *mut c_int,
    root: *mut c_int,
    comm: *mut c_int,
    intercomm: *mut c_int,
    array_of_errcodes: *mut c_int,
    array_of_commands_len: usize,
    array_of_argv_len: usize,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments; the first five matter at the root alone.
    unsafe {
        let is_root = is_root(*comm, *root);
        let programs = if is_root { usize::try_from(*count).unwrap_or(0) } else { 0 };
        let command = |at: usize| {
            let first = array_of_commands.add(at * array_of_commands_len);
            TextIn::without_blanks(first, array_of_commands_len).into_inner()
        };
        let mut commands = Words::new((0..programs).map(command).collect());
        let has_words = is_root && !is_argvs_null(array_of_argv) && array_of_argv_len > 0;
        let line = |at: usize| {
            let first = array_of_argv.add(at * array_of_argv_len);
            Words::until_blank(first, array_of_argv_len, programs)
        };
        let mut lines: Vec<Words> =
            if has_words { (0..programs).map(line).collect() } else { Vec::new() };
        let mut argvs: Vec<_> = lines.iter_mut().map(Words::as_mut_ptr).collect();
        let mut infos = Handles::<MPI_Info>::new(array_of_info, programs as i64);
        let mut handle = MPI_Comm::NULL;
        let code = pick!(P, MPI_Comm_spawn_multiple, PMPI_Comm_spawn_multiple)(
            *count,
            commands.as_mut_ptr(),
            if has_words { argvs.as_mut_ptr() } else { std::ptr::null_mut() },
            array_of_maxprocs,
            infos.as_mut_ptr(),
            *root,
            MPI_Comm::from_fortran(*comm),
            &raw mut handle,
            errcodes(array_of_errcodes),
        );
        if code == SUCCESS {
            *intercomm = handle.to_fortran();
        }
        code
    }
}

fn is_root(comm: c_int, root: c_int) -> bool {
    let mut rank = -1;
    // SAFETY: the address of a local number; a wrong handle is refused.
    let code = unsafe { c::PMPI_Comm_rank(MPI_Comm::from_fortran(comm), &raw mut rank) };
    code == SUCCESS && rank == root
}
