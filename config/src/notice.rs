//! Accepted parts of a configuration that should still be changed.
//!
//! The library prints none of them. `mpiexec` and `verbena config` print each once.

use std::fmt;

use crate::error::did_you_mean;
use crate::origin::Origin;

/// One accepted irregularity; its text is for the author of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A knob was set by its former name.
    Renamed {
        /// The source that uses it.
        origin: Origin,
        /// The former name.
        old: &'static str,
        /// The name today.
        new: &'static str,
    },
    /// A variable with our prefix sets no knob. It is ignored.
    UnknownVariable {
        /// The variable.
        name: String,
        /// The knob's variable that is spelt most like it.
        nearest: Option<String>,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Renamed { origin, old, new } => {
                write!(f, "{origin}: {old} is now called {new}; the old name still works")
            }
            Notice::UnknownVariable { name, nearest } => write!(
                f,
                "the environment variable {name} sets no knob{} and is ignored; \
                 `verbena config` lists them",
                did_you_mean(nearest)
            ),
        }
    }
}
