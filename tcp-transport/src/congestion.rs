//! The congestion control of a connection.
//!
//! BBR spaces its segments in time. On a link with a round trip of microseconds its timers cost
//! more than they save: large messages lose half the bandwidth. Where the system's default is BBR
//! and the peer is near, another one is used: the first of [`UNPACED`] that the system allows.
//! A failure leaves the system's choice.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::net::sockopt;

use crate::sys;

/// Congestion controls that do not pace, the preferred one first. Every user may choose the last.
const UNPACED: [&str; 2] = ["cubic", "reno"];
/// Longest round trip to a near peer.
const NEAR: Duration = Duration::from_millis(1);

/// Returns true if the system has measured a long round trip. An unknown one counts as long.
pub(crate) fn is_far(fd: BorrowedFd<'_>) -> bool {
    sys::round_trip(fd).is_none_or(|time| time >= NEAR)
}

/// Sets the congestion control that the user names; without a name, one that suits the peer.
pub(crate) fn choose(fd: BorrowedFd<'_>, wanted: Option<&str>) {
    if let Some(name) = wanted {
        let _ = sockopt::set_tcp_congestion(fd, name);
        return;
    }
    let is_paced = sockopt::tcp_congestion(fd).is_ok_and(|name| name == "bbr");
    if is_paced && !is_far(fd) {
        let _ = UNPACED.iter().any(|name| sockopt::set_tcp_congestion(fd, name).is_ok());
    }
}
