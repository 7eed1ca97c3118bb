//! Control variables: each knob is one, under its name.
//!
//! A knob is read by MPI_Init. Therefore a variable can be written before it, and only then; the
//! value overrides files, environment and options. All ranks must write the same.

use std::sync::{Mutex, PoisonError};

use config::{Kind, Knob, KnobError, Knobs, Origin, TABLE, Value};

use super::ToolError;
use crate::lock::with;

/// The type of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CvarKind {
    /// A number: MPI_UNSIGNED_LONG_LONG.
    Number,
    /// The index of a word: MPI_INT with an enumeration.
    Word,
    /// A text of up to [`CvarKind::TEXT_LEN`] characters: MPI_CHAR.
    Text,
}

impl CvarKind {
    /// Characters of a text, the terminator included: those of any knob.
    pub const TEXT_LEN: usize = Kind::MAX_TEXT + 1;
}

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "see `CvarKind`")]
pub enum CvarValue {
    Number(u64),
    Word(i32),
    Text(String),
}

struct State {
    /// What tools have written, as names and texts of knobs.
    written: Vec<(&'static str, String)>,
    /// What MPI_Init has read.
    loaded: Option<Box<Knobs>>,
}

static STATE: Mutex<State> = Mutex::new(State { written: Vec::new(), loaded: None });

/// Loads the knobs of this process, with what tools have written, for MPI_Init.
pub(crate) fn load_knobs() -> Result<Knobs, KnobError> {
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let knobs = with_written(&state.written)?;
    state.loaded = Some(Box::new(knobs.clone()));
    Ok(knobs)
}

fn with_written(written: &[(&str, String)]) -> Result<Knobs, KnobError> {
    let mut knobs = Knobs::from_process()?;
    for (name, text) in written {
        knobs.set(name, text, Origin::Tool)?;
    }
    Ok(knobs)
}

/// Returns how many variables there are.
pub fn cvar_count() -> i32 {
    TABLE.len() as i32
}

/// Returns the variable of that index.
pub fn cvar(index: i32) -> Result<&'static Knob, ToolError> {
    usize::try_from(index).ok().and_then(|at| TABLE.get(at)).ok_or(ToolError::InvalidIndex)
}

/// Returns the index of a variable.
pub fn cvar_named(name: &str) -> Result<i32, ToolError> {
    let found = TABLE.iter().position(|knob| knob.name == name);
    found.map(|at| at as i32).ok_or(ToolError::InvalidName)
}

/// Returns the type of a variable.
pub fn cvar_kind(knob: &Knob) -> CvarKind {
    match knob.kind {
        Kind::Bytes { .. } | Kind::Count { .. } => CvarKind::Number,
        Kind::Switch | Kind::Choice(_) => CvarKind::Word,
        Kind::SizeOrAuto { .. }
        | Kind::Time { .. }
        | Kind::Index { .. }
        | Kind::ByDevice { .. }
        | Kind::Name
        | Kind::Text => CvarKind::Text,
    }
}

/// Returns the words of the enumeration of a variable, by index; none if it has no enumeration.
pub fn cvar_words(knob: &Knob) -> &'static [&'static str] {
    match knob.kind {
        Kind::Switch => &["off", "on"],
        Kind::Choice(words) => words,
        _ => &[],
    }
}

/// Returns the value of a variable: what MPI_Init has read, or what it would read now. A default if
/// the configuration is wrong; MPI_Init says what is wrong with it.
pub fn read_cvar(index: i32) -> Result<CvarValue, ToolError> {
    let knob = cvar(index)?;
    let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let value = match &state.loaded {
        Some(loaded) => loaded.value(index as usize),
        None => with_written(&state.written).unwrap_or_default().value(index as usize),
    };
    Ok(match value {
        Value::Number(number) => CvarValue::Number(number),
        Value::Switch(on) => CvarValue::Word(on.into()),
        Value::Choice(word) => CvarValue::Word(word as i32),
        other => CvarValue::Text(knob.kind.show(other)),
    })
}

/// Sets a variable for MPI_Init. `Invalid` for a value outside of the knob's range.
pub fn write_cvar(index: i32, value: &CvarValue) -> Result<(), ToolError> {
    let knob = cvar(index)?;
    let text = match value {
        CvarValue::Number(number) => number.to_string(),
        CvarValue::Text(text) => text.clone(),
        CvarValue::Word(word) => {
            let word = usize::try_from(*word).ok().and_then(|at| cvar_words(knob).get(at));
            (*word.ok_or(ToolError::Invalid)?).to_owned()
        }
    };
    knob.kind.parse(&text).map_err(|_| ToolError::Invalid)?;
    let is_started = with(|p| p.core.is_some());
    let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    if is_started || state.loaded.is_some() {
        return Err(ToolError::CvarSetNotNow);
    }
    state.written.retain(|(name, _)| *name != knob.name);
    state.written.push((knob.name, text));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_is_a_variable_that_can_be_read_and_written() {
        for (index, knob) in (0..).zip(TABLE) {
            assert_eq!(cvar_named(knob.name), Ok(index));
            let value = read_cvar(index).unwrap();
            let kind = match value {
                CvarValue::Number(_) => CvarKind::Number,
                CvarValue::Word(_) => CvarKind::Word,
                CvarValue::Text(_) => CvarKind::Text,
            };
            assert_eq!(kind, cvar_kind(knob), "{}", knob.name);
            assert_eq!(write_cvar(index, &value), Ok(()), "{}", knob.name);
        }
        assert_eq!(cvar(TABLE.len() as i32).err(), Some(ToolError::InvalidIndex));
        let eager = cvar_named("shm.eager_max").unwrap();
        assert_eq!(write_cvar(eager, &CvarValue::Number(1)), Err(ToolError::Invalid));
        assert_eq!(write_cvar(eager, &CvarValue::Number(8192)), Ok(()));
        assert_eq!(read_cvar(eager), Ok(CvarValue::Number(8192)));
        assert_eq!(load_knobs().unwrap().value(eager as usize), Value::Number(8192));
        assert_eq!(write_cvar(eager, &CvarValue::Number(4096)), Err(ToolError::CvarSetNotNow));
    }
}
