//! The settings of a spawned job: those of the job that spawns it, with programs, ranks and hosts
//! of the request.

use bootstrap::spawning::{SpawnRequest, SpawnSection};

use crate::binding::{BindTo, Mapping};
use crate::hosts::{self, HostsError};
use crate::options;
use crate::settings::{Dealing, OnFailure, Section, Settings, Stdin};

/// Returns the settings of a job, with the ranks dealt to their hosts. Its labels lack the numbers
/// of its processes. The error is a text for the user.
pub(super) fn settings(outer: &Settings, request: SpawnRequest) -> Result<Settings, String> {
    if outer.dial_in.is_some() {
        return Err("hosts that have dialed in (--accept) take no further processes".into());
    }
    let sections = (0..).zip(request.sections).filter(|(_, section)| section.processes > 0);
    let sections = sections.map(|(appnum, own)| section(appnum, own));
    let sections: Vec<Section> =
        sections.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if sections.is_empty() {
        return Err("the number of processes is 0".into());
    }
    let mut settings = Settings {
        sections,
        stdin: Stdin::None,
        // The processors of the user's options belong to the ranks that have them.
        mapping: Mapping { bind_to: Some(BindTo::None), ..outer.mapping },
        slots: Vec::new(),
        timeout: None,
        report_outcome: None,
        group: None,
        on_failure: match outer.on_failure {
            OnFailure::EndOnceJoined => OnFailure::End,
            other => other,
        },
        // The slots of the hosts are the ranks that these have.
        dealing: Dealing::default(),
        host_of: Vec::new(),
        ..outer.clone()
    };
    options::deal(&mut settings).map_err(|usage| usage.to_string())?;
    if outer.hosts.is_empty() && settings.hosts.iter().all(|host| hosts::is_this_host(&host.name)) {
        // No daemon is needed.
        settings.hosts.clear();
    }
    Ok(settings)
}

fn section(appnum: u32, section: SpawnSection) -> Result<Section, HostsError> {
    let SpawnSection { program, arguments, processes, directory, hosts, path } = section;
    let hosts = hosts.as_deref().map_or(Ok(Vec::new()), hosts::parse_list)?;
    Ok(Section {
        appnum,
        ranks: processes,
        program,
        arguments,
        directory,
        path,
        hosts: hosts::merge(hosts),
        ..Section::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::binding::MapBy;
    use crate::hosts::Host;
    use crate::settings::{DialIn, OutputOptions};

    fn of(processes: u32, hosts: Option<&str>) -> SpawnSection {
        let hosts = hosts.map(str::to_owned);
        SpawnSection { program: "./a.out".into(), processes, hosts, ..SpawnSection::default() }
    }

    fn hosts_of(
        outer: &Settings,
        sections: Vec<SpawnSection>,
    ) -> Result<Vec<(String, u32)>, String> {
        let settings = settings(outer, SpawnRequest { sections })?;
        Ok(settings.hosts.into_iter().map(|host| (host.name, host.slots)).collect())
    }

    #[test]
    fn a_spawned_job_keeps_the_options_of_the_user_but_those_of_its_ranks() {
        let outer = Settings {
            timeout: Some(std::time::Duration::from_secs(9)),
            set: vec!["wait.spin=1".into()],
            output: OutputOptions { tag: true, ..OutputOptions::default() },
            report_outcome: Some("file".into()),
            mapping: Mapping { map_by: Some(MapBy::Node), ..Mapping::default() },
            ..Settings::default()
        };
        let sections = vec![of(0, None), SpawnSection { path: Some("/opt".into()), ..of(3, None) }];
        let settings = settings(&outer, SpawnRequest { sections }).unwrap();
        let [section] = &settings.sections[..] else { panic!("{settings:?}") };
        assert_eq!((section.appnum, section.ranks, section.path.as_deref()), (1, 3, Some("/opt")));
        assert_eq!(settings.output, outer.output);
        assert_eq!(
            (settings.timeout, settings.report_outcome, settings.stdin),
            (None, None, Stdin::None)
        );
        assert_eq!((settings.set, settings.mapping.map_by), (outer.set, outer.mapping.map_by));
        assert!(!settings.mapping.binds());
    }

    #[test]
    fn ranks_go_to_the_hosts_of_the_request_or_of_the_job() {
        let here = Settings::default();
        let there =
            Settings { hosts: vec![Host::new("a", 2), Host::new("b", 1)], ..Settings::default() };
        let pair = |name: &str, ranks| (name.to_owned(), ranks);
        assert_eq!(hosts_of(&here, vec![of(2, None)]), Ok(vec![]));
        assert_eq!(hosts_of(&here, vec![of(2, Some("localhost"))]), Ok(vec![]));
        assert_eq!(hosts_of(&there, vec![of(4, None)]), Ok(vec![pair("a", 3), pair("b", 1)]));
        let mixed = vec![of(1, Some("c:4")), of(1, None)];
        assert_eq!(hosts_of(&there, mixed), Ok(vec![pair("c", 1), pair("a", 1)]));
        assert!(hosts_of(&here, vec![of(2, Some("a:x"))]).unwrap_err().contains("\"a:x\""));
        assert!(hosts_of(&here, vec![of(0, None)]).is_err());
        assert!(hosts_of(&here, vec![of(u32::MAX, None)]).is_err());
        let dialed = Settings { dial_in: Some(DialIn::default()), ..there };
        assert!(hosts_of(&dialed, vec![of(1, None)]).unwrap_err().contains("--accept"));
    }
}
