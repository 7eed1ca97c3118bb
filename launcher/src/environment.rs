//! The environment of the ranks: mpiexec's own, the variables of the command line, and the
//! variables of each rank.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use bootstrap::environment::{RankParams, VARIABLE};
use bootstrap::host_table::{HOSTS_VARIABLE, PLACES_VARIABLE};

use crate::dial_in::token;
use crate::foreign_mpi;
use crate::placement::Placement;
use crate::settings::{Section, Settings};
use crate::share::Share;

/// Names the file of the MPI library for programs that open one at run time, as those of the Rust
/// API do.
const LIBRARY_VARIABLE: &str = "MPI_ABI_LIBRARY";
/// The variables that each rank has of its own, the last six under the names that programs know
/// from Open MPI's, MPICH's and Intel MPI's launchers. None of them makes a library of these look
/// for a job, as PMI_RANK and PMIX_RANK would.
const RANK_VARIABLES: [&str; 11] = [
    VARIABLE,
    "VERBENA_RANK",
    "VERBENA_SIZE",
    "VERBENA_LOCAL_RANK",
    "VERBENA_LOCAL_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALRANKID",
    "MPI_LOCALNRANKS",
];

/// Beginnings of the names of variables by which a process manager names one of its processes. If
/// it has started `mpiexec`, or the program that has, the ranks are other processes.
const MANAGER_PREFIXES: [&str; 3] = ["PMI_", "PMI2_", "PMIX_"];
/// The beginning of the names of a user's settings among them.
const MANAGER_SETTINGS: &str = "PMIX_MCA_";

/// Returns the variables that all ranks share: mpiexec's own without the token of agents and those
/// of a job of which mpiexec is a rank, then its library, the variables of the command line, the
/// table of hosts, and the places of ranks.
pub(crate) fn shared(settings: &Settings, share: &Share, placement: &Placement) -> Vec<CString> {
    let inherited = std::env::vars_os().filter(|(name, _)| is_inherited(name));
    let inherited: Vec<CString> = inherited
        .filter_map(|(name, value)| {
            let mut line = name.into_vec();
            line.push(b'=');
            line.extend(value.into_vec());
            CString::new(line).ok()
        })
        .collect();
    let mut own: Vec<_> = library_variable().into_iter().collect();
    own.extend_from_slice(&settings.environment);
    own.extend(config_variable(settings));
    own.extend(set_variable(settings));
    own.push((HOSTS_VARIABLE.into(), share.hosts.clone()));
    own.push((PLACES_VARIABLE.into(), placement.places()));
    let mut lines: Vec<CString> = without(&inherited, &own).collect();
    for (index, (name, value)) in own.iter().enumerate() {
        // Of several with one name the last counts.
        if !own[index + 1..].iter().any(|(later, _)| later == name) {
            lines.push(variable(name, value));
        }
    }
    lines
}

/// Returns true for a variable that ranks have from the environment of `mpiexec`.
fn is_inherited(name: &OsStr) -> bool {
    let begins = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
    let is_of_manager = MANAGER_PREFIXES.into_iter().any(begins) && !begins(MANAGER_SETTINGS);
    let is_of_rank = RANK_VARIABLES.iter().any(|own| name == *own);
    name != token::VARIABLE && !is_of_rank && !is_of_manager
}

/// Returns the variable that names the library of this mpiexec, unless the user has named one.
fn library_variable() -> Option<(String, String)> {
    if std::env::var_os(LIBRARY_VARIABLE).is_some() {
        return None;
    }
    let library = foreign_mpi::our_library()?.into_os_string().into_string().ok()?;
    Some((LIBRARY_VARIABLE.into(), library))
}

fn config_variable(settings: &Settings) -> Option<(String, String)> {
    let config = settings.config.as_ref()?;
    let path = std::path::absolute(config)
        .map_or(config.clone(), |path| path.to_string_lossy().into_owned());
    Some(("VERBENA_CONFIG".into(), path))
}

fn set_variable(settings: &Settings) -> Option<(String, String)> {
    if settings.set.is_empty() {
        return None;
    }
    // Ours come last and take effect over those of a launcher or a script around mpiexec.
    let before = std::env::var("VERBENA_SET").ok().filter(|before| !before.is_empty());
    let lines: Vec<&str> = before.iter().chain(&settings.set).map(String::as_str).collect();
    Some(("VERBENA_SET".into(), lines.join("\n")))
}

/// Returns the variables of a section's ranks. The folders of the libraries with other ABIs come
/// first in the loader's path, also before the user's folders: another libmpi.so.12 would not find
/// this job. The other libraries of those folders are found as before.
pub(crate) fn of_section(shared: &[CString], section: &Section) -> Vec<CString> {
    let own = section.environment.iter().map(|(name, value)| variable(name, value));
    let mut lines: Vec<CString> = without(shared, &section.environment).chain(own).collect();
    let folders: Vec<_> = foreign_mpi::folders().map(PathBuf::into_os_string).collect();
    if !folders.is_empty() {
        put_first(&mut lines, folders.join(OsStr::new(":")).as_bytes());
    }
    lines
}

/// Puts folders in front of those of LD_LIBRARY_PATH, unless they are there: a job that runs in
/// another has them already.
fn put_first(lines: &mut Vec<CString>, first: &[u8]) {
    const PATH: &[u8] = b"LD_LIBRARY_PATH=";
    let at = lines.iter().position(|line| line.as_bytes().starts_with(PATH));
    let folders = at.map(|at| lines.remove(at)).unwrap_or_default();
    let folders = folders.as_bytes().get(PATH.len()..).unwrap_or_default();
    let rest = folders.strip_prefix(first);
    let is_first = rest.is_some_and(|rest| rest.is_empty() || rest[0] == b':');
    let mut line = PATH.to_vec();
    if !is_first {
        line.extend_from_slice(first);
        // An empty folder would be the working directory.
        if !folders.is_empty() {
            line.push(b':');
        }
    }
    line.extend_from_slice(folders);
    lines.push(CString::new(line).unwrap_or_default());
}

/// Returns the variables of one rank.
pub(crate) fn of_rank(params: &RankParams) -> [CString; RANK_VARIABLES.len()] {
    let on_host = [params.local_rank, params.local_size];
    let place = [params.rank, params.size, params.local_rank, params.local_size];
    let numbers: Vec<u32> = [&place[..], &place, &on_host].concat();
    std::array::from_fn(|i| match i {
        0 => variable(VARIABLE, &params.to_string()),
        _ => variable(RANK_VARIABLES[i], &numbers[i - 1].to_string()),
    })
}

/// Returns the lines that set none of these variables.
fn without<'a>(
    lines: &'a [CString],
    names: &'a [(String, String)],
) -> impl Iterator<Item = CString> + 'a {
    let sets = |line: &CString, name: &str| {
        line.as_bytes().strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
    };
    lines.iter().filter(move |line| !names.iter().any(|(name, _)| sets(line, name))).cloned()
}

fn variable(name: &str, value: &str) -> CString {
    c_string(format!("{name}={value}"))
}

/// Returns a word of a command line or an environment, which has no zero byte.
pub(crate) fn c_string(text: impl AsRef<OsStr>) -> CString {
    CString::new(text.as_ref().as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_no_processes_of_the_manager_that_has_started_mpiexec() {
        for name in ["PMI_FD", "PMI_RANK", "PMIX_NAMESPACE", "PMIX_SERVER_URI4", "VERBENA_RANK"] {
            assert!(!is_inherited(OsStr::new(name)), "{name}");
        }
        for name in ["PATH", "PMIX_MCA_gds", "SLURM_JOB_ID", "PMI", "VERBENA_SET"] {
            assert!(is_inherited(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn the_folders_of_other_abis_are_first_once_and_others_stay() {
        let path = |before: &[&str]| {
            let mut lines: Vec<CString> = before.iter().map(c_string).collect();
            put_first(&mut lines, b"/v/mpich:/v/openmpi");
            lines.iter().map(|line| line.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(path(&["A=1"]), ["A=1", "LD_LIBRARY_PATH=/v/mpich:/v/openmpi"]);
        assert_eq!(path(&["LD_LIBRARY_PATH="]), ["LD_LIBRARY_PATH=/v/mpich:/v/openmpi"]);
        let both = ["LD_LIBRARY_PATH=/v/mpich:/v/openmpi:/a:/b"];
        assert_eq!(path(&["LD_LIBRARY_PATH=/a:/b"]), both);
        assert_eq!(path(&both), both);
    }
}
