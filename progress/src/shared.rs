//! State that threads read without the process lock: settings, counters and hints.
//!
//! Each value is an atomic of its own and orders nothing else: all accesses are relaxed.

use std::time::Duration;

use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed, const_fn};

/// Vain polls between two yields of a rank with a processor of its own; a power of two.
pub(crate) const POLLS_PER_YIELD: u32 = 1 << 12;
/// Polls between two yields, in waits and of vain ones, where a kernel thread needs the processor
/// for the message that the rank polls for; a power of two. The scheduler may let a rank that does
/// not yield finish its slice of milliseconds first.
pub(crate) const POLLS_PER_KERNEL_YIELD: u32 = 16;

/// The properties of the job and the machine that a process knows at its start.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The index of this process among those of its job on this host.
    pub local_rank: u32,
    /// Processes of the job on this host.
    pub local_ranks: u32,
    /// Processors that they share.
    pub processors: u32,
    /// How long to poll before parking; zero where processors are fewer than processes.
    pub spin: Duration,
    /// A device is polled: its poll takes long enough, and a pause instruction would stop an
    /// emulated one.
    pub device_polled: bool,
    /// The kernel does the work of the device, and has no processor of its own for that.
    pub kernel_works: bool,
    /// Longest sleep without a look at what no transport reports
    /// ([`Guarded::is_orphaned`](crate::Guarded::is_orphaned)).
    pub max_sleep: Duration,
}

/// The settings, and what the threads of this process find out about each other.
pub(crate) struct Shared {
    local_rank: AtomicU32,
    local_ranks: AtomicU32,
    processors: AtomicU32,
    /// Microseconds to spin before parking.
    spin_micros: AtomicU32,
    device_polled: AtomicBool,
    kernel_works: AtomicBool,
    /// Milliseconds of the longest sleep without a look around.
    max_sleep_millis: AtomicU32,
    /// Threads of the application that have waited and still live.
    pub(crate) threads: AtomicU32,
    /// Threads that want the mutex of the lock, so that a spinning waiter lets them in.
    pub(crate) contenders: AtomicU32,
    /// The process has a progress thread.
    pub(crate) has_progress_thread: AtomicBool,
    /// Each entry is checked.
    pub(crate) checks_entries: AtomicBool,
    /// Rounds of progress; wraps. Written under the lock.
    rounds: AtomicU32,
    /// No leader is inside MPI.
    pub(crate) leaderless: AtomicBool,
    /// Microseconds for which standbys have seen the leader make progress, in this time slice.
    pub(crate) slice_micros: AtomicU32,
    /// The owner of the time slice is often absent: its standby looks more often.
    pub(crate) watch_closely: AtomicBool,
    /// A thread that owns progress is away, most likely computing.
    pub(crate) owner_is_away: AtomicBool,
    /// Yields in a row in which another process ran.
    pub(crate) slow_yields: AtomicU32,
    /// Waits that are to sleep without yielding first.
    pub(crate) sleep_streak: AtomicU32,
    /// The last yield to another rank was a long one.
    pub(crate) yield_was_long: AtomicBool,
    /// Polling calls in a row that found nothing; wraps.
    pub(crate) vain_polls: AtomicU32,
    /// The bits of that count that are all set when a poll may give way.
    pub(crate) poll_mask: AtomicU32,
    /// When the last poll that may give way was, in nanoseconds.
    pub(crate) last_poll: AtomicU64,
}

impl Shared {
    const_fn! {
        pub(crate) fn new() -> Shared {
            Shared {
                local_rank: AtomicU32::new(0),
                local_ranks: AtomicU32::new(1),
                processors: AtomicU32::new(1),
                spin_micros: AtomicU32::new(0),
                device_polled: AtomicBool::new(false),
                kernel_works: AtomicBool::new(false),
                max_sleep_millis: AtomicU32::new(2000),
                threads: AtomicU32::new(0),
                contenders: AtomicU32::new(0),
                has_progress_thread: AtomicBool::new(false),
                checks_entries: AtomicBool::new(false),
                rounds: AtomicU32::new(0),
                leaderless: AtomicBool::new(true),
                slice_micros: AtomicU32::new(0),
                watch_closely: AtomicBool::new(false),
                owner_is_away: AtomicBool::new(false),
                slow_yields: AtomicU32::new(0),
                sleep_streak: AtomicU32::new(0),
                yield_was_long: AtomicBool::new(false),
                vain_polls: AtomicU32::new(0),
                poll_mask: AtomicU32::new(u32::MAX),
                last_poll: AtomicU64::new(0),
            }
        }
    }

    pub(crate) fn configure(&self, settings: Settings) {
        self.local_rank.store(settings.local_rank, Relaxed);
        self.local_ranks.store(settings.local_ranks, Relaxed);
        self.processors.store(settings.processors, Relaxed);
        let micros = settings.spin.as_micros().min(u32::MAX.into()) as u32;
        self.spin_micros.store(micros, Relaxed);
        self.device_polled.store(settings.device_polled, Relaxed);
        self.kernel_works.store(settings.kernel_works, Relaxed);
        let millis = settings.max_sleep.as_millis().min(u32::MAX.into()) as u32;
        self.max_sleep_millis.store(millis, Relaxed);
        let vain_polls = if self.ranks_share_processors() {
            1
        } else if settings.kernel_works {
            POLLS_PER_KERNEL_YIELD
        } else {
            POLLS_PER_YIELD
        };
        self.poll_mask.store(vain_polls - 1, Relaxed);
    }

    pub(crate) fn local_rank(&self) -> u32 {
        self.local_rank.load(Relaxed)
    }

    #[inline]
    pub(crate) fn local_ranks(&self) -> u32 {
        self.local_ranks.load(Relaxed)
    }

    /// Returns true for the first process of the job on this host, which leads where processes
    /// could switch threads in lockstep.
    pub(crate) fn is_first_local_rank(&self) -> bool {
        self.local_rank() == 0
    }

    pub(crate) fn max_sleep(&self) -> Duration {
        Duration::from_millis(self.max_sleep_millis.load(Relaxed).into())
    }

    #[inline]
    pub(crate) fn device_polled(&self) -> bool {
        self.device_polled.load(Relaxed)
    }

    /// Returns true if a kernel thread needs the processor that this rank polls on.
    #[inline]
    pub(crate) fn kernel_works(&self) -> bool {
        self.kernel_works.load(Relaxed)
    }

    /// Returns true unless ranks share processors.
    #[inline]
    pub(crate) fn spins(&self) -> bool {
        self.spin_micros.load(Relaxed) != 0
    }

    /// Returns true if this rank shares its processor with other ranks and therefore yields
    /// instead of spinning.
    #[inline]
    pub(crate) fn ranks_share_processors(&self) -> bool {
        !self.spins() && self.local_ranks() > 1
    }

    /// Returns how long to poll before parking.
    #[inline]
    pub(crate) fn spin(&self) -> Duration {
        Duration::from_micros(self.spin_micros.load(Relaxed).into())
    }

    /// Returns true when this process's threads, and as many of each other local rank, outnumber
    /// the processors.
    pub(crate) fn oversubscribed(&self) -> bool {
        let threads = self.local_ranks().saturating_mul(self.threads.load(Relaxed));
        threads > self.processors.load(Relaxed)
    }

    /// Returns how many rounds of progress there were; wraps.
    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.load(Relaxed)
    }

    /// Counts a round of progress. Under the lock.
    #[inline(always)]
    pub(crate) fn count_round(&self) {
        self.rounds.store(self.rounds.load(Relaxed).wrapping_add(1), Relaxed);
    }
}
