//! Errors in MPI's terms: a class, a text, and where the error is raised.
//!
//! Lower crates have error enums of their own; one place of the runtime makes them an [`Error`]. An
//! `Error` is one pointer, so that `Result<()>` fits a register and the path without errors costs
//! nothing.

use std::fmt;

use crate::{Class, Errhandler, Status};

/// A result in MPI's terms.
pub type Result<T> = std::result::Result<T, Error>;

/// An MPI error: its class, a text, and the object at which it is raised.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    class: Class,
    detail: String,
    /// The code that a user's function returned; it is passed on unchanged.
    code: Option<i32>,
    raise_on: Option<usize>,
    through: Option<Errhandler>,
    status: Option<Status>,
    is_consequence: bool,
}

impl Error {
    /// Makes an error of that class. `detail` names what is wrong, the value, and what is allowed,
    /// without a full stop.
    #[cold]
    pub fn new(class: Class, detail: impl Into<String>) -> Error {
        let inner = Inner {
            class,
            detail: detail.into(),
            code: None,
            raise_on: None,
            through: None,
            status: None,
            is_consequence: false,
        };
        Error(Box::new(inner))
    }

    /// Makes an internal error of this library: MPI_ERR_INTERN.
    #[cold]
    pub fn internal(detail: impl Into<String>) -> Error {
        Error::new(Class::Intern, detail)
    }

    /// Adds the code that a user's function returned.
    #[must_use]
    pub(crate) fn with_code(mut self, code: i32) -> Error {
        self.0.code = Some(code);
        self
    }

    /// Raises the error at this communicator (its handle), not at the object that the call names
    /// (MPI-5.0 §9.3).
    #[must_use]
    pub fn on(mut self, comm: usize) -> Error {
        self.0.raise_on = Some(comm);
        self
    }

    /// Raises the error through this handler, which belongs to no object yet.
    #[must_use]
    pub fn through(mut self, handler: Errhandler) -> Error {
        self.0.through = Some(handler);
        self
    }

    /// Adds the status that the call stores although it failed.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Error {
        self.0.status = Some(status);
        self
    }

    /// Marks the error as the consequence of one at another process, which names the cause.
    #[must_use]
    pub fn as_consequence(mut self) -> Error {
        self.0.is_consequence = true;
        self
    }

    /// Returns the class.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// Returns the text.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Returns the code of a user's function, if the error comes from one.
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// Returns the communicator whose handler is called, if it is not the object of the call.
    pub fn raise_on(&self) -> Option<usize> {
        self.0.raise_on
    }

    /// Returns the error handler to call, if it belongs to no object.
    pub fn handler(&self) -> Option<&Errhandler> {
        self.0.through.as_ref()
    }

    /// Returns true if an error at another process names the cause.
    pub fn is_consequence(&self) -> bool {
        self.0.is_consequence
    }

    /// Returns the status to store although the call failed.
    pub fn status(&self) -> Option<&Status> {
        self.0.status.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.class.name(), self.0.detail)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {}

const _: () = assert!(size_of::<Result<()>>() == size_of::<usize>());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_keeps_its_text() {
        let error =
            Error::new(Class::Tag, "tag -7 is negative").on(0x101).with_status(Status::empty());
        assert_eq!(error.to_string(), "MPI_ERR_TAG: tag -7 is negative");
        assert_eq!((error.raise_on(), error.code()), (Some(0x101), None));
        assert!(error.status().is_some());
    }
}
