//! Errors in MPI's terms: a class and a text.
//!
//! Lower crates have error enums of their own; one place of the runtime makes them an [`Error`]. An
//! `Error` is one pointer, so that `Result<()>` fits a register and the path without errors costs
//! nothing.

use std::fmt;

use crate::{Errhandler, Status};

/// A result in MPI's terms.
pub type Result<T> = std::result::Result<T, Error>;

/// Declares the classes with their names and standard texts as one table.
macro_rules! classes {
    ($($variant:ident = $number:literal, $name:literal, $text:literal;)*) => {
        /// The error classes of MPI-5.0 §9.4, numbered as the standard ABI does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(i32)]
        #[allow(missing_docs)]
        pub enum Class { $($variant = $number,)* }

        const CLASSES: &[(Class, &str, &str)] = &[$((Class::$variant, $name, $text),)*];
    };
}

classes! {
    Success = 0, "MPI_SUCCESS", "no error";
    Buffer = 1, "MPI_ERR_BUFFER", "invalid buffer pointer";
    Count = 2, "MPI_ERR_COUNT", "invalid count argument";
    Type = 3, "MPI_ERR_TYPE", "invalid datatype argument";
    Tag = 4, "MPI_ERR_TAG", "invalid tag argument";
    Comm = 5, "MPI_ERR_COMM", "invalid communicator";
    Rank = 6, "MPI_ERR_RANK", "invalid rank";
    Request = 7, "MPI_ERR_REQUEST", "invalid request or message handle";
    Root = 8, "MPI_ERR_ROOT", "invalid root";
    Group = 9, "MPI_ERR_GROUP", "invalid group";
    Op = 10, "MPI_ERR_OP", "invalid reduction operation";
    Topology = 11, "MPI_ERR_TOPOLOGY", "invalid topology";
    Dims = 12, "MPI_ERR_DIMS", "invalid dimension argument";
    Arg = 13, "MPI_ERR_ARG", "invalid argument";
    Unknown = 14, "MPI_ERR_UNKNOWN", "unknown error";
    Truncate = 15, "MPI_ERR_TRUNCATE", "message truncated on receive";
    Other = 16, "MPI_ERR_OTHER", "known error that no other class describes";
    Intern = 17, "MPI_ERR_INTERN", "internal error of the MPI library";
    Pending = 18, "MPI_ERR_PENDING", "request is pending";
    InStatus = 19, "MPI_ERR_IN_STATUS", "error code is in the status";
    Access = 20, "MPI_ERR_ACCESS", "permission denied";
    Amode = 21, "MPI_ERR_AMODE", "invalid file access mode";
    Assert = 22, "MPI_ERR_ASSERT", "invalid assertion argument";
    BadFile = 23, "MPI_ERR_BAD_FILE", "invalid file name";
    Base = 24, "MPI_ERR_BASE", "invalid base address";
    Conversion = 25, "MPI_ERR_CONVERSION", "error in a data conversion function";
    Disp = 26, "MPI_ERR_DISP", "invalid displacement argument";
    DupDatarep = 27, "MPI_ERR_DUP_DATAREP", "data representation is defined already";
    FileExists = 28, "MPI_ERR_FILE_EXISTS", "file exists";
    FileInUse = 29, "MPI_ERR_FILE_IN_USE", "file is in use";
    File = 30, "MPI_ERR_FILE", "invalid file handle";
    InfoKey = 31, "MPI_ERR_INFO_KEY", "info key is empty or too long";
    InfoNokey = 32, "MPI_ERR_INFO_NOKEY", "info key is not defined";
    InfoValue = 33, "MPI_ERR_INFO_VALUE", "info value is too long";
    Info = 34, "MPI_ERR_INFO", "invalid info object";
    Io = 35, "MPI_ERR_IO", "input or output error";
    Keyval = 36, "MPI_ERR_KEYVAL", "invalid attribute key";
    Locktype = 37, "MPI_ERR_LOCKTYPE", "invalid lock type";
    Name = 38, "MPI_ERR_NAME", "service name is not published";
    NoMem = 39, "MPI_ERR_NO_MEM", "out of memory";
    NotSame = 40, "MPI_ERR_NOT_SAME", "collective argument differs between processes";
    NoSpace = 41, "MPI_ERR_NO_SPACE", "not enough space";
    NoSuchFile = 42, "MPI_ERR_NO_SUCH_FILE", "file does not exist";
    Port = 43, "MPI_ERR_PORT", "invalid port name";
    Quota = 44, "MPI_ERR_QUOTA", "quota exceeded";
    ReadOnly = 45, "MPI_ERR_READ_ONLY", "file or file system is read-only";
    RmaAttach = 46, "MPI_ERR_RMA_ATTACH", "memory cannot be attached to the window";
    RmaConflict = 47, "MPI_ERR_RMA_CONFLICT", "conflicting accesses to a window";
    RmaRange = 48, "MPI_ERR_RMA_RANGE", "target memory is outside the window";
    RmaShared = 49, "MPI_ERR_RMA_SHARED", "memory cannot be shared";
    RmaSync = 50, "MPI_ERR_RMA_SYNC", "wrong synchronisation of RMA calls";
    Service = 51, "MPI_ERR_SERVICE", "invalid service name";
    Size = 52, "MPI_ERR_SIZE", "invalid size argument";
    Spawn = 53, "MPI_ERR_SPAWN", "processes cannot be spawned";
    UnsupportedDatarep = 54, "MPI_ERR_UNSUPPORTED_DATAREP", "unsupported data representation";
    UnsupportedOperation = 55, "MPI_ERR_UNSUPPORTED_OPERATION", "unsupported operation";
    Win = 56, "MPI_ERR_WIN", "invalid window";
    RmaFlavor = 57, "MPI_ERR_RMA_FLAVOR", "wrong flavor of window";
    ProcAborted = 58, "MPI_ERR_PROC_ABORTED", "a peer process has ended";
    ValueTooLarge = 59, "MPI_ERR_VALUE_TOO_LARGE", "value does not fit the output argument";
    Session = 60, "MPI_ERR_SESSION", "invalid session";
    Errhandler = 61, "MPI_ERR_ERRHANDLER", "invalid error handler";
    Abi = 62, "MPI_ERR_ABI", "error of the application binary interface";
}

impl Class {
    /// MPI_ERR_LASTCODE: codes above it are the user's.
    pub const LAST_CODE: i32 = 16383;

    /// All classes, in the order of their numbers.
    pub fn all() -> impl ExactSizeIterator<Item = Class> {
        CLASSES.iter().map(|&(class, ..)| class)
    }

    /// Returns the class of that number.
    pub fn from_number(number: i32) -> Option<Class> {
        usize::try_from(number).ok().and_then(|at| CLASSES.get(at)).map(|&(class, ..)| class)
    }

    /// Returns the standard's name: `MPI_ERR_TAG`.
    pub fn name(self) -> &'static str {
        CLASSES[self as usize].1
    }

    /// Returns the standard text, without a full stop.
    pub fn text(self) -> &'static str {
        CLASSES[self as usize].2
    }
}

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
        };
        Error(Box::new(inner))
    }

    /// Makes an internal error of this library: MPI_ERR_INTERN.
    #[cold]
    pub fn internal(detail: impl Into<String>) -> Error {
        Error::new(Class::Intern, detail)
    }

    /// Makes an error of a user callback's return value: `None` for MPI_SUCCESS, otherwise an error
    /// with exactly that code.
    #[cold]
    pub fn from_code(code: i32) -> Option<Error> {
        if code == Class::Success as i32 {
            return None;
        }
        let codes = crate::error_codes();
        let class = codes.class_of(code).and_then(Class::from_number).unwrap_or(Class::Other);
        let detail = codes.text_of(code).unwrap_or_else(|| format!("error code {code}"));
        let mut error = Error::new(class, detail);
        error.0.code = Some(code);
        Some(error)
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
    fn numbers_names_and_texts_agree() {
        assert_eq!(Class::all().len(), 63);
        for (number, class) in Class::all().enumerate() {
            assert_eq!(class as usize, number);
            assert_eq!(Class::from_number(number as i32), Some(class));
            assert_eq!(class.name().starts_with("MPI_ERR_"), class != Class::Success);
            assert!(!class.text().is_empty());
        }
        assert_eq!(Class::from_number(63), None);
        assert_eq!(Class::from_number(-1), None);
        assert_eq!(Class::RmaFlavor.name(), "MPI_ERR_RMA_FLAVOR");
    }

    #[test]
    fn an_error_keeps_its_text() {
        let error =
            Error::new(Class::Tag, "tag -7 is negative").on(0x101).with_status(Status::empty());
        assert_eq!(error.to_string(), "MPI_ERR_TAG: tag -7 is negative");
        assert_eq!((error.raise_on(), error.code()), (Some(0x101), None));
        assert!(error.status().is_some());
    }

    #[test]
    fn a_callbacks_code_goes_through_unchanged() {
        assert!(Error::from_code(0).is_none());
        let error = Error::from_code(Class::Dims as i32).unwrap();
        assert_eq!((error.class(), error.code()), (Class::Dims, Some(12)));
        let error = Error::from_code(999_999).unwrap();
        assert_eq!((error.class(), error.code()), (Class::Other, Some(999_999)));
    }
}
