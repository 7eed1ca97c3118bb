//! The job's key-value store, through which ranks publish values to each other.

use std::collections::HashMap;

/// The largest sum of keys and values of one job, in bytes.
const MAX_BYTES: usize = 256 << 20;

/// The values, and the ranks that wait for a value.
#[derive(Debug, Default)]
pub struct KvStore {
    values: HashMap<String, Vec<u8>>,
    waiting: HashMap<String, Vec<u32>>,
    used: usize,
}

impl KvStore {
    /// Stores a value in place of an earlier one. Returns the ranks that wait for it. Beyond
    /// [`MAX_BYTES`] the value is dropped.
    pub fn put(&mut self, key: String, value: Vec<u8>) -> Vec<u32> {
        self.used += key.len() + value.len();
        if self.used > MAX_BYTES {
            return Vec::new();
        }
        let waiting = self.waiting.remove(&key).unwrap_or_default();
        self.values.insert(key, value);
        waiting
    }

    /// Returns the value. If there is none, records that `rank` waits for it.
    pub fn request(&mut self, key: &str, rank: u32) -> Option<&[u8]> {
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
    fn an_early_request_is_answered_by_the_put() {
        let mut store = KvStore::default();
        assert_eq!(store.request("a", 3), None);
        assert_eq!(store.request("a", 1), None);
        assert_eq!(store.put("a".into(), vec![1]), [3, 1]);
        assert_eq!(store.request("a", 0), Some(&[1][..]));
        assert!(store.put("a".into(), vec![2]).is_empty());
        assert_eq!(store.request("a", 0), Some(&[2][..]));
    }
}
