//! The state of the verbs transport of one process, as parts.
//!
//! Each part has a file of its own with its methods and does not know the whole. The operations
//! on the whole are `impl VerbsTransport` blocks in the files above this one, each of which calls
//! only those below it: `wireup_send`, `recovery`, `control`, `rma`, `queue_pair`, `connect`,
//! `dynamic_rma`; then the data path `post`, `eager_rdma::grant`, `eager_rdma::recv`, `recv`,
//! `poll`; then `device_events`, `sleep`, `flush`, and `seam`, which implements the trait.
//!
//! Set-up and data path are in different files: nothing of `connect` runs for a message once its
//! endpoint is ready.

use std::io;
use std::time::Instant;

use config::Registration;
use fabric::{Peer, Reports};

use crate::adapter::Adapter;
use crate::buffers::SendBuffers;
use crate::coalesce::Coalescer;
use crate::completions::Completions;
use crate::credit::Credit;
use crate::datagram::Micros;
use crate::datagram::queue::Datagrams;
use crate::device::Port;
use crate::dynamic::Dynamic;
use crate::eager_rdma::rings::Rings;
use crate::endpoints::Endpoints;
use crate::limits::Config;
use crate::memory::Pool;
use crate::recv_queue::ReceiveQueue;
use crate::registration::Registrations;
use crate::unavailable::Unavailable;
use crate::wait_set::WaitSet;
use crate::wireup::Wireup;

/// The transport over InfiniBand and RoCE of one process.
pub struct VerbsTransport {
    // Fields are dropped in this order: queue pairs, registrations, the shared receive queue, the
    // completion queue, then memory.
    pub(crate) endpoints: Endpoints,
    /// Dynamically connected transport, where the device has it and the job needs it.
    pub(crate) dynamic: Option<Dynamic>,
    pub(crate) registrations: Registrations,
    pub(crate) wireup: Wireup,
    pub(crate) recv: ReceiveQueue,
    pub(crate) completions: Completions,
    pub(crate) send: SendBuffers,
    /// Slots for the data of short RMA operations: a copy takes less time than to find out whether
    /// the program's memory is still registered.
    pub(crate) bounce: Pool,
    pub(crate) rings: Rings,
    pub(crate) coalescer: Coalescer,
    pub(crate) adapter: Adapter,
    pub(crate) wait_set: WaitSet,
    pub(crate) config: Config,
    pub(crate) credit: Credit,
    pub(crate) datagrams: Datagrams,
    /// When connections were compared last.
    pub(crate) compared_at: Micros,
    pub(crate) reports: Reports,
    /// Number of polls.
    pub(crate) polls: u64,
    /// The end of the session, if it is under way.
    pub(crate) flushing: Option<Flushing>,
    /// A line has reported that the system refuses memory.
    pub(crate) has_warned_refused: bool,
    /// A line has reported that this secondary port has lost a peer.
    pub(crate) has_lost: bool,
}

/// The end of a session under way.
#[derive(Debug)]
pub(crate) struct Flushing {
    pub(crate) since: Instant,
    /// The first endpoint that was not flushed when last looked at.
    pub(crate) next: usize,
}

impl VerbsTransport {
    /// Returns how registrations of buffers are kept; never `Auto`.
    pub fn registration(&self) -> Registration {
        self.registrations.mode()
    }

    /// Returns the number of frames that were written into the memory of peers.
    pub fn frames_written(&self) -> u64 {
        self.rings.frames_written
    }

    /// Returns the number of frames that were sent together with others.
    pub fn frames_coalesced(&self) -> u64 {
        self.coalescer.frames
    }

    /// Returns how often the window of a peer that sent little was lowered.
    pub fn windows_lowered(&self) -> u64 {
        self.credit.lowered
    }

    /// Returns the number of datagrams that carried frames or acknowledged them.
    pub fn datagrams_sent(&self) -> u64 {
        self.datagrams.sent
    }

    /// Returns the bytes of its own buffers that are registered, and therefore pinned: now, and at
    /// most. Registered buffers of the program come on top.
    pub fn pinned_bytes(&self) -> [usize; 2] {
        let pools = [self.send.registered(), self.recv.registered(), self.rings.registered()];
        let all = pools.into_iter().chain([self.wireup.ud.registered(), self.bounce.registered()]);
        all.fold([0, 0], |[now, most], pool| [now + pool[0], most + pool[1]])
    }

    /// Returns how many operations went by dynamically connected transport, and how often it
    /// failed; `None` where it is not used.
    pub fn dynamic_operations(&self) -> Option<[u64; 2]> {
        self.dynamic.as_ref().map(|dynamic| [dynamic.ended, dynamic.failures])
    }

    /// Returns whether a peer has a connection that carries its messages.
    pub fn is_connected(&self, peer: Peer) -> bool {
        self.endpoints.find(peer).is_some_and(|at| self.endpoints[at].is_ready())
    }

    /// Returns how many frames to a peer may be unacknowledged now.
    pub fn window(&self, peer: Peer) -> u32 {
        self.endpoints.find(peer).map_or(0, |at| self.endpoints[at].flow.window)
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> u32 {
        self.endpoints.connected()
    }

    /// Returns the port in use.
    pub fn port(&self) -> &Port {
        &self.adapter.port
    }

    /// Reports once that the system refuses memory for slots: what there is serves on.
    #[cold]
    pub(crate) fn warn_refused(&mut self, error: &io::Error) {
        let why = match Unavailable::memlock(error) {
            Some(why) => why.to_string(),
            None => format!("{} refuses more ({error})", self.port().device),
        };
        self.warn_once(&why);
    }

    /// Reports once that the device refuses a queue pair beside those that there are.
    #[cold]
    pub(crate) fn warn_refused_queue_pair(&mut self, error: io::Error) {
        let (port, others) =
            (self.port(), self.endpoints.connected() + self.endpoints.draining() + 1);
        let device = (port.device.as_str(), port.device_attr.max_qp);
        self.warn_once(&Unavailable::queue_pair(device, others, error).to_string());
    }

    fn warn_once(&mut self, why: &str) {
        if std::mem::replace(&mut self.has_warned_refused, true) {
            return;
        }
        let me = self.endpoints.me().0;
        eprintln!(
            "verbena: rank {me} goes on with the RDMA buffers and connections that it has, slower: \
             {why}"
        );
    }

    /// Makes what wakes another transport wake this one too.
    pub(crate) fn wake_with(&self, other: &VerbsTransport) -> io::Result<()> {
        self.wait_set.add(&other.wait_set)
    }

    /// Handles a peer's acknowledgement of the frames before `seq`.
    #[inline]
    pub(crate) fn on_ack(&mut self, at: usize, seq: u32) -> Result<(), &'static str> {
        let Self { endpoints, send, .. } = self;
        endpoints[at].on_ack(seq, |slot| send.put(slot))
    }
}
