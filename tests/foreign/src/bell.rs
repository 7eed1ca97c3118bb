//! `bell.c` for Rust.

use std::ffi::{CString, c_char, c_int};

/// What a datagram is for.
pub const CALL: u32 = 1;
/// The same, of one who is ready.
pub const ANSWER: u32 = 2;
/// The end.
pub const CLOSE: u32 = 3;

/// A datagram as it travels: see `docs/verbs.md`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Hello {
    pub magic: u32,
    pub kind: u32,
    pub from: u32,
    pub to: u32,
    pub epoch: u32,
    pub queue: u32,
    pub psn: u32,
    pub yours: u32,
    pub consumed: u32,
    pub window: u32,
    pub lid: u16,
    pub mtu: u8,
    pub reads: u8,
    pub gid: [u8; 16],
    pub frame: u32,
    pub gate: [u32; 3],
    pub proof: [u8; 32],
}

/// What stands in the job's store.
#[repr(C, packed)]
#[derive(Clone, Copy, Default)]
pub struct Door {
    gid: [u8; 16],
    lid: u16,
    bell: u32,
}

impl Door {
    /// As stored.
    pub fn bytes(&self) -> Vec<u8> {
        let (lid, bell) = (self.lid.to_le_bytes(), self.bell.to_le_bytes());
        [&self.gid[..], &lid, &bell].concat()
    }
}

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn bell_open(device: *const c_char, gid_index: c_int, secret: *const u8, own: *mut Door) -> *mut Opaque;
    fn bell_ring(bell: *mut Opaque, to: *const Door, hello: *mut Hello);
    fn bell_heard(bell: *mut Opaque, hello: *mut Hello, from: *mut u32) -> c_int;
}

/// A bell, open to the end of the process.
pub struct Bell(*mut Opaque);

impl Bell {
    /// On a device, with where it can be rung.
    pub fn open(device: &str, gid_index: u32, secret: &[u8; 32]) -> (Bell, Door) {
        let (device, mut own) = (CString::new(device).expect("a name"), Door::default());
        // SAFETY: valid for the call; what is returned is valid for ever.
        let bell = unsafe { bell_open(device.as_ptr(), gid_index as c_int, secret.as_ptr(), &mut own) };
        (Bell(bell), own)
    }

    /// Sends a datagram to the one that another datagram has come from.
    pub fn answer(&mut self, to: &Hello, bell: u32, mut hello: Hello) {
        let door = Door { gid: to.gid, lid: to.lid, bell };
        // SAFETY: valid for the call.
        unsafe { bell_ring(self.0, &door, &mut hello) }
    }

    /// A datagram of the job, and the bell that it came from.
    pub fn heard(&mut self) -> Option<(Hello, u32)> {
        let (mut hello, mut from) = (Hello::default(), 0);
        // SAFETY: valid for the call.
        (unsafe { bell_heard(self.0, &mut hello, &mut from) } != 0).then_some((hello, from))
    }
}
