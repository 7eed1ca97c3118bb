//! The table of hosts: which host each rank of a job is on.
//!
//! Our launcher gives each rank the number of ranks on each host as text, `64x1023,12`: the ranks
//! of a host follow each other. Where another process manager has dealt the ranks, the lowest rank
//! of each host puts the ranks of its host, `0-63,128`, into the store.
//!
//! `mpiexec` also gives the ranks of its host their places there, if it binds them:
//! `0.0.1,0.1.2,-`, for each rank package, NUMA node and last-level cache.
//!
//! Decoding is total: any text is a table for `size` ranks, or nothing.

/// The variable with the number of ranks on each host.
pub const HOSTS_VARIABLE: &str = "VERBENA_HOSTS";

/// The variable with the place of each rank of the host; empty if ranks are not bound.
pub const PLACES_VARIABLE: &str = "VERBENA_PLACES";

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

/// Encodes the number of ranks on each host.
pub fn encode_counts(counts: &[u32]) -> String {
    let runs = counts.chunk_by(|one, next| one == next).map(|run| match run.len() {
        1 => run[0].to_string(),
        hosts => format!("{}x{hosts}", run[0]),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// Decodes the number of ranks on each host to the host of each of `size` ranks.
pub fn decode_counts(text: &str, size: u32) -> Option<Vec<u32>> {
    let mut host_of = Vec::new();
    let mut host = 0;
    for run in text.split(',') {
        let (ranks, hosts) = run.split_once('x').unwrap_or((run, "1"));
        let (ranks, hosts) = (ranks.parse::<u32>().ok()?, hosts.parse::<u32>().ok()?);
        let left = size as usize - host_of.len();
        let all = u64::from(ranks) * u64::from(hosts);
        if ranks == 0 || hosts == 0 || all > left as u64 {
            return None;
        }
        for _ in 0..hosts {
            host_of.extend(std::iter::repeat_n(host, ranks as usize));
            host += 1;
        }
    }
    (host_of.len() == size as usize).then_some(host_of)
}

/// Encodes ranks in rising order.
pub(crate) fn encode_ranks(ranks: &[u32]) -> String {
    let runs = ranks.chunk_by(|rank, next| rank + 1 == *next).map(|run| match run {
        [alone] => alone.to_string(),
        run => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
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
        assert_eq!(encode_counts(&[4, 4, 4, 1]), "4x3,1");
        assert_eq!(decode_counts("2x2,1", 5), Some(vec![0, 0, 1, 1, 2]));
        for wrong in ["", "5,0", "0x5,5", "4", "6", "2x", "99999999x99999999"] {
            assert_eq!(decode_counts(wrong, 5), None, "{wrong}");
        }
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
        fn any_text_is_a_table_or_nothing(text in "[0-9x,-]{0,12}|\\PC*", size in 1u32..20) {
            if let Some(host_of) = decode_counts(&text, size) {
                prop_assert!(host_of.len() == size as usize && host_of.is_sorted());
            }
            let _ = enter_ranks(&text, 0, &mut vec![None; size as usize]);
            let _ = decode_places(&text, size);
        }

        #[test]
        fn counts_survive_their_text(counts in prop::collection::vec(1u32..5, 1..20)) {
            let host_of = decode_counts(&encode_counts(&counts), counts.iter().sum()).unwrap();
            for (host, count) in (0..).zip(&counts) {
                prop_assert_eq!(host_of.iter().filter(|of| **of == host).count(), *count as usize);
            }
        }
    }
}
