//! Transitions of requests: tests whether a request is complete, takes its outcome, frees it.

use objects::{Class, Error, Result, Stale, Status};
use pt2pt::RequestId;

use crate::fault;
use crate::file_table;
use crate::generalized::Generalized;
use crate::outcome::Outcome;
use crate::partition_requests;
use crate::process::{Process, bad_handle, predefined::REQUEST_NULL};
use crate::request::{Finished, State};
use crate::request_handle::Decoded;
use crate::wait_target::WaitTarget;

impl Process {
    /// Returns true when the request is complete, inactive or null.
    #[inline]
    pub fn is_complete(&mut self, handle: usize) -> Result<bool> {
        self.wait_target = WaitTarget::Request(handle);
        match self.decode(handle) {
            Decoded::Null | Decoded::Sent => return Ok(true),
            Decoded::Message(id) => {
                let pt2pt = self.core()?.stack.pt2pt();
                return if pt2pt.is_complete(id) {
                    Ok(true)
                } else {
                    self.check_message(id).map(|()| false)
                };
            }
            Decoded::Object => {}
        }
        let request = self.request(handle)?;
        Ok(match &request.state {
            State::Inactive | State::Done(_) => true,
            State::Generalized(generalized) => generalized.complete,
            &State::Message(id) => self.core()?.stack.pt2pt().is_complete(id),
            &State::Rma(id) => self.core()?.stack.rma().0.is_complete(id),
            State::Exchange(exchange) => {
                let (send, receive) = (exchange.send, exchange.receive);
                let pt2pt = self.core()?.stack.pt2pt();
                [send, receive].into_iter().flatten().all(|id| pt2pt.is_complete(id))
            }
            &State::Flush(owner) => self.bsend.is_drained(owner),
            State::Partitioned => return self.is_partitioned_complete(handle),
            &State::Collective(id) => self.core()?.collectives.is_complete(id),
            State::File(pending) => pending.is_done(),
        })
    }

    /// Returns MPI_ERR_REQUEST for a message that was completed or freed before.
    #[inline]
    pub(crate) fn check_message(&mut self, id: RequestId) -> Result<()> {
        match self.core()?.stack.pt2pt().contains(id) {
            true => Ok(()),
            false => Err(bad_handle(Class::Request, "request", Stale::Freed)),
        }
    }

    /// Moves the result of a complete request from the engine into the request.
    fn complete_state(&mut self, handle: usize) -> Result<()> {
        let request = self.request(handle)?;
        let comm = request.comm;
        let outcome = match request.state {
            State::Message(id) => {
                let Some(completion) = self.core()?.stack.pt2pt().finish(id) else { return Ok(()) };
                fault::outcome(self, completion)
            }
            State::Rma(id) => {
                let Some(result) = self.core()?.stack.rma().0.finish(id) else { return Ok(()) };
                let error = result.err().map(|error| error.on(comm));
                Outcome { status: Status::empty(), error }
            }
            State::Collective(id) => {
                let Some(result) = self.core()?.collectives.finish(id) else { return Ok(()) };
                let error = result.err().map(|fault| fault::explain_collective(self, comm, &fault));
                Outcome { status: Status::empty(), error }
            }
            State::File(ref pending) => {
                let Some(access) = pending.take() else { return Ok(()) };
                file_table::outcome_of(access, comm)
            }
            State::Exchange(_) => {
                if !self.is_complete(handle)? {
                    return Ok(());
                }
                self.complete_exchange(handle)?
            }
            State::Partitioned => {
                if !self.is_partitioned_complete(handle)? {
                    return Ok(());
                }
                self.partitioned_outcome(handle, comm)?
            }
            State::Flush(owner) => {
                if !self.bsend.is_drained(owner) {
                    return Ok(());
                }
                Outcome::empty()
            }
            _ => return Ok(()),
        };
        let outcome = match self.request(handle)?.then.take() {
            Some(new) if outcome.error.is_none() => {
                Outcome { error: new.install(self).err(), ..outcome }
            }
            _ => outcome,
        };
        self.request(handle)?.state = State::Done(outcome);
        Ok(())
    }

    /// Takes the outcome of a complete MPI_Isendrecv from the engine.
    fn complete_exchange(&mut self, handle: usize) -> Result<Outcome> {
        let State::Exchange(exchange) =
            std::mem::replace(&mut self.request(handle)?.state, State::Inactive)
        else {
            return Err(Error::internal("an exchange changed its kind"));
        };
        let mut outcome = exchange.outcome;
        let pt2pt = self.core()?.stack.pt2pt();
        let received = exchange.receive.and_then(|id| pt2pt.finish(id));
        let sent = exchange.send.and_then(|id| pt2pt.finish(id));
        if let Some(completion) = received {
            outcome = fault::outcome(self, completion);
        }
        if let Some(completion) = sent {
            let sent = fault::outcome(self, completion);
            outcome.error = outcome.error.or(sent.error);
        }
        Ok(outcome)
    }

    /// Takes the outcome of a complete request, and frees or deactivates the request; `None` while
    /// it is not complete. The handle of a freed request becomes MPI_REQUEST_NULL. Null and
    /// inactive requests have the empty status.
    #[inline]
    pub fn take(&mut self, handle: &mut usize) -> Result<Option<Finished>> {
        let outcome = match Decoded::decode(*handle) {
            Decoded::Sent if !self.recalls.is_empty() => return self.take_sent(handle),
            Decoded::Null | Decoded::Sent => Outcome::empty(),
            Decoded::Message(id) => match self.core()?.stack.pt2pt().finish(id) {
                Some(completion) => fault::outcome(self, completion),
                None => return self.check_pending(*handle, id).map(|()| None),
            },
            Decoded::Object => return self.take_object(handle),
        };
        *handle = REQUEST_NULL;
        Ok(Some(Finished::Outcome(outcome)))
    }

    #[inline(never)]
    fn check_pending(&mut self, handle: usize, id: RequestId) -> Result<()> {
        self.wait_target = WaitTarget::Request(handle);
        self.check_message(id)
    }

    #[inline(never)]
    fn take_object(&mut self, handle: &mut usize) -> Result<Option<Finished>> {
        self.complete_state(*handle)?;
        self.wait_target = WaitTarget::Request(*handle);
        let request = self.request(*handle)?;
        match &request.state {
            State::Inactive => return Ok(Some(Finished::Outcome(Outcome::empty()))),
            State::Generalized(generalized) if !generalized.complete => return Ok(None),
            State::Message(_)
            | State::Collective(_)
            | State::File(_)
            | State::Exchange(_)
            | State::Flush(_)
            | State::Partitioned
            | State::Rma(_) => return Ok(None),
            State::Done(_) | State::Generalized(_) => {}
        }
        let state = std::mem::replace(&mut request.state, State::Inactive);
        if request.persistent.is_none() {
            let _ = self.requests.remove(*handle as u64);
            *handle = REQUEST_NULL;
        }
        Ok(match state {
            State::Done(outcome) => Some(Finished::Outcome(outcome)),
            State::Generalized(generalized) => Some(Finished::Generalized(generalized)),
            _ => None,
        })
    }

    /// Returns the outcome of a complete request without freeing it, for MPI_Request_get_status;
    /// `None` while it is not complete.
    pub fn peek(&mut self, handle: usize) -> Result<Option<Finished>> {
        match self.decode(handle) {
            Decoded::Null | Decoded::Sent => return Ok(Some(Finished::Outcome(Outcome::empty()))),
            Decoded::Message(id) => {
                self.check_message(id)?;
                let completion = self.core()?.stack.pt2pt().outcome(id);
                return Ok(completion
                    .map(|completion| Finished::Outcome(fault::outcome(self, completion))));
            }
            Decoded::Object => {}
        }
        self.complete_state(handle)?;
        Ok(match &self.request(handle)?.state {
            State::Inactive => Some(Finished::Outcome(Outcome::empty())),
            State::Done(outcome) => Some(Finished::Outcome(Outcome {
                status: outcome.status,
                error: outcome.error.clone(),
            })),
            State::Generalized(generalized) if generalized.complete => {
                Some(Finished::Generalized(generalized.clone()))
            }
            _ => None,
        })
    }

    /// Performs MPI_Request_free: removes the request; its operation goes on. A generalized request
    /// that is not complete stays until it is (MPI-5.0 §13.2). Otherwise the caller calls the
    /// `free` function of the returned one, outside the process lock. A partitioned transfer must
    /// be complete, since its partitions become ready by its request.
    pub fn free_request(&mut self, handle: usize) -> Result<Option<Generalized>> {
        match self.decode(handle) {
            Decoded::Sent => return Ok(None),
            Decoded::Message(id) => {
                self.check_message(id)?;
                self.recalls.remove(&handle);
                self.core()?.stack.pt2pt().detach(id);
                return Ok(None);
            }
            Decoded::Null | Decoded::Object => {}
        }
        if let State::Generalized(generalized) = &mut self.request(handle)?.state
            && !generalized.complete
        {
            generalized.freed = true;
            return Ok(None);
        }
        if matches!(self.request(handle)?.state, State::Partitioned)
            && !self.is_partitioned_complete(handle)?
        {
            return Err(Error::new(
                Class::Request,
                "an active partitioned transfer cannot be freed: complete it first (MPI-5.0 §4.2)",
            ));
        }
        let request = self
            .requests
            .remove(handle as u64)
            .map_err(|_| Error::internal("a request vanished"))?;
        if let Some(mut persistent) = request.persistent {
            partition_requests::detach(self.core()?, &mut persistent);
        }
        match request.state {
            State::Message(id) => self.core()?.stack.pt2pt().detach(id),
            State::Rma(id) => self.core()?.stack.rma().0.detach(id),
            State::Collective(id) => {
                self.core()?.collectives.detach(id);
                // The collective still writes the words of an agreement. Its proposal stays: other
                // members may use the segment that it names.
                std::mem::forget(request.then);
            }
            State::Exchange(exchange) => {
                let pt2pt = self.core()?.stack.pt2pt();
                exchange.receive.into_iter().chain(exchange.send).for_each(|id| pt2pt.detach(id));
                // The engine still reads the copy.
                std::mem::forget(exchange.copy);
            }
            State::Generalized(generalized) => return Ok(Some(*generalized)),
            State::File(_)
            | State::Flush(_)
            | State::Partitioned
            | State::Inactive
            | State::Done(_) => {}
        }
        Ok(None)
    }
}
