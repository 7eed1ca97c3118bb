//! The state of one dial: which addresses were tried, and when the next attempt is due.
//!
//! A peer that refuses all attempts for [`REFUSED_MAX`] has ended; one that cannot be reached for
//! longer than the timeout has failed. A peer whose system takes the connection, without an answer
//! of its process, computes: it is waited for as long as that takes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Shortest and longest time between two rounds of attempts.
const ROUND: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));
/// Time after which a peer that refuses all attempts counts as ended; after a Bye.
const REFUSED_MAX: (Duration, Duration) = (Duration::from_secs(2), Duration::from_millis(100));

/// The dial of a peer.
#[derive(Debug)]
pub(crate) struct Dial {
    pub(crate) addresses: Vec<SocketAddr>,
    /// The address that is tried next.
    pub(crate) next: usize,
    pub(crate) next_at: Instant,
    /// Attempts under way.
    pub(crate) open: usize,
    pub(crate) began: Instant,
    /// When a system last took a connection at one of the addresses, or the dial began. It may be
    /// that of another host, and does not keep the dial from its timeout.
    pub(crate) taken_at: Instant,
    /// Since when no attempt was taken by the peer's system.
    unreached_since: Instant,
    rounds: u32,
    refused_since: Option<Instant>,
    /// An attempt of this round has failed in another way.
    pub(crate) is_other_failure: bool,
    pub(crate) warned: bool,
    /// The last failure, for the user.
    pub(crate) why: String,
}

impl Dial {
    pub(crate) fn new(now: Instant, why: &str) -> Dial {
        Dial {
            addresses: Vec::new(),
            next: 0,
            next_at: now,
            open: 0,
            began: now,
            taken_at: now,
            unreached_since: now,
            rounds: 0,
            refused_since: None,
            is_other_failure: false,
            warned: false,
            why: why.to_owned(),
        }
    }

    /// Begins the next round; the failure of the peer if there is none. A peer that said Bye may
    /// have ended.
    pub(crate) fn next_round(
        &mut self,
        now: Instant,
        timeout: Duration,
        said_bye: bool,
    ) -> Result<(), String> {
        if self.is_other_failure {
            self.refused_since = None;
        } else {
            let since = *self.refused_since.get_or_insert(now);
            if now - since >= if said_bye { REFUSED_MAX.1 } else { REFUSED_MAX.0 } {
                return Err("its process has ended: it refuses connections".into());
            }
        }
        if now - self.unreached_since >= timeout {
            let seconds = (now - self.unreached_since).as_secs();
            return Err(format!("no connection for {seconds} s: {}", self.text()));
        }
        let pause = ROUND.0 * (1 << self.rounds.min(7));
        self.next_at = now + pause.min(ROUND.1);
        (self.next, self.rounds, self.is_other_failure) = (0, self.rounds + 1, false);
        Ok(())
    }

    /// Takes note that an attempt was taken, and not answered.
    pub(crate) fn was_taken(&mut self, now: Instant) {
        self.unreached_since = now;
    }

    /// Describes what was tried.
    pub(crate) fn text(&self) -> String {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        match addresses.is_empty() {
            true => "its address is not known yet".into(),
            false => format!("tried {}; the last one: {}", addresses.join(", "), self.why),
        }
    }
}
