//! Registered memory in slots of one size.
//!
//! A pool takes memory in chunks, as it needs it, and keeps it. A slot is an index.
//! Whoever holds one is alone with its bytes, but for the device while a request on
//! it is posted; then nobody looks at them. Slots of an [open](Pool::open) pool are written by
//! peers at any time, and read by words ([`Exposed`]). Chunks are not inherited by children.

#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use fabric::UserBuf;

use crate::ibv::layout::access;
use crate::ibv::{Mr, Pd, Sge};

/// Slots of one size.
#[derive(Debug)]
pub(crate) struct Pool {
    pd: Arc<Pd>,
    /// Bytes of a slot, a multiple of 64.
    slot: usize,
    /// Slots of a chunk: two to this power.
    of_chunk: u32,
    /// Chunks at most.
    most: usize,
    /// What the device may do with it.
    access: i32,
    chunks: Vec<Arc<Chunk>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Chunk {
    // Before the memory, so that it is deregistered before it is unmapped.
    mr: Mr,
    memory: Mapping,
}

#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

/// A slot of an open pool: where it is, found once.
#[derive(Debug)]
pub(crate) struct Exposed {
    slot: u32,
    first: NonNull<u64>,
    words: usize,
    chunk: Arc<Chunk>,
}

/// So many words of such a slot, which a peer may be writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a, const COUNT: usize> {
    first: NonNull<u64>,
    slot: PhantomData<&'a Exposed>,
}

// SAFETY: it owns its mapping, and reaches it only for whoever holds a slot.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}
// SAFETY: its chunk goes with it.
unsafe impl Send for Exposed {}

impl Pool {
    /// A pool that has no memory yet; `most` is the number of slots it may have.
    pub(crate) fn new(pd: &Arc<Pd>, slot: usize, most: u32) -> Pool {
        let slot = slot.next_multiple_of(64);
        // About half a MiB, but no more than is needed.
        let of_chunk =
            ((512 << 10) / slot as u32).clamp(1, most.max(1)).next_power_of_two().ilog2();
        let most = most.div_ceil(1 << of_chunk) as usize;
        Pool {
            pd: Arc::clone(pd),
            slot,
            of_chunk,
            most,
            access: access::LOCAL_WRITE,
            chunks: Vec::new(),
            free: Vec::new(),
        }
    }

    /// As [`Pool::new`], of memory that peers write.
    pub(crate) fn open(pd: &Arc<Pd>, slot: usize, most: u32) -> Pool {
        let mut pool = Pool::new(pd, slot, most);
        pool.access |= access::REMOTE_WRITE;
        pool
    }

    /// A slot, if one is free or can be made; an error when the system refuses.
    #[inline]
    pub(crate) fn take(&mut self) -> io::Result<Option<u32>> {
        match self.free.pop() {
            Some(slot) => Ok(Some(slot)),
            None => self.grow(),
        }
    }

    #[cold]
    fn grow(&mut self) -> io::Result<Option<u32>> {
        if self.chunks.len() >= self.most {
            return Ok(None);
        }
        let first = (self.chunks.len() as u32) << self.of_chunk;
        self.chunks.push(Arc::new(Chunk::new(&self.pd, self.slot << self.of_chunk, self.access)?));
        self.free.extend((first..first + (1 << self.of_chunk)).rev());
        Ok(self.free.pop())
    }

    /// Gives a slot back.
    #[inline]
    pub(crate) fn put(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// True when a slot could be taken.
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty() || self.chunks.len() < self.most
    }

    #[inline]
    fn place(&self, slot: u32) -> (&Arc<Chunk>, NonNull<u8>) {
        let chunk = &self.chunks[(slot >> self.of_chunk) as usize];
        let at = (slot & ((1 << self.of_chunk) - 1)) as usize * self.slot;
        // SAFETY: a chunk has so many slots.
        (chunk, unsafe { chunk.memory.base.add(at) })
    }

    /// The first `len` bytes of a slot that its holder writes.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: u32, len: usize) -> &mut [u8] {
        self.filled(slot, len).0
    }

    /// The same, and as they are named in a request.
    #[inline]
    pub(crate) fn filled(&mut self, slot: u32, len: usize) -> (&mut [u8], Sge) {
        assert!(len <= self.slot);
        let (chunk, at) = self.place(slot);
        let sge = Sge { addr: at.as_ptr() as u64, length: len as u32, lkey: chunk.mr.lkey() };
        // SAFETY: `len` bytes of a slot; `&mut self` and the module's rule (one holder,
        // no request posted that writes it) make this the only access.
        (unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) }, sge)
    }

    /// The first `len` bytes of a slot that its holder reads.
    #[inline]
    pub(crate) fn bytes(&self, slot: u32, len: usize) -> &[u8] {
        assert!(len <= self.slot);
        let (_, at) = self.place(slot);
        // SAFETY: as for `bytes_mut`; the device may read meanwhile, but does not write.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), len) }
    }

    /// The first `len` bytes of a slot, for a request.
    #[inline]
    pub(crate) fn sge(&self, slot: u32, len: usize) -> Sge {
        debug_assert!(len <= self.slot);
        let (chunk, at) = self.place(slot);
        Sge { addr: at.as_ptr() as u64, length: len as u32, lkey: chunk.mr.lkey() }
    }

    /// A slot for a peer to write to, wiped: whoever had it last may have left something.
    pub(crate) fn expose(&mut self) -> io::Result<Option<Exposed>> {
        let Some(slot) = self.take()? else { return Ok(None) };
        self.bytes_mut(slot, self.slot).fill(0);
        let (chunk, at) = self.place(slot);
        Ok(Some(Exposed { slot, first: at.cast(), words: self.slot / 8, chunk: Arc::clone(chunk) }))
    }

    /// Takes it back, when nobody writes to it any more.
    pub(crate) fn conceal(&mut self, exposed: Exposed) {
        self.put(exposed.slot);
    }

    /// Bytes of a slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot
    }
}

impl Exposed {
    /// Where a peer writes to it: address and key.
    pub(crate) fn target(&self) -> (u64, u32) {
        (self.first.as_ptr() as u64, self.chunk.mr.rkey())
    }

    /// Places of so many words in it.
    #[inline]
    pub(crate) fn places<const COUNT: usize>(&self) -> usize {
        self.words / COUNT
    }

    /// The words of one of these places.
    #[inline]
    pub(crate) fn words<const COUNT: usize>(&self, place: usize) -> Words<'_, COUNT> {
        assert!(place < self.places::<COUNT>());
        // SAFETY: within the slot.
        Words { first: unsafe { self.first.add(place * COUNT) }, slot: PhantomData }
    }
}

impl<const COUNT: usize> Words<'_, COUNT> {
    /// One of them. Whether several belong together, whoever reads them checks.
    #[inline]
    pub(crate) fn read(&self, at: usize) -> u64 {
        assert!(at < COUNT);
        // SAFETY: one of the words, in memory of the pool and aligned to 64 bytes; volatile, since the device
        // changes it.
        u64::from_le(unsafe { self.first.add(at).read_volatile() })
    }
}

impl Chunk {
    fn new(pd: &Arc<Pd>, bytes: usize, access: i32) -> io::Result<Chunk> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory
        // that exists.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // SAFETY: the mapping from above. Without it a child may take the pages away
        // under older kernels.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxDontFork) };
        let base =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        let mapping = Mapping { base, bytes };
        // SAFETY: valid until unmapped, after the registration has gone.
        let memory = unsafe { UserBuf::new(base.as_ptr(), bytes) };
        Ok(Chunk { mr: Mr::register(pd, memory, access)?, memory: mapping })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `Chunk::new`; who has a slot of it holds the chunk, or the pool that does.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
