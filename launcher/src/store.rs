//! The job's key-value store: what ranks put, other ranks ask for.

use std::collections::HashMap;

/// Bytes of keys and values that one job may store.
const ROOM: usize = 256 << 20;

/// Values, and who waits for those that are not there yet.
#[derive(Debug, Default)]
pub struct Store {
    values: HashMap<String, Vec<u8>>,
    waiting: HashMap<String, Vec<u32>>,
    used: usize,
}

impl Store {
    /// Stores a value, the last of a key counts. Returns the ranks that have
    /// waited for it. What exceeds the room is dropped.
    pub fn put(&mut self, key: String, value: Vec<u8>) -> Vec<u32> {
        self.used += key.len() + value.len();
        if self.used > ROOM {
            return Vec::new();
        }
        let waiting = self.waiting.remove(&key).unwrap_or_default();
        self.values.insert(key, value);
        waiting
    }

    /// The value, or `None`: then `rank` is noted as waiting.
    pub fn value(&mut self, key: &str, rank: u32) -> Option<&[u8]> {
        if !self.values.contains_key(key) {
            self.waiting.entry(key.to_owned()).or_default().push(rank);
        }
        self.values.get(key).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_early_is_answered_later() {
        let mut store = Store::default();
        assert_eq!(store.value("a", 3), None);
        assert_eq!(store.value("a", 1), None);
        assert_eq!(store.put("a".into(), vec![1]), [3, 1]);
        assert_eq!(store.value("a", 0), Some(&[1][..]));
        assert!(store.put("a".into(), vec![2]).is_empty());
        assert_eq!(store.value("a", 0), Some(&[2][..]));
    }
}
