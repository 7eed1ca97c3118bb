//! Info values and names of process sets, whose length the caller passes.

use crate::prelude::*;

pub(crate) unsafe fn info_get<const P: bool>(
    info: *mut c_int,
    key: *mut c_char,
    valuelen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
    key_len: usize,
    value_len: usize,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let key = TextIn::without_blanks(key, key_len);
        let most = usize::try_from(*valuelen).unwrap_or(0);
        let mut text = TextOut::new(value, value_len, most);
        let mut found = 0;
        let code = pick!(P, MPI_Info_get, PMPI_Info_get)(
            MPI_Info::from_fortran(*info),
            key.as_ptr(),
            *valuelen,
            text.as_mut_ptr(),
            &raw mut found,
        );
        if code == SUCCESS {
            *flag = to_logical(found);
            if found != 0 {
                text.store();
            }
        }
        code
    }
}

/// `buflen` in Fortran has no space for an end mark (MPI-5.0 §10).
pub(crate) unsafe fn info_get_string<const P: bool>(
    info: *mut c_int,
    key: *mut c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
    key_len: usize,
    value_len: usize,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let key = TextIn::without_blanks(key, key_len);
        let wanted = usize::try_from(*buflen).unwrap_or(0);
        let mut text = TextOut::new(value, value_len, wanted);
        let mut len = if wanted == 0 { 0 } else { buflen.read().saturating_add(1) };
        let mut found = 0;
        let code = pick!(P, MPI_Info_get_string, PMPI_Info_get_string)(
            MPI_Info::from_fortran(*info),
            key.as_ptr(),
            &raw mut len,
            text.as_mut_ptr(),
            &raw mut found,
        );
        if code == SUCCESS {
            *flag = to_logical(found);
            if found != 0 {
                *buflen = len - 1;
                if wanted > 0 {
                    text.store();
                }
            }
        }
        code
    }
}

pub(crate) unsafe fn session_get_nth_pset<const P: bool>(
    session: *mut c_int,
    info: *mut c_int,
    n: *mut c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
    pset_name_len: usize,
) -> c_int {
    // SAFETY: MPI asks the caller for valid arguments.
    unsafe {
        let wanted = usize::try_from(*pset_len).unwrap_or(0);
        let mut text = TextOut::new(pset_name, pset_name_len, wanted);
        let mut len = if wanted == 0 { 0 } else { pset_len.read().saturating_add(1) };
        let code = pick!(P, MPI_Session_get_nth_pset, PMPI_Session_get_nth_pset)(
            MPI_Session::from_fortran(*session),
            MPI_Info::from_fortran(*info),
            *n,
            &raw mut len,
            text.as_mut_ptr(),
        );
        if code == SUCCESS {
            *pset_len = len - 1;
            if wanted > 0 {
                text.store();
            }
        }
        code
    }
}

/// Fortran has no argc and argv to pass.
pub(crate) unsafe fn info_create_env<const P: bool>(info: *mut c_int) -> c_int {
    let mut handle = MPI_Info::NULL;
    // SAFETY: no arguments of the program, and the address of a local handle.
    unsafe {
        let code = pick!(P, MPI_Info_create_env, PMPI_Info_create_env)(
            0,
            std::ptr::null_mut(),
            &raw mut handle,
        );
        if code == SUCCESS {
            *info = handle.to_fortran();
        }
        code
    }
}
