//! MPI-5.0 chapter 8: process topologies. `neighbor.rs` has the neighborhood collectives.
//!
//! With `reorder` a process may get another rank than in the old communicator, by the location of
//! the processes on the machine. MPI_Cart_map and MPI_Graph_map are local calls; therefore they
//! return the rank of a creation without `reorder`.

use std::os::raw::c_int;

use objects::topology::placement::Traffic;
use objects::topology::{Cartesian, DistGraph, Edges, Graph, dims_create as balance};
use objects::{Class, Comm, Error, Group, Result, Topology};
use runtime::topology::{Edge, distribute, place_ranks, reorder_graph};
use runtime::{communicator, predefined, with};

use crate::abi::{MPI_Comm, MPI_Info};
use crate::args::{length, not_null, put, slice, slice_mut};
use crate::constants::{
    MPI_CART, MPI_DIST_GRAPH, MPI_GRAPH, MPI_PROC_NULL, MPI_UNDEFINED, MPI_UNWEIGHTED,
    MPI_WEIGHTS_EMPTY,
};

/// Returns size and group of an intracommunicator, which a topology needs.
fn old(comm: MPI_Comm) -> Result<(u32, Group)> {
    with(|p| {
        let object = p.comm(comm.0)?;
        if object.is_inter() {
            return Err(Error::new(
                Class::Comm,
                "invalid intercommunicator: a topology needs an intracommunicator",
            ));
        }
        Ok((object.size(), object.group().clone()))
    })
}

/// Stores the handle of a new communicator with a topology; `None` is
/// MPI_COMM_NULL.
unsafe fn store(newcomm: *mut MPI_Comm, comm: Option<Comm>, topology: Topology) -> Result<()> {
    let handle = match comm {
        Some(mut comm) => {
            comm.set_topology(topology);
            with(|p| p.comms.insert(comm)) as usize
        }
        None => predefined::COMM_NULL,
    };
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(newcomm, MPI_Comm(handle), "the new communicator") }
}

/// Makes a communicator of the first `count` processes; with `reorder` in an order that suits the
/// traffic. Collective.
fn first(
    comm: MPI_Comm,
    group: &Group,
    count: u32,
    reorder: c_int,
    order: impl FnOnce() -> Result<Vec<u32>>,
) -> Result<Option<Comm>> {
    let members = match count {
        0 => Group::empty(),
        _ if reorder != 0 => group.incl(&order()?)?,
        count => group.range_incl(&[[0, count as c_int - 1, 1]])?,
    };
    communicator::create(comm.0, &members)
}

/// Makes a communicator of all processes with a distributed graph, of which each process knows the
/// part of its rank. Collective.
fn with_graph(
    comm: MPI_Comm,
    group: &Group,
    graph: DistGraph,
    reorder: c_int,
) -> Result<(Option<Comm>, Topology)> {
    if reorder == 0 {
        return Ok((communicator::create(comm.0, group)?, Topology::DistGraph(graph)));
    }
    let (order, part) = reorder_graph(comm.0, &graph)?;
    Ok((communicator::create(comm.0, &group.incl(&order)?)?, Topology::DistGraph(part)))
}

/// Reads a topology; `None` from `read` means another kind, which is MPI_ERR_TOPOLOGY.
fn with_topology<R>(
    comm: MPI_Comm,
    kind: &str,
    read: impl FnOnce(&Topology, &Comm) -> Option<Result<R>>,
) -> Result<R> {
    with(|p| {
        let object = p.comm(comm.0)?;
        object.topology().and_then(|topology| read(topology, object)).unwrap_or_else(|| {
            Err(Error::new(
                Class::Topology,
                format!("{} has no {kind} topology", object.describe()),
            ))
        })
    })
}

fn grid<R>(comm: MPI_Comm, read: impl FnOnce(&Cartesian, &Comm) -> Result<R>) -> Result<R> {
    with_topology(comm, "Cartesian", |topology, object| match topology {
        Topology::Cartesian(grid) => Some(read(grid, object)),
        _ => None,
    })
}

fn graph<R>(comm: MPI_Comm, read: impl FnOnce(&Graph, &Comm) -> Result<R>) -> Result<R> {
    with_topology(comm, "graph", |topology, object| match topology {
        Topology::Graph(graph) => Some(read(graph, object)),
        _ => None,
    })
}

fn dist_graph<R>(comm: MPI_Comm, read: impl FnOnce(&DistGraph) -> Result<R>) -> Result<R> {
    with_topology(comm, "distributed graph", |topology, _| match topology {
        Topology::DistGraph(graph) => Some(read(graph)),
        _ => None,
    })
}

/// Writes values into an array that must hold all of them.
unsafe fn fill<T: Copy>(
    to: *mut c_int,
    capacity: c_int,
    name: &str,
    values: &[T],
    number: impl Fn(T) -> c_int,
) -> Result<()> {
    if length(capacity.into(), "array length")? < values.len() {
        let why = format!("array {name} too short: {capacity} values, must hold {}", values.len());
        return Err(Error::new(Class::Arg, why));
    }
    // SAFETY: the user's array of at least as many elements.
    let array = unsafe { slice_mut(to, values.len() as i64, name)? };
    array.iter_mut().zip(values).for_each(|(to, &value)| *to = number(value));
    Ok(())
}

fn checked_rank(comm: &Comm, rank: c_int) -> Result<u32> {
    u32::try_from(rank)
        .ok()
        .filter(|&rank| rank < comm.size())
        .ok_or_else(|| not_a_rank(rank, comm.size()))
}

#[cold]
fn not_a_rank(rank: c_int, size: u32) -> Error {
    Error::new(
        Class::Rank,
        format!(
            "invalid rank {rank} on a communicator of {size} processes: must be 0 to {size} - 1"
        ),
    )
}

/// Returns the grid that a call describes, on `size` processes.
unsafe fn described_grid(
    size: u32,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
) -> Result<Cartesian> {
    if ndims < 0 {
        return Err(Error::new(
            Class::Dims,
            format!("invalid ndims {ndims}: must not be negative"),
        ));
    }
    // SAFETY: the user's arrays of `ndims` elements.
    let (dims, periods) =
        unsafe { (slice(dims, ndims.into(), "dims")?, slice(periods, ndims.into(), "periods")?) };
    let periods: Vec<bool> = periods.iter().map(|&period| period != 0).collect();
    Cartesian::new(dims, &periods, size)
}

pub(crate) unsafe fn cart_create(
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: *mut MPI_Comm,
) -> Result<()> {
    let (size, group) = old(comm_old)?;
    not_null(comm_cart, "the new communicator")?;
    // SAFETY: the user's arrays and pointer.
    unsafe {
        let grid = described_grid(size, ndims, dims, periods)?;
        let order = || place_ranks(comm_old.0, &Traffic::of_grid(&grid), Some(&grid));
        let made = first(comm_old, &group, grid.size(), reorder, order)?;
        store(comm_cart, made, Topology::Cartesian(grid))
    }
}

/// Stores the rank that MPI_Cart_create without reordering would give this process. The call is
/// local; therefore it does not know the locations of the others. A grid with an extent of 0 has no
/// processes: the rank is MPI_UNDEFINED, as in other libraries.
pub(crate) unsafe fn cart_map(
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    let (size, _) = old(comm)?;
    // SAFETY: the user's arrays and pointer.
    unsafe {
        let extents = slice(dims, ndims.max(0).into(), "dims")?;
        if extents.contains(&0) && extents.iter().all(|&extent| extent >= 0) {
            return put(newrank, MPI_UNDEFINED, "newrank");
        }
        let members = described_grid(size, ndims, dims, periods)?.size();
        put(newrank, mapped(comm, members)?, "newrank")
    }
}

fn mapped(comm: MPI_Comm, members: u32) -> Result<c_int> {
    let rank = with(|p| p.comm(comm.0).map(Comm::rank))?;
    Ok(if rank < members { rank as c_int } else { MPI_UNDEFINED })
}

pub(crate) unsafe fn cartdim_get(comm: MPI_Comm, ndims: *mut c_int) -> Result<()> {
    let dims = grid(comm, |grid, _| Ok(grid.dims().len()))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(ndims, dims as c_int, "ndims") }
}

pub(crate) unsafe fn cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> Result<()> {
    // SAFETY: the user's arrays of `maxdims` elements.
    grid(comm, |grid, object| unsafe {
        fill(dims, maxdims, "dims", grid.dims(), |extent| extent as c_int)?;
        fill(periods, maxdims, "periods", grid.periods(), c_int::from)?;
        fill(coords, maxdims, "coords", &grid.coords(object.rank()), |coord| coord as c_int)
    })
}

pub(crate) unsafe fn cart_rank(
    comm: MPI_Comm,
    coords: *const c_int,
    rank: *mut c_int,
) -> Result<()> {
    let found = grid(comm, |grid, _| {
        // SAFETY: the user's array of a coordinate for each dimension.
        grid.rank(unsafe { slice(coords, grid.dims().len() as i64, "coords")? })
    })?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(rank, found as c_int, "rank") }
}

pub(crate) unsafe fn cart_coords(
    comm: MPI_Comm,
    rank: c_int,
    maxdims: c_int,
    coords: *mut c_int,
) -> Result<()> {
    grid(comm, |grid, object| {
        let found = grid.coords(checked_rank(object, rank)?);
        // SAFETY: the user's array of `maxdims` elements.
        unsafe { fill(coords, maxdims, "coords", &found, |coord| coord as c_int) }
    })
}

pub(crate) unsafe fn cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> Result<()> {
    let (from, to) = grid(comm, |grid, object| grid.shift(object.rank(), direction, disp))?;
    let plain = |rank: Option<u32>| rank.map_or(MPI_PROC_NULL, |rank| rank as c_int);
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(rank_source, plain(from), "rank_source")?;
        put(rank_dest, plain(to), "rank_dest")
    }
}

pub(crate) unsafe fn cart_sub(
    comm: MPI_Comm,
    remain_dims: *const c_int,
    newcomm: *mut MPI_Comm,
) -> Result<()> {
    not_null(newcomm, "the new communicator")?;
    let sub = grid(comm, |grid, object| {
        // SAFETY: the user's array of a flag for each dimension.
        let remain = unsafe { slice(remain_dims, grid.dims().len() as i64, "remain_dims")? };
        let remain: Vec<bool> = remain.iter().map(|&remains| remains != 0).collect();
        Ok(grid.sub(object.rank(), &remain))
    })?;
    let made = communicator::split(comm.0, Some(sub.color), sub.rank as c_int)?;
    // SAFETY: checked not to be null; valid by the user's promise.
    unsafe { store(newcomm, made, Topology::Cartesian(sub.grid)) }
}

pub(crate) unsafe fn dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> Result<()> {
    if ndims < 0 {
        return Err(Error::new(
            Class::Dims,
            format!("invalid ndims {ndims}: must not be negative"),
        ));
    }
    // SAFETY: the user's array of `ndims` elements.
    balance(nnodes, unsafe { slice_mut(dims, ndims.into(), "dims")? })
}

/// Returns the graph that a call describes, on `size` processes.
unsafe fn described_graph(
    size: u32,
    nnodes: c_int,
    index: *const c_int,
    edges: *const c_int,
) -> Result<Graph> {
    length(nnodes.into(), "nnodes")?;
    // SAFETY: the user's array of `nnodes` elements, the last of which is the
    // length of `edges`.
    unsafe {
        let index = slice(index, nnodes.into(), "indx")?;
        let last = index.last().copied().unwrap_or(0);
        length(last.into(), "last element of indx")?;
        Graph::new(index, slice(edges, last.into(), "edges")?, size)
    }
}

pub(crate) unsafe fn graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> Result<()> {
    let (size, group) = old(comm_old)?;
    not_null(comm_graph, "the new communicator")?;
    // SAFETY: the user's arrays and pointer.
    unsafe {
        let graph = described_graph(size, nnodes, indx, edges)?;
        let order = || place_ranks(comm_old.0, &Traffic::of_graph(&graph), None);
        let made = first(comm_old, &group, graph.size(), reorder, order)?;
        store(comm_graph, made, Topology::Graph(graph))
    }
}

/// Stores the rank that MPI_Graph_create without reordering would give this process.
pub(crate) unsafe fn graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> Result<()> {
    let (size, _) = old(comm)?;
    // SAFETY: the user's arrays and pointer.
    unsafe {
        let members = described_graph(size, nnodes, indx, edges)?.size();
        put(newrank, mapped(comm, members)?, "newrank")
    }
}

pub(crate) unsafe fn graphdims_get(
    comm: MPI_Comm,
    nnodes: *mut c_int,
    nedges: *mut c_int,
) -> Result<()> {
    let (nodes, edges) = graph(comm, |graph, _| Ok((graph.size(), graph.edges().len())))?;
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(nnodes, nodes as c_int, "nnodes")?;
        put(nedges, edges as c_int, "nedges")
    }
}

pub(crate) unsafe fn graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    indx: *mut c_int,
    edges: *mut c_int,
) -> Result<()> {
    // SAFETY: the user's arrays of these lengths.
    graph(comm, |graph, _| unsafe {
        fill(indx, maxindex, "indx", graph.index(), |end| end as c_int)?;
        fill(edges, maxedges, "edges", graph.edges(), |rank| rank as c_int)
    })
}

pub(crate) unsafe fn graph_neighbors_count(
    comm: MPI_Comm,
    rank: c_int,
    nneighbors: *mut c_int,
) -> Result<()> {
    let count =
        graph(comm, |graph, object| Ok(graph.neighbours(checked_rank(object, rank)?).len()))?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(nneighbors, count as c_int, "nneighbors") }
}

pub(crate) unsafe fn graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> Result<()> {
    graph(comm, |graph, object| {
        let found = graph.neighbours(checked_rank(object, rank)?);
        // SAFETY: the user's array of `maxneighbors` elements.
        unsafe { fill(neighbors, maxneighbors, "neighbors", found, |rank| rank as c_int) }
    })
}

pub(crate) unsafe fn topo_test(comm: MPI_Comm, status: *mut c_int) -> Result<()> {
    let kind = with(|p| {
        Ok(match p.comm(comm.0)?.topology() {
            Some(Topology::Cartesian(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
            None => MPI_UNDEFINED,
        })
    })?;
    // SAFETY: null is refused; any other pointer is valid by the user's promise.
    unsafe { put(status, kind, "status") }
}

/// Returns the weights of `degree` edges; `None` for MPI_UNWEIGHTED.
unsafe fn weights_of<'a>(weights: *const c_int, degree: usize) -> Result<Option<&'a [c_int]>> {
    let given = match weights.addr() {
        MPI_UNWEIGHTED => return Ok(None),
        MPI_WEIGHTS_EMPTY if degree > 0 => {
            return Err(Error::new(
                Class::Arg,
                format!(
                    "invalid weights MPI_WEIGHTS_EMPTY for {degree} edges: allowed for 0 edges only"
                ),
            ));
        }
        // SAFETY: the user's array of `degree` elements.
        _ => unsafe { slice(weights, degree as i64, "the weights")? },
    };
    match given.iter().find(|&&weight| weight < 0) {
        Some(weight) => {
            Err(Error::new(Class::Arg, format!("invalid weight {weight}: must not be negative")))
        }
        None => Ok(Some(given)),
    }
}

fn ranks_of(given: &[c_int], size: u32) -> Result<Vec<u32>> {
    let checked = |&rank: &c_int| {
        u32::try_from(rank).ok().filter(|&at| at < size).ok_or_else(|| not_a_rank(rank, size))
    };
    given.iter().map(checked).collect()
}

/// Returns one direction of the edges of MPI_Dist_graph_create_adjacent, and whether they have
/// weights; `None` for a direction without edges.
unsafe fn described_edges(
    size: u32,
    degree: c_int,
    ranks: *const c_int,
    weights: *const c_int,
    name: &str,
) -> Result<(Edges, Option<bool>)> {
    let degree = length(degree.into(), name)?;
    // SAFETY: the user's arrays of `degree` elements.
    let (ranks, weights) =
        unsafe { (slice(ranks, degree as i64, "the neighbors")?, weights_of(weights, degree)?) };
    let edges =
        Edges { ranks: ranks_of(ranks, size)?, weights: weights.unwrap_or_default().to_vec() };
    Ok((edges, (degree > 0 || weights.is_none()).then_some(weights.is_some())))
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    let (size, group) = old(comm_old)?;
    not_null(comm_dist_graph, "the new communicator")?;
    crate::info::optional(info)?;
    // SAFETY: the user's arrays of these lengths, and pointer.
    unsafe {
        let (sources, weighted_in) =
            described_edges(size, indegree, sources, sourceweights, "indegree")?;
        let (destinations, weighted_out) =
            described_edges(size, outdegree, destinations, destweights, "outdegree")?;
        let weighted = agreed(&sources, weighted_in, &destinations, weighted_out)?;
        let graph = DistGraph { sources, destinations, weighted };
        let (made, topology) = with_graph(comm_old, &group, graph, reorder)?;
        store(comm_dist_graph, made, topology)
    }
}

/// Returns whether the edges have weights. Both directions must agree; a direction without edges
/// agrees with the other.
fn agreed(
    sources: &Edges,
    into: Option<bool>,
    destinations: &Edges,
    out: Option<bool>,
) -> Result<bool> {
    match (sources.ranks.is_empty(), destinations.ranks.is_empty()) {
        (false, false) if into != out => Err(Error::new(
            Class::Arg,
            "invalid weights: sourceweights and destweights must both be MPI_UNWEIGHTED, or neither",
        )),
        (false, _) => Ok(into.unwrap_or(true)),
        (true, false) => Ok(out.unwrap_or(true)),
        (true, true) => Ok(into.unwrap_or(true) && out.unwrap_or(true)),
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> Result<()> {
    let (size, group) = old(comm_old)?;
    not_null(comm_dist_graph, "the new communicator")?;
    crate::info::optional(info)?;
    // SAFETY: the user's arrays, and pointer.
    unsafe {
        let (edges, weighted) = named_edges(size, n, sources, degrees, destinations, weights)?;
        let graph = distribute(comm_old.0, &edges, weighted)?;
        let (made, topology) = with_graph(comm_old, &group, graph, reorder)?;
        store(comm_dist_graph, made, topology)
    }
}

/// Returns the edges that a process names in MPI_Dist_graph_create, and whether they have weights.
unsafe fn named_edges(
    size: u32,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
) -> Result<(Vec<Edge>, bool)> {
    length(n.into(), "n")?;
    // SAFETY: the user's arrays: `n` sources and degrees, and as many
    // destinations and weights as the degrees add up to.
    unsafe {
        let sources = ranks_of(slice(sources, n.into(), "sources")?, size)?;
        let degrees = slice(degrees, n.into(), "degrees")?;
        let degrees = degrees
            .iter()
            .map(|&degree| length(degree.into(), "degree"))
            .collect::<Result<Vec<usize>>>()?;
        let all: usize = degrees.iter().sum();
        let ends = ranks_of(slice(destinations, all as i64, "destinations")?, size)?;
        let weights = weights_of(weights, all)?;
        let begins = sources
            .iter()
            .zip(&degrees)
            .flat_map(|(&source, &degree)| std::iter::repeat_n(source, degree));
        let edges = begins.zip(ends).enumerate().map(|(at, (source, destination))| {
            let weight = weights.map_or(1, |weights| weights[at]);
            Edge { source, destination, weight }
        });
        Ok((edges.collect(), weights.is_some()))
    }
}

pub(crate) unsafe fn dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> Result<()> {
    let (into, out, has_weights) = dist_graph(comm, |graph| {
        Ok((graph.sources.ranks.len(), graph.destinations.ranks.len(), graph.weighted))
    })?;
    // SAFETY: null is refused; other pointers are valid by the user's promise.
    unsafe {
        put(indegree, into as c_int, "indegree")?;
        put(outdegree, out as c_int, "outdegree")?;
        put(weighted, c_int::from(has_weights), "weighted")
    }
}

#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> Result<()> {
    // SAFETY: the user's arrays of these lengths.
    dist_graph(comm, |graph| unsafe {
        put_edges(&graph.sources, maxindegree, sources, sourceweights, "maxindegree")?;
        put_edges(&graph.destinations, maxoutdegree, destinations, destweights, "maxoutdegree")
    })
}

/// Stores the first edges, as many as the arrays hold (MPI-5.0 §8.5.5).
unsafe fn put_edges(
    edges: &Edges,
    capacity: c_int,
    ranks: *mut c_int,
    weights: *mut c_int,
    name: &str,
) -> Result<()> {
    let count = length(capacity.into(), name)?.min(edges.ranks.len());
    // SAFETY: the user's arrays of `capacity` elements; weights are not looked at
    // when there are none, or when the user wants none.
    unsafe {
        fill(ranks, count as c_int, "the neighbors", &edges.ranks[..count], |rank| rank as c_int)?;
        if edges.weights.is_empty() || weights.addr() == MPI_UNWEIGHTED {
            return Ok(());
        }
        fill(weights, count as c_int, "the weights", &edges.weights[..count], |weight| weight)
    }
}
