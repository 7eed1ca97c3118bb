//! The transfers that a queue of the kernel carries out, from their start to their end.
//!
//! States of a [`Flight`]: *waiting* for space in the queue; *submitted*; *ended*, after which its
//! place is free. A completion that moved less than was asked for, or that a signal interrupted,
//! submits the rest. A read ends early at the end of the file.
//!
//! Invariant: the memory of a transfer is not given back before the kernel has completed its
//! operation, also after a request to cancel it.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;

use fabric::{UserBuf, valgrind};

use crate::access::Direction;

/// Most bytes of one operation: the kernel moves less than 2 GiB at a time.
const MAX_OPERATION_BYTES: usize = 1 << 30;
/// Most bytes that the kernel may copy from or to its cache in the call that submits an operation.
/// A longer one would keep the caller as long as a blocking access.
pub(crate) const MAX_INLINE_BYTES: usize = 64 << 10;

/// An operation on a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) direction: Direction,
    pub(crate) fd: RawFd,
    pub(crate) memory: UserBuf,
    /// The first byte of the file.
    pub(crate) offset: i64,
    /// A thread of the kernel does it, not the call that submits it.
    pub(crate) by_kernel_thread: bool,
}

/// A submission queue and a completion queue.
pub(crate) trait Queue: Send {
    /// Adds an operation; false if there is no space now.
    fn push(&mut self, token: u64, operation: &Operation) -> bool;

    /// Submits what was added. An error is one of the queue itself.
    fn submit(&mut self) -> io::Result<()>;

    /// Takes a completion: the token, and the bytes moved or the negative error number.
    fn pop(&mut self) -> Option<(u64, i32)>;

    /// Asks for the cancellation of an operation.
    fn cancel(&mut self, token: u64);
}

/// What ends a transfer: it gets the bytes moved and the result.
pub(crate) type OnEnd = Box<dyn FnOnce(usize, io::Result<()>) + Send>;

/// One run of memory and one run of a file.
pub(crate) struct Transfer {
    pub(crate) direction: Direction,
    pub(crate) fd: RawFd,
    /// The file through the cache of the system, if `fd` goes past it.
    pub(crate) cached_fd: Option<RawFd>,
    pub(crate) memory: UserBuf,
    pub(crate) offset: i64,
    pub(crate) on_end: OnEnd,
}

/// A transfer under way.
struct Flight {
    transfer: Transfer,
    /// Bytes moved so far.
    done: usize,
    /// The kernel has refused it in the call that submitted it.
    was_refused: bool,
}

/// Transfers under way, and the queue that carries them out.
pub(crate) struct Engine<Q> {
    queue: Q,
    flights: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// Flights that found no space in the queue.
    waiting: VecDeque<usize>,
    is_ending: bool,
}

impl<Q: Queue> Engine<Q> {
    pub(crate) fn new(queue: Q) -> Engine<Q> {
        let (flights, free, waiting) = Default::default();
        Engine { queue, flights, free, waiting, is_ending: false }
    }

    /// Starts a transfer, and ends those that are complete.
    pub(crate) fn start(&mut self, transfer: Transfer) {
        let flight = Some(Flight { transfer, done: 0, was_refused: false });
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.flights.push(None);
                self.flights.len() - 1
            }
        };
        self.flights[at] = flight;
        self.push(at);
        self.submit();
        self.reap();
    }

    /// Ends the transfers that are complete, and submits what is left of others; returns the number
    /// of completions.
    pub(crate) fn reap(&mut self) -> usize {
        let mut seen = 0;
        loop {
            let before = seen;
            while let Some((token, result)) = self.queue.pop() {
                self.complete(token, result);
                seen += 1;
            }
            if seen == before {
                return seen;
            }
            for _ in 0..self.waiting.len() {
                if let Some(at) = self.waiting.pop_front() {
                    self.push(at);
                }
            }
            self.submit();
        }
    }

    /// Returns the number of transfers under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Asks the kernel to cancel all transfers; they end by [`Engine::reap`].
    pub(crate) fn cancel_all(&mut self) {
        self.is_ending = true;
        while let Some(at) = self.waiting.pop_front() {
            self.end(at, Err(io::Error::from_raw_os_error(libc::ECANCELED)));
        }
        for at in 0..self.flights.len() {
            if self.flights[at].is_some() {
                self.queue.cancel(at as u64);
            }
        }
        self.submit();
    }

    /// Adds the rest of a flight to the queue, or to those that wait for space.
    fn push(&mut self, at: usize) {
        let Some(flight) = &self.flights[at] else { return };
        if !self.queue.push(at as u64, &flight.rest()) {
            self.waiting.push_back(at);
        }
    }

    fn submit(&mut self) {
        let Err(error) = self.queue.submit() else { return };
        // The queue is gone: nothing more completes.
        let number = error.raw_os_error().unwrap_or(libc::EIO);
        self.waiting.clear();
        for at in 0..self.flights.len() {
            self.end(at, Err(io::Error::from_raw_os_error(number)));
        }
    }

    /// Takes the result of an operation.
    fn complete(&mut self, token: u64, result: i32) {
        let at = token as usize;
        let Some(Some(flight)) = self.flights.get_mut(at) else { return };
        let is_write = flight.transfer.direction == Direction::Write;
        match result {
            0 if is_write => return self.end(at, Err(io::Error::from_raw_os_error(libc::ENOSPC))),
            0 => return self.end(at, Ok(())),
            1.. => {
                if !is_write {
                    let got = flight.transfer.memory.slice(flight.done, result as usize);
                    valgrind::mark_defined(got.as_ptr(), got.len());
                }
                flight.done += result as usize;
                if flight.done >= flight.transfer.memory.len() {
                    return self.end(at, Ok(()));
                }
            }
            _ => {
                let is_refused = flight.is_refused(-result, self.is_ending);
                if let Some(error) = is_refused {
                    return self.end(at, Err(error));
                }
            }
        }
        self.push(at);
    }

    /// Frees the place of a flight, and reports its end.
    fn end(&mut self, at: usize, result: io::Result<()>) {
        let Some(flight) = self.flights[at].take() else { return };
        self.free.push(at);
        (flight.transfer.on_end)(flight.done, result);
    }
}

impl Flight {
    /// Returns the operation for what is left.
    fn rest(&self) -> Operation {
        let Transfer { direction, fd, cached_fd, memory, offset, .. } = self.transfer;
        let len = (memory.len() - self.done).min(MAX_OPERATION_BYTES);
        // Of long transfers only those that were refused past the cache are copied.
        let is_copied = cached_fd.is_none();
        let by_kernel_thread = self.was_refused || is_copied && len > MAX_INLINE_BYTES;
        let (memory, offset) = (memory.slice(self.done, len), offset + self.done as i64);
        Operation { direction, fd, memory, offset, by_kernel_thread }
    }

    /// Handles an error number; returns the error unless the operation is to be repeated.
    fn is_refused(&mut self, number: i32, is_ending: bool) -> Option<io::Error> {
        match number {
            libc::EINTR => return None,
            libc::EAGAIN => self.was_refused = true,
            // The thread that submitted it has ended.
            libc::ECANCELED if !is_ending => self.was_refused = true,
            // What the system cannot move directly goes through its cache.
            libc::EINVAL if self.transfer.cached_fd.is_some() => {
                self.transfer.fd = self.transfer.cached_fd.take().unwrap_or(self.transfer.fd);
            }
            _ => return Some(io::Error::from_raw_os_error(number)),
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::staging::Staging;

    /// A queue whose results the test chooses, in the order of submission.
    #[derive(Default)]
    struct Script {
        /// Operations in it at most.
        space: usize,
        added: Vec<(u64, Operation)>,
        submitted: VecDeque<(u64, Operation)>,
        results: VecDeque<i32>,
        cancelled: Vec<u64>,
        all: Vec<Operation>,
        is_gone: bool,
    }

    impl Queue for Arc<Mutex<Script>> {
        fn push(&mut self, token: u64, operation: &Operation) -> bool {
            let mut script = self.lock().unwrap();
            let has_space = script.added.len() + script.submitted.len() < script.space;
            if has_space {
                script.added.push((token, *operation));
                script.all.push(*operation);
            }
            has_space
        }

        fn submit(&mut self) -> io::Result<()> {
            let mut script = self.lock().unwrap();
            if script.is_gone {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            let added = std::mem::take(&mut script.added);
            script.submitted.extend(added);
            Ok(())
        }

        fn pop(&mut self) -> Option<(u64, i32)> {
            let mut script = self.lock().unwrap();
            if script.results.is_empty() || script.submitted.is_empty() {
                return None;
            }
            let (token, _) = script.submitted.pop_front()?;
            Some((token, script.results.pop_front()?))
        }

        fn cancel(&mut self, token: u64) {
            self.lock().unwrap().cancelled.push(token);
        }
    }

    type Ends = Arc<Mutex<Vec<(usize, Option<i32>)>>>;

    /// An engine, its script, and how transfers ended.
    struct Bench(Engine<Arc<Mutex<Script>>>, Arc<Mutex<Script>>, Ends);

    fn bench(space: usize, results: &[i32]) -> Bench {
        let results = results.iter().copied().collect();
        let script = Arc::new(Mutex::new(Script { space, results, ..Script::default() }));
        Bench(Engine::new(script.clone()), script, Ends::default())
    }

    impl Bench {
        fn start(&mut self, direction: Direction, len: usize, cached_fd: Option<RawFd>) {
            let ends = self.2.clone();
            let memory = memory(len);
            let on_end = Box::new(move |done, result: io::Result<()>| {
                let number = result.err().and_then(|error| error.raw_os_error());
                ends.lock().unwrap().push((done, number));
            });
            self.0.start(Transfer { direction, fd: 7, cached_fd, memory, offset: 1000, on_end });
        }

        fn ends(&self) -> Vec<(usize, Option<i32>)> {
            self.2.lock().unwrap().clone()
        }

        /// Returns descriptor, offset, length and whether a thread of the kernel is asked for.
        fn operations(&self) -> Vec<(RawFd, i64, usize, bool)> {
            let describe =
                |one: &Operation| (one.fd, one.offset, one.memory.len(), one.by_kernel_thread);
            self.1.lock().unwrap().all.iter().map(describe).collect()
        }
    }

    /// Returns user memory that the script never touches.
    fn memory(len: usize) -> UserBuf {
        Box::leak(Box::new(Staging::new(len as u64).unwrap())).lend(|memory| memory)
    }

    #[test]
    fn short_and_interrupted_operations_go_on() {
        let mut bench = bench(4, &[30, -libc::EINTR, 20, -libc::EAGAIN, 50]);
        bench.start(Direction::Write, 100, None);
        assert_eq!(bench.ends(), [(100, None)]);
        let wanted = [(7, 1000, 100, false), (7, 1030, 70, false), (7, 1030, 70, false)];
        let later = [(7, 1050, 50, false), (7, 1050, 50, true)];
        assert_eq!(bench.operations(), [&wanted[..], &later].concat());
        assert_eq!(bench.0.in_flight(), 0);
    }

    #[test]
    fn a_read_ends_with_the_file_and_a_write_does_not() {
        let mut bench = bench(4, &[40, 0, 40, 0]);
        bench.start(Direction::Read, 100, None);
        bench.start(Direction::Write, 100, None);
        assert_eq!(bench.ends(), [(40, None), (40, Some(libc::ENOSPC))]);
    }

    #[test]
    fn errors_end_a_transfer_with_what_was_moved() {
        let mut bench = bench(4, &[10, -libc::EIO, -libc::EDQUOT]);
        bench.start(Direction::Write, 100, None);
        bench.start(Direction::Write, 100, None);
        assert_eq!(bench.ends(), [(10, Some(libc::EIO)), (0, Some(libc::EDQUOT))]);
    }

    #[test]
    fn what_cannot_go_past_the_cache_goes_through_it() {
        let mut bench = bench(4, &[64, -libc::EINVAL, 36, -libc::EINVAL]);
        bench.start(Direction::Read, 100, Some(9));
        bench.start(Direction::Read, 10, None);
        assert_eq!(bench.ends(), [(100, None), (0, Some(libc::EINVAL))]);
        let fds: Vec<RawFd> = bench.operations().iter().map(|one| one.0).collect();
        assert_eq!(fds, [7, 7, 9, 7]);
    }

    #[test]
    fn a_long_copy_that_should_have_been_direct_is_left_to_a_thread_of_the_kernel() {
        let all = MAX_INLINE_BYTES as i32;
        let mut bench = bench(4, &[-libc::EINVAL, all, -libc::EINVAL]);
        bench.start(Direction::Read, MAX_INLINE_BYTES, Some(9));
        bench.start(Direction::Read, MAX_INLINE_BYTES + 1, Some(9));
        let calls: Vec<_> = bench.operations().iter().map(|one| (one.0, one.3)).collect();
        assert_eq!(calls, [(7, false), (9, false), (7, false), (9, true)]);
    }

    #[test]
    fn transfers_wait_for_space() {
        let mut bench = bench(2, &[]);
        (0..5).for_each(|_| bench.start(Direction::Write, 8, None));
        assert_eq!((bench.operations().len(), bench.0.in_flight()), (2, 5));
        bench.1.lock().unwrap().results.extend([8; 5]);
        assert_eq!(bench.0.reap(), 5);
        assert_eq!(bench.ends(), [(8, None); 5]);
        // Places are used again.
        bench.start(Direction::Write, 8, None);
        assert_eq!(bench.0.flights.len(), 5);
    }

    #[test]
    fn a_cancelled_operation_is_repeated_unless_all_are_to_end() {
        let mut bench = bench(2, &[-libc::ECANCELED]);
        (0..3).for_each(|_| bench.start(Direction::Write, 8, None));
        assert_eq!((bench.ends().len(), bench.0.in_flight()), (0, 3));
        bench.0.cancel_all();
        assert_eq!(bench.ends(), [(0, Some(libc::ECANCELED))]);
        // The memory of the two others is the kernel's until their completions come.
        assert_eq!(bench.1.lock().unwrap().cancelled.len(), 2);
        bench.1.lock().unwrap().results.extend([-libc::ECANCELED, 8]);
        bench.0.reap();
        assert_eq!(bench.0.in_flight(), 0);
        assert_eq!(bench.ends().len(), 3);
        assert!(bench.ends().contains(&(8, None)));
    }

    #[test]
    fn a_lost_queue_ends_all() {
        let mut bench = bench(2, &[]);
        bench.start(Direction::Write, 8, None);
        bench.1.lock().unwrap().is_gone = true;
        bench.start(Direction::Write, 8, None);
        assert_eq!(bench.ends(), [(0, Some(libc::EBADF)); 2]);
    }
}
