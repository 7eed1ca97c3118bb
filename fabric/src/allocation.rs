//! Allocation of much memory or storage by a call that a signal undoes.

use std::io;

/// Least bytes of a piece.
const MIN_PIECE: u64 = 4096;

/// Allocates `bytes` by `call`, which gets an offset and a length. A signal interrupts the call,
/// and a file system in memory then gives all of it back: pieces shrink until one ends between two
/// signals of a timer.
pub fn allocate(bytes: u64, mut call: impl FnMut(u64, u64) -> io::Result<()>) -> io::Result<()> {
    let (mut start, mut piece) = (0, bytes);
    while start < bytes {
        let len = piece.min(bytes - start);
        match call(start, len) {
            Ok(()) => {
                start += len;
                piece = len.saturating_mul(2);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                piece = (len / 2).max(MIN_PIECE);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::ErrorKind::{Interrupted, StorageFull};

    #[test]
    fn an_allocation_that_signals_interrupt_goes_on() {
        // The third call of each four ends early, as all calls of more than 1 MiB.
        let size = (16 << 20) + 5;
        let (mut calls, mut end) = (0, 0);
        let done = allocate(size, |start, len| {
            calls += 1;
            assert!(start == end && len > 0 && start + len <= size);
            if calls % 4 == 3 || len > 1 << 20 {
                return Err(Interrupted.into());
            }
            end += len;
            Ok(())
        });
        assert!(done.is_ok() && end == size && calls < 100, "{done:?}, {end} in {calls} calls");
        let full = allocate(size, |_, _| Err(StorageFull.into())).unwrap_err();
        assert_eq!(full.kind(), StorageFull);
    }
}
