//! The Wait and Test families (MPI-5.0 §3.7.3, §3.7.5): requests in, outcomes out.
//!
//! All functions take the caller's array of request handles. They replace the handles of completed
//! requests that are not persistent by MPI_REQUEST_NULL. They return an error only for an invalid
//! handle; the error of an operation is in its [`Outcome`].

use objects::Result;

use crate::generalized::Generalized;
use crate::lock::{block_on, poll, with};
use crate::outcome::Outcome;
use crate::process::{Process, predefined};
use crate::request::Finished;
use crate::request_handle::{Decoded, is_sent_for_good};
use crate::wait_target::WaitTarget;

/// The result of the search for one completed request among several.
pub enum Any {
    /// No request in the array is active.
    NoneActive,
    /// No request is complete yet.
    Pending,
    /// The request at this index is complete.
    Found(usize, Outcome),
}

/// Performs MPI_Wait.
#[inline]
pub fn wait(request: &mut usize) -> Result<Outcome> {
    // A send that completed at once needs no progress, as in MPI_Send.
    if is_sent_for_good(*request) {
        *request = predefined::REQUEST_NULL;
        return Ok(Outcome::empty());
    }
    block_on(|p| p.take(request).transpose()).map(Finished::into_outcome)
}

/// Performs MPI_Test.
#[inline]
pub fn test(request: &mut usize) -> Result<Option<Outcome>> {
    // A request that is complete already needs no progress.
    if let Some(finished) = with(|p| p.take(request))? {
        return Ok(Some(finished.into_outcome()));
    }
    Ok(poll(|p| p.take(request), Option::is_none)?.map(Finished::into_outcome))
}

/// Performs MPI_Request_get_status.
pub fn status(request: usize) -> Result<Option<Outcome>> {
    Ok(match poll(|p| p.peek(request), Option::is_none)? {
        Some(Finished::Outcome(outcome)) => Some(outcome),
        Some(Finished::Generalized(calls)) => Some(calls.query()),
        None => None,
    })
}

/// Performs MPI_Waitany.
pub fn wait_any(requests: &mut [usize]) -> Result<Any> {
    let found = block_on(|p| match first(p, requests) {
        Ok(Search::Pending) => None,
        other => Some(other),
    });
    into_any(found?)
}

/// Performs MPI_Testany.
pub fn test_any(requests: &mut [usize]) -> Result<Any> {
    into_any(poll(|p| first(p, requests), Search::is_pending)?)
}

/// Performs MPI_Request_get_status_any: like [`test_any`], but frees no request.
pub fn status_any(requests: &[usize]) -> Result<Any> {
    poll(|p| any_complete(p, requests), Search::is_pending)?;
    let mut active = false;
    for (index, &request) in requests.iter().enumerate() {
        if !with(|p| is_active(p, request))? {
            continue;
        }
        active = true;
        if let Some(finished) = with(|p| p.peek(request))? {
            return Ok(Any::Found(index, query(finished)));
        }
    }
    Ok(if active { Any::Pending } else { Any::NoneActive })
}

/// Performs MPI_Waitall. `each` gets every index with its outcome, in order. It may run under the
/// process lock and must not call MPI.
pub fn wait_all(requests: &mut [usize], mut each: impl FnMut(usize, Outcome)) -> Result<()> {
    let mut next = 0;
    while let Some(calls) = block_on(|p| take_ready(p, requests, &mut next, &mut each).transpose())?
    {
        each(next, Finished::Generalized(calls).into_outcome());
        next += 1;
    }
    Ok(())
}

/// Performs MPI_Testall: true if all requests are complete; only then takes them.
pub fn test_all(requests: &mut [usize], mut each: impl FnMut(usize, Outcome)) -> Result<bool> {
    if poll(|p| all_complete(p, requests, &mut 0), Option::is_none)?.is_none() {
        return Ok(false);
    }
    take_all(requests, &mut each)?;
    Ok(true)
}

/// Performs MPI_Request_get_status_all: like [`test_all`], but frees no request.
pub fn status_all(requests: &[usize], mut each: impl FnMut(usize, Outcome)) -> Result<bool> {
    if poll(|p| all_complete(p, requests, &mut 0), Option::is_none)?.is_none() {
        return Ok(false);
    }
    for (index, &request) in requests.iter().enumerate() {
        if let Some(finished) = with(|p| p.peek(request))? {
            each(index, query(finished));
        }
    }
    Ok(true)
}

/// Performs MPI_Waitsome: returns how many requests were taken, or `None` if none is active.
pub fn wait_some(
    requests: &mut [usize],
    mut each: impl FnMut(usize, Outcome),
) -> Result<Option<usize>> {
    let active = block_on(|p| match any_complete(p, requests) {
        Ok(Search::Pending) => None,
        other => Some(other),
    })?;
    match active {
        Search::NoneActive => Ok(None),
        _ => take_some(requests, &mut each).map(Some),
    }
}

/// Performs MPI_Testsome: like [`wait_some`], without waiting.
pub fn test_some(
    requests: &mut [usize],
    mut each: impl FnMut(usize, Outcome),
) -> Result<Option<usize>> {
    match poll(|p| any_complete(p, requests), Search::is_pending)? {
        Search::NoneActive => Ok(None),
        Search::Pending => Ok(Some(0)),
        Search::Found(..) => take_some(requests, &mut each).map(Some),
    }
}

/// Performs MPI_Request_get_status_some: like [`test_some`], but frees no request.
pub fn status_some(
    requests: &[usize],
    mut each: impl FnMut(usize, Outcome),
) -> Result<Option<usize>> {
    poll(|p| any_complete(p, requests), Search::is_pending)?;
    let (mut active, mut found) = (false, 0);
    for (index, &request) in requests.iter().enumerate() {
        if !with(|p| is_active(p, request))? {
            continue;
        }
        active = true;
        if let Some(finished) = with(|p| p.peek(request))? {
            found += 1;
            each(index, query(finished));
        }
    }
    Ok(active.then_some(found))
}

enum Search {
    NoneActive,
    Pending,
    Found(usize, Option<Finished>),
}

impl Search {
    fn is_pending(&self) -> bool {
        matches!(self, Search::Pending)
    }
}

fn is_active(p: &mut Process, handle: usize) -> Result<bool> {
    match Decoded::decode(handle) {
        Decoded::Null => Ok(false),
        Decoded::Sent => Ok(true),
        Decoded::Message(id) => p.check_message(id).map(|()| true),
        Decoded::Object => Ok(!p.request(handle)?.is_inactive()),
    }
}

/// Takes the first complete request.
fn first(p: &mut Process, requests: &mut [usize]) -> Result<Search> {
    match any_complete(p, requests)? {
        Search::Found(index, _) => Ok(Search::Found(index, p.take(&mut requests[index])?)),
        other => Ok(other),
    }
}

fn any_complete(p: &mut Process, requests: &[usize]) -> Result<Search> {
    let mut pending = 0;
    for (index, &request) in requests.iter().enumerate() {
        if !is_active(p, request)? {
            continue;
        }
        pending += 1;
        if p.is_complete(request)? {
            return Ok(Search::Found(index, None));
        }
        if pending > 1 {
            p.wait_target = WaitTarget::OneOf(request);
        }
    }
    Ok(if pending > 0 { Search::Pending } else { Search::NoneActive })
}

fn into_any(found: Search) -> Result<Any> {
    Ok(match found {
        Search::NoneActive => Any::NoneActive,
        Search::Pending | Search::Found(_, None) => Any::Pending,
        Search::Found(index, Some(finished)) => Any::Found(index, finished.into_outcome()),
    })
}

/// Returns `Some` when all requests are complete; all before `next` are known to be.
fn all_complete(p: &mut Process, requests: &[usize], next: &mut usize) -> Result<Option<()>> {
    while let Some(&request) = requests.get(*next) {
        if !p.is_complete(request)? {
            return Ok(None);
        }
        *next += 1;
    }
    Ok(Some(()))
}

/// Takes complete requests from `next` on. Returns `None` if the request at `next` is not complete,
/// `Some(None)` if all are taken, otherwise the callbacks that return the outcome of `next`.
#[inline]
fn take_ready(
    p: &mut Process,
    requests: &mut [usize],
    next: &mut usize,
    each: &mut impl FnMut(usize, Outcome),
) -> Result<Option<Option<Box<Generalized>>>> {
    while let Some(request) = requests.get_mut(*next) {
        match p.take(request)? {
            Some(Finished::Outcome(outcome)) => each(*next, outcome),
            Some(Finished::Generalized(calls)) => return Ok(Some(Some(calls))),
            None => return Ok(None),
        }
        *next += 1;
    }
    Ok(Some(None))
}

fn take_all(requests: &mut [usize], each: &mut impl FnMut(usize, Outcome)) -> Result<()> {
    for (index, request) in requests.iter_mut().enumerate() {
        if let Some(finished) = with(|p| p.take(request))? {
            each(index, finished.into_outcome());
        }
    }
    Ok(())
}

fn take_some(requests: &mut [usize], each: &mut impl FnMut(usize, Outcome)) -> Result<usize> {
    let mut taken = 0;
    for (index, request) in requests.iter_mut().enumerate() {
        let finished = with(|p| if is_active(p, *request)? { p.take(request) } else { Ok(None) })?;
        if let Some(finished) = finished {
            taken += 1;
            each(index, finished.into_outcome());
        }
    }
    Ok(taken)
}

fn query(finished: Finished) -> Outcome {
    match finished {
        Finished::Outcome(outcome) => outcome,
        Finished::Generalized(calls) => calls.query(),
    }
}
