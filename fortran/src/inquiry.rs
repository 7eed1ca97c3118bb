//! Sizes of arrays that a call does not pass.

use crate::prelude::*;
use crate::target::{CART, DIST_GRAPH, GRAPH};

/// Processes that a call on this communicator exchanges data with: of an intercommunicator the
/// remote ones.
pub(crate) unsafe fn peers(comm: c_int) -> i64 {
    let comm = MPI_Comm::from_fortran(comm);
    let (mut is_inter, mut size) = (0, 0);
    // SAFETY: the addresses of local numbers; a wrong handle is refused.
    unsafe {
        if c::PMPI_Comm_test_inter(comm, &raw mut is_inter) != SUCCESS {
            return 0;
        }
        let code = match is_inter {
            0 => c::PMPI_Comm_size(comm, &raw mut size),
            _ => c::PMPI_Comm_remote_size(comm, &raw mut size),
        };
        if code == SUCCESS { i64::from(size) } else { 0 }
    }
}

/// In- and outdegree of this process in the communicator's topology.
pub(crate) unsafe fn neighbors(comm: c_int) -> (i64, i64) {
    let comm = MPI_Comm::from_fortran(comm);
    let (mut kind, mut one, mut other, mut weighted, mut rank) = (0, 0, 0, 0, 0);
    // SAFETY: the addresses of local numbers; a wrong handle is refused.
    let code = unsafe {
        match c::PMPI_Topo_test(comm, &raw mut kind) {
            SUCCESS => {}
            _ => return (0, 0),
        }
        match kind {
            CART => {
                let code = c::PMPI_Cartdim_get(comm, &raw mut one);
                one *= 2;
                other = one;
                code
            }
            GRAPH => {
                c::PMPI_Comm_rank(comm, &raw mut rank);
                let code = c::PMPI_Graph_neighbors_count(comm, rank, &raw mut one);
                other = one;
                code
            }
            DIST_GRAPH => c::PMPI_Dist_graph_neighbors_count(
                comm,
                &raw mut one,
                &raw mut other,
                &raw mut weighted,
            ),
            _ => SUCCESS,
        }
    };
    if code == SUCCESS { (i64::from(one), i64::from(other)) } else { (0, 0) }
}

/// Dimensions of a Cartesian topology.
pub(crate) unsafe fn cart_dimensions(comm: c_int) -> i64 {
    let mut dimensions = 0;
    // SAFETY: the address of a local number; a wrong handle is refused.
    let code = unsafe { c::PMPI_Cartdim_get(MPI_Comm::from_fortran(comm), &raw mut dimensions) };
    if code == SUCCESS { i64::from(dimensions) } else { 0 }
}
