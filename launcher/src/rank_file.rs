//! Rank files (`--rankfile`): the host and the processors of each rank, as Open MPI writes them.
//!
//! ```text
//! rank 0=node1 slot=0:0-1       package 0, its cores 0 and 1
//! rank 1=node1 slot=1:*         package 1, all of its cores
//! rank 2=node2 slot=2,4-5       cores 2, 4 and 5 of the host
//! ```
//!
//! Numbers are hwloc's logical ones, counted on the rank's own host; `slot=` may be absent, which
//! leaves the rank unbound. Every rank of the job has one line. This file opens no file.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::hosts::{Host, HostsError, parse_list};

/// The largest number of a package or a core.
const MAX_NUMBER: usize = 65_535;

/// Cores that a rank may use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slots {
    /// The package whose cores are meant; `None` for cores of the host.
    pub package: Option<usize>,
    /// First and last core of each range; empty for all.
    pub cores: Vec<(usize, usize)>,
}

/// A rank file: hosts with the number of their ranks as slots, and the slots of each rank.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankFile {
    /// The hosts in the order of their lowest ranks.
    pub hosts: Vec<Host>,
    /// The host of each rank, by its index in `hosts`.
    pub host_of: Vec<u32>,
    /// The processors of each rank; empty if it is not bound.
    pub slots: Vec<Vec<Slots>>,
}

/// Parses the text of a rank file. `path` is for messages.
pub fn parse(path: &str, text: &str) -> Result<RankFile, HostsError> {
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if !line.is_empty() {
            let wrong = |why| HostsError::new(format!("{path}, line {number}: {why}"));
            lines.push(parse_line(line).map_err(wrong)?);
        }
    }
    lines.sort_by_key(|(rank, ..)| *rank);
    let wrong = |why: String| Err(HostsError::new(format!("{path}: {why}")));
    let mut file = RankFile::default();
    let mut index_of = HashMap::new();
    for (expected, (rank, host, slots)) in lines.into_iter().enumerate() {
        if rank < expected {
            return wrong(format!("rank {rank} has two lines"));
        }
        if rank > expected {
            return wrong(format!("rank {expected} has no line, and rank {rank} has one"));
        }
        file.slots.push(slots);
        let new = file.hosts.len() as u32;
        let index = *index_of.entry(host.clone()).or_insert(new);
        match file.hosts.get_mut(index as usize) {
            Some(known) => known.slots += 1,
            None => file.hosts.push(Host::new(host, 1)),
        }
        file.host_of.push(index);
    }
    if file.hosts.is_empty() {
        return wrong("it names no rank: lines like rank 0=node1 slot=0:0-1 are needed".into());
    }
    Ok(file)
}

fn parse_line(line: &str) -> Result<(usize, String, Vec<Slots>), String> {
    let form = || format!("invalid line {line:?}: must be rank N=HOST slot=LIST");
    let rest = line.strip_prefix("rank").ok_or_else(form)?;
    let (rank, rest) = rest.split_once('=').ok_or_else(form)?;
    let rank = number(rank.trim()).ok_or_else(form)?;
    let mut words = rest.split_whitespace();
    let name = words.next().ok_or_else(form)?;
    if name.starts_with('+') {
        return Err(format!("invalid host {name:?}: must be a name, not a number of a host"));
    }
    let mut hosts = parse_list(name).map_err(|error| error.to_string())?;
    let host = hosts.pop().filter(|_| hosts.is_empty()).ok_or_else(form)?;
    let rest: Vec<&str> = words.collect();
    let slots = match rest.as_slice() {
        [] => Vec::new(),
        [word] => parse_slots(word.strip_prefix("slot=").ok_or_else(form)?)?,
        _ => return Err(form()),
    };
    Ok((rank, host.name, slots))
}

/// Parses `0:0-1`, `1:*`, `2,4-5`, or several of them with commas between.
fn parse_slots(text: &str) -> Result<Vec<Slots>, String> {
    let wrong = || {
        format!("invalid slot={text}: must be cores like 2,4-5, or package:cores like 0:0-1 or 1:*")
    };
    let mut all: Vec<Slots> = Vec::new();
    for word in text.split(',') {
        let (package, cores) = match word.split_once(':') {
            Some((package, cores)) => (Some(number(package).ok_or_else(wrong)?), cores),
            // Cores after `0:1,` belong to the same package.
            None => (all.last().and_then(|last| last.package), word),
        };
        let cores = match cores {
            "*" => Vec::new(),
            cores => vec![range(cores).ok_or_else(wrong)?],
        };
        all.push(Slots { package, cores });
    }
    Ok(all)
}

fn range(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((first, last))
}

fn number(text: &str) -> Option<usize> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= MAX_NUMBER)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranks_get_hosts_and_processors() {
        let text = "# ours\nrank 1=a slot=1:*\nrank 0=a slot=0:0-1,3\nrank 2 = b slot=2,4-5\n\
                    rank 3=b\n";
        let file = parse("f", text).unwrap();
        assert_eq!(file.hosts, [Host::new("a", 2), Host::new("b", 2)]);
        let slots = |package, first, last| Slots { package, cores: vec![(first, last)] };
        assert_eq!(file.slots[0], [slots(Some(0), 0, 1), slots(Some(0), 3, 3)]);
        assert_eq!(file.slots[1], [Slots { package: Some(1), cores: vec![] }]);
        assert_eq!(file.slots[2], [slots(None, 2, 2), slots(None, 4, 5)]);
        assert_eq!(file.slots[3], []);
        let turns = parse("f", "rank 0=b\nrank 1=a\nrank 2=b\n").unwrap();
        assert_eq!(turns.hosts, [Host::new("b", 2), Host::new("a", 1)]);
        assert_eq!((file.host_of, turns.host_of), (vec![0, 0, 1, 1], vec![0, 1, 0]));
    }

    #[test]
    fn wrong_files_are_named_with_their_line() {
        for (text, why) in [
            ("", "f: it names no rank"),
            ("rank 1=a slot=0", "f: rank 0 has no line, and rank 1 has one"),
            ("rank 0=a\nrank 0=b", "f: rank 0 has two lines"),
            ("rank 0=a slot=x", "f, line 1: invalid slot=x: must be cores"),
            ("rank 0=a slot=3-1", "invalid slot=3-1"),
            ("rank 0=+n0 slot=1", "invalid host \"+n0\""),
            ("rank x=a", "invalid line \"rank x=a\": must be rank N=HOST slot=LIST"),
        ] {
            let error = parse("f", text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_rank_file_or_an_error(
            text in "(rank [0-9]{1,2}=[ab+]{1,2}( slot=[0-9:,*-]{0,6})?\n){0,4}|\\PC*",
        ) {
            if let Ok(file) = parse("f", &text) {
                let slots: u32 = file.hosts.iter().map(|host| host.slots).sum();
                prop_assert_eq!(slots as usize, file.slots.len());
                prop_assert_eq!(file.host_of.len(), file.slots.len());
            }
        }
    }
}
