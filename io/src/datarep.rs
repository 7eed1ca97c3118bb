//! Data representations (MPI-5.0 §14.5): how the bytes of the file stand for values.
//!
//! "native" and "internal" are the bytes of memory. "external32" is big-endian with the standard's
//! lengths. A user's representation has lengths and conversions of its own; it is registered once
//! for the process ([`Datareps`]).
//!
//! A converted access goes through a buffer of the whole access. A read that ends early converts
//! the whole elements that it got.

use std::ffi::{OsStr, OsString};
use std::sync::Arc;

use objects::datatype::Basic;
use objects::{Buffer, Class, Datatype, Error, Result};

use crate::staging::Staging;

/// Longest name, bytes (MPI_MAX_DATAREP_STRING without the terminator).
const MAX_NAME: usize = 127;

/// Converts `count` elements between a user's buffer and bytes of the file: buffer, handle of the
/// datatype, count, bytes of the file, position.
pub type Conversion = Box<dyn Fn(*mut u8, usize, i64, *mut u8, i64) -> Result<()> + Send + Sync>;
/// Returns the bytes in the file of an element of a predefined datatype, by its handle.
pub type FileExtent = Box<dyn Fn(usize) -> Result<i64> + Send + Sync>;

/// A data representation that the user registered.
pub struct UserDatarep {
    /// Its name.
    pub name: OsString,
    /// Converts what was read; `None`: the bytes are those of memory.
    pub read: Option<Conversion>,
    /// Converts what is written; `None`: the bytes are those of memory.
    pub write: Option<Conversion>,
    /// The sizes of elements in the file.
    pub extent: FileExtent,
}

/// A data representation.
#[derive(Clone)]
pub enum Datarep {
    /// The bytes of memory.
    Native,
    /// The bytes of memory, as every process of this library has them.
    Internal,
    /// The standard's portable representation.
    External32,
    /// A user's.
    User(Arc<UserDatarep>),
}

/// The representations that the user registered.
#[derive(Default)]
pub struct Datareps(Vec<Arc<UserDatarep>>);

impl Datareps {
    /// Returns an empty list.
    pub const fn new() -> Datareps {
        Datareps(Vec::new())
    }

    /// Registers a representation. MPI_ERR_DUP_DATAREP if the name is taken.
    pub fn register(&mut self, datarep: UserDatarep) -> Result<()> {
        let name = &datarep.name;
        if name.is_empty() || name.len() > MAX_NAME {
            let text = format!(
                "invalid name of a data representation: it has {} bytes, must have 1 to {MAX_NAME}",
                name.len()
            );
            return Err(Error::new(Class::Arg, text));
        }
        if self.find(name).is_ok() {
            let text = format!("the data representation \"{}\" is defined already", name.display());
            return Err(Error::new(Class::DupDatarep, text));
        }
        self.0.push(Arc::new(datarep));
        Ok(())
    }

    /// Returns the representation of a name, in any case for the predefined ones.
    /// MPI_ERR_UNSUPPORTED_DATAREP if there is none.
    pub fn find(&self, name: &OsStr) -> Result<Datarep> {
        let predefined = [Datarep::Native, Datarep::Internal, Datarep::External32].into_iter();
        if let Some(known) =
            predefined.into_iter().find(|known| known.name().eq_ignore_ascii_case(name))
        {
            return Ok(known);
        }
        match self.0.iter().find(|known| known.name == name) {
            Some(known) => Ok(Datarep::User(known.clone())),
            None => Err(Error::new(
                Class::UnsupportedDatarep,
                format!(
                    "unsupported data representation \"{}\": must be native, internal, \
                     external32 or a registered one",
                    name.display()
                ),
            )),
        }
    }
}

/// A user's data, as a call gives it.
#[derive(Clone)]
pub struct UserData {
    /// The bytes to move.
    pub buffer: Buffer,
    /// The address, for conversion functions.
    pub address: usize,
    /// The number of elements.
    pub count: u64,
    /// The type of the elements.
    pub datatype: Datatype,
    /// The handle of the type, for conversion functions.
    pub handle: usize,
}

impl Datarep {
    /// Returns the name.
    pub fn name(&self) -> &OsStr {
        OsStr::new(match self {
            Datarep::Native => "native",
            Datarep::Internal => "internal",
            Datarep::External32 => "external32",
            Datarep::User(user) => return &user.name,
        })
    }

    /// Returns true if the bytes of the file are those of memory.
    pub fn is_native(&self) -> bool {
        matches!(self, Datarep::Native | Datarep::Internal)
    }

    /// Returns true if functions of the user convert the data.
    pub fn is_users(&self) -> bool {
        matches!(self, Datarep::User(_))
    }

    /// Returns the bytes of a basic element in the file.
    fn basic_size(&self, basic: Basic) -> Result<u64> {
        match self {
            Datarep::Native | Datarep::Internal => Ok(basic.repr.size()),
            Datarep::External32 => Ok(basic.repr.external_size()),
            Datarep::User(user) => {
                let extent = (user.extent)(basic.handle.into())?;
                u64::try_from(extent).map_err(|_| {
                    let text = format!(
                        "invalid extent {extent} of {} in data representation \"{}\": must not be \
                         negative",
                        basic.name(),
                        user.name.display()
                    );
                    Error::new(Class::Conversion, text)
                })
            }
        }
    }

    /// Returns a datatype with the sizes of the file.
    pub fn in_file(&self, datatype: &Datatype) -> Result<Datatype> {
        match self {
            Datarep::Native | Datarep::Internal => Ok(datatype.clone()),
            other => datatype.in_file(&mut |basic| other.basic_size(basic)),
        }
    }

    /// Returns the bytes that the data has in the file.
    pub(crate) fn file_bytes(&self, data: &UserData) -> Result<u64> {
        match self {
            Datarep::Native | Datarep::Internal => Ok(data.buffer.len()),
            other => {
                let each = data.datatype.size_in_file(&mut |basic| other.basic_size(basic))?;
                each.checked_mul(data.count).filter(|&bytes| bytes <= i64::MAX as u64).ok_or_else(
                    || Error::new(Class::Count, "the data has more than 2^63 bytes in the file"),
                )
            }
        }
    }

    /// Converts the data to the bytes of the file.
    pub(crate) fn encode(&self, data: &UserData) -> Result<Staging> {
        let mut out = Staging::new(self.file_bytes(data)?)?;
        match self {
            Datarep::Native | Datarep::Internal => data.buffer.pack(0, out.bytes_mut()),
            Datarep::External32 => {
                data.datatype.pack_external(&data.buffer, out.bytes_mut())?;
            }
            Datarep::User(user) => match &user.write {
                None => data.buffer.pack(0, out.bytes_mut()),
                Some(convert) => {
                    // What the function leaves out must not be data of another access.
                    out.bytes_mut().fill(0);
                    let (from, count) = (data.address as *mut u8, data.count as i64);
                    convert(from, data.handle, count, out.bytes_mut().as_mut_ptr(), 0)?;
                }
            },
        }
        Ok(out)
    }

    /// Converts the first `got` bytes of the file to the user's data; returns how many bytes of the
    /// user's they are.
    pub(crate) fn decode(&self, data: &UserData, from: &mut Staging, got: u64) -> Result<u64> {
        match self {
            Datarep::Native | Datarep::Internal => {
                data.buffer.unpack(0, &from.bytes()[..got as usize]);
                Ok(got)
            }
            Datarep::External32 => {
                let bytes = data.datatype.native_bytes_of(got, data.count);
                let mut native = Staging::new(data.buffer.len())?;
                native.lend(|memory| {
                    data.datatype.unpack_external(from.bytes(), &Buffer::contiguous(memory))
                })?;
                data.buffer.unpack(0, &native.bytes()[..bytes as usize]);
                Ok(bytes)
            }
            Datarep::User(user) => {
                let each = self.file_bytes(data)?.checked_div(data.count).unwrap_or(0);
                let whole = got.checked_div(each).unwrap_or(0).min(data.count);
                match &user.read {
                    None => data.buffer.unpack(0, &from.bytes()[..got as usize]),
                    Some(convert) => {
                        let (to, bytes) = (data.address as *mut u8, from.bytes_mut());
                        convert(to, data.handle, whole as i64, bytes.as_mut_ptr(), 0)?;
                    }
                }
                Ok(whole.saturating_mul(data.datatype.size()))
            }
        }
    }
}
