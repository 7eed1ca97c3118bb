//! Assigns processes to the nodes of a topology (`reorder`, MPI-5.0 §8.5). Heavy edges are kept
//! within a host, a package, a NUMA node or a cache.
//!
//! Every process computes the same result from the same input. There are three proposals; the
//! cheapest is taken, and the earlier one of two with equal cost:
//!
//! 1. the ranks in their order;
//! 2. for grids whose extents divide well: blocks of neighbouring cells, each of
//!    the machine's parts cut into blocks for the parts in it;
//! 3. for any graph: each part grows by the node with the heaviest edges to it.
//!
//! It does not search for the optimum, which is NP-hard.

use super::{Cartesian, Graph};

/// Number of levels of a machine that a placement considers.
pub const LEVELS: usize = 4;

/// The location of a process: numbers of its host, package, NUMA node and cache. Processes are in
/// the same part if the number is the same.
pub type Location = [i64; LEVELS];

/// Weight of the edges that cross from part to part, for each level. Outer levels decide first.
pub type Cost = [u64; LEVELS];

/// The edges of a graph: for each node its neighbours and the weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic(Vec<Vec<(u32, u64)>>);

impl Traffic {
    /// Makes the edges of a grid, with equal weights.
    pub fn of_grid(grid: &Cartesian) -> Traffic {
        let neighbours =
            |node| grid.neighbours(node).into_iter().flatten().map(|other| (other, 1)).collect();
        Traffic((0..grid.size()).map(neighbours).collect())
    }

    /// Makes the edges of a graph.
    pub fn of_graph(graph: &Graph) -> Traffic {
        let neighbours = |node| graph.neighbours(node).iter().map(|&other| (other, 1)).collect();
        Traffic((0..graph.size()).map(neighbours).collect())
    }

    /// Makes the edges from a list; edges to nodes out of range are ignored.
    pub fn of_edges(nodes: u32, edges: impl IntoIterator<Item = (u32, u32, u64)>) -> Traffic {
        let mut all = vec![Vec::new(); nodes as usize];
        for (from, to, weight) in
            edges.into_iter().filter(|&(from, to, _)| from < nodes && to < nodes)
        {
            all[from as usize].push((to, weight));
        }
        Traffic(all)
    }

    fn nodes(&self) -> u32 {
        self.0.len() as u32
    }

    /// Returns the edges with each one in both directions.
    fn both_ways(&self) -> Traffic {
        let edges = (0u32..)
            .zip(&self.0)
            .flat_map(|(from, to)| to.iter().map(move |&(to, weight)| (from, to, weight)));
        Traffic::of_edges(
            self.nodes(),
            edges.flat_map(|(from, to, weight)| [(from, to, weight), (to, from, weight)]),
        )
    }
}

/// Returns for each node its process, out of the first processes of `places`; there must be as many
/// as nodes. `grid` is given if the traffic is that of a grid.
pub fn place(places: &[Location], traffic: &Traffic, grid: Option<&Cartesian>) -> Vec<u32> {
    let nodes = traffic.nodes();
    let places = &places[..nodes as usize];
    let as_they_are: Vec<u32> = (0..nodes).collect();
    if places.iter().all(|place| *place == places[0]) {
        return as_they_are;
    }
    let mut by_place = as_they_are.clone();
    by_place.sort_by_key(|&process| places[process as usize]);
    let blocks = grid.map(|grid| zip(&blocks(grid, &parts(places, &by_place)), &by_place));
    let grown = zip(&grown(places, &traffic.both_ways(), &by_place), &by_place);
    let proposals = [Some(as_they_are), blocks, Some(grown)].into_iter().flatten();
    proposals.min_by_key(|order| cost(places, traffic, order)).unwrap_or_default()
}

/// Returns the cost if node `n` is process `order[n]`.
pub fn cost(places: &[Location], traffic: &Traffic, order: &[u32]) -> Cost {
    let mut cost = [0; LEVELS];
    let place = |node: u32| &places[order[node as usize] as usize];
    for (node, edges) in (0u32..).zip(&traffic.0) {
        for &(other, weight) in edges {
            if let Some(level) =
                (0..LEVELS).find(|&level| place(node)[level] != place(other)[level])
            {
                cost[level] += weight;
            }
        }
    }
    cost
}

/// Assigns the first node to the first process, and so on.
fn zip(nodes: &[u32], processes: &[u32]) -> Vec<u32> {
    let mut order = vec![0; nodes.len()];
    nodes.iter().zip(processes).for_each(|(&node, &process)| order[node as usize] = process);
    order
}

/// Returns how many parts of the next level each part has, if all parts have equally many of one
/// size. Otherwise returns 1, as if the level did not exist.
fn parts(places: &[Location], by_place: &[u32]) -> [u32; LEVELS] {
    let all = by_place.len() as u32;
    let mut found = [1; LEVELS];
    let mut so_far = 1;
    for level in 0..LEVELS {
        let same =
            |a: &u32, b: &u32| places[*a as usize][..=level] == places[*b as usize][..=level];
        let sizes: Vec<usize> = by_place.chunk_by(same).map(<[u32]>::len).collect();
        let count = sizes.len() as u32;
        if sizes.iter().all(|size| *size == sizes[0])
            && count.is_multiple_of(so_far)
            && all.is_multiple_of(count)
        {
            found[level] = count / so_far;
            so_far = count;
        }
    }
    found
}

/// Returns the cells of a grid, block by block: the outermost level's blocks in row-major order, in
/// each of them the blocks of the next level.
fn blocks(grid: &Cartesian, parts: &[u32; LEVELS]) -> Vec<u32> {
    let mut extents = grid.dims().to_vec();
    let mut open = grid.periods().to_vec();
    let cuts: Vec<Vec<u32>> = parts
        .iter()
        .map(|&parts| {
            let cut = best_cut(&extents, &open, parts);
            for ((extent, open), pieces) in extents.iter_mut().zip(&mut open).zip(&cut) {
                *extent /= pieces;
                // A ring that is cut is no ring within a block.
                *open &= *pieces == 1;
            }
            cut
        })
        .collect();
    let mut cells: Vec<u32> = (0..grid.size()).collect();
    cells.sort_by_cached_key(|&cell| {
        let mut rest = grid.coords(cell);
        let mut size = grid.dims().to_vec();
        let mut key = Vec::new();
        for cut in &cuts {
            for (at, pieces) in cut.iter().enumerate() {
                size[at] /= pieces;
                key.push(rest[at] / size[at]);
                rest[at] %= size[at];
            }
        }
        key.extend(rest);
        key
    });
    cells
}

/// Returns the number of pieces of each dimension so that there are `parts` blocks and the fewest
/// edges are cut. Returns 1 for each if no cut is even.
fn best_cut(extents: &[u32], rings: &[bool], parts: u32) -> Vec<u32> {
    let volume: u64 = extents.iter().map(|&extent| u64::from(extent)).product();
    let mut best = (u64::MAX, vec![1; extents.len()]);
    let mut cut = Vec::with_capacity(extents.len());
    try_cuts(extents, parts, &mut cut, &mut |cut| {
        let crossing = |at: usize| {
            let seams = cut[at] - u32::from(!rings[at] || cut[at] == 1);
            u64::from(seams) * (volume / u64::from(extents[at]))
        };
        let cost = (0..cut.len()).map(crossing).sum();
        if cost < best.0 {
            best = (cost, cut.to_vec());
        }
    });
    best.1
}

/// Returns all products of divisors of the extents that give `parts`.
fn try_cuts(extents: &[u32], parts: u32, cut: &mut Vec<u32>, each: &mut impl FnMut(&[u32])) {
    let Some((&extent, rest)) = extents.split_first() else {
        if parts == 1 {
            each(cut);
        }
        return;
    };
    for pieces in (1..=parts.min(extent))
        .filter(|&pieces| parts.is_multiple_of(pieces) && extent.is_multiple_of(pieces))
    {
        cut.push(pieces);
        try_cuts(rest, parts / pieces, cut, each);
        cut.pop();
    }
}

/// Returns the nodes in the order of the processes `by_place`.
fn grown(places: &[Location], traffic: &Traffic, by_place: &[u32]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..traffic.nodes()).collect();
    grow(places, traffic, by_place, &mut order, 0);
    order
}

/// Distributes `nodes` over the parts of `level` that `processes` are in, then within each part.
fn grow(
    places: &[Location],
    traffic: &Traffic,
    processes: &[u32],
    nodes: &mut [u32],
    level: usize,
) {
    if level == LEVELS || nodes.len() < 2 {
        return;
    }
    let mut free = nodes.to_vec();
    let mut begin = 0;
    for part in processes.chunk_by(|&a, &b| places[a as usize][level] == places[b as usize][level])
    {
        let chosen = &mut nodes[begin..begin + part.len()];
        if part.len() == free.len() {
            chosen.copy_from_slice(&free);
        } else {
            pick(traffic, &mut free, chosen);
        }
        grow(places, traffic, part, chosen, level + 1);
        begin += part.len();
    }
}

/// Moves `chosen.len()` nodes out of `free`: first the one with the lightest edges to the others,
/// then always the one with the heaviest edges to the chosen nodes. Of several, the one with the
/// lightest edges to the others is taken.
fn pick(traffic: &Traffic, free: &mut Vec<u32>, chosen: &mut [u32]) {
    let mut is_free = vec![false; traffic.0.len()];
    free.iter().for_each(|&node| is_free[node as usize] = true);
    let mut within = vec![0u64; traffic.0.len()];
    let hangs = |node: u32, is_free: &[bool]| -> u64 {
        let others = traffic.0[node as usize].iter();
        others
            .filter(|(other, _)| is_free[*other as usize] && *other != node)
            .map(|(_, weight)| weight)
            .sum()
    };
    let mut outside: Vec<u64> =
        (0..traffic.0.len() as u32).map(|node| hangs(node, &is_free)).collect();
    for place in chosen.iter_mut() {
        let best =
            |&node: &u32| (std::cmp::Reverse(within[node as usize]), outside[node as usize], node);
        let Some(node) =
            free.iter().copied().filter(|&node| is_free[node as usize]).min_by_key(best)
        else {
            return;
        };
        *place = node;
        is_free[node as usize] = false;
        for &(other, weight) in traffic.0[node as usize].iter().filter(|(other, _)| *other != node)
        {
            within[other as usize] += weight;
            outside[other as usize] = outside[other as usize].saturating_sub(weight);
        }
    }
    free.retain(|&node| is_free[node as usize]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `hosts` hosts of `packages` packages of `cores` processes, dealt in turn
    /// (`round_robin`) or one after the other.
    fn machine(hosts: i64, packages: i64, cores: i64, round_robin: bool) -> Vec<Location> {
        (0..hosts * packages * cores)
            .map(|process| {
                let package =
                    if round_robin { process % (hosts * packages) } else { process / cores };
                [package / packages, package, package, package]
            })
            .collect()
    }

    fn grid(dims: &[i32], periods: &[bool]) -> Cartesian {
        Cartesian::new(dims, periods, 1 << 20).unwrap()
    }

    fn placed(places: &[Location], grid: &Cartesian) -> (Cost, Cost) {
        let traffic = Traffic::of_grid(grid);
        let order = place(places, &traffic, Some(grid));
        let same: Vec<u32> = (0..grid.size()).collect();
        (cost(places, &traffic, &same), cost(places, &traffic, &order))
    }

    #[test]
    fn a_square_on_four_packages_falls_into_four_squares() {
        let square = grid(&[4, 4], &[false, false]);
        assert_eq!(placed(&machine(1, 4, 4, false), &square), ([0, 24, 0, 0], [0, 16, 0, 0]));
        // Dealt in turn, every edge along a row crosses, and none along a column.
        assert_eq!(placed(&machine(1, 4, 4, true), &square), ([0, 24, 0, 0], [0, 16, 0, 0]));
    }

    #[test]
    fn a_cube_is_halved_for_hosts_and_again_for_packages() {
        let cube = grid(&[4, 4, 4], &[false; 3]);
        let (before, after) = placed(&machine(2, 4, 8, true), &cube);
        assert_eq!(after, [32, 64, 0, 0], "one cut through the middle, then two in each half");
        assert!(after < before);
    }

    #[test]
    fn a_ring_is_cut_in_as_few_places_as_there_are_parts() {
        let ring = grid(&[12], &[true]);
        assert_eq!(placed(&machine(3, 1, 4, true), &ring), ([24, 0, 0, 0], [6, 0, 0, 0]));
    }

    #[test]
    fn one_package_leaves_all_ranks_in_place() {
        let square = grid(&[4, 4], &[true, true]);
        assert_eq!(
            place(&machine(1, 1, 16, false), &Traffic::of_grid(&square), Some(&square)),
            Vec::from_iter(0..16)
        );
    }

    #[test]
    fn cliques_come_together() {
        // Nodes of the same number modulo 4 exchange messages.
        let edges = (0..16).flat_map(|a| {
            (0..16).filter(move |b| a % 4 == b % 4 && a != *b).map(move |b| (a, b, 5))
        });
        let traffic = Traffic::of_edges(16, edges);
        let places = machine(2, 2, 4, false);
        let order = place(&places, &traffic, None);
        assert_eq!(cost(&places, &traffic, &order), [0; LEVELS]);
    }

    #[test]
    fn heavy_edges_stay_inside_and_light_ones_cross() {
        let traffic = Traffic::of_edges(4, [(0, 2, 100), (1, 3, 100), (0, 1, 1), (2, 3, 1)]);
        let places = machine(2, 1, 2, false);
        let order = place(&places, &traffic, None);
        assert_eq!(cost(&places, &traffic, &order), [2, 0, 0, 0]);
    }

    fn places_of(count: usize) -> impl Strategy<Value = Vec<Location>> {
        prop::collection::vec((0..3_i64, 0..2_i64, 0..2_i64, 0..2_i64), count).prop_map(|parts| {
            let nested = |(host, package, node, cache)| {
                let package = 2 * host + package;
                let node = 2 * package + node;
                [host, package, node, 2 * node + cache]
            };
            parts.into_iter().map(nested).collect()
        })
    }

    fn check(
        places: &[Location],
        traffic: &Traffic,
        grid: Option<&Cartesian>,
    ) -> std::result::Result<(), TestCaseError> {
        let order = place(places, traffic, grid);
        let same: Vec<u32> = (0..traffic.nodes()).collect();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        prop_assert_eq!(&sorted, &same, "each process gets one node");
        prop_assert!(cost(places, traffic, &order) <= cost(places, traffic, &same));
        Ok(())
    }

    proptest! {
        #[test]
        fn no_grid_is_placed_worse_than_it_was(
            dims in prop::collection::vec((1..7_i32, any::<bool>()), 1..4), places in places_of(216),
        ) {
            let (dims, periods): (Vec<i32>, Vec<bool>) = dims.into_iter().unzip();
            let grid = grid(&dims, &periods);
            check(&places, &Traffic::of_grid(&grid), Some(&grid))?;
        }

        #[test]
        fn no_graph_is_placed_worse_than_it_was(
            edges in prop::collection::vec((0..20_u32, 0..20_u32, 0..9_u64), 0..80), places in places_of(20),
        ) {
            check(&places, &Traffic::of_edges(20, edges), None)?;
        }
    }
}
