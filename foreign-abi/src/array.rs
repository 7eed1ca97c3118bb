//! Arrays of handles and of values, and how long they are where no argument says it.

use std::collections::HashSet;
use std::os::raw::{c_int, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::abi::Standard;
use crate::handle::Handle;
use crate::library::library;
use crate::target::IN_PLACE;

/// MPI_CART, MPI_GRAPH and MPI_DIST_GRAPH of the standard ABI.
const CART: c_int = 211;
const GRAPH: c_int = 212;
const DIST_GRAPH: c_int = 213;

/// The user's array; empty if there is none, as where a count is wrong.
///
/// # Safety
/// `array` has `count` elements, unless it is null.
pub(crate) unsafe fn slice<'a, T>(array: *const T, count: c_int) -> &'a [T] {
    match usize::try_from(count) {
        // SAFETY: the caller's promise.
        Ok(count) if !array.is_null() => unsafe { std::slice::from_raw_parts(array, count) },
        _ => &[],
    }
}

/// The address of an array of ours; null if it is empty, as the user's may be that it stands for.
pub(crate) fn address<T>(array: &[T]) -> *const T {
    if array.is_empty() { std::ptr::null() } else { array.as_ptr() }
}

/// The standard ABI's handles for the user's.
///
/// # Safety
/// As for [`slice()`].
pub(crate) unsafe fn handles<H: Handle>(array: *const H, count: c_int) -> Vec<Standard> {
    // SAFETY: the caller's promise.
    unsafe { slice(array, count) }.iter().map(|handle| handle.to_standard()).collect()
}

/// As [`handles`], for operations that use the array until they are complete: equal arrays are made
/// once, and kept.
///
/// # Safety
/// As for [`slice()`].
pub(crate) unsafe fn interned<H: Handle>(array: *const H, count: c_int) -> &'static [Standard] {
    static KNOWN: LazyLock<Mutex<HashSet<&'static [Standard]>>> = LazyLock::new(Mutex::default);
    // SAFETY: the caller's promise.
    let handles = unsafe { handles(array, count) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = known.get(handles.as_slice()) {
        return kept;
    }
    let kept: &'static [Standard] = handles.leak();
    known.insert(kept);
    kept
}

/// The standard ABI's values for the user's.
///
/// # Safety
/// As for [`slice()`].
pub(crate) unsafe fn values(
    array: *const c_int,
    count: c_int,
    convert: fn(c_int) -> c_int,
) -> Vec<c_int> {
    // SAFETY: the caller's promise.
    unsafe { slice(array, count) }.iter().map(|&value| convert(value)).collect()
}

/// How many types a call on all processes of `comm` takes: one for each process, of the other
/// group if there are two. None where the buffer is MPI_IN_PLACE, which is not read with them.
pub(crate) fn peers(buffer: *const c_void, comm: Standard) -> c_int {
    if buffer.addr() == IN_PLACE {
        return 0;
    }
    let (mut size, mut is_inter) = (0, 0);
    // SAFETY: numbers of ours. An error leaves no types; the call itself then reports it.
    unsafe {
        (library().PMPI_Comm_test_inter)(comm, &raw mut is_inter);
        match is_inter {
            0 => (library().PMPI_Comm_size)(comm, &raw mut size),
            _ => (library().PMPI_Comm_remote_size)(comm, &raw mut size),
        };
    }
    size
}

/// The neighbors of this process.
#[derive(Clone, Copy, Default)]
pub(crate) struct Neighbors {
    pub(crate) sources: c_int,
    pub(crate) destinations: c_int,
}

impl Neighbors {
    pub(crate) fn of(comm: Standard) -> Neighbors {
        let (mut kind, mut count, mut out, mut weighted) = (0, 0, 0, 0);
        // SAFETY: numbers of ours. An error leaves no types; the call itself then reports it.
        unsafe {
            (library().PMPI_Topo_test)(comm, &raw mut kind);
            match kind {
                CART => {
                    (library().PMPI_Cartdim_get)(comm, &raw mut count);
                    (count, out) = (2 * count, 2 * count);
                }
                GRAPH => {
                    let mut rank = 0;
                    (library().PMPI_Comm_rank)(comm, &raw mut rank);
                    (library().PMPI_Graph_neighbors_count)(comm, rank, &raw mut count);
                    out = count;
                }
                DIST_GRAPH => {
                    (library().PMPI_Dist_graph_neighbors_count)(
                        comm,
                        &raw mut count,
                        &raw mut out,
                        &raw mut weighted,
                    );
                }
                _ => {}
            }
        }
        Neighbors { sources: count, destinations: out }
    }
}
