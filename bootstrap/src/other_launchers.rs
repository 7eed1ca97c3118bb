//! Other launchers, recognised by the variables that they set.
//!
//! Several tasks that each run as a job of their own compute wrong results. A process that another
//! launcher has numbered among several, and that has no bootstrap of ours, is therefore refused.

/// A task that another launcher has numbered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// The launcher, in words.
    pub(crate) launcher: &'static str,
    /// The number of the task, from 0.
    pub(crate) number: u32,
    /// The number of tasks; `None` if the launcher does not report it.
    pub(crate) count: Option<u32>,
}

/// A launcher and its variables.
struct Launcher {
    name: &'static str,
    /// The variable with the number of the task.
    number: &'static str,
    /// The variables with the number of tasks; the first that is set counts.
    count: &'static [&'static str],
}

/// The most specific launcher first: srun sets PMI variables, too.
const LAUNCHERS: &[Launcher] = &[
    Launcher {
        name: "Open MPI's mpirun",
        number: "OMPI_COMM_WORLD_RANK",
        count: &["OMPI_COMM_WORLD_SIZE"],
    },
    Launcher {
        name: "MVAPICH's launcher",
        number: "MV2_COMM_WORLD_RANK",
        count: &["MV2_COMM_WORLD_SIZE"],
    },
    Launcher {
        name: "Slurm",
        number: "SLURM_PROCID",
        count: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"],
    },
    Launcher { name: "Flux", number: "FLUX_TASK_RANK", count: &["FLUX_JOB_SIZE"] },
    Launcher { name: "PALS", number: "PALS_RANKID", count: &["PALS_SIZE"] },
    Launcher { name: "jsrun", number: "JSM_NAMESPACE_RANK", count: &["JSM_NAMESPACE_SIZE"] },
    Launcher {
        name: "a PMI launcher (MPICH's or Intel's mpiexec)",
        number: "PMI_RANK",
        count: &["PMI_SIZE"],
    },
    Launcher { name: "a PMIx launcher", number: "PMIX_RANK", count: &["PMIX_SIZE"] },
];

/// Returns the task that this process is, if another launcher started several. `variable`
/// returns the value of an environment variable.
pub(crate) fn one_of_several(variable: impl Fn(&str) -> Option<String>) -> Option<Task> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let found: Vec<Task> = LAUNCHERS
        .iter()
        .filter_map(|launcher| {
            let count = launcher.count.iter().find_map(|name| number(name));
            Some(Task { launcher: launcher.name, number: number(launcher.number)?, count })
        })
        .collect();
    // A launcher that gives a count of 1 decides for launchers that give none.
    let alone = found.iter().any(|task| task.count == Some(1));
    found.into_iter().find(|task| match task.count {
        Some(count) => count > 1,
        None => task.number > 0 || !alone,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(variables: &[(&str, &str)]) -> Option<Task> {
        one_of_several(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).into())
        })
    }

    #[test]
    fn several_tasks_are_distinguished_from_one() {
        let slurm = Task { launcher: "Slurm", number: 1, count: Some(4) };
        assert_eq!(with(&[("SLURM_PROCID", "1"), ("SLURM_NTASKS", "4")]), Some(slurm.clone()));
        assert_eq!(
            with(&[
                ("SLURM_PROCID", "1"),
                ("SLURM_NTASKS", "4"),
                ("PMI_RANK", "1"),
                ("PMI_SIZE", "4")
            ]),
            Some(slurm)
        );
        assert_eq!(with(&[("PMI_RANK", "0"), ("PMI_SIZE", "2")]).unwrap().number, 0);
        assert!(with(&[("PMIX_RANK", "0")]).is_some());
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("SLURM_NTASKS", "4")]), None);
        assert_eq!(with(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "1")]), None);
        assert_eq!(
            with(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_NUM_TASKS", "1")]),
            None
        );
        assert_eq!(
            with(&[
                ("OMPI_COMM_WORLD_RANK", "0"),
                ("OMPI_COMM_WORLD_SIZE", "1"),
                ("PMIX_RANK", "0")
            ]),
            None
        );
    }
}
