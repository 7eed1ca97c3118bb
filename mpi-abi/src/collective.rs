//! MPI-5.0 chapter 6: collective communication.
//!
//! One body serves the blocking, the nonblocking and the persistent form of an operation
//! ([`CallForm`]). A body makes an [`Operation`] of the arguments; `run` does the rest.

use std::os::raw::{c_int, c_void};

use collectives::operation::{Blocks, Data, Operation, ROOT_HERE, Types, Vector};
use fabric::CollectiveKind;
use objects::buffer::Area;
use objects::{Class, Comm, Datatype, Error, Result};
use runtime::collective::{FastPath, Started};
use runtime::{Process, collective, with};

use crate::abi::{MPI_Comm, MPI_Count, MPI_Datatype, MPI_Op};
use crate::args::{IN_PLACE, checked_count, slice};
use crate::call_form::CallForm;
use crate::constants::{MPI_PROC_NULL, MPI_ROOT};
use crate::convert::{Counts, Displs};

/// A closure that plans the described operation while its borrows last, and begins it if it blocks.
pub(super) type Planning<'a> = dyn Fn(&Operation<'_>) -> Result<Started> + 'a;

/// Plans the operation that `describe` makes and runs it in the given form.
pub(super) fn run(
    comm: MPI_Comm,
    form: CallForm,
    describe: impl FnOnce(&Process, &Comm, &Planning<'_>) -> Result<Started>,
) -> Result<()> {
    form.check()?;
    let fast_path = if form.is_blocking() { collective::next_fast_path() } else { FastPath::Off };
    let started = with(|p| {
        let begun = begin(p, comm, form, fast_path, describe);
        if begun.is_err() {
            p.refuse_collective(comm.0, matches!(form, CallForm::Persistent(..)));
        }
        begun
    })?;
    match (form, started) {
        (CallForm::Blocking, started) => collective::finish(comm.0, started),
        (CallForm::Nonblocking(_), Started::Planned(plan)) => {
            form.store(collective::start(comm.0, plan)?)
        }
        (CallForm::Persistent(..), Started::Planned(plan)) => {
            form.store(collective::init(comm.0, plan)?)
        }
        _ => Err(Error::internal("a collective that does not block has begun")),
    }
}

/// Plans the operation, and begins it if it blocks.
#[inline(always)] // part of the shortest path
fn begin(
    p: &Process,
    comm: MPI_Comm,
    form: CallForm,
    fast_path: FastPath,
    describe: impl FnOnce(&Process, &Comm, &Planning<'_>) -> Result<Started>,
) -> Result<Started> {
    let object = p.comm(comm.0)?;
    describe(p, object, &|operation| match form {
        CallForm::Blocking => p.begin(fast_path, object, operation),
        CallForm::Nonblocking(_) => p.plan(object, operation).map(Started::Planned),
        CallForm::Persistent(..) => p.plan_persistent(object, operation),
    })
}

/// Checks a buffer argument; `None` for MPI_IN_PLACE.
unsafe fn area(address: *const c_void, items: u64, ty: &Datatype) -> Result<Option<Area>> {
    if address as usize == IN_PLACE {
        return Ok(None);
    }
    if !ty.is_committed() {
        return Err(Error::new(
            Class::Type,
            "the datatype is not committed: call MPI_Type_commit first",
        ));
    }
    if address.is_null() && items > 0 && ty.size() > 0 && ty.is_predefined() {
        return Err(Error::new(
            Class::Buffer,
            format!("null buffer with {items} elements: must not be null"),
        ));
    }
    // SAFETY: the user's promise about the buffer (MPI-5.0 §6), passed on.
    Ok(Some(unsafe { Area::of(address.cast_mut().cast(), items, ty) }))
}

/// Returns `count` items for each of `blocks` ranks; `None` for MPI_IN_PLACE.
pub(super) unsafe fn data<'a>(
    p: &'a Process,
    address: *const c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    blocks: u32,
) -> Result<Option<Data<'a>>> {
    if address as usize == IN_PLACE {
        return Ok(None);
    }
    let (count, ty) = (checked_count(count, "count")?, p.datatype(datatype.0)?);
    // SAFETY: the caller's promise, passed on.
    Ok(unsafe { area(address, count.saturating_mul(blocks.into()), ty)? }.map(|area| Data {
        area,
        count,
        ty,
    }))
}

/// Refuses MPI_IN_PLACE.
pub(super) fn required<T>(value: Option<T>, name: &str) -> Result<T> {
    value.ok_or_else(|| {
        Error::new(Class::Buffer, format!("invalid {name} MPI_IN_PLACE: not allowed here"))
    })
}

/// The role of this process in a rooted operation.
#[derive(Clone, Copy)]
enum RootRole {
    /// The root itself.
    Root(u32),
    /// A process that exchanges data with this root.
    Leaf(u32),
    /// A process in the group of an intercommunicator's root, without a part in the operation.
    Absent,
}

impl RootRole {
    /// Returns the role for a root argument; MPI_ERR_ROOT for an invalid one.
    fn new(comm: &Comm, root: c_int) -> Result<RootRole> {
        match (u32::try_from(root), root) {
            (Ok(root), _) if root < comm.peers().size() => {
                let is_here = !comm.is_inter() && comm.rank() == root;
                Ok(if is_here { RootRole::Root(root) } else { RootRole::Leaf(root) })
            }
            (_, MPI_ROOT) if comm.is_inter() => Ok(RootRole::Root(ROOT_HERE)),
            (_, MPI_PROC_NULL) if comm.is_inter() => Ok(RootRole::Absent),
            _ => Err(bad_root(comm, root)),
        }
    }

    fn is_root(self) -> bool {
        matches!(self, RootRole::Root(_))
    }

    /// Returns true if this process has a block for or from the root. On an intercommunicator the
    /// root has none.
    fn has_own(self, comm: &Comm) -> bool {
        !(comm.is_inter() && self.is_root())
    }

    /// Returns the root; `None` if this process has nothing to do.
    fn root(self) -> Option<u32> {
        match self {
            RootRole::Root(root) | RootRole::Leaf(root) => Some(root),
            RootRole::Absent => None,
        }
    }
}

#[cold]
pub(super) fn bad_root(comm: &Comm, root: c_int) -> Error {
    let last = comm.peers().size() - 1;
    let others = if comm.is_inter() { ", MPI_ROOT or MPI_PROC_NULL" } else { "" };
    Error::new(
        Class::Root,
        format!("invalid root {root} on {}: must be 0 to {last}{others}", comm.describe()),
    )
}

/// Counts and displacements of a `v` operation, owned.
pub(super) struct Lists {
    counts: Vec<u64>,
    displs: Vec<i64>,
}

impl Lists {
    pub(super) unsafe fn read(counts: Counts, displs: Displs, ranks: u32) -> Result<Lists> {
        // SAFETY: the user's arrays, one element for each rank.
        unsafe {
            Ok(Lists {
                counts: counts_of(counts, ranks)?,
                displs: displs.to_vec(ranks as usize, "displs")?,
            })
        }
    }

    /// Returns blocks of one type; displacements are in its extents.
    pub(super) unsafe fn blocks<'a>(
        &'a self,
        p: &'a Process,
        address: *const c_void,
        datatype: MPI_Datatype,
    ) -> Result<Blocks<'a>> {
        let ty = p.datatype(datatype.0)?;
        let extent = ty.extent().1;
        // SAFETY: the caller's promise, passed on.
        let area = unsafe { self.area(address, |_| (ty, extent))? };
        Ok(Blocks { area, counts: &self.counts, displs: &self.displs, types: Types::One(ty) })
    }

    /// Returns blocks that each have a type; displacements are in bytes.
    pub(super) unsafe fn blocks_of<'a>(
        &'a self,
        address: *const c_void,
        types: &'a [Datatype],
    ) -> Result<Blocks<'a>> {
        // SAFETY: the caller's promise, passed on.
        let area = unsafe { self.area(address, |rank| (&types[rank], 1))? };
        Ok(Blocks { area, counts: &self.counts, displs: &self.displs, types: Types::Each(types) })
    }

    /// Returns the bytes that all blocks occupy. `block` gives a rank's type and the unit of its
    /// displacement.
    unsafe fn area<'t>(
        &self,
        address: *const c_void,
        block: impl Fn(usize) -> (&'t Datatype, i64),
    ) -> Result<Area> {
        let (mut low, mut high) = (0i64, 0i64);
        for (rank, (&count, &displ)) in self.counts.iter().zip(&self.displs).enumerate() {
            let (ty, unit) = block(rank);
            // A displacement may be an address, relative to MPI_BOTTOM (MPI-5.0 §5.1.5).
            let at_base = if displ == 0 { count } else { 0 };
            // SAFETY: looked at only, for the checks; the bytes are vouched for below.
            required(unsafe { self::area(address, at_base, ty)? }, "buffer")?;
            let reach = if count == 0 { Some((0, 0)) } else { ty.reach(count) };
            let place = displ.checked_mul(unit);
            let ends = place
                .zip(reach)
                .and_then(|(at, (from, to))| Some((at.checked_add(from)?, at.checked_add(to)?)));
            let (from, to) = ends.ok_or_else(|| {
                Error::new(
                    Class::Count,
                    format!("the block of rank {rank} does not fit the address space"),
                )
            })?;
            if count > 0 {
                (low, high) = (low.min(from), high.max(to));
            }
        }
        // SAFETY: the user's promise: every block of the buffer is valid.
        Ok(unsafe { Area::new(address.cast_mut().cast(), low, high) })
    }
}

/// Reads one count for each rank; none may be negative.
unsafe fn counts_of(counts: Counts, ranks: u32) -> Result<Vec<u64>> {
    // SAFETY: the user's array, one element for each rank.
    let counts = unsafe { counts.to_vec(ranks as usize, "counts")? };
    counts.into_iter().map(|count| checked_count(count, "count")).collect()
}

/// Reads the datatypes of a `w` operation.
pub(super) unsafe fn types_of(
    p: &Process,
    types: *const MPI_Datatype,
    ranks: u32,
) -> Result<Vec<Datatype>> {
    // SAFETY: the user's array, one element for each rank.
    let handles = unsafe { slice(types, ranks.into(), "types")? };
    handles.iter().map(|handle| p.datatype(handle.0).cloned()).collect()
}

/// The arguments of a reduction.
struct Operands<'a> {
    ty: &'a Datatype,
    handle: usize,
    op: objects::Op,
    send: Option<Area>,
    recv: Option<Area>,
}

impl<'a> Operands<'a> {
    /// Reads `count` elements to send, and `part` elements that are received out of place. `None`:
    /// recvbuf is not significant here.
    unsafe fn read(
        p: &'a Process,
        sendbuf: *const c_void,
        recvbuf: *mut c_void,
        (count, part): (u64, Option<u64>),
        datatype: MPI_Datatype,
        op: MPI_Op,
    ) -> Result<Operands<'a>> {
        let (ty, op) = (p.datatype(datatype.0)?, p.op(op.0)?);
        // SAFETY: the caller's promise, passed on.
        let send = unsafe { area(sendbuf, count, ty)? };
        let Some(part) = part else {
            return Ok(Operands { ty, handle: datatype.0, op, send, recv: None });
        };
        // SAFETY: the caller's promise, passed on; in place recvbuf has the operand as well.
        let recv = unsafe { area(recvbuf, if send.is_some() { part } else { count }, ty)? };
        if recv.is_none() {
            return Err(Error::new(
                Class::Buffer,
                "invalid recvbuf MPI_IN_PLACE: pass it as sendbuf",
            ));
        }
        Ok(Operands { ty, handle: datatype.0, op, send, recv })
    }

    fn vector(&self) -> Vector<'_> {
        Vector { send: self.send, recv: self.recv, ty: self.ty, handle: self.handle, op: &self.op }
    }
}

pub(crate) unsafe fn barrier(comm: MPI_Comm, form: CallForm) -> Result<()> {
    run(comm, form, |_, _, plan| plan(&Operation::Barrier))
}

pub(crate) unsafe fn bcast(
    buffer: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let Some(root) = RootRole::new(object, root)?.root() else {
            return plan(&Operation::Absent { kind: CollectiveKind::Bcast });
        };
        // SAFETY: the user's buffer.
        let data = required(unsafe { data(p, buffer, count, datatype, 1)? }, "buffer")?;
        plan(&Operation::Bcast { root, data })
    })
}

pub(crate) unsafe fn gather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let role = RootRole::new(object, root)?;
        let Some(root) = role.root() else {
            return plan(&Operation::Absent { kind: CollectiveKind::Gather });
        };
        let (is_root, ranks) = (role.is_root(), object.peers().size());
        // SAFETY: the user's buffers; recvbuf is significant at the root only.
        let (send, recv) = unsafe {
            let recv = if is_root { data(p, recvbuf, recvcount, recvtype, ranks)? } else { None };
            (
                if role.has_own(object) { data(p, sendbuf, sendcount, sendtype, 1)? } else { None },
                recv,
            )
        };
        in_place_at_root(send.is_none(), is_root)?;
        if is_root {
            required(recv, "recvbuf")?;
        }
        plan(&Operation::Gather { root, send, recv })
    })
}

/// MPI_IN_PLACE is for the root alone in gathers, scatters and reductions.
fn in_place_at_root(in_place: bool, is_root: bool) -> Result<()> {
    if in_place && !is_root {
        return Err(Error::new(
            Class::Buffer,
            "MPI_IN_PLACE is for the root alone in this operation",
        ));
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn gatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displs,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let role = RootRole::new(object, root)?;
        let Some(root) = role.root() else {
            return plan(&Operation::Absent { kind: CollectiveKind::Gatherv });
        };
        let (is_root, ranks) = (role.is_root(), object.peers().size());
        // SAFETY: the user's buffers; those of the receiver are significant at the root only.
        unsafe {
            let lists = if is_root { Some(Lists::read(recvcounts, displs, ranks)?) } else { None };
            let recv =
                lists.as_ref().map(|lists| lists.blocks(p, recvbuf, recvtype)).transpose()?;
            let send =
                if role.has_own(object) { data(p, sendbuf, sendcount, sendtype, 1)? } else { None };
            in_place_at_root(send.is_none(), is_root)?;
            plan(&Operation::Gatherv { root, send, recv })
        }
    })
}

pub(crate) unsafe fn scatter(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let role = RootRole::new(object, root)?;
        let Some(root) = role.root() else {
            return plan(&Operation::Absent { kind: CollectiveKind::Scatter });
        };
        let (is_root, ranks) = (role.is_root(), object.peers().size());
        // SAFETY: the user's buffers; sendbuf is significant at the root only.
        let (send, recv) = unsafe {
            let send = if is_root { data(p, sendbuf, sendcount, sendtype, ranks)? } else { None };
            (
                send,
                if role.has_own(object) { data(p, recvbuf, recvcount, recvtype, 1)? } else { None },
            )
        };
        in_place_at_root(recv.is_none(), is_root)?;
        if is_root {
            required(send, "sendbuf")?;
        }
        plan(&Operation::Scatter { root, send, recv })
    })
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn scatterv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    displs: Displs,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    root: c_int,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let role = RootRole::new(object, root)?;
        let Some(root) = role.root() else {
            return plan(&Operation::Absent { kind: CollectiveKind::Scatterv });
        };
        let (is_root, ranks) = (role.is_root(), object.peers().size());
        // SAFETY: the user's buffers; those of the sender are significant at the root only.
        unsafe {
            let lists = if is_root { Some(Lists::read(sendcounts, displs, ranks)?) } else { None };
            let send =
                lists.as_ref().map(|lists| lists.blocks(p, sendbuf, sendtype)).transpose()?;
            let recv =
                if role.has_own(object) { data(p, recvbuf, recvcount, recvtype, 1)? } else { None };
            in_place_at_root(recv.is_none(), is_root)?;
            plan(&Operation::Scatterv { root, send, recv })
        }
    })
}

pub(crate) unsafe fn allgather(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        // SAFETY: the user's buffers.
        unsafe {
            let recv =
                required(data(p, recvbuf, recvcount, recvtype, object.peers().size())?, "recvbuf")?;
            plan(&Operation::Allgather { send: data(p, sendbuf, sendcount, sendtype, 1)?, recv })
        }
    })
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn allgatherv(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    displs: Displs,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        // SAFETY: the user's buffers and arrays.
        unsafe {
            let lists = Lists::read(recvcounts, displs, object.peers().size())?;
            let recv = lists.blocks(p, recvbuf, recvtype)?;
            plan(&Operation::Allgatherv { send: data(p, sendbuf, sendcount, sendtype, 1)?, recv })
        }
    })
}

pub(crate) unsafe fn alltoall(
    sendbuf: *const c_void,
    sendcount: MPI_Count,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        // SAFETY: the user's buffers.
        unsafe {
            let recv =
                required(data(p, recvbuf, recvcount, recvtype, object.peers().size())?, "recvbuf")?;
            plan(&Operation::Alltoall {
                send: data(p, sendbuf, sendcount, sendtype, object.peers().size())?,
                recv,
            })
        }
    })
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn alltoallv(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Displs,
    sendtype: MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Displs,
    recvtype: MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        // SAFETY: the user's buffers and arrays; those of the sender are not looked at in place.
        unsafe {
            let in_place = sendbuf as usize == IN_PLACE;
            let sending = if in_place {
                None
            } else {
                Some(Lists::read(sendcounts, sdispls, object.peers().size())?)
            };
            let receiving = Lists::read(recvcounts, rdispls, object.peers().size())?;
            let send =
                sending.as_ref().map(|lists| lists.blocks(p, sendbuf, sendtype)).transpose()?;
            plan(&Operation::Alltoallv { send, recv: receiving.blocks(p, recvbuf, recvtype)? })
        }
    })
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn alltoallw(
    sendbuf: *const c_void,
    sendcounts: Counts,
    sdispls: Displs,
    sendtypes: *const MPI_Datatype,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    rdispls: Displs,
    recvtypes: *const MPI_Datatype,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let ranks = object.peers().size();
        // SAFETY: the user's buffers and arrays; those of the sender are not looked at in place.
        unsafe {
            let in_place = sendbuf as usize == IN_PLACE;
            let sending =
                if in_place { None } else { Some(Lists::read(sendcounts, sdispls, ranks)?) };
            let from = if in_place { Vec::new() } else { types_of(p, sendtypes, ranks)? };
            let (receiving, to) =
                (Lists::read(recvcounts, rdispls, ranks)?, types_of(p, recvtypes, ranks)?);
            let send = sending.as_ref().map(|lists| lists.blocks_of(sendbuf, &from)).transpose()?;
            plan(&Operation::Alltoallv { send, recv: receiving.blocks_of(recvbuf, &to)? })
        }
    })
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn reduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    root: c_int,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let role = RootRole::new(object, root)?;
        let Some(root) = role.root() else {
            return plan(&Operation::Absent { kind: CollectiveKind::Reduce });
        };
        let (is_root, count) = (role.is_root(), checked_count(count, "count")?);
        // The operand of an intercommunicator's root is not looked at.
        let sendbuf = if role.has_own(object) { sendbuf } else { IN_PLACE as *const c_void };
        // SAFETY: the user's buffers; recvbuf is significant at the root only.
        let operands = unsafe {
            let counts = (count, is_root.then_some(count));
            Operands::read(p, sendbuf, recvbuf, counts, datatype, op)?
        };
        in_place_at_root(operands.send.is_none(), is_root)?;
        plan(&Operation::Reduce { root, vector: operands.vector(), count })
    })
}

pub(crate) unsafe fn allreduce(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, _, plan| {
        let count = checked_count(count, "count")?;
        // SAFETY: the user's buffers.
        let operands =
            unsafe { Operands::read(p, sendbuf, recvbuf, (count, Some(count)), datatype, op)? };
        plan(&Operation::Allreduce { vector: operands.vector(), count })
    })
}

pub(crate) unsafe fn reduce_scatter(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcounts: Counts,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        // SAFETY: the user's array, one element for each rank, and buffers.
        let counts = unsafe { counts_of(recvcounts, object.size())? };
        let all = counts.iter().fold(0u64, |sum, &count| sum.saturating_add(count));
        let part = Some(counts[object.rank() as usize]);
        // SAFETY: the user's buffers of so many elements.
        let operands = unsafe { Operands::read(p, sendbuf, recvbuf, (all, part), datatype, op)? };
        plan(&Operation::ReduceScatter { vector: operands.vector(), counts: &counts })
    })
}

pub(crate) unsafe fn reduce_scatter_block(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    recvcount: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let count = checked_count(recvcount, "recvcount")?;
        let all = count.saturating_mul(object.size().into());
        // SAFETY: the user's buffers; the operands are one block for each rank.
        let operands =
            unsafe { Operands::read(p, sendbuf, recvbuf, (all, Some(count)), datatype, op)? };
        plan(&Operation::ReduceScatterBlock { vector: operands.vector(), count })
    })
}

pub(crate) unsafe fn scan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, _, plan| {
        let count = checked_count(count, "count")?;
        // SAFETY: the user's buffers.
        let operands =
            unsafe { Operands::read(p, sendbuf, recvbuf, (count, Some(count)), datatype, op)? };
        plan(&Operation::Scan { vector: operands.vector(), count })
    })
}

pub(crate) unsafe fn exscan(
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    count: MPI_Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
    comm: MPI_Comm,
    form: CallForm,
) -> Result<()> {
    run(comm, form, |p, object, plan| {
        let count = checked_count(count, "count")?;
        // Rank 0 has no result; in place its operand is in recvbuf.
        let receives = object.rank() > 0 || sendbuf as usize == IN_PLACE;
        // SAFETY: the user's buffers.
        let operands = unsafe {
            let counts = (count, receives.then_some(count));
            Operands::read(p, sendbuf, recvbuf, counts, datatype, op)?
        };
        plan(&Operation::Exscan { vector: operands.vector(), count })
    })
}
