//! The description of a machine: how many hosts there are, how ranks are placed on them, and what a
//! message costs on each kind of link. Read from TOML; what is not given has the default of a
//! cluster with one 200 Gbit/s adapter for each host.

use std::path::Path;

use collectives::{HostSegment, Level, RankLocation, Thresholds, Topology};
use fabric::coll_segment::MAX_FLAGS_RANKS;
use serde::Deserialize;
use thiserror::Error;

use crate::time::{Link, Time};

/// An unusable description.
#[derive(Debug, Error)]
pub enum MachineError {
    /// The file cannot be read.
    #[error("cannot read {0}: {1}")]
    Unreadable(String, std::io::Error),
    /// The text is not a machine in TOML.
    #[error("{0}: {1}")]
    Syntax(String, toml::de::Error),
    /// A number outside of its range.
    #[error("invalid {key} = {value}: {allowed}")]
    Value {
        /// The key in the file.
        key: &'static str,
        /// Its value.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
}

/// The kinds of links, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// Ranks that share a last-level cache.
    Cache,
    /// Ranks of one processor package.
    Package,
    /// Ranks of one host.
    Host,
    /// Hosts at one switch.
    Switch,
    /// Hosts at different switches.
    Fabric,
}

impl LinkKind {
    /// All of them, the nearest first.
    pub const ALL: [LinkKind; 5] =
        [LinkKind::Cache, LinkKind::Package, LinkKind::Host, LinkKind::Switch, LinkKind::Fabric];

    /// True where messages go through network adapters.
    pub fn is_inter_host(self) -> bool {
        matches!(self, LinkKind::Switch | LinkKind::Fabric)
    }

    /// The name in descriptions and reports.
    pub fn name(self) -> &'static str {
        match self {
            LinkKind::Cache => "cache",
            LinkKind::Package => "package",
            LinkKind::Host => "host",
            LinkKind::Switch => "switch",
            LinkKind::Fabric => "fabric",
        }
    }
}

/// How ranks are placed on hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Ranks fill one host after the other.
    #[default]
    Block,
    /// One rank for each host in turn.
    RoundRobin,
}

/// A machine to simulate.
#[derive(Clone, Debug, PartialEq)]
pub struct Machine {
    /// Hosts.
    pub hosts: u32,
    /// Ranks on each host; the last ones may have fewer.
    pub ranks_per_host: u32,
    /// Ranks in all.
    pub ranks: u32,
    /// Hosts at each switch.
    pub hosts_per_switch: u32,
    /// Processor packages in each host.
    pub packages: u32,
    /// Last-level caches in each package.
    pub caches: u32,
    /// How ranks are placed on hosts.
    pub placement: Placement,
    /// The cost of each kind of link, in the order of [`LinkKind::ALL`].
    pub links: [Link; LinkKind::ALL.len()],
    /// Messages of more bytes wait for their receive.
    pub eager_max: u64,
    /// Picoseconds for each byte that a rank copies.
    pub copy_per_byte: f64,
    /// Picoseconds for each byte that a rank reduces.
    pub reduce_per_byte: f64,
}

/// The file as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    machine: Layout,
    links: LinkTable,
    memory: MemoryTable,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Layout {
    hosts: u32,
    ranks_per_host: u32,
    ranks: Option<u32>,
    hosts_per_switch: u32,
    packages_per_host: u32,
    caches_per_package: u32,
    placement: Placement,
    eager_max: u64,
}

impl Default for Layout {
    fn default() -> Layout {
        Layout {
            hosts: 16,
            ranks_per_host: 64,
            ranks: None,
            hosts_per_switch: 32,
            packages_per_host: 2,
            caches_per_package: 4,
            placement: Placement::Block,
            eager_max: 16 << 10,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LinkTable {
    cache: LinkEntry,
    package: LinkEntry,
    host: LinkEntry,
    switch: LinkEntry,
    fabric: LinkEntry,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LinkEntry {
    latency_us: Option<f64>,
    overhead_us: Option<f64>,
    gap_us: Option<f64>,
    gbytes_per_s: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct MemoryTable {
    copy_gbytes_per_s: f64,
    reduce_gbytes_per_s: f64,
}

impl Default for MemoryTable {
    fn default() -> MemoryTable {
        MemoryTable { copy_gbytes_per_s: 12.0, reduce_gbytes_per_s: 10.0 }
    }
}

/// Latency, overhead and gap in microseconds, and bytes in GB/s, of each kind of link.
const DEFAULT_LINKS: [[f64; 4]; LinkKind::ALL.len()] = [
    [0.05, 0.03, 0.02, 12.0],
    [0.10, 0.03, 0.02, 10.0],
    [0.20, 0.03, 0.02, 8.0],
    [0.80, 0.20, 0.01, 24.0],
    [1.20, 0.20, 0.01, 24.0],
];

/// The default of `coll.shm_max`.
const FLAGS_MAX: Option<u64> = Some(16 << 10);

impl Machine {
    /// The most ranks of a machine.
    pub const MAX_RANKS: u32 = 1 << 20;

    /// Reads a description from a file.
    pub fn read(path: &Path) -> Result<Machine, MachineError> {
        let name = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| MachineError::Unreadable(name.clone(), error))?;
        Machine::parse(&text, &name)
    }

    /// Reads a description from a text. `name` is used in errors.
    pub fn parse(text: &str, name: &str) -> Result<Machine, MachineError> {
        let file: File =
            toml::from_str(text).map_err(|error| MachineError::Syntax(name.to_owned(), error))?;
        Machine::from_file(&file)
    }

    /// The default cluster with so many hosts and ranks on each.
    pub fn cluster(hosts: u32, ranks_per_host: u32) -> Result<Machine, MachineError> {
        let machine = Layout { hosts, ranks_per_host, ..Layout::default() };
        Machine::from_file(&File { machine, ..File::default() })
    }

    fn from_file(file: &File) -> Result<Machine, MachineError> {
        let layout = &file.machine;
        let ranks = check_ranks(layout.hosts, layout.ranks_per_host, layout.ranks)?;
        let positive = [
            ("hosts_per_switch", layout.hosts_per_switch),
            ("packages_per_host", layout.packages_per_host),
            ("caches_per_package", layout.caches_per_package),
        ];
        if let Some((key, value)) = positive.into_iter().find(|(_, value)| *value == 0) {
            return Err(invalid(key, value, "must be at least 1"));
        }
        let rate = |key, rate: f64| match rate {
            rate if rate.is_finite() && rate > 0.0 => Ok(1000.0 / rate),
            _ => Err(invalid(key, rate, "must be more than 0 GB/s")),
        };
        let entries = [
            file.links.cache,
            file.links.package,
            file.links.host,
            file.links.switch,
            file.links.fabric,
        ];
        let mut links = Vec::new();
        for (entry, default) in entries.into_iter().zip(DEFAULT_LINKS) {
            links.push(entry.link(default)?);
        }
        Ok(Machine {
            hosts: layout.hosts,
            ranks_per_host: layout.ranks_per_host,
            ranks,
            hosts_per_switch: layout.hosts_per_switch,
            packages: layout.packages_per_host,
            caches: layout.caches_per_package,
            placement: layout.placement,
            links: links.try_into().expect("one link of each kind"),
            eager_max: layout.eager_max,
            copy_per_byte: rate("copy_gbytes_per_s", file.memory.copy_gbytes_per_s)?,
            reduce_per_byte: rate("reduce_gbytes_per_s", file.memory.reduce_gbytes_per_s)?,
        })
    }

    /// The machine with other numbers of hosts and ranks, and a rank on each place.
    pub fn resized(self, hosts: u32, ranks_per_host: u32) -> Result<Machine, MachineError> {
        let ranks = check_ranks(hosts, ranks_per_host, None)?;
        Ok(Machine { hosts, ranks_per_host, ranks, ..self })
    }

    /// The host of a rank.
    pub fn host_of(&self, rank: u32) -> u32 {
        match self.placement {
            Placement::Block => rank / self.ranks_per_host,
            Placement::RoundRobin => rank % self.hosts,
        }
    }

    /// The number of a rank among the ranks of its host.
    fn index_on_host(&self, rank: u32) -> u32 {
        match self.placement {
            Placement::Block => rank % self.ranks_per_host,
            Placement::RoundRobin => rank / self.hosts,
        }
    }

    /// The last-level cache of a rank, numbered within its host.
    fn cache_of(&self, rank: u32) -> u32 {
        let caches = self.packages * self.caches;
        let each = self.ranks_per_host.div_ceil(caches);
        self.index_on_host(rank) / each
    }

    /// The kind of link between two ranks.
    pub fn link_kind(&self, a: u32, b: u32) -> LinkKind {
        let (host_a, host_b) = (self.host_of(a), self.host_of(b));
        if host_a / self.hosts_per_switch != host_b / self.hosts_per_switch {
            return LinkKind::Fabric;
        }
        if host_a != host_b {
            return LinkKind::Switch;
        }
        let (cache_a, cache_b) = (self.cache_of(a), self.cache_of(b));
        match () {
            () if cache_a == cache_b => LinkKind::Cache,
            () if cache_a / self.caches == cache_b / self.caches => LinkKind::Package,
            () => LinkKind::Host,
        }
    }

    /// The cost of a kind of link.
    pub fn link(&self, kind: LinkKind) -> &Link {
        &self.links[kind as usize]
    }

    /// The farthest kind of link that two ranks of the machine have.
    pub fn farthest_link(&self) -> LinkKind {
        let used = self.used_hosts();
        match () {
            () if used > self.hosts_per_switch => LinkKind::Fabric,
            () if used > 1 => LinkKind::Switch,
            () => LinkKind::Host,
        }
    }

    /// Hosts that have ranks.
    pub fn used_hosts(&self) -> u32 {
        match self.placement {
            Placement::Block => self.ranks.div_ceil(self.ranks_per_host),
            Placement::RoundRobin => self.hosts.min(self.ranks),
        }
    }

    /// The thresholds of a job with default knobs: each rank has a processor, and the ranks of a
    /// host share a segment with flags, as many as it can have.
    pub fn thresholds(&self) -> Thresholds {
        let max = FLAGS_MAX.filter(|_| self.ranks_per_host <= MAX_FLAGS_RANKS);
        match self.used_hosts() {
            1 => Thresholds { shm_max: max, ..Thresholds::default() },
            _ => {
                let host_segment = max.map(|max| HostSegment::Flags { max });
                Thresholds { host_segment, ..Thresholds::default() }
            }
        }
    }

    /// Where all ranks are, as collectives see it.
    pub fn topology(&self) -> Topology {
        let locations: Vec<RankLocation> =
            (0..self.ranks).map(|rank| self.location(rank)).collect();
        Topology::new(&locations)
    }

    /// Where one rank is.
    pub fn location(&self, rank: u32) -> RankLocation {
        let mut location = RankLocation::on_host(self.host_of(rank).into());
        let cache = self.cache_of(rank);
        let switch = self.host_of(rank) / self.hosts_per_switch;
        location.0[Level::Switch as usize] = Some(switch.into());
        location.0[Level::Package as usize] = Some(u64::from(cache / self.caches));
        location.0[Level::L3Cache as usize] = Some(u64::from(cache));
        location.0[Level::Core as usize] = Some(u64::from(self.index_on_host(rank)));
        location
    }
}

impl LinkEntry {
    fn link(self, default: [f64; 4]) -> Result<Link, MachineError> {
        let [latency, overhead, gap, rate] = default;
        let time = |key, given: Option<f64>, default| match given.unwrap_or(default) {
            us if us.is_finite() && us >= 0.0 => Ok(Time::from_us(us)),
            us => Err(invalid(key, us, "must be at least 0 us")),
        };
        let rate = self.gbytes_per_s.unwrap_or(rate);
        if !rate.is_finite() || rate <= 0.0 {
            return Err(invalid("gbytes_per_s", rate, "must be more than 0"));
        }
        Ok(Link {
            latency: time("latency_us", self.latency_us, latency)?,
            overhead: time("overhead_us", self.overhead_us, overhead)?,
            gap: time("gap_us", self.gap_us, gap)?,
            per_byte: 1000.0 / rate,
        })
    }
}

/// Returns how many ranks there are: `ranks`, or one on each place.
fn check_ranks(hosts: u32, ranks_per_host: u32, ranks: Option<u32>) -> Result<u32, MachineError> {
    let positive = [("hosts", hosts), ("ranks_per_host", ranks_per_host)];
    if let Some((key, value)) = positive.into_iter().find(|(_, value)| *value == 0) {
        return Err(invalid(key, value, "must be at least 1"));
    }
    let places = u64::from(hosts) * u64::from(ranks_per_host);
    let ranks = ranks.map_or(places, u64::from);
    if ranks == 0 || ranks > places {
        return Err(invalid("ranks", ranks, "must be 1 to hosts x ranks_per_host"));
    }
    if ranks > u64::from(Machine::MAX_RANKS) {
        return Err(invalid("ranks", ranks, "must be at most 1048576"));
    }
    Ok(ranks as u32)
}

fn invalid(key: &'static str, value: impl ToString, allowed: &'static str) -> MachineError {
    MachineError::Value { key, value: value.to_string(), allowed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_read_and_its_rest_is_the_default() {
        let text = "[machine]\nhosts = 4\nranks_per_host = 8\nhosts_per_switch = 2\n\
                    [links.switch]\nlatency_us = 2.5\ngbytes_per_s = 12.5\n";
        let machine = Machine::parse(text, "test").unwrap();
        assert_eq!((machine.ranks, machine.used_hosts()), (32, 4));
        let switch = machine.link(LinkKind::Switch);
        assert_eq!((switch.latency, switch.per_byte), (Time::from_us(2.5), 80.0));
        assert_eq!(machine.link(LinkKind::Host).latency, Time::from_us(0.2));
    }

    #[test]
    fn links_follow_the_placement() {
        let text = "[machine]\nhosts = 4\nranks_per_host = 8\nhosts_per_switch = 2\n\
                    packages_per_host = 2\ncaches_per_package = 2\n";
        let block = Machine::parse(text, "test").unwrap();
        let kinds = [1, 2, 4, 8, 16].map(|other| block.link_kind(0, other));
        assert_eq!(kinds, LinkKind::ALL);
        let scattered = Machine { placement: Placement::RoundRobin, ..block };
        assert_eq!(scattered.link_kind(0, 1), LinkKind::Switch);
        assert_eq!(scattered.link_kind(0, 4), LinkKind::Cache);
        assert_eq!(scattered.topology().members(Level::Host, 0), [0, 4, 8, 12, 16, 20, 24, 28]);
    }

    #[test]
    fn nonsense_is_named() {
        let error = |text| Machine::parse(text, "m.toml").unwrap_err().to_string();
        assert_eq!(error("[machine]\nhosts = 0"), "invalid hosts = 0: must be at least 1");
        assert!(error("[machine]\nranks = 5000").contains("must be 1 to hosts x ranks_per_host"));
        assert!(error("[machine]\nhots = 3").contains("m.toml: "));
        assert!(error("[links.host]\nlatency_us = -1.0").contains("must be at least 0 us"));
    }
}
