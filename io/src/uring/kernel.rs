//! io_uring of the kernel as a [`Queue`].

#![allow(unsafe_code)]

use std::io;

use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::engine::{Operation, Queue};
use crate::access::Direction;
use crate::wake;

/// Operations in the queue at most. The completion queue has twice as many places; therefore it
/// never overflows.
const ENTRIES: u32 = 64;
/// The token of requests to cancel.
const NO_TOKEN: u64 = u64::MAX;

/// The rings that this process shares with the kernel.
pub(crate) struct KernelQueue {
    ring: IoUring,
    /// Operations that the kernel has not completed.
    pending: u32,
}

impl KernelQueue {
    /// Makes the rings. Completions that do not come in the call that submits signal [`wake`].
    pub(crate) fn open() -> io::Result<KernelQueue> {
        let ring = IoUring::builder().dontfork().setup_clamp().build(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        let needed = [opcode::Read::CODE, opcode::Write::CODE, opcode::AsyncCancel::CODE];
        if !needed.into_iter().all(|code| probe.is_supported(code)) {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let wake = wake::descriptor().ok_or(io::Error::from_raw_os_error(libc::EMFILE))?;
        ring.submitter().register_eventfd_async(wake)?;
        Ok(KernelQueue { ring, pending: 0 })
    }

    fn add(&mut self, entry: &squeue::Entry) -> bool {
        // SAFETY: an operation names the memory and the descriptor of a transfer. The engine keeps
        // both until the operation's completion.
        unsafe { self.ring.submission().push(entry) }.is_ok()
    }
}

impl Queue for KernelQueue {
    fn push(&mut self, token: u64, operation: &Operation) -> bool {
        if self.pending >= ENTRIES {
            return false;
        }
        let &Operation { direction, fd, memory, offset, by_kernel_thread } = operation;
        let (fd, len, at) = (types::Fd(fd), memory.len() as u32, offset as u64);
        let entry = match direction {
            Direction::Read => opcode::Read::new(fd, memory.as_ptr(), len).offset(at).build(),
            Direction::Write => opcode::Write::new(fd, memory.as_ptr(), len).offset(at).build(),
        };
        let by = if by_kernel_thread { squeue::Flags::ASYNC } else { squeue::Flags::empty() };
        let is_added = self.add(&entry.flags(by).user_data(token));
        self.pending += u32::from(is_added);
        is_added
    }

    fn submit(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // Completions must be taken first: the next call submits.
                    Some(libc::EBUSY | libc::EAGAIN) => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
        Ok(())
    }

    fn pop(&mut self) -> Option<(u64, i32)> {
        loop {
            let entry = self.ring.completion().next()?;
            if entry.user_data() != NO_TOKEN {
                self.pending -= 1;
                return Some((entry.user_data(), entry.result()));
            }
        }
    }

    fn cancel(&mut self, token: u64) {
        // Without space the operation runs to its end.
        self.add(&opcode::AsyncCancel::new(token).build().user_data(NO_TOKEN));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd;
    use std::sync::{Arc, Mutex};
    use std::time::{Duration, Instant};

    use super::super::engine::{Engine, Transfer};
    use super::*;
    use crate::staging::Staging;

    /// Bytes of the test's file.
    const BYTES: usize = 3 << 20;

    /// Returns the rings, or `None` where the kernel refuses them.
    fn engine() -> Option<Engine<KernelQueue>> {
        KernelQueue::open().map(Engine::new).ok()
    }

    fn file() -> std::fs::File {
        let path = std::env::temp_dir().join(format!("io-uring-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        file.write_all(&vec![7; BYTES]).unwrap();
        file
    }

    #[test]
    fn many_reads_and_writes_arrive() {
        let Some(mut engine) = engine() else { return };
        let (file, ends) = (file(), Arc::new(Mutex::new(0)));
        // More than the queue holds, of several lengths, each with a byte of its own.
        let each = 10_000;
        let mut blocks: Vec<Staging> = (0..200).map(|_| Staging::new(each).unwrap()).collect();
        for direction in [Direction::Write, Direction::Read] {
            for (at, block) in blocks.iter_mut().enumerate() {
                block.bytes_mut().fill(if direction == Direction::Write { at as u8 } else { 0 });
                let (offset, ends) = ((at as u64 * each) as i64, ends.clone());
                let on_end = Box::new(move |done, result: io::Result<()>| {
                    assert_eq!((done, result.is_ok()), (each as usize, true));
                    *ends.lock().unwrap() += 1;
                });
                let (fd, cached_fd) = (file.as_raw_fd(), None);
                let memory = block.lend(|memory| memory);
                engine.start(Transfer { direction, fd, cached_fd, memory, offset, on_end });
            }
            let limit = Instant::now() + Duration::from_secs(60);
            while engine.in_flight() > 0 && Instant::now() < limit {
                engine.reap();
            }
        }
        assert_eq!(*ends.lock().unwrap(), 400);
        for (at, block) in blocks.iter().enumerate() {
            assert!(block.bytes().iter().all(|&byte| byte == at as u8), "block {at}");
        }
    }

    #[test]
    fn a_read_that_waits_for_ever_is_cancelled() {
        let Some(mut engine) = engine() else { return };
        let (from, _to) = std::io::pipe().unwrap();
        let outcome = Arc::new(Mutex::new(None));
        let mut block = Staging::new(100).unwrap();
        let seen = outcome.clone();
        let on_end = Box::new(move |done, result: io::Result<()>| {
            *seen.lock().unwrap() = Some((done, result.unwrap_err().raw_os_error()));
        });
        let (direction, fd, offset) = (Direction::Read, from.as_raw_fd(), 0);
        let memory = block.lend(|memory| memory);
        engine.start(Transfer { direction, fd, cached_fd: None, memory, offset, on_end });
        assert_eq!(engine.in_flight(), 1);
        engine.cancel_all();
        let limit = Instant::now() + Duration::from_secs(60);
        while engine.in_flight() > 0 && Instant::now() < limit {
            engine.reap();
        }
        let outcome = *outcome.lock().unwrap();
        assert!(matches!(outcome, Some((0, Some(libc::ECANCELED | libc::EINTR)))), "{outcome:?}");
    }
}
