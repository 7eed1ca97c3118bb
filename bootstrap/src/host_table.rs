//! The table of hosts: which host each rank of a job is on.
//!
//! Our launcher gives each rank the table as text. If each host has one block of ranks, these are
//! the numbers of ranks, `64x1023,12`; otherwise the hosts in the order of the ranks,
//! `@0-3x16,0-1`: one rank for each of the hosts 0 to 3, 16 times, then one for the hosts 0 and 1.
//! Where another process manager has dealt the ranks, the lowest rank of each host puts the ranks
//! of its host, `0-63,128`, into the store. Hosts are numbered in the order of their lowest ranks.
//!
//! `mpiexec` also gives the ranks of its host their places there, if it binds them:
//! `0.0.1,0.1.2,-`, for each rank package, NUMA node and last-level cache.
//!
//! Decoding is total: any text is a table for `size` ranks, or nothing.

use std::fmt::Display;

/// The variable with the table of hosts.
pub const HOSTS_VARIABLE: &str = "VERBENA_HOSTS";

/// The longest text in bytes: Linux allows a variable 128 KiB with its name.
pub const MAX_TEXT: usize = (128 << 10) - 64;

/// The variable with the place of each rank of the host; empty if ranks are not bound.
pub const PLACES_VARIABLE: &str = "VERBENA_PLACES";

/// The beginning of a table in which a host has several blocks of ranks.
const TURNS: char = '@';

/// Package, NUMA node and last-level cache of a rank; `None`: the rank is not kept in one.
pub type Place = [Option<u32>; 3];

/// Encodes the places of the ranks of a host, in order.
pub fn encode_places(places: &[Place]) -> String {
    let part = |part: &Option<u32>| part.map_or("-".to_owned(), |part| part.to_string());
    let place = |place: &Place| place.iter().map(part).collect::<Vec<_>>().join(".");
    places.iter().map(place).collect::<Vec<_>>().join(",")
}

/// Decodes the places of `ranks` ranks.
pub fn decode_places(text: &str, ranks: u32) -> Option<Vec<Place>> {
    let part = |text: &str| match text {
        "-" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let place = |text: &str| {
        let mut parts = text.split('.').map(part);
        let place = [parts.next()??, parts.next()??, parts.next()??];
        parts.next().is_none().then_some(place)
    };
    let places: Option<Vec<Place>> = text.split(',').map(place).collect();
    places.filter(|places| places.len() == ranks as usize)
}

/// Encodes the host of each rank.
pub fn encode(host_of: &[u32]) -> String {
    if !host_of.is_sorted() {
        let turns: Vec<String> = rising_runs(host_of).collect();
        return format!("{TURNS}{}", repeated(&turns));
    }
    let counts: Vec<usize> = host_of.chunk_by(|one, next| one == next).map(<[u32]>::len).collect();
    repeated(&counts)
}

/// Spells items, each with the number of its repetitions.
fn repeated<T: PartialEq + Display>(items: &[T]) -> String {
    let runs = items.chunk_by(|one, next| one == next).map(|run| match run.len() {
        1 => run[0].to_string(),
        count => format!("{}x{count}", run[0]),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Spells runs of numbers that rise by 1.
fn rising_runs(numbers: &[u32]) -> impl Iterator<Item = String> {
    numbers.chunk_by(|one, next| one + 1 == *next).map(|run| match run {
        [alone] => alone.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    })
}

/// Decodes the host of each of `size` ranks.
pub fn decode(text: &str, size: u32) -> Option<Vec<u32>> {
    let mut host_of = Vec::new();
    let (turns, text) = text.strip_prefix(TURNS).map_or((false, text), |turns| (true, turns));
    let mut hosts = 0;
    for run in text.split(',') {
        let (what, repeated) = run.split_once('x').unwrap_or((run, "1"));
        let repeated = repeated.parse::<u32>().ok().filter(|count| *count > 0)?;
        let (first, last) = match (turns, what.split_once('-')) {
            (true, Some((first, last))) => (first.parse().ok()?, last.parse().ok()?),
            (true, None) => (what.parse().ok()?, what.parse().ok()?),
            (false, _) => (1, what.parse::<u32>().ok()?),
        };
        let each = last.checked_sub(first)?.checked_add(1)?;
        let left = size as usize - host_of.len();
        if u64::from(each) * u64::from(repeated) > left as u64 {
            return None;
        }
        for _ in 0..repeated {
            if turns {
                host_of.extend(first..=last);
            } else {
                host_of.extend(std::iter::repeat_n(hosts, each as usize));
                hosts += 1;
            }
        }
    }
    // Each host is new, or has a lower rank.
    let mut known = 0;
    let is_in_order = host_of.iter().all(|host| {
        known += u32::from(*host == known);
        *host < known
    });
    (host_of.len() == size as usize && is_in_order).then_some(host_of)
}

/// Encodes ranks in rising order.
pub(crate) fn encode_ranks(ranks: &[u32]) -> String {
    rising_runs(ranks).collect::<Vec<_>>().join(",")
}

/// Enters the ranks of one host, all below the length of `host_of`; `None` if a rank has a host
/// already.
pub(crate) fn enter_ranks(text: &str, host: u32, host_of: &mut [Option<u32>]) -> Option<()> {
    for run in text.split(',') {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        for rank in host_of.get_mut(first..last.checked_add(1)?)? {
            if rank.replace(host).is_some() {
                return None;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_hosts_are_a_run() {
        assert_eq!(encode(&[0, 0, 1, 1, 2]), "2x2,1");
        assert_eq!(decode("2x2,1", 5), Some(vec![0, 0, 1, 1, 2]));
        for wrong in ["", "5,0", "0x5,5", "4", "6", "2x", "99999999x99999999", "1-5", "-"] {
            assert_eq!(decode(wrong, 5), None, "{wrong}");
        }
    }

    #[test]
    fn hosts_that_get_ranks_in_turn_are_runs() {
        assert_eq!(encode(&[0, 1, 2, 0, 1, 2, 0]), "@0-2x2,0");
        assert_eq!(encode(&[0, 1, 1, 0]), "@0-1,1,0");
        assert_eq!(decode("@0-1x2,0", 5), Some(vec![0, 1, 0, 1, 0]));
        for wrong in ["@", "@0-4,0", "@1-0x2,0", "@0x0", "@0-1x2,3", "@1,0x4", "@0-4294967295"] {
            assert_eq!(decode(wrong, 5), None, "{wrong}");
        }
        let large: Vec<u32> = (0..65_536).map(|rank| rank % 1_000).collect();
        assert_eq!(encode(&large), "@0-999x65,0-535");
    }

    #[test]
    fn places_survive_their_text() {
        let places = [[Some(0), Some(1), None], [None; 3], [Some(1), Some(2), Some(13)]];
        let text = encode_places(&places);
        assert_eq!(text, "0.1.-,-.-.-,1.2.13");
        assert_eq!(decode_places(&text, 3).as_deref(), Some(&places[..]));
        for wrong in ["", "0.1", "0.1.2.3,-.-.-,0.0.0", "0.1.2,1.2.3", "a.b.c,-.-.-,0.0.0"] {
            assert_eq!(decode_places(wrong, 3), None, "{wrong}");
        }
    }

    #[test]
    fn the_ranks_of_a_host_are_runs() {
        assert_eq!(encode_ranks(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        let mut host_of = [None; 4];
        assert_eq!(enter_ranks("0,2-3", 0, &mut host_of), Some(()));
        assert_eq!(enter_ranks("1-2", 1, &mut host_of), None);
        assert_eq!(enter_ranks("4", 1, &mut host_of), None);
    }

    proptest! {
        #[test]
        fn any_text_is_a_table_or_nothing(text in "@?[0-9x,-]{0,12}|\\PC*", size in 1u32..20) {
            if let Some(host_of) = decode(&text, size) {
                prop_assert!(host_of.len() == size as usize);
            }
            let _ = enter_ranks(&text, 0, &mut vec![None; size as usize]);
            let _ = decode_places(&text, size);
        }

        #[test]
        fn a_table_survives_its_text(seeds in prop::collection::vec(any::<u32>(), 1..40)) {
            // A rank is on a host that has one before it, or on a new one.
            let mut hosts = 0;
            let host = |seed: &u32| {
                let host = seed % (hosts + 1).min(4);
                hosts = hosts.max(host + 1);
                host
            };
            let mut host_of: Vec<u32> = seeds.iter().map(host).collect();
            for _ in 0..2 {
                let text = encode(&host_of);
                prop_assert_eq!(decode(&text, host_of.len() as u32), Some(host_of.clone()));
                host_of.sort_unstable();
            }
        }
    }
}
