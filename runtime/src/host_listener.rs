//! The first rank of each host of a process manager's job listens, if the job has several hosts:
//! the launcher that the ranks share (`own_launcher`) comes here to have one started on this host.
//!
//! A thread waits for connections, and starts an `mpiexec` for each; nothing is read here. It
//! waits for the next one when that `mpiexec` knows whether the connection is the job's. The thread
//! ends when the listener is shut down, at the end of the process's MPI.

use std::io::ErrorKind;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use bootstrap::callers::ManagedRank;
use bootstrap::{Job, hand_over};
use config::Knobs;

use crate::launcher_program::start_if_found;

/// Time that the launcher has to find out whether a connection is that of the job.
const PROOF_MILLISECONDS: i64 = 15_000;
/// Time until the next connection is accepted after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// What listens, until it is dropped.
#[derive(Debug)]
pub(crate) struct HostListener {
    listener: Arc<TcpListener>,
}

impl HostListener {
    /// Opens the listener, and puts its addresses for all ranks: before the fence. `None` where
    /// nobody would come.
    pub(crate) fn open(job: &Job, knobs: &Knobs) -> Option<HostListener> {
        job.process_manager()?;
        if job.local_rank > 0 || job.local_size == job.size {
            return None;
        }
        let settings = tcp_transport::Settings::from_knobs(knobs).ok()?;
        let (listener, addresses) = tcp_transport::open_listener(&settings).ok()?;
        listener.set_nonblocking(false).ok()?;
        job.put_listener(&addresses).ok()?;
        Some(HostListener { listener: Arc::new(listener) })
    }

    /// Starts to accept connections: after the fence. Without a thread none is answered.
    pub(crate) fn serve(&self, job: &Job) {
        let (listener, Some(rank)) = (Arc::clone(&self.listener), job.managed_rank()) else {
            return;
        };
        let thread = std::thread::Builder::new().name("verbena-host".into());
        let _ = progress::with_signals_blocked(|| thread.spawn(move || accept(&listener, &rank)));
    }
}

impl Drop for HostListener {
    fn drop(&mut self) {
        // The thread's call returns.
        if let Ok(listener) = self.listener.try_clone() {
            let _ = TcpStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, rank: &ManagedRank) {
    loop {
        let connection = match listener.accept() {
            Ok((connection, _)) => connection,
            Err(error) if error.kind() == ErrorKind::InvalidInput => return,
            Err(_) => {
                std::thread::sleep(PAUSE);
                continue;
            }
        };
        let callers = rank.callers(Some(connection.into())).ok().flatten();
        let launcher = callers.as_ref().and_then(start_if_found);
        // Otherwise the connection would not end with the launcher.
        drop(callers);
        if let Some(launcher) = launcher {
            hand_over::wait_for_end(launcher.as_fd(), PROOF_MILLISECONDS);
        }
    }
}
