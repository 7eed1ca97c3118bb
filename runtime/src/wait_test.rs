//! The Wait and Test families (MPI-5.0 §3.7.3, §3.7.5): requests in, outcomes out.
//!
//! All take the caller's array of request handles and replace completed ones that are not
//! persistent by MPI_REQUEST_NULL. They return an error only for a handle that is no request; the
//! error of an operation is in its [`Outcome`].

use objects::Result;

use crate::generalized::Generalized;
use crate::lock::{block_on, progress_once, with};
use crate::outcome::Outcome;
use crate::process::{Process, predefined};
use crate::request::Finished;
use crate::request_handle::Decoded;

/// What looking for one completed request among several came to.
pub enum Any {
    /// There is no active request in the array.
    NoneActive,
    /// None is complete yet.
    Pending,
    /// This one was.
    Found(usize, Outcome),
}

/// MPI_Wait.
#[inline]
pub fn wait(request: &mut usize) -> Result<Outcome> {
    // A send that left at once needs no progress, as it would not in MPI_Send.
    if let Decoded::Sent = Decoded::decode(*request) {
        *request = predefined::REQUEST_NULL;
        return Ok(Outcome::empty());
    }
    block_on(|p| p.take(request).transpose()).map(Finished::settle)
}

/// MPI_Test.
#[inline]
pub fn test(request: &mut usize) -> Result<Option<Outcome>> {
    // A request that is complete already needs no progress.
    if let Some(finished) = with(|p| p.take(request))? {
        return Ok(Some(finished.settle()));
    }
    progress_once();
    Ok(with(|p| p.take(request))?.map(Finished::settle))
}

/// MPI_Request_get_status.
pub fn status(request: usize) -> Result<Option<Outcome>> {
    progress_once();
    Ok(match with(|p| p.peek(request))? {
        Some(Finished::Outcome(outcome)) => Some(outcome),
        Some(Finished::Generalized(calls)) => Some(calls.ask()),
        None => None,
    })
}

/// MPI_Waitany.
pub fn wait_any(requests: &mut [usize]) -> Result<Any> {
    let found = block_on(|p| match first(p, requests) {
        Ok(Looked::Pending) => None,
        other => Some(other),
    });
    settle_any(found?)
}

/// MPI_Testany.
pub fn test_any(requests: &mut [usize]) -> Result<Any> {
    progress_once();
    settle_any(with(|p| first(p, requests))?)
}

/// MPI_Request_get_status_any: as [`test_any`], nothing freed.
pub fn status_any(requests: &[usize]) -> Result<Any> {
    progress_once();
    let mut active = false;
    for (index, &request) in requests.iter().enumerate() {
        if !with(|p| is_active(p, request))? {
            continue;
        }
        active = true;
        if let Some(finished) = with(|p| p.peek(request))? {
            return Ok(Any::Found(index, ask(finished)));
        }
    }
    Ok(if active { Any::Pending } else { Any::NoneActive })
}

/// MPI_Waitall. `each` gets every index with its outcome, in order; it may run
/// under the lock and must not call MPI.
pub fn wait_all(requests: &mut [usize], mut each: impl FnMut(usize, Outcome)) -> Result<()> {
    let mut next = 0;
    while let Some(calls) = block_on(|p| take_ready(p, requests, &mut next, &mut each).transpose())?
    {
        each(next, Finished::Generalized(calls).settle());
        next += 1;
    }
    Ok(())
}

/// MPI_Testall: true if all are complete; only then is any taken.
pub fn test_all(requests: &mut [usize], mut each: impl FnMut(usize, Outcome)) -> Result<bool> {
    progress_once();
    if with(|p| all_complete(p, requests, &mut 0))?.is_none() {
        return Ok(false);
    }
    take_all(requests, &mut each)?;
    Ok(true)
}

/// MPI_Request_get_status_all: as [`test_all`], nothing freed.
pub fn status_all(requests: &[usize], mut each: impl FnMut(usize, Outcome)) -> Result<bool> {
    progress_once();
    if with(|p| all_complete(p, requests, &mut 0))?.is_none() {
        return Ok(false);
    }
    for (index, &request) in requests.iter().enumerate() {
        if let Some(finished) = with(|p| p.peek(request))? {
            each(index, ask(finished));
        }
    }
    Ok(true)
}

/// MPI_Waitsome. `None` when no request is active, else how many were taken.
pub fn wait_some(
    requests: &mut [usize],
    mut each: impl FnMut(usize, Outcome),
) -> Result<Option<usize>> {
    let active = block_on(|p| match any_complete(p, requests) {
        Ok(Looked::Pending) => None,
        other => Some(other),
    })?;
    match active {
        Looked::NoneActive => Ok(None),
        _ => take_some(requests, &mut each).map(Some),
    }
}

/// MPI_Testsome: as [`wait_some`], without waiting.
pub fn test_some(
    requests: &mut [usize],
    mut each: impl FnMut(usize, Outcome),
) -> Result<Option<usize>> {
    progress_once();
    match with(|p| any_complete(p, requests))? {
        Looked::NoneActive => Ok(None),
        Looked::Pending => Ok(Some(0)),
        Looked::Found(..) => take_some(requests, &mut each).map(Some),
    }
}

/// MPI_Request_get_status_some: as [`test_some`], nothing freed.
pub fn status_some(
    requests: &[usize],
    mut each: impl FnMut(usize, Outcome),
) -> Result<Option<usize>> {
    progress_once();
    let (mut active, mut found) = (false, 0);
    for (index, &request) in requests.iter().enumerate() {
        if !with(|p| is_active(p, request))? {
            continue;
        }
        active = true;
        if let Some(finished) = with(|p| p.peek(request))? {
            found += 1;
            each(index, ask(finished));
        }
    }
    Ok(active.then_some(found))
}

enum Looked {
    NoneActive,
    Pending,
    Found(usize, Option<Finished>),
}

fn is_active(p: &mut Process, handle: usize) -> Result<bool> {
    match Decoded::decode(handle) {
        Decoded::Null => Ok(false),
        Decoded::Sent => Ok(true),
        Decoded::Message(id) => p.check_message(id).map(|()| true),
        Decoded::Object => Ok(!p.request(handle)?.is_inactive()),
    }
}

/// Takes the first complete one.
fn first(p: &mut Process, requests: &mut [usize]) -> Result<Looked> {
    match any_complete(p, requests)? {
        Looked::Found(index, _) => Ok(Looked::Found(index, p.take(&mut requests[index])?)),
        other => Ok(other),
    }
}

fn any_complete(p: &mut Process, requests: &[usize]) -> Result<Looked> {
    let mut active = false;
    for (index, &request) in requests.iter().enumerate() {
        if !is_active(p, request)? {
            continue;
        }
        active = true;
        if p.is_complete(request)? {
            return Ok(Looked::Found(index, None));
        }
    }
    Ok(if active { Looked::Pending } else { Looked::NoneActive })
}

fn settle_any(looked: Looked) -> Result<Any> {
    Ok(match looked {
        Looked::NoneActive => Any::NoneActive,
        Looked::Pending | Looked::Found(_, None) => Any::Pending,
        Looked::Found(index, Some(finished)) => Any::Found(index, finished.settle()),
    })
}

/// `Some` when all are complete; `next` remembers how far that is known.
fn all_complete(p: &mut Process, requests: &[usize], next: &mut usize) -> Result<Option<()>> {
    while let Some(&request) = requests.get(*next) {
        if !p.is_complete(request)? {
            return Ok(None);
        }
        *next += 1;
    }
    Ok(Some(()))
}

/// Takes complete requests from `next` on. `None`: that one is not complete;
/// `Some(None)`: all are taken; else the callbacks that tell what became of it.
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
            each(index, finished.settle());
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
            each(index, finished.settle());
        }
    }
    Ok(taken)
}

fn ask(finished: Finished) -> Outcome {
    match finished {
        Finished::Outcome(outcome) => outcome,
        Finished::Generalized(calls) => calls.ask(),
    }
}
