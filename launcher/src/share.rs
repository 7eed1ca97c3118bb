//! The share of one host in a job: its ranks, and what all hosts of the job know.

use bootstrap::{Ranks, host_table};
use serde::{Deserialize, Serialize};

use crate::settings::{Section, Settings};

/// The ranks that one host starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The ranks of this host.
    pub ranks: Ranks,
    /// The number of ranks in the whole job.
    pub size: u32,
    /// The table of hosts, as ranks get it ([`host_table`]).
    pub hosts: String,
    /// The job's number.
    pub job: u64,
    /// The secret that only the job's processes know.
    pub secret: [u8; 32],
    /// The process number of rank 0 ([`bootstrap::spawning`]).
    pub base: u32,
    /// The process that has spawned the job; `None` if the user has started it.
    pub parent: Option<u32>,
}

impl Share {
    /// Returns the only share of a new job.
    pub fn whole(settings: &Settings) -> Result<Share, bootstrap::BootstrapError> {
        let secret = *bootstrap::Secret::random()?.bytes();
        Ok(Share::known(settings.total_ranks(), (bootstrap::random()?, secret), 0))
    }

    /// Returns the only share of a job of `size` ranks that has this number and secret from its
    /// group or its processes; the process number of rank 0 is `base`.
    pub(crate) fn known(size: u32, (job, secret): (u64, [u8; 32]), base: u32) -> Share {
        let (ranks, hosts) = ((0..size).into(), host_table::encode(&vec![0; size as usize]));
        Share { ranks, size, hosts, job, secret, base, parent: None }
    }

    /// Returns the only share of a job that `parent` has spawned: part of this one for all that its
    /// processes tell each other.
    pub(crate) fn spawned(&self, settings: &Settings, base: u32, parent: u32) -> Share {
        let known = Share::known(settings.total_ranks(), (self.job, self.secret), base);
        Share { parent: Some(parent), ..known }
    }
}

/// Returns the sections reduced to these ranks.
pub fn sections_of(sections: &[Section], ranks: &Ranks) -> Vec<Section> {
    let mut left = ranks.iter().peekable();
    let mut end = 0;
    let part = |section: &Section| {
        end += section.ranks;
        let own = std::iter::from_fn(|| left.next_if(|rank| *rank < end)).count() as u32;
        (own > 0).then(|| Section { ranks: own, ..section.clone() })
    };
    sections.iter().filter_map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_sections_of_its_ranks() {
        let section = |appnum, ranks| Section { appnum, ranks, ..Section::default() };
        let all = [section(0, 1), section(1, 3), section(2, 2)];
        let parts = |ranks: Ranks| sections_of(&all, &ranks);
        assert_eq!(parts((0..2).into()), [section(0, 1), section(1, 1)]);
        assert_eq!(parts((2..5).into()), [section(1, 2), section(2, 1)]);
        assert_eq!(parts((5..6).into()), [section(2, 1)]);
        let [even, odd] = Ranks::of_hosts(&[0, 1, 0, 1, 0, 1]).try_into().unwrap();
        assert_eq!(parts(even), [section(0, 1), section(1, 1), section(2, 1)]);
        assert_eq!(parts(odd), [section(1, 2), section(2, 1)]);
    }
}
