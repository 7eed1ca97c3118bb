//! The receiving half of a stream: brings packets into order and joins messages.
//!
//! Packets within the window that come early are held, as copies. Everything else that is not the
//! next packet is dropped; the acknowledgement tells the sender. A later stream replaces the
//! current one with all that is held of it: its messages come again.

use super::packet::{Ack, flags};
use super::{WINDOW, is_after};

/// What to do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is the next one: [`Receiver::take`] it, or [`Receiver::hold`] it until it may be taken.
    Next,
    /// It is early: [`Receiver::hold`] it.
    Early,
    /// It has arrived before, or is too early: only the acknowledgement is due.
    Repeated,
    /// It belongs to a stream that is over.
    Stale,
}

/// What a packet has made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// Its payload is a message.
    Whole,
    /// The last part of a message, which is here.
    Message(Vec<u8>),
    /// A part of a message.
    Part,
    /// Not a part of any message: the sender is in error.
    Invalid,
}

#[derive(Debug)]
struct Held {
    number: u32,
    flags: u8,
    payload: Box<[u8]>,
}

/// The receiving half of a stream.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    held: Vec<Held>,
    message: Vec<u8>,
    /// Stream that is received; 0: none yet.
    stream: u32,
    /// Number of the next packet.
    next: u32,
    is_joining: bool,
}

impl Receiver {
    /// Judges a packet of a stream.
    pub(crate) fn judge(&mut self, stream: u32, number: u32) -> Verdict {
        if stream != self.stream {
            if self.stream != 0 && !is_after(stream, self.stream) {
                return Verdict::Stale;
            }
            *self = Receiver { stream, ..Receiver::default() };
        }
        match number.wrapping_sub(self.next) {
            0 => Verdict::Next,
            1..WINDOW if self.held.iter().all(|held| held.number != number) => Verdict::Early,
            _ => Verdict::Repeated,
        }
    }

    /// Keeps a packet that is early, or next and must wait. Returns false if it was kept before.
    pub(crate) fn hold(&mut self, number: u32, flags: u8, payload: &[u8]) -> bool {
        let is_new = self.held.iter().all(|held| held.number != number);
        if is_new {
            self.held.push(Held { number, flags, payload: payload.into() });
        }
        is_new
    }

    /// Returns the next packet if it is held: flags and payload. [`Receiver::take`] it.
    pub(crate) fn next_held(&mut self) -> Option<(u8, Box<[u8]>)> {
        let index = self.held.iter().position(|held| held.number == self.next)?;
        let held = self.held.swap_remove(index);
        if self.held.is_empty() {
            self.held = Vec::new();
        }
        Some((held.flags, held.payload))
    }

    /// Takes the next packet. A message has at most `longest` bytes.
    pub(crate) fn take(&mut self, flags: u8, payload: &[u8], longest: usize) -> Joined {
        self.next = self.next.wrapping_add(1);
        let is_first = flags & flags::FIRST != 0;
        if !is_first && !self.is_joining {
            return Joined::Invalid;
        }
        let is_last = flags & flags::LAST != 0;
        self.is_joining = !is_last;
        if is_first && is_last {
            return Joined::Whole;
        }
        if is_first {
            // The rest of an unfinished message has arrived on another path.
            self.message.clear();
            self.message.reserve(longest);
        }
        if self.message.len() + payload.len() > longest {
            return Joined::Invalid;
        }
        self.message.extend_from_slice(payload);
        if is_last { Joined::Message(std::mem::take(&mut self.message)) } else { Joined::Part }
    }

    /// Returns what has arrived.
    pub(crate) fn ack(&self) -> Ack {
        let bit = |held: &Held| match held.number.wrapping_sub(self.next) {
            distance @ 1..WINDOW => 1 << (distance - 1),
            _ => 0,
        };
        let later = self.held.iter().map(bit).fold(0, |bits, bit: u64| bits | bit);
        Ack { stream: self.stream, next: self.next, later }
    }

    /// Returns the packets that are held.
    pub(crate) fn held(&self) -> usize {
        self.held.len()
    }
}
