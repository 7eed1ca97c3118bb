//! The file system of an open file: its kind, and the units that it stores data in.
//!
//! The kind is that of statfs(2). Unknown ones are treated as plain POSIX. A stripe of Lustre is
//! read from the attribute `lustre.lov`, which its client answers without a library.

use std::path::Path;

use crate::access::Direction;
use crate::disk::{self, Disk};
use crate::lustre::stripes_of;

/// A kind of file system, by what the library does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Memory of this host.
    Memory,
    /// A disk that only this host writes.
    Disk,
    /// Clients cache data until a lock makes them look again.
    Nfs,
    /// Files are divided into stripes over servers.
    Lustre,
    /// Another one that several hosts share, with coherent caches.
    Parallel,
    /// Not known.
    Other,
}

/// Numbers of statfs(2), names, and kinds.
const KNOWN: [(i64, &str, Kind); 14] = [
    (0x0102_1994, "tmpfs", Kind::Memory),
    (0xef53, "ext4", Kind::Disk),
    (0x5846_5342, "xfs", Kind::Disk),
    (0x9123_683e, "btrfs", Kind::Disk),
    (0x2fc1_2fc1, "zfs", Kind::Disk),
    (0x794c_7630, "overlayfs", Kind::Disk),
    (0xf2f5_2010, "f2fs", Kind::Disk),
    (0x6969, "nfs", Kind::Nfs),
    (0x0bd0_0bd0, "lustre", Kind::Lustre),
    (0x4750_4653, "gpfs", Kind::Parallel),
    (0x1983_0326, "beegfs", Kind::Parallel),
    (0x00c3_6400, "ceph", Kind::Parallel),
    (0x6573_5546, "fuse", Kind::Other),
    (0x0102_1997, "9p", Kind::Other),
];

/// What is known of the file system of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Bytes of a stripe or of a block of a parallel file system, 0 if unknown.
    pub(crate) unit: u64,
    /// Number of servers that the file is divided over, 0 if unknown.
    pub(crate) stripes: u64,
}

impl FileSystem {
    /// Finds the file system of an open file. A system that does not answer is an unknown one.
    pub(crate) fn of(disk: &Disk) -> FileSystem {
        let (magic, block) = disk.file_system().unwrap_or((0, 0));
        let (name, kind) = kind_of(magic);
        let (mut unit, mut stripes) = (0, 0);
        if kind == Kind::Lustre
            && let Some(layout) = disk.attribute(c"lustre.lov").as_deref().and_then(stripes_of)
        {
            (unit, stripes) = layout;
        } else if matches!(kind, Kind::Lustre | Kind::Parallel) {
            unit = block;
        }
        FileSystem { name, kind, unit, stripes }
    }

    /// Returns the longest range, bytes, in which each member reads its pieces by itself, however
    /// small they are: one read of the system's cache, holes and all, costs less than an exchange.
    pub(crate) fn direct_range(&self) -> u64 {
        match self.kind {
            Kind::Memory | Kind::Disk => 64 << 10,
            Kind::Other | Kind::Nfs | Kind::Lustre | Kind::Parallel => 0,
        }
    }

    /// Returns the smallest mean piece, bytes, that each member moves by itself where the ranges of
    /// members interleave.
    ///
    /// A write locks the file, and on a disk looks at all blocks of the folio that it changes: up
    /// to 512 blocks where a large write made the folio. A parallel file system locks whole units,
    /// which move from host to host if pieces share them.
    pub(crate) fn direct_min(&self, direction: Direction) -> u64 {
        match (self.kind, direction) {
            (Kind::Memory, _) | (Kind::Disk | Kind::Other, Direction::Read) => 4 << 10,
            (Kind::Disk | Kind::Other, Direction::Write) => 16 << 10,
            (Kind::Nfs | Kind::Lustre | Kind::Parallel, Direction::Read) => 64 << 10,
            (Kind::Nfs | Kind::Lustre | Kind::Parallel, Direction::Write) => self.unit.max(1 << 20),
        }
    }
}

/// Returns true if files of a folder lie on Lustre.
pub(crate) fn is_lustre(folder: &Path) -> bool {
    disk::file_system_of(folder).is_some_and(|magic| kind_of(magic).1 == Kind::Lustre)
}

fn kind_of(magic: i64) -> (&'static str, Kind) {
    let known = KNOWN.iter().find(|(number, ..)| *number == magic & 0xffff_ffff);
    known.map_or(("unknown", Kind::Other), |&(_, name, kind)| (name, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_number() {
        assert_eq!(kind_of(0x0102_1994), ("tmpfs", Kind::Memory));
        assert_eq!(kind_of(0x6969), ("nfs", Kind::Nfs));
        // Where the system's number is a 32-bit word with a sign.
        assert_eq!(kind_of(i64::from(0x9123_683e_u32 as i32)), ("btrfs", Kind::Disk));
        assert_eq!(kind_of(1), ("unknown", Kind::Other));
    }

    #[test]
    fn members_move_smaller_pieces_themselves_where_calls_are_cheap() {
        let of = |kind, unit| {
            let found = FileSystem { name: "", kind, unit, stripes: 0 };
            [Direction::Read, Direction::Write].map(|direction| found.direct_min(direction) >> 10)
        };
        assert_eq!(of(Kind::Memory, 0), [4, 4]);
        assert_eq!(of(Kind::Disk, 0), [4, 16]);
        assert_eq!(of(Kind::Nfs, 0), [64, 1024]);
        assert_eq!(of(Kind::Lustre, 4 << 20), [64, 4096]);
    }
}
