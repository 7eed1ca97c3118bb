//! Lists of hosts as Slurm writes them: `n[08-10,12],login,r[1-2]c[0-1]`.

/// The largest number of hosts in a list.
const MAX_HOSTS: usize = 65_536;

/// Expands a list of Slurm: `n[1-3,7],login,r[01-02]c[0-1]`. `None` if it is not one.
pub(crate) fn expand(list: &str) -> Option<Vec<String>> {
    let mut depth = 0;
    let mut names = Vec::new();
    let items = list.split(|letter| {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    for item in items {
        names.extend(expand_one(item.trim())?);
        if names.len() > MAX_HOSTS {
            return None;
        }
    }
    Some(names).filter(|names| names.iter().all(|name| !name.is_empty()))
}

fn expand_one(item: &str) -> Option<Vec<String>> {
    let Some((prefix, rest)) = item.split_once('[') else {
        return (!item.contains(']')).then(|| vec![item.to_owned()]);
    };
    let (ranges, suffix) = rest.split_once(']')?;
    let suffixes = expand_one(suffix)?;
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if low > high || (high - low) as usize * suffixes.len() > MAX_HOSTS {
            return None;
        }
        let width = first.len();
        for number in low..=high {
            names.extend(suffixes.iter().map(|end| format!("{prefix}{number:0width$}{end}")));
        }
        if names.len() > MAX_HOSTS {
            return None;
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_keep_their_zeros() {
        let names = |list| expand(list).unwrap_or_default().join(" ");
        assert_eq!(names("n[08-10,12],login"), "n08 n09 n10 n12 login");
        assert_eq!(names("r[1-2]c[0-1]"), "r1c0 r1c1 r2c0 r2c1");
        for wrong in ["n[1-", "n[2-1]", "n[a]", "a,,b", "n[1-99999999]", "x]"] {
            assert_eq!(expand(wrong), None, "{wrong}");
        }
    }
}
