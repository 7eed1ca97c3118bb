//! Error classes of MPI-5.0 §9.4: numbers, names and standard texts, as one table.

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
}
