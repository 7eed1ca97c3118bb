//! The one seam between protocol and device.
//!
//! A transport moves frames between processes: reliably, and for each ordered
//! pair in the order posted. It knows nothing of communicators, matching or
//! requests. Everything above it is the same on shared memory, verbs, TCP and
//! in the simulator.

use std::fmt;
use std::sync::atomic::AtomicU32;

use crate::body::Body;
use crate::copy;
use crate::header::Header;
use crate::user_buf::UserBuf;

/// A process of the job: its rank in MPI_COMM_WORLD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u32);

/// What a route to one peer can carry. All sizes are bytes of body.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Largest body of a single frame. At least 64.
    pub frame: usize,
    /// Largest message that is sent eagerly; at most `frame - 8`.
    pub eager: usize,
    /// Smallest rendezvous that is pulled with `get` instead of pushed in
    /// frames; `u64::MAX` where the route has none.
    pub get_min: u64,
    /// Smallest rendezvous, of those that are not pulled, that the sender may write
    /// with `put` instead of pushing it; `u64::MAX` where the route has none.
    pub put_min: u64,
}

/// What a peer may do with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Read it. The only one for memory that this process itself may not write.
    Get,
    /// Write it.
    Put,
    /// Read, write and change it atomically.
    All,
}

/// What is done with memory of a peer without the peer's help.
#[derive(Clone, Copy, Debug)]
pub enum OneSided {
    /// It is read into this memory of ours.
    Get(UserBuf),
    /// It is written from this memory of ours.
    Put(UserBuf),
    /// Its 64 bits change in one step; our memory, 8 bytes, gets what they were.
    Atomic(Atomic, UserBuf),
}

/// A change of 64 bits, which are aligned and in the processor's byte order. One step
/// for all that reach them through the same device, not for the owner's own stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Adds, round the end.
    Add(u64),
    /// Writes `new` if they are `expected`.
    CompareSwap {
        /// What they have to be.
        expected: u64,
        /// What they become.
        new: u64,
    },
}

impl OneSided {
    /// Our side of it.
    #[inline]
    pub fn memory(&self) -> UserBuf {
        match *self {
            OneSided::Get(memory) | OneSided::Put(memory) | OneSided::Atomic(_, memory) => memory,
        }
    }
}

impl Atomic {
    /// What becomes of `old`.
    pub fn of(self, old: u64) -> u64 {
        match self {
            Atomic::Add(more) => old.wrapping_add(more),
            Atomic::CompareSwap { expected, new } => {
                if old == expected {
                    new
                } else {
                    old
                }
            }
        }
    }
}

/// Where the body of a frame is written.
pub struct Slot<'a> {
    bytes: &'a mut [u8],
    non_temporal: bool,
    chunks: Option<Chunks<'a>>,
}

/// How a body is published while it is written.
#[derive(Clone, Copy)]
pub struct Chunks<'a> {
    /// Bytes of a chunk.
    pub bytes: usize,
    /// Called after each chunk with the bytes written so far.
    pub written: &'a dyn Fn(usize),
}

impl<'a> Slot<'a> {
    /// Makes a slot that is published when all of it is written. `non_temporal`: another
    /// processor reads it next, so the copy bypasses the cache; the transport orders these
    /// stores before what it publishes.
    #[inline]
    pub fn new(bytes: &'a mut [u8], non_temporal: bool) -> Slot<'a> {
        Slot { bytes, non_temporal, chunks: None }
    }

    /// Makes a slot that is read while it is written, chunk by chunk.
    #[inline]
    pub fn chunked(bytes: &'a mut [u8], non_temporal: bool, chunks: Chunks<'a>) -> Slot<'a> {
        Slot { bytes, non_temporal, chunks: Some(chunks) }
    }

    /// Fills the slot with `from`, which must be as long.
    #[inline(always)]
    pub fn copy_from(&mut self, from: UserBuf) {
        let non_temporal = self.non_temporal;
        self.fill_chunks(move |at, chunk| {
            if non_temporal { from.copy_out_nt(at, chunk) } else { from.read(at, chunk) }
        });
    }

    /// Has `fill` write the slot from front to end, in the chunks that the receiver is to see,
    /// each with its offset.
    #[inline(always)]
    pub fn fill_chunks(&mut self, mut fill: impl FnMut(usize, &mut [u8])) {
        match self.chunks {
            None => fill(0, self.bytes),
            Some(chunks) => publish_chunks(self.bytes, self.non_temporal, chunks, fill),
        }
    }
}

/// Writes and publishes chunk after chunk.
#[inline(never)]
fn publish_chunks(
    bytes: &mut [u8],
    non_temporal: bool,
    chunks: Chunks<'_>,
    mut fill: impl FnMut(usize, &mut [u8]),
) {
    let mut done = 0;
    for chunk in bytes.chunks_mut(chunks.bytes) {
        fill(done, chunk);
        if non_temporal {
            copy::nt_fence();
        }
        done += chunk.len();
        (chunks.written)(done);
    }
}

impl fmt::Debug for Slot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("len", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl std::ops::Deref for Slot<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl std::ops::DerefMut for Slot<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes
    }
}

/// What became of a posted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Post {
    /// It is on its way; the slot holds a copy of everything.
    Sent,
    /// No room now. Nothing was written: post it again after a `poll`.
    NoRoom,
}

/// What became of a one-sided transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Transfer {
    /// Finished before the call returned.
    Done,
    /// Under way: [`Sink::transferred`] will be called with the token.
    Started,
    /// No room now: try again after a `poll`.
    NoRoom,
    /// This route can't do it (any more); nothing was transferred. Use frames.
    Refused,
}

/// A peer's memory as the peer's transport described it for one-sided access.
/// Travels in [`Rts`] and in the body of a Cts; its meaning is the transport's own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Address in the owner's address space.
    pub addr: u64,
    /// Remote keys, one for each rail.
    pub keys: [u32; 4],
}

/// The body of a request to send: `send` names the sender's request, `region`
/// its buffer when that can be read from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts {
    /// The sender's request, returned in `Cts` and `Done`.
    pub send: u64,
    /// Where the data lies, if it is one run of memory that may be pulled.
    pub region: Option<Region>,
}

/// A peer that can't be reached any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rank {} of MPI_COMM_WORLD can't be reached: {why}", peer.0)]
pub struct PeerFailed {
    /// Who.
    pub peer: Peer,
    /// In words for the user.
    pub why: String,
}

/// What an idle process waits on; see [`Transport::arm`].
#[derive(Clone, Copy, Debug)]
pub enum WaitOn<'a> {
    /// Sleep in `futex_wait` while the word holds `value`.
    Futex {
        /// In memory that peers share with us.
        word: &'a AtomicU32,
        /// What it held when the transport was armed.
        value: u32,
    },
    /// Sleep until the descriptor is readable.
    Fd(std::os::fd::RawFd),
    /// Both: sleep while the word holds `value` and the descriptor is not readable. Who
    /// wakes sets the word to 0.
    Either {
        /// In memory that peers share with us.
        word: &'a AtomicU32,
        /// What it held when the transport was armed.
        value: u32,
        /// The device's.
        fd: std::os::fd::RawFd,
    },
    /// Nothing outside will ever happen (no peers): only other threads help.
    Nothing,
}

/// Who takes what a transport has received. Called inside [`Transport::poll`],
/// so it must not post: it notes what is to be done and returns.
pub trait Sink {
    /// A frame from `from`. `body` is only valid during the call.
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized));
    /// Whether it is known where the body of a frame goes. One that is for nobody yet would have to be kept, so
    /// a transport may leave it where it is until the next poll.
    fn expects(&mut self, _from: Peer, _header: &Header) -> bool {
        true
    }
    /// The one-sided transfer `token` has finished, or failed.
    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>);
    /// A peer is gone; nothing more will come from it.
    fn peer_failed(&mut self, lost: PeerFailed);
}

/// A device that carries frames between the processes of a job.
///
/// Contract:
/// - Frames of one ordered pair arrive once and in the order posted.
/// - `post` never blocks and never calls back. `NoRoom` is not an error.
/// - Connections are made on first use, inside `post` and `poll`.
/// - Progress happens only inside these calls (unless the device has its own).
/// - The own process is never a peer: messages to oneself do not come here.
pub trait Transport {
    /// What the route to `peer` can carry. Cheap; may change over time (a
    /// one-sided path that was refused), but `frame` never shrinks.
    fn caps(&self, peer: Peer) -> &Caps;

    /// Sends one frame: `fill` writes exactly `len` bytes of body straight into
    /// the slot. `len` is at most `caps(peer).frame`. `fill` is called only
    /// when the result is `Sent`. There is no room for a piece of a message ([`Kind::Data`](crate::Kind::Data))
    /// while the peer gets the rest of it ([`HybridGet::get_remainder`]).
    fn post(
        &mut self,
        peer: Peer,
        header: &Header,
        len: usize,
        fill: impl FnOnce(&mut Slot),
    ) -> Result<Post, PeerFailed>;

    /// Announces that several frames to `peer` are posted next, without a `poll` in between. A
    /// device may coalesce them; they are on their way only after [`Transport::end_batch`].
    fn begin_batch(&mut self, _peer: Peer) {}

    /// Ends what `begin_batch` began.
    fn end_batch(&mut self, _peer: Peer) {}

    /// Hands everything that has arrived (up to a bound of the transport's
    /// choice) to the sink; true if there was anything.
    fn poll(&mut self, sink: &mut impl Sink) -> bool;

    /// Lets `peer` do that with memory; `None` if the route can't.
    fn register(&mut self, _peer: Peer, _memory: UserBuf, _rights: Rights) -> Option<Region> {
        None
    }

    /// Ends what `register` began.
    fn release(&mut self, _peer: Peer, _region: Region) {}

    /// Reads, writes or changes memory of `peer`: as many bytes of `region` from `at` on as our
    /// side has. Several under way overtake each other and frames. What is written is in place when
    /// it has finished, and seen by who hears of it by a frame. Our side of it stays valid and is
    /// left alone until then. An atomic fails (no other does while the peer is there) when it can't
    /// be told whether it was done.
    fn one_sided(
        &mut self,
        _peer: Peer,
        _region: &Region,
        _at: u64,
        _what: OneSided,
        _token: u64,
    ) -> Result<Transfer, PeerFailed> {
        Ok(Transfer::Refused)
    }

    /// Says that the caller is about to sleep. Afterwards whatever arrives, and
    /// room for what last found none, wakes what is returned. `None`: something
    /// has arrived already, or there is room: go on instead.
    fn arm(&mut self) -> Option<WaitOn<'_>>;

    /// Says that the caller is awake again. Cheap when it was not armed.
    fn disarm(&mut self) {}

    /// Says that the process is about to end, which would take with it what the device has
    /// not sent yet. True when nothing is left; else ask again after a `poll`.
    fn flush(&mut self) -> bool {
        true
    }
}

/// Receiving a large message by get and push together, for devices on which a push that both
/// sides copy is faster than a get, but stops while the sender is outside of the library.
///
/// The receiver asks for pushed pieces ([`crate::Kind::Data`]) and gets what is missing when the
/// sender stops. The defaults are those of a device without such a choice:
/// `impl HybridGet for Device {}`.
pub trait HybridGet: Transport {
    /// Gets all of a message that the peer has announced, or advises to ask the peer for it.
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        self.one_sided(peer, region, 0, OneSided::Get(into), token).map(GetOrPush::Get)
    }

    /// Gets the bytes of a message from `at` on, of which the peer was asked to push all. Gets
    /// only while all pieces that the peer has posted were handed over and it can post no other;
    /// otherwise returns `NoRoom`. Never returns `Started`.
    fn get_remainder(
        &mut self,
        _peer: Peer,
        _region: &Region,
        _at: u64,
        _into: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        Ok(Transfer::Refused)
    }
}

/// What became of [`HybridGet::get_or_push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum GetOrPush {
    /// A get, and what became of it.
    Get(Transfer),
    /// The peer is in the library: pieces that it pushes arrive sooner than a get.
    Push,
}

impl Region {
    /// Bytes on the wire.
    pub const SIZE: usize = 24;

    /// Address (8), keys (4 x 4); little-endian.
    pub fn encode(&self) -> [u8; Region::SIZE] {
        let mut out = [0; Region::SIZE];
        out[..8].copy_from_slice(&self.addr.to_le_bytes());
        for (slot, key) in out[8..].chunks_exact_mut(4).zip(self.keys) {
            slot.copy_from_slice(&key.to_le_bytes());
        }
        out
    }

    /// The reverse; `None` when the bytes are not a `Region`.
    pub fn decode(body: &[u8]) -> Option<Region> {
        let body: &[u8; Region::SIZE] = body.try_into().ok()?;
        let key = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| body[at + i]));
        let addr = u64::from_le_bytes(std::array::from_fn(|i| body[i]));
        Some(Region { addr, keys: std::array::from_fn(|i| key(8 + 4 * i)) })
    }
}

impl Rts {
    /// Bytes on the wire.
    pub const SIZE: usize = 16 + Region::SIZE;

    /// `send` (8), has-region (8), the region; little-endian.
    pub fn encode(&self) -> [u8; Rts::SIZE] {
        let mut out = [0; Rts::SIZE];
        out[..8].copy_from_slice(&self.send.to_le_bytes());
        if let Some(region) = &self.region {
            out[8] = 1;
            out[16..].copy_from_slice(&region.encode());
        }
        out
    }

    /// The reverse; `None` when the bytes are not an `Rts`.
    pub fn decode(body: &[u8]) -> Option<Rts> {
        let body: &[u8; Rts::SIZE] = body.try_into().ok()?;
        let region = match body[8] {
            0 => None,
            1 => Some(Region::decode(&body[16..])?),
            _ => return None,
        };
        Some(Rts { send: u64::from_le_bytes(std::array::from_fn(|i| body[i])), region })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_rts_survives_the_wire() {
        for region in [None, Some(Region { addr: 0x7fff_1234_5678, keys: [1, 2, 3, u32::MAX] })] {
            let rts = Rts { send: 99, region };
            assert_eq!(Rts::decode(&rts.encode()), Some(rts));
        }
        assert_eq!(Rts::decode(&[2; Rts::SIZE]), None);
        assert_eq!(Rts::decode(&[0; 3]), None);
    }
}
