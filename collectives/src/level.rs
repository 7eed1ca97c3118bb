//! The levels of a machine, and the location of one rank: its part of the machine at each level.

/// Parts of a machine, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Hosts at one switch of the network.
    Switch,
    /// Ranks that share memory.
    Host,
    /// A processor package (socket).
    Package,
    /// Processors with the same local memory.
    NumaNode,
    /// Processors that share a last-level cache.
    L3Cache,
    /// A core.
    Core,
}

impl Level {
    /// All of them, the largest first.
    pub const ALL: [Level; 6] =
        [Level::Switch, Level::Host, Level::Package, Level::NumaNode, Level::L3Cache, Level::Core];

    /// The name in rules and reports.
    pub fn name(self) -> &'static str {
        match self {
            Level::Switch => "switch",
            Level::Host => "host",
            Level::Package => "package",
            Level::NumaNode => "numa",
            Level::L3Cache => "l3",
            Level::Core => "core",
        }
    }

    /// The level of that name.
    pub fn named(name: &str) -> Option<Level> {
        Level::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// Where one rank is: a number of its part at each level, of no meaning but equality within the
/// enclosing part. `None`: unknown, or the rank may move from part to part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct RankLocation(pub [Option<u64>; Level::ALL.len()]);

impl RankLocation {
    /// A rank of which only the host is known.
    pub fn on_host(host: u64) -> RankLocation {
        let mut parts = [None; Level::ALL.len()];
        parts[Level::Host as usize] = Some(host);
        RankLocation(parts)
    }
}
