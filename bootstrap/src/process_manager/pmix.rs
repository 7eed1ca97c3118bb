//! PMIx: the client library of OpenPMIx, opened at run time. Spoken by Slurm, PRRTE, Open MPI's
//! mpirun and Flux.
//!
//! The structures are those of the PMIx standard, versions 2 to 5: a process (260 bytes), a value
//! (a type and 24 bytes), an info (a key of 512 bytes, flags, a value). Only texts and numbers are
//! exchanged. Values are read where the library keeps them and are not freed: there are few.
//!
//! States: initialised by [`connect`] -> finalized. A process without the library is no client.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};

use super::client::{Client, ManagerError};

const NAME: &str = "PMIx";
/// The names of the library, the newest first.
const LIBRARIES: [&CStr; 2] = [c"libpmix.so.2", c"libpmix.so"];
/// A rank that stands for the whole job.
const WILDCARD: u32 = u32::MAX - 1;
/// A rank that stands for any process that has put a key.
const ANY: u32 = u32::MAX;
/// The scope of values for all processes of a job.
const GLOBAL: u8 = 3;
/// Types of values.
const BOOL: u16 = 1;
const STRING: u16 = 3;
const INT: u16 = 6;
const UINT32: u16 = 14;
/// The longest value, in bytes.
const MAX_VALUE: usize = 16 << 10;

#[repr(C)]
struct Proc {
    namespace: [c_char; 256],
    rank: u32,
}

#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

#[repr(C)]
union Data {
    text: *const c_char,
    number: u32,
    flag: bool,
    room: [u64; 3],
}

#[repr(C)]
struct Info {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

const _: () = assert!(size_of::<Proc>() == 260 && size_of::<Value>() == 32);
const _: () = assert!(size_of::<Info>() == 552);

type Init = unsafe extern "C" fn(*mut Proc, *mut Info, usize) -> c_int;
type Finalize = unsafe extern "C" fn(*const Info, usize) -> c_int;
type Abort = unsafe extern "C" fn(c_int, *const c_char, *mut Proc, usize) -> c_int;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> c_int;
type Commit = unsafe extern "C" fn() -> c_int;
type Fence = unsafe extern "C" fn(*const Proc, usize, *const Info, usize) -> c_int;
type ErrorString = unsafe extern "C" fn(c_int) -> *const c_char;
type Get =
    unsafe extern "C" fn(*const Proc, *const c_char, *const Info, usize, *mut *mut Value) -> c_int;

/// The functions of the library.
#[derive(Clone, Copy)]
struct Library {
    init: Init,
    finalize: Finalize,
    abort: Abort,
    put: Put,
    commit: Commit,
    fence: Fence,
    get: Get,
    error_string: ErrorString,
}

struct Pmix {
    library: Library,
    own: Proc,
    size: u32,
}

/// Opens the library and joins the job.
pub(super) fn connect() -> Result<Option<Box<dyn Client>>, ManagerError> {
    join(open()?)
}

fn join(library: Library) -> Result<Option<Box<dyn Client>>, ManagerError> {
    // SAFETY: all zeros are a valid process.
    let mut own: Proc = unsafe { std::mem::zeroed() };
    // SAFETY: the structure outlives the call; no infos are passed.
    let code = unsafe { (library.init)(&raw mut own, std::ptr::null_mut(), 0) };
    library.check("PMIx_Init", code).map_err(no_server)?;
    let mut client = Pmix { library, own, size: 0 };
    client.size = client.number("pmix.job.size")?.ok_or_else(|| {
        ManagerError("the PMIx server does not tell the size of the job (pmix.job.size)".into())
    })?;
    Ok(Some(Box::new(client)))
}

fn open() -> Result<Library, ManagerError> {
    let handle = LIBRARIES.iter().find_map(|name| {
        // SAFETY: a C string; the library's initialisers run, as in any program that links it.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!handle.is_null()).then_some(handle)
    });
    let handle = handle.ok_or_else(|| {
        ManagerError(
            "PMIX_NAMESPACE is set, but libpmix.so.2 is not found: install OpenPMIx's library or \
             add its folder to LD_LIBRARY_PATH, or use `srun --mpi=pmi2`"
                .into(),
        )
    })?;
    let find = |name: &CStr| {
        // SAFETY: a handle of dlopen, and a C string.
        let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
        let missing = || ManagerError(format!("libpmix has no {}", name.to_string_lossy()));
        if address.is_null() { Err(missing()) } else { Ok(address) }
    };
    // SAFETY: each symbol is the function of that name of the PMIx standard, whose signature the
    // field has. The library stays open for the life of the process.
    unsafe {
        Ok(Library {
            init: std::mem::transmute::<*mut c_void, Init>(find(c"PMIx_Init")?),
            finalize: std::mem::transmute::<*mut c_void, Finalize>(find(c"PMIx_Finalize")?),
            abort: std::mem::transmute::<*mut c_void, Abort>(find(c"PMIx_Abort")?),
            put: std::mem::transmute::<*mut c_void, Put>(find(c"PMIx_Put")?),
            commit: std::mem::transmute::<*mut c_void, Commit>(find(c"PMIx_Commit")?),
            fence: std::mem::transmute::<*mut c_void, Fence>(find(c"PMIx_Fence")?),
            get: std::mem::transmute::<*mut c_void, Get>(find(c"PMIx_Get")?),
            error_string: std::mem::transmute::<*mut c_void, ErrorString>(find(
                c"PMIx_Error_string",
            )?),
        })
    }
}

impl Library {
    /// Returns the error of a call that ended with this status, by the library's name for it.
    fn check(&self, what: &str, code: c_int) -> Result<(), ManagerError> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number and returns null or a C string that is never freed.
        let name = unsafe {
            let name = (self.error_string)(code);
            if name.is_null() { c"unknown" } else { CStr::from_ptr(name) }
        };
        Err(ManagerError(format!("{what} failed: {} ({code})", name.to_string_lossy())))
    }
}

/// Adds the remedy to the error of PMIx_Init, whose usual status is PMIX_ERR_UNREACH (-25).
fn no_server(ManagerError(error): ManagerError) -> ManagerError {
    ManagerError(format!(
        "{error}. The environment names a launcher with PMIx (PMIX_NAMESPACE), and its PMIx server \
         cannot be reached: start the program by `srun --mpi=pmix`, `prterun` or Verbena's \
         `mpiexec`, or remove PMIX_NAMESPACE from the environment to run it alone"
    ))
}

fn c_string(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

impl Pmix {
    /// Returns a value of the job or of a process; `None` if there is none.
    fn value(&self, rank: u32, key: &str) -> Option<&Value> {
        let proc = Proc { namespace: self.own.namespace, rank };
        let key = c_string(key);
        let mut value: *mut Value = std::ptr::null_mut();
        // SAFETY: all pointers outlive the call. On success the library returns a value that is
        // valid until it is freed, which this client never does.
        unsafe {
            let get = self.library.get;
            let code = get(&raw const proc, key.as_ptr(), std::ptr::null(), 0, &raw mut value);
            if code == 0 { value.as_ref() } else { None }
        }
    }

    fn number(&self, key: &str) -> Result<Option<u32>, ManagerError> {
        match self.value(WILDCARD, key) {
            // SAFETY: the type says that the union holds this number.
            Some(value) if value.kind == UINT32 => Ok(Some(unsafe { value.data.number })),
            Some(value) => Err(ManagerError(format!("{key} has the type {}", value.kind))),
            None => Ok(None),
        }
    }

    fn text(&self, rank: u32, key: &str) -> Option<String> {
        let value = self.value(rank, key).filter(|value| value.kind == STRING)?;
        // SAFETY: the type says that the union holds a pointer; it is null or a C string that lives
        // as long as the value.
        unsafe {
            let text = value.data.text;
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }
}

impl Client for Pmix {
    fn name(&self) -> &'static str {
        NAME
    }

    fn place(&self) -> (u32, u32) {
        (self.own.rank, self.size)
    }

    fn appnum(&mut self) -> Result<Option<u32>, ManagerError> {
        // The standard's type is UINT32; Slurm stores it as INT.
        let value = self.value(self.own.rank, "pmix.appnum");
        let value = value.filter(|value| matches!(value.kind, UINT32 | INT));
        // SAFETY: both types have 32 bits, which the union holds.
        let number = value.map(|value| unsafe { value.data.number });
        Ok(number.filter(|number| i32::try_from(*number).is_ok()))
    }

    fn max_value(&self) -> usize {
        MAX_VALUE
    }

    fn local_ranks(&mut self) -> Result<Option<Vec<u32>>, ManagerError> {
        let peers = self.text(WILDCARD, "pmix.lpeers");
        Ok(peers.and_then(|peers| {
            let ranks: Option<Vec<u32>> =
                peers.split(',').map(|rank| rank.trim().parse().ok()).collect();
            ranks.map(|mut ranks| {
                ranks.sort_unstable();
                ranks
            })
        }))
    }

    fn put(&mut self, key: &str, text: &str) -> Result<(), ManagerError> {
        let (key, text) = (c_string(key), c_string(text));
        let mut value = Value { kind: STRING, data: Data { room: [0; 3] } };
        value.data.text = text.as_ptr();
        // SAFETY: all pointers outlive the call, which copies the value.
        let code = unsafe { (self.library.put)(GLOBAL, key.as_ptr(), &raw mut value) };
        self.library.check("PMIx_Put", code)
    }

    fn get(&mut self, key: &str, from: Option<u32>) -> Result<Option<String>, ManagerError> {
        Ok(self.text(from.unwrap_or(ANY), key))
    }

    fn fence(&mut self) -> Result<(), ManagerError> {
        // SAFETY: the call takes no arguments.
        self.library.check("PMIx_Commit", unsafe { (self.library.commit)() })?;
        let mut info = Info {
            key: [0; 512],
            flags: 0,
            value: Value { kind: BOOL, data: Data { room: [0; 3] } },
        };
        info.value.data.flag = true;
        for (to, from) in info.key.iter_mut().zip(c"pmix.collect".to_bytes()) {
            *to = *from as c_char;
        }
        let job = Proc { namespace: self.own.namespace, rank: WILDCARD };
        // SAFETY: both structures outlive the call, and their numbers are right.
        let code = unsafe { (self.library.fence)(&raw const job, 1, &raw const info, 1) };
        self.library.check("PMIx_Fence", code)
    }

    fn abort(&mut self, code: i32, message: &str) {
        let message = c_string(message);
        // SAFETY: the text outlives the call; no processes means all.
        unsafe { (self.library.abort)(code, message.as_ptr(), std::ptr::null_mut(), 0) };
    }

    fn finalize(&mut self) -> Result<(), ManagerError> {
        // SAFETY: no infos are passed.
        let code = unsafe { (self.library.finalize)(std::ptr::null(), 0) };
        self.library.check("PMIx_Finalize", code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn unreachable(_: *mut Proc, _: *mut Info, _: usize) -> c_int {
        -25
    }

    extern "C" fn name(status: c_int) -> *const c_char {
        if status == -25 { c"UNREACHABLE".as_ptr() } else { std::ptr::null() }
    }

    #[test]
    fn a_status_has_its_name_and_that_of_a_missing_server_a_remedy() {
        // Hosts without the library have nothing to call.
        let Ok(mut library) = open() else { return };
        (library.init, library.error_string) = (unreachable, name);
        let why = join(library).err().unwrap().to_string();
        assert!(why.starts_with("PMIx_Init failed: UNREACHABLE (-25). "), "{why}");
        assert!(why.contains("PMIx server cannot be reached: start the program by `srun"), "{why}");
        let why = library.check("PMIx_Put", -7).unwrap_err().to_string();
        assert_eq!(why, "PMIx_Put failed: unknown (-7)");
        assert_eq!(library.check("PMIx_Put", 0), Ok(()));
    }
}
