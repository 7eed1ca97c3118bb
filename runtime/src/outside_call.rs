//! What progress hands out to be run outside the process lock, since it may enter again.

use collectives::{UserCall, UserReturn};

use crate::file_tasks::FileTask;

/// Work that progress finds and that runs outside the lock.
pub enum OutsideCall {
    /// A user's reduction function.
    User(UserCall),
    /// A collective access to a file, which goes on.
    File(FileTask),
}

/// The result of an [`OutsideCall`].
pub enum OutsideReturn {
    /// Of the function.
    User(UserReturn),
    /// The access, unless it is done.
    File(Option<FileTask>),
}
