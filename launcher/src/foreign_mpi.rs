//! Detects a rank that runs on another MPI library: each rank then takes itself for the only one,
//! and the job computes the same thing N times.
//!
//! A program that is linked to such a library shows it in its file. A program that loads it later
//! (Python with a package that was built for another MPI) shows it in its memory map while it runs.
//! Therefore the map of the first rank of a host is read from time to time, often at first, until
//! a rank calls MPI_Init, a library was found, or the time of looking is over.
//!
//! This file ends nothing: [`crate::outcome`] decides when the job is over.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bootstrap::environment::VARIABLE;
use rustix::process::Pid;

use crate::proc_tree;
use crate::program;
use crate::settings::{Section, Settings};

/// The name of our library.
const OUR_LIBRARY: &str = "libmpi_abi.so.1";
/// A library of another MPI that we have too.
struct Foreign {
    name: &'static str,
    /// The file that is ours.
    file: &'static str,
    /// The beginnings of libraries that programs in Fortran need beside it.
    fortran: &'static [&'static [u8]],
    /// Ours in place of all of these.
    fortran_file: &'static str,
}
const FOREIGN: [Foreign; 2] = [
    Foreign {
        name: "libmpi.so.12",
        file: "mpich/libmpi.so.12",
        fortran: &[b"\0libmpifort.so.", b"\0libmpichfort.so."],
        fortran_file: "mpich/libmpifort.so.12",
    },
    Foreign {
        name: "libmpi.so.40",
        file: "openmpi/libmpi.so.40",
        fortran: &[
            b"\0libmpi_mpifh.so.",
            b"\0libmpi_usempif08.so.",
            b"\0libmpi_usempi_ignore_tkr.so.",
            b"\0libmpi_usempi.so.",
        ],
        fortran_file: "openmpi/libmpi_mpifh.so.40",
    },
];

impl Foreign {
    /// Returns whether a program needs the libraries of Fortran.
    fn is_of_fortran(&self, program: &[u8]) -> bool {
        self.fortran.iter().any(|prefix| needed(program, prefix).is_some())
    }
}

/// The interval of looks at first, how many of them there are, and the interval of later ones.
const EARLY_INTERVAL: Duration = Duration::from_millis(40);
const EARLY_LOOKS: u32 = 75;
const LATE_INTERVAL: Duration = Duration::from_secs(1);
/// The number of all looks: about two minutes.
const MAX_LOOKS: u32 = EARLY_LOOKS + 120;

/// Watches the first rank of a host.
#[derive(Debug)]
pub(crate) struct ForeignMpi {
    looks: u32,
    next: Instant,
    /// A library that is Verbena's: its file has tens of megabytes, and is read at most once.
    ours: Option<PathBuf>,
}

impl ForeignMpi {
    /// Starts to watch.
    pub(crate) fn new(now: Instant) -> ForeignMpi {
        ForeignMpi { looks: 0, next: now + EARLY_INTERVAL / 2, ours: None }
    }

    /// Returns the time of the next [`ForeignMpi::tick`]; `None` once the watch is over.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (self.looks < MAX_LOOKS).then_some(self.next)
    }

    /// Ends the watch.
    pub(crate) fn stop(&mut self) {
        self.looks = MAX_LOOKS;
    }

    /// Looks at the rank that `leader` started, if it is time. Returns another MPI's library.
    pub(crate) fn tick(&mut self, leader: Pid, now: Instant) -> Option<PathBuf> {
        if self.deadline().is_none_or(|next| now < next) {
            return None;
        }
        self.looks += 1;
        let interval = if self.looks < EARLY_LOOKS { EARLY_INTERVAL } else { LATE_INTERVAL };
        self.next = now + interval;
        let mut libraries = proc_tree::descendants(leader).into_iter().filter_map(mapped_library);
        let found = libraries.find(|library| !self.is_ours(library));
        if found.is_some() {
            self.stop();
        }
        found
    }

    fn is_ours(&mut self, library: &Path) -> bool {
        if self.ours.as_deref() == Some(library) {
            return true;
        }
        let is_ours = is_installed_here(library) || knows_our_variable(library);
        if is_ours {
            self.ours = Some(library.to_owned());
        }
        is_ours
    }
}

fn mapped_library(pid: Pid) -> Option<PathBuf> {
    let maps = std::fs::read(format!("/proc/{}/maps", pid.as_raw_nonzero())).ok()?;
    library_in(&maps)
}

/// Returns the MPI library in a memory map (proc_pid_maps(5)).
fn library_in(maps: &[u8]) -> Option<PathBuf> {
    maps.split(|byte| *byte == b'\n').find_map(|line| {
        let path = &line[line.iter().position(|byte| *byte == b'/')?..];
        let name = path.rsplit(|byte| *byte == b'/').next()?;
        let is_mpi = name.starts_with(b"libmpi.so") || name.starts_with(b"libmpi_abi.so");
        is_mpi.then(|| PathBuf::from(OsStr::from_bytes(path)))
    })
}

/// Returns whether a library is a file that is installed with this program.
fn is_installed_here(library: &Path) -> bool {
    let file = |path: &Path| path.metadata().map(|data| (data.dev(), data.ino())).ok();
    let is_same = |ours: PathBuf| file(&ours).is_some_and(|ours| file(library) == Some(ours));
    our_library().into_iter().chain(foreign_libraries()).any(is_same)
}

/// Returns true for a library of Verbena: it knows the variable of our launcher, or is one with
/// another ABI, which names itself in its message.
fn knows_our_variable(library: &Path) -> bool {
    let bytes = std::fs::read(library).unwrap_or_default();
    let has = |text: &[u8]| bytes.windows(text.len()).any(|at| at == text);
    has(VARIABLE.as_bytes()) || has(b"Verbena's libmpi.so.")
}

/// Returns the line for a job of which no rank called MPI_Init although its program uses an MPI
/// library: `loaded` if one was seen in memory, otherwise the one that the program is linked to.
pub(crate) fn report(settings: &Settings, loaded: Option<&Path>) -> Option<String> {
    let general = format!(
        "so each rank ran alone; this mpiexec starts programs that use {}: compile with Verbena's \
         mpicc (Python: install mpi4py from source with it), or start the program by the other \
         MPI's mpiexec",
        our_library().map_or(OUR_LIBRARY.into(), |path| path.display().to_string())
    );
    if let Some(path) = loaded {
        let section = settings.sections.first()?;
        let advice = path
            .file_name()
            .and_then(|name| foreign_advice(name, section).or_else(|| standard_advice(name)));
        return Some(format!(
            "no rank called Verbena's MPI_Init: {} has loaded another MPI library ({}), {}",
            section.program.display(),
            path.display(),
            advice.unwrap_or(general)
        ));
    }
    let linked = |section| Some((section, linked_library(section)?));
    let (section, library) = settings.sections.iter().find_map(linked)?;
    Some(format!(
        "no rank called Verbena's MPI_Init: {} is linked to another MPI library ({library}), {}",
        section.program.display(),
        foreign_advice(OsStr::new(&library), section).unwrap_or(general)
    ))
}

/// Returns what to do for a library with an ABI that is installed with this program. Ours is first
/// in LD_LIBRARY_PATH; a path in the program (DT_RPATH) comes before that. A library of Fortran
/// that is found there calls inner functions of its own MPI.
fn foreign_advice(library: &OsStr, section: &Section) -> Option<String> {
    let is_same = |it: &&Foreign| library.as_bytes().starts_with(it.name.as_bytes());
    let foreign = FOREIGN.iter().find(is_same)?;
    let mut preload = installed(foreign.file)?.display().to_string();
    let program = section_file(section).unwrap_or_default();
    if foreign.is_of_fortran(&program) {
        let fortran = installed(foreign.fortran_file)?;
        preload += &format!(":{}", fortran.display());
    }
    Some(format!(
        "so each rank ran alone; Verbena has this library too, but the program names a folder for \
         it: put Verbena's in front with mpiexec -x LD_PRELOAD={preload}"
    ))
}

/// Returns what to do for the library of another MPI that has the standard ABI, as ours has.
fn standard_advice(library: &OsStr) -> Option<String> {
    library.as_bytes().starts_with(b"libmpi_abi.so.").then(|| {
        format!(
            "so each rank ran alone; Verbena has this library too, and the program runs on it \
             unchanged: put Verbena's in front with mpiexec -x LD_PRELOAD={}",
            our_library().map_or(OUR_LIBRARY.into(), |path| path.display().to_string())
        )
    })
}

/// Returns the line for a rank that ended with code 127, as programs do that the loader cannot
/// complete, if its program needs our library.
pub(crate) fn missing_library(settings: &Settings, rank: u32) -> Option<String> {
    let mut end = 0;
    let section = settings.sections.iter().find(|section| {
        end += section.ranks;
        rank < end
    })?;
    let needs = needed(&section_file(section)?, b"\0libmpi_abi.so.")?;
    let remedy = match our_library().as_deref().and_then(Path::parent) {
        Some(folder) => format!(
            "mpiexec -x LD_LIBRARY_PATH={}, or compile the program with {}, which records the path",
            folder.display(),
            folder.with_file_name("bin").join("mpicc").display()
        ),
        None => "-x LD_LIBRARY_PATH=... to the folder of Verbena's library".into(),
    };
    Some(format!(
        "{} needs {needs}: if the loader did not find it, set its folder: {remedy}",
        section.program.display()
    ))
}

/// Returns the library that is installed with this program.
pub(crate) fn our_library() -> Option<PathBuf> {
    installed(OUR_LIBRARY)
}

/// Returns the libraries with other ABIs that are installed with this program.
fn foreign_libraries() -> impl Iterator<Item = PathBuf> {
    FOREIGN.iter().filter_map(|foreign| installed(foreign.file))
}

/// Returns the folders of [`FOREIGN`].
pub(crate) fn folders() -> impl Iterator<Item = PathBuf> {
    foreign_libraries().filter_map(|library| Some(library.parent()?.to_owned()))
}

fn installed(file: &str) -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let library = program.parent()?.with_file_name("lib").join(file);
    library.exists().then_some(library)
}

/// Returns the library of another MPI that the program needs, or that its libraries of Fortran
/// need.
fn linked_library(section: &Section) -> Option<String> {
    let program = section_file(section)?;
    let of_fortran = || FOREIGN.iter().find(|foreign| foreign.is_of_fortran(&program));
    needed(&program, b"\0libmpi.so.").or_else(|| Some(of_fortran()?.name.to_owned()))
}

fn section_file(section: &Section) -> Option<Vec<u8>> {
    let directory = section.directory.as_deref();
    let file = program::find(section).ok()?;
    let file = Path::new(directory.unwrap_or("")).join(OsStr::from_bytes(file.as_bytes()));
    std::fs::read(file).ok()
}

/// Returns the name of the library that an executable needs and that consists of `prefix` and a
/// version. This program has the prefixes alone.
fn needed(executable: &[u8], prefix: &[u8]) -> Option<String> {
    let executable = executable.starts_with(b"\x7fELF").then_some(executable)?;
    let places = executable.windows(prefix.len()).enumerate().filter(|(_, at)| *at == prefix);
    let mut names = places.filter_map(|(begin, _)| {
        let (name, version) = (&executable[begin + 1..], &executable[begin + prefix.len()..]);
        let digits = version.iter().take_while(|&&at| at.is_ascii_digit() || at == b'.').count();
        let ends = version.get(digits) == Some(&0);
        (ends && digits > 0).then(|| &name[..prefix.len() - 1 + digits])
    });
    names.next().map(|name| String::from_utf8_lossy(name).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_the_library_that_it_needs() {
        let linked = b"\x7fELF...\0libm.so.6\0libmpi.so.12\0libc.so.6\0";
        assert_eq!(needed(linked, b"\0libmpi.so.").as_deref(), Some("libmpi.so.12"));
        let ours = b"\x7fELF...\0libmpi_abi.so.1\0";
        assert_eq!(needed(ours, b"\0libmpi_abi.so.").as_deref(), Some("libmpi_abi.so.1"));
        let prefix = b"\x7fELF...\0libmpi.so.\0libmpi.so.x\0libmpi.so.12";
        for other in [&ours[..], prefix, b"#!/bin/sh\0libmpi.so.12\0", b"\x7fELF", b""] {
            assert_eq!(needed(other, b"\0libmpi.so."), None);
        }
        let [mpich, openmpi] = FOREIGN;
        let fortran = b"\x7fELF...\0libmpi_usempif08.so.40\0libgfortran.so.5\0";
        assert!(openmpi.is_of_fortran(fortran) && !mpich.is_of_fortran(fortran));
        assert!(!openmpi.is_of_fortran(linked) && !mpich.is_of_fortran(linked));
    }

    #[test]
    fn the_file_of_our_library_is_read_once() {
        let file = std::env::temp_dir().join(format!("libmpi_abi.so-{}", std::process::id()));
        let mut watch = ForeignMpi::new(Instant::now());
        std::fs::write(&file, "another library").unwrap();
        assert!(!watch.is_ours(&file));
        std::fs::write(&file, format!("it knows {VARIABLE}")).unwrap();
        assert!(watch.is_ours(&file));
        std::fs::remove_file(&file).unwrap();
        assert!(watch.is_ours(&file));
        assert!(!watch.is_ours(Path::new("/nowhere/libmpi.so")));
        std::fs::write(&file, "Verbena's libmpi.so.12 cannot open").unwrap();
        assert!(ForeignMpi::new(Instant::now()).is_ours(&file));
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn a_memory_map_names_the_library() {
        let line = |path: &str| format!("7f00-7f01 r-xp 00000000 fe:00 12 {path}\n");
        let maps = line("/lib/libc.so.6") + &line("/opt/a b/libmpi.so.40.30.5");
        assert_eq!(library_in(maps.as_bytes()), Some("/opt/a b/libmpi.so.40.30.5".into()));
        assert_eq!(library_in(line("/lib/libmpifort.so.12").as_bytes()), None);
        assert_eq!(library_in(b"7f00-7f01 rw-p 00000000 00:00 0 [heap]\n"), None);
    }
}
