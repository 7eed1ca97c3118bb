//! Windows: memory that ranks of a communicator read and write without the owner's help (MPI-5.0
//! §12).
//!
//! Safe code cannot misuse the memory, for these reasons:
//!
//! - Elements are [`PlainData`]. If several ranks write an element at the same time, its content is
//!   not defined, but still a value.
//! - Each access is within the memory of its target. For that a window knows the lengths of all.
//! - Each access is to a rank that the epoch gives access to: the library refuses others.
//! - Operations that last until the end of an epoch are started within a closure, and their buffers
//!   are borrowed for longer than the closure runs ([`epoch`](self#epochs)). A panic ends the epoch
//!   too.
//! - The owner borrows its memory only under an exclusive lock ([`Window::read`] and
//!   [`Window::write`]). An epoch and such a guard both borrow the window mutably. Therefore
//!   neither fence nor post can expose the memory at that time.
//! - A guard that is leaked borrows the window as long as its slice is in use. Afterwards the lock
//!   remains taken: other ranks wait for it, and another lock by the owner is an error.
//! - `MPI_Finalize` ends the program if an epoch or guard is still there.
//!
//! # Epochs
//!
//! | | ranks that take part | operations complete |
//! |---|---|---|
//! | [`Window::fence`] | all | at the end |
//! | [`Window::access`] | those of two groups | at the end |
//! | [`Window::lock`] | the origin alone; one target | at the end, or at a flush |
//! | [`Window::lock_all`] | the origin alone; all targets | at the end, or at a flush |
//!
//! The last two have operations that return their result at once, such as
//! [`LockEpoch::fetch_and_op`].

pub use self::epoch::{Epoch, Lock, LockEpoch};
pub use self::local::{LocalRead, LocalWrite};
pub use self::memory::Window;
pub use self::shared::Shared;
pub use crate::plain::{Integer, PlainData};

mod epoch;
mod local;
mod memory;
mod operation;
mod shared;
mod synchronisation;
