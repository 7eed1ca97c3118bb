//! The value of every knob, and the source that set it.

use std::fmt::Write;
use std::time::Duration;

use crate::by_device::ByDevice;
use crate::choice::Choice;
use crate::error::KnobError;
use crate::knob::{
    Bytes, Count, Index, Key, Knob, Name, NumberByDevice, SizeOrAuto, Switch, TABLE, Time,
};
use crate::notice::Notice;
use crate::origin::Origin;
use crate::value::Value;

/// The value of every knob and where it came from.
#[derive(Clone, Debug)]
pub struct Knobs {
    /// Values in the order of the table.
    values: [Value; TABLE.len()],
    /// Sources of the knobs that are not at their default, by index in the table.
    origins: Vec<(usize, Origin)>,
    notices: Vec<Notice>,
}

impl Knobs {
    /// Returns the defaults.
    pub fn new() -> Knobs {
        let values = std::array::from_fn(|at| TABLE[at].default);
        Knobs { values, origins: Vec::new(), notices: Vec::new() }
    }

    /// Sets the knob of that name, or former name, from text.
    pub fn set(&mut self, name: &str, text: &str, origin: Origin) -> Result<(), KnobError> {
        let Some(at) = position(|knob| knob == name) else {
            return Err(KnobError::unknown(origin, name));
        };
        if TABLE[at].name != name {
            self.note_former_name(at, origin.clone());
        }
        self.set_at(at, text, origin)
    }

    /// Records that a source uses the former name of a knob.
    pub(crate) fn note_former_name(&mut self, at: usize, origin: Origin) {
        let Knob { name: new, former: Some(old), .. } = TABLE[at] else { return };
        self.note(Notice::Renamed { origin, old, new });
    }

    pub(crate) fn note(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    pub(crate) fn set_at(
        &mut self,
        at: usize,
        text: &str,
        origin: Origin,
    ) -> Result<(), KnobError> {
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

    /// Returns the value of the knob at an index of the table.
    pub fn value(&self, at: usize) -> Value {
        self.values[at]
    }

    /// Returns a size in bytes.
    pub fn bytes(&self, key: Key<Bytes>) -> u64 {
        self.number(key.at())
    }

    /// Returns a size in bytes, or `None` for auto.
    pub fn size_or_auto(&self, key: Key<SizeOrAuto>) -> Option<u64> {
        match self.values[key.at()] {
            Value::Index(bytes) => bytes,
            _ => None,
        }
    }

    /// Returns a count.
    pub fn count(&self, key: Key<Count>) -> u64 {
        self.number(key.at())
    }

    /// Returns a time, or `None` for auto.
    pub fn duration(&self, key: Key<Time>) -> Option<Duration> {
        match self.values[key.at()] {
            Value::Time(time) => time,
            _ => None,
        }
    }

    /// Returns a number, or `None` for auto.
    pub fn index(&self, key: Key<Index>) -> Option<u64> {
        match self.values[key.at()] {
            Value::Index(index) => index,
            _ => None,
        }
    }

    /// Returns a number for each device; none for auto.
    pub fn by_device(&self, key: Key<NumberByDevice>) -> ByDevice {
        match self.values[key.at()] {
            // The text has been checked.
            Value::Name(Some(text)) => ByDevice::parse(text, u64::MAX).unwrap_or_default(),
            _ => ByDevice::default(),
        }
    }

    /// Returns a name, or `None` for auto.
    pub fn name(&self, key: Key<Name>) -> Option<&'static str> {
        match self.values[key.at()] {
            Value::Name(name) => name,
            _ => None,
        }
    }

    /// Returns whether a switch is on.
    pub fn is_on(&self, key: Key<Switch>) -> bool {
        self.values[key.at()] == Value::Switch(true)
    }

    /// Returns the chosen word of several.
    pub fn choice<C: Choice>(&self, key: Key<C>) -> C {
        match self.values[key.at()] {
            Value::Choice(index) => C::ALL[index],
            _ => C::ALL[0],
        }
    }

    /// Returns the number of a row whose kind the key's type guarantees.
    fn number(&self, at: usize) -> u64 {
        match self.values[at] {
            Value::Number(number) => number,
            _ => 0,
        }
    }

    /// Returns the source of a knob's value; `Default` also for an unknown name.
    pub fn origin(&self, name: &str) -> &Origin {
        let found = self.origins.iter().find(|(at, _)| TABLE[*at].name == name);
        found.map_or(&Origin::Default, |(_, origin)| origin)
    }

    /// Returns the parts of the sources that should be changed; see [`Notice`].
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Iterates over all knobs with their values as text and their sources, in table order.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Knob, String, &Origin)> {
        TABLE
            .iter()
            .zip(&self.values)
            .map(|(knob, &value)| (knob, knob.kind.show(value), self.origin(knob.name)))
    }

    /// Returns the table that `verbena config` prints: one line for each knob, in columns.
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

/// Returns the index of the knob whose name or former name is accepted.
pub(crate) fn position(accept: impl Fn(&str) -> bool) -> Option<usize> {
    let named = TABLE.iter().position(|knob| accept(knob.name));
    named.or_else(|| TABLE.iter().position(|knob| knob.former.is_some_and(&accept)))
}

impl Default for Knobs {
    fn default() -> Knobs {
        Knobs::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::SingleCopy;
    use crate::knob;
    use crate::origin::Level;

    #[test]
    fn defaults_are_legal_and_have_no_origin() {
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
            ("verbs.devices", "mlx5_0"),
            ("verbs.port", "2"),
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
        assert_eq!(knobs.name(knob::VERBS_DEVICES), Some("mlx5_0"));
        assert_eq!(knobs.index(knob::VERBS_PORT), Some(2));
        assert_eq!(knobs.by_device(knob::VERBS_PKEY).of("mlx5_0", 1), Some(0x8001));
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

    #[test]
    fn a_former_name_sets_the_knob_and_is_noticed() {
        for knob in TABLE {
            let Some(former) = knob.former else { continue };
            let mut knobs = Knobs::new();
            let default = knob.kind.show(knob.default);
            knobs.set(former, &default, Origin::Set).unwrap();
            assert_eq!(knobs.origin(knob.name), &Origin::Set);
            let notice =
                format!("--set: {former} is now called {}; the old name still works", knob.name);
            assert_eq!(knobs.notices().iter().map(Notice::to_string).collect::<Vec<_>>(), [notice]);
        }
        let mut knobs = Knobs::new();
        knobs.set("coll.arenas", "off", Origin::Set).unwrap();
        assert!(!knobs.is_on(knob::COLL_SHM));
    }
}
