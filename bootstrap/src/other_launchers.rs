//! Launchers that are not ours, told by the variables they leave.
//!
//! Several tasks that each believe to be alone compute nonsense at full speed.
//! So a process that another launcher counted into a group of several, and that
//! has no bootstrap of ours, is refused.

/// One task of several, as another launcher numbered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    /// Who started it, in words.
    pub(crate) manager: &'static str,
    /// Its number, from 0.
    pub(crate) number: u32,
    /// How many there are; `None` if the launcher doesn't say.
    pub(crate) of: Option<u32>,
}

struct Manager {
    name: &'static str,
    number: &'static str,
    /// The first of these that is set says how many tasks there are.
    count: &'static [&'static str],
}

/// The most telling first: srun sets PMI variables too.
const MANAGERS: &[Manager] = &[
    Manager {
        name: "Open MPI's mpirun",
        number: "OMPI_COMM_WORLD_RANK",
        count: &["OMPI_COMM_WORLD_SIZE"],
    },
    Manager {
        name: "MVAPICH's launcher",
        number: "MV2_COMM_WORLD_RANK",
        count: &["MV2_COMM_WORLD_SIZE"],
    },
    Manager {
        name: "Slurm",
        number: "SLURM_PROCID",
        count: &["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"],
    },
    Manager { name: "Flux", number: "FLUX_TASK_RANK", count: &["FLUX_JOB_SIZE"] },
    Manager { name: "PALS", number: "PALS_RANKID", count: &["PALS_SIZE"] },
    Manager { name: "jsrun", number: "JSM_NAMESPACE_RANK", count: &["JSM_NAMESPACE_SIZE"] },
    Manager {
        name: "a PMI launcher (MPICH's or Intel's mpiexec)",
        number: "PMI_RANK",
        count: &["PMI_SIZE"],
    },
    Manager { name: "a PMIx launcher", number: "PMIX_RANK", count: &["PMIX_SIZE"] },
];

/// The task this process is, if another launcher started several.
pub(crate) fn one_of_several(variable: impl Fn(&str) -> Option<String>) -> Option<Task> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let found: Vec<Task> = MANAGERS
        .iter()
        .filter_map(|manager| {
            let of = manager.count.iter().find_map(|name| number(name));
            Some(Task { manager: manager.name, number: number(manager.number)?, of })
        })
        .collect();
    // One that counts and says "one" answers for those that do not count.
    let alone = found.iter().any(|task| task.of == Some(1));
    found.into_iter().find(|task| match task.of {
        Some(of) => of > 1,
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
    fn several_tasks_are_told_from_one() {
        let slurm = Task { manager: "Slurm", number: 1, of: Some(4) };
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
