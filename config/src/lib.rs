//! Configuration: what can be set, to what it is set, and who said so.
//!
//! There is one table of knobs ([`knob`]). Values come from six levels, each of
//! which overrides the ones before it:
//!
//! 1. the default of the table,
//! 2. the site's file, `/etc/verbena/config.toml`,
//! 3. the user's, `$XDG_CONFIG_HOME/verbena/config.toml` (`~/.config/...`),
//! 4. the cluster's, named by `mpiexec --config` (in `VERBENA_CONFIG`),
//! 5. variables such as `VERBENA_SHM_EAGER_MAX`,
//! 6. `mpiexec --set name=value` (in `VERBENA_SET`, one to a line).
//!
//! A name that is no knob and a value that a knob can't have are errors that say
//! where they stand; nothing is ignored in silence. Values are parsed once, when
//! the process starts. [`Knobs::load`] is a pure function of texts; only
//! [`Knobs::from_process`] looks at files and the environment.

#![forbid(unsafe_code)]

mod error;
pub mod knob;
mod load;
mod value;

use std::fmt::{self, Write};
use std::time::Duration;

pub use error::KnobError;
pub use knob::{
    Bytes, Choice, Count, Index, Key, Knob, Name, ProgressMode, Registration, Rendezvous,
    RoceVersion, Room, SingleCopy, Switch, TABLE, Time,
};
pub use load::{File, Level, RESERVED, Sources};
pub use value::{Kind, Value, show_bytes};

/// The value of every knob and where it came from.
#[derive(Clone, Debug)]
pub struct Knobs {
    /// In the order of the table.
    values: [Value; TABLE.len()],
    /// For those that are not at their default.
    origins: Vec<(usize, Origin)>,
}

/// Who set a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nobody.
    Default,
    /// A line of a file.
    File {
        /// Which of the three files.
        level: Level,
        /// As it was opened.
        path: String,
        /// From 1 on.
        line: usize,
    },
    /// This environment variable.
    Environment(String),
    /// `mpiexec --set`.
    Set,
}

impl Knobs {
    /// Everything at its default.
    pub fn new() -> Knobs {
        Knobs { values: std::array::from_fn(|at| TABLE[at].default), origins: Vec::new() }
    }

    /// Sets a knob from text, as one of the levels does. `name` has dots.
    pub fn set(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), KnobError> {
        let Some(at) = TABLE.iter().position(|knob| knob.name == name) else {
            return Err(KnobError::unknown(origin, name));
        };
        self.set_at(at, text, origin)
    }

    fn set_at(&mut self, at: usize, text: &str, origin: Origin) -> Result<(), KnobError> {
        let knob = &TABLE[at];
        self.values[at] = match knob.kind.parse(text) {
            Ok(value) => value,
            Err(why) => {
                return Err(KnobError::BadValue {
                    origin,
                    knob: knob.name,
                    value: text.to_owned(),
                    why,
                });
            }
        };
        self.origins.retain(|(other, _)| *other != at);
        self.origins.push((at, origin));
        Ok(())
    }

    /// A size in bytes.
    pub fn bytes(&self, key: Key<Bytes>) -> u64 {
        self.number(key.at())
    }

    /// A size in bytes; `None` when it is left to the library.
    pub fn room(&self, key: Key<Room>) -> Option<u64> {
        match self.values[key.at()] {
            Value::Index(bytes) => bytes,
            _ => None,
        }
    }

    /// A number of things.
    pub fn count(&self, key: Key<Count>) -> u64 {
        self.number(key.at())
    }

    /// A time; `None` when it is left to the library.
    pub fn duration(&self, key: Key<Time>) -> Option<Duration> {
        match self.values[key.at()] {
            Value::Time(time) => time,
            _ => None,
        }
    }

    /// A number; `None` when it is left to the library.
    pub fn index(&self, key: Key<Index>) -> Option<u64> {
        match self.values[key.at()] {
            Value::Index(index) => index,
            _ => None,
        }
    }

    /// A word of the system; `None` when it is left to the library.
    pub fn name(&self, key: Key<Name>) -> Option<&'static str> {
        match self.values[key.at()] {
            Value::Name(name) => name,
            _ => None,
        }
    }

    /// On or off.
    pub fn is_on(&self, key: Key<Switch>) -> bool {
        self.values[key.at()] == Value::Switch(true)
    }

    /// One of several.
    pub fn choice<C: Choice>(&self, key: Key<C>) -> C {
        match self.values[key.at()] {
            Value::Choice(index) => C::ALL[index],
            _ => C::ALL[0],
        }
    }

    /// A key's type is that of its row, so the other kinds do not come here.
    fn number(&self, at: usize) -> u64 {
        match self.values[at] {
            Value::Number(number) => number,
            _ => 0,
        }
    }

    /// Where a value came from; `name` has dots. A name that is no knob is at
    /// its default.
    pub fn origin(&self, name: &str) -> &Origin {
        let found = self.origins.iter().find(|(at, _)| TABLE[*at].name == name);
        found.map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// All knobs with their values as text and their origins, in the order of
    /// the table.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Knob, String, &Origin)> {
        TABLE
            .iter()
            .zip(&self.values)
            .map(|(knob, &value)| (knob, knob.kind.show(value), self.origin(knob.name)))
    }

    /// What `verbena config` prints: one line for each knob, in columns.
    pub fn table(&self) -> String {
        let head = ["knob", "value", "unit", "set by", "what it does"].map(str::to_owned);
        let mut rows = vec![head];
        rows.extend(self.iter().map(|(knob, value, origin)| {
            [
                knob.name.to_owned(),
                value,
                knob.kind.unit(),
                origin.to_string(),
                knob.help.to_owned(),
            ]
        }));
        let width =
            |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 4] = std::array::from_fn(width);
        let mut out = String::new();
        for row in &rows {
            for (cell, width) in row.iter().zip(widths) {
                let _ = write!(out, "{cell:width$}  ");
            }
            out.push_str(&row[4]);
            out.push('\n');
        }
        out
    }
}

impl Default for Knobs {
    fn default() -> Knobs {
        Knobs::new()
    }
}

/// As a user would look for it: `default`, `FILE:LINE`, a variable, `--set`.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File { path, line, .. } => write!(f, "{path}:{line}"),
            Origin::Environment(name) => f.write_str(name),
            Origin::Set => f.write_str("--set"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_legal_and_come_from_nobody() {
        let knobs = Knobs::new();
        for (knob, value, origin) in knobs.iter() {
            assert_eq!(knob.kind.parse(&value), Ok(knob.default), "{}", knob.name);
            assert_eq!(origin, &Origin::Default);
        }
        assert_eq!(knobs.bytes(knob::SHM_EAGER_MAX), 256 << 10);
        assert_eq!(knobs.count(knob::COLL_WINDOW), 32);
        assert_eq!(knobs.duration(knob::WAIT_SPIN), None);
        assert_eq!(knobs.choice(knob::SHM_SINGLE_COPY), SingleCopy::Auto);
        assert!(!knobs.is_on(knob::COLL_REPRODUCIBLE));
    }

    #[test]
    fn every_kind_can_be_set() {
        let mut knobs = Knobs::new();
        for (name, text) in [
            ("shm.eager_max", "16K"),
            ("coll.window", "4"),
            ("wait.spin", "2ms"),
            ("shm.single_copy", "off"),
            ("coll.reproducible", "on"),
            ("verbs.device", "mlx5_0"),
            ("verbs.pkey", "0x8001"),
        ] {
            knobs.set(name, text, Origin::Set).unwrap();
            assert_eq!(knobs.origin(name), &Origin::Set);
        }
        assert_eq!(knobs.bytes(knob::SHM_EAGER_MAX), 16 << 10);
        assert_eq!(knobs.count(knob::COLL_WINDOW), 4);
        assert_eq!(knobs.duration(knob::WAIT_SPIN), Some(Duration::from_millis(2)));
        assert_eq!(knobs.choice(knob::SHM_SINGLE_COPY), SingleCopy::Off);
        assert!(knobs.is_on(knob::COLL_REPRODUCIBLE));
        assert_eq!(knobs.name(knob::VERBS_DEVICE), Some("mlx5_0"));
        assert_eq!(knobs.index(knob::VERBS_PKEY), Some(0x8001));
        assert_eq!(knobs.origin("shm.ring_bytes"), &Origin::Default);
    }

    #[test]
    fn the_table_is_aligned() {
        let mut knobs = Knobs::new();
        let origin = Origin::File { level: Level::Cluster, path: "laptop.toml".into(), line: 7 };
        knobs.set("shm.eager_max", "16384", origin).unwrap();
        let table = knobs.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), TABLE.len() + 1);
        let at = |line: &str, word: &str| line.find(word).map(|byte| line[..byte].chars().count());
        let row = lines.iter().find(|line| line.starts_with("shm.eager_max ")).unwrap();
        assert_eq!(at(row, "16K"), at(lines[0], "value"));
        assert_eq!(at(row, "bytes"), at(lines[0], "unit"));
        assert_eq!(at(row, "laptop.toml:7"), at(lines[0], "set by"));
        let column = at(lines[0], "what");
        for (line, knob) in lines[1..].iter().zip(TABLE) {
            assert_eq!(at(line, knob.help), column, "{line}");
        }
    }
}
