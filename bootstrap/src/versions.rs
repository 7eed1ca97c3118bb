//! The versions of what processes say to each other, which may be of different installations: the
//! `mpiexec` of a host and the library in a container's image.
//!
//! | between | version | rule |
//! |---|---|---|
//! | launcher and rank, messages | `control::VERSION` | the lower one of both, from `OLDEST` on |
//! | launcher and rank, status page | in its header | equal |
//! | ranks: frames, rings, segments, wire-up, streams | [`PEERS`] | equal |
//! | `mpiexec` and daemons | `frames::VERSION` of the launcher | equal |
//!
//! Ranks of a host compare [`PEERS`] on the status page; ranks of different hosts by the addresses
//! that they publish, which begin with it ([`stamp`]). A mismatch is named before any other byte is
//! decoded. Raise [`PEERS`] with every change of what ranks exchange.

/// The version of everything that ranks exchange.
pub const PEERS: u32 = 6;
/// The version of this library, for messages.
pub const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// Returns a published value with the version in front: [`PEERS`] (4 bytes, little-endian), the
/// length of [`LIBRARY`] (1 byte), [`LIBRARY`], the value. These bytes never change their form.
pub fn stamp(value: &[u8]) -> Vec<u8> {
    let mut all = PEERS.to_le_bytes().to_vec();
    all.push(LIBRARY.len() as u8);
    all.extend_from_slice(LIBRARY.as_bytes());
    all.extend_from_slice(value);
    all
}

/// Returns the value behind its version. The error names both versions and the remedy.
pub fn checked(bytes: &[u8]) -> Result<&[u8], String> {
    let parsed = bytes.split_first_chunk::<4>().and_then(|(peers, rest)| {
        let (length, rest) = rest.split_first()?;
        let (library, value) = rest.split_at_checked(usize::from(*length))?;
        Some((u32::from_le_bytes(*peers), library, value))
    });
    match parsed {
        Some((PEERS, _, value)) => Ok(value),
        Some((peers, library, _)) => {
            let library: String = String::from_utf8_lossy(library).chars().take(32).collect();
            Err(mismatch(peers, library.trim()))
        }
        None => Err("what it has published has no version (another MPI library?)".into()),
    }
}

/// Returns the sentence about a rank of another version; `library` may be empty.
pub(crate) fn mismatch(peers: u32, library: &str) -> String {
    let library = if library.is_empty() { "another".into() } else { format!("Verbena {library}") };
    format!(
        "it runs {library} library with version {peers} of what ranks exchange, this process \
         Verbena {LIBRARY} with version {PEERS}: use one Verbena on all hosts and in all images \
         (`verbena doctor` shows which library a program loads)"
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_value_of_this_version_is_found_and_another_is_named_with_both() {
        assert_eq!(checked(&stamp(b"address")), Ok(&b"address"[..]));
        let mut other = stamp(b"address");
        other[0] += 1;
        let why = checked(&other).unwrap_err();
        let (theirs, ours) = (format!("version {}", PEERS + 1), format!("version {PEERS}:"));
        assert!(why.contains(&theirs) && why.contains(&ours) && why.contains(LIBRARY), "{why}");
        assert!(checked(b"\x04\0\0\0\x09abc").unwrap_err().contains("has no version"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = checked(&bytes);
        }
    }
}
