//! Categories: the sections of knobs, with the variables that belong to them.

use config::TABLE;

use super::pvar::pvars;

/// A section, with its variables by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Category {
    /// The section's name.
    pub name: &'static str,
    /// What it is about.
    pub help: &'static str,
    /// Control variables.
    pub cvars: Vec<i32>,
    /// Performance variables.
    pub pvars: Vec<i32>,
}

/// What the sections are about.
const HELP: &[(&str, &str)] = &[
    ("shm", "shared memory between ranks of one host"),
    ("verbs", "InfiniBand and RoCE between hosts"),
    ("tcp", "TCP between hosts"),
    ("pt2pt", "point-to-point messages"),
    ("coll", "collective operations"),
    ("rma", "one-sided communication"),
    ("io", "parallel files"),
    ("wait", "how ranks wait"),
    ("report", "what jobs report"),
    ("check", "checks of the program"),
];

/// Returns all categories, in the order of the table of knobs.
pub fn categories() -> Vec<Category> {
    let mut all: Vec<Category> = Vec::new();
    let names = TABLE.iter().map(|knob| knob.name).chain(pvars().iter().map(|pvar| pvar.name));
    for name in names.map(section) {
        if all.iter().all(|category| category.name != name) {
            let help = HELP.iter().find(|(known, _)| *known == name);
            let help = help.map_or("other settings", |(_, help)| help);
            all.push(Category { name, help, cvars: Vec::new(), pvars: Vec::new() });
        }
    }
    for category in &mut all {
        let of = |name: &'static str| section(name) == category.name;
        category.cvars = (0..).zip(TABLE).filter(|(_, k)| of(k.name)).map(|(at, _)| at).collect();
        category.pvars =
            (0..).zip(pvars()).filter(|(_, pvar)| of(pvar.name)).map(|(at, _)| at).collect();
    }
    all
}

fn section(name: &'static str) -> &'static str {
    name.split_once('.').map_or(name, |(section, _)| section)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_is_in_one_category() {
        let all = categories();
        let cvars: usize = all.iter().map(|category| category.cvars.len()).sum();
        let known: usize = all.iter().map(|category| category.pvars.len()).sum();
        assert_eq!((cvars, known), (TABLE.len(), pvars().len()));
        assert!(all.iter().any(|category| category.name == "pt2pt" && !category.pvars.is_empty()));
    }
}
