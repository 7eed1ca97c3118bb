//! The files of a process by their handles; see `files`.

use std::sync::Arc;

use io::{Datareps, File};
use objects::{Errhandler, HandleKind, Status, Table};

use crate::file_tasks::FileTasks;
use crate::outcome::Outcome;

/// The files of a process.
pub struct Files {
    /// Open files.
    pub table: Table<OpenFile>,
    /// The error handler of MPI_FILE_NULL, which new files get (MPI-5.0 §14.7).
    pub default_errhandler: Errhandler,
    /// Data representations that the user registered.
    pub datareps: Datareps,
    /// What `report.io` prints: the files that were closed.
    pub(crate) reports: Vec<String>,
    /// Collective accesses that go on after their calls.
    pub(crate) tasks: FileTasks,
}

/// A file with a handle.
pub struct OpenFile {
    /// The file.
    pub file: Arc<File>,
    /// Its error handler.
    pub errhandler: Errhandler,
    /// Its own communicator.
    pub(crate) comm: usize,
}

impl Files {
    pub(crate) const fn new() -> Files {
        Files {
            table: Table::new(HandleKind::File),
            default_errhandler: Errhandler::Return,
            datareps: Datareps::new(),
            reports: Vec::new(),
            tasks: FileTasks::new(),
        }
    }
}

/// Returns the status of an access, with its bytes.
pub fn status_of(bytes: u64) -> Status {
    let mut status = Status::empty();
    status.set_bytes(bytes);
    status
}

/// Returns the result of a nonblocking access as a request's, raised on its file.
pub(crate) fn outcome_of(access: io::Outcome, file: usize) -> Outcome {
    Outcome { status: status_of(access.bytes), error: access.error.map(|error| error.on(file)) }
}
