//! The wires between the guests' network cards: Unix datagram sockets without
//! names, one frame in each datagram.
//!
//! Two cards are the two ends of one socket pair. More go through a switch, which
//! is a thread for each card: a frame to one card goes to that card, any other to
//! all. It waits for a card that takes no more; therefore it loses nothing.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair,
};

/// The first five bytes of every card's address; the sixth is the guest's number.
pub(super) const CARDS: [u8; 5] = [0x52, 0x54, 0x00, 0x77, 0x00];
/// Size of a buffer for a frame, bytes; no frame is longer.
const MAX_FRAME_BYTES: usize = 66_000;

/// One end for each guest's card. The wires live as long as the guests have them.
pub(super) fn wires(guests: u32) -> Result<Vec<OwnedFd>> {
    if guests == 2 {
        let (one, other) = wire()?;
        return Ok(vec![one, other]);
    }
    let mut ends = Vec::new();
    let mut ports = Vec::new();
    for _ in 0..guests {
        let (end, port) = wire()?;
        ends.push(end);
        ports.push(port);
    }
    let ports = Arc::new(ports);
    for from in 0..ports.len() {
        let ports = Arc::clone(&ports);
        std::thread::spawn(move || forward(&ports, from));
    }
    Ok(ends)
}

fn wire() -> Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .context("no sockets for the network")
}

/// Passes on what one card sends, until it is gone.
fn forward(ports: &[OwnedFd], from: usize) {
    let mut frame = vec![0u8; MAX_FRAME_BYTES];
    while let Ok((length, _)) = recv(&ports[from], &mut frame[..], RecvFlags::empty()) {
        if length == 0 {
            return;
        }
        let frame = &frame[..length];
        for to in targets(frame, from, ports.len()) {
            // A card that has ended gets nothing.
            let _ = send(&ports[to], frame, SendFlags::NOSIGNAL);
        }
    }
}

/// The receivers of a frame.
fn targets(frame: &[u8], from: usize, guests: usize) -> Vec<usize> {
    match frame.strip_prefix(&CARDS[..]).and_then(|rest| rest.first()) {
        Some(&card) if usize::from(card) < guests => vec![usize::from(card)],
        _ => (0..guests).filter(|guest| *guest != from).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_goes_to_its_card_and_a_broadcast_to_all_others() {
        let ends = wires(3).unwrap();
        let receive = |end: usize| {
            let mut bytes = [0u8; 64];
            let (length, _) = recv(&ends[end], &mut bytes[..], RecvFlags::empty()).unwrap();
            bytes[..length].to_vec()
        };
        let to_last = [&CARDS[..], &[2, 9, 9]].concat();
        let to_all = vec![0xff; 20];
        send(&ends[0], &to_last, SendFlags::empty()).unwrap();
        send(&ends[0], &to_all, SendFlags::empty()).unwrap();
        assert_eq!(receive(1), to_all, "the second card must not see the first frame");
        assert_eq!((receive(2), receive(2)), (to_last, to_all));
    }
}
