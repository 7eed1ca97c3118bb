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
//!
//! A process that was started alone has this socket from the start. Several ranks of another
//! launcher share one `mpiexec`: the rank that starts it sends it the [`crate::callers::Callers`],
//! the stand-in of each rank listens at an [`address`], and the rank connects when it first needs
//! the launcher. Both look at the other one's credentials.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, socket_with, socketpair,
};
use rustix::process::getuid;
use rustix::time::Timespec;

use crate::environment::RankParams;
use crate::inherited_fd;
use crate::status_page::monotonic_nanos;

/// The option of an `mpiexec` that serves the process at the other end of its standard input.
pub const LAUNCHER_OPTION: &str = "--for-caller";
/// The option of one that serves several ranks of another launcher.
pub const LAUNCHER_OF_SEVERAL_OPTION: &str = "--for-callers";
/// Time from one attempt to connect to the next.
const CONNECT_INTERVAL: Duration = Duration::from_millis(3);
/// Descriptors that one message has at most.
const MAX_DESCRIPTORS: usize = 3;
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

/// Returns where the stand-in of a rank listens: a name without a file.
fn address(job: u64, rank: u32) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new_abstract_name(format!("verbena-stand-in-{job:x}-{rank}").as_bytes())
}

fn unconnected() -> Result<OwnedFd, Errno> {
    let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
    above_streams(socket_with(AddressFamily::UNIX, kind, flags, None)?)
}

/// Listens for the process of a rank.
pub fn listen_for(job: u64, rank: u32) -> Result<OwnedFd, Errno> {
    let socket = unconnected()?;
    bind(&socket, &address(job, rank)?)?;
    listen(&socket, 1)?;
    Ok(socket)
}

/// Accepts a connection of this process; `None` if another one has come.
pub fn accept_from(listener: BorrowedFd<'_>, process: u32) -> Option<OwnedFd> {
    let socket = accept_with(listener, SocketFlags::CLOEXEC).ok()?;
    let peer = socket_peercred(&socket).ok()?.pid;
    (peer.as_raw_nonzero().get() as u32 == process).then_some(socket)
}

/// Connects to the stand-in of a rank once it listens, for that many seconds at most, unless
/// `is_in_vain`.
pub fn connect_to(
    (job, rank): (u64, u32),
    seconds: i64,
    is_in_vain: impl Fn() -> bool,
) -> Result<OwnedFd, Errno> {
    let end = monotonic_nanos() as i64 + seconds * 1_000_000_000;
    let address = address(job, rank)?;
    loop {
        let socket = unconnected()?;
        match connect(&socket, &address) {
            Ok(()) if socket_peercred(&socket)?.uid == getuid() => return Ok(socket),
            Ok(()) => return Err(Errno::PERM),
            Err(Errno::CONNREFUSED | Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
        if is_in_vain() || monotonic_nanos() as i64 > end {
            return Err(Errno::CONNREFUSED);
        }
        std::thread::sleep(CONNECT_INTERVAL);
    }
}

/// Returns true once no process has the other end.
pub fn is_over(socket: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::empty())], Some(&now)) == Ok(1)
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
    let text = rank.params.to_string();
    send_with(socket, text.as_bytes(), &[rank.control.as_fd(), rank.status_page.as_fd()])
}

/// Waits until a stand-in hands over, for that many seconds at most. `None` if it does not.
pub fn receive(socket: BorrowedFd<'_>, seconds: i64) -> Option<HandedOver> {
    wait_for(socket, PollFlags::IN, seconds * 1000);
    let mut text = [0; MAX_TEXT];
    let (length, descriptors) = receive_with(socket, &mut text)?;
    let [control, status_page] = descriptors.try_into().ok()?;
    let params = RankParams::parse(std::str::from_utf8(&text[..length]).ok()?).ok()?;
    Some(HandedOver { params, control, status_page })
}

/// Sends a message with at most [`MAX_DESCRIPTORS`] descriptors.
pub(crate) fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).map(drop)
}

/// Receives a message that has arrived, with its descriptors. Returns its length; `None` if there
/// is none.
pub(crate) fn receive_with(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
) -> Option<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags).ok()?;
    let descriptors = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => descriptors.collect(),
        _ => Vec::new(),
    });
    let descriptors: Result<_, Errno> = descriptors.map(above_streams).collect();
    Some((got.bytes, descriptors.ok()?))
}

/// Waits until no process has the other end any more, for that many milliseconds at most.
pub fn wait_for_end(socket: BorrowedFd<'_>, milliseconds: i64) {
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
    fn a_stand_in_takes_the_process_of_its_rank_alone() {
        let job = crate::random().unwrap();
        assert_eq!(connect_to((job, 1), 9, || true).err(), Some(Errno::CONNREFUSED));
        let listener = listen_for(job, 1).unwrap();
        assert_eq!(listen_for(job, 1).err(), Some(Errno::ADDRINUSE));
        let ours = connect_to((job, 1), 9, || false).unwrap();
        assert!(accept_from(listener.as_fd(), std::process::id() + 1).is_none());
        assert!(is_over(ours.as_fd()), "it is refused");
        let ours = connect_to((job, 1), 9, || false).unwrap();
        let _theirs = accept_from(listener.as_fd(), std::process::id()).unwrap();
        assert!(!is_over(ours.as_fd()));
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
