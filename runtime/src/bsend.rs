//! Buffered sends (MPI-5.0 §3.6): the attached buffer and its accounting.
//!
//! A message takes its packed size plus MPI_BSEND_OVERHEAD from the buffer, first fit, from the
//! call until its data has left. The standard's formula (§3.6.1) therefore always suffices. With
//! automatic buffering the library allocates the copies, without a bound.
//!
//! A program may know by a barrier that an earlier message was received, before this process has
//! polled the frame that ends it. A send without space therefore polls before it reports an error.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use fabric::{Peer, UserBuf};
use objects::{Buffer, Class, Error, Result};
use pt2pt::{Engine, Envelope, RequestId};

use crate::stack::Stack;

/// MPI_BSEND_OVERHEAD, bytes for each message.
pub const OVERHEAD: u64 = 512;

/// How long a send without space polls before it reports an error. Longer than a device needs to
/// retransmit a frame.
const SPACE_TIMEOUT: Duration = Duration::from_millis(500);

/// What the user attached by MPI_Buffer_attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// Nothing is attached.
    None,
    /// The user's memory.
    User(UserBuf),
    /// MPI_BUFFER_AUTOMATIC.
    Automatic,
}

/// A message whose data has not left yet.
struct InFlight {
    /// Where its bytes begin in the attached buffer.
    offset: u64,
    /// Its bytes and the overhead.
    space: u64,
    request: RequestId,
    /// The copy, with automatic buffering.
    _owned: Option<Box<[u8]>>,
}

/// One attached buffer: of the process, a communicator or a session.
struct Attached {
    /// The handle of the communicator or session, or [`PROCESS`].
    owner: usize,
    attachment: Attachment,
    /// By offset.
    in_flight: Vec<InFlight>,
}

/// All attached buffers of the process.
pub struct BsendBuffers {
    attached: Vec<Attached>,
}

/// The owner of the buffer that MPI_Buffer_attach gives to the whole process.
pub const PROCESS: usize = 0;

impl BsendBuffers {
    pub(crate) const fn new() -> BsendBuffers {
        BsendBuffers { attached: Vec::new() }
    }

    /// Returns how many buffers are attached.
    #[inline]
    pub(crate) fn attachments(&self) -> usize {
        self.attached.len()
    }

    /// Returns true when there is nothing to reclaim.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.attached.iter().all(|attached| attached.in_flight.is_empty())
    }

    /// Frees the space of messages that have left; true if there were any.
    pub(crate) fn reclaim(&mut self, pt2pt: &mut Engine) -> bool {
        let mut moved = false;
        for attached in &mut self.attached {
            let before = attached.in_flight.len();
            attached.in_flight.retain(|entry| pt2pt.finish(entry.request).is_none());
            moved |= attached.in_flight.len() != before;
        }
        moved
    }

    /// Performs MPI_Buffer_attach; MPI_ERR_BUFFER if a buffer is attached already.
    pub fn attach(&mut self, owner: usize, attachment: Attachment) -> Result<()> {
        if self.find(owner).is_some() {
            return Err(Error::new(Class::Buffer, "a buffer is attached already: detach it first"));
        }
        self.attached.push(Attached { owner, attachment, in_flight: Vec::new() });
        Ok(())
    }

    /// Removes an attachment that has been drained.
    pub fn detach(&mut self, owner: usize) -> Attachment {
        match self.attached.iter().position(|attached| attached.owner == owner) {
            Some(index) => self.attached.swap_remove(index).attachment,
            None => Attachment::None,
        }
    }

    /// Returns true when every message of this buffer has left.
    pub fn is_drained(&self, owner: usize) -> bool {
        self.attached
            .iter()
            .filter(|attached| attached.owner == owner)
            .all(|attached| attached.in_flight.is_empty())
    }

    /// Copies the message to the buffer of the first of `owners` that has one attached, and sends
    /// it from there.
    pub(crate) fn send(
        &mut self,
        stack: &mut Stack,
        owners: [usize; 3],
        to: Peer,
        envelope: Envelope,
        buffer: Buffer,
    ) -> Result<()> {
        self.reclaim(stack.pt2pt());
        let mut attached = owners.into_iter().filter(|&owner| self.find(owner).is_some());
        let owner = attached.next().unwrap_or(PROCESS);
        let mut since = None;
        while self.find(owner).is_some_and(|attached| attached.must_wait_for(buffer.len()))
            && since.get_or_insert_with(Instant::now).elapsed() < SPACE_TIMEOUT
        {
            stack.progress_aside();
            if !self.reclaim(stack.pt2pt()) {
                std::thread::yield_now();
            }
        }
        match self.find(owner) {
            Some(attached) => attached.send(stack, to, envelope, &buffer),
            None => Err(no_space(0, 0)),
        }
    }

    fn find(&mut self, owner: usize) -> Option<&mut Attached> {
        self.attached.iter_mut().find(|attached| attached.owner == owner)
    }
}

impl Attached {
    /// Returns true if a message of this size finds no gap now, but would fit into the empty
    /// buffer.
    fn must_wait_for(&self, bytes: u64) -> bool {
        let Attachment::User(memory) = self.attachment else { return false };
        let (size, space) = (memory.len() as u64, space_of(bytes));
        space <= size && self.gap(size, space).is_none()
    }

    /// Returns the first gap of `space` bytes: its index in `in_flight`, and its offset.
    fn gap(&self, size: u64, space: u64) -> Option<(usize, u64)> {
        let mut start = 0;
        for (index, entry) in self.in_flight.iter().enumerate() {
            if entry.offset - start >= space {
                return Some((index, start));
            }
            start = entry.offset + entry.space;
        }
        (size - start >= space).then_some((self.in_flight.len(), start))
    }

    fn send(
        &mut self,
        stack: &mut Stack,
        to: Peer,
        envelope: Envelope,
        buffer: &Buffer,
    ) -> Result<()> {
        let bytes = buffer.len();
        let space = space_of(bytes);
        match self.attachment {
            Attachment::None => Err(no_space(0, space)),
            Attachment::User(memory) => {
                let size = memory.len() as u64;
                let (index, offset) = self.gap(size, space).ok_or_else(|| no_space(size, space))?;
                let copy = Buffer::contiguous(memory.slice(offset as usize, bytes as usize));
                copy.copy_from(buffer);
                let request = stack.send_signed(to, envelope, copy, buffer);
                self.in_flight.insert(index, InFlight { offset, space, request, _owned: None });
                Ok(())
            }
            Attachment::Automatic => {
                let mut owned = buffer.packed()?.into_boxed_slice();
                // SAFETY: the box stays in its entry until the engine has finished with the
                // request, and moving the box does not move its bytes.
                let memory = unsafe { UserBuf::new(owned.as_mut_ptr(), owned.len()) };
                let copy = Buffer::contiguous(memory);
                let request = stack.send_signed(to, envelope, copy, buffer);
                self.in_flight.push(InFlight { offset: 0, space: 0, request, _owned: Some(owned) });
                Ok(())
            }
        }
    }
}

/// Returns what a message of so many bytes takes of the buffer. The size of a message may be as
/// large as a number can be.
fn space_of(bytes: u64) -> u64 {
    bytes.saturating_add(OVERHEAD)
}

#[cold]
fn no_space(size: u64, space: u64) -> Error {
    Error::new(
        Class::Buffer,
        if size == 0 {
            "no buffer is attached for the buffered send: call MPI_Buffer_attach first".to_owned()
        } else if size < space {
            format!(
                "the attached buffer of {size} bytes is too small: the message takes {space} bytes \
                 of it (data and MPI_BSEND_OVERHEAD)"
            )
        } else {
            format!(
                "the attached buffer of {size} bytes has no space for {space} more (data and \
                 MPI_BSEND_OVERHEAD): messages that have not left yet occupy the rest"
            )
        },
    )
}
