//! Groups of jobs that are started apart (`mpiexec --group NAME`): their processes connect at ports
//! and share published names.
//!
//! Every `mpiexec` of a group has a connection to the group's *keeper*, a process of its own
//! without ranks. The first `mpiexec` starts it; it ends when no job of the group is left. So jobs
//! come and go in any order, and none depends on another one's `mpiexec`.
//!
//! ```text
//! keeper (numbers, names, values of the store)
//!   mpiexec --group ocean (processes 1 to 4)       as outermost as without a group
//!     mpiexec --spawned (processes 7 to 8)
//!   mpiexec --group ocean (processes 5 to 6)
//! ```
//!
//! To the store of an `mpiexec` the keeper is the parent in the tree ([`crate::tree::store`]), and
//! to the keeper's store each job a neighbour, with those that it has spawned. Number 0 is no
//! process: the keeper owns all keys that name none.
//!
//! [`place`] is the file by which a keeper is found, [`join`] looks for it and starts a keeper if
//! there is none, [`keeper`] is that process, [`messages`] has what both send, and [`link`] is the
//! connection while the job runs, part of [`crate::nested::outermost`].
//!
//! States of a job in the group: joining -> member, once it has its numbers -> over, by `Over` or
//! by the end of its connection. If it has failed, the keeper tells the others, whose operations
//! with its processes fail. A job whose keeper is lost goes on alone: all processes of other jobs
//! have failed for it, and it cannot spawn.
//!
//! Connections are encrypted, and both sides prove the secret of the file. The secret by which
//! processes know each other is another one.

pub(crate) mod join;
pub mod keeper;
pub(crate) mod link;
pub(crate) mod messages;
pub(crate) mod place;

use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt;

use crate::frames::VERSION;

/// The use of the key pair of a group's secret, which no other has.
const KEY_CONTEXT: &str = "Verbena 2026-11 TLS key pair of a group of jobs";

/// Time without a sign of life after which a host is lost.
const SILENCE: Duration = Duration::from_secs(30);

/// Returns what all members of a group must have in common.
fn version() -> String {
    format!("{}/{VERSION}", env!("CARGO_PKG_VERSION"))
}

/// Has the system end a connection to a host that is lost. A system that refuses that ends it when
/// bytes are sent.
fn notice_lost_host(socket: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(socket, true);
    let _ = sockopt::set_tcp_keepidle(socket, SILENCE / 3);
    let _ = sockopt::set_tcp_keepintvl(socket, SILENCE / 6);
    let _ = sockopt::set_tcp_keepcnt(socket, 4);
    let _ = sockopt::set_tcp_user_timeout(socket, SILENCE.as_millis() as u32);
}
