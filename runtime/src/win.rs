//! MPI windows as objects: what the user sees, and what has to be given back.
//!
//! The protocol's state of a window is in [`rma::Engine`], under the same number: the context id of
//! a communicator that belongs to the window and on which its ranks synchronise.

use std::ffi::{OsStr, OsString};

use collectives::Plan;
use fabric::Peer;
use objects::comm::MAX_NAME;
use objects::{Attributes, Errhandler, Group, Info, Result, truncated};
use shm_transport::WindowRange;

/// How a window was made (MPI_WIN_CREATE_FLAVOR); the numbers are the ABI's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Flavor {
    /// MPI_Win_create: memory of the user.
    Create = 311,
    /// MPI_Win_allocate.
    Allocate = 312,
    /// MPI_Win_create_dynamic.
    Dynamic = 313,
    /// MPI_Win_allocate_shared.
    Shared = 314,
}

/// MPI_WIN_UNIFIED: loads and stores see what other ranks do, and the other way round.
pub const MODEL_UNIFIED: i32 = 321;

/// The values of predefined attributes, whose addresses the user gets.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Values {
    /// MPI_WIN_SIZE, an MPI_Aint.
    pub size: i64,
    /// MPI_WIN_DISP_UNIT, an int.
    pub unit: i32,
    /// MPI_WIN_CREATE_FLAVOR, an int.
    pub flavor: i32,
    /// MPI_WIN_MODEL, an int.
    pub model: i32,
}

/// A page of the library's own memory for a window.
#[derive(Clone, Copy)]
#[repr(C, align(4096))]
pub(crate) struct Page(pub(crate) [u8; 4096]);

/// Memory that is given back with the window.
#[derive(Default)]
pub(crate) struct Held {
    /// Of the segment, with whether this rank reserved it.
    pub(crate) range: Option<(WindowRange, bool)>,
    /// Of this process alone.
    pub(crate) pages: Vec<Page>,
}

/// A window.
pub struct Win {
    /// Names the window on all ranks.
    pub(crate) id: u64,
    /// Its slot in the engine of this process.
    pub(crate) slot: u32,
    /// The window's own communicator, by its handle.
    pub(crate) comm: usize,
    /// The barrier of its fences, planned by the first.
    pub(crate) barrier: Option<Plan>,
    pub(crate) held: Held,
    /// Another rank of this host.
    pub(crate) neighbor: Option<Peer>,
    /// Its processes.
    pub group: Group,
    /// How it was made.
    pub flavor: Flavor,
    /// MPI_WIN_BASE.
    pub base: usize,
    /// The other predefined attributes.
    pub values: Box<Values>,
    /// The error handler of calls on it.
    pub errhandler: Errhandler,
    /// Attributes of the user.
    pub attributes: Attributes,
    pub(crate) name: OsString,
    pub(crate) hints: Info,
}

/// The hints of windows with their defaults (MPI-5.0 §12.2.1, §12.2.3).
const HINTS: [(&str, &str); 8] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
    (DEVICE_ATOMICS, "auto"),
];

/// The hint by which a window's accumulates on elements of 8 bytes are left to RDMA devices
/// (`true`), or never are (`false`).
pub(crate) const DEVICE_ATOMICS: &str = "verbena_device_atomics";

/// Describes a window of that name and so many ranks.
pub(crate) fn describe(name: &str, ranks: u32) -> String {
    match name {
        "" => format!("an unnamed window of {ranks} ranks"),
        name => format!("the window \"{name}\""),
    }
}

impl Win {
    /// Sets the name, truncated to [`MAX_NAME`] bytes.
    pub(crate) fn set_name(&mut self, name: &OsStr) {
        truncated(name, MAX_NAME).clone_into(&mut self.name);
    }

    /// Returns the name.
    pub fn name(&self) -> &OsStr {
        &self.name
    }

    /// Returns the name or a description, for error texts.
    pub fn describe(&self) -> String {
        describe(&self.name.to_string_lossy(), self.group.size())
    }

    /// Stores the known hints and ignores the others (MPI_Win_set_info).
    pub fn set_hints(&mut self, given: &Info) -> Result<()> {
        for (hint, _) in HINTS {
            if let Some(value) = given.value(hint)? {
                self.hints.set(hint, value)?;
            }
        }
        Ok(())
    }

    /// Returns all hints; those that were never given have their defaults (MPI_Win_get_info).
    pub fn hints(&self) -> Result<Info> {
        let mut hints = Info::new();
        for (hint, default) in HINTS {
            hints.set(hint, self.hints.value(hint)?.unwrap_or(default.as_bytes()))?;
        }
        Ok(hints)
    }

    /// Returns true if the user has promised not to lock the window.
    pub(crate) fn has_no_locks(&self) -> bool {
        self.hints.value("no_locks").is_ok_and(|value| value == Some(b"true"))
    }
}
