//! The keys of the job's store, which name the rank that puts them: `tcp/3`, `verbs/3.r1`.

/// Returns the rank that puts a key. Rank 0 puts keys without a slash; `None` if the key does not
/// tell.
pub fn putter(key: &str) -> Option<u32> {
    let Some((_, rest)) = key.split_once('/') else { return Some(0) };
    let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or("");
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_who_puts_it() {
        assert_eq!(putter("job"), Some(0));
        assert_eq!(putter("cpus/12"), Some(12));
        assert_eq!(putter("verbs/3.r1"), Some(3));
        assert_eq!(putter("verbs/x"), None);
    }
}
