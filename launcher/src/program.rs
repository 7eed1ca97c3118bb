//! Finds the program that the user named, and gives the reason if it cannot be run.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::settings::Section;
use crate::spawn::{SpawnError, Step};

/// The reason why a job cannot start. The exit code for a program is the shell's: 127 if none
/// has that name, 126 if it cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CannotRun {
    /// One line for the user.
    pub message: String,
    /// The exit code of mpiexec.
    pub code: u8,
}

/// Returns the path of this `mpiexec`, which starts itself for further roles. The error is a text
/// for the user.
pub(crate) fn own_path() -> Result<PathBuf, String> {
    std::env::current_exe()
        .map_err(|error| format!("cannot find the path of mpiexec itself: {error}"))
}

/// Returns the file that a section's program means: a path if it has a slash (relative to the
/// section's directory), otherwise the first executable of that name in the section's folders, then
/// in PATH.
pub fn find(section: &Section) -> Result<CString, CannotRun> {
    let (name, directory) = (section.program.as_os_str(), section.directory.as_deref());
    if let Some(directory) = directory {
        let is_folder = std::fs::metadata(directory).map(|metadata| metadata.is_dir());
        let why = is_folder.and_then(|is| if is { Ok(()) } else { Err(Errno::NOTDIR.into()) });
        why.map_err(|error| cannot_enter(name, directory, &error))?;
    }
    if name.as_bytes().contains(&b'/') {
        return match obstacle(
            &directory.map_or(PathBuf::from(name), |directory| Path::new(directory).join(name)),
        ) {
            None => Ok(c_string(Path::new(name))),
            Some((why, code)) => Err(cannot_run(name, why, code)),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let own = section.path.iter().flat_map(std::env::split_paths);
    // The program is executed in another directory.
    let own = own.filter_map(|folder| std::path::absolute(folder.join(name)).ok());
    let mut candidates = own.chain(std::env::split_paths(&path).map(|folder| folder.join(name)));
    match candidates.find(|candidate| obstacle(candidate).is_none()) {
        Some(found) => Ok(c_string(&found)),
        None if Path::new(name).is_file() => Err(cannot_run(
            name,
            &format!("no such program in PATH (did you mean ./{}?)", name.display()),
            127,
        )),
        None => Err(cannot_run(name, "no such program in PATH", 127)),
    }
}

/// Returns the reason why a program did not start, after [`find`] had found it.
pub fn explain(name: &OsStr, directory: Option<&str>, error: SpawnError) -> CannotRun {
    let SpawnError { step, errno } = error;
    let error = std::io::Error::from(errno);
    match (step, errno) {
        (Step::Directory, _) => cannot_enter(name, directory.unwrap_or(""), &error),
        (Step::Execute, Errno::NOENT) => {
            cannot_run(name, "the interpreter or loader that it names does not exist", 127)
        }
        (Step::Execute, Errno::NOEXEC) => {
            cannot_run(name, "it is not a program for this machine", 126)
        }
        (Step::Clone, Errno::AGAIN) => cannot_run(
            name,
            "the limit of processes is reached (`ulimit -u`, or the container's limit)",
            126,
        ),
        _ => cannot_run(name, &error.to_string(), 126),
    }
}

fn cannot_enter(name: &OsStr, directory: &str, error: &std::io::Error) -> CannotRun {
    cannot_run(name, &format!("cannot enter {directory}: {error}"), 126)
}

fn cannot_run(name: &OsStr, why: &str, code: u8) -> CannotRun {
    CannotRun { message: format!("cannot run {}: {why}", name.display()), code }
}

/// Returns the reason why a file cannot be executed, with the exit code for it.
fn obstacle(file: &Path) -> Option<(&'static str, u8)> {
    let metadata = match std::fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Some(("permission denied", 126));
        }
        Err(_) => return Some(("no such file", 127)),
    };
    if metadata.is_dir() {
        return Some(("it is a directory", 126));
    }
    match access(file, Access::EXEC_OK) {
        Err(_) => Some(("it is not executable (chmod +x makes it so)", 126)),
        Ok(()) => None,
    }
}

fn c_string(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("a path that exists has no zero byte")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find_text(name: &str, directory: Option<&str>) -> Result<CString, CannotRun> {
        let directory = directory.map(str::to_owned);
        find(&Section { program: name.into(), directory, ..Section::default() })
    }

    #[test]
    fn a_section_has_folders_of_its_own() {
        let path = Some("/nowhere:/proc/self".to_owned());
        let section = |program: &str| Section {
            program: program.into(),
            path: path.clone(),
            ..Section::default()
        };
        assert_eq!(find(&section("exe")), Ok(c"/proc/self/exe".to_owned()));
        assert!(find(&section("sh")).is_ok_and(|file| file.to_bytes().ends_with(b"bin/sh")));
    }

    #[test]
    fn reasons_not_to_run_are_distinguished() {
        assert!(find_text("sh", None).is_ok());
        assert_eq!(
            find_text("/nowhere", None).unwrap_err().message,
            "cannot run /nowhere: no such file"
        );
        assert_eq!(find_text("/nowhere", None).unwrap_err().code, 127);
        assert_eq!(
            find_text("/tmp", None).unwrap_err().message,
            "cannot run /tmp: it is a directory"
        );
        assert!(
            find_text("/etc/passwd", None).unwrap_err().message.ends_with("chmod +x makes it so)")
        );
        assert_eq!(find_text("./passwd", Some("/etc")).unwrap_err().code, 126);
        for (folder, why) in [("/nowhere", "No such file"), ("/etc/passwd", "Not a directory")] {
            let error = find_text("./passwd", Some(folder)).unwrap_err();
            let expected = format!("cannot run ./passwd: cannot enter {folder}: {why}");
            assert!(error.code == 126 && error.message.starts_with(&expected), "{error}");
        }
        assert_eq!(
            find_text("no-such-program", None).unwrap_err().message,
            "cannot run no-such-program: no such program in PATH"
        );
    }
}
