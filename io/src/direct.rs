//! Direct access (O_DIRECT, hints `direct_read` and `direct_write`): which bytes of an access can
//! go past the cache of the system.
//!
//! Direct calls need offset, length and address to be multiples of a block. Therefore an access is
//! cut in three: the whole blocks in its middle move directly, and a head and a tail through the
//! cache, by another descriptor of the same file. A head or tail shares no page with the middle, so
//! that the system keeps both in step.

/// Bytes that offset, length and address of a direct call are multiples of: a page, and at least a
/// block of the usual disks.
pub(crate) const BLOCK: usize = 4096;

/// A part of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Bytes of the access before it.
    pub(crate) start: usize,
    /// Its bytes.
    pub(crate) len: usize,
    /// It consists of whole blocks.
    pub(crate) is_direct: bool,
}

/// Returns head, middle and tail of an access; each may be empty.
pub(crate) fn parts(offset: i64, len: usize) -> [Part; 3] {
    let past_border = offset.rem_euclid(BLOCK as i64) as usize;
    let head = ((BLOCK - past_border) % BLOCK).min(len);
    let middle = (len - head) / BLOCK * BLOCK;
    let tail = len - head - middle;
    [
        Part { start: 0, len: head, is_direct: false },
        Part { start: head, len: middle, is_direct: true },
        Part { start: head + middle, len: tail, is_direct: false },
    ]
}

/// Returns true if an access consists of whole blocks of file and memory.
pub(crate) fn is_whole(offset: i64, address: u64, len: usize) -> bool {
    let block = BLOCK as u64;
    (offset as u64 | address | len as u64).is_multiple_of(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_are_direct_and_nothing_is_lost() {
        for offset in [0, 1, 4095, 4096, 4097, 10_000, (1 << 40) + 5] {
            for len in [0, 1, 4094, 4095, 4096, 8191, 8192, 20_000] {
                let parts = parts(offset, len);
                assert_eq!(parts.iter().map(|part| part.len).sum::<usize>(), len);
                let mut at = 0;
                for part in parts {
                    assert_eq!(part.start, at);
                    at += part.len;
                    if part.is_direct && part.len > 0 {
                        assert_eq!((offset as usize + part.start) % BLOCK, 0);
                        assert_eq!(part.len % BLOCK, 0);
                    } else {
                        assert!(part.len < BLOCK);
                    }
                }
            }
        }
        assert!(parts(1 << 20, 1 << 20)[1].len == 1 << 20);
        assert!(is_whole(8192, 4096, 4096) && is_whole(0, 0, 0));
        assert!(!is_whole(1, 4096, 4096) && !is_whole(0, 512, 4096) && !is_whole(0, 0, 5000));
    }
}
