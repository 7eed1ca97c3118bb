//! Deals the ranks of a job to its hosts, once these are known.
//!
//! Each section is dealt over its own hosts, consecutive sections with the same hosts as one. A
//! section that names none has those of the job; a job without hosts has this host there. The ranks
//! of a section are numbered host after host, or over the hosts in turn.

use std::collections::HashMap;

use super::values::Usage;
use crate::binding::MapBy;
use crate::hosts::{self, Host};
use crate::settings::{MAX_RANKS, Section, Settings, Stdin};

/// Deals the ranks to the hosts of a job. Then the job's hosts are those that get ranks, in the
/// order of their ranks; the slots of each are the number of its ranks.
pub fn deal(settings: &mut Settings) -> Result<(), Usage> {
    fill_in_ranks(settings)?;
    check(settings)?;
    let is_ranked = !settings.host_of.is_empty();
    if is_ranked || (settings.hosts.is_empty() && !settings.has_own_hosts()) {
        return Ok(());
    }
    let is_in_turn = settings.dealing.is_in_turn;
    let is_in_turn = is_in_turn.unwrap_or(settings.mapping.map_by == Some(MapBy::Node));
    let mut dealt = Dealt::default();
    for group in groups(settings) {
        dealt.add(&group.hosts, group.deal(settings)?, is_in_turn);
    }
    let counts: Vec<u32> = dealt.hosts.iter().map(|host| host.slots).collect();
    if let Some(why) = hosts::overfull(&dealt.hosts, &counts) {
        return Err(Usage(why));
    }
    settings.hosts = dealt.hosts;
    settings.host_of = dealt.host_of;
    Ok(())
}

/// Sets the number of ranks of sections without `-n`: one, or the slots of all hosts if there
/// is a single section and the user or an allocation gave hosts or slots.
fn fill_in_ranks(settings: &mut Settings) -> Result<(), Usage> {
    let has_slots = !settings.hosts.is_empty() || settings.dealing.ranks_per_host.is_some();
    let default = match settings.sections.as_slice() {
        [only] if has_slots => slots(&hosts_of(settings, only)),
        _ => 1,
    };
    for section in settings.sections.iter_mut().filter(|section| section.ranks == 0) {
        if settings.mapping.ranks_per_object.is_some() {
            let text = "--map-by ppr:N:WHAT needs the number of ranks, -n, as the objects of the \
                        hosts are not known yet; ppr:N:node does not";
            return Err(Usage(text.into()));
        }
        section.ranks = default;
    }
    Ok(())
}

fn check(settings: &Settings) -> Result<(), Usage> {
    let total: u64 = settings.sections.iter().map(|section| u64::from(section.ranks)).sum();
    if total > u64::from(MAX_RANKS) {
        return Err(Usage(format!("{total} ranks are too many: a job has at most {MAX_RANKS}")));
    }
    let ranked = settings.slots.len() as u64;
    if ranked > 0 && ranked != total {
        return Err(Usage(format!("--rankfile places {ranked} ranks, and the job has {total}")));
    }
    match settings.stdin {
        Stdin::Rank(rank) if u64::from(rank) >= total => Err(Usage(format!(
            "--stdin {rank}: there is no rank {rank}, must be 0 to {}",
            total.saturating_sub(1)
        ))),
        _ => Ok(()),
    }
}

/// Returns the hosts of a section, with the slots that it gives them.
fn hosts_of(settings: &Settings, section: &Section) -> Vec<Host> {
    let mut hosts = match (section.hosts.as_slice(), settings.hosts.as_slice()) {
        ([], []) => vec![Host::new(own_name(settings), section.ranks)],
        ([], of_job) => of_job.to_vec(),
        (own, _) => own.to_vec(),
    };
    if let Some(slots) = section.ranks_per_host.or(settings.dealing.ranks_per_host) {
        hosts.iter_mut().for_each(|host| host.slots = slots);
    }
    hosts
}

/// Returns the name of this host: that of the user, if a section has one.
fn own_name(settings: &Settings) -> String {
    let mut named = settings.sections.iter().flat_map(|section| &section.hosts);
    let own = named.find(|host| hosts::is_this_host(&host.name));
    own.map_or_else(hosts::host_name, |host| host.name.clone())
}

fn slots(hosts: &[Host]) -> u32 {
    hosts.iter().map(|host| host.slots).fold(0, u32::saturating_add)
}

/// Consecutive sections that are dealt as one.
struct Group {
    hosts: Vec<Host>,
    ranks: u32,
}

fn groups(settings: &Settings) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for section in &settings.sections {
        let hosts = hosts_of(settings, section);
        match groups.last_mut().filter(|last| last.hosts == hosts) {
            Some(group) => group.ranks += section.ranks,
            None => groups.push(Group { hosts, ranks: section.ranks }),
        }
    }
    groups
}

impl Group {
    /// Returns how many ranks each host gets.
    fn deal(&self, settings: &Settings) -> Result<Vec<u32>, Usage> {
        let (ranks, slots) = (self.ranks, slots(&self.hosts));
        if settings.dealing.is_full_at_slots && ranks > slots {
            let text = format!("{ranks} ranks on hosts with {slots} slots (--nooversubscribe)");
            return Err(Usage(text));
        }
        Ok(match settings.mapping.map_by {
            Some(MapBy::Node) => hosts::spread(&self.hosts, ranks),
            _ => hosts::deal(&self.hosts, ranks),
        })
    }
}

/// The hosts that have ranks.
#[derive(Default)]
struct Dealt {
    hosts: Vec<Host>,
    index_of: HashMap<String, u32>,
    /// The host of each rank.
    host_of: Vec<u32>,
}

impl Dealt {
    /// Adds ranks of some hosts: so many of each.
    fn add(&mut self, hosts: &[Host], mut counts: Vec<u32>, is_in_turn: bool) {
        while counts.iter().any(|count| *count > 0) {
            for (host, count) in hosts.iter().zip(&mut counts).filter(|(_, count)| **count > 0) {
                let ranks = if is_in_turn { 1 } else { *count };
                *count -= ranks;
                self.add_ranks(host, ranks);
            }
        }
    }

    fn add_ranks(&mut self, host: &Host, ranks: u32) {
        let new = self.hosts.len() as u32;
        let index = *self.index_of.entry(host.name.clone()).or_insert(new);
        if index == new {
            self.hosts.push(Host { slots: 0, ..host.clone() });
        }
        let known = &mut self.hosts[index as usize];
        known.slots += ranks;
        known.max_slots = known.max_slots.or(host.max_slots);
        self.host_of.extend(std::iter::repeat_n(index, ranks as usize));
    }
}
