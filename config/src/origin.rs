//! The source that set a knob, as errors and `verbena config` name it.

use std::fmt;

/// The level of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The machine's, `/etc/verbena/config.toml`.
    Site,
    /// The user's, below `~/.config`.
    User,
    /// The one named for this job by `mpiexec --config`.
    Cluster,
}

/// The source that set a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The table's default.
    Default,
    /// A line of a file.
    File {
        /// The file's level.
        level: Level,
        /// The path as it was opened.
        path: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// An environment variable, by its name.
    Environment(String),
    /// `mpiexec --set`.
    Set,
    /// A tool, by MPI_T_cvar_write.
    Tool,
}

/// Shows the place that a user would look at: `default`, `FILE:LINE`, a variable, `--set`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, .. } => write!(f, "{path}:{line}"),
            Origin::Environment(name) => f.write_str(name),
            Origin::Set => f.write_str("--set"),
            Origin::Tool => f.write_str("MPI_T_cvar_write"),
        }
    }
}
