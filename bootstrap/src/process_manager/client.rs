//! What the protocols of process managers have in common.

/// A variable of the environment, by its name.
pub(super) type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

/// An error of a process manager, in one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ManagerError(pub String);

/// The protocol of one process manager.
pub(super) trait Client: Send {
    /// The protocol and its speaker, in words.
    fn name(&self) -> &'static str;

    /// This process's number, and the number of processes.
    fn place(&self) -> (u32, u32);

    /// Returns the number of this process's program on the manager's command line; `None` if the
    /// manager does not know.
    fn appnum(&mut self) -> Result<Option<u32>, ManagerError>;

    /// The longest value, in bytes of text.
    fn max_value(&self) -> usize;

    /// Returns the processes of this host in rising order; `None` if the manager does not know.
    fn local_ranks(&mut self) -> Result<Option<Vec<u32>>, ManagerError>;

    /// Stores a text without spaces, which others see after the fence.
    fn put(&mut self, key: &str, text: &str) -> Result<(), ManagerError>;

    /// Returns a text; `None` if no process put it before the last fence. `from` is the process
    /// that has put it, if the key tells that.
    fn get(&mut self, key: &str, from: Option<u32>) -> Result<Option<String>, ManagerError>;

    /// Waits until all processes have called it.
    fn fence(&mut self) -> Result<(), ManagerError>;

    /// Requests the end of all processes.
    fn abort(&mut self, code: i32, message: &str);

    /// Takes leave: the process may end.
    fn finalize(&mut self) -> Result<(), ManagerError>;

    /// Returns true once the manager has closed the connection. Never blocks.
    fn is_closed(&self) -> bool {
        false
    }
}
