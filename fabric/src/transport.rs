//! The interface between protocols and devices: the traits [`Transport`], [`HybridGet`] and
//! [`Sink`], and their parameter types.
//!
//! A transport moves frames between processes: reliably, and for each ordered pair in the order
//! posted. It knows nothing of communicators, matching or requests. Protocols are the same on
//! shared memory, verbs, TCP and in the simulator.

use std::fmt;
use std::sync::atomic::AtomicU32;

use crate::body::Body;
use crate::copy;
use crate::header::Header;
use crate::user_buf::UserBuf;
use crate::world::ProcessName;

/// A process, by its number: the rank in MPI_COMM_WORLD, unless its job was spawned or is in a
/// group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Peer(pub u32);

impl Peer {
    /// No process has this number or a larger one.
    pub const LIMIT: u32 = 1 << 24;
}

/// Capabilities of a transport towards one peer. All sizes are bytes of body.
#[derive(Clone, Copy, Debug)]
pub struct Caps {
    /// Largest body of a single frame. At least 64.
    pub frame: usize,
    /// Largest message that is sent eagerly; at most `frame - 8`.
    pub eager: usize,
    /// Smallest rendezvous that is pulled with a get instead of pushed in frames; `u64::MAX` if the
    /// device has no get.
    pub get_min: u64,
    /// Smallest rendezvous that the sender may write with a put instead of pushing it. Pulled ones
    /// do not count; `u64::MAX` if the device has no put.
    pub put_min: u64,
    /// Who carries out one-sided transfers.
    pub offload: Offload,
    /// A put may be in memory only after it has ended: before a frame that is posted to the same
    /// peer afterwards arrives, and before a get from it reads. A third process may find it absent.
    pub late_puts: bool,
}

/// Who carries out one-sided transfers, and towards whom its atomics are atomic. Ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offload {
    /// A processor of the peer when it makes progress, the caller itself, or nobody.
    #[default]
    Processor,
    /// The peer's device, which has no atomics.
    Device,
    /// The peer's device. Its atomics are atomic towards each other.
    DeviceAtomics,
    /// The peer's device. Its atomics are atomic towards processors as well.
    GlobalAtomics,
}

/// Access of a peer to registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Read. The only access to memory that this process itself must not write.
    Get,
    /// Write.
    Put,
    /// Read, write and change atomically.
    All,
}

/// An access to memory of a peer without the peer's help.
#[derive(Clone, Copy, Debug)]
pub enum OneSided {
    /// Reads it into this local memory.
    Get(UserBuf),
    /// Writes it from this local memory.
    Put(UserBuf),
    /// Changes 64 bits atomically; the local memory, 8 bytes, receives the old value.
    Atomic(Atomic, UserBuf),
}

/// An atomic change of 64 aligned bits in the processor's byte order. Atomic among accesses
/// through the same device, not towards the owner's own stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomic {
    /// Adds, and wraps.
    Add(u64),
    /// Writes `new` if the value is `expected`.
    CompareSwap {
        /// The value to compare with.
        expected: u64,
        /// The value to write.
        new: u64,
    },
}

/// Atomics of this process's device on this process's memory: atomic towards those of peers, where
/// processors are not ([`Offload::DeviceAtomics`]).
pub trait OwnAtomics: fmt::Debug + Send {
    /// Changes the 8 aligned bytes at `at` before it returns; returns the old value.
    fn change(&self, at: UserBuf, what: Atomic) -> Result<u64, AtomicFailure>;
}

/// Why an own atomic is not known to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicFailure {
    /// It was not done: the device is gone, also for peers. Processors may change the word.
    Gone,
    /// It may have been done or not, and the device goes on for peers: nobody else may do it.
    Unclear,
}

impl OneSided {
    /// Returns the local memory.
    #[inline]
    pub fn memory(&self) -> UserBuf {
        match *self {
            OneSided::Get(memory) | OneSided::Put(memory) | OneSided::Atomic(_, memory) => memory,
        }
    }
}

impl Atomic {
    /// Returns the new value.
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
    late: usize,
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
    /// Makes a slot that is published when all of it is written. `non_temporal`: another processor
    /// reads it next; therefore the copy bypasses the cache. The transport orders these stores
    /// before it publishes the frame.
    #[inline]
    pub fn new(bytes: &'a mut [u8], non_temporal: bool) -> Slot<'a> {
        Slot { bytes, non_temporal, late: 0, chunks: None }
    }

    /// Makes a slot that is read while it is written, chunk by chunk.
    #[inline]
    pub fn chunked(bytes: &'a mut [u8], non_temporal: bool, chunks: Chunks<'a>) -> Slot<'a> {
        Slot { bytes, non_temporal, late: 0, chunks: Some(chunks) }
    }

    /// Has [`Slot::copy_from`] write the first `late` bytes last. They lie in the cache line that
    /// the receiver polls; the line then crosses once, when it is complete.
    #[inline(always)]
    pub fn with_late_bytes(mut self, late: usize) -> Slot<'a> {
        self.late = late;
        self
    }

    /// Fills the slot with `from`, which must be as long.
    #[inline(always)]
    pub fn copy_from(&mut self, from: UserBuf) {
        if self.late > 0 {
            return self.copy_beginning_last(from);
        }
        let non_temporal = self.non_temporal;
        self.fill_chunks(move |at, chunk| {
            if non_temporal { from.copy_out_nt(at, chunk) } else { from.read(at, chunk) }
        });
    }

    #[inline(never)]
    fn copy_beginning_last(&mut self, from: UserBuf) {
        let (first, rest) = self.bytes.split_at_mut(self.late);
        from.read(first.len(), rest);
        from.read(0, first);
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

/// The result of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Post {
    /// The frame is on its way; the slot holds a copy of everything.
    Sent,
    /// There is no space now. Nothing was written: post again after a `poll`.
    NoSpace,
}

/// The result of starting a one-sided transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Transfer {
    /// The transfer finished before the call returned.
    Done,
    /// The transfer is under way: [`Sink::transferred`] will be called with the token.
    Started,
    /// There is no space now: try again after a `poll`.
    NoSpace,
    /// The device cannot do it, or can no longer do it; nothing was transferred. Use frames.
    Refused,
}

/// Registered memory of a peer, described by the peer's transport. Travels in [`Rts`] and in the
/// body of a Cts; only the transport interprets it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Address in the owner's address space.
    pub addr: u64,
    /// Remote keys, one for each rail.
    pub keys: [u32; 4],
}

/// The body of a request to send (the frame [`crate::Kind::Rts`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rts {
    /// The sender's request; comes back in `Cts` and `Done`.
    pub send: u64,
    /// The sender's buffer, if it is contiguous and may be pulled.
    pub region: Option<Region>,
}

/// A peer that can no longer be reached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} cannot be reached: {why}", ProcessName(peer.0))]
pub struct PeerFailed {
    /// The peer.
    pub peer: Peer,
    /// The reason, for the user.
    pub why: String,
}

impl PeerFailed {
    /// Returns the failure of a peer whose body was [`Cut`](crate::Cut).
    #[cold]
    pub fn cut(peer: Peer) -> PeerFailed {
        PeerFailed { peer, why: "its process has ended while it wrote a message".into() }
    }
}

/// The descriptor or word that an idle process sleeps on; see [`Transport::arm`].
#[derive(Clone, Copy, Debug)]
pub enum WaitOn<'a> {
    /// Sleep in `futex_wait` while the word holds `value`.
    Futex {
        /// The futex word, in memory shared with peers.
        word: &'a AtomicU32,
        /// The value when the transport was armed.
        value: u32,
    },
    /// Sleep until the descriptor is readable.
    Fd(std::os::fd::RawFd),
    /// Sleep while the word holds `value` and the descriptor is not readable. A waking peer sets
    /// the word to 0.
    Either {
        /// The futex word, in memory shared with peers.
        word: &'a AtomicU32,
        /// The value when the transport was armed.
        value: u32,
        /// The device's descriptor.
        fd: std::os::fd::RawFd,
    },
    /// There are no peers: only other threads of this process can make progress.
    Nothing,
}

/// The receiving end of [`Transport::poll`]. It must not post: it queues what follows and
/// returns.
pub trait Sink {
    /// Takes a frame from `from`. `body` is valid only during the call.
    fn frame(&mut self, from: Peer, header: &Header, body: &(impl Body + ?Sized));
    /// Returns true if the destination of the body is known. An unexpected body would have to be
    /// copied and kept. A transport may therefore leave the frame where it is until the next poll.
    fn expects(&mut self, _from: Peer, _header: &Header) -> bool {
        true
    }
    /// Takes the end of the one-sided transfer `token`, or its failure.
    fn transferred(&mut self, token: u64, outcome: Result<(), PeerFailed>);
    /// Takes the failure of a peer. No frame of that peer follows.
    fn peer_failed(&mut self, lost: PeerFailed);
}

/// A device that carries frames between the processes of a job.
///
/// Contract:
/// - Frames of one ordered pair arrive once and in the order posted.
/// - `post` never blocks and never calls the sink. `NoSpace` is not an error.
/// - Connections are made on first use, inside `post` and `poll`.
/// - Required are `caps`, `post`, `poll` and `arm`. The other methods have defaults, which are
///   right for a device without batches, one-sided access or a send queue of its own.
/// - Progress happens only inside these calls (unless the device has its own).
/// - The process itself is never a peer: messages to self do not come here.
/// - Tokens of one-sided transfers are below 2^62; a device may use the two highest bits.
pub trait Transport {
    /// Returns the capabilities towards `peer`. Cheap. They may change (a get that was refused),
    /// but `frame` never shrinks.
    fn caps(&self, peer: Peer) -> &Caps;

    /// Sends one frame: `fill` writes exactly `len` bytes of body straight into the slot. `len` is
    /// at most `caps(peer).frame`. `fill` is called only if the result is `Sent`. There is no space
    /// for a piece of a message ([`Kind::Data`](crate::Kind::Data)) while the peer gets the rest of
    /// it ([`HybridGet::get_remainder`]).
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

    /// Hands what has arrived, up to a bound of the transport's choice, to the sink. Returns true
    /// if there was anything.
    fn poll(&mut self, sink: &mut impl Sink) -> bool;

    /// Lets `peer` access memory; `None` if the device cannot.
    fn register(&mut self, _peer: Peer, _memory: UserBuf, _rights: Rights) -> Option<Region> {
        None
    }

    /// Ends a registration.
    fn release(&mut self, _peer: Peer, _region: Region) {}

    /// Reads, writes or changes memory of `peer`: as many bytes of `region` from `at` on as the
    /// local memory has. Transfers may overtake each other and frames, but atomics towards one peer
    /// are carried out in the order begun. When a put has finished, its
    /// bytes are in place before any frame posted afterwards. The local memory must be valid and
    /// untouched until the end. Only an atomic can fail while the peer is alive: when a broken
    /// connection leaves it open whether it was done.
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

    /// Announces that the caller is about to sleep. From then on each arrival, and space for what
    /// last found none, wakes what is returned. Returns `None` if something has arrived already or
    /// there is space: the caller must not sleep.
    fn arm(&mut self) -> Option<WaitOn<'_>>;

    /// Announces that the caller is awake again. Cheap when not armed.
    fn disarm(&mut self) {}

    /// Announces that the process is about to end, which would drop what the device has not sent
    /// yet. Returns true when nothing is left; otherwise call again after a `poll`.
    fn flush(&mut self) -> bool {
        true
    }
}

/// Receiving a large message by get and push together. It is for devices on which a push that both
/// sides copy is faster than a get. Such a push stops while the sender is outside the library.
///
/// The receiver requests pushed pieces ([`crate::Kind::Data`]) and gets the missing bytes when the
/// sender stops. Or each of the two copies a half straight from buffer to buffer: the receiver
/// offers memory for the second half, gets the first, and takes the offer back if the sender has
/// not taken it by then.
///
/// The defaults are those of a device without such a choice: `impl HybridGet for Device {}`.
pub trait HybridGet: Transport {
    /// Gets all of a message that the peer has announced, or advises what to do instead.
    /// [`HybridGet::end_message`] follows when the message is here.
    fn get_or_push(
        &mut self,
        peer: Peer,
        region: &Region,
        into: UserBuf,
        token: u64,
    ) -> Result<GetOrPush, PeerFailed> {
        self.one_sided(peer, region, 0, OneSided::Get(into), token).map(GetOrPush::Get)
    }

    /// Gets the bytes of a message from `at` on; the peer was requested to push all of them. Gets
    /// only while all pieces that the peer has posted were handed over and it can post no other;
    /// otherwise returns `NoSpace`. Never returns `Started`.
    fn get_remainder(
        &mut self,
        _peer: Peer,
        _region: &Region,
        _at: u64,
        _into: UserBuf,
    ) -> Result<Transfer, PeerFailed> {
        Ok(Transfer::Refused)
    }

    /// Returns whether the peer would rather get so many bytes, at least [`Caps::get_min`], than
    /// have them in an eager frame: that is faster, and it is in the library, and therefore soon
    /// calls [`HybridGet::get_or_push`] or [`HybridGet::get_unexpected`].
    fn prefers_get(&self, _peer: Peer, _bytes: u64) -> bool {
        false
    }

    /// Gets bytes of a message from `at` on, at once. Never returns `Started`.
    fn get_now(&mut self, _peer: Peer, _region: &Region, _at: u64, _into: UserBuf) -> Transfer {
        Transfer::Refused
    }

    /// Offers memory to the peer, which may take the offer once and write there
    /// ([`HybridGet::place`]). `None`: the device cannot, or the offer before is not over.
    fn offer(&mut self, _peer: Peer, _memory: UserBuf) -> Option<Region> {
        None
    }

    /// Takes the offer to the peer back. False: the peer has taken it, and will report.
    fn withdraw(&mut self, _peer: Peer) -> bool {
        true
    }

    /// The offer to the peer is over: it was taken back, or the peer has reported.
    fn end_offer(&mut self, _peer: Peer) {}

    /// A message that [`HybridGet::get_or_push`] was called for is here, or comes by frames because
    /// an access was refused. Not called for gets that have started.
    fn end_message(&mut self, _peer: Peer, _region: &Region) {}

    /// Takes an offer of the peer, and writes there.
    fn place(&mut self, _peer: Peer, _offer: &Region, _from: UserBuf) -> Placed {
        Placed::Refused
    }

    /// Gets all `bytes` of a message that the peer has announced and that has no receive yet.
    /// `None`: that is not possible at once.
    fn get_unexpected(
        &mut self,
        _peer: Peer,
        _region: &Region,
        _bytes: usize,
    ) -> Option<Box<[u8]>> {
        None
    }
}

/// A device of which a process may have two: it can give a peer up, and all that waits for it there
/// fails.
pub trait GiveUp {
    /// Gives a peer up, for a reason that the user may read.
    fn give_up(&mut self, peer: Peer, why: &str);
}

/// The result of [`HybridGet::get_or_push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum GetOrPush {
    /// A get, and what became of it.
    Get(Transfer),
    /// The peer is in the library: pieces that it pushes arrive sooner than a get.
    Push,
    /// The peer is in the library: it should write one half ([`HybridGet::offer`]) while this
    /// process gets the other ([`HybridGet::get_now`]).
    Cooperate,
}

/// The result of [`HybridGet::place`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Placed {
    /// The bytes are there.
    Done,
    /// The peer has taken the offer back.
    Withdrawn,
    /// The offer is taken, and nothing was written.
    Refused,
}

impl Region {
    /// Size on the wire, bytes.
    pub const SIZE: usize = 24;

    /// Encodes address (8 bytes) and keys (4 x 4), little-endian.
    pub fn encode(&self) -> [u8; Region::SIZE] {
        let mut out = [0; Region::SIZE];
        out[..8].copy_from_slice(&self.addr.to_le_bytes());
        for (slot, key) in out[8..].chunks_exact_mut(4).zip(self.keys) {
            slot.copy_from_slice(&key.to_le_bytes());
        }
        out
    }

    /// Decodes a region; `None` if the bytes are not one.
    pub fn decode(body: &[u8]) -> Option<Region> {
        let body: &[u8; Region::SIZE] = body.try_into().ok()?;
        let key = |at: usize| u32::from_le_bytes(std::array::from_fn(|i| body[at + i]));
        let addr = u64::from_le_bytes(std::array::from_fn(|i| body[i]));
        Some(Region { addr, keys: std::array::from_fn(|i| key(8 + 4 * i)) })
    }
}

impl Rts {
    /// Size on the wire, bytes.
    pub const SIZE: usize = 16 + Region::SIZE;

    /// Encodes `send` (8 bytes), has-region (8) and the region, little-endian.
    pub fn encode(&self) -> [u8; Rts::SIZE] {
        let mut out = [0; Rts::SIZE];
        out[..8].copy_from_slice(&self.send.to_le_bytes());
        if let Some(region) = &self.region {
            out[8] = 1;
            out[16..].copy_from_slice(&region.encode());
        }
        out
    }

    /// Decodes an `Rts`; `None` if the bytes are not one.
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
