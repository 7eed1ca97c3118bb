//! How a process that runs already becomes the rank of a job: another process, which `mpiexec` has
//! started as this rank, hands over what it has got.
//!
//! ```text
//! process                        stand-in (started by mpiexec)
//!                          <--   the rank's variable, [control socket, status page]
//!   joins the job
//!   closes its end         -->   ends
//! ```
//!
//! Both ends share a socket that keeps messages apart. The stand-in lives as long as the process
//! keeps its end open, so that `mpiexec` learns of the process's end by that of the stand-in.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::time::Timespec;

use crate::environment::RankParams;
use crate::inherited_fd;
use crate::status_page::monotonic_nanos;

/// The option of an `mpiexec` that serves the process at the other end of its standard input.
pub const LAUNCHER_OPTION: &str = "--for-caller";
/// Bytes that the variable of a rank has at most.
const MAX_TEXT: usize = 1 << 10;

/// What a stand-in hands over.
#[derive(Debug)]
pub struct HandedOver {
    /// The rank's variable.
    pub params: RankParams,
    /// The rank's end of its control socket.
    pub control: OwnedFd,
    /// The memory file of the status page.
    pub status_page: OwnedFd,
}

/// Creates the socket: the end of the process, and that of the stand-in.
pub fn socket() -> Result<(OwnedFd, OwnedFd), Errno> {
    let kind = SocketType::SEQPACKET;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    Ok((above_streams(ours)?, above_streams(theirs)?))
}

/// Moves a descriptor away from the numbers of the standard streams, which the program may have
/// closed: it would print into the descriptor.
fn above_streams(descriptor: OwnedFd) -> Result<OwnedFd, Errno> {
    const FIRST: i32 = 3;
    match descriptor.as_raw_fd() {
        ..FIRST => fcntl_dupfd_cloexec(&descriptor, FIRST),
        _ => Ok(descriptor),
    }
}

/// Takes the descriptors that `mpiexec` has opened for this process as a rank; `None` if they are
/// not open. Call it once.
pub fn take(params: &RankParams) -> Option<HandedOver> {
    let control = inherited_fd::take(params.control)?;
    let status_page = inherited_fd::take(params.status_page)?;
    Some(HandedOver { params: *params, control, status_page })
}

/// Hands a rank over.
pub fn send(socket: BorrowedFd<'_>, rank: &HandedOver) -> Result<(), Errno> {
    let descriptors = [rank.control.as_fd(), rank.status_page.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let text = rank.params.to_string();
    sendmsg(socket, &[IoSlice::new(text.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits until a stand-in hands over, for that many seconds at most. `None` if it does not.
pub fn receive(socket: BorrowedFd<'_>, seconds: i64) -> Option<HandedOver> {
    wait_for(socket, PollFlags::IN, seconds * 1000);
    let mut text = [0; MAX_TEXT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(&mut text)], &mut ancillary, flags).ok()?;
    let mut descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let mut next = || above_streams(descriptors.next()?).ok();
    let (control, status_page) = (next()?, next()?);
    let params = RankParams::parse(std::str::from_utf8(&text[..got.bytes]).ok()?).ok()?;
    Some(HandedOver { params, control, status_page })
}

/// Waits until no process has the other end any more, for that many milliseconds at most.
pub(crate) fn wait_for_end(socket: BorrowedFd<'_>, milliseconds: i64) {
    wait_for(socket, PollFlags::empty(), milliseconds);
}

/// Waits for an event, or that the other end is closed.
fn wait_for(socket: BorrowedFd<'_>, event: PollFlags, milliseconds: i64) {
    let end = monotonic_nanos() as i64 + milliseconds * 1_000_000;
    loop {
        let left = (end - monotonic_nanos() as i64).max(0);
        let limit = Timespec { tv_sec: left / 1_000_000_000, tv_nsec: left % 1_000_000_000 };
        // A signal does not end the wait.
        if poll(&mut [PollFd::from_borrowed_fd(socket, event)], Some(&limit)) != Err(Errno::INTR) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StatusPage;

    fn params() -> RankParams {
        RankParams::parse(
            "v1 rank=0 size=1 local_rank=0 local_size=1 processors=2 control=3 board=4 \
             launcher=77 job=ab",
        )
        .unwrap()
    }

    #[test]
    fn a_rank_is_handed_over_with_its_descriptors() {
        let (ours, theirs) = socket().unwrap();
        let (control, far) = socket().unwrap();
        let page = StatusPage::create(1, 0xab).unwrap();
        let status_page = page.file().unwrap().try_clone_to_owned().unwrap();
        send(theirs.as_fd(), &HandedOver { params: params(), control, status_page }).unwrap();
        let got = receive(ours.as_fd(), 9).unwrap();
        assert_eq!(got.params, params());
        assert_eq!(StatusPage::attach(got.status_page).unwrap().job(), 0xab);
        drop(got.control);
        wait_for_end(far.as_fd(), 9000);
        assert_eq!(rustix::net::recv(&far, &mut [0u8; 1][..], RecvFlags::DONTWAIT).unwrap().0, 0);
    }

    #[test]
    fn what_is_no_rank_is_refused() {
        let (ours, theirs) = socket().unwrap();
        rustix::net::send(&theirs, b"v1 rank=0", SendFlags::empty()).unwrap();
        assert!(receive(ours.as_fd(), 9).is_none());
        assert!(receive(ours.as_fd(), 0).is_none(), "nothing was sent");
        drop(theirs);
        assert!(receive(ours.as_fd(), 9).is_none());
    }
}
