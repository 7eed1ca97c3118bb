//! Info objects: ordered (key, value) pairs of strings (MPI-5.0 chapter 10).
//!
//! Keys and values are the user's bytes, without the terminator. Setting an existing key replaces
//! its value and keeps its position.

use crate::{Class, Error, Result};

/// Longest key in bytes (MPI_MAX_INFO_KEY without the terminator).
pub const MAX_KEY: usize = 255;
/// Longest value in bytes (MPI_MAX_INFO_VAL without the terminator).
pub const MAX_VALUE: usize = 1023;

/// An info object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pairs: Vec<Pair>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    key: Box<[u8]>,
    value: Box<[u8]>,
}

impl Info {
    /// Returns an object without keys.
    pub const fn new() -> Info {
        Info { pairs: Vec::new() }
    }

    /// Sets a key (MPI_Info_set). MPI_ERR_INFO_KEY or MPI_ERR_INFO_VALUE if one is too long or the
    /// key is empty.
    pub fn set(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (checked_key(key.as_ref())?, value.as_ref());
        if value.len() > MAX_VALUE {
            return Err(Error::new(
                Class::InfoValue,
                format!("info value too long: {} bytes, must be at most {MAX_VALUE}", value.len()),
            ));
        }
        match self.pairs.iter_mut().find(|pair| *pair.key == *key) {
            Some(pair) => pair.value = value.into(),
            None => self.pairs.push(Pair { key: key.into(), value: value.into() }),
        }
        Ok(())
    }

    /// Deletes a key (MPI_Info_delete). MPI_ERR_INFO_NOKEY if it does not exist.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = checked_key(key.as_ref())?;
        let at = self.pairs.iter().position(|pair| *pair.key == *key).ok_or_else(|| {
            Error::new(
                Class::InfoNokey,
                format!("the info object has no key \"{}\"", key.escape_ascii()),
            )
        })?;
        self.pairs.remove(at);
        Ok(())
    }

    /// Returns the value of a key. MPI_ERR_INFO_KEY if the key is empty or too long.
    pub fn value(&self, key: impl AsRef<[u8]>) -> Result<Option<&[u8]>> {
        let key = checked_key(key.as_ref())?;
        Ok(self.pairs.iter().find(|pair| *pair.key == *key).map(|pair| &*pair.value))
    }

    /// Copies as much of the value as fits `out` with its terminator (nothing if `out` is empty).
    /// Returns the bytes that the whole value needs with it (MPI_Info_get_string). `None` if the
    /// key does not exist.
    pub fn read_string(&self, key: impl AsRef<[u8]>, out: &mut [u8]) -> Result<Option<usize>> {
        let Some(value) = self.value(key)? else { return Ok(None) };
        if let Some(capacity) = out.len().checked_sub(1) {
            let fits = value.len().min(capacity);
            out[..fits].copy_from_slice(&value[..fits]);
            out[fits] = 0;
        }
        Ok(Some(value.len() + 1))
    }

    /// Returns the number of keys (MPI_Info_get_nkeys).
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns true if there are no keys.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Returns the key of that number, counted from 0 (MPI_Info_get_nthkey). MPI_ERR_ARG if there
    /// is none.
    pub fn nth_key(&self, n: i64) -> Result<&[u8]> {
        usize::try_from(n).ok().and_then(|n| self.pairs.get(n)).map(|pair| &*pair.key).ok_or_else(
            || {
                Error::new(
                    Class::Arg,
                    format!(
                        "invalid info key number {n}: the object has {} keys, numbered from 0",
                        self.len()
                    ),
                )
            },
        )
    }

    /// Iterates over all pairs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|pair| (&*pair.key, &*pair.value))
    }
}

fn checked_key(key: &[u8]) -> Result<&[u8]> {
    match key.len() {
        0 => Err(Error::new(Class::InfoKey, "empty info key: must have at least 1 byte")),
        1..=MAX_KEY => Ok(key),
        len => Err(Error::new(
            Class::InfoKey,
            format!("info key too long: {len} bytes, must be at most {MAX_KEY}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_place() {
        let mut info = Info::new();
        for (key, value) in [("b", "1"), ("a", "2"), ("b", "3"), ("c", "")] {
            info.set(key, value).unwrap();
        }
        let pairs: Vec<_> = info.iter().collect();
        assert_eq!(pairs, [(&b"b"[..], &b"3"[..]), (b"a", b"2"), (b"c", b"")]);
        info.delete("b").unwrap();
        assert_eq!((info.len(), info.nth_key(0).unwrap()), (2, &b"a"[..]));
        assert_eq!(info.value("b").unwrap(), None);
        assert_eq!(info.delete("b").unwrap_err().class(), Class::InfoNokey);
        for n in [-1, 2, i64::MAX] {
            assert_eq!(info.nth_key(n).unwrap_err().class(), Class::Arg);
        }
    }

    #[test]
    fn limits_are_those_of_the_abi() {
        let mut info = Info::new();
        info.set("k".repeat(255), "v".repeat(1023)).unwrap();
        assert_eq!(info.set("k".repeat(256), "").unwrap_err().class(), Class::InfoKey);
        assert_eq!(info.set("", "").unwrap_err().class(), Class::InfoKey);
        assert_eq!(info.set("k", "v".repeat(1024)).unwrap_err().class(), Class::InfoValue);
        assert_eq!(info.value("").unwrap_err().class(), Class::InfoKey);
        assert_eq!(info.delete("k".repeat(256)).unwrap_err().class(), Class::InfoKey);
    }

    #[test]
    fn a_short_buffer_gets_a_shortened_string() {
        let mut info = Info::new();
        info.set("key", "value").unwrap();
        let mut out = [b'#'; 4];
        assert_eq!(info.read_string("key", &mut out).unwrap(), Some(6));
        assert_eq!(&out, b"val\0");
        let mut out = [b'#'; 8];
        assert_eq!(info.read_string("key", &mut out).unwrap(), Some(6));
        assert_eq!(&out, b"value\0##");
        assert_eq!(info.read_string("key", &mut []).unwrap(), Some(6));
        let mut out = [b'#'; 2];
        assert_eq!(info.read_string("none", &mut out).unwrap(), None);
        assert_eq!(&out, b"##");
    }
}
