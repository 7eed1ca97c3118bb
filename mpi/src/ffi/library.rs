//! Finding and opening the MPI library, and its functions by name.
//!
//! States: not opened; open, for the rest of the process. The library's symbols become global, and
//! each function is looked up among all symbols of the process when it is first called. A library
//! that the program already has comes first, so that a Rust part and a C part of one program share
//! one MPI, and so do profiling tools that are preloaded and wrap its functions (MPI-5.0 §15.2).

use std::ffi::{CStr, CString, OsString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The name of a library with the standard ABI (MPI-5.0 §20.1).
const FILE: &str = "libmpi_abi.so.1";
/// Names the library's file, instead of a search. `mpiexec` sets it to its own library.
const VARIABLE: &str = "MPI_ABI_LIBRARY";
/// Only a library with the standard ABI has this function.
const OF_THE_ABI: &CStr = c"MPI_Abi_get_version";

/// No library with the standard ABI was found; the text says where.
#[derive(Clone, Debug, thiserror::Error)]
#[error(
    "no MPI library with the standard ABI ({FILE}) was found:\n{}\n\
     Start the program with the mpiexec of Verbena, or put that on PATH, or set {VARIABLE} to the \
     library's file.",
    .tried.join("\n")
)]
pub struct NoLibrary {
    tried: Vec<String>,
}

/// Opens the MPI library, unless that was done before.
///
/// It is sought in this order: a library with the standard ABI that the process has already
/// loaded; the file that the environment variable `MPI_ABI_LIBRARY` names; `libmpi_abi.so.1` where
/// the system's loader looks; `../lib` beside the first `mpiexec` on `PATH`.
pub fn open() -> Result<(), NoLibrary> {
    static OPENED: OnceLock<Result<(), NoLibrary>> = OnceLock::new();
    OPENED.get_or_init(search).clone()
}

fn search() -> Result<(), NoLibrary> {
    if !symbol(OF_THE_ABI).is_null() {
        return Ok(());
    }
    let mut tried = Vec::new();
    for file in candidates(std::env::var_os(VARIABLE), std::env::var_os("PATH")) {
        match load(&file) {
            Ok(()) if symbol(OF_THE_ABI).is_null() => {
                tried.push(format!("  {}: it is no MPI library with that ABI", file.display()));
            }
            Ok(()) => return Ok(()),
            Err(reason) => tried.push(format!("  {}: {reason}", file.display())),
        }
    }
    Err(NoLibrary { tried })
}

/// Returns the files to try. A file that the user names is the only one.
fn candidates(named: Option<OsString>, path: Option<OsString>) -> Vec<PathBuf> {
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return vec![named.into()];
    }
    let beside_mpiexec = std::env::split_paths(&path.unwrap_or_default())
        .find_map(|folder| std::fs::canonicalize(folder.join("mpiexec")).ok())
        .and_then(|mpiexec| Some(mpiexec.parent()?.parent()?.join("lib").join(FILE)));
    std::iter::once(PathBuf::from(FILE)).chain(beside_mpiexec).collect()
}

/// Loads a library; its symbols become global.
fn load(file: &Path) -> Result<(), String> {
    let path = CString::new(file.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the name is a terminated string. The library's constructors run like those of any
    // library that is loaded at run time.
    if !unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) }.is_null() {
        return Ok(());
    }
    // SAFETY: after a failed dlopen, dlerror returns null or a terminated string that lives until
    // the thread's next such call, and it is copied before that.
    Err(unsafe {
        let text = libc::dlerror();
        if text.is_null() {
            "no reason given".into()
        } else {
            CStr::from_ptr(text).to_string_lossy().into_owned()
        }
    })
}

/// Returns the address of a symbol, or null.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a terminated string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// A function of the library: its address, once it was called.
pub(crate) struct Function {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Function {
    pub(crate) const fn new(name: &'static CStr) -> Function {
        Function { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the function's address, which is not null.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        // Relaxed: the code behind the address was mapped before any thread could learn it, and
        // never changes.
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.find() } else { address }
    }

    /// Looks the function up. The program ends if there is none: a function of C returns no error
    /// for that.
    #[cold]
    fn find(&self) -> *mut c_void {
        let name = self.name.to_string_lossy();
        if let Err(error) = open() {
            panic!("{name} was called, but {error}");
        }
        let address = symbol(self.name);
        assert!(!address.is_null(), "the MPI library of this process has no {name}");
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// Defines functions of the library, each with its C declaration.
macro_rules! functions {
    ($(fn $name:ident($($parameter:ident: $type:ty),* $(,)?) -> $returns:ty;)*) => {
        $(
            /// # Safety
            /// As the standard says for the function of C.
            #[inline]
            pub unsafe fn $name($($parameter: $type),*) -> $returns {
                static FUNCTION: $crate::ffi::library::Function =
                    $crate::ffi::library::Function::new(
                        // A name has no zero byte but the last.
                        match std::ffi::CStr::from_bytes_with_nul(
                            concat!(stringify!($name), "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => panic!("a name with a zero byte"),
                        },
                    );
                // SAFETY: the symbol of this name is a function with this declaration in every
                // library with the standard ABI. The caller keeps the rules of the standard.
                unsafe {
                    std::mem::transmute::<
                        *mut std::ffi::c_void,
                        unsafe extern "C" fn($($type),*) -> $returns,
                    >(FUNCTION.address())($($parameter),*)
                }
            }
        )*
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_file_is_the_only_candidate() {
        let found = candidates(Some("/a/b.so".into()), Some("/bin".into()));
        assert_eq!(found, [PathBuf::from("/a/b.so")]);
    }

    #[test]
    fn without_a_name_the_loader_looks_first_and_then_beside_mpiexec() {
        let folder = std::env::temp_dir().join(format!("mpi-library-{}", std::process::id()));
        let bin = folder.join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("mpiexec"), "").unwrap();
        let path = std::env::join_paths([Path::new("/nowhere"), &bin]).unwrap();
        let found = candidates(Some(OsString::new()), Some(path));
        let lib = std::fs::canonicalize(&folder).unwrap().join("lib").join(FILE);
        assert_eq!(found, [PathBuf::from(FILE), lib]);
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(candidates(None, None), [PathBuf::from(FILE)]);
    }

    #[test]
    fn the_error_names_each_place_and_the_remedies() {
        let tried = vec!["  /a: no such file".to_owned(), "  /b: wrong".to_owned()];
        let text = NoLibrary { tried }.to_string();
        assert!(text.contains("/a: no such file\n  /b: wrong\nStart the program"), "{text}");
        assert!(text.contains(VARIABLE), "{text}");
    }

    #[test]
    fn a_file_that_is_no_library_gives_a_reason() {
        assert!(load(Path::new("/nowhere/libmpi_abi.so.1")).unwrap_err().contains("nowhere"));
    }
}
