//! Mapping and binding: the processors that each rank may use.
//!
//! Mapping deals the ranks over the objects of one kind: rank i goes to object i, and after the
//! last object to the first again. Binding selects the part of the machine around that object
//! that a rank may use. One of them alone implies the other: `--bind-to numa` maps by NUMA nodes,
//! `--map-by numa` binds to them.
//!
//! This file only computes. `verbena topology` describes the machine, one line for each hardware
//! thread, so that `mpiexec` does not load hwloc.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::rank_file::Slots;

/// A kind of object that ranks are mapped to or bound to.
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
    /// The cores of a NUMA node.
    Numa,
    /// A processor package (socket).
    Package,
}

/// The value of `--bind-to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BindTo {
    /// A rank uses all processors of mpiexec.
    None,
    /// A rank is kept within one object of this kind.
    Object(Level),
}

/// The value of `--map-by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapBy {
    /// No mapping: ranks fill the slots of each host.
    Anywhere,
    /// Ranks are spread evenly over the hosts; no mapping within a host.
    Node,
    /// Ranks go to the objects of this kind in turn.
    Object(Level),
}

/// The mapping and binding of the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// `--bind-to`.
    pub bind_to: Option<BindTo>,
    /// `--map-by`.
    pub map_by: Option<MapBy>,
    /// K of `--map-by WHAT:PE=K`: cores for each rank.
    pub cores_per_rank: Option<u32>,
    /// N of `--map-by ppr:N:WHAT`: ranks on each object, one after the other.
    pub ranks_per_object: Option<u32>,
}

/// One hardware thread with its ancestors, by logical numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The number of the operating system.
    pub cpu: usize,
    /// The core.
    pub core: usize,
    /// The level-2 cache.
    pub l2: usize,
    /// The level-3 cache, if it has one.
    pub l3: Option<usize>,
    /// The NUMA node.
    pub numa: usize,
    /// The package.
    pub package: usize,
}

/// The hardware threads that this process may use, in the machine's own order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Not empty after [`Machine::parse`].
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
    /// The accepted names, for messages.
    pub const NAMES: &[&str] =
        &["none", "hwthread", "core", "l2", "l3", "numa", "socket", "package"];

    /// Parses a name in lower case.
    pub fn parse(name: &str) -> Option<BindTo> {
        match name {
            "none" => Some(BindTo::None),
            name => Level::parse(name).map(BindTo::Object),
        }
    }
}

impl MapBy {
    /// The accepted names, for messages.
    pub const NAMES: &[&str] =
        &["hwthread", "core", "l2", "l3", "numa", "socket", "package", "slot", "node"];

    /// Parses a name in lower case.
    pub fn parse(name: &str) -> Option<MapBy> {
        match name {
            "slot" => Some(MapBy::Anywhere),
            "node" => Some(MapBy::Node),
            name => Level::parse(name).map(MapBy::Object),
        }
    }
}

impl Mapping {
    /// Returns the levels to map by and to bind to; `None` if ranks are not bound.
    ///
    /// | `--bind-to` | `--map-by` | map | bind |
    /// |---|---|---|---|
    /// | none | any | not bound | |
    /// | X | Y | Y | X |
    /// | X | absent | X | X |
    /// | absent | Y | Y | Y, with `PE=K` core |
    /// | absent | `slot:PE=K` | core | core |
    fn levels(&self) -> Option<(Level, Level)> {
        let bind = match (self.bind_to, self.map_by) {
            (Some(BindTo::None), _) => return None,
            (Some(BindTo::Object(level)), _) => level,
            (None, _) if self.cores_per_rank.is_some() => Level::Core,
            (None, Some(MapBy::Object(level))) => level,
            (None, _) => return None,
        };
        match self.map_by {
            Some(MapBy::Object(level)) => Some((level, bind)),
            Some(MapBy::Anywhere | MapBy::Node) if self.cores_per_rank.is_some() => {
                Some((Level::Core, bind))
            }
            _ => Some((bind, bind)),
        }
    }

    /// Returns true if ranks are bound, so that the machine must be known.
    pub fn binds(&self) -> bool {
        self.levels().is_some()
    }
}

impl Thread {
    fn object(&self, level: Level) -> usize {
        match level {
            Level::Hwthread => self.cpu,
            Level::Core => self.core,
            Level::L2 => self.l2,
            // Threads without one: those of each package, by numbers that no cache has.
            Level::L3 => self.l3.unwrap_or(usize::MAX - self.package),
            Level::Numa => self.numa,
            Level::Package => self.package,
        }
    }
}

/// Writes one line for each thread, as [`Machine::parse`] reads it.
impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Thread { cpu, core, l2, l3, numa, package } in &self.threads {
            let l3 = l3.map_or("-".to_owned(), |l3| l3.to_string());
            writeln!(f, "cpu {cpu} core {core} l2 {l2} l3 {l3} numa {numa} package {package}")?;
        }
        Ok(())
    }
}

impl Machine {
    /// Parses the output of `verbena topology --threads`: a line like
    /// `cpu 3 core 1 l2 1 l3 0 numa 0 package 0` for each hardware thread; `l3 -` without a cache.
    pub fn parse(text: &str) -> Option<Machine> {
        let threads: Option<Vec<Thread>> = text.lines().map(parse_thread).collect();
        threads.filter(|threads| !threads.is_empty()).map(|threads| Machine { threads })
    }

    /// Returns the processors of each rank; none if ranks are not bound. The error names what the
    /// machine does not have.
    pub fn assign(&self, mapping: &Mapping, ranks: u32) -> Result<Vec<BTreeSet<usize>>, String> {
        let Some((map, bind)) = mapping.levels() else { return Ok(Vec::new()) };
        let cores = group(&self.threads, Level::Core).len();
        if let Some(each) = mapping.cores_per_rank.filter(|each| *each as usize > cores) {
            let count = if cores == 1 { "1 core".into() } else { format!("{cores} cores") };
            return Err(format!(
                "each rank is to have {each} cores, and this host has {count} for them: give a \
                 smaller number (PE=K of --map-by, --cpus-per-rank), or use --bind-to none"
            ));
        }
        let objects = group(&self.threads, map);
        let ranks = 0..ranks as usize;
        Ok(ranks.map(|rank| self.processors(rank, &objects, bind, mapping)).collect())
    }

    /// Returns the processors of one rank. Of several ranks on one object, each gets the next
    /// part of it.
    fn processors(
        &self,
        rank: usize,
        objects: &[Vec<Thread>],
        bind: Level,
        mapping: &Mapping,
    ) -> BTreeSet<usize> {
        let (object, index) = self.object_of(rank, objects.len(), mapping);
        let object = &objects[object];
        if let Some(each) = mapping.cores_per_rank {
            return self.run_of_cores(object, index, each as usize, rank, objects);
        }
        let parts = group(object, bind);
        let chosen = parts[index % parts.len()][0].object(bind);
        self.threads
            .iter()
            .filter(|thread| thread.object(bind) == chosen)
            .map(|thread| thread.cpu)
            .collect()
    }

    /// Returns the object of a rank, and the rank's number among those of the object.
    fn object_of(&self, rank: usize, objects: usize, mapping: &Mapping) -> (usize, usize) {
        match mapping.ranks_per_object {
            None => (rank % objects, rank / objects),
            Some(each) => {
                let each = (each as usize).max(1);
                let round = rank / (each * objects);
                (rank / each % objects, round * each + rank % each)
            }
        }
    }

    /// Returns `each` cores for one rank: the `index`-th run of cores within its object. If an
    /// object has fewer cores, runs are cut from the whole machine.
    fn run_of_cores(
        &self,
        object: &[Thread],
        index: usize,
        each: usize,
        rank: usize,
        objects: &[Vec<Thread>],
    ) -> BTreeSet<usize> {
        let smallest =
            objects.iter().map(|object| group(object, Level::Core).len()).min().unwrap_or(0);
        let (cores, index) = match smallest >= each {
            true => (group(object, Level::Core), index),
            false => (group(&self.threads, Level::Core), rank),
        };
        let first = index * each;
        (first..first + each)
            .flat_map(|core| &cores[core % cores.len()])
            .map(|thread| thread.cpu)
            .collect()
    }

    /// Returns the processors of a rank that a rank file places: all if it names no slots. The
    /// error names what the machine does not have.
    pub fn slots(&self, slots: &[Slots]) -> Result<BTreeSet<usize>, String> {
        if slots.is_empty() {
            return Ok(self.threads.iter().map(|thread| thread.cpu).collect());
        }
        let packages = group(&self.threads, Level::Package);
        let mut cpus = BTreeSet::new();
        for Slots { package, cores } in slots {
            let threads = match package {
                None => &self.threads,
                Some(package) => packages.get(*package).ok_or_else(|| {
                    let last = packages.len() - 1;
                    format!("this host has no package {package}: must be 0 to {last}")
                })?,
            };
            let known = group(threads, Level::Core);
            let all = [(0, known.len() - 1)];
            for (first, last) in if cores.is_empty() { &all[..] } else { cores } {
                if *last >= known.len() {
                    let most = known.len() - 1;
                    let place = package.map_or("this host".into(), |n| format!("package {n}"));
                    return Err(format!("{place} has no core {last}: must be 0 to {most}"));
                }
                cpus.extend(known[*first..=*last].iter().flatten().map(|thread| thread.cpu));
            }
        }
        Ok(cpus)
    }

    /// Draws the machine: a pair of brackets for each package, a slash between cores, `B` for a
    /// hardware thread that is in `cpus` and `.` for another one: `[BB/..][../..]`.
    pub fn draw(&self, cpus: &BTreeSet<usize>) -> String {
        let thread = |thread: &Thread| if cpus.contains(&thread.cpu) { 'B' } else { '.' };
        let core = |core: &Vec<Thread>| core.iter().map(thread).collect::<String>();
        let package = |package: Vec<Thread>| {
            let cores: Vec<String> = group(&package, Level::Core).iter().map(core).collect();
            format!("[{}]", cores.join("/"))
        };
        group(&self.threads, Level::Package).into_iter().map(package).collect()
    }

    /// Returns the objects that a rank's processors belong to, in words.
    pub fn describe(&self, cpus: &BTreeSet<usize>) -> String {
        let inside: Vec<&Thread> =
            self.threads.iter().filter(|thread| cpus.contains(&thread.cpu)).collect();
        let numbers = |level: Level| {
            inside.iter().map(|thread| thread.object(level)).collect::<BTreeSet<usize>>()
        };
        format!(
            "package {}, NUMA node {}, core {}",
            ranges(&numbers(Level::Package)),
            ranges(&numbers(Level::Numa)),
            ranges(&numbers(Level::Core)),
        )
    }
}

/// Returns numbers as ranges: `0-3,8`.
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

/// Returns the threads of each object of a kind, in the order of first appearance.
fn group(threads: &[Thread], level: Level) -> Vec<Vec<Thread>> {
    let mut groups: Vec<Vec<Thread>> = Vec::new();
    for thread in threads {
        match groups.iter_mut().find(|group| group[0].object(level) == thread.object(level)) {
            Some(group) => group.push(*thread),
            None => groups.push(vec![*thread]),
        }
    }
    groups
}

fn parse_thread(line: &str) -> Option<Thread> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let word = |name: &str| Some(words.chunks_exact(2).find(|pair| pair[0] == name)?[1]);
    let number = |name: &str| word(name)?.parse().ok();
    Some(Thread {
        cpu: number("cpu")?,
        core: number("core")?,
        l2: number("l2")?,
        l3: if word("l3")? == "-" { None } else { Some(number("l3")?) },
        numa: number("numa")?,
        package: number("package")?,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn a_rank_file_names_cores_of_the_host_or_of_a_package() {
        type Named<'a> = (Option<usize>, &'a [(usize, usize)]);
        let cpus = |slots: &[Named<'_>]| {
            let slots: Vec<Slots> = slots
                .iter()
                .map(|(package, cores)| Slots { package: *package, cores: cores.to_vec() })
                .collect();
            machine().slots(&slots).map(|cpus| ranges(&cpus))
        };
        assert_eq!(cpus(&[]), Ok("0-15".into()));
        assert_eq!(cpus(&[(Some(1), &[(0, 1)])]), Ok("4-5,12-13".into()));
        assert_eq!(cpus(&[(Some(0), &[])]), Ok("0-3,8-11".into()));
        assert_eq!(cpus(&[(None, &[(7, 7)]), (None, &[(0, 0)])]), Ok("0,7-8,15".into()));
        let why = cpus(&[(Some(2), &[])]).unwrap_err();
        assert_eq!(why, "this host has no package 2: must be 0 to 1");
        let why = cpus(&[(Some(1), &[(3, 4)])]).unwrap_err();
        assert_eq!(why, "package 1 has no core 4: must be 0 to 3");
    }

    fn assigned(
        bind: Option<&str>,
        map: Option<&str>,
        cores_per_rank: Option<u32>,
        ranks: u32,
    ) -> Vec<String> {
        let mapping = Mapping {
            bind_to: bind.map(|name| BindTo::parse(name).unwrap()),
            map_by: map.map(|name| MapBy::parse(name).unwrap()),
            cores_per_rank,
            ranks_per_object: None,
        };
        let sets = machine().assign(&mapping, ranks).unwrap_or_default();
        sets.iter().map(ranges).collect()
    }

    #[test]
    fn binding_alone_maps_by_the_same_objects() {
        assert_eq!(assigned(Some("core"), None, None, 3), ["0,8", "1,9", "2,10"]);
        assert_eq!(assigned(Some("hwthread"), None, None, 3), ["0", "8", "1"]);
        assert_eq!(assigned(Some("numa"), None, None, 3), ["0-3,8-11", "4-7,12-15", "0-3,8-11"]);
        assert_eq!(assigned(Some("l3"), None, None, 2), ["0-1,8-9", "2-3,10-11"]);
    }

    #[test]
    fn threads_without_a_level_3_cache_are_in_none() {
        let text = "cpu 0 core 0 l2 0 l3 0 numa 0 package 0\n\
                    cpu 1 core 1 l2 1 l3 - numa 0 package 0\n\
                    cpu 2 core 2 l2 2 l3 - numa 1 package 1\n";
        let machine = Machine::parse(text).unwrap();
        assert_eq!(machine.to_string(), text);
        let by_cache = Mapping { bind_to: BindTo::parse("l3"), ..Mapping::default() };
        let sets = machine.assign(&by_cache, 3).unwrap();
        assert_eq!(sets.iter().map(ranges).collect::<Vec<_>>(), ["0", "1", "2"]);
    }

    #[test]
    fn mapping_chooses_an_object_and_binding_a_part_of_it() {
        assert_eq!(assigned(Some("core"), Some("numa"), None, 4), ["0,8", "4,12", "1,9", "5,13"]);
        assert_eq!(assigned(Some("numa"), Some("core"), None, 5)[4], "4-7,12-15");
        assert_eq!(assigned(None, Some("socket"), None, 2), ["0-3,8-11", "4-7,12-15"]);
        assert_eq!(assigned(None, Some("numa"), Some(2), 3), ["0-1,8-9", "4-5,12-13", "2-3,10-11"]);
        assert_eq!(assigned(None, Some("slot"), Some(2), 2), ["0-1,8-9", "2-3,10-11"]);
    }

    #[test]
    fn ranks_beyond_the_objects_share_them() {
        assert_eq!(assigned(Some("core"), None, None, 10)[8..], ["0,8", "1,9"]);
        assert_eq!(assigned(Some("core"), Some("numa"), None, 9)[8], "0,8");
        assert_eq!(assigned(None, Some("core"), Some(8), 2), ["0-15", "0-15"]);
    }

    #[test]
    fn a_rank_gets_no_more_cores_than_there_are() {
        let map = |map_by, bind_to, cores| {
            let (map_by, bind_to) = (MapBy::parse(map_by), BindTo::parse(bind_to));
            let cores_per_rank = Some(cores);
            machine().assign(&Mapping { bind_to, map_by, cores_per_rank, ..Mapping::default() }, 1)
        };
        for what in ["slot", "core", "numa", "hwthread"] {
            assert_eq!(
                map(what, "core", 9).unwrap_err(),
                "each rank is to have 9 cores, and this host has 8 cores for them: give a smaller \
                 number (PE=K of --map-by, --cpus-per-rank), or use --bind-to none"
            );
        }
        assert_eq!(map("slot", "none", u32::MAX), Ok(Vec::new()));
    }

    #[test]
    fn several_ranks_may_follow_each_other_on_an_object() {
        let mapping = Mapping {
            map_by: MapBy::parse("numa"),
            bind_to: BindTo::parse("core"),
            ranks_per_object: Some(2),
            ..Mapping::default()
        };
        let sets = machine().assign(&mapping, 6).unwrap_or_default();
        let sets: Vec<String> = sets.iter().map(ranges).collect();
        assert_eq!(sets, ["0,8", "1,9", "4,12", "5,13", "2,10", "3,11"]);
    }

    #[test]
    fn the_machine_is_drawn_with_the_processors_of_a_rank() {
        assert_eq!(machine().draw(&[1, 9].into()), "[../BB/../..][../../../..]");
        assert_eq!(machine().draw(&[0, 12].into()), "[B./../../..][.B/../../..]");
    }

    #[test]
    fn no_binding_unless_asked() {
        assert!(assigned(None, None, None, 4).is_empty());
        assert!(assigned(Some("none"), Some("core"), None, 4).is_empty());
        assert!(assigned(None, Some("slot"), None, 4).is_empty());
        assert_eq!(Machine::parse(""), None);
        assert_eq!(Machine::parse("cpu x"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_machine_or_nothing(
            text in "((cpu|core|l2|l3|numa|package) ([0-9]{1,3}|-) ?\n?){0,18}|\\PC*",
            (bind, map) in (0usize..8, 0usize..9),
            (cores, ranks) in (prop::option::of(1u32..5), 0u32..9),
        ) {
            let Some(machine) = Machine::parse(&text) else { return Ok(()) };
            let mapping = Mapping {
                bind_to: BindTo::parse(BindTo::NAMES[bind]),
                map_by: MapBy::parse(MapBy::NAMES[map]),
                cores_per_rank: cores,
                ranks_per_object: cores,
            };
            let sets = machine.assign(&mapping, ranks).unwrap_or_default();
            prop_assert!(sets.iter().all(|set| !set.is_empty()));
        }
    }
}
