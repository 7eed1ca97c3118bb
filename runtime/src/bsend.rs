//! Buffered sends (MPI-5.0 §3.6): the attached buffer and its accounting.
//!
//! A message takes its packed size plus MPI_BSEND_OVERHEAD from the buffer, first fit, from the
//! call until its data has left. The standard's formula (§3.6.1) therefore always suffices. With
//! automatic buffering the library allocates the copies, without a bound.
//!
//! The frame that ends an earlier message may have arrived without being polled, while the program
//! knows of the end by a barrier. A send without space therefore polls before it reports an error.

#![allow(unsafe_code)]

use std::time::{Duration, Instant};

use fabric::{Peer, UserBuf};
use objects::{Buffer, Class, Error, Result};
use pt2pt::{Engine, Envelope, Mode, RequestId};

use crate::stack::Stack;

/// MPI_BSEND_OVERHEAD, bytes for each message.
pub const OVERHEAD: u64 = 512;

/// So long a send looks whether others have left before it says that there is no room. Longer than
/// a frame takes that a device has to send again.
const BRIEFLY: Duration = Duration::from_millis(500);

/// What MPI_Buffer_attach was given.
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
struct Flight {
    offset: u64,
    room: u64,
    request: RequestId,
    /// The copy, with automatic buffering.
    _owned: Option<Box<[u8]>>,
}

/// One attached buffer: of the process, a communicator or a session.
struct Attached {
    /// The communicator's handle, or 0 for the process.
    owner: usize,
    what: Attachment,
    /// By offset.
    flights: Vec<Flight>,
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

    /// True when there is nothing to reclaim.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.attached.iter().all(|attached| attached.flights.is_empty())
    }

    /// Gives back the room of messages that have left; true if there were any.
    pub(crate) fn reclaim(&mut self, pt2pt: &mut Engine) -> bool {
        let mut moved = false;
        for attached in &mut self.attached {
            let before = attached.flights.len();
            attached.flights.retain(|flight| pt2pt.finish(flight.request).is_none());
            moved |= attached.flights.len() != before;
        }
        moved
    }

    /// MPI_Buffer_attach. MPI_ERR_BUFFER when one is attached already.
    pub fn attach(&mut self, owner: usize, what: Attachment) -> Result<()> {
        if self.find(owner).is_some() {
            return Err(Error::new(Class::Buffer, "a buffer is attached already: detach it first"));
        }
        self.attached.push(Attached { owner, what, flights: Vec::new() });
        Ok(())
    }

    /// Removes an attachment that has been drained.
    pub fn detach(&mut self, owner: usize) -> Attachment {
        match self.attached.iter().position(|attached| attached.owner == owner) {
            Some(index) => self.attached.swap_remove(index).what,
            None => Attachment::None,
        }
    }

    /// True when every message of this buffer has left.
    pub fn is_drained(&self, owner: usize) -> bool {
        self.attached
            .iter()
            .filter(|attached| attached.owner == owner)
            .all(|attached| attached.flights.is_empty())
    }

    /// Copies the message to the buffer attached to `comm`, or else to the one of the process, and
    /// sends it from there.
    pub(crate) fn send(
        &mut self,
        stack: &mut Stack,
        comm: usize,
        to: Peer,
        envelope: Envelope,
        buffer: Buffer,
    ) -> Result<()> {
        self.reclaim(stack.pt2pt());
        let owner = if self.find(comm).is_some() { comm } else { PROCESS };
        let mut since = None;
        while self.find(owner).is_some_and(|attached| attached.is_full_for(buffer.len()))
            && since.get_or_insert_with(Instant::now).elapsed() < BRIEFLY
        {
            stack.progress_aside();
            if !self.reclaim(stack.pt2pt()) {
                std::thread::yield_now();
            }
        }
        match self.find(owner) {
            Some(attached) => attached.send(stack, to, envelope, &buffer),
            None => Err(no_room(0, 0)),
        }
    }

    fn find(&mut self, owner: usize) -> Option<&mut Attached> {
        self.attached.iter_mut().find(|attached| attached.owner == owner)
    }
}

impl Attached {
    /// Whether a message of so many bytes has no room now and would have some if others had left.
    fn is_full_for(&self, bytes: u64) -> bool {
        let Attachment::User(memory) = self.what else { return false };
        let (size, room) = (memory.len() as u64, bytes + OVERHEAD);
        room <= size && self.gap(size, room).is_none()
    }

    /// The first gap of `room` bytes, and where in `flights` it belongs.
    fn gap(&self, size: u64, room: u64) -> Option<(usize, u64)> {
        let mut start = 0;
        for (index, flight) in self.flights.iter().enumerate() {
            if flight.offset - start >= room {
                return Some((index, start));
            }
            start = flight.offset + flight.room;
        }
        (size - start >= room).then_some((self.flights.len(), start))
    }

    fn send(
        &mut self,
        stack: &mut Stack,
        to: Peer,
        envelope: Envelope,
        buffer: &Buffer,
    ) -> Result<()> {
        let bytes = buffer.len();
        let room = bytes + OVERHEAD;
        match self.what {
            Attachment::None => Err(no_room(0, room)),
            Attachment::User(memory) => {
                let size = memory.len() as u64;
                let (index, offset) = self.gap(size, room).ok_or_else(|| no_room(size, room))?;
                let copy = Buffer::contiguous(memory.slice(offset as usize, bytes as usize));
                copy.copy_from(buffer);
                let request = stack.send(Mode::Standard, to, envelope, copy);
                self.flights.insert(index, Flight { offset, room, request, _owned: None });
                Ok(())
            }
            Attachment::Automatic => {
                let mut owned = vec![0; bytes as usize].into_boxed_slice();
                buffer.pack(0, &mut owned);
                // SAFETY: the box stays in its flight until the engine has finished
                // with the request, and moving the box does not move its bytes.
                let memory = unsafe { UserBuf::new(owned.as_mut_ptr(), owned.len()) };
                let request = stack.send(Mode::Standard, to, envelope, Buffer::contiguous(memory));
                self.flights.push(Flight { offset: 0, room: 0, request, _owned: Some(owned) });
                Ok(())
            }
        }
    }
}

#[cold]
fn no_room(size: u64, room: u64) -> Error {
    Error::new(
        Class::Buffer,
        if size == 0 {
            "a buffered send needs a buffer: call MPI_Buffer_attach first".to_owned()
        } else {
            format!(
                "the attached buffer of {size} bytes has no room for {room} more (data and MPI_BSEND_OVERHEAD); messages that have not left yet hold the rest"
            )
        },
    )
}
