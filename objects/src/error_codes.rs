//! The error codes that a process has returned to the user, and their texts (MPI-5.0 §9.4, §9.5).
//!
//! ```text
//! 0 .. 62               the classes; as codes they mean "this class"
//! class + 64 * block    an error with a sentence, block 1 .. 201 but 15
//! 1001 .. 1018          the codes of the tool interface (in block 15)
//! 16384 ..              what the user added; numbers are never used twice
//! ```
//!
//! The last 200 different texts are kept. The number of a code contains its class, which is valid
//! even after the text has been replaced. The string is then the standard text of the class.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::{Class, Error, Result, truncated};

/// MPI_MAX_ERROR_STRING in bytes, with the terminator.
const MAX_STRING: usize = 512;
/// Difference of two neighboring codes of one class.
const CODE_STRIDE: i32 = 64;
/// Most texts that are kept.
const MAX_TEXTS: usize = 200;
/// The block of the tool interface's codes.
const TOOL_BLOCK: i32 = 15;
const FIRST_TOOL_CODE: i32 = 1001;

/// Names and texts of the tool interface's codes, from 1001 (MPI-5.0 §15.3.10).
const TOOL_CODES: [(&str, &str); 18] = [
    ("MPI_T_ERR_CANNOT_INIT", "the tool interface cannot be initialised"),
    ("MPI_T_ERR_NOT_ACCESSIBLE", "the requested functionality is not accessible"),
    ("MPI_T_ERR_NOT_INITIALIZED", "the tool interface is not initialised"),
    ("MPI_T_ERR_NOT_SUPPORTED", "the requested functionality is not supported"),
    ("MPI_T_ERR_MEMORY", "out of memory"),
    ("MPI_T_ERR_INVALID", "invalid use of the tool interface"),
    ("MPI_T_ERR_INVALID_INDEX", "invalid index of a variable, category or event"),
    ("MPI_T_ERR_INVALID_ITEM", "index of an item is out of range"),
    ("MPI_T_ERR_INVALID_SESSION", "invalid session"),
    ("MPI_T_ERR_INVALID_HANDLE", "invalid handle"),
    ("MPI_T_ERR_INVALID_NAME", "invalid name"),
    ("MPI_T_ERR_OUT_OF_HANDLES", "no more handles"),
    ("MPI_T_ERR_OUT_OF_SESSIONS", "no more sessions"),
    ("MPI_T_ERR_CVAR_SET_NOT_NOW", "the control variable cannot be set now"),
    ("MPI_T_ERR_CVAR_SET_NEVER", "the control variable cannot be set any more"),
    ("MPI_T_ERR_PVAR_NO_WRITE", "the performance variable cannot be written or reset"),
    ("MPI_T_ERR_PVAR_NO_STARTSTOP", "the performance variable cannot be started or stopped"),
    ("MPI_T_ERR_PVAR_NO_ATOMIC", "the performance variable cannot be read and written at once"),
];

static CODES: ErrorCodes = ErrorCodes::new();

/// The store of this process.
pub fn error_codes() -> &'static ErrorCodes {
    &CODES
}

/// The codes returned so far with their texts, and the user's own codes. All threads share it.
#[derive(Debug)]
pub struct ErrorCodes(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    /// Grows to `MAX_TEXTS` entries; then the oldest one is replaced.
    recent: Vec<(Class, String)>,
    oldest: usize,
    /// By number.
    added: BTreeMap<i32, Added>,
    last_used: i32,
}

/// A class or code that the user added.
#[derive(Debug)]
struct Added {
    /// The class of the code; for a class, itself.
    class: i32,
    /// The string; empty until it is set.
    text: OsString,
}

impl ErrorCodes {
    const fn new() -> ErrorCodes {
        let inner = Inner {
            recent: Vec::new(),
            oldest: 0,
            added: BTreeMap::new(),
            last_used: Class::LAST_CODE,
        };
        ErrorCodes(Mutex::new(inner))
    }

    /// Returns the code for an error in `call`. Equal texts share a code.
    #[cold]
    pub fn code_of(&self, call: &str, error: &Error) -> i32 {
        if let Some(code) = error.code() {
            return code;
        }
        let class = error.class();
        if class == Class::Success {
            return 0;
        }
        let sentence = cut(format!("{} in {call}: {}", class.name(), error.detail()));
        let slot = self.with(|inner| inner.slot_of(class, sentence));
        class as i32 + CODE_STRIDE * block_of(slot)
    }

    /// Returns the class of a code (MPI_Error_class); `None` for numbers that are no code.
    pub fn class_of(&self, code: i32) -> Option<i32> {
        if Class::from_number(code).is_some() || tool_code(code).is_some() {
            return Some(code);
        }
        if let Some((class, _)) = split(code) {
            return Some(class as i32);
        }
        self.with(|inner| inner.added.get(&code).map(|added| added.class))
    }

    /// Returns the text of a code (MPI_Error_string), at most 511 bytes. `None` for numbers that
    /// are no code; empty for a user's code without a string.
    pub fn text_of(&self, code: i32) -> Option<OsString> {
        if let Some(class) = Class::from_number(code) {
            return Some(standard_text(class).into());
        }
        if let Some((name, text)) = tool_code(code) {
            return Some(format!("{name}: {text}").into());
        }
        if let Some((class, slot)) = split(code) {
            let recent =
                self.with(|inner| inner.recent.get(slot).filter(|kept| kept.0 == class).cloned());
            let text = recent.map_or_else(|| standard_text(class), |(_, sentence)| sentence);
            return Some(text.into());
        }
        self.with(|inner| inner.added.get(&code).map(|added| added.text.clone()))
    }

    /// Returns the value of the attribute MPI_LASTUSEDCODE.
    pub fn last_used(&self) -> i32 {
        self.with(|inner| inner.last_used)
    }

    /// Adds a class (MPI_Add_error_class).
    pub fn add_class(&self) -> i32 {
        self.with(|inner| {
            let class = inner.last_used + 1;
            inner.add(class)
        })
    }

    /// Adds a code to a class of the standard or of the user (MPI_Add_error_code).
    pub fn add_code(&self, class: i32) -> Result<i32> {
        self.with(|inner| {
            if class == 0 || Class::from_number(class).is_none() && !inner.is_added_class(class) {
                return Err(Error::new(Class::Arg, format!("invalid error class {class}")));
            }
            Ok(inner.add(class))
        })
    }

    /// Sets the string of a user's class or code, truncated to 511 bytes (MPI_Add_error_string).
    pub fn add_string(&self, code: i32, text: impl AsRef<OsStr>) -> Result<()> {
        self.with(|inner| {
            inner.find(code)?.text = truncated(text.as_ref(), MAX_STRING - 1).to_owned();
            Ok(())
        })
    }

    /// Removes a class that has no codes and no string (MPI_Remove_error_class).
    pub fn remove_class(&self, class: i32) -> Result<()> {
        self.with(|inner| {
            inner.find(class)?;
            if !inner.is_added_class(class) {
                return Err(Error::new(
                    Class::Arg,
                    format!("invalid error class {class}: it is an error code"),
                ));
            }
            if inner.added.iter().any(|(&code, added)| code != class && added.class == class) {
                let why = format!(
                    "error class {class} still has codes: remove them first (MPI_Remove_error_code)"
                );
                return Err(Error::new(Class::Arg, why));
            }
            inner.remove(class)
        })
    }

    /// Removes a code that has no string (MPI_Remove_error_code).
    pub fn remove_code(&self, code: i32) -> Result<()> {
        self.with(|inner| {
            inner.find(code)?;
            if inner.is_added_class(code) {
                return Err(Error::new(
                    Class::Arg,
                    format!(
                        "invalid error code {code}: it is an error class (MPI_Remove_error_class)"
                    ),
                ));
            }
            inner.remove(code)
        })
    }

    /// Removes a string; there must be one (MPI_Remove_error_string).
    pub fn remove_string(&self, code: i32) -> Result<()> {
        self.with(|inner| {
            let added = inner.find(code)?;
            if added.text.is_empty() {
                return Err(Error::new(Class::Arg, format!("error code {code} has no string")));
            }
            added.text.clear();
            Ok(())
        })
    }

    fn with<R>(&self, work: impl FnOnce(&mut Inner) -> R) -> R {
        // No method panics in the middle of a change; therefore a poisoned store is still
        // consistent.
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Inner {
    fn slot_of(&mut self, class: Class, sentence: String) -> usize {
        if let Some(slot) =
            self.recent.iter().position(|kept| kept.0 == class && kept.1 == sentence)
        {
            return slot;
        }
        if self.recent.len() < MAX_TEXTS {
            self.recent.push((class, sentence));
            return self.recent.len() - 1;
        }
        let slot = self.oldest;
        self.recent[slot] = (class, sentence);
        self.oldest = (slot + 1) % MAX_TEXTS;
        slot
    }

    fn add(&mut self, class: i32) -> i32 {
        self.last_used += 1;
        self.added.insert(self.last_used, Added { class, text: OsString::new() });
        self.last_used
    }

    fn is_added_class(&self, code: i32) -> bool {
        self.added.get(&code).is_some_and(|added| added.class == code)
    }

    fn find(&mut self, code: i32) -> Result<&mut Added> {
        self.added.get_mut(&code).ok_or_else(|| {
            Error::new(
                Class::Arg,
                format!("invalid error class or code {code}: this program did not add it"),
            )
        })
    }

    fn remove(&mut self, code: i32) -> Result<()> {
        if !self.find(code)?.text.is_empty() {
            let why = format!(
                "error code {code} still has a string: remove it first (MPI_Remove_error_string)"
            );
            return Err(Error::new(Class::Arg, why));
        }
        self.added.remove(&code);
        Ok(())
    }
}

fn standard_text(class: Class) -> String {
    format!("{}: {}", class.name(), class.text())
}

fn tool_code(code: i32) -> Option<(&'static str, &'static str)> {
    usize::try_from(code.checked_sub(FIRST_TOOL_CODE)?)
        .ok()
        .and_then(|at| TOOL_CODES.get(at))
        .copied()
}

/// Returns the block of a slot. Blocks count from 1 and leave out the tool interface's.
fn block_of(slot: usize) -> i32 {
    let block = slot as i32 + 1;
    if block < TOOL_BLOCK { block } else { block + 1 }
}

/// Returns class and slot of a code with a text.
fn split(code: i32) -> Option<(Class, usize)> {
    let (block, class) =
        (code.div_euclid(CODE_STRIDE), Class::from_number(code.rem_euclid(CODE_STRIDE))?);
    let slot = match block {
        1..TOOL_BLOCK => block - 1,
        TOOL_BLOCK => return None,
        _ => block - 2,
    };
    (class != Class::Success && (0..MAX_TEXTS as i32).contains(&slot))
        .then_some((class, slot as usize))
}

/// Truncates at a character boundary so that the text fits an MPI error string.
fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(MAX_STRING - 1));
    text
}

const _: () = assert!((MAX_TEXTS as i32 + 2) * CODE_STRIDE < Class::LAST_CODE);

impl Error {
    /// Makes an error of a code that the program gives: `None` for MPI_SUCCESS, otherwise an error
    /// with exactly that code. `origin` says where it comes from: "the query function returned".
    #[cold]
    pub fn from_code(origin: impl Display, code: i32) -> Option<Error> {
        if code == Class::Success as i32 {
            return None;
        }
        let codes = error_codes();
        let class = codes.class_of(code).and_then(Class::from_number).unwrap_or(Class::Other);
        let meaning = codes.text_of(code).unwrap_or_else(|| "not a code of MPI".into());
        let detail = format!("{origin} {code} ({})", meaning.to_string_lossy());
        Some(Error::new(class, detail).with_code(code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_kept_while_it_is_recent() {
        let codes = ErrorCodes::new();
        let error = |n: usize| Error::new(Class::Rank, format!("rank {n} is out of range"));
        let first = codes.code_of("MPI_Send", &error(0));
        assert_eq!(
            codes.text_of(first).unwrap(),
            "MPI_ERR_RANK in MPI_Send: rank 0 is out of range"
        );
        assert_eq!(codes.code_of("MPI_Send", &error(0)), first, "equal sentences share a code");
        for n in 1..MAX_TEXTS {
            let code = codes.code_of("MPI_Send", &error(n));
            assert_ne!(code, first);
            assert!(tool_code(code).is_none() && code < Class::LAST_CODE);
            assert_eq!(codes.class_of(code), Some(Class::Rank as i32));
            assert_eq!(code % CODE_STRIDE, Class::Rank as i32);
        }
        assert!(codes.text_of(first).unwrap().to_string_lossy().contains("rank 0"));
        let other = codes.code_of("MPI_Bcast", &Error::new(Class::Root, "x"));
        assert_eq!(
            codes.text_of(first).unwrap(),
            "MPI_ERR_RANK: invalid rank",
            "forgotten, never mistaken"
        );
        assert_eq!(codes.class_of(first), Some(Class::Rank as i32));
        assert_eq!(codes.text_of(other).unwrap(), "MPI_ERR_ROOT in MPI_Bcast: x");
    }

    #[test]
    fn long_sentences_are_cut_between_characters() {
        let codes = ErrorCodes::new();
        let code = codes.code_of("MPI_Send", &Error::new(Class::Other, "é".repeat(400)));
        let text = codes.text_of(code).unwrap();
        assert!(text.len() <= 511 && text.len() >= 510, "{}", text.len());
        let class = codes.add_class();
        codes.add_string(class, "x".repeat(600)).unwrap();
        assert_eq!(codes.text_of(class).unwrap().len(), 511);
    }

    #[test]
    fn every_class_is_a_code_and_most_numbers_are_not() {
        let codes = ErrorCodes::new();
        for class in Class::all() {
            assert_eq!(codes.class_of(class as i32), Some(class as i32));
            let text = codes.text_of(class as i32).unwrap();
            assert!(text.to_string_lossy().starts_with(class.name()));
        }
        assert_eq!(
            codes.text_of(1018).unwrap().to_string_lossy().split(':').next(),
            Some("MPI_T_ERR_PVAR_NO_ATOMIC")
        );
        assert_eq!(codes.class_of(1001), Some(1001));
        for code in
            [-1, 63, 64, 64 * 15 + 5, 1000, 1019, 64 * 202 + 1, 16383, 16384, i32::MIN, i32::MAX]
        {
            assert_eq!((codes.class_of(code), codes.text_of(code)), (None, None), "{code}");
        }
    }

    #[test]
    fn the_users_own_come_and_go_in_order() {
        let codes = ErrorCodes::new();
        assert_eq!(codes.last_used(), 16383);
        let class = codes.add_class();
        let code = codes.add_code(class).unwrap();
        assert_eq!((class, code, codes.last_used()), (16384, 16385, 16385));
        assert_eq!(
            (codes.class_of(code), codes.text_of(code)),
            (Some(class), Some(OsString::new()))
        );
        codes.add_string(code, "my own").unwrap();
        assert_eq!(codes.text_of(code).unwrap(), "my own");
        assert_eq!(codes.class_of(codes.add_code(16).unwrap()), Some(16));

        assert!(codes.remove_class(class).unwrap_err().detail().contains("still has codes"));
        assert!(codes.remove_code(code).unwrap_err().detail().contains("still has a string"));
        assert!(codes.remove_code(class).is_err() && codes.remove_class(code).is_err());
        codes.remove_string(code).unwrap();
        assert!(codes.remove_string(code).is_err());
        codes.remove_code(code).unwrap();
        codes.remove_class(class).unwrap();
        assert_eq!(codes.class_of(class), None);
        assert_eq!(codes.add_class(), 16387, "numbers are not used twice");
        for code in [0, 16, 64, 16383, class] {
            assert!(codes.remove_class(code).is_err() && codes.remove_code(code).is_err());
            assert!(codes.add_string(code, "x").is_err() && codes.remove_string(code).is_err());
        }
        for class in [0, -1, 64, 16383, code] {
            assert!(codes.add_code(class).is_err());
        }
    }

    #[test]
    fn a_callbacks_own_code_is_returned_as_it_is() {
        let error = Error::from_code("f returned", 12345).unwrap();
        assert_eq!(ErrorCodes::new().code_of("MPI_Comm_dup", &error), 12345);
    }

    #[test]
    fn a_callbacks_code_goes_through_unchanged() {
        assert!(Error::from_code("f returned", 0).is_none());
        let error = Error::from_code("f returned", Class::Dims as i32).unwrap();
        assert_eq!((error.class(), error.code()), (Class::Dims, Some(12)));
        assert!(error.detail().starts_with("f returned 12 (MPI_ERR_DIMS: "), "{}", error.detail());
        let error = Error::from_code("f returned", 999_999).unwrap();
        assert_eq!((error.class(), error.code()), (Class::Other, Some(999_999)));
        assert_eq!(error.detail(), "f returned 999999 (not a code of MPI)");
    }
}
