//! Rules of selection as text, as the knob `coll.rules` and `verbena simulate` have them.
//!
//! ```text
//! allreduce=ring; bcast from=64K ranks=16 hosts=2 ranks_per_host=4 level=host lanes
//! ```
//!
//! A rule has an operation, conditions, and an algorithm. Rules are tried in the order of the text.

use fabric::CollectiveKind;

use crate::algorithm::Algorithm;
use crate::select::Rule;
use crate::topology::Level;

/// The operations that have several algorithms, by their names in rules.
pub(crate) const KINDS: [(&str, CollectiveKind); 13] = [
    ("barrier", CollectiveKind::Barrier),
    ("bcast", CollectiveKind::Bcast),
    ("gather", CollectiveKind::Gather),
    ("scatter", CollectiveKind::Scatter),
    ("allgather", CollectiveKind::Allgather),
    ("allgatherv", CollectiveKind::Allgatherv),
    ("alltoall", CollectiveKind::Alltoall),
    ("reduce", CollectiveKind::Reduce),
    ("allreduce", CollectiveKind::Allreduce),
    ("reduce_scatter", CollectiveKind::ReduceScatter),
    ("reduce_scatter_block", CollectiveKind::ReduceScatterBlock),
    ("scan", CollectiveKind::Scan),
    ("exscan", CollectiveKind::Exscan),
];

/// Parses rules. `size` parses a number of bytes such as 64K. The error is for the user.
pub fn parse(text: &str, size: impl Fn(&str) -> Option<u64>) -> Result<Vec<Rule>, String> {
    let rules = text.split(';').map(str::trim).filter(|rule| !rule.is_empty());
    rules.map(|rule| parse_rule(rule, &size)).collect()
}

fn parse_rule(text: &str, size: &impl Fn(&str) -> Option<u64>) -> Result<Rule, String> {
    let wrong = |what: String| format!("invalid rule `{text}`: {what}");
    let (kind, rest) = text.split_once(['=', ' ']).ok_or_else(|| {
        wrong(
            "must be an operation, conditions and an algorithm, as in `bcast from=64K ring`".into(),
        )
    })?;
    let kind = find(&KINDS, kind)
        .ok_or_else(|| wrong(format!("operations are {}", names(KINDS.iter().map(|k| k.0)))))?;
    let mut words: Vec<&str> = rest.split_whitespace().collect();
    let name = words.pop().unwrap_or_default();
    let algorithm = Algorithm::named(name).ok_or_else(|| {
        wrong(format!("algorithms are {}", names(Algorithm::NAMES.iter().map(|k| k.0))))
    })?;
    let mut rule = Rule::new(kind, algorithm);
    for word in words {
        let number = |text: &str| text.parse::<u32>().ok();
        let is_known = match word.split_once('=') {
            Some(("from", value)) => size(value).map(|bytes| rule.bytes = bytes),
            Some(("ranks", value)) => number(value).map(|ranks| rule.ranks = ranks),
            Some(("hosts", value)) => number(value).map(|hosts| rule.hosts = hosts),
            Some(("ranks_per_host", value)) => number(value).map(|n| rule.ranks_per_host = n),
            Some(("level", name)) => Level::named(name).map(|level| rule.level = Some(level)),
            _ => None,
        };
        is_known.ok_or_else(|| {
            wrong(format!(
                "`{word}` must be from=SIZE, ranks=N, hosts=N, ranks_per_host=N or level=PART \
                 (switch, host, package, numa, l3)"
            ))
        })?;
    }
    Ok(rule)
}

fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    table.iter().find(|(of, _)| *of == name).map(|(_, value)| *value)
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> String {
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(text: &str) -> Option<u64> {
        match text.strip_suffix('K') {
            Some(number) => number.parse::<u64>().ok().map(|number| number << 10),
            None => text.parse().ok(),
        }
    }

    #[test]
    fn rules_have_conditions_and_an_algorithm() {
        let rules = parse(
            "allreduce=ring; bcast from=64K hosts=2 ranks=8 lanes; scan level=numa leaders",
            size,
        )
        .unwrap();
        let bcast = Rule::new(CollectiveKind::Bcast, Algorithm::Lanes);
        assert_eq!(rules[0], Rule::new(CollectiveKind::Allreduce, Algorithm::Ring));
        assert_eq!(rules[1], Rule { bytes: 64 << 10, ranks: 8, hosts: 2, ..bcast });
        assert_eq!(rules[2].level, Some(Level::NumaNode));
    }

    #[test]
    fn what_is_no_rule_is_named() {
        let error = |text| parse(text, size).unwrap_err();
        assert!(error("bcast").starts_with("invalid rule `bcast`: must be an operation"));
        assert!(error("broadcast=ring").contains("operations are barrier, bcast"));
        assert!(error("bcast=tree").contains("algorithms are binomial, linear"));
        assert!(error("bcast to=4 ring").contains("`to=4` must be from=SIZE"));
    }
}
