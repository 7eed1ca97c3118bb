//! The processes that opened a file, and the steps that they make together.
//!
//! All communication of this crate is an [`Exchange`], which has two forms: [`Members::run`] waits
//! for it, [`Members::begin`] returns it as a [`Transit`]. What goes on after a call is a
//! [`Resumable`]: the runtime polls it with its progress, when what it waits for has come.

use std::sync::Arc;

use objects::Result;

use crate::aggregators::Place;
use crate::pending::Pending;

/// A step that all members make together.
#[derive(Debug)]
pub enum Exchange {
    /// Each gives equally many bytes, and gets those of all in order of rank.
    Allgather(Vec<u8>),
    /// Each gives equally many bytes, and gets those of `root`.
    Broadcast {
        /// The rank whose bytes all get.
        root: u32,
        /// This member's bytes.
        bytes: Vec<u8>,
    },
    /// Each gives a message to each member, and gets one from each.
    Messages(Messages),
}

/// Messages to or from each member in order of rank, one after the other.
#[derive(Debug, Default)]
pub struct Messages {
    /// The messages.
    pub bytes: Vec<u8>,
    /// Bytes of each.
    pub lengths: Vec<u64>,
}

impl Messages {
    /// Returns empty messages to or from `size` members.
    pub(crate) fn none(size: u32) -> Messages {
        Messages { bytes: Vec::new(), lengths: vec![0; size as usize] }
    }

    /// Iterates over the messages in order of rank.
    pub(crate) fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.bytes[..];
        self.lengths.iter().map(move |&len| {
            let (message, after) = rest.split_at((len as usize).min(rest.len()));
            rest = after;
            message
        })
    }
}

/// An exchange that has begun.
pub trait Transit: Send {
    /// Returns what this member gets, once, when the exchange is complete. Bytes of an exchange
    /// without messages have no lengths.
    fn result(&mut self) -> Option<Result<Messages>>;
}

/// What an access that goes on after its call waits for.
pub enum WaitsFor<'a> {
    /// The exchange that its file began last.
    Exchange,
    /// Another access, or work on another thread.
    Pending(&'a Pending),
}

/// An access that goes on after its call.
pub trait Resumable: Send {
    /// Goes on as far as possible without waiting; returns true if it is done.
    fn resume(&mut self) -> bool;

    /// Returns what it waits for.
    fn waits_for(&self) -> WaitsFor<'_>;
}

/// The processes of a file, as one of them sees the others. All calls but `rank`, `size`, `place`,
/// `drive`, `wait` and `report_progress` are collective: each member makes the same ones in the
/// same order.
pub trait Members: Send + Sync {
    /// Returns this process's rank.
    fn rank(&self) -> u32;

    /// Returns the number of processes.
    fn size(&self) -> u32;

    /// Returns where this process runs.
    fn place(&self) -> Place;

    /// Makes an exchange; returns what this member gets.
    fn run(&self, exchange: Exchange) -> Result<Messages>;

    /// Begins an exchange.
    fn begin(&self, exchange: Exchange) -> Result<Box<dyn Transit>>;

    /// Resumes an access whenever what it waits for has come, until it is done.
    fn drive(&self, access: Box<dyn Resumable>);

    /// Makes progress until an access is done.
    fn wait(&self, pending: &Arc<Pending>);

    /// Tells an observer how far a collective write has come: bytes of all members. A total of 0:
    /// none runs.
    fn report_progress(&self, _done: u64, _total: u64) {}

    /// Makes words at rank 0 that members on any host can change, all 0.
    fn remote_words(&self) -> Result<Box<dyn RemoteWords>>;
}

/// Words at rank 0 of a group, which its members change by messages or memory.
pub trait RemoteWords: Send + Sync {
    /// Adds to the word with this index; returns what it was.
    fn fetch_add(&self, index: usize, value: i64) -> Result<i64>;

    /// Returns the word with this index.
    fn load(&self, index: usize) -> Result<i64>;

    /// Sets the word with this index.
    fn store(&self, index: usize, value: i64) -> Result<()>;

    /// Gives the words back. Collective.
    fn free(&self) -> Result<()>;
}
