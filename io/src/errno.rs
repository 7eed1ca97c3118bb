//! Errors of the system as MPI errors. No other file translates them.

use std::io;
use std::path::Path;

use objects::{Class, Error};

/// Returns the error class of an error of the system.
pub(crate) fn class_of(error: &io::Error) -> Class {
    match error.raw_os_error().unwrap_or(0) {
        libc::EACCES | libc::EPERM => Class::Access,
        libc::EROFS => Class::ReadOnly,
        libc::ENOENT => Class::NoSuchFile,
        libc::EEXIST => Class::FileExists,
        libc::ENOSPC => Class::NoSpace,
        libc::EDQUOT => Class::Quota,
        libc::EISDIR | libc::ENOTDIR | libc::ENAMETOOLONG | libc::ELOOP => Class::BadFile,
        libc::EBUSY | libc::ETXTBSY => Class::FileInUse,
        libc::ENOMEM => Class::NoMem,
        libc::EOPNOTSUPP | libc::ENOSYS => Class::UnsupportedOperation,
        _ => Class::Io,
    }
}

/// Returns the error of a failed call: what it did, to which file, and the system's sentence. Where
/// other ranks get the error, [`agree`](crate::agreement::agree) names this one.
#[cold]
pub(crate) fn failed(what: &str, path: &Path, error: &io::Error) -> Error {
    let (path, why) = (path.display(), sentence(error));
    Error::new(class_of(error), format!("cannot {what} {path}: {why}"))
}

/// Returns the system's sentence, without the number that Rust appends.
pub(crate) fn sentence(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_call_file_and_reason() {
        let error = io::Error::from_raw_os_error(libc::ENOSPC);
        let error = failed("write 8 bytes at offset 16 of", Path::new("/data/x"), &error);
        assert_eq!(error.class(), Class::NoSpace);
        assert_eq!(
            error.detail(),
            "cannot write 8 bytes at offset 16 of /data/x: No space left on device"
        );
    }

    #[test]
    fn classes_are_those_of_the_standard() {
        let wanted = [
            (libc::ENOENT, Class::NoSuchFile),
            (libc::EEXIST, Class::FileExists),
            (libc::EACCES, Class::Access),
            (libc::EROFS, Class::ReadOnly),
            (libc::EDQUOT, Class::Quota),
            (libc::EISDIR, Class::BadFile),
            (libc::EIO, Class::Io),
        ];
        for (number, class) in wanted {
            assert_eq!(class_of(&io::Error::from_raw_os_error(number)), class);
        }
    }
}
