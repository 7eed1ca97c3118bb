//! `ud.c` for Rust.

use std::ffi::{CString, c_char, c_int};

/// Kind of a datagram: describes the sender and requires a reply.
pub const REQ: u8 = 1;
/// Kind of a datagram: describes a ready sender.
pub const REP: u8 = 2;
/// Kind of a datagram: ends the connection.
pub const DISCONNECT: u8 = 3;

/// A datagram as it travels: see `docs/verbs.md`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct WireupMsg {
    pub magic: u32,
    pub kind: u8,
    pub flags: [u8; 3],
    pub from: u32,
    pub to: u32,
    pub epoch: u32,
    pub qpn: u32,
    pub psn: u32,
    pub peer_qpn: u32,
    pub rx_seq: u32,
    pub window: u32,
    pub lid: u16,
    pub mtu: u8,
    pub reads: u8,
    pub gid: [u8; 16],
    pub frame: u32,
    pub ring_control: [u32; 3],
    pub proof: [u8; 32],
}

/// The address in the job's store.
#[repr(C, packed)]
#[derive(Clone, Copy, Default)]
pub struct Address {
    gid: [u8; 16],
    lid: u16,
    qpn: u32,
}

impl Address {
    /// Returns the bytes to store.
    pub fn bytes(&self) -> Vec<u8> {
        let (lid, qpn) = (self.lid.to_le_bytes(), self.qpn.to_le_bytes());
        [&self.gid[..], &lid, &qpn].concat()
    }
}

#[repr(C)]
struct Opaque {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn ud_open(device: *const c_char, gid_index: c_int, secret: *const u8, own: *mut Address) -> *mut Opaque;
    fn ud_send(endpoint: *mut Opaque, to: *const Address, msg: *mut WireupMsg);
    fn ud_recv(endpoint: *mut Opaque, msg: *mut WireupMsg, from: *mut u32) -> c_int;
}

/// A UD endpoint, open to the end of the process.
pub struct UdEndpoint(*mut Opaque);

impl UdEndpoint {
    /// Opens an endpoint on a device; returns it with its address.
    pub fn open(device: &str, gid_index: u32, secret: &[u8; 32]) -> (UdEndpoint, Address) {
        let (device, mut own) = (CString::new(device).expect("a name"), Address::default());
        // SAFETY: valid for the call; the result is valid for ever.
        let endpoint = unsafe { ud_open(device.as_ptr(), gid_index as c_int, secret.as_ptr(), &mut own) };
        (UdEndpoint(endpoint), own)
    }

    /// Sends a datagram to the sender of another datagram.
    pub fn reply(&mut self, to: &WireupMsg, qpn: u32, mut msg: WireupMsg) {
        let address = Address { gid: to.gid, lid: to.lid, qpn };
        // SAFETY: valid for the call.
        unsafe { ud_send(self.0, &address, &mut msg) }
    }

    /// Returns a datagram of the job, and the number of the endpoint that sent it.
    pub fn recv(&mut self) -> Option<(WireupMsg, u32)> {
        let (mut msg, mut from) = (WireupMsg::default(), 0);
        // SAFETY: valid for the call.
        (unsafe { ud_recv(self.0, &mut msg, &mut from) } != 0).then_some((msg, from))
    }
}
