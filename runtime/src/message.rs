//! Point-to-point communication: the calls of MPI-5.0 chapter 3. Callers resolve buffers and give
//! communicators by handle.
//!
//! The blocking fast path needs no MPI request. [`send`] posts at once if the transport has space;
//! [`receive`] posts one receive and makes progress until it completes.

use fabric::Peer;
use objects::{Buffer, Class, Comm, Error, Result, Status};
use pt2pt::{Envelope, Mode, Pattern, RequestId};

use crate::bsend::PROCESS;
use crate::fault;
use crate::lock::{block_on, lock_fast, poll, with};
use crate::outcome::Outcome;
use crate::partition_requests;
use crate::process::{Process, TakenMessage, bad_handle, bad_predefined, not_running, predefined};
use crate::request::{Exchange, Persistent, Request, SendMode, State};
use crate::request_handle::{self, Decoded};
use crate::wait_target::WaitTarget;

/// MPI_ANY_SOURCE.
pub const ANY_SOURCE: i32 = -1;
/// MPI_ANY_TAG.
pub const ANY_TAG: i32 = -2;
/// MPI_PROC_NULL.
pub const PROC_NULL: i32 = -3;
/// The largest tag, the value of the attribute MPI_TAG_UB.
pub const TAG_UB: i32 = i32::MAX;

const NOT_PERSISTENT: &str =
    "the request is not persistent: only persistent requests can be started";

/// Checks the arguments of a send; returns its receiver and envelope, `None` for MPI_PROC_NULL.
#[inline]
pub(crate) fn destination(comm: &Comm, dest: i32, tag: i32) -> Result<Option<(Peer, Envelope)>> {
    if tag < 0 {
        return Err(bad_tag(tag));
    }
    if dest == PROC_NULL {
        return Ok(None);
    }
    let peer = u32::try_from(dest).ok().and_then(|rank| comm.peers().peer_of(rank));
    let Some(peer) = peer else { return Err(bad_rank(comm, "destination", dest, "MPI_PROC_NULL")) };
    Ok(Some((
        peer,
        Envelope { context: comm.context() * 2, source: comm.rank(), tag, collective: None },
    )))
}

/// Checks the arguments of a receive or probe; returns its pattern, `None` for MPI_PROC_NULL.
#[inline]
pub(crate) fn pattern(comm: &Comm, source: i32, tag: i32) -> Result<Option<Pattern>> {
    if tag < 0 && tag != ANY_TAG {
        return Err(bad_tag(tag));
    }
    let source = match source {
        ANY_SOURCE => None,
        PROC_NULL => return Ok(None),
        rank if rank >= 0 && (rank as u32) < comm.peers().size() => Some(rank as u32),
        rank => return Err(bad_rank(comm, "source", rank, "MPI_ANY_SOURCE or MPI_PROC_NULL")),
    };
    let tag = (tag != ANY_TAG).then_some(tag);
    Ok(Some(Pattern { context: comm.context() * 2, source, tag, collective: None }))
}

#[cold]
fn bad_tag(tag: i32) -> Error {
    Error::new(
        Class::Tag,
        format!("invalid tag {tag}: must be 0 to {TAG_UB}, or MPI_ANY_TAG in receives and probes"),
    )
}

#[cold]
fn bad_rank(comm: &Comm, what: &str, rank: i32, special: &str) -> Error {
    Error::new(
        Class::Rank,
        format!(
            "invalid {what} {rank} on {}: must be 0 to {}, or {special}",
            comm.describe(),
            comm.peers().size() - 1
        ),
    )
}

/// Returns the status of an operation with MPI_PROC_NULL (MPI-5.0 §3.10).
pub fn null_status() -> Status {
    let mut status = Status::empty();
    status.source = PROC_NULL;
    status
}

/// Sends the buffer that `buffer` returns, in any mode, and blocks until the send completes.
#[inline]
pub fn send(
    mode: SendMode,
    buffer: impl FnOnce(&Process) -> Result<Buffer>,
    dest: i32,
    tag: i32,
    comm: usize,
) -> Result<()> {
    let pending = {
        let mut inside = lock_fast();
        let p = &mut *inside;
        let buffer = buffer(p)?;
        let Some((to, envelope)) = destination(p.comm(comm)?, dest, tag)? else { return Ok(()) };
        if mode == SendMode::Buffered {
            return p.send_buffered(comm, to, envelope, buffer);
        }
        let stack = &mut p.core()?.stack;
        match stack.send_now(mode.engine_mode(), to, &envelope, &buffer) {
            Ok(Some(_)) => return Ok(()),
            _ => stack.send(mode.engine_mode(), to, envelope, buffer),
        }
    };
    finish_message(pending).map(|_| ())
}

/// Receives into the buffer that `buffer` returns, and blocks until the receive completes.
#[inline]
pub fn receive(
    buffer: impl FnOnce(&Process) -> Result<Buffer>,
    source: i32,
    tag: i32,
    comm: usize,
) -> Result<Status> {
    let posted = {
        let mut inside = lock_fast();
        let p = &mut *inside;
        let buffer = buffer(p)?;
        let Some(pattern) = pattern(p.comm(comm)?, source, tag)? else { return Ok(null_status()) };
        let stack = &mut p.core()?.stack;
        match stack.receive_now(&pattern, &buffer) {
            Some(completion) => return into_result(fault::outcome(p, completion)),
            None => stack.receive(pattern, buffer),
        }
    };
    finish_message(posted)
}

/// Waits for a request of the engine that has no handle.
#[inline]
fn finish_message(id: RequestId) -> Result<Status> {
    into_result(block_on(|p| {
        p.wait_target = WaitTarget::Message(id);
        let completion = p.stack()?.pt2pt().finish(id)?;
        Some(fault::outcome(p, completion))
    }))
}

/// Returns the status, or the error of the operation.
pub fn into_result(outcome: Outcome) -> Result<Status> {
    match outcome.error {
        None => Ok(outcome.status),
        Some(error) => Err(error.with_status(outcome.status)),
    }
}

/// Starts a send of the buffer that `buffer` returns; returns the handle of its request.
#[inline(always)]
pub fn isend(
    mode: SendMode,
    buffer: impl FnOnce(&Process) -> Result<Buffer>,
    dest: i32,
    tag: i32,
    comm: usize,
) -> Result<usize> {
    let mut inside = lock_fast();
    let p = &mut *inside;
    let buffer = buffer(p)?;
    let Some((to, envelope)) = destination(p.comm(comm)?, dest, tag)? else {
        return Ok(p.completed_null(comm));
    };
    if mode == SendMode::Buffered {
        p.send_buffered(comm, to, envelope, buffer)?;
        return Ok(request_handle::sent_uncancellable());
    }
    let stack = &mut p.core()?.stack;
    Ok(match stack.send_now(mode.engine_mode(), to, &envelope, &buffer) {
        Ok(Some(sequence)) => request_handle::sent(to, sequence),
        _ => request_handle::message(stack.send(mode.engine_mode(), to, envelope, buffer)),
    })
}

/// Starts a receive into the buffer that `buffer` returns; returns the handle of its request.
#[inline(always)]
pub fn ireceive(
    buffer: impl FnOnce(&Process) -> Result<Buffer>,
    source: i32,
    tag: i32,
    comm: usize,
) -> Result<usize> {
    let mut inside = lock_fast();
    let p = &mut *inside;
    let buffer = buffer(p)?;
    let Some(pattern) = pattern(p.comm(comm)?, source, tag)? else {
        return Ok(p.completed_null(comm));
    };
    Ok(request_handle::message(p.core()?.stack.receive(pattern, buffer)))
}

/// Performs MPI_Send_init, and the same for the other modes.
pub fn send_init(
    mode: SendMode,
    buffer: Buffer,
    dest: i32,
    tag: i32,
    comm: usize,
) -> Result<usize> {
    with(|p| {
        let start = match destination(p.comm(comm)?, dest, tag)? {
            None => Persistent::Null(null_status()),
            Some((to, envelope)) => Persistent::Send { mode, to, envelope, buffer },
        };
        Ok(p.requests.insert(Request::persistent(comm, start)) as usize)
    })
}

/// Performs MPI_Recv_init.
pub fn receive_init(buffer: Buffer, source: i32, tag: i32, comm: usize) -> Result<usize> {
    with(|p| {
        let start = match pattern(p.comm(comm)?, source, tag)? {
            None => Persistent::Null(null_status()),
            Some(pattern) => Persistent::Receive { pattern, buffer },
        };
        Ok(p.requests.insert(Request::persistent(comm, start)) as usize)
    })
}

/// Performs MPI_Start; MPI_ERR_REQUEST for a request that is active or not persistent.
pub fn start(handle: usize) -> Result<()> {
    with(|p| p.start(handle))
}

/// Performs MPI_Sendrecv; returns the status of the receive.
pub fn sendrecv(
    outgoing: Buffer,
    dest: i32,
    sendtag: i32,
    incoming: Buffer,
    source: i32,
    recvtag: i32,
    comm: usize,
) -> Result<Status> {
    let (receiving, sending) = with(|p| -> Result<_> {
        let comm = p.comm(comm)?;
        let to = destination(comm, dest, sendtag)?;
        let from = pattern(comm, source, recvtag)?;
        let stack = &mut p.core()?.stack;
        let receiving = from.map(|pattern| stack.receive(pattern, incoming));
        let sending = to.map(|(to, envelope)| stack.send(Mode::Standard, to, envelope, outgoing));
        Ok((receiving, sending))
    })?;
    let sent = sending.map(finish_message).transpose();
    let status = receiving.map_or_else(|| Ok(null_status()), finish_message)?;
    sent.map(|_| status)
}

/// Performs MPI_Isendrecv. `copy` owns the outgoing bytes if the receive overwrites them.
#[allow(clippy::too_many_arguments)] // the standard's own list
pub fn isendrecv(
    outgoing: Buffer,
    dest: i32,
    sendtag: i32,
    incoming: Buffer,
    source: i32,
    recvtag: i32,
    comm: usize,
    copy: Option<Box<[u8]>>,
) -> Result<usize> {
    with(|p| {
        let object = p.comm(comm)?;
        let to = destination(object, dest, sendtag)?;
        let from = pattern(object, source, recvtag)?;
        let stack = &mut p.core()?.stack;
        let receive = from.map(|pattern| stack.receive(pattern, incoming));
        let send = to.map(|(to, envelope)| stack.send(Mode::Standard, to, envelope, outgoing));
        let outcome = Outcome { status: null_status(), error: None };
        let state = State::Exchange(Box::new(Exchange { send, receive, outcome, copy }));
        Ok(p.requests.insert(Request { comm, state, persistent: None, then: None }) as usize)
    })
}

/// Performs MPI_Iprobe: returns the status of a message that could be received now.
pub fn iprobe(source: i32, tag: i32, comm: usize) -> Result<Option<Status>> {
    poll(|p| p.probe_now(source, tag, comm), Option::is_none)
}

/// Performs MPI_Probe.
pub fn probe(source: i32, tag: i32, comm: usize) -> Result<Status> {
    block_on(|p| {
        p.wait_target = WaitTarget::Probe { source, tag, comm };
        p.probe_now(source, tag, comm).transpose()
    })
}

/// Performs MPI_Improbe: returns the handle of the message and its status.
pub fn improbe(source: i32, tag: i32, comm: usize) -> Result<Option<(usize, Status)>> {
    poll(|p| p.take_message(source, tag, comm), Option::is_none)
}

/// Performs MPI_Mprobe.
pub fn mprobe(source: i32, tag: i32, comm: usize) -> Result<(usize, Status)> {
    block_on(|p| {
        p.wait_target = WaitTarget::Probe { source, tag, comm };
        p.take_message(source, tag, comm).transpose()
    })
}

/// Performs MPI_Imrecv; the message handle becomes invalid.
pub fn imreceive(buffer: Buffer, message: usize) -> Result<usize> {
    with(|p| {
        Ok(match p.consume_message(message)? {
            None => p.completed_null(predefined::COMM_SELF),
            Some(taken) => request_handle::message(p.core()?.stack.receive_taken(taken.id, buffer)),
        })
    })
}

/// Performs MPI_Mrecv; the message handle becomes invalid.
pub fn mreceive(buffer: Buffer, message: usize) -> Result<Status> {
    let started = with(|p| -> Result<_> {
        let Some(taken) = p.consume_message(message)? else { return Ok(None) };
        Ok(Some((p.core()?.stack.receive_taken(taken.id, buffer), taken.comm)))
    })?;
    match started {
        None => Ok(null_status()),
        Some((id, _)) => finish_message(id),
    }
}

/// Performs MPI_Cancel; recalls the message of a completed send.
pub fn cancel(handle: usize) -> Result<()> {
    let calls = with(|p| -> Result<_> {
        match p.decode(handle) {
            Decoded::Sent => return p.recall(handle).map(|()| None),
            Decoded::Message(id) => {
                p.check_message(id)?;
                p.core()?.stack.cancel(id);
                return Ok(None);
            }
            Decoded::Null | Decoded::Object => {}
        }
        match &p.request(handle)?.state {
            &State::Message(id) => p.core()?.stack.cancel(id),
            State::Exchange(exchange) => {
                let halves = [exchange.receive, exchange.send];
                let stack = &mut p.core()?.stack;
                halves.into_iter().flatten().for_each(|id| stack.cancel(id));
            }
            State::Partitioned => {
                return Err(Error::new(
                    Class::Request,
                    "a partitioned transfer cannot be cancelled (MPI-5.0 §3.8.4)",
                ));
            }
            State::Flush(_) | State::Collective(_) => {
                return Err(Error::new(
                    Class::Request,
                    "a collective operation cannot be cancelled (MPI-5.0 §6.12)",
                ));
            }
            State::Rma(_) => {
                return Err(Error::new(
                    Class::Request,
                    "a one-sided operation cannot be cancelled (MPI-5.0 §12.3.5)",
                ));
            }
            State::Generalized(calls) => return Ok(Some(**calls)),
            State::Inactive => {
                return Err(Error::new(
                    Class::Request,
                    "the persistent request is inactive: must be started before it is cancelled",
                ));
            }
            // The system has the access already; it ends by itself.
            State::File(_) | State::Done(_) => {}
        }
        Ok(None)
    })?;
    calls.map_or(Ok(()), |calls| calls.cancel())
}

impl Process {
    /// Sends from the buffer attached to the communicator, else its session's, else the process's
    /// (MPI-5.0 §3.6); see [`BsendBuffers::send`](crate::bsend::BsendBuffers::send).
    fn send_buffered(
        &mut self,
        comm: usize,
        to: Peer,
        envelope: Envelope,
        buffer: Buffer,
    ) -> Result<()> {
        // A persistent send may be started on a communicator that was freed.
        let session = self.comm(comm).map_or(PROCESS, |comm| comm.session());
        let owners = [comm, session, PROCESS];
        match &mut self.core {
            Some(core) => self.bsend.send(&mut core.stack, owners, to, envelope, buffer),
            None => Err(not_running(self.world_model.init_state)),
        }
    }

    /// Reports to the user, once, a ready send that arrived before its receive was posted.
    #[cold]
    pub(crate) fn report_late_ready(&mut self) {
        let Some(late) = self.stack().and_then(|stack| stack.pt2pt().late_ready()) else { return };
        let rank = self.core.as_deref().map_or(0, |core| core.job.rank());
        eprintln!(
            "verbena: rank {rank}: a ready send (MPI_Rsend) from rank {} with tag {} arrived before \
             its receive was posted, which MPI forbids (MPI-5.0 §3.4); it was received nevertheless",
            late.source, late.tag
        );
    }

    /// Returns the handle of a request that is complete, with the status of MPI_PROC_NULL.
    #[cold]
    fn completed_null(&mut self, comm: usize) -> usize {
        self.requests.insert(Request::done(comm, null_status())) as usize
    }

    fn start(&mut self, handle: usize) -> Result<()> {
        if let Decoded::Sent | Decoded::Message(_) = Decoded::decode(handle) {
            return Err(Error::new(Class::Request, NOT_PERSISTENT));
        }
        let request = self.request(handle)?;
        let comm = request.comm;
        let Some(mut persistent) =
            request.persistent.take_if(|_| matches!(request.state, State::Inactive))
        else {
            return Err(Error::new(
                Class::Request,
                if request.persistent.is_some() {
                    "the persistent request is active: complete it before starting it again"
                } else {
                    NOT_PERSISTENT
                },
            ));
        };
        let started = match &mut *persistent {
            Persistent::PartitionedSend(_) | Persistent::PartitionedReceive(_) => {
                self.core().map(|core| partition_requests::start(core, &mut persistent, handle))
            }
            plain => self.start_persistent(plain, comm),
        };
        let request = self.request(handle)?;
        request.persistent = Some(persistent);
        request.state = started?;
        Ok(())
    }

    fn start_persistent(&mut self, persistent: &Persistent, comm: usize) -> Result<State> {
        Ok(match persistent {
            Persistent::Null(status) => State::Done(Outcome { status: *status, error: None }),
            Persistent::Send { mode, to, envelope, buffer } => {
                let buffer = buffer.clone();
                if *mode == SendMode::Buffered {
                    self.send_buffered(comm, *to, *envelope, buffer)?;
                    State::Done(Outcome::empty())
                } else {
                    State::Message(self.core()?.stack.send(
                        mode.engine_mode(),
                        *to,
                        *envelope,
                        buffer,
                    ))
                }
            }
            Persistent::Receive { pattern, buffer } => {
                State::Message(self.core()?.stack.receive(*pattern, buffer.clone()))
            }
            Persistent::Collective { plan, number } => {
                State::Collective(self.start_numbered(plan.clone(), *number)?)
            }
            Persistent::PartitionedSend(_) | Persistent::PartitionedReceive(_) => {
                State::Partitioned
            }
        })
    }

    fn probe_now(&mut self, source: i32, tag: i32, comm: usize) -> Result<Option<Status>> {
        let Some(pattern) = pattern(self.comm(comm)?, source, tag)? else {
            return Ok(Some(null_status()));
        };
        let stack = &mut self.core()?.stack;
        match stack.pt2pt().probe(&pattern) {
            Some(probed) => Ok(Some(probed_status(&probed))),
            None if stack.pt2pt().failed_peers().is_empty() => Ok(None),
            None => self.check_reachable(pattern.source, comm).map(|()| None),
        }
    }

    fn take_message(
        &mut self,
        source: i32,
        tag: i32,
        comm: usize,
    ) -> Result<Option<(usize, Status)>> {
        let Some(pattern) = pattern(self.comm(comm)?, source, tag)? else {
            return Ok(Some((predefined::MESSAGE_NO_PROC, null_status())));
        };
        let stack = &mut self.core()?.stack;
        let probed = match stack.pt2pt().probe(&pattern) {
            Some(probed) => probed,
            None if stack.pt2pt().failed_peers().is_empty() => return Ok(None),
            None => return self.check_reachable(pattern.source, comm).map(|()| None),
        };
        let Some(id) = stack.pt2pt().take(&pattern) else { return Ok(None) };
        let handle = self.tables.messages.insert(TakenMessage { id, comm });
        Ok(Some((handle as usize, probed_status(&probed))))
    }

    /// Removes a message from the table of messages; `None` for MPI_MESSAGE_NO_PROC.
    fn consume_message(&mut self, message: usize) -> Result<Option<TakenMessage>> {
        match message {
            predefined::MESSAGE_NO_PROC => Ok(None),
            small if small < predefined::END => {
                Err(bad_predefined(Class::Request, "message", small, predefined::MESSAGE_NULL))
            }
            handle => self
                .tables
                .messages
                .remove(handle as u64)
                .map(Some)
                .map_err(|stale| bad_handle(Class::Request, "message", stale)),
        }
    }
}

fn probed_status(probed: &pt2pt::Seen) -> Status {
    let mut status = Status::empty();
    status.source = probed.source as i32;
    status.tag = probed.tag;
    status.set_bytes(probed.bytes);
    status
}
