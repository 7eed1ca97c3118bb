//! A collective call, checked and brought into numbers.
//!
//! Calls that consist of a few numbers become a [`ScheduleKey`]; those with lists of counts become
//! a key and [`Lists`].

use fabric::CollectiveKind;
use objects::{Area, Comm, Datatype, Error, Group, Result};

use crate::call_error::{self, check_length};
use crate::call_lists::Lists;
use crate::operation::{Blocks, Data, Operation, ROOT_HERE, Types, Vector};
use crate::schedule_key::{ALLREDUCE_OF_BOTH, ScheduleKey};
use crate::shape::{Extent, Shape, Space, Ty};
use crate::thresholds::SegmentUse;
use crate::type_table::{FIRST_BLOCK, RECV, SEND, TypeTable};

/// A checked call: numbers, and what they stand for.
pub(crate) struct Call<'a> {
    pub(crate) key: ScheduleKey,
    pub(crate) lists: Option<Lists<'a>>,
    pub(crate) send: Area,
    pub(crate) recv: Area,
    pub(crate) types: TypeTable,
}

impl<'a> Call<'a> {
    /// Checks a call of `operation` on `comm` and brings it into numbers.
    pub(crate) fn new(operation: &Operation<'a>, comm: &Comm) -> Result<Call<'a>> {
        if comm.is_inter() {
            check_intercomm(operation)?;
        }
        let root = operation.root().unwrap_or(u32::MAX);
        let commutative = operation.vector().is_some_and(|vector| vector.op.commutative());
        let kind = match operation {
            Operation::AllreduceOfBoth { .. } => ALLREDUCE_OF_BOTH,
            _ => operation.kind() as u8,
        };
        let key = ScheduleKey {
            kind,
            rank: comm.rank(),
            size: comm.size(),
            topology: 0,
            rules: 0,
            remote: comm.remote().map_or(0, Group::size),
            root,
            send: None,
            recv: None,
            commutative,
            segment: SegmentUse::Nothing,
        };
        if operation.root().is_some_and(|root| root >= key.blocks() && !key.is_root()) {
            return Err(call_error::bad_root(root, key.blocks()));
        }
        let mut call = Call {
            key,
            lists: None,
            send: Area::EMPTY,
            recv: Area::EMPTY,
            types: TypeTable::default(),
        };
        call.bind(operation)?;
        call.check_aliases(operation)?;
        Ok(call)
    }

    /// See [`CollArgs::block_bytes`](crate::CollArgs::block_bytes). `None` between two groups,
    /// whose sizes differ.
    pub(crate) fn block_bytes(&self) -> Result<Option<u64>> {
        let size = self.key.size;
        match &self.lists {
            _ if self.key.remote > 0 => Ok(None),
            None => Ok(self.key.with_args(|args| args.block_bytes(size))),
            Some(lists) => Ok(lists.args(&self.key)?.block_bytes(size)),
        }
    }

    /// Send and receive buffer look the same: [`Call::new`] decides whether that is an error.
    #[inline]
    pub(crate) fn is_aliased(send: Area, recv: Area) -> bool {
        send.address() == recv.address() && send.address() != 0
    }

    /// MPI_ERR_BUFFER if the first element that the rank sends is one that it receives into. Two
    /// datatypes with gaps, and lists of displacements, may keep the two apart.
    fn check_aliases(&self, operation: &Operation) -> Result<()> {
        let (Some(send), Some(recv)) = (self.key.send, self.key.recv) else { return Ok(()) };
        let has_data = send.bytes() > 0 && recv.bytes() > 0;
        let identity = |ty: &Option<Datatype>| ty.as_ref().map(Datatype::identity);
        let overlaps = send.shape.gapless && recv.shape.gapless
            || identity(&self.types.send) == identity(&self.types.recv);
        let is_aliased = has_data && overlaps && Call::is_aliased(self.send, self.recv);
        match is_aliased && operation.vector().is_none() {
            true => Err(call_error::same_buffers(operation.kind(), self.key.remote > 0)),
            false => Ok(()),
        }
    }

    fn bind(&mut self, operation: &Operation<'a>) -> Result<()> {
        let (is_root, blocks) = (self.key.is_root(), self.key.blocks());
        let size = u64::from(blocks);
        match *operation {
            Operation::Barrier | Operation::Absent { .. } => Ok(()),
            Operation::Bcast { data, .. } => self.recv(data, 1),
            Operation::Gather { send, recv, .. } => {
                self.maybe_send(send, 1)?;
                self.maybe_recv(recv.filter(|_| is_root), size)?;
                self.check_blocks(self.key.send, self.key.recv, blocks)
            }
            Operation::Scatter { send, recv, .. } => {
                self.maybe_send(send.filter(|_| is_root), size)?;
                self.maybe_recv(recv, 1)?;
                self.check_blocks(self.key.recv, self.key.send, blocks)
            }
            Operation::Allgather { send, recv } => {
                self.maybe_send(send, 1)?;
                self.recv(recv, size)?;
                self.check_blocks(self.key.send, self.key.recv, blocks)
            }
            Operation::Alltoall { send, recv } => {
                self.maybe_send(send, size)?;
                self.recv(recv, size)?;
                self.check_blocks(self.key.send, self.key.recv, 1)
            }
            Operation::Reduce { vector, count, .. } => self.vector(&vector, count, count, is_root),
            Operation::Allreduce { vector, count }
            | Operation::AllreduceOfBoth { vector, count }
            | Operation::Scan { vector, count } => self.vector(&vector, count, count, true),
            // Rank 0 has no result.
            Operation::Exscan { vector, count } => {
                let has_output = self.key.rank > 0 || vector.send.is_none();
                self.vector(&vector, count, count, has_output)
            }
            Operation::ReduceScatterBlock { vector, count } => {
                let whole = count
                    .checked_mul(self.key.size.into())
                    .ok_or_else(|| call_error::too_many(count))?;
                self.vector(&vector, whole, count, true)
            }
            _ => self.bind_lists(operation),
        }
    }

    fn bind_lists(&mut self, operation: &Operation<'a>) -> Result<()> {
        let (is_root, size) = (self.key.is_root(), self.key.size);
        let mut lists = Lists {
            kind: operation.kind(),
            send: Vec::new(),
            recv: Vec::new(),
            counts: &[],
            edges: None,
        };
        let me = self.key.rank as usize;
        match *operation {
            Operation::Gatherv { send, recv, .. } => {
                self.maybe_send(send, 1)?;
                if let Some(recv) = recv.filter(|_| is_root) {
                    lists.recv = self.blocks(Space::Recv, &recv)?;
                    self.check_self_block(self.key.send, lists.recv.get(me))?;
                }
            }
            Operation::Scatterv { send, recv, .. } => {
                self.maybe_recv(recv, 1)?;
                if let Some(send) = send.filter(|_| is_root) {
                    lists.send = self.blocks(Space::Send, &send)?;
                    self.check_self_block(lists.send.get(me).copied(), self.key.recv.as_ref())?;
                }
            }
            Operation::Allgatherv { send, recv } => {
                self.maybe_send(send, 1)?;
                lists.recv = self.blocks(Space::Recv, &recv)?;
                self.check_self_block(self.key.send, lists.recv.get(me))?;
            }
            Operation::Alltoallv { send, recv } => {
                if let Some(send) = send {
                    lists.send = self.blocks(Space::Send, &send)?;
                }
                lists.recv = self.blocks(Space::Recv, &recv)?;
                self.check_self_block(lists.send.get(me).copied(), lists.recv.get(me))?;
            }
            Operation::ReduceScatter { vector, counts } => {
                check_length(counts.len(), size as usize)?;
                let sum = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
                lists.counts = counts;
                self.vector(
                    &vector,
                    sum.ok_or_else(|| call_error::too_many(u64::MAX))?,
                    counts[me],
                    true,
                )?;
            }
            _ => self.bind_neighbors(operation, &mut lists)?,
        }
        self.lists = Some(lists);
        Ok(())
    }

    fn bind_neighbors(&mut self, operation: &Operation<'a>, lists: &mut Lists<'a>) -> Result<()> {
        let (edges, send, recv) = match *operation {
            Operation::NeighborAllgather { edges, send, recv } => {
                self.maybe_send(Some(send), 1)?;
                self.recv(recv, edges.sources.len() as u64)?;
                (edges, None, None)
            }
            Operation::NeighborAlltoall { edges, send, recv } => {
                self.maybe_send(Some(send), edges.destinations.len() as u64)?;
                self.recv(recv, edges.sources.len() as u64)?;
                (edges, None, None)
            }
            Operation::NeighborAllgatherv { edges, send, recv } => {
                self.maybe_send(Some(send), 1)?;
                (edges, None, Some(recv))
            }
            Operation::NeighborAlltoallv { edges, send, recv } => (edges, Some(send), Some(recv)),
            _ => return Err(Error::internal("an operation without a plan")),
        };
        let (ins, outs) = (edges.sources.len(), edges.destinations.len());
        let same = matches!(
            lists.kind,
            CollectiveKind::NeighborAllgather | CollectiveKind::NeighborAllgatherv
        );
        lists.edges = Some(edges);
        lists.send = match (send, self.key.send) {
            (Some(send), _) => self.blocks(Space::Send, &send)?,
            (None, Some(run)) if same => vec![run; outs],
            (None, run) => {
                run.filter(|_| outs > 0).map(|run| run.split(outs as u32)).unwrap_or_default()
            }
        };
        lists.recv = match (recv, self.key.recv) {
            (Some(recv), _) => self.blocks(Space::Recv, &recv)?,
            (None, run) => {
                run.filter(|_| ins > 0).map(|run| run.split(ins as u32)).unwrap_or_default()
            }
        };
        Ok(())
    }

    fn maybe_send(&mut self, data: Option<Data>, blocks: u64) -> Result<()> {
        let Some(data) = data else { return Ok(()) };
        self.key.send = Some(run(Space::Send, SEND, data.count, blocks, data.ty)?);
        self.send = data.area;
        self.types.send = Some(data.ty.clone());
        Ok(())
    }

    fn maybe_recv(&mut self, data: Option<Data>, blocks: u64) -> Result<()> {
        data.map_or(Ok(()), |data| self.recv(data, blocks))
    }

    fn recv(&mut self, data: Data, blocks: u64) -> Result<()> {
        self.key.recv = Some(run(Space::Recv, RECV, data.count, blocks, data.ty)?);
        self.recv = data.area;
        self.types.recv = Some(data.ty.clone());
        Ok(())
    }

    /// The input has `whole` elements, the output `part`.
    fn vector(&mut self, vector: &Vector, whole: u64, part: u64, has_output: bool) -> Result<()> {
        let output = vector.recv.filter(|_| has_output);
        let input = run(Space::Send, SEND, whole, 1, vector.ty)?;
        let in_place = Extent { space: Space::Recv, ..input };
        self.key.send = Some(if vector.send.is_some() { input } else { in_place });
        self.key.recv = output.map(|_| in_place.part(0, part));
        self.send = vector.send.unwrap_or(Area::EMPTY);
        self.recv = output.unwrap_or(Area::EMPTY);
        self.types.send = Some(vector.ty.clone());
        vector.op.check(vector.ty)?;
        let missing =
            if vector.send.is_none() { output.is_none() } else { has_output && output.is_none() };
        if missing {
            return Err(call_error::no_recv_buffer());
        }
        if vector.send.is_some()
            && self.key.recv.is_some_and(|output| output.bytes() > 0)
            && self.send.address() == self.recv.address()
        {
            return Err(call_error::same_buffers(CollectiveKind::Allreduce, false));
        }
        Ok(())
    }

    fn blocks(&mut self, space: Space, blocks: &Blocks) -> Result<Vec<Extent>> {
        check_length(blocks.displs.len(), blocks.counts.len())?;
        let (one, ty) = if space == Space::Send {
            (&mut self.types.send, SEND)
        } else {
            (&mut self.types.recv, RECV)
        };
        let area = if space == Space::Send { &mut self.send } else { &mut self.recv };
        *area = blocks.area;
        let pairs = blocks.counts.iter().zip(blocks.displs);
        match blocks.types {
            Types::One(datatype) => {
                *one = Some(datatype.clone());
                let extent = datatype.extent().1;
                pairs
                    .map(|(&count, &displ)| {
                        Ok(Extent { disp: displ * extent, ..run(space, ty, count, 1, datatype)? })
                    })
                    .collect()
            }
            Types::Each(datatypes) => {
                check_length(datatypes.len(), blocks.counts.len())?;
                let first = FIRST_BLOCK + self.types.blocks.len() as u32;
                self.types.blocks.extend_from_slice(datatypes);
                let runs = pairs.zip(datatypes).zip(first..);
                runs.map(|(((&count, &disp), datatype), index)| {
                    Ok(Extent { disp, ..run(space, Ty::of(index), count, 1, datatype)? })
                })
                .collect()
            }
        }
    }

    /// A message from this rank to itself fits.
    fn check_self_block(&self, from: Option<Extent>, to: Option<&Extent>) -> Result<()> {
        match (from, to) {
            (Some(from), Some(to)) if self.key.remote == 0 && from.bytes() > to.bytes() => {
                Err(call_error::unequal_blocks(from.bytes(), to.bytes()))
            }
            _ => Ok(()),
        }
    }

    /// The own block and each block of the whole buffer are equally long. (Between
    /// groups they belong to different ones.)
    fn check_blocks(&self, own: Option<Extent>, all: Option<Extent>, blocks: u32) -> Result<()> {
        let (Some(own), Some(all), 0) = (own, all, self.key.remote) else { return Ok(()) };
        let each = all.bytes() / u64::from(blocks);
        if own.bytes() == each {
            Ok(())
        } else {
            Err(call_error::unequal_blocks(own.bytes(), each))
        }
    }
}

/// `blocks` blocks of `count` elements each.
#[inline]
fn run(space: Space, ty: Ty, count: u64, blocks: u64, datatype: &Datatype) -> Result<Extent> {
    let all = count.checked_mul(blocks).filter(|&all| datatype.reach(all).is_some());
    Ok(Extent::new(space, ty, all.ok_or_else(|| call_error::too_many(count))?, Shape::of(datatype)))
}

/// Refuses what intercommunicators do not have: MPI_IN_PLACE, scans, neighbours.
fn check_intercomm(operation: &Operation) -> Result<()> {
    let own_is_missing = match operation {
        Operation::Gather { root, send: None, .. }
        | Operation::Gatherv { root, send: None, .. } => *root != ROOT_HERE,
        Operation::Scatter { root, recv: None, .. }
        | Operation::Scatterv { root, recv: None, .. } => *root != ROOT_HERE,
        Operation::Allgather { send: None, .. } | Operation::Allgatherv { send: None, .. } => true,
        Operation::Alltoall { send: None, .. } | Operation::Alltoallv { send: None, .. } => true,
        Operation::Reduce { root, vector, .. } => *root != ROOT_HERE && vector.send.is_none(),
        Operation::Allreduce { vector, .. }
        | Operation::ReduceScatter { vector, .. }
        | Operation::ReduceScatterBlock { vector, .. } => vector.send.is_none(),
        Operation::Scan { .. }
        | Operation::Exscan { .. }
        | Operation::NeighborAllgather { .. }
        | Operation::NeighborAllgatherv { .. }
        | Operation::NeighborAlltoall { .. }
        | Operation::NeighborAlltoallv { .. } => {
            return Err(call_error::not_on_intercomm(operation.kind()));
        }
        _ => false,
    };
    match own_is_missing {
        true => Err(call_error::in_place_on_intercomm(operation.kind())),
        false => Ok(()),
    }
}
