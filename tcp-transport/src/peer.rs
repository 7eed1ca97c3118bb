//! One peer: the streams in both directions, and what is under way.
//!
//! States: without a link, and not dialing (nothing to send, or closed by either side); dialing;
//! with a link; failed. Streams and transfers survive the link.

use std::collections::VecDeque;

use fabric::{Peer, PeerFailed, UserBuf};
use rustc_hash::FxHashMap;
use rustix::io::Errno;

use crate::dial_state::Dial;
use crate::send_queue::SendQueue;
use crate::socket::Socket;
use crate::stripes::Completes;
use crate::sys::{MAX_PARTS, Part};
use crate::wire::Kind;

/// A connection that carries records.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) fd: Socket,
    /// Events of earlier links of the peer have another.
    pub(crate) generation: u32,
    /// The socket takes bytes, as far as is known.
    pub(crate) writable: bool,
    /// A Bye of ours waits for the peer's.
    pub(crate) is_closing: bool,
    /// The end of the peer's bytes has arrived: a read that takes less than it may is not the last.
    pub(crate) is_ending: bool,
    /// Both sides have agreed to close it: it is read to its end, and carries nothing more of ours.
    pub(crate) is_shut: bool,
    /// The poll in which it last received or sent; [`Link::UNUSED`] before.
    pub(crate) used: u64,
}

impl Link {
    /// It has carried nothing: a post of one side may wait for it.
    pub(crate) const UNUSED: u64 = u64::MAX;

    /// Returns the link over a proven connection.
    pub(crate) fn new(fd: Socket, generation: u32) -> Link {
        Link {
            fd,
            generation,
            writable: true,
            is_closing: false,
            is_ending: false,
            is_shut: false,
            used: Link::UNUSED,
        }
    }
}

/// User memory that the rest of a record goes to.
#[derive(Debug)]
pub(crate) struct Bulk {
    pub(crate) into: UserBuf,
    pub(crate) then: Then,
}

/// What follows when the data of a record is in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// Nothing: more of the get follows.
    Nothing,
    /// A get has ended.
    Report(Completes),
    /// It is part of a put: the peer waits for an acknowledgement.
    Acknowledge,
}

/// A get whose bytes have not all arrived.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) completes: Completes,
    /// Where the next bytes go.
    pub(crate) into: UserBuf,
}

/// The stream from the peer.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    /// Bytes received.
    pub(crate) position: u64,
    /// The last position that a record to the peer has.
    pub(crate) advertised: u64,
    /// The start of a record that has not arrived whole, unless `Scratch` has it.
    pub(crate) carry: Vec<u8>,
    /// A record of which the data is arriving.
    pub(crate) bulk: Option<Bulk>,
    /// The peer waits for an acknowledgement.
    pub(crate) ack_due: bool,
    /// A Bye or Agree that waits for an answer: the peer wants to close the link, or lets us.
    pub(crate) bye_due: Option<Kind>,
}

/// All that a process knows of one stream with a peer: lane 0 has the frames, and each peer has it.
/// Further lanes have parts of large gets alone.
pub(crate) struct PeerState {
    pub(crate) peer: Peer,
    /// The number of the stream among those with the peer.
    pub(crate) lane: u32,
    /// The index of lane 0.
    pub(crate) main: usize,
    /// Of lane 0: the indices of lanes 1, 2, ...
    pub(crate) lanes: Vec<usize>,
    /// The last connection of lane 0 had a long round trip.
    pub(crate) is_far: bool,
    /// A lane could not be connected: it is not tried again.
    pub(crate) is_unusable: bool,
    pub(crate) tx: SendQueue,
    pub(crate) rx: Receiver,
    pub(crate) link: Option<Link>,
    pub(crate) dial: Option<Dial>,
    /// Number of the last connection that was tried or accepted.
    pub(crate) epoch: u32,
    /// Gets by number.
    pub(crate) gets: FxHashMap<u64, Incoming>,
    /// Atomics by number: token, and where the old value goes.
    pub(crate) atomics: FxHashMap<u64, (u64, UserBuf)>,
    /// Puts in order: position after the last byte, and token.
    pub(crate) puts: VecDeque<(u64, u64)>,
    /// The last poll before a record was sent that began a rendezvous.
    pub(crate) began_in: u64,
    /// A post found no space.
    pub(crate) is_starved: bool,
    /// The peer has announced that it closes the connection.
    pub(crate) said_bye: bool,
    pub(crate) failed: Option<PeerFailed>,
}

impl PeerState {
    /// Returns a stream with a peer; `main` is the index of lane 0.
    pub(crate) fn new(peer: Peer, main: usize, lane: u32) -> PeerState {
        PeerState {
            peer,
            lane,
            main,
            lanes: Vec::new(),
            is_far: false,
            is_unusable: false,
            tx: SendQueue::default(),
            rx: Receiver::default(),
            link: None,
            dial: None,
            epoch: 0,
            gets: FxHashMap::default(),
            atomics: FxHashMap::default(),
            puts: VecDeque::new(),
            began_in: u64::MAX,
            is_starved: false,
            said_bye: false,
            failed: None,
        }
    }

    /// Appends a record, which also acknowledges what was received.
    #[inline]
    pub(crate) fn append(&mut self, kind: Kind, len: usize) -> &mut [u8] {
        self.rx.advertised = self.rx.position;
        self.tx.append(kind, len, self.rx.position)
    }

    /// Appends a record with data of the user.
    pub(crate) fn append_user(&mut self, kind: Kind, head: &[u8], data: (UserBuf, Option<u64>)) {
        self.rx.advertised = self.rx.position;
        self.tx.append_user(kind, head, data, self.rx.position);
    }

    /// Acknowledges what was received, if the peer waits for it or much is unacknowledged.
    pub(crate) fn append_due_ack(&mut self, most: usize) {
        let is_much = self.rx.position - self.rx.advertised >= most as u64;
        if is_much || (self.rx.ack_due && self.rx.position != self.rx.advertised) {
            self.append(Kind::Ack, 0);
        }
        self.rx.ack_due = false;
    }

    /// Takes the token of a put that is in place, if the peer has received up to `position`.
    #[inline]
    pub(crate) fn next_delivered(&mut self, position: u64) -> Option<u64> {
        self.puts.pop_front_if(|(end, _)| *end <= position).map(|(_, token)| token)
    }

    /// Returns true, once, when a post that found no space may find some.
    #[inline]
    pub(crate) fn has_space_again(&mut self, low_water: usize) -> bool {
        let has_space = self.is_starved && self.tx.owned() <= low_water;
        self.is_starved &= !has_space;
        has_space
    }

    /// Returns true if there is a link that carries what is appended.
    #[inline]
    pub(crate) fn is_connected(&self) -> bool {
        self.link.as_ref().is_some_and(|link| !link.is_shut)
    }

    /// Returns true for lane 0.
    pub(crate) fn is_main(&self) -> bool {
        self.lane == 0
    }

    /// Returns true while something waits for the peer: a connection is needed.
    pub(crate) fn is_pending(&self) -> bool {
        self.tx.is_pending()
            || !self.gets.is_empty()
            || !self.atomics.is_empty()
            || !self.puts.is_empty()
            || self.rx.bulk.is_some()
    }

    /// Writes as much as the link takes. An error is left to the next read, which finds what
    /// arrived before it.
    #[inline]
    pub(crate) fn write(&mut self, polls: u64) {
        let Some(link) = &mut self.link else { return };
        while link.writable && (self.tx.has_unsent() || link.fd.has_unsent()) {
            let mut list = [Part::Own(&[]); MAX_PARTS];
            let count = self.tx.parts(&mut list);
            match link.fd.send(&list[..count]) {
                Ok(sent) => self.tx.wrote(sent),
                Err(Errno::INTR) => {}
                Err(_) => link.writable = false,
            }
            link.used = polls;
        }
    }
}
