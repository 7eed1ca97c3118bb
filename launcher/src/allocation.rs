//! The hosts that a resource manager has given to this job: read when the command line names none.
//!
//! | manager | hosts and slots | how daemons start |
//! |---|---|---|
//! | Slurm | `SLURM_JOB_NODELIST`, `SLURM_TASKS_PER_NODE`, `SLURM_JOB_CPUS_PER_NODE` | srun |
//! | Slurm, `-m arbitrary` | the file `SLURM_HOSTFILE`: a host for each task | srun |
//! | PBS, Torque | the file `PBS_NODEFILE`: a line for each slot | ssh |
//! | LSF | `LSB_DJOB_HOSTFILE`, or `LSB_MCPU_HOSTS`: `a 4 b 4` | blaunch |
//! | Grid Engine | the file `PE_HOSTFILE`: host and slots on each line | qrsh |
//!
//! The manager's own way of starting a daemon keeps its limits, its accounting and its cleaning up.
//! Flux does not list its hosts there: the user is told what to type ([`without_hosts`]).
//! An allocation of this host alone needs no daemon. This file runs nothing; wrong text is an error
//! that names the variable.

use std::io;

use crate::host_list::expand;
use crate::hosts::{Host, HostsError, MAX_SLOTS, is_this_host, merge};
use crate::settings::STATUS_PAGE_VARIABLE;

/// The largest number of hosts in a list.
const MAX_HOSTS: usize = 65_536;

/// The agent of Slurm. `-u` passes each byte on at once; `--overlap` shares the job's processors.
pub(crate) const SRUN: &str = "srun -u --quiet --overlap --mpi=none --cpu-bind=none --nodes=1 --ntasks=1 \
                    --nodelist={host} sh -c {command}";
/// The agents of LSF and Grid Engine. Both pass standard input on.
pub(crate) const BLAUNCH: &str = "blaunch {host} {command}";
pub(crate) const QRSH: &str = "qrsh -inherit {host} {command}";

/// Variables that srun takes as options of a step. Those of the job would confine the one task of a
/// daemon's step to a part of the node, redirect its streams, or label its lines.
pub(crate) const SRUN_OPTIONS: [&str; 36] = [
    "SLURM_CPUS_PER_GPU",
    "SLURM_CPUS_PER_TASK",
    "SLURM_DISTRIBUTION",
    "SLURM_DIST_PLANESIZE",
    "SLURM_EXACT",
    "SLURM_EXCLUSIVE",
    "SLURM_GPUS",
    "SLURM_GPUS_PER_NODE",
    "SLURM_GPUS_PER_SOCKET",
    "SLURM_GPUS_PER_TASK",
    "SLURM_GPU_BIND",
    "SLURM_HINT",
    "SLURM_JOB_NUM_NODES",
    "SLURM_LABELIO",
    "SLURM_MEM_BIND",
    "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_GPU",
    "SLURM_MEM_PER_NODE",
    "SLURM_NNODES",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_NTASKS_PER_CORE",
    "SLURM_NTASKS_PER_GPU",
    "SLURM_NTASKS_PER_NODE",
    "SLURM_NTASKS_PER_SOCKET",
    "SLURM_NTASKS_PER_TRES",
    "SLURM_RESV_PORTS",
    "SLURM_SPREAD_JOB",
    "SLURM_STDERRMODE",
    "SLURM_STDINMODE",
    "SLURM_STDOUTMODE",
    "SLURM_THREADS",
    "SLURM_THREADS_PER_CORE",
    "SLURM_TRES_BIND",
    "SLURM_TRES_PER_TASK",
    "SRUN_CPUS_PER_TASK",
];

/// Variables that are about one node: its devices, and its part in the job. A daemon keeps its own.
pub(crate) const NODE_VARIABLES: [&str; 18] = [
    "CUDA_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
    "SLURMD_NODENAME",
    "SLURM_CPUS_ON_NODE",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GTIDS",
    "SLURM_JOB_GPUS",
    "SLURM_LAUNCH_NODE_IPADDR",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_PROCID",
    "SLURM_STEP_GPUS",
    "SLURM_TASK_PID",
    "SLURM_TOPOLOGY_ADDR",
    STATUS_PAGE_VARIABLE,
];

/// What a resource manager has given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// The manager, in words.
    pub manager: &'static str,
    /// The hosts with their slots, each once.
    pub hosts: Vec<Host>,
    /// The command that starts daemons there, if not the default.
    pub agent: Option<&'static str>,
}

impl Allocation {
    /// Returns true if this host is the only one.
    pub fn is_this_host_alone(&self, variable: impl Fn(&str) -> Option<String>) -> bool {
        let own = variable("SLURMD_NODENAME");
        let is_here = |host: &Host| is_this_host(&host.name) || own.as_deref() == Some(&host.name);
        self.hosts.len() == 1 && is_here(&self.hosts[0])
    }
}

/// Finds the allocation in the environment; `None` outside of one.
pub fn find(
    variable: impl Fn(&str) -> Option<String>,
    read_file: impl Fn(&str) -> io::Result<String>,
) -> Result<Option<Allocation>, HostsError> {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let file = |name: &str, path: &str| {
        read_file(path).map_err(|error| HostsError::new(format!("{name}={path}: {error}")))
    };
    let (manager, hosts, agent) = if let Some(path) = set("SLURM_HOSTFILE") {
        // A host for each task. The ranks of a host are numbered consecutively here.
        let text = file("SLURM_HOSTFILE", &path)?;
        let invalid = |line| HostsError::new(format!("SLURM_HOSTFILE={path}: invalid {line:?}"));
        ("Slurm", slurm_tasks(&text).map_err(invalid)?, Some(SRUN))
    } else if let Some(list) = set("SLURM_JOB_NODELIST") {
        ("Slurm", slurm(&list, &set)?, Some(SRUN))
    } else if let Some(path) = set("PBS_NODEFILE") {
        ("PBS", one_slot_a_line(&file("PBS_NODEFILE", &path)?), None)
    } else if let Some(path) = set("LSB_DJOB_HOSTFILE") {
        ("LSF", one_slot_a_line(&file("LSB_DJOB_HOSTFILE", &path)?), Some(BLAUNCH))
    } else if let Some(text) = set("LSB_MCPU_HOSTS") {
        ("LSF", pairs("LSB_MCPU_HOSTS", text.split_whitespace())?, Some(BLAUNCH))
    } else if let Some(path) = set("PE_HOSTFILE") {
        let text = file("PE_HOSTFILE", &path)?;
        let words = text.lines().flat_map(|line| line.split_whitespace().take(2));
        ("Grid Engine", pairs("PE_HOSTFILE", words)?, Some(QRSH))
    } else {
        return Ok(None);
    };
    let hosts = merge(hosts);
    if hosts.is_empty() || hosts.iter().any(|host| host.name.starts_with('-')) {
        return Err(HostsError::new(format!("the allocation of {manager} names no usable host")));
    }
    Ok(Some(Allocation { manager, hosts, agent }))
}

/// Returns what to type in an allocation whose hosts are not in the environment. A task that the
/// manager has started runs what it starts on its own host.
pub fn without_hosts(variable: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let is_flux = variable("FLUX_URI").is_some() && variable("FLUX_TASK_RANK").is_none();
    is_flux.then_some(
        "this is an allocation of Flux, whose hosts mpiexec does not know: start the ranks by `flux \
         run -n N PROGRAM`, or name hosts by --hosts (localhost for this host alone)",
    )
}

fn slurm(list: &str, set: &impl Fn(&str) -> Option<String>) -> Result<Vec<Host>, HostsError> {
    let invalid = |name: &str, value: &str| HostsError::new(format!("invalid {name}={value}"));
    let names = expand(list).ok_or_else(|| invalid("SLURM_JOB_NODELIST", list))?;
    let known = ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"];
    // Without a number of tasks, each processor of the job is a slot.
    let first =
        usize::from(set("SLURM_NTASKS").is_none() && set("SLURM_NTASKS_PER_NODE").is_none());
    let counts = known[first..].iter().chain(&known[..first]);
    let mut slots = Vec::new();
    for (name, text) in counts.filter_map(|name| Some((*name, set(name)?))) {
        // In a step with fewer hosts than the job, the tasks are those of the step.
        if slots.len() < names.len() {
            let counts = repeated(&text).ok_or_else(|| invalid(name, &text))?;
            if slots.is_empty() || counts.len() >= names.len() {
                slots = counts;
            }
        }
    }
    let last = slots.last().copied().unwrap_or(1);
    let slots = slots.into_iter().chain(std::iter::repeat(last));
    Ok(names.into_iter().zip(slots).map(|(name, slots)| Host::new(name, slots)).collect())
}

/// Parses counts of Slurm: `2(x3),1` is 2, 2, 2, 1.
fn repeated(text: &str) -> Option<Vec<u32>> {
    let mut counts = Vec::new();
    for item in text.trim().split(',') {
        let (count, times) = match item.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse::<usize>().ok()?),
            None => (item, 1),
        };
        let count = count.parse::<u32>().ok().filter(|count| (1..=MAX_SLOTS).contains(count))?;
        if counts.len() + times > MAX_HOSTS {
            return None;
        }
        counts.extend(std::iter::repeat_n(count, times));
    }
    Some(counts)
}

/// Reads a file of Slurm with a host for each task, with commas between or on lines of their own.
/// The error is a line that is none.
fn slurm_tasks(text: &str) -> Result<Vec<Host>, &str> {
    let mut hosts = Vec::new();
    for line in text.lines().map(|line| line.trim().trim_end_matches(',')) {
        if !line.is_empty() {
            let names = expand(line).ok_or(line)?;
            hosts.extend(names.into_iter().map(|name| Host::new(name, 1)));
        }
    }
    Ok(hosts)
}

/// Reads a file with a host for each slot.
fn one_slot_a_line(text: &str) -> Vec<Host> {
    let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| Host::new(name, 1)).collect()
}

/// Reads hosts, each followed by its slots.
fn pairs<'a>(
    name: &str,
    mut words: impl Iterator<Item = &'a str>,
) -> Result<Vec<Host>, HostsError> {
    let mut hosts = Vec::new();
    while let Some(host) = words.next() {
        let count = words.next().unwrap_or("");
        let slots = count.parse().ok().filter(|slots| (1..=MAX_SLOTS).contains(slots));
        let slots = slots.ok_or_else(|| {
            HostsError::new(format!("{name}: the host {host} has {count:?} slots"))
        })?;
        hosts.push(Host::new(host, slots));
    }
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(variables: &[(&str, &str)]) -> Result<Option<Allocation>, HostsError> {
        let variable = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        // The path stands for the text.
        find(variable, |path| Ok(path.replace(';', "\n")))
    }

    fn hosts(variables: &[(&str, &str)]) -> Vec<(String, u32)> {
        let all = found(variables).unwrap().unwrap().hosts;
        all.into_iter().map(|host| (host.name, host.slots)).collect()
    }

    fn named(list: &[(&str, u32)]) -> Vec<(String, u32)> {
        list.iter().map(|(name, slots)| ((*name).to_owned(), *slots)).collect()
    }

    #[test]
    fn slurm_lists_hosts_in_ranges_and_tasks_in_runs() {
        let list = ("SLURM_JOB_NODELIST", "n[08-10,12],login");
        let tasks = [list, ("SLURM_NTASKS", "9"), ("SLURM_TASKS_PER_NODE", "2(x4),1")];
        let expected = [("n08", 2), ("n09", 2), ("n10", 2), ("n12", 2), ("login", 1)];
        assert_eq!(hosts(&tasks), named(&expected));
        let cores = [
            ("SLURM_JOB_NODELIST", "a,b"),
            ("SLURM_TASKS_PER_NODE", "1(x2)"),
            ("SLURM_JOB_CPUS_PER_NODE", "16,8"),
        ];
        assert_eq!(hosts(&cores), named(&[("a", 16), ("b", 8)]));
        let step = [
            ("SLURM_JOB_NODELIST", "n[1-2]"),
            ("SLURM_NTASKS", "1"),
            ("SLURM_TASKS_PER_NODE", "1"),
            ("SLURM_JOB_CPUS_PER_NODE", "4(x2)"),
        ];
        assert_eq!(hosts(&step), named(&[("n1", 4), ("n2", 4)]));
        assert_eq!(hosts(&step[..3]), named(&[("n1", 1), ("n2", 1)]));
        assert_eq!(hosts(&[("SLURM_JOB_NODELIST", "r[1-2]c[0-1]")]).len(), 4);
        for wrong in ["n[1-", "n[2-1]", "n[a]", "a,,b", "n[1-99999999]", "x]"] {
            assert!(found(&[("SLURM_JOB_NODELIST", wrong)]).is_err(), "{wrong}");
        }
    }

    #[test]
    fn slurm_lists_a_host_for_each_task_on_lines_or_with_commas() {
        let expected = named(&[("a", 2), ("b", 1)]);
        for text in ["a;b;a;", "a,b,a", "a,b,;a;", "a, b;a"] {
            assert_eq!(hosts(&[("SLURM_HOSTFILE", text)]), expected, "{text}");
        }
        assert_eq!(hosts(&[("SLURM_HOSTFILE", "n[1-2],n2")]), named(&[("n1", 1), ("n2", 2)]));
        let error = found(&[("SLURM_HOSTFILE", "a;b,,c")]).unwrap_err().to_string();
        assert_eq!(error, "SLURM_HOSTFILE=a;b,,c: invalid \"b,,c\"");
    }

    #[test]
    fn other_managers_list_slots_in_files_and_words() {
        let expected = named(&[("a", 2), ("b", 1)]);
        assert_eq!(hosts(&[("PBS_NODEFILE", "a;b;a;")]), expected);
        assert_eq!(hosts(&[("LSB_DJOB_HOSTFILE", "a;a;b")]), expected);
        assert_eq!(hosts(&[("LSB_MCPU_HOSTS", "a 2 b 1")]), expected);
        assert_eq!(hosts(&[("PE_HOSTFILE", "a 2 all.q@a UNDEFINED;b 1 all.q@b 0-1")]), expected);
        let error = found(&[("LSB_MCPU_HOSTS", "a two")]).unwrap_err().to_string();
        assert_eq!(error, "LSB_MCPU_HOSTS: the host a has \"two\" slots");
        assert_eq!(found(&[]).unwrap(), None);
        assert_eq!(found(&[("PBS_NODEFILE", " ")]).unwrap(), None);
    }

    proptest! {
        #[test]
        fn any_text_is_an_allocation_or_an_error(text in "[ab0-9\\[\\],x() ;-]{0,30}|\\PC*") {
            for name in ["SLURM_JOB_NODELIST", "LSB_MCPU_HOSTS", "PE_HOSTFILE"] {
                let variables = [(name, text.as_str()), ("SLURM_TASKS_PER_NODE", text.as_str())];
                if let Ok(Some(all)) = found(&variables) {
                    prop_assert!(all.hosts.iter().all(|host| host.slots > 0));
                }
            }
        }
    }
}
