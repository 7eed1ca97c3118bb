//! Which processors each rank may use: mapping and binding.
//!
//! Mapping deals the ranks round over objects of one kind (rank i goes to the
//! i-th, then from the start again); binding says how much of the machine
//! around its place a rank may use. One given alone implies the other:
//! `--bind-to numa` deals over NUMA nodes, `--map-by numa` binds to them. More
//! ranks than places share them.
//!
//! This file only computes. The machine is described by `verbena topology`,
//! one line for each hardware thread, so that `mpiexec` itself need not load
//! hwloc, which would take longer than starting the ranks.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// A kind of object that ranks are dealt over or bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Level {
    /// One hardware thread.
    Hwthread,
    /// A core with its hardware threads.
    Core,
    /// Cores that share a level-2 cache.
    L2,
    /// Cores that share a level-3 cache.
    L3,
    /// Cores near the same memory.
    Numa,
    /// A processor in its socket.
    Package,
}

/// What `--bind-to` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindTo {
    /// A rank runs wherever mpiexec may.
    None,
    /// A rank stays in one object of this kind.
    Object(Level),
}

/// What `--map-by` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapBy {
    /// No places: slots and nodes mean nothing on one host.
    Anywhere,
    /// One object of this kind after the other.
    Object(Level),
}

/// Both, as the user gave them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// `--bind-to`.
    pub bind_to: Option<BindTo>,
    /// `--map-by`.
    pub map_by: Option<MapBy>,
    /// `PE=K` of `--map-by`: this many cores for each rank.
    pub cores_each: Option<u32>,
}

/// One hardware thread and what it belongs to, by logical numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The operating system's number.
    pub cpu: usize,
    /// In the order of [`Level`], from `Core`.
    pub core: usize,
    /// Level-2 cache.
    pub l2: usize,
    /// Level-3 cache.
    pub l3: usize,
    /// NUMA node.
    pub numa: usize,
    /// Package.
    pub package: usize,
}

/// The hardware threads that we may use, in the machine's own order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Not empty, once parsed.
    pub threads: Vec<Thread>,
}

impl Level {
    fn parse(name: &str) -> Option<Level> {
        Some(match name {
            "hwthread" | "hwthreads" => Level::Hwthread,
            "core" | "cores" => Level::Core,
            "l2" | "l2cache" => Level::L2,
            "l3" | "l3cache" => Level::L3,
            "numa" => Level::Numa,
            "socket" | "package" => Level::Package,
            _ => return None,
        })
    }
}

impl BindTo {
    /// For messages.
    pub const NAMES: &[&str] =
        &["none", "hwthread", "core", "l2", "l3", "numa", "socket", "package"];

    /// In lower case, as users of either family write it.
    pub fn parse(name: &str) -> Option<BindTo> {
        match name {
            "none" => Some(BindTo::None),
            name => Level::parse(name).map(BindTo::Object),
        }
    }
}

impl MapBy {
    /// For messages.
    pub const NAMES: &[&str] =
        &["hwthread", "core", "l2", "l3", "numa", "socket", "package", "slot", "node"];

    /// In lower case, as users of either family write it.
    pub fn parse(name: &str) -> Option<MapBy> {
        match name {
            "slot" | "node" => Some(MapBy::Anywhere),
            name => Level::parse(name).map(MapBy::Object),
        }
    }
}

impl Mapping {
    /// The place to deal over and the object to bind to, if any rank is bound.
    fn levels(&self) -> Option<(Level, Level)> {
        let bind = match (self.bind_to, self.map_by) {
            (Some(BindTo::None), _) => return None,
            (Some(BindTo::Object(level)), _) => level,
            (None, _) if self.cores_each.is_some() => Level::Core,
            (None, Some(MapBy::Object(level))) => level,
            (None, _) => return None,
        };
        match self.map_by {
            Some(MapBy::Object(level)) => Some((level, bind)),
            Some(MapBy::Anywhere) if self.cores_each.is_some() => Some((Level::Core, bind)),
            _ => Some((bind, bind)),
        }
    }

    /// True if ranks are bound, so that the machine must be known.
    pub fn binds(&self) -> bool {
        self.levels().is_some()
    }
}

impl Thread {
    fn place(&self, level: Level) -> usize {
        match level {
            Level::Hwthread => self.cpu,
            Level::Core => self.core,
            Level::L2 => self.l2,
            Level::L3 => self.l3,
            Level::Numa => self.numa,
            Level::Package => self.package,
        }
    }
}

/// One line for each thread, as [`Machine::parse`] reads it.
impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Thread { cpu, core, l2, l3, numa, package } in &self.threads {
            writeln!(f, "cpu {cpu} core {core} l2 {l2} l3 {l3} numa {numa} package {package}")?;
        }
        Ok(())
    }
}

impl Machine {
    /// Reads what `verbena topology --threads` prints: a line like
    /// `cpu 3 core 1 l2 1 l3 0 numa 0 package 0` for each hardware thread.
    pub fn parse(text: &str) -> Option<Machine> {
        let threads: Option<Vec<Thread>> = text.lines().map(parse_thread).collect();
        threads.filter(|threads| !threads.is_empty()).map(|threads| Machine { threads })
    }

    /// The processors of each rank, or `None` if ranks are not bound.
    pub fn assign(&self, mapping: &Mapping, ranks: u32) -> Option<Vec<BTreeSet<usize>>> {
        let (map, bind) = mapping.levels()?;
        let places = group(&self.threads, map);
        Some(
            (0..ranks as usize)
                .map(|rank| self.processors(rank, &places, bind, mapping.cores_each))
                .collect(),
        )
    }

    /// One rank's: its turn within its place says which part of the place.
    fn processors(
        &self,
        rank: usize,
        places: &[Vec<Thread>],
        bind: Level,
        cores_each: Option<u32>,
    ) -> BTreeSet<usize> {
        let place = &places[rank % places.len()];
        let turn = rank / places.len();
        if let Some(each) = cores_each {
            return self.run_of_cores(place, turn, each as usize, rank, places);
        }
        let parts = group(place, bind);
        let chosen = parts[turn % parts.len()][0].place(bind);
        self.threads
            .iter()
            .filter(|thread| thread.place(bind) == chosen)
            .map(|thread| thread.cpu)
            .collect()
    }

    /// `each` cores for one rank: the `turn`-th run within its place. Where a
    /// place has fewer cores than that, runs are cut from the whole machine.
    fn run_of_cores(
        &self,
        place: &[Thread],
        turn: usize,
        each: usize,
        rank: usize,
        places: &[Vec<Thread>],
    ) -> BTreeSet<usize> {
        let smallest =
            places.iter().map(|place| group(place, Level::Core).len()).min().unwrap_or(0);
        let (cores, turn) = match smallest >= each {
            true => (group(place, Level::Core), turn),
            false => (group(&self.threads, Level::Core), rank),
        };
        let first = turn * each;
        (first..first + each)
            .flat_map(|core| &cores[core % cores.len()])
            .map(|thread| thread.cpu)
            .collect()
    }

    /// A rank's processors in words: which objects they make up.
    pub fn describe(&self, cpus: &BTreeSet<usize>) -> String {
        let inside: Vec<&Thread> =
            self.threads.iter().filter(|thread| cpus.contains(&thread.cpu)).collect();
        let numbers = |level: Level| {
            inside.iter().map(|thread| thread.place(level)).collect::<BTreeSet<usize>>()
        };
        format!(
            "package {}, NUMA node {}, core {}",
            ranges(&numbers(Level::Package)),
            ranges(&numbers(Level::Numa)),
            ranges(&numbers(Level::Core)),
        )
    }
}

/// Numbers as people write them: `0-3,8`.
pub fn ranges(numbers: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    let words: Vec<String> =
        runs.iter().map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
    words.join(",")
}

/// The threads of each object of a kind, in the order of first appearance.
fn group(threads: &[Thread], level: Level) -> Vec<Vec<Thread>> {
    let mut groups: Vec<Vec<Thread>> = Vec::new();
    for thread in threads {
        match groups.iter_mut().find(|group| group[0].place(level) == thread.place(level)) {
            Some(group) => group.push(*thread),
            None => groups.push(vec![*thread]),
        }
    }
    groups
}

fn parse_thread(line: &str) -> Option<Thread> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let number = |name: &str| words.chunks_exact(2).find(|pair| pair[0] == name)?[1].parse().ok();
    Some(Thread {
        cpu: number("cpu")?,
        core: number("core")?,
        l2: number("l2")?,
        l3: number("l3")?,
        numa: number("numa")?,
        package: number("package")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two packages of 4 cores with 2 threads each; each package has two L3
    /// caches. Threads of a core are `core` and `core + 8`.
    fn machine() -> Machine {
        let mut text = String::new();
        for core in 0..8 {
            for cpu in [core, core + 8] {
                text += &format!(
                    "cpu {cpu} core {core} l2 {core} l3 {} numa {} package {}\n",
                    core / 2,
                    core / 4,
                    core / 4
                );
            }
        }
        let machine = Machine::parse(&text).unwrap();
        assert_eq!(machine.to_string(), text);
        machine
    }

    fn assigned(
        bind: Option<&str>,
        map: Option<&str>,
        cores_each: Option<u32>,
        ranks: u32,
    ) -> Vec<String> {
        let mapping = Mapping {
            bind_to: bind.map(|name| BindTo::parse(name).unwrap()),
            map_by: map.map(|name| MapBy::parse(name).unwrap()),
            cores_each,
        };
        let sets = machine().assign(&mapping, ranks).unwrap_or_default();
        sets.iter().map(ranges).collect()
    }

    #[test]
    fn binding_alone_deals_over_the_same_objects() {
        assert_eq!(assigned(Some("core"), None, None, 3), ["0,8", "1,9", "2,10"]);
        assert_eq!(assigned(Some("hwthread"), None, None, 3), ["0", "8", "1"]);
        assert_eq!(assigned(Some("numa"), None, None, 3), ["0-3,8-11", "4-7,12-15", "0-3,8-11"]);
        assert_eq!(assigned(Some("l3"), None, None, 2), ["0-1,8-9", "2-3,10-11"]);
    }

    #[test]
    fn mapping_deals_and_binding_cuts() {
        assert_eq!(assigned(Some("core"), Some("numa"), None, 4), ["0,8", "4,12", "1,9", "5,13"]);
        assert_eq!(assigned(Some("numa"), Some("core"), None, 5)[4], "4-7,12-15");
        assert_eq!(assigned(None, Some("socket"), None, 2), ["0-3,8-11", "4-7,12-15"]);
        assert_eq!(assigned(None, Some("numa"), Some(2), 3), ["0-1,8-9", "4-5,12-13", "2-3,10-11"]);
        assert_eq!(assigned(None, Some("slot"), Some(2), 2), ["0-1,8-9", "2-3,10-11"]);
    }

    #[test]
    fn more_ranks_than_places_share_them() {
        assert_eq!(assigned(Some("core"), None, None, 10)[8..], ["0,8", "1,9"]);
        assert_eq!(assigned(Some("core"), Some("numa"), None, 9)[8], "0,8");
    }

    #[test]
    fn no_binding_unless_asked() {
        assert!(assigned(None, None, None, 4).is_empty());
        assert!(assigned(Some("none"), Some("core"), None, 4).is_empty());
        assert!(assigned(None, Some("slot"), None, 4).is_empty());
        assert_eq!(Machine::parse(""), None);
        assert_eq!(Machine::parse("cpu x"), None);
    }
}
