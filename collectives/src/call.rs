//! A collective call, checked and brought into numbers.
//!
//! Calls that consist of a few numbers become a [`Key`], all that their schedule
//! depends on; those with lists of counts become a key and [`Lists`].

use fabric::CollectiveKind;
use objects::{Area, Class, Datatype, Error, Result};

use crate::algorithms::Position;
use crate::coll_args::CollArgs;
use crate::operation::{Blocks, Data, Edges, Operation, ROOT_HERE, Types, Vector};
use crate::schedule::Space;
use crate::shape::{Extent, Shape, Ty};

/// A call that consists of numbers: all that its schedule depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) kind: u8,
    pub(crate) pos: Position,
    /// Ranks in the remote group; 0 unless the communicator is between groups.
    pub(crate) remote: u32,
    pub(crate) root: u32,
    pub(crate) send: Option<Extent>,
    pub(crate) recv: Option<Extent>,
    pub(crate) commutative: bool,
    /// The ranks share an arena.
    pub(crate) has_segment: bool,
}

/// The types of a call: of the send buffer, of the receive buffer, and of the
/// blocks of a `w` operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct TypeTable {
    send: Option<Datatype>,
    recv: Option<Datatype>,
    blocks: Vec<Datatype>,
}

impl TypeTable {
    /// The type of that number; `None` for packed bytes.
    #[inline]
    pub(crate) fn of(&self, ty: Ty) -> Option<&Datatype> {
        match ty.index()? {
            0 => self.send.as_ref(),
            1 => self.recv.as_ref(),
            index => self.blocks.get(index - FIRST_BLOCK as usize),
        }
    }
}

const SEND: Ty = Ty::of(0);
const RECV: Ty = Ty::of(1);
const FIRST_BLOCK: u32 = 2;

/// A checked call: numbers, and what they stand for.
pub(crate) struct Call<'a> {
    pub(crate) key: Key,
    pub(crate) lists: Option<Lists<'a>>,
    pub(crate) send: Area,
    pub(crate) recv: Area,
    pub(crate) types: TypeTable,
}

/// The lists of a call that has some.
pub(crate) struct Lists<'a> {
    kind: CollectiveKind,
    send: Vec<Extent>,
    recv: Vec<Extent>,
    counts: &'a [u64],
    edges: Option<Edges<'a>>,
}

const BCAST: u8 = CollectiveKind::Bcast as u8;
const GATHER: u8 = CollectiveKind::Gather as u8;
const SCATTER: u8 = CollectiveKind::Scatter as u8;
const ALLGATHER: u8 = CollectiveKind::Allgather as u8;
pub(crate) const ALLTOALL: u8 = CollectiveKind::Alltoall as u8;
const REDUCE: u8 = CollectiveKind::Reduce as u8;
const ALLREDUCE: u8 = CollectiveKind::Allreduce as u8;
/// No number of the wire, where this is an allreduce as well.
pub(crate) const ALLREDUCE_OF_BOTH: u8 = 255;
pub(crate) const REDUCE_SCATTER_BLOCK: u8 = CollectiveKind::ReduceScatterBlock as u8;
const SCAN: u8 = CollectiveKind::Scan as u8;
const EXSCAN: u8 = CollectiveKind::Exscan as u8;

impl Key {
    /// How many blocks the buffers of all ranks have: one for each whom this rank
    /// deals with.
    pub(crate) fn blocks(&self) -> u32 {
        if self.remote > 0 { self.remote } else { self.pos.size }
    }

    fn is_root(&self) -> bool {
        self.root == if self.remote > 0 { ROOT_HERE } else { self.pos.rank }
    }

    pub(crate) fn args(&self) -> CollArgs<'static> {
        let Key { root, commutative, .. } = *self;
        match (self.kind, self.send, self.recv) {
            (BCAST, _, Some(data)) => CollArgs::Bcast { root, data },
            (GATHER, own, all) => CollArgs::Gather { root, own, all },
            (SCATTER, all, own) => CollArgs::Scatter { root, all, own },
            (ALLGATHER, own, Some(all)) => CollArgs::Allgather { own, all },
            (REDUCE, Some(input), output) => CollArgs::Reduce { root, input, output, commutative },
            (ALLREDUCE | ALLREDUCE_OF_BOTH, Some(input), Some(output)) => {
                CollArgs::Allreduce { input, output, commutative }
            }
            (SCAN, Some(input), Some(output)) => CollArgs::Scan { input, output },
            (EXSCAN, Some(input), Some(output)) => CollArgs::Exscan { input, output },
            _ => CollArgs::Barrier,
        }
    }
}

impl Lists<'_> {
    pub(crate) fn args(&self, key: &Key) -> Result<CollArgs<'_>> {
        let (root, is_root, kind) = (key.root, key.is_root(), self.kind);
        let (send, recv) = (&self.send[..], &self.recv[..]);
        if let Some(Edges { sources, destinations, cartesian }) = self.edges {
            check_length(recv.len(), sources.len())?;
            check_length(send.len(), destinations.len())?;
            return Ok(CollArgs::Neighbor {
                kind,
                cartesian,
                sources,
                into: recv,
                destinations,
                out: send,
            });
        }
        let size = key.blocks() as usize;
        match (kind, key.send, key.recv) {
            (CollectiveKind::ReduceScatter, Some(input), Some(output)) => {
                check_length(self.counts.len(), key.pos.size as usize)?;
                let (counts, commutative) = (self.counts, key.commutative);
                return Ok(CollArgs::ReduceScatter { kind, input, counts, output, commutative });
            }
            (CollectiveKind::Gatherv, own, _) => {
                check_length(recv.len(), if is_root { size } else { 0 })?;
                return Ok(CollArgs::Gatherv { root, own, all: is_root.then_some(recv) });
            }
            (CollectiveKind::Scatterv, _, own) => {
                check_length(send.len(), if is_root { size } else { 0 })?;
                return Ok(CollArgs::Scatterv { root, all: is_root.then_some(send), own });
            }
            _ => check_length(recv.len(), size)?,
        }
        match kind {
            CollectiveKind::Allgatherv => Ok(CollArgs::Allgatherv { own: key.send, all: recv }),
            _ if send.is_empty() => Ok(CollArgs::Alltoall { kind, from: None, to: recv }),
            _ => {
                check_length(send.len(), size)?;
                Ok(CollArgs::Alltoall { kind, from: Some(send), to: recv })
            }
        }
    }
}

impl<'a> Call<'a> {
    /// `remote` is the size of the remote group, 0 if there is none.
    pub(crate) fn new(operation: &Operation<'a>, pos: Position, remote: u32) -> Result<Call<'a>> {
        let root = operation.root().unwrap_or(u32::MAX);
        let commutative = operation.vector().is_some_and(|vector| vector.op.commutative());
        let kind = match operation {
            Operation::AllreduceOfBoth { .. } => ALLREDUCE_OF_BOTH,
            _ => operation.kind() as u8,
        };
        let key = Key {
            kind,
            pos,
            remote,
            root,
            send: None,
            recv: None,
            commutative,
            has_segment: false,
        };
        if operation.root().is_some_and(|root| root >= key.blocks() && !key.is_root()) {
            return Err(bad_root(root, key.blocks()));
        }
        let mut call = Call {
            key,
            lists: None,
            send: Area::EMPTY,
            recv: Area::EMPTY,
            types: TypeTable::default(),
        };
        call.bind(operation)?;
        Ok(call)
    }

    /// Send and receive buffer look the same: a closer look says whether that is
    /// an error.
    #[inline]
    pub(crate) fn is_aliased(operation: &Operation, send: Area, recv: Area) -> bool {
        operation.vector().is_some() && send.address() == recv.address()
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
            | Operation::Scan { vector, count }
            | Operation::Exscan { vector, count } => self.vector(&vector, count, count, true),
            Operation::ReduceScatterBlock { vector, count } => {
                let whole =
                    count.checked_mul(self.key.pos.size.into()).ok_or_else(|| too_many(count))?;
                self.vector(&vector, whole, count, true)
            }
            _ => self.bind_lists(operation),
        }
    }

    fn bind_lists(&mut self, operation: &Operation<'a>) -> Result<()> {
        let (is_root, pos) = (self.key.is_root(), self.key.pos);
        let mut lists = Lists {
            kind: operation.kind(),
            send: Vec::new(),
            recv: Vec::new(),
            counts: &[],
            edges: None,
        };
        let me = pos.rank as usize;
        match *operation {
            Operation::Gatherv { send, recv, .. } => {
                self.maybe_send(send, 1)?;
                if let Some(recv) = recv.filter(|_| is_root) {
                    lists.recv = self.blocks(Space::Recv, &recv)?;
                    self.check_room(self.key.send, lists.recv.get(me))?;
                }
            }
            Operation::Scatterv { send, recv, .. } => {
                self.maybe_recv(recv, 1)?;
                if let Some(send) = send.filter(|_| is_root) {
                    lists.send = self.blocks(Space::Send, &send)?;
                    self.check_room(lists.send.get(me).copied(), self.key.recv.as_ref())?;
                }
            }
            Operation::Allgatherv { send, recv } => {
                self.maybe_send(send, 1)?;
                lists.recv = self.blocks(Space::Recv, &recv)?;
                self.check_room(self.key.send, lists.recv.get(me))?;
            }
            Operation::Alltoallv { send, recv } => {
                if let Some(send) = send {
                    lists.send = self.blocks(Space::Send, &send)?;
                }
                lists.recv = self.blocks(Space::Recv, &recv)?;
                self.check_room(lists.send.get(me).copied(), lists.recv.get(me))?;
            }
            Operation::ReduceScatter { vector, counts } => {
                check_length(counts.len(), pos.size as usize)?;
                let sum = counts.iter().try_fold(0u64, |sum, &count| sum.checked_add(count));
                lists.counts = counts;
                self.vector(&vector, sum.ok_or_else(|| too_many(u64::MAX))?, counts[me], true)?;
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
            _ => return Err(Error::new(Class::Intern, "an operation without a plan")),
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
            return Err(Error::new(Class::Buffer, "the receive buffer is missing"));
        }
        if part > 0
            && vector.send.is_some()
            && output.is_some()
            && self.send.address() == self.recv.address()
        {
            return Err(Error::new(
                Class::Buffer,
                "send and receive buffer are the same; pass MPI_IN_PLACE as the send buffer to reduce in place",
            ));
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

    /// What this rank sends to itself fits.
    fn check_room(&self, from: Option<Extent>, to: Option<&Extent>) -> Result<()> {
        match (from, to) {
            (Some(from), Some(to)) if self.key.remote == 0 && from.bytes() > to.bytes() => {
                Err(unequal(from.bytes(), to.bytes()))
            }
            _ => Ok(()),
        }
    }

    /// The own block and each block of the whole buffer are equally long. (Between
    /// groups they belong to different ones.)
    fn check_blocks(&self, own: Option<Extent>, all: Option<Extent>, blocks: u32) -> Result<()> {
        let (Some(own), Some(all), 0) = (own, all, self.key.remote) else { return Ok(()) };
        let each = all.bytes() / u64::from(blocks);
        if own.bytes() == each { Ok(()) } else { Err(unequal(own.bytes(), each)) }
    }
}

impl Shape {
    /// The numbers of a datatype.
    #[inline]
    pub fn of(datatype: &Datatype) -> Shape {
        let (true_lb, true_extent) = datatype.true_extent();
        Shape {
            size: datatype.size(),
            extent: datatype.extent().1,
            true_lb,
            true_ub: true_lb + true_extent,
            gapless: datatype.is_contiguous() && true_lb == 0,
        }
    }
}

/// `blocks` blocks of `count` elements each.
#[inline]
fn run(space: Space, ty: Ty, count: u64, blocks: u64, datatype: &Datatype) -> Result<Extent> {
    let all = count.checked_mul(blocks).filter(|&all| datatype.reach(all).is_some());
    Ok(Extent::new(space, ty, all.ok_or_else(|| too_many(count))?, Shape::of(datatype)))
}

fn check_length(length: usize, wanted: usize) -> Result<()> {
    if length == wanted { Ok(()) } else { Err(wrong_length(length, wanted)) }
}

#[cold]
fn bad_root(root: u32, size: u32) -> Error {
    Error::new(Class::Root, format!("root {root} is not one of the {size} ranks that can be it"))
}

#[cold]
fn too_many(count: u64) -> Error {
    Error::new(Class::Count, format!("the buffer of {count} elements spans more than 2^63 bytes"))
}

#[cold]
fn wrong_length(length: usize, wanted: usize) -> Error {
    Error::new(Class::Arg, format!("{length} entries were given where {wanted} are needed"))
}

#[cold]
fn unequal(own: u64, room: u64) -> Error {
    let sentence = format!(
        "this rank's own contribution has {own} bytes, but its block in the result has {room}"
    );
    Error::new(Class::Truncate, sentence)
}
