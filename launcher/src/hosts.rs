//! The hosts of a job, and which ranks run on which.
//!
//! Ranks fill the hosts in the order given, each host's ranks in one block. More
//! ranks than slots are dealt to the hosts once more, round by round.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::options::{Section, Settings, Usage, total_ranks};

/// A host as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// For the agent, and in messages.
    pub name: String,
    /// Ranks that it is meant for.
    pub slots: u32,
}

/// The ranks that one host starts, and what all hosts of the job know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Its first rank; how many there are say the sections.
    pub first: u32,
    /// Ranks in the whole job.
    pub size: u32,
    /// The job's number.
    pub job: u64,
    /// What only the job's processes know.
    pub secret: [u8; 32],
}

impl Share {
    /// The only share of a new job.
    pub fn whole(settings: &Settings) -> Result<Share, bootstrap::BootstrapError> {
        let secret = *bootstrap::Secret::random()?.bytes();
        Ok(Share { first: 0, size: total_ranks(settings), job: bootstrap::random()?, secret })
    }
}

/// Every host once, where it was first named, with all slots that were said for it: `a,b,a` are two slots of `a`, as
/// other launchers have it.
pub fn together(hosts: Vec<Host>) -> Vec<Host> {
    let mut all: Vec<Host> = Vec::new();
    for host in hosts {
        match all.iter_mut().find(|known| known.name == host.name) {
            Some(known) => known.slots = known.slots.saturating_add(host.slots),
            None => all.push(host),
        }
    }
    all
}

/// `a:2,b` : names with their slots, one if not said. Brackets of IPv6 are kept out of it.
pub fn list(text: &str) -> Result<Vec<Host>, Usage> {
    text.split(',').map(|word| host(word.trim())).collect()
}

/// A file with a host on each line: `name`, `name:2` or `name slots=2`; `#` begins a
/// comment. Other words are for other launchers and skipped.
pub fn file(path: &str) -> Result<Vec<Host>, Usage> {
    let text = std::fs::read_to_string(Path::new(path))
        .map_err(|error| Usage(format!("{path}: {error}")))?;
    let mut hosts = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.split('#').next().unwrap_or("").split_whitespace();
        let Some(name) = words.next() else { continue };
        let mut found = host(name)
            .map_err(|Usage(why)| Usage(format!("{path}, line {}: {why}", number + 1)))?;
        if let Some(slots) = words.find_map(|word| word.strip_prefix("slots=")) {
            found.slots = count(slots)
                .ok_or_else(|| Usage(format!("{path}, line {}: {slots} slots", number + 1)))?;
        }
        hosts.push(found);
    }
    if hosts.is_empty() { Err(Usage(format!("{path} names no host"))) } else { Ok(hosts) }
}

fn host(word: &str) -> Result<Host, Usage> {
    // An address of IPv6 has colons of its own.
    let (name, slots) = match word.rsplit_once(':') {
        Some((name, slots)) if !name.contains(':') || name.ends_with(']') => (name, count(slots)),
        _ => (word, Some(1)),
    };
    match slots {
        // A dash in front would be an option of the agent.
        Some(slots)
            if !name.is_empty()
                && !name.starts_with('-')
                && !name.contains(char::is_whitespace) =>
        {
            Ok(Host { name: name.to_owned(), slots })
        }
        _ => Err(Usage(format!("{word:?} is no host with a number of slots, as node1:4"))),
    }
}

fn count(text: &str) -> Option<u32> {
    text.parse().ok().filter(|slots| (1..=crate::options::MAX_RANKS).contains(slots))
}

/// How many of `ranks` each host gets.
pub fn deal(hosts: &[Host], ranks: u32) -> Vec<u32> {
    let mut counts = vec![0; hosts.len()];
    let mut left = ranks;
    while left > 0 {
        for (count, host) in counts.iter_mut().zip(hosts) {
            let now = host.slots.min(left);
            *count += now;
            left -= now;
        }
    }
    counts
}

/// The sections with ranks `first .. first + count` alone.
pub fn part(sections: &[Section], first: u32, count: u32) -> Vec<Section> {
    let mut begin = 0;
    let mut parts = Vec::new();
    for section in sections {
        let end = begin + section.ranks;
        let ranks = end.min(first + count).saturating_sub(begin.max(first));
        if ranks > 0 {
            parts.push(Section { ranks, ..section.clone() });
        }
        begin = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, slots: u32) -> Host {
        Host { name: name.into(), slots }
    }

    #[test]
    fn hosts_are_read_with_their_slots() {
        assert_eq!(
            list("a:2,b, [fe80::1]:3").unwrap(),
            [named("a", 2), named("b", 1), named("[fe80::1]", 3)]
        );
        assert_eq!(list("fe80::1").unwrap(), [named("fe80::1", 1)]);
        for wrong in ["", "a,,b", "a:0", "a:x", "a b", ":3", "-oProxyCommand=x", "a:99999999"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_that_is_named_again_has_more_slots() {
        let hosts =
            [named("a", 1), named("b", 2), named("a", 3), named("c", 1), named("a", u32::MAX)];
        assert_eq!(together(hosts.into()), [named("a", u32::MAX), named("b", 2), named("c", 1)]);
        assert_eq!(together(list("a,b,a").unwrap()), [named("a", 2), named("b", 1)]);
    }

    #[test]
    fn a_file_has_one_on_each_line() {
        let path = std::env::temp_dir().join(format!("verbena-hosts-{}", std::process::id()));
        let path = path.to_str().unwrap();
        std::fs::write(path, "# ours\n\nnode1 slots=4 max_slots=8\nnode2:2 # two\nnode3\n")
            .unwrap();
        assert_eq!(file(path).unwrap(), [named("node1", 4), named("node2", 2), named("node3", 1)]);
        std::fs::write(path, "node1\nnode2 slots=none\n").unwrap();
        assert!(file(path).unwrap_err().0.contains("line 2"));
        std::fs::write(path, "# nobody\n").unwrap();
        assert!(file(path).unwrap_err().0.contains("names no host"));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn ranks_fill_hosts_and_then_go_round() {
        let hosts = [named("a", 2), named("b", 1)];
        for (ranks, expected) in
            [(1, [1, 0]), (3, [2, 1]), (4, [3, 1]), (5, [4, 1]), (6, [4, 2]), (7, [5, 2])]
        {
            assert_eq!(deal(&hosts, ranks), expected, "{ranks}");
        }
    }

    #[test]
    fn a_part_has_the_sections_that_its_ranks_are_of() {
        let section =
            |name: &str, ranks| Section { ranks, program: name.into(), ..Section::default() };
        let all = [section("m", 1), section("w", 3), section("x", 2)];
        assert_eq!(part(&all, 0, 2), [section("m", 1), section("w", 1)]);
        assert_eq!(part(&all, 2, 3), [section("w", 2), section("x", 1)]);
        assert_eq!(part(&all, 5, 1), [section("x", 1)]);
    }
}
