//! The share of one host in a job: its ranks, and what all hosts of the job know.

use serde::{Deserialize, Serialize};

use crate::settings::{Section, Settings};

/// The ranks that one host starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The first rank; the sections give the number of ranks.
    pub first: u32,
    /// The number of ranks in the whole job.
    pub size: u32,
    /// The number of ranks on each host that has some, in order.
    pub hosts: Vec<u32>,
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
        let size = settings.total_ranks();
        let (job, hosts) = (bootstrap::random()?, vec![size]);
        Ok(Share { first: 0, size, hosts, job, secret, base: 0, parent: None })
    }

    /// Returns the only share of a job of `size` ranks that has this number and secret from its
    /// group or its processes; the process number of rank 0 is `base`.
    pub(crate) fn known(size: u32, (job, secret): (u64, [u8; 32]), base: u32) -> Share {
        Share { first: 0, size, hosts: vec![size], job, secret, base, parent: None }
    }

    /// Returns the only share of a job that `parent` has spawned: part of this one for all that its
    /// processes tell each other.
    pub(crate) fn spawned(&self, settings: &Settings, base: u32, parent: u32) -> Share {
        let size = settings.total_ranks();
        let (hosts, parent) = (vec![size], Some(parent));
        Share { first: 0, size, hosts, job: self.job, secret: self.secret, base, parent }
    }

    /// Returns the process number of a rank.
    pub(crate) fn number(&self, rank: u32) -> u32 {
        self.base + rank
    }
}

/// Returns the sections reduced to the ranks `first .. first + count`.
pub fn sections_in_range(sections: &[Section], first: u32, count: u32) -> Vec<Section> {
    let mut begin = 0;
    let mut parts = Vec::new();
    for section in sections {
        let end = begin + section.ranks;
        let ranks = end.min(first + count).saturating_sub(begin.max(first));
        if ranks > 0 {
            parts.push(Section { ranks, ..section.clone() });
        }
        begin = end;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_sections_of_its_ranks() {
        let section = |appnum, ranks| Section { appnum, ranks, ..Section::default() };
        let all = [section(0, 1), section(1, 3), section(2, 2)];
        assert_eq!(sections_in_range(&all, 0, 2), [section(0, 1), section(1, 1)]);
        assert_eq!(sections_in_range(&all, 2, 3), [section(1, 2), section(2, 1)]);
        assert_eq!(sections_in_range(&all, 5, 1), [section(2, 1)]);
    }
}
