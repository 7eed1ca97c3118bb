//! Registered memory in slots of one size.
//!
//! A pool maps and registers memory in chunks when it needs them, and keeps them. A slot is an
//! index. The holder of a slot alone accesses its bytes, except that the device does while a
//! request on it is posted. Slots of a [remote-writable](Pool::remote_writable) pool are written
//! by peers at any time and read word by word ([`Exposed`]). Child processes do not inherit
//! chunks.

#![allow(unsafe_code)]

use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabric::UserBuf;

use crate::ibv::layout::access;
use crate::ibv::{Mr, Pd, Sge};

/// Time after which a pool asks for memory again that the system has refused.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Slots of one size.
#[derive(Debug)]
pub(crate) struct Pool {
    pd: Arc<Pd>,
    /// Bytes of a slot, a multiple of 64.
    slot: usize,
    /// Slots of a chunk: two to this power.
    chunk_order: u32,
    max_chunks: usize,
    /// Rights of the device, see [`access`].
    access: i32,
    chunks: Vec<Arc<Chunk>>,
    free: Vec<u32>,
    /// When the system refused another chunk.
    refused_at: Option<Instant>,
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

/// A page whose contents mean nothing.
#[derive(Debug)]
pub(crate) struct Scratch(Mapping);

/// A slot of a remote-writable pool, with its address.
#[derive(Debug)]
pub(crate) struct Exposed {
    slot: u32,
    first: NonNull<u64>,
    words: usize,
    chunk: Arc<Chunk>,
}

/// `COUNT` words of an exposed slot, which a peer may be writing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a, const COUNT: usize> {
    first: NonNull<u64>,
    slot: PhantomData<&'a Exposed>,
}

// SAFETY: the mapping is owned, belongs to no thread, and is accessed only through slots, each of
// which has one holder.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference gives the base address alone; slots guard the bytes, see above.
unsafe impl Sync for Mapping {}
// SAFETY: `first` points into `chunk`, which is kept alive by this value and belongs to no thread.
unsafe impl Send for Exposed {}

impl Pool {
    /// Returns a pool of at most `max_slots` slots that has no memory yet.
    pub(crate) fn new(pd: &Arc<Pd>, slot: usize, max_slots: u32) -> Pool {
        let slot = slot.next_multiple_of(64);
        // Chunks of about half a MiB, but no more than is needed.
        let chunk_order =
            ((512 << 10) / slot as u32).clamp(1, max_slots.max(1)).next_power_of_two().ilog2();
        let max_chunks = max_slots.div_ceil(1 << chunk_order) as usize;
        Pool {
            pd: Arc::clone(pd),
            slot,
            chunk_order,
            max_chunks,
            access: access::LOCAL_WRITE,
            chunks: Vec::new(),
            free: Vec::new(),
            refused_at: None,
        }
    }

    /// Returns a pool as [`Pool::new`] does, of memory that peers may write.
    pub(crate) fn remote_writable(pd: &Arc<Pd>, slot: usize, max_slots: u32) -> Pool {
        let mut pool = Pool::new(pd, slot, max_slots);
        pool.access |= access::REMOTE_WRITE;
        pool
    }

    /// Makes the first slots, if there are none. Fails if the system refuses memory.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        let slot = self.take()?;
        self.free.extend(slot);
        Ok(())
    }

    /// Takes a slot, if one is free or can be made. Fails if the system refuses memory; until some
    /// time has passed there is then no slot.
    #[inline]
    pub(crate) fn take(&mut self) -> io::Result<Option<u32>> {
        self.take_or_evict(|| false)
    }

    /// Takes a slot as [`Pool::take`] does. If the system refuses memory, calls `evict`, and asks
    /// again if that has given memory back.
    #[inline]
    pub(crate) fn take_or_evict(
        &mut self,
        evict: impl FnOnce() -> bool,
    ) -> io::Result<Option<u32>> {
        match self.free.pop() {
            Some(slot) => Ok(Some(slot)),
            None => self.grow(evict),
        }
    }

    #[cold]
    fn grow(&mut self, evict: impl FnOnce() -> bool) -> io::Result<Option<u32>> {
        if !self.may_grow() {
            return Ok(None);
        }
        let make = || Chunk::new(&self.pd, self.slot << self.chunk_order, self.access);
        let mut chunk = make();
        if chunk.is_err() && evict() {
            chunk = make();
        }
        self.refused_at = chunk.is_err().then(Instant::now);
        let first = (self.chunks.len() as u32) << self.chunk_order;
        self.chunks.push(Arc::new(chunk?));
        self.free.extend((first..first + (1 << self.chunk_order)).rev());
        Ok(self.free.pop())
    }

    fn may_grow(&self) -> bool {
        self.chunks.len() < self.max_chunks
            && self.refused_at.is_none_or(|at| at.elapsed() > RETRY_INTERVAL)
    }

    /// Returns a slot to the pool.
    #[inline]
    pub(crate) fn put(&mut self, slot: u32) {
        self.free.push(slot);
    }

    /// Returns whether a slot could be taken.
    pub(crate) fn has_free(&self) -> bool {
        !self.free.is_empty() || self.may_grow()
    }

    #[inline]
    fn locate(&self, slot: u32) -> (&Arc<Chunk>, NonNull<u8>) {
        let chunk = &self.chunks[(slot >> self.chunk_order) as usize];
        let at = (slot & ((1 << self.chunk_order) - 1)) as usize * self.slot;
        // SAFETY: the index within a chunk is below `1 << chunk_order`, so `at` is an offset within
        // the chunk's mapping.
        (chunk, unsafe { chunk.memory.base.add(at) })
    }

    /// Returns the first `len` bytes of a slot, for its holder to write.
    #[inline]
    pub(crate) fn bytes_mut(&mut self, slot: u32, len: usize) -> &mut [u8] {
        self.bytes_and_sge(slot, len).0
    }

    /// Returns the first `len` bytes of a slot, and the same bytes for a request.
    #[inline]
    pub(crate) fn bytes_and_sge(&mut self, slot: u32, len: usize) -> (&mut [u8], Sge) {
        assert!(len <= self.slot);
        let (chunk, at) = self.locate(slot);
        let sge = Sge { addr: at.as_ptr() as u64, length: len as u32, lkey: chunk.mr.lkey() };
        // SAFETY: `len` bytes are within the slot and mapped. The module's rule (one holder, and
        // no posted request that writes the slot) and `&mut self` make this the only access.
        (unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), len) }, sge)
    }

    /// Returns the first `len` bytes of a slot, for its holder to read.
    #[inline]
    pub(crate) fn bytes(&self, slot: u32, len: usize) -> &[u8] {
        assert!(len <= self.slot);
        let (_, at) = self.locate(slot);
        // SAFETY: `len` bytes are within the slot and mapped. By the module's rule nothing writes
        // them while the holder reads; the device may read them too.
        unsafe { std::slice::from_raw_parts(at.as_ptr(), len) }
    }

    /// Returns the first `len` bytes of a slot for a request.
    #[inline]
    pub(crate) fn sge(&self, slot: u32, len: usize) -> Sge {
        debug_assert!(len <= self.slot);
        let (chunk, at) = self.locate(slot);
        Sge { addr: at.as_ptr() as u64, length: len as u32, lkey: chunk.mr.lkey() }
    }

    /// Takes a slot for a peer to write, filled with zeros.
    pub(crate) fn expose(&mut self) -> io::Result<Option<Exposed>> {
        let Some(slot) = self.take()? else { return Ok(None) };
        self.bytes_mut(slot, self.slot).fill(0);
        let (chunk, at) = self.locate(slot);
        Ok(Some(Exposed { slot, first: at.cast(), words: self.slot / 8, chunk: Arc::clone(chunk) }))
    }

    /// Takes a slot back that no peer writes.
    pub(crate) fn conceal(&mut self, exposed: Exposed) {
        self.put(exposed.slot);
    }

    /// Returns the registered bytes: now, and at most.
    pub(crate) fn registered(&self) -> [usize; 2] {
        [self.chunks.len(), self.max_chunks].map(|chunks| chunks * (self.slot << self.chunk_order))
    }

    /// Returns the bytes of a slot.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.slot
    }
}

impl Exposed {
    /// Returns address and key for a peer to write to.
    pub(crate) fn target(&self) -> (u64, u32) {
        (self.first.as_ptr() as u64, self.chunk.mr.rkey())
    }

    /// Returns how many groups of `COUNT` words the slot has.
    #[inline]
    pub(crate) fn count<const COUNT: usize>(&self) -> usize {
        self.words / COUNT
    }

    /// Returns all groups of `COUNT` words.
    pub(crate) fn groups<const COUNT: usize>(&self) -> impl Iterator<Item = Words<'_, COUNT>> {
        (0..self.count::<COUNT>()).map(|index| self.words(index))
    }

    /// Returns group `index` of `COUNT` words.
    #[inline]
    pub(crate) fn words<const COUNT: usize>(&self, index: usize) -> Words<'_, COUNT> {
        assert!(index < self.count::<COUNT>());
        // SAFETY: the group is within the slot, by the assertion.
        Words { first: unsafe { self.first.add(index * COUNT) }, slot: PhantomData }
    }
}

impl<const COUNT: usize> Words<'_, COUNT> {
    /// Reads word `at`. The caller checks whether several words belong together.
    #[inline]
    pub(crate) fn read(&self, at: usize) -> u64 {
        assert!(at < COUNT);
        // SAFETY: `at` is within the group, whose chunk `'a` keeps mapped through its `Exposed`,
        // and slots are aligned to 64 bytes. The read is volatile since the device changes the
        // word.
        u64::from_le(unsafe { self.first.add(at).read_volatile() })
    }

    /// Writes word `at`, which no peer may write at this time.
    #[inline]
    pub(crate) fn write(&self, at: usize, word: u64) {
        assert!(at < COUNT);
        // SAFETY: as in `read`; there are no references to the words. A peer that writes the word
        // all the same leaves one value or the other, and every reader takes any.
        unsafe { self.first.add(at).write_volatile(word.to_le()) };
    }
}

impl Chunk {
    fn new(pd: &Arc<Pd>, bytes: usize, access: i32) -> io::Result<Chunk> {
        let memory = Mapping::new(bytes)?;
        // SAFETY: the bytes are mapped until `Mapping` is dropped, which is after the registration.
        let buffer = unsafe { UserBuf::new(memory.base.as_ptr(), bytes) };
        Ok(Chunk { mr: Mr::register(pd, buffer, access)?, memory })
    }
}

impl Scratch {
    /// Returns a page.
    pub(crate) fn new() -> io::Result<Scratch> {
        Mapping::new(4096).map(Scratch)
    }

    /// Returns one byte of it, for reads of the device.
    pub(crate) fn byte(&self) -> UserBuf {
        // SAFETY: the page is mapped as long as this value lives. Its owner keeps it until the
        // transports that read into it are gone, and nothing reads or writes it otherwise.
        unsafe { UserBuf::new(self.0.base.as_ptr(), 1) }
    }
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
        let base = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // SAFETY: the range is the mapping from above. Under older kernels a child could otherwise
        // take the pages away.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxDontFork) };
        let base =
            NonNull::new(base.cast()).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOMEM))?;
        Ok(Mapping { base, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` and unmapped once. Slots are accessed only through the
        // chunk or its pool, both of which are gone.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
