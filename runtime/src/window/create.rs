//! Creating and freeing windows. Collective.
//!
//! 1. The ranks exchange proposals of a context id, sizes and displacement units. The largest
//!    proposal names the window and a communicator of its own.
//! 2. The first rank of each host with several ranks reserves a range of the segment: a record for
//!    each local rank, with a row for the steps of the others and, in dynamic windows, a table of
//!    attached memory, then the memory of windows that the library allocates. Only there it needs
//!    the sizes of others, and the ranks exchange ranges a second time; otherwise ranges go with
//!    the first exchange.
//! 3. Each rank maps the range of its host and takes the pages of its own part.
//! 4. Each rank opens the window, and they exchange whether all have succeeded. No rank accesses
//!    the window before.
//!
//! An error of one rank is an error of all. If all ranks are on one host, locks lie in the records
//! as well, otherwise targets grant them by messages.

#![allow(unsafe_code)]

use std::ffi::{OsStr, OsString};

use fabric::{LocalRanks, Peer, Rights, Transport, UserBuf};
use objects::{Attributes, Class, Comm, Errhandler, Error, Group, Info, Result};
use rma::{Attached, Control, LockBy, Mailbox, Memory, Remote, StepRow, Window};

pub use super::offer::Request;
use super::offer::{Atomics, Offer, atomics};
use crate::collective::{self, exchange};
use crate::lock::with;
use crate::process::Process;
use crate::win::{Flavor, Held, MODEL_UNIFIED, Page, Values, Win};

/// Bytes to which parts of a range are aligned.
const PAGE: u64 = 4096;

/// The members of a window as its creation sees them.
struct Members {
    group: Group,
    rank: u32,
    /// Ranks of this host in the window, ascending.
    local: Vec<u32>,
    /// Size and unit of each rank.
    extents: Vec<(u64, u64)>,
    /// All ranks allow that their parts of the memory do not follow each other.
    may_pad: bool,
}

impl Members {
    /// Returns another rank of this host.
    fn neighbor(&self) -> Option<Peer> {
        let other = self.local.iter().find(|&&rank| rank != self.rank);
        other.and_then(|&rank| self.group.peer_of(rank))
    }
}

/// The parts of a host's range.
struct Parts {
    /// Offset of each local rank's memory.
    offsets: Vec<u64>,
    bytes: u64,
}

/// Creates a window on the communicator of a handle; returns its handle and the address of this
/// rank's memory. Collective.
pub fn create(comm: usize, request: &Request) -> Result<(usize, usize)> {
    with(|p| {
        let comm = p.comm(comm)?;
        match comm.is_inter() {
            true => Err(Error::new(
                Class::Comm,
                "the communicator is an intercommunicator: must be an intracommunicator",
            )),
            false => Ok(()),
        }
    })?;
    let (inner, members, offers) = meet(comm, request)?;
    let id = with(|p| p.comm(inner).map(Comm::context))?;
    match make(inner, id, members, offers, request) {
        Ok(win) => with(|p| {
            let base = win.base;
            Ok((p.tables.wins.insert(win) as usize, base))
        }),
        Err(error) => {
            with(|p| p.forget_comm(inner))?;
            Err(error)
        }
    }
}

fn make(
    inner: usize,
    id: u64,
    members: Members,
    offers: Vec<Offer>,
    request: &Request,
) -> Result<Win> {
    if request.flavor == Flavor::Shared && members.local.len() != members.extents.len() {
        return Err(Error::new(
            Class::RmaShared,
            format!(
                "only {} of {} ranks are on this host: MPI_Win_allocate_shared needs all",
                members.local.len(),
                members.extents.len()
            ),
        ));
    }
    let reserved = reserve(inner, &members, offers, request)?;
    let opened = with(|p| open(p, id, &members, request, reserved));
    let all = exchange(inner, &[u8::from(opened.is_err())])?;
    match (opened, all.iter().any(|&failed| failed != 0)) {
        (Ok(made), false) => Ok(win(id, inner, members, request, made)),
        (Ok(made), true) => {
            with(|p| close(p, id, made.held));
            Err(no_memory("another rank has no memory for the window"))
        }
        (Err(error), _) => Err(error),
    }
}

fn no_memory(text: impl Into<String>) -> Error {
    Error::new(Class::NoMem, text)
}

/// Where the offer lies in what a rank sends: after a proposal, a size, a displacement unit, and
/// whether its part may be padded.
const OFFER_AT: usize = 32;
const MEETING_BYTES: usize = OFFER_AT + Offer::BYTES;

/// Returns the members of a communicator without their extents.
fn members_of(p: &mut Process, comm: usize) -> Result<Members> {
    let ranks = LocalRanks::from(p.core()?.job.local_numbers());
    let comm = p.comm(comm)?;
    let is_local = |&(_, peer): &(u32, Peer)| ranks.contains(peer.0);
    let local = (0..).zip(comm.group().iter()).filter(is_local).map(|(rank, _)| rank);
    let (local, group, rank) = (local.collect(), comm.group().clone(), comm.rank());
    Ok(Members { group, rank, local, extents: Vec::new(), may_pad: true })
}

/// Makes the window's communicator, and exchanges what the ranks contribute. The offers are empty
/// where they need the extents. Collective over `comm`.
fn meet(comm: usize, request: &Request) -> Result<(usize, Members, Vec<Offer>)> {
    let mut mine = [0; MEETING_BYTES];
    let may_pad = request.flavor != Flavor::Shared
        || request.info.value("alloc_shared_noncontig")? == Some(b"true");
    let (mut members, proposal) = with(|p| {
        let members = members_of(p, comm)?;
        if !request.needs_extents() {
            let parts = parts(&members, request)?;
            mine[OFFER_AT..].copy_from_slice(&offer(p, &members, &parts, request).encode());
        }
        Ok((members, p.core()?.propose(true)))
    })?;
    let words = [proposal, request.size, request.unit, may_pad.into()];
    for (place, word) in mine.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let all = exchange(comm, &mine)?;
    let word = |of: &[u8], at: usize| u64::from_le_bytes(std::array::from_fn(|i| of[8 * at + i]));
    let each = || all.chunks_exact(MEETING_BYTES);
    members.extents = each().map(|one| (word(one, 1), word(one, 2))).collect();
    members.may_pad = each().all(|one| word(one, 3) != 0);
    let offers = each().map(|one| Offer::decode(&one[OFFER_AT..])).collect();
    let inner = with(|p| {
        let agreed = p.core()?.agreed(each().map(|one| word(one, 0)));
        p.core()?.end_proposal(proposal, agreed);
        let own = p.comm(comm)?.duplicate(agreed.context);
        let own = p.core()?.with_segment(own, agreed)?;
        Ok(p.comms.insert(own) as usize)
    })?;
    Ok((inner, members, offers))
}

/// Returns where the records and the parts of this host's ranks lie.
fn parts(members: &Members, request: &Request) -> Result<Parts> {
    let mut bytes = mailboxes_at(members, request) as u64;
    if request.has_mailboxes() {
        bytes += (members.local.len() * Mailbox::BYTES) as u64;
    }
    let mut offsets = Vec::with_capacity(members.local.len());
    for &rank in &members.local {
        offsets.push(bytes);
        let size = if request.needs_extents() { members.extents[rank as usize].0 } else { 0 };
        let padded = if members.may_pad { size.checked_next_multiple_of(PAGE) } else { Some(size) };
        let end = padded.and_then(|size| bytes.checked_add(size));
        bytes = end.ok_or_else(|| no_memory("the window has more than 2^64 bytes"))?;
    }
    Ok(Parts { offsets, bytes })
}

/// Returns where the records end, and the mailboxes begin where there are any: on pages of their
/// own, which nothing takes before they are used.
fn mailboxes_at(members: &Members, request: &Request) -> usize {
    (members.local.len() * record_bytes(members, request)).next_multiple_of(PAGE as usize)
}

/// Returns the bytes of a record.
fn record_bytes(members: &Members, request: &Request) -> usize {
    let attached = if request.flavor == Flavor::Dynamic { Attached::BYTES } else { 0 };
    Control::BYTES + attached + StepRow::bytes(members.local.len())
}

/// Makes the offer of this rank.
fn offer(p: &mut Process, members: &Members, parts: &Parts, request: &Request) -> Offer {
    // A hint that cannot be read is no hint.
    let atomics = Atomics::of(p, request).unwrap_or(Atomics::No);
    let mut offer = Offer { range: None, region: None, failed: false, has_barriers: true, atomics };
    let by_memory = p.core().is_ok_and(|core| core.rma_shm);
    let (Some(other), Some(shm)) =
        (members.neighbor(), p.stack().and_then(|s| s.endpoint.intra_mut()))
    else {
        return offer;
    };
    offer.has_barriers = shm.has_membarrier();
    if members.local.first() == Some(&members.rank) {
        offer.range = shm.segment().reserve_window(parts.bytes).ok();
        offer.failed = offer.range.is_none();
    }
    if request.flavor == Flavor::Create && by_memory && request.size > 0 {
        // The description is the same for all ranks of the host.
        offer.region = shm.register(other, request.memory, Rights::All);
    }
    offer
}

/// Memory that a window has after the ranks have told each other what they offer.
struct Reserved {
    held: Held,
    /// The mapped range of this host, or why it is not mapped.
    region: Option<Result<(UserBuf, Parts)>>,
    offers: Vec<Offer>,
}

/// Has the first rank of each host reserve a range, unless it has, and maps that of this host.
/// Collective.
fn reserve(
    inner: usize,
    members: &Members,
    mut offers: Vec<Offer>,
    request: &Request,
) -> Result<Reserved> {
    let parts = parts(members, request)?;
    if request.needs_extents() {
        let mine = with(|p| Ok(offer(p, members, &parts, request).encode()))?;
        let all = exchange(inner, &mine)?;
        offers = all.chunks_exact(Offer::BYTES).map(Offer::decode).collect();
    }
    if offers.iter().any(|offer| offer.failed) {
        return Err(no_memory(format!(
            "the segment has no space for a window of {} bytes on this host",
            parts.bytes
        )));
    }
    let mut held = Held::default();
    let leader = members.local.first().copied().unwrap_or(members.rank);
    let Some(range) = offers[leader as usize].range else {
        return Ok(Reserved { held, region: None, offers });
    };
    let memory = with(|p| {
        let shm = p.core()?.stack.endpoint.intra_mut();
        let shm = shm.ok_or_else(|| Error::internal("no segment for ranks of one host"))?;
        shm.map_window(range).map_err(|error| no_memory(error.to_string()))
    });
    held.range = Some((range, leader == members.rank));
    // A rank that cannot map it says so in the last exchange.
    Ok(Reserved { held, region: Some(memory.map(|memory| (memory, parts))), offers })
}

/// What `open` has made.
struct Made {
    held: Held,
    memory: UserBuf,
    slot: u32,
}

/// Opens the window at this rank.
fn open(
    p: &mut Process,
    id: u64,
    members: &Members,
    request: &Request,
    reserved: Reserved,
) -> Result<Made> {
    let Reserved { mut held, region, offers } = reserved;
    let region = region.transpose()?;
    let shares = request.needs_extents();
    let by_memory = p.core()?.rma_shm;
    let mut remotes: Vec<Remote> = (members.extents.iter())
        .map(|&(size, unit)| Remote { size, unit, is_distant: true, ..Remote::default() })
        .collect();
    for &rank in &members.local {
        remotes[rank as usize].is_distant = false;
    }
    let mut memory = request.memory;
    match &region {
        Some((all, parts)) => {
            for (index, &rank) in members.local.iter().enumerate() {
                let remote = &mut remotes[rank as usize];
                let record = index * record_bytes(members, request);
                let job = &p.core()?.job;
                let ended = members.group.peer_of(rank).and_then(|peer| job.ended(peer.0));
                let ended = ended.ok_or_else(|| Error::internal("a local rank is on no host"))?;
                let words = all.slice(record, Control::BYTES);
                remote.control = Some(Control::new(words, rank, ended));
                let steps = StepRow::bytes(members.local.len());
                if by_memory {
                    let row = all.slice(record + Control::BYTES, steps);
                    remote.steps = Some(StepRow::new(row, index as u32));
                }
                if request.flavor == Flavor::Dynamic && by_memory {
                    let table = all.slice(record + Control::BYTES + steps, Attached::BYTES);
                    remote.attached = Some(Attached::new(table));
                }
                if request.has_mailboxes() {
                    let at = mailboxes_at(members, request) + index * Mailbox::BYTES;
                    let mailbox = all.slice(at, Mailbox::BYTES);
                    remote.mailbox = Some(Mailbox::new(mailbox));
                }
                remote.region = offers[rank as usize].region;
                if shares {
                    let part = all.slice(parts.offsets[index] as usize, remote.size as usize);
                    remote.direct = by_memory.then_some(part);
                    remote.shared = Some(part);
                    if rank == members.rank {
                        memory = part;
                        commit(p, &held, parts.offsets[index], remote.size)?;
                    }
                }
            }
        }
        None if shares => {
            memory = pages(&mut held, request.size)?;
        }
        None => {}
    }
    let own = match request.flavor {
        Flavor::Dynamic => Memory::Dynamic(Vec::new()),
        _ => Memory::Fixed(memory),
    };
    let is_one_host = members.local.len() == remotes.len() && region.is_some();
    let lock_by = if is_one_host && by_memory { LockBy::Memory } else { LockBy::Message };
    let mut window = Window::new((id, members.rank), members.group.clone(), own, remotes, lock_by);
    if offers.iter().all(|offer| offer.has_barriers) {
        window.fence_unequally();
    }
    if request.info.value("no_locks")? == Some(b"true") {
        window.forbid_locks();
    }
    if !is_one_host {
        window.change_words_by(atomics(p, &offers, memory)?);
    }
    // Otherwise a target that has to come keeps this rank from running.
    if !p.core()?.job.is_oversubscribed() {
        window.defer_accesses();
    }
    if p.core()?.rma_check {
        let name = crate::win::describe("", members.group.size());
        window.check_accesses(crate::conflicts::HOOKS, name);
    }
    let slot = p.core()?.stack.rma().0.open(window);
    Ok(Made { held, memory, slot })
}

/// Takes the pages of this rank's part and of the records.
fn commit(p: &mut Process, held: &Held, offset: u64, size: u64) -> Result<()> {
    let (Some((range, leads)), Some(shm)) = (held.range, p.core()?.stack.endpoint.intra()) else {
        return Ok(());
    };
    let begin = if leads { 0 } else { offset };
    shm.segment()
        .commit_window(range, begin..offset + size)
        .map_err(|error| no_memory(error.to_string()))
}

/// Returns memory of this process alone.
fn pages(held: &mut Held, size: u64) -> Result<UserBuf> {
    let none = |_| no_memory(format!("out of memory: cannot allocate {size} bytes"));
    let bytes = usize::try_from(size).map_err(|_| no_memory("more than an address space"))?;
    let count = bytes.div_ceil(PAGE as usize).max(1);
    let mut pages = Vec::new();
    pages.try_reserve_exact(count).map_err(none)?;
    pages.resize(count, Page([0; PAGE as usize]));
    held.pages = pages;
    // SAFETY: the vector lives in the window and never grows; it is dropped when no rank accesses
    // the window any more.
    Ok(unsafe { UserBuf::new(held.pages.as_mut_ptr().cast(), bytes) })
}

fn win(id: u64, comm: usize, members: Members, request: &Request, made: Made) -> Win {
    let values = Values {
        size: request.size as i64,
        unit: request.unit as i32,
        flavor: request.flavor as i32,
        model: MODEL_UNIFIED,
    };
    let is_dynamic = request.flavor == Flavor::Dynamic;
    let mut win = Win {
        id,
        slot: made.slot,
        comm,
        barrier: None,
        held: made.held,
        neighbor: members.neighbor(),
        group: members.group,
        flavor: request.flavor,
        base: if is_dynamic { 0 } else { made.memory.addr() as usize },
        values: Box::new(values),
        // MPI-5.0 §9.3.
        errhandler: Errhandler::Fatal,
        attributes: Attributes::new(),
        name: OsString::new(),
        hints: Info::new(),
    };
    // Known hints are short enough.
    let _ = win.set_hints(&request.info);
    win
}

/// Performs MPI_Win_free, after its attributes were deleted. Collective.
pub fn free(handle: usize) -> Result<()> {
    let (id, comm) = with(|p| {
        let win = p.win(handle)?;
        Ok((win.id, win.comm))
    })?;
    collective::final_barrier(comm).map_err(super::sync::of_window)?;
    with(|p| {
        let win = p.tables.wins.remove(handle as u64).map_err(|_| Error::internal("no window"))?;
        close(p, id, win.held);
        p.forget_comm(comm)
    })
}

/// Checks that MPI_Win_free may begin.
pub fn check_free(handle: usize) -> Result<()> {
    with(|p| {
        let id = p.win(handle)?.id;
        p.core()?.stack.rma().0.check_free(id)
    })
}

/// Gives a window's memory back.
fn close(p: &mut Process, id: u64, held: Held) {
    let Ok(core) = p.core() else { return };
    let (rma, endpoint) = core.stack.rma();
    rma.close(endpoint, id);
    let (Some((range, leads)), Some(shm)) = (held.range, core.stack.endpoint.intra_mut()) else {
        return;
    };
    // SAFETY: the window is closed; nothing refers to its memory any more.
    unsafe { shm.unmap_window(range) };
    if leads {
        // A rank that still maps it does not use it: all are in MPI_Win_free.
        shm.segment().free_window(range);
    }
}

impl Process {
    /// Names a window (MPI_Win_set_name).
    pub fn name_window(&mut self, handle: usize, name: &OsStr) -> Result<()> {
        let win = self.win_mut(handle)?;
        win.set_name(name);
        let (id, description) = (win.id, win.describe());
        self.core()?.stack.rma().0.window_mut(id)?.describe_as(description);
        Ok(())
    }

    /// Returns the memory of a rank of a window for MPI_Win_shared_query: its address, size and
    /// displacement unit. `None`: that of the first rank with memory. Memory that this process
    /// cannot access has address 0 and size 0.
    pub fn shared_memory(&mut self, handle: usize, rank: Option<u32>) -> Result<(usize, u64, u64)> {
        let id = self.win(handle)?.id;
        let window = self.core()?.stack.rma().0.window(id)?;
        let found = |rank: u32| {
            let (size, unit) = window.extent(rank)?;
            let memory = window.shared(rank)?;
            // As in other libraries, memory of no bytes has no address.
            Some((if size == 0 { 0 } else { memory.addr() as usize }, size, unit))
        };
        let size = window.peers().size();
        match rank {
            Some(rank) if rank >= size => Err(Error::new(
                Class::Rank,
                format!("invalid rank {rank}: must be 0 to {}", size - 1),
            )),
            Some(rank) => Ok(found(rank).unwrap_or((0, 0, 1))),
            None => {
                let has_memory =
                    |&rank: &u32| window.extent(rank).is_some_and(|(size, _)| size > 0);
                let first = (0..size).find(has_memory);
                Ok(first.and_then(found).unwrap_or((0, 0, 1)))
            }
        }
    }
}
