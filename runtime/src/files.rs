//! Open files (MPI-5.0 chapter 14): their handles, error handlers and communication, and the
//! requests of nonblocking accesses. The crate `io` does the work.
//!
//! A file has a communicator of its own, a duplicate of the user's, which no handle of the user
//! names. Its errors become errors of the file. `io` is called outside the process lock, since its
//! calls sleep in the kernel.

use std::sync::Arc;

use collectives::Level;
use fabric::Peer;
use io::{
    Exchange, File, Members, Messages, OpenArgs, Pending, Place, RemoteWords, Resumable, Transit,
};
use objects::{Class, Comm, Errhandler, Error, Result};

use crate::communicator::duplicate;
use crate::file_exchange::{FileExchange, of_file};
use crate::file_table::OpenFile;
pub use crate::file_table::status_of;
use crate::file_tasks::{Current, FileTask};
use crate::file_words::FileWords;
use crate::lock::{block_on, with};
use crate::process::{Core, Process, bad_handle, bad_predefined, predefined};
use crate::request::{Request, State};
use crate::status_page;

impl Process {
    /// Returns the open file of a handle; MPI_ERR_FILE if the handle names none.
    pub fn open_file(&self, handle: usize) -> Result<&OpenFile> {
        if handle < predefined::END {
            return Err(bad_predefined(Class::File, "file", handle, predefined::FILE_NULL));
        }
        let found = self.tables.files.table.get(handle as u64);
        found.map_err(|stale| bad_handle(Class::File, "file", stale))
    }

    /// Returns the error handler of a file. MPI_FILE_NULL has one; it is also that of a handle
    /// that names nothing.
    pub fn file_errhandler(&self, handle: usize) -> Errhandler {
        self.open_file(handle).map_or(self.tables.files.default_errhandler, |open| open.errhandler)
    }

    /// Attaches an error handler to a file or, at MPI_FILE_NULL, to all that are opened later.
    pub fn set_file_errhandler(&mut self, handle: usize, handler: Errhandler) -> Result<()> {
        if handle == predefined::FILE_NULL {
            self.tables.files.default_errhandler = handler;
            return Ok(());
        }
        self.open_file(handle)?;
        if let Ok(open) = self.tables.files.table.get_mut(handle as u64) {
            open.errhandler = handler;
        }
        Ok(())
    }

    /// Returns the communicator of an open file.
    pub fn comm_of_file(&self, handle: usize) -> Result<&Comm> {
        self.comm(self.open_file(handle)?.comm)
    }
}

impl Core {
    /// Returns where this process runs, as far as the launcher knows its place within the host.
    fn place(&self) -> Place {
        let host = self.job.local_numbers().first().copied().unwrap_or_default();
        let planner = self.planner.borrow();
        let location = planner.world_location_of(Peer(self.job.number)).unwrap_or_default();
        let part = |level: Level| location.0[level as usize].map_or(u32::MAX, |part| part as u32);
        let package = match self.pretend_packages {
            0 => part(Level::Package),
            packages => (u64::from(self.job.local_rank) % packages) as u32,
        };
        Place { host, package, numa_node: part(Level::NumaNode) }
    }
}

/// Returns the file of a handle, to be used outside the process lock.
pub fn file(handle: usize) -> Result<Arc<File>> {
    with(|p| p.open_file(handle).map(|open| open.file.clone()))
}

/// Performs MPI_File_open; returns the handle. Collective over `comm`.
pub fn open(comm: usize, args: Result<OpenArgs>) -> Result<usize> {
    if with(|p| p.comm(comm).map(Comm::is_inter))? {
        return Err(Error::new(
            Class::Comm,
            "the communicator is an intercommunicator: must be an intracommunicator",
        ));
    }
    let own = duplicate(comm).map_err(of_file)?;
    let (rank, size) = (own.rank(), own.size());
    let place = with(|p| p.core().map(|core| core.place()))?;
    let handle = with(|p| p.comms.insert(own)) as usize;
    let current = Current::default();
    let members = FileMembers { comm: handle, rank, size, place, current };
    match io::open(Arc::new(members), args) {
        Ok(file) => with(|p| {
            let errhandler = p.tables.files.default_errhandler;
            let open = OpenFile { file: Arc::new(file), errhandler, comm: handle };
            Ok(p.tables.files.table.insert(open) as usize)
        }),
        Err(error) => {
            with(|p| p.forget_comm(handle))?;
            Err(error)
        }
    }
}

/// Performs MPI_File_close; the handle becomes MPI_FILE_NULL. Collective.
pub fn close(handle: &mut usize) -> Result<()> {
    let file = file(*handle)?;
    let counts = file.begin_close()?;
    let closed = file.end_close();
    with(|p| {
        let first = p.comm_of_file(*handle).is_ok_and(|comm| comm.rank() == 0);
        let core = p.core.as_deref();
        let (report_io, explains) =
            core.map_or((false, false), |core| (core.report_io, core.explains));
        if first && explains {
            p.tables.files.reports.push(file.explain());
        }
        if first && report_io {
            p.tables.files.reports.push(io::report::report(file.path(), &counts));
        }
        let open = p.tables.files.table.remove(*handle as u64);
        let open = open.map_err(|stale| bad_handle(Class::File, "file", stale))?;
        p.forget_comm(open.comm)
    })?;
    *handle = predefined::FILE_NULL;
    closed
}

/// Makes a request of a nonblocking access and returns its handle.
pub fn request(file: usize, pending: Arc<io::Pending>) -> usize {
    let request = Request { comm: file, state: State::File(pending), persistent: None, then: None };
    with(|p| p.requests.insert(request)) as usize
}

/// The processes of a file, by its communicator.
struct FileMembers {
    comm: usize,
    rank: u32,
    size: u32,
    place: Place,
    current: Current,
}

impl Members for FileMembers {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn place(&self) -> Place {
        self.place
    }

    fn run(&self, exchange: Exchange) -> Result<Messages> {
        FileExchange::begin(self.comm, &self.current, exchange)?.wait()
    }

    fn begin(&self, exchange: Exchange) -> Result<Box<dyn Transit>> {
        Ok(Box::new(FileExchange::begin(self.comm, &self.current, exchange)?))
    }

    fn drive(&self, access: Box<dyn Resumable>) {
        let task = FileTask::new(access, self.current.clone());
        with(|p| p.tables.files.tasks.push(task));
    }

    fn wait(&self, pending: &Arc<Pending>) {
        block_on(|_| pending.is_done().then_some(()));
    }

    fn report_progress(&self, done: u64, total: u64) {
        status_page::entry().set_file_progress(done, total);
    }

    fn remote_words(&self) -> Result<Box<dyn RemoteWords>> {
        let words = FileWords::create(self.comm, self.rank).map_err(of_file)?;
        Ok(Box::new(words))
    }
}
