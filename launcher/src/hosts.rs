//! The hosts of a job, and how ranks are dealt to them.
//!
//! Ranks fill the hosts in the order given, the ranks of a host in one block. Ranks beyond
//! the number of slots are dealt in further rounds. Two spellings are read: the list of
//! `--hosts` ([`parse_list`]) and a host file ([`parse_file`]). A further spelling is one more
//! function from text to `Vec<Host>`. This file opens no file and resolves no name.

/// The largest number of slots of a host.
pub const MAX_SLOTS: u32 = 65_536;

/// A host as the user named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The name, for the agent and in messages.
    pub name: String,
    /// The number of ranks that it is meant for.
    pub slots: u32,
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
    text.split(',').map(|word| parse_host(word.trim())).collect()
}

/// Reads the text of a host file: `name`, `name:2` or `name slots=2` on each line; `#` begins
/// a comment. Other words, which other launchers use, are skipped. `path` is for messages.
pub fn parse_file(path: &str, text: &str) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        hosts.extend(
            parse_line(line).map_err(|why| HostsError(format!("{path}, line {number}: {why}")))?,
        );
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
        } else if means_slots(word) {
            return Err(HostsError(format!(
                "invalid word {word:?} after the host {}: the slots must be written as slots=N",
                host.name
            )));
        }
    }
    Ok(Some(host))
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
    let count = slots.map_or(Some(1), parse_slots);
    match (why_invalid_name(name), count) {
        (None, Some(slots)) => Ok(Host { name: name.to_owned(), slots }),
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
fn why_invalid_name(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("the name is missing"),
        // The agent would take it for an option.
        _ if name.starts_with('-') => Some("the name begins with a dash"),
        _ if name.contains(char::is_whitespace) => Some("the name has a space in it"),
        _ if name.contains(',') => Some("the name has a comma in it: one host on each line"),
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
    for host in hosts {
        match all.iter_mut().find(|known| known.name == host.name) {
            Some(known) => known.slots = known.slots.saturating_add(host.slots),
            None => all.push(host),
        }
    }
    all
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
    let own = host_name();
    name == "localhost" || name == own || own.split('.').next() == Some(name)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str, slots: u32) -> Host {
        Host { name: name.into(), slots }
    }

    #[test]
    fn a_list_names_hosts_with_their_slots() {
        assert_eq!(
            parse_list("a:2,b, [fe80::1]:3").unwrap(),
            [named("a", 2), named("b", 1), named("[fe80::1]", 3)]
        );
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
            [named("node1", 4), named("node2", 2), named("node3", 1)]
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
