//! Deals the ranks of a job to its hosts, once these are known.
//!
//! Each section is dealt over its own hosts, consecutive sections with the same hosts as one. A
//! section that names none has those of the job; a job without hosts has this host there. The ranks
//! of a host are one block everywhere else ([`crate::tree::HostShare`]), so that other orders are
//! refused.

use std::collections::HashSet;

use super::values::Usage;
use crate::binding::MapBy;
use crate::hosts::{self, Host};
use crate::settings::{MAX_RANKS, Section, Settings, Stdin};

/// Deals the ranks to the hosts of a job. Then the job's hosts are those that get ranks, in the
/// order of their ranks; the slots of each are the number of its ranks.
pub fn deal(settings: &mut Settings) -> Result<(), Usage> {
    fill_in_ranks(settings)?;
    check(settings)?;
    if settings.hosts.is_empty() && !settings.has_own_hosts() {
        return Ok(());
    }
    let mut dealt = Dealt::default();
    for group in groups(settings) {
        for (host, ranks) in group.hosts.iter().zip(group.deal(settings)?) {
            dealt.add(host, ranks, group.last)?;
        }
    }
    let counts: Vec<u32> = dealt.hosts.iter().map(|host| host.slots).collect();
    if let Some(why) = hosts::overfull(&dealt.hosts, &counts) {
        return Err(Usage(why));
    }
    settings.hosts = dealt.hosts;
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
struct Group<'a> {
    hosts: Vec<Host>,
    ranks: u32,
    /// The last of them.
    last: &'a Section,
}

fn groups(settings: &Settings) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for section in &settings.sections {
        let hosts = hosts_of(settings, section);
        match groups.last_mut().filter(|last| last.hosts == hosts) {
            Some(group) => (group.ranks, group.last) = (group.ranks + section.ranks, section),
            None => groups.push(Group { hosts, ranks: section.ranks, last: section }),
        }
    }
    groups
}

impl Group<'_> {
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
    names: HashSet<String>,
}

impl Dealt {
    /// Adds ranks of a host; `section`: one of theirs, for the message.
    fn add(&mut self, host: &Host, ranks: u32, section: &Section) -> Result<(), Usage> {
        if ranks == 0 {
            return Ok(());
        }
        if let Some(last) = self.hosts.last_mut().filter(|last| last.name == host.name) {
            last.slots += ranks;
            last.max_slots = last.max_slots.or(host.max_slots);
            return Ok(());
        }
        if !self.names.insert(host.name.clone()) {
            return Err(Usage(format!(
                "host {} gets ranks of {} and of a program before it, and ranks of other hosts are \
                 in between: the ranks of a host must follow each other; give programs or hosts in \
                 another order",
                host.name,
                section.program.display()
            )));
        }
        self.hosts.push(Host { slots: ranks, ..host.clone() });
        Ok(())
    }
}
