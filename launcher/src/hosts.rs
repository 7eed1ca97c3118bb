//! The hosts of a job, and how ranks are dealt to them.
//!
//! Ranks fill the hosts in the order given, the ranks of a host in one block. Ranks beyond
//! the number of slots are dealt in further rounds. Two spellings are read: the list of
//! `--hosts` ([`parse_list`]) and a host file ([`parse_file`]). A further spelling is one more
//! function from text to `Vec<Host>`. Names may have ranges (`n[01-16]`). This file opens no file
//! and resolves no name.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::host_list::expand;

/// The largest number of slots of a host.
pub const MAX_SLOTS: u32 = 65_536;

/// A host as the user named it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// The name, for the agent and in messages.
    pub name: String,
    /// The number of ranks that it is meant for.
    pub slots: u32,
    /// The number of ranks that it takes at most, if the user set one (`max_slots=`).
    pub max_slots: Option<u32>,
}

impl Host {
    /// Returns a host without a limit.
    pub fn new(name: impl Into<String>, slots: u32) -> Host {
        Host { name: name.into(), slots, max_slots: None }
    }
}

/// An unusable list of hosts, in one line for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HostsError(String);

impl HostsError {
    /// Makes an error of one line.
    pub(crate) fn new(text: String) -> HostsError {
        HostsError(text)
    }
}

/// Reads `a:2,b`: names with their slots (default 1). The colons of an IPv6 address need
/// brackets if slots follow.
pub fn parse_list(text: &str) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    for word in split_list(text) {
        hosts.extend(expand_host(parse_host(word.trim())?)?);
    }
    Ok(hosts)
}

/// Splits at commas outside of brackets.
fn split_list(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    })
}

/// Returns the hosts of a name with ranges, `n[01-04]`. The brackets of an IPv6 address have colons
/// in them.
fn expand_host(host: Host) -> Result<Vec<Host>, HostsError> {
    if !host.name.contains('[') || host.name.contains(':') {
        return Ok(vec![host]);
    }
    let invalid = || {
        let name = &host.name;
        HostsError(format!("invalid host {name:?}: a range must be written as n[1-4,7]"))
    };
    let names = expand(&host.name).ok_or_else(invalid)?;
    Ok(names.into_iter().map(|name| Host { name, ..host.clone() }).collect())
}

/// Reads the text of a host file: `name`, `name:2` or `name slots=2` on each line; `#` begins
/// a comment. Other words, which other launchers use, are skipped. `path` is for messages.
pub fn parse_file(path: &str, text: &str) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let parsed = parse_line(line)
            .and_then(|host| host.map_or(Ok(Vec::new()), expand_host))
            .map_err(|why| HostsError(format!("{path}, line {number}: {why}")))?;
        hosts.extend(parsed);
    }
    if hosts.is_empty() {
        return Err(HostsError(format!("{path} names no host: one name on each line is needed")));
    }
    Ok(hosts)
}

/// Parses one line of a host file: a host's name and `slots=N`, other words are ignored. Returns
/// `None` for an empty line or a comment.
fn parse_line(line: &str) -> Result<Option<Host>, HostsError> {
    let mut words = line.split('#').next().unwrap_or("").split_whitespace();
    let Some(name) = words.next() else { return Ok(None) };
    let mut host = parse_host(name)?;
    let mut is_given = false;
    for word in words {
        if let Some(slots) = word.strip_prefix("slots=") {
            if is_given {
                continue;
            }
            host.slots = parse_slots(slots).ok_or_else(|| {
                HostsError(format!("invalid slots={slots}: must be 1 to {MAX_SLOTS}"))
            })?;
            is_given = true;
        } else if let Some(most) = max_slots(word) {
            let limit = parse_slots(most);
            host.max_slots =
                Some(limit.ok_or_else(|| {
                    HostsError(format!("invalid {word}: must be 1 to {MAX_SLOTS}"))
                })?);
        } else if means_slots(word) {
            return Err(HostsError(format!(
                "invalid word {word:?} after the host {}: the slots must be written as slots=N",
                host.name
            )));
        }
    }
    Ok(Some(host))
}

/// Returns the value of `max_slots=N`, in any of its spellings.
fn max_slots(word: &str) -> Option<&str> {
    ["max_slots=", "max-slots=", "maxslots="].iter().find_map(|name| word.strip_prefix(name))
}

/// Returns true for a word that was meant as the number of slots and is not written as one.
fn means_slots(word: &str) -> bool {
    let digits = word.trim_start_matches(['=', ':', '*', 'x']);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number || word == "slots" || word.starts_with("slot=") || word.starts_with("slots:")
}

fn parse_host(word: &str) -> Result<Host, HostsError> {
    // An IPv6 address has colons of its own.
    let (name, slots) = match word.rsplit_once(':') {
        Some((name, slots)) if !name.contains(':') || name.ends_with(']') => (name, Some(slots)),
        _ => (word, None),
    };
    // Agents know the address without its brackets.
    let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    let name = inner.filter(|inner| inner.contains(':')).unwrap_or(name);
    let count = slots.map_or(Some(1), parse_slots);
    match (why_invalid_name(name), count) {
        (None, Some(slots)) => Ok(Host::new(name, slots)),
        (Some(why), _) => {
            Err(HostsError(format!("invalid host {word:?}: {why}; must be a name, or name:slots")))
        }
        (None, None) => Err(HostsError(format!(
            "invalid host {word:?}: it has {:?} slots, must be 1 to {MAX_SLOTS}",
            slots.unwrap_or_default()
        ))),
    }
}

/// Returns what keeps a word from being the name of a host.
pub(crate) fn why_invalid_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("the name is missing"),
        // The agent would take it for an option.
        _ if name.starts_with('-') => Some("the name begins with a dash"),
        _ if name.contains(char::is_whitespace) => Some("the name has a space in it"),
        _ if name.contains(',') && !name.contains('[') => {
            Some("the name has a comma in it: one host on each line")
        }
        _ if name.contains('=') => Some("the name has an equals sign in it"),
        _ => None,
    }
}

fn parse_slots(text: &str) -> Option<u32> {
    text.parse().ok().filter(|slots| (1..=MAX_SLOTS).contains(slots))
}

/// Returns every host once, in the order of first mention, with the sum of its slots:
/// `a,b,a` gives `a` two slots, as with other launchers.
pub fn merge(hosts: Vec<Host>) -> Vec<Host> {
    let mut all: Vec<Host> = Vec::new();
    let mut index_of = HashMap::new();
    for host in hosts {
        let index = *index_of.entry(host.name.clone()).or_insert(all.len());
        match all.get_mut(index) {
            Some(known) => {
                known.slots = known.slots.saturating_add(host.slots);
                known.max_slots = known.max_slots.or(host.max_slots);
            }
            None => all.push(host),
        }
    }
    all
}

/// Returns the names of hosts, to look them up in: there may be tens of thousands.
pub(crate) fn names(hosts: &[Host]) -> HashSet<&str> {
    hosts.iter().map(|host| &*host.name).collect()
}

/// Returns how many of `ranks` each host gets if they are spread evenly: no host gets a further
/// rank before all others with free slots. Ranks beyond the slots are dealt in further rounds.
pub fn spread(hosts: &[Host], ranks: u32) -> Vec<u32> {
    let mut counts = vec![0; hosts.len()];
    let mut left = ranks;
    while left > 0 {
        let is_full = counts.iter().zip(hosts).all(|(count, host)| *count >= host.slots);
        for (count, host) in counts.iter_mut().zip(hosts) {
            if left > 0 && (is_full || *count < host.slots) {
                *count += 1;
                left -= 1;
            }
        }
    }
    counts
}

/// Returns the host that gets more ranks than it takes, in one line for the user.
pub fn overfull(hosts: &[Host], counts: &[u32]) -> Option<String> {
    hosts.iter().zip(counts).find_map(|(host, count)| {
        let most = host.max_slots.filter(|most| most < count)?;
        Some(format!("{count} ranks on {}: its max_slots is {most}", host.name))
    })
}

/// Returns how many of `ranks` each host gets.
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

/// Returns the name of this host, without a look-up in the network.
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Returns true if `name` means this host, which needs no agent.
pub fn is_this_host(name: &str) -> bool {
    name == "localhost" || is_same_host(name, &host_name())
}

/// Returns true for the same name. If one of the two has no domain, that of the other is ignored.
fn is_same_host(name: &str, own: &str) -> bool {
    // The first number of an address is no name.
    let is_address = name.parse::<IpAddr>().is_ok();
    let has_label = |full: &str, label: &str| full.split('.').next() == Some(label);
    name == own || (!is_address && (has_label(own, name) || has_label(name, own)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str, slots: u32) -> Host {
        Host::new(name, slots)
    }

    #[test]
    fn a_list_names_hosts_with_their_slots() {
        assert_eq!(
            parse_list("a:2,b, [fe80::1]:3").unwrap(),
            [named("a", 2), named("b", 1), named("fe80::1", 3)]
        );
        assert_eq!(parse_list("[::1]").unwrap(), [named("::1", 1)]);
        assert_eq!(parse_list("fe80::1").unwrap(), [named("fe80::1", 1)]);
        for wrong in ["", "a,,b", "a:0", "a:x", "a b", ":3", "-oProxyCommand=x", "a:99999999"] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_that_is_named_again_has_more_slots() {
        let hosts =
            [named("a", 1), named("b", 2), named("a", 3), named("c", 1), named("a", u32::MAX)];
        assert_eq!(merge(hosts.into()), [named("a", u32::MAX), named("b", 2), named("c", 1)]);
        assert_eq!(merge(parse_list("a,b,a").unwrap()), [named("a", 2), named("b", 1)]);
    }

    #[test]
    fn a_file_has_a_host_on_each_line() {
        let text = "# ours\n\nnode1 slots=4 max_slots=8\nnode2:2 # two\nnode3\n";
        assert_eq!(
            parse_file("f", text).unwrap(),
            [
                Host { max_slots: Some(8), ..named("node1", 4) },
                named("node2", 2),
                named("node3", 1)
            ]
        );
        let why = parse_file("f", "node1\nnode2 slots=none\n").unwrap_err().0;
        assert_eq!(why, "f, line 2: invalid slots=none: must be 1 to 65536");
        for (line, why) in [
            ("node1:x", "invalid host \"node1:x\": it has \"x\" slots, must be 1 to 65536"),
            ("node1:", "invalid host \"node1:\": it has \"\" slots, must be 1 to 65536"),
            (":3", "invalid host \":3\": the name is missing; must be a name, or name:slots"),
            ("-x", "the name begins with a dash; must be"),
            ("a,b", "the name has a comma in it: one host on each line; must be"),
            ("slots=3", "the name has an equals sign in it; must be"),
            ("a 4", "invalid word \"4\" after the host a: the slots must be written as slots=N"),
            ("a slots = 4", "invalid word \"slots\" after the host a: the slots must be"),
            ("a slot=4", "invalid word \"slot=4\" after the host a: the slots must be"),
            ("a slots=2 x4", "invalid word \"x4\""),
        ] {
            let error = parse_file("f", &format!("# first\n{line}\n")).unwrap_err().0;
            assert!(error.starts_with("f, line 2: ") && error.contains(why), "{error}");
        }
        assert!(parse_file("f", "a ib0 user=me\n").is_ok(), "what other launchers know");
        assert!(parse_file("f", "# nothing\n").unwrap_err().0.contains("names no host"));
    }

    #[test]
    fn names_may_have_ranges() {
        let four = [named("n08", 2), named("n09", 2), named("n10", 2), named("x", 1)];
        assert_eq!(parse_list("n[08-10]:2,x").unwrap(), four);
        assert_eq!(parse_file("f", "n[08-10] slots=2\nx").unwrap(), four);
        assert_eq!(parse_list("[fe80::1]:3").unwrap(), [named("fe80::1", 3)]);
        for wrong in ["n[1-2", "n[2-1]", "n]1["] {
            assert!(parse_list(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranks_are_spread_over_hosts_and_limits_hold() {
        let hosts = [named("a", 3), named("b", 1), Host { max_slots: Some(2), ..named("c", 2) }];
        for (ranks, expected) in
            [(1, [1, 0, 0]), (3, [1, 1, 1]), (5, [2, 1, 2]), (6, [3, 1, 2]), (8, [4, 2, 2])]
        {
            assert_eq!(spread(&hosts, ranks), expected, "{ranks}");
        }
        assert_eq!(overfull(&hosts, &[9, 9, 2]), None);
        assert_eq!(overfull(&hosts, &[0, 0, 3]).unwrap(), "3 ranks on c: its max_slots is 2");
    }

    #[test]
    fn a_host_is_known_by_its_name_with_and_without_a_domain() {
        for (name, own, is_same) in [
            ("node7", "node7", true),
            ("node7", "node7.cluster.example", true),
            ("node7.cluster.example", "node7", true),
            ("node7.cluster.example", "node7.cluster.example", true),
            ("node7.other.example", "node7.cluster.example", false),
            ("node8.cluster.example", "node7", false),
            ("10.0.0.7", "10", false),
            ("fe80::1", "fe80", false),
        ] {
            assert_eq!(is_same_host(name, own), is_same, "{name} on {own}");
        }
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

    proptest! {
        #[test]
        fn any_text_is_a_list_of_usable_hosts_or_an_error(
            text in "[a-c:,\\[\\]0-9 #=slot\n-]{0,40}|\\PC*",
        ) {
            for hosts in [parse_list(&text), parse_file("f", &text)].into_iter().flatten() {
                for host in hosts {
                    prop_assert!((1..=MAX_SLOTS).contains(&host.slots) && !host.name.is_empty());
                    prop_assert!(!host.name.starts_with('-'));
                }
            }
        }
    }
}
