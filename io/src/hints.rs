//! Hints of a file: keys of an info object that change how it is accessed (MPI-5.0 §14.2.8), under
//! the names that ROMIO made known.
//!
//! A value that makes no sense is ignored, as the standard demands of hints. Collective accesses
//! use those of rank 0.

use objects::{Info, Result};

use crate::access::Direction;
use crate::disk::Direct;
use crate::file_system::FileSystem;

/// Whether something is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Switch {
    /// The library decides.
    Automatic,
    /// Always.
    Enable,
    /// Never.
    Disable,
}

impl Switch {
    const ALL: [(Switch, &'static str); 3] = [
        (Switch::Automatic, "automatic"),
        (Switch::Enable, "enable"),
        (Switch::Disable, "disable"),
    ];

    fn from_text(text: &str) -> Option<Switch> {
        let known = Switch::ALL.iter().find(|(_, name)| text.trim().eq_ignore_ascii_case(name));
        known.map(|&(switch, _)| switch)
    }

    /// Returns the switch of the number that `as` makes of it.
    pub(crate) fn from_number(number: i64) -> Switch {
        let known = Switch::ALL.iter().find(|(switch, _)| *switch as i64 == number);
        known.map_or(Switch::Automatic, |&(switch, _)| switch)
    }

    fn name(self) -> &'static str {
        Switch::ALL[self as usize].1
    }
}

/// The hints in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hints {
    /// Permissions of a file that is created.
    pub file_perm: u32,
    /// Aggregators of collective accesses.
    pub cb_nodes: u64,
    /// The user has set their number.
    has_cb_nodes: bool,
    /// Most aggregators of a host, if the user has set it.
    per_host: Option<u64>,
    /// Bytes that an aggregator moves in a round.
    pub cb_buffer_size: u64,
    /// Collective writes through aggregators.
    pub cb_write: Switch,
    /// Collective reads through aggregators.
    pub cb_read: Switch,
    /// Small pieces are read with the holes between them.
    pub ds_read: Switch,
    /// Small pieces are written with the holes between them, under a lock that all writers take.
    pub ds_write: Switch,
    /// Most bytes that are read at once for pieces with holes.
    pub ind_rd_buffer_size: u64,
    /// Most bytes that are written back at once for pieces with holes.
    pub ind_wr_buffer_size: u64,
    /// Bytes that borders between aggregators are multiples of, 0 for those of a page.
    pub striping_unit: u64,
    /// Number of servers that the file is divided over, 0 if unknown; a wish until it is open.
    pub striping_factor: u64,
    /// What goes past the cache of the system; fixed when the file is open.
    pub(crate) direct: Direct,
    /// Smallest mean pieces, bytes, that each member reads and writes by itself where the ranges of
    /// members interleave.
    direct_mins: [u64; 2],
    /// Longest range in which each member reads its pieces by itself.
    direct_range: u64,
    /// The file system; `None` until the file is open.
    pub(crate) file_system: Option<&'static str>,
}

/// Most bytes of `ind_rd_buffer_size` and `ind_wr_buffer_size`.
const MAX_SIEVE_BYTES: u64 = 64 << 20;
/// Most bytes of `striping_unit`.
const MAX_STRIPE_BYTES: u64 = 1 << 40;
/// Most aggregators unless a hint sets another number.
const MAX_AGGREGATORS: u64 = 4;

impl Hints {
    /// Returns the hints of a file that `members` processes opened, before any is given.
    pub fn new(members: u32) -> Hints {
        Hints {
            file_perm: 0o666,
            cb_nodes: u64::from(members).min(MAX_AGGREGATORS),
            has_cb_nodes: false,
            per_host: None,
            cb_buffer_size: 4 << 20,
            cb_write: Switch::Automatic,
            cb_read: Switch::Automatic,
            ds_read: Switch::Automatic,
            ds_write: Switch::Automatic,
            ind_rd_buffer_size: 1 << 20,
            ind_wr_buffer_size: 1 << 20,
            striping_unit: 0,
            striping_factor: 0,
            direct: Direct::default(),
            direct_mins: [4 << 10; 2],
            direct_range: 0,
            file_system: None,
        }
    }

    /// Wants at least one aggregator on each host, unless a hint set another number, and no more of
    /// each than a hint allows. `members`: those of each host.
    pub(crate) fn adopt_hosts(&mut self, members: &[u64]) {
        let hosts = members.len() as u64;
        let most = self.per_host.map(|each| members.iter().map(|&all| all.min(each)).sum());
        self.cb_nodes = match (self.has_cb_nodes, most) {
            (true, Some(most)) => self.cb_nodes.min(most),
            (true, None) => self.cb_nodes,
            (false, Some(most)) => most,
            (false, None) => self.cb_nodes.max(hosts),
        };
    }

    /// Takes over what the file system tells, where no hint was given.
    pub(crate) fn adopt(&mut self, found: &FileSystem, direct: Direct) {
        (self.file_system, self.direct) = (Some(found.name), direct);
        if self.striping_unit == 0 {
            self.striping_unit = found.unit;
        }
        self.striping_factor = found.stripes;
        self.direct_mins = [Direction::Read, Direction::Write].map(|way| found.direct_min(way));
        self.direct_range = if direct.reads { 0 } else { found.direct_range() };
    }

    /// Returns whether accesses go through aggregators.
    pub(crate) fn switch(&self, direction: Direction) -> Switch {
        if direction == Direction::Write { self.cb_write } else { self.cb_read }
    }

    /// Returns the smallest mean piece, bytes, that each member moves by itself.
    pub(crate) fn direct_min(&self, direction: Direction) -> u64 {
        self.direct_mins[usize::from(direction == Direction::Write)]
    }

    /// Returns the longest range, bytes, in which each member moves its pieces by itself; 0: none.
    pub(crate) fn direct_range(&self, direction: Direction) -> u64 {
        match (direction, self.ds_read) {
            (Direction::Write, _) | (Direction::Read, Switch::Disable) => 0,
            (Direction::Read, Switch::Automatic | Switch::Enable) => self.direct_range,
        }
    }

    /// Takes over the hints that are given.
    pub fn update(&mut self, info: &Info) -> Result<()> {
        if let Some(mode) = number(info, "file_perm", 8)? {
            self.file_perm = (mode & 0o777) as u32;
        }
        if let Some(nodes) = number(info, "cb_nodes", 10)?.filter(|&nodes| nodes > 0) {
            (self.cb_nodes, self.has_cb_nodes) = (nodes, true);
        }
        if let Some(bytes) = number(info, "cb_buffer_size", 10)?.filter(|&bytes| bytes > 0) {
            self.cb_buffer_size = bytes;
        }
        if self.file_system.is_none() {
            let each = text(info, "cb_config_list")?.and_then(aggregators_of_each_host);
            self.per_host = each.or(self.per_host);
        }
        if let Some(value) = text(info, "collective_buffering")? {
            let switch = match value.trim() {
                "true" => Some(Switch::Enable),
                "false" => Some(Switch::Disable),
                _ => None,
            };
            (self.cb_write, self.cb_read) =
                (switch.unwrap_or(self.cb_write), switch.unwrap_or(self.cb_read));
        }
        let above_0 = |key| Ok(number(info, key, 10)?.filter(|&number| number > 0));
        for (key, size) in [
            ("ind_rd_buffer_size", &mut self.ind_rd_buffer_size),
            ("ind_wr_buffer_size", &mut self.ind_wr_buffer_size),
        ] {
            *size = above_0(key)?.map_or(*size, |bytes| bytes.min(MAX_SIEVE_BYTES));
        }
        if self.file_system.is_none()
            && let Some(stripes) = above_0("striping_factor")?
        {
            self.striping_factor = stripes;
        }
        if let Some(bytes) = above_0("striping_unit")? {
            self.striping_unit = bytes.min(MAX_STRIPE_BYTES);
        }
        if self.file_system.is_none() {
            for (key, wanted) in
                [("direct_read", &mut self.direct.reads), ("direct_write", &mut self.direct.writes)]
            {
                *wanted = text(info, key)?.map_or(*wanted, |value| value.trim() == "true");
            }
        }
        for (key, switch) in [
            ("romio_cb_write", &mut self.cb_write),
            ("romio_cb_read", &mut self.cb_read),
            ("romio_ds_read", &mut self.ds_read),
            ("romio_ds_write", &mut self.ds_write),
        ] {
            *switch = text(info, key)?.and_then(Switch::from_text).unwrap_or(*switch);
        }
        Ok(())
    }

    /// Returns all hints in use (MPI_File_get_info).
    pub fn to_info(&self) -> Result<Info> {
        let mut info = Info::new();
        info.set("file_perm", format!("{:o}", self.file_perm))?;
        info.set("cb_nodes", self.cb_nodes.to_string())?;
        info.set("cb_buffer_size", self.cb_buffer_size.to_string())?;
        info.set("romio_cb_write", self.cb_write.name())?;
        info.set("romio_cb_read", self.cb_read.name())?;
        info.set("romio_ds_read", self.ds_read.name())?;
        info.set("romio_ds_write", self.ds_write.name())?;
        info.set("ind_rd_buffer_size", self.ind_rd_buffer_size.to_string())?;
        info.set("ind_wr_buffer_size", self.ind_wr_buffer_size.to_string())?;
        if let Some(each) = self.per_host {
            info.set("cb_config_list", format!("*:{each}"))?;
        }
        info.set("romio_filesystem_type", self.file_system.unwrap_or("unknown"))?;
        info.set("direct_read", self.direct.reads.to_string())?;
        info.set("direct_write", self.direct.writes.to_string())?;
        for (key, number) in
            [("striping_unit", self.striping_unit), ("striping_factor", self.striping_factor)]
        {
            if number > 0 {
                info.set(key, number.to_string())?;
            }
        }
        Ok(info)
    }
}

fn text<'a>(info: &'a Info, key: &str) -> Result<Option<&'a str>> {
    Ok(info.value(key)?.and_then(|value| std::str::from_utf8(value).ok()))
}

/// Returns the number of a list `*:NUMBER`, which holds for every host. Lists that name hosts are
/// ignored.
fn aggregators_of_each_host(list: &str) -> Option<u64> {
    list.trim().strip_prefix("*:")?.parse().ok().filter(|&each| each > 0)
}

fn number(info: &Info, key: &str, radix: u32) -> Result<Option<u64>> {
    Ok(text(info, key)?.and_then(|value| u64::from_str_radix(value.trim(), radix).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_system::Kind;

    #[test]
    fn hints_are_taken_over_and_nonsense_is_not() {
        let mut info = Info::new();
        for (key, value) in [
            ("cb_nodes", "3"),
            ("cb_buffer_size", "many"),
            ("romio_cb_write", "ENABLE"),
            ("romio_cb_read", "perhaps"),
            ("unknown", "1"),
            ("striping_unit", "65536"),
            ("ind_rd_buffer_size", "0"),
            ("romio_ds_write", "enable"),
        ] {
            info.set(key, value).unwrap();
        }
        let mut hints = Hints::new(8);
        hints.update(&info).unwrap();
        let (cb_write, striping_unit) = (Switch::Enable, 65536);
        let ds_write = Switch::Enable;
        let (cb_nodes, has_cb_nodes) = (3, true);
        let wanted =
            Hints { cb_nodes, has_cb_nodes, cb_write, ds_write, striping_unit, ..Hints::new(8) };
        assert_eq!(hints, wanted);
        hints.adopt_hosts(&[1, 1, 1, 1, 1, 1, 2]);
        assert_eq!(hints, wanted);
        let mut automatic = Hints::new(8);
        automatic.adopt_hosts(&[1, 1, 1, 1, 1, 1, 2]);
        assert_eq!(automatic.cb_nodes, 7);
        let mut few = Info::new();
        few.set("cb_config_list", "*:1").unwrap();
        few.set("ind_wr_buffer_size", "70000").unwrap();
        automatic.update(&few).unwrap();
        automatic.adopt_hosts(&[4, 2, 2]);
        assert_eq!((automatic.cb_nodes, automatic.ind_wr_buffer_size), (3, 70_000));
        assert_eq!(
            automatic.to_info().unwrap().value("cb_config_list").unwrap(),
            Some(&b"*:1"[..])
        );
        for list in ["host1:2", "*:0", "*:*", ""] {
            assert_eq!(aggregators_of_each_host(list), None);
        }
        let found = FileSystem { name: "lustre", kind: Kind::Lustre, unit: 1 << 20, stripes: 4 };
        hints.adopt(&found, Direct { reads: true, writes: false });
        let shown = hints.to_info().unwrap();
        for (key, value) in [
            ("striping_unit", "65536"),
            ("striping_factor", "4"),
            ("romio_ds_write", "enable"),
            ("direct_read", "true"),
            ("direct_write", "false"),
        ] {
            assert_eq!(shown.value(key).unwrap(), Some(value.as_bytes()), "{key}");
        }
        let shown = hints.to_info().unwrap();
        assert_eq!(shown.value("romio_cb_write").unwrap(), Some(&b"enable"[..]));
        for (switch, _) in Switch::ALL {
            assert_eq!(Switch::from_number(switch as i64), switch);
        }
    }
}
