//! The levels of configuration: files, environment variables, and options.
//!
//! Later levels override earlier ones. A file that is named must exist; the standard files are
//! optional. A user's file that cannot be read counts as absent.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::error::{KnobError, nearest};
use crate::knob::TABLE;
use crate::knobs::{Knobs, position};
use crate::notice::Notice;
use crate::origin::{Level, Origin};

/// The site's file.
const SITE_FILE: &str = "/etc/verbena/config.toml";
/// The user's file, below the configuration folder.
const USER_FILE: &str = "verbena/config.toml";
/// The prefix of all our variables.
const PREFIX: &str = "VERBENA_";
const CONFIG_VARIABLE: &str = "VERBENA_CONFIG";
const SET_VARIABLE: &str = "VERBENA_SET";
/// The suffixes that environment modules, Spack and EasyBuild append to the prefix, for the
/// installation's place and version.
const SITE_VARIABLES: [&str; 14] = [
    "BASE", "BIN", "DIR", "DOC", "HOME", "INC", "INCLUDE", "LIB", "LIBDIR", "MAN", "PATH",
    "PREFIX", "ROOT", "VERSION",
];

/// Those that the compiler wrappers read: compilers, and the folder of Fortran's modules.
const WRAPPER_VARIABLES: [&str; 4] = ["CC", "CXX", "FC", "MODULES"];

/// Variables with our prefix that are not knobs: the launcher sets them for its processes, or reads
/// them itself.
pub const RESERVED: [&str; 11] = [
    "VERBENA_BOOTSTRAP",
    "VERBENA_HOSTS",
    "VERBENA_PLACES",
    "VERBENA_RANK",
    "VERBENA_SIZE",
    "VERBENA_LOCAL_RANK",
    "VERBENA_LOCAL_SIZE",
    "VERBENA_TOKEN",
    "VERBENA_STATUS_PAGE",
    CONFIG_VARIABLE,
    SET_VARIABLE,
];

/// A configuration file that was read.
#[derive(Clone, Debug)]
pub struct File {
    /// The level of its values.
    pub level: Level,
    /// The path that messages name.
    pub path: String,
    /// The content, as TOML.
    pub text: String,
}

/// The options of `mpiexec`, in addition to what the process finds by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// `--config FILE`, in place of `VERBENA_CONFIG`.
    pub config: Option<&'a Path>,
    /// Each `--set NAME=VALUE`, after those in `VERBENA_SET`.
    pub set: &'a [String],
    /// Variables for the ranks. They replace those of the same name here; the last of several
    /// counts.
    pub environment: &'a [(String, String)],
}

impl Knobs {
    /// Loads the configuration of this process. Without files and variables of ours it costs two
    /// failed opens and one scan of the environment.
    pub fn from_process() -> Result<Knobs, KnobError> {
        Knobs::with_options(Sources::default())
    }

    /// Loads the configuration of this process with the options of a launcher.
    pub fn with_options(options: Sources<'_>) -> Result<Knobs, KnobError> {
        let config = options
            .config
            .map(Path::to_owned)
            .or_else(|| variable(CONFIG_VARIABLE).map(PathBuf::from));
        let passed_on = variable(SET_VARIABLE).unwrap_or_default();
        let passed_on = passed_on.to_string_lossy();
        let mut files = Vec::new();
        files.extend(standard_file(Level::Site, Some(SITE_FILE.into()))?);
        files.extend(standard_file(Level::User, user_file())?);
        if let Some(path) = config {
            files.push(read(Level::Cluster, &path).map_err(|error| unreadable(&path, &error))?);
        }
        let set = passed_on.lines().chain(options.set.iter().map(String::as_str));
        let is_job_variable =
            |name: &OsString| options.environment.iter().any(|(other, _)| name == other.as_str());
        let around = std::env::vars_os().filter(|(name, _)| !is_job_variable(name));
        let own = options.environment.iter().map(|(name, value)| (name.into(), value.into()));
        Knobs::load(&files, around.chain(own), set)
    }

    /// Loads a configuration from texts: files in ascending order of level, environment variables
    /// of any name, and `name=value` pairs.
    pub fn load<'a>(
        files: &[File],
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        set: impl IntoIterator<Item = &'a str>,
    ) -> Result<Knobs, KnobError> {
        let mut knobs = Knobs::new();
        for file in files {
            knobs.read_file(file)?;
        }
        for (name, value) in environment {
            if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
                knobs.read_variable(&name.to_string_lossy(), &value.to_string_lossy())?;
            }
        }
        for line in set {
            let line = line.trim();
            if !line.is_empty() {
                let (name, value) = line
                    .split_once('=')
                    .ok_or_else(|| KnobError::NotAssignment(line.to_owned()))?;
                knobs.set(name.trim(), value, Origin::Set)?;
            }
        }
        Ok(knobs)
    }

    fn read_variable(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
        if RESERVED.contains(&name) {
            return Ok(());
        }
        let Some(at) = position(|knob| variable_of(knob) == name) else {
            if !is_of_others(name) {
                let known = TABLE.iter().map(|knob| variable_of(knob.name));
                let nearest = nearest(name, known.chain(RESERVED.map(str::to_owned)));
                self.note(Notice::UnknownVariable { name: name.to_owned(), nearest });
            }
            return Ok(());
        };
        let origin = Origin::Environment(name.to_owned());
        if variable_of(TABLE[at].name) != name {
            self.note_former_name(at, origin.clone());
        }
        self.set_at(at, value, origin)
    }

    fn read_file(&mut self, file: &File) -> Result<(), KnobError> {
        let table = DeTable::parse(&file.text).map_err(|error| KnobError::Syntax {
            path: file.path.clone(),
            line: error.span().map_or(1, |span| line_of(&file.text, span.start)),
            why: error.message().trim().to_owned(),
        })?;
        self.read_table(file, "", table.get_ref())
    }

    /// Reads a table. The name of a knob in nested tables is their names joined by dots.
    fn read_table(
        &mut self,
        file: &File,
        within: &str,
        table: &DeTable<'_>,
    ) -> Result<(), KnobError> {
        for (key, value) in table {
            let name = match within {
                "" => key.get_ref().to_string(),
                within => format!("{within}.{}", key.get_ref()),
            };
            let line = line_of(&file.text, key.span().start);
            let origin = Origin::File { level: file.level, path: file.path.clone(), line };
            match value.get_ref() {
                DeValue::Table(inner) if inner.is_empty() && !is_section(&name) => {
                    return Err(KnobError::unknown(origin, &name));
                }
                DeValue::Table(inner) => self.read_table(file, &name, inner)?,
                single => self.set(&name, &text_of(single, &file.text[value.span()]), origin)?,
            }
        }
        Ok(())
    }
}

/// Returns the text of a TOML value. A value that no knob has (a list, a date) is returned as it
/// was written, and the knob refuses it.
fn text_of(value: &DeValue<'_>, written: &str) -> String {
    match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Boolean(on) => on.to_string(),
        DeValue::Integer(number) => match i128::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => number.to_string(),
            Err(_) => written.to_owned(),
        },
        _ => written.to_owned(),
    }
}

/// Returns whether the name is what stands before the dot of some knob.
fn is_section(name: &str) -> bool {
    TABLE.iter().any(|knob| knob.name.split_once('.').is_some_and(|(section, _)| section == name))
}

/// Returns whether others than this library read a variable of this name: `VERBENA_ROOT` and the
/// like, which module systems set, and `VERBENA_CC` and the like.
fn is_of_others(name: &str) -> bool {
    let tail = name.strip_prefix(PREFIX).unwrap_or_default();
    SITE_VARIABLES.contains(&tail) || WRAPPER_VARIABLES.contains(&tail)
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count()
}

/// Returns the variable that sets a knob: `VERBENA_SHM_EAGER_MAX` for `shm.eager_max`.
fn variable_of(knob: &str) -> String {
    let mut name = String::with_capacity(PREFIX.len() + knob.len());
    name.push_str(PREFIX);
    name.extend(knob.chars().map(|c| if c == '.' { '_' } else { c.to_ascii_uppercase() }));
    name
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn user_file() -> Option<PathBuf> {
    let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let folder = folder.or_else(|| variable("HOME").map(|home| Path::new(&home).join(".config")));
    folder.filter(|folder| folder.is_absolute()).map(|folder| folder.join(USER_FILE))
}

/// Reads a file that is optional. A file that cannot be read counts as absent: a program must run
/// although its home belongs to another user.
fn standard_file(level: Level, path: Option<PathBuf>) -> Result<Option<File>, KnobError> {
    let Some(path) = path else { return Ok(None) };
    match read(level, &path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::PermissionDenied => {
                Ok(None)
            }
            _ => Err(unreadable(&path, &error)),
        },
    }
}

fn read(level: Level, path: &Path) -> std::io::Result<File> {
    Ok(File { level, path: path.display().to_string(), text: std::fs::read_to_string(path)? })
}

fn unreadable(path: &Path, error: &std::io::Error) -> KnobError {
    KnobError::Unreadable { path: path.display().to_string(), why: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::knob;

    const NO_VARIABLES: [(OsString, OsString); 0] = [];

    fn file(level: Level, text: &str) -> File {
        File { level, path: format!("{level:?}.toml"), text: text.to_owned() }
    }

    fn from_text(text: &str) -> Result<Knobs, KnobError> {
        Knobs::load(&[file(Level::Cluster, text)], NO_VARIABLES, [])
    }

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn each_level_overrides_the_ones_before() {
        let files = [
            file(
                Level::Site,
                "shm.eager_max = 1024\nshm.ring_bytes = '32K'\nshm.get_min = '1M'\nwait.spin = 7\n[coll]\nwindow = 3",
            ),
            file(
                Level::User,
                "[shm]\neager_max = 2048\nring_bytes = '64K'\nget_min = '2M'\nsingle_copy = 'off'",
            ),
            file(Level::Cluster, "shm = { eager_max = 0x1000, ring_bytes = '256K' }"),
        ];
        let environment =
            variables(&[("VERBENA_SHM_EAGER_MAX", "5K"), ("PATH", "/bin"), ("VERBENA_RANK", "3")]);
        let steps = [
            (0, false, false, 256 << 10),
            (1, false, false, 1024),
            (2, false, false, 2048),
            (3, false, false, 4096),
            (3, true, false, 5120),
            (3, true, true, 6144),
        ];
        for (count, with_environment, with_set, expected) in steps {
            let environment = if with_environment { environment.clone() } else { vec![] };
            let set = if with_set { "shm.eager_max = 6K" } else { "" };
            let knobs = Knobs::load(&files[..count], environment, set.lines()).unwrap();
            assert_eq!(knobs.bytes(knob::SHM_EAGER_MAX), expected);
        }
        let knobs = Knobs::load(&files, environment, []).unwrap();
        let origins = [
            "wait.spin",
            "coll.window",
            "shm.get_min",
            "shm.ring_bytes",
            "shm.eager_max",
            "coll.shm",
        ];
        let origins = origins.map(|name| knobs.origin(name).to_string());
        assert_eq!(
            origins,
            [
                "Site.toml:4",
                "Site.toml:6",
                "User.toml:4",
                "Cluster.toml:1",
                "VERBENA_SHM_EAGER_MAX",
                "default"
            ]
        );
    }

    #[test]
    fn a_wrong_file_is_named_by_line() {
        let error_of = |text: &str| from_text(text).unwrap_err().to_string();
        assert_eq!(
            error_of("# comment\n[shm]\n\neager_mx = 5"),
            "Cluster.toml:4: unknown knob \"shm.eager_mx\" (did you mean \"shm.eager_max\"?); `verbena config` lists all"
        );
        assert_eq!(
            error_of("\n[shm]\neager_max = '2G'"),
            "Cluster.toml:3: shm.eager_max = \"2G\": must be from 64 to 256K bytes"
        );
        assert!(error_of("ring_bytes = 1").contains("did you mean \"shm.ring_bytes\"?"));
        assert!(
            error_of("something.else = 1").contains("unknown knob \"something.else\"; `verbena")
        );
        assert!(error_of("[shn]").contains("unknown knob \"shn\""));
        assert!(error_of("shm = 5").starts_with("Cluster.toml:1: unknown knob \"shm\""));
        assert!(error_of("shm.eager_max.more = 5").contains("\"shm.eager_max.more\""));
        assert!(
            error_of("shm.eager_max = [1, 2]").contains("\"[1, 2]\": must be a number of bytes")
        );
        assert!(error_of("shm.eager_max = 8.5").contains("\"8.5\""));
        assert!(error_of("shm.eager_max = -1").contains("\"-1\""));
        assert!(error_of("\nshm.eager_max = \n").starts_with("Cluster.toml:2: "));
        assert!(
            error_of("shm.eager_max = 100\nshm.eager_max = 200").starts_with("Cluster.toml:2: ")
        );
        assert!(
            from_text("[shm]\n[coll]\nreproducible = true").unwrap().is_on(knob::COLL_REPRODUCIBLE)
        );
    }

    #[test]
    fn wrong_variables_and_options_are_named() {
        let environment = |name, value| {
            Knobs::load(&[], variables(&[(name, value)]), []).unwrap_err().to_string()
        };
        assert!(
            environment("VERBENA_WAIT_SPIN", "long")
                .starts_with("VERBENA_WAIT_SPIN: wait.spin = \"long\": ")
        );
        let set = |text: &str| Knobs::load(&[], NO_VARIABLES, [text]).unwrap_err().to_string();
        assert_eq!(set("shm.eager_max"), "--set \"shm.eager_max\": must be NAME=VALUE");
        assert!(set("shm.eager_max=x").starts_with("--set: shm.eager_max = \"x\": "));
        assert!(set("wait.spn=1").contains("did you mean \"wait.spin\"?"));
    }

    #[test]
    fn variables_of_the_launcher_are_no_knobs() {
        let environment = RESERVED.map(|name| (name.into(), "anything".into()));
        assert!(Knobs::load(&[], environment, []).is_ok());
    }

    #[test]
    fn an_unknown_variable_is_noticed_and_one_of_a_site_is_not() {
        let environment = variables(&[
            ("VERBENA_SHM_EAGERMAX", "1"),
            ("VERBENA_ROOT", "/opt/verbena"),
            ("VERBENA_FC", "flang-22"),
            ("VERBENA_COLL_FLAT_SHORT", "1K"),
        ]);
        let knobs = Knobs::load(&[], environment, []).unwrap();
        assert_eq!(knobs.bytes(knob::COLL_SHM_MAX), 1024);
        let notices: Vec<String> = knobs.notices().iter().map(Notice::to_string).collect();
        assert_eq!(
            notices,
            [
                "the environment variable VERBENA_SHM_EAGERMAX sets no knob (did you mean \
                 \"VERBENA_SHM_EAGER_MAX\"?) and is ignored; `verbena config` lists them",
                "VERBENA_COLL_FLAT_SHORT: coll.flat_short is now called coll.shm_max; \
                 the old name still works",
            ]
        );
    }

    #[test]
    fn variables_are_named_after_knobs() {
        let mut names: Vec<String> = TABLE.iter().map(|knob| variable_of(knob.name)).collect();
        assert!(names.contains(&"VERBENA_COLL_REDUCE_SCATTER_LONG".to_owned()));
        names.extend(RESERVED.map(str::to_owned));
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TABLE.len() + RESERVED.len(), "no two knobs share a variable");
    }

    #[test]
    fn a_named_file_must_be_there() {
        let error = Knobs::with_options(Sources {
            config: Some(Path::new("/nowhere/x.toml")),
            ..Sources::default()
        })
        .unwrap_err();
        assert!(
            error.to_string().starts_with("cannot read the configuration file /nowhere/x.toml: ")
        );
    }

    #[test]
    fn loading_nothing_takes_no_time() {
        let environment: Vec<_> =
            (0..100).map(|i| (format!("NAME_{i}").into(), "value".into())).collect();
        let best = (0..200).map(|_| {
            let environment = environment.clone();
            let start = Instant::now();
            Knobs::load(&[], environment, []).unwrap();
            start.elapsed()
        });
        let best = best.min().unwrap();
        assert!(best.as_micros() < 200, "{best:?}");
    }
}
