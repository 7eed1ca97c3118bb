//! The network adapters of all hosts: each sends and receives one message at a time.
//!
//! Invariant: both [`Network::send`] and [`Network::receive`] are called in the order of their
//! times. Therefore an adapter serves messages first come, first served.

use crate::time::{Link, Time};

#[derive(Clone, Copy, Default)]
struct Adapter {
    send_free: Time,
    receive_free: Time,
}

/// The adapters, and what went through them.
pub(crate) struct Network {
    adapters: Vec<Adapter>,
    /// The time of the last call.
    now: Time,
}

impl Network {
    pub(crate) fn new(hosts: u32) -> Network {
        Network { adapters: vec![Adapter::default(); hosts as usize], now: Time::ZERO }
    }

    /// Sends `bytes` from a host, from `now` on. Returns when they have left, and when the first
    /// one is at the other host.
    pub(crate) fn send(&mut self, from: u32, link: &Link, bytes: u64, now: Time) -> (Time, Time) {
        let adapter = self.adapter(from, now);
        let start = adapter.send_free.max(now);
        adapter.send_free = start + link.occupied(bytes);
        (start + link.transfer(bytes), start + link.latency)
    }

    /// Receives `bytes` at a host, of which the first one is there `now`. Returns when all have
    /// arrived.
    pub(crate) fn receive(&mut self, to: u32, link: &Link, bytes: u64, now: Time) -> Time {
        let adapter = self.adapter(to, now);
        let start = adapter.receive_free.max(now);
        adapter.receive_free = start + link.occupied(bytes);
        start + link.transfer(bytes)
    }

    fn adapter(&mut self, host: u32, now: Time) -> &mut Adapter {
        debug_assert!(now >= self.now, "messages come in the order of their times");
        self.now = now;
        &mut self.adapters[host as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_host_share_its_adapter() {
        let us = Time::from_us;
        let link = Link { latency: us(1.0), overhead: us(0.0), gap: us(0.5), per_byte: 1000.0 };
        let mut network = Network::new(3);
        // 2000 bytes occupy an adapter for 2 us, 100 bytes for the gap.
        assert_eq!(network.send(0, &link, 2000, us(0.0)), (us(2.0), us(1.0)));
        assert_eq!(network.send(0, &link, 100, us(0.0)), (us(2.1), us(3.0)));
        assert_eq!(network.send(0, &link, 100, us(0.0)), (us(2.6), us(3.5)));
        // Host 1 receives what comes first, until 3 us.
        assert_eq!(network.receive(1, &link, 2000, us(1.0)), us(3.0));
        assert_eq!(network.receive(1, &link, 1000, us(1.5)), us(4.0));
        assert_eq!(network.receive(2, &link, 100, us(3.0)), us(3.1));
    }
}
