//! MPI-5.0 §14.2, §14.3, §14.4.3, §14.6: files as objects: open and close, size, hints, views,
//! pointers, consistency.

use std::os::raw::{c_char, c_int};

use io::{OpenArgs, Whence};
use objects::{Class, Error, Result};
use runtime::{files, with};

use crate::abi::{MPI_Aint, MPI_Comm, MPI_Datatype, MPI_File, MPI_Group, MPI_Info, MPI_Offset};
use crate::args::{not_null, put};
use crate::constants::{
    MPI_DISPLACEMENT_CURRENT, MPI_FILE_NULL, MPI_MAX_DATAREP_STRING, MPI_SEEK_CUR, MPI_SEEK_END,
    MPI_SEEK_SET,
};
use crate::text::{exact, path, put_text};

/// Checks and collects the arguments of MPI_File_open.
unsafe fn open_args(filename: *const c_char, amode: c_int, info: MPI_Info) -> Result<OpenArgs> {
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let path = unsafe { path(filename, "filename")? }.to_owned();
    Ok(OpenArgs { path, amode, info: crate::info::optional(info)? })
}

pub(crate) unsafe fn file_open(
    comm: MPI_Comm,
    filename: *const c_char,
    amode: c_int,
    info: MPI_Info,
    fh: *mut MPI_File,
) -> Result<()> {
    // SAFETY: the user's string.
    let args = unsafe { open_args(filename, amode, info) };
    let args = not_null(fh, "fh").and(args);
    let opened = files::open(comm.0, args);
    let handle = opened.as_ref().map_or(MPI_FILE_NULL, |&handle| MPI_File(handle));
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    let stored = unsafe { put(fh, handle, "fh") };
    opened.map(|_| ()).and(stored)
}

pub(crate) unsafe fn file_close(fh: *mut MPI_File) -> Result<()> {
    not_null(fh, "fh")?;
    // SAFETY: not null, and valid by the user's promise.
    files::close(unsafe { &mut (*fh).0 })
}

pub(crate) unsafe fn file_delete(filename: *const c_char, info: MPI_Info) -> Result<()> {
    crate::info::optional(info)?;
    // An error before and after MPI.
    with(|p| p.core().map(drop))?;
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    io::delete(unsafe { path(filename, "filename")? })
}

pub(crate) unsafe fn file_set_size(fh: MPI_File, size: MPI_Offset) -> Result<()> {
    files::file(fh.0)?.set_size(size)
}

pub(crate) unsafe fn file_preallocate(fh: MPI_File, size: MPI_Offset) -> Result<()> {
    files::file(fh.0)?.preallocate(size)
}

pub(crate) unsafe fn file_get_size(fh: MPI_File, size: *mut MPI_Offset) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(size, files::file(fh.0)?.size()?, "size") }
}

pub(crate) unsafe fn file_get_group(fh: MPI_File, group: *mut MPI_Group) -> Result<()> {
    let (members, session) =
        with(|p| p.comm_of_file(fh.0).map(|comm| (comm.group().clone(), comm.session())))?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::group::store(group, members, session) }
}

pub(crate) unsafe fn file_get_amode(fh: MPI_File, amode: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(amode, files::file(fh.0)?.amode().bits(), "amode") }
}

pub(crate) unsafe fn file_set_info(fh: MPI_File, info: MPI_Info) -> Result<()> {
    files::file(fh.0)?.set_info(crate::info::optional(info))
}

pub(crate) unsafe fn file_get_info(fh: MPI_File, info_used: *mut MPI_Info) -> Result<()> {
    let info = files::file(fh.0)?.info()?;
    // SAFETY: the user's pointer, passed on.
    unsafe { crate::info::store(info_used, info) }
}

pub(crate) unsafe fn file_set_view(
    fh: MPI_File,
    disp: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: *const c_char,
    info: MPI_Info,
) -> Result<()> {
    let file = files::file(fh.0)?;
    let types = with(|p| Ok((p.datatype(etype.0)?.clone(), p.datatype(filetype.0)?.clone())));
    // SAFETY: null is refused; any other string is terminated, by the user's promise.
    let name = unsafe { exact(datarep, "datarep") };
    let datarep = name.and_then(|name| with(|p| p.tables.files.datareps.find(name)));
    let disp = Some(disp).filter(|&disp| disp != MPI_DISPLACEMENT_CURRENT);
    file.set_view(disp, types, datarep, crate::info::optional(info))
}

pub(crate) unsafe fn file_get_view(
    fh: MPI_File,
    disp: *mut MPI_Offset,
    etype: *mut MPI_Datatype,
    filetype: *mut MPI_Datatype,
    datarep: *mut c_char,
) -> Result<()> {
    not_null(etype, "etype")?;
    not_null(filetype, "filetype")?;
    let view = files::file(fh.0)?.view();
    let mut length = 0;
    // SAFETY: the user's pointers, and a buffer of MPI_MAX_DATAREP_STRING characters; null is
    // refused.
    unsafe {
        put(disp, view.disp, "disp")?;
        put_text(datarep, MPI_MAX_DATAREP_STRING, &mut length, view.datarep.name())?;
        for (to, ty) in [(etype, &view.etype), (filetype, &view.filetype)] {
            let own = if ty.is_predefined() { ty.clone() } else { ty.again()? };
            put(to, crate::datatype::handle_of(own), "the datatype")?;
        }
    }
    Ok(())
}

/// Returns the meaning of an MPI_SEEK_ constant.
fn whence_of(whence: c_int) -> Result<Whence> {
    match whence {
        MPI_SEEK_SET => Ok(Whence::Set),
        MPI_SEEK_CUR => Ok(Whence::Current),
        MPI_SEEK_END => Ok(Whence::End),
        other => Err(Error::new(
            Class::Arg,
            format!("invalid whence {other}: must be MPI_SEEK_SET, MPI_SEEK_CUR or MPI_SEEK_END"),
        )),
    }
}

pub(crate) unsafe fn file_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) -> Result<()> {
    files::file(fh.0)?.seek(offset, whence_of(whence)?)
}

pub(crate) unsafe fn file_get_position(fh: MPI_File, offset: *mut MPI_Offset) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(offset, files::file(fh.0)?.position()?, "offset") }
}

pub(crate) unsafe fn file_get_byte_offset(
    fh: MPI_File,
    offset: MPI_Offset,
    disp: *mut MPI_Offset,
) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(disp, files::file(fh.0)?.byte_offset(offset)?, "disp") }
}

pub(crate) unsafe fn file_seek_shared(
    fh: MPI_File,
    offset: MPI_Offset,
    whence: c_int,
) -> Result<()> {
    files::file(fh.0)?.seek_shared(offset, whence_of(whence))
}

pub(crate) unsafe fn file_get_position_shared(fh: MPI_File, offset: *mut MPI_Offset) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(offset, files::file(fh.0)?.shared_position()?, "offset") }
}

pub(crate) unsafe fn file_get_type_extent(
    fh: MPI_File,
    datatype: MPI_Datatype,
    extent: *mut MPI_Aint,
) -> Result<()> {
    let view = files::file(fh.0)?.view();
    let datatype = with(|p| p.datatype(datatype.0).cloned())?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(extent, view.datarep.in_file(&datatype)?.extent().1, "extent") }
}

pub(crate) unsafe fn file_set_atomicity(fh: MPI_File, flag: c_int) -> Result<()> {
    files::file(fh.0)?.set_atomicity(flag != 0)
}

pub(crate) unsafe fn file_get_atomicity(fh: MPI_File, flag: *mut c_int) -> Result<()> {
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(flag, files::file(fh.0)?.atomicity().into(), "flag") }
}

pub(crate) unsafe fn file_sync(fh: MPI_File) -> Result<()> {
    files::file(fh.0)?.sync()
}
