//! One engine for blocking and nonblocking collective accesses.
//!
//! A collective access is an `async` function that does nothing by itself: it asks its [`Steps`]
//! for exchanges, for work on the disk, and for the end of other accesses. Blocking steps carry
//! each request out at once, so that the function never suspends. Driven steps store the request
//! and suspend; the [`Task`] begins it, and resumes the function when the answer has come.
//!
//! States of a task: *ready* to be polled; *waiting* for a transit or for a pending access; *done*,
//! which its promise says.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use objects::{Error, Result};

use crate::members::{Exchange, Members, Messages, Resumable, Transit, WaitsFor};
use crate::pending::{Outcome, Pending};
use crate::workers;

/// What an access asks for.
enum Request {
    Exchange(Exchange),
    Wait(Arc<Pending>),
}

/// Between a suspended access and its task.
#[derive(Default)]
struct Mailbox {
    request: Option<Request>,
    /// The result of an exchange; empty for a wait.
    answer: Option<Result<Messages>>,
}

/// How an access makes its steps.
#[derive(Clone)]
pub(crate) enum Steps<'a> {
    /// Each is over when it returns.
    Blocking(&'a dyn Members),
    /// They are made by a task.
    Driven(Arc<dyn Members>, SharedMailbox),
}

type SharedMailbox = Arc<MailboxCell>;

/// A mailbox that an access and its task share.
#[derive(Default)]
pub(crate) struct MailboxCell(Mutex<Mailbox>);

impl MailboxCell {
    fn lock(&self) -> MutexGuard<'_, Mailbox> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Work that a thread of the pool does for an access.
pub(crate) struct Work<T> {
    done: Arc<Pending>,
    result: Arc<Mutex<Option<T>>>,
}

impl Steps<'_> {
    /// Returns the members.
    pub(crate) fn members(&self) -> &dyn Members {
        match self {
            Steps::Blocking(members) => *members,
            Steps::Driven(members, _) => &**members,
        }
    }

    /// Returns true if each step is over when it returns.
    pub(crate) fn is_blocking(&self) -> bool {
        matches!(self, Steps::Blocking(_))
    }

    /// Returns the bytes of all members in order of rank. Each gives equally many.
    pub(crate) async fn allgather(&self, mine: &[u8]) -> Result<Vec<u8>> {
        Ok(self.exchange(Exchange::Allgather(mine.to_vec())).await?.bytes)
    }

    /// Replaces the bytes by those of `root`. Each gives equally many.
    pub(crate) async fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<()> {
        let exchange = Exchange::Broadcast { root, bytes: bytes.to_vec() };
        bytes.copy_from_slice(&self.exchange(exchange).await?.bytes);
        Ok(())
    }

    /// Makes an exchange with the other members.
    pub(crate) async fn exchange(&self, exchange: Exchange) -> Result<Messages> {
        match self {
            Steps::Blocking(members) => members.run(exchange),
            Steps::Driven(_, mailbox) => ask(mailbox, Request::Exchange(exchange)).await,
        }
    }

    /// Waits until another access is done.
    pub(crate) async fn wait(&self, pending: Arc<Pending>) {
        match self {
            Steps::Blocking(members) => members.wait(&pending),
            Steps::Driven(_, mailbox) => {
                let _ = ask(mailbox, Request::Wait(pending)).await;
            }
        }
    }

    /// Does work that may sleep in the kernel: here if it is short or keeps nobody waiting but the
    /// caller, otherwise on a thread of the pool.
    pub(crate) async fn work<T: Send + 'static>(
        &self,
        is_short: bool,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        match self {
            Steps::Driven(..) if !is_short => self.join(start(job)).await,
            _ => Ok(job()),
        }
    }

    /// Waits for the result of work that was started.
    pub(crate) async fn join<T>(&self, work: Work<T>) -> Result<T> {
        self.wait(work.done).await;
        let result = work.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        result.ok_or_else(|| Error::internal("work on a file ended without a result"))
    }
}

/// Starts work on a thread of the pool.
pub(crate) fn start<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> Work<T> {
    let work = Work { done: Arc::new(Pending::begin()), result: Arc::default() };
    let (done, result) = (work.done.clone(), work.result.clone());
    workers::run(Box::new(move || {
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(job());
        done.finish(Outcome { bytes: 0, error: None });
    }));
    work
}

/// Suspends the access with a request, until its task has the answer.
async fn ask(mailbox: &MailboxCell, request: Request) -> Result<Messages> {
    mailbox.lock().request = Some(request);
    poll_fn(|_| match mailbox.lock().answer.take() {
        Some(answer) => Poll::Ready(answer),
        None => Poll::Pending,
    })
    .await
}

/// Runs an access with blocking steps, to its end.
pub(crate) fn block_on<'a, T, F: Future<Output = T>>(
    members: &'a dyn Members,
    access: impl FnOnce(Steps<'a>) -> F,
) -> T {
    let access = pin!(access(Steps::Blocking(members)));
    match access.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => unreachable!("an access with blocking steps suspended"),
    }
}

/// A collective access that goes on after its call.
pub(crate) struct Task {
    members: Arc<dyn Members>,
    mailbox: SharedMailbox,
    access: Pin<Box<dyn Future<Output = Outcome> + Send>>,
    waits: Waits,
    promise: Arc<Pending>,
}

/// What a task waits for.
enum Waits {
    Nothing,
    Transit(Box<dyn Transit>),
    Pending(Arc<Pending>),
}

impl Task {
    /// Starts an access; `promise` is finished with its outcome.
    pub(crate) fn start<F: Future<Output = Outcome> + Send + 'static>(
        members: Arc<dyn Members>,
        promise: Arc<Pending>,
        access: impl FnOnce(Steps<'static>) -> F,
    ) {
        let mailbox = SharedMailbox::default();
        let access = Box::pin(access(Steps::Driven(members.clone(), mailbox.clone())));
        let waits = Waits::Nothing;
        let mut task = Task { members: members.clone(), mailbox, access, waits, promise };
        if !task.resume() {
            members.drive(Box::new(task));
        }
    }

    /// Looks whether what the task waits for has come, and stores the answer.
    fn has_answer(&mut self) -> bool {
        let answer = match &mut self.waits {
            Waits::Nothing => return true,
            Waits::Transit(transit) => transit.result(),
            Waits::Pending(pending) => pending.is_done().then(|| Ok(Messages::default())),
        };
        let has_come = answer.is_some();
        if has_come {
            self.waits = Waits::Nothing;
            self.mailbox.lock().answer = answer;
        }
        has_come
    }

    /// Begins what the suspended access asked for.
    fn begin(&mut self) {
        let request = self.mailbox.lock().request.take();
        let refused = match request {
            Some(Request::Wait(pending)) => {
                self.waits = Waits::Pending(pending);
                return;
            }
            Some(Request::Exchange(exchange)) => match self.members.begin(exchange) {
                Ok(transit) => {
                    self.waits = Waits::Transit(transit);
                    return;
                }
                Err(error) => error,
            },
            None => Error::internal("an access was suspended without a request"),
        };
        self.mailbox.lock().answer = Some(Err(refused));
    }
}

impl Resumable for Task {
    fn resume(&mut self) -> bool {
        while self.has_answer() {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(outcome) = self.access.as_mut().poll(&mut context) {
                self.promise.finish(outcome);
                return true;
            }
            self.begin();
        }
        false
    }

    fn waits_for(&self) -> WaitsFor<'_> {
        match &self.waits {
            Waits::Pending(pending) => WaitsFor::Pending(pending),
            Waits::Nothing | Waits::Transit(_) => WaitsFor::Exchange,
        }
    }
}
